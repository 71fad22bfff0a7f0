"""Recordings of the original's whole cluster, played on `kilauea up`: users see the same, but for what is listed here.

Left out are most of the cases in which something is denied: `test_webhooks.py` and the tests of admission have them.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]
PLAYED_TOGETHER = 4
STRETCH = "1.5"
"""How much longer than in the recording is waited: more goes on beside this test."""
DENIALS = (
    "deny-job-add-task",
    "deny-job-in-parent-queue",
    "deny-negative-replicas",
    "deny-queue-delete-parent",
    "deny-queue-missing",
)
DIFFERENCES = {
    # The group runs by then, where the original's scheduler had not had its turn yet.
    "deny-job-add-task": r"step 1 PodGroup/m-<uid> (phase \| want Inqueue \| got Running|running \| want 0 \| got 1)",
    # The API server lists all that is wrong; the order is at random in the real one.
    "deny-negative-replicas": r"step 0 message .*spec\.tasks\[0\]\.minAvailable",
    # Names of a deployment's pods are drawn at random, and so are the facts about each.
    "deployment-podgroup": r"step 1 Pod/web-[0-9a-f]+-[0-9a-z]{5}( |$)",
    # A job that is stopped or has ended keeps its counts; the original's fall to zero at the next event.
    "job-completes": r"step 5 Job/m succeeded \| want 0 \| got 2",
    "job-min-success": r"step 3 Job/m succeeded \| want 0 \| got 1",
    "jobflow-sequence": r"step 3 Job/f-ta succeeded \| want 0 \| got 1",
    "policy-exit-code": r"step 3 Job/m failed \| want 0 \| got 1",
    "policy-task-completed-complete-job": r"step 3 Job/m succeeded \| want 0 \| got 1",
    "policy-task-overrides-job": r"step 3 Job/m failed \| want 0 \| got 1",
}
"""Patterns of what differs in a case."""
AT_RANDOM = {
    # Which of a job's pods are there when its first ones are placed.
    "job-elastic-starts-with-min": r"step 1 Pod/m-a-[0-4] (phase|scheduled) ",
}
"""Patterns of what may differ."""
CASE = re.compile(r"(\S+) +(\d+)/(\d+)")


@dataclass
class Played:
    """A case as it went.

    Attributes:
        alike: facts that are as recorded.
        facts: all.
        differing: lines about others; of many, only some.
    """

    alike: int
    facts: int
    differing: list[str] = field(default_factory=list)


def chosen(folder: Path) -> dict[str, Path]:
    """The cases to be played, the longest first."""
    cases = {path.stem: path for path in folder.glob("*.json")}
    names = (name for name in cases if not name.startswith("deny-") or name in DENIALS)
    return {name: cases[name] for name in sorted(names, key=lambda name: (-seconds(cases[name]), name))}


def seconds(path: Path) -> float:
    """How long the player of a case waits."""
    waits: list[Any] = [step["do"].get("wait", 0) for step in json.loads(path.read_text())["steps"]]
    return float(sum(waits))


def play(tool: Path, cases: Sequence[Path], folder: Path) -> dict[str, Played]:
    """Play cases one after another on a cluster of their own."""
    folder.mkdir()
    for path in cases:
        (folder / path.name).symlink_to(path)
    words = [
        sys.executable,
        str(tool),
        str(ROOT / ".venv/bin/kilauea"),
        str(folder),
        "--verbose",
        "--stretch",
        STRETCH,
        "--min",
        "0",
    ]
    done = subprocess.run(words, capture_output=True, text=True, timeout=900, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    found: dict[str, Played] = {}
    last: Played | None = None
    for line in done.stdout.splitlines()[:-1]:
        case = CASE.fullmatch(line)
        if case is not None:
            last = found[case[1]] = Played(int(case[2]), int(case[3]))
        elif last is not None and line.startswith("     "):
            last.differing.append(line.strip())
    return found


def play_all(tool: Path, cases: Sequence[Path], home: Path) -> dict[str, Played]:
    """Play cases, some at a time."""
    with ThreadPoolExecutor(PLAYED_TOGETHER) as pool:
        parts = [pool.submit(play, tool, cases[n::PLAYED_TOGETHER], home / str(n)) for n in range(PLAYED_TOGETHER)]
        return {name: each for part in parts for name, each in part.result().items()}


def is_listed(name: str, line: str) -> bool:
    """Whether a difference is one that there is to be, or may be."""
    pattern = {**DIFFERENCES, **AT_RANDOM}.get(name)
    return pattern is not None and re.match(pattern, line) is not None


def test_users_see_what_is_recorded_but_for_what_is_listed(shared: Path, tmp_path: Path) -> None:
    """One test, so that the cases are played once, however many processes share the tests."""
    tool, cases = shared / "tools/play_cluster.py", chosen(shared / "conformance/cluster")
    if not tool.is_file():
        pytest.skip(f"no {tool}")
    played = play_all(tool, list(cases.values()), tmp_path)
    assert played.keys() == cases.keys()
    differing = [(name, line) for name, each in played.items() for line in each.differing]
    assert [each for each in differing if not is_listed(*each)] == []
    assert [name for name in DIFFERENCES if not played[name].differing] == [], "listed, and differs no more"
    alike, facts = sum(each.alike for each in played.values()), sum(each.facts for each in played.values())
    assert alike >= 0.95 * facts, f"{alike} of {facts} facts"
