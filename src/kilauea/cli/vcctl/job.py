"""`vcctl job`: run, list, view, control, scale and delete jobs."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import click

from kilauea.cli.vcctl import options
from kilauea.cli.vcctl.command import CommandError, Group, Leaf, note

if TYPE_CHECKING:
    from kilauea.cli.vcctl.cluster import Cluster

VERBS = {
    "AbortJob": "suspend",
    "ResumeJob": "resume",
    "RestartJob": "restart",
    "TerminateJob": "terminate",
    "CompleteJob": "complete",
}
"""Commands by the actions that they request."""
ENDED_FOR_GOOD = frozenset({"Completed", "Failed", "Terminated"})


# --- run


async def run(
    cluster: Cluster, name: str, namespace: str, filename: str, wait: bool, timeout: int, **given: Any
) -> int:
    """Create a job from flags or a file."""
    from kilauea.cli.vcctl.job_manifest import job_of_file, new_job

    if filename:
        job = job_of_file(filename)
        job["metadata"] = {"namespace": namespace, **job.get("metadata", {})}
    else:
        job = new_job(wanted(name, namespace, **given))
    return await submit(cluster, job, namespace, wait, timeout)


def wanted(name: str, namespace: str, command: str, queue: str, priority_class: str, **given: Any) -> Any:
    """The job that flags describe.

    Raises:
        CommandError: the flags do not describe a valid job.
    """
    import shlex

    from kilauea.cli.vcctl.job_manifest import Wanted

    options.needed(name, "job name cannot be left blank")
    try:
        words = shlex.split(command)
    except ValueError as error:
        raise CommandError(f"command {command!r} cannot be split into words: {error}") from error
    spec = {"queue": queue, "priorityClassName": priority_class}
    return Wanted(
        name=name,
        namespace=namespace,
        image=given["image"],
        scheduler=given["scheduler"],
        min_available=given["min"],
        replicas=given["replicas"],
        requests=options.resources(given["requests"]),
        limits=options.resources(given["limits"]),
        command=words,
        spec={key: value for key, value in spec.items() if value},
    )


async def submit(cluster: Cluster, job: dict[str, Any], namespace: str, wait: bool, timeout: int) -> int:
    """Create a job, print its name and, with --wait, wait for its end; return 0 if it completes, else 1."""
    from kilauea.api.kinds import VC_JOBS
    from kilauea.api.ports import Key
    from kilauea.cli.vcctl.phases import ENDED
    from kilauea.cli.vcctl.watching import left_running

    async with cluster.connect() as api:
        made = await api.create(VC_JOBS, namespace, job)
        name = made["metadata"]["name"]
        click.echo(f"run job {name} successfully")
        if not wait:
            return 0
        key = Key(namespace, name)
        with left_running(key):
            phase = await _reached(api, key, lambda job: phase_of(job) in ENDED, timeout)
    if phase != "Completed":
        raise CommandError(f"job {name} is {phase}")
    return 0


def run_options(short_name: str, short_namespace: str, environment: bool = False) -> list[click.Parameter]:
    """The common options of `job run` and `vsub`.

    Args:
        short_name: `-N` or `-n`.
        short_namespace: the other of the two.
        environment: True if environment variables set defaults.
    """
    import os

    variable = os.environ.get if environment else lambda name: None
    return [
        options.name(short_name),
        options.text(
            short_namespace,
            "--namespace",
            default=variable("VOLCANO_DEFAULT_JOB_NAMESPACE") or "default",
            help="Namespace.",
            metavar="NAME",
        ),
        options.text("-i", "--image", default=variable("VOLCANO_DEFAULT_IMAGE") or "busybox", help="Container image."),
        options.number("-m", "--min", default=1, help="Minimum number of pods that must start together."),
        options.number("-r", "--replicas", default=1, help="Pods."),
        options.text("-R", "--requests", default=options.DEFAULT_RESOURCES, help="Resource requests of each pod."),
        options.text("-L", "--limits", default=options.DEFAULT_RESOURCES, help="Resource limits of each pod."),
        options.text("-S", "--scheduler", default=variable("VOLCANO_SCHEDULER_NAME") or "volcano", help="Scheduler."),
        options.text("-c", "--command", help="Command of the container, split into words as in a shell."),
        options.text("-q", "--queue", help="Queue. [default: the default queue of the cluster]", metavar="NAME"),
        options.text("--priority-class", help="Priority class.", metavar="NAME"),
        *options.waiting("the job has ended; the exit code is 0 if it is Completed"),
    ]


# --- list and view


async def list_jobs(
    cluster: Cluster,
    namespace: str,
    all_namespaces: bool,
    output: str,
    no_headers: bool,
    watch: bool,
    queue: str = "",
    scheduler: str = "",
    selector: str = "",
    phase: str = "",
    rows_or_nothing: bool = True,
) -> None:
    """Print jobs; unless `rows_or_nothing`, print the heading even if no job matches."""
    import functools

    from kilauea.cli.vcctl.job_list import Filter, job_form, job_row, phases_of
    from kilauea.cli.vcctl.listing import Listing, show_list

    wide = output == "wide"
    chosen = Filter(queue, scheduler, selector, phases_of(phase))
    listing = Listing(
        job_form(all_namespaces, wide),
        functools.partial(job_row, all_namespaces=all_namespaces, wide=wide),
        chosen.takes,
        heading_alone=not rows_or_nothing,
    )
    async with cluster.connect() as api:
        await show_list(api, listing, "" if all_namespaces else namespace, output, not no_headers, watch)


async def view(cluster: Cluster, name: str, namespace: str, output: str = "text", conditions: bool = True) -> None:
    """Print the details of a job."""
    from kilauea.api.kinds import VC_JOBS
    from kilauea.api.ports import Key
    from kilauea.cli.vcctl.job_view import WAITING, print_job, read_surroundings
    from kilauea.cli.vcctl.tables import data_text, without_fields
    from kilauea.cli.vcctl.why import why_it_waits

    options.needed(name, "job name (specified by --name or -N) is mandatory to view a particular job")
    async with cluster.connect() as api:
        job = await api.get(VC_JOBS, Key(namespace, name))
        if output != "text":
            click.echo(data_text(without_fields(job), output))
            return
        surroundings = await read_surroundings(api, job)
        if phase_of(job) in WAITING:
            surroundings = surroundings._replace(why=await why_it_waits(cluster.access(), f"{namespace}/{name}"))
        print_job(job, surroundings, conditions)


# --- orders


async def suspend(cluster: Cluster, name: str, namespace: str, wait: bool, timeout: int) -> None:
    """Request that a job is aborted."""
    from kilauea.cli.vcctl.phases import ENDED

    options.needed(name, "job name is mandatory to suspend a particular job")
    await _order(cluster, name, namespace, "AbortJob", lambda old, job: phase_of(job) in ENDED, wait, timeout)


async def resume(cluster: Cluster, name: str, namespace: str, wait: bool, timeout: int) -> None:
    """Request that an aborted job resumes."""
    options.needed(name, "job name is mandatory to resume a particular job")
    away = ("Aborted", "Aborting", "Restarting")
    await _order(cluster, name, namespace, "ResumeJob", lambda old, job: phase_of(job) not in away, wait, timeout)


async def restart(cluster: Cluster, name: str, namespace: str, wait: bool, timeout: int) -> None:
    """Request that a job restarts all its pods."""
    options.needed(name, "job name is mandatory to restart a particular job")

    def restarted(old: Any, job: Any) -> bool:
        return phase_of(job) in ENDED_FOR_GOOD or (_version(job) > _version(old) and phase_of(job) != "Restarting")

    await _order(cluster, name, namespace, "RestartJob", restarted, wait, timeout, ENDED_FOR_GOOD)


async def terminate(cluster: Cluster, name: str, namespace: str, wait: bool, timeout: int) -> None:
    """Request that a job is terminated."""
    options.needed(name, "job name is mandatory to terminate a particular job")
    await _end(cluster, name, namespace, "TerminateJob", wait, timeout)


async def complete(cluster: Cluster, name: str, namespace: str, wait: bool, timeout: int) -> None:
    """Request that a job ends as Completed."""
    options.needed(name, "job name is mandatory to complete a particular job")
    await _end(cluster, name, namespace, "CompleteJob", wait, timeout)


async def _end(cluster: Cluster, name: str, namespace: str, action: str, wait: bool, timeout: int) -> None:
    ended = ENDED_FOR_GOOD | {"Aborted"}
    await _order(cluster, name, namespace, action, lambda old, job: phase_of(job) in ended, wait, timeout, ended)


async def _order(
    cluster: Cluster,
    name: str,
    namespace: str,
    action: str,
    done: Callable[[Any, Any], bool],
    wait: bool,
    timeout: int,
    refused: frozenset[str] = frozenset(),
) -> None:
    """Send a command to a job, unless the command has no effect in its phase."""
    from kilauea.api.kinds import VC_JOBS
    from kilauea.api.ports import Key
    from kilauea.cli.vcctl.orders import order

    key = Key(namespace, name)
    async with cluster.connect() as api:
        if refused and (phase := phase_of(await api.get(VC_JOBS, key))) in refused:
            more = ": resume it first" if phase == "Aborted" else ""
            raise CommandError(f"job {name} is already {phase}{more}")
        old = await order(api, VC_JOBS, key, action)
        if wait:
            phase = await _reached(api, key, lambda job: done(old, job), timeout)
            click.echo(f"job {name} is {phase}")
        else:
            note(f"request to {VERBS[action]} job {name} sent")


async def _reached(api: Any, key: Any, done: Callable[[Any], bool], timeout: int) -> str:
    """The phase of a job once it is reached."""
    from kilauea.api.kinds import VC_JOBS
    from kilauea.cli.vcctl.orders import until

    job = await until(
        api, VC_JOBS, key, lambda job: job is not None and done(job), timeout, lambda job: phase_of(job) or "new"
    )
    return phase_of(job)


def phase_of(job: Any) -> str:
    """The phase of a job."""
    from kilauea.cli.vcctl import job_list

    return job_list.phase_of(job)


def _version(job: Any) -> int:
    return int((job.get("status") or {}).get("version") or 0)


async def delete(
    cluster: Cluster, name: str, namespace: str, wait: bool = False, timeout: int = 0, done: str = "delete"
) -> None:
    """Delete a job."""
    from kilauea.api.kinds import VC_JOBS
    from kilauea.api.ports import Key
    from kilauea.cli.vcctl import orders

    options.needed(name, f"job name is mandatory to {done} a particular job")
    async with cluster.connect() as api:
        await orders.delete(api, VC_JOBS, Key(namespace, name), wait, timeout)
    click.echo(f"{done} job {name} successfully")


async def scale(cluster: Cluster, name: str, namespace: str, replicas: str, min: int | None) -> None:
    """Change the number of pods of tasks."""
    from kilauea.api.kinds import VC_JOBS
    from kilauea.api.ports import Key
    from kilauea.cli.vcctl.scaling import scaled

    options.needed(name, "job name is mandatory to scale a particular job")
    options.needed(replicas, "--replicas is required: use --replicas 4, or --replicas worker=4,ps=2 for some tasks")
    key = Key(namespace, name)
    async with cluster.connect() as api:
        await api.patch(VC_JOBS, key, scaled(await api.get(VC_JOBS, key), replicas, min), "json")
    click.echo(f"scale job {name} successfully")


def _ordered(name: str, callback: Callable[..., Any], help: str, until: str) -> Leaf:
    return Leaf(name, callback, help, [options.name(), options.namespace(), *options.waiting(until)])


def job_group() -> Group:
    """The commands."""
    file = options.text("-f", "--filename", help="YAML file with the job; - is standard input.", metavar="FILE")
    filters = [
        options.text("-q", "--queue", help="Only jobs in this queue.", metavar="NAME"),
        options.namespace(),
        options.text("-S", "--scheduler", help="Only jobs of this scheduler.", metavar="NAME"),
        options.flag("--all-namespaces", help="List jobs in all namespaces."),
        options.text("--selector", help="Only jobs with this text in their name."),
        options.text("--phase", help="Only jobs in one of these phases.", metavar="PHASE[,PHASE]"),
    ]
    amounts = options.text("-r", "--replicas", help="Number of pods if there is one task, or TASK=NUMBER,...")
    minimum = options.number("-m", "--min", help="New minAvailable of the job.")
    return Group(
        "job",
        "vcctl command line operation job",
        [
            Leaf("run", run, "run job by parameters from the command line", [*run_options("-N", "-n"), file]),
            Leaf("list", list_jobs, "list job information", [*filters, *options.listing()]),
            Leaf(
                "view",
                view,
                "show job information",
                [options.name(), options.namespace(), options.output("json", "yaml", default="text")],
            ),
            _ordered("suspend", suspend, "abort a job", "the job is Aborted"),
            _ordered("resume", resume, "resume a job", "the job has resumed"),
            _ordered("restart", restart, "restart a job with new pods", "the job has new pods"),
            _ordered("terminate", terminate, "end a job for good, as Terminated", "the job has ended"),
            _ordered("complete", complete, "end a job as Completed", "the job has ended"),
            Leaf("scale", scale, "change the number of pods", [options.name(), options.namespace(), amounts, minimum]),
            _ordered("delete", delete, "delete a job", "the job is deleted"),
        ],
    )
