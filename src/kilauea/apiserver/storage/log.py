"""The revision log on disk: a table to which rows are appended, similar to kine.

A row is a write. It names the row that it replaces, so compaction needs no index: up to a revision, it removes all
replaced rows and all deletions. Used by one thread at a time.
"""

from __future__ import annotations

import logging
import zlib
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, closing
from pathlib import Path
from typing import NamedTuple

import apsw

from kilauea.apiserver.storage import datafile
from kilauea.apiserver.storage.acknowledged import Mark
from kilauea.apiserver.storage.errors import StorageError
from kilauea.apiserver.storage.records import Durability

log = logging.getLogger(__name__)

STEP = 512  # revisions in one step of compaction


class Row(NamedTuple):
    """A write in the log; `value` is None for a deletion, `previous` is 0 for a new object."""

    revision: int
    key: str
    created: int
    previous: int
    value: bytes | None
    checksum: int


def row(revision: int, key: str, created: int, previous: int, value: bytes | None) -> Row:
    """Return a row with its checksum."""
    return Row(revision, key, created, previous, value, _checksum(revision, key, created, previous, value))


def _checksum(revision: int, key: str, created: int, previous: int, value: bytes | None) -> int:
    head = f"{revision} {key} {created} {previous} {value is None}".encode()
    return zlib.crc32(value or b"", zlib.crc32(head))


class RevisionLog:
    """An open log; up to the revision `compacted`, only the then current versions are left."""

    def __init__(self, folder: Path, durability: Durability) -> None:
        """Open or create the log of a folder.

        Raises:
            StorageError: the folder or the file cannot be used.
        """
        datafile.check_library(apsw.sqlite_lib_version())
        self._path = folder / datafile.NAME
        self._is_complete = False
        self._mark_is_old = False
        """True since the mark could not be written."""
        with ExitStack() as opened:  # closed again if the rest fails
            self._lock = opened.enter_context(closing(datafile.open_folder(folder)))
            try:
                self._mark = opened.enter_context(closing(Mark(folder, durability)))
                datafile.prepare(folder, marked=self._mark.is_there)
                self._mark.begin()
                self._connection = opened.enter_context(closing(datafile.connect(folder, durability)))
                self.compacted = self._read_compacted()
            except (OSError, apsw.Error) as error:
                file = getattr(error, "filename", None) or self._path
                reason = getattr(error, "strerror", None) or error
                raise StorageError(f"{file}: {reason}; {datafile.remedy(error)}") from error
            opened.pop_all()

    def rows(self) -> Iterator[Row]:
        """Yield all rows in the order of revisions, each checked.

        Raises:
            StorageError: a row is damaged or missing.
        """
        last = self.compacted
        try:
            for values in self._connection.execute("SELECT * FROM log ORDER BY revision"):
                found = Row._make(values)
                if found.checksum != _checksum(*found[:-1]):
                    raise self.damaged(f"the checksum of revision {found.revision} does not fit")
                if found.revision > self.compacted:
                    if found.revision != last + 1:
                        raise self.damaged(f"revision {last + 1} is missing")
                    last = found.revision
                yield found
        except (apsw.Error, TypeError, ValueError) as error:  # a key that is not a string, a value of another type
            raise self.damaged(str(error)) from error

    def append(self, rows: Sequence[Row]) -> None:
        """Commit these rows in one transaction.

        One statement is one transaction, and releases the interpreter's lock once, not once per row. Statements of many
        rows are not cached: each length has its own statement, which keeps a copy of the last values that it wrote.

        Raises:
            apsw.Error: nothing was committed, for example because the disk is full.
        """
        slots = ",".join(["(?,?,?,?,?,?)"] * len(rows))
        values = [value for row in rows for value in row]
        self._connection.execute(f"INSERT INTO log VALUES {slots}", values, can_cache=len(rows) == 1)
        self._acknowledge(rows[-1].revision)

    def check_complete(self, newest: int) -> None:
        """Compare the newest revision found with the acknowledged one; from now on the log may be written.

        Raises:
            StorageError: acknowledged writes are missing, or the mark cannot be written.
        """
        try:
            self._mark.check(newest)
        except OSError as error:
            raise StorageError(f"{self._mark.path}: {error.strerror or error}; {datafile.remedy(error)}") from error
        self._is_complete = True

    def compact(self, floor: int) -> None:
        """Compact one step towards `floor`, in one transaction.

        Raises:
            apsw.Error: nothing was changed.
        """
        step = (self.compacted, min(self.compacted + STEP, floor))
        with self._connection as connection:
            connection.execute(
                "DELETE FROM log WHERE revision IN (SELECT previous FROM log WHERE revision > ? AND revision <= ?)",
                step,
            )
            connection.execute("DELETE FROM log WHERE revision > ? AND revision <= ? AND value IS NULL", step)
            connection.execute("UPDATE compaction SET revision = ?", step[1:])
        self.compacted = step[1]

    def damaged(self, reason: str) -> StorageError:
        """Return the error for damaged rows."""
        return datafile.damaged(self._path, reason)

    def close(self) -> None:
        """Write everything into the main file, unless the log was rejected, and release the folder."""
        try:
            if self._is_complete:
                datafile.disconnect(self._connection)
            else:
                self._connection.close()
        finally:
            self._mark.close()
            self._lock.close()

    def _acknowledge(self, revision: int) -> None:
        """Write the mark for rows that are durable; a failure is logged once, until the mark can be written again.

        An old mark only detects fewer losses until the next commit.
        """
        try:
            self._mark.write(revision)
        except OSError as error:
            if not self._mark_is_old:
                log.warning(
                    "%s: %s: writes are stored, but the loss of any since revision %d would go unnoticed; %s",
                    self._mark.path,
                    error.strerror or error,
                    revision,
                    datafile.remedy(error),
                )
            self._mark_is_old = True
        else:
            self._mark_is_old = False

    def _read_compacted(self) -> int:
        found = self._connection.execute("SELECT revision FROM compaction").get
        if not isinstance(found, int):
            raise self.damaged("the revision of the last compaction is missing")
        return found
