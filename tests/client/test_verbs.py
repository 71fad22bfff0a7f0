"""The verbs of the client, the same at every server."""

from __future__ import annotations

import asyncio
import json
from contextlib import suppress
from typing import Any

import pytest

from client.conftest import MAPS, NAMESPACES, Play, Scene
from kilauea.api.ports import ApiError, Key, Resource, Seen
from kilauea.client.rest import Client, version_of
from kilauea.client.view import Cache

PODS = Resource("", "v1", "pods", "Pod")
NODES = Resource("", "v1", "nodes", "Node", namespaced=False)
BUDGETS = Resource("policy", "v1", "poddisruptionbudgets", "PodDisruptionBudget")
ACCOUNTS = Resource("", "v1", "serviceaccounts", "ServiceAccount")


def config_map(name: str, labels: dict[str, str] | None = None, **data: str) -> dict[str, Any]:
    return {"metadata": {"name": name, "labels": labels or {}}, "data": data}


async def make_pod(scene: Scene, name: str, **metadata: Any) -> dict[str, Any]:
    """A pod with the service account that pods of the real server need."""
    account = {"metadata": {"name": "default"}}
    with suppress(ApiError):  # the real server's controllers, where they run, make it
        await scene.client.create(ACCOUNTS, scene.namespace, account)
    body = {"metadata": {"name": name, **metadata}, "spec": {"containers": [{"name": "main", "image": "busybox:1"}]}}
    return await scene.client.create(PODS, scene.namespace, body)


def test_what_was_created_can_be_read_changed_and_deleted(play: Play) -> None:
    async def test(scene: Scene) -> None:
        client, key = scene.client, Key(scene.namespace, "one")
        made = await client.create(MAPS, scene.namespace, config_map("one", a="1"))
        assert await client.get(MAPS, key) == made
        replaced = await client.update(MAPS, {**made, "data": {"a": "2"}})
        assert replaced["data"] == {"a": "2"}
        with pytest.raises(ApiError) as caught:
            await client.update(MAPS, {**made, "data": {"a": "3"}})
        assert (caught.value.code, caught.value.reason) == (409, "Conflict")
        await client.delete(MAPS, key, uid=made["metadata"]["uid"])
        with pytest.raises(ApiError) as caught:
            await client.get(MAPS, key)
        assert (caught.value.code, caught.value.reason) == (404, "NotFound")
        assert caught.value.details["name"] == "one"
        assert str(caught.value) == 'configmaps "one" not found'

    play(test)


def test_warnings_of_the_server_are_told(play: Play) -> None:
    async def test(scene: Scene) -> None:
        told: list[str] = []
        client = Client(scene.transport, "tester/1", warned=told.append)
        odd = {"odd": 1, 'sh"y\\, 299 - "x"': 2}
        await client.create(MAPS, scene.namespace, {**config_map("one"), **odd})
        assert sorted(told) == sorted(f"unknown field {json.dumps(field)}" for field in odd)
        await client.get(MAPS, Key(scene.namespace, "one"))
        assert len(told) == 2

    play(test)


def test_an_object_with_another_uid_is_not_deleted(play: Play) -> None:
    async def test(scene: Scene) -> None:
        await scene.client.create(MAPS, scene.namespace, config_map("one"))
        with pytest.raises(ApiError) as caught:
            await scene.client.delete(MAPS, Key(scene.namespace, "one"), uid="0-0")
        assert caught.value.reason == "Conflict"
        assert await scene.client.get(MAPS, Key(scene.namespace, "one"))

    play(test)


def test_each_type_of_patch_changes_an_object(play: Play) -> None:
    async def test(scene: Scene) -> None:
        client, key = scene.client, Key(scene.namespace, "one")
        await client.create(MAPS, scene.namespace, config_map("one", a="1"))
        changed = await client.patch(MAPS, key, {"data": {"b": "2"}})
        assert json.loads(changed)["data"] == {"a": "1", "b": "2"}
        changed = await client.patch(MAPS, key, [{"op": "remove", "path": "/data/a"}], "json")
        assert json.loads(changed)["data"] == {"b": "2"}
        changed = await client.patch(MAPS, key, {"data": {"b": None, "c": "3"}}, "strategic")
        assert json.loads(changed)["data"] == {"c": "3"}
        applied = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "one"}, "data": {"c": "4"}}
        with pytest.raises(ApiError) as caught:
            await client.patch(MAPS, key, applied, "apply", manager="me")
        assert caught.value.reason == "Conflict"
        changed = await client.patch(MAPS, key, applied, "apply", manager="me", force=True)
        assert json.loads(changed)["data"] == {"c": "4"}
        assert version_of(changed) == (await client.get(MAPS, key))["metadata"]["resourceVersion"]

    play(test)


def test_a_refusal_names_the_fields(play: Play) -> None:
    async def test(scene: Scene) -> None:
        with pytest.raises(ApiError) as caught:
            await scene.client.create(MAPS, scene.namespace, config_map("No Name"))
        assert (caught.value.code, caught.value.reason) == (422, "Invalid")
        assert [cause["field"] for cause in caught.value.details["causes"]] == ["metadata.name"]

    play(test)


def test_a_path_that_no_one_serves_is_an_error_in_words(play: Play) -> None:
    async def test(scene: Scene) -> None:
        with pytest.raises(ApiError) as caught:
            await scene.client.list(Resource("no.group", "v1", "things", "Thing"))
        assert (caught.value.code, caught.value.reason) == (404, "NotFound")
        assert "404" in str(caught.value)

    play(test)


def test_a_list_of_many_pages_has_everything_once_with_its_kind(play: Play) -> None:
    async def test(scene: Scene) -> None:
        names = [f"map-{number:02}" for number in range(11)]
        for name in names:
            await scene.client.create(MAPS, scene.namespace, config_map(name, {"odd": str(int(name[-1]) % 2)}))
        listed = await scene.client.list(MAPS, scene.namespace, labels="odd")
        objects = [json.loads(item) for item in listed.items]
        assert [each["metadata"]["name"] for each in objects] == names
        assert {(each["kind"], each["apiVersion"]) for each in objects} == {("ConfigMap", "v1")}
        assert objects[3] == await scene.client.get(MAPS, Key(scene.namespace, "map-03"))
        some = await scene.client.list(MAPS, scene.namespace, labels="odd=1", fields="metadata.name!=map-03")
        assert len(some.items) == 4

    play(test)


def test_a_watch_tells_what_happens_after_a_version(play: Play) -> None:
    async def test(scene: Scene) -> None:
        client, key = scene.client, Key(scene.namespace, "one")
        version = (await client.list(MAPS, scene.namespace)).version
        await client.create(MAPS, scene.namespace, config_map("one"))
        await client.patch(MAPS, key, {"data": {"a": "1"}})
        await client.delete(MAPS, key)
        seen: list[Seen] = []
        async for batch in client.watch(MAPS, version, scene.namespace):
            seen += [each for each in batch if b'"name":"one"' in each.object]
            if len(seen) == 3:
                break
        assert [each.type for each in seen] == ["ADDED", "MODIFIED", "DELETED"]
        assert [int(each.version) for each in seen] == sorted(int(each.version) for each in seen)
        assert json.loads(seen[1].object)["metadata"]["resourceVersion"] == seen[1].version
        assert json.loads(seen[0].object)["kind"] == "ConfigMap"

    play(test)


def test_a_pod_is_bound_has_its_status_patched_and_is_evicted(play: Play) -> None:
    async def test(scene: Scene) -> None:
        client, key = scene.client, Key(scene.namespace, "web")
        pod = await make_pod(scene, "web", labels={"app": "web"})
        binding = {"apiVersion": "v1", "kind": "Binding", "metadata": {"name": "web"}}
        await client.create(PODS, scene.namespace, {**binding, "target": {"name": "node-0"}}, "binding", "web")
        assert (await client.get(PODS, key))["spec"]["nodeName"] == "node-0"
        running = await client.patch(PODS, key, {"status": {"phase": "Running"}}, "strategic", "status")
        assert json.loads(running)["status"]["phase"] == "Running"
        eviction = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "web"}}
        await client.create(PODS, scene.namespace, eviction, "eviction", "web")
        ending = await client.get(PODS, key)
        assert ending["metadata"]["deletionTimestamp"]
        await client.delete(PODS, key, uid=pod["metadata"]["uid"], grace=0)
        with pytest.raises(ApiError):
            await client.get(PODS, key)

    play(test)


def test_objects_without_a_namespace_have_none_in_their_path(play: Play) -> None:
    async def test(scene: Scene) -> None:
        found = await scene.client.get(NAMESPACES, Key("", scene.namespace))
        assert found["metadata"]["name"] == scene.namespace

    play(test)


def test_a_cache_follows_a_server(play: Play) -> None:
    async def test(scene: Scene) -> None:
        await scene.client.create(MAPS, scene.namespace, config_map("before", {"app": "a"}))
        cache = Cache()
        indexer = cache.declare(MAPS, labels=["app"])
        following = asyncio.create_task(cache.run(scene.client, scene.clock, scene.rng))
        await cache.complete()
        await scene.client.create(MAPS, scene.namespace, config_map("after", {"app": "a"}))
        await scene.client.patch(MAPS, Key(scene.namespace, "before"), {"data": {"a": "1"}})
        last = await scene.client.create(MAPS, scene.namespace, config_map("last"))
        await scene.client.delete(MAPS, Key(scene.namespace, "last"))
        while indexer.version <= int(last["metadata"]["resourceVersion"]):
            await asyncio.sleep(0.01)
        following.cancel()
        await asyncio.gather(following, return_exceptions=True)
        names = [each["metadata"]["name"] for each in cache.labelled(MAPS, "app", "a")]
        assert [name for name in names if name != "kube-root-ca.crt"] == ["after", "before"]
        stored = [await scene.client.get(MAPS, Key(scene.namespace, name)) for name in names]
        for each in stored:
            del each["metadata"]["managedFields"]  # which caches leave out
        assert list(cache.labelled(MAPS, "app", "a")) == stored

    play(test)
