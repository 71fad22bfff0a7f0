"""Gangs that have to be close together in the network: domains, tiers, sub-gangs, faults, order of ranks."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kilauea.api.meta import Object
from kilauea.api.scheduling import PodGroup
from kilauea.api.topology import HyperNode
from kilauea.engine.conf import DEFAULT_CONF
from kilauea.engine.cycle import cycle
from kilauea.engine.events import Changed
from kilauea.engine.model.tasks import Task
from kilauea.engine.plan import Plan
from kilauea.engine.session import Session
from support.builders import (
    NOW,
    Data,
    Objects,
    best_effort,
    binds,
    conf,
    flat,
    node,
    parsed,
    plan_of,
    plugin,
    pod,
    queue,
    state_of,
)
from support.probes import inside, plugin_called

TOPOLOGY = conf(
    "allocate", ["priority", "gang"], ["predicates", ("network-topology-aware", {"weight": 10}), "nodeorder"]
)


def hypernode(name: str, tier: int, nodes: Iterable[str] = (), children: Iterable[str] = (), **member: Any) -> Object:
    members = [{"type": "Node", "selector": {"exactMatch": {"name": n}}} for n in nodes]
    members += [{"type": "HyperNode", "selector": {"exactMatch": {"name": n}}} for n in children]
    members += [{"type": "Node", "selector": {key: value}} for key, value in member.items() if key != "tierName"]
    spec = {"tier": tier, "members": members} | ({"tierName": member["tierName"]} if "tierName" in member else {})
    return msgspec.convert({"kind": "HyperNode", "metadata": {"name": name}, "spec": spec}, HyperNode)


def close(name: str, minimum: int, topology: Mapping[str, Any] | None = None, **spec: Any) -> Object:
    body = {"minMember": minimum, "queue": "q", **spec} | ({"networkTopology": topology} if topology else {})
    data = {
        "kind": "PodGroup",
        "metadata": {"name": name, "namespace": "ns"},
        "spec": body,
        "status": {"phase": "Inqueue"},
    }
    return msgspec.convert(data, PodGroup)


def tree(cpu: int = 8) -> list[Object]:
    """Eight nodes, two under each of the switches s0..s3; s0, s1 under m0, s2, s3 under m1; both under top."""
    nodes = [node(f"n{i}", cpu=cpu) for i in range(8)]
    switches = [hypernode(f"s{i}", 1, [f"n{2 * i}", f"n{2 * i + 1}"]) for i in range(4)]
    middle = [hypernode(f"m{i}", 2, children=[f"s{2 * i}", f"s{2 * i + 1}"]) for i in range(2)]
    return [*nodes, queue("q"), *switches, *middle, hypernode("top", 3, children=["m0", "m1"])]


def workers(name: str, count: int, cpu: int = 4, **more: Any) -> list[Object]:
    return [pod(f"{name}-w-{i}", group=name, cpu=cpu, **more) for i in range(count)]


def planned(*objects: Objects, conf: Any = TOPOLOGY) -> Plan:
    return cycle(state_of(*objects), parsed(conf)[0], NOW)


def switches_of(plan: Plan) -> set[int]:
    return {int(name[1:]) // 2 for name in binds(plan).values()}


HARD1, HARD2 = {"mode": "hard", "highestTierAllowed": 1}, {"mode": "hard", "highestTierAllowed": 2}


def test_a_gang_that_fits_under_one_switch_stays_there() -> None:
    plan = planned(tree(), close("g", 4, HARD1), workers("g", 4))
    assert len(plan.binds) == 4
    assert len(switches_of(plan)) == 1


def test_a_gang_too_large_for_the_allowed_tier_waits_though_the_cluster_has_room() -> None:
    plan = planned(tree(), close("g", 5, HARD1), workers("g", 5))
    assert not plan.binds
    assert {p.code for p in plan.pending} <= {"Unschedulable", "GangWaiting", "NotReached"}


def test_the_closest_tier_that_holds_the_gang_is_taken() -> None:
    plan = planned(tree(), close("g", 6, {"mode": "hard", "highestTierAllowed": 3}), workers("g", 6))
    assert len(plan.binds) == 6
    assert switches_of(plan) in ({0, 1}, {2, 3})


def test_a_closer_domain_that_was_tried_in_vain_rules_no_role_out_in_a_wider_one() -> None:
    """Every switch has the room in sum, and on no two nodes the room for three whole pods."""
    plan = planned(tree(), close("g", 3, HARD2), workers("g", 3, cpu=5, role="w"))
    assert len(plan.binds) == 3


def test_a_soft_wish_is_met_where_there_is_room_and_never_keeps_a_gang_waiting() -> None:
    near = planned(tree(), close("g", 4, {"mode": "soft"}), workers("g", 4))
    far = planned(tree(), close("g", 16, {"mode": "soft"}), workers("g", 16))
    assert len(switches_of(near)) == 1
    assert len(far.binds) == 16


def test_a_tier_can_be_named() -> None:
    named = [hypernode(f"s{i}", 1, [f"n{2 * i}", f"n{2 * i + 1}"], tierName="switch") for i in range(2)]
    nodes = [node(f"n{i}", cpu=8) for i in range(4)]
    plan = planned(
        nodes, queue("q"), named, close("g", 5, {"mode": "hard", "highestTierName": "switch"}), workers("g", 5)
    )
    assert not plan.binds


BARE = conf("allocate", ["gang"], ["predicates"])
OFF = plugin("network-topology-aware", enabledHyperNodeGradient=False)
NO_GRADIENT = conf("allocate", ["gang"], ["predicates", OFF])


@pytest.mark.parametrize(
    "document",
    [
        pytest.param(TOPOLOGY, id="with the plugin"),
        pytest.param(BARE, id="without it"),
        pytest.param(NO_GRADIENT, id="with the plugin switched off where domains are chosen"),
    ],
)
def test_a_hard_wish_holds_whichever_plugins_are_configured(document: Data) -> None:
    hard = {"mode": "hard", "highestTierAllowed": 1}
    small: list[Objects] = [close("g", 4, hard), workers("g", 4)]
    assert len(switches_of(planned(tree(), small, conf=document))) == 1
    assert binds(planned(tree(), close("g", 5, hard), workers("g", 5), conf=document)) == {}
    wider = {"mode": "hard", "highestTierAllowed": 2}
    assert len(binds(planned(tree(), close("g", 5, wider), workers("g", 5), conf=document))) == 5


def test_a_hard_wish_holds_against_a_plugin_that_offers_every_domain() -> None:
    def open_up(session: Session) -> None:
        session.add_hyper_node_gradient_for_job("lax", lambda job, domain, purpose: [[0], list(range(1, 8))])

    def plan_for(tier: int) -> Plan:
        objects: list[Objects] = [close("g", 5, {"mode": "hard", "highestTierAllowed": tier}), workers("g", 5)]
        lax = conf("allocate", ["gang"], ["predicates", "lax"])
        return plan_of(tree(), objects, conf=lax, plugins=[plugin_called("lax", open_up)])

    assert (plan_for(1).findings, binds(plan_for(1))) == ((), {})
    assert len(binds(plan_for(9))) == 5


def test_a_running_gang_grows_inside_its_domain_without_the_plugin_too() -> None:
    hard = {"mode": "hard", "highestTierAllowed": 1}
    running = [pod(f"g-{i}", "g", cpu=4, node="n3") for i in range(2)]
    more = [pod(f"g-{i}", "g", cpu=4) for i in range(2, 6)]
    plan = planned(tree(), close("g", 2, hard), running, more, conf=BARE)
    assert sorted(binds(plan).values()) == ["n2", "n2"]


def test_the_default_configuration_keeps_gangs_close() -> None:
    objects: list[Objects] = [close("g", 3, {"mode": "soft"}), workers("g", 3)]
    assert len(switches_of(planned(tree(), objects, conf=DEFAULT_CONF))) == 1
    assert "network-topology-aware" in [entry["name"] for entry in DEFAULT_CONF["tiers"][1]["plugins"]]


@pytest.mark.parametrize(
    "document", [pytest.param(TOPOLOGY, id="with the plugin"), pytest.param(BARE, id="without it")]
)
@pytest.mark.parametrize(
    ("wish", "expected"),
    [
        pytest.param(
            {"highestTierName": "rack"},
            "its network topology names tier 'rack' (highestTierName); HyperNodes have tiers 1, 2, 3",
            id="a name that no HyperNode has",
        ),
        pytest.param(
            {"highestTierAllowed": 0},
            "its network topology allows tier 0 at most (highestTierAllowed); HyperNodes have tiers 1, 2, 3",
            id="a tier below all",
        ),
    ],
)
def test_a_tier_that_there_is_not_makes_the_group_wait_and_is_named(
    wish: Mapping[str, Any], expected: str, document: Data
) -> None:
    plan = planned(tree(), close("g", 2, {"mode": "hard"} | dict(wish)), workers("g", 2), conf=document)
    assert (binds(plan), {(p.code, p.message) for p in plan.pending}) == ({}, {("NoSuchTier", expected)})
    condition = plan.groups["ns/g"].condition
    assert condition is not None
    assert condition.message.endswith(f"Origin reason is: {expected}")


def test_the_names_that_tiers_have_are_told() -> None:
    rack = hypernode("s1", 1, ["n1"], tierName="rack")
    wish = {"mode": "hard", "highestTierName": "rak"}
    plan = plan_of(node("n1"), queue("q"), rack, close("g", 1, wish), workers("g", 1), conf=BARE)
    assert [p.message for p in plan.pending] == [
        "its network topology names tier 'rak' (highestTierName); HyperNodes have tiers 1 ('rack')"
    ]
    nowhere = plan_of(node("n1"), queue("q"), close("g", 1, wish), workers("g", 1), conf=BARE)
    assert [p.message for p in nowhere.pending] == [
        "its network topology names tier 'rak' (highestTierName); there are no HyperNodes"
    ]


def test_a_gang_that_no_domain_can_hold_is_told_so() -> None:
    plan = planned(tree(), close("g", 5, {"mode": "hard", "highestTierAllowed": 1}), workers("g", 5))
    assert {(p.code, p.message) for p in plan.pending} == {
        (
            "Unschedulable",
            "no HyperNode of tier 1 or below has room for its 5 pods of 4 cpu and 1Gi memory together: "
            "s0 has the most, for 4",
        )
    }


@pytest.mark.parametrize(("cpu", "most"), [(8, 4), (3, 0)])
def test_a_gang_beyond_its_minimum_is_told_how_many_pods_the_plugin_asked_a_domain_to_hold(cpu: int, most: int) -> None:
    plan = planned(tree(cpu), close("g", 1, HARD1), workers("g", 5))
    assert {p.message for p in plan.pending} == {
        "no HyperNode of tier 1 or below has room for its 5 pods of 4 cpu and 1Gi memory together: "
        f"s0 has the most, for {most}"
    }


def test_without_the_plugin_a_gang_beyond_its_minimum_starts_as_far_as_its_domain_has_room() -> None:
    assert len(planned(tree(), close("g", 1, HARD1), workers("g", 5), conf=BARE).binds) == 4


def test_a_domain_that_lacks_room_for_one_pod_is_told_so() -> None:
    plan = planned(tree(), close("g", 1, HARD1), workers("g", 1, cpu=9))
    assert {p.message for p in plan.pending} == {
        "no HyperNode of tier 1 or below has room for its 1 pod of 9 cpu and 1Gi memory: s0 has the most, for 0"
    }


def test_backfill_places_pods_that_ask_for_nothing_outside_the_domain_of_their_gang() -> None:
    nodes = [node("n1", pods=1), node("n2"), queue("q"), hypernode("s1", 1, ["n1"]), hypernode("s2", 1, ["n2"])]
    gang = [close("g", 1, HARD1), pod("a", "g", node="n1")]
    document = conf("allocate, backfill", ["gang"], ["predicates", "network-topology-aware"])
    assert binds(planned(nodes, gang, best_effort("b"), conf=document)) == {"b": "n2"}
    assert binds(planned(nodes, gang, pod("b", "g"), conf=document)) == {}


def test_without_hypernodes_the_plugin_asks_for_no_scores() -> None:
    def asked(session: Session) -> list[bool]:
        shape = session.shape_of(session.state.tasks["ns/p"])
        return [scorer.applies(shape) for _, scorer in session.points.walk("batch_node_score")]

    pods = [close("g", 1), pod("p", "g"), queue("q")]
    document = conf("", ["network-topology-aware"])
    assert inside(node("n1"), pods, do=asked, conf=document) == [False]
    assert inside(node("n1"), hypernode("s", 1, ["n1"]), pods, do=asked, conf=document) == [True]


def test_a_gang_that_runs_in_part_grows_where_it_is() -> None:
    running = [pod("g-w-0", group="g", cpu=4, node="n5")]
    plan = planned(tree(), close("g", 1, HARD1), running, workers("g", 4)[1:])
    assert set(binds(plan).values()) <= {"n4", "n5"}
    assert len(plan.binds) == 3


def test_a_domain_in_use_is_filled_before_an_empty_one() -> None:
    running = [close("r", 1), pod("r-0", group="r", cpu=4, node="n6")]
    plan = planned(tree(), running, close("g", 2, HARD1), workers("g", 2))
    assert switches_of(plan) == {3}


def test_neighbours_in_rank_are_neighbours_on_the_wire() -> None:
    plan = planned(tree(), close("g", 8, HARD2), workers("g", 8))
    found = binds(plan)
    order = [int(found[f"g-w-{i}"][1:]) // 2 for i in range(8)]
    assert order == sorted(order)


def test_a_plugin_that_tells_tasks_apart_is_told_where_the_order_of_ranks_puts_them() -> None:
    told: dict[str, int] = {}
    left: list[str] = []

    def watch(session: Session) -> None:
        def came(task: Task, row: int) -> None:
            told[task.key] = row

        session.add_event_handler("watch", came, lambda task, row: left.append(task.key))

    taken = [pod(f"t{i}", cpu=i, node=f"n{i}", phase="Running") for i in range(1, 4)]
    objects: list[Objects] = [tree(), close("g", 8, HARD2), workers("g", 8, cpu=1), taken]
    watched = conf(
        "allocate",
        ["priority", "gang", "watch"],
        ["predicates", ("network-topology-aware", {"weight": 10}), "nodeorder"],
    )
    plan = plan_of(*objects, conf=watched, plugins=[plugin_called("watch", watch)])
    assert left, "the ranks were in order at once"
    assert {key.partition("/")[2]: f"n{row}" for key, row in told.items()} == binds(plan)
    assert binds(plan) == binds(planned(*objects))
    assert plan.binds == planned(*objects).binds


@pytest.mark.parametrize(
    ("case", "member", "expected"),
    [
        ("a pattern need not match the whole name", {"regexMatch": {"pattern": "n[01]"}}, {"n0", "n1"}),
        ("labels select nodes", {"labelMatch": {"matchLabels": {"rack": "a"}}}, {"n2", "n3"}),
        ("an empty label selector selects none", {"labelMatch": {}}, set()),
    ],
)
def test_members_by_pattern_and_label(case: str, member: dict[str, Any], expected: set[str]) -> None:
    nodes = [node(f"n{i}", labels={"rack": "a"} if i > 1 else {}) for i in range(4)]
    state = state_of(nodes, hypernode("s", 1, **member))
    rows = state.hypernodes.rows[state.hypernodes.numbers["s"]]
    assert {state.nodes.names[row] for row in rows} == expected, case


def faulty() -> dict[str, tuple[list[Object], str, str]]:
    return {
        "a cycle": (
            [hypernode("a", 2, children=["b"]), hypernode("b", 2, children=["a"])],
            "a",
            "cyclic dependency detected: HyperNode a is already in the ancestor chain [a, b]",
        ),
        "two parents": (
            [hypernode("c", 1, ["n0"]), hypernode("p", 2, children=["c"]), hypernode("p2", 2, children=["c"])],
            "p2",
            "HyperNode c already has a parent p, and cannot set another parent p2",
        ),
    }


@pytest.mark.parametrize("case", sorted(faulty()))
def test_a_faulty_hypernode_is_left_out_by_itself(case: str) -> None:
    objects, name, message = faulty()[case]
    faults = state_of(node("n0"), objects).hypernodes.faults
    assert faults[name] == message
    plan = planned(tree(), objects, close("g", 4, HARD1), workers("g", 4))
    assert len(plan.binds) == 4


def test_a_pattern_that_is_none_is_named_and_stops_no_one() -> None:
    state = state_of(tree(), hypernode("bad", 1, regexMatch={"pattern": "("}))
    assert "bad" in state.problems[("HyperNode", "bad")].message
    assert len(state.hypernodes.names) == 8


# --- sub-gangs

ROLE = "volcano.sh/task-spec"


def sub_group(size: int, minimum: int, topology: dict[str, Any] | None = None) -> dict[str, Any]:
    policy = {"name": "part", "subGroupSize": size, "minSubGroups": minimum, "matchLabelKeys": ["part"]}
    return policy | ({"networkTopology": topology} if topology else {})


def parts(sizes: Sequence[int], cpu: int = 4) -> list[Object]:
    return [
        pod(f"g-w-{10 * part + i}", group="g", cpu=cpu, labels={"part": str(part)})
        for part, size in enumerate(sizes)
        for i in range(size)
    ]


def test_each_sub_gang_is_under_one_switch() -> None:
    policy = sub_group(4, 2, {"mode": "hard", "highestTierAllowed": 1})
    plan = planned(tree(), close("g", 8, HARD2, subGroupPolicy=[policy]), parts([4, 4]))
    found = binds(plan)
    assert len(found) == 8
    for part in range(2):
        assert len({int(found[f"g-w-{10 * part + i}"][1:]) // 2 for i in range(4)}) == 1


def test_too_few_sub_gangs_keep_all_of_them_waiting() -> None:
    plan = planned(tree(), close("g", 4, subGroupPolicy=[sub_group(4, 2)]), parts([4]))
    assert not plan.binds
    assert {p.code for p in plan.pending} == {"NotEnoughPodsOfTask"}


def test_one_sub_gang_that_does_not_fit_keeps_the_other_waiting() -> None:
    policy = sub_group(4, 2, {"mode": "hard", "highestTierAllowed": 1})
    plan = planned(tree(cpu=8), close("g", 8, subGroupPolicy=[policy]), parts([4, 4], cpu=5))
    assert not plan.binds


@pytest.mark.parametrize(
    "document", [pytest.param(TOPOLOGY, id="with the plugin"), pytest.param(BARE, id="without it")]
)
@pytest.mark.parametrize(
    "wish",
    [
        pytest.param({"mode": "hard", "highestTierAllowed": 1}, id="a tier"),
        pytest.param({"mode": "hard", "highestTierName": "rack"}, id="a name that no HyperNode has"),
        pytest.param({"mode": "hard", "highestTierAllowed": 0}, id="a tier below all"),
    ],
)
def test_the_wish_of_a_sub_gang_holds_whichever_plugins_are_configured(wish: dict[str, Any], document: Data) -> None:
    """Two pods of a switch have no room for all four of the one part that there is."""
    plan = planned(tree(cpu=8), close("g", 4, subGroupPolicy=[sub_group(4, 1, wish)]), parts([4], cpu=5), conf=document)
    assert binds(plan) == {}


# --- guarantees

sizes = st.integers(1, 7)


@given(
    cpus=st.lists(st.integers(2, 9), min_size=8, max_size=8),
    gangs=st.lists(st.tuples(sizes, st.integers(1, 4), st.sampled_from([1, 2, 3])), min_size=1, max_size=5),
)
def test_hard_gangs_are_whole_inside_one_domain_of_the_allowed_tier(
    cpus: list[int], gangs: list[tuple[int, int, int]]
) -> None:
    objects: list[Objects] = [*tree()[8:], [node(f"n{i}", cpu=cpu) for i, cpu in enumerate(cpus)]]
    for number, (count, cpu, tier) in enumerate(gangs):
        wish = {"mode": "hard", "highestTierAllowed": tier}
        objects += [close(f"g{number}", count, wish), workers(f"g{number}", count, cpu)]
    plan = planned(objects)
    found = binds(plan)
    for number, (count, _, tier) in enumerate(gangs):
        mine = {int(n[1:]) for p, n in found.items() if p.startswith(f"g{number}-")}
        bound = sum(1 for p in found if p.startswith(f"g{number}-"))
        assert bound in (0, count)
        assert len({n // (2**tier) for n in mine}) <= 1


def test_the_order_in_which_hypernodes_arrive_does_not_matter() -> None:
    objects = flat([tree(), close("g", 8, HARD2), workers("g", 8)])
    plans = []
    for order in (objects, objects[::-1]):
        state = state_of()
        for obj in order:
            state.apply(Changed(obj))
        plans.append(cycle(state, parsed(TOPOLOGY)[0], NOW))
    assert plans[0] == plans[1]
