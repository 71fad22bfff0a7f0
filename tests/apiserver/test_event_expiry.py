"""Events go an hour after they were last written; everything else stays."""

from __future__ import annotations

import asyncio
import tracemalloc
from typing import Any

import pytest

from kilauea.api.times import SECOND
from kilauea.apiserver import event_expiry
from kilauea.apiserver.event_expiry import EventExpiry
from kilauea.apiserver.storage import Stored, WriteFailed
from support.api_core import Api

EVENTS = "/api/v1/namespaces/default/events"
ABOUT = {"kind": "Pod", "apiVersion": "v1", "name": "p", "namespace": "default"}
MERGE = "application/merge-patch+json"


def event(name: str, **more: Any) -> dict[str, Any]:
    """An event about a pod."""
    return {"metadata": {"name": name}, "involvedObject": ABOUT, "reason": "Started", "message": "it did", **more}


def names(api: Api) -> list[str]:
    """Which events are there."""
    return [each["metadata"]["name"] for each in api.ask("GET", EVENTS).body["items"]]


def test_an_event_goes_an_hour_after_it_was_written(api: Api) -> None:
    expiry = EventExpiry(api.backend)
    api.good("POST", EVENTS, event("first", firstTimestamp="2001-01-01T00:00:00Z"))
    api.create_map("kept")
    api.now += 1800 * SECOND
    api.good("POST", EVENTS, event("second", lastTimestamp="2101-01-01T00:00:00Z"))
    api.run(expiry.delete_expired())
    assert names(api) == ["first", "second"], "what the event says of itself does not count"
    api.now += 1800 * SECOND
    watch = api.watch(EVENTS)
    assert watch.seen(2) == [("ADDED", "first"), ("ADDED", "second")]
    api.run(expiry.delete_expired())
    assert watch.seen(1) == [("DELETED", "first")]
    watch.close()
    api.now += 1800 * SECOND
    api.run(expiry.delete_expired())
    assert names(api) == []
    assert api.ask("GET", "/api/v1/namespaces/default/configmaps/kept").code == 200


def test_an_event_that_is_counted_on_lives_on(api: Api) -> None:
    expiry = EventExpiry(api.backend)
    api.good("POST", EVENTS, event("often"))
    api.run(expiry.delete_expired())
    api.now += 3000 * SECOND
    api.good("PATCH", f"{EVENTS}/often", {"count": 2}, content_type=MERGE)
    again = api.now
    for minutes, there in ((50, ["often"]), (59, ["often"]), (61, [])):
        api.now = again + minutes * 60 * SECOND
        api.run(expiry.delete_expired())
        assert names(api) == there, f"{minutes} minutes after it was written again"


def test_an_event_that_could_not_be_deleted_goes_the_next_time(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    expiry = EventExpiry(api.backend)
    for name in ("first", "second"):
        api.good("POST", EVENTS, event(name))
    api.run(expiry.delete_expired())
    api.now += 3600 * SECOND

    async def fail(*arguments: Any) -> Stored:
        raise WriteFailed("the disk is full")

    with monkeypatch.context() as patch:
        patch.setattr(api.backend.store, "write", fail)
        with pytest.raises(WriteFailed):
            api.run(expiry.delete_expired())
    assert names(api) == ["first", "second"]
    api.run(expiry.delete_expired())
    assert names(api) == []


def test_others_have_their_turn_while_many_new_events_are_read(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(event_expiry, "READ", 10)
    for number in range(45):
        api.good("POST", EVENTS, event(f"e-{number}"))

    async def turns() -> int:
        reading = asyncio.ensure_future(EventExpiry(api.backend).delete_expired())
        count = 0
        while not reading.done():
            await asyncio.sleep(0)
            count += 1
        return count

    assert api.run(turns()) > 4


def test_the_many_events_of_a_moment_take_little_memory(api: Api) -> None:
    expiry = EventExpiry(api.backend)
    api.run(expiry.delete_expired())
    for number in range(2000):
        api.good("POST", EVENTS, event(f"e{number}"))
    tracemalloc.start()
    before = tracemalloc.get_traced_memory()[0]
    api.run(expiry.delete_expired())
    grown = tracemalloc.get_traced_memory()[0] - before
    tracemalloc.stop()
    assert grown < 2000 * 24
