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
from kilauea.client.backoff import pause

log = logging.getLogger(__name__)

Work = Callable[[], Awaitable[None]]


class WorkerPool:
    """Runs tasks in order of arrival, at most `size` at a time."""

    def __init__(self, size: int) -> None:
        self._size = size
        self._waiting: deque[Work] = deque()
        self._tasks: set[asyncio.Task[None]] = set()

    def __len__(self) -> int:
        """Tasks that are queued or running."""
        return len(self._waiting) + len(self._tasks)

    def add(self, work: Work) -> None:
        """Queue a task."""
        self._waiting.append(work)
        if len(self._tasks) < self._size:
            # A worker outlives the task that adds the first work, and so is not part of that one's trace.
            task = asyncio.get_running_loop().create_task(self._work(), context=Context())
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _work(self) -> None:
        while self._waiting:
            work = self._waiting.popleft()
            try:
                await work()
            except Exception:
                log.exception("a task failed")

    async def close(self) -> None:
        """Drop queued tasks and wait for running ones."""
        self._waiting.clear()
        await asyncio.gather(*self._tasks, return_exceptions=True)


@dataclass(frozen=True, slots=True)
class Write:
    """The wanted content of an object, and the task that writes it."""

    content: Any
    work: Work


class Writes:
    """Writes statuses: only the newest of each object, one write at a time, with retries after a pause.

    A write whose content is already being written is skipped.
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
        """Number of objects that are not written yet."""
        return len(self._wanted.keys() | self._busy.keys() | self._pausing.keys())

    def put(self, name: Hashable, content: Any, work: Work) -> None:
        """Queue the write of an object; `work` raises `ApiError` if it fails."""
        write = Write(content, work)
        newest = self._wanted.get(name) or self._busy.get(name)
        if newest is not None and newest.content == content:
            return
        known = name in self._wanted
        self._wanted[name] = write
        if not (known or name in self._busy or name in self._pausing):
            self._pool.add(lambda: self._write(name))

    def busy(self, name: Hashable) -> bool:
        """True if an object is queued or being written."""
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
        """Retry later, unless the object is gone or newer content is wanted by then."""
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
        """Drop queued tasks and wait for running ones."""
        for task in self._pausing.values():
            task.cancel()
        self._wanted.clear()
        await self._pool.close()
