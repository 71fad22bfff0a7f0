"""Kubernetes' own PodGroups: pods that name one in `spec.schedulingGroup` are a gang."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from typing import Any

import msgspec
import pytest

from engine.test_topology import hypernode
from kilauea.api.kinds import KUBERNETES_GROUP
from kilauea.api.kubernetes_groups import KubernetesPodGroup
from kilauea.api.meta import Object
from kilauea.api.validate import problems
from kilauea.engine.events import Changed, Gone, Relisted
from kilauea.engine.state import ClusterState
from support.builders import (
    NAMESPACE,
    binds,
    build,
    codes,
    conf,
    group,
    manifest,
    node,
    pending,
    plan_in,
    plan_of,
    pod,
    priority_class,
    queue,
    state_of,
)

QUEUE = "scheduling.volcano.sh/queue-name"
CAPACITY = conf("enqueue, allocate", ["priority", "gang"], ["predicates", "capacity"])
PRIORITY = conf("enqueue, allocate, backfill", ["priority", "gang"], ["predicates"])
PREEMPT = conf("enqueue, allocate, preempt", ["priority", "gang", "conformance"], ["predicates", "nodeorder"])
TOPOLOGY = conf("enqueue, allocate", ["priority", "gang"], ["predicates", "network-topology-aware"])


def kubernetes_group(name: str = "train", minimum: int | None = 2, scheduled: str = "", **spec: Any) -> Object:
    """A PodGroup; without a minimum its policy is basic."""
    policy: dict[str, Any] = {"basic": {}} if minimum is None else {"gang": {"minCount": minimum}}
    metadata: dict[str, Any] = {"name": name, "namespace": NAMESPACE, "labels": spec.pop("labels", {})}
    body = {"schedulingPolicy": policy, **spec}
    conditions = [{"type": "PodGroupScheduled", "status": scheduled}] if scheduled else []
    data = {"kind": KUBERNETES_GROUP, "metadata": metadata, "spec": body, "status": {"conditions": conditions}}
    return msgspec.convert(data, KubernetesPodGroup)


def member(number: int, of: str = "train", **more: Any) -> Object:
    """A pod of such a group."""
    return pod(f"{of}-{number}", "", schedulingGroup={"podGroupName": of}, **more)


def members(count: int, of: str = "train", **more: Any) -> list[Object]:
    return [member(number, of, **more) for number in range(count)]


def queued(obj: Object, name: str) -> Object:
    """The pod with a label that names a queue."""
    data = manifest(obj)
    data["metadata"]["labels"] = {QUEUE: name}
    return build(data)


def test_a_gang_starts_as_a_whole_or_not_at_all() -> None:
    gang = [queue("default"), kubernetes_group(minimum=3), *members(3)]
    assert binds(plan_of(*gang, node("n1", cpu=3), conf=PRIORITY)) == dict.fromkeys(
        ("train-0", "train-1", "train-2"), "n1"
    )
    plan = plan_of(*gang, node("n1", cpu=2), conf=PRIORITY)
    assert binds(plan) == {}
    assert set(codes(plan)) == {"train-0", "train-1", "train-2"}


def test_pods_of_a_basic_group_start_one_by_one() -> None:
    plan = plan_of(queue("default"), kubernetes_group(minimum=None), *members(3), node("n1", cpu=2), conf=PRIORITY)
    assert sorted(binds(plan)) == ["train-0", "train-1"]


def test_pods_beyond_the_minimum_start_as_far_as_there_is_room() -> None:
    plan = plan_of(queue("default"), kubernetes_group(minimum=2), *members(4), node("n1", cpu=3), conf=PRIORITY)
    assert len(binds(plan)) == 3


def test_a_gang_with_too_few_pods_waits_and_says_so() -> None:
    plan = plan_of(queue("default"), kubernetes_group(minimum=3), *members(2), node("n1"), conf=PRIORITY)
    assert codes(plan) == {"train-0": "NotEnoughTasks", "train-1": "NotEnoughTasks"}


def test_pods_whose_group_does_not_exist_wait_and_say_so() -> None:
    plan = plan_of(queue("default"), *members(1), node("n1"), conf=PRIORITY)
    assert pending(plan)["train-0"].message == "pod group ns/k8s:train does not exist"


def test_a_group_of_volcano_of_the_same_name_is_another_one() -> None:
    objects = [queue("q"), queue("default"), group("train", minimum=2), pod("v", "train"), kubernetes_group(minimum=1)]
    plan = plan_of(*objects, member(0), node("n1"), conf=PRIORITY)
    assert binds(plan) == {"train-0": "n1"}
    assert codes(plan) == {"v": "NotEnoughTasks"}


def test_the_annotation_of_volcano_counts_more_than_the_scheduling_group() -> None:
    both = pod("p", "g", schedulingGroup={"podGroupName": "train"})
    state = state_of(kubernetes_group(), group(), both)
    assert state.tasks["ns/p"].group == "ns/g"


def test_a_closed_queue_takes_no_group() -> None:
    closed = queue("default", state="Closed")
    plan = plan_of(closed, kubernetes_group(minimum=2), *members(2), node("n1"), conf=CAPACITY)
    assert set(codes(plan).values()) == {"QueueClosed"}


@pytest.mark.parametrize("order", list(itertools.permutations(range(4))))
def test_the_state_does_not_depend_on_the_order_in_which_objects_come(order: tuple[int, ...]) -> None:
    pods = [queued(member(1, created=1), "b"), queued(member(0, created=2), "a")]
    objects = [kubernetes_group(), *pods, member(2)]
    state = ClusterState()
    for place in order:
        state.apply(Changed(objects[place]))
    state.settle()
    job = state.jobs["ns/k8s:train"]
    assert (job.group, job.queue, job.min_available, sorted(job.tasks)) == (
        *(True, "b", 2),
        [f"ns/train-{number}" for number in range(3)],
    )


def test_a_group_that_is_gone_leaves_its_pods_without_one() -> None:
    state = state_of(kubernetes_group(), *members(1), node("n1"))
    state.apply(Gone(KUBERNETES_GROUP, "ns/train"))
    assert binds(plan_in(state, PRIORITY)) == {}
    state.apply(Relisted(KUBERNETES_GROUP, [kubernetes_group(minimum=1)]))
    state.apply(Changed(queue("default")))
    assert binds(plan_in(state, PRIORITY)) == {"train-0": "n1"}
    state.apply(Relisted(KUBERNETES_GROUP, []))
    state.apply(Gone("Pod", "ns/train-0"))
    assert "ns/k8s:train" not in state.jobs


@pytest.mark.parametrize(
    ("spec", "priorities", "expected"),
    [
        pytest.param({}, (5, 70), 70, id="that of its most important pod"),
        pytest.param({"priorityClassName": "high"}, (5, 70), 1000, id="that of its class"),
        pytest.param({"priorityClassName": "high", "priority": 12}, (5, 70), 12, id="the number in its spec"),
    ],
)
def test_the_priority_of_a_group_is(spec: Mapping[str, Any], priorities: tuple[int, int], expected: int) -> None:
    pods = [member(number, priority=priority) for number, priority in enumerate(priorities)]
    state = state_of(priority_class("high", 1000), kubernetes_group(**spec), *pods)
    state.settle()
    assert state.jobs["ns/k8s:train"].priority == expected


def victims(mode: str, running: int) -> list[str]:
    """The pods that an important pod evicts from a gang with a minimum of two."""
    gang = kubernetes_group(scheduled="True", disruptionMode=mode, priority=1)
    held = [member(number, node="n1", priority=1) for number in range(running)]
    important = [kubernetes_group("vip", 1, priority=100), member(0, "vip", priority=100)]
    plan = plan_of(queue("default"), gang, *held, *important, node("n1", cpu=running), conf=PREEMPT)
    return sorted(eviction.pod for eviction in plan.evictions)


def test_a_pod_beyond_the_minimum_can_be_evicted_alone() -> None:
    assert len(victims("Pod", 3)) == 1


def test_a_group_that_is_disrupted_as_a_whole_loses_no_single_pod() -> None:
    assert victims("PodGroup", 3) == []


def test_a_topology_key_stands_for_the_hypernodes_whose_tier_has_that_name() -> None:
    rack = "example.com/rack"
    nodes = [node(f"n{number}", cpu=2) for number in range(4)]
    racks = [hypernode(f"r{i}", 1, [f"n{2 * i}", f"n{2 * i + 1}"], tierName=rack) for i in range(2)]
    near = kubernetes_group(minimum=4, schedulingConstraints={"topology": [{"key": rack}]})
    plan = plan_of(queue("default"), near, *members(4), *nodes, *racks, conf=TOPOLOGY)
    assert set(binds(plan).values()) in ({"n0", "n1"}, {"n2", "n3"})
    plan = plan_of(queue("default"), near, *members(4), *nodes, conf=TOPOLOGY)
    assert binds(plan) == {}
    assert f"names tier '{rack}'" in pending(plan)["train-0"].message


def test_a_group_of_groups_is_left_out_with_the_field_that_is_not_supported() -> None:
    state = state_of(kubernetes_group(parentCompositePodGroupName="all"), *members(2), node("n1"), queue("default"))
    (problem,) = state.problems.values()
    assert problem.kind == KUBERNETES_GROUP
    assert problem.message.startswith('spec.parentCompositePodGroupName: "all": groups of groups are not supported')
    assert binds(plan_in(state, PRIORITY)) == {}


@pytest.mark.parametrize(
    ("spec", "field"),
    [
        ({"schedulingPolicy": {}}, "spec.schedulingPolicy"),
        ({"schedulingPolicy": {"basic": {}, "gang": {"minCount": 1}}}, "spec.schedulingPolicy"),
        ({"schedulingPolicy": {"gang": {"minCount": 0}}}, "spec.schedulingPolicy.gang.minCount"),
        ({"schedulingConstraints": {"topology": [{"key": ""}]}}, "spec.schedulingConstraints.topology[0].key"),
        ({"priority": -(2**31) - 1}, "spec.priority"),
    ],
)
def test_an_invalid_group_is_refused_with_the_name_of_the_field(spec: Mapping[str, Any], field: str) -> None:
    assert [path for path, _ in problems(kubernetes_group(**spec))] == [field]


def test_a_disruption_mode_of_a_later_version_is_read() -> None:
    state = state_of(kubernetes_group(disruptionMode={"all": {}}), kubernetes_group("b", disruptionMode={"single": {}}))
    assert [state.jobs[f"ns/k8s:{name}"].whole for name in ("train", "b")] == [True, False]


def test_pods_of_another_scheduler_in_such_a_group_take_room_but_are_no_part_of_the_gang() -> None:
    foreign = [member(number, node="n1", schedulerName="another") for number in range(2)]
    state = state_of(queue("default"), kubernetes_group(minimum=2), *foreign, member(2), node("n1", cpu=4))
    plan = plan_in(state, PRIORITY)
    assert codes(plan) == {"train-2": "NotEnoughTasks"}
    assert state.queues["default"].allocated.get("cpu", 0) == 0
    assert state.nodes.used[state.axis.rows["cpu"], 0] == 2000
