"""`TerminationLogs`: the files to which containers write their termination messages.

Each container has one, and few write to it. On many disks, creating a file takes longer than starting a process, so an
unused one is renamed for the next container.
"""

from __future__ import annotations

import os
from collections import defaultdict
from contextlib import suppress
from pathlib import Path

_MODE = 0o666
_SPARE = "spare-"
_MOST = 256
"""Maximum number of empty files to keep for other containers."""


class TerminationLogs:
    """The files of all pods of this machine.

    Args:
        folder: their parent folder; need not exist.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = str(folder)
        self._of_pods: dict[str, set[str]] = defaultdict(set)
        """Names of files by the uids of their pods."""
        self._spare: list[str] = []
        self._number = 0
        for name in sorted(os.listdir(folder)) if folder.is_dir() else ():
            if name.startswith(_SPARE):
                with suppress(OSError):
                    os.unlink(f"{folder}/{name}")
            else:
                self._of_pods[name.partition("_")[0]].add(name)

    def path(self, uid: str, container: str, attempt: int) -> Path:
        """Return the path of the file of a container."""
        return Path(self._folder, _name(uid, container, attempt))

    def make(self, uid: str, container: str, attempt: int) -> Path:
        """Return the file of a container, which is created if missing.

        Raises:
            OSError: it cannot be made.
        """
        name = _name(uid, container, attempt)
        path = f"{self._folder}/{name}"
        if name not in self._of_pods.get(uid, ()) or not os.path.exists(path):
            if self._spare:
                os.rename(self._spare.pop(), path)
            else:
                os.makedirs(self._folder, 0o700, exist_ok=True)
                os.close(os.open(path, os.O_CREAT | os.O_WRONLY | os.O_CLOEXEC, _MODE))
                os.chmod(path, _MODE)  # regardless of the umask
            self._of_pods[uid].add(name)
        return Path(path)

    def pods(self) -> list[str]:
        """Return the uids of pods with files."""
        return sorted(self._of_pods)

    def release(self, uid: str) -> None:
        """Remove or reuse the files of a pod whose containers have ended."""
        for name in sorted(self._of_pods.pop(uid, ())):
            path = f"{self._folder}/{name}"
            with suppress(OSError):
                if len(self._spare) < _MOST and _is_untouched(path):
                    self._number += 1
                    spare = f"{self._folder}/{_SPARE}{self._number}"
                    os.rename(path, spare)
                    self._spare.append(spare)
                else:
                    os.unlink(path)


def _name(uid: str, container: str, attempt: int) -> str:
    return f"{uid}_{container}_{attempt}"


def _is_untouched(path: str) -> bool:
    seen = os.lstat(path)
    own = (seen.st_uid, seen.st_gid) == (os.geteuid(), os.getegid())
    return own and seen.st_size == 0 and seen.st_mode & 0o7777 == _MODE and not os.listxattr(path)
