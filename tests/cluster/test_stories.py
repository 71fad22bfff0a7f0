"""The stories of `examples/*/demo.py` happen as they are told, on clusters of their own.

KILAUEA_UPDATE_GOLDEN=1 writes the golden file anew; the difference is then for review.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[2]
GOLDEN = REPOSITORY / "tests" / "golden" / "story-jobs.txt"
UID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")


def told(story: str) -> list[str]:
    """The lines of a story, which must go well and write nothing else."""
    command = [sys.executable, f"examples/{story}/demo.py"]
    done = subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True, timeout=300, check=False)
    assert (done.returncode, done.stderr) == (0, ""), done.stdout + done.stderr
    return done.stdout.splitlines()


def rows(lines: list[str]) -> list[list[str]]:
    """The rows of its tables, without their times."""
    return [line.split()[1:] for line in lines if re.match(r"\d+\.\ds ", line)]


def test_two_teams_share_a_cluster() -> None:
    lines = told("sharing")
    assert "TIME   JOB       QUEUE       GROUP      RUNNING  WAITING  ENDED" in lines
    assert rows(lines)[0][0] == "sweep"
    assert lines[-2].startswith("All three have ended after ")
    assert re.fullmatch(r"[1-8] pods of the sweep gave way to production and ran again later\.", lines[-1])


def test_jobs_wait_fail_stop_and_go_on() -> None:
    lines = told("jobs")
    text = "\n".join(line for line in lines if not re.match(r"\d+\.\ds ", line)) + "\n"
    text = re.sub(r"after \d+ seconds", "after N seconds", UID.sub("<uid>", text))
    if os.environ.get("KILAUEA_UPDATE_GOLDEN"):
        GOLDEN.write_text(text)
    assert text == GOLDEN.read_text()
    shown = rows(lines)
    assert ["train", "research", "Running", "4", "4", "0", "1"] in shown, "restarted once by its policy"
    assert ["sweep", "research", "Aborted", "4", "0", "0", "0"] in shown, "suspended"
    assert shown.index(["nightly-extract", "production", "Completed", "2", "0", "0", "0"]) < min(
        number for number, row in enumerate(shown) if row[0] == "nightly-load"
    )
