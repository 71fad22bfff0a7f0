"""Turns at the workers of a controller: much or heavy work of one namespace keeps no other namespace waiting."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import Any

from kilauea.api.ports import ApiError, Create, Interest, Key, Outcome, Resource
from kilauea.runtime.manager.reconciling import CONCURRENCY
from runtime.manager.test_reconciling import MAPS, SECRETS, Calls, Counting, drive, own_key
from support.virtual_api import World, virtual_api

NAMESPACES = Resource("", "v1", "namespaces", "Namespace", namespaced=False)
SMALL = Key("other", "small")


async def make(world: World, *keys: Key) -> None:
    for namespace in sorted({key.namespace for key in keys}):
        with suppress(ApiError):  # it exists
            await world.calm.create(NAMESPACES, "", {"metadata": {"name": namespace}})
    for key in keys:
        await world.calm.create(MAPS, key.namespace, {"metadata": {"name": key.name}})


def many(namespace: str, count: int) -> list[Key]:
    return [Key(namespace, f"m{number:03}") for number in range(count)]


def heavy(world: World, seconds: float) -> Any:
    """What is asked about takes so many seconds of the process, but for the small key; it is asked again at once."""

    def work(key: Key, *_: Any) -> Outcome:
        world.loop.seconds += seconds if key != SMALL else 0.0
        return Outcome([], again=None if key == SMALL else 0.01)

    return work


def test_keys_that_take_long_rest_in_the_queue_and_leave_the_workers_to_others() -> None:
    with virtual_api(1) as world:

        async def test() -> None:
            await make(world, *many("tenant", 2 * CONCURRENCY))
            controller = Calls(heavy(world, 1.0))
            drive(world, controller)
            await asyncio.sleep(60 * CONCURRENCY)  # by now all of them are known to take long
            start = world.loop.time()
            await make(world, SMALL)
            while not controller.times("small"):
                await asyncio.sleep(0.01)
            assert world.loop.time() - start < 1.1, "it waited for several keys"

        world.run(test())


def test_keys_that_are_new_and_take_long_leave_half_of_the_time_too() -> None:
    with virtual_api(1) as world:

        async def test() -> None:
            await make(world, *many("tenant", 20))
            drive(world, Calls(heavy(world, 1.0)))
            before, slowest = world.loop.time(), 0.0
            while world.loop.time() < 40:
                await asyncio.sleep(0.01)
                before, slowest = world.loop.time(), max(slowest, world.loop.time() - before)
            assert slowest < 1.1, "it waited for several keys"

        world.run(test())


def test_of_keys_that_take_long_the_turn_goes_round_the_namespaces_and_the_controllers() -> None:
    with virtual_api(1) as world:

        async def test() -> None:
            await make(world, *many("tenant", 100), Key("other", "large"))
            first, second = Calls(heavy(world, 1.0)), Calls(heavy(world, 1.0))
            drive(world, first, second)
            await asyncio.sleep(1000)
            for controller in (first, second):
                controller.calls.clear()
            await asyncio.sleep(400)
            for controller in (first, second):
                asked = [name for name, _ in controller.calls]
                assert len(asked) > 90
                assert asked.count("large") >= len(asked) // 2 - 1
                # and every one of the tenant has its turn in its time
                others = [name for name in asked if name != "large"]
                assert len(set(others)) == len(others)

        world.run(test())


def test_many_keys_of_one_namespace_are_asked_about_in_turns_with_those_of_others() -> None:
    with virtual_api(1) as world:

        async def test() -> None:
            controller = Calls(lambda *_: Outcome())
            await make(world, *many("tenant", 100), SMALL)
            drive(world, controller)
            await asyncio.sleep(1)
            asked = [name for name, _ in controller.calls]
            assert sorted(asked) == sorted(["small", *(key.name for key in many("tenant", 100))])
            assert "small" in asked[:2]

        world.run(test())


def test_operations_of_one_namespace_leave_workers_to_others() -> None:
    with virtual_api(1) as world:

        async def test() -> None:
            def work(key: Key, *_: Any) -> Outcome:
                name = {"namespace": key.namespace, "generateName": "of-"}
                count = 1 if key == SMALL else 1000
                return Outcome([Create(SECRETS, {"metadata": name})] * count, foreseen=True)

            controller = Calls(work, Interest(MAPS, own_key))
            api: Any = Counting(world.calm)
            await make(world, *many("tenant", 2 * CONCURRENCY))
            drive(world, controller, client=api, concurrency=CONCURRENCY)
            await asyncio.sleep(10)
            assert api.now < len(controller.calls) + 1 <= CONCURRENCY
            await make(world, SMALL)
            await asyncio.sleep(3)
            assert controller.times("small")

        world.run(test())
