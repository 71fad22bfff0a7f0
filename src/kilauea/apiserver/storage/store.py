"""The store: optimistic writes that return when they are durable, and reads, lists and watches from memory.

A write gets its revision at once and is checked against all earlier writes, including those in progress.
Readers and watchers see it when it is durable. Everything here runs in one event loop.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import OrderedDict, deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kilauea.api.ports import is_kept_decoded
from kilauea.apiserver.storage.errors import Conflict, Missing, StorageError, TooNew, WriteFailed
from kilauea.apiserver.storage.history import CHECK_EVERY, Earlier, History, Retention
from kilauea.apiserver.storage.log import RevisionLog, Row, row
from kilauea.apiserver.storage.objects import Objects
from kilauea.apiserver.storage.records import Durability, Event, Page, Stored
from kilauea.apiserver.storage.usage import Usage
from kilauea.apiserver.storage.watch import Watcher, Watchers
from kilauea.apiserver.storage.writer import Committed, Failed, LogWriter, Writer

log = logging.getLogger(__name__)


@dataclass(slots=True)
class _Pending:
    """A write that has a revision and is not durable yet.

    Attributes:
        event: the event of the write.
        done: the result for the caller; cancelled if the caller stops waiting, which does not cancel the write.
        over: the completion for others, if any wait.
    """

    event: Event
    done: asyncio.Future[Stored]
    over: asyncio.Event | None = None

    async def wait(self) -> None:
        """Wait until it is durable or has failed."""
        if self.over is None:
            self.over = asyncio.Event()
        await self.over.wait()

    def end(self, error: WriteFailed | None = None) -> None:
        """Complete the write: it is durable, or has failed with an error."""
        if self.over is not None:
            self.over.set()
        if self.done.cancelled():
            return
        if error is None:
            self.done.set_result(self.event.now)
        else:
            self.done.set_exception(WriteFailed(*error.args))  # each waiter adds its own traceback


class Store:
    """All objects, by key, and their recent history. Created by `Store.open`.

    Attributes:
        usage: the bytes of the objects, and their limit, which callers may apply; the store does not.
        most_decoded: the number of recently written small objects that are also kept decoded. If caches in the process
            share them, this saves decoding each version two or three times; otherwise it only uses memory.
    """

    def __init__(self, objects: Objects, history: History) -> None:
        self._objects = objects
        self.usage = objects.usage
        self._history = history
        self._watchers = Watchers()
        self._listeners: list[tuple[str, Callable[[Sequence[Event]], object]]] = []
        self._writer: LogWriter | None = None
        self._assigned = history.revision
        self._epoch = 0
        self._in_flight: deque[_Pending] = deque()
        self._ahead: dict[str, _Pending] = {}
        self.most_decoded = 0
        self._decoded: OrderedDict[str, Stored] = OrderedDict()
        """Those of them, by key, which is faster than a search among all objects. Some may be in flight."""
        self._unsent: list[Row] = []
        self._handed = 0  # rows that the writer has not committed yet
        self._closed = False

    @classmethod
    async def open(
        cls,
        folder: Path | None,
        durability: Durability = "full",
        *,
        retention: Retention | None = None,
        clock: Callable[[], float] = time.monotonic,
        limit: int | None = None,
    ) -> Store:
        """Open the store of a folder, created if missing; an empty one without a folder or with durability `memory`.

        Args:
            folder: the folder of the log. Not used with durability `memory`.
            durability: with `full`, acknowledged writes survive a power failure; with `normal`, the last ones may be
                lost then, but not if the process is killed; `memory` keeps nothing.
            retention: the extent of history for watches and lists at earlier revisions, in memory and in the log.
            clock: monotonic seconds, for the age of history.
            limit: of the usage, in bytes; None for no limit.

        Raises:
            StorageError: the folder cannot be used.
        """
        retention = retention or Retention()
        if folder is None or durability == "memory":
            return cls(Objects(Usage(limit)), History(retention, clock, 0))
        log, loop = await asyncio.to_thread(RevisionLog, folder, durability), asyncio.get_running_loop()

        def write(committed: Committed, failed: Failed) -> Writer:
            return Writer(
                log,
                committed=lambda count: loop.call_soon_threadsafe(committed, count),
                failed=lambda error: loop.call_soon_threadsafe(failed, error),
            )

        return await asyncio.to_thread(cls.of_log, log, write, retention, clock, limit)

    @classmethod
    def of_log(
        cls,
        log: RevisionLog,
        write: Callable[[Committed, Failed], LogWriter],
        retention: Retention,
        clock: Callable[[], float],
        limit: int | None = None,
    ) -> Store:
        """Create the store of an open log, which is closed if it cannot be read.

        Args:
            log: the log, which is read once.
            write: creates the writer of the log, given the callbacks for the event loop of the store.
            retention: the extent of history.
            clock: monotonic seconds.
            limit: of the usage, in bytes; None for no limit.

        Raises:
            StorageError: the log is damaged.
        """
        objects, history = Objects(Usage(limit)), History(retention, clock, log.compacted)
        try:
            _load(log, objects, history)
            log.check_complete(history.revision)
        except BaseException:
            log.close()
            raise
        store = cls(objects, history)
        store._writer = write(store._committed, store._failed)
        return store

    @property
    def revision(self) -> int:
        """The newest visible revision; 0 in a store that was never written."""
        return self._history.revision

    def get(self, key: str) -> Stored | None:
        """Return the object of a key."""
        stored = self._decoded.get(key)
        return self._objects.get(key) if stored is None or key in self._ahead else stored

    def newest(self, prefix: str) -> int:
        """Return the revision of the newest write to the resource of a prefix; it changes whenever the objects do."""
        return self._history.ring(prefix).newest

    def list(
        self,
        prefix: str,
        *,
        limit: int | None = None,
        after_key: str | None = None,
        at_revision: int | None = None,
        earlier: Earlier | None = None,
    ) -> Page:
        """Return objects under a prefix in the order of their keys.

        Args:
            prefix: `/GROUP/PLURAL/` or `/GROUP/PLURAL/NAMESPACE/`.
            limit: the maximum number of objects.
            after_key: begin after this key: `next_key` of the previous page.
            at_revision: the revision of the objects: `revision` of the previous page. The newest if None.
            earlier: what differs at that revision, as far as it has been read; None if nothing has.

        Raises:
            Expired: the revision is older than the history.
            TooNew: the revision has not been reached.
        """
        revision = self.revision if at_revision is None else at_revision
        if revision > self.revision:
            raise TooNew(revision, self.revision)
        if revision == self.revision:
            return self._objects.page(prefix, revision, after_key, limit)
        earlier = earlier or self.earlier(prefix, after_key, revision)
        earlier.read()
        return self._objects.page(prefix, revision, after_key, limit, earlier.then, earlier.grown)

    def earlier(self, prefix: str, after_key: str | None, revision: int) -> Earlier:
        """Return what differs at an earlier revision, to be read in steps before a list of that revision.

        Raises:
            Expired: the revision is older than the history.
        """
        return self._history.earlier(prefix, after_key or "", revision)

    def sizes(self) -> dict[str, int]:
        """Return the number of objects of each resource, by the prefix of their keys."""
        return self._objects.sizes()

    def watched(self) -> Iterator[str]:
        """Yield the watched prefixes, once for each watcher."""
        return (each.prefix for each in tuple(self._watchers.all))

    def watch(self, prefix: str, after_revision: int) -> Watcher:
        """Watch the events after a revision: under a prefix, which ends in `/`, or of one key.

        Raises:
            Expired: history does not reach back to the revision.
        """
        watcher = Watcher(prefix, after_revision, self._history, self._watchers)
        if self._closed:
            watcher.close()
        return watcher

    @contextmanager
    def listening(self, prefix: str, heard: Callable[[Sequence[Event]], object]) -> Iterator[None]:
        """Call `heard` with the events of writes under a prefix before any reader or watcher can see them.

        For data that must never lag behind the objects; use watches otherwise. `heard` must be quick. Listeners are
        called in the order of registration; an error in one is logged and affects neither the write nor the others.
        """
        listener = (prefix, heard)
        self._listeners.append(listener)
        try:
            yield
        finally:
            self._listeners.remove(listener)

    async def write(
        self,
        key: str,
        expected: int | None,
        encode: Callable[[int], bytes] | None,
        decoded: dict[str, Any] | None = None,
    ) -> Stored:
        """Create, update or delete an object; return it when it is durable.

        Args:
            key: the key of the object.
            expected: the revision that the caller saw; 0 if the object must not exist, None for any state.
            encode: returns the value, given its revision; None deletes. Called once, before the wait for the disk.
            decoded: the decoded value, if the caller has it. Readers share it for a while, so it must not be changed
                afterwards.

        Returns:
            The object; after a deletion its last value, at the revision of the deletion.

        Raises:
            Conflict: the object is at another revision.
            Missing: the object to update or delete does not exist.
            WriteFailed: the write is not durable, and no reader has seen it.
            StorageError: the store is closed.
        """
        while _is_refused(before := self._latest(key), expected, encode is None):
            ahead = self._ahead.get(key)
            if ahead is None:
                raise Missing(key) if before is None else Conflict(before)
            await ahead.wait()  # rejected because of a write that is not visible yet
        if self._closed:
            raise StorageError("the store is closed")
        return await self._send(key, before, encode, decoded)

    async def close(self) -> None:
        """Finish the writes in progress, end all watchers and release the folder; may be called more than once."""
        self._closed = True
        self._hand_over()
        writer, self._writer = self._writer, None
        if writer is not None:
            await asyncio.to_thread(writer.close)
        for watcher in list(self._watchers.all):
            watcher.close()

    def _latest(self, key: str) -> Stored | None:
        """Return the object including writes in progress."""
        ahead = self._ahead.get(key)
        if ahead is None:
            return self._decoded.get(key) or self._objects.get(key)
        return None if ahead.event.kind == "deleted" else ahead.event.now

    def _send(
        self,
        key: str,
        before: Stored | None,
        encode: Callable[[int], bytes] | None,
        decoded: dict[str, Any] | None,
    ) -> asyncio.Future[Stored]:
        """Give a write its revision and send it to the disk."""
        revision = self._assigned + 1
        value = None if encode is None else encode(revision)
        event = _event(key, revision, value, before)
        self._keep_decoded(event.now, decoded)
        line = row(revision, key, event.now.created, 0 if before is None else before.revision, value)
        loop = asyncio.get_running_loop()
        pending = _Pending(event, loop.create_future())
        self._assigned = revision
        self._in_flight.append(pending)
        self._ahead[key] = pending
        if self._writer is None:
            self._committed(1)
            return pending.done
        if not self._unsent and not self._handed:  # writes in one iteration of the loop wake the writer once
            loop.call_soon(self._hand_over)
        self._unsent.append(line)
        return pending.done

    def _keep_decoded(self, stored: Stored, decoded: dict[str, Any] | None) -> None:
        """Keep the newest version of an object decoded, in place of an earlier one."""
        earlier = self._decoded.pop(stored.key, None)
        if earlier is not None:
            earlier.decoded = None
        if decoded is None or not self.most_decoded or not is_kept_decoded(stored):
            return
        while len(self._decoded) >= self.most_decoded:
            self._decoded.popitem(last=False)[1].decoded = None
        stored.decoded = decoded
        self._decoded[stored.key] = stored

    def _hand_over(self) -> None:
        """Pass the accumulated writes to the writer; more accumulate while it is busy."""
        rows, self._unsent = self._unsent, []
        if rows and self._writer is not None:
            self._handed += len(rows)
            self._writer.put(self._epoch, rows)

    def _committed(self, count: int) -> None:
        """Make the first `count` writes in progress, which are durable, visible to readers and watchers."""
        pending = [self._in_flight.popleft() for _ in range(count)]
        events = [each.event for each in pending]
        for each in pending:
            self._objects.apply(each.event)
            key = each.event.now.key
            # A later write of the key may be in progress, against which the next one is checked.
            if self._ahead[key] is each:
                del self._ahead[key]
        self._history.add(events)
        if self._writer is not None:
            self._writer.floor = self._history.floor
            self._handed -= count
            if not self._handed:
                self._hand_over()
        self._tell_listeners(events)
        self._watchers.wake(events)
        for each in pending:
            each.end()

    def _tell_listeners(self, events: Sequence[Event]) -> None:
        """Call the listeners. Readers are other tasks of this loop: none continues before this returns."""
        for prefix, heard in tuple(self._listeners):
            if concerned := [each for each in events if each.now.key.startswith(prefix)]:
                try:
                    heard(concerned)
                except Exception:
                    log.exception("a listener to writes under %s failed", prefix)

    def _failed(self, error: WriteFailed) -> None:
        """Fail all writes in progress; the next one gets the revision after the last durable one."""
        failed = list(self._in_flight)
        self._in_flight.clear()
        self._ahead.clear()
        self._unsent.clear()
        while self._decoded:  # some of them were never written
            self._decoded.popitem()[1].decoded = None
        # The writer drops the rows of this epoch that are still in its queue: they were checked against lost ones.
        self._epoch += 1
        self._assigned = self.revision
        self._handed = 0
        for each in failed:
            each.end(error)


def _is_refused(current: Stored | None, expected: int | None, deletes: bool) -> bool:
    if current is None:
        return bool(expected) or deletes
    return expected is not None and expected != current.revision


def _event(key: str, revision: int, value: bytes | None, before: Stored | None) -> Event:
    if before is None:
        return Event("added", Stored(key, value or b"", revision, revision), None)
    key = before.key  # one string for all versions of an object
    if value is None:
        return Event("deleted", Stored(key, before.value, revision, before.created), before)
    return Event("modified", Stored(key, value, revision, before.created), before)


def _load(log: RevisionLog, objects: Objects, history: History) -> None:
    """Fill objects and history from the log."""
    batch: list[Event] = []

    def flush() -> None:
        if batch:
            history.add(tuple(batch))
            batch.clear()

    for found in log.rows():
        before = objects.get(found.key)
        if found.revision <= log.compacted:
            # Compaction has left the newest version of each key, which is an object and not an event of the history.
            stored = Stored(found.key, found.value or b"", found.revision, found.created)
            objects.apply(Event("added", stored, None))
            history.ring(found.key).ageing.add(stored)
            continue
        if found.previous != (0 if before is None else before.revision) or (before is None and found.value is None):
            raise log.damaged(f"revision {found.revision} does not follow {found.previous} of {found.key}")
        event = _event(found.key, found.revision, found.value, before)
        objects.apply(event)
        batch.append(event)
        if len(batch) == CHECK_EVERY:
            flush()
    flush()
