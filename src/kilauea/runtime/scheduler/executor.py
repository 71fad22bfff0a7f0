"""Carries out what a plan wants of pods: binds and evictions, with bounded concurrency, undone where they fail.

A deed is assumed from the moment it is decided. If it fails, nobody knows what became of it (the answer may have been
lost), so the pod is read again. If nothing has happened and the server was at fault it is tried again, the room being
kept. If it was refused, the assumption is taken back, and the pod is held back from placing (or evicting) for a while
that grows with each failure; all others go on.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import dataclass
from random import Random
from typing import Any, Literal

import msgspec

from kilauea.api.ports import Api, ApiError, Clock, Key, Record
from kilauea.api.times import SECOND, format_time
from kilauea.client.backoff import pause
from kilauea.engine.plan import Bind, Eviction
from kilauea.runtime.inputs.resources import PODS, reference
from kilauea.runtime.scheduler.assumed import Failures, Placed
from kilauea.runtime.scheduler.feed import Feed
from kilauea.runtime.scheduler.workers import Crew
from kilauea.telemetry.metrics import SchedulerMetrics

CONCURRENCY = 32
"""Deeds under way at a time."""
TRIES = 6
"""How often a deed is tried again at once, if the server or the way to it is at fault."""
RETRY = (0.05, 10.0)
"""Seconds before the second try, and at most."""
FIRST_PAUSE, LONGEST_PAUSE = 1.0, 60.0
"""Seconds for which a pod is held back after the first failure, and at most."""

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Deed:
    """Something that is being done to a pod, by uid."""

    what: Literal["bind", "eviction"]
    pod: str
    uid: str
    node: str
    action: str = ""
    by: str = ""
    created: int = 0
    """When the pod was made, in microseconds since 1970."""

    @property
    def key(self) -> Key:
        """Namespace and name of the pod."""
        return Key(*self.pod.split("/", 1))

    @property
    def about(self) -> dict[str, Any]:
        """The pod, for events."""
        return reference("Pod", self.pod, self.uid)


class Deeds:
    """Binds and evicts pods.

    Args:
        api: where.
        feed: knows the pods; its assumptions are set and taken back here.
        record: takes events.
        metrics: counts.
        clock: for pauses and times.
        chance: for the length of pauses.
        name: of the scheduler, in conditions.
        failed: is told of a bind that failed, and why.
    """

    def __init__(
        self,
        api: Api,
        feed: Feed,
        record: Callable[[Record], None],
        metrics: SchedulerMetrics,
        clock: Clock,
        chance: Random,
        name: str,
        failed: Callable[[Deed, str], None],
    ) -> None:
        self._api = api
        self._feed = feed
        self._record = record
        self._metrics = metrics
        self._clock = clock
        self._chance = chance
        self._name = name
        self._told = failed
        self._crew = Crew(CONCURRENCY)
        self._mending: set[asyncio.Task[None]] = set()

    def __len__(self) -> int:
        """Deeds that wait or are under way."""
        return len(self._crew)

    def bind(self, bind: Bind) -> None:
        """Assume that a pod is on its node, and tell the API."""
        task = self._feed.state.tasks[bind.pod]
        deed = Deed("bind", bind.pod, task.uid, bind.node, created=task.order[2])
        self._feed.bind(bind.pod, Placed(task.uid, bind.node))
        self._metrics.task_latency("Assumed", deed.created, self._clock.now())
        self._crew.add(lambda: self._carry_out(deed))

    def evict(self, eviction: Eviction, promised: Callable[[], Awaitable[bool]] | None = None) -> None:
        """Assume that a pod is on its way out, and tell the API.

        Args:
            eviction: who goes.
            promised: returns once it is written for whom; False if it is for nobody any more.
        """
        task = self._feed.state.tasks[eviction.pod]
        deed = Deed("eviction", eviction.pod, task.uid, eviction.node, eviction.action, eviction.by)
        self._feed.assumed.evictions[eviction.pod] = task.uid
        self._feed.reconsider(eviction.pod)
        group = self._feed.groups.get(task.group)
        if group is not None:
            about = reference("PodGroup", task.group, group.metadata.uid or "")
            self._record(Record(about, "Normal", "Evict", eviction.action))
        if promised is None:
            self._crew.add(lambda: self._carry_out(deed))
        else:
            self._later(self._evict_once(deed, promised))

    async def _evict_once(self, deed: Deed, promised: Callable[[], Awaitable[bool]]) -> None:
        """Evict a pod once it is written for whom; let it be if that one is gone."""
        if await promised():
            self._crew.add(lambda: self._carry_out(deed))
        elif self._stands(deed):
            del self._feed.assumed.evictions[deed.pod]
            self._feed.reconsider(deed.pod)
            self._feed.stir()

    def _later(self, work: Coroutine[Any, Any, None]) -> None:
        """Do something that waits beside the crew."""
        task = asyncio.get_running_loop().create_task(work)
        self._mending.add(task)
        task.add_done_callback(self._mending.discard)

    async def close(self) -> None:
        """Drop what waits, and wait for what is under way."""
        for task in self._mending:
            task.cancel()
        await self._crew.close()

    # --- one deed

    async def _carry_out(self, deed: Deed) -> None:
        try:
            await (self._bind(deed) if deed.what == "bind" else self._evict(deed))
            self._feed.assumed.failures.pop(deed.pod, None)
        except ApiError as error:
            self._failed(deed, error)

    async def _bind(self, deed: Deed) -> None:
        started = self._clock.monotonic()
        self._metrics.task_latency("PreBound", deed.created, self._clock.now())
        target = {"apiVersion": "v1", "kind": "Node", "name": deed.node}
        metadata = {"name": deed.key.name, "namespace": deed.key.namespace, "uid": deed.uid}
        body = {"apiVersion": "v1", "kind": "Binding", "metadata": metadata, "target": target}
        await self._api.create(PODS, deed.key.namespace, body, "binding", deed.key.name)
        took = self._clock.monotonic() - started
        self._metrics.bound(deed.created, self._clock.now(), took)
        message = f"Successfully assigned {deed.pod} to {deed.node}"
        self._record(Record(deed.about, "Normal", "Scheduled", message))

    async def _evict(self, deed: Deed) -> None:
        """Say on the pod why, then delete it: whoever reads the pod at its end knows."""
        reason = f"Pod is evicted, because of {deed.action}"
        self._record(Record(deed.about, "Warning", "Evict", reason))
        now = format_time(self._clock.now() // SECOND * SECOND)
        why = f"{self._name}: preempting to accommodate a higher priority pod"
        conditions = [
            {"type": "Ready", "status": "False", "reason": "Evict", "message": reason, "lastTransitionTime": now},
            {
                "type": "DisruptionTarget",
                "status": "True",
                "reason": "PreemptionByScheduler",
                "message": why,
                "lastTransitionTime": now,
            },
        ]
        patch = {"metadata": {"uid": deed.uid}, "status": {"conditions": conditions}}
        await self._api.patch(PODS, deed.key, patch, "strategic", "status")
        await self._api.delete(PODS, deed.key, uid=deed.uid)

    # --- when it fails

    def _failed(self, deed: Deed, error: ApiError) -> None:
        known = self._feed.assumed.failures.get(deed.pod)
        failures = known.times + 1 if known is not None and known.uid == deed.uid else 1
        self._feed.assumed.failures[deed.pod] = Failures(deed.uid, failures)
        if deed.what == "bind":
            self._metrics.failed()
        log.warning("%s of pod %s (%s): %s", deed.what, deed.pod, deed.node, error)
        again = failures <= TRIES and (error.code < 400 or error.code == 429 or error.code >= 500)
        self._later(self._mend(deed, error, failures, again=again))

    async def _mend(self, deed: Deed, error: ApiError, failures: int, *, again: bool) -> None:
        """Find out what became of the pod; then try again, or take the assumption back and hold the pod back.

        While it is tried again the room is kept: a gang whose other pods are placed would stay below its minimum if
        somebody else took it.
        """
        if again:
            await self._clock.sleep(max(pause(failures, self._chance, *RETRY), error.retry_after))
        attempts = 0
        while not await self._look(deed):
            attempts += 1
            await self._clock.sleep(pause(attempts, self._chance, *RETRY))
        await self._feed.free()
        if not self._stands(deed):
            self._feed.assumed.failures.pop(deed.pod, None)
        elif again:
            self._crew.add(lambda: self._carry_out(deed))
        else:
            await self._hold_back(deed, error, pause(failures, self._chance, FIRST_PAUSE, LONGEST_PAUSE))

    async def _hold_back(self, deed: Deed, error: ApiError, seconds: float) -> None:
        """Take back what was assumed, and leave the pod alone for a while."""
        feed, assumed = self._feed, self._feed.assumed
        del (assumed.binds if deed.what == "bind" else assumed.evictions)[deed.pod]
        assumed.held[deed.pod] = deed.uid
        feed.reconsider(deed.pod)
        if deed.what == "bind":
            self._told(deed, f"failed to bind to node {deed.node}: {error}")
        await self._clock.sleep(max(seconds, error.retry_after))
        await feed.free()
        if assumed.held.get(deed.pod) == deed.uid:
            del assumed.held[deed.pod]
            feed.reconsider(deed.pod)
            feed.stir()

    async def _look(self, deed: Deed) -> bool:
        """Read the pod; whether there was an answer."""
        try:
            pod = await self._api.get(PODS, deed.key)
        except ApiError as error:
            if error.code == 404:
                self._feed.gone("Pod", deed.pod)
            return error.code == 404
        await self._feed.answered("Pod", msgspec.json.encode(pod))
        return True

    def _stands(self, deed: Deed) -> bool:
        """Whether a deed is still assumed: it has not come true, and its pod is still there."""
        assumed = self._feed.assumed
        if deed.what == "bind":
            return assumed.binds.get(deed.pod) == Placed(deed.uid, deed.node)
        return assumed.evictions.get(deed.pod) == deed.uid
