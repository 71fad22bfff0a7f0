"""What was acknowledged is there after kill -9 under load, whole, and nothing is there that was never written."""

from __future__ import annotations

import asyncio
import os
import random
import subprocess
import sys
import time
from pathlib import Path

import pytest

from apiserver.storage.crash_child import KEYS, RETENTION, value_of
from kilauea.apiserver.storage import Event, Store

ROUNDS = 100 if os.environ.get("HYPOTHESIS_PROFILE") == "thorough" else 4
Acknowledged = dict[int, tuple[str, str]]


def killed_under_load(folder: Path, seed: int, durability: str) -> Acknowledged:
    """Let a child write until a random moment, kill it, and return by revision what it was told to be durable."""
    rng = random.Random(seed)
    command = [sys.executable, Path(__file__).with_name("crash_child.py"), folder, str(seed), durability]
    child = subprocess.Popen(command, stdout=subprocess.PIPE)
    assert child.stdout is not None
    lines = [child.stdout.readline() for _ in range(rng.randint(1, 3000))]
    time.sleep(rng.random() / 50)
    child.kill()
    lines += child.stdout.readlines()
    child.wait()
    child.stdout.close()
    assert all(line.endswith(b"\n") for line in lines), "the child ended by itself"
    words = [line.decode().split() for line in lines]
    return {int(revision): (key, kind) for revision, key, kind in words}


async def reopened(folder: Path) -> tuple[Store, dict[int, Event]]:
    store = await Store.open(folder, retention=RETENTION)
    floor = store._history.floor
    events: dict[int, Event] = {}
    watcher = store.watch("/core/pods/", floor)
    while len(events) < store.revision - floor:
        events |= {event.revision: event for event in await anext(watcher)}
    assert list(events) == list(range(floor + 1, store.revision + 1))
    return store, events


def compare(store: Store, events: dict[int, Event], acknowledged: Acknowledged) -> None:
    assert store.revision >= max(acknowledged)
    for revision, (key, kind) in acknowledged.items():
        if revision in events:
            event = events[revision]
            assert (event.key, event.kind == "deleted") == (key, kind == "delete")
            assert kind == "delete" or event.value == value_of(key, revision)
    last = {key: (revision, kind) for revision, (key, kind) in sorted(acknowledged.items())}
    later = {event.key: (event.revision, event.kind) for event in events.values()}
    for key in KEYS:
        revision, kind = max(last.get(key, (0, "delete")), later.get(key, (0, "delete")))
        stored = store.get(key)
        if kind in ("delete", "deleted"):
            assert stored is None
        else:
            assert stored is not None
            assert (stored.revision, stored.value) == (revision, value_of(key, revision))


@pytest.mark.parametrize("durability", ["full", "normal"])
def test_kill_minus_nine_loses_nothing_that_was_acknowledged(durability: str, tmp_path: Path) -> None:
    async def look(acknowledged: Acknowledged) -> None:
        store, events = await reopened(tmp_path)
        compare(store, events, acknowledged)
        await store.close()

    acknowledged: Acknowledged = {}
    for seed in range(ROUNDS // 2):
        acknowledged |= killed_under_load(tmp_path, seed, durability)
        asyncio.run(look(acknowledged))
    assert acknowledged
