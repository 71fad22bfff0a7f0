"""Writes the files of a volume atomically, so that readers see all old or all new ones, as kubelets do.

The files are in a folder named after a time, to which the link `..data` points; each file or folder at the top of the
volume is a link through `..data`. An update writes another folder and replaces this single link.
"""

from __future__ import annotations

import os
import shutil
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path

from kilauea.kubelet.volumes.ownership import give_all, shared
from kilauea.kubelet.volumes.sources import File, Files

_DATA, _NEXT = "..data", "..data_tmp"


def write_files(folder: Path, files: Files, group: int | None = None) -> bool:
    """Make a volume contain exactly these files; return False if it already does.

    Args:
        folder: the volume; created if it does not exist.
        files: by their path in it.
        group: of the volume and its files; None for that of this process.
    """
    if not folder.is_dir():
        folder.mkdir(parents=True)
        folder.chmod(0o777)
    before, files = folder / _DATA, shared(files, group)
    if before.exists() and _read(before) == {path: (file.data, file.mode) for path, file in files.items()}:
        return False
    old = os.readlink(before) if before.is_symlink() else ""
    stamp = time.strftime("..%Y_%m_%d_%H_%M_%S.", time.gmtime())
    data = Path(tempfile.mkdtemp(prefix=stamp, dir=folder))
    data.chmod(0o755)
    _write(data, files)
    if group is not None:
        give_all(folder, group, read_only=True)
    link = folder / _NEXT
    link.unlink(missing_ok=True)
    link.symlink_to(data.name)
    link.replace(before)
    _link_tops(folder, {path.split("/", 1)[0] for path in files})
    if old:
        shutil.rmtree(folder / old, ignore_errors=True)
    return True


def _write(data: Path, files: Mapping[str, File]) -> None:
    for path, file in files.items():
        target = data / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(file.data)
        target.chmod(file.mode)
        if file.user is not None:
            os.chown(target, file.user, -1)


def _link_tops(folder: Path, tops: set[str]) -> None:
    """Update the links at the top of a volume to its content."""
    for each in folder.iterdir():
        if each.is_symlink() and each.name != _DATA and each.name not in tops:
            each.unlink()
    for name in sorted(tops):
        link = folder / name
        if not link.is_symlink():
            link.symlink_to(f"{_DATA}/{name}")


def _read(data: Path) -> dict[str, tuple[bytes, int]]:
    """Content and mode of the files in a volume."""
    found = {}
    for root, _, names in os.walk(data.resolve()):
        for name in names:
            path = Path(root) / name
            found[str(path.relative_to(data.resolve()))] = path.read_bytes(), path.stat().st_mode & 0o7777
    return found
