"""The pod group of a job asks for what the job needs at least, and follows the job where it may."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kilauea.controllers.vcjobs.groups import group_changes, group_of
from support.vcjob_parts import job, task

PRIORITIES = {"high": 1000, "low": 10}


def priority(name: str) -> int:
    return PRIORITIES.get(name, 0)


def sized(cpu: str, **more: Any) -> dict[str, Any]:
    """The spec of a pod that asks for cpus."""
    return {"containers": [{"name": "c", "resources": {"requests": {"cpu": cpu}}}], **more}


def cpu_of(of: dict[str, Any]) -> tuple[str, str]:
    """How many pods with how many cpus the minimum is."""
    resources = group_of(of, priority)["spec"]["minResources"]
    return resources["pods"], resources["cpu"]


def test_a_group_says_whose_it_is_and_what_the_job_says() -> None:
    metadata = {
        "labels": {"team": "x"},
        "annotations": {
            "note": "y",
            "kubectl.kubernetes.io/last-applied-configuration": "{}",
            "kilauea.dev/delayed-actions": "[]",
        },
    }
    group = group_of(job(metadata=metadata, minAvailable=2, queue="q", priorityClassName="high"), priority)
    assert group["metadata"]["name"] == "m-5d0e"
    assert group["metadata"]["labels"] == {"team": "x"}
    assert group["metadata"]["annotations"] == {"note": "y"}
    assert group["metadata"]["ownerReferences"][0]["name"] == "m"
    assert group["spec"] == {
        "minMember": 2,
        "minTaskMember": {"a": 2},
        "minResources": {"pods": "2", "count/pods": "2", "cpu": "2", "requests.cpu": "2"},
        "priorityClassName": "high",
        "queue": "q",
    }


@pytest.mark.parametrize(
    ("more", "minimum"),
    [
        ({}, 6),
        ({"minAvailable": 3}, 3),
        ({"minAvailable": 0}, 0),
        ({"partitionPolicy": {"totalPartitions": 3, "partitionSize": 2}}, 6),
        ({"partitionPolicy": {"totalPartitions": 3, "partitionSize": 2, "minPartitions": 2}}, 4),
        ({"partitionPolicy": {"totalPartitions": 3, "partitionSize": 2, "minPartitions": 2}, "minAvailable": 5}, 5),
    ],
)
def test_the_minimum_of_a_task_is_its_own_or_that_of_its_partitions_or_all(more: dict[str, Any], minimum: int) -> None:
    group = group_of(job(task(replicas=6, **more), minAvailable=6), priority)
    assert group["spec"]["minTaskMember"] == {"a": minimum}


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({"mode": "hard", "highestTierAllowed": 2}, {"mode": "hard", "highestTierAllowed": 2}),
        ({"mode": "soft", "highestTierName": "rack"}, {"mode": "soft", "highestTierName": "rack"}),
        ({"highestTierAllowed": 0, "highestTierName": "rack"}, {"highestTierAllowed": 0}),
    ],
)
def test_a_tier_is_given_by_its_number_or_else_by_its_name(given: dict[str, Any], expected: dict[str, Any]) -> None:
    policy = {"totalPartitions": 1, "partitionSize": 2, "minPartitions": 1, "networkTopology": given}
    spec = group_of(job(task(partitionPolicy=policy), networkTopology=given, minAvailable=2), priority)["spec"]
    assert spec["networkTopology"] == expected
    assert spec["subGroupPolicy"] == [
        {
            "name": "a",
            "labelSelector": {"matchLabels": {"volcano.sh/task-spec": "a"}},
            "matchLabelKeys": ["volcano.sh/partition-id"],
            "subGroupSize": 2,
            "minSubGroups": 1,
            "networkTopology": expected,
        }
    ]


@pytest.mark.parametrize(
    ("minimum", "counted"),
    [
        (1, ("1", "10")),  # below the sum of the tasks' minima: the first pods by priority
        (3, ("3", "30")),
        (4, ("4", "31")),  # the minimum of each task
        (5, ("5", "41")),  # and then others by priority
        (9, ("9", "63")),
        (99, ("9", "63")),
    ],
)
def test_the_minimum_counts_pods_of_higher_priority_first(minimum: int, counted: tuple[str, str]) -> None:
    low = task("low", 3, sized("1", priorityClassName="low"), minAvailable=1)
    high = task("high", 6, sized("10", priorityClassName="high"), minAvailable=3)
    assert cpu_of(job(low, high, minAvailable=minimum)) == counted


def test_tasks_of_the_same_priority_are_counted_in_their_order() -> None:
    first, second = task("x", 2, sized("1")), task("y", 2, sized("10", priorityClassName="unknown"))
    assert cpu_of(job(first, second, minAvailable=1)) == ("1", "1")
    assert cpu_of(job(second, first, minAvailable=1)) == ("1", "10")


def test_extended_resources_are_counted_under_both_names() -> None:
    containers = [
        {"name": "c", "resources": {"limits": {"example.com/card": "2"}, "requests": {"example.com/card": "2"}}}
    ]
    spec = group_of(job(task(replicas=3, spec={"containers": containers}), minAvailable=3), priority)["spec"]
    assert spec["minResources"] == {
        "pods": "3",
        "count/pods": "3",
        "requests.example.com/card": "6",
        "example.com/card": "6",
    }


def test_a_group_is_as_its_job_says_until_the_job_changes() -> None:
    before = job(task(minAvailable=2), minAvailable=2)
    group = group_of(before, priority)
    assert group_changes(before, group, priority) is None
    assert group_changes(job(task(minAvailable=2), minAvailable=2, queue="other"), group, priority) is None
    after = job(task(minAvailable=1), minAvailable=1, priorityClassName="high")
    assert group_changes(after, group, priority) == {
        "spec": {
            "minMember": 1,
            "minTaskMember": {"a": 1},
            "priorityClassName": "high",
            "minResources": {"pods": "1", "count/pods": "1", "cpu": "1", "requests.cpu": "1"},
        }
    }


def test_what_the_job_says_no_more_is_taken_out_except_tasks() -> None:
    group = group_of(job(task("old"), minAvailable=2, priorityClassName="high"), priority)
    after = job(task("new", 2, {"containers": [{"name": "c"}]}), minAvailable=2)
    assert group_changes(after, group, priority) == {
        "spec": {
            "priorityClassName": None,
            "minTaskMember": {"new": 2},
            "minResources": {"cpu": None, "requests.cpu": None},
        }
    }


@given(
    st.lists(st.tuples(st.integers(0, 5), st.integers(0, 5), st.sampled_from(["", "low", "high"])), max_size=4),
    st.data(),
)
def test_the_minimum_never_counts_more_pods_than_the_gang_needs_or_than_there_are(
    tasks: list[tuple[int, int, str]], data: st.DataObject
) -> None:
    replicas = sum(count for count, _, _ in tasks)
    minimum = data.draw(st.integers(0, replicas + 2))
    made = [
        task(f"t{number}", count, sized("1", priorityClassName=name), minAvailable=min(count, least))
        for number, (count, least, name) in enumerate(tasks)
    ]
    of = job(*made or [task(replicas=0)], minAvailable=minimum)
    spec = group_of(of, priority)["spec"]
    assert int(spec.get("minResources", {}).get("pods", "0")) == min(minimum, replicas)
