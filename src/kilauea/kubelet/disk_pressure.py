"""Evictions while the disk of the cluster's folder is nearly full.

The API server stores its objects on the same disk, so a pod that fills it would stop everyone. As with kubelets, pods
that use more disk space than they request go first, then those with the lowest priority, then the largest.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Protocol

from kilauea.api.ports import Clock, Obj
from kilauea.api.quantity import parse_size
from kilauea.api.times import SECOND
from kilauea.api.wellknown import SYSTEM_CLASSES
from kilauea.kubelet.removal import removed
from kilauea.kubelet.storage import RESOURCE

LOOK_SECONDS = 2
"""Seconds between two looks; kubelets wait 10, but here a full disk stops the API server, too."""
SHARE, MOST = 10, 1 << 30
"""A disk is nearly full if less than a tenth of it is free, and less than 1 GiB."""
LEAST = 1 << 20
"""Bytes that an eviction must free: otherwise the pods did not fill the disk, and ending them does not help."""
FRUITLESS_SECONDS = 10
"""Seconds to the next look if no eviction helps, as measuring reads the folders of all pods."""
HOLD_SECONDS = 300
"""Seconds for which the node reports the pressure after it has ended, as with kubelets."""
CRITICAL = SYSTEM_CLASSES["system-cluster-critical"]
"""Priority from which pods are not evicted."""
log = logging.getLogger(__name__)


class Space(Protocol):
    """The size of a disk, in bytes."""

    @property
    def total(self) -> int:
        """All bytes."""
        ...

    @property
    def free(self) -> int:
        """Bytes that can be written."""
        ...


class Evictable(Protocol):
    """A pod that uses the disk."""

    @property
    def pod(self) -> Obj:
        """The pod."""
        ...

    @property
    def is_evicted(self) -> bool:
        """True if it has been evicted."""
        ...

    @property
    def frees_space(self) -> bool:
        """True if it has been evicted, and its files are not released yet."""
        ...

    async def disk_usage(self) -> int:
        """Return the bytes that its end would free."""
        ...

    def evict(self, message: str) -> None:
        """End it."""
        ...


class DiskPressure:
    """Watches a disk, and evicts one pod after the other while it is nearly full.

    Args:
        folder: a folder on the disk.
        pods: returns the pods of the machine.
        clock: the time.
        space: returns the size of the disk of a folder.
    """

    def __init__(
        self,
        folder: Path,
        pods: Callable[[], Iterable[Evictable]],
        clock: Clock,
        space: Callable[[Path], Space],
    ) -> None:
        self._folder = folder
        self._pods = pods
        self._clock = clock
        self._space = space
        self._last_seen: int | None = None
        self._is_told = False

    @property
    def is_reported(self) -> bool:
        """True if nodes report the pressure."""
        seen = self._last_seen
        return seen is not None and self._clock.monotonic() - seen < HOLD_SECONDS * SECOND

    async def run(self) -> None:
        """Watch until cancelled."""
        while True:
            seconds = LOOK_SECONDS
            try:
                seconds = await self._look()
            except OSError as error:
                log.warning("the free space of %s is unknown: %s", self._folder, error)
            await self._clock.sleep(seconds)

    async def _look(self) -> int:
        """Evict a pod if necessary; return the seconds to the next look."""
        if not self._is_low():
            self._is_told = False
            return LOOK_SECONDS
        await removed()  # files of pods that have ended, which may suffice
        space = self._space(self._folder)
        threshold = _threshold(space)
        if space.free >= threshold:
            return LOOK_SECONDS
        self._last_seen = self._clock.monotonic()
        # Not for pods that end by themselves: with a long grace period, one could hold up all evictions.
        if any(each.frees_space for each in self._pods()):
            return LOOK_SECONDS
        pods = [each for each in self._pods() if not each.is_evicted and _priority(each.pod) < CRITICAL]
        sizes = await asyncio.gather(*(each.disk_usage() for each in pods))
        large = [(size, each) for size, each in zip(sizes, pods, strict=True) if size >= LEAST and not each.is_evicted]
        if not large:
            self._tell(space)
            return FRUITLESS_SECONDS
        size, victim = max(large, key=lambda found: _rank(*found))
        victim.evict(
            f"The node was low on resource: {RESOURCE}. Threshold quantity: {threshold >> 10}Ki, available: "
            f"{space.free >> 10}Ki. The pod was using {size >> 10}Ki, its request is {_request(victim.pod) >> 10}Ki. "
        )
        return LOOK_SECONDS

    def _is_low(self) -> bool:
        space = self._space(self._folder)
        return space.free < _threshold(space)

    def _tell(self, space: Space) -> None:
        """Log once that no eviction helps."""
        if not self._is_told:
            self._is_told = True
            log.warning(
                "the disk of %s is nearly full (%d MiB free), but no pod uses much of it: free some space",
                self._folder,
                space.free >> 20,
            )


def _threshold(space: Space) -> int:
    return min(space.total // SHARE, MOST)


def _rank(size: int, evictable: Evictable) -> tuple[bool, int, int, str]:
    """The sort key of pods: the greatest is evicted first."""
    beyond = size - _request(evictable.pod)
    return beyond > 0, -_priority(evictable.pod), beyond, str(evictable.pod["metadata"]["uid"])


def _priority(pod: Obj) -> int:
    return int(pod["spec"].get("priority") or 0)


def _request(pod: Obj) -> int:
    """The bytes of disk space that the containers of a pod request."""
    requests = [(each.get("resources") or {}).get("requests") or {} for each in pod["spec"]["containers"]]
    return sum(parse_size(str(each[RESOURCE])) for each in requests if RESOURCE in each)
