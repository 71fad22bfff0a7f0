"""Memory that clients can have the server take: bounded by what the docs state, however they behave."""

from __future__ import annotations

import asyncio
import gc
import tracemalloc
from collections.abc import Callable

import pytest

from kilauea.apiserver.request import WatchStream, make_request
from kilauea.apiserver.rest.watching import CHUNK
from kilauea.apiserver.selection import NEWEST
from kilauea.apiserver.storage.watch import BATCH_BYTES
from support.api_core import ADMIN, MAPS, Api
from support.garbage import large_garbage
from support.policies import check

TEXT = "x" * 200_000


def grown_by(work: Callable[[], object]) -> int:
    """Bytes that are held after some work and were not before."""
    tracemalloc.start()
    before = tracemalloc.get_traced_memory()[0]
    kept = work()
    after = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    del kept
    return after - before


def test_what_a_watch_selects_is_remembered_without_the_objects(api: Api) -> None:
    start = api.backend.store.revision
    api.create_map("a", text=TEXT)
    for number in range(50):
        change = {"metadata": {"labels": {"a": "b"}}, "data": {"text": f"{number}{TEXT}"}}
        api.good("PATCH", f"{MAPS}/a", change, content_type="application/merge-patch+json")
    watch = api.watch(f"{MAPS}?labelSelector=a=b&resourceVersion={start}")
    for _ in range(50):
        watch.next()
    (answers,) = api.backend.matches._known.values()
    assert len(answers) >= 50
    assert not any(isinstance(part, bytes) for question in answers for part in question)
    assert len(api.backend.matches._newest) <= NEWEST
    watch.close()


def test_what_a_watch_selects_is_forgotten_with_it(api: Api) -> None:
    watch = api.watch(f"{MAPS}?labelSelector=a!=b&resourceVersion={api.backend.store.revision}")
    api.create_map("a")
    watch.next()
    assert len(api.backend.matches._known) == 1
    watch.close()
    del watch
    gc.collect()
    assert len(api.backend.matches._known) == 0


def test_a_watcher_gets_a_batch_of_moderate_size_however_many_events_there_are(api: Api) -> None:
    start = api.backend.store.revision
    for number in range(20):
        api.create_map(f"m{number}", text=TEXT)
    path = f"{MAPS}?watch=true&resourceVersion={start}"
    answer = api.run(api.server.handle(make_request("GET", path, user=ADMIN)))
    assert isinstance(answer, WatchStream)

    async def batches() -> list[tuple[int, int]]:
        found: list[tuple[int, int]] = []
        while sum(count for count, _ in found) < 20:
            batch = await asyncio.wait_for(anext(answer.batches), 5)
            found.append((len(batch), sum(len(frame.object) for frame in batch)))
        await answer.batches.aclose()
        return found

    found = api.run(batches())
    assert sum(count for count, _ in found) == 20
    assert max(size for _, size in found) <= CHUNK + 2 * len(TEXT)


@pytest.mark.parametrize("begins", ["with the objects", "with the next event"])
def test_a_watch_keeps_nothing_of_what_it_has_sent(api: Api, begins: str) -> None:
    """It may wait for hours until the next event."""
    api.good("POST", MAPS, {"metadata": {"name": "a", "annotations": {"text": TEXT}}})
    partial = {"accept": "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io"}  # a copy for each watch
    start = "" if begins == "with the objects" else f"&resourceVersion={api.backend.store.revision}"

    async def opened() -> list[asyncio.Task[bytes]]:
        waiting = []
        for number in range(20):
            request = make_request("GET", f"{MAPS}?watch=true{start}", partial, user=ADMIN)
            answer = await api.server.handle(request)
            assert isinstance(answer, WatchStream)
            chunks = answer.chunks
            first = asyncio.ensure_future(anext(chunks))
            await asyncio.sleep(0)
            if start and not number:
                body = b'{"data": {"more": "x"}}'
                path = f"{MAPS}/a"
                await api.server.handle(make_request("PATCH", path, {"content-type": MERGE}, body, ADMIN))
            assert len(await first) > len(TEXT)
            del first
            waiting.append(asyncio.ensure_future(anext(chunks)))
            await asyncio.sleep(0)
        return waiting

    watches: list[asyncio.Task[bytes]] = []
    assert grown_by(lambda: watches.extend(api.run(opened()))) < 5 * len(TEXT)

    async def end() -> None:
        for watch in watches:
            watch.cancel()
        await asyncio.wait(watches)

    api.run(end())


def test_a_batch_of_the_store_holds_a_mebibyte_and_the_rest_follows(api: Api) -> None:
    store = api.backend.store
    watcher = store.watch("/core/configmaps/", store.revision)
    for number in range(20):
        api.create_map(f"m{number}", text=TEXT)

    async def batches() -> list[list[str]]:
        found: list[list[str]] = []
        while sum(map(len, found)) < 20:
            found.append([event.key for event in await anext(watcher)])
        return found

    found = api.run(batches())
    assert [key for batch in found for key in batch] == sorted(
        (f"/core/configmaps/default/m{number}" for number in range(20)), key=lambda key: int(key.rpartition("m")[2])
    )
    assert max(map(len, found)) * len(TEXT) <= BATCH_BYTES + 2 * len(TEXT)


@pytest.mark.slow
def test_long_texts_of_clients_are_not_remembered(api: Api) -> None:
    def selectors() -> None:
        for number in range(30):
            text = ",".join(f"key{number}x{each}!=value" for each in range(3000))
            assert api.ask("GET", f"{MAPS}?labelSelector={text}").code == 200
            assert api.ask("GET", MAPS, accept=f"application/json;q={'0' * 300_000}{number}").code == 200

    selectors()
    assert grown_by(selectors) < 2_000_000


MERGE = "application/merge-patch+json"
STALE = {"metadata": {"name": "a", "resourceVersion": "1"}, "data": {"text": TEXT}}
REJECTED = {
    "a name that is taken": (409, "POST", MAPS, {"metadata": {"name": "a"}, "data": {"text": TEXT}}),
    "an invalid name": (422, "POST", MAPS, {"metadata": {"name": "_"}, "data": {"text": TEXT}}),
    "a wrong type": (400, "POST", MAPS, {"metadata": {"name": "b"}, "data": {"text": TEXT, "number": 1}}),
    "an unknown namespace": (404, "POST", MAPS.replace("default", "no"), {"metadata": {"name": "b"}, "x": TEXT}),
    "a stale update": (409, "PUT", f"{MAPS}/a", STALE),
    "a stale patch": (409, "PATCH", f"{MAPS}/a", STALE),
    "an object that does not exist": (404, "PUT", f"{MAPS}/b", {"metadata": {"name": "b"}, "data": {"text": TEXT}}),
    "a policy that fails": (422, "POST", MAPS, {"metadata": {"name": "c"}, "data": {"text": TEXT, "fail": ""}}),
    "no JSON": (400, "POST", MAPS, b'{"data": [' + TEXT.encode()),
}


@pytest.mark.parametrize("case", REJECTED)
def test_a_rejected_write_leaves_nothing_of_its_object_to_the_garbage_collector(case: str, api: Api) -> None:
    code, method, path, body = REJECTED[case]
    api.create_map("a")
    check(api, {"expression": "!has(object.data) || !('fail' in object.data) || object.data.none == 'a'"})
    media = MERGE if method == "PATCH" else "application/json"
    codes: list[int] = []
    assert large_garbage(lambda: codes.append(api.ask(method, path, body, content_type=media).code)) == []
    assert codes == [code]
