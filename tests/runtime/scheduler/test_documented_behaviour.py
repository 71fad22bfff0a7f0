"""What the seeds tell of a scheduler at work: figures that are exported, what is told, what is watched and kept."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kilauea.api.ports import ApiError
from kilauea.runtime.inputs.resources import GROUPS_OF_PODS, PODS, QUEUES, RESOURCES
from support.live_world import Live, live_world

CLASSES = RESOURCES["PriorityClass"]
TREE = """
actions: "enqueue, allocate"
tiers:
- plugins: [{name: priority}, {name: gang}]
- plugins: [{name: capacity, enabledHierarchy: true}, {name: predicates}, {name: nodeorder}]
"""
WATCHED = """
Pod Node PodGroup Queue PersistentVolume PersistentVolumeClaim StorageClass PriorityClass ResourceQuota CSINode
CSIDriver CSIStorageCapacity Numatopology
""".split()
"""The kinds that seed 001 lists."""


@pytest.fixture
def live() -> Iterator[Live]:
    """One node of eight cores."""
    with live_world() as made:
        made.node("n1", cpu="8")
        yield made


@pytest.fixture
def tree(tmp_path: Path) -> Iterator[Live]:
    """One node of eight cores for a team with two queues."""
    path = tmp_path / "conf.yaml"
    path.write_text(TREE)
    with live_world(str(path)) as made:
        made.node("n1", cpu="8")
        made.queue("root")
        made.queue("team", parent="root", deserved={"cpu": "6"}, capability={"cpu": "6"})
        made.queue("training", parent="team", deserved={"cpu": "4"}, capability={"cpu": "5"})
        made.queue("inference", parent="team", deserved={"cpu": "2"}, guarantee={"resource": {"cpu": "2"}})
        made.start()
        yield made


def cores(live: Live, figure: str, *queues: str) -> list[float]:
    """A figure of queues as it is exported, in cores."""
    found = [live.figure(f"volcano_queue_{figure}_milli_cpu", queue_name=name) for name in queues]
    return [(value or 0) / 1000 for value in found]


def test_the_figures_of_every_queue_of_the_tree_are_exported(tree: Live) -> None:
    tree.group("model", 2, queue="training")
    tree.wait(3)
    everyone = ("root", "team", "training", "inference")
    assert cores(tree, "deserved", *everyone) == [8, 6, 4, 2]
    assert cores(tree, "real_capacity", *everyone) == [8, 6, 4, 6], "two of the team's six are kept free for inference"
    assert cores(tree, "allocated", *everyone) == [2, 2, 2, 0]
    assert cores(tree, "request", *everyone) == [2, 2, 2, 0]
    shares = [tree.figure("volcano_queue_share", queue_name=name) for name in everyone]
    assert shares == [0.25, pytest.approx(1 / 3), 0.5, 0]


def test_metrics_of_a_queue_and_its_ancestors_follow_what_starts_and_ends(tree: Live) -> None:
    path = ("root", "team", "training")
    for size, held in ((1, 1), (3, 4)):
        tree.group(f"g{size}", size, queue="training")
        tree.wait(3)
        assert cores(tree, "allocated", *path) == [held] * 3
    for number in range(3):
        tree.delete(PODS, f"g3-{number}")
    tree.wait(3)
    assert cores(tree, "allocated", *path) == [1] * 3
    assert tree.figure("volcano_queue_share", queue_name="training") == 0.25


def test_a_group_that_is_refused_admission_is_told_so_by_an_event(tree: Live) -> None:
    tree.group("model", 5, pods=0, queue="training", minResources={"cpu": "5"})
    tree.wait(4)
    assert tree.get(GROUPS_OF_PODS, "model")["status"].get("phase", "Pending") == "Pending"
    assert tree.reasons("PodGroup", "model") == ["QueueQuotaInsufficient"]
    assert tree.condition(GROUPS_OF_PODS, "model", "Unschedulable")["message"].endswith("(requested 5, available 4)")


def test_the_kinds_that_the_seed_lists_are_listed_and_watched(live: Live) -> None:
    live.start()
    live.wait(1)
    targets = [target for method, target in live.wire.sent if method == "GET"]
    for kind in WATCHED:
        resource = RESOURCES[kind]
        assert any(f"/{resource.plural}" in target for target in targets), kind
        assert live.scheduler.not_ready() == ""


SPEC: dict[str, Any] = {
    "weight": 3,
    "priority": 7,
    "type": "batch",
    "parent": "root",
    "reclaimable": False,
    "capability": {"cpu": "8", "memory": "16Gi"},
    "deserved": {"cpu": "4"},
    "guarantee": {"resource": {"cpu": "2"}},
    "extendClusters": [{"name": "far", "weight": 1, "capacity": {"cpu": "100"}}],
    "affinity": {
        "nodeGroupAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": ["fast"]},
        "nodeGroupAntiAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": ["old"]},
    },
}


def test_a_queue_keeps_every_field_that_the_seed_lists(live: Live) -> None:
    live.queue("q", **SPEC)
    assert live.get(QUEUES, "q")["spec"].items() >= SPEC.items()
    status: dict[str, Any] = {"state": "Closing", "allocated": {"cpu": "1"}, "reservation": {"nodes": ["n1"]}}
    status |= {"unknown": 1, "pending": 2, "running": 3, "inqueue": 4, "completed": 5}
    live.patch(QUEUES, "q", {"status": status}, "status")
    assert live.get(QUEUES, "q")["status"] == status


def test_a_queue_is_in_one_of_four_states_and_takes_work_only_if_it_is_open(live: Live) -> None:
    live.start()
    for state in ("Open", "Closing", "Closed", "Unknown"):
        name = state.lower()
        live.queue(name)
        live.patch(QUEUES, name, {"status": {"state": state}}, "status")
        live.group(f"in-{name}", 1, queue=name)
    live.wait(3)
    assert {name: live.node_of(f"in-{name}-0") for name in ("open", "closing", "closed", "unknown")} == {
        "open": "n1",
        "closing": "",
        "closed": "",
        "unknown": "",
    }
    with pytest.raises(ApiError, match='Unsupported value: "Ajar"'):
        live.patch(QUEUES, "open", {"status": {"state": "Ajar"}}, "status")


def test_a_pod_has_the_priority_of_the_class_that_it_names(live: Live) -> None:
    live.create(CLASSES, "high", value=100, preemptionPolicy="Never")
    pod = live.pod("p", priorityClassName="high")
    assert (pod["spec"]["priority"], pod["spec"]["preemptionPolicy"]) == (100, "Never")
    with pytest.raises(ApiError, match="no PriorityClass with name higher was found"):
        live.pod("q", priorityClassName="higher")


def test_a_class_that_is_the_default_counts_for_pods_that_name_none(live: Live) -> None:
    assert live.pod("before")["spec"]["priority"] == 0
    live.create(CLASSES, "usual", value=10, globalDefault=True)
    spec = live.pod("after")["spec"]
    assert (spec["priorityClassName"], spec["priority"]) == ("usual", 10)


def test_a_new_cluster_has_the_two_classes_of_the_system(live: Live) -> None:
    values = {name: live.get(CLASSES, name)["value"] for name in ("system-cluster-critical", "system-node-critical")}
    assert values == {"system-cluster-critical": 2_000_000_000, "system-node-critical": 2_000_001_000}


def test_a_task_goes_from_pending_to_running_to_its_end_and_each_step_is_counted(live: Live) -> None:
    live.group("train", 3, pods=2)
    live.start()
    live.wait(3)
    assert [live.node_of(f"train-{number}") for number in range(2)] == ["", ""], "what was tried in vain is undone"
    live.pod("train-2", group="train")
    live.wait(3)
    assert {live.node_of(f"train-{number}") for number in range(3)} == {"n1"}, "allocated, bound"
    assert live.get(QUEUES, "default")["status"]["allocated"]["cpu"] == "3"
    for number in range(3):
        live.phase(f"train-{number}", "Running")
    live.wait(3)
    assert live.get(GROUPS_OF_PODS, "train")["status"]["running"] == 3
    for number, phase in enumerate(("Succeeded", "Failed", "Succeeded")):
        live.phase(f"train-{number}", phase)
    live.wait(3)
    status = live.get(GROUPS_OF_PODS, "train")["status"]
    assert (status["succeeded"], status["failed"], status["phase"]) == (2, 1, "Completed")
    assert not live.get(QUEUES, "default")["status"].get("allocated"), "an ended task gives its room back"
