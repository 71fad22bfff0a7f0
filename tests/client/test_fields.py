"""Caches keep of objects what someone asks for, whole objects if one wants these, and little more memory than that."""

from __future__ import annotations

import asyncio
import tracemalloc
from typing import Any

import msgspec
import pytest

from kilauea.api.kinds import PODS
from kilauea.api.ports import ALL_KINDS, Key, Seen
from kilauea.client.fields import decoder_of
from kilauea.client.view import Cache
from kilauea.controllers.registry import deletion_controllers
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


def see(cache: Cache, *objects: dict[str, Any]) -> None:
    """Let a cache see new pods."""
    indexer = next(each for each in cache if each.resource == PODS)
    indexer.on_events([Seen("ADDED", msgspec.json.encode(each), "1") for each in objects])


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


def test_a_pod_without_claims_costs_the_controllers_of_deletions_little_memory() -> None:
    cache = Cache()
    for controller in deletion_controllers():
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
