"""New pods say where they belong, take from job and template what each has to say, and leave both as they are."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kilauea.controllers.vcjobs.plugins import PLUGINS
from kilauea.controllers.vcjobs.pods import new_pod
from support.vcjob_parts import job, pod_of, task

VOLUMES = [
    {"mountPath": "/data", "volumeClaimName": "data"},
    {"mountPath": "/out", "volumeClaimName": "results"},
    {"mountPath": "/again", "volumeClaimName": "data"},
]


def made(of: dict[str, Any], index: int = 0) -> dict[str, Any]:
    """A pod of the first task before plugins."""
    return new_pod(of, of["spec"]["tasks"][0], index)


def test_a_pod_says_where_it_belongs() -> None:
    pod = made(job(queue="q", status={"version": 2, "retryCount": 1}), 3)
    metadata = pod["metadata"]
    assert (metadata["name"], metadata["namespace"]) == ("m-a-3", "ns")
    assert metadata["annotations"] == {
        "scheduling.k8s.io/group-name": "m-5d0e",
        "volcano.sh/job-name": "m",
        "volcano.sh/job-retry-count": "1",
        "volcano.sh/job-version": "2",
        "volcano.sh/queue-name": "q",
        "volcano.sh/task-index": "3",
        "volcano.sh/task-spec": "a",
        "volcano.sh/template-uid": "m-a",
    }
    assert metadata["labels"] == {
        "volcano.sh/job-name": "m",
        "volcano.sh/job-namespace": "ns",
        "volcano.sh/queue-name": "q",
        "volcano.sh/task-index": "3",
        "volcano.sh/task-spec": "a",
    }
    (owner,) = metadata["ownerReferences"]
    assert (owner["apiVersion"], owner["kind"], owner["uid"]) == ("batch.volcano.sh/v1alpha1", "Job", "5d0e")
    assert owner["controller"]
    assert owner["blockOwnerDeletion"]


@pytest.mark.parametrize(
    ("of_job", "of_template", "expected"),
    [
        ({"schedulerName": "volcano"}, {}, ("volcano", None)),
        ({"schedulerName": "volcano"}, {"schedulerName": "mine"}, ("mine", None)),
        ({"priorityClassName": "high"}, {}, (None, "high")),
        ({"priorityClassName": "high"}, {"priorityClassName": "low"}, (None, "low")),
    ],
)
def test_scheduler_and_priority_are_the_templates_or_else_the_jobs(
    of_job: dict[str, Any], of_template: dict[str, str], expected: tuple[str | None, str | None]
) -> None:
    spec = made(job(task(spec=of_template), **of_job))["spec"]
    assert (spec.get("schedulerName"), spec.get("priorityClassName")) == expected


def test_labels_and_annotations_begin_with_those_of_the_template() -> None:
    of = task()
    of["template"]["metadata"] = {
        "labels": {"app": "x", "volcano.sh/job-name": "other"},
        "annotations": {"note": "y", "volcano.sh/task-index": "9"},
        "finalizers": ["example.com/f"],
        "name": "ignored",
    }
    metadata = made(job(of))["metadata"]
    assert metadata["name"] == "m-a-0"
    assert (metadata["labels"]["app"], metadata["annotations"]["note"]) == ("x", "y")
    assert metadata["labels"]["volcano.sh/job-name"] == "m"
    assert metadata["annotations"]["volcano.sh/task-index"] == "0"
    assert metadata["finalizers"] == ["example.com/f"]


@pytest.mark.parametrize(
    ("of_job", "of_template", "expected"),
    [
        ({"volcano.sh/preemptable": "true"}, {}, {"volcano.sh/preemptable": "true"}),
        ({"volcano.sh/preemptable": "true"}, {"volcano.sh/preemptable": "false"}, {"volcano.sh/preemptable": "false"}),
        ({"volcano.sh/cooldown-time": "1h", "note": "x"}, {}, {"volcano.sh/cooldown-time": "1h"}),
        ({"volcano.sh/revocable-zone": "z"}, {}, {"volcano.sh/revocable-zone": "z"}),
        (
            {"volcano.sh/jdb-min-available": "2", "volcano.sh/jdb-max-unavailable": "1"},
            {},
            {"volcano.sh/jdb-min-available": "2"},
        ),
        ({"volcano.sh/jdb-max-unavailable": "1"}, {}, {"volcano.sh/jdb-max-unavailable": "1"}),
        (
            {"volcano.sh/jdb-min-available": "2"},
            {"volcano.sh/jdb-max-unavailable": "1"},
            {"volcano.sh/jdb-max-unavailable": "1"},
        ),
        ({"volcano.sh/job-forwarding": "true"}, {}, {"volcano.sh/job-forwarding": "true"}),
    ],
)
def test_annotations_of_the_job_that_concern_eviction_are_those_of_its_pods_unless_they_say_otherwise(
    of_job: dict[str, str], of_template: dict[str, str], expected: dict[str, str]
) -> None:
    of = task()
    of["template"]["metadata"] = {"annotations": of_template}
    plain = made(job(task()))["metadata"]["annotations"]
    annotations = made(job(of, metadata={"annotations": of_job}))["metadata"]["annotations"]
    assert dict(annotations.items() - plain.items()) == expected


def test_labels_of_the_job_that_concern_eviction_are_those_of_its_pods() -> None:
    labels = {"volcano.sh/preemptable": "true", "volcano.sh/cooldown-time": "1h", "team": "x"}
    found = made(job(metadata={"labels": labels}))["metadata"]["labels"]
    assert found["volcano.sh/preemptable"] == "true"
    assert found["volcano.sh/cooldown-time"] == "1h"
    assert "team" not in found


@pytest.mark.parametrize(("index", "partition"), [(0, "0"), (1, "0"), (2, "1"), (5, "2")])
def test_a_pod_of_a_task_in_partitions_says_which_one_it_is_in(index: int, partition: str) -> None:
    of = job(task(replicas=6, partitionPolicy={"totalPartitions": 3, "partitionSize": 2}))
    assert made(of, index)["metadata"]["labels"]["volcano.sh/partition-id"] == partition


def test_the_numa_policy_of_a_task_is_an_annotation_of_its_pods() -> None:
    annotations = made(job(task(topologyPolicy="restricted")))["metadata"]["annotations"]
    assert annotations["volcano.sh/numa-topology-policy"] == "restricted"


def test_volumes_of_the_job_are_mounted_in_containers_but_not_in_those_that_run_before() -> None:
    containers = [{"name": "c", "volumeMounts": [{"name": "own", "mountPath": "/own"}]}, {"name": "d"}]
    before = [{"name": "i"}]
    own = [{"name": "own", "emptyDir": {}}]
    of = task(spec={"containers": containers, "initContainers": before, "volumes": own})
    spec = made(job(of, volumes=VOLUMES))["spec"]
    names = [each["name"] for each in spec["volumes"]]
    assert [each.get("persistentVolumeClaim") for each in spec["volumes"]] == [
        None,
        {"claimName": "data"},
        {"claimName": "results"},
    ]
    assert all(re.fullmatch("m-[0-9a-z]{12}", name) for name in names[1:])
    mounted = [(each["name"], each["mountPath"]) for each in spec["containers"][0]["volumeMounts"]]
    assert mounted == [("own", "/own"), (names[1], "/data"), (names[2], "/out"), (names[1], "/again")]
    assert len(spec["containers"][1]["volumeMounts"]) == 3
    assert spec["initContainers"] == before


def test_the_names_of_volumes_differ_between_pods_and_are_the_same_when_asked_again() -> None:
    def names(index: int, version: int) -> tuple[str, ...]:
        return tuple(
            each["name"] for each in made(job(volumes=VOLUMES, status={"version": version}), index)["spec"]["volumes"]
        )

    assert names(0, 0) == names(0, 0)
    assert len({*names(0, 0), *names(1, 0), *names(0, 1)}) == 6


@given(
    plugins=st.sets(st.sampled_from([*PLUGINS])),
    before=st.booleans(),
    index=st.integers(0, 3),
)
def test_making_a_pod_changes_neither_the_job_nor_other_pods(plugins: set[str], before: bool, index: int) -> None:
    container = {"name": "head", "env": [{"name": "E", "value": "e"}], "ports": [{"containerPort": 1}]}
    spec = {"containers": [container], "volumes": [{"name": "v", "emptyDir": {}}]}
    if before:
        spec["initContainers"] = [{"name": "i", "env": [{"name": "E", "value": "e"}]}]
    tasks = (task("master", 1, spec), task("worker", 4, spec), task("head", 1, spec))
    of = job(*tasks, plugins=dict.fromkeys(sorted(plugins), ()), volumes=VOLUMES)
    written = json.dumps(of)
    first = pod_of(of, "worker", 0)
    kept = json.dumps(first)
    pod_of(of, "worker", index), pod_of(of, "head"), pod_of(of, "master")
    assert json.dumps(of) == written
    assert json.dumps(first) == kept
    assert json.dumps(pod_of(of, "worker", 0)) == kept
