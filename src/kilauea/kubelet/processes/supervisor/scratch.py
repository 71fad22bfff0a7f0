"""Folders for the writes of containers to their roots."""

from __future__ import annotations

import os

from kilauea.kubelet.processes.supervisor.cleaner import Cleaner, remove_tree

PARTS = {"upper": 0o755, "work": 0o700, "dev": 0o755, "dev-work": 0o700, "tmp": 0o700, "root": 0o700}
"""Folders of a root, with their modes. Containers, including those of other users, see `upper` as `/` and `dev` as
`/dev`."""


class Scratch:
    """The folders in use.

    Args:
        folder: the parent folder.
        cleaner: removes them.
    """

    def __init__(self, folder: str, cleaner: Cleaner) -> None:
        self._folder, self._cleaner = folder, cleaner
        self._taken: set[str] = set()
        self._number = 0

    def take(self) -> str:
        """Return a new folder with all `PARTS`."""
        self._number += 1
        folder = f"{self._folder}/{os.getpid()}-{self._number}"
        os.mkdir(folder, 0o700)
        for name, mode in PARTS.items():
            os.mkdir(f"{folder}/{name}", mode)
        for name in ("upper", "dev"):
            os.chmod(f"{folder}/{name}", PARTS[name])  # regardless of the umask
        self._taken.add(folder)
        return folder

    def remove(self, folder: str, *, later: bool = True) -> None:
        """Remove a folder, with everything in it."""
        self._taken.discard(folder)
        self._cleaner.remove(folder) if later else remove_tree(folder)

    def remove_others(self) -> None:
        """Remove folders of earlier supervisors."""
        found = [f"{self._folder}/{name}" for name in sorted(os.listdir(self._folder))]
        self._cleaner.remove(*(folder for folder in found if folder not in self._taken))
