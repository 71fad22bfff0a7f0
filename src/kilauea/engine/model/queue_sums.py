"""Sums over the jobs of each queue, at the start of a session."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from kilauea.engine.model.job_table import JobTable
from kilauea.engine.model.queues import Queue, QueueFigures
from kilauea.engine.model.resources import ResourceAxis


def sum_jobs(
    queues: Mapping[str, Queue], queue_of: NDArray[np.integer], table: JobTable, axis: ResourceAxis
) -> NDArray[np.intp]:
    """Set the sums of each queue over its jobs; returns the number of jobs by the queue's row.

    Args:
        queues: by name.
        queue_of: (J,) row of the queue of each job, -1 for those that do not count.
        table: the jobs.
        axis: the resources.
    """
    ordered = sorted(queues)
    jobs = (queue_of >= 0).nonzero()[0]
    everything = len(jobs) == len(queue_of)
    rows = queue_of if everything else queue_of[jobs]
    sums = {}
    for field in ("allocated", "pending", "elastic", "reserved"):
        out = sums[field] = np.zeros((len(axis), len(ordered)), dtype=np.int64)
        amounts = getattr(table, field)[:, : len(table)]
        # Most rows are empty: in an idle cluster nothing waits, and few jobs request devices.
        for r in amounts.any(axis=1).nonzero()[0].tolist():
            np.add.at(out[r], rows, amounts[r] if everything else amounts[r, jobs])
    held = [_by_queue(sums[f], axis) for f in ("allocated", "elastic", "reserved")]
    requests = _by_queue(sums["allocated"] + sums["pending"], axis)
    for row, name in enumerate(ordered):
        queue = queues[name]
        queue.figures = QueueFigures()
        queue.allocated, queue.elastic, queue.inqueue = (of[row] for of in held)
        queue.request = requests[row]
    return np.bincount(rows, minlength=len(ordered))


def _by_queue(sums: NDArray[np.int64], axis: ResourceAxis) -> list[dict[str, float]]:
    """Columns of an array (R, Q) as amount maps without zeros."""
    out: list[dict[str, float]] = [{} for _ in range(sums.shape[1])]
    some = np.flatnonzero(sums.any(axis=0))
    for i, column in zip(some.tolist(), sums.T[some].tolist(), strict=True):
        out[i] = {n: v for n, v in zip(axis.names, column, strict=True) if v}
    return out
