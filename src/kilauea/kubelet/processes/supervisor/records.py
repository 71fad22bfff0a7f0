"""The states of containers, in a file for each, so that no end is lost with the process that saw it."""

from __future__ import annotations

import contextlib
import json
import os
from dataclasses import dataclass, fields
from pathlib import Path


@dataclass(slots=True)
class Record:
    """A container; the first fields are those of `container_runtime.ContainerState`.

    Attributes:
        ticks: when its first process was started, in clock ticks since the boot.
        boot: the boot of the machine in which it was started.
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

    def as_dict(self) -> dict[str, object]:
        """Return its fields; far cheaper than `asdict`, which copies deeply."""
        return {name: getattr(self, name) for name in _NAMES}


_NAMES = tuple(item.name for item in fields(Record))


class Records:
    """The records of one folder.

    Args:
        folder: where the files are.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        folder.mkdir(mode=0o700, exist_ok=True)

    def load(self) -> list[Record]:
        """Return all records that can be read, in the order of their ids."""
        found = []
        for path in sorted(self._folder.glob("*.json")):
            with contextlib.suppress(OSError, ValueError, TypeError):
                data = json.loads(path.read_text())
                found.append(Record(**{key: value for key, value in data.items() if key in _NAMES}))
        return found

    def save(self, record: Record) -> None:
        """Write a record; raise OSError if the disk does not take it."""
        path = self.path(record.id)
        draft = f"{path}.new"
        with open(draft, "w") as file:
            file.write(json.dumps(record.as_dict()))
        os.replace(draft, path)

    def remove(self, id: str) -> None:
        """Remove the record of a container."""
        with contextlib.suppress(FileNotFoundError):
            os.unlink(self.path(id))

    def path(self, id: str) -> str:
        """Return the file with the record of a container."""
        return f"{self._folder}/{id}.json"


def boot_id() -> str:
    """Return the id of this boot of the machine."""
    return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
