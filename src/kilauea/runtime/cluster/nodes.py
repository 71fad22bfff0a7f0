"""Simulated nodes as a process, for any Kubernetes."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field

from kilauea.api.kinds import NODES
from kilauea.api.ports import Clock, Controller
from kilauea.client.view import Cache
from kilauea.nodes.annotations import is_simulated
from kilauea.nodes.heartbeats import Heartbeats
from kilauea.nodes.machine import Machine
from kilauea.nodes.pods import Pods
from kilauea.nodes.program import JOB_RUN_TIME
from kilauea.nodes.registration import Registration
from kilauea.runtime.daemon import Daemon, DaemonOptions
from kilauea.runtime.manager.reconciling import Driver
from kilauea.runtime.tasks import collect_seldom

LOOK_SECONDS = 0.05


@dataclass(frozen=True)
class NodesOptions:
    """Number, size and behaviour of simulated nodes.

    Attributes:
        daemon: how to reach the cluster.
        count: number of nodes to register.
        machine: size of each new node, and of existing nodes that do not report one.
        start_delay: seconds until containers are created.
        run_time: microseconds for commands of unknown run time; 0 for no end.
    """

    daemon: DaemonOptions
    count: int = 0
    machine: Machine = field(default_factory=Machine)
    start_delay: float = 0.0
    run_time: int = JOB_RUN_TIME


def node_controllers(options: NodesOptions) -> list[Controller]:
    """Return the controllers that simulate nodes and their pods."""
    registration = Registration(options.count, options.machine)
    return [
        registration,
        Heartbeats(options.machine),
        Pods(options.start_delay, options.run_time, waits_for_objects=False),
    ]


async def run_nodes(options: NodesOptions, ready: Callable[[int], None], stop: asyncio.Event) -> None:
    """Simulate nodes until told to stop.

    Args:
        options: the nodes to simulate.
        ready: called with the number of simulated nodes once they are registered.
        stop: ends everything when set; the nodes stay, and become not ready after a while.

    Raises:
        AccessError: no usable description of the cluster.
    """
    cache = Cache()
    async with Daemon("kilauea-nodes", options.daemon) as daemon:
        client, clock, rng = daemon.client, daemon.clock, daemon.rng
        driver = Driver(client, cache, clock, rng, daemon.recorder.record, node_controllers(options))
        announcing = _announce(cache, options.count, ready, clock)
        await daemon.run(stop, [cache.run(client, clock, rng), driver.run(), announcing])


async def _announce(cache: Cache, count: int, ready: Callable[[int], None], clock: Clock) -> None:
    """Report when the nodes are registered."""
    await cache.complete()
    while len(cache.list(NODES)) < count:
        await clock.sleep(LOOK_SECONDS)
    collect_seldom()
    ready(sum(1 for node in cache.list(NODES) if is_simulated(node)))
