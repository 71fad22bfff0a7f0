"""The writer: the only thread that accesses the log; it commits together all writes that arrived while it was busy.

A commit that fails takes with it all writes that were sent before its failure was known, because they were checked
against it. They are told apart from later ones by their epoch, which the sender raises when it hears of a failure.
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Protocol

import apsw

from kilauea.apiserver.storage.errors import WriteFailed
from kilauea.apiserver.storage.log import STEP, RevisionLog, Row

GROUP = STEP // 4  # rows from which on a commit takes no more; at most twice that, so that compaction keeps up


Committed = Callable[[int], object]
"""Is told how many rows are durable, in the order in which they came."""
Failed = Callable[[WriteFailed], object]
"""Is told that nothing is durable that came since."""


class LogWriter(Protocol):
    """Writes the rows of a store. `floor` is raised as history grows; the log may be compacted up to it."""

    floor: int

    def put(self, epoch: int, rows: Sequence[Row]) -> None:
        """Commit these rows soon."""
        ...

    def close(self) -> None:
        """Commit what has come in, and close the log."""
        ...


class Commits:
    """Commits rows to a log in the calling thread, and compacts the log up to `floor` after each commit."""

    def __init__(self, log: RevisionLog, committed: Committed, failed: Failed) -> None:
        self.floor = log.compacted
        self.log = log
        self._committed = committed
        self._failed = failed
        self._broken = -1

    def commit(self, items: Sequence[tuple[int, Sequence[Row]]]) -> None:
        """Commit groups of rows together, each group with its epoch."""
        self._append(items)
        self._compact()

    def _append(self, items: Sequence[tuple[int, Sequence[Row]]]) -> None:
        rows = [row for epoch, group in items if epoch > self._broken for row in group]
        if not rows:
            return
        try:
            self.log.append(rows)
        except Exception as error:
            self._broken = items[-1][0]
            self._failed(WriteFailed(f"the write could not be stored: {error}"))
        else:
            self._committed(len(rows))

    def _compact(self) -> None:
        """Compact one step, so that a long compaction does not delay writes; it continues after the next commit."""
        if self.floor > self.log.compacted:
            # Most likely the disk is full. Nothing has changed then, and the next commit retries.
            with suppress(apsw.Error):
                self.log.compact(self.floor)


class Writer(Commits):
    """Commits rows in a separate thread, in the order of arrival.

    `committed(count)` and `failed(error)` are called in the writer's thread. `floor` may be raised at any time.
    """

    def __init__(self, log: RevisionLog, committed: Committed, failed: Failed) -> None:
        super().__init__(log, committed, failed)
        self._queue: queue.SimpleQueue[tuple[int, Sequence[Row]] | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._run, name="revision-log", daemon=True)
        self._thread.start()

    def put(self, epoch: int, rows: Sequence[Row]) -> None:
        """Queue these rows for a commit, together with others if they are not too many."""
        for start in range(0, len(rows), GROUP):
            self._queue.put((epoch, rows[start : start + GROUP]))

    def close(self) -> None:
        """Commit the queued rows and close the log; wait until this is done."""
        self._queue.put(None)
        self._thread.join()

    def _run(self) -> None:
        open_ = True
        while open_:
            items = self._collect()
            open_ = items[-1] is not None
            self.commit([item for item in items if item is not None])
        self.log.close()

    def _collect(self) -> list[tuple[int, Sequence[Row]] | None]:
        item = self._queue.get()
        items, count = [item], 0
        while item is not None and (count := count + len(item[1])) < GROUP:
            try:
                item = self._queue.get_nowait()
            except queue.Empty:
                break
            items.append(item)
        return items
