"""Simulated nodes as a process of their own, beside any Kubernetes."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

from kilauea.api.kinds import NODES
from kilauea.api.ports import Clock, Controller
from kilauea.client.finding import find_access
from kilauea.client.http import HttpTransport
from kilauea.client.recording import Recorder
from kilauea.client.rest import Client
from kilauea.client.view import Cache
from kilauea.nodes.annotations import is_simulated
from kilauea.nodes.heartbeats import Heartbeats
from kilauea.nodes.machine import Machine
from kilauea.nodes.pods import Pods
from kilauea.nodes.program import JOB_RUN_TIME
from kilauea.nodes.registration import Registration
from kilauea.runtime.clock import SystemClock
from kilauea.runtime.manager.reconciling import Driver
from kilauea.runtime.tasks import collect_seldom, until

LOOK_SECONDS = 0.05


@dataclass(frozen=True)
class Options:
    """What to simulate, and where.

    Attributes:
        kubeconfig: which cluster; None for the usual places.
        environment: variables of the process.
        count: how many nodes to register.
        machine: the size of each, and of those that do not say it.
        start_delay: seconds that containers are being created.
        seed: of pauses before something is tried again.
        run_time: microseconds that commands of unknown run time take; 0 for ever.
    """

    kubeconfig: Path | None
    environment: Mapping[str, str]
    count: int = 0
    machine: Machine = field(default_factory=Machine)
    start_delay: float = 0.0
    seed: int = 0
    run_time: int = JOB_RUN_TIME


def node_controllers(options: Options) -> list[Controller]:
    """What keeps nodes and their pods going."""
    registration = Registration(options.count, options.machine)
    return [registration, Heartbeats(options.machine), Pods(options.start_delay, options.run_time)]


async def run_nodes(options: Options, ready: Callable[[int], None], stop: asyncio.Event) -> None:
    """Simulate nodes until told to stop.

    Args:
        options: what and where.
        ready: is told how many nodes are simulated, once they are registered.
        stop: ends everything when it is set; the nodes stay, and after a while nobody hears of them.

    Raises:
        AccessError: it is not known how to come to the cluster.
    """
    clock, rng, cache = SystemClock(), Random(options.seed), Cache()
    async with HttpTransport(find_access(options.kubeconfig, options.environment)) as transport:
        client = Client(transport, "kilauea-nodes", Random(rng.random()))
        recorder = Recorder(client, clock)
        driver = Driver(client, cache, clock, rng, recorder.record, node_controllers(options))
        announcing = _announce(cache, options.count, ready, clock)
        await until(stop, [cache.run(client, clock, rng), driver.run(), recorder.run(), announcing])


async def _announce(cache: Cache, count: int, ready: Callable[[int], None], clock: Clock) -> None:
    """Say when the nodes are there."""
    await cache.complete()
    while len(cache.list(NODES)) < count:
        await clock.sleep(LOOK_SECONDS)
    collect_seldom()
    ready(sum(1 for node in cache.list(NODES) if is_simulated(node)))
