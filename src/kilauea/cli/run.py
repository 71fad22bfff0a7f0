"""`kilauea run`: run a command as a batch job and show its output, like `srun`; with `--detach`, only submit it."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from kilauea.cli import slurm
from kilauea.cli.inputs import Failure, Usage

if TYPE_CHECKING:
    from kilauea.api.ports import Api, Key, Obj
    from kilauea.cli.vcctl.cluster import Cluster

EXAMPLES = """\b
Examples:
  kilauea run -- sh -c 'echo hello'
  kilauea run -p research --nodes 4 --gpus 8 --image trainer:1 -- python train.py
  JOB=$(kilauea run -d -n 16 -c 2 --memory 4Gi -- ./simulate)   # submits, and prints the name of the job
  vcctl job view $JOB                                           # its status, and why it waits
"""
INTERRUPTED = 130
"""Exit code after Ctrl-C, as in shells."""


@click.command(
    short_help="Run a command as a batch job.",
    epilog=EXAMPLES,
    context_settings={"allow_interspersed_args": False},  # so that options of the command are passed to it
)
@click.option(
    "-J",
    "--name",
    default="",
    metavar="NAME",
    help="Name of the job. [default: from the command, with a random suffix]",
)
@click.option("-p", "--queue", "--partition", default="", metavar="NAME", help="Queue. [default: the cluster's]")
@click.option("-n", "--tasks", "--replicas", type=click.IntRange(1), help="Number of copies. [default: 1]")
@click.option("-N", "--nodes", type=click.IntRange(1), help="Number of nodes, with one copy on each.")
@click.option("-c", "--cpus", default="1", show_default=True, help="CPUs of each copy.")
@click.option("-m", "--memory", default="", metavar="AMOUNT", help="Memory of each copy, such as 4G, 512M or 4Gi.")
@click.option("-G", "--gpus", type=click.IntRange(0), default=0, help="GPUs (nvidia.com/gpu) of each copy.")
@click.option("-i", "--image", default="busybox", show_default=True, help="Container image.")
@click.option("-e", "--env", "variables", multiple=True, metavar="NAME=VALUE", help="Set a variable. Repeatable.")
@click.option(
    "--export",
    default="",
    metavar="NAMES",
    help="Variables to pass on: ALL, NONE or NAME[=VALUE],... [default: ALL if pods run on this machine, else NONE]",
)
@click.option(
    "-D",
    "--chdir",
    default="",
    metavar="DIR",
    help="Working folder. [default: the current one if pods run on this machine, else that of the image]",
)
@click.option(
    "-a",
    "--array",
    default="",
    metavar="ELEMENTS",
    help="Run a copy for each element, independently of each other: 0-99, 0-30:10, 1,3,7, or 0-99%4 for 4 at a time.",
)
@click.option(
    "-t",
    "--time",
    "limit",
    type=slurm.TimeLimit(),
    default=0,
    metavar="TIME",
    help="Time limit of each copy: 90 (minutes), 01:30:00, 1-12 (days-hours) or 1h30m.",
)
@click.option("--priority-class", default="", metavar="NAME", help="Priority class of the copies.")
@click.option("--namespace", default="", metavar="NAME", help="Namespace. [default: that of the kubeconfig]")
@click.option(
    "--input",
    "given_input",
    type=click.Choice(["all", "none"]),
    default="all",
    show_default=True,
    help="Copies that get standard input. Elements of an array, and jobs with -d or -W, get none.",
)
@click.option("-d", "--detach", is_flag=True, help="Submit the job, print its name and return.")
@click.option("-W", "--wait", is_flag=True, help="Print the name and the progress of the job, but not its output.")
@click.option("--no-label", is_flag=True, help="Do not prefix lines of several copies with the number of the copy.")
@click.option("-Q", "--quiet", is_flag=True, help="Print only the output of the job, and errors.")
@click.option("-k", "--kubeconfig", default="", metavar="FILE", help="Access to the cluster.")
@click.argument("command", nargs=-1, required=True, metavar="[--] COMMAND...")
def run(
    kubeconfig: str,
    command: tuple[str, ...],
    detach: bool,
    wait: bool,
    no_label: bool,
    quiet: bool,
    namespace: str,
    export: str,
    chdir: str,
    array: str,
    given_input: str,
    **given: Any,
) -> None:
    """Run COMMAND as a job, show its output, and exit with its exit code.

    The job waits in its queue until all copies fit: they start together or not at all. It restarts if any of its pods
    is evicted. The command writes the output of the copies to standard output, each line with the number of its copy if
    there are several, and everything else to standard error. Each copy gets all of standard input. Ctrl-C and SIGTERM
    end the job, and processes on this machine get the same signal; a second Ctrl-C exits at once. Times and memory are
    as in sbatch: -t 90 is 90 minutes, -m 4G is 4Gi.
    """
    import asyncio

    from kilauea.api.ports import ApiError
    from kilauea.cli.api_errors import refused_job
    from kilauea.cli.jobs.arrays import parse_array, split_limit
    from kilauea.cli.jobs.manifest import Request, job_for
    from kilauea.cli.jobs.standard_input import has_input
    from kilauea.cli.vcctl.cluster import Cluster
    from kilauea.cli.vcctl.command import CommandError
    from kilauea.client.access import AccessError

    if detach and wait:
        raise Usage("--detach and --wait are mutually exclusive: --detach returns at once")
    cluster = Cluster(kubeconfig, agent="kilauea-run")
    try:
        namespace = namespace or cluster.access().namespace or "default"
        spec, at_once = split_limit(array)
        elements = parse_array(spec) if array else ()
        job = job_for(Request(command, namespace, elements=elements, at_once=at_once, **given))
        if detach or wait:
            code = asyncio.run(_submit(cluster, job, chdir, export, wait))
        else:
            if given_input == "all" and not elements and has_input():
                job["spec"]["tasks"][0]["template"]["spec"]["containers"][0] |= {"stdin": True, "stdinOnce": True}
            printer = Printing(not no_label and job["spec"]["tasks"][0]["replicas"] > 1, quiet)
            code = asyncio.run(_stream(cluster, job, chdir, export, elements, printer))
    except (CommandError, AccessError, ValueError) as error:
        raise Usage(str(error)) from error
    except ApiError as error:
        raise Failure(refused_job(error)) from error
    except KeyboardInterrupt:
        code = INTERRUPTED
    sys.exit(code)


# --- the cluster


class Printing(NamedTuple):
    """Output options: with labels, and without progress."""

    labelled: bool
    quiet: bool


async def _stream(
    cluster: Cluster, job: dict[str, Any], chdir: str, export: str, elements: tuple[int, ...], printing: Printing
) -> int:
    """Create a job and show its output; return its exit code."""
    from kilauea.cli.jobs.manifest import labels_of, submitted
    from kilauea.cli.jobs.place import is_this_machine, put_in_place
    from kilauea.cli.jobs.printer import Printer
    from kilauea.cli.jobs.streaming import Streamed, stream

    access = cluster.access()

    async def placed(api: Api) -> Obj:
        put_in_place(job, chdir, export, here=await is_this_machine(api, access.server))
        return job

    printer = Printer(labelled=printing.labelled, quiet=printing.quiet)
    return await stream(access, Streamed(placed, submitted, labels_of(elements), largest=bool(elements)), printer)


async def _submit(cluster: Cluster, job: dict[str, Any], chdir: str, export: str, wait: bool) -> int:
    """Create a job; return its exit code if the command waits for it, otherwise 0."""
    from kilauea.api.kinds import VC_JOBS
    from kilauea.api.ports import key_of
    from kilauea.cli.jobs.arrays import ARRAY
    from kilauea.cli.jobs.manifest import submitted
    from kilauea.cli.jobs.place import is_this_machine, put_in_place
    from kilauea.cli.vcctl.watching import left_running

    async with cluster.connect() as api:
        put_in_place(job, chdir, export, here=await is_this_machine(api, cluster.access().server))
        made = await api.create(VC_JOBS, job["metadata"]["namespace"], job)
        key = key_of(made)
        click.echo(key.name)
        click.echo(f"{key.name}: {submitted(made)}", err=True)
        if not wait:
            return 0
        with left_running(key):
            return await followed(api, key, largest=ARRAY in job["metadata"]["annotations"])


async def followed(api: Api, key: Key, *, largest: bool = False) -> int:
    """Print the progress of a job until it has ended; return its exit code, or the highest of all copies."""
    from contextlib import aclosing

    from kilauea.api.kinds import VC_JOBS
    from kilauea.cli.vcctl.job_list import phase_of
    from kilauea.cli.vcctl.phases import ENDED
    from kilauea.cli.vcctl.watching import states_of

    last = ""
    async with aclosing(states_of(api, VC_JOBS, key)) as states:
        async for job in states:
            if job is None:
                click.echo(f"{key.name}: was deleted", err=True)
                return 1
            if (said := _progress(job)) != last:
                click.echo(f"{key.name}: {said}", err=True)
            last, phase = said, phase_of(job)
            if phase in ENDED:
                if phase == "Completed" and not largest:
                    return 0
                return await _exit_code(api, key) or int(phase != "Completed")
    return 1


def _progress(job: Obj) -> str:
    """Phase and counts: `Running (3 running, 1 pending)`."""
    from kilauea.cli.vcctl.job_list import phase_of

    status = job.get("status") or {}
    counts = [f"{status[word]} {word}" for word in ("running", "pending", "succeeded", "failed") if status.get(word)]
    return (phase_of(job) or "Submitted") + (f" ({', '.join(counts)})" if counts else "")


async def _exit_code(api: Api, key: Key) -> int:
    """The highest exit code of the pods of a job; 0 if none is known."""
    from kilauea.api.kinds import PODS
    from kilauea.cli.jobs.copies import JOB_LABEL, exit_code
    from kilauea.cli.vcctl.cluster import objects

    return exit_code(await objects(api, PODS, key.namespace, labels=f"{JOB_LABEL}={key.name}"))
