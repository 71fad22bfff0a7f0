"""Jobs of a trace: requests, submission time, and run time.

Readers of files (`runtime/inputs/traces`) create them; here they are cut, scaled and resampled by seed. Times are
microseconds since the start of the trace.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from random import Random

from kilauea.api.meta import Object
from kilauea.api.times import SECOND

HOUR = 3600 * SECOND
BLOCKS = 24
"""Number of blocks of a trace for resampling, unless they would be shorter than an hour."""


@dataclass(frozen=True, slots=True)
class TraceTask:
    """Equal pods of a job.

    Attributes:
        replicas: number of pods.
        requests: quantities that each pod requests, by resource.
        models: values of the label `nvidia.com/gpu.product` of nodes that the pods may run on; empty for any.
    """

    replicas: int
    requests: tuple[tuple[str, str], ...]
    models: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class TraceJob:
    """A job of a trace.

    Attributes:
        name: a unique valid Kubernetes name.
        submit: its submission time.
        duration: run time of each of its pods.
        tasks: its pods.
        queue: its queue; empty for the default one.
        namespace: its namespace.
        priority_class: its priority class; empty for none.
        min_available: pods that must start together; 0 for all.
        max_retry: restarts after which it fails; None for the default of admission, 3.
        preemptable: True if its pods may be evicted, False if not; None if not set.
    """

    name: str
    submit: int
    duration: int
    tasks: tuple[TraceTask, ...]
    queue: str = ""
    namespace: str = "default"
    priority_class: str = ""
    min_available: int = 0
    max_retry: int | None = None
    preemptable: bool | None = None

    @property
    def pods(self) -> int:
        """Number of pods."""
        return sum(task.replicas for task in self.tasks)


@dataclass(frozen=True)
class Trace:
    """Jobs in the order of their submission, and findings from reading them.

    Attributes:
        source: the file.
        format: the name of its format.
        jobs: by submission time, equal ones as in the file.
        findings: errors in lines, with their numbers, and information missing in the format.
        left_out: number of lines that are left out.
        objects: nodes and queues that the trace itself describes.
    """

    source: str
    format: str
    jobs: tuple[TraceJob, ...]
    findings: tuple[str, ...] = ()
    left_out: int = 0
    objects: tuple[Object, ...] = field(default=(), repr=False)

    @property
    def span(self) -> int:
        """Time from the first to the last submission."""
        return self.jobs[-1].submit - self.jobs[0].submit if self.jobs else 0


def cut(trace: Trace, start: int = 0, length: int | None = None) -> Trace:
    """Return the jobs submitted in a window; its start becomes the start of the trace."""
    end = None if length is None else start + length
    jobs = [replace(job, submit=job.submit - start) for job in trace.jobs if start <= job.submit]
    return replace(trace, jobs=tuple(job for job in jobs if end is None or job.submit < end - start))


def scaled(trace: Trace, load: float) -> Trace:
    """Return the trace with arrivals `load` times as frequent; run times stay."""
    if load == 1:
        return trace
    first = trace.jobs[0].submit if trace.jobs else 0
    return replace(
        trace, jobs=tuple(replace(job, submit=first + round((job.submit - first) / load)) for job in trace.jobs)
    )


def drawn(trace: Trace, seed: int) -> Trace:
    """Return another trace of the same kind: blocks of time, drawn from the trace with replacement.

    Seed 0 is the trace itself. The blocks (24, or fewer of an hour each) preserve the order within a block and the
    bursts of users. This is the block bootstrap (Kuensch 1989).
    """
    if not seed or not trace.jobs:
        return trace
    rng = Random(seed)
    first, span = trace.jobs[0].submit, trace.span + 1
    count = max(1, min(BLOCKS, span // HOUR))
    length = -(-span // count)
    blocks: defaultdict[int, list[TraceJob]] = defaultdict(list)
    for job in trace.jobs:
        blocks[(job.submit - first) // length].append(job)
    jobs = []
    for place in range(count):
        drawn_block = rng.randrange(count)
        shift = (place - drawn_block) * length
        jobs += [replace(job, name=f"{job.name}-b{place}", submit=job.submit + shift) for job in blocks[drawn_block]]
    return replace(trace, jobs=tuple(sorted(jobs, key=lambda job: job.submit)))


def queues_of(jobs: Sequence[TraceJob]) -> Mapping[str, int]:
    """Return the queues of jobs, with the number of their jobs, by name."""
    found: dict[str, int] = {}
    for job in jobs:
        found[job.queue] = found.get(job.queue, 0) + 1
    return dict(sorted(found.items()))
