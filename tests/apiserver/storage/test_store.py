"""Writes, reads and lists of one store."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any

import apsw
import pytest

from kilauea.apiserver.storage import Conflict, Expired, Missing, Retention, StorageError, Store, TooNew, WriteFailed
from kilauea.apiserver.storage.log import RevisionLog, Row
from kilauea.apiserver.storage.writer import Commits, Committed, Failed

POD = "/core/pods/default/a"
Scenario = Callable[[Store], Awaitable[None]]


def run(scenario: Scenario, folder: Path | None = None, retention: Retention | None = None) -> None:
    async def body() -> None:
        store = await Store.open(folder, retention=retention)
        try:
            async with asyncio.timeout(30):
                await scenario(store)
        finally:
            await store.close()

    asyncio.run(body())


@pytest.fixture(params=["memory", "file"])
def folder(request: pytest.FixtureRequest, tmp_path: Path) -> Path | None:
    return tmp_path if request.param == "file" else None


def value(text: str) -> Callable[[int], bytes]:
    return lambda revision: f"{text}@{revision}".encode()


async def put(store: Store, *keys: str) -> None:
    for key in keys:
        await store.write(key, None, value(key[-1]))


def test_a_write_puts_its_own_revision_into_the_value(folder: Path | None) -> None:
    async def scenario(store: Store) -> None:
        first = await store.write(POD, 0, value("one"))
        second = await store.write(POD, 1, value("two"))
        assert (first.value, first.revision, first.created) == (b"one@1", 1, 1)
        assert (second.value, second.revision, second.created) == (b"two@2", 2, 1)
        assert store.get(POD) == second
        assert store.revision == 2

    run(scenario, folder)


def test_a_deletion_returns_the_last_value_at_its_own_revision(folder: Path | None) -> None:
    async def scenario(store: Store) -> None:
        await store.write(POD, 0, value("one"))
        gone = await store.write(POD, 1, None)
        assert (gone.value, gone.revision, gone.created) == (b"one@1", 2, 1)
        assert store.get(POD) is None
        again = await store.write(POD, 0, value("new"))
        assert (again.revision, again.created) == (3, 3)

    run(scenario, folder)


@pytest.mark.parametrize(
    ("there", "expected", "deletes", "refusal"),
    [
        (False, None, False, None),
        (False, 0, False, None),
        (False, 7, False, Missing),
        (False, None, True, Missing),
        (False, 0, True, Missing),
        (False, 7, True, Missing),
        (True, None, False, None),
        (True, 1, False, None),
        (True, 0, False, Conflict),
        (True, 7, False, Conflict),
        (True, None, True, None),
        (True, 1, True, None),
        (True, 0, True, Conflict),
        (True, 7, True, Conflict),
    ],
)
def test_a_write_is_refused_unless_the_object_is_as_expected(
    there: bool, expected: int | None, deletes: bool, refusal: type[Exception] | None
) -> None:
    async def scenario(store: Store) -> None:
        if there:
            await store.write(POD, 0, value("one"))
        before = store.revision
        write = store.write(POD, expected, None if deletes else value("two"))
        if refusal is None:
            assert (await write).revision == before + 1
        else:
            with pytest.raises(refusal):
                await write
            assert store.revision == before

    run(scenario)


def test_a_conflict_tells_what_is_there(folder: Path | None) -> None:
    async def scenario(store: Store) -> None:
        await put(store, POD, POD)
        with pytest.raises(Conflict, match=r"^/core/pods/default/a: is at revision 2$") as caught:
            await store.write(POD, 1, value("late"))
        assert caught.value.current == store.get(POD)

    run(scenario, folder)


def test_of_many_writers_that_saw_the_same_revision_one_wins(tmp_path: Path) -> None:
    async def scenario(store: Store) -> None:
        await store.write(POD, 0, value("one"))
        results = await asyncio.gather(
            *[store.write(POD, 1, value(f"writer {i}")) for i in range(20)], return_exceptions=True
        )
        winners = [result for result in results if not isinstance(result, BaseException)]
        losers = [result for result in results if isinstance(result, Conflict)]
        assert (len(winners), len(losers)) == (1, 19)
        # What a loser is told is what it can read: nothing that is still on its way to the disk.
        assert {loser.current for loser in losers} == {winners[0]} == {store.get(POD)}

    run(scenario, tmp_path)


def test_writes_on_their_way_are_checked_against_each_other_and_seen_only_when_durable(tmp_path: Path) -> None:
    async def scenario(store: Store) -> None:
        made = asyncio.create_task(store.write(POD, 0, value("one")))
        changed = asyncio.create_task(store.write(POD, None, value("two")))
        gone = asyncio.create_task(store.write(POD, None, None))
        again = asyncio.create_task(store.write(POD, 0, value("new")))
        await asyncio.sleep(0)
        assert store.get(POD) is None
        assert store.revision == 0
        results = await asyncio.gather(made, changed, gone, again)
        assert [result.revision for result in results] == [1, 2, 3, 4]
        assert [result.value for result in results] == [b"one@1", b"two@2", b"two@2", b"new@4"]
        assert store.get(POD) == results[-1]

    run(scenario, tmp_path)


def test_a_writer_that_goes_away_does_not_take_its_write_with_it(tmp_path: Path) -> None:
    async def scenario(store: Store) -> None:
        impatient = asyncio.create_task(store.write(POD, 0, value("one")))
        patient = asyncio.create_task(store.write("/core/pods/default/b", 0, value("other")))
        await asyncio.sleep(0)
        impatient.cancel()
        with pytest.raises(Conflict):
            await store.write(POD, 0, value("two"))
        stored = store.get(POD)
        assert stored is not None
        assert stored.value == b"one@1"
        assert impatient.cancelled()
        assert (await patient).revision == 2

    run(scenario, tmp_path)


class HeldWriter(Commits):
    """Commits what it was given when it is told to."""

    def __init__(self, log: RevisionLog, committed: Committed, failed: Failed) -> None:
        super().__init__(log, committed, failed)
        self.given: list[tuple[int, Sequence[Row]]] = []

    def put(self, epoch: int, rows: Sequence[Row]) -> None:
        self.given.append((epoch, rows))

    def release(self) -> None:
        """Commit, and be told of what comes next."""
        given, self.given = self.given, []
        self.commit(given)

    def close(self) -> None:
        self.release()
        self.log.close()


class FullLog(RevisionLog):
    """A log that may have no room."""

    full = False

    def append(self, rows: Sequence[Row]) -> None:
        if self.full:
            raise apsw.FullError("no room")
        super().append(rows)


@pytest.mark.parametrize("full", [False, True])
def test_what_is_written_while_the_writer_is_busy_ends_with_it_or_after_it(tmp_path: Path, full: bool) -> None:
    async def scenario() -> None:
        log = FullLog(tmp_path, "normal")
        writers: list[HeldWriter] = []

        def write(committed: Committed, failed: Failed) -> HeldWriter:
            writers.append(HeldWriter(log, committed, failed))
            return writers[0]

        store = Store.of_log(log, write, Retention(), time.monotonic)
        first = asyncio.create_task(put(store, POD))
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        others = [asyncio.create_task(put(store, f"/core/pods/default/{name}")) for name in "bc"]
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        log.full = full
        writers[0].release()
        log.full = False
        await asyncio.wait([first])
        await asyncio.sleep(0)
        assert [each.done() for each in others] == [full, full]
        writers[0].release()
        ends = await asyncio.gather(first, *others, return_exceptions=True)
        assert [type(each) for each in ends] == [WriteFailed if full else type(None)] * 3
        last = asyncio.create_task(put(store, POD))
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        writers[0].release()
        await last
        assert store.revision == (1 if full else 4)
        await store.close()

    asyncio.run(scenario())


def test_a_value_that_cannot_be_made_costs_no_revision(folder: Path | None) -> None:
    def broken(revision: int) -> bytes:
        raise RuntimeError(f"no value for {revision}")

    async def scenario(store: Store) -> None:
        with pytest.raises(RuntimeError, match="no value for 1"):
            await store.write(POD, 0, broken)
        assert (await store.write(POD, 0, value("one"))).revision == 1

    run(scenario, folder)


@pytest.mark.parametrize("key", ["pods", "/core/pods", "core/pods/default/a", "//pods/a", "/core//a"])
def test_a_key_of_another_form_is_refused(key: str) -> None:
    async def scenario(store: Store) -> None:
        with pytest.raises(ValueError, match="want /GROUP/PLURAL/"):
            await store.write(key, 0, value("one"))
        assert store.revision == 0

    run(scenario)


def test_a_list_is_in_the_order_of_keys_and_keeps_to_its_prefix(folder: Path | None) -> None:
    async def scenario(store: Store) -> None:
        await put(store, "/core/pods/b/x", "/core/pods/a-b/x", "/core/pods/a/y", "/core/pods/a/x", "/core/nodes/n")
        await put(store, "/core/podtemplates/a/x")
        assert keys(store, "/core/pods/") == ["/core/pods/a-b/x", "/core/pods/a/x", "/core/pods/a/y", "/core/pods/b/x"]
        assert keys(store, "/core/pods/a/") == ["/core/pods/a/x", "/core/pods/a/y"]
        assert keys(store, "/core/nodes/") == ["/core/nodes/n"]
        assert keys(store, "/apps/deployments/") == []

    run(scenario, folder)


def keys(store: Store, prefix: str) -> list[str]:
    return [stored.key for stored in store.list(prefix).items]


def test_a_list_continues_where_the_page_before_ended_as_if_nothing_had_been_written(folder: Path | None) -> None:
    async def scenario(store: Store) -> None:
        await put(store, *[f"/core/pods/default/{name}" for name in "bdfh"])
        first = store.list("/core/pods/", limit=2)
        assert (names(first.items), first.revision, first.remaining) == ("bd", 4, 2)
        await put(store, "/core/pods/default/a", "/core/pods/default/e", "/core/pods/default/f")
        await store.write("/core/pods/default/h", None, None)
        second = store.list("/core/pods/", limit=1, after_key=first.next_key, at_revision=first.revision)
        assert (names(second.items), second.revision, second.remaining) == ("f", 4, 1)
        assert second.items[0].revision == 3
        third = store.list("/core/pods/", limit=9, after_key=second.next_key, at_revision=first.revision)
        assert (names(third.items), third.remaining, third.next_key) == ("h", 0, None)
        assert names(store.list("/core/pods/").items) == "abdef"

    run(scenario, folder)


def names(items: Sequence[Any]) -> str:
    return "".join(stored.key[-1] for stored in items)


def test_a_list_at_a_revision_that_is_compacted_or_not_reached_is_refused() -> None:
    async def scenario(store: Store) -> None:
        await put(store, *[POD] * 600)
        with pytest.raises(Expired, match="revision 5 is too old"):
            store.list("/core/pods/", at_revision=5)
        with pytest.raises(TooNew, match="revision 601 is not reached; the newest is 600"):
            store.list("/core/pods/", at_revision=601)

    run(scenario, None, Retention(seconds=-1, revisions=10))


def test_an_error_of_a_listener_concerns_neither_the_write_nor_other_listeners(
    folder: Path | None, caplog: pytest.LogCaptureFixture
) -> None:
    heard: list[str] = []

    def fail(_: object) -> None:
        heard.append("first")
        raise RuntimeError("cannot be served")

    async def scenario(store: Store) -> None:
        watcher = store.watch("/core/pods/", 0)
        with store.listening("/core/pods/", fail), store.listening("/core/pods/", lambda _: heard.append("second")):
            await put(store, POD, "/core/nodes/a")
        await put(store, POD)
        assert [event.now.revision for event in await anext(watcher)][:1] == [1]

    run(scenario, folder)
    assert heard == ["first", "second"]
    assert "a listener to writes under /core/pods/ failed" in caplog.text


def test_a_listener_may_end_while_it_is_called(folder: Path | None) -> None:
    heard: list[str] = []

    async def scenario(store: Store) -> None:
        with store.listening("/core/pods/", lambda _: heard.append("outer")):
            inner = store.listening("/core/pods/", lambda _: inner.__exit__(None, None, None))
            inner.__enter__()
            with store.listening("/core/pods/", lambda _: heard.append("last")):
                await put(store, POD, POD)

    run(scenario, folder)
    assert heard == ["outer", "last", "outer", "last"]


def test_a_store_has_after_a_restart_what_it_had_before(tmp_path: Path) -> None:
    async def fill(store: Store) -> None:
        await put(store, "/core/pods/a/x", "/core/pods/a/y", "/core/pods/a/x")
        await store.write("/core/pods/a/y", None, None)

    async def look(store: Store) -> None:
        assert store.revision == 4
        page = store.list("/core/pods/")
        assert [(stored.value, stored.revision, stored.created) for stored in page.items] == [(b"x@3", 3, 1)]
        assert names(store.list("/core/pods/", at_revision=2).items) == "xy"
        assert (await store.write("/core/pods/a/z", 0, value("z"))).revision == 5

    run(fill, tmp_path)
    run(look, tmp_path)


def test_durability_memory_leaves_the_folder_alone(tmp_path: Path) -> None:
    async def body() -> None:
        store = await Store.open(tmp_path / "data", "memory")
        await put(store, POD)
        await store.close()

    asyncio.run(body())
    assert list(tmp_path.iterdir()) == []


def test_a_closed_store_takes_no_writes(folder: Path | None) -> None:
    async def scenario(store: Store) -> None:
        await put(store, POD)
        await store.close()
        with pytest.raises(StorageError, match="the store is closed"):
            await store.write(POD, None, value("two"))

    run(scenario, folder)


def test_closing_finishes_the_writes_on_their_way(tmp_path: Path) -> None:
    async def scenario(store: Store) -> None:
        writes = [asyncio.create_task(store.write(f"{POD}{i}", 0, value("one"))) for i in range(50)]
        await asyncio.sleep(0)
        await store.close()
        assert [stored.revision for stored in await asyncio.gather(*writes)] == list(range(1, 51))

    run(scenario, tmp_path)


@pytest.mark.parametrize("durability", ["full", "normal"])
def test_the_data_is_for_its_owner_alone(durability: str, tmp_path: Path) -> None:
    async def body() -> None:
        store = await Store.open(tmp_path / "data", durability)  # type: ignore[arg-type]
        await put(store, POD)
        modes = {path.name: oct(path.stat().st_mode & 0o777) for path in (tmp_path / "data").iterdir()}
        assert modes == dict.fromkeys(["store.acknowledged", "store.db", "store.db-wal", "store.lock"], "0o600")
        await store.close()

    asyncio.run(body())
