"""The file of a history: one SQLite file in a folder, and its repair when it is damaged.

A damaged file never keeps a cluster from running: it is renamed, its readable content is copied into a new file, and
the damage is reported.
"""

from __future__ import annotations

import fcntl
import logging
import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import apsw

from kilauea.api.numbers import plural
from kilauea.history.errors import HistoryError

NAME = "history.db"
LOCK = "history.lock"
APPLICATION = 0x4B494C48  # "KILH", where SQLite keeps the kind of a file
FORMAT = 1
CHOOSE_FOLDER = "choose another folder: with --history for `kilauea scheduler`, with --data-dir for `kilauea up`"
SCHEMA = """
CREATE TABLE jobs (
    uid TEXT PRIMARY KEY, namespace TEXT NOT NULL, name TEXT NOT NULL, queue TEXT NOT NULL, user TEXT NOT NULL,
    submitted INTEGER NOT NULL, ended INTEGER, followed INTEGER NOT NULL, data BLOB NOT NULL
) WITHOUT ROWID;
CREATE TABLE pods (
    uid TEXT PRIMARY KEY, namespace TEXT NOT NULL, job TEXT NOT NULL, queue TEXT NOT NULL, submitted INTEGER NOT NULL,
    bound INTEGER, ended INTEGER, resources TEXT NOT NULL, data BLOB NOT NULL
) WITHOUT ROWID;
CREATE TABLE events (
    time INTEGER NOT NULL, job TEXT NOT NULL, what TEXT NOT NULL, pod TEXT NOT NULL, namespace TEXT NOT NULL,
    data BLOB NOT NULL, PRIMARY KEY (time, job, what, pod)
) WITHOUT ROWID;
CREATE TABLE gaps (start INTEGER NOT NULL, end INTEGER NOT NULL, reason TEXT NOT NULL);
CREATE TABLE facts (name TEXT PRIMARY KEY, value INTEGER NOT NULL) WITHOUT ROWID;
CREATE INDEX jobs_by_name ON jobs (namespace, name);
CREATE INDEX jobs_by_time ON jobs (submitted);
CREATE INDEX pods_by_job ON pods (job);
CREATE INDEX pods_by_end ON pods (ended);
CREATE INDEX events_by_job ON events (job);
"""
TABLES = {"jobs": 9, "pods": 9, "events": 6, "gaps": 3, "facts": 2}
"""Tables with their numbers of columns."""
log = logging.getLogger(__name__)


class FolderLock:
    """The exclusive right to write the history of a folder, held until it is closed or the process ends."""

    def __init__(self, folder: Path) -> None:
        path = folder / LOCK
        self._descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
        try:
            fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(self._descriptor)
            raise HistoryError(f"{path}: another process writes this history; stop it, or {CHOOSE_FOLDER}") from None

    def close(self) -> None:
        """Release the lock."""
        os.close(self._descriptor)


def open_to_write(folder: Path) -> tuple[apsw.Connection, FolderLock, str]:
    """Open or create the file of a folder; returns the damage that was found, empty for none.

    Raises:
        HistoryError: the folder is unusable, or another process writes to it.
    """
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        lock = FolderLock(folder)
    except OSError as error:
        raise _out_of_reach(folder, error) from error
    try:
        for suffix in ("", "-wal", "-shm"):
            with suppress(FileNotFoundError):  # SQLite treats an inaccessible file as damaged
                os.close(os.open(folder / f"{NAME}{suffix}", os.O_RDWR))
        connection, damage = _opened_or_replaced(folder / NAME)
    except OSError as error:
        lock.close()
        raise _out_of_reach(folder, error) from error
    except BaseException:
        lock.close()
        raise
    return connection, lock, damage


def _out_of_reach(folder: Path, error: OSError) -> HistoryError:
    return HistoryError(f"{error.filename or folder}: {error.strerror}; the folder of the history must be writable")


def open_to_read(folder: Path) -> apsw.Connection:
    """Open the file of a folder for reading, while another process may be writing it.

    Raises:
        HistoryError: it does not exist, or cannot be read.
    """
    path = folder / NAME
    if not path.is_file():
        raise HistoryError(f"{path}: there is no history; give the folder of a history, or of a cluster that has one")
    try:
        connection = apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READONLY)
        connection.set_busy_timeout(5000)
        problem = _problem(connection)
    except apsw.Error as error:
        raise HistoryError(f"{path}: {' '.join(str(error).split())}") from error
    if problem:
        raise HistoryError(f"{path}: {problem}")
    return connection


def _opened_or_replaced(path: Path) -> tuple[apsw.Connection, str]:
    if not path.exists():
        return _create(path), ""
    try:
        connection = apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READWRITE)
        problem = _problem(connection)
        if problem and connection.pragma("application_id"):
            connection.close()
            raise HistoryError(f"{path}: {problem}; move it away, or {CHOOSE_FOLDER}")
        if not problem:
            _configure(connection)
            found = connection.pragma("quick_check", 1)
            problem = "" if found == "ok" else " ".join(str(found).split())
        if not problem:
            return connection, ""
        connection.close()
    except apsw.Error as error:
        problem = " ".join(str(error).split()) or type(error).__name__
    aside = _put_aside(path)
    connection = _create(path)
    copied = _salvage(aside, connection)
    return (
        connection,
        f"{path}: damaged ({problem}); {plural(copied, 'record')} could be read, the old file is kept as {aside.name}",
    )


def _problem(connection: apsw.Connection) -> str:
    """The reason why a file is not a valid history; empty if it is."""
    application = connection.pragma("application_id")
    version = connection.pragma("user_version")
    if application != APPLICATION:
        return "this is not a history of Kilauea"
    if not isinstance(version, int) or version > FORMAT:
        return f"written by a newer Kilauea (format {version}, this one reads up to {FORMAT})"
    return ""


def _configure(connection: apsw.Connection) -> None:
    connection.set_busy_timeout(5000)
    connection.pragma("journal_mode", "wal")
    connection.pragma("synchronous", "normal")  # a power cut takes the last seconds of history, never the file
    connection.pragma("journal_size_limit", 16 << 20)


def _create(path: Path) -> apsw.Connection:
    new = path.with_name(path.name + ".new")
    new.unlink(missing_ok=True)
    os.close(os.open(new, os.O_CREAT | os.O_EXCL, 0o600))
    with apsw.Connection(str(new)) as made:
        made.pragma("auto_vacuum", 2)  # incremental: pages of what was thinned are given back step by step
        made.execute(SCHEMA)
        made.pragma("application_id", APPLICATION)
        made.pragma("user_version", FORMAT)
    made.close()
    new.rename(path)
    connection = apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READWRITE)
    _configure(connection)
    return connection


def _put_aside(path: Path) -> Path:
    """Rename a damaged file and its log."""
    number = 1
    while (aside := path.with_name(f"{path.name}.damaged-{number}")).exists():
        number += 1
    for suffix in ("", "-wal", "-shm"):
        with suppress(FileNotFoundError):
            path.with_name(path.name + suffix).rename(aside.with_name(aside.name + suffix))
    return aside


def _salvage(aside: Path, into: apsw.Connection) -> int:
    """Copy the readable content of a damaged file; returns the number of rows."""
    count = 0
    try:
        source = apsw.Connection(str(aside), flags=apsw.SQLITE_OPEN_READWRITE)
    except apsw.Error:
        return 0
    with into:
        for table, columns in TABLES.items():
            slots = ",".join("?" * columns)
            for row in _readable(source, table):
                with suppress(apsw.Error):
                    into.execute(f"INSERT OR IGNORE INTO {table} VALUES ({slots})", row)
                    count += 1
    source.close()
    return count


def _readable(source: apsw.Connection, table: str) -> Iterator[tuple[apsw.SQLiteValue, ...]]:
    """Yield rows from the beginning to the first unreadable one, then from the end to the last unreadable one."""
    key = {"jobs": "uid", "pods": "uid", "events": "time", "gaps": "rowid", "facts": "name"}[table]
    for order in ("ASC", "DESC"):
        try:
            yield from source.execute(f"SELECT * FROM {table} ORDER BY {key} {order}")
        except apsw.Error:
            continue
        return
