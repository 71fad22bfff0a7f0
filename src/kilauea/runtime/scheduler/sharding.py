"""Maintains the status of the scheduler's own NodeShard: the nodes that it uses.

The scheduler uses a node only while the API server shows it in `status.nodesInUse` (`engine/model/shards.py`), and
releases it only when no bind to it is in progress. Each write is conditional on the version of the NodeShard from which
it was computed, so a node that was just added again is never released.
"""

from __future__ import annotations

import logging
from typing import Any

from kilauea.api.agents import NodeShard
from kilauea.api.kinds import NODE_SHARDS
from kilauea.api.ports import Api, ApiError, Clock, Key
from kilauea.api.times import SECOND, format_time
from kilauea.runtime.scheduler.feed import Feed

LOOK_SECONDS = 0.2
"""Seconds between two checks of binds in progress to a node that should be released."""
RETRY_SECONDS = 1.0
"""Seconds before a failed write is retried."""

log = logging.getLogger(__name__)


class ShardKeeper:
    """Writes the status of one NodeShard whenever it should change.

    Args:
        api: the cluster.
        feed: knows the NodeShards and the binds in progress.
        clock: for pauses and the time of the update.
    """

    def __init__(self, api: Api, feed: Feed, clock: Clock) -> None:
        self._api = api
        self._feed = feed
        self._clock = clock

    async def run(self) -> None:
        """Update the status until cancelled."""
        while True:
            self._feed.shards_changed.clear()
            pause = await self._look()
            if pause:
                await self._clock.sleep(pause)
            else:
                await self._feed.shards_changed.wait()

    async def _look(self) -> float:
        """Write the status if it differs; return the seconds until the next check, 0 to wait for a change."""
        await self._feed.thawed()
        shards = self._feed.state.shards
        known = self._feed.shards.get(shards.sharding.name)
        if known is None:
            return 0.0
        desired, in_use = shards.own
        wanted = shards.wanted()
        held = (in_use - wanted) & {placed.node for placed in self._feed.assumed.binds.values()}
        status = _status(wanted | held, desired)
        failed = status != _written(known) and not await self._write(known, status)
        return RETRY_SECONDS if failed else LOOK_SECONDS if held else 0.0

    async def _write(self, known: NodeShard, status: dict[str, list[str]]) -> bool:
        """Write the status; False if it failed."""
        now = format_time(self._clock.now() // SECOND * SECOND)
        patch: dict[str, Any] = {
            "metadata": {"resourceVersion": known.metadata.resource_version},
            "status": {**status, "lastUpdateTime": now},
        }
        try:
            await self._api.patch(NODE_SHARDS, Key("", known.name), patch, subresource="status")
        except ApiError as error:
            if error.code in (404, 409):  # it has changed since; the watch will show that
                return True
            log.warning("status of NodeShard %s: %s (again in %.1f s)", known.name, error, RETRY_SECONDS)
            return False
        return True


def _status(in_use: frozenset[str], desired: frozenset[str]) -> dict[str, list[str]]:
    return {
        "nodesInUse": sorted(in_use),
        "nodesToRemove": sorted(in_use - desired),
        "nodesToAdd": sorted(desired - in_use),
    }


def _written(shard: NodeShard) -> dict[str, list[str]] | None:
    """The current status; None if there is none yet."""
    status = shard.status
    if status is None:
        return None
    return {
        "nodesInUse": sorted(status.nodes_in_use or ()),
        "nodesToRemove": sorted(status.nodes_to_remove or ()),
        "nodesToAdd": sorted(status.nodes_to_add or ()),
    }
