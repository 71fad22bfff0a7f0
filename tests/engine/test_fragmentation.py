"""The plugin fragmentation: pods go where the fewest free cards become unusable for the pods that usually come."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.test_mig import config
from kilauea.api.meta import Object
from kilauea.engine.devices.order import CardChoice
from kilauea.engine.session import Session
from support.builders import GPU, Data, Objects, binds, conf, gang, group, node, plan_of, plugin, pod
from support.probes import inside

CONF = conf(
    "allocate", ["gang"], ["predicates", plugin("deviceshare", {"deviceshare.VGPUEnable": True}), "fragmentation"]
)
PLAIN = conf("allocate", ["gang"], ["predicates", "fragmentation"])
RECORD = "volcano.sh/vgpu-ids-new"


def shared_node(name: str, cards: int, cpu: int = 64) -> Object:
    """A node with cards of 100 MiB."""
    text = "".join(f"{name}-{i},10,100,NVIDIA-A,true,hami-core:" for i in range(cards))
    names = ("volcano.sh/vgpu-number", "volcano.sh/vgpu-memory", "volcano.sh/vgpu-cores")
    offers = dict(zip(names, (cards * 10, cards * 100, cards * 100), strict=True))
    return node(name, cpu, resources=offers, annotations={"volcano.sh/node-vgpu-register": text})


def share(name: str, percent: int, number: int = 1, cpu: int = 1, **more: Any) -> list[Object]:
    """A pod with a part of each of some cards, and its group."""
    asked = {"cpu": cpu, "volcano.sh/vgpu-number": number, "volcano.sh/vgpu-memory": percent}
    return [group(name), pod(name, name, requests={**asked, "volcano.sh/vgpu-cores": percent}, **more)]


def held(name: str, on: str, card: int, percent: int) -> list[Object]:
    """A pod that has a part of a card."""
    return share(name, percent, node=on, annotations={RECORD: f"{on}-{card},NVIDIA,{percent},{percent}:"})


def ended(name: str, size: int, percent: int, number: int = 1) -> list[Object]:
    """Pods that have ended, as examples of what usually comes."""
    return [each for i in range(size) for each in share(f"{name}{i}", percent, number, phase="Succeeded")]


def test_a_pod_leaves_whole_the_node_whose_cards_go_together() -> None:
    usual = ended("x", 9, 100, 2)
    plan = plan_of(shared_node("a", 2), shared_node("b", 1), usual, share("p", 100), conf=CONF)
    assert binds(plan) == {"p": "b"}


def test_without_the_plugin_the_same_pod_breaks_it_up() -> None:
    without = conf("allocate", ["gang"], ["predicates", plugin("deviceshare", {"deviceshare.VGPUEnable": True})])
    plan = plan_of(shared_node("a", 2), shared_node("b", 1), ended("x", 9, 100, 2), share("p", 100), conf=without)
    assert binds(plan) == {"p": "a"}


@pytest.mark.parametrize(
    ("usual", "expected"),
    [
        pytest.param(70, "n-0", id="pods of 70%: the card with 50% is useless to them, so it is taken"),
        pytest.param(50, "n-1", id="pods of 50%: the card with 50% is kept, and the one with 80% leaves 50%"),
    ],
)
def test_of_the_cards_of_a_node_the_one_is_taken_of_which_least_is_lost(usual: int, expected: str) -> None:
    there = [held("a", "n", 0, 50), held("b", "n", 1, 20)]
    plan = plan_of(shared_node("n", 2), there, ended("x", 30, usual), share("p", 30), conf=CONF)
    assert dict(plan.binds[0].annotations)[RECORD].split(",")[0] == expected


def unstated(name: str, amounts: dict[str, int], phase: str = "Pending") -> list[Object]:
    """A pod with one card, and its group; the configuration of the devices says how much of it, as far as `amounts`."""
    asked = {f"volcano.sh/vgpu-{key}": amount for key, amount in amounts.items()}
    return [group(name), pod(name, name, requests={"cpu": 1, "volcano.sh/vgpu-number": 1} | asked, phase=phase)]


@pytest.mark.parametrize(
    ("text", "amounts"),
    [
        pytest.param("nvidia: {defaultMemory: 30}", {}, id="the default for pods that name no memory"),
        pytest.param("nvidia: {gpuMemoryFactor: 10}", {"memory": 3}, id="memory in units of 10 MiB"),
    ],
)
def test_a_pod_counts_as_much_as_the_configuration_of_the_devices_says(text: str, amounts: dict[str, int]) -> None:
    """Pods of 50% usually come; a pod of 30% leaves them the card with 50%."""
    there: list[Objects] = [shared_node("a", 1), held("x", "a", 0, 50), shared_node("b", 1), held("y", "b", 0, 20)]
    usual = [each for i in range(30) for each in share(f"u{i}", 5 if amounts else 50, phase="Succeeded")]
    plan = plan_of(config(text), there, usual, unstated("p", amounts), conf=CONF)
    assert binds(plan) == {"p": "b"}


def test_the_pods_that_usually_come_count_as_the_configuration_of_the_devices_says() -> None:
    there: list[Objects] = [shared_node("n", 2), held("a", "n", 0, 50), held("b", "n", 1, 20)]
    usual = [each for i in range(30) for each in unstated(f"u{i}", {}, "Succeeded")]
    for memory, card in ((70, "n-0"), (50, "n-1")):
        text = f"nvidia: {{defaultMemory: {memory}}}"
        plan = plan_of(config(text), there, usual, share("p", 30), conf=CONF)
        assert dict(plan.binds[0].annotations)[RECORD].split(",")[0] == card


def test_a_pod_without_cards_leaves_the_cores_where_free_cards_need_them() -> None:
    objects: list[Objects] = [shared_node("a", 1, cpu=8), node("b", 8), ended("x", 5, 100)]
    plan = plan_of(objects, group("p"), pod("p", "p", cpu=8), conf=CONF)
    assert binds(plan) == {"p": "b"}


def test_whole_cards_that_nodes_only_count_are_kept_together() -> None:
    usual = gang("x", 5, phase="Completed")
    for each in usual[1:]:
        each.status.phase = "Succeeded"  # type: ignore[attr-defined]  # pods have one
    big = [pod(f"w{i}", "x", gpu=4, phase="Succeeded") for i in range(5)]
    plan = plan_of(node("a", 64, gpu=4), node("b", 64, gpu=1), usual, big, group("p"), pod("p", "p", gpu=1), conf=PLAIN)
    assert binds(plan) == {"p": "b"}


def test_nodes_that_a_usual_pod_may_not_use_count_as_fragments_for_it() -> None:
    there = [node("a", 64, gpu=1, labels={"model": "x"}), node("b", 64, gpu=1)]
    usual = [pod(f"w{i}", "g", gpu=1, phase="Succeeded", nodeSelector={"model": "x"}) for i in range(5)]
    plan = plan_of(there, usual, group("p"), pod("p", "p", gpu=1), conf=PLAIN)
    assert binds(plan) == {"p": "b"}


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({"fragmentation.weight": "much"}, "fragmentation.weight takes a number"),
        ({"fragmentation.weight": -1}, "fragmentation.weight cannot be less than 0"),
        ({"fragmentation.wait": 1}, "did you mean 'fragmentation.weight'?"),
    ],
)
def test_invalid_arguments_are_found(given: Data, expected: str) -> None:
    plan = plan_of(node("n"), conf=conf("allocate", ["predicates", plugin("fragmentation", given)]))
    assert any(expected in finding.message for finding in plan.findings)


def test_a_weight_of_0_switches_it_off() -> None:
    document = conf("allocate", ["gang"], ["predicates", plugin("fragmentation", {"fragmentation.weight": 0})])
    big = [pod(f"w{i}", "g", gpu=4, phase="Succeeded") for i in range(5)]
    plan = plan_of(node("a", 64, gpu=4), node("b", 64, gpu=1), big, group("p"), pod("p", "p", gpu=1), conf=document)
    assert binds(plan) == {"p": "a"}


# --- the same by the definition of the paper


def by_definition(free: list[int], cpu: int, mix: list[tuple[int, int, int, int]]) -> float:
    """Cards of a node that the average pod cannot use; pods are (cores, number of cards, percent, how many)."""
    out, total = 0.0, 0.0
    for cores, number, percent, pods in mix:
        weight = pods
        usable = sum(f for f in free if f >= percent)
        able = cpu >= cores and sum(1 for f in free if f >= percent) >= number
        out += weight * (sum(free) - (usable if able else 0)) / 100
        total += weight
    return out / total


@given(
    st.lists(st.sampled_from([0, 10, 30, 50, 70, 100]), min_size=2, max_size=4).flatmap(
        lambda used: st.tuples(st.just(used), st.permutations(used))
    ),
    st.sampled_from([10, 30, 50, 70]),
    st.lists(st.tuples(st.sampled_from([30, 50, 100]), st.integers(1, 3)), max_size=3),
)
def test_the_same_cards_in_another_order_score_alone_as_among_all_nodes(
    orders: tuple[list[int], list[int]], percent: int, usual: list[tuple[int, int]]
) -> None:
    names = ("m", "n")
    there = [
        each
        for name, used in zip(names, orders, strict=True)
        for i, part in enumerate(used)
        for each in (held(f"{name}{i}", name, i, part) if part else ())
    ]
    examples = [each for i, (part, size) in enumerate(usual) for each in ended(f"x{i}-", size, part)]

    def scores(session: Session) -> None:
        shape = session.shape_of(session.state.tasks["ns/p"])
        score = next(scorer.function for name, scorer in session.points.walk("node_score") if name == "fragmentation")
        alone = [float(score(shape, session.nodes.select(np.array([row])))[0]) for row in (0, 1)]
        assert alone == score(shape, session.nodes.all()).tolist()

    cards = len(orders[0])
    inside(
        [shared_node(name, cards) for name in names],
        there,
        examples,
        share("p", percent),
        do=scores,
        conf=CONF | {"actions": "enqueue"},
    )


@given(
    st.lists(st.sampled_from([0, 10, 30, 50, 70, 100]), min_size=1, max_size=4),
    st.integers(1, 6),
    st.sampled_from([(1, 30, 1), (1, 100, 2), (2, 100, 1), (1, 70, 3)]),
    st.lists(
        st.tuples(
            st.integers(1, 4), st.sampled_from([(1, 30), (1, 50), (1, 100), (2, 100), (3, 100)]), st.integers(1, 3)
        ),
        min_size=1,
        max_size=4,
    ),
)
def test_the_score_is_the_growth_that_the_paper_defines(
    used: list[int], cpu: int, asked: tuple[int, int, int], usual: list[tuple[int, tuple[int, int], int]]
) -> None:
    number, percent, cores = asked
    there = [held(f"h{i}", "n", i, part) for i, part in enumerate(used) if part]
    examples = [
        each
        for i, (core, (count, part), size) in enumerate(usual)
        for j in range(size)
        for each in share(f"x{i}-{j}", part, count, core, phase="Succeeded")
    ]
    asker = share("p", percent, number, cores)

    def scores(session: Session) -> list[float]:
        task = session.state.tasks["ns/p"]
        function = next(
            scorer.function for name, scorer in session.points.walk("node_score") if name == "fragmentation"
        )
        found = function(session.shape_of(task), session.nodes.select(np.array([0])))
        assert function(session.shape_of(task), session.nodes.all()) == found, "as arrays and one by one"
        fits = session.evaluation(task).choose() is not None
        return [float(found[0])] if fits else []

    found = inside(
        shared_node("n", len(used), cpu + len(there)),
        there,
        examples,
        asker,
        do=scores,
        conf=CONF | {"actions": "enqueue"},
    )
    mix = [(core, count, part, size) for core, (count, part), size in usual]
    mix += [(1, 1, part, 1) for part in used if part] + [(cores, number, percent, 1)]
    free = [100 - part for part in used]
    after = []
    fitting = [i for i, part in enumerate(free) if part >= percent and (percent < 100 or part == 100)]
    if number == 1:
        after = [[part - percent * (i == j) for j, part in enumerate(free)] for i in fitting]
    elif len(fitting) >= number:
        after = [[0 if j in fitting[:number] else part for j, part in enumerate(free)]]
    if found:
        growth = min(by_definition(left, cpu - cores, mix) for left in after) - by_definition(free, cpu, mix)
        assert found[0] % 5 == 0, "growth counts in twentieths of a card"
        assert found[0] == pytest.approx(-100 * growth, abs=2.51)


@given(
    st.lists(st.lists(st.sampled_from([0, 10, 30, 50, 100]), min_size=1, max_size=3), min_size=2, max_size=5),
    st.lists(st.tuples(st.sampled_from([0, 20, 50, 100]), st.integers(1, 3)), min_size=1, max_size=4),
)
def test_nodes_have_the_same_score_alone_as_among_others(used: list[list[int]], asked: list[tuple[int, int]]) -> None:
    nodes = [shared_node(f"n{i}", len(parts), 4 + i) for i, parts in enumerate(used)]
    there = [
        held(f"h{i}-{j}", f"n{i}", j, part) for i, parts in enumerate(used) for j, part in enumerate(parts) if part
    ]
    askers: list[Objects] = [
        share(f"p{k}", percent, cpu=cpu) if percent else [group(f"p{k}"), pod(f"p{k}", f"p{k}", cpu=cpu)]
        for k, (percent, cpu) in enumerate(asked)
    ]

    def scores(session: Session) -> None:
        function = next(
            scorer.function for name, scorer in session.points.walk("node_score") if name == "fragmentation"
        )
        for k in range(len(asked)):
            shape = session.shape_of(session.state.tasks[f"ns/p{k}"])
            together = function(shape, session.nodes.all()).tolist()
            alone = [function(shape, session.nodes.select(np.array([row])))[0] for row in range(len(nodes))]
            assert alone == together
            assert function(shape, session.nodes.select(np.arange(len(nodes)))).tolist() == together

    inside(
        nodes, there, askers, ended("x", 2, 30), ended("y", 1, 100, 2), do=scores, conf=CONF | {"actions": "enqueue"}
    )


def test_gpus_are_the_resource_unless_another_is_named() -> None:
    document = conf(
        "allocate", ["gang"], ["predicates", plugin("fragmentation", {"fragmentation.resources": "x.io/npu"})]
    )
    big = [pod(f"w{i}", "g", requests={"x.io/npu": 4}, phase="Succeeded") for i in range(5)]
    nodes = [node("a", 64, resources={"x.io/npu": 4, GPU: 1}), node("b", 64, resources={"x.io/npu": 1})]
    plan = plan_of(nodes, big, group("p"), pod("p", "p", requests={"x.io/npu": 1}), conf=document)
    assert binds(plan) == {"p": "b"}


@given(
    st.lists(st.lists(st.sampled_from([0, 10, 30, 50, 100]), min_size=1, max_size=4), min_size=2, max_size=4),
    st.sampled_from([10, 30, 50, 100]),
)
def test_the_loss_of_each_card_is_the_same_on_a_node_alone_as_among_others(used: list[list[int]], percent: int) -> None:
    nodes = [shared_node(f"n{i}", len(parts), 8) for i, parts in enumerate(used)]
    there = [
        held(f"h{i}-{j}", f"n{i}", j, part) for i, parts in enumerate(used) for j, part in enumerate(parts) if part
    ]

    def losses(session: Session) -> None:
        ledger, order = session.card_ledger, session.card_order
        assert ledger is not None
        assert order is not None
        shape = session.shape_of(session.state.tasks["ns/p"])
        (request,) = ledger.wish_of(shape).requests
        table = ledger.tables[request.kind]
        everywhere = CardChoice(table, request, shape, session.nodes.all(), table.later, placed=True)
        together = order.order(everywhere)
        for row in range(len(nodes)):
            alone = everywhere._replace(nodes=session.nodes.select(np.array([row])), used=table.later[:, row : row + 1])
            assert order.order(alone).tolist() == [together[row].tolist()]
            assert order.at(table, request, row) == together[row].tolist()

    usual = ended("x", 2, 30), ended("y", 1, 100, 2)
    inside(nodes, there, share("p", percent), usual, do=losses, conf=CONF | {"actions": "enqueue"})
