"""Logs of containers: their format, their bound, and a disk that takes no more."""

from __future__ import annotations

import os
import re
from pathlib import Path

from kilauea.kubelet.processes.supervisor.log_files import LONGEST, LogFile

STAMP = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{9}Z")


def entries(path: Path) -> list[tuple[str, str, str]]:
    found = []
    for line in path.read_text().splitlines():
        stamp, stream, tag, text = line.split(" ", 3)
        assert STAMP.fullmatch(stamp)
        found.append((stream, tag, text))
    return found


def test_lines_have_time_stream_and_tag(tmp_path: Path) -> None:
    log = LogFile(str(tmp_path / "pod/0.log"), 1000, 2)
    log.write("stdout", b"one\n\ntw")
    log.write("stderr", b"problem\nrest")
    log.write("stdout", b"o\n")
    log.close()
    assert entries(tmp_path / "pod/0.log") == [
        ("stdout", "F", "one"),
        ("stdout", "F", ""),
        ("stderr", "F", "problem"),
        ("stdout", "F", "two"),
        ("stderr", "P", "rest"),
    ]


def test_a_long_line_is_written_in_parts(tmp_path: Path) -> None:
    log = LogFile(str(tmp_path / "log"), 10**9, 2)
    line = b"a" * (2 * LONGEST + 5)
    log.write("stdout", b"short\n" + line + b"\nend\n")
    log.write("stdout", line)
    log.write("stdout", b"\n")
    log.close()
    shape = [(tag, len(text)) for _, tag, text in entries(tmp_path / "log")]
    parts = [("P", LONGEST), ("P", LONGEST), ("F", 5)]
    assert shape == [("F", 5), *parts, ("F", 3), *parts]


def test_rotation_bounds_the_space_and_keeps_the_newest(tmp_path: Path) -> None:
    log = LogFile(str(tmp_path / "log"), 1000, 3)
    for number in range(500):
        log.write("stdout", b"line %d\n" % number)
    log.close()
    assert sorted(os.listdir(tmp_path)) == ["log", "log.1", "log.2"]
    assert sum((tmp_path / name).stat().st_size for name in os.listdir(tmp_path)) < 3 * 1100
    numbers = [int(text.split()[1]) for name in ("log.2", "log.1", "log") for _, _, text in entries(tmp_path / name)]
    assert numbers == list(range(numbers[0], 500))


def test_a_full_disk_drops_output_and_the_log_says_so(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.symlink_to("/dev/full")
    log = LogFile(str(path), 10**9, 2)
    log.write("stdout", b"lost\n" * 10)
    path.unlink()
    os.dup2(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND), log._descriptor)
    log.write("stdout", b"kept\n")
    log.close()
    first, second = entries(path)
    assert first[:2] == ("stderr", "F")
    assert re.fullmatch(r"kilauea: \d+ bytes of the log were dropped: No space left on device", first[2])
    assert second == ("stdout", "F", "kept")
