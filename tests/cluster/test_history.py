"""The history of a cluster, kept by `kilauea up` or by a scheduler beside it, over restarts and failovers."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from cluster.api_process import Server
from cluster.test_scheduler_command import QUICK, scheduling
from cluster.up_process import Obj, apply, kubectl, running_up, until
from kilauea.api.times import SECOND, parse_time
from kilauea.history.errors import HistoryError
from kilauea.history.records import JobRecord
from kilauea.history.store import History
from support.vcctl_runs import Console

PREEMPTING = """
actions: "enqueue, allocate, preempt, backfill"
tiers:
- plugins: [{name: priority}, {name: gang}, {name: conformance}]
- plugins: [{name: predicates}, {name: proportion}, {name: nodeorder}]
"""
HISTORIES = "/apis/history.kilauea.dev/v1alpha1/namespaces/default/jobhistories"


def job(name: str, pods: int, seconds: int, **spec: Any) -> Obj:
    """A gang whose pods run for some seconds."""
    container = {"name": "c", "image": "x", "command": ["sleep", str(seconds)], "resources": {"requests": {"cpu": "1"}}}
    template = {"spec": {"restartPolicy": "Never", "containers": [container]}}
    return {
        "apiVersion": "batch.volcano.sh/v1alpha1",
        "kind": "Job",
        "metadata": {"name": name},
        "spec": {
            "schedulerName": "volcano",
            "minAvailable": pods,
            "tasks": [{"name": "w", "replicas": pods, "template": template}],
            **spec,
        },
    }


def found(server: Server, name: str) -> dict[str, Any]:
    answer: dict[str, Any] = json.loads(kubectl(server, "get", "--raw", f"{HISTORIES}/{name}"))
    return answer


def ends_of(history: dict[str, Any]) -> list[int]:
    return [pod["ended"] for pod in history["pods"] if "ended" in pod]


def is_in_state(server: Server, name: str, state: str) -> Callable[[], bool]:
    def true() -> bool:
        text = kubectl(server, "get", "vcjob", name, "-o", "jsonpath={.status.state.phase}")
        return text == state

    return true


def test_expected_starts_come_true_and_the_history_outlives_jobs_and_restarts(tmp_path: Path) -> None:
    folder = tmp_path / "data"
    nodes = ("--nodes", "1", "--node-cpu", "4")
    with running_up(folder, *nodes) as server:
        console = Console(server.kubeconfig)
        apply(server, job("first", 4, 16))
        until(is_in_state(server, "first", "Running"), "the first job to run")
        apply(server, job("second", 3, 2))
        until(is_in_state(server, "second", "Pending"), "the second job to wait")

        def start_of_second() -> dict[str, Any]:
            explained = console("kilauea", "explain", "job", "second", "-o", "json").out
            told: dict[str, Any] = json.loads(explained).get("expectedStart") or {}
            return told

        until(lambda: bool(start_of_second()), "its pods to be created")
        start = start_of_second()
        assert start["verdict"] == "starts"
        assert [each["source"] for each in start["follows"]] == ["its command"]
        assert "Expected Start" in console("vcctl", "job", "view", "-N", "second").out
        until(is_in_state(server, "second", "Completed"), "the second job to end")
        first, second = found(server, "first"), found(server, "second")
        assert len(ends_of(second)) == 3
        bound = min(pod["bound"] for pod in second["pods"])
        # Its room is free when the pods of the other have ended: then it starts at once. Times of objects are seconds.
        ended = max(pod["ended"] for pod in first["pods"])
        assert abs(parse_time(start["time"]) - bound) <= 3 * SECOND + max(0, ended - parse_time(start["time"]))
        assert {pod["state"] for pod in second["pods"]} == {"Succeeded"}
        kubectl(server, "delete", "vcjob", "first")
    with running_up(folder, *nodes) as server:
        console = Console(server.kubeconfig)

        def deleted() -> bool:
            return "deleted" in found(server, "first")["job"]

        until(deleted, "the history to know that the job was deleted")
        told = console("kilauea", "history", "job", "first").out
        assert told.splitlines()[0] == "Job default/first: Completed, deleted since"
        report = json.loads(console("kilauea", "report", "usage", "--since", "1h", "-o", "json").out)
        (row,) = report["rows"]
        assert (row["queue"], row["pods"]) == ("default", 7)
        assert 4 * 16 + 3 * 2 <= row["resourceSeconds"]["cpu"] <= 4 * 16 + 3 * 2 + 7 * 3
        assert "first" in console("kilauea", "sacct", "-S", "1h").out


def recorded(folder: Path, name: str) -> JobRecord | None:
    """The newest job of a name in the history of a folder; None if there is none yet."""
    try:
        history = History.read(folder)
    except HistoryError:
        return None
    try:
        return next(iter(history.jobs("default", name)[::-1]), None)
    finally:
        history.close()


def evictions_of(folder: Path, name: str) -> int:
    """The number of evictions of a job in the history of a folder."""
    found = recorded(folder, name)
    history = History.read(folder)
    try:
        return 0 if found is None else len(history.events(job=found.uid, what=("Evicted",)))
    finally:
        history.close()


def test_schedulers_beside_a_cluster_keep_one_history_one_after_the_other(tmp_path: Path) -> None:
    folder, conf = tmp_path / "history", tmp_path / "scheduler.conf"
    conf.write_text(PREEMPTING)
    options = ("--history", str(folder), "--scheduler-conf", str(conf), *QUICK)
    cluster = running_up(tmp_path / "data", "--no-scheduler", "--nodes", "1", "--node-cpu", "4")
    with cluster as server, scheduling(server, tmp_path / "first.log", *options) as first:
        until(lambda: "leads" in first.log.read_text(), "the first scheduler to lead")
        with scheduling(server, tmp_path / "second.log", *options) as second:
            quick = job("quick", 2, 1)
            quick["metadata"]["annotations"] = {"kilauea.dev/user": "ada"}
            apply(server, quick)
            until(is_in_state(server, "quick", "Completed"), "the quick job to end")
            kubectl(server, "delete", "vcjob", "quick")
            high = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": "high"}}
            apply(server, {**high, "value": 1000}, job("low", 4, 600, minAvailable=1))
            until(is_in_state(server, "low", "Running"), "the job of low priority to run")
            apply(server, job("urgent", 2, 600, priorityClassName="high"))
            until(is_in_state(server, "urgent", "Running"), "the urgent job to run")
            until(lambda: recorded(folder, "urgent"), "the urgent job in the history")
            until(lambda: evictions_of(folder, "low") == 2, "its evictions in the history")
            first.process.kill()
            until(lambda: "leads" in second.log.read_text(), "the second scheduler to lead")
            kubectl(server, "delete", "vcjob", "low", "urgent")
            apply(server, job("after", 1, 1))

            def after_ended() -> bool:
                found = recorded(folder, "after")
                return found is not None and found.state == "Completed"

            until(after_ended, "the last job in the history")
            second.stop()
    console = Console(tmp_path / "none")
    report = json.loads(console("kilauea", "report", "usage", "--data", str(folder), "-o", "json").out)
    assert [row["queue"] for row in report["rows"]] == ["default"]
    history = History.read(folder)
    try:
        jobs = {each.name: each for each in history.jobs()}
        pods = history.pods()
        assert {name: (each.queue, each.user) for name, each in jobs.items()} == {
            "quick": ("default", "ada"),
            "low": ("default", ""),
            "urgent": ("default", ""),
            "after": ("default", ""),
        }
        assert {each.queue for each in pods} == {"default"}
        assert {each.job for each in pods} == {each.uid for each in jobs.values()}
        for each in pods:
            assert each.resources == {"cpu": 1000}
            if each.bound is not None:
                assert each.submitted <= each.bound <= (each.ended or each.bound)
        ended = [each for each in pods if each.job in (jobs["quick"].uid, jobs["after"].uid)]
        assert [(each.state, (each.ended or 0) - (each.started or 0) >= SECOND) for each in ended] == [
            ("Succeeded", True)
        ] * 3
        evictions = history.events(job=jobs["low"].uid, what=("Evicted",))
        assert {(each.by_job, each.by_queue, each.action) for each in evictions} == {
            ("Job default/urgent", "default", "preempt")
        }
        evicted = {each.uid for each in pods if each.state == "Evicted"}
        assert evicted == {each.pod_uid for each in evictions}
        assert len(evicted) == 2
        assert {jobs[name].deleted is not None for name in ("quick", "low", "urgent")} == {True}
    finally:
        history.close()
