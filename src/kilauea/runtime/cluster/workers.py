"""Worker processes for expensive work: `kilauea.apiserver.heavy`, in processes that can be terminated.

A worker is started when it is needed, and receives tasks over a pipe. It ends with this process, when a task uses too
much processor time or memory, and after some time without work. Tasks are limited by processor time, so that fast tasks
do not fail on a busy machine. `python -m kilauea.runtime.cluster.workers` is a worker.
"""

from __future__ import annotations

import asyncio
import resource
import signal
import sys
from contextlib import suppress
from struct import Struct
from typing import BinaryIO

from kilauea.apiserver.heavy import Task, TooHeavy, TooManyWaiting
from kilauea.apiserver.heavy_tasks import TASKS
from kilauea.apiserver.turns import CALLER, TooManyOfUser, Turns

MOST_WORKERS = 2
SECONDS = 10.0
"""Maximum processor time of a task, in seconds."""
IDLE_SECONDS = 60.0
"""Seconds without work after which a worker ends: it uses 30 MB, and half a second of processor time to start."""
PATIENCE = 12
"""Factor by which a task may take longer than that in real time, on a busy machine."""
MOST_WAITING = 32
"""Maximum number of tasks of one user that wait for a worker."""
MEMORY = 1 << 30
"""Maximum bytes of address space of a worker."""
_REQUEST = Struct(">BdI")
"""Number of the task, its maximum processor time, and the number of bytes that follow."""
_HEAD = Struct(">BI")
"""1 for a result and 0 for a failure; and the number of bytes that follow."""
_READY = b"+"
"""The first byte that a worker sends."""
_NAMES: tuple[Task, ...] = tuple(TASKS)


class Workers:
    """Worker processes that are started on demand.

    They serve users in turn, and one of them is always reserved for other users.

    Args:
        most: maximum number of workers.
        seconds: maximum processor time of a task.
        most_waiting: maximum number of waiting tasks of one user.
        idle_seconds: seconds without work after which a worker ends.
    """

    def __init__(
        self,
        most: int = MOST_WORKERS,
        seconds: float = SECONDS,
        most_waiting: int = MOST_WAITING,
        idle_seconds: float = IDLE_SECONDS,
    ) -> None:
        self._seconds = seconds
        self._idle_seconds = idle_seconds
        self._turns = Turns(most, max(most - 1, 1), most_waiting)
        self._idle: dict[asyncio.subprocess.Process, asyncio.TimerHandle] = {}
        """Idle workers, and the timers that end them."""
        self._ending: set[asyncio.Task[None]] = set()

    async def run(self, task: Task, data: bytes) -> bytes:
        """Return the result of a task.

        Raises:
            TooHeavy: it used too much time or memory, or too many tasks of the user are waiting.
        """
        user = CALLER.get()
        try:
            await self._turns.take(user)
        except TooManyOfUser:
            raise TooManyWaiting(
                "the server is already reading too many of your large requests: try again later"
            ) from None
        try:
            return await self._run(task, data)
        finally:
            self._turns.give_back(user)

    async def _run(self, task: Task, data: bytes) -> bytes:
        worker = self._take_idle() or await _start()
        try:
            async with asyncio.timeout(self._seconds * PATIENCE):
                result = await _ask(worker, task, data, self._seconds)
        except (TimeoutError, OSError, EOFError) as error:
            await _end(worker)
            raise TooHeavy(
                f"the request needs more than {self._seconds:g} seconds of processor time or too much memory to "
                f"{task}: send or ask for less at a time"
            ) from error
        except BaseException:
            await _end(worker)
            raise
        self._idle[worker] = asyncio.get_running_loop().call_later(self._idle_seconds, self._retire, worker)
        return result

    def _take_idle(self) -> asyncio.subprocess.Process | None:
        """The worker that has been idle for the shortest time; so the others can end."""
        if not self._idle:
            return None
        worker, timer = self._idle.popitem()
        timer.cancel()
        return worker

    def _retire(self, worker: asyncio.subprocess.Process) -> None:
        """End a worker that has been idle for too long."""
        del self._idle[worker]
        ending = asyncio.ensure_future(_end(worker))
        self._ending.add(ending)
        ending.add_done_callback(self._ending.discard)

    async def close(self) -> None:
        """End all idle workers."""
        while (worker := self._take_idle()) is not None:
            await _end(worker)
        await asyncio.gather(*self._ending)


async def _start() -> asyncio.subprocess.Process:
    """Start a worker and wait until it is ready; on a busy machine, that must not count as time of the task.

    A signal to this process group, such as Ctrl-C, does not reach it.
    """
    pipe, nothing = asyncio.subprocess.PIPE, asyncio.subprocess.DEVNULL
    worker = await asyncio.create_subprocess_exec(
        sys.executable, "-m", __spec__.name, stdin=pipe, stdout=pipe, stderr=nothing, start_new_session=True
    )
    try:
        assert worker.stdout is not None
        await worker.stdout.readexactly(len(_READY))
    except BaseException:
        await _end(worker)
        raise
    return worker


async def _ask(worker: asyncio.subprocess.Process, task: Task, data: bytes, seconds: float) -> bytes:
    """Run a task on a worker within a processor time."""
    assert worker.stdin is not None
    assert worker.stdout is not None
    worker.stdin.write(_REQUEST.pack(_NAMES.index(task), seconds, len(data)))
    worker.stdin.write(data)
    await worker.stdin.drain()
    good, size = _HEAD.unpack(await worker.stdout.readexactly(_HEAD.size))
    result = await worker.stdout.readexactly(size)
    if not good:
        raise EOFError(result.decode(errors="replace"))
    return result


async def _end(worker: asyncio.subprocess.Process) -> None:
    """End a worker, even while it works."""
    with suppress(ProcessLookupError):
        worker.kill()
    await asyncio.shield(worker.wait())


def work(requests: BinaryIO, answers: BinaryIO) -> None:
    """Report that this worker is ready, and run tasks until the input ends.

    The signal of the processor-time timer ends the process, even inside a library that does not return.
    """
    answers.write(_READY)
    answers.flush()
    while head := requests.read(_REQUEST.size):
        number, seconds, size = _REQUEST.unpack(head)
        signal.setitimer(signal.ITIMER_PROF, seconds)
        try:
            good, result = 1, TASKS[_NAMES[number]](requests.read(size))
        except (Exception, MemoryError) as error:
            good, result = 0, f"{type(error).__name__}: {error}".encode()
        signal.setitimer(signal.ITIMER_PROF, 0)
        answers.write(_HEAD.pack(good, len(result)) + result)
        answers.flush()


if __name__ == "__main__":
    with suppress(OSError, ValueError):
        resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    with suppress(BrokenPipeError):
        work(sys.stdin.buffer, sys.stdout.buffer)
