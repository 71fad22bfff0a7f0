"""Folders for what containers write to their roots, used again by others where nothing was written.

Most containers write to their volumes alone, and on many disks it takes longer to make and remove five folders than to
start a process.
"""

from __future__ import annotations

import os
import time
from collections import deque

from kilauea.kubelet.processes.supervisor.cleaner import Cleaner, remove_tree

_REST = 1.0
"""Seconds for which a folder rests: the kernel lets go of an overlay some time after its last process has ended."""
_MOST = 512
"""Folders that are kept for others."""
_UPPER_MODE = 0o755
PARTS = {"upper": _UPPER_MODE, "work": 0o700, "tmp": 0o700, "root": 0o700}
"""Folders of a container. `upper` is its root folder, which other users see, unlike the supervisor's files."""


class Scratch:
    """The folders of running containers, and of those whose end was not taken note of yet.

    Args:
        folder: in which they are.
        cleaner: removes them.
    """

    def __init__(self, folder: str, cleaner: Cleaner) -> None:
        self._folder, self._cleaner = folder, cleaner
        self._taken: dict[str, str] = {}
        self._spare: deque[tuple[float, str]] = deque()
        self._number = 0

    def take(self, id: str) -> str:
        """Return a folder for a container, with all `PARTS`."""
        if self._spare and self._spare[0][0] + _REST <= time.monotonic():
            folder = self._spare.popleft()[1]
        else:
            self._number += 1
            folder = f"{self._folder}/{os.getpid()}-{self._number}"
            os.mkdir(folder, 0o700)
            for name, mode in PARTS.items():
                os.mkdir(f"{folder}/{name}", mode)
            os.chmod(f"{folder}/upper", _UPPER_MODE)  # whatever the umask
        self._taken[id] = folder
        return folder

    def give_back(self, id: str) -> None:
        """Let another container have the folder of one that has ended, if it is as it was."""
        folder = self._taken.get(id)
        if folder is not None and len(self._spare) < _MOST and _is_untouched(folder):
            del self._taken[id]
            self._spare.append((time.monotonic(), folder))

    def remove(self, id: str, *, later: bool = True) -> None:
        """Remove the folder of a container; no error if it has none."""
        folder = self._taken.pop(id, None)
        if folder is not None:
            self._cleaner.remove(folder) if later else remove_tree(folder)

    def remove_others(self) -> None:
        """Remove what earlier supervisors have left."""
        used = {*self._taken.values(), *(folder for _, folder in self._spare)}
        found = [f"{self._folder}/{name}" for name in sorted(os.listdir(self._folder))]
        self._cleaner.remove(*(folder for folder in found if folder not in used))


def _is_untouched(folder: str) -> bool:
    own = os.geteuid(), os.getegid()
    try:
        for name in ("upper", "tmp"):
            path = f"{folder}/{name}"
            seen = os.stat(path)
            if os.listdir(path) or (seen.st_uid, seen.st_gid) != own or os.listxattr(path):
                return False
            if name == "upper" and seen.st_mode & 0o7777 != _UPPER_MODE:
                return False
        return True
    except OSError:
        return False
