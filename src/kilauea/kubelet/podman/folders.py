"""Folders that are created in the files of a container."""

from __future__ import annotations

import os
from contextlib import suppress


def make_folder(root: str, path: str) -> None:
    """Create a folder and its parents below the root of a container that does not run.

    Args:
        root: root of the container on this machine.
        path: absolute path in the container.

    Raises:
        OSError: a parent is not a folder. Links of an image may lead outside, so they are not followed.
    """
    at = os.open(root, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        for name in (each for each in path.split("/") if each not in ("", ".")):
            if name == "..":
                raise OSError(0, f"{path} goes up", path)
            with suppress(FileExistsError):
                os.mkdir(name, 0o755, dir_fd=at)
            below = os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=at)
            os.close(at)
            at = below
    finally:
        os.close(at)
