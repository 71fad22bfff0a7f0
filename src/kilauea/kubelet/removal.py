"""Removes folders outside the event loop: a disk may need long for this, and volumes of pods have any size."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

_remover = ThreadPoolExecutor(1, "removal")


def remove_later(folder: Path, first: Callable[[Path], None] | None = None) -> None:
    """Remove a folder with everything in it, after those that were asked for before; no error if it does not exist.

    What is left when the process is killed, the next kubelet removes at its start.

    Args:
        folder: the folder.
        first: is called with it before.
    """
    _remover.submit(_remove, folder, first)


def _remove(folder: Path, first: Callable[[Path], None] | None) -> None:
    if first is not None:
        first(folder)
    shutil.rmtree(folder, ignore_errors=True)
