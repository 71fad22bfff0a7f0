"""The way to a server in the same process: refusals are those of HTTP, and nothing goes on after the end."""

from __future__ import annotations

import pytest

from kilauea.api.ports import ApiError, Key, Resource
from kilauea.client.rest import Client
from kilauea.runtime.direct import DirectTransport
from virtual_api import virtual_api

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
