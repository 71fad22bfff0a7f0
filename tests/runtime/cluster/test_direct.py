"""The way to a server in the same process: refusals are those of HTTP, and nothing goes on after the end."""

from __future__ import annotations

import asyncio
from random import Random

import pytest

from kilauea.api.ports import ApiError, Key, Resource, Seen
from kilauea.apiserver.storage import Retention
from kilauea.client.rest import Client
from kilauea.runtime.cluster.direct import DirectClient, DirectTransport
from support.virtual_api import World, virtual_api

THINGS = Resource("no.group", "v1", "things", "Thing")
MAPS = Resource("", "v1", "configmaps", "ConfigMap")


def test_a_watch_that_is_refused_is_an_error() -> None:
    with virtual_api(1) as world:

        async def test() -> None:
            with pytest.raises(ApiError) as caught:
                async for _ in world.calm.watch(THINGS, "1"):
                    pass
            assert caught.value.code == 404
            with pytest.raises(ApiError) as caught:
                async for _ in world.calm.watch(MAPS, "1", labels="a b"):
                    pass
            assert (caught.value.code, caught.value.reason) == (400, "BadRequest")

        world.run(test())


def test_names_reach_the_server_as_they_are() -> None:
    with virtual_api(1) as world:

        async def test() -> None:
            with pytest.raises(ApiError, match=r'configmaps "b %2f\?c=d&e" not found'):
                await world.calm.get(MAPS, Key("default", "b %2f?c=d&e"))

        world.run(test())


def test_a_closed_transport_answers_nothing() -> None:
    with virtual_api(1) as world:

        async def test() -> None:
            transport = DirectTransport(world.server, "tester")
            await transport.close()
            client = Client(transport)
            with pytest.raises(ApiError) as caught:
                await client.get(MAPS, Key("default", "a"))
            assert (caught.value.code, caught.value.reason) == (0, "Unreachable")
            with pytest.raises(ApiError, match="closed"):
                async for _ in client.watch(MAPS, "1"):
                    pass

        world.run(test())


def test_a_long_answer_is_gathered_in_turns() -> None:
    """Its chunks are made while they are gathered, which is the work of hundreds of objects for each."""
    with virtual_api(1) as world:

        async def test() -> None:
            for number in range(16):
                data = {"text": "x" * 100_000}
                await world.calm.create(MAPS, "default", {"metadata": {"name": f"m{number}"}, "data": data})
            turns = 0

            async def others() -> None:
                nonlocal turns
                while True:
                    turns += 1
                    await asyncio.sleep(0)

            beside = asyncio.ensure_future(others())
            answer = await DirectTransport(world.server, "tester").request("GET", "/api/v1/configmaps", {}, b"")
            beside.cancel()
            assert answer.body.count(b"x" * 100_000) == 16
            assert turns >= 4

        world.run(test())


async def heard(client: Client, seconds: float, version: str, labels: str) -> list[Seen]:
    """What a watch of config maps tells in some time."""
    told: list[Seen] = []

    async def listen() -> None:
        async for batch in client.watch(MAPS, version, labels=labels):
            told.extend(batch)

    with pytest.raises(TimeoutError):
        await asyncio.wait_for(listen(), seconds)
    return told


async def change_maps(world: World) -> None:
    """Config maps come into a selection and go out of it, change within it, and are deleted."""
    for number, labels in enumerate(({"app": "a"}, {}, {"app": "a"}, {"app": "b"})):
        metadata = {"name": f"m{number % 3}", "namespace": "default", "labels": labels}
        body = {"metadata": metadata, "data": {"number": str(number)}}
        await (world.calm.create(MAPS, "default", body) if number < 3 else world.calm.update(MAPS, body))
        await asyncio.sleep(number)
    for labels in ({"app": "a"}, {"app": "a", "more": "yes"}):
        await world.calm.patch(MAPS, Key("default", "m1"), {"metadata": {"labels": labels}})
    await world.calm.delete(MAPS, Key("default", "m2"))
    await world.calm.delete(MAPS, Key("default", "m0"))


@pytest.mark.parametrize("labels", ["", "app=a"])
def test_events_that_are_handed_over_are_those_of_the_wire(labels: str) -> None:
    with virtual_api(1) as world:

        async def test() -> list[list[Seen]]:
            version = str(world.store.revision)
            wire = Client(DirectTransport(world.server, "tester"), "tester", Random(3))
            straight = DirectClient(world.server, "tester", Random(3))
            world.start(change_maps(world))
            return await asyncio.gather(*(heard(each, 130, version, labels) for each in (wire, straight)))

        wire, straight = world.run(test())
        assert [each[:3] for each in straight] == [each[:3] for each in wire]
        assert all(each.holder is None or each.holder.value == each.object for each in straight)
        assert {each.type for each in straight} == {"ADDED", "MODIFIED", "DELETED", "BOOKMARK"}


@pytest.mark.parametrize("labels", ["", "app=a", "app=none"])
def test_a_list_that_is_handed_over_is_that_of_the_wire_and_copies_nothing(labels: str) -> None:
    with virtual_api(1) as world:

        async def test() -> None:
            for number in range(5):
                metadata = {"name": f"m{number}", "labels": {"app": "ab"[number % 2]}}
                await world.calm.create(MAPS, "default", {"metadata": metadata})
            wire = await Client(DirectTransport(world.server, "tester"), "tester").list(MAPS, labels=labels)
            straight = await DirectClient(world.server, "tester").list(MAPS, labels=labels)
            assert (list(straight.items), straight.version) == (list(wire.items), wire.version)
            assert len(straight.items) == len(straight.holders) == {"": 5, "app=a": 3, "app=none": 0}[labels]
            assert list(straight.items[1:3]) == [each.value for each in straight.holders[1:3]]
            kept = {id(each) for each in world.store.list("/core/configmaps/").items}
            assert {id(each) for each in straight.holders} <= kept

        world.run(test())


def test_a_list_without_the_wire_that_is_refused_is_an_error() -> None:
    with virtual_api(1) as world:

        async def test() -> None:
            client = DirectClient(world.server, "tester")
            for resource, labels, code in ((THINGS, "", 404), (MAPS, "a b", 400)):
                with pytest.raises(ApiError) as caught:
                    await client.list(resource, labels=labels)
                assert caught.value.code == code

        world.run(test())


def test_a_watch_that_is_too_far_behind_ends_with_the_same_error_in_both_ways() -> None:
    with virtual_api(1, retention=Retention(seconds=-1, revisions=1, size=1)) as world:

        async def error_of(client: Client) -> ApiError:
            with pytest.raises(ApiError) as caught:
                async for _ in client.watch(MAPS, "1"):
                    pass
            return caught.value

        async def test() -> tuple[ApiError, ApiError]:
            await change_maps(world)
            return await error_of(world.calm), await error_of(DirectClient(world.server, "tester"))

        wire, straight = world.run(test())
        assert straight.code == wire.code == 410
        assert (straight.reason, str(straight)) == (wire.reason, str(wire))


def test_a_watch_without_the_wire_that_is_refused_is_an_error() -> None:
    with virtual_api(1) as world:

        async def test() -> None:
            client = DirectClient(world.server, "tester")
            with pytest.raises(ApiError) as caught:
                async for _ in client.watch(THINGS, "1"):
                    pass
            assert caught.value.code == 404
            with pytest.raises(ApiError) as caught:
                async for _ in client.watch(MAPS, "1", labels="a b"):
                    pass
            assert (caught.value.code, caught.value.reason) == (400, "BadRequest")

        world.run(test())


def test_events_that_follow_the_first_ones_gather_into_one_batch() -> None:
    with virtual_api(1) as world:

        async def test() -> list[int]:
            sizes: list[int] = []

            async def listen() -> None:
                async for batch in DirectClient(world.server, "tester", gather=5.0).watch(MAPS, version):
                    sizes.append(len(batch))

            version = str(world.store.revision)
            world.start(listen())
            await asyncio.sleep(1)
            for number in range(5):
                metadata = {"name": f"m{number}", "namespace": "default"}
                await world.calm.create(MAPS, "default", {"metadata": metadata})
                await asyncio.sleep(0.5)
            await asyncio.sleep(10)
            return sizes

        assert world.run(test()) == [1, 4]


def test_a_watch_that_gathers_events_keeps_up_with_many_large_ones() -> None:
    with virtual_api(1) as world:

        async def test() -> int:
            seen = 0

            async def listen() -> None:
                nonlocal seen
                async for batch in DirectClient(world.server, "tester", gather=1.0).watch(MAPS, version):
                    seen += sum(each.type == "ADDED" for each in batch)

            version = str(world.store.revision)
            world.start(listen())
            for number in range(1000):
                metadata = {"name": f"m{number}", "namespace": "default"}
                await world.calm.create(MAPS, "default", {"metadata": metadata, "data": {"text": "x" * 3000}})
            await asyncio.sleep(2.5)
            return seen

        assert world.run(test()) == 1000
