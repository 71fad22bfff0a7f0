"""The output of `kilauea history` and `kilauea report` for a history in a folder."""

from __future__ import annotations

import csv
import io
import json
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from kilauea.cli.histories.moments import moment
from kilauea.cli.main import main
from kilauea.history.records import Event, JobRecord, PodRecord
from kilauea.history.store import History

SECOND = 1_000_000
T0 = 1_767_225_600 * SECOND  # 2026-01-01T00:00:00Z


def when(seconds: int) -> int:
    return T0 + seconds * SECOND


def pod(number: int, bound: int, ended: int, state: str, **facts: object) -> PodRecord:
    given = {
        "uid": f"p{number}",
        "namespace": "default",
        "name": f"train-w-{number % 2}",
        "job": "j1",
        "queue": "research",
        "resources": {"cpu": 2000, "memory": 1 << 30, "nvidia.com/gpu": 1000},
        "submitted": when(0),
        "bound": when(bound),
        "started": when(bound + 1),
        "ended": when(ended),
        "node": f"node-{number % 2}",
        "state": state,
    }
    return PodRecord(**{**given, **facts})  # type: ignore[arg-type]  # the fields are those of the class


@pytest.fixture
def data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The folder of a cluster with a job that was evicted once and then failed."""
    monkeypatch.setenv("TZ", "UTC")
    time.tzset()
    folder = tmp_path / "history"
    history = History.open(folder)
    job = JobRecord(
        uid="j1",
        namespace="default",
        name="train",
        kind="Job.batch.volcano.sh",
        queue="research",
        user="ada",
        submitted=when(0),
        ended=when(7200),
        state="Failed",
        pods=2,
        minimum=2,
        deleted=when(9000),
    )
    pods = [
        pod(0, 60, 3600, "Evicted"),
        pod(1, 60, 3600, "Evicted"),
        pod(2, 3700, 7200, "Succeeded"),
        pod(3, 3700, 7200, "Failed", exit_code=137, reason="OOMKilled"),
    ]
    facts = {"namespace": "default", "job": "j1", "queue": "research"}
    evictions = [
        Event(
            time=when(3590),
            what="Evicted",
            pod=f"train-w-{n}",
            pod_uid=f"p{n}",
            node=f"node-{n}",
            by="prod/serve-g",
            by_job="Job prod/serve",
            by_queue="prod",
            action="reclaim",
            **facts,
        )
        for n in range(2)
    ]
    events = [
        Event(time=when(2), what="Waiting", reason="NotEnoughResources", message="0/2 nodes have room", **facts),
        Event(time=when(59), what="Admitted", **facts),
        *evictions,
        Event(time=when(3600), what="Restarted", reason="Restarting", message="pods were evicted", **facts),
        Event(time=when(7200), what="Phase", reason="Failed", message="JobFailed: a pod failed", **facts),
    ]
    history.put([job, *pods, *events], seen=when(10_000))
    history.put([], seen=when(10_001))
    history.close()
    yield tmp_path
    monkeypatch.undo()
    time.tzset()


def run(*words: str) -> Result:
    return CliRunner().invoke(main, words)


LIFE = """\
Job default/train: Failed, deleted since
It waited 1m and ran 1h59m.
2 of its pods were evicted, after 1h58m of work in all.

TIME                  WHAT        DETAILS
2026-01-01 00:00:00   Submitted   by ada to queue research for 2 pods
2026-01-01 00:00:02   Waiting     0/2 nodes have room
2026-01-01 00:00:59   Admitted    the scheduler admitted it; its pods may start
2026-01-01 00:01:00   Bound       2 pods were bound to node-0, node-1
2026-01-01 00:01:01   Started     2 pods started on node-0, node-1
2026-01-01 00:59:50   Evicted     2 pods were evicted on node-0, node-1 for Job prod/serve of queue prod, by the \
action reclaim
2026-01-01 01:00:00   Restarted   pods were evicted
2026-01-01 01:01:40   Bound       2 pods were bound to node-0, node-1
2026-01-01 01:01:41   Started     2 pods started on node-0, node-1
2026-01-01 02:00:00   Succeeded   train-w-0 succeeded on node-0
2026-01-01 02:00:00   Failed      train-w-1 failed on node-1: exit code 137, OOMKilled
2026-01-01 02:00:00   Phase       Failed: JobFailed: a pod failed
2026-01-01 02:30:00   Deleted     the job was deleted
"""


def test_the_life_of_a_job_says_who_evicted_it_when_and_for_whom(data: Path) -> None:
    done = run("history", "job", "train", "--data", str(data))
    assert done.exit_code == 0
    assert done.stdout == LIFE


def test_a_job_that_is_not_known_is_an_error(data: Path) -> None:
    done = run("history", "job", "nope", "--data", str(data))
    assert (done.exit_code, done.stderr) == (1, "Error: job nope is not in the history of namespace default\n")


def test_jobs_are_listed_with_how_long_they_waited_and_ran(data: Path) -> None:
    done = run("history", "jobs", "--data", str(data))
    assert done.stdout.splitlines() == [
        "JOB     QUEUE      USER   STATE              PODS   SUBMITTED             WAITED   RAN     EVICTIONS",
        "train   research   ada    Failed (deleted)      2   2026-01-01 00:00:00   1m       1h59m           2",
    ]


USAGE = ("report", "usage", "--since", "2026-01-01T01:00:00Z", "--until", "2026-01-01T03:00:00Z")


def test_usage_is_clipped_to_the_time_that_is_asked_for(data: Path) -> None:
    done = run(*USAGE, "--by", "user", "-A", "--data", str(data))
    assert done.stdout.splitlines() == [
        "USER   PODS   POD-HOURS   CPU-HOURS   MEMORY-GIB-HOURS   GPU-HOURS",
        "ada       2        1.94        3.89               1.94        1.94",
    ]


def test_usage_as_data_is_in_seconds(data: Path) -> None:
    rows = json.loads(run(*USAGE, "-o", "json", "-A", "--data", str(data)).stdout)["rows"]
    assert rows == [
        {
            "queue": "research",
            "pods": 2,
            "podSeconds": 7000.0,
            "resourceSeconds": {"cpu": 14000.0, "memory": 7000.0 * (1 << 30), "nvidia.com/gpu": 7000.0},
        }
    ]
    table = list(csv.DictReader(io.StringIO(run(*USAGE, "-o", "csv", "-A", "--data", str(data)).stdout)))
    assert [(row["queue"], row["cpu_seconds"]) for row in table] == [("research", "14000.000000")]


def test_the_begin_of_a_history_is_said_where_it_matters(data: Path) -> None:
    done = run("report", "usage", "--since", "2025-12-31T00:00:00Z", "--data", str(data))
    assert "note: the history begins at 2026-01-01 02:46:40" in done.stderr


@pytest.mark.parametrize("name", ["=1+1", "\t=1+1"])
def test_a_name_that_a_spreadsheet_would_calculate_is_text(data: Path, name: str) -> None:
    history = History.open(data / "history")
    history.put([pod(9, 60, 70, "Succeeded", queue=name)])
    history.close()
    assert f"'{name}," in run("report", "usage", "--since", "2026-01-01", "-o", "csv", "--data", str(data)).stdout


def test_control_characters_are_spelled_out(data: Path) -> None:
    history = History.open(data / "history")
    history.put([Event(time=T0, what="Waiting", namespace="default", job="j1", message="\x1b[31mred")])
    history.close()
    assert "\\x1b[31mred" in run("history", "job", "train", "--data", str(data)).stdout


def test_a_history_can_be_moved(data: Path, tmp_path: Path) -> None:
    exported = run("history", "export", "-A", "--data", str(data)).stdout
    assert json.loads(exported.splitlines()[0])["type"] == "history"
    file = tmp_path / "history.jsonl"
    file.write_text(exported + "{broken\n")
    other = tmp_path / "other"
    done = run("history", "import", str(file), "--data", str(other))
    assert done.exit_code == 0
    assert "history.jsonl:13: not a line of a history" in done.stderr
    assert run("history", "job", "train", "--data", str(other)).stdout == LIFE


def test_a_folder_without_a_history_is_an_error(tmp_path: Path) -> None:
    done = run("history", "jobs", "--data", str(tmp_path))
    assert done.exit_code == 1
    assert "there is no history; give the folder of a history" in done.stderr


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        ("7d", T0 - 7 * 86_400 * SECOND),
        ("2w", T0 - 14 * 86_400 * SECOND),
        ("1h30m", T0 - 5400 * SECOND),
        ("2026-01-01T10:00:00Z", T0 + 36_000 * SECOND),
    ],
)
def test_a_time_is_a_moment_or_how_long_ago_it_was(text: str, meant: int) -> None:
    assert moment(text, T0) == meant


def test_another_text_is_refused_with_what_a_time_can_be(data: Path) -> None:
    done = run("history", "jobs", "--since", "last week", "--data", str(data))
    assert done.exit_code == 2
    assert 'invalid time "last week": use how long ago it was' in done.stderr
