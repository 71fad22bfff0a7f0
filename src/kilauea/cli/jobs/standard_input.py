"""Standard input of this command, forwarded to the copies of a job, as with `srun`: each gets all of it.

It is read once all copies are attached, as they start together. A copy that starts later, after a restart of the job,
finds its input at the end.
"""

from __future__ import annotations

import asyncio
import os
import select
import signal
import stat
import threading
import time
from collections.abc import Coroutine
from typing import TYPE_CHECKING, Any

from kilauea.api.ports import ApiError
from kilauea.cli.jobs.printer import Printer

if TYPE_CHECKING:
    from kilauea.cli.jobs.copies import Copy
    from kilauea.client.container_input import Attachment, ContainerInput

STDIN = 0
_AT_ONCE, _MOST_WAITING = 64 * 1024, 4
"""Bytes of a chunk, and number of chunks to read ahead."""
_LOOK_SECONDS = 0.2
"""Seconds between two checks if this command is in the foreground of its terminal, so that it may read."""
_FORBIDDEN = (401, 403)


def has_input(descriptor: int = STDIN) -> bool:
    """Return True unless standard input is closed or `/dev/null`."""
    try:
        seen = os.fstat(descriptor)
    except OSError:
        return False
    return not (stat.S_ISCHR(seen.st_mode) and seen.st_rdev == os.stat(os.devnull).st_rdev)


class StandardInput:
    """Forwards standard input to the copies of a job.

    Args:
        containers: connects to their inputs.
        copies: number of copies that start together.
        printer: prints errors.
        descriptor: the descriptor to read.
    """

    def __init__(self, containers: ContainerInput, copies: int, printer: Printer, descriptor: int = STDIN) -> None:
        self._containers, self._copies, self._printer, self._descriptor = containers, copies, printer, descriptor
        self._attached: list[Attachment] = []
        self._tried = 0
        self._tasks: set[asyncio.Task[None]] = set()
        self._is_read = self._is_told = False

    def begin(self, copy: Copy) -> None:
        """Handle a copy that has started."""
        self._start(self._serve(copy))

    async def stop(self) -> None:
        """Stop forwarding."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def _start(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _serve(self, copy: Copy) -> None:
        """Attach to a copy until it ends."""
        try:
            async with self._containers.attached(copy.key, copy.container) as attachment:
                if self._is_read:
                    await attachment.end()
                else:
                    self._attached.append(attachment)
                self._count()
                try:
                    await attachment.closed()
                finally:
                    if attachment in self._attached:
                        self._attached.remove(attachment)
        except ApiError as error:
            # A copy that has already ended, or is simulated, needs no input.
            if error.code in _FORBIDDEN and not self._is_told:
                self._is_told = True
                await self._printer.error(f"the input of {copy.key.name} cannot be written: {error}")
            self._count()

    def _count(self) -> None:
        """Count an attached copy, or one that cannot be attached; with the last one, reading starts."""
        self._tried += 1
        if self._tried >= self._copies and not self._is_read:
            self._is_read = True
            self._start(self._pass_on())

    async def _pass_on(self) -> None:
        reader = _Reader(self._descriptor)
        while data := await reader.read():
            await asyncio.gather(*(each.write(data) for each in self._attached))
        await asyncio.gather(*(each.end() for each in self._attached))


class _Reader:
    """Reads in a thread, as files do not support waiting. The thread may still wait when this command ends."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._loop = asyncio.get_running_loop()
        self._pieces: asyncio.Queue[bytes] = asyncio.Queue()
        self._slots = threading.Semaphore(_MOST_WAITING)
        if os.isatty(descriptor):
            signal.signal(signal.SIGTTIN, signal.SIG_IGN)  # which stops commands that read in the background
        threading.Thread(target=self._run, name="stdin", daemon=True).start()

    async def read(self) -> bytes:
        """Return the next chunk; empty at the end."""
        data = await self._pieces.get()
        self._slots.release()
        return data

    def _run(self) -> None:
        data = b"-"
        while data:
            self._slots.acquire()
            data = self._next()
            try:
                self._loop.call_soon_threadsafe(self._pieces.put_nowait, data)
            except RuntimeError:  # the loop has ended
                return

    def _next(self) -> bytes:
        while True:
            try:
                if not self._waits_in_background():
                    return os.read(self._descriptor, _AT_ONCE)
            except BlockingIOError:
                select.select([self._descriptor], [], [])
            except OSError:
                if not self._waits_in_background():
                    return b""
            time.sleep(_LOOK_SECONDS)

    def _waits_in_background(self) -> bool:
        return os.isatty(self._descriptor) and os.tcgetpgrp(self._descriptor) != os.getpgrp()
