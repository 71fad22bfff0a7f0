"""The driver of controllers: what they want comes about, no one starves, no one acts on an old picture."""

from __future__ import annotations

import asyncio
import itertools
import logging
from collections.abc import Callable, Iterable, Sequence
from random import Random
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kilauea.api.ports import (
    CREATION_REFUSED,
    Create,
    Delete,
    Empty,
    Interest,
    Key,
    Obj,
    Operation,
    Outcome,
    Patch,
    Record,
    Remaining,
    Resource,
    Single,
    Steps,
    Together,
    View,
    Wording,
    key_of,
)
from kilauea.client.rest import Client
from kilauea.client.view import Cache
from kilauea.controllers.objects import ItsController
from kilauea.runtime.cluster.direct import DirectTransport
from kilauea.runtime.manager import operations
from kilauea.runtime.manager.reconciling import SIDE_BY_SIDE, Driver
from support.garbage import large_garbage
from support.virtual_api import World, virtual_api
from support.virtual_time import VirtualLoop

MAPS = Resource("", "v1", "configmaps", "ConfigMap")
SECRETS = Resource("", "v1", "secrets", "Secret")
NODES = Resource("", "v1", "nodes", "Node", namespaced=False)
NAMES = "abcde"


def own_key(obj: Obj) -> Iterable[Key]:
    return [key_of(obj)]


class Calls:
    """A controller that notes what it is asked about and answers with what a function says."""

    name = "calls"

    def __init__(self, answer: Callable[[Key, View, int], Outcome | Steps], *interests: Interest) -> None:
        self.interests: Sequence[Interest] = interests or (Interest(MAPS, own_key),)
        self._answer = answer
        self.calls: list[tuple[str, float]] = []

    def reconcile(self, key: Key, view: View, now: int) -> Outcome | Steps:
        self.calls.append((key.name, now / 1e6 - 1_700_000_000))
        return self._answer(key, view, now)

    def times(self, name: str) -> list[float]:
        return [round(time, 3) for called, time in self.calls if called == name]


class Mirror:
    """Keeps for each ConfigMap a Secret of the same name that holds how often it has changed, and no other Secrets."""

    name = "mirror"
    interests = (Interest(MAPS, own_key), Interest(SECRETS, own_key))

    def __init__(self) -> None:
        self.created: list[tuple[Key, str]] = []

    def reconcile(self, key: Key, view: View, now: int) -> Outcome:
        source, copy = view.get(MAPS, key), view.get(SECRETS, key)
        return Outcome(self._operations(key, source, copy))

    def _operations(self, key: Key, source: Obj | None, copy: Obj | None) -> list[Operation]:
        if source is None:
            return [Delete(SECRETS, key, copy["metadata"]["uid"])] if copy is not None else []
        wanted = {"of": source["metadata"]["uid"], "turn": source["data"]["turn"]}
        if copy is None:
            self.created.append((key, source["metadata"]["uid"]))
            metadata = {"namespace": key.namespace, "name": key.name, "annotations": wanted}
            return [Create(SECRETS, {"metadata": metadata})]
        if copy["metadata"].get("annotations") != wanted:
            return [Patch(SECRETS, key, {"metadata": {"annotations": wanted}})]
        return []


def drive(
    world: World,
    *controllers: Any,
    client: Client | None = None,
    records: list[Any] | None = None,
    concurrency: int = 3,
) -> Driver:
    """Start a cache and a driver."""
    cache, noted = Cache(), [] if records is None else records
    api = client or world.calm
    driver = Driver(
        api, cache, world.clock, world.rng, lambda who, what: noted.append((who, what)), controllers, concurrency
    )
    world.start(cache.run(api, world.clock, world.rng), driver.run())
    return driver


async def make(world: World, *names: str, **data: str) -> None:
    for name in names:
        await world.calm.create(MAPS, "default", {"metadata": {"name": name}, "data": data})


async def decoded(world: World, resource: Resource) -> dict[str, Any]:
    items = (await world.calm.list(resource, "default")).items
    return {obj["metadata"]["name"]: obj for obj in map(msgspec.json.decode, items)}


async def change_at_random(world: World, rng: Random, count: int) -> None:
    for turn in range(count):
        key = Key("default", rng.choice(NAMES))
        there = key.name in await decoded(world, MAPS)
        if not there:
            await make(world, key.name, turn=str(turn))
        elif rng.random() < 0.4:
            await world.calm.delete(MAPS, key)
        else:
            await world.calm.patch(MAPS, key, {"data": {"turn": str(turn)}})
        await asyncio.sleep(rng.choice((0, 0, 0.05, 1, 40)))


@pytest.mark.slow
@given(seed=st.integers(0, 2**32), rate=st.sampled_from([0.0, 0.2, 0.5]))
def test_what_a_controller_wants_comes_about_whatever_fails(seed: int, rate: float) -> None:
    with virtual_api(seed, rate) as world:

        async def test() -> None:
            driver = drive(world, Mirror(), client=world.client)
            await change_at_random(world, Random(seed), 30)
            world.faults.rate = 0
            await asyncio.sleep(1000)
            maps, copies = await decoded(world, MAPS), await decoded(world, SECRETS)
            assert {name: (each["metadata"]["uid"], each["data"]["turn"]) for name, each in maps.items()} == {
                name: (each["metadata"]["annotations"]["of"], each["metadata"]["annotations"]["turn"])
                for name, each in copies.items()
            }
            assert driver.busy == 0

        world.run(test())


def test_a_controller_hears_of_objects_of_a_kind_that_was_listed_before_it_follows_it() -> None:
    with virtual_api(1) as world:

        async def test() -> None:
            await make(world, "a", "b")
            cache, calls = Cache(), Calls(lambda key, view, now: Outcome())
            cache.declare(MAPS)
            world.start(cache.run(world.calm, world.clock, world.rng))
            await asyncio.sleep(5)
            driver = Driver(world.calm, cache, world.clock, world.rng, lambda who, what: None, [calls])
            world.start(driver.run())
            await asyncio.sleep(5)
            assert {name for name, _ in calls.calls} == {"a", "b"}

        world.run(test())


@pytest.mark.slow
@given(seed=st.integers(0, 2**32))
def test_nothing_is_created_twice_although_watches_are_late(seed: int) -> None:
    with virtual_api(seed) as world:

        async def test() -> None:
            mirror = Mirror()
            original = world.faults.stream
            late = Random(seed)

            async def stream(target: str, headers: Any) -> Any:
                async for piece in original(target, headers):
                    await asyncio.sleep(late.uniform(0, 3))
                    yield piece

            world.faults.stream = stream  # type: ignore[method-assign]
            drive(world, mirror, client=world.client)
            await asyncio.sleep(10)
            for turn in range(20):
                name = Random(seed + turn).choice(NAMES)
                if name in await decoded(world, MAPS):
                    await world.calm.patch(MAPS, Key("default", name), {"data": {"turn": str(turn)}})
                else:
                    await make(world, name, turn=str(turn))
                await asyncio.sleep(Random(seed - turn).choice((0, 0.5, 2)))
            await asyncio.sleep(100)
            assert sorted(mirror.created) == sorted(set(mirror.created))
            assert set(await decoded(world, SECRETS)) == set(await decoded(world, MAPS))

        world.run(test())


def test_a_key_that_always_fails_is_tried_less_and_less_often_and_holds_no_one_up() -> None:
    def answer(key: Key, view: View, now: int) -> Outcome:
        bad = Create(SECRETS, {"metadata": {"namespace": "default", "name": "No Name"}})
        return Outcome([bad] if key.name == "bad" else ())

    with virtual_api(1) as world:

        async def test() -> None:
            controller = Calls(answer)
            drive(world, controller)
            await make(world, "bad")
            await asyncio.sleep(600)
            tries = controller.times("bad")
            assert len(tries) in range(15, 30)
            assert max(later - earlier for earlier, later in itertools.pairwise(tries)) <= 60
            before = world.clock.now()
            await make(world, *(f"good-{number}" for number in range(50)))
            await asyncio.sleep(1)
            assert all(len(controller.times(f"good-{number}")) == 1 for number in range(50))
            assert world.clock.now() - before <= 1_000_001

        world.run(test())


def test_a_controller_that_raises_is_asked_again_and_others_go_on(caplog: pytest.LogCaptureFixture) -> None:
    def fail_twice(key: Key, view: View, now: int) -> Outcome:
        if len(raising.times(key.name)) <= 2:
            raise ValueError("cannot think")
        return Outcome()

    raising = Calls(fail_twice)
    raising.name = "raising"
    steady = Calls(lambda key, view, now: Outcome())
    with virtual_api(1) as world:

        async def test() -> None:
            drive(world, raising, steady)
            await make(world, "a")
            await asyncio.sleep(10)
            assert len(raising.times("a")) == 3
            assert len(steady.times("a")) == 1

        with caplog.at_level(logging.ERROR):
            world.run(test())
    assert [record.levelname for record in caplog.records] == ["ERROR", "ERROR"]
    assert "raising default/a (again in" in caplog.text
    assert "ValueError: cannot think" in caplog.text


def test_a_key_is_asked_about_again_when_its_time_has_come() -> None:
    again = {1: 10.0, 2: 20.0, 3: None}
    with virtual_api(1) as world:

        async def test() -> None:
            controller = Calls(lambda key, view, now: Outcome(again=again[len(controller.calls)]))
            drive(world, controller, Calls(lambda key, view, now: Outcome(again=7)))
            await make(world, "a")
            await asyncio.sleep(100)
            first = controller.times("a")[0]
            assert controller.times("a") == [first, first + 10, first + 30]

        world.run(test())


def test_a_later_outcome_replaces_the_time_that_an_earlier_one_wanted() -> None:
    with virtual_api(1) as world:

        async def test() -> None:
            controller = Calls(lambda key, view, now: Outcome(again=10 if len(controller.calls) == 1 else None))
            drive(world, controller)
            await make(world, "a")
            await asyncio.sleep(5)
            await world.calm.patch(MAPS, Key("default", "a"), {"data": {"x": "y"}})
            await asyncio.sleep(100)
            assert len(controller.calls) == 2

        world.run(test())


def counting(key: Key, view: View, now: int) -> Outcome:
    """Writes once, and has foreseen what comes of it."""
    found = view.get(MAPS, key)
    if found is None or "seen" in found.get("data", {}):
        return Outcome()
    patch = {"data": {"seen": "1"}}
    version = found["metadata"]["resourceVersion"]
    return Outcome([Patch(MAPS, key, patch, version=version)], foreseen=True)


def test_a_controller_is_not_asked_about_what_it_has_foreseen_but_about_what_others_do() -> None:
    with virtual_api(1) as world:

        async def test() -> None:
            controller = Calls(counting)
            drive(world, controller)
            await make(world, "a")
            await asyncio.sleep(5)
            assert (await decoded(world, MAPS))["a"]["data"] == {"seen": "1"}
            assert len(controller.calls) == 1
            await world.calm.patch(MAPS, Key("default", "a"), {"data": {"x": "y"}})
            await asyncio.sleep(5)
            assert len(controller.calls) == 2

        world.run(test())


def test_what_others_do_before_a_foreseen_write_is_seen_is_a_reason_to_ask() -> None:
    with virtual_api(1) as world:

        class Meddled(Client):
            async def patch(self, resource: Resource, key: Key, *args: Any, **more: Any) -> bytes:
                answer = await super().patch(resource, key, *args, **more)
                await world.calm.patch(resource, key, {"data": {"x": "y"}})
                return answer

        async def test() -> None:
            controller = Calls(counting)
            drive(world, controller, client=Meddled(DirectTransport(world.server, "meddled")))
            await make(world, "a")
            await asyncio.sleep(5)
            assert len(controller.calls) == 2

        world.run(test())


def test_what_waits_for_objects_is_asked_about_by_the_clock_not_for_each_report_of_what_is_left() -> None:
    """Each report changes the object. If that were a reason to ask, all that is left would be deleted in a loop."""
    with virtual_api(1) as world:

        async def test() -> None:
            reports = itertools.count()

            def report(left: Sequence[Remaining]) -> Patch:
                number = next(reports)
                assert number < 30
                return Patch(MAPS, Key("default", "a"), {"data": {"report": f"{number}"}})

            emptied = Empty([SECRETS], "default", report=report)
            controller = Calls(lambda *asked: Outcome([emptied]))
            held = {"namespace": "default", "name": "held", "finalizers": ["example.com/held"]}
            await world.calm.create(SECRETS, "default", {"metadata": held})
            drive(world, controller)
            await make(world, "a")
            await asyncio.sleep(9.5)
            assert len(controller.calls) == 10
            await world.calm.patch(MAPS, Key("default", "a"), {"data": {"x": "y"}})
            await asyncio.sleep(0.2)
            assert len(controller.calls) == 11

        world.run(test())


def test_the_more_objects_are_waited_for_the_less_often_all_are_deleted_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(operations, "LOOKED_AT_A_SECOND", 2)
    with virtual_api(1) as world:

        async def test() -> None:
            controller = Calls(lambda *asked: Outcome([Empty([SECRETS])]))
            for number in range(10):
                held = {"namespace": "default", "name": f"held-{number}", "finalizers": ["example.com/held"]}
                await world.calm.create(SECRETS, "default", {"metadata": held})
            drive(world, controller)
            await make(world, "a")
            await asyncio.sleep(12)
            assert controller.times("a") == [0.0, 5.0, 10.0]

        world.run(test())


def test_a_foreseen_write_that_fails_is_tried_again() -> None:
    with virtual_api(1) as world:

        async def test() -> None:
            stale = Patch(MAPS, Key("default", "a"), {"data": {"seen": "1"}}, version="1")
            controller = Calls(
                lambda *asked: Outcome([stale], foreseen=True) if len(controller.calls) < 3 else Outcome()
            )
            drive(world, controller)
            await make(world, "a")
            await asyncio.sleep(5)
            assert len(controller.calls) == 3

        world.run(test())


def test_many_changes_make_one_look_where_looks_may_be_put_off() -> None:
    with virtual_api(1) as world:

        async def test() -> None:
            key = Key("default", "all")
            controller = Calls(lambda key, view, now: Outcome(), Interest(MAPS, lambda obj: [key], delay=2.0))
            drive(world, controller)
            for number in range(30):
                await make(world, f"m{number}")
                await asyncio.sleep(0.05)
            await asyncio.sleep(100)
            assert len(controller.calls) == 1
            await make(world, "later")
            await asyncio.sleep(100)
            assert len(controller.calls) == 2

        world.run(test())


def test_a_key_is_left_out_as_long_as_the_view_shows_that_there_is_nothing_to_do() -> None:
    with virtual_api(1) as world:

        async def test() -> None:
            key = Key("default", "all")

            def is_quiet(key: Key, view: View) -> bool:
                return view.get(SECRETS, Key("default", "alarm")) is None

            by_alarm = Interest(SECRETS, lambda obj: [key])
            controller = Calls(
                lambda key, view, now: Outcome(), Interest(MAPS, lambda obj: [key], unless=is_quiet), by_alarm
            )
            drive(world, controller)
            await make(world, *NAMES)
            await asyncio.sleep(5)
            assert controller.calls == []
            await world.calm.create(SECRETS, "default", {"metadata": {"name": "alarm"}})
            await asyncio.sleep(5)
            await make(world, "later")
            await asyncio.sleep(5)
            assert len(controller.calls) == 2

        world.run(test())


def test_a_look_that_is_due_for_another_reason_is_not_put_off() -> None:
    with virtual_api(1) as world:

        async def test() -> None:
            key = Key("default", "all")
            late, soon = Interest(MAPS, lambda obj: [key], delay=20.0), Interest(SECRETS, lambda obj: [key])
            controller = Calls(lambda key, view, now: Outcome(), late, soon)
            drive(world, controller)
            await make(world, "a")
            await asyncio.sleep(1)
            await world.calm.create(SECRETS, "default", {"metadata": {"name": "a"}})
            await asyncio.sleep(100)
            assert len(controller.calls) == 1
            assert controller.calls[0][1] < 2

        world.run(test())


def test_no_one_is_asked_before_every_kind_has_been_listed() -> None:
    seen: list[int] = []

    def count(key: Key, view: View, now: int) -> Outcome:
        seen.append(len(view.list(MAPS)) + len(view.list(SECRETS)))
        return Outcome()

    with virtual_api(1) as world:

        async def test() -> None:
            await make(world, *NAMES)
            await world.calm.create(SECRETS, "default", {"metadata": {"name": "a"}})
            always = Interest(NODES, own_key, always=(Key("", "root"),))
            controller = Calls(count, Interest(MAPS, own_key), Interest(SECRETS, own_key), always)
            world.faults.rate = 0.8
            drive(world, controller, client=world.client)
            await asyncio.sleep(300)
            world.faults.rate = 0
            await asyncio.sleep(300)
            assert set(seen) == {6}
            assert sorted({name for name, _ in controller.calls}) == [*NAMES, "root"]

        world.run(test())


def test_the_keys_that_an_object_no_longer_concerns_are_asked_about_too() -> None:
    with virtual_api(1) as world:

        async def test() -> None:
            by_group = Interest(MAPS, lambda obj: [Key("default", obj["data"]["group"])])
            controller = Calls(lambda key, view, now: Outcome(), by_group)
            drive(world, controller)
            await make(world, "a", group="red")
            await asyncio.sleep(1)
            await world.calm.patch(MAPS, Key("default", "a"), {"data": {"group": "blue"}})
            await asyncio.sleep(1)
            assert [name for name, _ in controller.calls] == ["red", "red", "blue"]

        world.run(test())


def test_only_the_controller_of_an_object_hears_of_it_and_both_when_it_changes_hands() -> None:
    def owned_by(kind: str, name: str) -> dict[str, Any]:
        owner = {"apiVersion": "v1", "kind": kind, "name": name, "uid": name, "controller": True}
        return {"metadata": {"ownerReferences": [owner]}}

    with virtual_api(1) as world:

        async def test() -> None:
            by_secret, by_node = (
                Calls(lambda key, view, now: Outcome(), Interest(MAPS, ItsController(kind)))
                for kind in (SECRETS, NODES)
            )
            drive(world, by_secret, by_node)
            await make(world, "a", "free")
            heard: list[tuple[list[str], list[str]]] = []
            for change in (
                owned_by("Secret", "s"),
                {"data": {"more": "of it"}},
                owned_by("Node", "n"),
                owned_by("Pod", "p"),
                {"data": {"still": "more"}},
            ):
                await world.calm.patch(MAPS, Key("default", "a"), change)
                await asyncio.sleep(1)
                heard.append(([name for name, _ in by_secret.calls], [name for name, _ in by_node.calls]))
                by_secret.calls.clear()
                by_node.calls.clear()
            assert heard == [(["s"], []), (["s"], []), (["s"], ["n"]), ([], ["n"]), ([], [])]

        world.run(test())


def test_the_first_operation_that_fails_ends_the_others_of_its_outcome() -> None:
    metadata = {"namespace": "default", "name": "after"}
    operations: list[Operation] = [
        Record({"metadata": {"name": "x"}}, "Normal", "Begins", "first"),
        Patch(MAPS, Key("default", "not there"), {}),
        Delete(MAPS, Key("default", "not-there"), "0-0"),
        Patch(MAPS, Key("default", "a"), {"data": {"x": "y"}}, version="1"),
        Create(SECRETS, {"metadata": metadata}),
    ]
    records: list[Any] = []
    with virtual_api(1) as world:

        async def test() -> None:
            controller = Calls(lambda key, view, now: Outcome(operations))
            drive(world, controller, records=records)
            await make(world, "a")
            await asyncio.sleep(0.2)
            assert await decoded(world, SECRETS) == {}
            assert len(controller.calls) >= 2

        world.run(test())
    assert records[0] == ("calls", operations[0])


def test_of_chains_side_by_side_one_that_fails_ends_only_itself_and_the_whole_is_tried_again() -> None:
    def made(name: str) -> list[Single]:
        body = {"metadata": {"namespace": "default", "name": name}}
        return [Create(SECRETS, body), Record(body, "Normal", "Made", name)]

    names = [f"n{number}" for number in range(40)]
    chains = [made("No Name"), *map(made, names)]
    after = Create(SECRETS, {"metadata": {"namespace": "default", "name": "after"}})
    records: list[Any] = []
    with virtual_api(1) as world:

        async def test() -> None:
            controller = Calls(lambda key, view, now: Outcome([Together(chains), after]))
            drive(world, controller, records=records)
            await make(world, "a")
            await asyncio.sleep(0.2)
            assert sorted(await decoded(world, SECRETS)) == sorted(names)
            assert len(controller.calls) >= 2

        world.run(test())
    assert {record.message for _, record in records} == set(names)


class Counting:
    """An API of which each request takes a second, and that counts requests under way."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self.now = self.most = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._client, name)

    async def create(self, *arguments: Any) -> Any:
        self.now += 1
        self.most = max(self.most, self.now)
        await asyncio.sleep(1)
        self.now -= 1
        return await self._client.create(*arguments)


@pytest.mark.parametrize(("keys", "most"), [(1, 1 + SIDE_BY_SIDE), (3, 3 + SIDE_BY_SIDE)])
def test_operations_beside_the_first_of_a_key_are_limited_over_all_keys(keys: int, most: int) -> None:
    with virtual_api(1) as world:

        async def test() -> None:
            def answer(key: Key, view: View, now: int) -> Outcome:
                if view.get(SECRETS, Key("default", f"{key.name}-0")):
                    return Outcome()
                names = [{"namespace": "default", "name": f"{key.name}-{number}"} for number in range(30)]
                return Outcome([Together([[Create(SECRETS, {"metadata": name})] for name in names])])

            api: Any = Counting(world.calm)
            drive(world, Calls(answer, Interest(MAPS, own_key), Interest(SECRETS, lambda obj: ())), client=api)
            await make(world, *NAMES[:keys])
            await asyncio.sleep(30 * keys / most + 3)  # all of them are used until the end
            assert len(await decoded(world, SECRETS)) == 30 * keys
            assert api.most == most

        world.run(test())


@pytest.mark.parametrize("wording", [CREATION_REFUSED, Wording("PVCError", "Failed to create PVC, err: ")])
def test_a_creation_that_is_refused_is_told_of_the_object_that_it_is_for(wording: Wording) -> None:
    owner = {"metadata": {"name": "owner", "namespace": "default"}}
    records: list[Any] = []
    with virtual_api(1) as world:

        async def test() -> None:
            bad = Create(SECRETS, {"metadata": {"namespace": "default", "name": "No Name"}}, owner, wording)
            drive(world, Calls(lambda key, view, now: Outcome([bad])), records=records)
            await make(world, "a")
            await asyncio.sleep(0.01)

        world.run(test())
    who, record = records[0]
    assert (who, record.about, record.type, record.reason) == ("calls", owner, "Warning", wording.reason)
    assert record.message.startswith(f'{wording.words}Secret "No Name" is invalid: metadata.name')


@pytest.mark.parametrize("name", ["No Name", "taken"])
@pytest.mark.parametrize("form", ["alone", "together", "in steps"])
def test_a_creation_that_is_refused_leaves_nothing_of_the_object_to_the_garbage_collector(
    name: str, form: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.CRITICAL)  # records keep errors

    def steps(operation: Operation) -> Steps:
        yield [operation]
        return Outcome()

    def answer(key: Key, view: View, now: int) -> Outcome | Steps:
        body = {"metadata": {"namespace": "default", "name": name}, "stringData": {"a": f"{now}" + "x" * 100_000}}
        create = Create(SECRETS, body)
        return steps(create) if form == "in steps" else Outcome([create if form == "alone" else Together([[create]])])

    with virtual_api(1) as world:

        async def start() -> None:
            await world.client.create(SECRETS, "default", {"metadata": {"namespace": "default", "name": "taken"}})
            drive(world, Calls(answer))
            await make(world, "a")

        world.run(start())
        assert large_garbage(lambda: world.run(asyncio.sleep(5))) == []


def test_a_controller_says_what_it_writes_when_a_creation_is_refused() -> None:
    with virtual_api(1) as world:

        async def test() -> None:
            def said(reason: str, message: str) -> list[Any]:
                data = {"reason": reason, "why": message}
                return [Create(MAPS, {"metadata": {"namespace": "default", "name": "why"}, "data": data})]

            wording = Wording("PVCError", "Failed to create PVC, err: ")
            bad = Create(SECRETS, {"metadata": {"namespace": "default", "name": "No Name"}}, wording=wording)
            drive(world, Calls(lambda key, view, now: Outcome([bad], refused=said)))
            await make(world, "a")
            await asyncio.sleep(0.01)
            why = await world.client.get(MAPS, Key("default", "why"))
            assert why["data"]["why"].startswith('Secret "No Name" is invalid: metadata.name')
            assert why["data"]["reason"] == "PVCError"

        world.run(test())


def test_a_change_that_is_refused_is_told_of_the_object_that_was_to_change() -> None:
    records: list[Any] = []
    with virtual_api(1) as world:

        async def test() -> None:
            bad = Patch(MAPS, Key("default", "a"), {"metadata": {"name": "b"}})
            drive(world, Calls(lambda key, view, now: Outcome([bad])), records=records)
            await make(world, "a")
            await asyncio.sleep(0.01)

        world.run(test())
    _, record = records[0]
    assert (record.about["metadata"]["name"], record.type, record.reason) == ("a", "Warning", "FailedUpdate")
    assert record.message.startswith("Error updating: ")


@pytest.mark.slow
@given(seed=st.integers(0, 2**32))
def test_the_same_seed_gives_the_same_history(seed: int) -> None:
    def history() -> list[tuple[str, float]]:
        with virtual_api(seed, 0.3) as world:

            async def test() -> list[tuple[str, float]]:
                mirror = Mirror()
                controller = Calls(mirror.reconcile, *mirror.interests)
                drive(world, controller, client=world.client)
                await change_at_random(world, Random(seed), 10)
                await asyncio.sleep(100)
                return controller.calls

            return world.run(test())

    assert history() == history()


def test_keys_that_take_long_leave_time_for_everything_else_between_them() -> None:
    with virtual_api(1) as world:

        async def test() -> None:
            loop = asyncio.get_running_loop()
            assert isinstance(loop, VirtualLoop)

            def work(key: Key, *_: Any) -> Outcome:
                loop.seconds += 0.5 if key.name != "a" else 0.0
                return Outcome([], again=20)

            await make(world, *NAMES)
            controller = Calls(work)
            drive(world, controller)
            await asyncio.sleep(10)  # by now it is known which keys take long
            controller.calls.clear()
            before, slowest = loop.time(), 0.0
            while loop.time() < 38:
                await asyncio.sleep(0.01)
                before, slowest = loop.time(), max(slowest, loop.time() - before)
            assert sorted(name for name, _ in controller.calls) == [*NAMES]
            assert slowest < 0.6, "it waited for several keys"

        world.run(test())


def test_a_key_rests_for_seconds_although_the_process_was_stopped_for_hours() -> None:
    with virtual_api(1) as world:

        async def test() -> None:
            loop = asyncio.get_running_loop()
            assert isinstance(loop, VirtualLoop)

            def work(key: Key, *_: Any) -> Outcome:
                if len(controller.calls) == 1:
                    loop.seconds += 8 * 3600.0
                return Outcome([], again=1)

            await make(world, "a")
            controller = Calls(work)
            drive(world, controller)
            await asyncio.sleep(1)  # which the hours end
            await asyncio.sleep(10)
            assert len(controller.calls) >= 2

        world.run(test())


def test_the_operations_of_each_step_are_carried_out_before_the_next_and_others_go_on_meanwhile() -> None:
    def made(name: str) -> list[Operation]:
        return [Create(SECRETS, {"metadata": {"namespace": "default", "name": name}})]

    with virtual_api(1) as world:
        seen: list[list[str]] = []

        async def test() -> None:
            loop = asyncio.get_running_loop()
            assert isinstance(loop, VirtualLoop)

            def steps(key: Key, view: View, now: int) -> Steps:
                for name in ("first", "No Name", "third"):
                    loop.seconds += 0.5
                    yield made(name)
                return Outcome(made("last"))

            drive(world, Calls(lambda key, view, now: steps(key, view, now) if key.name == "a" else Outcome()))
            await make(world, "a")
            before, slowest = loop.time(), 0.0
            while loop.time() < 4:
                await asyncio.sleep(0.01)
                before, slowest = loop.time(), max(slowest, loop.time() - before)
                if (names := sorted(await decoded(world, SECRETS))) not in seen:
                    seen.append(names)
            assert slowest < 0.6, "it waited for several steps"

        world.run(test())
    # A failure lets the other steps go on; what the last would do waits until all succeed.
    assert seen == [["first"], ["first", "third"]]


def test_the_steps_of_many_keys_and_controllers_leave_half_of_the_time_to_others() -> None:
    with virtual_api(1) as world:

        async def test() -> None:
            loop = asyncio.get_running_loop()
            assert isinstance(loop, VirtualLoop)
            left = 2 * 3 * len(NAMES)

            def steps() -> Steps:
                nonlocal left
                for _ in range(3):
                    loop.seconds += 0.5
                    left -= 1
                    yield ()
                return Outcome()

            drive(world, Calls(lambda key, view, now: steps()), Calls(lambda key, view, now: steps()), concurrency=8)
            await asyncio.gather(*(make(world, name) for name in NAMES))
            begin = before = loop.time()
            slowest = 0.0
            while left > 0:
                await asyncio.sleep(0.01)
                before, slowest = loop.time(), max(slowest, loop.time() - before)
            assert slowest < 0.6, "it waited for the steps of several keys"
            assert loop.time() - begin == pytest.approx(2 * 2 * 3 * len(NAMES) * 0.5, abs=3), (
                "each is followed by a rest"
            )

        world.run(test())


def test_a_key_that_is_refused_again_and_again_is_logged_less_and_less_often(caplog: pytest.LogCaptureFixture) -> None:
    with virtual_api(1) as world:

        async def test() -> None:
            body = {"metadata": {"namespace": "default", "name": "No Name"}}
            controller = Calls(lambda key, view, now: Outcome([Create(SECRETS, body)]))
            drive(world, controller)
            await make(world, "a")
            await asyncio.sleep(2000)
            assert len(controller.calls) in range(32, 64)

        world.run(test())
    assert len([each for each in caplog.records if each.levelno == logging.WARNING]) == 6  # of 1, 2, 4, 8, 16 and 32
