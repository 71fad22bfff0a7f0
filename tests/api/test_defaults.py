"""What is filled in for objects from files, and what is left as it is."""

from __future__ import annotations

import copy
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kilauea.api.core import Node, Pod
from kilauea.api.defaults import fill_in
from kilauea.api.meta import ObjectMeta
from kilauea.api.scheduling import PodGroup, PriorityClass, Queue


def pod(name: str = "a", **spec: Any) -> Pod:
    return msgspec.convert({"kind": "Pod", "metadata": {"name": name}, "spec": spec}, Pod)


def priority_class(name: str, value: int, default: bool | None = None, policy: str | None = None) -> PriorityClass:
    return PriorityClass(metadata=ObjectMeta(name=name), value=value, global_default=default, preemption_policy=policy)


HIGH = priority_class("high", 1000, policy="Never")
USUAL = priority_class("usual", 10, default=True)


def test_namespaced_objects_get_the_default_namespace_and_others_none() -> None:
    a_pod, group = pod(), PodGroup(metadata=ObjectMeta(name="g", namespace="ns"))
    node, queue = Node(metadata=ObjectMeta(name="n")), Queue(metadata=ObjectMeta(name="q"))
    fill_in([a_pod, group, node, queue])
    assert [obj.metadata.namespace for obj in (a_pod, group, node, queue)] == ["default", "ns", None, None]


def test_uids_are_made_of_names() -> None:
    a_pod, group, node = pod("a"), PodGroup(metadata=ObjectMeta(name="g")), Node(metadata=ObjectMeta(name="n"))
    other = pod("b")
    other.metadata.namespace = "ns"
    fill_in([a_pod, other, group, node])
    assert [obj.metadata.uid for obj in (a_pod, other, group, node)] == ["default-a", "ns-b", "g", "n"]


@pytest.mark.parametrize("field", ["containers", "initContainers"])
def test_requests_that_are_absent_equal_the_limits(field: str) -> None:
    resources = {"requests": {"cpu": "1"}, "limits": {"cpu": "2", "memory": "1Gi"}}
    spec: dict[str, Any] = {field: [{"resources": resources}, {"resources": {"limits": {"cpu": "3"}}}, {}]}
    a_pod = pod(**spec)
    fill_in([a_pod])
    containers = (a_pod.spec.containers or []) + (a_pod.spec.init_containers or [])
    requests = [each.resources.requests if each.resources else None for each in containers]
    assert requests == [{"cpu": "1", "memory": "1Gi"}, {"cpu": "3"}, None]
    assert containers[0].resources is not None
    assert containers[0].resources.limits == {"cpu": "2", "memory": "1Gi"}


@pytest.mark.parametrize(
    ("spec", "classes", "priority", "policy"),
    [
        pytest.param({"priorityClassName": "high"}, [HIGH, USUAL], 1000, "Never", id="the class that the pod names"),
        pytest.param({}, [HIGH, USUAL], 10, None, id="the default class"),
        pytest.param({}, [HIGH], 0, None, id="no default class"),
        pytest.param({"priorityClassName": "system-node-critical"}, [], 2_000_001_000, None, id="a system class"),
        pytest.param({"priorityClassName": "high", "priority": 5}, [HIGH], 5, "Never", id="a priority that is set"),
        pytest.param({"priority": 0}, [USUAL], 0, None, id="a priority of zero that is set"),
        pytest.param(
            {"priorityClassName": "high", "preemptionPolicy": "PreemptLowerPriority"},
            [HIGH],
            1000,
            "PreemptLowerPriority",
            id="a policy that is set",
        ),
        pytest.param({"priorityClassName": "none"}, [USUAL], 0, None, id="a class that does not exist"),
        pytest.param(
            {}, [USUAL, priority_class("lower", 3, default=True)], 3, None, id="the lowest of several default classes"
        ),
    ],
)
def test_priority_comes_from(
    spec: dict[str, Any], classes: list[PriorityClass], priority: int, policy: str | None
) -> None:
    for objects in ([pod(**spec), *classes], [*classes, pod(**spec)]):
        objects = copy.deepcopy(objects)
        fill_in(objects)
        (found,) = [obj for obj in objects if isinstance(obj, Pod)]
        assert (found.spec.priority, found.spec.preemption_policy) == (priority, policy)


def test_a_pod_of_the_default_class_names_it() -> None:
    a_pod, with_priority = pod(), pod("b", priority=1)
    fill_in([a_pod, with_priority, copy.deepcopy(USUAL)])
    assert (a_pod.spec.priority_class_name, with_priority.spec.priority_class_name) == ("usual", None)


def test_a_class_that_does_not_exist_is_a_warning_that_names_pod_and_class() -> None:
    assert fill_in([pod(priorityClassName="hihg"), pod("b"), pod("c", priorityClassName="x", priority=3)]) == [
        'Pod default/a: spec.priorityClassName: there is no PriorityClass "hihg", so the priority is 0: '
        "add the class or correct the name"
    ]


def test_nothing_that_is_set_is_touched() -> None:
    complete = pod(
        priority=1,
        priorityClassName="high",
        preemptionPolicy="PreemptLowerPriority",
        schedulerName="volcano",
        containers=[{"resources": {"requests": {"cpu": "1"}, "limits": {"cpu": "2"}}}],
    )
    complete.metadata = ObjectMeta(name="a", namespace="ns", uid="u")
    before = copy.deepcopy(complete)
    assert fill_in([complete, copy.deepcopy(HIGH), copy.deepcopy(USUAL)]) == []
    assert complete == before


LISTS = st.dictionaries(st.sampled_from(["cpu", "memory", "a.com/x"]), st.sampled_from(["1", "2"]), max_size=3)


@given(
    st.lists(
        st.fixed_dictionaries(
            {},
            optional={
                "priority": st.integers(0, 3),
                "priorityClassName": st.sampled_from(["high", "usual", "none", ""]),
                "containers": st.lists(
                    st.fixed_dictionaries(
                        {"resources": st.fixed_dictionaries({}, optional={"requests": LISTS, "limits": LISTS})}
                    ),
                    max_size=2,
                ),
            },
        ),
        max_size=4,
    )
)
def test_filling_in_twice_changes_no_more_than_once(specs: list[dict[str, Any]]) -> None:
    objects = [*(pod(f"p{i}", **spec) for i, spec in enumerate(specs)), copy.deepcopy(HIGH), copy.deepcopy(USUAL)]
    fill_in(objects)
    once = copy.deepcopy(objects)
    assert fill_in(objects) == []
    assert objects == once
    assert all(isinstance(obj.spec.priority, int) for obj in objects if isinstance(obj, Pod))
