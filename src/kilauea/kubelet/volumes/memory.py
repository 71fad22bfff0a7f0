"""Empty folders in memory: each has its own file system (tmpfs) with a size, if this process may mount.

The folder of a pod is a file system, too, whose mounts are not copied with the surrounding ones (`unbindable`).
Otherwise every later container would have a copy of its mounts, and keep their memory in use.
"""

from __future__ import annotations

import ctypes
import os
from contextlib import suppress
from pathlib import Path

from kilauea.kubelet.removal import remove_later

_NO_SUID, _NO_DEVICES, _UNBINDABLE = 2, 4, 1 << 17
_DETACH = 2
_MODE = 0o1777
_libc = ctypes.CDLL(None, use_errno=True)


class MemoryFolders:
    """The empty folders in memory of pods.

    Args:
        folder: a file system in memory.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    @property
    def exist(self) -> bool:
        """True if they are supported."""
        return self._folder.is_dir()

    def path(self, uid: str) -> Path:
        """Return the folder of a pod."""
        return self._folder / f"kilauea-{uid}"

    def make(self, uid: str, name: str, size: int) -> tuple[Path, bool]:
        """Return a folder of a pod, and True if it is new.

        Args:
            uid: of the pod.
            name: of the volume.
            size: maximum bytes, if a file system can be mounted; 0 for no limit.

        Raises:
            OSError: it cannot be made.
        """
        pod = self.path(uid)
        folder = pod / name
        if folder.is_dir() and (folder.is_mount() or not pod.is_mount()):
            return folder, False
        pod.mkdir(mode=0o700, exist_ok=True)  # not accessible to other users of the machine
        if not pod.is_mount():
            with suppress(OSError):
                _mount(pod, "size=1m,mode=700")
                _call(_libc.mount, pod, None, os.fsencode(pod), None, _UNBINDABLE, None)
        folder.mkdir(exist_ok=True)
        folder.chmod(_MODE)
        if pod.is_mount():
            _mount(folder, f"size={size},mode={_MODE:o}")
        return folder, True

    def remove(self, uid: str) -> None:
        """Remove the folders of a pod, asynchronously."""
        if (folder := self.path(uid)).exists():
            remove_later(folder, _unmount)


def _mount(folder: Path, options: str) -> None:
    flags = _NO_SUID | _NO_DEVICES
    _call(_libc.mount, folder, b"tmpfs", os.fsencode(folder), b"tmpfs", flags, options.encode())


def _unmount(folder: Path) -> None:
    """Unmount everything at a folder and below."""
    with suppress(OSError):
        _call(_libc.umount2, folder, os.fsencode(folder), _DETACH)


def _call(function: ctypes._NamedFuncPointer, folder: Path, *arguments: bytes | int | None) -> None:
    values = [ctypes.c_ulong(each) if isinstance(each, int) else each for each in arguments]
    if function(*values) < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number), str(folder))
