"""Updates the picture of a cluster, with the permissions of one user, and samples its queues."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence
from random import Random

from kilauea.api.ports import Api, ApiError, Clock, Resource
from kilauea.api.times import SECOND
from kilauea.api.wellknown import ROOT_QUEUE
from kilauea.client.reflector import Reflector
from kilauea.dashboard.pages import Cluster
from kilauea.dashboard.picture import Figures, QueueFigures, main_resources
from kilauea.dashboard.rows import Amounts
from kilauea.dashboard.series import PERIOD_SECONDS, Sample
from kilauea.dashboard.tables import Table
from kilauea.engine.plan import QueueOutcome

REFUSED_SECONDS = 60.0
"""Seconds after which a forbidden kind is requested again: permission may have been granted meanwhile."""
IDLE_SECONDS = 600.0
"""Seconds without an open page after which watching stops."""
LOOK_SECONDS = 1.0
log = logging.getLogger(__name__)


class Watching:
    """Watches the objects that pages show.

    Args:
        api: the cluster, with the rights of the user.
        cluster: the picture to update.
        clock: the time.
        rng: length of pauses.
        namespace: the only namespace to watch; empty for all.
        known: returns the figures of queues from the scheduler in this process; None without one.
    """

    def __init__(
        self,
        api: Api,
        cluster: Cluster,
        clock: Clock,
        rng: Random,
        namespace: str = "",
        known: Callable[[], Mapping[str, QueueOutcome]] | None = None,
    ) -> None:
        self._api, self._cluster, self._clock, self._rng = api, cluster, clock, rng
        self._namespace, self._known = namespace, known
        self._last: Mapping[str, QueueOutcome] = {}
        self._last_look = 0
        self._wanted, self._looked_at = asyncio.Event(), asyncio.Event()

    def look(self) -> None:
        """Start watching, as a page is open."""
        self._last_look = self._clock.monotonic()
        self._wanted.set()
        self._looked_at.set()

    async def looked_at(self) -> None:
        """Wait until a page is requested after this call."""
        self._looked_at.clear()
        await self._looked_at.wait()

    async def run(self) -> None:
        """Take samples, and watch while pages are open and for some time after, until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._sample())
            while True:
                self._wanted.clear()
                await self._wanted.wait()
                await self._watch()

    async def _watch(self) -> None:
        """Watch all kinds until no page has been open for some time; their rows stay until the next list."""
        following = asyncio.create_task(self._follow_all())
        try:
            while self._clock.monotonic() - self._last_look < IDLE_SECONDS * SECOND and not following.done():
                await asyncio.wait((following,), timeout=LOOK_SECONDS)
        finally:
            following.cancel()
            for result in await asyncio.gather(following, return_exceptions=True):
                if isinstance(result, Exception):
                    raise result
        for _, table, _ in self._cluster.picture.watched:
            table.complete = False

    async def _follow_all(self) -> None:
        async with asyncio.TaskGroup() as tasks:
            for resource, table, fields in self._cluster.picture.watched:
                tasks.create_task(self._follow(resource, table, fields), name=f"dashboard watches {resource.plural}")

    async def _follow(self, resource: Resource, table: Table[object], fields: str) -> None:
        """Watch a kind; a forbidden one is empty, and is requested again later."""
        while True:
            reflector = Reflector(
                self._api,
                resource,
                table,
                self._clock,
                self._rng,
                namespace=self._namespace if resource.namespaced else "",
                fields=fields,
                may_lack=True,
                may_be_refused=True,
                reduce=table.reduce,
                in_steps=True,
            )
            try:
                await reflector.run()
            except ApiError as error:
                table.refuse(str(error))
            await self._clock.sleep(REFUSED_SECONDS)

    def refresh(self) -> None:
        """Update the time and the figures from the scheduler, before a page is rendered."""
        self.look()
        self._update()

    def _update(self) -> None:
        self._cluster.now = self._clock.now()
        if self._known is not None and (found := self._known()) is not self._last:
            self._last, self._cluster.figures = found, figures_of(found)

    async def _sample(self) -> None:
        """Add a sample of all queues, at equal intervals."""
        while True:
            await self._clock.sleep(PERIOD_SECONDS)
            self._update()
            cluster = self._cluster
            if cluster.picture.complete and len(cluster.picture.queues):
                offered = cluster.sums[0]
                samples = cluster.forest.samples(offered)
                cluster.series.add(cluster.now, _resources(main_resources(offered)), samples)
            elif cluster.figures:
                samples = {name: Sample(f.allocated or {}, f.deserved or {}) for name, f in cluster.figures.items()}
                names = {name for each in samples.values() for name in each.used if "/" in name}
                cluster.series.add(cluster.now, _resources(["cpu", "memory", *sorted(names)]), samples)


def _resources(names: Sequence[str]) -> Sequence[str]:
    return names[:MOST_SAMPLED]


MOST_SAMPLED = 5
"""Maximum number of resources with samples."""


def figures_of(queues: Mapping[str, QueueOutcome]) -> Figures:
    """The figures of queues after a cycle.

    In some plugins, the amounts of a parent do not include those of its children; here they always do, also for a root
    that the plugin leaves out.
    """
    children: dict[str, list[str]] = {}
    for name, queue in sorted(queues.items()):
        if name != ROOT_QUEUE:
            children.setdefault(queue.parent or ROOT_QUEUE, []).append(name)
    held: dict[str, Amounts] = {name: queue.allocated for name, queue in queues.items()}
    for name in _upwards(children):
        below: dict[str, float] = {}
        for child in children[name]:
            for each, amount in held[child].items():
                below[each] = below.get(each, 0) + amount
        own = held.get(name, {})
        held[name] = {each: max(below.get(each, 0), own.get(each, 0)) for each in (*own, *below)}
    return {name: QueueFigures(queues[name].deserved if name in queues else None, held[name]) for name in held}


def _upwards(children: Mapping[str, Sequence[str]]) -> Sequence[str]:
    """The parents, each after its descendants; without those in a cycle."""
    order, seen = [ROOT_QUEUE], {ROOT_QUEUE}
    for name in order:
        below = [each for each in children.get(name, ()) if each in children and each not in seen]
        order += below
        seen.update(below)
    return [name for name in reversed(order) if name in children]
