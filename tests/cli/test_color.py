"""Colors: shown at a terminal, not in a file or a pipe, and never if `NO_COLOR` is set."""

from __future__ import annotations

import os
import pty
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from support.waiting_objects import job, nodes

GREEN = "\x1b[32m"


def printed(path: Path, *, terminal: bool, **environment: str) -> str:
    """What `kilauea explain` prints of a job that waits."""
    words = [sys.executable, "-m", "kilauea", "explain", "job", "j", "-f", str(path)]
    inherited = {name: value for name, value in os.environ.items() if name != "NO_COLOR"}
    if not terminal:
        done = subprocess.run(words, capture_output=True, text=True, check=True, env=inherited | environment)
        return done.stdout
    ours, theirs = pty.openpty()
    with subprocess.Popen(words, stdout=theirs, stderr=theirs, env=inherited | environment) as process:
        os.close(theirs)
        out = b""
        while chunk := _chunk(ours):
            out += chunk
        assert process.wait() == 0
    os.close(ours)
    return out.decode()


def _chunk(terminal: int) -> bytes:
    try:
        return os.read(terminal, 65536)
    except OSError:  # Linux's way to say that the other end is closed
        return b""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("terminal", "environment", "colored"),
    [(True, {}, True), (True, {"NO_COLOR": "1"}, False), (True, {"NO_COLOR": ""}, True), (False, {}, False)],
    ids=["a terminal", "a terminal and NO_COLOR", "a terminal and an empty NO_COLOR", "a pipe"],
)
def test_the_smallest_change_is_green_where_a_person_reads(
    terminal: bool, environment: dict[str, str], colored: bool, tmp_path: Path
) -> None:
    path = tmp_path / "cluster.yaml"
    path.write_text(yaml.safe_dump_all([*nodes(1), job(1, 1, cpu=9)]))
    text = printed(path, terminal=terminal, **environment)
    assert "Smallest change that admits it:" in text
    assert (GREEN in text) is colored
    assert ("\x1b" in text) is colored
