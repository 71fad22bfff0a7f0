"""Folders and files that a store does not open, and what it says about them."""

from __future__ import annotations

import asyncio
import errno
import os
import re
import shutil
import subprocess
import sys
import zlib
from pathlib import Path

import apsw
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kilauea.apiserver.storage import Event, StorageError, Store
from kilauea.apiserver.storage.datafile import check_library

WRITES = 120


async def fill(store: Store) -> None:
    for i in range(WRITES):
        key = f"/core/pods/default/{i % 9}"
        await store.write(
            key, None, None if i % 10 == 9 and store.get(key) else lambda revision: b"%d " % revision * 400
        )


async def read(folder: Path) -> list[Event]:
    store = await Store.open(folder)
    watcher = store.watch("/core/pods/", 0)
    events: list[Event] = []
    while len(events) < store.revision:
        events += await anext(watcher)
    page = store.list("/core/pods/")
    last = {event.key: event for event in events}
    assert page.items == [event.now for key, event in sorted(last.items()) if event.kind != "deleted"]
    await store.close()
    return events


@pytest.fixture(scope="module")
def closed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder whose store was closed: all is in the main file."""
    folder = tmp_path_factory.mktemp("closed")

    async def body() -> None:
        store = await Store.open(folder)
        await fill(store)
        await store.close()

    asyncio.run(body())
    return folder


@pytest.fixture(scope="module")
def crashed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder as it is after a crash: most is in the write-ahead log."""
    folder = tmp_path_factory.mktemp("crashed")

    async def body() -> None:
        store = await Store.open(folder / "live")
        await fill(store)
        shutil.copytree(folder / "live", folder / "dead")
        await store.close()

    asyncio.run(body())
    return folder / "dead"


@pytest.fixture
def folder(closed: Path, tmp_path: Path) -> Path:
    return shutil.copytree(closed, tmp_path / "data")


def refusal(folder: Path) -> str:
    with pytest.raises(StorageError) as caught:
        asyncio.run(read(folder))
    return str(caught.value)


@pytest.mark.parametrize("length", [0, 1, 99, 100, 4096, 10_000, 20_480, -4096, -1])
def test_a_file_that_was_cut_short_is_refused(length: int, folder: Path) -> None:
    file = folder / "store.db"
    os.truncate(file, length if length >= 0 else file.stat().st_size + length)
    message = refusal(folder)
    assert message.startswith(f"{file}: the file is damaged (")
    assert message.endswith(f"; restore a copy, or move {folder} away to start with an empty store")


@pytest.mark.slow
@given(data=st.data())
def test_a_byte_that_changed_is_noticed_unless_it_means_nothing(
    closed: Path, tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    content = bytearray((closed / "store.db").read_bytes())
    place = data.draw(st.integers(0, len(content) - 1))
    content[place] ^= data.draw(st.integers(1, 255))
    folder = tmp_path_factory.mktemp("changed")
    (folder / "store.db").write_bytes(content)
    try:
        found = asyncio.run(read(folder))
    except StorageError as error:
        found, told = None, str(error)
    else:
        told = ""
    shutil.rmtree(folder)
    if found is None:
        assert told.startswith(f"{folder / 'store.db'}: ")
    else:
        assert found == asyncio.run(read(closed))


@pytest.mark.slow
@given(data=st.data())
def test_a_damaged_write_ahead_log_is_refused_unless_everything_is_there(
    crashed: Path, closed: Path, tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    folder = tmp_path_factory.mktemp("torn") / "data"
    shutil.copytree(crashed, folder)
    log = folder / "store.db-wal"
    content = bytearray(log.read_bytes())
    place = data.draw(st.integers(0, len(content) - 1))
    if data.draw(st.booleans()):
        del content[place:]
    else:
        content[place] ^= data.draw(st.integers(1, 255))
    log.write_bytes(content)
    try:
        found, told = asyncio.run(read(folder)), ""
    except StorageError as error:
        found, told = [], str(error)
    if told:
        assert "acknowledged writes are missing: the newest acknowledged is 120" in told
        assert log.read_bytes() == content, "the damaged log was changed"
        (folder / "store.acknowledged").write_text("lost\n")
        left = asyncio.run(read(folder))
        assert left == asyncio.run(read(closed))[: len(left)]
        assert len(left) < WRITES
        assert asyncio.run(read(folder)) == left, "a loss is accepted once"
    else:
        assert found == asyncio.run(read(closed))
    shutil.rmtree(folder.parent)


@pytest.mark.parametrize("others", [[], ["store.acknowledged"]])
def test_a_copy_of_the_main_file_alone_is_refused(crashed: Path, others: list[str], tmp_path: Path) -> None:
    for name in ["store.db", *others]:
        shutil.copy(crashed / name, tmp_path / name)
    message = refusal(tmp_path)
    assert "missing" in message
    assert message.endswith(f"accept the loss: echo lost > {tmp_path / 'store.acknowledged'}, and start again")
    (tmp_path / "store.acknowledged").write_text("lost\n")
    assert len(asyncio.run(read(tmp_path))) < WRITES


def test_a_copy_of_a_store_that_was_closed_needs_the_main_file_alone(closed: Path, tmp_path: Path) -> None:
    shutil.copy(closed / "store.db", tmp_path / "store.db")
    assert asyncio.run(read(tmp_path)) == asyncio.run(read(closed))


def test_a_write_ahead_log_that_is_gone_is_missed(crashed: Path, tmp_path: Path) -> None:
    folder = shutil.copytree(crashed, tmp_path / "data")
    (folder / "store.db-wal").unlink()
    assert "acknowledged writes are missing" in refusal(folder)


@pytest.mark.parametrize(("durability", "boot", "starts"), [("normal", "earlier", True), ("full", "earlier", False)])
def test_what_a_loss_of_power_may_take_is_only_told(
    crashed: Path, tmp_path: Path, durability: str, boot: str, starts: bool, caplog: pytest.LogCaptureFixture
) -> None:
    folder = shutil.copytree(crashed, tmp_path / "data")
    (folder / "store.db-wal").unlink()
    text = f"{WRITES} {durability} {boot}"
    (folder / "store.acknowledged").write_text(f"{text} {zlib.crc32(text.encode())}\n")
    if starts:
        asyncio.run(read(folder))
        assert "a loss of power took writes" in caplog.text
    else:
        assert "acknowledged writes are missing" in refusal(folder)


def test_a_store_of_an_earlier_version_is_read(closed: Path, tmp_path: Path) -> None:
    folder = shutil.copytree(closed, tmp_path / "data")
    (folder / "store.acknowledged").unlink()
    connection = apsw.Connection(str(folder / "store.db"))
    connection.pragma("user_version", 1)
    connection.pragma("journal_mode", "wal")
    connection.close()
    assert asyncio.run(read(folder)) == asyncio.run(read(closed))


def test_after_a_crash_all_writes_are_there(crashed: Path, closed: Path, tmp_path: Path) -> None:
    folder = shutil.copytree(crashed, tmp_path / "data")
    assert len(asyncio.run(read(folder))) == WRITES
    assert asyncio.run(read(folder)) == asyncio.run(read(closed))


def test_a_file_of_something_else_is_refused_and_left_as_it_is(tmp_path: Path) -> None:
    file = tmp_path / "store.db"
    other = apsw.Connection(str(file))
    other.execute("CREATE TABLE precious (value)")
    other.close()
    contents = [file.read_bytes(), b"PK\x03\x04 not a database at all" + b"x" * 1000]
    for content in contents:
        file.write_bytes(content)
        message = refusal(tmp_path)
        assert (
            message
            == f"{file}: not a file of Kilauea's API server; move it away, or choose another folder with --data-dir"
        )
        assert file.read_bytes() == content


def test_a_file_of_a_newer_format_is_refused(folder: Path) -> None:
    connection = apsw.Connection(str(folder / "store.db"))
    connection.pragma("user_version", 3)
    connection.close()
    assert refusal(folder) == (
        f"{folder / 'store.db'}: written by a newer Kilauea (format 3, this one reads up to 2); "
        "use that version, or choose another folder with --data-dir"
    )


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ("DELETE FROM log WHERE revision = 50", "revision 50 is missing"),
        ("UPDATE log SET value = x'00' WHERE revision = 50", "the checksum of revision 50 does not fit"),
        ("UPDATE log SET key = '/core/pods/x' WHERE revision = 50", "the checksum of revision 50 does not fit"),
        ("UPDATE log SET value = 'text' WHERE revision = 50", "a bytes-like object is required"),
        ("UPDATE log SET key = CAST(x'ff' AS TEXT) WHERE revision = 50", "can't decode byte 0xff"),
        ("UPDATE compaction SET revision = 'x'", "the revision of the last compaction is missing"),
        ("DELETE FROM compaction", "the revision of the last compaction is missing"),
        ("DROP TABLE log", "no such table: log"),
    ],
)
def test_a_log_that_was_changed_by_hand_is_refused(change: str, reason: str, folder: Path) -> None:
    connection = apsw.Connection(str(folder / "store.db"))
    connection.execute(change)
    connection.close()
    assert reason in refusal(folder)


def test_a_write_ahead_log_without_its_file_is_refused(crashed: Path, tmp_path: Path) -> None:
    folder = shutil.copytree(crashed, tmp_path / "data")
    (folder / "store.db").unlink()
    message = refusal(folder)
    assert message.startswith(f"{folder / 'store.db-wal'}: the write-ahead log is there, but store.db is not; restore")


def test_a_folder_in_use_is_refused_with_the_pid_of_its_user(tmp_path: Path) -> None:
    code = (
        "import asyncio, pathlib, sys\n"
        "from kilauea.apiserver.storage import Store\n"
        "async def main():\n"
        "    store = await Store.open(pathlib.Path(sys.argv[1]))\n"
        "    print('open', flush=True)\n"
        "    sys.stdin.read()\n"
        "asyncio.run(main())\n"
    )
    command = [sys.executable, "-c", code, str(tmp_path)]
    child = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    with child:
        assert child.stdout is not None
        assert child.stdout.readline() == b"open\n"
        assert refusal(tmp_path) == (
            f"{tmp_path / 'store.lock'}: the data folder is in use by the process with pid {child.pid}; "
            "stop it, or choose another folder with --data-dir"
        )
        child.kill()
    assert asyncio.run(read(tmp_path)) == []


def test_a_folder_is_free_again_when_opening_failed_or_the_store_was_closed(folder: Path) -> None:
    whole = (folder / "store.db").read_bytes()
    (folder / "store.db").write_bytes(whole[:5000])
    refusal(folder)
    (folder / "store.db").write_bytes(whole)
    assert len(asyncio.run(read(folder))) == WRITES
    assert len(asyncio.run(read(folder))) == WRITES


def test_a_file_that_another_program_has_open_is_refused(folder: Path) -> None:
    file = folder / "store.db"
    other = apsw.Connection(str(file))
    other.execute("BEGIN EXCLUSIVE")
    assert refusal(folder) == f"{file}: another program has this file open; close it there"
    other.close()


def test_a_folder_that_is_a_file_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "data"
    file.write_text("x")
    assert refusal(file) == f"{file}: File exists; there is something else in its place: move it away"


@pytest.mark.parametrize("file", ["store.db", "store.db-wal"])
def test_a_file_that_may_not_be_opened_is_not_called_damaged(
    folder: Path, file: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    (folder / file).touch()
    opened = os.open

    def refuse(path: Path, *arguments: int) -> int:  # as the system does unless the tests run as root
        if Path(path) == folder / file:
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(path))
        return opened(path, *arguments)

    monkeypatch.setattr(os, "open", refuse)
    reason = "Permission denied; the data folder must be readable and writable"
    assert refusal(folder) == f"{folder / file}: {reason}"


def test_a_folder_in_the_place_of_the_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "store.db").mkdir()
    assert refusal(tmp_path).startswith(f"{tmp_path / 'store.db'}: ")


@pytest.mark.parametrize("version", ["3.7.0", "3.40.1", "3.51.2"])
def test_versions_of_sqlite_that_can_lose_writes_are_refused(version: str) -> None:
    with pytest.raises(StorageError, match=rf"^SQLite {re.escape(version)} can lose .* install a newer apsw"):
        check_library(version)


def test_a_store_does_not_open_with_such_a_version(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(apsw, "sqlite_lib_version", lambda: "3.46.0")
    assert refusal(tmp_path / "data").startswith("SQLite 3.46.0 can lose committed writes")
    assert not (tmp_path / "data").exists()


@pytest.mark.parametrize("version", ["3.51.3", "3.52.0", "3.53.0", "4.0.0", apsw.sqlite_lib_version()])
def test_other_versions_of_sqlite_are_taken(version: str) -> None:
    check_library(version)


@pytest.mark.parametrize("is_link", [False, True])
@pytest.mark.parametrize("name", ["db", "db-wal", "db-journal", "db-shm", "acknowledged", "lock"])
def test_what_is_in_the_place_of_a_file_is_named(name: str, is_link: bool, folder: Path) -> None:
    file = folder / f"store.{name}"
    file.unlink(missing_ok=True)
    if is_link:
        file.symlink_to(folder / "missing" / "file")
    else:
        file.mkdir()
    message = refusal(folder)
    assert message.startswith(f"{file}: ")
    assert message.endswith("; there is something else in its place: move it away")
