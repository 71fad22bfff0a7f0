"""Detects the format of a file, and reads it.

The times of a trace are converted to times since its first submission. Oddities are reported: submissions out of order,
gaps, duplicate jobs.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import partial
from itertools import pairwise
from pathlib import Path
from statistics import median

from kilauea.api.core import Node, NodeStatus
from kilauea.api.meta import Object, ObjectMeta, ResourceMap
from kilauea.api.quantity import QuantityError, resource_amounts
from kilauea.api.scheduling import Queue, QueueSpec, QueueStatus
from kilauea.api.times import SECOND
from kilauea.engine.conf import nearest
from kilauea.runtime.inputs.files import read_bytes
from kilauea.runtime.inputs.traces.formats import (
    CARD,
    FORMATS,
    MOST_PODS,
    NODE_COLUMNS,
    PHILLY_CPU,
    PHILLY_MEMORY,
    SPOT_MEMORY,
    Format,
)
from kilauea.runtime.inputs.traces.history import history_jobs, is_history
from kilauea.runtime.inputs.traces.swf import Machine, swf_job, swf_rows
from kilauea.runtime.inputs.traces.tables import (
    BadValue,
    Findings,
    Row,
    TraceError,
    columns_of,
    converted,
    kubernetes_name,
    rows_of,
    text_of,
)
from kilauea.simulator.replay.trace import Trace, TraceJob
from kilauea.simulator.replay.workload import MODEL

GAP = 20
"""A pause is reported if it is longer than a day and than this many times the median time between submissions."""
DAY = 86_400 * SECOND


def read_trace(path: str) -> Trace:
    """Read a file of jobs; `-` is standard input, gzip is unpacked.

    Raises:
        SourceError: it cannot be read, or has no valid line.
    """
    source, data = _content(path)
    return trace_of(source, data)


def _content(path: str) -> tuple[str, bytes]:
    """The name and the bytes of a file.

    Raises:
        SourceError: it cannot be read.
    """
    if path != "-" and Path(path).is_dir():
        raise TraceError(f"{path}: is a folder: specify a file")
    [(source, data)] = read_bytes([path])
    return source, data


def trace_of(source: str, data: bytes) -> Trace:
    """Return the jobs in the bytes of a file.

    Raises:
        TraceError: it has no valid line.
    """
    text, findings = text_of(source, data), Findings(source)
    columns = columns_of(text)
    objects: tuple[Object, ...] = ()
    found = next((each for each in FORMATS if each.needed <= set(columns)), None)
    if found is not None:
        _tell_columns(found, columns, findings)
        name, jobs = found.name, list(converted(rows_of(text, findings), found.convert, findings))
    elif is_history(text):
        name, jobs = "history", history_jobs(text, findings)
    elif _is_swf(text):
        machine = Machine(text)
        name, objects = "swf", machine.objects()
        jobs = list(converted(swf_rows(text, findings), partial(swf_job, machine=machine), findings))
    else:
        raise TraceError(_unknown(source, columns))
    if not jobs:
        told = "\n".join(findings.all())
        raise TraceError(f"{source}: no line describes a job that can be simulated" + (f"\n{told}" if told else ""))
    ordered = _in_order(jobs, findings)
    return Trace(source, name, ordered, findings.all(), findings.left_out, objects)


def _is_swf(text: str) -> bool:
    """Return True if the first line after comments consists of numbers only."""
    for line in text.splitlines():
        cells = line.split()
        if cells and not cells[0].startswith(";"):
            return len(cells) > 1 and all(cell.lstrip("-").replace(".", "", 1).isdigit() for cell in cells)
    return False


def _unknown(source: str, columns: Sequence[str]) -> str:
    wanted = (
        "a table with the columns submit and duration, openb, Philly, Muri or DLRM, or the Standard Workload Format"
    )
    if {"cpu_milli", "memory_mib", "num_gpu"} <= set(columns):
        return (
            f"{source}:1: pods of openb without creation_time and deletion_time: it is unknown when they were "
            "submitted and how long they ran; use a list of pods with these columns"
        )
    for needed in ("submit", "duration"):
        if needed not in columns:
            return f"{source}:1: no column {needed}{nearest(needed, columns)}: a trace is {wanted}"
    return f"{source}:1: the format is unknown: a trace is {wanted}"


def _tell_columns(found: Format, columns: Sequence[str], findings: Findings) -> None:
    for note in found.notes:
        findings.tell(note)
    if found.known is None:
        return
    known = found.known | found.needed
    for name in columns:
        if name not in known and "/" not in name:
            findings.note(1, "unknown columns", f'column "{name[:40]}" is unknown{nearest(name, known)}; it is ignored')


def _in_order(jobs: Sequence[tuple[int, TraceJob]], findings: Findings) -> tuple[TraceJob, ...]:
    """The jobs by time of submission, with unique names, from time 0."""
    names: dict[str, int] = {}
    latest, latest_line = jobs[0][1].submit, jobs[0][0]
    out: list[tuple[int, TraceJob]] = []
    for line, job in jobs:
        if job.submit < latest:
            message = f"submitted {_span(latest - job.submit)} before line {latest_line}: jobs are sorted by time"
            findings.note(line, "submitted before the line above", message)
        else:
            latest, latest_line = job.submit, line
        if job.pods > MOST_PODS:
            findings.leave_out(line, "with too many pods", f"{job.pods} pods: at most {MOST_PODS} are simulated")
            continue
        name = job.name or f"job-{line}"
        if name in names:
            findings.note(line, "with a name that already exists", f'"{name}" is in line {names[name]}, too')
            name = f"{name}-l{line}"
        names[name] = line
        out.append((line, replace(job, name=name)))
    out.sort(key=lambda each: each[1].submit)
    first = out[0][1].submit if out else 0
    _tell_gaps(out, findings)
    return tuple(replace(job, submit=job.submit - first) for _, job in out)


def _tell_gaps(jobs: Sequence[tuple[int, TraceJob]], findings: Findings) -> None:
    if len(jobs) < 3:
        return
    usual = median(after.submit - job.submit for (_, job), (_, after) in pairwise(jobs))
    for (line, job), (after, following) in pairwise(jobs):
        pause = following.submit - job.submit
        if pause > max(DAY, GAP * usual):
            message = f"no job is submitted for {_span(pause)} between this line and line {after}"
            findings.note(line, "before a gap", message)


def _span(us: int) -> str:
    """Format a time span with two units."""
    seconds = us // SECOND
    days, rest = divmod(seconds, 86_400)
    hours, rest = divmod(rest, 3600)
    minutes, rest = divmod(rest, 60)
    parts = [(days, "d"), (hours, "h"), (minutes, "m"), (rest, "s")]
    shown = [f"{value}{unit}" for value, unit in parts if value]
    return "".join(shown[:2]) or "0s"


# --- nodes


def read_nodes(path: str) -> tuple[list[Object], tuple[str, ...]]:
    """Read a table of nodes and the queues that it describes; returns them with warnings.

    Raises:
        SourceError: it cannot be read, or has no valid line.
    """
    source, data = _content(path)
    text, findings = text_of(source, data), Findings(source)
    columns = set(columns_of(text))
    name = next((name for name, needed in NODE_COLUMNS.items() if needed <= columns), None)
    if name is None:
        raise TraceError(
            f"{source}:1: not a table of nodes: it needs the columns name, cpu and memory, and may have gpu"
        )
    convert = {"openb": _openb_node, "philly": _philly_nodes, "spot": _spot_node, "csv": _csv_node}[name]
    if name == "spot":
        findings.tell(f"the table does not state how much memory a node has: {SPOT_MEMORY} for each core")
    objects = [obj for _, made in converted(rows_of(text, findings), convert, findings) for obj in made]
    if not objects:
        raise TraceError(f"{source}: no line describes a node\n" + "\n".join(findings.all()))
    return objects, findings.all()


def _node(name: str, given: dict[str, str], model: str = "") -> Node:
    labels = {"kubernetes.io/hostname": name} | ({MODEL: model} if model else {})
    offers: ResourceMap = {"pods": "110", **given}
    try:
        resource_amounts(offers)
    except QuantityError as error:
        raise BadValue(f"node: {error}") from error
    return Node("v1", "Node", ObjectMeta(name=name, labels=labels), status=NodeStatus(offers, offers))


def _openb_node(row: Row) -> Iterable[Object]:
    cards = {CARD: row.text("gpu")} if row.count("gpu", 0) else {}
    offers = {"cpu": f"{row.count('cpu_milli')}m", "memory": f"{row.count('memory_mib')}Mi", **cards}
    return [_node(kubernetes_name(row.text("sn")), offers, row.text("model"))]


def _spot_node(row: Row) -> Iterable[Object]:
    cores = row.count("cpu_num")
    offers = {"cpu": str(cores), "memory": f"{cores * int(SPOT_MEMORY.removesuffix('Gi'))}Gi"}
    if row.count("gpu_capacity_num", 0):
        offers[CARD] = row.text("gpu_capacity_num")
    name = kubernetes_name(row.text("node_name"))
    return [_node(f"node-{name}" if name.isdigit() else name, offers, row.text("gpu_model"))]


def _csv_node(row: Row) -> Iterable[Object]:
    name = kubernetes_name(row.text("name"))
    if not name:
        raise BadValue("name: the cell is empty: each node needs a name")
    offers = {"cpu": row.text("cpu", "0"), "memory": row.text("memory", "0")}
    if row.count("gpu", 0):
        offers[CARD] = row.text("gpu")
    return [_node(name, offers, row.text("gpu_model"))]


def _philly_nodes(row: Row) -> Iterable[Object]:
    """The nodes of a virtual cluster, and its queue, which deserves as much."""
    queue, count, cards = kubernetes_name(row.text("vc")), row.count("nodes"), row.count("gpus_per_node")
    memory = int(PHILLY_MEMORY.removesuffix("Gi")) * cards
    offers = {"cpu": str(PHILLY_CPU * cards), "memory": f"{memory}Gi", CARD: str(cards)}
    deserved: ResourceMap = {
        "cpu": str(PHILLY_CPU * cards * count),
        "memory": f"{memory * count}Gi",
        CARD: str(cards * count),
    }
    spec = QueueSpec(weight=max(1, count), deserved=deserved, reclaimable=True)
    objects: list[Object] = [
        Queue("scheduling.volcano.sh/v1beta1", "Queue", ObjectMeta(name=queue), spec, QueueStatus("Open"))
    ]
    return objects + [_node(f"{queue}-{number}", offers) for number in range(count)]
