"""The plugin resource-strategy-fit: full or free nodes by resource, scarce resources, and room beside devices."""

from __future__ import annotations

import json
from typing import Any

import pytest

from kilauea.api.meta import Object
from support.builders import (
    GPU,
    Data,
    best_effort,
    binds,
    conf,
    gang,
    group,
    node,
    nominations,
    parsed,
    pending,
    plan_of,
    plugin,
    pod,
    priority_class,
)
from support.probes import scores_of

NAME = "resource-strategy-fit"
TYPE, WEIGHT = "volcano.sh/resource-strategy-scoring-type", "volcano.sh/resource-strategy-weight"
FPGA = "example.com/fpga"


def fit_conf(actions: str = "allocate", **arguments: Any) -> Data:
    return conf(actions, ["gang"], ["predicates", plugin(NAME, arguments)])


def scores(*objects: Any, asked: Object | None = None, **arguments: Any) -> dict[str, float]:
    """Scores of the nodes, and of a spare one that is there so that scores are asked for."""
    wanted = asked or pod("p", cpu=2, memory="4Gi", gpu=1)
    return scores_of(*objects, group("r"), group(), wanted, conf=conf("allocate", [plugin(NAME, arguments)]))


def half() -> list[Object]:
    """A node with 8 cpus and 8 cards, of which 2 cpus and 3 cards are taken, and an empty one like it."""
    held = pod("r", "r", node="n1", requests={"cpu": 2, "memory": "4Gi", GPU: 3})
    return [node("n1", 8, "32Gi", gpu=8), node("n2", 8, "32Gi", gpu=8), held]


# --- strategies


@pytest.mark.parametrize(
    ("resources", "n1", "n2"),
    [
        pytest.param(
            {GPU: {"type": "MostAllocated", "weight": 2}, "cpu": {"type": "LeastAllocated", "weight": 1}},
            500,
            (2 / 8 + 6 / 8) / 3 * 1000,
            id="the worked example: cards full, cpu free",
        ),
        pytest.param(
            {}, (4 / 8 + 24 / 32) / 2 * 1000, (6 / 8 + 28 / 32) / 2 * 1000, id="without: cpu and memory, free"
        ),
        pytest.param({"cpu": {}}, 500, 750, id="a resource without more is LeastAllocated with weight 1"),
        pytest.param({"cpu": {"weight": 0}}, 500, 750, id="a weight below 1 is 1"),
        pytest.param({"cpu": {"type": "Odd"}}, 500, 750, id="an odd type is LeastAllocated"),
        pytest.param({"nvidia.com/*": {"type": "MostAllocated"}}, 500, 125, id="names may end with a star"),
        pytest.param({"nvidia.com/*": {"type": "MostAllocated"}, GPU: {}}, 500, 875, id="an exact name comes first"),
        pytest.param(
            {"nvidia.com/*": {}, "nvidia.com/g*": {"type": "MostAllocated"}, "n*": {}},
            500,
            125,
            id="then the longest beginning",
        ),
        pytest.param({"*": {}}, 0, 0, id="a star alone stands for nothing, and nothing is scored"),
        pytest.param({FPGA: {}}, 0, 0, id="a resource that is not asked for does not count"),
    ],
)
def test_scores_by_strategy(resources: Data, n1: float, n2: float) -> None:
    assert scores(half(), resources=resources) == pytest.approx({"n1": n1, "n2": n2})


def test_the_weight_of_the_strategy_scales_it_and_zero_switches_it_off() -> None:
    assert scores(half(), resources={"cpu": {}}, resourceStrategyFitWeight=1) == {"n1": 50, "n2": 75}
    assert scores(half(), resources={"cpu": {}}, resourceStrategyFitWeight=0) == {"n1": 0, "n2": 0}


def test_a_node_that_will_be_free_but_is_not_yet_scores_nothing() -> None:
    leaving = pod("r", "r", node="n1", cpu=7, deleting=True)
    other = pod("s", "r", node="n2", cpu=7, deleting=True)
    nodes = [node("n1", 8, "32Gi"), node("n2", 8, "32Gi"), leaving, other]
    assert scores(nodes, asked=pod("p", cpu=2)) == {"n1": 0, "n2": 0}


def test_a_resource_that_a_node_does_not_offer_counts_with_its_weight() -> None:
    nodes = [node("n1", 8, "32Gi"), node("n2", 8, None)]
    found = scores(nodes, asked=pod("p", cpu=2, memory=0), resources={"cpu": {}, "memory": {}})
    assert found == pytest.approx({"n1": 750, "n2": 750})


@pytest.mark.parametrize(
    ("kind", "weights", "expected"),
    [
        pytest.param("MostAllocated", {"cpu": 1}, {"n1": 500, "n2": 250}, id="its own type and weights"),
        pytest.param("LeastAllocated", {"cpu": 1, GPU: 3}, {"n1": 500, "n2": 843.75}, id="several resources"),
        pytest.param("MostAllocated", {"cpu": 1, FPGA: 9}, {"n1": 500, "n2": 250}, id="one it does not ask for"),
        pytest.param("MostAllocated", {"nvidia.com/*": 1}, {"n1": 0, "n2": 0}, id="exact names only"),
    ],
)
def test_a_pod_chooses_its_own_strategy(kind: str, weights: Data, expected: dict[str, float]) -> None:
    asked = pod("p", cpu=2, memory="4Gi", gpu=1, annotations={TYPE: kind, WEIGHT: json.dumps(weights)})
    assert scores(half(), asked=asked) == pytest.approx(expected)


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        ("MostAllocated", ""),
        ("MostAllocated", "{"),
        ("MostAllocated", "[" * 100_000),
        ("MostAllocated", '{"cpu": 1.5}'),
        ("MostAllocated", '{"cpu": true}'),
        ("MostAllocated", '{"cpu": -1}'),
        ("MostAllocated", "{}"),
        ("Fullest", '{"cpu": 1}'),
    ],
)
def test_a_strategy_that_is_invalid_is_none_and_is_told_once(kind: str, text: str) -> None:
    annotations = {TYPE: kind} | ({WEIGHT: text} if text else {})
    asked = [pod(f"p-{i}", cpu=1 + i, annotations=annotations) for i in range(2)]
    plan = plan_of(node("n1"), group(), asked, conf=fit_conf())
    (finding,) = plan.findings
    assert (finding.where, finding.code) == ("pods", "InvalidStrategy")
    assert 'take LeastAllocated or MostAllocated and weights such as {"cpu": 1}' in finding.message
    assert len(binds(plan)) == 2
    one = pod("p", cpu=2, annotations=annotations)
    assert scores(half(), asked=one) == {"n1": 0, "n2": 0}


def test_weights_alone_change_nothing() -> None:
    asked = pod("p", cpu=2, memory="4Gi", annotations={WEIGHT: '{"cpu": 1}'})
    assert scores(half(), asked=asked) == scores(half(), asked=pod("p", cpu=2, memory="4Gi"))


# --- scarce resources

SRA = {"enable": True, "resources": GPU, "weight": 10}


@pytest.mark.parametrize(
    ("sra", "asked", "expected"),
    [
        pytest.param(SRA, {"cpu": 1}, {"gpu": 0, "fpga": 1000, "cpu": 1000}, id="nodes without the device are better"),
        pytest.param(
            SRA | {"resources": f"{GPU}, {FPGA}", "resourceWeight": {GPU: 1, FPGA: 3}},
            {"cpu": 1},
            {"gpu": 750, "fpga": 250, "cpu": 1000},
            id="by the weights of what they have",
        ),
        pytest.param(
            SRA, {"cpu": 1, "memory": 0}, {"gpu": 0, "fpga": 1000, "cpu": 1000}, id="asked for means more than 0"
        ),
        pytest.param({**SRA, "weight": 0}, {"cpu": 1}, {"gpu": 0, "fpga": 0, "cpu": 0}, id="without a weight: nothing"),
        pytest.param({**SRA, "enable": False}, {"cpu": 1}, {"gpu": 0, "fpga": 0, "cpu": 0}, id="switched off"),
        pytest.param({**SRA, "resources": ""}, {"cpu": 1}, {"gpu": 0, "fpga": 0, "cpu": 0}, id="nothing is scarce"),
    ],
)
def test_nodes_with_scarce_resources_are_left_alone(sra: Data, asked: Data, expected: dict[str, float]) -> None:
    nodes = [node("gpu", gpu=1), node("fpga", resources={FPGA: 1}), node("cpu")]
    found = scores(nodes, asked=pod("p", requests=asked), sra=sra, resourceStrategyFitWeight=0)
    assert found == pytest.approx(expected)


def test_a_node_that_lacks_what_is_asked_for_is_not_better_for_lacking_it() -> None:
    nodes = [node("none", memory=None), node("some"), node("more")]
    held = [group("r"), pod("r", "r", node="more", cpu=1)]
    found = scores_of(
        nodes,
        held,
        group(),
        pod("p", requests={"cpu": 1, "memory": 0}),
        conf=conf("allocate", [plugin(NAME, {"sra": SRA, "resourceStrategyFitWeight": 0})]),
    )
    assert found == {"none": 1000, "some": 1000, "more": 1000}


def test_both_scores_add_up() -> None:
    nodes = [node("gpu", 8, gpu=1), node("cpu", 8)]
    found = scores(nodes, asked=pod("p", cpu=2, memory=0), resources={"cpu": {}}, sra=SRA)
    assert found == pytest.approx({"gpu": 750, "cpu": 1750})


# --- what stays free beside devices

KEEP = {"enable": True, "resources": GPU, "resourceProportion": {f"{GPU}.cpu": 4, f"{GPU}.memory": 8}}
FAILED = f"0/1 nodes are unavailable: 1 proportional of resource {GPU} check failed."


@pytest.mark.parametrize(
    ("asked", "expected"),
    [
        pytest.param({"cpu": 3, "memory": 10**9}, False, id="7 of 8 cores would be left"),
        pytest.param({"cpu": 2, "memory": 2 * 10**9}, True, id="8 cores and 18 of 16 gigabytes are"),
        pytest.param({"cpu": 2, "memory": 4 * 10**9}, True, id="16 gigabytes are enough"),
        pytest.param({"cpu": 2, "memory": 4 * 10**9 + 1}, False, id="not a byte less"),
        pytest.param({"cpu": 9, "memory": 10**9, GPU: 1}, True, id="a pod with a card takes what it needs"),
    ],
)
def test_pods_without_a_card_leave_cpu_and_memory_for_idle_ones(asked: Data, expected: bool) -> None:
    plan = plan_of(
        node("n1", 10, 20 * 10**9, gpu=2), group(), pod("p", requests=asked), conf=fit_conf(proportional=KEEP)
    )
    assert (binds(plan) == {"p": "n1"}) is expected
    assert expected or pending(plan)["p"].message == FAILED


@pytest.mark.parametrize(
    ("rates", "cpu", "expected"),
    [
        pytest.param({}, 8, True, id="without rates a core and a gigabyte for each card"),
        pytest.param({}, 9, False, id="not less"),
        pytest.param({f"{GPU}.cpu": -4}, 9, False, id="a rate below 0 is 1"),
        pytest.param({f"{GPU}.cpu": 0}, 10, True, id="0 keeps nothing"),
    ],
)
def test_rates(rates: Data, cpu: int, expected: bool) -> None:
    keep = {**KEEP, "resourceProportion": rates}
    plan = plan_of(node("n1", 10, 20 * 10**9, gpu=2), group(), pod("p", cpu=cpu), conf=fit_conf(proportional=keep))
    assert bool(binds(plan)) is expected


def test_cards_in_use_and_nodes_without_cards_keep_nothing_back() -> None:
    held = [group("r"), pod("r", "r", node="n1", requests={"cpu": 1, GPU: 2})]
    plan = plan_of(node("n1", 10, gpu=2), node("n2", 10), held, gang("g", 2, cpu=9), conf=fit_conf(proportional=KEEP))
    assert len(binds(plan)) == 2


def test_pods_placed_in_the_same_cycle_count() -> None:
    plan = plan_of(node("n1", 10, "64Gi", gpu=1), gang("g", 8, 1), conf=fit_conf(proportional=KEEP))
    assert len(binds(plan)) == 6


def test_the_first_resource_that_fails_is_the_reason() -> None:
    keep = {"enable": True, "resources": f"{FPGA},{GPU}", "resourceProportion": {f"{GPU}.cpu": 4, f"{FPGA}.cpu": 1}}
    offered = node("n1", 4, "64Gi", gpu=1, resources={FPGA: 1})
    plan = plan_of(offered, gang("p", 1), gang("q", 1, cpu=4), conf=fit_conf(proportional=keep))
    assert {name: found.message for name, found in pending(plan).items()} == {
        "p-w-0": f"0/1 nodes are unavailable: 1 proportional of resource {GPU} check failed.",
        "q-w-0": f"0/1 nodes are unavailable: 1 proportional of resource {FPGA} check failed.",
    }


def test_a_pod_that_it_keeps_out_preempts_one_that_takes_the_room() -> None:
    low = [group("low", phase="Running", minimum=0), pod("low-0", "low", cpu=4, node="n1", priority=1)]
    high = [priority_class("high", 9), group("high", priority="high"), pod("high-0", "high", cpu=2, priority=9)]
    usable = conf("allocate, preempt", ["priority", "gang"], ["predicates", plugin(NAME, {"proportional": KEEP})])
    plan = plan_of(node("n1", 9, "64Gi", gpu=1), low, high, conf=usable)
    assert [e.pod for e in plan.evictions] == ["ns/low-0"]
    assert nominations(plan) == {"high-0": "n1"}


def test_a_pod_waits_for_cpu_that_is_being_freed_instead_of_taking_that_of_a_card() -> None:
    leaving = [group("low"), pod("low", "low", cpu=4, node="n1", deleting=True)]
    plan = plan_of(node("n1", 9, "64Gi", gpu=1), leaving, gang("g", 1, cpu=2), conf=fit_conf(proportional=KEEP))
    assert (binds(plan), nominations(plan)) == ({}, {"g-w-0": "n1"})


def test_a_pod_that_asks_for_nothing_is_kept_out_only_where_too_little_is_left() -> None:
    held = [group("r"), pod("r", "r", node="n1", cpu=7)]
    nodes = [node("n1", 10, "64Gi", gpu=1), node("n2", 10, "64Gi", gpu=1)]
    usable = fit_conf("allocate, backfill", proportional=KEEP)
    assert binds(plan_of(nodes, held, group(), best_effort("p"), conf=usable)) == {"p": "n2"}


# --- arguments


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        pytest.param({"sra": 3}, "sra takes a map, not 3; its default is kept", id="no map"),
        pytest.param(
            {"sra": {"enable": True, "weight": "ten"}},
            "sra: weight takes an integer, not 'ten'; 0 is kept",
            id="a wrong type in a map",
        ),
        pytest.param(
            {"proportional": {"enabled": True}},
            "proportional: unknown argument 'enabled'; did you mean 'enable'?",
            id="an unknown key in a map",
        ),
        pytest.param(
            {"resources": {"cpu": {"type": "Most"}}},
            "resources.cpu: type takes LeastAllocated or MostAllocated, not 'Most'; 'LeastAllocated' is kept",
            id="an unknown type",
        ),
        pytest.param(
            {"resources": {"cpu": 2}}, "resources.cpu takes a map, not 2; its default is kept", id="a weight alone"
        ),
        pytest.param(
            {"resources": {"n*u": {}}},
            "resources.n*u is not used: a * may only end a name, after a part of it",
            id="a star inside",
        ),
        pytest.param(
            {"sra": {**SRA, "resourceWeight": {GPU: -2}}},
            f"sra.resourceWeight.{GPU} cannot be less than 0, but is -2; 1 is taken",
            id="a weight below 0",
        ),
        pytest.param(
            {"proportional": {**KEEP, "resourceProportion": {f"{GPU}.cpu": -0.5}}},
            f"proportional.resourceProportion.{GPU}.cpu cannot be less than 0, but is -0.5; 1 is taken",
            id="a rate below 0",
        ),
    ],
)
def test_arguments_that_are_wrong_are_warned_about_by_name(arguments: Data, expected: str) -> None:
    plan = plan_of(node("n1"), gang("g", 1), conf=fit_conf(**arguments))
    assert expected in [finding.message for finding in plan.findings]
    assert not any(finding.error for finding in plan.findings)
    assert binds(plan) == {"g-w-0": "n1"}


def test_scarce_resources_without_a_weight_have_no_effect_and_that_is_told() -> None:
    plan = plan_of(node("n1"), gang("g", 1), conf=fit_conf(sra={"enable": True, "resources": GPU}))
    assert [f.message for f in plan.findings] == [
        "sra.weight is 0, so sra has no effect: set a weight, or enable: false"
    ]


# --- arguments that predicates had

OLD = {
    "predicate.ProportionalEnable": True,
    "predicate.resources": GPU,
    f"predicate.resources.{GPU}.cpu": 4,
    f"predicate.resources.{GPU}.memory": 8,
}


def moved_conf(old: Data, new: Data | None = None) -> Data:
    more = [] if new is None else [plugin(NAME, new)]
    return conf("allocate", ["gang"], [plugin("predicates", old), *more])


BUSY = [node("n1", 10, 20 * 10**9, gpu=2), group(), pod("p", cpu=3)]


@pytest.mark.parametrize(
    ("old", "new", "starts"),
    [
        pytest.param(OLD, None, False, id="they hold without the plugin"),
        pytest.param(OLD, {"resources": {"cpu": {}}}, False, id="and with it"),
        pytest.param(OLD, {"proportional": {"enable": False}}, True, id="its own come first"),
        pytest.param({**OLD, "predicate.ProportionalEnable": "true"}, None, False, id="the switch may be text"),
        pytest.param({**OLD, "predicate.ProportionalEnable": False}, None, True, id="or off"),
    ],
)
def test_old_arguments_of_predicates_are_read_as_the_new_ones(old: Data, new: Data | None, starts: bool) -> None:
    usable = moved_conf(old, new)
    plan = plan_of(BUSY, conf=usable)
    assert bool(binds(plan)) is starts
    assert starts or pending(plan)["p"].message == FAILED


def test_old_arguments_are_warned_about_with_the_new_key() -> None:
    usable, _, _ = parsed(moved_conf(OLD))
    (finding,) = usable.findings
    assert (finding.where, finding.code, finding.error) == (
        "tiers[1].plugins[0] (predicates)",
        "translated-argument",
        False,
    )
    assert finding.message.startswith(
        f"moved to proportional of plugin {NAME}: predicate.ProportionalEnable, predicate.resources, "
        f"predicate.resources.{GPU}.cpu and predicate.resources.{GPU}.memory; read as proportional: {{'enable': True"
    )


def test_old_arguments_change_no_scores() -> None:
    assert scores_of(half(), group("r"), group(), pod("p", gpu=1), conf=moved_conf(OLD)) == {"n1": 0, "n2": 0}
