"""How a reflector goes on: after the end of a watch, after a loss, after it has fallen behind."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import aclosing
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kilauea.api.kinds import DEFINITIONS
from kilauea.api.ports import Key, Resource, Seen, Text, bytes_of
from kilauea.apiserver.custom_resources.bundled import install_bundled
from kilauea.apiserver.storage import Retention
from kilauea.client.backoff import pause
from kilauea.client.reflector import Reflector
from kilauea.client.rest import Client
from kilauea.client.transport import Answer, Transport, unreachable
from kilauea.client.view import Cache
from kilauea.runtime.cluster.direct import DirectTransport
from kilauea.runtime.cluster.in_process import Definitions
from support.virtual_api import World, virtual_api

SHORT = Retention(seconds=-1, revisions=2, size=4000)
"""A history of a few events."""
MAPS = Resource("", "v1", "configmaps", "ConfigMap")


class Notes:
    """A handler that notes what it is told: a list as `=version`, an event as `TYPE name`."""

    def __init__(self) -> None:
        self.told: list[str] = []
        self.versions: list[int] = []

    def on_relist(self, items: Sequence[Text], version: str) -> None:
        self.told.append("list of " + " ".join(json.loads(bytes_of(item))["metadata"]["name"] for item in items))
        self.versions.append(int(version))

    def on_events(self, batch: Sequence[Seen]) -> None:
        for seen in batch:
            name = json.loads(seen.object)["metadata"].get("name", "")
            self.told.append(f"{seen.type} {name}".strip())
            self.versions.append(int(seen.version))


class Wire(Transport):
    """A transport that notes requests, and can be cut."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport
        self.targets: list[str] = []
        self.cut = asyncio.Event()
        self.down = False

    async def request(self, method: str, target: str, headers: Mapping[str, str], body: bytes) -> Answer:
        self.targets.append(f"{method} {target}")
        if self.down:
            raise unreachable("down")
        return await self._transport.request(method, target, headers, body)

    async def stream(self, target: str, headers: Mapping[str, str]) -> AsyncGenerator[bytes, None]:
        self.targets.append(f"WATCH {target}")
        if self.down:
            raise unreachable("down")
        async with aclosing(self._transport.stream(target, headers)) as pieces:
            while piece := await self._next(pieces):
                yield piece

    async def _next(self, pieces: AsyncGenerator[bytes, None]) -> bytes:
        """The next piece, nothing at the end, an error if the wire is cut before."""
        piece, cut = asyncio.ensure_future(anext(pieces, b"")), asyncio.ensure_future(self.cut.wait())
        try:
            await asyncio.wait({piece, cut}, return_when=asyncio.FIRST_COMPLETED)
            if piece.done():
                return piece.result()
            self.cut.clear()
            raise unreachable("cut")
        finally:
            for task in (piece, cut):
                task.cancel()
            await asyncio.gather(piece, cut, return_exceptions=True)

    async def close(self) -> None:
        await self._transport.close()

    @property
    def watches(self) -> list[str]:
        """The versions from which watches were started."""
        return [each.partition("resourceVersion=")[2].partition("&")[0] for each in self.targets if "WATCH" in each]


async def followed(world: World) -> tuple[Notes, Wire]:
    """A reflector of the ConfigMaps of a namespace, that has listed."""
    notes, wire = Notes(), Wire(DirectTransport(world.server, "tester"))
    client = Client(wire, "tester", Random(1))
    reflector = Reflector(client, MAPS, notes, world.clock, world.rng, namespace="default")
    world.start(reflector.run())
    await reflector.complete.wait()
    await asyncio.sleep(1)
    return notes, wire


async def make(world: World, *names: str) -> None:
    for name in names:
        await world.calm.create(MAPS, "default", {"metadata": {"name": name}})


def test_a_watch_that_is_cut_off_goes_on_where_it_was_without_a_list() -> None:
    with virtual_api(1) as world:

        async def test() -> None:
            notes, wire = await followed(world)
            await make(world, "a")
            await asyncio.sleep(1)
            wire.cut.set()
            await asyncio.sleep(0.1)
            await make(world, "b")
            await asyncio.sleep(60)
            assert notes.told[:3] == ["list of ", "ADDED a", "ADDED b"]
            assert len(wire.watches) == 2
            assert int(wire.watches[1]) == notes.versions[1]

        world.run(test())


def test_a_watch_that_has_fallen_behind_lists_again() -> None:
    with virtual_api(1, retention=SHORT) as world:

        async def test() -> None:
            notes, wire = await followed(world)
            await make(world, "a")
            await asyncio.sleep(1)
            wire.down = True
            wire.cut.set()
            await asyncio.sleep(100)
            await world.calm.delete(MAPS, Key("default", "a"))
            names = [f"m{number:02}" for number in range(60)]
            await make(world, *names)
            wire.down = False
            await asyncio.sleep(100)
            told = [each for each in notes.told if each != "BOOKMARK"]
            assert told == ["list of ", "ADDED a", f"list of {' '.join(names)}"]

        world.run(test())


def test_a_quiet_watch_is_started_again_by_bookmarks_not_by_lists() -> None:
    with virtual_api(1, retention=SHORT) as world:

        async def test() -> None:
            notes, wire = await followed(world)
            for number in range(40):
                secret = Resource("", "v1", "secrets", "Secret")
                await world.calm.create(secret, "default", {"metadata": {"name": f"s{number}"}})
                await asyncio.sleep(60)
            assert len(wire.watches) in range(4, 9)  # 40 minutes of watches of 5 to 10 minutes
            assert sum("list" in each for each in notes.told) == 1
            assert set(notes.told[1:]) == {"BOOKMARK"}
            assert len([each for each in wire.targets if each.startswith("GET")]) == 1

        world.run(test())


def test_a_server_that_is_down_is_asked_less_and_less_often(caplog: pytest.LogCaptureFixture) -> None:
    with virtual_api(1) as world:

        async def test() -> None:
            notes, wire = await followed(world)
            wire.down = True
            wire.cut.set()
            before = len(wire.targets)
            with caplog.at_level(logging.ERROR):
                await asyncio.sleep(600)
            assert len(wire.targets) - before in range(20, 50)
            wire.down = False
            await asyncio.sleep(30)
            await make(world, "a")
            await asyncio.sleep(1)
            assert notes.told[-1] == "ADDED a"

        world.run(test())


def test_a_kind_that_the_server_does_not_have_yet_is_empty_if_that_may_be() -> None:
    with virtual_api(1) as world:

        async def test() -> None:
            flows = Resource("flow.volcano.sh", "v1alpha1", "jobflows", "JobFlow")
            patient, notes = Notes(), Notes()
            client = Client(DirectTransport(world.server, "tester"), "tester", Random(1))
            waiting = Reflector(client, flows, patient, world.clock, world.rng)
            going_on = Reflector(client, flows, notes, world.clock, world.rng, may_lack=True)
            world.start(waiting.run())
            world.start(going_on.run())
            await going_on.complete.wait()
            await asyncio.sleep(60)
            assert (notes.told, patient.told) == (["list of "], [])
            await install_bundled(world.server)
            await Definitions(world.server, world.clock).start()
            body = {"apiVersion": flows.api_version, "kind": flows.kind, "metadata": {"name": "f"}, "spec": {}}
            await client.create(flows, "default", body)
            await asyncio.sleep(60)
            assert (notes.told, patient.told) == (["list of ", "list of f"], ["list of f"])

        world.run(test())


def test_a_custom_kind_is_followed_while_its_definition_is_there(caplog: pytest.LogCaptureFixture) -> None:
    cache = Cache()

    def declare(resource: Resource) -> None:
        cache.declare(resource)

    with virtual_api(1) as world, caplog.at_level(logging.WARNING):

        async def test() -> None:
            flows = Resource("flow.volcano.sh", "v1alpha1", "jobflows", "JobFlow")
            name = Key("", "jobflows.flow.volcano.sh")
            await install_bundled(world.server)
            definitions = Definitions(world.server, world.clock)
            await definitions.start()
            wire = Wire(DirectTransport(world.server, "tester"))
            cache.on_every_kind(declare)
            world.start(cache.run(Client(wire, "tester", Random(1)), world.clock, world.rng))
            await cache.complete()
            await asyncio.sleep(60)
            body = {"apiVersion": flows.api_version, "kind": flows.kind, "metadata": {"name": "f"}, "spec": {}}
            definition = dict(await world.calm.get(DEFINITIONS, name))
            definition["metadata"] = {"name": name.name}
            await world.calm.create(flows, "default", body)
            await asyncio.sleep(1)
            assert [obj["metadata"]["name"] for obj in cache.list(flows)] == ["f"]
            await world.calm.delete(flows, Key("default", "f"))
            await world.calm.delete(DEFINITIONS, name)
            await asyncio.sleep(60)
            asked = sum("jobflows" in each for each in wire.targets)
            await asyncio.sleep(600)
            assert sum("jobflows" in each for each in wire.targets) == asked
            await world.calm.create(DEFINITIONS, "", definition)
            await asyncio.sleep(60)
            await world.calm.create(flows, "default", body)
            await asyncio.sleep(60)
            assert [obj["metadata"]["name"] for obj in cache.list(flows)] == ["f"]
            await definitions.stop()

        world.run(test())
    assert not caplog.messages


def test_a_handler_that_fails_is_told_everything_again() -> None:
    with virtual_api(1) as world:

        class Failing(Notes):
            def on_events(self, batch: Sequence[Seen]) -> None:
                if not self.told[1:]:
                    self.told.append("failed")
                    raise ValueError("no")
                super().on_events(batch)

        async def test() -> None:
            notes = Failing()
            reflector = Reflector(world.calm, MAPS, notes, world.clock, world.rng, namespace="default")
            world.start(reflector.run())
            await reflector.complete.wait()
            await asyncio.sleep(1)
            await make(world, "a")
            await asyncio.sleep(30)
            assert notes.told[:3] == ["list of ", "failed", "list of a"]

        world.run(test())


@pytest.mark.slow
@given(seed=st.integers(0, 2**32))
def test_no_event_is_told_twice_and_none_out_of_order(seed: int) -> None:
    with virtual_api(seed, rate=0.4) as world:

        async def test() -> None:
            notes = Notes()
            reflector = Reflector(world.client, MAPS, notes, world.clock, world.rng)
            world.start(reflector.run())
            for number in range(30):
                await make(world, f"m{number}")
                if number % 3:
                    await world.calm.delete(MAPS, Key("default", f"m{number}"))
                await asyncio.sleep(world.rng.choice((0, 1, 20)))
            world.faults.rate = 0
            await asyncio.sleep(700)
            events = [
                version for version, told in zip(notes.versions, notes.told, strict=True) if "BOOKMARK" not in told
            ]
            assert all(
                later > earlier or "list" in told
                for earlier, later, told in zip(notes.versions, notes.versions[1:], notes.told[1:], strict=False)
            )
            assert len(events) >= 1

        world.run(test())


@pytest.mark.parametrize(("failures", "least", "most"), [(1, 0.25, 0.5), (2, 0.5, 1), (4, 2, 4), (50, 15, 30)])
def test_pauses_double_up_to_a_limit_and_half_of_them_is_rng(failures: int, least: float, most: float) -> None:
    rng = Random(1)
    pauses = [pause(failures, rng) for _ in range(500)]
    assert least <= min(pauses) < least * 1.1
    assert most * 0.95 < max(pauses) <= most
