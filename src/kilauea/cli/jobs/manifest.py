"""Manifests of jobs from the options of `kilauea run` and `kilauea batch`."""

from __future__ import annotations

import os
import re
import secrets
import signal
from dataclasses import dataclass
from typing import Any

from kilauea.api.times import SECOND
from kilauea.cli import slurm
from kilauea.cli.jobs.arrays import ARRAY, INDEX_VARIABLES, PARALLELISM, array_text, index_script
from kilauea.cli.jobs.commands import after
from kilauea.cli.jobs.copies import INDEX_LABEL
from kilauea.cli.vcctl import options
from kilauea.cli.vcctl.command import CommandError
from kilauea.cli.vcctl.job_manifest import Wanted, new_job
from kilauea.nodes.annotations import STOP_SIGNAL

LETTERS = "bcdfghjklmnpqrstvwxz2456789"
"""Characters of random names: without vowels, so that they do not form words."""
USER = "kilauea.dev/user"
"""Annotation of a job with the name of the user who submitted it."""


@dataclass(frozen=True)
class Request:
    """A job as options describe it.

    Attributes:
        command: the words of the command.
        namespace: namespace of the job.
        name: name of the job; if empty, from the command, with a random suffix.
        queue: its queue; empty for the default.
        tasks: number of copies; None if not given.
        nodes: number of nodes with a copy on each; None if not given.
        cpus: cpus of each copy.
        memory: memory of each copy; empty for no request.
        gpus: GPUs of each copy.
        image: image of the containers.
        variables: `NAME=VALUE`, or `NAME` for the value in this process.
        limit: time limit in microseconds; 0 for none.
        priority_class: priority class of the copies; empty for none.
        elements: elements of an array; empty if it is not one.
        at_once: maximum number of elements that run at a time; 0 for no limit.
    """

    command: tuple[str, ...]
    namespace: str
    name: str = ""
    queue: str = ""
    tasks: int | None = None
    nodes: int | None = None
    cpus: str = "1"
    memory: str = ""
    gpus: int = 0
    image: str = "busybox"
    variables: tuple[str, ...] = ()
    limit: int = 0
    priority_class: str = ""
    elements: tuple[int, ...] = ()
    at_once: int = 0


def job_for(wanted: Request) -> dict[str, Any]:
    """The job described by options.

    Raises:
        CommandError: options contradict each other, or one is invalid.
    """
    _check(wanted)
    name = wanted.name or new_name(wanted.command[0])
    copies = len(wanted.elements) or wanted.tasks or wanted.nodes or 1
    amounts = _amounts(wanted)
    job = new_job(
        Wanted(
            name=name,
            namespace=wanted.namespace,
            image=wanted.image,
            scheduler="volcano",
            min_available=1 if wanted.elements else copies,
            replicas=copies,
            requests=amounts,
            limits=amounts,
            command=after(index_script(wanted.elements), wanted.command),
            spec=_spec(wanted),
            environment=_variables(wanted.variables),
        )
    )
    job["metadata"]["annotations"] = {USER: user_name()}
    task = job["spec"]["tasks"][0]
    task["template"]["metadata"]["annotations"] = {STOP_SIGNAL: signal.SIGTERM.name}
    pod = task["template"]["spec"]
    if wanted.elements:
        task["minAvailable"] = 1
        job["metadata"]["annotations"][ARRAY] = array_text(wanted.elements)
        if wanted.at_once:
            job["metadata"]["annotations"][PARALLELISM] = str(wanted.at_once)
        if not index_script(wanted.elements):
            index = {"valueFrom": {"fieldRef": {"fieldPath": f"metadata.labels['{INDEX_LABEL}']"}}}
            container = pod["containers"][0]
            container["env"] = [*container.get("env", ()), *({"name": each, **index} for each in INDEX_VARIABLES)]
    if wanted.nodes:
        pod["affinity"] = {"podAntiAffinity": _apart(name)}
    if wanted.limit:
        pod["activeDeadlineSeconds"] = wanted.limit // SECOND
    return job


def _check(wanted: Request) -> None:
    if wanted.tasks and wanted.nodes:
        raise CommandError("--tasks and --nodes are mutually exclusive: --nodes runs one copy on each node")
    if wanted.elements and (wanted.tasks or wanted.nodes):
        raise CommandError("--array and --tasks or --nodes are mutually exclusive: each element is one copy")
    if wanted.limit < 0 or 0 < wanted.limit < SECOND:
        raise CommandError("--time must be at least 1s, for example 30m; 0 for no limit")


def _amounts(wanted: Request) -> dict[str, str]:
    try:
        memory = slurm.memory(wanted.memory)
    except ValueError as error:
        raise CommandError(str(error)) from error
    asked = {"cpu": wanted.cpus, "memory": memory, "nvidia.com/gpu": str(wanted.gpus or "")}
    return options.resources(",".join(f"{key}={value}" for key, value in asked.items() if value))


def _spec(wanted: Request) -> dict[str, Any]:
    """Other fields of the job. An evicted element is recreated alone, which needs no policy."""
    named = {"queue": wanted.queue, "priorityClassName": wanted.priority_class}
    restart = {} if wanted.elements else {"policies": [{"event": "PodEvicted", "action": "RestartJob"}]}
    return {**{key: value for key, value in named.items() if value}, **restart, "plugins": {"env": []}}


def user_name() -> str:
    """The user of this process."""
    import getpass

    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return str(os.getuid())


def labels_of(elements: tuple[int, ...]) -> dict[int, str]:
    """Labels of the copies of an array by index."""
    return {index: str(element) for index, element in enumerate(elements)}


def submitted(job: Any) -> str:
    """The confirmation: `submitted to queue research: 4 copies of 2 cpu, 4Gi memory, each for at most 1h30m`."""
    spec, (task,) = job["spec"], job["spec"]["tasks"]
    pod = task["template"]["spec"]
    amounts = ", ".join(f"{amount} {name}" for name, amount in pod["containers"][0]["resources"]["requests"].items())
    elements = (job["metadata"].get("annotations") or {}).get(ARRAY)
    one, many = ("element", "elements") if elements else ("copy", "copies")
    copies = f"{task['replicas']} {one if task['replicas'] == 1 else many}"
    at_once = (job["metadata"].get("annotations") or {}).get(PARALLELISM)
    limit = pod.get("activeDeadlineSeconds")
    length = f", each for at most {slurm.duration_text(limit)}" if limit else ""
    queue = f" to queue {spec['queue']}" if spec.get("queue") else ""
    return f"submitted{queue}: {copies} of {amounts}{length}{f', {at_once} at a time' if at_once else ''}"


def new_name(word: str) -> str:
    """A generated name for a job: `train-py-x7k2q` for `./train.py`."""
    base = re.sub("[^a-z0-9]+", "-", word.rpartition("/")[2].lower()).strip("-")[:40].strip("-") or "job"
    return f"{base if base[0].isalpha() else 'job-' + base}-{''.join(secrets.choice(LETTERS) for _ in range(5))}"


def _apart(name: str) -> dict[str, Any]:
    """An affinity that puts each pod of a job on a separate node."""
    of_job = {"matchLabels": {"job.volcano.sh": name}}
    term = {"labelSelector": of_job, "topologyKey": "kubernetes.io/hostname"}
    return {"requiredDuringSchedulingIgnoredDuringExecution": [term]}


def _variables(given: tuple[str, ...]) -> dict[str, str]:
    """Variables by name; a name without a value copies the variable of this process."""
    found = {}
    for entry in given:
        name, equals, value = entry.partition("=")
        if not name or (not equals and name not in os.environ):
            raise CommandError(f'--env: "{entry}" has no value: use NAME=VALUE')
        found[name] = value if equals else os.environ[name]
    return found
