"""The history of a cluster of `kilauea up`, over restarts, and expected starts that come true."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from cluster.api_process import Server
from cluster.up_process import Obj, apply, kubectl, running_up, until
from kilauea.api.times import SECOND, parse_time
from support.vcctl_runs import Console

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
