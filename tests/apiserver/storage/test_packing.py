"""Values that are no longer new take a tenth of their memory, and are read as they were written."""

from __future__ import annotations

import asyncio
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import msgspec
import pytest

from kilauea.apiserver.storage import Retention, Store, Stored, packing


def pod(number: int, phase: str) -> bytes:
    """A pod as a server stores it, about 2 KB."""
    managed = [{"manager": "kubectl", "fieldsV1": {f"f:field-{n}": {"f:name": {}} for n in range(40)}}]
    metadata = {"name": f"pod-{number}", "uid": f"{Random(number).getrandbits(128):032x}", "managedFields": managed}
    container = {"name": "main", "image": "demo", "env": [{"name": f"VARIABLE_{n}", "value": "x"} for n in range(20)]}
    conditions = [{"type": f"Type{n}", "status": "True", "lastTransitionTime": number} for n in range(5)]
    status: dict[str, Any] = {"phase": phase, **({"conditions": conditions} if phase == "Running" else {})}
    return msgspec.json.encode(
        {"kind": "Pod", "metadata": metadata, "spec": {"containers": [container]}, "status": status}
    )


def constant(text: bytes) -> Callable[[int], bytes]:
    """The value of a write that is the same at any revision."""
    return lambda revision: text


@pytest.fixture
def little_plain(monkeypatch: pytest.MonkeyPatch) -> None:
    """Keep 20 KB of values as they are."""
    monkeypatch.setattr(packing, "PLAIN_BYTES", 20_000)


async def fill(store: Store, count: int) -> None:
    """Create pods and let them run."""
    for phase in ("Pending", "Running"):
        for number in range(count):
            revision = number + 1 if phase == "Running" else 0
            text = pod(number, phase)
            await store.write(f"/core/pods/default/pod-{number}", revision, constant(text))


@pytest.mark.usefixtures("little_plain")
@pytest.mark.parametrize("durability", ["memory", "normal"])
def test_old_values_take_a_tenth_of_the_memory_and_are_read_as_they_were_written(
    tmp_path: Path, durability: Any
) -> None:
    """In lists, now and at an earlier revision, in watches from there, and after a restart."""
    count = 200

    async def check(store: Store) -> None:
        now = [each.value for each in store.list("/core/pods/").items]
        assert sorted(now) == sorted(pod(number, "Running") for number in range(count))
        earlier = [each.value for each in store.list("/core/pods/", at_revision=count).items]
        assert sorted(earlier) == sorted(pod(number, "Pending") for number in range(count))
        watcher = store.watch("/core/pods/", count)
        seen = [event async for event in _events(watcher, count)]
        assert [event.value for event in seen] == [pod(number, "Running") for number in range(count)]
        assert [event.previous for event in seen] == [pod(number, "Pending") for number in range(count)]
        sizes = sorted(each.size for each in store.list("/core/pods/").items)
        assert sizes[0] < len(pod(0, "Running")) / 8
        assert sum(sizes[:-20]) < (count - 20) * len(pod(0, "Running")) / 8

    async def test() -> None:
        store = await Store.open(tmp_path, durability)
        await fill(store, count)
        await check(store)
        await store.close()
        if durability != "memory":
            store = await Store.open(tmp_path, durability)
            await check(store)
            await store.close()

    asyncio.run(test())


async def _events(watcher: Any, count: int) -> Any:
    """So many events of a watcher."""
    left = count
    async for batch in watcher:
        for event in batch:
            yield event
        left -= len(batch)
        if not left:
            return


@pytest.mark.usefixtures("little_plain")
def test_a_pod_that_has_not_changed_for_long_takes_little_memory() -> None:
    count = 2000

    async def test() -> float:
        store = await Store.open(None, "memory", retention=Retention(seconds=-1, revisions=10))
        await fill(store, 10)
        texts = [pod(number, "Running") for number in range(10, count)]
        tracemalloc.start()
        try:
            for number in range(10, count):
                text = texts.pop(0)
                await store.write(f"/core/pods/default/pod-{number}", 0, constant(bytes(bytearray(text))))
            return tracemalloc.get_traced_memory()[0] / (count - 10)
        finally:
            tracemalloc.stop()

    assert asyncio.run(test()) < len(pod(0, "Running")) / 3


@pytest.mark.usefixtures("little_plain")
def test_values_that_have_nothing_in_common_stay_as_they_are() -> None:
    async def test() -> None:
        store = await Store.open(None, "memory")
        texts = [Random(number).randbytes(1000) for number in range(100)]
        for number, text in enumerate(texts):
            await store.write(f"/core/secrets/default/s-{number:03}", 0, constant(text))
        items = store.list("/core/secrets/").items
        assert [each.value for each in items] == texts
        assert sum(each.size == 1000 for each in items) >= 99  # the first value is the first example

    asyncio.run(test())


@pytest.mark.parametrize("phases", [["Pending", "Running"], ["Running", "Pending"]])
def test_an_example_of_one_state_learns_the_next(monkeypatch: pytest.MonkeyPatch, phases: list[str]) -> None:
    """Of pods that are new and pods that run, both become small."""
    monkeypatch.setattr(packing, "PLAIN_BYTES", 0)
    ageing = packing.Ageing()
    shares = []
    for phase in phases:
        texts = [pod(number, phase) for number in range(300)]
        made = [Stored("/core/pods/default/p", text, 1, 1) for text in texts]
        for each in made:
            ageing.add(each)
        assert [each.value for each in made] == texts
        shares.append(sum(each.size for each in made[100:]) / sum(map(len, texts[100:])))
    assert max(shares) < 1 / 8
