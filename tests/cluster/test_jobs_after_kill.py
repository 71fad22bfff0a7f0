"""`kilauea up` is killed in the midst of Volcano's jobs: started again, each comes to the end that it was to have."""

from __future__ import annotations

import itertools
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from cluster.api_process import Client, Server
from cluster.up_process import apply, start_up, until

Obj = dict[str, Any]
NODES = ("--nodes", "3", "--node-cpu", "64")
BATCH = "/apis/batch.volcano.sh/v1alpha1/namespaces/default/jobs"
FLOWS = "/apis/flow.volcano.sh/v1alpha1/namespaces/default/jobflows"
COMMANDS = "/apis/bus.volcano.sh/v1alpha1/namespaces/default/commands"
GROUPS = "/apis/scheduling.volcano.sh/v1beta1/namespaces/default/podgroups"
PODS = "/api/v1/namespaces/default/pods"
RETRIES = 3


def task(name: str, replicas: int, command: str, **more: Any) -> Obj:
    """A task whose pods do as a shell would."""
    container: Obj = {"name": "c", "image": "demo", "command": ["sh", "-c", command]}
    container["resources"] = {"requests": {"cpu": "1"}}
    spec = {"restartPolicy": "Never", "terminationGracePeriodSeconds": 0, "containers": [container]}
    return {"name": name, "replicas": replicas, "template": {"spec": spec}, **more}


def made(kind: str, name: str, spec: Obj, group: str = "batch") -> Obj:
    """A job, a template or a flow."""
    return {"apiVersion": f"{group}.volcano.sh/v1alpha1", "kind": kind, "metadata": {"name": name}, "spec": spec}


def job(name: str, *tasks: Obj, **spec: Any) -> Obj:
    return made("Job", name, {"tasks": list(tasks), **spec})


def policy(event: str, action: str, **more: Any) -> list[Obj]:
    return [{"event": event, "action": action, **more}]


def order(name: str, action: str) -> Obj:
    """A command to a job, as vcctl gives it."""
    target = {"apiVersion": "batch.volcano.sh/v1alpha1", "kind": "Job", "name": name, "uid": ""}
    metadata = {"name": f"{name}-{action.lower()}"}
    return {
        "apiVersion": "bus.volcano.sh/v1alpha1",
        "kind": "Command",
        "metadata": metadata,
        "action": action,
        "target": target,
    }


STEPS = ("fetch", "train", "report")
WORK = [
    job("many", task("a", 60, "sleep 3")),
    job(
        "ordered",
        task("a", 2, "sleep 4", minAvailable=2),
        task("b", 2, "sleep 1", minAvailable=0, dependsOn={"name": ["a"]}),
    ),
    job("again", task("a", 3, "sleep 1; exit 1"), policies=policy("PodFailed", "RestartJob"), maxRetry=RETRIES),
    job(
        "late",
        task("a", 1, "exit 1"),
        task("b", 1, "sleep 900"),
        policies=policy("PodFailed", "TerminateJob", timeout="5s"),
    ),
    job("first", task("a", 1, "sleep 2"), task("b", 2, "sleep 900"), policies=policy("TaskCompleted", "CompleteJob")),
    job("brief", task("a", 2, "sleep 1"), ttlSecondsAfterFinished=1),
    job("pause", task("a", 4, "sleep 900")),
    job("steady", task("a", 4, "sleep 900"), plugins={"svc": [], "env": []}),
    *(made("JobTemplate", name, {"tasks": [task("a", 2, "sleep 1")]}, "flow") for name in STEPS),
]
CHAIN = [
    {"name": STEPS[0]},
    *({"name": b, "dependsOn": {"targets": [a]}} for a, b in itertools.pairwise(STEPS)),
]
ENDS = {
    "many": "Completed",
    "ordered": "Completed",
    "again": "Failed",
    "late": "Terminated",
    "first": "Completed",
    "pause": "Aborted",
    "steady": "Running",
    **{f"chain-{step}": "Completed" for step in STEPS},
}
"""The phase in which each job is in the end; the brief one is gone."""
PODS_LEFT = {
    "many": {"Succeeded": 60},
    "ordered": {"Succeeded": 4},
    "late": {"Failed": 1},
    "first": {"Succeeded": 1},
    "steady": {"Running": 4},
    **{f"chain-{step}": {"Succeeded": 2} for step in STEPS},
}
"""The pods of each job in the end, by phase; besides those of `again`."""


@contextmanager
def at_work(data_dir: Path) -> Iterator[Server]:
    """A cluster that may be gone when the block ends."""
    server = start_up(data_dir, *NODES)
    try:
        yield server
    finally:
        if server.process.poll() is None:
            server.kill()


def phases(client: Client) -> dict[str, str]:
    """The phases of all jobs."""
    items = client.get(BATCH)["items"]
    return {each["metadata"]["name"]: (each.get("status", {}).get("state") or {}).get("phase", "") for each in items}


def pods(client: Client) -> dict[str, Counter[str]]:
    """The pods of each job, by phase."""
    found: dict[str, Counter[str]] = {}
    for pod in client.get(PODS)["items"]:
        name = pod["metadata"]["labels"]["volcano.sh/job-name"]
        found.setdefault(name, Counter())[pod["status"]["phase"]] += 1
    return found


def has_pods_left(found: dict[str, Counter[str]]) -> bool:
    """Return True if the pods are those of the end.

    The first pod of `again` that fails ends the job. Those of the other two that still run then are deleted.
    """
    again = found.pop("again", Counter())
    return found == PODS_LEFT and set(again) == {"Failed"} and again.total() <= 3


@pytest.mark.parametrize("seconds", [0.2, 1.0, 2.5, 5.0])
def test_every_job_comes_to_its_end_although_all_is_killed_twice(tmp_path: Path, seconds: float) -> None:
    with at_work(tmp_path / "data") as server:
        apply(server, *WORK, made("JobFlow", "chain", {"flows": CHAIN}, "flow"))
        until(lambda: "steady" in pods(server.client()), "the last job to begin")
        time.sleep(seconds)
        apply(server, order("pause", "AbortJob"))
        server.kill()
    with at_work(tmp_path / "data") as server:
        time.sleep(seconds)
        server.kill()
    with at_work(tmp_path / "data") as server:
        client = server.client()
        until(lambda: phases(client) == ENDS, "all jobs to end", 90.0)
        until(lambda: has_pods_left(pods(client)), "no pod too many", 30.0)
        assert client.get(f"{BATCH}/again")["status"]["retryCount"] == RETRIES
        until(lambda: client.get(f"{FLOWS}/chain")["status"]["state"]["phase"] == "Succeed", "the flow to succeed")
        assert client.get(COMMANDS)["items"] == []
        until(lambda: len(client.get(GROUPS)["items"]) == 1, "the groups of ended jobs to be gone")
        apply(server, order("pause", "ResumeJob"))
        until(lambda: phases(client)["pause"] == "Running", "the job that was suspended to run again")
        assert pods(client)["pause"] == {"Running": 4}
        server.stop()
