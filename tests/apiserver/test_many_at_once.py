"""Many long lists and watches at once: their steps take turns, so that others wait for one step and not for all."""

from __future__ import annotations

import asyncio
import dataclasses
import json
import threading
from collections.abc import Iterator
from typing import Any

import pytest
from prometheus_client import generate_latest

from kilauea.api.kinds import CONFIG_MAPS
from kilauea.apiserver import fields, turns
from kilauea.apiserver.documents import documents
from kilauea.apiserver.http import transport
from kilauea.apiserver.request import ApiResponse, RequestInfo, WatchStream, make_request
from kilauea.apiserver.rest import answers, listing
from kilauea.apiserver.rest.call import Call
from kilauea.apiserver.storage import history
from kilauea.apiserver.tables.columns import Column, Row, TableForm
from kilauea.runtime.cluster.direct import DirectClient
from support.api_core import ADMIN, MAPS, Api

CLIENTS = 20
OBJECTS = 60
PARTIAL = {"accept": "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io"}
TABLE = {"accept": "application/json;as=Table;v=v1;g=meta.k8s.io"}
SELECTED = f"{MAPS}?labelSelector=app%3Dx"


@pytest.fixture(scope="module")
def api() -> Iterator[Api]:
    made = Api()
    for number in range(OBJECTS):
        made.good("POST", MAPS, {"metadata": {"name": f"m{number:02}", "labels": {"app": "x"}}})
    yield made
    made.close()


class SlowClock:
    """CPU time in which each look, one for each object, takes 5 ms; counts the looks in each round of the loop."""

    def __init__(self) -> None:
        self.now = 0.0
        self.looks = 0
        self.rounds: list[int] = []

    def __call__(self) -> float:
        self.now += 0.005
        self.looks += 1
        return self.now

    async def count(self) -> None:
        """Count rounds of the loop until it is cancelled."""
        while True:
            self.looks = 0
            await asyncio.sleep(0)
            self.rounds.append(self.looks)


@pytest.mark.parametrize(
    ("method", "path", "headers"),
    [
        ("GET", SELECTED, {}),
        ("GET", f"{MAPS}?watch=true&resourceVersion=0&timeoutSeconds=1", PARTIAL),
        ("DELETE", f"{SELECTED}&dryRun=All", {}),
    ],
    ids=["list", "watch", "delete"],
)
def test_the_steps_of_many_clients_are_in_different_rounds(
    api: Api, monkeypatch: pytest.MonkeyPatch, method: str, path: str, headers: dict[str, str]
) -> None:
    clock = SlowClock()
    monkeypatch.setattr(turns, "thread_time", clock)
    monkeypatch.setattr(turns, "LEAST", turns.LOOK)

    async def ask() -> int:
        answer = await api.server.handle(make_request(method, path, headers, user=ADMIN))
        if isinstance(answer, WatchStream):
            found = 0
            async for batch in answer.batches:
                found += len(batch)
                if found >= OBJECTS:
                    break
            await answer.batches.aclose()
            return found
        assert isinstance(answer, ApiResponse)
        return len(json.loads(b"".join(answer.body))["items"])  # type: ignore[arg-type]

    async def run() -> list[int]:
        counting = asyncio.create_task(clock.count())
        try:
            return await asyncio.gather(*[ask() for _ in range(CLIENTS)])
        finally:
            counting.cancel()

    assert api.run(run()) == [OBJECTS] * CLIENTS
    first, *later = [each for each in clock.rounds if each]
    assert first <= 4 * CLIENTS  # the first turns are short
    assert max(later) <= 12  # the steps of one client, which may end its request in them; not of twenty


def test_responses_of_many_clients_are_sent_in_turns(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    """The parts of each take all of a turn; a pause follows each of them."""
    monkeypatch.setattr(turns, "thread_time", SlowClock())
    monkeypatch.setattr(turns, "LEAST", turns.LOOK)
    monkeypatch.setattr(answers, "PART", 10)
    pauses = 0

    async def pause() -> None:
        nonlocal pauses
        pauses += 1

    class Response:
        def __init__(self) -> None:
            self.parts: list[bytes] = []
            self.headers: dict[str, str] = {}

        async def prepare(self, request: Any) -> None:
            self.ready = True

        async def write(self, part: bytes) -> None:
            self.parts.append(part)

        async def write_eof(self) -> None:
            self.ready = False

    async def run() -> Any:
        answer = await api.server.handle(make_request("GET", MAPS, TABLE, user=ADMIN))
        response: Any = Response()
        request: Any = make_request("GET", MAPS, user=ADMIN)
        await transport._large(request, response, answer, pause)  # type: ignore[arg-type]
        return response

    response = api.run(run())
    table = json.loads(b"".join(response.parts))
    assert (len(table["rows"]), table["rows"][-1]["cells"][0]) == (OBJECTS, f"m{OBJECTS - 1}")
    assert len(response.parts) == OBJECTS // 10 + 1
    assert pauses >= OBJECTS // 10 // 2


@pytest.mark.parametrize("rows", [0, 1, 3])
def test_a_table_in_parts_is_whole(api: Api, monkeypatch: pytest.MonkeyPatch, rows: int) -> None:
    monkeypatch.setattr(answers, "PART", 1)
    table = api.good(
        "GET",
        f"{MAPS}?fieldSelector=metadata.name%3Dnone" if not rows else f"{MAPS}?limit={rows}",
        accept=TABLE["accept"],
    )
    names = [each["object"]["metadata"]["name"] for each in table["rows"]]
    assert names == [f"m{number:02}" for number in range(rows)]
    assert list(table) == ["kind", "apiVersion", "metadata", "columnDefinitions", "rows"]


def test_a_list_of_the_past_reads_the_events_since_in_steps(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    first = api.good("GET", f"{MAPS}?limit=2")
    token = first["metadata"]["continue"]
    for number in range(OBJECTS - 1, OBJECTS - 21, -1):
        api.good("DELETE", f"{MAPS}/m{number:02}")
    api.create_map("late")
    asked, after = list[int](), history.Ring.after

    def counted(ring: history.Ring, revision: int, most: int | None = None) -> Any:
        found = after(ring, revision, most)
        asked.append(len(found))
        return found

    monkeypatch.setattr(history.Ring, "after", counted)
    monkeypatch.setattr(listing, "EVENTS", 4)
    page = api.good("GET", f"{MAPS}?limit=10&continue={token}")
    assert [each["metadata"]["name"] for each in page["items"]] == [f"m{number:02}" for number in range(2, 12)]
    assert page["metadata"]["remainingItemCount"] == OBJECTS - 12
    assert max(asked) == 4
    whole = api.good("GET", f"{MAPS}?limit=100&continue={page['metadata']['continue']}")
    assert [each["metadata"]["name"] for each in whole["items"]] == [f"m{number:02}" for number in range(12, OBJECTS)]


def test_metrics_are_written_once_for_all_who_ask_meanwhile(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    threads, write = list[int](), generate_latest

    def counted(registry: Any) -> bytes:
        threads.append(threading.get_ident())
        return write(registry)

    monkeypatch.setattr(documents, "generate_latest", counted)

    async def run() -> list[Any]:
        asked = [make_request("GET", "/metrics", user=ADMIN) for _ in range(CLIENTS)]
        return await asyncio.gather(*map(api.server.handle, asked))

    registries = len(api.server.documents.metrics)
    for rounds in (1, 2):
        found = api.run(run())
        assert {each.body for each in found} == {found[0].body}
        assert len(threads) == rounds * registries
    assert threading.get_ident() not in threads


@pytest.mark.parametrize("columns", [1, 40, 5000])
def test_a_part_of_a_table_has_fewer_rows_where_there_are_more_columns(columns: int, api: Api) -> None:
    cells = 0

    def row(obj: dict[str, Any], now: int) -> Row:
        nonlocal cells
        cells += columns
        return Row([""] * columns)

    form = TableForm((Column("c"),) * columns, row)
    found = api.backend.registry.find("", "v1", "configmaps")
    assert found is not None
    request = make_request("GET", MAPS, TABLE, user=ADMIN)
    info = RequestInfo("list", "", "v1", "configmaps", "default", "")
    call = Call(api.backend, request, info, dataclasses.replace(found, table=form), None, [])
    items = api.backend.store.list(found.root).items
    parts = answers.long_table(call, items, {})
    most, before = 0, 0
    for _ in parts:
        most, before = max(most, cells - before), cells
    assert cells == len(items) * columns
    assert most <= max(answers.PART_CELLS, columns)


def test_components_of_the_process_do_not_wait_for_the_turns_of_clients(
    api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    waited = list[str]()

    async def pause(self: turns.LoopTurns, user: str) -> None:
        waited.append(user)

    monkeypatch.setattr(turns.LoopTurns, "pause", pause)
    monkeypatch.setattr(turns, "thread_time", SlowClock())
    monkeypatch.setattr(turns, "LEAST", turns.LOOK)
    ours = DirectClient(api.server, "controllers")
    listed = api.run(ours.list(CONFIG_MAPS, "default", labels="app=none"))
    assert (list(listed.items), waited) == ([], [])
    api.good("GET", f"{MAPS}?labelSelector=app=none")
    assert waited


def test_the_owners_of_an_object_with_many_controllers_are_encoded_once(
    api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    shown, encoded = fields._shown, list[Any]()

    def counted(value: Any) -> str:
        encoded.append(value)
        return shown(value)

    monkeypatch.setattr(fields, "_shown", counted)
    kind = {"apiVersion": "v1", "kind": "ConfigMap", "controller": True}
    owners = [{**kind, "name": f"none-{number}", "uid": f"u{number}"} for number in range(20)]
    answer = api.ask("POST", MAPS, {"metadata": {"name": "owned", "ownerReferences": owners}})
    assert (answer.code, len(answer.body["details"]["causes"])) == (422, 19)
    assert len([each for each in encoded if isinstance(each, list)]) == 1
