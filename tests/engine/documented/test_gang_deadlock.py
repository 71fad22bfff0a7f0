"""Two jobs of four pods and a cluster of four GPUs, as the text on concepts (seed 002) tells of deadlocks."""

from __future__ import annotations

from collections import Counter

import pytest

from kilauea.engine.conf import DEFAULT_CONF
from kilauea.engine.events import Changed, Gone
from kilauea.engine.plan import Plan
from kilauea.engine.state import ClusterState
from support.builders import GPU, Data, binds, conf, gang, node, nominations, plan_in, plugin, pod, queue, state_of
from support.probes import full

FLAT = conf("enqueue, allocate, backfill", ["priority", "gang"], ["predicates", "capacity", "nodeorder"])
TREE = conf(
    "enqueue, allocate, reclaim, backfill, preempt",
    ["priority", "gang"],
    ["predicates", plugin("capacity", enableHierarchy=True), "nodeorder"],
)
CONFS = [pytest.param(DEFAULT_CONF, id="default"), pytest.param(FLAT, id="flat"), pytest.param(TREE, id="tree")]


def cluster(nodes: int) -> ClusterState:
    """Four GPUs on so many nodes, and the two jobs."""
    jobs = [gang(name, 4, gpu=1, phase="Pending", created=age) for age, name in enumerate(("one", "two"))]
    return state_of([node(f"n{i}", 16, gpu=4 // nodes) for i in range(nodes)], queue("root"), queue("q"), jobs)


def started(plan: Plan) -> Counter[str]:
    """Pods that start, by job."""
    return Counter(name.split("-", 1)[0] for name in binds(plan))


@pytest.mark.parametrize("nodes", [1, 2, 4])
@pytest.mark.parametrize("chosen", CONFS)
def test_one_job_has_all_four_gpus_and_the_other_none_until_the_first_ends(chosen: Data, nodes: int) -> None:
    state = cluster(nodes)
    first = plan_in(state, chosen)
    assert (started(first), nominations(first), first.evictions) == ({"one": 4}, {}, ())
    assert first.queues["q"].allocated[GPU] == 4000
    for name, on in binds(first).items():
        state.apply(Changed(pod(name, "one", gpu=1, node=on)))
    second = plan_in(state, chosen)
    assert (started(second), nominations(second), second.evictions) == ({}, {}, ())
    assert second.queues["q"].allocated[GPU] == 4000
    for name in binds(first):
        state.apply(Gone("Pod", full(name)))
    assert started(plan_in(state, chosen)) == {"two": 4}


def test_without_gangs_each_job_is_left_with_two() -> None:
    """Both wait forever, and hold all of the GPUs."""
    plan = plan_in(cluster(1), conf("allocate", ["drf"], ["predicates"]))
    assert (started(plan), plan.queues["q"].allocated[GPU]) == ({"one": 2, "two": 2}, 4000)
