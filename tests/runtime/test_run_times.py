"""Forecasts of run times: which source counts, and for how long it is used."""

from __future__ import annotations

from typing import Any

import pytest

from kilauea.api.core import Pod
from kilauea.api.times import SECOND
from kilauea.history.estimates import RunTimes
from kilauea.history.records import JobRecord, PodRecord
from kilauea.runtime.inputs.run_times import PodRunTimes
from support.builders import node, pod

SIMULATED = node("n1", labels={"node.kubernetes.io/instance-type": "simulated"})
REAL = node("n1")


def job(
    command: list[str] | None = None, limit: int | None = None, estimate: str | None = None, **notes: str
) -> dict[str, Any]:
    container: dict[str, Any] = {"name": "c", "image": "x", **({"command": command} if command else {})}
    spec = {"containers": [container], "restartPolicy": "Never", **({"activeDeadlineSeconds": limit} if limit else {})}
    return {
        "apiVersion": "batch.volcano.sh/v1alpha1",
        "kind": "Job",
        "metadata": {"name": "train", "namespace": "ns", "annotations": {"kilauea.dev/user": "ada"}},
        "spec": {
            "tasks": [{"name": "w", "replicas": 1, "template": {"spec": spec}}],
            **({"runningEstimate": estimate} if estimate else {}),
        },
    }


def past(*seconds: int) -> RunTimes:
    return RunTimes.of(
        (
            JobRecord(uid=str(n), namespace="ns", name="train", kind="Job", user="ada"),
            [
                PodRecord(
                    uid=str(n),
                    namespace="ns",
                    name="p",
                    job=str(n),
                    queue="default",
                    task="w",
                    bound=0,
                    resources={"cpu": 1000, "memory": 1 << 30},
                    ended=time * SECOND,
                    state="Succeeded",
                )
            ],
        )
        for n, time in enumerate(seconds)
    )


def the_pod(**notes: str) -> Pod:
    found = pod("p", annotations={"volcano.sh/task-spec": "w", **notes}, labels={"volcano.sh/job-name": "train"})
    assert isinstance(found, Pod)
    return found


NOTE = {"kilauea.dev/run-time": "90s"}
SLEEP = job(["sleep", "30"])
LATEST = "activeDeadlineSeconds, at the latest"
CASES = [
    ("an annotation of the pod comes first", REAL, job(estimate="1h"), NOTE, None, (90, 90, 90, "run-time annotation")),
    ("then the job's estimate", REAL, job(estimate="1h", limit=9), {}, None, (3600, 3600, 3600, "runningEstimate")),
    ("then the command, on simulated nodes", SIMULATED, SLEEP, {}, None, (30, 30, 30, "its command")),
    ("the command of a real pod says nothing", REAL, SLEEP, {}, None, None),
    ("a command that runs forever says nothing", SIMULATED, job(["sleep", "infinity"]), {}, None, None),
    ("a command of unknown length says nothing", SIMULATED, job(["train"]), {}, None, None),
    ("then earlier runs", REAL, job(), {}, past(10, 20, 30), (10, 20, 30, "3 similar runs")),
    ("earlier runs end at the limit", REAL, job(limit=15), {}, past(10, 20, 30), (10, 15, 15, "3 similar runs")),
    ("then the limit", REAL, job(limit=100), {}, past(10), (10, 100, 100, LATEST)),
    ("else nothing", REAL, job(), {}, past(10), None),
]


@pytest.mark.parametrize(
    ("machine", "workload", "notes", "history", "wanted"), [case[1:] for case in CASES], ids=[case[0] for case in CASES]
)
def test_the_first_source_that_says_something_counts(
    machine: Any, workload: dict[str, Any], notes: dict[str, str], history: RunTimes | None, wanted: Any
) -> None:
    found = PodRunTimes([machine], [workload], history)(the_pod(**notes), None)
    assert (found and (*(time // SECOND for time in found[:3]), found.source)) == wanted


def test_what_a_pod_outlasts_is_not_used_any_longer() -> None:
    forecasts = PodRunTimes([REAL], [job(estimate="10s", limit=60)], past(20, 40, 50, 55))
    found = forecasts(the_pod(), 30 * SECOND)
    assert found is not None
    assert (found.likely, found.source) == (50 * SECOND, "3 similar runs")
    late = forecasts(the_pod(), 58 * SECOND)
    assert late is not None
    assert late.source == "activeDeadlineSeconds, at the latest"


ODD = [
    {"tasks": None},
    {"tasks": [None]},
    {"tasks": [{"template": 3}]},
    {"tasks": [{"template": {"spec": {"containers": [{}]}}}]},
]


@pytest.mark.parametrize("spec", ODD)
def test_a_workload_of_another_form_says_nothing(spec: Any) -> None:
    odd = {**job(), "spec": spec}
    assert PodRunTimes([REAL], [odd])(the_pod(), None) is None
