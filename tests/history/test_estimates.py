"""Run times of jobs by those of others like them."""

from __future__ import annotations

import pytest

from kilauea.history.estimates import Estimate, RunTimes, pattern_of
from kilauea.history.records import JobRecord, PodRecord

CPU = {"cpu": 1000}


def past(*runs: tuple[str, str, str, int]) -> RunTimes:
    """Runs of jobs: name, user, queue, time."""
    return RunTimes.of(
        (
            JobRecord(uid=str(n), namespace="a", name=name, kind="Job", user=user, queue=queue),
            [
                PodRecord(
                    uid=str(n),
                    namespace="a",
                    name="p",
                    job=str(n),
                    queue=queue,
                    resources=CPU,
                    bound=100,
                    ended=100 + time,
                    state="Succeeded",
                )
            ],
        )
        for n, (name, user, queue, time) in enumerate(runs)
    )


@pytest.mark.parametrize(
    ("name", "pattern"),
    [
        ("train-7", "train#"),
        ("train-x7k2q", "train#"),
        ("train", "train"),
        ("nightly-2026-11-23", "nightly###"),
        ("resnet50-lr01-seed3", "###"),
        ("data-prepare", "data-prepare"),
    ],
)
def test_a_pattern_leaves_out_what_differs_between_runs(name: str, pattern: str) -> None:
    assert pattern_of(name) == pattern


def test_runs_of_the_same_name_come_before_those_of_the_same_queue() -> None:
    found = past(*[(f"train-{n}", "ada", "q", 10) for n in range(3)], *[("other", "ada", "q", 99)] * 5)
    assert found.estimate("a", "train-9", "ada", "q", "", CPU) == Estimate(10, 10, 10, 3)
    assert found.estimate("a", "unheard", "ada", "q", "", CPU) == Estimate(10, 99, 99, 8)


def test_fewer_than_three_runs_say_nothing() -> None:
    found = past(("train-1", "ada", "q", 10), ("train-2", "ada", "q", 10))
    assert found.estimate("a", "train-9", "ada", "q", "", CPU) is None


def test_only_runs_that_took_longer_than_this_one_has_count() -> None:
    found = past(*[("train", "ada", "q", time) for time in (10, 20, 30, 40, 50)])
    assert found.estimate("a", "train", "ada", "q", "", CPU, elapsed=25) == Estimate(30, 40, 50, 3)
    assert found.estimate("a", "train", "ada", "q", "", CPU, elapsed=35) is None


def test_jobs_of_other_namespaces_with_the_same_name_are_not_alike() -> None:
    found = past(*[("train", "ada", "q", 10)] * 3)
    assert found.estimate("b", "train", "grace", "other", "", CPU) is None
