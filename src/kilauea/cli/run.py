"""`kilauea run`: submit a command to the cluster as a batch job, like `sbatch`."""

from __future__ import annotations

import secrets
import sys
from typing import TYPE_CHECKING, Any

import click

from kilauea.cli import slurm
from kilauea.cli.inputs import Failure, Usage

if TYPE_CHECKING:
    from kilauea.api.ports import Api, Key, Obj
    from kilauea.cli.vcctl.cluster import Cluster

EXAMPLES = """\b
Examples:
  kilauea run -- sh -c 'echo hello'
  kilauea run -p research --nodes 4 --gpus 8 --image trainer:1 --wait -- python train.py
  JOB=$(kilauea run -n 16 -c 2 --memory 4Gi -- ./simulate)   # its name alone is written to standard output
  vcctl job view $JOB                                        # its status, and why it waits
"""
INTERRUPTED = 130
"""Exit code after Ctrl-C, as in shells."""
LETTERS = "bcdfghjklmnpqrstvwxz2456789"
"""Characters of random names: without vowels, so that they spell no words."""


@click.command(
    short_help="Submit a command as a batch job.",
    epilog=EXAMPLES,
    context_settings={"allow_interspersed_args": False},  # so that options of the command are its own
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
@click.option("-W", "--wait", is_flag=True, help="Wait for the job to end, and exit with its exit code.")
@click.option("-k", "--kubeconfig", default="", metavar="FILE", help="Access to the cluster.")
@click.argument("command", nargs=-1, required=True, metavar="[--] COMMAND...")
def run(kubeconfig: str, command: tuple[str, ...], wait: bool, namespace: str, **given: Any) -> None:
    """Submit COMMAND as a job: either all copies start together, or none starts.

    The job waits in its queue until there is room for all copies. It restarts if any of its pods is evicted. The
    command writes the name of the job to standard output, everything else to standard error. Times and memory are as in
    sbatch: -t 90 is 90 minutes, -m 4G is 4Gi.
    """
    import asyncio

    from kilauea.api.ports import ApiError
    from kilauea.cli.api_errors import refusal_text
    from kilauea.cli.vcctl.cluster import Cluster
    from kilauea.cli.vcctl.command import CommandError
    from kilauea.client.access import AccessError

    cluster = Cluster(kubeconfig, agent="kilauea-run")
    try:
        namespace = namespace or cluster.access().namespace or "default"
        job = job_for(command, namespace, **given)
        code = asyncio.run(_submit(cluster, job, wait))
    except (CommandError, AccessError) as error:
        raise Usage(str(error)) from error
    except ApiError as error:
        raise Failure(refusal_text(error)) from error
    except KeyboardInterrupt:
        code = INTERRUPTED
    sys.exit(code)


def job_for(
    command: tuple[str, ...],
    namespace: str,
    *,
    name: str,
    queue: str,
    tasks: int | None,
    nodes: int | None,
    cpus: str,
    memory: str,
    gpus: int,
    image: str,
    variables: tuple[str, ...],
    limit: int,
    priority_class: str,
) -> dict[str, Any]:
    """The job that options describe.

    Raises:
        CommandError: options contradict each other, or one is invalid.
    """
    from kilauea.api.times import SECOND
    from kilauea.cli.vcctl import options
    from kilauea.cli.vcctl.command import CommandError
    from kilauea.cli.vcctl.job_manifest import Wanted, new_job

    if tasks and nodes:
        raise CommandError("--tasks and --nodes are mutually exclusive: --nodes runs one copy on each node")
    if limit < 0 or 0 < limit < SECOND:
        raise CommandError("--time must be at least 1s, for example 30m; 0 for no limit")
    name, copies = name or _new_name(command[0]), tasks or nodes or 1
    try:
        memory = slurm.memory(memory)
    except ValueError as error:
        raise CommandError(str(error)) from error
    asked = {"cpu": cpus, "memory": memory, "nvidia.com/gpu": str(gpus or "")}
    amounts = options.resources(",".join(f"{key}={value}" for key, value in asked.items() if value))
    again = {"policies": [{"event": "PodEvicted", "action": "RestartJob"}]}
    wanted = Wanted(
        name=name,
        namespace=namespace,
        image=image,
        scheduler="volcano",
        min_available=copies,
        replicas=copies,
        requests=amounts,
        limits=amounts,
        command=list(command),
        spec={key: value for key, value in {"queue": queue, "priorityClassName": priority_class}.items() if value}
        | again,
        environment=_variables(variables),
    )
    job = new_job(wanted)
    pod = job["spec"]["tasks"][0]["template"]["spec"]
    if nodes:
        pod["affinity"] = {"podAntiAffinity": _apart(name)}
    if limit:
        pod["activeDeadlineSeconds"] = limit // SECOND
    return job


def _new_name(word: str) -> str:
    """A name for a job that has none: `train-py-x7k2q` for `./train.py`."""
    import re

    base = re.sub("[^a-z0-9]+", "-", word.rpartition("/")[2].lower()).strip("-")[:40].strip("-") or "job"
    return f"{base if base[0].isalpha() else 'job-' + base}-{''.join(secrets.choice(LETTERS) for _ in range(5))}"


def _apart(name: str) -> dict[str, Any]:
    """An affinity that puts each pod of a job on a node of its own."""
    of_job = {"matchLabels": {"job.volcano.sh": name}}
    term = {"labelSelector": of_job, "topologyKey": "kubernetes.io/hostname"}
    return {"requiredDuringSchedulingIgnoredDuringExecution": [term]}


def _variables(given: tuple[str, ...]) -> dict[str, str]:
    """Variables by name; a name without a value copies the variable of this process."""
    import os

    from kilauea.cli.vcctl.command import CommandError

    found = {}
    for entry in given:
        name, equals, value = entry.partition("=")
        if not name or (not equals and name not in os.environ):
            raise CommandError(f'--env: "{entry}" has no value: use NAME=VALUE')
        found[name] = value if equals else os.environ[name]
    return found


# --- the cluster


async def _submit(cluster: Cluster, job: dict[str, Any], wait: bool) -> int:
    """Create a job; return its exit code if the command waits for it, else 0."""
    from kilauea.api.kinds import VC_JOBS
    from kilauea.api.ports import key_of
    from kilauea.cli.vcctl.watching import left_running

    async with cluster.connect() as api:
        made = await api.create(VC_JOBS, job["metadata"]["namespace"], job)
        key = key_of(made)
        click.echo(key.name)
        click.echo(f"{key.name}: {submitted(made)}", err=True)
        if not wait:
            return 0
        with left_running(key):
            return await _followed(api, key)


def submitted(job: Obj) -> str:
    """The confirmation: `submitted to queue research: 4 copies of 2 cpu, 4Gi memory, each for at most 1h30m`."""
    spec, (task,) = job["spec"], job["spec"]["tasks"]
    pod = task["template"]["spec"]
    amounts = ", ".join(f"{amount} {name}" for name, amount in pod["containers"][0]["resources"]["requests"].items())
    copies = f"{task['replicas']} {'copy' if task['replicas'] == 1 else 'copies'}"
    limit = pod.get("activeDeadlineSeconds")
    length = f", each for at most {slurm.duration_text(limit)}" if limit else ""
    queue = f" to queue {spec['queue']}" if spec.get("queue") else ""
    return f"submitted{queue}: {copies} of {amounts}{length}"


async def _followed(api: Api, key: Key) -> int:
    """Print the progress of a job until it has ended."""
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
                return 0 if phase == "Completed" else await _exit_code(api, key)
    return 1


def _progress(job: Obj) -> str:
    """Phase and counts: `Running (3 running, 1 pending)`."""
    from kilauea.cli.vcctl.job_list import phase_of

    status = job.get("status") or {}
    counts = [f"{status[word]} {word}" for word in ("running", "pending", "succeeded", "failed") if status.get(word)]
    return (phase_of(job) or "Submitted") + (f" ({', '.join(counts)})" if counts else "")


async def _exit_code(api: Api, key: Key) -> int:
    """The largest exit code of the pods of a failed job; 1 if none is known."""
    from kilauea.api.kinds import PODS
    from kilauea.cli.vcctl.cluster import objects
    from kilauea.cli.vcctl.tables import part

    pods = await objects(api, PODS, key.namespace, labels=f"volcano.sh/job-name={key.name}")
    statuses = [each for pod in pods for each in part(pod, "status", "containerStatuses") or ()]
    return max([int(part(each, "state", "terminated", "exitCode") or 0) for each in statuses], default=0) or 1
