"""Turns: queues in order, and the jobs of each queue in order, for enqueue and allocate.

A queue that is taken is out of the line until it is put back; its new place depends on what it holds then.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable
from typing import Any, Generic, TypeVar

from kilauea.engine.model.jobs import Job
from kilauea.engine.model.queues import Queue
from kilauea.engine.session import Session

T = TypeVar("T")


class Line(Generic[T]):
    """Things in the order of the keys that they had when they joined the line."""

    def __init__(self, session: Session, point: str, key: Callable[[T], tuple[Any, ...]]) -> None:
        self._session = session
        self._point = point
        self._key = key
        self._heap: list[tuple[tuple[Any, ...], T]] = []
        self._last: tuple[Any, ...] = ()
        """The key of the thing that joined last."""

    def __len__(self) -> int:
        return len(self._heap)

    def join(self, thing: T) -> None:
        """Add a thing at the place of its current key."""
        entry = (self._key(thing), thing)
        self._last = entry[0]
        try:
            heapq.heappush(self._heap, entry)
        except TypeError as error:
            self._session.points.blame_for_keys(self._point, [entry[0], *(key for key, _ in self._heap)], error)

    def first(self) -> T | None:
        """Take the first out of the line; None if it is empty."""
        if not self._heap:
            return None
        try:
            return heapq.heappop(self._heap)[1]
        except TypeError as error:
            self._session.points.blame_for_keys(self._point, [key for key, _ in self._heap], error)


class MovingLine(Line[T]):
    """A line in which things can be given new places.

    A thing that moves gets a second entry; the first is dropped when it reaches the front. The time depends on the
    number of things that move, whereas sorting the whole heap would depend on the length of the line.
    """

    def __init__(self, session: Session, point: str, key: Callable[[T], tuple[Any, ...]]) -> None:
        super().__init__(session, point, key)
        self._places: dict[T, tuple[Any, ...]] = {}
        """The key of the valid entry of each thing in the line."""

    def __len__(self) -> int:
        return len(self._places)

    def join(self, thing: T) -> None:
        """Add a thing at the place of its current key."""
        super().join(thing)
        self._places[thing] = self._last

    def rearrange(self, moved: Iterable[T]) -> None:
        """Move things to the places of their current keys."""
        for thing in moved:
            if thing in self._places:
                self.join(thing)
        if len(self._heap) > 2 * len(self._places):
            self._heap = [(key, thing) for thing, key in self._places.items()]
            heapq.heapify(self._heap)

    def peek(self) -> T | None:
        """Return the first, which stays in the line; None if it is empty."""
        while self._heap:
            key, thing = self._heap[0]
            if self._places.get(thing) is key:
                return thing
            super().first()
        return None

    def first(self) -> T | None:
        """Take the first out of the line; None if it is empty."""
        thing = self.peek()
        if thing is not None:
            super().first()
            del self._places[thing]
        return thing


class QueueTurns:
    """A line of queues, each with a line of jobs."""

    def __init__(self, session: Session, jobs: Iterable[Job]) -> None:
        self._session = session
        self._moves = 0
        """Number of moves of queues that the line has processed."""
        self._told = False
        """True if plugins have computed a key since the last queue was taken."""
        self._jobs: dict[str, Line[Job]] = {}
        self._queues: MovingLine[Queue] = MovingLine(session, "queue_order", session.points.queue_key)
        for job in jobs:
            if job.queue not in self._jobs:
                self._jobs[job.queue] = Line(session, "job_order", session.points.job_key)
            self._jobs[job.queue].join(job)
        for name in self._jobs:
            self._queues.join(session.queues[name])

    def next_queue(self) -> Queue | None:
        """Take the first queue out of the line; None if it is empty."""
        first = self._queues.peek()
        if first is None:
            return None
        points = self._session.points
        # Shares are computed on demand, so this tells plugins that a turn begins, and they report the queues that
        # moved. The key itself is not used: a queue keeps the place where it joined unless it moved.
        if not self._told:
            points.queue_key(first)
        self._told = False
        if points.moves != self._moves:
            seen, self._moves = self._moves, points.moves
            queues = self._session.queues
            self._queues.rearrange({queues[name] for name in points.moved_since(seen) if name in queues})
        return self._queues.first()

    def next_job(self, queue: Queue) -> Job | None:
        """Take the first job out of a queue's line; None if it is empty."""
        return self._jobs[queue.name].first()

    def put_back(self, queue: Queue) -> None:
        """Put a queue back into the line, after all changes of its turn."""
        self._queues.join(queue)
        self._told = True

    def put_back_job(self, job: Job) -> None:
        """Put a job back into its queue's line."""
        self._jobs[job.queue].join(job)

    def drain(self, queue: Queue) -> list[Job]:
        """Take all remaining jobs of a queue, in order."""
        line = self._jobs[queue.name]
        return [job for _ in range(len(line)) if (job := line.first()) is not None]
