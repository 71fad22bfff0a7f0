"""Carries out the binds and evictions of a plan, with bounded concurrency, and undoes those that fail.

An operation is assumed to succeed from the moment it is decided. When a request fails its outcome is unknown (the
answer may have been lost), so the executor reads the pod again. If nothing happened and the server was at fault, it
retries and keeps the node's room reserved. If the server refused, it reverts the assumption and excludes the pod from
scheduling for a backoff that grows with each failure. Other pods are not affected.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import count
from random import Random
from typing import Any, Literal

import msgspec

from kilauea.api.dynamic import Consumer, ResourceClaim
from kilauea.api.kinds import RESOURCE_CLAIMS
from kilauea.api.ports import Api, ApiError, Clock, Key, Record
from kilauea.api.times import SECOND, format_time
from kilauea.client.backoff import pause
from kilauea.engine.model.claims.table import BINDING_TIMEOUT, ClaimAllocation
from kilauea.engine.model.volumes import ClaimVolume
from kilauea.engine.plan import Bind, Eviction, Release
from kilauea.history.changes import Evicted
from kilauea.runtime.inputs.resources import PODS, reference
from kilauea.runtime.scheduler import extended_claims
from kilauea.runtime.scheduler.assumed import Failures, Placed
from kilauea.runtime.scheduler.claims import NOT_BOUND as NOT_PREPARED
from kilauea.runtime.scheduler.claims import all_prepared, consumer_of, deallocate, is_prepared, release, reserve
from kilauea.runtime.scheduler.extended_claims import special_claim
from kilauea.runtime.scheduler.feed import Feed
from kilauea.runtime.scheduler.node_locks import NodeLocks
from kilauea.runtime.scheduler.volumes import NOT_BOUND, all_bound
from kilauea.runtime.scheduler.volumes import release as release_volume
from kilauea.runtime.scheduler.volumes import reserve as reserve_volume
from kilauea.runtime.scheduler.workers import WorkerPool
from kilauea.telemetry.metrics import SchedulerMetrics
from kilauea.telemetry.tracing import UNTRACED, Tracer

CONCURRENCY = 32
"""Requests in flight at a time."""
TRIES = 6
"""Number of failures of a pod that are retried with its room reserved, if the server or the network is at fault."""
RETRY = (0.05, 10.0)
"""Shortest and longest pause before a retry, in seconds."""
POLL = (0.05, 1.0)
"""Shortest and longest time between checks of the claims of a pod to bind, in seconds."""
AVOIDED = 300.0
"""Seconds for which a claim avoids a node where it was not bound in time."""
FIRST_PAUSE, LONGEST_PAUSE = 1.0, 60.0
"""Shortest and longest time for which a pod is excluded after a failure, in seconds."""

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class PodOperation:
    """A bind or an eviction of a pod, identified by its uid."""

    kind: Literal["bind", "eviction"]
    pod: str
    uid: str
    node: str
    action: str = ""
    by: str = ""
    created: int = 0
    """Creation time of the pod, in microseconds since 1970."""
    claims: tuple[ClaimAllocation, ...] = ()
    """Resource claims of a pod that is bound."""
    containers: tuple[str, ...] = ()
    """Names of its containers, if one of the claims is for its extended resources."""
    annotations: tuple[tuple[str, str], ...] = ()
    """Annotations that the pod gets with the bind."""
    volumes: tuple[ClaimVolume, ...] = ()
    """Volume claims to bind before the pod."""
    bound: bool = False
    """True once these are bound."""
    prepared: bool = False
    """True once the binding conditions of the devices of its resource claims are true."""
    locks: tuple[str, ...] = ()
    """Annotations that lock the node from the bind until its device plugins have assigned the pod's cards."""
    span: object | None = field(default=None, compare=False)
    """The span of the cycle that decided it."""

    @property
    def key(self) -> Key:
        """Namespace and name of the pod."""
        return Key(*self.pod.split("/", 1))

    @property
    def about(self) -> dict[str, Any]:
        """Reference to the pod, for events."""
        return reference("Pod", self.pod, self.uid)


def _warn(operation: PodOperation, error: ApiError) -> None:
    log.warning("%s of pod %s (%s): %s", operation.kind, operation.pod, operation.node, error)


class Executor:
    """Binds and evicts pods.

    Args:
        api: the cluster.
        feed: the state; the executor sets and reverts its assumptions.
        record: receives events.
        metrics: receives counts and latencies.
        clock: for pauses and times.
        rng: jitter of pauses.
        name: name of the scheduler, in conditions.
        failed: called with each bind that failed, and the reason.
        tracer: records operations as spans.
        evicted: called with each eviction that is carried out.
    """

    def __init__(
        self,
        api: Api,
        feed: Feed,
        record: Callable[[Record], None],
        metrics: SchedulerMetrics,
        clock: Clock,
        rng: Random,
        name: str,
        failed: Callable[[PodOperation, str], None],
        tracer: Tracer = UNTRACED,
        evicted: Callable[[Evicted], None] = lambda evicted: None,
    ) -> None:
        self._api = api
        self._feed = feed
        self._record = record
        self._metrics = metrics
        self._clock = clock
        self._rng = rng
        self._name = name
        self._on_failed_bind = failed
        self._tracer = tracer
        self._on_evicted = evicted
        self._pool = WorkerPool(lambda: CONCURRENCY)
        self.claims = RESOURCE_CLAIMS
        """The kind of resource claims, in the version that the cluster serves."""
        self._releasing: set[str] = set()
        self._locks = NodeLocks(api, clock)
        self._background: set[asyncio.Task[None]] = set()

    def __len__(self) -> int:
        """Operations that are queued or in flight."""
        return len(self._pool) + self._locks.waiting

    @property
    def pressed(self) -> bool:
        """True while operations wait for others to end."""
        return self._pool.waiting > 0

    def bind(self, bind: Bind) -> None:
        """Assume that a pod is on its node, and queue the bind."""
        task = self._feed.state.tasks[bind.pod]
        marks, created = bind.annotations, task.creation
        operation = PodOperation(
            "bind",
            bind.pod,
            task.uid,
            bind.node,
            created=created,
            claims=bind.claims,
            containers=task.containers,
            annotations=marks,
            volumes=bind.volumes,
            locks=bind.locks,
            span=self._tracer.current(),
        )
        for given in bind.volumes:
            self._feed.reconsider_volumes(self._feed.assumed.volumes.assume(given, bind.pod, bind.node))
        for claim in bind.claims:
            consumer = Consumer(None, **consumer_of(bind.pod, task.uid))
            made = special_claim(claim, bind.pod, task.uid)
            self._feed.assumed.claims.reserve(claim.claim, claim.uid, claim.allocation, bind.pod, consumer, made)
        self._feed.reconsider_claims(claim.claim for claim in bind.claims)
        self._feed.bind(bind.pod, Placed(task.uid, bind.node, marks))
        self._metrics.task_latency("Assumed", operation.created, self._clock.now())
        self._queue(operation)

    def _queue(self, operation: PodOperation) -> None:
        """Queue an operation; one that needs a lock waits for it without occupying a worker."""
        if operation.locks:
            self._later(self._bind_locked(operation))
        else:
            self._pool.add(lambda: self._carry_out(operation))

    async def _bind_locked(self, operation: PodOperation) -> None:
        try:
            await self._locks.acquire(operation.node, operation.locks)
        except ApiError as error:
            self._failed(operation, error)
            return
        if self._is_assumed(operation):
            self._pool.add(lambda: self._carry_out(operation))
        else:
            await self._locks.release(operation.node, operation.locks)

    def evict(self, eviction: Eviction, nominated: Callable[[], Awaitable[bool]] | None = None) -> None:
        """Assume that a pod is terminating, and queue the eviction.

        Args:
            eviction: the victim.
            nominated: returns once the preemptor's nominations are written; False if the preemptor no longer exists.
        """
        task = self._feed.state.tasks[eviction.pod]
        operation = PodOperation("eviction", eviction.pod, task.uid, eviction.node, eviction.action, eviction.by)
        operation = replace(operation, span=self._tracer.current()) if self._tracer.on else operation
        self._feed.assumed.evictions[eviction.pod] = task.uid
        self._feed.reconsider(eviction.pod)
        group = self._feed.groups.get(task.group) or self._feed.kubernetes_groups.get(task.group)
        if group is not None:
            about = reference(group.kind, group.key, group.metadata.uid or "")
            self._record(Record(about, "Normal", "Evict", eviction.action))
        if nominated is None:
            self._pool.add(lambda: self._carry_out(operation))
        else:
            self._later(self._evict_once(operation, nominated))

    def release(self, decided: Release) -> None:
        """Queue the release of a resource claim's devices, unless it is already in progress."""
        if decided.claim in self._releasing:
            return
        self._releasing.add(decided.claim)
        self._pool.add(partial(self._release, decided, self._feed.state.tasks[decided.pod].uid))

    async def _release(self, decided: Release, uid: str) -> None:
        await deallocate(self._api, self.claims, decided, uid)
        self._releasing.discard(decided.claim)

    async def _evict_once(self, operation: PodOperation, nominated: Callable[[], Awaitable[bool]]) -> None:
        """Evict a pod once its preemptor is nominated; keep the pod if the preemptor is gone."""
        if await nominated():
            self._pool.add(lambda: self._carry_out(operation))
        elif self._is_assumed(operation):
            del self._feed.assumed.evictions[operation.pod]
            self._feed.reconsider(operation.pod)
            self._feed.wake()

    def _later(self, work: Coroutine[Any, Any, None]) -> None:
        """Run waiting work, without occupying a worker."""
        task = asyncio.get_running_loop().create_task(work)
        self._background.add(task)
        task.add_done_callback(self._background.discard)

    async def close(self) -> None:
        """Drop queued operations and wait for those in flight, without retries."""
        await self._end_background()
        await self._pool.close()
        await self._end_background()

    async def _end_background(self) -> None:
        waiting = list(self._background)
        for task in waiting:
            task.cancel()
        await asyncio.gather(*waiting, return_exceptions=True)

    # --- one operation

    async def _carry_out(self, operation: PodOperation) -> None:
        if not self._tracer.on:
            await self._attempt(operation)
            return
        attributes = {"k8s.pod.name": operation.pod, "k8s.pod.uid": operation.uid, "k8s.node.name": operation.node}
        with self._tracer.within(operation.span), self._tracer.span(operation.kind, attributes):
            await self._attempt(operation)

    async def _attempt(self, operation: PodOperation) -> None:
        try:
            if operation.volumes and not operation.bound:
                await self._prebind(operation)
                return
            await (self._bind(operation) if operation.kind == "bind" else self._evict(operation))
            self._feed.assumed.failures.pop(operation.pod, None)
        except ApiError as error:
            if operation.locks:
                await self._locks.release(operation.node, operation.locks)
            self._failed(operation, error)

    async def _prebind(self, operation: PodOperation) -> None:
        """Write the claims of a pod, and continue when they are bound."""
        written = {each: await reserve_volume(self._api, each, operation.node) for each in operation.volumes}
        self._later(self._bind_later(operation, written))

    async def _bind_later(self, operation: PodOperation, written: Mapping[ClaimVolume, str]) -> None:
        """Wait until the volume claims of a pod are bound, without occupying a worker; then bind the pod."""
        end = self._clock.monotonic() + min(given.timeout for given in operation.volumes) * SECOND

        pauses = (min(POLL[0] * 2**times, POLL[1]) for times in count())

        async def more_time() -> bool:
            await self._clock.sleep(next(pauses))
            return self._is_assumed(operation) and self._clock.monotonic() < end

        try:
            await all_bound(self._feed, written, operation.node, more_time)
        except ApiError as error:
            await self._give_up(operation, error)
            return
        self._pool.add(lambda: self._carry_out(replace(operation, bound=True)))

    async def _bind(self, operation: PodOperation) -> None:
        started = self._clock.monotonic()
        self._metrics.task_latency("PreBound", operation.created, self._clock.now())
        if operation.claims and not operation.prepared:
            waiting = await self._reserve_claims(operation)
            if waiting:
                self._later(self._bind_prepared(operation, waiting))
                return
        target = {"apiVersion": "v1", "kind": "Node", "name": operation.node}
        metadata: dict[str, Any] = {
            "name": operation.key.name,
            "namespace": operation.key.namespace,
            "uid": operation.uid,
        }
        if operation.annotations:
            # The API server copies them to the pod when it binds it, so a pod is never bound without its record.
            metadata["annotations"] = dict(operation.annotations)
        body = {"apiVersion": "v1", "kind": "Binding", "metadata": metadata, "target": target}
        await self._api.create(PODS, operation.key.namespace, body, "binding", operation.key.name)
        took = self._clock.monotonic() - started
        self._metrics.bound(operation.created, self._clock.now(), took)
        message = f"Successfully assigned {operation.pod} to {operation.node}"
        self._record(Record(operation.about, "Normal", "Scheduled", message))

    async def _reserve_claims(self, operation: PodOperation) -> dict[str, ResourceClaim]:
        """Write the resource claims of a pod; returns those whose devices must be prepared before it is bound."""
        waiting = {}
        for given in operation.claims:
            consumer, now = consumer_of(operation.pod, operation.uid), self._clock.now()
            if given.special is not None and given.allocation is not None:
                uid = await extended_claims.make(self._api, self.claims, given, operation.pod, operation.uid)
                given = given._replace(uid=uid)
            claim = await reserve(self._api, self.claims, given, consumer, now)
            if given.special is not None:
                await extended_claims.note(self._api, given, operation.pod, operation.uid, operation.containers)
            version = claim.metadata.resource_version or ""
            # The assumption holds until the watch has reached this version: an older one would show the claim as free.
            self._feed.assumed.claims.written(given.claim, operation.pod, version)
            if not is_prepared(claim):
                waiting[given.claim] = claim
        return waiting

    async def _bind_prepared(self, operation: PodOperation, waiting: Mapping[str, ResourceClaim]) -> None:
        """Wait for the binding conditions of devices, without occupying a worker; then bind the pod."""
        message = f"waiting for binding conditions for device on node {operation.node}"
        self._record(Record(operation.about, "Normal", "BindingConditionsPending", message))
        pauses = (min(POLL[0] * 2**times, POLL[1]) for times in count())

        async def more_time() -> bool:
            await self._clock.sleep(next(pauses))
            return self._is_assumed(operation)

        try:
            timeout = min((claim.timeout for claim in operation.claims), default=BINDING_TIMEOUT)
            await all_prepared(self._feed.claims, waiting, timeout, self._clock.now, more_time)
        except ApiError as error:
            await self._give_up(operation, error)
            return
        self._pool.add(lambda: self._carry_out(replace(operation, prepared=True)))

    async def _give_up(self, operation: PodOperation, error: ApiError) -> None:
        """Record that a bind timed out or failed while waiting."""
        if operation.locks:
            await self._locks.release(operation.node, operation.locks)
        if self._is_assumed(operation):
            self._failed(operation, error)

    async def _evict(self, operation: PodOperation) -> None:
        """Write the reason to the pod's conditions, then delete it, so that its last version states the reason."""
        reason = f"Pod is evicted, because of {operation.action}"
        if operation.by:
            message = f"Preempted by {self._preemptor(operation.by)} on node {operation.node}"
            self._record(Record(operation.about, "Normal", "Preempted", message))
        self._record(Record(operation.about, "Warning", "Evict", reason))
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
        # With the uid, the server rejects the patch if another pod has taken the name.
        patch = {"metadata": {"uid": operation.uid}, "status": {"conditions": conditions}}
        await self._api.patch(PODS, operation.key, patch, "strategic", "status")
        await self._api.delete(PODS, operation.key, uid=operation.uid)
        self._on_evicted(self._evicted(operation))

    def _evicted(self, operation: PodOperation) -> Evicted:
        """An eviction with the workload that benefits from it."""
        key, job = operation.by, self._feed.state.jobs.get(operation.by)
        return Evicted(
            self._clock.now(),
            operation.pod,
            operation.uid,
            operation.node,
            key,
            self._owner_words(key),
            job.queue if job is not None else "",
            operation.action,
        )

    def _owner_words(self, key: str) -> str:
        """The workload that owns a pod group, such as `Job research/train`; empty if there is none."""
        group = self._feed.groups.get(key)
        owner = next(iter(group.metadata.owner_references or ()), None) if group is not None else None
        return f"{owner.kind} {key.partition('/')[0]}/{owner.name}" if owner is not None else ""

    def _preemptor(self, key: str) -> str:
        """The workload or pod group that benefits from an eviction, and its queue, in words."""
        job = self._feed.state.jobs.get(key)
        name = self._owner_words(key) or f"pod group {key}"
        return f"{name} of queue {job.queue}" if job is not None and job.queue else name

    # --- failures

    def _failed(self, operation: PodOperation, error: ApiError) -> None:
        known = self._feed.assumed.failures.get(operation.pod)
        failures = known.times + 1 if known is not None and known.uid == operation.uid else 1
        self._feed.assumed.failures[operation.pod] = Failures(operation.uid, failures)
        if operation.kind == "bind":
            self._metrics.failed()
        # A pod may be deleted meanwhile, which is not a fault: deleting a namespace deletes thousands of them.
        if error.code != 404:
            _warn(operation, error)
        again = failures <= TRIES and (error.code < 400 or error.code == 429 or error.code >= 500)
        self._later(self._recover(operation, error, failures, again=again))

    async def _recover(self, operation: PodOperation, error: ApiError, failures: int, *, again: bool) -> None:
        """Read the pod again; then retry, or revert the assumption and exclude the pod for a while.

        The room stays reserved during retries: a gang whose other pods are placed would stay below its minimum if
        another pod took it.
        """
        if again:
            await self._clock.sleep(max(pause(failures, self._rng, *RETRY), error.retry_after))
        attempts = 0
        while not await self._reread(operation):
            attempts += 1
            await self._clock.sleep(pause(attempts, self._rng, *RETRY))
        # If the pod is gone, a frozen feed has only queued the event: the assumptions are correct again once it has
        # thawed.
        await self._feed.thawed()
        if not self._is_assumed(operation):
            self._feed.assumed.failures.pop(operation.pod, None)
            return
        if error.code == 404:
            _warn(operation, error)
        if again:
            self._queue(operation)
        else:
            await self._hold_back(operation, error, pause(failures, self._rng, FIRST_PAUSE, LONGEST_PAUSE))

    async def _hold_back(self, operation: PodOperation, error: ApiError, seconds: float) -> None:
        """Revert the assumption, and exclude the pod from scheduling for some seconds."""
        feed, assumed = self._feed, self._feed.assumed
        if operation.volumes and not operation.bound:
            for given in operation.volumes:
                await release_volume(self._api, given, operation.node)
            await feed.thawed()
            if not self._is_assumed(operation):
                return
            if error.reason == NOT_BOUND:
                self._avoid(operation)
        if operation.volumes:
            feed.reconsider_volumes(assumed.volumes.drop_pod(operation.pod))
        if operation.claims:
            for claim in operation.claims:
                consumer = consumer_of(operation.pod, operation.uid)
                if claim.special is not None:
                    await extended_claims.remove(self._api, self.claims, claim.claim, operation.pod, operation.uid)
                    continue
                await release(self._api, self.claims, claim, consumer, failed=error.reason == NOT_PREPARED)
            await feed.thawed()
            if not self._is_assumed(operation):
                return
            feed.reconsider_claims(assumed.claims.drop_pod(operation.pod))
        del (assumed.binds if operation.kind == "bind" else assumed.evictions)[operation.pod]
        assumed.held[operation.pod] = operation.uid
        feed.reconsider(operation.pod)
        if operation.kind == "bind":
            self._on_failed_bind(operation, f"failed to bind to node {operation.node}: {error}")
        await self._clock.sleep(max(seconds, error.retry_after))
        await feed.thawed()
        if assumed.held.get(operation.pod) == operation.uid:
            del assumed.held[operation.pod]
            feed.reconsider(operation.pod)
            feed.wake()

    def _avoid(self, operation: PodOperation) -> None:
        """Keep the claims of a pod off the node where they were not bound, for a while."""
        keys = [given.claim for given in operation.volumes]
        self._feed.reconsider_volumes(self._feed.assumed.volumes.fail(keys, operation.node))

        async def forgive() -> None:
            await self._clock.sleep(AVOIDED)
            await self._feed.thawed()
            self._feed.reconsider_volumes(self._feed.assumed.volumes.forgive(keys, operation.node))
            self._feed.wake()

        self._later(forgive())

    async def _reread(self, operation: PodOperation) -> bool:
        """Read the pod again; True if the server answered."""
        try:
            pod = await self._api.get(PODS, operation.key)
        except ApiError as error:
            if error.code == 404:
                self._feed.gone("Pod", operation.pod)
            return error.code == 404
        await self._feed.answered("Pod", msgspec.json.encode(pod))
        return True

    def _is_assumed(self, operation: PodOperation) -> bool:
        """True while an operation is still assumed: not confirmed yet, and its pod exists."""
        assumed = self._feed.assumed
        if operation.kind == "bind":
            return assumed.binds.get(operation.pod) == Placed(operation.uid, operation.node, operation.annotations)
        return assumed.evictions.get(operation.pod) == operation.uid
