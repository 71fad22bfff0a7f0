"""Limits: so many at once, then so many a second, in the order of asking."""

from __future__ import annotations

import asyncio

import pytest

from kilauea.api.ports import Key, Resource
from kilauea.client.limits import Limited, RateLimit
from kilauea.client.rest import Client
from kilauea.runtime.cluster.direct import DirectTransport
from support.virtual_api import virtual_api
from support.virtual_time import LoopClock, virtual_loop

NAMESPACES = Resource("", "v1", "namespaces", "Namespace", namespaced=False)


def test_after_a_burst_each_waits_for_its_turn() -> None:
    with virtual_loop() as loop:

        async def test() -> None:
            limit, turns = RateLimit(2, 3, LoopClock(loop)), list[tuple[int, float]]()

            async def go(number: int) -> None:
                await limit.wait()
                turns.append((number, loop.time()))

            await asyncio.gather(*(go(number) for number in range(6)))
            assert turns == [(0, 0), (1, 0), (2, 0), (3, 0.5), (4, 1), (5, 1.5)]
            await asyncio.sleep(100)
            turns.clear()
            await asyncio.gather(*(go(number) for number in range(4)))
            assert [round(time, 3) for _, time in turns] == [101.5, 101.5, 101.5, 102]

        loop.run_until_complete(test())


def test_who_does_not_wait_is_told_no() -> None:
    with virtual_loop() as loop:

        async def test() -> None:
            limit = RateLimit(1, 2, LoopClock(loop))
            assert [limit.take() for _ in range(4)] == [True, True, False, False]
            await asyncio.sleep(1)
            assert [limit.take(), limit.take()] == [True, False]

        loop.run_until_complete(test())


@pytest.mark.parametrize(("qps", "burst"), [(0, 1), (-1, 5), (5, 0)])
def test_a_limit_that_lets_nothing_through_is_refused(qps: float, burst: int) -> None:
    with virtual_loop() as loop, pytest.raises(ValueError, match="lets nothing through"):
        RateLimit(qps, burst, LoopClock(loop))


def test_a_limited_client_asks_no_oftener_than_allowed() -> None:
    with virtual_api(1) as world:

        async def test() -> None:
            client = Client(Limited(DirectTransport(world.server, "t"), RateLimit(10, 5, world.clock)))
            before = world.clock.now()
            await asyncio.gather(*(client.get(NAMESPACES, Key("", "default")) for _ in range(25)))
            assert (world.clock.now() - before) / 1e6 == pytest.approx(2.0)
            async for batch in client.watch(NAMESPACES, (await client.list(NAMESPACES)).version):
                assert batch
                break
            assert (world.clock.now() - before) / 1e6 > 2.2

        world.run(test())
