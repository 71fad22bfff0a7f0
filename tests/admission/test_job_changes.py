"""What may change in a job that is there."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from kilauea.admission.jobs import mutate, validate
from kilauea.apiserver.patch.json_patch import json_patch
from support.admitted import SETTINGS, VIEW, Data, changed, completed, denial, job, review_of, task

FIXED = (
    "job updates may not change fields other than `minAvailable`, `tasks[*].replicas under spec` and"
    " `PriorityClassName`"
)
TIERS = "must not specify 'highestTierAllowed' and 'highestTierName' in networkTopology simultaneously"
CLAIM = {"resources": {"requests": {"storage": "1Gi"}}}
TEMPLATE = {
    "spec": {
        "containers": [{"name": "c", "image": "i", "resources": {"requests": {"cpu": "1"}}}],
        "volumes": [{"name": "v", "emptyDir": {}}],
    }
}
OLD = completed(
    mutate,
    job(
        task(replicas=2, template=TEMPLATE),
        task("b", replicas=4, partitionPolicy={"totalPartitions": 2, "partitionSize": 2}),
        volumes=[{"mountPath": "/made", "volumeClaim": CLAIM}, {"mountPath": "/had", "volumeClaimName": "had"}],
        plugins={"svc": []},
    ),
)
TEMPLATE_OF_A = ("spec", "tasks", 0, "template", "spec")


@pytest.mark.parametrize(
    ("path", "value", "expected"),
    [
        (("spec", "tasks", 0, "replicas"), 5, ""),
        (("spec", "tasks", 0, "replicas"), -1, "'replicas' must be >= 0 in task: a"),
        (("spec", "tasks", 0, "minAvailable"), -1, "'minAvailable' must be >= 0 in task: a"),
        (("spec", "tasks", 0, "minAvailable"), 3, "'minAvailable' must be <= 'replicas' in task: a"),
        (("spec", "tasks", 0, "minAvailable"), 1, ""),
        (("spec", "tasks", 1, "replicas"), 6,
         "'Replicas' are not equal to TotalPartitions*PartitionSize in task: b, job: m"),
        (("spec", "minAvailable"), 3, ""),
        (("spec", "minAvailable"), 7, "job 'minAvailable' must not be greater than total replicas"),
        (("spec", "minAvailable"), -1, "job 'minAvailable' must be >= 0"),
        (("spec", "networkTopology"), {"highestTierAllowed": 0, "highestTierName": "x"}, TIERS),
        (("spec", "tasks"), [OLD["spec"]["tasks"][0]], "job 'minAvailable' must not be greater than total replicas"),
        (("spec", "tasks"), [*OLD["spec"]["tasks"], task("c")], "job updates may not add or remove tasks"),
        (("spec", "priorityClassName"), "high", ""),
        (("metadata", "labels"), {"a": "b"}, ""),
        (("spec", "queue"), "other", FIXED),
        (("spec", "maxRetry"), 4, FIXED),
        (("spec", "plugins"), {"svc": [], "env": []}, FIXED),
        (("spec", "policies"), [{"event": "*", "action": "AbortJob"}], FIXED),
        (("spec", "ttlSecondsAfterFinished"), 0, FIXED),
        (("spec", "tasks", 0, "name"), "c", FIXED),
        (("spec", "tasks", 0, "maxRetry"), 9, FIXED),
        ((*TEMPLATE_OF_A, "containers", 0, "image"), "other", FIXED),
        ((*TEMPLATE_OF_A, "containers", 0, "resources", "requests", "cpu"), "2", FIXED),
        ((*TEMPLATE_OF_A, "nodeSelector"), {"a": ""}, FIXED),
        ((*TEMPLATE_OF_A, "volumes", 0), {"name": "v", "configMap": {"name": "x"}}, FIXED),
        (("spec", "volumes", 0, "volumeClaimName"), "m-pvc-0", ""),
        (("spec", "volumes", 1, "volumeClaimName"), "other", FIXED),
        (("spec", "volumes", 0, "mountPath"), "/else", FIXED),
    ],
)  # fmt: skip
def test_only_numbers_of_pods_and_the_priority_change(path: tuple[Any, ...], value: Any, expected: str) -> None:
    assert denial(validate, review_of(changed(OLD, path, value), "UPDATE", OLD)) == expected


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ((*TEMPLATE_OF_A, "containers", 0, "resources", "requests", "cpu"), "1000m"),
        ((*TEMPLATE_OF_A, "containers", 0, "resources", "requests", "cpu"), 1),
        ((*TEMPLATE_OF_A, "containers", 0, "resources", "limits"), {}),
        ((*TEMPLATE_OF_A, "containers", 0, "command"), []),
        ((*TEMPLATE_OF_A, "nodeSelector"), {}),
        ((*TEMPLATE_OF_A, "hostname"), ""),
        (("spec", "tasks", 0, "template", "metadata"), {"creationTimestamp": None}),
        (("spec", "priorityClassName"), ""),
        (("spec", "policies"), []),
    ],
)
def test_another_way_to_write_the_same_is_no_change(path: tuple[Any, ...], value: Any) -> None:
    assert denial(validate, review_of(changed(OLD, path, value), "UPDATE", OLD)) == ""


def applied_again(replicas: int) -> Data:
    """A job as it is after a user has applied a manifest again, which says nothing of the tasks but these numbers."""
    new = copy.deepcopy(OLD)
    new["spec"]["tasks"] = [task(replicas=replicas, template=TEMPLATE), copy.deepcopy(OLD["spec"]["tasks"][1])]
    found: Data = json_patch(copy.deepcopy(new), mutate(review_of(new, "UPDATE", OLD), VIEW, SETTINGS))
    return found


def test_a_manifest_that_is_applied_again_changes_nothing() -> None:
    assert applied_again(2) == OLD


def test_a_manifest_that_is_applied_again_with_other_replicas_is_refused_as_in_volcano() -> None:
    more = applied_again(3)
    assert "maxRetry" not in more["spec"]["tasks"][0]
    assert "job updates may not change fields" in denial(validate, review_of(more, "UPDATE", OLD))


@pytest.mark.parametrize(("field", "empty"), [("maxRetry", 0), ("queue", ""), ("schedulerName", "")])
def test_a_manifest_whose_empty_values_were_completed_can_be_applied_again(field: str, empty: Any) -> None:
    again: Data = changed(OLD, ("spec", field), empty)
    completed_again = json_patch(copy.deepcopy(again), mutate(review_of(again, "UPDATE", OLD), VIEW, SETTINGS))
    assert completed_again == OLD


def test_an_empty_value_does_not_restore_another_than_the_default() -> None:
    old: Data = changed(OLD, ("spec", "maxRetry"), 7)
    new: Data = changed(OLD, ("spec", "maxRetry"), 0)
    assert mutate(review_of(new, "UPDATE", old), VIEW, SETTINGS) == []


def test_what_a_job_never_had_is_not_added_by_a_change() -> None:
    old = copy.deepcopy(OLD)
    del old["spec"]["tasks"][0]["maxRetry"], old["spec"]["queue"]
    new: Data = changed(old, ("metadata", "labels"), {"a": "b"})
    assert mutate(review_of(new, "UPDATE", old), VIEW, SETTINGS) == []


def test_the_queue_of_a_job_that_runs_is_not_looked_at() -> None:
    old = copy.deepcopy(OLD)
    old["spec"]["queue"] = "gone"
    new: Data = changed(old, ("spec", "tasks", 0, "replicas"), 3)
    assert denial(validate, review_of(new, "UPDATE", old)) == ""
