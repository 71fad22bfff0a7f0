"""Whatever happens on the way, a cache equals the server's objects in the end, and its indexes equal its objects."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Sequence
from random import Random
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kilauea.api.ports import Aggregation, Key, Obj, Resource, key_of
from kilauea.apiserver.storage import Retention
from kilauea.client.indexer import Indexer
from kilauea.client.view import Cache
from kilauea.runtime.cluster.direct import DirectClient
from support.virtual_api import World, virtual_api

MAPS = Resource("", "v1", "configmaps", "ConfigMap")
NAMES = "abcdef"
NAMESPACES = ("default", "kube-system")
APPS = ("web", "db")


async def write_at_random(world: World, rng: Random, count: int) -> None:
    """Creations, changes and deletions with pauses between them."""
    for _ in range(count):
        key = Key(rng.choice(NAMESPACES), rng.choice(NAMES))
        owner = {"apiVersion": "v1", "kind": "Pod", "name": "o", "uid": rng.choice("xy")}
        body = {
            "metadata": {
                "namespace": key.namespace,
                "name": key.name,
                "labels": {"app": rng.choice(APPS)} if rng.random() < 0.7 else {},
                "ownerReferences": [owner] if rng.random() < 0.5 else [],
            },
            "data": {"turn": str(rng.random())},
        }
        there = [key_of(msgspec.json.decode(item)) for item in (await world.calm.list(MAPS)).items]
        if key not in there:
            await world.calm.create(MAPS, key.namespace, body)
        elif rng.random() < 0.4:
            await world.calm.delete(MAPS, key)
        else:
            await world.calm.update(MAPS, body)
        if rng.random() < 0.5:
            await asyncio.sleep(rng.choice((0, 0.1, 1, 30, 1000)))


def text_of_owner(obj: Obj) -> str:
    """An index that fails for some objects, as one may that a controller brings."""
    return str(obj["metadata"]["ownerReferences"][0]["uid"])


class Turns:
    """An aggregate: what each object says."""

    def __init__(self) -> None:
        self.turns: dict[Key, Any] = {}

    def __len__(self) -> int:
        return len(self.turns)

    def put(self, key: Key, obj: Obj) -> None:
        self.turns[key] = obj["data"]

    def drop(self, key: Key) -> None:
        self.turns.pop(key, None)


def check_aggregates(cache: Cache, objects: Sequence[Obj]) -> None:
    """Every aggregate is that of the objects there are."""
    for uid in "xy":
        owned = {
            key_of(each): each["data"]
            for each in objects
            if uid in [owner["uid"] for owner in each["metadata"].get("ownerReferences", ())]
        }
        found = cache.aggregate(MAPS, "turns", uid)
        assert (found.turns if isinstance(found, Turns) else {}) == owned


async def stored(world: World) -> list[Obj]:
    """The server's objects in order of their keys, without what caches leave out."""
    objects = [msgspec.json.decode(item) for item in (await world.calm.list(MAPS)).items]
    for each in objects:
        each["metadata"].pop("managedFields", None)
    return sorted(objects, key=key_of)


def check_indexes(cache: Cache, objects: Sequence[Obj]) -> None:
    """Every look-up finds what looking through all objects finds."""
    for namespace in NAMESPACES:
        expected = [each for each in objects if each["metadata"]["namespace"] == namespace]
        assert list(cache.list(MAPS, namespace)) == expected
    for app in APPS:
        expected = [each for each in objects if each["metadata"].get("labels", {}).get("app") == app]
        assert list(cache.labelled(MAPS, "app", app)) == expected
    for uid in "xy":
        owned = [
            each for each in objects if uid in [owner["uid"] for owner in each["metadata"].get("ownerReferences", ())]
        ]
        assert list(cache.owned(MAPS, uid)) == owned
        assert list(cache.indexed(MAPS, "owner", uid)) == owned
        for namespace in NAMESPACES:
            there = [each for each in owned if each["metadata"]["namespace"] == namespace]
            assert list(cache.owned(MAPS, uid, namespace)) == there


@pytest.mark.slow
@given(
    seed=st.integers(0, 2**32), rate=st.sampled_from([0.0, 0.1, 0.5]), history=st.sampled_from([1000, 4000, 1 << 20])
)
def test_a_cache_equals_the_server_once_things_are_quiet(seed: int, rate: float, history: int) -> None:
    with virtual_api(seed, rate, Retention(seconds=-1, revisions=2, size=history)) as world:

        async def test() -> None:
            cache = Cache()
            turns = {"turns": Aggregation(text_of_owner, Turns)}
            cache.declare(MAPS, ["app"], {"owner": text_of_owner}, aggregates=turns)
            world.start(cache.run(world.client, world.clock, world.rng))
            await write_at_random(world, Random(seed), 40)
            world.faults.rate = 0
            await asyncio.sleep(700)
            objects = await stored(world)
            assert list(cache.list(MAPS)) == objects
            check_indexes(cache, objects)
            check_aggregates(cache, objects)

        world.run(test())


def identity_and_labels(obj: Obj) -> Obj:
    """Return the fields of a ConfigMap that a cache with an index by label keeps at least."""
    kept = ("name", "namespace", "uid", "resourceVersion", "ownerReferences", "labels")
    metadata = {name: part for name, part in obj["metadata"].items() if name in kept}
    return {"apiVersion": obj["apiVersion"], "kind": obj["kind"], "metadata": metadata}


@pytest.mark.slow
@given(
    seed=st.integers(0, 2**32),
    rate=st.sampled_from([0.0, 0.1, 0.5]),
    history=st.sampled_from([1000, 4000, 1 << 20]),
    skims=st.booleans(),
)
def test_a_cache_of_some_fields_equals_those_of_the_server_once_things_are_quiet(
    seed: int, rate: float, history: int, skims: bool
) -> None:
    with virtual_api(seed, rate, Retention(seconds=-1, revisions=2, size=history)) as world:

        async def test() -> None:
            cache = Cache()
            signs = ("metadata.labels",) if skims else None
            cache.declare(MAPS, ["app"], {"owner": text_of_owner}, fields=(), signs=signs)
            client = DirectClient(world.server, "tester", world.rng) if skims else world.client
            world.start(cache.run(client, world.clock, world.rng))
            await write_at_random(world, Random(seed), 40)
            world.faults.rate = 0
            await asyncio.sleep(700)
            objects = list(map(identity_and_labels, await stored(world)))
            assert list(cache.list(MAPS)) == objects
            check_indexes(cache, objects)

        world.run(test())


FIELDS = [{"manager": "m", "fieldsV1": {"f:data": {}}}]


@pytest.mark.parametrize(
    "text",
    [
        {"metadata": {"name": "a", "managedFields": FIELDS, "uid": "u"}, "data": {"x": "y"}},
        {"metadata": {"name": "a", "uid": "u"}, "data": {"x": '"managedFields":'}},
        {"template": {"metadata": {"managedFields": FIELDS}}, "metadata": {"name": "a", "managedFields": FIELDS}},
        {"data": {"managedFields": "[]"}, "metadata": {"name": "a", "managedFields": []}},
        {"template": {"metadata": {"managedFields": FIELDS}}, "metadata": {"name": "a"}},
    ],
)
def test_an_indexer_leaves_out_managed_fields_and_nothing_else(text: dict[str, Any]) -> None:
    expected = {**text, "metadata": {name: part for name, part in text["metadata"].items() if name != "managedFields"}}
    for written in (msgspec.json.encode(text), msgspec.json.format(msgspec.json.encode(text), indent=2)):
        indexer = Indexer(MAPS)
        indexer.on_relist([written], "1")
        assert indexer.all() == [expected]


@pytest.mark.slow
@given(seed=st.integers(0, 2**32))
def test_listeners_are_told_of_every_change_exactly_once(seed: int) -> None:
    with virtual_api(seed, 0.3, Retention(seconds=-1, revisions=2, size=4000)) as world:

        async def test() -> None:
            cache, told = Cache(), dict[Key, Obj]()
            versions: list[int] = []

            def listen(old: Obj | None, new: Obj | None) -> None:
                key = key_of(old or new or {})
                assert told.get(key) == old
                assert old != new
                if new is None:
                    del told[key]
                else:
                    told[key] = new

            indexer = cache.declare(MAPS)
            indexer.listeners.append(listen)
            indexer.progress.append(lambda indexer: versions.append(indexer.version))
            world.start(cache.run(world.client, world.clock, world.rng))
            await write_at_random(world, Random(seed), 40)
            world.faults.rate = 0
            await asyncio.sleep(700)
            assert sorted(told.values(), key=key_of) == await stored(world)
            assert versions == sorted(versions)

        world.run(test())


def test_an_index_that_is_asked_for_late_knows_what_is_there() -> None:
    indexer = Indexer(MAPS)
    labels = itertools.cycle(APPS)
    items = [
        msgspec.json.encode(
            {"metadata": {"namespace": "n", "name": name, "resourceVersion": "1", "labels": {"app": next(labels)}}}
        )
        for name in NAMES
    ]
    indexer.on_relist(items, "1")
    indexer.add_indexes(["app"], {"initial": lambda obj: str(obj["metadata"]["name"])})
    assert [key_of(each).name for each in indexer.labelled("app", "web")] == ["a", "c", "e"]
    assert [key_of(each).name for each in indexer.indexed("initial", "b")] == ["b"]
