"""Run times of jobs by those of others like them."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from kilauea.history.estimates import STEPS, Estimate, RunTimes, pattern_of
from kilauea.history.records import JobRecord, PodRecord

CPU = {"cpu": 1000}


NOW = 1000


def figures(found: Estimate | None) -> tuple[int, int, int, int] | None:
    """The low, middle and high run time, and the number of runs."""
    return (found.low, found.middle, found.high, found.runs) if found is not None else None


def lasting(*times: int, running: Sequence[int] = ()) -> RunTimes:
    """Runs of one job that ended after these times, and ones that still run."""
    ends = [(time, NOW - time, NOW) for time in times] + [(time, NOW - time, None) for time in running]
    job = JobRecord(uid="j", namespace="a", name="train", kind="Job", user="ada", queue="q")
    pods = [
        PodRecord(
            uid=str(n), namespace="a", name="p", job="j", queue="q", resources=CPU, bound=bound, ended=end,
            state="Running" if end is None else "Succeeded",
        )
        for n, (_, bound, end) in enumerate(ends)
    ]  # fmt: skip
    return RunTimes.of([(job, pods)], NOW)


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
    assert figures(found.estimate("a", "train-9", "ada", "q", "", CPU)) == (10, 10, 10, 3)
    assert figures(found.estimate("a", "unheard", "ada", "q", "", CPU)) == (10, 99, 99, 8)


def test_fewer_than_three_runs_say_nothing() -> None:
    found = past(("train-1", "ada", "q", 10), ("train-2", "ada", "q", 10))
    assert found.estimate("a", "train-9", "ada", "q", "", CPU) is None


def test_only_runs_that_took_longer_than_this_one_has_count() -> None:
    found = past(*[("train", "ada", "q", time) for time in (10, 20, 30, 40, 50)])
    assert figures(found.estimate("a", "train", "ada", "q", "", CPU, elapsed=25)) == (30, 40, 50, 3)
    assert found.estimate("a", "train", "ada", "q", "", CPU, elapsed=35) is None


def test_jobs_of_other_namespaces_with_the_same_name_are_not_alike() -> None:
    found = past(*[("train", "ada", "q", 10)] * 3)
    assert found.estimate("b", "train", "grace", "other", "", CPU) is None


def test_the_run_times_of_an_estimate_are_equally_likely() -> None:
    found = lasting(*range(10, 10 * STEPS + 1, 10)).estimate("a", "train", "ada", "q", "", CPU)
    assert found is not None
    assert found.times == tuple(range(10, 10 * STEPS + 1, 10))


def test_runs_that_have_not_ended_count_as_longer_ones() -> None:
    ended = (10, 20, 30)
    without = lasting(*ended).estimate("a", "train", "ada", "q", "", CPU)
    beside = lasting(*ended, running=(25, 25, 25)).estimate("a", "train", "ada", "q", "", CPU)
    assert figures(without) == (10, 20, 30, 3)
    # Two of six end within 20; the three that run have outlasted that, so the one of 30 stands for all that are left.
    assert figures(beside) == (10, 30, 30, 3)


def test_where_the_longest_runs_have_not_ended_each_doubling_of_their_time_ends_half_of_them() -> None:
    found = lasting(10, 10, 10, 10, 10, running=(100,) * 5).estimate("a", "train", "ada", "q", "", CPU)
    assert found is not None
    assert (found.low, found.middle) == (10, 100)
    assert found.times[14] == int(100 * 0.5 / (1 - 14.5 / STEPS))
    assert found.high == 500


def test_only_runs_that_have_ended_make_an_estimate() -> None:
    assert lasting(10, 10, running=(100,) * 9).estimate("a", "train", "ada", "q", "", CPU) is None
