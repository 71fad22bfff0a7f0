"""The manifests of `docs/howto/operators.md`: the pods that an operator makes of each are a gang.

The operators do not run here, but in `tests/cluster/test_howto_operators.py`. What they make of a manifest is written
down for each kind in `OPERATORS`: the pods of its templates, with the metadata and the spec that these have.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

import kilauea

PAGE = Path(__file__).parents[1] / "docs/howto/operators.md"
Obj = dict[str, Any]
Template = Mapping[str, Any]


def _job_set(spec: Obj) -> Iterator[tuple[Template, int]]:
    for each in spec["replicatedJobs"]:
        yield each["template"]["spec"]["template"], each["replicas"] * each["template"]["spec"]["parallelism"]


def _leader_worker_set(spec: Obj) -> Iterator[tuple[Template, int]]:
    workers = spec["leaderWorkerTemplate"]
    yield workers["workerTemplate"], spec["replicas"] * workers["size"]


def _replica_specs(field: str) -> Callable[[Obj], Iterator[tuple[Template, int]]]:
    def templates(spec: Obj) -> Iterator[tuple[Template, int]]:
        for each in spec[field].values():
            yield each["template"], each["replicas"]

    return templates


def _ray_cluster(spec: Obj) -> Iterator[tuple[Template, int]]:
    yield spec["headGroupSpec"]["template"], 1
    for each in spec["workerGroupSpecs"]:
        yield each["template"], each["replicas"]


def _spark_application(spec: Obj) -> Iterator[tuple[Template, int]]:
    for part, count in (("driver", 1), ("executor", spec["executor"]["instances"])):
        given = spec[part]
        container = {"name": part, "image": spec["image"], "resources": {"requests": {"cpu": str(given["cores"])}}}
        pod = {"schedulerName": given["schedulerName"], "containers": [container]}
        yield {"metadata": {"annotations": given["annotations"]}, "spec": pod}, count


def _workflow(spec: Obj) -> Iterator[tuple[Template, int]]:
    templates = {each["name"]: each for each in spec["templates"]}
    for each in templates[spec["entrypoint"]]["steps"][0]:
        container = {"name": "main", **templates[each["template"]]["container"]}
        pod = {"schedulerName": spec["schedulerName"], "containers": [container]}
        yield {"metadata": spec["podMetadata"], "spec": pod}, int(each["withSequence"]["count"])


OPERATORS: dict[str, Callable[[Obj], Iterator[tuple[Template, int]]]] = {
    "JobSet": _job_set,
    "LeaderWorkerSet": _leader_worker_set,
    "PyTorchJob": _replica_specs("pytorchReplicaSpecs"),
    "MPIJob": _replica_specs("mpiReplicaSpecs"),
    "RayCluster": _ray_cluster,
    "RayJob": lambda spec: _ray_cluster(spec["rayClusterSpec"]),
    "SparkApplication": _spark_application,
    "Workflow": _workflow,
}


def examples() -> dict[str, tuple[Obj, Obj]]:
    """The pod group and the manifest of each operator on the page, by kind of the manifest."""
    found = {}
    for text in re.findall(r"^```yaml\n(.*?)^```$", PAGE.read_text(), re.M | re.S):
        group, work = yaml.safe_load_all(text)
        assert group["kind"] == "PodGroup", text
        found[work["kind"]] = (group, work)
    return found


def cluster(kind: str, cpus: int) -> tuple[list[Obj], set[str]]:
    """The objects on a node with so many cpus, and the names of the pods."""
    group, work = examples()[kind]
    offer = {"cpu": str(cpus), "memory": "64Gi", "pods": "110"}
    objects: list[Obj] = [
        {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n"}, "status": {"allocatable": offer}},
        group,
    ]
    templates = [template for template, count in OPERATORS[kind](work["spec"]) for _ in range(count)]
    for number, template in enumerate(templates):
        metadata = {"name": f"p-{number}", "namespace": "default", **template["metadata"]}
        objects.append({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": dict(template["spec"])})
    return objects, {f"default/p-{number}" for number in range(len(templates))}


def test_the_page_has_an_example_for_each_operator() -> None:
    assert examples().keys() == OPERATORS.keys()


@pytest.mark.parametrize("kind", OPERATORS)
def test_the_pods_of_an_operator_start_together_or_not_at_all(kind: str) -> None:
    count = len(cluster(kind, 1)[1])
    objects, pods = cluster(kind, count)
    assert {bind.pod for bind in kilauea.plan(objects).binds} == pods
    objects, pods = cluster(kind, count - 1)
    plan = kilauea.plan(objects)
    assert plan.binds == ()
    assert {each.pod for each in plan.pending} == pods
