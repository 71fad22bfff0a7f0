"""Nominations: where room is made for a pod stands in the pod's status, before anything is evicted for it.

A claimer gets its room only when its victims have ended. Who schedules then may be another process, so the promise has
to be in the objects by the time the first victim is told to go. So a plan's nominations are assumed at once, written
until that succeeds, and taken off again when a later plan keeps them no more. Evictions wait for the nominations of
their claimer. If one of its pods is gone by then, nothing is evicted for it.
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
"""Nominations that are written at a time."""
RETRY = (0.05, 10.0)
"""Seconds before the second try, and at most."""
GONE = (404, 409)
"""Codes of answers about a pod that is not there any more, or not the same."""

log = logging.getLogger(__name__)


class Promises:
    """Writes nominations.

    Args:
        api: where.
        feed: knows the pods; nominations are assumed in it until they are seen.
        clock: for pauses.
        chance: for the length of pauses.
    """

    def __init__(self, api: Api, feed: Feed, clock: Clock, chance: Random) -> None:
        self._api = api
        self._feed = feed
        self._clock = clock
        self._chance = chance
        self._room = asyncio.Semaphore(CONCURRENCY)
        self._writing: dict[str, asyncio.Task[None]] = {}
        """By pod."""

    def __len__(self) -> int:
        """Pods whose nomination is still to be written."""
        return len(self._writing)

    def after(self, plan: Plan) -> None:
        """Take over the nominations of a plan; earlier ones that it does not have are taken off the pods."""
        tasks, nominated = self._feed.state.tasks, self._feed.state.nominated
        wanted = {each.pod: each.node for each in plan.nominations}
        starts = {each.pod for each in plan.binds}
        changed = {pod: node for pod, node in wanted.items() if tasks[pod].nominated != node}
        # A pod that is held back, by a gate or after a failure, is not in the plan and keeps what it was promised.
        over = [key for key, task in nominated.items() if key not in wanted and key not in starts and not task.gated]
        for pod, node in [*changed.items(), *((key, "") for key in sorted(over))]:
            self._feed.nominate(pod, Placed(tasks[pod].uid, node))
            if pod not in self._writing:
                self._writing[pod] = asyncio.get_running_loop().create_task(self._write(pod))

    async def kept(self, uids: Mapping[str, str]) -> bool:
        """Wait until the nominations of some pods, with their uids, are written; whether all are there and promised."""
        for key in uids:
            while (writing := self._writing.get(key)) is not None:
                await asyncio.wait({writing})
        await self._feed.free()
        tasks = self._feed.state.tasks
        return all(
            (task := tasks.get(key)) is not None and task.uid == uid and bool(task.node or task.nominated)
            for key, uid in uids.items()
        )

    async def _write(self, pod: str) -> None:
        """Write what a pod is promised, until it says so."""
        assumed, failures = self._feed.assumed.nominations, 0
        try:
            while (placed := assumed.get(pod)) is not None:
                try:
                    async with self._room:
                        await self._patch(pod, placed)
                except ApiError as error:
                    if error.code in GONE:
                        await self._forget(pod, placed)
                        continue
                    failures += 1
                    seconds = max(pause(failures, self._chance, *RETRY), error.retry_after)
                    log.warning("nomination of pod %s to node %s: %s", pod, placed.node or "(none)", error)
                    await self._clock.sleep(seconds)
        finally:
            self._writing.pop(pod, None)

    async def _patch(self, pod: str, placed: Placed) -> None:
        patch = {"metadata": {"uid": placed.uid}, "status": {"nominatedNodeName": placed.node or None}}
        written = await self._api.patch(PODS, Key(*pod.split("/", 1)), patch, "strategic", "status")
        await self._feed.answered("Pod", written)
        await self._forget(pod, placed)

    async def _forget(self, pod: str, placed: Placed) -> None:
        """Assume a nomination no longer: it is written, or its pod is gone."""
        await self._feed.free()
        if self._feed.assumed.nominations.get(pod) == placed:
            del self._feed.assumed.nominations[pod]
            self._feed.reconsider(pod)

    async def close(self) -> None:
        """Drop what waits, and wait for what is under way."""
        tasks = list(self._writing.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
