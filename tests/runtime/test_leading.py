"""A leader that may have lost its lease sends nothing, though it was about to when it was paused or cut off."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Iterator, Mapping
from contextlib import aclosing, contextmanager
from random import Random

import pytest

from kilauea.api.kinds import LEASES
from kilauea.api.ports import ApiError, Key
from kilauea.client.lease import LeaseLost, Terms
from kilauea.client.rest import Client
from kilauea.client.transport import Answer, Transport, unreachable
from kilauea.runtime.cluster.direct import DirectTransport
from kilauea.runtime.leading import Leadership
from support.live_world import Live
from support.virtual_api import World, virtual_api

LEASE = Key("volcano-system", "volcano")
GANG = 100
"""More pods than are bound at a time."""


class SlowLine:
    """A transport whose connections take a while to make, and which asks before it sends, as that over HTTP does."""

    def __init__(self, transport: Transport, check: Callable[[str], None]) -> None:
        self._transport, self._check = transport, check
        self.sent: list[str] = []
        self.cut = False

    async def request(self, method: str, target: str, headers: Mapping[str, str], body: bytes) -> Answer:
        if self.cut:
            raise unreachable("no route")
        if method not in ("GET", "HEAD"):
            await asyncio.sleep(0.5)
        self._check(method)
        self.sent.append(f"{method} {target}")
        return await self._transport.request(method, target, headers, body)

    async def stream(self, target: str, headers: Mapping[str, str]) -> AsyncGenerator[bytes, None]:
        async with aclosing(self._transport.stream(target, headers)) as pieces:
            async for piece in pieces:
                yield piece

    async def close(self) -> None:
        await self._transport.close()

    def writes(self) -> list[str]:
        return [each for each in self.sent if not each.startswith("GET")]


class Leader:
    """A scheduler that holds a lease, and is in the midst of binding a gang."""

    def __init__(self, world: World) -> None:
        self.leadership = Leadership(world.clock, Random(1), LEASE, Terms())
        self.line = SlowLine(DirectTransport(world.server, "scheduler"), self.leadership.check)
        self.own = SlowLine(DirectTransport(world.server, "scheduler"), lambda method: None)
        self.live = Live(world, None, self.line)
        self.live.node("n1", cpu="1000")
        scheduler = self.live.scheduler
        leading = self.leadership.lead(Client(self.own), scheduler.schedule)
        _, self.leading = self.live.tasks = world.start(scheduler.watch(), leading)
        self.live.wait(10)
        self.live.group("gang", GANG)
        self.live.wait(0.7)

    def bound(self) -> int:
        return sum(bool(self.live.node_of(f"gang-{number}")) for number in range(GANG))


@contextmanager
def leader() -> Iterator[Leader]:
    with virtual_api(1, volcano=True) as world:
        yield Leader(world)


def test_without_a_pause_all_is_sent() -> None:
    with leader() as leads:
        assert 0 < leads.bound() < GANG
        leads.live.wait(60)
        assert leads.bound() == GANG


@pytest.mark.parametrize("paused", [10.5, 20.0, 3600.0])
def test_a_leader_that_was_paused_for_too_long_sends_nothing_that_it_had_queued(paused: float) -> None:
    with leader() as leads:
        world, before, writes = leads.live.world, leads.bound(), leads.line.writes()
        assert 0 < before < GANG
        world.loop.seconds += paused  # nothing of the process runs meanwhile
        world.run(asyncio.sleep(60))
        assert leads.bound() == before
        assert leads.line.writes() == writes
        with pytest.raises(LeaseLost):
            leads.leading.result()


def test_a_pause_that_the_lease_outlasts_changes_nothing() -> None:
    with leader() as leads:
        leads.live.world.loop.seconds += 5
        leads.live.wait(60)
        assert leads.bound() == GANG


@pytest.mark.parametrize("step", [-600.0, 600.0])
def test_setting_the_time_of_day_neither_ends_nor_lengthens_a_lease(step: float) -> None:
    with leader() as leads:
        world = leads.live.world
        world.clock.step(step)
        leads.live.wait(60)
        assert leads.bound() == GANG
        leads.own.cut = True
        world.clock.step(step)
        world.run(asyncio.sleep(13))
        with pytest.raises(LeaseLost):
            leads.leading.result()


def test_a_leader_that_cannot_reach_its_lease_writes_no_longer_than_that_is_sure() -> None:
    with leader() as leads:
        world = leads.live.world
        leads.own.cut = True
        world.run(asyncio.sleep(10.5))
        writes = leads.line.writes()
        leads.live.group("late", 3)
        world.run(asyncio.sleep(60))
        assert leads.line.writes() == writes
        with pytest.raises(LeaseLost):
            leads.leading.result()


def test_a_lease_that_another_process_took_is_valid_no_more() -> None:
    with leader() as leads:
        world = leads.live.world
        leads.leadership.check("POST")
        spec = {"holderIdentity": "another"}
        world.run(world.calm.patch(LEASES, LEASE, {"spec": spec}))
        world.run(asyncio.sleep(5))
        leads.leadership.check("GET")
        with pytest.raises(ApiError, match="lease volcano-system/volcano has expired"):
            leads.leadership.check("POST")
        with pytest.raises(LeaseLost):
            leads.leading.result()


def test_who_has_not_led_yet_may_make_what_everybody_needs() -> None:
    with virtual_api(1) as world:
        Leadership(world.clock, Random(1), LEASE, Terms()).check("POST")
