"""Who loses first to reclaim in a tree of queues: those nearest to the preemptor, on whichever node they run."""

from __future__ import annotations

import pytest

from support.builders import Data, Objects, conf, group, node, plan_of, plugin, pod, queue


def tree(action: str) -> Data:
    """A configuration with a tree of queues."""
    return conf(
        f"enqueue, allocate, {action}",
        [plugin("gang", enableReclaimable=False, enableJobStarving=False), "priority"],
        [plugin("capacity", enableHierarchy=True), "predicates", "nodeorder"],
    )


def holder(name: str, of: str, node_name: str, count: int, cpu: int) -> list[Objects]:
    """A group that runs with so many pods on a node, in a queue that deserves nothing."""
    pods = [pod(f"{name}-{i}", name, cpu=cpu, node=node_name) for i in range(count)]
    return [group(name, of, phase="Running"), *pods]


@pytest.mark.parametrize("action", ["reclaim", "gangreclaim"])
@pytest.mark.parametrize(("near", "far"), [("n1", "n2"), ("n2", "n1")])
def test_a_sibling_loses_two_pods_before_a_cousin_on_another_node_loses_one(near: str, far: str, action: str) -> None:
    """Queue a1 is below what it deserves; its sibling a2 and the first-level queue c both hold what they do not."""
    queues = [
        queue("root"),
        queue("a", parent="root", deserved={"cpu": 4}),
        queue("c", parent="root", deserved={"cpu": 0}),
        queue("a1", parent="a", deserved={"cpu": 4}),
        queue("a2", parent="a", deserved={"cpu": 0}),
    ]
    running = [holder("sibling", "a2", near, 2, 2), holder("cousin", "c", far, 1, 4)]
    claim = [group("claim", "a1", phase="Inqueue"), pod("claim-0", "claim", cpu=4)]
    plan = plan_of(node("n1", cpu=4), node("n2", cpu=4), queues, running, claim, conf=tree(action))
    assert sorted(eviction.pod for eviction in plan.evictions) == ["ns/sibling-0", "ns/sibling-1"]
    assert [(n.pod, n.node) for n in plan.nominations] == [("ns/claim-0", near)]
