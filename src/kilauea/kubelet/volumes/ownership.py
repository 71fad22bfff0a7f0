"""Groups and modes of volumes for the `fsGroup` of a pod, and the owner of its tokens, as kubelets set them.

Only root can give files to a group; for others, the pod has an event that says so.
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
"""Folders can be searched, and what is made in them has their group."""
ALWAYS, ON_ROOT_MISMATCH = "Always", "OnRootMismatch"


def fs_group_of(pod: Obj) -> int | None:
    """Return the group that volumes of a pod get; None if they keep theirs."""
    group: int | None = (pod["spec"].get("securityContext") or {}).get("fsGroup")
    return group if os.getuid() == 0 else None


def policy_of(pod: Obj) -> str:
    """Return when all files of a volume that outlives its pods get the group: `Always` or `OnRootMismatch`."""
    return str((pod["spec"].get("securityContext") or {}).get("fsGroupChangePolicy") or ALWAYS)


def fs_user_of(pod: Obj) -> int | None:
    """Return the user of all containers of a pod, who owns its tokens; None if they have several or say none."""
    spec = pod["spec"]
    of_pod = (spec.get("securityContext") or {}).get("runAsUser")
    every = (*(spec.get("initContainers") or ()), *spec["containers"])
    users = {(each.get("securityContext") or {}).get("runAsUser", of_pod) for each in every}
    return users.pop() if len(users) == 1 else None


def shared(files: Files, group: int | None) -> Mapping[str, File]:
    """Return the files of a volume with the modes that they have once they are given to a group."""
    if group is None:
        return files
    return {path: file._replace(mode=file.mode | _READABLE) for path, file in files.items()}


def give(path: Path | str, group: int, *, folder: int | None = None, read_only: bool = False) -> None:
    """Give a file or folder to a group, whose members may read it, and write to it unless it is read-only.

    A process that puts a link in its place meanwhile does not change what the link leads to.

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
    """Give a folder and everything in it to a group.

    Args:
        folder: the volume.
        group: the group.
        policy: `OnRootMismatch` to leave everything as it is if the folder itself has the group and its mode already.
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
    give(folder, group, read_only=read_only)  # last, as it says that all is done


def _mask(mode: int, read_only: bool) -> int:
    mask = _READABLE if read_only else _WRITABLE
    return mask | _FOLDER if stat.S_ISDIR(mode) else mask
