"""The row of a pod, as kubectl prints it: sidecars, restarts while it initialises, ends of containers."""

from __future__ import annotations

from typing import Any

import pytest

from kilauea.api.times import parse_time
from kilauea.apiserver.tables.pods import pod_row

NOW = parse_time("2026-01-01T00:10:00Z")
ENDED = {"terminated": {"exitCode": 0, "reason": "Completed"}}
FAILED = {"terminated": {"exitCode": 1, "reason": "Error"}}
RUNNING: dict[str, Any] = {"running": {}}
TRUE = [{"type": "Initialized", "status": "True"}, {"type": "Ready", "status": "True"}]
Obj = dict[str, Any]


def of(name: str, state: Obj, ready: bool = False, started: bool = False, restarts: int = 0) -> Obj:
    return {"name": name, "state": state, "ready": ready, "started": started, "restartCount": restarts}


def shown(
    first: list[Obj], rest: list[Obj], phase: str = "Running", conditions: Any = (), **metadata: Any
) -> list[str]:
    """READY, STATUS and RESTARTS of a pod with an init container `prepare`, a sidecar `proxy` and a container `app`."""
    prepare, proxy = {"name": "prepare"}, {"name": "proxy", "restartPolicy": "Always"}
    obj = {
        "metadata": {"name": "p", "creationTimestamp": "2026-01-01T00:00:00Z", **metadata},
        "spec": {"initContainers": [prepare, proxy], "containers": [{"name": "app"}, {"name": "other"}][: len(rest)]},
        "status": {
            "phase": phase, "conditions": list(conditions), "initContainerStatuses": first, "containerStatuses": rest,
        },
    }  # fmt: skip
    return [str(each) for each in pod_row(obj, NOW).cells[1:4]]


def test_a_sidecar_that_runs_is_one_of_the_ready_containers() -> None:
    first = [of("prepare", ENDED, ready=True, restarts=2), of("proxy", RUNNING, ready=True, started=True, restarts=1)]
    assert shown(first, [of("app", RUNNING, ready=True, restarts=3)], conditions=TRUE) == ["2/2", "Running", "4"]


def test_a_sidecar_that_is_not_ready_does_not_hold_up_the_others() -> None:
    first = [of("prepare", ENDED), of("proxy", RUNNING, started=True)]
    assert shown(first, [of("app", RUNNING, ready=True)]) == ["1/2", "Running", "0"]


def test_a_sidecar_that_has_not_started_is_waited_for() -> None:
    first = [of("prepare", ENDED, restarts=2), of("proxy", RUNNING)]
    waiting = of("app", {"waiting": {"reason": "PodInitializing"}})
    assert shown(first, [waiting], phase="Pending") == ["0/2", "Init:1/2", "2"]


def test_a_sidecar_that_failed_is_named_until_the_pod_is_initialised() -> None:
    first = [of("prepare", ENDED), of("proxy", {"waiting": {"reason": "CrashLoopBackOff"}}, restarts=1)]
    app = [of("app", RUNNING, ready=True)]
    assert shown(first, app, phase="Pending") == ["0/2", "Init:CrashLoopBackOff", "1"]
    assert shown(first, app, conditions=TRUE) == ["1/2", "Init:CrashLoopBackOff", "1"]
    assert shown(first, [of("app", FAILED)], conditions=TRUE) == ["0/2", "Error", "1"]


@pytest.mark.parametrize(
    ("states", "conditions", "word"),
    [
        ((ENDED, FAILED), [], "Error"),
        ((ENDED, RUNNING), [], "NotReady"),
        ((ENDED, RUNNING), TRUE, "Running"),
        ((ENDED, ENDED), [], "Completed"),
    ],
)
def test_a_failure_is_told_before_a_success(states: tuple[Obj, Obj], conditions: list[Obj], word: str) -> None:
    rest = [of("app", states[0]), of("other", states[1], ready=states[1] is RUNNING)]
    assert shown([], rest, conditions=conditions)[1] == word


def test_a_pod_that_has_ended_does_not_terminate() -> None:
    gone = {"deletionTimestamp": "2026-01-01T00:05:00Z"}
    assert shown([], [of("app", RUNNING, ready=True)], **gone)[1] == "Terminating"
    assert shown([], [of("app", ENDED)], phase="Succeeded", **gone)[1] == "Completed"
