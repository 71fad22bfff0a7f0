"""A process that removes files of containers, because removing a folder with former mounts can take long.

It is a child of the supervisor, which writes paths to a pipe, each ended by a zero. When the supervisor ends, or is
killed, it completes its work, ends the remaining processes of the supervisor's containers, and ends, too.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
from collections.abc import Callable

from kilauea.kubelet.processes.supervisor.loop import Loop, would_block

_AGAIN = 0.1
"""Seconds until paths that did not fit in the pipe are written again."""
_AT_ONCE = 64 * 1024
_PARTS = ("work/work", "work", "upper", "tmp", "root", "")
"""Folders of a container without any output, the innermost first."""


class Cleaner:
    """Removes files and folders asynchronously.

    Args:
        loop: the event loop, which knows the supervisor's child processes.
        at_end: called in the process of the cleaner when the supervisor has ended.
    """

    def __init__(self, loop: Loop, at_end: Callable[[], None]) -> None:
        self._loop, self._at_end = loop, at_end
        self._pipe = -1
        self._waiting = b""

    def remove(self, *paths: str) -> None:
        """Remove files, or folders with everything in them; no error if they do not exist."""
        if not paths:
            return
        due = not self._waiting
        self._waiting += b"".join(os.fsencode(path) + b"\0" for path in paths)
        if due:
            self._write()

    def _write(self) -> None:
        self.start()
        try:
            while self._waiting:
                self._waiting = self._waiting[os.write(self._pipe, self._waiting[:_AT_ONCE]) :]
        except OSError as error:
            if not would_block(error):  # the process has ended: another one starts with these paths
                self._waiting = self._waiting[self._waiting.find(b"\0") + 1 :]
                os.close(self._pipe)
                self._pipe = -1
            self._loop.after(_AGAIN, self._write)

    def start(self) -> None:
        """Start the process, unless it runs."""
        if self._pipe >= 0:
            return
        reader, writer = os.pipe2(os.O_CLOEXEC)
        pid = os.fork()
        if not pid:
            try:
                _serve(reader, self._at_end)
            finally:
                os._exit(0)
        os.close(reader)
        os.set_blocking(writer, False)
        self._pipe = writer
        self._loop.at_exit(pid, lambda status: self._ended(writer))

    def _ended(self, writer: int) -> None:
        if self._pipe == writer:
            os.close(writer)
            self._pipe = -1
            self.start()


def _serve(reader: int, at_end: Callable[[], None]) -> None:
    """Remove the paths in the pipe, until it ends."""
    signal.set_wakeup_fd(-1)
    for number in (signal.SIGCHLD, signal.SIGTERM):
        signal.signal(number, signal.SIG_DFL)
    # These include the lock of the folder, for the next supervisor, and output of containers.
    os.closerange(3, reader)
    os.closerange(reader + 1, os.sysconf("SC_OPEN_MAX"))
    rest = b""
    os.setsid()
    while data := os.read(reader, _AT_ONCE):
        *paths, rest = (rest + data).split(b"\0")
        for path in paths:
            with contextlib.suppress(OSError):
                _remove(os.fsdecode(path))
    at_end()


def _remove(path: str) -> None:
    try:
        os.unlink(path)
        return
    except FileNotFoundError:
        return
    except OSError:  # a folder
        pass
    try:
        for part in _PARTS:
            with contextlib.suppress(FileNotFoundError):
                os.rmdir(f"{path}/{part}")
    except OSError:
        remove_tree(path)


def remove_tree(folder: str) -> None:
    """Remove a folder and everything in it, including folders that their owner cannot read, as left by overlays."""
    for path, folders, _ in os.walk(folder):
        for name in folders:
            if not os.path.islink(os.path.join(path, name)):
                with contextlib.suppress(OSError):
                    os.chmod(os.path.join(path, name), 0o700)
    shutil.rmtree(folder, ignore_errors=True)
