"""What the log keeps on disk, and for how long history reaches back."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

import apsw
import pytest

from kilauea.apiserver.storage import Expired, Retention, Store

KEEP_FEW = Retention(seconds=-1, revisions=500)
PODS = "/core/pods/"


def run(folder: Path | None, scenario: Callable[[Store], Awaitable[None]], retention: Retention = KEEP_FEW) -> None:
    async def body() -> None:
        store = await Store.open(folder, "normal", retention=retention)
        await scenario(store)
        await store.close()

    asyncio.run(body())


async def update(store: Store, count: int, keys: int = 5, size: int = 1500) -> None:
    """So many writes, a hundred at a time."""
    for start in range(0, count, 100):
        numbers = range(start, min(start + 100, count))
        writes = [
            store.write(f"/core/pods/x/{i % keys}", None, lambda revision: b"%d " % revision * (size // 6))
            for i in numbers
        ]
        await asyncio.gather(*writes)


def rows(folder: Path) -> int:
    connection = apsw.Connection(str(folder / "store.db"))
    count = connection.execute("SELECT count(*) FROM log").get
    connection.close()
    assert isinstance(count, int)
    return count


@pytest.mark.slow
def test_the_file_stays_small_over_many_updates_of_few_objects(tmp_path: Path) -> None:
    sizes = []

    async def scenario(store: Store) -> None:
        for _ in range(30):
            await update(store, 1000)
            sizes.append(sum(path.stat().st_size for path in tmp_path.iterdir()))

    run(tmp_path, scenario)
    assert max(sizes[15:]) <= 1.25 * max(sizes[:15])
    assert max(sizes) < 12e6  # of about 45 MB written
    assert rows(tmp_path) < 2500


def test_objects_that_are_gone_leave_nothing_in_the_file(tmp_path: Path) -> None:
    async def scenario(store: Store) -> None:
        await update(store, 3000, keys=3000, size=10)
        await asyncio.gather(*[store.write(stored.key, None, None) for stored in store.list(PODS).items])
        await update(store, 3000, keys=1)

    run(tmp_path, scenario)
    assert rows(tmp_path) < 2500


def test_after_compaction_and_a_restart_objects_and_the_recent_history_are_there(tmp_path: Path) -> None:
    async def fill(store: Store) -> None:
        await update(store, 3, keys=3)
        await store.write("/core/pods/x/2", None, None)
        await update(store, 5000, keys=2)

    async def look(store: Store) -> None:
        assert store.revision == 5004
        found = [(stored.key, stored.revision, stored.created) for stored in store.list(PODS).items]
        assert found == [("/core/pods/x/0", 5003, 1), ("/core/pods/x/1", 5004, 2)]
        batch = await anext(store.watch(PODS, 4504))
        assert [event.revision for event in batch] == list(range(4505, 5005))
        for old in (0, 1000, 3000):
            with pytest.raises(Expired):
                store.watch(PODS, old)
            with pytest.raises(Expired):
                store.list(PODS, at_revision=old)
            with pytest.raises(Expired):
                store.watch("/core/nodes/", old)

    run(tmp_path, fill)
    run(tmp_path, look)
    assert rows(tmp_path) < 2500


@pytest.mark.parametrize(("passed", "expires"), [(299.0, False), (301.0, True)])
def test_history_reaches_back_five_minutes_and_a_thousand_revisions_by_default(passed: float, expires: bool) -> None:
    now = 0.0

    async def body() -> None:
        nonlocal now
        store = await Store.open(None, clock=lambda: now)
        await update(store, 2000, size=10)
        now += passed
        await update(store, 300, size=10)
        assert store.watch(PODS, 1300).revision == 1300
        if expires:
            with pytest.raises(Expired):
                store.watch(PODS, 1)
        else:
            assert len(await anext(store.watch(PODS, 0))) == 1000
        await store.close()

    asyncio.run(body())


@pytest.mark.parametrize(("passed", "expires"), [(299.0, False), (301.0, True)])
def test_a_list_as_of_an_earlier_revision_ends_five_minutes_after_that_was_changed(
    passed: float, expires: bool
) -> None:
    now = 0.0

    async def body() -> None:
        nonlocal now
        store = await Store.open(None, clock=lambda: now)
        await update(store, 3, keys=3)
        now += 1000.0
        assert len(store.list(PODS, at_revision=3).items) == 3
        await store.write("/core/nodes/n", None, lambda revision: b"{}")
        now += passed
        await store.write("/core/nodes/m", None, lambda revision: b"{}")
        assert len(store.list(PODS, at_revision=4).items) == 3
        if expires:
            with pytest.raises(Expired):
                store.list(PODS, at_revision=3)
        else:
            assert len(store.list(PODS, at_revision=3).items) == 3
        assert store.watch(PODS, 3).revision == 3
        await store.close()

    asyncio.run(body())


def test_history_never_takes_more_memory_than_it_may() -> None:
    async def scenario(store: Store) -> None:
        await update(store, 500, size=50_000)
        with pytest.raises(Expired):
            store.watch(PODS, 470)
        assert len(await anext(store.watch(PODS, 490))) == 10

    run(None, scenario, Retention(seconds=1e9, revisions=1000, size=1_000_000))


def test_the_log_keeps_no_values_in_memory(tmp_path: Path) -> None:
    """However many come at once: statements of all lengths are made, each with megabytes of values over time."""

    async def scenario(store: Store) -> None:
        before, _ = apsw.status(apsw.SQLITE_STATUS_MEMORY_USED)
        for count in range(1, 61):
            await asyncio.gather(*[store.write(f"{PODS}x/{i}", None, lambda _: bytes(3000)) for i in range(count)])
        assert apsw.status(apsw.SQLITE_STATUS_MEMORY_USED)[0] - before < 2e6  # 9 MB if they are kept

    run(tmp_path, scenario)
