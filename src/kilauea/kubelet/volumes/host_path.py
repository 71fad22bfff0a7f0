"""Paths of this machine as volumes, checked against the type in the pod."""

from __future__ import annotations

import stat
from pathlib import Path

from kilauea.kubelet.volumes.sources import VolumeError

_CHECKS = {
    "Directory": (stat.S_ISDIR, "a directory"),
    "File": (stat.S_ISREG, "a file"),
    "Socket": (stat.S_ISSOCK, "a socket"),
    "CharDevice": (stat.S_ISCHR, "a character device"),
    "BlockDevice": (stat.S_ISBLK, "a block device"),
}


def prepare_host_path(text: str, type: str, hidden: Path | None = None) -> Path:
    """Return a path of this machine, after creating or checking it by its type.

    Args:
        text: the path.
        type: the required type, or the type to create.
        hidden: a folder without links that must not be used; None for none.

    Raises:
        VolumeError: it does not match its type, or is in the hidden folder.
    """
    path = Path(text)
    if hidden is not None and path.resolve().is_relative_to(hidden):
        raise VolumeError(refusal(path, hidden))
    try:
        if type == "DirectoryOrCreate" and not path.exists():
            path.mkdir(parents=True, mode=0o755)
        elif type == "FileOrCreate" and not path.exists():
            path.touch(mode=0o644)
        elif not type and not path.exists():
            path.mkdir(parents=True, mode=0o755)  # as container runtimes do for a mount without a source
    except OSError as error:
        raise VolumeError(f"hostPath {text} cannot be created: {error.strerror}") from error
    wanted = type.removesuffix("OrCreate")
    if wanted in _CHECKS:
        is_right, words = _CHECKS[wanted]
        if not path.exists() or not is_right(path.stat().st_mode):
            raise VolumeError(f"hostPath type check failed: {text} is not {words}")
    return path


def refusal(path: Path, hidden: Path) -> str:
    """Return the reason why a path in the folder of the cluster cannot be a volume."""
    return f"{path} is in {hidden}, the folder of the cluster, which pods cannot see"
