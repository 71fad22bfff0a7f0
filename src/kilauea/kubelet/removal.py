"""Removes folders outside the event loop: this may be slow, and volumes of pods have any size."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

_remover = ThreadPoolExecutor(1, "removal")


def remove_later(folder: Path, first: Callable[[Path], None] | None = None) -> None:
    """Remove a folder with everything in it, after earlier requests; no error if it does not exist.

    If the process is killed, the next kubelet removes the rest at its start.

    Args:
        folder: the folder.
        first: called with the folder before.
    """
    _remover.submit(_remove, folder, first)


async def removed() -> None:
    """Wait until all folders are removed whose removal was requested."""
    await asyncio.get_running_loop().run_in_executor(_remover, bool)


def _remove(folder: Path, first: Callable[[Path], None] | None) -> None:
    if first is not None:
        first(folder)
    shutil.rmtree(folder, ignore_errors=True)
