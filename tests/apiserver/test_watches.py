"""Watches: what comes, from where on, and how they end."""

from __future__ import annotations

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kilauea.apiserver.heavy import Task
from kilauea.apiserver.heavy_tasks import TASKS
from kilauea.apiserver.request import WatchStream, make_request
from kilauea.apiserver.storage import Retention
from support.api_core import ADMIN, MAPS, PODS, Api

MERGE = "application/merge-patch+json"


def test_a_watch_begins_with_what_is_there_and_goes_on_with_what_happens(api: Api) -> None:
    api.create_map("a")
    watch = api.watch(MAPS)
    assert watch.seen(1) == [("ADDED", "a")]
    api.create_map("b")
    api.good("PATCH", f"{MAPS}/a", {"data": {"x": "1"}}, content_type=MERGE)
    api.good("DELETE", f"{MAPS}/b")
    assert watch.seen(3) == [("ADDED", "b"), ("MODIFIED", "a"), ("DELETED", "b")]
    watch.close()


def test_a_watch_goes_on_where_a_list_ended(api: Api) -> None:
    api.create_map("a")
    revision = api.good("GET", MAPS)["metadata"]["resourceVersion"]
    api.create_map("b")
    watch = api.watch(f"{MAPS}?resourceVersion={revision}")
    assert watch.seen(1) == [("ADDED", "b")]
    watch.close()


def test_a_deleted_object_comes_with_the_revision_of_its_deletion(api: Api) -> None:
    api.create_map("a", x='"resourceVersion":"1"')
    watch = api.watch(f"{MAPS}?resourceVersion={api.backend.store.revision}")
    api.good("DELETE", f"{MAPS}/a")
    deleted = watch.next()["object"]
    assert deleted["metadata"]["resourceVersion"] == str(api.backend.store.revision)
    assert deleted["data"] == {"x": '"resourceVersion":"1"'}
    watch.close()


def test_objects_come_into_a_selection_and_go_out_of_it(api: Api) -> None:
    watch = api.watch(f"{PODS}?labelSelector=app=web&resourceVersion={api.backend.store.revision}")
    api.create_pod("a", {"app": "db"})
    for value in ("web", "web2", "web"):
        api.good("PATCH", f"{PODS}/a", {"metadata": {"labels": {"app": value}}}, content_type=MERGE)
    api.good("PATCH", f"{PODS}/a", {"metadata": {"annotations": {"x": "y"}}}, content_type=MERGE)
    api.good("DELETE", f"{PODS}/a")
    events = [watch.next() for _ in range(5)]
    assert [each["type"] for each in events] == ["ADDED", "DELETED", "ADDED", "MODIFIED", "DELETED"]
    revisions = [int(each["object"]["metadata"]["resourceVersion"]) for each in events]
    assert revisions == sorted(set(revisions))
    watch.close()


PROTOBUF, TABLE = "application/vnd.kubernetes.protobuf", "application/json;as=Table;v=v1;g=meta.k8s.io"


@pytest.mark.parametrize("accept", ["application/json", TABLE, PROTOBUF])
@pytest.mark.parametrize("start", ["", "&resourceVersion={}"])
def test_others_have_their_turn_while_a_watch_sends_what_is_there(api: Api, accept: str, start: str) -> None:
    before = api.backend.store.revision
    for number in range(60):
        api.good("POST", MAPS, {"metadata": {"name": f"m{number}", "annotations": {"text": "x" * 8000}}})

    async def turns() -> int:
        path = f"{MAPS}?watch=true{start.format(before)}"
        answer = await api.server.handle(make_request("GET", path, {"accept": accept}, user=ADMIN))
        assert isinstance(answer, WatchStream)
        count, is_over = 0, False

        async def read() -> None:
            nonlocal is_over
            chunks, size = answer.chunks, 0
            while size < 60 * 8000:
                size += len(await anext(chunks))
            is_over = True
            await chunks.aclose()

        reading = asyncio.ensure_future(read())
        while not is_over:
            await asyncio.sleep(0)
            count += 1
        await reading
        return count

    assert api.run(turns()) > 3


def test_large_objects_of_a_watch_are_written_in_protobuf_form_elsewhere(api: Api) -> None:
    tasks: list[Task] = []

    class Elsewhere:
        async def run(self, task: Task, data: bytes) -> bytes:
            tasks.append(task)
            return TASKS[task](data)

    api.backend.heavy = Elsewhere()
    api.create_map("small", x="y")
    api.create_map("large", x="y" * 500_000)
    answer = api.run(api.server.handle(make_request("GET", f"{MAPS}?watch=true", {"accept": PROTOBUF}, user=ADMIN)))
    assert isinstance(answer, WatchStream)
    chunks = answer.chunks
    text = b""
    while b"small" not in text:
        text += api.run(anext(chunks))
    api.run(chunks.aclose())
    assert text.count(b"k8s\0") == 2
    assert tasks == ["write protobuf"]


def test_a_watch_of_one_name_sees_nothing_else(api: Api) -> None:
    watch = api.watch(f"{MAPS}?fieldSelector=metadata.name=b&resourceVersion={api.backend.store.revision}")
    for name in "abc":
        api.create_map(name)
    api.good("DELETE", f"{MAPS}/b")
    assert watch.seen(2) == [("ADDED", "b"), ("DELETED", "b")]
    watch.close()


def test_a_streaming_list_says_where_its_beginning_ends(api: Api) -> None:
    api.create_map("a")
    query = "sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true"
    watch = api.watch(f"{MAPS}?{query}")
    assert watch.seen(1) == [("ADDED", "a")]
    mark = watch.next()
    assert mark["type"] == "BOOKMARK"
    assert mark["object"]["kind"] == "ConfigMap"
    assert mark["object"]["metadata"]["annotations"] == {"k8s.io/initial-events-end": "true"}
    assert mark["object"]["metadata"]["resourceVersion"] == str(api.backend.store.revision)
    api.create_map("b")
    assert watch.seen(1) == [("ADDED", "b")]
    watch.close()


@pytest.mark.slow
def test_a_watch_ends_when_its_time_is_over_with_a_bookmark_if_asked(api: Api) -> None:
    watch = api.watch(f"{MAPS}?timeoutSeconds=3&allowWatchBookmarks=true&resourceVersion={api.backend.store.revision}")
    assert watch.next(5)["type"] == "BOOKMARK"
    with pytest.raises(StopAsyncIteration):
        watch.next()


def test_a_watch_from_too_long_ago_is_told_to_list_again() -> None:
    api = Api(Retention(seconds=0, revisions=1, size=1))
    for number in range(600):
        api.create_map(f"x{number}")
    event = api.watch(f"{MAPS}?resourceVersion=1").next()
    assert (event["type"], event["object"]["code"], event["object"]["reason"]) == ("ERROR", 410, "Expired")
    assert event["object"]["message"].startswith("too old resource version: 1 (")
    api.close()


def test_a_watch_can_show_tables(api: Api) -> None:
    watch = api.watch(PODS, accept="application/json;as=Table;g=meta.k8s.io;v=v1")
    api.create_pod("a")
    api.create_pod("b")
    first, second = watch.next()["object"], watch.next()["object"]
    assert first["columnDefinitions"][0]["name"] == "Name"
    assert second["columnDefinitions"] is None
    assert (first["rows"][0]["cells"][0], second["rows"][0]["cells"][0]) == ("a", "b")
    watch.close()


def test_the_bookmark_of_a_watch_in_tables_is_a_row_without_anything_but_metadata(api: Api) -> None:
    table = "application/json;as=Table;g=meta.k8s.io;v=v1"
    query = "?sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true"
    kinds = [each for each in api.backend.registry if "watch" in each.verbs]
    assert len(kinds) > 60
    for each in kinds:
        watch = api.watch(f"/{'apis' if each.group else 'api'}/{each.api_version}/{each.plural}{query}", accept=table)
        while (event := watch.next())["type"] == "ADDED":
            assert event["object"]["rows"], each.kind
        watch.close()
        (row,) = event["object"]["rows"]
        assert (event["type"], event["object"]["kind"]) == ("BOOKMARK", "Table"), each.kind
        assert row["object"]["metadata"]["annotations"] == {"k8s.io/initial-events-end": "true"}, each.kind
        assert event["object"]["metadata"]["resourceVersion"] == str(api.backend.store.revision), each.kind


STEPS = st.lists(st.tuples(st.sampled_from("abc"), st.sampled_from(["web", "db", None])), max_size=25)


@given(STEPS, st.integers(0, 25))
def test_a_watch_from_any_revision_leads_from_the_list_then_to_the_list_now(
    steps: list[tuple[str, str | None]], start: int
) -> None:
    """No gap, no duplicate, no wrong order, with and without a selector."""
    api = Api()
    begin: dict[str, dict[str, str]] = {}
    revision = str(api.backend.store.revision)
    for number, (name, app) in enumerate(steps):
        if number == start:
            begin, revision = _state(api)
        _apply(api, name, app)
    if start >= len(steps):
        begin, revision = _state(api)
    for selector, is_in in (("", lambda app: True), ("labelSelector=app%3Dweb&", lambda app: app == "web")):
        known = {name: value["revision"] for name, value in begin.items() if is_in(value["app"])}
        wanted = {name: value["revision"] for name, value in _state(api)[0].items() if is_in(value["app"])}
        watch = api.watch(f"{MAPS}?{selector}resourceVersion={revision}&timeoutSeconds=1&allowWatchBookmarks=true")
        last = int(revision)
        while known != wanted:
            event = watch.next()
            assert event["type"] != "BOOKMARK", (known, wanted)
            metadata = event["object"]["metadata"]
            assert int(metadata["resourceVersion"]) > last
            last = int(metadata["resourceVersion"])
            assert (event["type"] == "ADDED") == (metadata["name"] not in known)
            known[metadata["name"]] = metadata["resourceVersion"]
            if event["type"] == "DELETED":
                del known[metadata["name"]]
        watch.close()
    api.close()


def _apply(api: Api, name: str, app: str | None) -> None:
    """Give a ConfigMap a label, or delete it."""
    if app is None:
        api.ask("DELETE", f"{MAPS}/{name}")
        return
    body = {"metadata": {"name": name, "labels": {"app": app}}}
    if api.ask("PUT", f"{MAPS}/{name}", body).code == 404:
        api.good("POST", MAPS, body)


def _state(api: Api) -> tuple[dict[str, dict[str, str]], str]:
    """Label and revision of all ConfigMaps, and the revision of the list."""
    body = api.good("GET", MAPS)
    found = {
        each["metadata"]["name"]: {
            "app": each["metadata"]["labels"]["app"],
            "revision": each["metadata"]["resourceVersion"],
        }
        for each in body["items"]
    }
    return found, body["metadata"]["resourceVersion"]


@pytest.mark.parametrize(
    ("value", "watches"),
    [("True", True), ("true", True), ("1", True), ("yes", True), ("", True), ("False", False), ("0", False)],
)
def test_all_values_but_false_and_0_ask_for_a_watch(api: Api, value: str, watches: bool) -> None:
    """As Kubernetes reads booleans; the official Python client writes `True`."""
    request = make_request("GET", f"{MAPS}?watch={value}", {}, user=ADMIN)
    answer = api.run(api.server.handle(request))
    assert isinstance(answer, WatchStream) == watches
    if isinstance(answer, WatchStream):
        api.run(answer.chunks.aclose())


@pytest.mark.parametrize(("kind", "condition"), [("labelSelector", "a!=x"), ("fieldSelector", "metadata.name!=x")])
def test_a_watch_does_not_make_the_server_keep_a_large_selector(api: Api, kind: str, condition: str) -> None:
    text = ",".join(f"{condition}{number}" for number in range(6000))
    assert api.good("GET", f"{MAPS}?{kind}={text}")["items"] is not None
    answer = api.ask("GET", f"{MAPS}?watch=1&{kind}={text}")
    assert answer.code == 400
    assert f"have {len(text)} characters: a watch takes at most 32768" in answer.body["message"]
