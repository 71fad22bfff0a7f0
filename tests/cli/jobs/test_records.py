"""Jobs in Slurm's words: states, reasons, times and lists, from the objects of a cluster."""

from __future__ import annotations

from typing import Any

import pytest

from kilauea.api.times import parse_time
from kilauea.cli.jobs.columns import SQUEUE_FORMAT, clock, record_data, sacct_columns, squeue_lines
from kilauea.cli.jobs.host_lists import host_list
from kilauea.cli.jobs.reading import states_of_words
from kilauea.cli.jobs.records import Record, records_of
from kilauea.cli.sinfo import state_of
from kilauea.cli.vcctl.command import CommandError

NOW = parse_time("2026-01-01T01:00:00Z")


def job(name: str, phase: str, **more: Any) -> dict[str, Any]:
    """A job of two copies with two cpus each."""
    container = {"name": "main", "resources": {"requests": {"cpu": "2"}}}
    template = {"spec": {"containers": [container], "activeDeadlineSeconds": 7200}}
    return {
        "metadata": {
            "name": name,
            "namespace": "default",
            "uid": f"uid-of-{name}",
            "creationTimestamp": "2026-01-01T00:00:00Z",
            "annotations": {"kilauea.dev/user": "ada", "kilauea.dev/job-name": "train", **more},
        },
        "spec": {"queue": "research", "tasks": [{"replicas": 2, "template": template}]},
        "status": {"state": {"phase": phase, "lastTransitionTime": "2026-01-01T00:30:00Z"}} if phase else {},
    }


def pod(of: str, index: int, phase: str, node: str = "", **status: Any) -> dict[str, Any]:
    labels = {"volcano.sh/job-name": of, "volcano.sh/task-index": str(index)}
    metadata = {"name": f"{of}-{index}", "namespace": "default", "labels": labels}
    return {"metadata": metadata, "spec": {"nodeName": node}, "status": {"phase": phase, **status}}


def container(**state: Any) -> list[dict[str, Any]]:
    return [{"name": "main", "state": state}]


def one(job: dict[str, Any], *pods: dict[str, Any], groups: tuple[dict[str, Any], ...] = ()) -> Record:
    (record,) = records_of([job], pods, groups)
    return record


@pytest.mark.parametrize(
    ("phase", "state"),
    [
        ("", "PENDING"),
        ("Pending", "PENDING"),
        ("Running", "RUNNING"),
        ("Restarting", "REQUEUED"),
        ("Aborted", "SUSPENDED"),
        ("Terminating", "COMPLETING"),
        ("Completed", "COMPLETED"),
        ("Failed", "FAILED"),
        ("Terminated", "CANCELLED"),
    ],
)
def test_phases_are_states_of_slurm(phase: str, state: str) -> None:
    assert one(job("a", phase)).state == state


def test_a_failed_job_says_if_time_or_memory_was_the_reason() -> None:
    late = pod("a", 0, "Failed", "node-1", reason="DeadlineExceeded")
    assert one(job("a", "Failed"), late).state == "TIMEOUT"
    killed = container(terminated={"exitCode": 137, "reason": "OOMKilled"})
    record = one(job("a", "Failed"), pod("a", 0, "Failed", "node-1", containerStatuses=killed))
    assert (record.state, record.exit_code) == ("OUT_OF_MEMORY", 137)


def test_a_running_job_shows_its_time_and_its_nodes() -> None:
    runs = container(running={"startedAt": "2026-01-01T00:57:55Z"})
    pods = [pod("a", number, "Running", f"node-{number}", containerStatuses=runs) for number in range(2)]
    record = one(job("a", "Running"), *pods)
    assert squeue_lines(SQUEUE_FORMAT, [record], NOW, heading=True) == [
        "JOBID PARTITION NAME  USER ST TIME NODES NODELIST(REASON)",
        "a     research  train ada  R  2:05 2     node-[0-1]",
    ]
    assert squeue_lines("%.6i|%3j|%l %L %C", [record], NOW, heading=False) == ["     a|tra|2:00:00 1:57:55 4"]


def test_a_waiting_job_shows_the_reason_of_its_group() -> None:
    condition = {"type": "Unschedulable", "status": "True", "reason": "NotEnoughResources", "message": "no node fits"}
    group = {"metadata": {"namespace": "default", "name": "a-uid-of-a"}, "status": {"conditions": [condition]}}
    record = one(job("a", "Pending"), groups=(group,))
    assert squeue_lines("%t %D %R", [record], NOW, heading=False) == ["PD 1 (Resources: no node fits)"]
    condition["message"] = "queue resource quota insufficient: insufficient cpu"
    record = one(job("a", "Pending"), groups=(group,))
    assert squeue_lines("%r", [record], NOW, heading=False) == ["QueueQuota"]
    assert squeue_lines("%r", [one(job("a", "Aborted"))], NOW, heading=False) == ["JobHeldUser"]


def test_elements_of_an_array_that_wait_are_one_record() -> None:
    array = job("s", "Running", **{"kilauea.dev/array": "1-9:2"})
    array["spec"]["tasks"][0]["replicas"] = 5
    ended = container(terminated={"exitCode": 3, "finishedAt": "2026-01-01T00:10:00Z"})
    unschedulable = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "too full"}
    pods = [
        pod("s", 0, "Failed", "node-0", containerStatuses=ended),
        pod("s", 1, "Running", "node-1"),
        pod("s", 2, "Pending", conditions=[unschedulable]),
    ]
    assert [(each.id, each.state, each.exit_code, each.cpus) for each in records_of([array], pods, [])] == [
        ("s_1", "FAILED", 3, 2000),
        ("s_3", "RUNNING", 0, 2000),
        ("s_[5-9:2]", "PENDING", 0, 6000),
    ]
    assert records_of([array], pods, [])[-1].message == "too full"
    for limit, words in (("2", "2 elements run at a time"), ("1", "one element runs at a time")):
        array["metadata"]["annotations"]["kilauea.dev/parallelism"] = limit
        waiting = records_of([array], pods[:2], [])[-1]
        assert (waiting.reason, waiting.message) == ("JobArrayTaskLimit", words)
    array["status"]["state"]["phase"] = "Terminated"
    assert {each.state for each in records_of([array], [], [])} == {"CANCELLED"}


def test_accounting_shows_exit_codes_and_signals() -> None:
    columns = sacct_columns("JobID,state,ExitCode,Elapsed,End%20")
    killed = container(
        terminated={"exitCode": 137, "startedAt": "2026-01-01T00:00:01Z", "finishedAt": "2026-01-01T01:00:01Z"}
    )
    record = one(job("a", "Failed"), pod("a", 0, "Failed", "node-1", containerStatuses=killed))
    assert [column.cell(record, NOW) for column in columns][:4] == ["a", "FAILED", "0:9", "01:00:00"]
    data = record_data(record, NOW)
    assert (data["exitCode"], data["end"], data["cpus"]) == (137, "2026-01-01T01:00:01Z", 4.0)


def test_a_container_that_could_not_start_has_run_for_no_time() -> None:
    times = {"startedAt": "1970-01-01T00:00:00Z", "finishedAt": "2026-01-01T00:00:01Z"}
    failed = container(terminated={"exitCode": 128, "reason": "StartError", **times})
    record = one(job("a", "Failed"), pod("a", 0, "Failed", "node-1", containerStatuses=failed))
    assert squeue_lines("%t %M", [record], NOW, heading=False) == ["F 0:00"]


@pytest.mark.parametrize(
    ("phase", "phases", "shown"),
    [
        ("Aborted", {"Pending": "00:00", "Running": "10:00", "Aborting": "10:07", "Aborted": "10:09"}, "00:00:07"),
        ("Terminated", {"Pending": "00:00", "Running": "10:00", "Terminated": "11:00"}, "00:01:00"),
        ("Aborted", {"Pending": "00:00", "Aborting": "10:07", "Aborted": "10:09"}, "00:00:00"),
        ("Pending", {"Running": "10:00", "Aborted": "10:09", "Restarting": "12:00", "Pending": "12:01"}, "00:00:00"),
    ],
)
def test_a_job_without_pods_has_run_as_long_as_its_conditions_say(
    phase: str, phases: dict[str, str], shown: str
) -> None:
    made = job("a", phase)
    made["status"]["conditions"] = [
        {"status": each, "lastTransitionTime": f"2026-01-01T00:{at}Z"} for each, at in phases.items()
    ]
    (column,) = sacct_columns("Elapsed")
    assert column.cell(one(made), NOW) == shown


def test_columns_and_states_that_are_not_known_are_named() -> None:
    with pytest.raises(CommandError, match='"%Z" is not known: use %i, '):
        squeue_lines("%Z", [], NOW, heading=True)
    with pytest.raises(CommandError, match='"MaxRSS" is not known: use JobID, '):
        sacct_columns("JobID,MaxRSS")
    with pytest.raises(CommandError, match='"ASLEEP" is not known: use all, PENDING'):
        states_of_words(frozenset({"asleep"}), ())
    assert states_of_words(frozenset({"pd", "Running"}), ()) == {"PENDING", "RUNNING"}


@pytest.mark.parametrize(
    ("names", "short"),
    [
        ((), ""),
        (("node-1",), "node-1"),
        (("node-3", "node-1", "node-2", "node-7"), "node-[1-3,7]"),
        (("gpu08", "gpu09", "gpu10"), "gpu10,gpu[08-09]"),
        (("login", "a-1", "b-1"), "a-1,b-1,login"),
    ],
)
def test_lists_of_nodes_are_short(names: tuple[str, ...], short: str) -> None:
    assert host_list(names) == short


@pytest.mark.parametrize(("seconds", "text"), [(5, "0:05"), (65, "1:05"), (3665, "1:01:05"), (90_061, "1-01:01:01")])
def test_times_are_written_as_slurm_does(seconds: int, text: str) -> None:
    assert clock(seconds) == text


@pytest.mark.parametrize(
    ("ready", "cordoned", "requested", "state"),
    [
        (True, False, None, "idle"),
        (True, False, 1000, "mix"),
        (True, False, 4000, "alloc"),
        (True, True, None, "drain"),
        (True, True, 1000, "drng"),
        (False, False, 1000, "down"),
    ],
)
def test_states_of_nodes_are_those_of_slurm(ready: bool, cordoned: bool, requested: int | None, state: str) -> None:
    condition = {"type": "Ready", "status": str(ready)}
    status = {"allocatable": {"cpu": "4"}, "conditions": [condition]}
    assert state_of({"spec": {"unschedulable": cordoned}, "status": status}, requested) == state
