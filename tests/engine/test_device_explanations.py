"""Reasons why cards do not fit, and the cards that a plan gives to a pod."""

from __future__ import annotations

from engine.test_deviceshare import RECORD, running, shares, vgpu, vgpu_node, waiting
from kilauea.engine.devices.usage import card_uses
from kilauea.engine.explain.group import with_hint
from kilauea.engine.model.devices import cards_in
from support.builders import Objects, group, pending, plan_of, state_of


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
