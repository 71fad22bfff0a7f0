"""Pools of workers that send requests with bounded concurrency; failed writes wait without occupying a worker."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable, Hashable
from contextvars import Context
from dataclasses import dataclass
from random import Random
from typing import Any

from kilauea.api.ports import ApiError, Clock
from kilauea.api.times import SECOND
from kilauea.client.backoff import pause

log = logging.getLogger(__name__)

Work = Callable[[], Awaitable[None]]


BACKLOG = 500
"""Number of waiting statuses for each additional concurrent write, while binds wait."""
LATEST = 5.0
"""Seconds after which a waiting status no longer yields to binds."""
LOOK = 1.0
"""Seconds between checks for such a status, in case writes in progress do not end."""


class WorkerPool:
    """Runs tasks in order of arrival, with the concurrency of `room`, which is called again after each."""

    def __init__(self, room: Callable[[], int], now: Callable[[], int] = lambda: 0) -> None:
        """Create a pool.

        Args:
            room: returns the number of tasks that may run.
            now: the time at which tasks arrive, for `oldest`.
        """
        self._room = room
        self._now = now
        self._waiting: deque[tuple[int, Work]] = deque()
        self._workers = 0
        self._tasks: set[asyncio.Task[None]] = set()

    def __len__(self) -> int:
        """Tasks that are queued or running."""
        return len(self._waiting) + self._workers

    def add(self, work: Work) -> None:
        """Queue a task."""
        self._waiting.append((self._now(), work))
        self.grow()

    @property
    def waiting(self) -> int:
        """Number of tasks that do not run yet."""
        return len(self._waiting)

    @property
    def oldest(self) -> int | None:
        """Arrival of the task that has waited longest; None if none waits."""
        return self._waiting[0][0] if self._waiting else None

    def grow(self) -> None:
        """Start one more worker if there is work and room for it."""
        if self._waiting and self._workers < self._room():
            self._workers += 1
            # A worker outlives the task that adds the first work, so it is not part of that task's trace.
            task = asyncio.get_running_loop().create_task(self._work(), context=Context())
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _work(self) -> None:
        try:
            while self._waiting and self._workers <= self._room():
                _, work = self._waiting.popleft()
                self.grow()
                try:
                    await work()
                except Exception:
                    log.exception("a task failed")
        finally:
            self._workers -= 1

    async def close(self) -> None:
        """Drop queued tasks and wait for running ones."""
        self._waiting.clear()
        await asyncio.gather(*self._tasks, return_exceptions=True)


@dataclass(frozen=True, slots=True)
class Write:
    """The wanted content of an object, and the task that writes it."""

    content: Any
    work: Work
    urgent: bool


class Writes:
    """Writes statuses: only the newest of each object, one write at a time, with retries after a pause.

    A write whose content is already being written is skipped. While binds wait, most writes wait as well, as each costs
    the server more than a bind. Urgent ones do not wait, and none waits longer than `LATEST` seconds: after that,
    statuses are written as fast as without binds.

    Args:
        clock: for pauses.
        rng: jitter of pauses.
        size: writes at a time.
        pressed: returns True while binds wait.
    """

    def __init__(self, clock: Clock, rng: Random, size: int, pressed: Callable[[], bool] = lambda: False) -> None:
        self._clock = clock
        self._rng = rng
        self._size = size
        self._pressed = pressed
        self._pool = WorkerPool(self._room, clock.monotonic)
        self._urgent = WorkerPool(lambda: size)
        self._wanted: dict[Hashable, Write] = {}
        self._busy: dict[Hashable, Write] = {}
        self._failures: dict[Hashable, int] = {}
        self._pausing: dict[Hashable, asyncio.Task[None]] = {}
        self._looking: asyncio.Task[None] | None = None

    def __len__(self) -> int:
        """Number of objects that are not written yet."""
        return len(self._wanted.keys() | self._busy.keys() | self._pausing.keys())

    def _room(self) -> int:
        """Number of concurrent writes that are not urgent."""
        if not self._pressed() or self._is_late():
            return self._size
        return min(1 + self._pool.waiting // BACKLOG, self._size)

    def _is_late(self) -> bool:
        """True if a status has waited too long."""
        oldest = self._pool.oldest
        return oldest is not None and self._clock.monotonic() - oldest >= LATEST * SECOND

    def put(self, name: Hashable, content: Any, work: Work, *, urgent: bool = False) -> None:
        """Queue the write of an object; `work` raises `ApiError` if it fails."""
        known, busy = self._wanted.get(name), self._busy.get(name)
        if known is None and busy is not None and busy.content == content:
            return
        if known is not None and known.content == content and known.urgent >= urgent:
            return
        self._wanted[name] = Write(content, work, urgent or (known is not None and known.urgent))
        if name in self._busy or name in self._pausing:
            return
        if known is None or known.urgent < urgent:
            self._add(name)

    def _add(self, name: Hashable) -> None:
        (self._urgent if self._wanted[name].urgent else self._pool).add(lambda: self._write(name))
        if self._pool.waiting and self._looking is None:
            self._looking = asyncio.get_running_loop().create_task(self._look(), context=Context())

    async def _look(self) -> None:
        """Start more writes once one is late, even while those in progress do not end."""
        while self._pool.waiting:
            await self._clock.sleep(LOOK)
            self._pool.grow()
        self._looking = None

    def busy(self, name: Hashable) -> bool:
        """True if an object is queued or being written."""
        return name in self._wanted or name in self._busy

    async def _write(self, name: Hashable) -> None:
        if name in self._busy:
            return  # it became urgent while it waited, and is written already
        write = self._wanted.pop(name, None)
        if write is None:
            return
        self._busy[name] = write
        try:
            await write.work()
            self._failures.pop(name, None)
        except ApiError as error:
            self._failed(name, write, error)
        finally:
            del self._busy[name]
            if name in self._wanted and name not in self._pausing:
                self._add(name)

    def _failed(self, name: Hashable, write: Write, error: ApiError) -> None:
        """Retry later, unless the object is gone or newer content is wanted by then."""
        if error.code == 404:
            self._failures.pop(name, None)
            return
        failures = self._failures[name] = self._failures.get(name, 0) + 1
        seconds = max(pause(failures, self._rng), error.retry_after)
        level = (
            logging.DEBUG if error.reason == "Conflict" else logging.WARNING
        )  # for example of a group that was created again
        log.log(level, "status of %s: %s (again in %.1f s)", name, error, seconds)
        self._wanted.setdefault(name, write)
        self._pausing[name] = asyncio.get_running_loop().create_task(self._again(name, seconds))

    async def _again(self, name: Hashable, seconds: float) -> None:
        await self._clock.sleep(seconds)
        del self._pausing[name]
        if name in self._wanted:
            self._add(name)

    async def close(self) -> None:
        """Drop queued tasks and wait for running ones."""
        for task in self._pausing.values():
            task.cancel()
        if self._looking is not None:
            self._looking.cancel()
        self._wanted.clear()
        await self._urgent.close()
        await self._pool.close()
