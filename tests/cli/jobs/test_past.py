"""Deleted jobs in the words of `sacct`."""

from __future__ import annotations

import pytest

from kilauea.cli.jobs.past import record_of
from kilauea.history.records import JobRecord, PodRecord


def job(state: str, ended: int | None) -> JobRecord:
    return JobRecord(
        uid="j", namespace="a", name="sweep-x7k2q", kind="Job.batch.volcano.sh", title="sweep", queue="q", user="ada",
        submitted=1, ended=ended, state=state, cpus=2000, limit=60, deleted=99,
    )  # fmt: skip


def pod(name: str, state: str = "Succeeded", reason: str = "", code: int = 0) -> PodRecord:
    return PodRecord(
        uid=name, namespace="a", name=name, job="j", bound=10, started=12, ended=50, node=f"n-{name}", state=state,
        reason=reason, exit_code=code,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("phase", "ended", "pods", "state"),
    [
        ("Completed", 50, [pod("a")], "COMPLETED"),
        ("Failed", 50, [pod("a", "Failed", "Error", 1)], "FAILED"),
        ("Failed", 50, [pod("a", "Failed", "OOMKilled", 137)], "OUT_OF_MEMORY"),
        ("Failed", 50, [pod("a", "Failed", "DeadlineExceeded")], "TIMEOUT"),
        ("Terminated", 50, [], "CANCELLED"),
        ("Running", None, [pod("a", "Deleted")], "CANCELLED"),
        ("Pending", None, [], "CANCELLED"),
    ],
)
def test_a_deleted_job_has_the_state_in_which_it_went(
    phase: str, ended: int | None, pods: list[PodRecord], state: str
) -> None:
    assert record_of(job(phase, ended), pods).state == state


def test_its_figures_are_those_of_its_pods() -> None:
    found = record_of(job("Failed", 50), [pod("a"), pod("b", "Failed", "Error", 3)])
    assert (found.id, found.name, found.user, found.nodes, found.exit_code) == (
        "sweep-x7k2q",
        "sweep",
        "ada",
        ("n-a", "n-b"),
        3,
    )
    assert (found.submitted, found.started, found.ended, found.cpus, found.limit) == (1, 12, 50, 2000, 60)
