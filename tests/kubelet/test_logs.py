"""Logs that are read from files: from the end, over rotated files, and while they are written."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kilauea.kubelet.logs import BLOCK, FileReader
from support.subprocess_runtime import log_line


class Log:
    """A log that a test writes."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / "0.log"
        self.running = True

    def write(self, *texts: str, tag: str = "F", stream: str = "stdout") -> None:
        with self.path.open("ab") as file:
            for text in texts:
                file.write(log_line(stream, text.encode(), tag, 1_700_000_000_000_000))

    def rotate(self) -> None:
        for number in (3, 2, 1, 0):
            old = self.path.with_name(f"0.log.{number}") if number else self.path
            if old.exists():
                old.rename(self.path.with_name(f"0.log.{number + 1}"))

    def reader(self, tail: int | None = None) -> FileReader:
        return FileReader(self.path, tail, lambda: self.running)


@pytest.fixture
def log(tmp_path: Path) -> Log:
    return Log(tmp_path)


def everything(reader: FileReader) -> bytes:
    """All that a reader has at the moment."""
    found = b""
    while entries := reader.read():
        found += b"".join(entry.data for entry in entries)
    reader.close()
    return found


def test_entries_have_their_time_stream_and_line(log: Log) -> None:
    log.write("out")
    log.write("err", stream="stderr")
    reader = log.reader()
    assert [tuple(entry) for entry in reader.read()] == [
        ("2023-11-14T22:13:20.000000000Z", "stdout", b"out\n"),
        ("2023-11-14T22:13:20.000000000Z", "stderr", b"err\n"),
    ]
    reader.close()


def test_bytes_that_are_not_text_and_parts_of_lines_come_unchanged(log: Log) -> None:
    log.path.write_bytes(
        log_line("stdout", b"\xff\x00\r a", "P") + log_line("stdout", b"", "P") + log_line("stdout", b" b ", "F")
        + log_line("stdout", b"", "F")
    )  # fmt: skip
    assert everything(log.reader()) == b"\xff\x00\r a b \n\n"


@pytest.mark.parametrize(("tail", "seen"), [(0, ""), (1, "9"), (3, "789"), (10, "0123456789"), (99, "0123456789")])
def test_a_tail_begins_at_its_first_line(log: Log, tail: int, seen: str) -> None:
    log.write(*"0123456789")
    assert everything(log.reader(tail)).decode().replace("\n", "") == seen


def test_a_tail_goes_over_rotated_files(log: Log) -> None:
    for texts in ("012", "345", "678"):
        log.write(*texts)
        if texts != "678":
            log.rotate()
    assert everything(log.reader(5)) == b"4\n5\n6\n7\n8\n"
    assert everything(log.reader(6)) == b"3\n4\n5\n6\n7\n8\n"
    assert everything(log.reader()) == b"0\n1\n2\n3\n4\n5\n6\n7\n8\n"


def test_a_long_line_in_parts_is_one_line_of_a_tail(log: Log) -> None:
    log.write("before")
    log.write("a" * 10, "b" * 10, tag="P")
    log.write("c")
    assert everything(log.reader(1)) == b"aaaaaaaaaabbbbbbbbbbc\n"
    log.write("not ended", tag="P")
    assert everything(log.reader(1)) == b"not ended"


def test_a_log_is_followed_over_files_that_are_renamed(log: Log) -> None:
    log.write("a")
    reader = log.reader()
    assert b"".join(entry.data for entry in reader.read()) == b"a\n"
    log.write("b")
    log.rotate()
    log.write("c")
    log.rotate()
    log.write("d")
    assert everything(reader) == b"b\nc\nd\n"


def test_a_reader_that_is_too_slow_goes_on_with_the_oldest_file(log: Log) -> None:
    log.write("a")
    reader = log.reader()
    assert len(reader.read()) == 1
    for text in "bcdefgh":
        log.rotate()
        (log.path.with_name("0.log.4")).unlink(missing_ok=True)
        log.write(text)
    assert everything(reader) == b"e\nf\ng\nh\n"


def test_a_log_begins_to_be_read_before_it_is_written(log: Log) -> None:
    reader = log.reader()
    assert (reader.read(), reader.ended) == ([], False)
    log.write("first")
    assert len(reader.read()) == 1
    log.running = False
    log.write("last")
    assert [entry.data for entry in reader.read()] == [b"last\n"]
    assert [(len(reader.read()), reader.ended) for _ in range(2)] == [(0, False), (0, True)]
    reader.close()


def test_a_line_that_is_half_written_waits_for_its_other_half(log: Log) -> None:
    line = log_line("stdout", b"whole")
    log.path.write_bytes(line[:40])
    reader = log.reader()
    assert reader.read() == []
    with log.path.open("ab") as file:
        file.write(line[40:])
    assert [entry.data for entry in reader.read()] == [b"whole\n"]
    reader.close()


def test_what_is_not_a_log_is_left_out(log: Log) -> None:
    log.path.write_bytes(b"\n\nnonsense\n" + os.urandom(20).replace(b"\n", b"") + b"\n" + log_line("stdout", b"x"))
    assert everything(log.reader()) == b"x\n"
    assert everything(log.reader(5)) == b"x\n"


def test_the_end_of_a_large_log_is_found_without_reading_it(log: Log, monkeypatch: pytest.MonkeyPatch) -> None:
    log.write(*(f"line {number}" for number in range(40_000)))
    read: list[int] = []
    monkeypatch.setattr("kilauea.kubelet.logs.os.read", _counted(read))
    assert everything(log.reader(2)) == b"line 39998\nline 39999\n"
    assert sum(read) < 4 * BLOCK < log.path.stat().st_size


def test_a_tail_is_looked_for_in_steps(log: Log, monkeypatch: pytest.MonkeyPatch) -> None:
    log.write(*[""] * 10_000)
    log.rotate()
    log.write(*[""] * 10_000, "last")
    size = sum(path.stat().st_size for path in log.path.parent.iterdir())
    blocks: list[int] = []
    original = os.pread

    def counted(descriptor: int, size: int, offset: int) -> bytes:
        blocks[-1] += 1
        return original(descriptor, size, offset)

    monkeypatch.setattr("kilauea.kubelet.logs.os.pread", counted)
    reader = log.reader(1_000_000)
    steps = iter(reader.begin())
    while True:
        blocks.append(0)
        try:
            next(steps)
        except StopIteration:
            break
        if len(blocks) == 1:
            log.rotate()  # between two steps, the container goes on
            log.write("new")
    assert max(blocks) == 1
    assert sum(blocks) >= size // BLOCK
    assert everything(reader).split() == [b"last", b"new"]


def test_a_reader_that_is_given_up_on_its_way_leaves_nothing_open(log: Log, monkeypatch: pytest.MonkeyPatch) -> None:
    log.write(*[""] * 10_000)
    log.rotate()
    log.write("last")
    opened: list[int] = []
    closed: list[int] = []
    open_file, close_file = os.open, os.close

    def noted_open(path: Path, flags: int) -> int:
        opened.append(open_file(path, flags))
        return opened[-1]

    def noted_close(descriptor: int) -> None:
        closed.append(descriptor)
        close_file(descriptor)

    monkeypatch.setattr("kilauea.kubelet.logs.os.open", noted_open)
    monkeypatch.setattr("kilauea.kubelet.logs.os.close", noted_close)
    reader = log.reader(5_000)
    next(iter(reader.begin()))
    assert (len(opened), closed) == (2, [])
    reader.close()
    assert sorted(closed) == sorted(opened)


def _counted(read: list[int]) -> object:
    original = os.read

    def counted(descriptor: int, size: int) -> bytes:
        data = original(descriptor, size)
        read.append(len(data))
        return data

    return counted


@given(st.lists(st.integers(0, 3 * BLOCK // 2), min_size=1, max_size=8), st.integers(0, 9), st.data())
def test_any_tail_is_the_end_of_the_whole(
    tmp_path_factory: pytest.TempPathFactory, sizes: list[int], tail: int, data: st.DataObject
) -> None:
    log = Log(tmp_path_factory.mktemp("log"))
    lines = [bytes([97 + number]) * size for number, size in enumerate(sizes)]
    for line in lines:
        with log.path.open("ab") as file:
            file.write(log_line("stdout", line))
        if data.draw(st.booleans()):
            log.rotate()
    if data.draw(st.booleans()):
        log.rotate()
    kept = [line for line in lines if (line + b"\n") in everything(log.reader())]
    assert everything(log.reader(tail)) == b"".join(line + b"\n" for line in (kept[-tail:] if tail else []))
