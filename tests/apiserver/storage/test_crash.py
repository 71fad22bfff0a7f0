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

from apiserver.storage.crash_child import RETENTION, value_of
from kilauea.apiserver.storage import Event, Store

ROUNDS = 100 if os.environ.get("HYPOTHESIS_PROFILE") == "thorough" else 4
Known = dict[int, tuple[str, str]]
"""By revision the key and whether it was `put` or `delete`."""


def killed_under_load(folder: Path, seed: int, durability: str) -> Known:
    """Let a child write until a random moment, kill it, and return by revision what it was told to be durable."""
    rng = random.Random(seed)
    command = [sys.executable, str(Path(__file__).with_name("crash_child.py")), str(folder), str(seed), durability]
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


def compare(store: Store, events: dict[int, Event], known: Known) -> None:
    """Hold a store that was opened again against all writes acknowledged, or seen when it was opened before."""
    assert store.revision >= max(known)
    for revision in known.keys() & events.keys():
        assert known[revision] == write_of(events[revision])
    known |= {revision: write_of(event) for revision, event in events.items()}
    assert sorted(known) == list(range(1, store.revision + 1))
    last = {key: (revision, kind) for revision, (key, kind) in sorted(known.items())}
    wanted = {key: revision for key, (revision, kind) in last.items() if kind == "put"}
    for event in events.values():
        assert event.kind == "deleted" or event.value == value_of(event.key, event.revision)
    assert {stored.key: stored.revision for stored in store.list("/core/pods/").items} == wanted
    assert all(stored.value == value_of(stored.key, stored.revision) for stored in store.list("/core/pods/").items)


def write_of(event: Event) -> tuple[str, str]:
    return event.key, "delete" if event.kind == "deleted" else "put"


@pytest.mark.parametrize("durability", ["full", "normal"])
def test_kill_minus_nine_loses_nothing_that_was_acknowledged(durability: str, tmp_path: Path) -> None:
    async def look() -> None:
        store, events = await reopened(tmp_path)
        compare(store, events, known)
        await store.close()

    known: Known = {}
    for seed in range(ROUNDS // 2):
        known |= killed_under_load(tmp_path, seed, durability)
        asyncio.run(look())
    assert known
