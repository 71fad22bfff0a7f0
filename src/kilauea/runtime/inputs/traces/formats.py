"""The formats of traces: what the columns of each mean.

| format | known by | origin |
|---|---|---|
| `csv` | columns `submit` and `duration` | our own; `docs/concepts/simulation.md` |
| `openb` | `cpu_milli`, `num_gpu`, `creation_time` | pods of Alibaba's GPU cluster, 2023 |
| `philly` | `vc`, `num_gpus`, `submit_s` | training jobs of Microsoft's Philly, 2017 |
| `muri` | `num_gpu`, `submit_time`, `iterations` | 400 jobs of a testbed, 2022; milliseconds |
| `dlrm` | `app_name`, `cpu_request`, `creation_time` | instances of Alibaba's recommendation services, 2025 |
| `swf` | lines of 18 numbers, comments that begin with `;` | Standard Workload Format, Parallel Workloads Archive |
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

from kilauea.api.meta import ResourceMap
from kilauea.api.quantity import QuantityError, resource_amounts
from kilauea.api.times import SECOND
from kilauea.runtime.inputs.traces.tables import BadValue, Row, kubernetes_name, shown
from kilauea.simulator.replay.trace import TraceJob, TraceTask

CARD = "nvidia.com/gpu"
MOST_PODS = 10_000
"""Maximum number of pods of a job."""
CARDS_OF_A_NODE = 8
PHILLY_CPU, PHILLY_MEMORY = 6, "40Gi"
"""For each card of Philly and Muri, whose traces do not contain cores and memory."""
DLRM_END = 31 * 86_400 * SECOND
"""The end of the trace, in microseconds."""
SPOT_MEMORY = "8Gi"
"""For each core of the nodes of Alibaba's spot instances, 2026, whose table does not contain memory."""
MILLISECOND = SECOND // 1000


class Format(NamedTuple):
    """A table of jobs.

    Attributes:
        name: its name in reports.
        needed: columns that identify it.
        known: further columns; `a/b` in a name makes a column a resource. None if other columns are ignored.
        convert: converts a line; None for a valid line that does not describe a job.
        notes: remarks about the jobs, for reports.
    """

    name: str
    needed: frozenset[str]
    known: frozenset[str] | None
    convert: Callable[[Row], TraceJob | None]
    notes: tuple[str, ...] = ()


# --- our own


def _csv(row: Row) -> TraceJob:
    requests: ResourceMap = {"cpu": row.text("cpu", "1")}
    if row.text("memory"):
        requests["memory"] = row.text("memory")
    if row.text("gpu") and row.count("gpu"):
        requests[CARD] = str(row.count("gpu"))
    requests.update({name: row.text(name) for name in row.columns if "/" in name and row.text(name) not in ("", "0")})
    try:
        resource_amounts(requests)
    except QuantityError as error:
        column, _, what = str(error).removeprefix("[").partition("]: ")
        raise BadValue(f"{column}: {what}; use an amount such as 4, 500m or 16Gi") from error
    pods = row.count("pods", 1, least=1)
    least = row.count("min_available", 0)
    if pods > MOST_PODS:
        raise BadValue(f"pods: {pods} is out of bounds: use at most {MOST_PODS}")
    if least > pods:
        raise BadValue(f"min_available: {least} is more than pods: {pods}")
    preemptable = row.text("preemptable").lower()
    if preemptable not in ("", "true", "false"):
        raise BadValue(f"preemptable: {shown(preemptable)} is neither true nor false")
    models = tuple(filter(None, row.text("gpu_model").split("|")))
    return TraceJob(
        name=kubernetes_name(row.text("name")),
        submit=row.time("submit"),
        duration=row.duration("duration"),
        tasks=(TraceTask(pods, tuple(sorted((name, str(value)) for name, value in requests.items())), models),),
        queue=kubernetes_name(row.text("queue")),
        namespace=kubernetes_name(row.text("namespace")) or "default",
        priority_class=kubernetes_name(row.text("priority_class")),
        min_available=least,
        max_retry=row.count("max_retry") if row.text("max_retry") else None,
        preemptable={"true": True, "false": False}.get(preemptable),
    )


_OWN = frozenset({"name", "queue", "namespace", "priority_class", "pods", "min_available", "cpu", "memory", "gpu"})


# --- published ones


def _openb(row: Row) -> TraceJob | None:
    created, deleted = row.time("creation_time"), row.text("deletion_time")
    started = row.time("scheduled_time") if row.text("scheduled_time") else created
    if not deleted or row.time("deletion_time") < started:
        raise BadValue(f"deletion_time: {shown(deleted)} is before the pod started: its run time is unknown")
    requests = {"cpu": f"{row.count('cpu_milli')}m", "memory": f"{row.count('memory_mib')}Mi"}
    cards = row.count("num_gpu")
    if cards:
        requests[CARD] = str(cards)
    online = row.text("qos") == "LS"
    queue = "online" if online else "offline"
    models = tuple(filter(None, row.text("gpu_spec").split("|")))
    return TraceJob(
        name=kubernetes_name(row.text("name")),
        submit=created,
        duration=row.time("deletion_time") - started,
        tasks=(TraceTask(1, tuple(sorted(requests.items())), models),),
        queue=queue,
        preemptable=not online,
    )


def cards_in_pods(cards: int) -> tuple[TraceTask, ...]:
    """Pods of a gang with these cards: as many with eight cards as possible, and one with the rest."""
    full, rest = divmod(cards, CARDS_OF_A_NODE)
    sizes = [(full, CARDS_OF_A_NODE), (1, rest)]
    return tuple(TraceTask(count, with_cards(size)) for count, size in sizes if count and size)


def with_cards(cards: int) -> tuple[tuple[str, str], ...]:
    """The requests of a pod with cards."""
    memory = f"{cards * int(PHILLY_MEMORY.removesuffix('Gi'))}Gi"
    return (("cpu", str(cards * PHILLY_CPU)), ("memory", memory), (CARD, str(cards)))


def _philly(row: Row) -> TraceJob:
    cards = row.count("num_gpus", least=1)
    return TraceJob(
        name=f"job-{row.text('source_row') or row.line}",
        submit=row.time("submit_s"),
        duration=row.duration("duration_s"),
        tasks=cards_in_pods(cards),
        queue=kubernetes_name(row.text("vc")),
    )


def _dlrm(row: Row) -> TraceJob:
    created = row.time("creation_time") if row.text("creation_time") else 0
    deleted = row.time("deletion_time") if row.text("deletion_time") else DLRM_END
    if deleted < created:
        raise BadValue(f"deletion_time: {shown(row.text('deletion_time'))} is before creation_time: swap them")
    requests = {"cpu": str(row.count("cpu_request"))}
    try:
        requests["memory"] = f"{round(float(row.text('memory_request', '0')) * 1024)}Mi"
    except (ValueError, OverflowError) as error:
        raise BadValue(f"memory_request: {shown(row.text('memory_request'))} is not a number of GiB") from error
    if row.count("gpu_request", 0):
        requests[CARD] = row.text("gpu_request")
    return TraceJob(
        name=kubernetes_name(row.text("instance_sn")),
        submit=created,
        duration=deleted - created,
        tasks=(TraceTask(1, tuple(sorted(requests.items()))),),
        queue=kubernetes_name(row.text("app_name")),
        preemptable=False,
    )


def _muri(row: Row) -> TraceJob:
    return TraceJob(
        name=f"job-{row.text('job_id') or row.line}",
        submit=row.time("submit_time", MILLISECOND),
        duration=row.duration("duration", MILLISECOND),
        tasks=cards_in_pods(row.count("num_gpu", least=1)),
    )


_NO_CORES = (
    f"the trace does not state how many cores and how much memory a job uses: {PHILLY_CPU} CPUs and {PHILLY_MEMORY} "
    "for each card"
)
FORMATS: tuple[Format, ...] = (
    Format(
        "openb",
        frozenset({"name", "cpu_milli", "memory_mib", "num_gpu", "creation_time", "deletion_time"}),
        None,
        _openb,
        ("a pod that used part of a card requests an entire card here",),
    ),
    Format(
        "dlrm",
        frozenset({"instance_sn", "app_name", "cpu_request", "memory_request", "creation_time", "deletion_time"}),
        None,
        _dlrm,
        (
            "instances that existed before start with the trace, and those that were not deleted end after 31 days",
            "network cards, disks and the maximum number of instances of a node are ignored",
        ),
    ),
    Format("philly", frozenset({"vc", "num_gpus", "submit_s", "duration_s"}), None, _philly, (_NO_CORES,)),
    Format("muri", frozenset({"num_gpu", "submit_time", "duration", "iterations"}), None, _muri, (_NO_CORES,)),
    Format(
        "csv",
        frozenset({"submit", "duration"}),
        _OWN | {"gpu_model", "max_retry", "preemptable"},
        _csv,
    ),
)
"""Tables, in the order in which they are tried on a header."""

NODE_COLUMNS: Mapping[str, frozenset[str]] = {
    "openb": frozenset({"sn", "cpu_milli", "memory_mib", "gpu", "model"}),
    "philly": frozenset({"vc", "nodes", "gpus_per_node"}),
    "spot": frozenset({"node_name", "cpu_num", "gpu_model", "gpu_capacity_num"}),
    "csv": frozenset({"name", "cpu", "memory"}),
}
"""Tables of nodes, by the columns that identify them."""
