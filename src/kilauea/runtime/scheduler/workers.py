"""Work on the API with bounded concurrency: so many pieces at a time, and what fails waits outside of the crew."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable, Hashable
from dataclasses import dataclass
from random import Random
from typing import Any

from kilauea.api.ports import ApiError, Clock
from kilauea.client.backoff import pause

log = logging.getLogger(__name__)

Work = Callable[[], Awaitable[None]]


class WorkerPool:
    """Does pieces of work in the order in which they come, at most `size` at a time."""

    def __init__(self, size: int) -> None:
        self._size = size
        self._waiting: deque[Work] = deque()
        self._tasks: set[asyncio.Task[None]] = set()

    def __len__(self) -> int:
        """Pieces that wait or are under way."""
        return len(self._waiting) + len(self._tasks)

    def add(self, work: Work) -> None:
        """Have something done."""
        self._waiting.append(work)
        if len(self._tasks) < self._size:
            task = asyncio.get_running_loop().create_task(self._work())
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _work(self) -> None:
        while self._waiting:
            work = self._waiting.popleft()
            try:
                await work()
            except Exception:
                log.exception("a piece of work failed")

    async def close(self) -> None:
        """Drop what waits, and wait for what is under way."""
        self._waiting.clear()
        await asyncio.gather(*self._tasks, return_exceptions=True)


@dataclass(frozen=True, slots=True)
class Write:
    """The content that an object is to have, and how to write it."""

    content: Any
    work: Work


class Writes:
    """Writes of statuses: of each object only the newest, never two at a time, and failed ones again after a pause.

    What is written is told apart by its content, so that asking again for what is under way asks for nothing.
    """

    def __init__(self, clock: Clock, rng: Random, size: int) -> None:
        self._clock = clock
        self._rng = rng
        self._pool = WorkerPool(size)
        self._wanted: dict[Hashable, Write] = {}
        self._busy: dict[Hashable, Write] = {}
        self._failures: dict[Hashable, int] = {}
        self._pausing: dict[Hashable, asyncio.Task[None]] = {}

    def __len__(self) -> int:
        """Objects that are not as they should be."""
        return len(self._wanted.keys() | self._busy.keys() | self._pausing.keys())

    def put(self, name: Hashable, content: Any, work: Work) -> None:
        """Have an object written; `work` raises `ApiError` if that fails."""
        write = Write(content, work)
        newest = self._wanted.get(name) or self._busy.get(name)
        if newest is not None and newest.content == content:
            return
        known = name in self._wanted
        self._wanted[name] = write
        if not (known or name in self._busy or name in self._pausing):
            self._pool.add(lambda: self._write(name))

    def busy(self, name: Hashable) -> bool:
        """Whether an object is still to be written, or just being written."""
        return name in self._wanted or name in self._busy

    async def _write(self, name: Hashable) -> None:
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
                self._pool.add(lambda: self._write(name))

    def _failed(self, name: Hashable, write: Write, error: ApiError) -> None:
        """Try again later, unless the object is gone or something newer is wanted by then."""
        if error.code == 404:
            self._failures.pop(name, None)
            return
        failures = self._failures[name] = self._failures.get(name, 0) + 1
        seconds = max(pause(failures, self._rng), error.retry_after)
        log.warning("status of %s: %s (again in %.1f s)", name, error, seconds)
        self._wanted.setdefault(name, write)
        self._pausing[name] = asyncio.get_running_loop().create_task(self._again(name, seconds))

    async def _again(self, name: Hashable, seconds: float) -> None:
        await self._clock.sleep(seconds)
        del self._pausing[name]
        self._pool.add(lambda: self._write(name))

    async def close(self) -> None:
        """Drop what waits, and wait for what is under way."""
        for task in self._pausing.values():
            task.cancel()
        self._wanted.clear()
        await self._pool.close()
