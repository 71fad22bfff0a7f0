"""Caches keep of objects what someone asks for, whole objects if one wants these, and little more memory than that."""

from __future__ import annotations

import asyncio
import tracemalloc
from dataclasses import dataclass
from typing import Any, Literal

import msgspec
import pytest

from kilauea.api.kinds import PODS
from kilauea.api.ports import ALL_KINDS, Key, Obj, Seen, key_of
from kilauea.client.fields import decoder_of, skimmer_of
from kilauea.client.indexer import Indexer
from kilauea.client.view import Cache
from kilauea.controllers.registry import server_controllers
from support.virtual_api import virtual_api

HEAD = {"apiVersion": "v1", "kind": "Pod"}
IDENTITY = {"namespace": "default", "name": "a", "uid": "u", "resourceVersion": "1"}


def pod(number: int = 0, **spec: Any) -> dict[str, Any]:
    """A pod with as much in it as pods usually have."""
    container = {
        "name": "main",
        "image": "registry.example.com/trainer:1.2.3",
        "command": ["python", "train.py"],
        "env": [{"name": "RANK", "value": str(number)}],
        "resources": {"requests": {"cpu": "500m", "memory": "1Gi"}, "limits": {"cpu": "1", "memory": "2Gi"}},
    }
    metadata = {**IDENTITY, "name": f"pod-{number}", "uid": f"{number:036}", "labels": {"app": "trainer"}}
    return {**HEAD, "metadata": metadata, "spec": {"containers": [container], **spec}, "status": {"phase": "Pending"}}


@dataclass(frozen=True)
class Held:
    """Stands for the store of a server that keeps an object."""

    value: bytes
    decoded: dict[str, Any] | None = None

    @property
    def length(self) -> int:
        """Bytes of the value."""
        return len(self.value)


def see(cache: Cache, *objects: dict[str, Any], held: bool = False) -> None:
    """Let a cache see new pods."""
    indexer = next(each for each in cache if each.resource == PODS)
    texts = map(msgspec.json.encode, objects)
    indexer.on_events([Seen("ADDED", text, "1", Held(text) if held else None) for text in texts])


@pytest.mark.parametrize(
    ("fields", "kept"),
    [
        ([], {}),
        (["spec.nodeName"], {"spec": {"nodeName": "n"}}),
        (["spec.missing", "other.missing"], {"spec": {}}),
        (["spec.volumes[].name"], {"spec": {"volumes": [{"name": "v"}, {"name": "w"}]}}),
        (["spec.volumes[].claim.name"], {"spec": {"volumes": [{"claim": {"name": "c"}}, {}]}}),
        (
            ["spec.volumes[].claim.name", "spec.volumes[].claim"],
            {"spec": {"volumes": [{"claim": {"name": "c", "ro": True}}, {}]}},
        ),
        (["status.phase"], {"status": None}),
        (["status.list[].name"], {"status": None}),
    ],
)
def test_of_an_object_its_identity_and_the_fields_that_are_asked_for_are_kept(fields: list[str], kept: Any) -> None:
    volumes = [{"name": "v", "claim": {"name": "c", "ro": True}}, {"name": "w", "emptyDir": {}}]
    metadata = {**IDENTITY, "labels": {"app": "x"}, "annotations": {}}
    obj = {**HEAD, "metadata": metadata, "spec": {"nodeName": "n", "volumes": volumes}, "status": None}
    assert decoder_of(fields)(msgspec.json.encode(obj)) == {**HEAD, "metadata": IDENTITY, **kept}


@pytest.mark.parametrize(
    ("signs", "obj", "has_one"),
    [
        (["spec.a"], {"spec": {"a": "x"}}, True),
        (["spec.a"], {"spec": {"a": 1, "b": 2}}, True),
        (["spec.a"], {"spec": {"a": None}}, False),
        (["spec.a"], {"spec": {"b": {"a": 1}}, "a": 1}, False),
        (["spec.a", "spec.b.c"], {"spec": {"b": {"c": []}}}, True),
        (["spec.a", "spec.b.c"], {"spec": {"b": {"d": 1}}}, False),
        (["spec.list[].a", "spec.list[].b"], {"spec": {"list": [{"c": 1}, {"b": {}}]}}, True),
        (["spec.list[].a", "spec.list[].b"], {"spec": {"list": [{"c": 1}, {}]}}, False),
        (["metadata.a"], {"metadata": {"a": {}}}, True),
        (["metadata.a"], {"metadata": {"labels": {"a": "x"}}}, False),
        ([], {}, False),
        (["spec.a"], {"spec": None}, False),
    ],
)
def test_the_key_is_read_of_objects_that_have_none_of_some_fields(
    signs: list[str], obj: dict[str, Any], has_one: bool
) -> None:
    skim = skimmer_of(signs)
    text = msgspec.json.encode({**obj, "metadata": {**IDENTITY, **obj.get("metadata", {})}})
    if has_one:
        with pytest.raises(msgspec.DecodeError):
            skim(text)
    else:
        assert skim(text) == Key("default", "a")


def test_a_path_cannot_take_a_list_for_an_object() -> None:
    with pytest.raises(ValueError, match="a list has no fields: name"):
        decoder_of(["spec.volumes[].name", "spec.volumes.name"])


def test_fields_that_several_ask_for_are_all_kept() -> None:
    cache = Cache()
    cache.declare(PODS, fields=["spec.nodeName"])
    cache.declare(PODS, fields=["status.phase"])
    see(cache, pod(nodeName="n"))
    found = cache.get(PODS, Key("default", "pod-0"))
    assert found is not None
    assert (found["spec"], found["status"]) == ({"nodeName": "n"}, {"phase": "Pending"})


@pytest.mark.parametrize("order", [[("status.phase",), None], [None, ("status.phase",)]])
def test_objects_are_kept_whole_if_anyone_wants_them_whole(order: list[tuple[str, ...] | None]) -> None:
    cache = Cache()
    for fields in order:
        cache.declare(PODS, fields=fields)
    see(cache, pod(nodeName="n"))
    assert cache.list(PODS) == [pod(nodeName="n")]


@pytest.mark.parametrize("fields", [None, ("spec.containers",)])
def test_more_fields_cannot_be_asked_for_while_a_cache_runs(fields: tuple[str, ...] | None) -> None:
    with virtual_api(1) as world:

        async def test() -> None:
            cache = Cache()
            cache.declare(PODS, fields=["status.phase"])
            world.start(cache.run(world.calm, world.clock, world.rng))
            await asyncio.sleep(1)
            cache.declare(PODS, fields=["status.phase"])
            with pytest.raises(ValueError, match="pods: only some fields are read"):
                cache.declare(PODS, fields=fields)

        world.run(test())


def node_of(pod: Obj) -> str:
    """The node of a pod."""
    return str(pod["spec"].get("nodeName", ""))


def test_nothing_is_told_of_objects_without_the_fields_of_interest_but_that_they_are_gone() -> None:
    """They are found all the same, and what gains such a field is told of from then on."""
    indexer = Indexer(PODS, ["spec.nodeName"])
    indexer.add_indexes((), {"node": node_of})
    indexer.read_if(["spec.nodeName"])
    heard: list[tuple[str, str]] = []
    indexer.listeners.append(
        lambda old, new: heard.append((node_of(old) if old else "-", node_of(new) if new else "-"))
    )

    def happens(kind: Literal["ADDED", "MODIFIED", "DELETED"], obj: dict[str, Any], version: str) -> None:
        obj["metadata"]["resourceVersion"] = version
        text = msgspec.json.encode(obj)
        indexer.on_events([Seen(kind, text, version, Held(text))])

    happens("ADDED", pod(1), "1")
    happens("ADDED", pod(0), "2")
    happens("MODIFIED", pod(0), "3")
    assert heard == []
    assert [(each["metadata"]["name"], each["spec"]) for each in indexer.all()] == [("pod-0", {}), ("pod-1", {})]
    found = indexer.get(Key("default", "pod-0"))
    assert found is not None
    assert found["metadata"]["resourceVersion"] == "3"
    happens("MODIFIED", pod(0, nodeName="n"), "4")
    assert [each["metadata"]["name"] for each in indexer.indexed("node", "n")] == ["pod-0"]
    happens("MODIFIED", pod(0), "5")
    assert not indexer.indexed("node", "n")
    happens("DELETED", pod(1), "6")
    happens("DELETED", pod(0), "7")
    assert heard == [("", "n"), ("n", ""), ("", "-"), ("", "-")]
    assert len(indexer) == 0


def test_one_that_wants_to_be_told_of_all_objects_is_told_of_all() -> None:
    indexer = Indexer(PODS, ["spec.nodeName"])
    indexer.read_if(["spec.nodeName"])
    indexer.read_if(None)
    heard: list[Obj | None] = []
    indexer.listeners.append(lambda old, new: heard.append(new))
    text = msgspec.json.encode(pod(0))
    indexer.on_events([Seen("ADDED", text, "1", Held(text))])
    assert len(heard) == 1


def test_a_pod_that_concerns_no_controller_of_deletions_is_not_read_beside_a_server() -> None:
    cache = Cache()
    for controller in server_controllers():
        for interest in controller.interests:
            if interest.resource in (PODS, ALL_KINDS):
                cache.declare(PODS, interest.labels, interest.indexes, fields=interest.fields, signs=interest.signs)
    heard: list[Obj | None] = []
    indexer = next(each for each in cache if each.resource == PODS)
    indexer.listeners.append(lambda old, new: heard.append(new))
    see(cache, pod(0, nodeName="n", volumes=[{"name": "v", "emptyDir": {}}]), held=True)
    assert heard == []
    claimed = pod(1, volumes=[{"name": "v", "persistentVolumeClaim": {"claimName": "c"}}])
    ephemeral = pod(2, volumes=[{"name": "v", "ephemeral": {}}])
    see(cache, claimed, ephemeral, pod(3, schedulingGroup={"podGroupName": "g"}), held=True)
    assert [key_of(each).name for each in heard if each] == ["pod-1", "pod-2", "pod-3"]


def test_a_pod_without_claims_costs_the_controllers_of_deletions_little_memory() -> None:
    cache = Cache()
    for controller in server_controllers():
        for interest in controller.interests:
            if interest.resource in (PODS, ALL_KINDS):
                cache.declare(PODS, interest.labels, interest.indexes, fields=interest.fields)
    count = 500
    see(cache, pod(count))
    tracemalloc.start()
    try:
        for number in range(count):
            see(cache, pod(number))
        taken, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert taken / count < 1000
