"""Reasons why cards do not fit, and the cards that a plan gives to a pod."""

from __future__ import annotations

from engine.test_deviceshare import RECORD, running, shares, vgpu, vgpu_node, waiting
from engine.test_mig import config
from kilauea.engine.devices.usage import card_uses
from kilauea.engine.explain.group import with_hint
from kilauea.engine.model.devices import cards_in
from support.builders import (
    Data,
    Objects,
    group,
    node,
    nominations,
    pending,
    plan_in,
    plan_of,
    pod,
    priority_class,
    state_of,
)


def test_a_reason_names_what_the_pod_asks_for_and_the_card_with_the_most_free_memory() -> None:
    others = [running("a", "n-0,NVIDIA,20000,0:", memory=20000), running("b", "n-1,NVIDIA,25000,10:", memory=25000)]
    objects: list[Objects] = [vgpu_node("n"), *others, waiting("p", memory=20000, cores=5)]
    why = with_hint(pending(plan_of(*objects, conf=shares()))["p"], state_of(*objects))
    assert why.message.endswith(
        "the pod asks for 20000 MiB and 5% of the cores of a card; card n-0 of node n has the most free memory: "
        "12768 of 32768 MiB, 100% of the cores, 9 of 10 slots"
    )


def test_parts_that_the_plan_gives_to_other_pods_are_not_free() -> None:
    objects: list[Objects] = [vgpu_node("n"), *(waiting(name, memory=20000) for name in "abp")]
    plan, state = plan_of(*objects, conf=shares()), state_of(*objects)
    assert sorted(bind.pod for bind in plan.binds) == ["ns/a", "ns/b"]
    why = with_hint(pending(plan)["p"], state, plan)
    assert "card n-0 of node n has the most free memory: 12768 of 32768 MiB" in why.message


def test_of_a_card_that_is_split_the_reason_says_so() -> None:
    card = vgpu_node("n", register="n-0,7,40960,NVIDIA-A100-SXM4-40GB,true,mig:")
    objects: list[Objects] = [card, *(waiting(name, memory=10000) for name in "abcp")]
    plan, state = plan_of(*objects, conf=shares()), state_of(*objects)
    assert len(plan.binds) == 3
    assert with_hint(pending(plan)["p"], state, plan).message.endswith(
        "card n-0 of node n has the most free memory: 10240 of 40960 MiB, 100% of the cores, 4 of 7 slots; "
        "it is split into MIG instances, and one of them must be large enough"
    )


def hint(name: str, *objects: Objects, of: Data | None = None) -> str:
    """What the reason of a pod says about cards."""
    state = state_of(*objects)
    plan = plan_in(state, of or shares())
    return with_hint(pending(plan)[name], state, plan).message.rpartition("; ")[2]


def test_the_cards_that_the_plan_gives_to_other_pods_are_not_free() -> None:
    """Each of the two cards gets a pod in this cycle."""
    found = hint("p", vgpu_node("n"), waiting("a", memory=20000, number=2), waiting("p", memory=20000))
    assert found.startswith("card n-0 of node n has the most free memory: 12768 of 32768 MiB")


def test_the_cards_that_are_kept_for_a_nominated_pod_are_not_free() -> None:
    """Pod a waits for the first card, which a pod that ends has, and has the second one already."""
    ending = running("r", "n-0,NVIDIA,20000,0:", memory=20000, deleting=True)
    first = [
        priority_class("high", 9),
        group("a", priority="high"),
        vgpu("a", 20000, number=2, priority=9, nominated="n"),
    ]
    objects: list[Objects] = [vgpu_node("n"), ending, first, waiting("p", memory=20000)]
    assert nominations(plan_of(*objects, conf=shares())) == {"a": "n"}
    assert hint("p", *objects).startswith("card n-1 of node n has the most free memory: 12768 of 32768 MiB")


def test_whole_cards_have_no_free_memory_and_cards_without_a_limit_no_slots() -> None:
    cards = node("n", resources={"volcano.sh/gpu-number": 2, "volcano.sh/gpu-memory": 200})
    whole = [group("a", phase="Running"), pod("a", "a", node="n", requests={"volcano.sh/gpu-number": 1},
                                              annotations={"volcano.sh/gpu-index": "0"})]  # fmt: skip
    part = [group("b", phase="Running"), pod("b", "b", node="n", requests={"volcano.sh/gpu-memory": 70},
                                             annotations={"volcano.sh/gpu-index": "1"})]  # fmt: skip
    asking = [group("p"), pod("p", "p", requests={"volcano.sh/gpu-memory": 50})]
    assert (
        hint("p", cards, whole, part, asking)
        == "card 1 of node n has the most free memory: 30 of 100 MiB, 100% of the cores"
    )


def test_the_amounts_are_those_of_the_configuration() -> None:
    """A container that says nothing of memory gets the default, not a whole card."""
    others = [running(name, f"n-{i},NVIDIA,20000,0:", memory=20000) for i, name in enumerate("ab")]
    objects: list[Objects] = [config("nvidia:\n  defaultMemory: 20000\n"), vgpu_node("n"), others, waiting("p")]
    state = state_of(*objects)
    plan = plan_in(state, shares())
    message = with_hint(pending(plan)["p"], state, plan).message
    assert "the pod asks for 20000 MiB of a card; card n-0 of node n has the most free memory" in message


def test_the_cards_of_a_bind_are_read_from_its_annotations() -> None:
    plan = plan_of(vgpu_node("n"), waiting("p", memory=8, cores=9, number=2), conf=shares())
    assert [(part.card, part.memory, part.cores) for part in cards_in(plan.binds[0].annotations)] == [
        ("n-0", 8, 9),
        ("n-1", 8, 9),
    ]
    assert cards_in([(RECORD, "%")]) == []


def test_uses_count_records_that_can_be_read_and_pods_that_have_not_ended() -> None:
    ended = [
        group("c", phase="Completed"),
        vgpu("c", 5, node="n", phase="Succeeded", annotations={RECORD: "n-0,NVIDIA,5,0:"}),
    ]
    broken = running("b", "%", memory=5)
    state = state_of(vgpu_node("n"), running("a", "n-0,NVIDIA,7,3:", memory=7), broken, ended)
    assert [(use.card.id, use.memory, use.cores, len(use.parts)) for use in card_uses(state)] == [
        ("n-0", 7, 3, 1),
        ("n-1", 0, 0, 0),
    ]
