"""Container roots that are built once and reused by later containers.

Mounting an overlay and everything in it takes longer than running a short program, and so does creating and removing
its folders. A root whose container has left it unchanged is therefore kept for another container that needs the same
paths. It is a mount namespace, of which each container gets a copy.
"""

from __future__ import annotations

import os
import stat
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from kilauea.kubelet.processes.supervisor.filesystem import Mounts, Point
from kilauea.kubelet.processes.supervisor.loop import Loop
from kilauea.kubelet.processes.supervisor.scratch import Scratch

_IDLE = 5.0
"""Seconds for which an unused root is kept: it keeps file systems busy, and does not show new mounts."""
_MOST = 64
"""Maximum number of unused roots."""

Entry = tuple[str, int, int, int, int, int, tuple[str, ...]]


@dataclass(slots=True)
class Root:
    """A root that is used by one container or is kept for one.

    Attributes:
        source: the base folder.
        below: the file systems mounted below its source.
        points: its required paths.
        folder: folder for written files.
        namespace: a descriptor of its mount namespace.
        content: content of its folder before the first container.
        stale: True if its source may have changed since it was read.
        round: the round of the loop in which the source was last read.
        since: the time since which it is unused.
    """

    source: str
    below: tuple[str, ...]
    points: tuple[Point, ...]
    folder: str
    namespace: int
    content: frozenset[Entry]
    round: int
    stale: bool = False
    since: float = 0.0


Build = Callable[[str, str, Sequence[str], Sequence[Point]], int]
"""Builds a root from its source, its folder, the file systems below and its points; returns its namespace."""


class Roots:
    """The roots of running containers, and unused ones.

    Args:
        loop: the event loop.
        scratch: provides folders.
        build: builds a root.
    """

    def __init__(self, loop: Loop, scratch: Scratch, build: Build) -> None:
        self._loop, self._scratch, self._build = loop, scratch, build
        self._mounts = Mounts()
        self._taken: dict[str, Root] = {}
        self._waiting: list[Root] = []

    def take(self, id: str, source: str, points: tuple[Point, ...]) -> Root:
        """Return a root for a container; raise OSError or Failure if it cannot be built."""
        below = self._mounts.below(source)
        for root in reversed(self._waiting):
            if (root.source, root.below, root.points) == (source, below, points):
                self._waiting.remove(root)
                # Requests of one round may share what the first of them has read.
                root.stale, root.round = root.round != self._loop.round, self._loop.round
                self._taken[id] = root
                return root
        folder = self._scratch.take()
        try:
            namespace = self._build(source, folder, below, points)
        except BaseException:
            self._scratch.remove(folder)
            raise
        content = _content_of(folder)
        root = self._taken[id] = Root(source, below, points, folder, namespace, content, self._loop.round)
        return root

    def folder(self, id: str) -> str | None:
        """Return the folder of a container's root; None without one."""
        root = self._taken.get(id)
        return None if root is None else root.folder

    def give_back(self, id: str) -> None:
        """Keep the root of a container that has ended if it is unchanged; otherwise remove it asynchronously."""
        root = self._taken.pop(id, None)
        if root is None:
            return
        if len(self._waiting) < _MOST and _content_of(root.folder) == root.content:
            if not self._waiting:
                self._loop.after(_IDLE, self._close_idle)
            root.since = time.monotonic()
            self._waiting.append(root)
        else:
            self._close(root)

    def _close_idle(self) -> None:
        """Remove roots that were unused for long enough; the first are the oldest."""
        now = time.monotonic()
        while self._waiting and self._waiting[0].since + _IDLE <= now:
            self._close(self._waiting.pop(0))
        if self._waiting:
            self._loop.after(self._waiting[0].since + _IDLE - now, self._close_idle)

    def _close(self, root: Root) -> None:
        os.close(root.namespace)
        self._scratch.remove(root.folder)


def _content_of(folder: str) -> frozenset[Entry]:
    """Return the content of the folders that a container can write to, including the folders themselves.

    The times of folders are left out: they also change when something is created and removed again.
    """
    found = set()
    for name in ("upper", "dev", "tmp"):
        for path, _, files in os.walk(f"{folder}/{name}"):
            for each in (path, *(f"{path}/{file}" for file in files)):
                seen = os.lstat(each)
                plain = stat.S_ISREG(seen.st_mode)
                size, changed = (seen.st_size, seen.st_mtime_ns) if plain else (0, 0)
                attributes = tuple(os.listxattr(each, follow_symlinks=False))
                found.add((each, seen.st_mode, seen.st_uid, seen.st_gid, size, changed, attributes))
    return frozenset(found)
