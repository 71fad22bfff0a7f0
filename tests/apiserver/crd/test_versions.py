"""Definitions with several served versions: conversion by the server itself and by webhooks."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, TypeVar

import pytest
from aiohttp import web

from kilauea.apiserver.crd.version_order import version_order
from kilauea.apiserver.large_writes import LARGE, LargeWrites
from kilauea.apiserver.rest import versions
from support.api_core import Api
from support.definitions import serve
from support.webhook_server import WebhookServer, api_with_webhooks

CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
MERGE = "application/merge-patch+json"
V1, V2 = (f"/apis/example.com/{version}/namespaces/default/hosts" for version in ("v1", "v2"))
T = TypeVar("T")
HOST_1, HOST_2 = ({"apiVersion": f"example.com/{version}", "kind": "Host"} for version in ("v1", "v2"))


def version(name: str, *fields: str, storage: bool = False) -> dict[str, Any]:
    """A served version whose specification has these fields."""
    spec = {"type": "object", "properties": {field: {"type": "string"} for field in fields}}
    schema = {"type": "object", "properties": {"spec": spec}}
    return {"name": name, "served": True, "storage": storage, "schema": {"openAPIV3Schema": schema}}


def definition(*versions: dict[str, Any], **conversion: Any) -> dict[str, Any]:
    """The definition of hosts."""
    names = {"plural": "hosts", "singular": "host", "kind": "Host", "listKind": "HostList"}
    spec: dict[str, Any] = {"group": "example.com", "scope": "Namespaced", "names": names, "versions": list(versions)}
    if conversion:
        spec["conversion"] = conversion
    return {"metadata": {"name": "hosts.example.com"}, "spec": spec}


@pytest.fixture
def server() -> Iterator[WebhookServer]:
    """A webhook server whose `convert` splits and joins `hostPort`."""
    made = WebhookServer(convert=converted)
    yield made
    made.close()


@pytest.fixture
def api(server: WebhookServer) -> Iterator[Api]:
    """An API that calls webhooks."""
    with api_with_webhooks() as made:
        yield made


def converted(request: dict[str, Any]) -> Any:
    """v1 has `hostPort`, v2 has `host` and `port`."""
    objects = []
    for obj in request["objects"]:
        spec = obj.get("spec", {})
        if request["desiredAPIVersion"].endswith("v2"):
            host, _, port = spec.get("hostPort", "").partition(":")
            spec = {"host": host, "port": port}
        else:
            spec = {"hostPort": f"{spec['host']}:{spec['port']}"}
        objects.append({**obj, "apiVersion": request["desiredAPIVersion"], "spec": spec})
    return {"result": {"status": "Success"}, "convertedObjects": objects}


def webhook(server: WebhookServer, path: str = "convert") -> dict[str, Any]:
    """A conversion by the server's webhook."""
    return {"strategy": "Webhook", "webhook": {"clientConfig": server.client(path), "conversionReviewVersions": ["v1"]}}


def split(server: WebhookServer, path: str = "convert") -> dict[str, Any]:
    """The definition whose versions a webhook converts."""
    return definition(version("v1", "hostPort", storage=True), version("v2", "host", "port"), **webhook(server, path))


def test_strategy_none_changes_the_api_version_and_drops_what_a_version_does_not_know(api: Api) -> None:
    serve(api, definition(version("v1", "a", "b", storage=True), version("v2", "a")))
    api.good("POST", V1, {**HOST_1, "metadata": {"name": "x"}, "spec": {"a": "1", "b": "2"}})
    seen = api.good("GET", f"{V2}/x")
    assert (seen["apiVersion"], seen["spec"]) == ("example.com/v2", {"a": "1"})
    listed = api.good("GET", V2)
    assert (listed["apiVersion"], listed["items"][0]["apiVersion"]) == ("example.com/v2", "example.com/v2")
    assert api.good("GET", f"{V1}/x")["spec"] == {"a": "1", "b": "2"}


def test_what_is_written_in_another_version_is_stored_in_the_storage_version(api: Api) -> None:
    serve(api, definition(version("v1", "a", storage=True), version("v2", "a")))
    made = api.good("POST", V2, {**HOST_2, "metadata": {"name": "x"}, "spec": {"a": "1"}})
    assert made["apiVersion"] == "example.com/v2"
    stored = api.backend.store.get("/example.com/hosts/default/x")
    assert stored is not None
    assert stored.value.startswith(b'{"kind":"Host","apiVersion":"example.com/v1"')
    changed = api.good("PATCH", f"{V2}/x", {"spec": {"a": "2"}}, content_type=MERGE)
    assert (changed["apiVersion"], changed["metadata"]["generation"]) == ("example.com/v2", 2)


def test_watches_see_objects_in_the_version_of_their_path(api: Api, server: WebhookServer) -> None:
    serve(api, split(server))
    watch = api.watch(f"{V2}?resourceVersion={api.backend.store.revision}")
    api.good("POST", V1, {**HOST_1, "metadata": {"name": "x"}, "spec": {"hostPort": "a:1"}})
    api.good("DELETE", f"{V1}/x")
    events = [watch.next(), watch.next()]
    assert [each["type"] for each in events] == ["ADDED", "DELETED"]
    assert [each["object"]["spec"] for each in events] == [{"host": "a", "port": "1"}] * 2
    watch.close()


def test_field_selectors_look_at_the_version_of_their_path(api: Api, server: WebhookServer) -> None:
    v1 = version("v1", "hostPort", storage=True) | {"selectableFields": [{"jsonPath": ".spec.hostPort"}]}
    v2 = version("v2", "host", "port") | {"selectableFields": [{"jsonPath": ".spec.host"}]}
    serve(api, definition(v1, v2, **webhook(server)))
    for name, address in (("x", "a:1"), ("y", "a:2"), ("z", "b:1")):
        api.good("POST", V1, {**HOST_1, "metadata": {"name": name}, "spec": {"hostPort": address}})
    listed = api.good("GET", f"{V2}?fieldSelector=spec.host%3Da")
    assert [(each["metadata"]["name"], each["spec"]["host"]) for each in listed["items"]] == [("x", "a"), ("y", "a")]
    page = api.good("GET", f"{V2}?fieldSelector=spec.host%3Da&limit=1")
    assert [each["metadata"]["name"] for each in page["items"]] == ["x"]
    named = f"{V2}?fieldSelector=spec.host%3Da,metadata.name%3D"
    assert len(api.good("GET", f"{named}y")["items"]) == 1
    assert api.good("GET", f"{named}z")["items"] == []
    assert [
        each["metadata"]["name"] for each in api.good("GET", f"{V1}?fieldSelector=spec.hostPort%3Db:1")["items"]
    ] == ["z"]
    api.good("DELETE", f"{V2}?fieldSelector=spec.host%3Da")
    assert [each["metadata"]["name"] for each in api.good("GET", V1)["items"]] == ["z"]


def test_a_webhook_converts_what_is_read_and_written(api: Api, server: WebhookServer) -> None:
    serve(api, split(server))
    made = api.good("POST", V2, {**HOST_2, "metadata": {"name": "x"}, "spec": {"host": "a", "port": "1"}})
    assert made["spec"] == {"host": "a", "port": "1"}
    assert api.good("GET", f"{V1}/x")["spec"] == {"hostPort": "a:1"}
    api.good("PATCH", f"{V2}/x", {"spec": {"port": "2"}}, content_type=MERGE)
    assert api.good("GET", f"{V1}/x")["spec"] == {"hostPort": "a:2"}
    api.good("DELETE", f"{V2}/x")
    assert api.ask("GET", f"{V1}/x").code == 404


def test_a_list_is_converted_in_one_call(api: Api, server: WebhookServer) -> None:
    serve(api, split(server))
    for name in "abc":
        api.good("POST", V1, {**HOST_1, "metadata": {"name": name}, "spec": {"hostPort": f"{name}:1"}})
    assert [each["spec"]["host"] for each in api.good("GET", V2)["items"]] == ["a", "b", "c"]
    (review,) = server.requests["convert"]
    assert (review["apiVersion"], review["kind"]) == ("apiextensions.k8s.io/v1", "ConversionReview")
    assert len(review["request"]["objects"]) == 3


def test_a_large_list_is_converted_in_several_calls(
    api: Api, server: WebhookServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    serve(api, split(server))
    for number in range(9):
        api.good("POST", V1, {**HOST_1, "metadata": {"name": f"h{number}"}, "spec": {"hostPort": f"h:{number}"}})
    monkeypatch.setattr(versions, "AT_ONCE", 1_200)
    items = api.good("GET", V2)["items"]
    found = [(each["metadata"]["name"], each["spec"]["port"]) for each in items]
    assert found == [(f"h{number}", str(number)) for number in range(9)]
    counts = [len(each["request"]["objects"]) for each in server.requests["convert"]]
    assert sum(counts) == 9
    assert 1 < max(counts) < 9


def test_a_new_storage_version_is_noted_and_old_objects_are_still_read(api: Api) -> None:
    serve(api, definition(version("v1", "a", storage=True), version("v2", "a")))
    api.good("POST", V1, {**HOST_1, "metadata": {"name": "old"}, "spec": {"a": "1"}})
    serve(api, definition(version("v1", "a"), version("v2", "a", storage=True)))
    api.good("POST", V1, {**HOST_1, "metadata": {"name": "new"}, "spec": {"a": "2"}})
    state = api.good("GET", f"{CRDS}/hosts.example.com")["status"]
    assert state["storedVersions"] == ["v1", "v2"]
    assert {each["apiVersion"] for each in api.good("GET", V1)["items"]} == {"example.com/v1"}
    assert {each["apiVersion"] for each in api.good("GET", V2)["items"]} == {"example.com/v2"}


@pytest.mark.parametrize(
    ("response", "words"),
    [
        ({"result": {"status": "Failure", "message": "cannot"}}, "failed: cannot"),
        ({"result": {"status": "Success"}, "convertedObjects": []}, "returned 0 objects, expected 1"),
        (
            {"result": {"status": "Success"}, "convertedObjects": [{"kind": "Host", "apiVersion": "example.com/v3"}]},
            "invalid groupVersion (expected example.com/v2, received example.com/v3)",
        ),
        (web.Response(status=500, text="broken"), 'an error on the server ("broken")'),
        (web.Response(text='{"other":' + "[" * 100_000), "the answer cannot be read"),
        (web.Response(text='{"response":'), "the answer cannot be read"),
        ({"result": {"status": "Success"}, "convertedObjects": "x"}, "the answer is not valid"),
        ({"result": {"status": "Success"}, "convertedObjects": ["x"]}, "it is not an object"),
        ({"result": {"status": "Success"}, "convertedObjects": [[[]] * 260_000]}, "more than 250000 lists and objects"),
        ({"result": {"status": "Success"}, "convertedObjects": ["x" * 3_200_000]}, "larger than 3145728 bytes"),
        ({"result": ["Success"]}, "the answer is not valid"),
    ],
)
def test_a_conversion_that_fails_is_told(api: Api, server: WebhookServer, response: Any, words: str) -> None:
    server.responders["odd"] = lambda request: response
    serve(api, split(server, "odd"))
    api.good("POST", V1, {**HOST_1, "metadata": {"name": "x"}, "spec": {"hostPort": "a:1"}})
    answer = api.ask("GET", f"{V2}/x")
    assert answer.code == 500
    assert "conversion webhook for example.com/v1, Kind=Host" in answer.body["message"]
    assert words in answer.body["message"]


def test_large_answers_are_read_beside_the_loop(api: Api, server: WebhookServer) -> None:
    threads = []

    class Writes(LargeWrites):
        async def run(self, function: Callable[[], T]) -> T:
            threads.append(function)
            return await super().run(function)

    api.backend.large_writes = writes = Writes()
    serve(api, split(server))
    api.good("POST", V1, {**HOST_1, "metadata": {"name": "x"}, "spec": {"hostPort": "a:1"}})
    api.good("GET", f"{V2}/x")
    assert threads == []
    api.good("POST", V1, {**HOST_1, "metadata": {"name": "y"}, "spec": {"hostPort": f"{'y' * LARGE}:1"}})
    threads.clear()
    assert api.good("GET", f"{V2}/y")["spec"]["host"] == "y" * LARGE
    assert len(threads) == 1
    writes.close()


def test_a_watch_ends_with_the_fault_of_a_conversion(api: Api, server: WebhookServer) -> None:
    serve(api, split(server))
    watch = api.watch(V2)
    server.responders["convert"] = lambda request: {"result": {"status": "Failure", "message": "cannot"}}
    api.good("POST", V1, {**HOST_1, "metadata": {"name": "x"}, "spec": {"hostPort": "a:1"}})
    event = watch.next()
    assert (event["type"], event["object"]["code"]) == ("ERROR", 500)
    assert event["object"]["message"].endswith("failed: cannot")
    watch.close()


@pytest.mark.parametrize("labels", [5, {"a": 1}, ["a"]])
def test_a_webhook_may_not_write_labels_that_are_no_texts(api: Api, server: WebhookServer, labels: Any) -> None:
    def labelled(request: dict[str, Any]) -> Any:
        answer = converted(request)
        answer["convertedObjects"][0]["metadata"]["labels"] = labels
        return answer

    server.responders["labelled"] = labelled
    serve(api, split(server, "labelled"))
    api.good("POST", V1, {**HOST_1, "metadata": {"name": "x"}, "spec": {"hostPort": "a:1"}})
    answer = api.ask("GET", f"{V2}/x")
    assert (answer.code, "metadata.labels must be a map of strings" in answer.body["message"]) == (500, True)


def test_a_webhook_may_not_rename_an_object(api: Api, server: WebhookServer) -> None:
    def renamed(request: dict[str, Any]) -> Any:
        answer = converted(request)
        answer["convertedObjects"][0]["metadata"]["name"] = "y"
        return answer

    server.responders["renamed"] = renamed
    serve(api, split(server, "renamed"))
    api.good("POST", V1, {**HOST_1, "metadata": {"name": "x"}, "spec": {"hostPort": "a:1"}})
    assert "metadata.name must not change" in api.ask("GET", f"{V2}/x").body["message"]


def test_a_definition_with_a_webhook_needs_its_address_and_versions(api: Api) -> None:
    made = definition(
        version("v1", "a", storage=True), strategy="Webhook", webhook={"conversionReviewVersions": ["v9"]}
    )
    answer = api.ask("POST", CRDS, made)
    assert answer.code == 422
    assert "spec.conversion.webhookClientConfig: Required value" in answer.body["message"]
    assert "must include at least one of v1, v1beta1" in answer.body["message"]


def test_versions_stand_in_the_order_of_their_priority() -> None:
    names = ["v1alpha1", "v2", "x", "v1beta1", "v10", "v1beta2", "v1"]
    assert sorted(names, key=version_order) == ["v10", "v2", "v1", "v1beta2", "v1beta1", "v1alpha1", "x"]
