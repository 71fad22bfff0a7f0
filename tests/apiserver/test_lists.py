"""Lists: selectors, pages that stay consistent, and the rules about resourceVersion."""

from __future__ import annotations

import asyncio
import base64
import itertools
import json
from typing import Any
from urllib.parse import quote

import pytest

from kilauea.apiserver import selection
from kilauea.apiserver.request import ApiResponse, make_request
from kilauea.apiserver.storage import Retention
from support.api_core import ADMIN, MAPS, PODS, START, Api, causes, named


def test_a_list_holds_what_is_there_in_the_order_of_names(api: Api) -> None:
    for name in "bca":
        api.create_map(name)
    body = api.good("GET", MAPS)
    assert (body["kind"], body["apiVersion"], named(body)) == ("ConfigMapList", "v1", ["a", "b", "c"])
    assert body["metadata"]["resourceVersion"] == str(api.backend.store.revision)
    assert "kind" not in body["items"][0]
    assert body["items"][0] == {
        k: v for k, v in api.good("GET", f"{MAPS}/a").items() if k not in ("kind", "apiVersion")
    }


def test_an_empty_list_has_items(api: Api) -> None:
    assert api.good("GET", PODS)["items"] == []


@pytest.mark.parametrize(
    ("selector", "names"),
    [
        ("app=web", ["a", "b"]),
        ("app==web,tier!=back", ["a"]),
        ("app in (web, db)", ["a", "b", "c"]),
        ("app notin (web)", ["c", "d"]),
        ("tier", ["a", "b"]),
        ("!tier", ["c", "d"]),
        ("", ["a", "b", "c", "d"]),
    ],
)
def test_labels_select(api: Api, selector: str, names: list[str]) -> None:
    labels = {"a": {"app": "web", "tier": "front"}, "b": {"app": "web", "tier": "back"}, "c": {"app": "db"}, "d": {}}
    for name, given in labels.items():
        api.create_pod(name, given)
    assert named(api.good("GET", f"{PODS}?labelSelector={quote(selector)}")) == names


@pytest.mark.parametrize(
    ("selector", "names"),
    [
        ("example.com/app=web", ["labelled"]),
        ("example.com/app", ["labelled"]),
        ("example.com/app in (web)", ["labelled"]),
        ("example.com/app=", []),
        ("empty=", ["labelled"]),
        ("empty", ["labelled"]),
    ],
)
def test_labels_are_looked_for_among_the_labels_only(api: Api, selector: str, names: list[str]) -> None:
    """Selections reject objects by their bytes, which may be elsewhere in the object too."""
    text = {"a": '{"example.com/app":"web","empty":""}', "example.com/app": "web", "empty": ""}
    given: list[tuple[str, dict[str, str]]] = [("labelled", {"example.com/app": "web", "empty": ""}), ("plain", {})]
    for name, labels in given:
        api.good("POST", MAPS, {"metadata": {"name": name, "labels": labels, "annotations": text}})
    assert named(api.good("GET", f"{MAPS}?labelSelector={quote(selector)}")) == names


@pytest.mark.parametrize(
    ("selector", "names"),
    [
        ("metadata.name=b", ["b"]),
        ("metadata.name!=b", ["a", "c"]),
        ("spec.nodeName=n1", ["a"]),
        ("spec.nodeName=", ["b", "c"]),
        ("status.phase=Pending,spec.schedulerName=volcano", ["c"]),
        ("metadata.namespace=default,metadata.name=a", ["a"]),
    ],
)
def test_fields_select(api: Api, selector: str, names: list[str]) -> None:
    api.create_pod("a", nodeName="n1")
    api.create_pod("b")
    api.create_pod("c", schedulerName="volcano")
    assert named(api.good("GET", f"/api/v1/pods?fieldSelector={selector}")) == names


def test_selectors_that_cannot_be_used_are_refused(api: Api) -> None:
    assert api.ask("GET", f"{PODS}?labelSelector=a%20b").code == 400
    answer = api.ask("GET", f"{PODS}?fieldSelector=spec.hostname=x")
    assert (answer.code, answer.body["message"]) == (400, "field label not supported: spec.hostname")


def test_pages_show_the_objects_as_they_were_at_the_first(api: Api) -> None:
    for name in "abcde":
        api.create_map(name, x="old")
    first = api.good("GET", f"{MAPS}?limit=2")
    assert (named(first), first["metadata"]["remainingItemCount"]) == (["a", "b"], 3)
    api.good("DELETE", f"{MAPS}/c")
    api.good("PUT", f"{MAPS}/d", {"metadata": {"name": "d"}, "data": {"x": "new"}})
    api.create_map("f")
    second = api.good("GET", f"{MAPS}?limit=2&continue={first['metadata']['continue']}")
    assert (named(second), second["items"][1]["data"]) == (["c", "d"], {"x": "old"})
    assert second["metadata"]["resourceVersion"] == first["metadata"]["resourceVersion"]
    last = api.good("GET", f"{MAPS}?limit=2&continue={second['metadata']['continue']}")
    assert named(last) == ["e"]
    assert "continue" not in last["metadata"]


def test_pages_of_a_selection_are_full_and_do_not_tell_what_remains(api: Api) -> None:
    for number in range(9):
        api.create_pod(f"p{number}", {"odd": str(number % 2)})
    first = api.good("GET", f"{PODS}?labelSelector=odd=1&limit=3")
    assert named(first) == ["p1", "p3", "p5"]
    assert "remainingItemCount" not in first["metadata"]
    assert named(api.good("GET", f"{PODS}?labelSelector=odd=1&limit=3&continue={first['metadata']['continue']}")) == [
        "p7"
    ]


def test_a_page_of_forgotten_history_comes_with_a_token_to_go_on() -> None:
    api = Api(Retention(seconds=0, revisions=1, size=1))
    for name in "abcd":
        api.create_map(name)
    first = api.good("GET", f"{MAPS}?limit=2")
    for number in range(600):
        api.create_map(f"x{number:03}")
    answer = api.ask("GET", f"{MAPS}?limit=2&continue={first['metadata']['continue']}")
    assert (answer.code, answer.body["reason"]) == (410, "Expired")
    assert "The provided continue parameter is too old" in answer.body["message"]
    second = api.good("GET", f"{MAPS}?limit=2&continue={answer.body['metadata']['continue']}")
    assert named(second) == ["c", "d"]
    api.close()


def test_a_token_that_is_none_is_refused(api: Api) -> None:
    assert "continue key is not valid" in api.ask("GET", f"{MAPS}?continue=x").body["message"]
    old = base64.urlsafe_b64encode(json.dumps({"v": "v0", "rv": 1, "start": "a"}).encode()).decode()
    assert "does not recognize this encoded version" in api.ask("GET", f"{MAPS}?continue={old}").body["message"]


def test_a_list_at_an_exact_revision_shows_the_past(api: Api) -> None:
    then = api.create_map("a")["metadata"]["resourceVersion"]
    api.create_map("b")
    assert named(api.good("GET", f"{MAPS}?resourceVersion={then}&resourceVersionMatch=Exact")) == ["a"]
    assert named(api.good("GET", f"{MAPS}?resourceVersion={then}&resourceVersionMatch=NotOlderThan")) == ["a", "b"]
    assert named(api.good("GET", f"{MAPS}?resourceVersion={then}")) == ["a", "b"]
    assert named(api.good("GET", f"{MAPS}?resourceVersion=0")) == ["a", "b"]


def test_a_watch_without_bookmarks_does_not_say_where_its_first_objects_end(api: Api) -> None:
    api.create_map("a")
    whole = f"{MAPS}?sendInitialEvents=true&resourceVersionMatch=NotOlderThan"
    watch = api.watch(whole)
    assert watch.seen(1) == [("ADDED", "a")]
    api.create_map("b")
    assert watch.seen(1) == [("ADDED", "b")]
    watch.close()
    told = api.watch(f"{whole}&allowWatchBookmarks=true")
    assert [told.next()["type"] for _ in range(3)] == ["ADDED", "ADDED", "BOOKMARK"]
    told.close()


@pytest.mark.parametrize(
    ("query", "field"),
    [
        ("resourceVersionMatch=Exact", "resourceVersionMatch"),
        ("resourceVersionMatch=Exact&resourceVersion=0", "resourceVersionMatch"),
        ("resourceVersionMatch=Other&resourceVersion=1", "resourceVersionMatch"),
        ("sendInitialEvents=true", "sendInitialEvents"),
        ("watch=true&sendInitialEvents=true&allowWatchBookmarks=true", "resourceVersionMatch"),
        ("watch=true&resourceVersionMatch=NotOlderThan", "resourceVersionMatch"),
    ],
)
def test_options_that_do_not_go_together_are_refused(api: Api, query: str, field: str) -> None:
    answer = api.ask("GET", f"{MAPS}?{query}")
    assert answer.code == 422
    assert field in [each for each, _ in causes(answer)]


def test_metadata_alone_comes_in_protobuf_form_if_that_is_asked_for_first(api: Api) -> None:
    api.create_map("a")
    form = "as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"
    accept = f"application/vnd.kubernetes.protobuf;{form},application/json;{form},application/json"
    request = make_request("GET", MAPS, {"accept": accept}, b"", ADMIN)
    answer = api.run(api.server.handle(request))
    assert isinstance(answer, ApiResponse)
    body = answer.body if isinstance(answer.body, bytes) else b"".join(answer.body)
    assert answer.content_type == "application/vnd.kubernetes.protobuf"
    assert (body[:4], body.count(b"PartialObjectMetadata")) == (b"k8s\0", 1)


def test_metadata_alone_can_be_had(api: Api) -> None:
    api.create_map("a", secret="x")
    accept = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json"
    body = api.good("GET", MAPS, accept=accept)
    assert (body["kind"], body["items"][0]["kind"]) == ("PartialObjectMetadataList", "PartialObjectMetadata")
    assert "data" not in body["items"][0]
    assert body["items"][0]["metadata"]["name"] == "a"


def test_a_table_has_rows_for_people(api: Api) -> None:
    api.create_pod("web")
    api.now = START + 90_000_000
    body = api.good("GET", PODS, accept="application/json;as=Table;g=meta.k8s.io;v=v1,application/json")
    assert (body["kind"], body["apiVersion"]) == ("Table", "meta.k8s.io/v1")
    assert [each["name"] for each in body["columnDefinitions"]][:5] == ["Name", "Ready", "Status", "Restarts", "Age"]
    assert body["rows"][0]["cells"] == ["web", "0/1", "Pending", "0", "90s", "<none>", "<none>", "<none>", "<none>"]
    assert body["rows"][0]["object"]["kind"] == "PartialObjectMetadata"


def test_forms_that_cannot_be_given_are_refused(api: Api) -> None:
    assert api.ask("GET", MAPS, accept="application/cbor").code == 406
    assert api.ask("GET", MAPS, accept="application/cbor,application/json").code == 200


def test_kinds_without_metadata_have_no_table(api: Api) -> None:
    table = "application/json;as=Table;g=meta.k8s.io;v=v1"
    review = {"spec": {"nonResourceAttributes": {"path": "/", "verb": "get"}}}
    refused = api.ask("POST", "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", review, accept=table)
    media = "application/json, application/yaml, application/vnd.kubernetes.protobuf"
    assert refused.body == {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Failure",
        "message": f"only the following media types are accepted: {media}",
        "reason": "NotAcceptable",
        "code": 406,
    }
    assert api.ask("GET", MAPS, accept="application/json;as=Nope;g=meta.k8s.io;v=v1").code == 406
    review["spec"]["nonResourceAttributes"]["path"] = "/version"
    both = f"{table},application/json"
    assert api.good("POST", "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", review, accept=both)


def test_field_selectors_see_the_zero_value_of_an_absent_field(api: Api) -> None:
    api.good("POST", "/api/v1/nodes", {"metadata": {"name": "free"}, "spec": {}})
    api.good("POST", "/api/v1/nodes", {"metadata": {"name": "closed"}, "spec": {"unschedulable": True}})
    assert named(api.good("GET", "/api/v1/nodes?fieldSelector=spec.unschedulable%3Dfalse")) == ["free"]
    assert named(api.good("GET", "/api/v1/nodes?fieldSelector=spec.unschedulable%3Dtrue")) == ["closed"]
    template = {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
    sets = "/apis/apps/v1/namespaces/default/replicasets"
    body = {"metadata": {"name": "none-yet"}, "spec": {"selector": {"matchLabels": {"a": "b"}}, "template": template}}
    api.good("POST", sets, body)
    assert named(api.good("GET", f"{sets}?fieldSelector=status.replicas%3D0")) == ["none-yet"]


def test_a_long_selector_is_read_while_others_have_their_turn(api: Api) -> None:
    api.create_map("a")
    terms = ",".join(f"key{number}!=b" for number in range(20_000))

    async def turns() -> tuple[int, Any]:
        request = make_request("GET", f"{MAPS}?labelSelector={terms},x!%3Dy", {}, user=ADMIN)
        asking = asyncio.ensure_future(api.server.handle(request))
        count = 0
        while not asking.done():
            await asyncio.sleep(0)
            count += 1
        return count, asking.result()

    count, answer = api.run(turns())
    assert count > 10
    assert named(json.loads(b"".join(answer.body))) == ["a"]


@pytest.mark.parametrize(
    "accept",
    [
        "application/vnd.kubernetes.protobuf",
        "application/vnd.kubernetes.protobuf;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io",
    ],
)
def test_others_have_their_turn_while_a_list_is_made(api: Api, accept: str) -> None:
    for number in range(40):
        api.create_map(f"m{number}", text="x" * 50_000)

    async def turns() -> int:
        asked = asyncio.ensure_future(api.server.handle(make_request("GET", MAPS, {"accept": accept}, user=ADMIN)))
        count = 0
        while not asked.done():
            await asyncio.sleep(0)
            count += 1
        answer = asked.result()
        assert isinstance(answer, ApiResponse)
        assert answer.status == 200
        return count if isinstance(answer.body, bytes) else len(list(answer.body))  # each part is made when it is sent

    assert api.run(turns()) > 3


def test_a_list_by_selector_gives_no_more_turns_where_the_machine_is_busy(
    api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(200):
        api.create_map(f"m{number}")
    seconds = itertools.count()
    monkeypatch.setattr(api.loop, "time", lambda: float(next(seconds)))  # others run between any two steps

    async def turns() -> int:
        asked = asyncio.ensure_future(
            api.server.handle(make_request("GET", f"{MAPS}?labelSelector=a%3Db", {}, user=ADMIN))
        )
        count = 0
        while not asked.done():
            await asyncio.sleep(0)
            count += 1
        return count

    assert api.run(turns()) < 50


def test_an_object_without_the_value_of_a_field_is_not_decoded(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    events = "/api/v1/namespaces/default/events"
    about = {"kind": "Pod", "name": "a", "namespace": "default"}
    for name, reason in (("a", "Scheduled"), ("b", "Failed"), ("c", "F\\u0061iled")):
        body = {"metadata": {"name": name}, "involvedObject": about, "reason": "R", "type": "Normal"}
        api.good("POST", events, json.dumps(body).replace('"R"', f'"{reason}"').encode())
    assert named(api.good("GET", f"{events}?fieldSelector=reason%3DFailed")) == ["b", "c"]

    def refuse(_: object) -> None:
        raise AssertionError("an object was decoded")

    monkeypatch.setattr(selection.Traits, "_fields", property(refuse))
    assert named(api.good("GET", f"{events}?fieldSelector=type%3DWarning,reason%3DFailed")) == []
