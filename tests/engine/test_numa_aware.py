"""The plugin numa-aware: whole processors on as few NUMA nodes as policies want."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import msgspec
import pytest

from kilauea.api import agents
from kilauea.api.meta import Object
from kilauea.api.numa import DECISION, decision_text, parse_cpuset, parse_decision
from kilauea.engine.events import Changed, Gone
from kilauea.engine.model.numa import Hardware, NumaWish, Place, assign
from kilauea.engine.plan import Plan
from kilauea.engine.session import Session
from kilauea.engine.state import ClusterState
from kilauea.simulator.cluster import SimulatedCluster
from support.builders import (
    NOW,
    Data,
    Objects,
    binds,
    conf,
    flat,
    group,
    node,
    pending,
    plan_in,
    plan_of,
    plugin,
    pod,
    state_of,
    with_queue,
)
from support.probes import inside

POLICY = "volcano.sh/numa-topology-policy"
SINGLE, RESTRICTED, BEST = "single-numa-node", "restricted", "best-effort"
NUMA = conf("allocate, backfill", ["gang"], ["predicates", plugin("numa-aware")])


def mask(text: str) -> int:
    return parse_cpuset(text)


def topology(
    name: str,
    policy: str = SINGLE,
    *,
    numa: int = 2,
    cpus: int = 4,
    free: str | None = None,
    reserved: str = "0",
    manager: str = "static",
    holders: Mapping[str, str] | None = None,
    **spec: Any,
) -> Object:
    """A node of some NUMA nodes, each a socket, with so many processors without hyperthreads."""
    places = {str(i): {"numa": i // cpus, "socket": i // cpus, "core": i} for i in range(numa * cpus)}
    allocations = [
        {"name": pod, "namespace": "ns", "containerAllocations": [{"name": "c", "allocations": {"cpu": held}}]}
        for pod, held in (holders or {}).items()
    ]
    data = {
        "policies": {"CPUManagerPolicy": manager, "TopologyManagerPolicy": policy},
        "resReserved": {"cpu": reserved},
        "numares": {"cpu": {"allocatable": f"0-{numa * cpus - 1}" if free is None else free, "capacity": numa * cpus}},
        "cpuDetail": places,
        "podAllocations": allocations,
    }
    made = {"kind": "Numatopology", "metadata": {"name": name}, "spec": {**data, **spec}}
    return msgspec.convert(made, agents.Numatopology)


def wanting(name: str = "p", policy: str = SINGLE, *cpus: int | str, **more: Any) -> Object:
    """A pod of class Guaranteed whose containers want so many processors."""
    containers = [
        {"name": f"c{i}", "resources": {"limits": {"cpu": c, "memory": "1Gi"}, "requests": {"cpu": c, "memory": "1Gi"}}}
        for i, c in enumerate(cpus or (4,))
    ]
    marks = {**({POLICY: policy} if policy else {}), **more.pop("annotations", {})}
    return pod(name, containers=containers, annotations=marks, **more)


def decide(*objects: Objects) -> Plan:
    return plan_of(node("n1", cpu=8), group(), *objects, conf=NUMA)


def told(plan: Plan) -> str:
    message = pending(plan)["p"].message
    assert message.startswith("0/1 nodes are unavailable: 1 ")
    return message.removeprefix("0/1 nodes are unavailable: 1 ").removesuffix(".")


# --- which nodes


@pytest.mark.parametrize(
    ("numa", "wish", "reason"),
    [
        pytest.param([], wanting(), "numa info is empty", id="no Numatopology"),
        pytest.param([topology("n1", manager="none")], wanting(), "cpu manager policy isn't static", id="manager"),
        pytest.param(
            [topology("n1", RESTRICTED)],
            wanting(),
            "task topology policy[single-numa-node] is different with node[restricted]",
            id="another policy",
        ),
        pytest.param([topology("n1", cpuDetail={})], wanting(), "no topo information", id="no processors"),
        pytest.param([topology("n1", free="")], wanting(), "cpu allocatable map is empty", id="none is free"),
        pytest.param([topology("n1")], wanting("p", SINGLE, 5), "container c0 cannot be assigned", id="too many"),
        pytest.param(
            [topology("n1")], wanting("p", SINGLE, 3, 3, 2), "container c2 cannot be assigned by numa", id="the third"
        ),
        pytest.param([topology("n1")], wanting("p", "", 5), "container 1 cannot be assigned by numa", id="by the node"),
        pytest.param([topology("n1")], wanting("p", "any"), "task topology policy[any] is different", id="no policy"),
    ],
)
def test_a_node_is_refused_with_the_reason(numa: list[Object], wish: Object, reason: str) -> None:
    assert told(decide(numa, wish)).startswith(reason)


@pytest.mark.parametrize(
    ("numa", "wish"),
    [
        pytest.param([topology("n1")], wanting(), id="four of one NUMA node"),
        pytest.param([topology("n1")], wanting("p", SINGLE, 4, 4), id="each container on its own"),
        pytest.param([topology("n1", RESTRICTED)], wanting("p", RESTRICTED, 5), id="more than one could have"),
        pytest.param([topology("n1", BEST, free="0-2,4-6")], wanting("p", BEST, 4), id="best effort takes any"),
        pytest.param([], wanting("p", "", 4), id="no policy and no Numatopology"),
        pytest.param([topology("n1", manager="none")], wanting("p", "", 5), id="the CPU manager shares"),
        pytest.param([topology("n1", "none")], wanting("p", "", 5), id="the node has no policy"),
        pytest.param([topology("n1")], wanting("p", "none", 3), id="the policy none is not a wish"),
        pytest.param([topology("n1")], wanting("p", SINGLE, "4500m"), id="no whole processors"),
        pytest.param([], pod("p", cpu=5, annotations={POLICY: SINGLE}), id="another class of service"),
    ],
)
def test_a_node_takes_the_pod(numa: list[Object], wish: Object) -> None:
    assert binds(decide(numa, wish)) == {"p": "n1"}


def test_the_worked_example_of_the_specification() -> None:
    machine = Hardware(tuple(Place(i, i // 4, i // 4, i) for i in range(8)), 1)
    assert machine.reserved == mask("0")
    free = machine.all & ~machine.reserved
    four, five = (NumaWish(SINGLE, (("c", count),)) for count in (4, 5))
    for policy in (BEST, RESTRICTED, SINGLE):
        assert assign(machine, policy, free, four) == (0, mask("4-7"), False)
    assert assign(machine, RESTRICTED, free, five).refused == 0
    assert assign(machine, SINGLE, free, five).refused == 1
    left = free & ~mask("4-7")
    assert [assign(machine, policy, left, four) for policy in (RESTRICTED, SINGLE)] == [(1, 0, False)] * 2
    assert assign(machine, BEST, left, four) == (0, 0, True)


@pytest.mark.parametrize(
    ("free", "count", "taken"),
    [
        pytest.param("0-15", 8, "0-3,8-11", id="a whole socket"),
        pytest.param("1-15", 8, "4-7,12-15", id="the one that is whole"),
        pytest.param("0-15", 2, "0,8", id="a whole core"),
        pytest.param("1-15", 2, "1,9", id="a whole core of the fullest socket"),
        pytest.param("1-15", 1, "8", id="what is left of a core"),
        pytest.param("0-15", 3, "0-1,8", id="a core, and one processor more of its socket"),
        pytest.param("0-2", 4, None, id="too few"),
        pytest.param("0-15", 0, "", id="none"),
    ],
)
def test_processors_are_taken_socket_by_socket_and_core_by_core(free: str, count: int, taken: str | None) -> None:
    machine = Hardware(tuple(Place(i, i % 8 // 4, i % 8 // 4, i % 8) for i in range(16)), 0)
    assert machine.take(mask(free), count) == (None if taken is None else mask(taken))


# --- which of them


def test_fewer_numa_nodes_are_better() -> None:
    objects = [node("n1", cpu=8), node("n2", cpu=8), group(), wanting("p", BEST, 4)]
    numa = [topology("n1", BEST, free="0-2,4-6"), topology("n2", BEST)]
    assert binds(plan_of(objects, numa, conf=NUMA)) == {"p": "n2"}


def test_a_node_that_lacks_the_processors_is_the_worst() -> None:
    objects = [node("n1", cpu=8), node("n2", cpu=8), group(), wanting("p", BEST, 4)]
    numa = [topology("n1", BEST, free="0-2"), topology("n2", BEST, free="0-2,4-6")]
    assert binds(plan_of(objects, numa, conf=NUMA)) == {"p": "n2"}


@pytest.mark.parametrize(
    ("frees", "weight", "expected"),
    [
        pytest.param(["0-7", "0-2,4-6", "0-2,4-6"], 1, [50, 0, 0], id="by the number of NUMA nodes"),
        pytest.param(["0-7", "0-7"], 1, [0, 0], id="all are equal"),
        pytest.param(["0-7", "0-2,4-6"], 3, [150, 0], id="the weight"),
    ],
)
def test_scores(frees: list[str], weight: int, expected: list[float]) -> None:
    def scores(session: Session) -> list[float]:
        shape = session.shape_of(session.state.tasks["ns/p"])
        (scorer,) = [s for _, s in session.points.walk("batch_node_score")]
        return [float(x) for x in scorer.function(shape, session.nodes.all())]

    objects = [(node(f"n{i}", cpu=8), topology(f"n{i}", BEST, free=free)) for i, free in enumerate(frees)]
    document = conf("", ["gang", plugin("numa-aware", {"weight": weight})])
    assert inside(objects, group(), wanting("p", BEST, 4), do=scores, conf=document) == expected


# --- the course of a cycle, and of several


def test_processors_are_given_once_in_a_cycle() -> None:
    plan = decide(topology("n1", reserved="500m"), wanting("p", SINGLE, 3), wanting("a", SINGLE, 4), wanting("b"))
    assert sorted(binds(plan)) == ["a", "p"]


def test_what_is_undone_gives_the_processors_back() -> None:
    def try_twice(session: Session) -> list[bool]:
        first, second = (session.state.tasks[f"ns/{name}"] for name in "ap")
        found = []
        for _ in range(3):
            statement = session.statement()
            found.append(session.evaluation(first).choose() is not None)
            statement.allocate(first, 0)
            found.append(session.evaluation(second).choose() is not None)
            statement.discard()
        return found

    objects = [node("n1", cpu=8), group(), topology("n1", free="0-3"), wanting("a"), wanting("p")]
    assert inside(objects, do=try_twice, conf=conf("", ["gang", "numa-aware"])) == [True, False] * 3


def test_the_bind_says_how_many_processors_come_from_which_numa_node() -> None:
    plan = decide(topology("n1", RESTRICTED, reserved="1"), wanting("p", RESTRICTED, 5))
    (bind,) = plan.binds
    assert json.loads(dict(bind.annotations)[DECISION]) == {"numa": {"0": {"cpu": "1"}, "1": {"cpu": "4"}}}


@pytest.mark.parametrize("wish", [pod("p", cpu=4), wanting("p", BEST, 4)])
def test_a_pod_without_processors_of_its_own_gets_no_annotation(wish: Object) -> None:
    (bind,) = decide(topology("n1", BEST, free="0-2"), wish).binds
    assert bind.annotations == ()


HELD = {DECISION: decision_text({0: 4})}


@pytest.mark.parametrize(
    ("numa", "other", "fits"),
    [
        pytest.param(topology("n1", free="0-3"), {"node": "n1", "annotations": HELD}, False, id="not named yet"),
        pytest.param(
            topology("n1", free="4-7", holders={"other": "0-3"}), {"node": "n1", "annotations": HELD}, True, id="named"
        ),
        pytest.param(
            topology("n1", free="0-3", holders={"other": ""}),
            {"node": "n1", "annotations": HELD},
            False,
            id="named without processors",
        ),
        pytest.param(
            topology("n1", free="0-3"),
            {"node": "n1", "annotations": HELD, "phase": "Succeeded"},
            True,
            id="ended",
        ),
        pytest.param(topology("n1", free="0-3"), {"node": "n1", "annotations": {DECISION: "{"}}, True, id="unreadable"),
    ],
)
def test_processors_of_a_pod_stay_taken_until_the_numatopology_names_it(
    numa: Object, other: dict[str, Any], fits: bool
) -> None:
    objects = [node("n1", cpu=16), numa, group(), wanting("other", SINGLE, 4, **other), wanting()]
    assert ("p" in binds(plan_of(objects, conf=NUMA))) is fits


def test_the_next_cycle_knows_what_the_last_one_gave() -> None:
    objects = with_queue(flat([node("n1", cpu=16), topology("n1"), group(), wanting("a"), wanting("b"), wanting("p")]))
    state, world = state_of(objects), SimulatedCluster(objects, NOW)
    first = plan_in(state, NUMA)
    for event in world.carry_out(first):
        state.apply(event)
    assert (sorted(binds(first)), plan_in(state, NUMA).binds) == (["a", "b"], ())
    for event in world.remove("Pod", "ns/a"):
        state.apply(event)
    assert list(binds(plan_in(state, NUMA))) == ["p"]


def test_a_numatopology_comes_changes_and_goes() -> None:
    state = state_of(node("n1", cpu=8), group(), wanting())
    assert binds(plan_in(state, NUMA)) == {}
    state.apply(Changed(topology("n1", free="0-2,4-6")))
    assert binds(plan_in(state, NUMA)) == {}
    state.apply(Changed(topology("n1")))
    assert binds(plan_in(state, NUMA)) == {"p": "n1"}
    state.apply(Gone("Numatopology", "n1"))
    assert binds(plan_in(state, NUMA)) == {}


# --- objects that cannot be read


@pytest.mark.parametrize(
    ("spec", "problem"),
    [
        ({"cpuDetail": {"x": {}}}, "spec.cpuDetail[x]: invalid"),
        ({"cpuDetail": {"99999": {}}}, "spec.cpuDetail[99999]: invalid"),
        ({"cpuDetail": {"0": {"numa": -1}}}, "spec.cpuDetail[0]: invalid"),
        ({"cpuDetail": {str(i): {"numa": i} for i in range(9)}}, "more than 8 NUMA nodes"),
        ({"resReserved": {"cpu": "some"}}, "spec.resReserved[cpu]: "),
        (
            {"numares": {"cpu": {"allocatable": "0-99999999"}}},
            '[cpu].allocatable: "0-99999999" is not a set',
        ),
        ({"numares": {"cpu": {"allocatable": "3-1"}}}, 'spec.numares[cpu].allocatable: "3-1" is not a set of cpus'),
        ({"numares": {"cpu": {"allocatable": "a"}}}, 'spec.numares[cpu].allocatable: "a" is not a set'),
    ],
)
def test_a_numatopology_that_cannot_be_read_is_left_out_and_named(spec: Data, problem: str) -> None:
    state: ClusterState = state_of(node("n1", cpu=8), node("n2", cpu=8), group(), wanting(), topology("n2"))
    state.apply(Changed(topology("n1", **spec)))
    assert [problem in p.message for p in state.problems.values()] == [True]
    assert binds(plan_in(state, NUMA)) == {"p": "n2"}


@pytest.mark.parametrize("spec", [None, {}])
def test_an_empty_numatopology_offers_nothing(spec: Data | None) -> None:
    empty = msgspec.convert({"kind": "Numatopology", "metadata": {"name": "n1"}, "spec": spec}, agents.Numatopology)
    assert told(decide(empty, wanting())) == "cpu manager policy isn't static"


def test_a_reservation_of_more_than_there_is_leaves_nothing() -> None:
    assert told(decide(topology("n1", reserved="99"), wanting())) == "cpu allocatable map is empty"


@pytest.mark.parametrize(("text", "cpus"), [("", []), ("0", [0]), ("0-2,8", [0, 1, 2, 8]), (" 1 , 3-4 ", [1, 3, 4])])
def test_sets_of_processors(text: str, cpus: list[int]) -> None:
    assert parse_cpuset(text) == sum(1 << cpu for cpu in cpus)


@pytest.mark.parametrize(
    "text",
    ["", "[]", "{}", '{"numa":[]}', '{"numa":{"x":{"cpu":"1"}}}', '{"numa":{"0":{"cpu":"-1"}}}', '{"numa":{"0":1}}'],
)
def test_an_annotation_of_another_form_says_nothing(text: str) -> None:
    assert parse_decision(text) == {}


def test_a_wrong_weight_is_named() -> None:
    plan = plan_of(node("n1"), conf=conf("allocate", ["gang", plugin("numa-aware", {"weight": "much"})]))
    assert ["weight takes an integer" in str(finding) for finding in plan.findings] == [True]
