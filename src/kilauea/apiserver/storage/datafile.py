"""The data folder: a single process at a time, one SQLite file in a known format, or an error with the fix.

A new file is created under another name and renamed when complete, so a file with the final name that is empty or
truncated was damaged later.
"""

from __future__ import annotations

import errno
import fcntl
import logging
import os
import struct
from contextlib import suppress
from pathlib import Path

import apsw

from kilauea.apiserver.storage.acknowledged import way_out
from kilauea.apiserver.storage.errors import StorageError
from kilauea.apiserver.storage.records import Durability

NAME = "store.db"
LOCK = "store.lock"
APPLICATION = 0x4B494C41  # "KILA", where SQLite keeps the kind of a file
FORMAT = 2  # since 2, a closed store leaves no write-ahead log, as its header shows
SCHEMA = """
CREATE TABLE log (
    revision INTEGER PRIMARY KEY,  -- of this write
    key TEXT NOT NULL,
    created INTEGER NOT NULL,      -- revision of the write that made the object
    previous INTEGER NOT NULL,     -- revision of the write before to the same object, 0 if there is none
    value BLOB,                    -- NULL: deleted
    checksum INTEGER NOT NULL      -- CRC-32 over all of these
);
CREATE TABLE compaction (revision INTEGER NOT NULL);  -- one row: up to here only what was current is left
INSERT INTO compaction VALUES (0);
"""
CACHE_KIB = 512
"""Page cache: rows are appended to the file, and read once, at the start."""
_CLOSED = 1
"""The value at byte 18 of a file: 1 for a file alone, 2 for one with a write-ahead log."""
log = logging.getLogger(__name__)
_BESIDE = ("-wal", "-journal", "-shm")
"""Files that SQLite opens beside the main one; its errors name only the main file."""
_MOVE_IT = "there is something else in its place: move it away"
START_EMPTY = "restore a copy, or move {folder} away to start with an empty store"


class FolderLock:
    """The lock of a data folder, held until it is closed or the process ends."""

    def __init__(self, folder: Path) -> None:
        path = folder / LOCK
        self._descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
        try:
            fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            owner = os.read(self._descriptor, 32).decode(errors="replace").strip() or "unknown"
            os.close(self._descriptor)
            raise StorageError(
                f"{path}: the data folder is in use by the process with pid {owner}; "
                "stop it, or choose another folder with --data-dir"
            ) from None
        os.ftruncate(self._descriptor, 0)
        os.write(self._descriptor, f"{os.getpid()}\n".encode())

    def close(self) -> None:
        """Release the lock."""
        os.close(self._descriptor)


def check_library(version: str) -> None:
    """Reject a version of SQLite that can lose committed writes.

    A checkpoint that races with a write to a reset log does so in 3.7.0 to 3.51.2 (sqlite.org, changes of 3.51.3).

    Raises:
        StorageError: the version is affected.
    """
    number = tuple(int(part) for part in version.split("."))
    if (3, 7, 0) <= number < (3, 51, 3):
        raise StorageError(
            f"SQLite {version} can lose committed writes (fixed in 3.51.3); "
            "install a newer apsw, which brings its own SQLite"
        )


def open_folder(folder: Path) -> FolderLock:
    """Create the folder if necessary and lock it.

    Raises:
        StorageError: it cannot be created or written, or another process uses it.
    """
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        return FolderLock(folder)
    except OSError as error:
        raise StorageError(f"{error.filename or folder}: {error.strerror}; {remedy(error)}") from error


def remedy(error: Exception) -> str:
    """Return the advice for a file of the data folder that cannot be opened or written."""
    if isinstance(error, IsADirectoryError | NotADirectoryError | FileExistsError | FileNotFoundError):
        return _MOVE_IT
    if isinstance(error, apsw.FullError) or getattr(error, "errno", None) in (errno.ENOSPC, errno.EDQUOT):
        return "free some space on the disk"
    return "the data folder must be readable and writable"


def prepare(folder: Path, *, marked: bool) -> None:
    """Create the file of a locked folder if missing, and check its header.

    Args:
        folder: the data folder.
        marked: True if the folder has a mark of acknowledged writes, or the user has accepted a loss.

    Raises:
        OSError: a file cannot be opened for reading and writing.
        StorageError: the file is of another program, newer than this one, damaged, or a copy without its log.
    """
    path = folder / NAME
    for each in (path, *(path.with_name(path.name + suffix) for suffix in _BESIDE)):
        if os.path.lexists(each) and not each.is_file():
            raise StorageError(f"{each}: this is not a file; {_MOVE_IT}")
        with suppress(FileNotFoundError):  # SQLite reports a file without permissions as damaged
            os.close(os.open(each, os.O_RDWR))
    if not path.exists():
        _create(path)
    _check_header(path, marked=marked)


def connect(folder: Path, durability: Durability) -> apsw.Connection:
    """Open the file of a prepared folder. Closing it leaves all files unchanged.

    Raises:
        StorageError: the file is damaged, or another program has it open.
    """
    path = folder / NAME
    connection = apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READWRITE)
    try:
        connection.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1)  # a rejected log must not be changed
        # One connection in one process: the index of the write-ahead log needs no shared memory.
        connection.pragma("locking_mode", "exclusive")
        connection.pragma("journal_mode", "wal")
        connection.pragma("synchronous", "full" if durability == "full" else "normal")
        connection.pragma("cache_size", -CACHE_KIB)
        connection.pragma("fullfsync", durability == "full")  # macOS: fsync alone does not reach the disk
        found = connection.pragma("quick_check", 1)
        if found == "ok" and connection.pragma("user_version") != FORMAT:
            connection.pragma("user_version", FORMAT)
    except apsw.BusyError as error:
        connection.close()
        raise StorageError(f"{path}: another program has this file open; close it there") from error
    except apsw.Error as error:
        connection.close()
        raise damaged(path, str(error)) from error
    if found != "ok":
        connection.close()
        raise damaged(path, str(found))
    return connection


def damaged(path: Path, reason: str) -> StorageError:
    """Return the error for a damaged file."""
    reason = " ".join(reason.split())
    return StorageError(f"{path}: the file is damaged ({reason}); {START_EMPTY.format(folder=path.parent)}")


def disconnect(connection: apsw.Connection) -> None:
    """Write everything into the main file and close it; its header then shows that it needs no other file.

    If the disk has no room for that, the write-ahead log stays beside the main file, and the next start reads both.
    Nothing is lost and users need not act, so the log entry is only informational.
    """
    try:
        connection.pragma("journal_mode", "delete")
    except apsw.Error as error:
        log.info("the write-ahead log stays beside the main file, and the next start reads both: %s", error)
    finally:
        connection.close()


def _check_header(path: Path, *, marked: bool) -> None:
    with path.open("rb") as file:
        header = file.read(100)
    if len(header) < 100:
        raise damaged(path, f"it ends after {len(header)} bytes")
    (version,) = struct.unpack_from(">I", header, 60)
    (application,) = struct.unpack_from(">I", header, 68)
    if not header.startswith(b"SQLite format 3\0") or application != APPLICATION:
        raise StorageError(
            f"{path}: not a file of Kilauea's API server; move it away, or choose another folder with --data-dir"
        )
    if version > FORMAT:
        raise StorageError(
            f"{path}: written by a newer Kilauea (format {version}, this one reads up to {FORMAT}); "
            "use that version, or choose another folder with --data-dir"
        )
    if version > 1 and header[18] != _CLOSED and not marked and not path.with_name(path.name + "-wal").exists():
        raise StorageError(
            f"{path}: this is a copy of a running server's file without its write-ahead log, so the newest writes are "
            f"missing; {way_out(path.parent)}"
        )


def _create(path: Path) -> None:
    log = path.with_name(path.name + "-wal")
    if log.exists():
        raise StorageError(
            f"{log}: the write-ahead log is there, but {path.name} is not; {START_EMPTY.format(folder=path.parent)}"
        )
    new = path.with_name(path.name + ".new")
    new.unlink(missing_ok=True)
    os.close(os.open(new, os.O_CREAT | os.O_EXCL, 0o600))
    with apsw.Connection(str(new)) as connection:
        connection.execute(SCHEMA)
        connection.pragma("application_id", APPLICATION)
        connection.pragma("user_version", FORMAT)
    connection.close()
    new.rename(path)
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)
