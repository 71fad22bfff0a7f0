"""The controller manager as a process: its options, controllers, connection, health endpoints and lease."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from kilauea.api.kinds import JOB_FLOWS, PODS, QUEUES, VC_JOBS
from kilauea.api.ports import Controller, Key, Obj, Resource
from kilauea.client.view import Cache
from kilauea.controllers.hypernodes.discovery import CONFIGURATION
from kilauea.controllers.registry import chosen, kubernetes_controllers, volcano_controllers
from kilauea.controllers.sharding.configuration import SharingPlan
from kilauea.controllers.sharding.controller import CONFIGURATION as SHARDING
from kilauea.runtime.daemon import PAGES_OPTIONS, Daemon, DaemonOptions
from kilauea.runtime.manager.fabric import COMPONENT as FABRIC
from kilauea.runtime.manager.fabric import FabricDiscovery
from kilauea.runtime.manager.reconciling import Driver
from kilauea.runtime.manager.stalls import Stalls
from kilauea.runtime.settings import plain
from kilauea.runtime.tasks import collect_seldom_after
from kilauea.telemetry.controller_metrics import ControllerMetrics

COMPONENT = "vc-controller-manager"
"""Name of the component in events."""


@dataclass(frozen=True)
class ManagerOptions:
    """Selection and options of controllers.

    Attributes:
        daemon: how to reach the cluster.
        volcano: patterns that select Volcano's controllers, as `chosen` reads them.
        kubernetes: patterns that select Kubernetes' own controllers.
        schedulers: names of the schedulers whose plain pods get pod groups.
        inherit: True if pod groups inherit annotations of the pods' owners.
        discovery: the ConfigMap that configures the discovery of HyperNodes.
        sharding: the ConfigMap for dividing nodes among schedulers.
        sharing: the division without that ConfigMap.
    """

    daemon: DaemonOptions
    volcano: Sequence[str] = ("*", "-sharding-controller")
    kubernetes: Sequence[str] = ()
    schedulers: Sequence[str] = ("volcano",)
    inherit: bool = True
    discovery: Key = CONFIGURATION
    sharding: Key = SHARDING
    sharing: SharingPlan | None = None


def selected_controllers(options: ManagerOptions, running_since: Callable[[int], int]) -> list[Controller]:
    """Return the selected controllers.

    Args:
        options: the selection.
        running_since: returns the time since which they have run without a stall, in microseconds since 1970, given the
            current time.

    Raises:
        ValueError: a name is unknown.
    """
    volcano = volcano_controllers(
        options.schedulers,
        inherit=options.inherit,
        discovery=options.discovery,
        sharding=options.sharding,
        sharing=options.sharing,
    )
    return [*chosen(volcano, options.volcano), *chosen(kubernetes_controllers(running_since), options.kubernetes)]


async def run_manager(options: ManagerOptions, stop: asyncio.Event) -> None:
    """Run controllers until told to stop.

    Raises:
        StartError: they cannot start.
        AccessError: no usable description of the cluster.
        LeaseLost: another process may work now.
    """
    cache = Cache()
    async with Daemon(COMPONENT, options.daemon) as daemon:
        stalls = Stalls(daemon.clock)
        controllers = selected_controllers(options, stalls.running_since)
        driver = Driver(daemon.client, cache, daemon.clock, daemon.rng, daemon.recorder.record, controllers)
        leading = [driver.run, stalls.run]
        if any(each.name == FABRIC for each in controllers):
            record = daemon.recorder.record
            leading.append(FabricDiscovery(daemon.client, cache, daemon.clock, record, options.discovery).run)
        metrics = _metrics(cache)
        names = [each.name for each in controllers]

        def settings() -> dict[str, Any]:
            return {COMPONENT: {"options": plain(options), "controllers": names}}

        await daemon.serve_pages(partial(_not_ready, cache), metrics.registry, PAGES_OPTIONS, settings)
        watching = cache.run(daemon.client, daemon.clock, daemon.rng)
        await daemon.run(stop, [watching, collect_seldom_after(cache.complete())], lead=partial(_all, leading))


async def _all(works: Sequence[Callable[[], Coroutine[Any, Any, None]]]) -> None:
    """Run everything until cancelled."""
    async with asyncio.TaskGroup() as tasks:
        for work in works:
            tasks.create_task(work())


def _not_ready(cache: Cache) -> str:
    """Return the kinds that are not listed yet, as a message; empty if there are none."""
    missing = ", ".join(resource.plural for resource in cache.missing())
    return f"not listed yet: {missing}" if missing else ""


def _metrics(cache: Cache) -> ControllerMetrics:
    """Return metrics that read the cache; a kind that no controller watches counts as empty."""
    watched = {indexer.resource for indexer in cache}

    def objects(resource: Resource) -> Sequence[Obj]:
        return cache.list(resource) if resource in watched else ()

    return ControllerMetrics(*(partial(objects, resource) for resource in (QUEUES, VC_JOBS, JOB_FLOWS, PODS)))
