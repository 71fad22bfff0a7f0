"""The states of containers, in an append-only file, so that no end is lost with the process that saw it.

A disk may take longer to make a file than to start a process, so one file holds all states: a line for each change, of
which the last one counts, and one for each container that is removed. When most of the lines are old, it is written
again.
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
from collections.abc import Iterator
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any


@dataclass(slots=True)
class Record:
    """A container; the first fields are those of `container_runtime.ContainerState`.

    Attributes:
        ticks: when its first process was started, in clock ticks since the boot.
        boot: the boot of the machine in which it was started.
        supervisor: process id of the one that started it.
    """

    id: str
    pod: str
    name: str
    attempt: int
    state: str = "running"
    pid: int = 0
    started: int = 0
    finished: int = 0
    exit_code: int = 0
    signal: int = 0
    reason: str = ""
    message: str = ""
    ticks: int = 0
    boot: str = ""
    supervisor: int = 0

    def as_dict(self) -> dict[str, object]:
        """Return its fields; far cheaper than `asdict`, which copies deeply."""
        return {name: getattr(self, name) for name in _NAMES}


_NAMES = tuple(item.name for item in fields(Record))
CONTAINERS, STATES = "containers", "states"
"""Names of the folder and of its file."""
_FEW, _OLD = 2000, 8
"""Lines of a file that is never written again, and lines for each container from which on it is."""


class Records:
    """The records of one folder.

    Args:
        folder: where the file is. Earlier versions have kept a file for each container there, which are read, too.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        folder.mkdir(mode=0o700, exist_ok=True)
        self._path = folder / STATES
        self._descriptor = -1
        self._lines: dict[str, bytes] = {}
        """The last line of each container that was not removed."""
        self._count = 0
        """Lines in the file."""
        self._torn = True
        """True if the last line may lack its end."""

    def load(self) -> list[Record]:
        """Return all records that can be read, in the order of their ids, and write the file again with them.

        Raises:
            OSError: the file is there and cannot be opened, or is a folder; a new one would forget its containers.
        """
        with contextlib.suppress(FileNotFoundError), self._path.open("rb"):
            pass
        old = sorted(self._folder.glob("*.json"))
        records = read_records(*old, self._path)
        self._lines = {record.id: _line(record.as_dict()) for record in records}
        self._count = len(self._lines)
        with contextlib.suppress(OSError):
            self._rewrite()
            for path in old:
                path.unlink()
        return records

    def save(self, record: Record) -> None:
        """Write a record; raise OSError if the disk does not take it."""
        line = self._lines[record.id] = _line(record.as_dict())
        self._append(line)

    def remove(self, id: str) -> None:
        """Remove the record of a container. It comes back with the next supervisor if the disk does not take that."""
        if self._lines.pop(id, None) is not None:
            with contextlib.suppress(OSError):
                self._append(_line({"removed": id}))

    def _append(self, line: bytes) -> None:
        if self._count >= max(_FEW, _OLD * len(self._lines)):
            with contextlib.suppress(OSError):
                self._rewrite()
                return
        if self._descriptor < 0:
            self._open()
        text = b"\n" + line if self._torn else line
        self._torn = True
        if os.write(self._descriptor, text) < len(text):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        self._torn = False
        self._count += 1

    def _rewrite(self) -> None:
        """Write the file again with what is known; the old one stays if the disk does not take that."""
        draft = self._folder / "states.new"
        draft.write_bytes(b"".join(self._lines.values()))
        os.replace(draft, self._path)
        if self._descriptor >= 0:
            os.close(self._descriptor)
        self._open()
        self._count, self._torn = len(self._lines), False

    def _open(self) -> None:
        self._descriptor = os.open(self._path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)


def read_records(*paths: Path) -> list[Record]:
    """Return all records in files that can be read, in the order of their ids; the last line about each counts."""
    data: dict[str, dict[str, Any]] = {}
    for line in _lines_of(*paths):
        with contextlib.suppress(ValueError, TypeError, KeyError):
            found = json.loads(line)
            if "removed" in found:
                data.pop(found["removed"], None)
            else:
                data[found["id"]] = found
    records = []
    for id in sorted(data):
        with contextlib.suppress(TypeError):
            records.append(Record(**{key: value for key, value in data[id].items() if key in _NAMES}))
    return records


def _lines_of(*paths: Path) -> Iterator[bytes]:
    """Yield the lines of those files that can be read."""
    for path in paths:
        with contextlib.suppress(OSError):
            yield from path.read_bytes().split(b"\n")


def _line(data: dict[str, object]) -> bytes:
    return json.dumps(data).encode() + b"\n"


def boot_id() -> str:
    """Return the id of this boot of the machine."""
    return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
