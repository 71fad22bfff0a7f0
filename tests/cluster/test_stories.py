"""The stories of `examples/*/demo.py` happen as they are told, on clusters of their own.

KILAUEA_UPDATE_GOLDEN=1 writes the golden file again; the difference is then for review.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).resolve().parents[2]
GOLDEN = REPOSITORY / "tests" / "golden" / "story-jobs.txt"
UID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")


def play(story: str, *options: str, place: Path = REPOSITORY) -> subprocess.CompletedProcess[str]:
    """Run a story, whatever comes of it."""
    command = [sys.executable, f"examples/{story}/demo.py", *options]
    environment = os.environ | {"PYTHONPATH": str(REPOSITORY / "src")}
    return subprocess.run(command, cwd=place, env=environment, capture_output=True, text=True, timeout=300, check=False)


def told(story: str, *options: str) -> list[str]:
    """The lines of a story, which must go well and write nothing else."""
    done = play(story, *options)
    assert (done.returncode, done.stderr) == (0, ""), done.stdout + done.stderr
    return done.stdout.splitlines()


def rows(lines: list[str]) -> list[list[str]]:
    """The rows of its tables, without their times."""
    return [line.split()[1:] for line in lines if re.match(r"\d+\.\ds ", line)]


def test_two_teams_share_a_cluster() -> None:
    lines = told("sharing")
    assert "TIME   JOB       QUEUE       GROUP      RUNNING  WAITING  ENDED" in lines
    assert rows(lines)[0][0] == "sweep"
    assert lines[-2].startswith("All three jobs finished after ")
    assert re.fullmatch(r"[1-8] pods of the sweep made way for production and ran again later\.", lines[-1])


def test_jobs_wait_fail_stop_and_go_on() -> None:
    lines = told("jobs")
    text = "\n".join(line for line in lines if not re.match(r"\d+\.\ds ", line)) + "\n"
    text = re.sub(r"after \d+ seconds", "after N seconds", UID.sub("<uid>", text))
    text = re.sub(r"about \S+ \(in \S+\)", "about <time>", text)
    if os.environ.get("KILAUEA_UPDATE_GOLDEN"):
        GOLDEN.write_text(text)
    assert text == GOLDEN.read_text()
    shown = rows(lines)
    assert ["train", "research", "Running", "4", "4", "0", "1"] in shown, "restarted once by its policy"
    assert ["sweep", "research", "Aborted", "4", "0", "0", "0"] in shown, "suspended"
    assert shown.index(["nightly-extract", "production", "Completed", "2", "0", "0", "0"]) < min(
        number for number, row in enumerate(shown) if row[0] == "nightly-load"
    )


@pytest.mark.parametrize("option", [[], ["--annotated"]], ids=["owners say what they are", "annotations say it"])
def test_for_seven_nights_training_borrows_the_cards_of_services(option: list[str]) -> None:
    lines = told("inference-and-training", *option)
    night, morning, day = ["8", "0", "8", "8", "0"], ["8", "8", "8", "0", "0"], ["8", "16", "0", "0", "0"]
    expected = [
        row
        for number in map(str, range(1, 8))
        for row in ([number, "night", *night], [number, "morning", *morning], [number, "day", *day])
    ]
    assert rows(lines) == [*expected, ["8", "night", *night]]
    for gang in ("vision", "language"):
        told_of = [line.strip() for line in lines if line.strip().startswith((f"pod {gang}", f"job {gang}"))]
        whole = f"pod {gang}-worker\\d-0: Preempted by ReplicaSet default/chat-\\w+ of queue acme-chat on node gpu-\\d"
        assert [bool(re.fullmatch(whole, line)) for line in told_of] == [True, True, False] * 7
        retries = [f"retry {number} of spec.maxRetry 100" for number in range(1, 8)]
        assert [line.rpartition(", ")[2] for line in told_of[2::3]] == retries
        assert len([line for line in lines if line.startswith(f"        {gang} waits: {gang}-worker")]) == 7
    assert lines[-2] == "Both gangs were restarted 7 times and are training again."


def test_a_night_without_its_cards_ends_the_story_with_exit_code_1(tmp_path: Path) -> None:
    shutil.copytree(REPOSITORY / "examples", tmp_path / "examples")
    manifest = tmp_path / "examples" / "inference-and-training" / "vision.yaml"
    manifest.write_text(manifest.read_text().replace("maxRetry: 100", "maxRetry: 1"))
    done = play("inference-and-training", place=tmp_path)
    assert done.returncode == 1
    assert "night 1, morning: job vision is Failed: RestartJob on PodEvicted of pod vision-worker" in done.stderr
    assert "at which the job fails: create the job again, with a larger spec.maxRetry" in done.stderr


def test_pods_share_cards_and_the_device_plugin_refuses_a_card_that_is_taken() -> None:
    lines = told("cards")
    shown = rows(lines)
    assert ["notebook-2", "Running", "gpu-a", "a-0,NVIDIA,10000,0"] in shown
    assert ["service-1", "Running", "gpu-b", "b-0[0-1],NVIDIA,5120,0"] in shown
    assert ["thief", "Failed", "gpu-b", "b-0[0-0],NVIDIA,5120,0"] in shown
    assert "MIG instance b-0[0-0] is given to 2 containers" in lines[-1]


def test_a_story_that_does_not_happen_as_told_ends_with_exit_code_1(tmp_path: Path) -> None:
    shutil.copytree(REPOSITORY / "examples", tmp_path / "examples")
    manifest = tmp_path / "examples" / "jobs" / "train.yaml"
    manifest.write_text(manifest.read_text().replace("queue: research", "queue: nowhere"))
    done = play("jobs", place=tmp_path)
    assert done.returncode == 1
    assert 'queue.scheduling.volcano.sh "nowhere" not found' in done.stdout
    assert done.stderr == "demo: expected the command to succeed and to print: run job train successfully\n"
