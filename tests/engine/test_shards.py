"""Schedulers share out the nodes of a cluster by NodeShards."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
import numpy as np
import pytest

from kilauea.api import agents
from kilauea.api.meta import Object
from kilauea.engine.events import Changed, Gone
from kilauea.engine.model.shards import HARD, NONE, SOFT, Sharding
from kilauea.engine.plan import Plan
from kilauea.engine.session import Session
from kilauea.engine.state import ClusterState
from support.builders import (
    PLAIN,
    Data,
    Objects,
    binds,
    conf,
    group,
    node,
    nominations,
    pending,
    plan_in,
    pod,
    priority_class,
    with_queue,
)
from support.probes import inside

PREEMPT = conf("allocate, preempt", ["priority", "gang"], ["predicates"])
OUTSIDE = "node isn't in scheduler node shard"


def shard(name: str, desired: Sequence[str] = (), in_use: Sequence[str] = ()) -> Object:
    data = {"kind": "NodeShard", "metadata": {"name": name}, "spec": {"nodesDesired": list(desired)}}
    return msgspec.convert({**data, "status": {"nodesInUse": list(in_use)}}, agents.NodeShard)


def state(mode: str, *objects: Objects, claims: bool = False, name: str = "volcano") -> ClusterState:
    made = ClusterState(sharding=Sharding(mode, name, claims))
    for obj in with_queue(objects):
        made.apply(Changed(obj))
    return made


def decided(mode: str, *objects: Objects, conf: Data = PLAIN, claims: bool = False) -> Plan:
    return plan_in(state(mode, *objects, claims=claims), conf)


def gang(name: str, *pods: Object, minimum: int | None = None, priority: str | None = None) -> list[Object]:
    return [group(name, minimum=len(pods) if minimum is None else minimum, priority=priority), *pods]


def holding(name: str, on: str, priority: int) -> list[Object]:
    """A pod that fills a node."""
    return gang(name, pod(name, name, cpu=4, node=on, priority=priority), minimum=0, priority=f"at-{priority}")


def evictions(plan: Plan) -> set[str]:
    return {eviction.pod.rpartition("/")[2] for eviction in plan.evictions}


NODES = [node("n1"), node("n2"), node("n3")]


@pytest.mark.parametrize(("mode", "chosen"), [(NONE, "n1"), (HARD, "n3"), (SOFT, "n3")])
def test_a_pod_goes_to_the_shard_of_its_scheduler(mode: str, chosen: str) -> None:
    plan = decided(mode, NODES, shard("volcano", ["n3"]), gang("g", pod("p")))
    assert binds(plan) == {"p": chosen}


def test_in_mode_hard_a_full_shard_makes_a_pod_wait_with_the_reason() -> None:
    plan = decided(HARD, NODES, shard("volcano", ["n3"]), gang("g", pod("p", cpu=4), pod("q", cpu=4), minimum=1))
    assert list(binds(plan).values()) == ["n3"]
    (waiting,) = pending(plan).values()
    assert f"2 {OUTSIDE}" in waiting.message


def test_in_mode_soft_a_full_shard_sends_a_pod_elsewhere() -> None:
    plan = decided(SOFT, NODES, shard("volcano", ["n3"]), gang("g", pod("p", cpu=4), pod("q", cpu=4)))
    assert binds(plan) == {"p": "n3", "q": "n1"}


def test_in_mode_soft_a_free_node_elsewhere_comes_before_one_inside_that_will_be_free() -> None:
    leaving = [group("old"), pod("old", "old", cpu=4, node="n3", deleting=True)]
    plan = decided(SOFT, NODES, shard("volcano", ["n3"]), leaving, gang("g", pod("p", cpu=4)))
    assert (binds(plan), nominations(plan)) == ({"p": "n1"}, {})


def test_in_mode_soft_of_nodes_that_will_be_free_one_inside_comes_first() -> None:
    leaving = [[group(n), pod(n, n, cpu=4, node=n, deleting=True)] for n in ("n1", "n2", "n3")]
    plan = decided(SOFT, NODES, shard("volcano", ["n3"]), leaving, gang("g", pod("p", cpu=4)))
    assert nominations(plan) == {"p": "n3"}


CLASSES = [priority_class("at-1", 1), priority_class("at-9", 9)]
URGENT = [*CLASSES, *gang("g", pod("p", cpu=4, priority=9), priority="at-9")]


@pytest.mark.parametrize(("mode", "evicted"), [(NONE, {"low-n3"}), (HARD, {"low-n2"}), (SOFT, {"low-n2"})])
def test_room_is_made_inside_the_shard_first(mode: str, evicted: set[str]) -> None:
    running = [holding(f"low-{name}", name, 1) for name in ("n1", "n2", "n3")]
    plan = decided(mode, NODES, shard("volcano", ["n2"]), running, URGENT, conf=PREEMPT)
    assert evictions(plan) == evicted


@pytest.mark.parametrize(("mode", "evicted"), [(HARD, set()), (SOFT, {"low"})])
def test_room_outside_is_made_in_mode_soft_alone(mode: str, evicted: set[str]) -> None:
    running = [holding("low", "n1", 1), holding("top", "n3", 9)]
    plan = decided(mode, node("n1"), node("n3"), shard("volcano", ["n3"]), running, URGENT, conf=PREEMPT)
    assert evictions(plan) == evicted


def test_a_node_that_another_scheduler_works_on_is_left_to_it() -> None:
    shards = [shard("volcano", ["n1", "n2"]), shard("other", ["n1"], in_use=["n1"])]
    assert binds(decided(HARD, NODES, shards, gang("g", pod("p")))) == {"p": "n2"}


def test_the_live_scheduler_uses_a_node_once_its_status_has_it() -> None:
    waits = decided(HARD, NODES, shard("volcano", ["n1"]), gang("g", pod("p")), claims=True)
    starts = decided(HARD, NODES, shard("volcano", ["n1"], in_use=["n1"]), gang("g", pod("p")), claims=True)
    assert (binds(waits), binds(starts)) == ({}, {"p": "n1"})


def test_of_two_that_took_a_node_at_the_same_time_neither_uses_it_and_the_first_keeps_it() -> None:
    both = [shard("a", ["n1"], in_use=["n1"]), shard("b", ["n1"], in_use=["n1"])]
    first, second = (state(HARD, both, claims=True, name=name).shards for name in ("a", "b"))
    assert not first.usable()
    assert not second.usable()
    assert first.wanted() == {"n1"}
    assert not second.wanted()


def test_a_node_that_is_not_desired_any_more_is_given_up() -> None:
    shards = state(HARD, shard("volcano", ["n2"], in_use=["n1"]), claims=True).shards
    assert not shards.usable()
    assert shards.wanted() == {"n2"}


@pytest.mark.parametrize("mode", [NONE, HARD, SOFT])
def test_gangs_that_are_told_apart_share_what_is_known_of_the_nodes_of_a_shard(mode: str) -> None:
    """Else each gang would have all nodes looked at again."""
    pods = [*gang("a", pod("a-0", "a", role="w"), pod("a-1", "a", role="ps")), *gang("b", pod("b-0", "b", role="w"))]
    pods[0].metadata.annotations = {"volcano.sh/task-topology-affinity": "w,ps"}

    def shared(session: Session) -> bool:
        first, second = (session.evaluation(session.state.tasks[f"ns/{name}-0"]) for name in ("a", "b"))
        assert session.shape_of(session.state.tasks["ns/a-0"]).plain is not None
        return first.share(second)

    tiers = conf("", ["gang"], ["predicates", "task-topology", "nodeorder"])
    assert inside(do=shared, conf=tiers, state=state(mode, NODES, shard("volcano", ["n3"]), pods))


@pytest.mark.parametrize(("mode", "placed"), [(HARD, {}), (SOFT, {"p": "n1"})])
def test_a_missing_shard_is_a_warning(mode: str, placed: dict[str, str]) -> None:
    plan = decided(mode, NODES, shard("other", ["n2"]), gang("g", pod("p")))
    assert binds(plan) == placed
    assert any(
        finding.where == "NodeShard volcano" and "does not exist" in finding.message for finding in plan.findings
    )


def test_shards_and_nodes_come_change_and_go() -> None:
    made = state(HARD, NODES, shard("volcano", ["n1", "n4", "n9"]), shard("other", [], in_use=["n1"]))
    made.settle()
    assert not made.shards.mask(made.nodes).any()
    made.apply(Changed(node("n4")))
    made.settle()
    assert made.shards.mask(made.nodes).tolist() == [False, False, False, True]
    made.apply(Gone("NodeShard", "other"))
    assert made.shards.mask(made.nodes).tolist() == [True, False, False, True]
    made.apply(Gone("Node", "n1"))
    made.settle()
    assert made.shards.mask(made.nodes).tolist() == [False, False, True]
    made.apply(Gone("NodeShard", "volcano"))
    assert not made.shards.known


def test_a_random_split_agrees_with_a_look_at_each_node() -> None:
    rng = np.random.default_rng(3)
    names = [f"n{i}" for i in range(30)]
    for _ in range(20):
        mine, used, theirs = ([n for n in names if rng.random() < 0.5] for _ in range(3))
        made = state(
            HARD, [node(n) for n in names], shard("a", mine, used), shard("b", [], theirs), claims=True, name="a"
        )
        made.settle()
        allowed = [n in mine and n in used and n not in theirs for n in made.nodes.names]
        assert made.shards.mask(made.nodes).tolist() == allowed


def test_shards_that_are_not_asked_for_have_no_effect() -> None:
    plan = decided(NONE, NODES, shard("volcano", [], in_use=["n3"]), gang("g", pod("p")))
    assert binds(plan) == {"p": "n1"}
    assert not plan.findings
