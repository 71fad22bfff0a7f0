"""The job that the options of a batch script describe, in Kilauea's terms."""

from __future__ import annotations

import math
import os
import re
import socket
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from kilauea.api.ports import Obj
from kilauea.cli.jobs.arrays import parse_array, split_limit
from kilauea.cli.jobs.copies import INDEX_LABEL, JOB_LABEL
from kilauea.cli.jobs.manifest import Request, new_name, user_name
from kilauea.cli.jobs.script import Script
from kilauea.cli.vcctl.command import CommandError

JOB_NAME = "kilauea.dev/job-name"
"""Annotation of a job with the name given by its user, which need not be unique."""
_MEMORY = re.compile(r"(\d{1,15})([kmgt]?)b?", re.ASCII | re.IGNORECASE)
_GPU = re.compile(r"(?:gres:)?(?:gpu)(?::([A-Za-z][\w.-]*))?(?::(\d{1,6}))?", re.ASCII)
_COUNT = re.compile(r"(?:([A-Za-z][\w.-]*):)?(\d{1,6})", re.ASCII)
_KIB = {"k": 1, "": 1024, "m": 1024, "g": 1024**2, "t": 1024**3}
_PATTERNS = {
    "%": "%",
    "j": "${SLURM_JOB_ID}",
    "A": "${SLURM_ARRAY_JOB_ID:-$SLURM_JOB_ID}",
    "a": "${SLURM_ARRAY_TASK_ID:-0}",
    "x": "${SLURM_JOB_NAME}",
    "u": "${SLURM_JOB_USER}",
    "N": "${SLURMD_NODENAME}",
    "n": "${SLURM_NODEID:-0}",
    "t": "${SLURM_PROCID}",
}
"""Patterns in names of output files, in shell syntax."""
_OF_A_COPY = re.compile(r"%\d*[at]")
"""A pattern that differs between copies."""


class Shape(NamedTuple):
    """Copies of the script and their resources.

    Attributes:
        tasks: number of copies.
        apart: True if each is on a separate node.
        memory: memory of each copy, as a quantity; empty for none.
        gpus: GPUs of each copy.
    """

    tasks: int
    apart: bool
    memory: str
    gpus: int


def shape_of(given: Mapping[str, Any], note: Callable[[str], None]) -> Shape:
    """The copies that options of Slurm request.

    Raises:
        CommandError: an option is invalid, or amounts do not divide among the copies.
    """
    nodes = _nodes(given["nodes"])
    per_node = given["ntasks_per_node"] or 0
    tasks = given["ntasks"] or (nodes or 1) * (per_node or 1)
    if nodes and tasks < nodes:
        note(f"--nodes {nodes}: with --ntasks {tasks}, {tasks} of them are used")
        nodes = tasks
    if nodes and nodes < tasks:
        note(f"--nodes {nodes}: the {tasks} copies start where there is room, on any number of nodes")
    on_node = math.ceil(tasks / nodes) if nodes else 1
    memory = _memory("--mem", given["mem"], on_node) if given["mem"] else ""
    if given["mem_per_cpu"]:
        memory = _times(_memory("--mem-per-cpu", given["mem_per_cpu"], 1), given["cpus"])
    return Shape(tasks, bool(nodes) and nodes == tasks > 1, memory, _gpus(given, tasks, on_node, note))


def _nodes(text: str) -> int:
    least = text.partition("-")[0]
    if text and not (least.isascii() and least.isdigit() and int(least)):
        raise CommandError(f'--nodes: invalid number "{text}": use 2, or 2-4 for at least 2')
    return int(least) if text else 0


def _memory(option: str, text: str, parts: int) -> str:
    """Parse an amount and divide it by a number; without a unit it is in megabytes, as in Slurm; 0 means no request."""
    found = _MEMORY.fullmatch(text)
    if found is None:
        raise CommandError(f'{option}: invalid amount "{text}": use 4000 (megabytes), 4000M or 4G')
    kib = int(found[1]) * _KIB[found[2].lower()]
    if not kib:
        return ""
    return f"{math.ceil(kib / parts / 1024)}Mi"


def _times(amount: str, count: int) -> str:
    return f"{int(amount.removesuffix('Mi')) * count}Mi" if amount else ""


def _gpus(given: Mapping[str, Any], tasks: int, on_node: int, note: Callable[[str], None]) -> int:
    """Number of GPUs of each copy."""
    if given["gpus_per_task"]:
        return _count("--gpus-per-task", given["gpus_per_task"], note)
    for option, text, copies in (
        ("--gpus", given["gpus"], tasks),
        ("--gpus-per-node", given["gpus_per_node"], on_node),
    ):
        if text:
            return _divided(option, _count(option, text, note), copies)
    for each in filter(None, given["gres"].split(",")):
        found = _GPU.fullmatch(each)
        if found is None:
            note(f"--gres {each} has no effect: only gpu is known, request others in a manifest")
            continue
        if found[1]:
            note(f"--gres {each}: the type {found[1]} has no effect: any GPU serves")
        return _divided("--gres", int(found[2] or 1), on_node)
    return 0


def _count(option: str, text: str, note: Callable[[str], None]) -> int:
    found = _COUNT.fullmatch(text)
    if found is None:
        raise CommandError(f'{option}: invalid number "{text}": use 2')
    if found[1]:
        note(f"{option} {text}: the type {found[1]} has no effect: any GPU serves")
    return int(found[2])


def _divided(option: str, count: int, copies: int) -> int:
    if count % copies:
        raise CommandError(f"{option}: {count} GPUs do not divide among {copies} copies: use a multiple of {copies}")
    return count // copies


def request_of(
    script: Script, arguments: Sequence[str], given: Mapping[str, Any], namespace: str, note: Callable[[str], None]
) -> Request:
    """The job that a script requests.

    Raises:
        CommandError: an option is invalid.
    """
    shape = shape_of(given, note)
    try:
        array, at_once = split_limit(given["array"])
        elements = parse_array(array) if given["array"] else ()
    except ValueError as error:
        raise CommandError(str(error)) from error
    if elements and shape.tasks > 1:
        raise CommandError(f"--array and --ntasks {shape.tasks}: an element of an array is one copy; use --ntasks 1")
    return Request(
        command=tuple(script.command(arguments)),
        namespace=namespace,
        name=new_name(given["job_name"] or script.name),
        queue=given["partition"],
        tasks=None if elements or shape.apart else shape.tasks,
        nodes=shape.tasks if shape.apart else None,
        cpus=str(given["cpus"]),
        memory=shape.memory,
        gpus=shape.gpus,
        image=given["image"],
        limit=given["limit"],
        elements=elements,
        at_once=at_once,
    )


def slurm_variables(request: Request, job_name: str, folder: str) -> list[dict[str, Any]]:
    """The variables for scripts, as far as their values are known."""
    copies = request.tasks or request.nodes or 1
    elements = request.elements
    index = _field(f"metadata.labels['{INDEX_LABEL}']")
    found: dict[str, Any] = {
        "SLURM_JOB_ID": request.name,
        "SLURM_JOBID": request.name,
        "SLURM_JOB_NAME": job_name,
        "SLURM_JOB_USER": user_name(),
        "SLURM_JOB_PARTITION": request.queue or "default",
        "SLURM_NTASKS": str(copies),
        "SLURM_NPROCS": str(copies),
        "SLURM_PROCID": "0" if elements else index,
        "SLURM_CPUS_PER_TASK": request.cpus,
        "SLURM_SUBMIT_DIR": folder,
        "SLURM_SUBMIT_HOST": socket.gethostname(),
        "SLURMD_NODENAME": _field("spec.nodeName"),
    }
    if request.nodes or copies == 1:
        found |= {"SLURM_JOB_NUM_NODES": str(copies), "SLURM_NNODES": str(copies), "SLURM_LOCALID": "0"}
        found["SLURM_NODEID"] = index if request.nodes else "0"
    if copies == 1:
        found["SLURM_JOB_NODELIST"] = _field("spec.nodeName")
    if elements:
        found |= {"SLURM_ARRAY_JOB_ID": request.name, "SLURM_ARRAY_TASK_COUNT": str(len(elements))}
        found |= {"SLURM_ARRAY_TASK_MIN": str(elements[0]), "SLURM_ARRAY_TASK_MAX": str(elements[-1])}
    return [{"name": name, **({"value": value} if isinstance(value, str) else value)} for name, value in found.items()]


def _field(path: str) -> dict[str, Any]:
    return {"valueFrom": {"fieldRef": {"fieldPath": path}}}


def redirection(output: str, error: str, open_mode: str, copies: int = 1) -> str:
    """Shell commands that redirect output to files, whose names may contain Slurm's patterns.

    Copies that write to the same file append to it; otherwise each would truncate the output of the others.
    """

    def arrow(name: str) -> str:
        return ">>" if open_mode == "append" or (copies > 1 and not _OF_A_COPY.search(name)) else ">"

    parts = [f'{arrow(output)}"{_file(output)}"'] if output else []
    if error and error != output:
        parts.append(f'2{arrow(error)}"{_file(error)}"')
    elif output:
        parts.append("2>&1")
    return f"exec {' '.join(parts)}; " if parts else ""


def output_place(job: Obj, output: str, error: str, *, here: bool) -> str:
    """The location of a job's output: `output in /home/ada/out-eval-g7v2x.txt`, or the command that shows it.

    Args:
        job: the job on the server.
        output: name of the file for the output, with Slurm's patterns; empty for none.
        error: the same for standard error.
        here: True if pods are processes on this machine; otherwise the files are not written.
    """
    (task,) = job["spec"]["tasks"]
    name, namespace = job["metadata"]["name"], job["metadata"]["namespace"]
    (container,) = task["template"]["spec"]["containers"]
    known = {"j": name, "A": name, "x": job["metadata"]["annotations"][JOB_NAME], "u": user_name(), "%": "%"}

    def path(pattern: str) -> str:
        filled = re.sub(r"%(\d*)([jAxu%])", lambda found: known[found[2]], pattern)
        return os.path.join(container["workingDir"], filled)

    shown = f"kubectl logs -n {namespace} -l {JOB_LABEL}={name} --tail=-1{' --prefix' * (task['replicas'] > 1)}"
    places = [f"output in {path(output)}" if here and output else f"output: {shown}"]
    if here and error and error != output:
        places.append(f"errors in {path(error)}")
    return ", ".join(places)


def _file(pattern: str) -> str:
    quoted = re.sub(r'(["\\$`])', r"\\\1", pattern)
    return re.sub(r"%(\d*)([%jAaxuNnt])", lambda found: _PATTERNS[found[2]], quoted)
