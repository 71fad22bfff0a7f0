"""Node locks, through which the scheduler and a node's device plugins take turns.

A device plugin learns from its kubelet that a pod starts, but not which one: it assigns the cards of the pod whose bind
is in progress. So, if configured, an annotation of the node contains the time of the bind until the device plugin, or a
failed bind, removes it. A lock that is older than five minutes was left behind by a failed device plugin, and is
replaced. Binds to one node wait for each other in order of arrival.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from kilauea.api.devices import LOCK_TIME
from kilauea.api.kinds import NODES
from kilauea.api.ports import Api, ApiError, Clock, Key, Obj
from kilauea.api.times import SECOND, format_time, parse_time

PAUSE = 0.1
"""Seconds between two checks of a lock of another bind."""
LONGEST_PAUSE = 2.0
PATIENCE = 30.0
"""Seconds after which a bind is abandoned; its pod is scheduled again, possibly to another node."""


class NodeLocks:
    """The locks of all nodes.

    Args:
        api: the cluster.
        clock: the time, and pauses.
    """

    def __init__(self, api: Api, clock: Clock) -> None:
        self._api = api
        self._clock = clock
        self._turns: dict[str, asyncio.Lock] = {}
        self._waiting: dict[str, int] = {}

    @property
    def waiting(self) -> int:
        """Binds that wait for a lock."""
        return sum(self._waiting.values())

    async def acquire(self, node: str, names: Sequence[str]) -> None:
        """Lock a node.

        Raises:
            ApiError: another bind holds a lock for too long, or the server refuses.
        """
        self._waiting[node] = self._waiting.get(node, 0) + 1
        turn = self._turns.setdefault(node, asyncio.Lock())
        try:
            async with turn:
                await self._acquire(node, names)
        finally:
            self._waiting[node] -= 1
            if not self._waiting[node]:
                del self._waiting[node], self._turns[node]

    async def _acquire(self, node: str, names: Sequence[str]) -> None:
        end, pause = self._clock.monotonic() + PATIENCE * SECOND, PAUSE
        while True:
            found = await self._api.get(NODES, Key("", node))
            if not any(self._is_held(found, name) for name in names):
                try:
                    await self._write(found, names, format_time(self._clock.now()))
                    return
                except ApiError as error:
                    if error.code != 409:
                        raise
            if self._clock.monotonic() >= end:
                raise ApiError(409, "Conflict", f"node {node} has been locked within 5 minutes")
            await self._clock.sleep(pause)
            pause = min(2 * pause, LONGEST_PAUSE)

    def _is_held(self, node: Obj, name: str) -> bool:
        """True if a lock of a node exists and is not stale; a value that is not a time is not a lock."""
        text = (node["metadata"].get("annotations") or {}).get(name)
        try:
            return bool(text) and self._clock.now() - parse_time(str(text)) < LOCK_TIME
        except ValueError:
            return False

    async def _write(self, node: Obj, names: Sequence[str], value: str | None) -> None:
        """Set or remove locks, unless the node has changed meanwhile."""
        metadata = {
            "resourceVersion": node["metadata"]["resourceVersion"],
            "annotations": dict.fromkeys(names, value),
        }
        await self._api.patch(NODES, Key("", node["metadata"]["name"]), {"metadata": metadata})

    async def release(self, node: str, names: Sequence[str]) -> None:
        """Unlock a node whose bind has failed; a lock that cannot be removed becomes stale."""
        try:
            await self._api.patch(NODES, Key("", node), {"metadata": {"annotations": dict.fromkeys(names)}})
        except ApiError:
            return
