"""The guarantees of the store, over random sequences of what may happen, against a naive model.

The model is the list of all writes that succeeded. From it follow the objects at any revision and the events that any
watcher has to see: all after its revision under its prefix, in order, none twice, or `Expired`.
"""

from __future__ import annotations

import asyncio
import shutil
import tempfile
from collections.abc import Coroutine, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any, TypeVar

import apsw
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from kilauea.apiserver.storage import (
    Conflict,
    Event,
    Expired,
    Missing,
    Retention,
    Store,
    Stored,
    Watcher,
    WriteFailed,
    history,
    log,
    watch,
    writer,
)
from kilauea.apiserver.storage import store as store_module
from kilauea.apiserver.storage.log import RevisionLog, Row
from kilauea.apiserver.storage.records import covers

T = TypeVar("T")
KEYS = [f"/core/pods/{namespace}/{name}" for namespace in ("a", "a-b") for name in "xyz"] + [
    "/core/nodes/n",
    "/core/nodes/m",
]
PREFIXES = ["/core/pods/", "/core/pods/a/", "/core/pods/a/x", "/core/nodes/", "/core/nodes/n", "/apps/deployments/"]
RESOURCES = ["/core/pods/", "/core/pods/a/", "/core/nodes/", "/apps/deployments/"]
RETENTION = Retention(seconds=100, revisions=40)
SMALL = {(history, "CHECK_EVERY"): 8, (log, "STEP"): 16, (writer, "GROUP"): 3, (watch, "BATCH"): 16}
BACK = st.integers(0, 45) | st.integers(0, 400)
WRITES = st.tuples(st.sampled_from(KEYS), st.sampled_from(["seen", "any", "new", "stale"]), st.booleans())


class UnreliableLog(RevisionLog):
    """A log that fails as often as it was told to."""

    failures = 0

    def append(self, rows: Sequence[Row]) -> None:
        if UnreliableLog.failures:
            UnreliableLog.failures -= 1
            raise apsw.FullError("database or disk is full")
        super().append(rows)


class Model:
    """Every write that succeeded, in order: key, value or None, at revision 1, 2, ..."""

    def __init__(self) -> None:
        self.writes: list[tuple[str, bytes | None]] = []

    def objects(self, revision: int) -> dict[str, tuple[bytes, int]]:
        found: dict[str, tuple[bytes, int]] = {}
        for number, (key, value) in enumerate(self.writes[:revision], 1):
            if value is None:
                del found[key]
            else:
                found[key] = (value, number)
        return found

    def events(self, prefix: str, after: int) -> list[tuple[str, str, bytes, bytes | None, int]]:
        found, objects = [], self.objects(after)
        for number, (key, value) in enumerate(self.writes[after:], after + 1):
            before = objects.pop(key)[0] if key in objects else None
            kind = "deleted" if value is None else "modified" if before is not None else "added"
            shown = before if value is None else value
            assert shown is not None
            if value is not None:
                objects[key] = (value, number)
            if covers(prefix, key):
                found.append((kind, key, shown, before, number))
        return found


def short(events: Sequence[Event]) -> list[tuple[str, str, bytes, bytes | None, int]]:
    return [(event.kind, event.key, event.value, event.previous, event.revision) for event in events]


async def taken(watcher: Watcher, batches: int) -> list[Event]:
    """So many batches, or fewer if there are no more."""
    found: list[Event] = []
    for _ in range(batches):
        task = asyncio.ensure_future(anext(watcher))
        for _ in range(20):
            await asyncio.sleep(0)
        if not task.done():
            task.cancel()
            await asyncio.wait([task])
            break
        found += await task
    return found


class StoreMachine(RuleBasedStateMachine):
    """Writes together, failures, restarts, time that passes, watches from anywhere, lists at any revision."""

    def __init__(self) -> None:
        super().__init__()
        self.runner = asyncio.Runner()
        self.folder = Path(tempfile.mkdtemp())
        self.now = 0.0
        self.model = Model()
        self.times: list[float] = []
        """Of each write."""
        self.watchers: list[tuple[Watcher, int, list[tuple[str, str, bytes, bytes | None, int]]]] = []
        self.pages: list[tuple[str, int, str | None, list[Stored]]] = []
        # With small steps few writes come to the ends of batches, groups and steps of compaction.
        self.usual = {(module, name): getattr(module, name) for module, name in SMALL}
        self.set_sizes(SMALL)
        UnreliableLog.failures = 0
        self.open()

    def set_sizes(self, sizes: dict[tuple[ModuleType, str], int]) -> None:
        for (module, name), size in sizes.items():
            setattr(module, name, size)

    def run(self, body: Coroutine[Any, Any, T]) -> T:
        return self.runner.run(asyncio.wait_for(body, 20))

    def open(self) -> None:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(store_module, "RevisionLog", UnreliableLog)
            opening = Store.open(self.folder, "normal", retention=RETENTION, clock=lambda: self.now)
            self.store = self.run(opening)
        self.store.most_decoded = 2

    def teardown(self) -> None:
        self.runner.run(self.store.close())
        self.runner.close()
        self.set_sizes(self.usual)
        shutil.rmtree(self.folder)

    async def write(self, key: str, expected: str, deletes: bool) -> Stored | Exception:
        there = self.store.get(key)
        revision = there.revision if there else 0
        assert revision <= self.store.revision  # it is durable
        wanted = {"seen": revision, "any": None, "new": 0, "stale": max(revision - 1, 1)}[expected]
        try:
            encode = None if deletes else lambda made: f"{key} {made}".encode()
            return await self.store.write(key, wanted, encode, None if deletes else {"key": key})
        except (Conflict, Missing, WriteFailed) as refusal:
            return refusal

    @rule(writes=st.lists(WRITES, min_size=1, max_size=12), failures=st.sampled_from([0, 0, 0, 1, 2]))
    def write_together(self, writes: list[tuple[str, str, bool]], failures: int) -> None:
        async def body() -> list[Stored | Exception]:
            return await asyncio.gather(*[self.write(*write) for write in writes])

        UnreliableLog.failures = failures
        before = self.store.revision
        results = self.run(body())
        UnreliableLog.failures = 0
        made = sorted(
            (result.revision, key, None if deletes else result.value)
            for result, (key, _, deletes) in zip(results, writes, strict=True)
            if isinstance(result, Stored)
        )
        assert [revision for revision, _, _ in made] == list(range(before + 1, self.store.revision + 1))
        assert failures or not any(isinstance(result, WriteFailed) for result in results)
        self.model.writes += [(key, value) for _, key, value in made]
        for result in results:
            if isinstance(result, Conflict):
                key, value = self.model.writes[result.current.revision - 1]
                assert (result.current.key, result.current.value) == (key, value)

    @rule(key=st.sampled_from(KEYS), count=st.sampled_from([10, 60]))
    def write_often(self, key: str, count: int) -> None:
        async def body() -> None:
            await asyncio.gather(*[self.write(key, "any", False) for _ in range(count)])

        first = len(self.model.writes) + 1
        self.run(body())
        self.model.writes += [(key, f"{key} {first + i}".encode()) for i in range(count)]

    @rule(seconds=st.sampled_from([1, 60, 1000]))
    def let_time_pass(self, seconds: int) -> None:
        self.now += seconds

    @rule()
    def restart(self) -> None:
        self.runner.run(self.store.close())
        self.watchers.clear()
        self.open()

    @rule(prefix=st.sampled_from(PREFIXES), back=BACK)
    def watch(self, prefix: str, back: int) -> None:
        after = max(self.store.revision - back, 0)
        try:
            watcher = self.store.watch(prefix, after)
        except Expired:
            assert back > RETENTION.revisions
        else:
            self.watchers.append((watcher, after, []))

    @precondition(lambda self: self.watchers)
    @rule(data=st.data(), batches=st.integers(1, 4))
    def follow(self, data: st.DataObject, batches: int) -> None:
        watcher, after, seen = data.draw(st.sampled_from(self.watchers))
        try:
            seen += short(self.run(taken(watcher, batches)))
        except Expired:
            assert self.store.revision - watcher.revision > RETENTION.revisions
            self.watchers.remove((watcher, after, seen))
        wanted = self.model.events(watcher.prefix, after)
        assert seen == wanted[: len(seen)]
        assert [event for event in wanted if event[4] <= watcher.revision] == seen

    @rule(back=BACK, limit=st.integers(1, 4))
    def look_back(self, back: int, limit: int) -> None:
        revision = max(self.store.revision - back, 0)
        for prefix in PREFIXES:
            try:
                seen = short(self.run(taken(self.store.watch(prefix, revision), 100)))
            except Expired:
                assert back > RETENTION.revisions
            else:
                assert seen == self.model.events(prefix, revision)
        for prefix in RESOURCES:
            number = len(self.pages)
            self.pages.append((prefix, revision, None, []))
            while len(self.pages) > number:
                self.take_page(number, limit)

    @rule(prefix=st.sampled_from(RESOURCES), limit=st.integers(1, 4))
    def begin_a_list(self, prefix: str, limit: int) -> None:
        self.pages.append((prefix, self.store.revision, None, []))
        self.take_page(len(self.pages) - 1, limit)

    @precondition(lambda self: self.pages)
    @rule(data=st.data(), limit=st.integers(1, 4))
    def continue_a_list(self, data: st.DataObject, limit: int) -> None:
        self.take_page(data.draw(st.integers(0, len(self.pages) - 1)), limit)

    def take_page(self, number: int, limit: int) -> None:
        prefix, revision, after_key, items = self.pages.pop(number)
        try:
            page = self.store.list(prefix, limit=limit, after_key=after_key, at_revision=revision)
        except Expired:
            changed = self.times[revision]
            assert self.store.revision - revision > RETENTION.revisions or self.now - changed > RETENTION.seconds
            return
        items = items + page.items
        wanted = [(key, *found) for key, found in sorted(self.model.objects(revision).items()) if covers(prefix, key)]
        assert [(stored.key, stored.value, stored.revision) for stored in items] == wanted[: len(items)]
        assert page.remaining == len(wanted) - len(items)
        assert (page.next_key is None) == (page.remaining == 0)
        if page.next_key is not None:
            self.pages.append((prefix, revision, page.next_key, items))

    @invariant()
    def readers_see_what_was_written(self) -> None:
        assert self.store.revision == len(self.model.writes)
        self.times += [self.now] * (self.store.revision - len(self.times))
        objects = self.model.objects(self.store.revision)
        for key in KEYS:
            stored = self.store.get(key)
            assert (stored and (stored.value, stored.revision)) == objects.get(key)


TestStore = pytest.mark.slow(StoreMachine.TestCase)
TestStore.settings = settings(max_examples=settings().max_examples // 2, stateful_step_count=30)
