"""Output of copies of a job, and messages about it, written without blocking the event loop.

A terminal may be slow or stopped. Then a writer waits in a separate thread, no more output is read, and signals are
still handled.
"""

from __future__ import annotations

import asyncio
import os
import sys
from concurrent.futures import ThreadPoolExecutor
from functools import partial

from kilauea.api.printing import printable

MOST_HELD = 64 * 1024
"""Maximum bytes of an unfinished line that are held back for its label; longer lines are split."""


class Printer:
    """Writes to standard output and standard error.

    Args:
        labelled: True to prefix each line with the label of its copy.
        quiet: True to print errors only, no progress.
    """

    def __init__(self, *, labelled: bool = False, quiet: bool = False) -> None:
        self._labelled, self._quiet = labelled, quiet
        self._held: dict[tuple[str, bool], bytes] = {}
        self._threads = {error: ThreadPoolExecutor(1, "stderr" if error else "stdout") for error in (False, True)}
        self.is_writing = 0
        """Number of writes in progress."""
        self.closed = asyncio.Event()
        """Set when standard output is no longer read; further output is dropped."""

    @staticmethod
    def is_one_place() -> bool:
        """True if standard output and standard error are the same terminal, file or pipe."""
        try:
            return os.path.sameopenfile(sys.stdout.fileno(), sys.stderr.fileno())
        except (OSError, ValueError):
            return False

    async def output(self, label: str, data: bytes, *, error: bool = False) -> None:
        """Write some output of a copy."""
        if self._labelled:
            data = self._with_labels(label, data, error)
        await self._write(data, error=error)

    async def end_output(self, label: str) -> None:
        """Write the last line of a copy, if it was unfinished."""
        for error in (False, True):
            if rest := self._held.pop((label, error), b""):
                await self._write(_lines(label, rest + b"\n"), error=error)

    async def progress(self, text: str) -> None:
        """Print a message about the job, unless the printer is quiet."""
        if not self._quiet:
            await self.error(text)

    async def error(self, text: str) -> None:
        """Print a message that is always shown."""
        await self._write(f"{printable(text)}\n".encode(errors="replace"), error=True)

    def _with_labels(self, label: str, data: bytes, error: bool) -> bytes:
        whole, _, rest = (self._held.pop((label, error), b"") + data).rpartition(b"\n")
        if len(rest) > MOST_HELD:
            whole, rest = (whole + b"\n" if whole else b"") + rest, b""
        if rest:
            self._held[label, error] = rest
        return _lines(label, whole + b"\n") if whole or b"\n" in data else b""

    async def _write(self, data: bytes, *, error: bool) -> None:
        if not data or (self.closed.is_set() and not error):
            return
        self.is_writing += 1
        try:
            await asyncio.get_running_loop().run_in_executor(self._threads[error], partial(_write, data, error=error))
        except (OSError, ValueError):  # ValueError: the stream is closed
            if not error:
                self.closed.set()
        finally:
            self.is_writing -= 1


def _write(data: bytes, *, error: bool) -> None:
    stream = (sys.stderr if error else sys.stdout).buffer
    stream.write(data)
    stream.flush()


def _lines(label: str, text: bytes) -> bytes:
    """Whole lines, each with its label."""
    start = f"{label}: ".encode()
    return b"".join(start + line for line in text.splitlines(keepends=True))
