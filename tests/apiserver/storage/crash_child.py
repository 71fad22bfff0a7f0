"""Writes to a store from many tasks at once and prints each write that was acknowledged, until it is killed.

Run by test_crash.py as a process of its own: `python crash_child.py FOLDER SEED DURABILITY`.
"""

from __future__ import annotations

import asyncio
import os
import random
import sys
from functools import partial
from pathlib import Path

from kilauea.apiserver.storage import Conflict, Missing, Retention, Store

RETENTION = Retention(seconds=-1, revisions=1500)
KEYS = [f"/core/pods/default/pod-{i}" for i in range(300)]


def value_of(key: str, revision: int) -> bytes:
    """What is written to a key at a revision; 20 to about 20,000 bytes."""
    return f"{key}@{revision} ".encode() * (1 + revision % 7 * revision % 800)


async def write_for_ever(store: Store, rng: random.Random) -> None:
    while True:
        key = rng.choice(KEYS)
        deletes = rng.random() < 0.2
        there = store.get(key)
        try:
            encode = None if deletes else partial(value_of, key)
            stored = await store.write(key, there.revision if there else 0, encode)
        except (Conflict, Missing):
            await asyncio.sleep(0)
        else:
            os.write(1, f"{stored.revision} {key} {'delete' if deletes else 'put'}\n".encode())


async def main() -> None:
    folder, seed, durability = sys.argv[1:]
    store = await Store.open(Path(folder), durability, retention=RETENTION)  # type: ignore[arg-type]
    await asyncio.gather(*[write_for_ever(store, random.Random(f"{seed} {i}")) for i in range(16)])


if __name__ == "__main__":
    asyncio.run(main())
