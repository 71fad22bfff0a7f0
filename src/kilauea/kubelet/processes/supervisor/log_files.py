"""Logs of containers in the format of Kubernetes' Container Runtime Interface, bounded by rotation.

A line is `2026-01-02T03:04:05.000000000Z stdout F text`; `P` instead of `F` marks a part of a line that continues in
the next. The newest lines are in the file itself, older ones in `FILE.1`, `FILE.2` and so on.
"""

from __future__ import annotations

import contextlib
import errno
import os
import time

LONGEST = 16 * 1024
"""Maximum bytes of a line that are written at once, as in containerd."""


class LogFile:
    """The log of a container.

    Its file is created at the first output: many containers print nothing, and creating a file can take longer than
    running them. A full disk never stops the container: its output is dropped, which the log reports once there is
    space.

    Args:
        path: of the newest file.
        size: size in bytes at which the next file starts.
        files: number of files to keep.

    Raises:
        OSError: the log cannot be written there.
    """

    def __init__(self, path: str, size: int, files: int) -> None:
        self._path, self._limit, self._files = path, size, files
        self._rest: dict[str, bytes] = {}
        self._dropped = 0
        self._cause = ""
        self._torn = False
        self._descriptor = -1
        self._size = 0
        _check_folder(os.path.dirname(path))

    def write(self, stream: str, data: bytes) -> None:
        """Log output of a container; an unfinished line waits for its rest."""
        data = self._rest.pop(stream, b"") + data
        end = data.rfind(b"\n") + 1
        stamp = _stamp()
        text = _lines(data[:end], stamp, stream) if end else b""
        rest = data[end:]
        while len(rest) > LONGEST:
            text += b"%s %s P %s\n" % (stamp, stream.encode(), rest[:LONGEST])
            rest = rest[LONGEST:]
        if rest:
            self._rest[stream] = rest
        if text:
            self._append(text)

    def close(self) -> None:
        """Log unfinished lines as parts, and close."""
        for stream, rest in sorted(self._rest.items()):
            self._append(b"%s %s P %s\n" % (_stamp(), stream.encode(), rest))
        self._rest.clear()
        if self._dropped:
            self._append(b"")
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1

    def _open(self) -> None:
        os.makedirs(os.path.dirname(self._path), exist_ok=True)
        self._descriptor = os.open(self._path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o640)
        self._size = os.fstat(self._descriptor).st_size

    def _append(self, text: bytes) -> None:
        try:
            if self._descriptor < 0:
                self._open()
            if self._size >= self._limit:
                self._rotate()
            if self._torn:
                self._put(b"\n")
                self._torn = False
            if self._dropped:
                notice = f"kilauea: {self._dropped} bytes of the log were dropped: {self._cause}"
                self._put(b"%s stderr F %s\n" % (_stamp(), notice.encode()))
                self._dropped = 0
            self._put(text)
        except OSError as error:
            self._dropped += len(text)
            self._cause = error.strerror or str(error)

    def _put(self, text: bytes) -> None:
        """Write a whole text; raise OSError if the disk is full."""
        view = memoryview(text)
        while view:
            count = os.write(self._descriptor, view)
            self._size += count
            view = view[count:]
            self._torn = bool(view)

    def _rotate(self) -> None:
        os.close(self._descriptor)
        self._descriptor = -1
        for number in range(self._files - 1, 0, -1):
            source = self._path if number == 1 else f"{self._path}.{number - 1}"
            with contextlib.suppress(FileNotFoundError):
                os.replace(source, f"{self._path}.{number}")
        if self._files == 1:
            os.truncate(self._path, 0)
        self._open()


def _check_folder(path: str) -> None:
    """Raise OSError if a path is not a folder, or cannot be written or created."""
    while not os.path.lexists(path) and path != "/":
        path = os.path.dirname(path)
    if not os.path.isdir(path):
        raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR))
    if not os.access(path, os.W_OK | os.X_OK):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))


def _stamp() -> bytes:
    seconds, rest = divmod(time.time_ns(), 1_000_000_000)
    return time.strftime(f"%Y-%m-%dT%H:%M:%S.{rest:09d}Z", time.gmtime(seconds)).encode()


def _lines(data: bytes, stamp: bytes, stream: str) -> bytes:
    """Return the lines of a log for whole lines of output."""
    start = b"%s %s F " % (stamp, stream.encode())
    if not _has_long_line(data):
        # One replacement for all lines: a container that prints as fast as possible must not delay the others.
        return start + data[:-1].replace(b"\n", b"\n" + start) + b"\n"
    part = b"%s %s P " % (stamp, stream.encode())
    text = []
    for line in data[:-1].split(b"\n"):
        while len(line) > LONGEST:
            text += [part, line[:LONGEST], b"\n"]
            line = line[LONGEST:]
        text += [start, line, b"\n"]
    return b"".join(text)


def _has_long_line(data: bytes) -> bool:
    position = 0
    while len(data) - position > LONGEST + 1:
        end = data.rfind(b"\n", position, position + LONGEST + 1)
        if end < 0:
            return True
        position = end + 1
    return False
