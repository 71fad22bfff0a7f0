"""Large writes are done beside the event loop: the loop goes on, and they do what they would do within it."""

from __future__ import annotations

import asyncio
import gc
import json
import time
import weakref
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import pytest

from kilauea.apiserver.large_writes import MOST, MOST_OF_USER, LargeWrites
from kilauea.apiserver.request import ApiResponse, make_request
from support.api_core import ADMIN, MAPS, Api
from support.definitions import TREES, serve, trees

MERGE, JSON_PATCH = "application/merge-patch+json", "application/json-patch+json"
STRATEGIC, APPLY = "application/strategic-merge-patch+json", "application/apply-patch+yaml"
ITEM = {
    "name": {"type": "string"},
    "value": {"type": "integer"},
    "tags": {"type": "object", "additionalProperties": {"type": "string"}},
}
ITEMS = {
    "type": "array",
    "x-kubernetes-list-type": "map",
    "x-kubernetes-list-map-keys": ["name"],
    "items": {"type": "object", "properties": ITEM, "required": ["name"]},
}
SCHEMA = {"type": "object", "properties": {"spec": {"type": "object", "properties": {"items": ITEMS}}}}


@pytest.fixture
def beside(api: Api) -> Iterator[Api]:
    """An API whose large writes are done beside the loop."""
    writes = api.backend.large_writes = LargeWrites()
    yield api
    api.backend.large_writes = None
    writes.close()


def tree(name: str, count: int = 3_000) -> dict[str, Any]:
    """A custom resource with many items, each of which has an owner."""
    items = [{"name": f"item-{number}", "value": number, "tags": {"a": "b"}} for number in range(count)]
    return {"apiVersion": "example.com/v1", "kind": "Tree", "metadata": {"name": name}, "spec": {"items": items}}


def large_map(name: str) -> dict[str, Any]:
    data = {f"key-{number}": "v" for number in range(2_000)}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": data}


def answer_of(api: Api, method: str, path: str, body: Any = None, content_type: str = "application/json") -> Any:
    """The request of an administrator, to be awaited."""
    data = b"" if body is None else json.dumps(body).encode()
    headers = {"content-type": content_type, "user-agent": "tester/1"}
    return api.server.handle(make_request(method, path, headers, data, ADMIN))


def longest_stretch(api: Api, *request: Any) -> float:
    """Seconds of processor time for which a request has the loop to itself, at most."""

    async def run() -> float:
        longest, answer = 0.0, asyncio.ensure_future(answer_of(api, *request))
        gc.collect()
        gc.disable()  # the garbage of other tests
        while not answer.done():
            start = time.thread_time()
            await asyncio.sleep(0)
            longest = max(longest, time.thread_time() - start)
        gc.enable()
        found = answer.result()
        assert isinstance(found, ApiResponse)
        assert found.status in (200, 201), found.body
        return longest

    return api.run(run())


WRITES: list[tuple[str, str, Any, str]] = [
    ("POST", TREES, tree("a"), "application/json"),
    ("PUT", f"{TREES}/a", None, "application/json"),
    ("PATCH", f"{TREES}/a", {"metadata": {"labels": {"a": "b"}}}, MERGE),
    ("PATCH", f"{TREES}/a", [{"op": "replace", "path": "/spec/items/0/value", "value": 7}], JSON_PATCH),
    ("PATCH", f"{TREES}/a?fieldManager=me&force=true", tree("a"), APPLY),
    ("DELETE", f"{TREES}/a", None, "application/json"),
]


@pytest.mark.slow
def test_the_loop_goes_on_during_a_large_write(beside: Api) -> None:
    """Compared with the same write within the loop, so that it does not matter how quick the machine is."""
    serve(beside, trees(SCHEMA))
    writes, longest = beside.backend.large_writes, dict[bool, list[float]]()
    for is_beside in (False, True):
        beside.backend.large_writes = writes if is_beside else None
        for method, path, body, form in WRITES:
            sent = beside.good("GET", path) | {"spec": tree("a", 2_000)["spec"]} if method == "PUT" else body
            longest.setdefault(is_beside, []).append(longest_stretch(beside, method, path, sent, form))
    assert sum(longest[True]) < sum(longest[False]) / 3
    # YAML is read within the loop here, by a worker in a server; and a deletion is little work.
    plain = [number for number, (method, *_, form) in enumerate(WRITES) if form != APPLY and method != "DELETE"]
    assert all(longest[True][number] < longest[False][number] / 3 for number in plain)


def told(answers: list[Any]) -> list[Any]:
    """Answers without what is random."""
    for answer in answers:
        answer.body.get("metadata", {}).pop("uid", None)
        answer.body.get("details", {}).pop("uid", None)
    return answers


@pytest.mark.slow
def test_large_writes_have_the_same_answers_as_within_the_loop(beside: Api) -> None:
    serve(beside, trees(SCHEMA))
    wrong = tree("b")
    wrong["spec"]["items"][5]["value"] = "text"
    unknown = tree("b")
    unknown["spec"]["items"][5]["unheard"] = 1
    other = {**large_map("missing"), "data": {"key-1": "w" * 20_000}}
    requests = [
        ("POST", MAPS, large_map("a"), "application/json"),
        ("POST", MAPS, large_map("a"), "application/json"),
        ("POST", MAPS, {**large_map("b"), "data": {"no/key": "v" * 20_000}}, "application/json"),
        ("PUT", f"{MAPS}/a", {**large_map("a"), "data": {"a": "b" * 20_000}}, "application/json"),
        ("PUT", f"{MAPS}/a", {**large_map("a"), "metadata": {"name": "a", "resourceVersion": "1"}}, "application/json"),
        ("PATCH", f"{MAPS}/a", {"data": {"c": "d"}, "unheard": 1}, STRATEGIC),
        ("PATCH", f"{MAPS}/a", {"data": {"c": "d"}}, STRATEGIC),  # changes nothing
        ("PATCH", f"{MAPS}/missing?fieldManager=me", large_map("missing"), APPLY),
        ("PATCH", f"{MAPS}/missing?fieldManager=other", other, APPLY),
        ("POST", TREES, wrong, "application/json"),
        ("POST", f"{TREES}?fieldValidation=Strict", unknown, "application/json"),
        *[each for each in WRITES if each[0] != "PUT"],
        ("DELETE", f"{MAPS}/a", None, "application/json"),
        ("DELETE", f"{MAPS}/missing", None, "application/json"),
    ]
    writes, answers = beside.backend.large_writes, dict[bool, list[Any]]()
    for is_beside in (False, True):
        beside.backend.large_writes = writes if is_beside else None
        found = [beside.ask(method, path, body, content_type=form) for method, path, body, form in requests]
        answers[is_beside] = told(found)
    for here, there in zip(answers[False], answers[True], strict=True):
        assert here.code == there.code
        assert without_revision(here.body) == without_revision(there.body)
        assert here.headers.get("Warning") == there.headers.get("Warning")
    assert {each.code for each in answers[True]} >= {200, 201, 400, 409, 422}


def without_revision(body: Any) -> Any:
    body.get("metadata", {}).pop("resourceVersion", None)
    return body


def together(api: Api, *requests: Any) -> list[int]:
    """The codes of requests that are made at the same time."""

    async def run() -> list[int]:
        return [answer.status for answer in await asyncio.gather(*(answer_of(api, *each) for each in requests))]

    return api.run(run())


def test_a_quota_counts_large_writes_that_are_made_together(beside: Api) -> None:
    quota = {"metadata": {"name": "few"}, "spec": {"hard": {"count/configmaps": "1"}}}
    beside.good("POST", "/api/v1/namespaces/default/resourcequotas", quota)
    used = beside.good("GET", "/api/v1/namespaces/default/resourcequotas/few")
    used["status"] = {"hard": {"count/configmaps": "1"}, "used": {"count/configmaps": "0"}}
    beside.good("PUT", "/api/v1/namespaces/default/resourcequotas/few/status", used)
    codes = together(beside, *[("POST", MAPS, large_map(f"map-{number}")) for number in range(4)])
    assert sorted(codes) == [201, 403, 403, 403]


def test_a_change_that_another_one_overtakes_is_made_again(beside: Api) -> None:
    beside.good("POST", MAPS, large_map("a"))
    patches = [("PATCH", f"{MAPS}/a", {"data": {f"new-{number}": "v"}}, MERGE) for number in range(5)]
    assert together(beside, *patches) == [200] * 5
    data = beside.good("GET", f"{MAPS}/a")["data"]
    assert {f"new-{number}" for number in range(5)} <= data.keys()
    old = beside.good("GET", f"{MAPS}/a")
    updates = [("PUT", f"{MAPS}/a", old | {"data": {"only": str(number) * 20_000}}) for number in range(3)]
    assert sorted(together(beside, *updates)) == [200, 409, 409]


def test_others_have_their_turn_while_a_write_rests() -> None:
    async def run() -> list[str]:
        writes, order = LargeWrites(), list[str]()
        first, second = writes.turn("a"), writes.turn("b")
        await first.run(lambda: order.append("first"))
        waiting = asyncio.create_task(second.run(lambda: order.append("second")))
        await first.run(lambda: order.append("first again"))
        first.rest()
        await waiting
        second.rest()
        await first.run(lambda: order.append("first at last"))
        first.end()
        second.end()
        writes.close()
        return order

    assert asyncio.run(run()) == ["first", "first again", "second", "first at last"]


def test_nothing_of_a_write_is_kept_until_the_garbage_collector_comes() -> None:
    class Large:
        pass

    made: list[weakref.ref[Large]] = []

    def make() -> Large:
        large = Large()
        made.append(weakref.ref(large))
        return large

    def fail() -> None:
        large = Large()
        made.append(weakref.ref(large))
        raise ValueError

    async def run() -> list[Large | None]:
        writes = LargeWrites()
        await writes.run(make)
        with suppress(ValueError):
            await writes.run(fail)
        await asyncio.sleep(0)
        writes.close()
        return [each() for each in made]

    gc.collect()
    gc.disable()
    try:
        assert asyncio.run(run()) == [None, None]
    finally:
        gc.enable()


def test_few_writes_hold_their_objects_at_a_time_also_while_they_wait() -> None:
    async def run() -> list[int]:
        writes, under_way, found = LargeWrites(), 0, list[int]()

        async def write(user: str) -> None:
            nonlocal under_way
            turn = writes.turn(user)
            await turn.run(int)
            under_way += 1
            found.append(under_way)
            turn.rest()
            await asyncio.sleep(0.01)  # a webhook
            await turn.run(int)
            under_way -= 1
            turn.end()

        await asyncio.gather(*(write(user) for user in "abcdefgh" * 3))
        found.append(-1)
        await asyncio.gather(*(write("a") for _ in range(6)))
        writes.close()
        return found

    found = asyncio.run(run())
    several, one = found[: found.index(-1)], found[found.index(-1) + 1 :]
    assert (len(several), max(several)) == (24, MOST)
    assert (len(one), max(one)) == (6, MOST_OF_USER)


def test_writes_of_several_users_that_wait_for_a_webhook_hold_up_no_other_user() -> None:
    async def run() -> None:
        writes, answered = LargeWrites(), asyncio.Event()

        async def write(user: str, *, asks: bool) -> None:
            turn = writes.turn(user)
            await turn.run(int)
            turn.rest()
            if asks:
                await answered.wait()
            turn.end()

        waiting = [asyncio.ensure_future(write(user, asks=True)) for user in "aaabbbccc"]
        await write("d", asks=False)
        assert not any(each.done() for each in waiting)
        answered.set()
        await asyncio.gather(*waiting)
        writes.close()

    asyncio.run(asyncio.wait_for(run(), 60))
