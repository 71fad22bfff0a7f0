"""What objects ask of plugins that are not configured: it is ignored, and their conditions say so."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from kilauea.api.scheduling import QueueAffinity
from kilauea.engine.events import Changed, Gone
from kilauea.engine.plan import Condition, Plan
from support.builders import (
    Data,
    Objects,
    binds,
    conf,
    gang,
    group,
    node,
    plan_in,
    plan_of,
    plugin,
    pod,
    queue,
    state_of,
)

BARE = conf("enqueue, allocate", ["gang"], ["predicates"])
V = "volcano.sh/"
HIERARCHY = {V + "hierarchy": "root/a", V + "hierarchy-weights": "1/2"}


def annotated(obj: Any, annotations: Data) -> Any:
    obj.metadata.annotations = {**(obj.metadata.annotations or {}), **annotations}
    return obj


def node_groups(**terms: list[str]) -> Any:
    """A queue that may use some node groups only."""
    made: Any = queue("q")
    required = {kind: {"requiredDuringSchedulingIgnoredDuringExecution": names} for kind, names in terms.items()}
    made.spec.affinity = msgspec.convert(required, QueueAffinity)
    return made


def told_of_queue(plan: Plan) -> list[Condition]:
    return [c for c in plan.queues["q"].conditions if c.type == "WishIgnored"]


@pytest.mark.parametrize(
    ("made", "expected"),
    [
        pytest.param(
            node_groups(nodeGroupAffinity=["g1"]),
            "spec.affinity is ignored, since the configuration does not name plugin nodegroup: "
            "its pods may run on any node group",
            id="node groups",
        ),
        pytest.param(
            node_groups(nodeGroupAntiAffinity=["g2"]),
            "spec.affinity is ignored, since the configuration does not name plugin nodegroup: "
            "its pods may run on any node group",
            id="node groups to avoid",
        ),
        pytest.param(
            annotated(queue("q"), {V + "card.quota": '{"A": 1}'}),
            "annotation volcano.sh/card.quota is ignored, since the configuration does not name plugin capacity-card: "
            "it may use any number of cards",
            id="a quota of cards",
        ),
        pytest.param(
            annotated(queue("q"), HIERARCHY),
            "annotation volcano.sh/hierarchy is ignored, since the configuration does not name plugin drf with "
            "enableHierarchy: it has no place in a tree of weights",
            id="a place in a tree",
        ),
    ],
)
def test_a_queue_whose_wish_nothing_serves_says_so_and_its_jobs_start(made: Any, expected: str) -> None:
    plan = plan_of(node("n1"), made, gang("g", 1, queue="q", phase="Pending"), conf=BARE)
    assert told_of_queue(plan) == [Condition("WishIgnored", "PluginNotConfigured", expected)]
    assert [(f.where, f.code, f.message, f.error) for f in plan.findings] == [
        ("queue q", "PluginNotConfigured", expected, False)
    ]
    assert binds(plan) == {"g-w-0": "n1"}


@pytest.mark.parametrize(
    ("served", "expected"),
    [("drf", 1), (plugin("drf", enableHierarchy=True), 0)],
    ids=["plain drf", "hierarchical drf"],
)
def test_a_place_in_a_tree_is_served_by_hierarchical_drf_alone(served: Any, expected: int) -> None:
    plan = plan_of(node("n1"), annotated(queue("q"), HIERARCHY), conf=conf("allocate", [served]))
    assert (len(told_of_queue(plan)), len(plan.findings)) == (expected, expected)


def test_a_queue_without_wishes_and_one_with_empty_ones_say_nothing() -> None:
    plan = plan_of(node("n1"), node_groups(nodeGroupAffinity=[]), gang("g", 1, queue="q"), conf=BARE)
    assert (told_of_queue(plan), plan.findings) == ([], ())


# --- pod groups


def of_group(plan: Plan, name: str = "g") -> str:
    """What the group is told of its wishes."""
    told = plan.groups.get(f"ns/{name}")
    return told.ignored.message if told and told.ignored else ""


def wishing(annotations: Data, of_pods: Data | None = None, name: str = "g") -> list[Objects]:
    return [annotated(group(name), annotations), annotated(pod(f"{name}-0", name), of_pods or {})]


@pytest.mark.parametrize(
    ("annotations", "field", "served_by"),
    [
        (V + "sla-waiting-time", "annotation volcano.sh/sla-waiting-time", "sla"),
        (V + "revocable-zone", "annotation volcano.sh/revocable-zone", "tdm"),
        (V + "cooldown-time", "annotation volcano.sh/cooldown-time", "cdp"),
        (V + "card.request", "annotation volcano.sh/card.request", "capacity-card"),
    ],
)
def test_a_pod_group_whose_wish_nothing_serves_says_so_until_it_is_served(
    annotations: str, field: str, served_by: str
) -> None:
    objects: list[Objects] = [
        node("n1"),
        queue("q"),
        wishing({annotations: "1h" if "time" in annotations else '{"A": 1}'}),
    ]
    ignored = plan_of(objects, conf=BARE)
    assert of_group(ignored).startswith(f"{field} is ignored, since the configuration does not name plugin {served_by}")
    assert [(f.where, f.code, f.message) for f in ignored.findings] == [
        ("pod group ns/g", "PluginNotConfigured", of_group(ignored))
    ]
    served = plan_of(objects, conf=conf("enqueue, allocate", ["gang"], ["predicates", served_by]))
    assert of_group(served) == ""
    assert [f for f in served.findings if f.code == "PluginNotConfigured"] == []


@pytest.mark.parametrize("key", ["task-topology", "task-topology-affinity", "task-topology-task-order"])
def test_task_topology_is_a_plugin_that_this_version_lacks(key: str) -> None:
    plan = plan_of(node("n1"), wishing({V + key: "ps,worker"}), conf=BARE)
    assert "since the configuration does not name plugin task-topology" in of_group(plan)


def test_a_numa_policy_of_a_pod_is_told_by_its_group_as_long_as_the_pod_is_there() -> None:
    policy = {V + "numa-topology-policy": "single-numa-node"}
    state = state_of(node("n1"), wishing({}, policy))
    told = of_group(plan_in(state, BARE))
    assert told.startswith("annotation volcano.sh/numa-topology-policy of its pods is ignored, since the configuration")
    state.apply(Changed(pod("g-1", "g")))
    assert of_group(plan_in(state, BARE)) == told
    state.apply(Gone("Pod", "ns/g-0"))
    assert of_group(plan_in(state, BARE)) == ""


@pytest.mark.parametrize("policy", ["none", ""])
def test_no_policy_is_no_wish(policy: str) -> None:
    plan = plan_of(node("n1"), wishing({}, {V + "numa-topology-policy": policy}), conf=BARE)
    assert (of_group(plan), plan.findings) == ("", ())


def test_many_groups_with_one_wish_make_one_finding_and_each_has_its_condition() -> None:
    groups = [wishing({V + "cooldown-time": "1h"}, name=f"g{i}") for i in range(5)]
    plan = plan_of(node("n1", cpu=8), groups, conf=BARE)
    assert [f.where for f in plan.findings] == ["pod group ns/g0 and 4 others"]
    assert all(of_group(plan, f"g{i}") for i in range(5))


def test_groups_that_are_completed_say_nothing() -> None:
    done = [annotated(group("g", phase="Completed"), {V + "cooldown-time": "1h"})]
    plan = plan_of(node("n1"), done, pod("g-0", "g", node="n1", phase="Succeeded"), conf=BARE)
    assert (of_group(plan), plan.findings) == ("", ())
