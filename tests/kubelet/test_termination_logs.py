"""Files to which containers write why they end: each container has an empty one of its own."""

from __future__ import annotations

import os
from pathlib import Path

from kilauea.kubelet.termination_logs import TerminationLogs


def test_a_file_that_is_still_empty_is_used_again(tmp_path: Path) -> None:
    logs = TerminationLogs(tmp_path / "termination")
    first = logs.make("one", "main", 0)
    number = first.stat().st_ino
    logs.release("one")
    assert not first.exists()
    second = logs.make("two", "main", 3)
    assert (second.stat().st_ino, second.read_bytes(), second.stat().st_mode & 0o777) == (number, b"", 0o666)
    assert logs.path("two", "main", 3) == second


def test_no_container_sees_what_another_one_has_written(tmp_path: Path) -> None:
    logs = TerminationLogs(tmp_path / "termination")
    logs.make("one", "main", 0).write_text("secret")
    closed = logs.make("one", "main", 1)
    closed.chmod(0o600)
    logs.release("one")
    assert os.listdir(tmp_path / "termination") == []
    fresh = logs.make("two", "main", 0)
    assert (fresh.read_bytes(), fresh.stat().st_mode & 0o777) == (b"", 0o666)


def test_the_files_of_a_pod_are_found_after_a_restart(tmp_path: Path) -> None:
    logs = TerminationLogs(tmp_path / "termination")
    logs.make("one", "main", 0).write_text("why")
    logs.make("two", "main", 0)
    logs.release("two")
    later = TerminationLogs(tmp_path / "termination")
    assert later.pods() == ["one"]
    assert later.make("one", "main", 0).read_text() == "why"
    later.release("one")
    assert os.listdir(tmp_path / "termination") == []
