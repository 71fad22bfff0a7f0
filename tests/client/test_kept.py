"""Caches keep whole objects as the texts that they came in, and give them out as if they kept them as dicts."""

from __future__ import annotations

import tracemalloc
from typing import Any, NamedTuple

import msgspec
import pytest

from kilauea.api.kinds import PODS
from kilauea.api.ports import LARGEST_DECODED, Key, Obj, Seen
from kilauea.client import indexer as kept_indexer
from kilauea.client import kept
from kilauea.client.indexer import Indexer


def pod(number: int, version: int = 1, **spec: Any) -> dict[str, Any]:
    """A pod."""
    container = {"name": "main", "image": "trainer:1.2.3", "env": [{"name": "RANK", "value": str(number)}]}
    metadata = {"namespace": "default", "name": f"pod-{number:04}", "uid": str(number), "resourceVersion": str(version)}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": {"containers": [container], **spec}}


def stored(obj: dict[str, Any]) -> bytes:
    """An object as a server keeps it, with managed fields."""
    managed = [{"manager": "kubectl", "fieldsType": "FieldsV1", "fieldsV1": {f"f:field-{n}": {} for n in range(40)}}]
    return msgspec.json.encode({**obj, "metadata": {**obj["metadata"], "managedFields": managed}})


@pytest.fixture
def few_decoded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Keep three objects as dicts."""
    monkeypatch.setattr(kept, "DECODED", 3)


class Held(NamedTuple):
    """Something that keeps an object anyway."""

    value: bytes
    decoded: dict[str, Any] | None = None

    @property
    def length(self) -> int:
        """Bytes of the value."""
        return len(self.value)


@pytest.mark.usefixtures("few_decoded")
@pytest.mark.parametrize("way", ["list", "list of what is kept anyway", "events"])
def test_objects_that_are_not_kept_as_dicts_are_found_as_they_came(way: str) -> None:
    indexer = Indexer(PODS)
    indexer.add_indexes((), {"node": lambda obj: str(obj["spec"].get("nodeName", ""))})
    pods = [pod(number, nodeName=f"node-{number % 2}") for number in range(10)]
    if way == "list":
        indexer.on_relist([stored(each) for each in pods], "1")
    elif way == "list of what is kept anyway":
        indexer.on_relist([Held(stored(each)) for each in pods], "1")
    else:
        indexer.on_events([Seen("ADDED", stored(each), "1") for each in pods])
    assert len(indexer) == 10
    assert indexer.all() == pods
    assert indexer.all()[2:4] == pods[2:4]
    assert indexer.indexed("node", "node-1") == pods[1::2]
    assert [indexer.get(Key("default", f"pod-{number:04}")) for number in range(10)] == pods


def test_an_object_that_is_kept_decoded_is_not_decoded_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """The cache shares it but for its managed fields, which stay with the one who keeps it."""
    monkeypatch.setattr(kept, "read", None)
    whole = msgspec.json.decode(stored(pod(1)))
    indexer = Indexer(PODS)
    indexer.on_events([Seen("ADDED", b"", "1", Held(b"", whole))])
    found = indexer.get(Key("default", "pod-0001"))
    assert found == pod(1)
    assert found["spec"] is whole["spec"]
    assert whole == msgspec.json.decode(stored(pod(1)))


@pytest.mark.parametrize("held", [False, True])
def test_a_large_object_is_decoded_each_time(held: bool) -> None:
    indexer = Indexer(PODS)
    large = pod(1, hostname="x" * LARGEST_DECODED)
    text = stored(large)
    indexer.on_events([Seen("ADDED", text, "1", Held(text) if held else None)])
    first, again = (indexer.get(Key("default", "pod-0001")) for _ in range(2))
    assert first == again == large
    assert first is not again


@pytest.mark.parametrize("fields", [None, ["metadata.finalizers"]])
def test_the_head_of_a_large_object_is_kept_until_it_changes(fields: list[str] | None) -> None:
    indexer = Indexer(PODS, fields)
    key = Key("default", "pod-0001")
    assert indexer.head(key) is None
    owner = {"apiVersion": "v1", "kind": "Pod", "name": "a", "uid": "u"}
    large = pod(1, hostname="x" * LARGEST_DECODED)
    large["metadata"] |= {"ownerReferences": [owner], "labels": {"a": "b"}}
    indexer.on_events([Seen("ADDED", stored(large), "1")])
    head = indexer.head(key)
    assert head == {"metadata": {"name": "pod-0001", "namespace": "default", "uid": "1", "ownerReferences": [owner]}}
    assert indexer.head(key) is head
    large["metadata"] |= {"finalizers": ["a/b"], "resourceVersion": "2"}
    indexer.on_events([Seen("MODIFIED", stored(large), "2")])
    assert indexer.head(key) == {"metadata": {**head["metadata"], "finalizers": ["a/b"]}}
    indexer.on_relist([stored(pod(1, version=3))], "3")
    assert indexer.head(key) == {"metadata": {"name": "pod-0001", "namespace": "default", "uid": "1"}}
    indexer.on_events([Seen("DELETED", stored(pod(1, version=3)), "4")])
    assert indexer.head(key) is None


def test_few_heads_are_kept_and_no_large_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kept_indexer, "MOST_HEADS", 2)
    indexer = Indexer(PODS)
    pods = [pod(number) for number in range(4)]
    pods[3]["metadata"]["finalizers"] = ["a/" + "b" * 5000]
    indexer.on_events([Seen("ADDED", stored(each), "1") for each in pods])
    keys = [Key("default", f"pod-{number:04}") for number in range(4)]
    first = [indexer.head(key) for key in keys]
    again = [indexer.head(key) for key in reversed(keys)][::-1]
    assert first == again
    assert [one is other for one, other in zip(first, again, strict=True)] == [False, True, True, False]


def test_objects_of_an_index_are_counted_without_a_look_at_them(monkeypatch: pytest.MonkeyPatch) -> None:
    indexer = Indexer(PODS)
    indexer.add_indexes((), {"node": lambda obj: str(obj["spec"].get("nodeName", ""))})
    indexer.on_events([Seen("ADDED", stored(pod(number, nodeName=f"node-{number % 3}")), "1") for number in range(10)])
    monkeypatch.setattr(indexer, "_at", None)
    assert [indexer.count_indexed("node", name) for name in ("node-0", "node-1", "node-7")] == [4, 3, 0]
    with pytest.raises(KeyError, match="pods have no index by the index zone"):
        indexer.count_indexed("zone", "a")


def test_an_index_that_an_object_comes_into_later_adds_no_key() -> None:
    indexer = Indexer(PODS)
    indexer.add_indexes((), {"node": lambda obj: str(obj["spec"].get("nodeName", ""))})
    count = 4 * kept.DECODED
    indexer.on_events([Seen("ADDED", stored(pod(number)), "1") for number in range(count)])
    bound = [Held(stored(pod(number, 2, nodeName="node"))) for number in range(count)]
    events = [Seen("MODIFIED", each.value, "2", each) for each in bound]
    tracemalloc.start()
    try:
        indexer.on_events(events)
        taken, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert indexer.count_indexed("node", "node") == count
    assert taken / count < 290


@pytest.mark.usefixtures("few_decoded")
def test_listeners_hear_the_state_before_of_objects_that_are_not_kept_as_dicts() -> None:
    indexer = Indexer(PODS)
    heard: list[tuple[Obj | None, Obj | None]] = []
    indexer.on_events([Seen("ADDED", stored(pod(number)), "1") for number in range(10)])
    indexer.listeners.append(lambda old, new: heard.append((old, new)))
    indexer.on_events([Seen("MODIFIED", stored(pod(0, 2, nodeName="n")), "2"), Seen("DELETED", stored(pod(1)), "3")])
    indexer.on_relist([stored(pod(number)) for number in range(2, 9)], "4")
    assert heard == [(pod(0), pod(0, 2, nodeName="n")), (pod(1), None), (pod(0, 2, nodeName="n"), None), (pod(9), None)]
    assert indexer.all() == [pod(number) for number in range(2, 9)]


def test_an_object_that_something_else_keeps_as_text_costs_the_cache_little_memory() -> None:
    count = 4 * kept.DECODED
    events = [Seen("ADDED", stored(pod(number)), "1") for number in range(count)]
    indexer = Indexer(PODS)
    indexer.on_events(events[: count // 2])
    tracemalloc.start()
    try:
        indexer.on_events(events[count // 2 :])
        taken, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert taken / (count // 2) < 1000


@pytest.mark.parametrize("fields", [None, ["spec.nodeName"]])
def test_a_list_of_what_something_else_keeps_costs_the_cache_little_memory(fields: list[str] | None) -> None:
    count = 4 * kept.DECODED
    indexer = Indexer(PODS, fields)
    held = [Held(stored(pod(number))) for number in range(count)]
    indexer.on_relist(held[: count // 2], "1")
    tracemalloc.start()
    try:
        indexer.on_relist(held, "2")
        taken, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert len(indexer) == count
    assert taken / (count // 2) < 1000
