"""Standard Workload Format: one job per line, 18 numbers, comments that begin with `;`.

The format is that of the Parallel Workloads Archive (Chapin et al. 1999, version 2.2). A job of N processors becomes
pods as large as a node of the machine that the comments describe (`MaxProcs` by `MaxNodes`), so that a pod never needs
more than one node; without that, each processor is a pod.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from kilauea.api.core import Node, NodeStatus
from kilauea.api.meta import Object, ObjectMeta, ResourceMap
from kilauea.runtime.inputs.traces.formats import MOST_PODS
from kilauea.runtime.inputs.traces.tables import MOST_LINES, BadValue, Findings, Row, TraceError
from kilauea.simulator.replay.trace import TraceJob, TraceTask

FIELDS = (
    "job submit wait run processors cpu_time memory requested_processors requested_time requested_memory status user "
    "group application queue partition preceding think"
).split()
_HEADER = re.compile(r";\s*(MaxNodes|MaxProcs)\s*:\s*([0-9]+)")
MOST_NODES = 100_000


class Machine:
    """The machine that the comments of a file describe."""

    def __init__(self, text: str) -> None:
        found = {name: int(value) for name, value in _HEADER.findall(text[: 1 << 16])}
        self.processors = found.get("MaxProcs", 0)
        self.nodes = found.get("MaxNodes", 0) or self.processors
        self.node_size = max(1, self.processors // self.nodes) if self.nodes and self.processors else 1

    def objects(self) -> tuple[Object, ...]:
        """Its nodes; empty if the comments do not describe them."""
        if not 0 < self.nodes <= MOST_NODES:
            return ()
        offers: ResourceMap = {"cpu": str(self.node_size), "memory": "1Ti", "pods": str(max(110, self.node_size))}
        return tuple(
            Node("v1", "Node", ObjectMeta(name=f"node-{number}"), status=NodeStatus(allocatable=offers))
            for number in range(self.nodes)
        )


def swf_rows(text: str, findings: Findings) -> Iterator[Row]:
    """Yield the jobs as lines with named cells.

    Raises:
        TraceError: too many lines.
    """
    for number, line in enumerate(text.splitlines(), 1):
        if number > MOST_LINES:
            raise TraceError(f"{findings.source}: more than {MOST_LINES} lines: split the file")
        cells = line.split()
        if not cells or cells[0].startswith(";"):
            continue
        if len(cells) != len(FIELDS):
            message = f"{len(cells)} numbers, but a job of the Standard Workload Format has {len(FIELDS)}"
            findings.leave_out(number, "with a different number of fields", message)
            continue
        yield Row(number, dict(zip(FIELDS, cells, strict=True)))


def swf_job(row: Row, machine: Machine) -> TraceJob | None:
    """Return the job of a line; None for a job that never ran.

    Raises:
        BadValue: a number is invalid.
    """
    processors = row.signed("processors")
    if processors <= 0:
        processors = row.signed("requested_processors")
    run, status = row.signed("run"), row.signed("status")
    if run < 0 or (status == 5 and run == 0):
        raise BadValue(f"run: {run} and status {status}: the job never ran")
    if processors <= 0:
        raise BadValue(f"processors: {processors} and none requested: the size of the job is unknown")
    full, rest = divmod(processors, machine.node_size)
    if full > MOST_PODS:
        raise BadValue(f"processors: {processors} would be {full} pods: at most {MOST_PODS} are simulated")
    sizes = ((full, machine.node_size), (1, rest))
    tasks = tuple(TraceTask(count, (("cpu", str(size)),)) for count, size in sizes if count and size)
    queue = row.signed("queue")
    return TraceJob(
        name=f"job-{row.text('job')}",
        submit=row.time("submit"),
        duration=row.duration("run"),
        tasks=tasks,
        queue=f"q{queue}" if queue >= 0 else "",
    )
