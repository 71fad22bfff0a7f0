"""Lists in pages, while others write and the past is forgotten."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, Mapping

from kilauea.api.ports import Resource
from kilauea.apiserver.storage import Retention
from kilauea.client.rest import Client
from kilauea.client.transport import Answer
from kilauea.runtime.cluster.direct import DirectTransport
from support.virtual_api import World, virtual_api

MAPS = Resource("", "v1", "configmaps", "ConfigMap")


class Disturbed:
    """A transport whose server writes whenever a page has been given."""

    def __init__(self, world: World, writes: int) -> None:
        self._world = world
        self._transport = DirectTransport(world.server, "tester")
        self._writes = writes
        self.targets: list[str] = []
        self.made = 0

    async def request(self, method: str, target: str, headers: Mapping[str, str], body: bytes) -> Answer:
        self.targets.append(target)
        answer = await self._transport.request(method, target, headers, body)
        for _ in range(self._writes):
            self.made += 1
            await self._world.calm.create(MAPS, "default", {"metadata": {"name": f"later-{self.made:03}"}})
        return answer

    def stream(self, target: str, headers: Mapping[str, str]) -> AsyncGenerator[bytes, None]:
        return self._transport.stream(target, headers)

    async def close(self) -> None:
        await self._transport.close()


def names_while(writes: int, retention: Retention) -> tuple[list[str], list[str]]:
    """Names that a list in pages of two has found, and what was asked for."""
    with virtual_api(1, retention=retention) as world:

        async def test() -> tuple[list[str], list[str]]:
            for name in "abcde":
                await world.calm.create(MAPS, "default", {"metadata": {"name": name}})
            wire = Disturbed(world, writes)
            listed = await Client(wire, page=2).list(MAPS, "default")
            found = [json.loads(item)["metadata"] for item in listed.items]
            assert all(int(each["resourceVersion"]) <= int(listed.version) for each in found)
            return [each["name"] for each in found], wire.targets

        return world.run(test())


def test_pages_are_of_one_moment_although_others_write() -> None:
    names, targets = names_while(3, Retention())
    assert names == list("abcde")
    assert len(targets) == 3


def test_a_list_whose_moment_is_forgotten_is_started_again_in_one_piece() -> None:
    names, targets = names_while(30, Retention(seconds=-1, revisions=1, size=1))
    assert names[:5] == list("abcde")
    assert len(names) == 5 + 30 * (len(targets) - 1)
    assert "limit" in targets[0]
    assert "limit" not in targets[-1]


def test_each_page_is_reduced_before_the_next_one_is_asked_for_a_second_time() -> None:
    """At most two pages are in memory as they came: the one that is read, and the one that the server works on."""
    with virtual_api(1) as world:

        async def test() -> list[bytes]:
            for name in "abcdefg":
                await world.calm.create(MAPS, "default", {"metadata": {"name": name}})
            wire, asked = Disturbed(world, 0), []

            def reduce(item: bytes) -> bytes:
                asked.append(len(wire.targets))
                return str(json.loads(item)["metadata"]["name"]).encode()

            listed = await Client(wire, page=2).list(MAPS, "default", reduce=reduce)
            assert all(count <= number // 2 + 2 for number, count in enumerate(asked)), asked
            return list(listed.items)

        assert world.run(test()) == [b"a", b"b", b"c", b"d", b"e", b"f", b"g"]
