"""The states of containers, in an append-only file, so that no end is lost with the process that saw it.

Creating a file may take longer than starting a process, so one file contains all states: a line for each change, of
which the last one applies, and one for each removed container. When most lines are outdated, the file is rewritten.
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
        ticks: start time of its first process, in clock ticks since the boot.
        boot: the boot id of the machine at its start.
        supervisor: process id of the supervisor that started it.
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
"""Number of lines up to which the file is never rewritten, and lines per container above which it is."""


class Records:
    """The records of one folder.

    Args:
        folder: folder of the file. Earlier versions kept a file for each container there, which are read, too.
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
        """True if the last line may be incomplete."""

    def load(self) -> list[Record]:
        """Return all valid records, in the order of their ids, and rewrite the file with them.

        Raises:
            OSError: the file exists but cannot be opened, or is a folder; a new one would lose its containers.
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
        """Write a record; raise OSError if the disk is full."""
        line = self._lines[record.id] = _line(record.as_dict())
        self._append(line)

    def remove(self, id: str) -> None:
        """Remove the record of a container. If this cannot be written, it reappears with the next supervisor."""
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
        """Rewrite the file with the known records; on failure, the old one stays."""
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
    """Return all valid records in files, in the order of their ids; the last line of each applies."""
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
    """Yield the lines of the readable files."""
    for path in paths:
        with contextlib.suppress(OSError):
            yield from path.read_bytes().split(b"\n")


def _line(data: dict[str, object]) -> bytes:
    return json.dumps(data).encode() + b"\n"


def boot_id() -> str:
    """Return the id of this boot of the machine."""
    return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
