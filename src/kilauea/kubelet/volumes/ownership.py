"""Groups and modes of volumes for the `fsGroup` of a pod, and the owner of its tokens, as kubelets set them.

Only root can set the group of files; for other users, an event of the pod reports this.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Mapping
from pathlib import Path

from kilauea.api.ports import Obj
from kilauea.kubelet.volumes.sources import File, Files

_WRITABLE, _READABLE = 0o660, 0o440
_FOLDER = 0o2110
"""Folders can be searched, and new files in them inherit their group."""
ALWAYS, ON_ROOT_MISMATCH = "Always", "OnRootMismatch"


def fs_group_of(pod: Obj) -> int | None:
    """Return the group to set on volumes of a pod; None to keep theirs."""
    group: int | None = (pod["spec"].get("securityContext") or {}).get("fsGroup")
    return group if os.getuid() == 0 else None


def policy_of(pod: Obj) -> str:
    """Return when the group is set on all files of a persistent volume: `Always` or `OnRootMismatch`."""
    return str((pod["spec"].get("securityContext") or {}).get("fsGroupChangePolicy") or ALWAYS)


def fs_user_of(pod: Obj) -> int | None:
    """Return the user of all containers of a pod, who owns its tokens; None if it is not a single known one."""
    spec = pod["spec"]
    of_pod = (spec.get("securityContext") or {}).get("runAsUser")
    every = (*(spec.get("initContainers") or ()), *spec["containers"])
    users = {(each.get("securityContext") or {}).get("runAsUser", of_pod) for each in every}
    return users.pop() if len(users) == 1 else None


def shared(files: Files, group: int | None) -> Mapping[str, File]:
    """Return the files of a volume with their modes after setting the group."""
    if group is None:
        return files
    return {path: file._replace(mode=file.mode | _READABLE) for path, file in files.items()}


def give(path: Path | str, group: int, *, folder: int | None = None, read_only: bool = False) -> None:
    """Set the group of a file or folder, whose members may read it, and write to it unless it is read-only.

    If a process replaces it with a link meanwhile, the target of the link is not changed.

    Args:
        path: of the file.
        group: the group.
        folder: a descriptor of the folder to which the path is relative.
        read_only: True if members may only read.

    Raises:
        OSError: this user may not.
    """
    os.chown(path, -1, group, dir_fd=folder, follow_symlinks=False)
    file = os.open(path, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=folder)
    try:
        mode = os.fstat(file).st_mode
        if not stat.S_ISLNK(mode):
            os.chmod(f"/proc/self/fd/{file}", stat.S_IMODE(mode) | _mask(mode, read_only))
    finally:
        os.close(file)


def give_all(folder: Path, group: int, policy: str = ALWAYS, *, read_only: bool = False) -> None:
    """Set the group of a folder and everything in it.

    Args:
        folder: the volume.
        group: the group.
        policy: `OnRootMismatch` to change nothing if the folder itself already has the group and mode.
        read_only: True if its members may only read.

    Raises:
        OSError: this user may not.
    """
    seen = folder.stat()
    mask = _mask(seen.st_mode, read_only)
    if policy == ON_ROOT_MISMATCH and seen.st_gid == group and seen.st_mode & mask == mask:
        return
    for _, folders, names, at in os.fwalk(folder, topdown=False):
        for name in (*names, *folders):
            give(name, group, folder=at, read_only=read_only)
    give(folder, group, read_only=read_only)  # last, as it marks completion


def _mask(mode: int, read_only: bool) -> int:
    mask = _READABLE if read_only else _WRITABLE
    return mask | _FOLDER if stat.S_ISDIR(mode) else mask
