"""Fills the space of a store, makes room again, and prints what the store says it holds.

Run by test_full_disk.py as a process of its own, because the limits hold for a whole process:
`python full_disk_child.py FOLDER LIMIT`, where LIMIT is `file-size` (writing fails with EFBIG) or `pages` (SQLite says
that the database is full).
"""

from __future__ import annotations

import asyncio
import json
import resource
import sys
from pathlib import Path

from kilauea.apiserver.storage import Event, Store, WriteFailed

POD = "/core/pods/default/{}"
UNLIMITED = resource.getrlimit(resource.RLIMIT_FSIZE)[1]


def limit_space(store: Store, folder: Path, kind: str, on: bool) -> None:
    if kind == "pages":
        connection = store._writer.log._connection  # type: ignore[union-attr]
        connection.pragma("max_page_count", connection.pragma("page_count") + 20 if on else 1 << 30)
    else:
        size = (folder / "store.db-wal").stat().st_size
        resource.setrlimit(resource.RLIMIT_FSIZE, (size + 100_000 if on else UNLIMITED, UNLIMITED))


async def write(store: Store, key: str) -> int | str:
    try:
        return (await store.write(key, None, lambda revision: b"%d " % revision * 400)).revision
    except WriteFailed as error:
        return str(error)


async def main() -> None:
    folder, kind = Path(sys.argv[1]), sys.argv[2]
    store = await Store.open(folder)
    watcher = store.watch("/core/pods/", 0)
    for i in range(20):
        await write(store, POD.format(i))
    limit_space(store, folder, kind, on=True)
    rounds = []
    for _ in range(4):
        rounds.append(await asyncio.gather(*[write(store, POD.format(i)) for i in range(100)]))
        rounds.append([await write(store, POD.format(i)) for i in range(20)])
    limit_space(store, folder, kind, on=False)
    rounds.append(await asyncio.gather(*[write(store, POD.format(i)) for i in range(100)]))
    events: list[Event] = []
    while len(events) < store.revision:
        events += await anext(watcher)
    json.dump(
        {
            "rounds": rounds,
            "events": [[event.revision, event.key, event.value.decode()] for event in events],
            "objects": [
                [stored.revision, stored.key, stored.value.decode()] for stored in store.list("/core/pods/").items
            ],
        },
        sys.stdout,
    )
    sys.stdout.flush()
    resource.setrlimit(resource.RLIMIT_FSIZE, (UNLIMITED, UNLIMITED))


if __name__ == "__main__":
    asyncio.run(main())
    # The store was not closed: what lies on the disk is what the writes put there.
