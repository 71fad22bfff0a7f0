"""The live scheduler: reflectors, state, loop and writes over any API.

live = LiveScheduler(client, options, conf, clock, rng, recorder.record, metrics)
async with asyncio.TaskGroup() as tasks:
    tasks.create_task(live.watch())         # also while another process leads
    tasks.create_task(live.schedule())
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from random import Random

import msgspec

from kilauea.api import wellknown
from kilauea.api.kinds import KUBERNETES_GROUP, RESOURCE_CLAIMS
from kilauea.api.ports import Api, ApiError, Clock, Obj, Record, Resource
from kilauea.api.times import SECOND
from kilauea.client.advice import with_advice
from kilauea.client.backoff import pause
from kilauea.client.reflector import Handler, Reflector
from kilauea.engine.conf import SchedulerConf
from kilauea.engine.cycle import cycle
from kilauea.engine.model.attempts import AdmissionBackoff
from kilauea.engine.model.claims.costs import COST_OF_CYCLE
from kilauea.engine.model.shards import NONE, Sharding
from kilauea.engine.plan import Plan
from kilauea.engine.state import ClusterState
from kilauea.history.changes import Evicted
from kilauea.runtime.inputs.built_in import built_in_queue
from kilauea.runtime.inputs.reading import reduced
from kilauea.runtime.inputs.resources import (
    OPTIONAL,
    PRIORITY_KINDS,
    QUEUES,
    RESOURCES,
    SHARD_KINDS,
    STORAGE_KINDS,
    UNWATCHED,
)
from kilauea.runtime.scheduler.assumed import Assumed
from kilauea.runtime.scheduler.conf_reload import ConfReload
from kilauea.runtime.scheduler.device_configs import DeviceConfigReader
from kilauea.runtime.scheduler.executor import Executor
from kilauea.runtime.scheduler.feed import Feed, KindFeed
from kilauea.runtime.scheduler.loads import LoadReader
from kilauea.runtime.scheduler.loop import Decide, Parts, Runner, Scheduler
from kilauea.runtime.scheduler.metrics import CycleMetrics
from kilauea.runtime.scheduler.node_selector import Labels, SelectedNodes
from kilauea.runtime.scheduler.nominations import Nominations
from kilauea.runtime.scheduler.optional_kinds import OptionalKind
from kilauea.runtime.scheduler.rivals import Rivals
from kilauea.runtime.scheduler.sharding import ShardKeeper
from kilauea.runtime.scheduler.statuses import Statuses
from kilauea.runtime.scheduler.timing import Stopwatch
from kilauea.runtime.scheduler.workers import Writes
from kilauea.simulator.extensions import BUILT_IN, Extensions
from kilauea.telemetry.metrics import SchedulerMetrics
from kilauea.telemetry.tracing import UNTRACED, Tracer

STATUS_WRITES = 8
"""Statuses written at a time."""

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class LiveOptions:
    """Options of scheduling.

    Attributes:
        names: `schedulerName` of the pods to place; pods of `default-scheduler` do not need a pod group.
        default_queue: the queue of pod groups that do not name one.
        period: microseconds between cycles when nothing happens.
        priority_classes: read priority classes.
        storage: read storage drivers and their capacities.
        seed: breaks ties between equally good nodes; None selects the first in order.
        sharding: the part of the cluster to work on.
        node_labels: use only nodes with one of these labels; empty for all nodes.
    """

    names: tuple[str, ...] = wellknown.SCHEDULER_NAMES
    default_queue: str = wellknown.DEFAULT_QUEUE
    period: int = SECOND
    priority_classes: bool = True
    storage: bool = True
    seed: int | None = None
    sharding: Sharding = field(default_factory=Sharding)
    node_labels: Labels = ()

    @property
    def component(self) -> str:
        """The name of this scheduler in events and conditions."""
        return self.names[0] if len(self.names) == 1 else wellknown.SCHEDULER_NAMES[0]

    @property
    def kinds(self) -> tuple[str, ...]:
        """Kinds to watch."""
        off = UNWATCHED | (frozenset() if self.priority_classes else PRIORITY_KINDS)
        off |= frozenset() if self.storage else STORAGE_KINDS
        off |= SHARD_KINDS if self.sharding.mode == NONE else frozenset()
        return tuple(kind for kind in RESOURCES if kind not in off)


async def in_thread(work: Callable[[], Plan]) -> Plan:
    """Run a cycle in another thread, so that the event loop keeps running."""
    return await asyncio.to_thread(work)


async def at_once(work: Callable[[], Plan]) -> Plan:
    """Run a cycle in this thread."""
    return work()


def deciding(
    extensions: Extensions, seed: int | None, clock: Clock, metrics: SchedulerMetrics, tracer: Tracer = UNTRACED
) -> Decide:
    """Return the engine with the user's plugins under a watchdog, and its duration measured."""
    observer = Stopwatch(clock.monotonic, metrics, tracer)

    def decide(state: ClusterState, conf: SchedulerConf, now: int, backoff: AdmissionBackoff, *, reasons: bool) -> Plan:
        state.resource_claims.selector_costs.renew()
        with extensions.watched() as dog:
            return cycle(
                state,
                conf,
                now,
                seed,
                plugins=extensions.plugins,
                actions=extensions.actions,
                watchdog=dog,
                reasons=reasons,
                observer=observer,
                backoff=backoff,
                outside=extensions.outside,
            )

    return decide


def _told_by(state: ClusterState, event: Record) -> str:
    """Return the scheduler name of a pod, which reports the event; empty if it is not about a pod of ours."""
    metadata = event.about["metadata"]
    key = f"{metadata.get('namespace', '')}/{metadata['name']}"
    task = state.tasks.get(key) if event.about.get("kind") == "Pod" else None
    return "" if task is None or task.foreign else task.scheduler


class LiveScheduler:
    """A scheduler without the process around it.

    Args:
        api: the cluster.
        options: options of scheduling.
        conf: the configuration.
        clock: the time.
        rng: jitter of pauses.
        record: receives events, with the name of the component.
        metrics: receives measurements.
        extensions: plugins and actions of the user.
        run: runs a cycle.
        evicted: called with each eviction that is carried out.
        tracer: records cycles, binds and evictions as spans.
    """

    def __init__(
        self,
        api: Api,
        options: LiveOptions,
        conf: ConfReload,
        clock: Clock,
        rng: Random,
        record: Callable[[str, Record], None],
        metrics: SchedulerMetrics,
        extensions: Extensions = BUILT_IN,
        run: Runner = in_thread,
        tracer: Tracer = UNTRACED,
        evicted: Callable[[Evicted], None] = lambda evicted: None,
    ) -> None:
        self._api = api
        self._clock = clock
        self._rng = rng
        sharding = replace(options.sharding, claims=True)
        state = ClusterState(default_queue=options.default_queue, scheduler_names=options.names, sharding=sharding)
        state.resource_claims.selector_costs.most = COST_OF_CYCLE
        woken = asyncio.Event()

        def arrived(created: int) -> None:
            metrics.task_latency("Watched", created, clock.now())

        self._rivals = Rivals(options.names, clock)
        self.feed = Feed(state, Assumed(), woken.set, arrived, self._rivals.bound)
        handlers: dict[str, Handler] = {kind: KindFeed(self.feed, kind) for kind in options.kinds}
        if options.node_labels:
            handlers["Node"] = SelectedNodes(self.feed, options.node_labels)
        self._reflectors = {
            kind: Reflector(
                api,
                RESOURCES[kind],
                handler,
                clock,
                rng,
                may_be_refused=kind in OPTIONAL,
                reduce=reduced if kind == "Pod" else None,
            )
            for kind, handler in handlers.items()
        }
        component = options.component

        def tell(event: Record) -> None:
            record(_told_by(state, event) or component, event)

        self._loads = LoadReader(api, self.feed, conf, clock, tell, self._reflectors["Node"].complete.wait)
        self._device_configs = DeviceConfigReader(api, self.feed, conf, clock)
        self._writes = Writes(clock, rng, STATUS_WRITES, lambda: self._executor.pressed)
        statuses = self._statuses = Statuses(api, self.feed, tell, self._writes, clock)
        self._executor = Executor(
            api, self.feed, tell, metrics, clock, rng, component, statuses.bind_failed, tracer, evicted
        )
        self._nominations = Nominations(api, self.feed, clock, rng)
        self._shard = ShardKeeper(api, self.feed, clock) if state.shards.active else None
        self.scheduler = Scheduler(
            Parts(
                self.feed,
                woken,
                conf,
                self._executor,
                self._nominations,
                statuses,
                CycleMetrics(self.feed, metrics),
                tell,
                deciding(extensions, options.seed, clock, metrics, tracer),
                extensions,
                run,
                tracer,
            ),
            clock,
            options.period,
        )

    def not_ready(self) -> str:
        """Return the kinds that are not listed yet, as a message; empty once scheduling can start."""
        missing = [kind for kind, reflector in self._reflectors.items() if not reflector.complete.is_set()]
        return f"not listed yet: {', '.join(missing)}" if missing else ""

    async def complete(self) -> None:
        """Wait until every kind is listed."""
        for reflector in self._reflectors.values():
            await reflector.complete.wait()

    @property
    def busy(self) -> int:
        """Writes that are queued or in flight."""
        return len(self._executor) + len(self._nominations) + len(self._writes)

    async def watch(self) -> None:
        """Update the state, until cancelled."""
        await self._create_queues()
        async with asyncio.TaskGroup() as tasks:
            for kind, reflector in self._reflectors.items():
                tasks.create_task(self._follow(kind, reflector), name=f"watch {kind}")
            tasks.create_task(self._loads.run(), name="read loads")
            tasks.create_task(self._device_configs.run(), name="read the configuration of devices")

    async def schedule(self) -> None:
        """Run cycles once every kind is listed, until cancelled."""
        await self.complete()
        await self._loads.first()
        await self._device_configs.first()
        log.info("all kinds are listed; scheduling starts")
        self._rivals.lead()
        try:
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(self.scheduler.run(), name="cycles")
                if self._shard is not None:
                    tasks.create_task(self._shard.run(), name="NodeShard")
        finally:
            await self._nominations.close()
            await self._executor.close()
            await self._writes.close()

    async def _follow(self, kind: str, reflector: Reflector) -> None:
        """Watch a kind; continue without an optional kind that is not served or may not be read."""
        if kind not in OPTIONAL:
            await reflector.run()
            return

        def found(resource: Resource) -> None:
            if kind == RESOURCE_CLAIMS.kind:
                self._executor.claims = resource
            elif kind == KUBERNETES_GROUP:
                self._statuses.kubernetes_groups = resource

        await OptionalKind(self._api, kind, reflector, self.feed, found, self._clock, self._rng).run()

    async def _create_queues(self) -> None:
        """Create the root and default queues if they do not exist."""
        for name in (wellknown.ROOT_QUEUE, wellknown.DEFAULT_QUEUE):
            queue = built_in_queue(name)
            body = {
                "apiVersion": queue.api_version,
                "kind": "Queue",
                "metadata": {"name": name},
                "spec": msgspec.to_builtins(queue.spec),
            }
            attempts = 0
            while not await self._exists(name, body):
                attempts += 1
                await self._clock.sleep(pause(attempts, self._rng))

    async def _exists(self, name: str, body: Obj) -> bool:
        """Create a queue; True if it exists or may not be created."""
        try:
            await self._api.create(QUEUES, "", body)
        except ApiError as error:
            if error.reason == "AlreadyExists" or error.code in (403, 422):
                return True
            level = logging.DEBUG if error.reported else logging.WARNING
            log.log(level, "queue %s cannot be created: %s", name, with_advice(error, QUEUES))
            return False
        return True
