"""Whose turn it is: queues in order, and in each queue its jobs in order, as enqueue and allocate take them.

A queue that is taken is out of the line until it is put back, and gets its new place by what it holds then.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable
from typing import Any

from kilauea.engine.model.jobs import Job
from kilauea.engine.model.queues import Queue
from kilauea.engine.session import Session


class QueueTurns:
    """A line of queues, each with a line of jobs."""

    def __init__(self, session: Session, jobs: Iterable[Job]) -> None:
        self._session = session
        self._jobs: dict[str, list[tuple[Any, Job]]] = {}
        self._queues: list[tuple[Any, Queue]] = []
        for job in jobs:
            self._jobs.setdefault(job.queue, []).append((session.job_key(job), job))
        for name, line in self._jobs.items():
            heapq.heapify(line)
            self.put_back(session.queues[name])

    def next_queue(self) -> Queue | None:
        """Take the first queue out of the line; None when the line is empty."""
        return heapq.heappop(self._queues)[1] if self._queues else None

    def next_job(self, queue: Queue) -> Job | None:
        """Take the first job out of a queue's line; None when it is empty."""
        line = self._jobs[queue.name]
        return heapq.heappop(line)[1] if line else None

    def put_back(self, queue: Queue) -> None:
        """Put a queue back into the line."""
        heapq.heappush(self._queues, (self._session.queue_key(queue), queue))

    def put_back_job(self, job: Job) -> None:
        """Put a job back into its queue's line."""
        heapq.heappush(self._jobs[job.queue], (self._session.job_key(job), job))

    def drain(self, queue: Queue) -> list[Job]:
        """Take all jobs of a queue that are left, in order."""
        line = self._jobs[queue.name]
        return [heapq.heappop(line)[1] for _ in range(len(line))]
