"""The metrics of all jobs as columns, so that a cycle over an idle cluster needs no loop over its jobs.

`Job` is the source of truth and changes with each task; the table is updated only for jobs that changed.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np
from numpy.typing import NDArray

from kilauea.engine.model import status
from kilauea.engine.model.jobs import INQUEUE, NOTHING, PHASES, Job
from kilauea.engine.model.queues import Queue
from kilauea.engine.model.resources import Amounts, ResourceAxis


class JobTable:
    """Columns over the jobs of a state, for sums and conditions over all of them.

    Arrays over jobs have shape (J,), over resources and jobs (R, J). Rows of deleted jobs are empty and reused.
    """

    def __init__(self, axis: ResourceAxis) -> None:
        self.axis = axis
        self.jobs: list[Job | None] = []
        self._free: list[int] = []
        self.stamp = 0
        """Increases with every row that is written."""
        self.stamps: list[int] = []
        """By row, the stamp of its last write: caches by job use it to detect changes."""
        self._allocate(16)

    def _allocate(self, size: int) -> None:
        resources = len(self.axis)
        self._amounts = np.zeros((5 * resources, size), dtype=np.int64)
        """(5 R, J) the following five stacked, so that a row is written at once; (R, J) each."""
        self.allocated, self.pending, self.elastic, self.reserved, self.admitted = np.split(self._amounts, 5)
        """Held by tasks in a HOLDING state; requested by waiting tasks; held beyond the minimum; the part of the
        minimum of admitted jobs that is not held yet; the same, but with the whole minimum of jobs that are Inqueue.
        """
        self.counts = np.zeros((len(status.NAMES), size), dtype=np.int32)
        """(status, J) number of tasks."""
        self.min_available = np.zeros(size, dtype=np.int64)
        self.waiting = np.zeros(size, dtype=bool)
        """True if the job has waiting tasks, admitted or not, or is itself not admitted."""
        self.phase = np.zeros(size, dtype=np.int8)
        """Index in PHASES, -1 without a pod group."""
        self.releasing = np.zeros(size, dtype=np.int32)
        """Tasks that are being removed from a node."""
        self.wishes = np.zeros(size, dtype=np.int32)
        """Bits for fields of the group whose plugins may not be configured (`kilauea.engine.model.wishes`)."""
        self.queue: NDArray[np.int32] = np.full(size, -1, dtype=np.int32)
        """Row of the queue, -1 without a pod group, for a queue that does not exist, and for services."""
        self.service = np.zeros(size, dtype=bool)
        """True for a single pod of kube-scheduler."""

    def __len__(self) -> int:
        return len(self.jobs)

    def admit(self, job: Job) -> None:
        """Assign a row to a job."""
        if self._free:
            job.row = self._free.pop()
            self.jobs[job.row] = job
        else:
            job.row = len(self.jobs)
            self.jobs.append(job)

    def release(self, job: Job) -> None:
        """Release a job's row."""
        self.jobs[job.row] = None
        self._free.append(job.row)

    def refresh(self, rows: Iterable[int], queues: Mapping[str, Queue]) -> None:
        """Update the rows; all of them after new resources, or if there is no room."""
        if len(self.jobs) > self.min_available.shape[0] or self.allocated.shape[0] != len(self.axis):
            self._allocate(max(16, 2 * len(self.jobs)))
            rows = range(len(self.jobs))
        self.stamps.extend([0] * (len(self.jobs) - len(self.stamps)))
        for row in rows:
            self.stamp += 1
            self.stamps[row] = self.stamp
            job = self.jobs[row]
            if job is None:
                self._clear(row)
            else:
                self._write(row, job)
                queue = queues.get(job.queue) if job.group else None
                self.queue[row] = -1 if queue is None else queue.row
                self.service[row] = job.service

    def _clear(self, row: int) -> None:
        self._amounts[:, row] = 0
        self.counts[:, row] = 0
        self.phase[row] = -1
        self.queue[row] = -1
        self.service[row] = self.waiting[row] = False
        self.wishes[row] = 0

    def _write(self, row: int, job: Job) -> None:
        self._amounts[:, row] = [number for amounts in _figures(job) for number in self.axis.listed(amounts)]
        self.counts[:, row] = job.counts
        self.min_available[row] = job.min_available
        self.wishes[row] = job.wishes
        self.phase[row] = PHASES.index(job.phase) if job.group and job.phase in PHASES else -1 if not job.group else 0
        self.waiting[row] = job.group and (job.counts[status.PENDING] > 0 or job.is_pending)
        self.releasing[row] = job.releasing_count


def _figures(job: Job) -> tuple[Amounts, ...]:
    """Allocated, pending, elastic, reserved and admitted."""
    reserved: Amounts = NOTHING
    admitted: Amounts = NOTHING
    if job.min_resources is not None:
        if job.phase == INQUEUE:
            reserved, admitted = job.ungate(job.reserve()), job.ungate(job.min_resources)
        elif job.charged:
            reserved = admitted = job.ungate(job.reserve())
    elastic = job.elastic() if job.allocated else NOTHING
    return job.allocated, job.waiting_request(), elastic, reserved, admitted
