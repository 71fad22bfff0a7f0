"""An API server in memory under virtual time, with a client on which things may go wrong.

with virtual_api(seed, rate=0.2) as world:
    world.run(test())
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Iterator
from contextlib import contextmanager
from random import Random
from typing import Any, TypeVar

from kilauea.apiserver.admission.chain import admission_steps
from kilauea.apiserver.backend import Backend
from kilauea.apiserver.core import ApiServer
from kilauea.apiserver.resources.builtin import builtin_types
from kilauea.apiserver.resources.registry import Registry
from kilauea.apiserver.server_state import SERVICE_RANGE
from kilauea.apiserver.storage import Retention
from kilauea.client.rest import Client
from kilauea.runtime.cluster.direct import DirectTransport
from support.faults import FaultyTransport
from support.first_writes import started_store
from support.virtual_time import LoopClock, VirtualLoop, virtual_loop

T = TypeVar("T")


class World:
    """A server, a client that meets faults (`client`), one that does not (`calm`), and the time."""

    def __init__(
        self, loop: VirtualLoop, seed: int, rate: float, retention: Retention | None, *, volcano: bool
    ) -> None:
        self.loop = loop
        self.clock = LoopClock(loop)
        self.rng = Random(seed)
        store = started_store(loop, retention, SERVICE_RANGE, volcano=volcano)
        self.store = store
        registry = Registry(builtin_types())
        self.server = ApiServer(Backend(store, registry, self.clock.now, Random(seed), admission_steps()))
        self.faults = FaultyTransport(DirectTransport(self.server, "tester"), Random(seed + 1), rate)
        self.client = Client(self.faults, "tester", Random(seed + 2), page=2)
        self.calm = Client(DirectTransport(self.server, "calm"), "calm", Random(seed + 3), page=0)

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """The result of a coroutine."""
        return self.loop.run_until_complete(work)

    def start(self, *works: Coroutine[Any, Any, None]) -> list[asyncio.Task[None]]:
        """Tasks that go on until the end of the world."""
        return [self.loop.create_task(work) for work in works]


@contextmanager
def virtual_api(
    seed: int, rate: float = 0.0, retention: Retention | None = None, *, volcano: bool = False
) -> Iterator[World]:
    """A world for the length of a block; with `volcano`, the Volcano kinds are defined."""
    with virtual_loop() as loop:
        world = World(loop, seed, rate, retention, volcano=volcano)
        yield world
        world.run(world.store.close())
