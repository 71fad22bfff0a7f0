"""Nominations: a pod's status names the node where others are evicted for it, before the first eviction.

A preemptor starts only after its victims have ended. The scheduler may have restarted by then, so the nomination must
be stored before the first victim is evicted. A plan's nominations are assumed at once, retried until they are written,
and cleared when a later plan does not repeat them. Evictions wait for the nominations of their preemptor. If one of
the preemptor's pods is gone by then, its victims are not evicted.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from random import Random

from kilauea.api.ports import Api, ApiError, Clock, Key
from kilauea.client.backoff import pause
from kilauea.engine.plan import Plan
from kilauea.runtime.inputs.resources import PODS
from kilauea.runtime.scheduler.assumed import Placed
from kilauea.runtime.scheduler.feed import Feed

CONCURRENCY = 16
"""Nominations written at a time."""
RETRY = (0.05, 10.0)
"""Shortest and longest pause before a retry, in seconds."""
GONE = (404, 409)
"""Status codes of answers about a pod that is gone or was replaced."""

log = logging.getLogger(__name__)


class Nominations:
    """Writes nominations.

    Args:
        api: the cluster.
        feed: the state; nominations are assumed in it until the watch shows them.
        clock: for pauses.
        rng: jitter of pauses.
    """

    def __init__(self, api: Api, feed: Feed, clock: Clock, rng: Random) -> None:
        self._api = api
        self._feed = feed
        self._clock = clock
        self._rng = rng
        self._room = asyncio.Semaphore(CONCURRENCY)
        self._writing: dict[str, asyncio.Task[None]] = {}
        """Running writes, by pod."""

    def __len__(self) -> int:
        """Number of pods whose nomination is still to be written."""
        return len(self._writing)

    def after(self, plan: Plan) -> None:
        """Write the nominations of a plan, and clear earlier ones that it does not repeat."""
        tasks, nominated = self._feed.state.tasks, self._feed.state.nominated
        wanted = {nomination.pod: nomination.node for nomination in plan.nominations}
        starts = {bind.pod for bind in plan.binds}
        changed = {pod: node for pod, node in wanted.items() if tasks[pod].nominated != node}
        # A gated pod, or one that is excluded after a failure, is not in the plan and keeps its nomination.
        over = [key for key, task in nominated.items() if key not in wanted and key not in starts and not task.gated]
        for pod, node in [*changed.items(), *((key, "") for key in sorted(over))]:
            self._feed.nominate(pod, Placed(tasks[pod].uid, node))
            if pod not in self._writing:
                self._writing[pod] = asyncio.get_running_loop().create_task(self._write(pod))

    async def written(self, uids: Mapping[str, str]) -> bool:
        """Wait until the nominations of some pods (uids by pod) are written; True if all exist and have a node."""
        for key in uids:
            while (writing := self._writing.get(key)) is not None:
                await asyncio.wait({writing})
        await self._feed.thawed()
        tasks = self._feed.state.tasks
        return all(
            (task := tasks.get(key)) is not None and task.uid == uid and bool(task.node or task.nominated)
            for key, uid in uids.items()
        )

    async def _write(self, pod: str) -> None:
        """Write the nomination of a pod, and retry until it is stored."""
        assumed, failures = self._feed.assumed.nominations, 0
        try:
            while (placed := assumed.get(pod)) is not None:
                try:
                    async with self._room:
                        await self._patch(pod, placed)
                except ApiError as error:
                    if error.code in GONE:
                        await self._confirm(pod, placed)
                        continue
                    failures += 1
                    seconds = max(pause(failures, self._rng, *RETRY), error.retry_after)
                    log.warning("nomination of pod %s to node %s: %s", pod, placed.node or "(none)", error)
                    await self._clock.sleep(seconds)
        finally:
            self._writing.pop(pod, None)

    async def _patch(self, pod: str, placed: Placed) -> None:
        patch = {"metadata": {"uid": placed.uid}, "status": {"nominatedNodeName": placed.node or None}}
        written = await self._api.patch(PODS, Key(*pod.split("/", 1)), patch, "strategic", "status")
        await self._feed.answered("Pod", written)
        await self._confirm(pod, placed)

    async def _confirm(self, pod: str, placed: Placed) -> None:
        """Drop the assumption: the nomination is written, or its pod is gone."""
        await self._feed.thawed()
        if self._feed.assumed.nominations.get(pod) == placed:
            del self._feed.assumed.nominations[pod]
            self._feed.reconsider(pod)

    async def close(self) -> None:
        """Cancel all writes."""
        tasks = list(self._writing.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
