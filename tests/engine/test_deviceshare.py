"""The plugin deviceshare: parts of cards, each card accounted for by itself."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from kilauea.api.core import Pod
from kilauea.api.meta import Object
from kilauea.api.times import SECOND, format_time
from kilauea.engine.plan import Plan
from kilauea.engine.session import Session
from kilauea.engine.statement import StatementError
from support.builders import (
    NOW,
    Data,
    Objects,
    binds,
    codes,
    conf,
    gang,
    group,
    node,
    pending,
    plan_of,
    plugin,
    pod,
    priority_class,
)
from support.probes import action_called, inside, scores_of

REGISTER = "volcano.sh/node-vgpu-register"
NPU_RECORD = "hami.io/Ascend310P-devices-allocated"
RECORD = "volcano.sh/vgpu-ids-new"
GPU_INDEX = "volcano.sh/gpu-index"


def shares(policy: str = "", weight: int = 0, **more: Any) -> Data:
    """A configuration in which every kind of card is given out; `more` are arguments without their prefix."""
    flags = ("GPUSharingEnable", "GPUNumberEnable", "VGPUEnable", "AscendHAMiVNPUEnable")
    given: dict[str, Any] = {f"deviceshare.{flag}": True for flag in flags}
    given |= {"deviceshare.SchedulePolicy": policy, "deviceshare.ScheduleWeight": weight}
    return conf(
        "allocate, backfill, preempt",
        ["gang", "priority"],
        ["predicates", plugin("deviceshare", given | {f"deviceshare.{key}": value for key, value in more.items()})],
    )


def vgpu_node(
    name: str, cards: int = 2, memory: int = 32768, *, slots: int = 10, register: str | None = None
) -> Object:
    """A node with cards `NAME-0`, `NAME-1`, ..."""
    text = "".join(f"{name}-{i},{slots},{memory},NVIDIA-A100,true,hami-core:" for i in range(cards))
    offers = {
        "volcano.sh/vgpu-number": cards * slots,
        "volcano.sh/vgpu-memory": cards * memory,
        "volcano.sh/vgpu-cores": cards * 100,
    }
    marks = {REGISTER: text if register is None else register}
    return node(name, 64, "256Gi", resources=offers, annotations=marks)


def vgpu(name: str, memory: int = 0, cores: int = 0, number: int = 1, owner: str = "", **more: Any) -> Object:
    """A pod that asks for parts of cards; with a node it runs there."""
    asked = {"cpu": "1", "volcano.sh/vgpu-number": number}
    asked |= {"volcano.sh/vgpu-memory": memory} if memory else {}
    asked |= {"volcano.sh/vgpu-cores": cores} if cores else {}
    return pod(name, owner or name, requests=asked, **more)


def running(name: str, record: str, on: str = "n", **more: Any) -> list[Object]:
    """A pod with its group, on a node with some record."""
    return [group(name, phase="Running"), vgpu(name, node=on, annotations={RECORD: record}, **more)]


def waiting(name: str, **more: Any) -> list[Object]:
    """A pod with its group."""
    return [group(name), vgpu(name, **more)]


def record(plan: Plan, name: str, key: str = RECORD) -> str | None:
    """An annotation that a pod is bound with."""
    return next((dict(b.annotations).get(key) for b in plan.binds if b.pod == f"ns/{name}"), None)


# --- which card, and its record


@pytest.mark.parametrize(
    ("policy", "asked", "expected"),
    [
        pytest.param("binpack", {"memory": 8192, "cores": 30}, "n-0,NVIDIA,8192,30:", id="binpack: the fuller card"),
        pytest.param("spread", {"memory": 8192, "cores": 30}, "n-1,NVIDIA,8192,30:", id="spread: the empty card"),
        pytest.param("", {"memory": 8192, "cores": 30}, "n-1,NVIDIA,8192,30:", id="no policy: the last card"),
        pytest.param("binpack", {"memory": 8192, "cores": 100}, "n-1,NVIDIA,8192,100:", id="all cores: an unused card"),
        pytest.param("binpack", {"memory": 30000}, "n-1,NVIDIA,30000,0:", id="where the memory is"),
        pytest.param("binpack", {"memory": 1, "cores": 80}, "n-1,NVIDIA,1,80:", id="where the cores are"),
        pytest.param("binpack", {}, "n-1,NVIDIA,32768,0:", id="without an amount all memory of a card"),
        pytest.param("binpack", {"memory": 8, "number": 2}, "n-0,NVIDIA,8,0:n-1,NVIDIA,8,0:", id="parts of two cards"),
    ],
)
def test_a_pod_gets_the_card_that_fits_and_its_record_is_part_of_the_bind(
    policy: str, asked: dict[str, int], expected: str
) -> None:
    there = running("a", "n-0,NVIDIA,8192,30:", memory=8192, cores=30)
    plan = plan_of(vgpu_node("n"), there, waiting("p", **asked), conf=shares(policy))
    assert (binds(plan), record(plan, "p")) == ({"p": "n"}, expected)


def test_the_annotations_of_a_bind_are_those_that_the_device_plugin_reads() -> None:
    plan = plan_of(vgpu_node("n", 1), waiting("p", memory=8, cores=9), conf=shares())
    assert dict(plan.binds[0].annotations) == {
        "volcano.sh/vgpu-node": "n",
        "volcano.sh/vgpu-time": "1767225600",
        "volcano.sh/vgpu-ids-new": "n-0,NVIDIA,8,9:",
        "volcano.sh/devices-to-allocate": "n-0,NVIDIA,8,9:",
        "volcano.sh/bind-phase": "allocating",
        "volcano.sh/bind-time": "1767225600",
    }


@pytest.mark.parametrize(
    "there",
    [
        pytest.param(["n-0,NVIDIA,20000,0:", "n-1,NVIDIA,20000,0:"], id="half of each card is free, no card is"),
        pytest.param(["n-0,NVIDIA,1,50:", "n-1,NVIDIA,1,50:"], id="cores of two cards are not those of one"),
    ],
)
def test_free_parts_of_two_cards_do_not_make_a_card(there: list[str]) -> None:
    others = [running(f"r{i}", text, memory=int(text.split(",")[2])) for i, text in enumerate(there)]
    plan = plan_of(vgpu_node("n"), others, waiting("p", memory=20000, cores=60), conf=shares())
    assert codes(plan) == {"p": "Unschedulable"}
    assert "no cards with enough free memory, cores and slots" in pending(plan)["p"].message


def test_a_card_takes_no_more_pods_than_it_has_slots() -> None:
    plan = plan_of(vgpu_node("n", 1, slots=2), [waiting(f"p{i}", memory=1) for i in range(3)], conf=shares())
    assert (len(binds(plan)), len(codes(plan))) == (2, 1)


def test_two_pods_that_start_in_one_cycle_do_not_get_the_same_card() -> None:
    plan = plan_of(vgpu_node("n"), [waiting(f"p{i}", cores=100) for i in range(3)], conf=shares("binpack"))
    assert {record(plan, f"p{i}") for i in range(3)} == {"n-0,NVIDIA,32768,100:", "n-1,NVIDIA,32768,100:", None}


def test_a_gang_that_does_not_find_all_its_cards_gets_none() -> None:
    mates = gang("g", 3, requests={"cpu": "1", "volcano.sh/vgpu-number": 1, "volcano.sh/vgpu-cores": 100})
    plan = plan_of(vgpu_node("n"), mates, waiting("p", cores=100), conf=shares())
    assert binds(plan) == {"p": "n"}


def test_containers_of_a_pod_get_their_own_records() -> None:
    several = vgpu("p", memory=100, cores=60)
    assert isinstance(several, Pod)
    assert several.spec.containers
    first = several.spec.containers[0]
    several.spec.containers = [first, msgspec.structs.replace(first, resources=None), first]
    plan = plan_of(vgpu_node("n"), group("p"), several, conf=shares("binpack"))
    assert record(plan, "p") == "n-0,NVIDIA,100,60:;;n-1,NVIDIA,100,60:"


def test_all_containers_of_a_record_count_after_a_restart() -> None:
    there = running("a", "n-0,NVIDIA,100,60:;n-1,NVIDIA,100,60:", memory=100, cores=60)
    held = there[1]
    assert isinstance(held, Pod)
    assert held.spec.containers
    held.spec.containers = [held.spec.containers[0], held.spec.containers[0]]
    plan = plan_of(vgpu_node("n"), there, waiting("p", memory=1, cores=50), conf=shares())
    assert codes(plan) == {"p": "Unschedulable"}


@pytest.mark.parametrize("text", [None, "", "gone,NVIDIA,1,100:", "%%", "n-0,NVIDIA,x,1:", "n-0,NVIDIA,1,1:" * 100_000])
def test_a_pod_without_a_record_that_can_be_read_counts_where_a_new_one_would_go(text: str | None) -> None:
    held = vgpu("a", cores=100, node="n", annotations={} if text is None else {RECORD: text})
    objects = [vgpu_node("n"), group("a", phase="Running"), held]
    plan = plan_of(*objects, [waiting(f"p{i}", cores=100) for i in range(2)], conf=shares())
    assert len(binds(plan)) == 1


def test_the_cards_of_a_terminating_pod_are_given_out_again_when_it_is_gone() -> None:
    leaving = running("a", "n-0,NVIDIA,20000,0:", memory=20000, deleting=True)
    stays = running("b", "n-1,NVIDIA,20000,0:", memory=20000)
    plan = plan_of(vgpu_node("n"), leaving, stays, waiting("p", memory=20000), conf=shares())
    assert binds(plan) == {}
    assert [n.node for n in plan.nominations] == ["n"]


def test_preempt_makes_room_on_one_card() -> None:
    held = [vgpu(f"r{i}", 20000, owner="r", node="n", annotations={RECORD: f"n-{i},NVIDIA,20000,0:"}) for i in range(2)]
    others = [group("r", minimum=0, phase="Running"), *held]
    preemptor = [priority_class("high", 9), group("p", priority="high"), vgpu("p", memory=20000, priority=9)]
    plan = plan_of(vgpu_node("n"), others, preemptor, conf=shares())
    assert (binds(plan), len(plan.evictions)) == ({}, 1)
    assert [n.pod for n in plan.nominations] == ["ns/p"]


# --- the pod's own conditions


@pytest.mark.parametrize(
    ("marks", "expected"),
    [
        pytest.param({"volcano.sh/vgpu-use-gpuuuid": "n-0"}, "n-0", id="only this card"),
        pytest.param({"volcano.sh/vgpu-nouse-gpuuuid": "n-1"}, "n-0", id="not this card"),
        pytest.param({"volcano.sh/vgpu-use-gpuuuid": "m-7"}, None, id="a card that is nowhere"),
        pytest.param({"nvidia.com/use-gputype": "h100,a100"}, "n-1", id="one of these models, in any case"),
        pytest.param({"nvidia.com/use-gputype": "H100"}, None, id="another model"),
        pytest.param({"nvidia.com/nouse-gputype": "a100"}, None, id="not this model"),
        pytest.param({"volcano.sh/vgpu-mode": "hami-core"}, "n-1", id="the mode of the node"),
        pytest.param({"volcano.sh/vgpu-mode": "mig"}, None, id="another mode"),
    ],
)
def test_annotations_of_the_pod_choose_its_cards(marks: dict[str, str], expected: str | None) -> None:
    plan = plan_of(vgpu_node("n"), waiting("p", memory=1, annotations=marks), conf=shares())
    found = record(plan, "p")
    assert (found and found.split(",")[0]) == expected


def test_pods_of_a_group_that_is_spread_take_no_card_together() -> None:
    marks = {"volcano.sh/vgpu-podgroup-policy": "spread"}
    mates = [vgpu(f"p{i}", memory=1, owner="g", annotations=marks) for i in range(3)]
    plan = plan_of(vgpu_node("n"), group("g"), mates, conf=shares("binpack"))
    assert len(binds(plan)) == 2
    assert len({record(plan, bound) for bound in binds(plan)}) == 2


# --- nodes


@pytest.mark.parametrize(
    "register",
    [
        pytest.param("GPU-a,10,32768", id="too few fields"),
        pytest.param("GPU-a,ten,32768,NVIDIA,true,hami-core:", id="a number in words"),
        pytest.param("GPU-a,-1,32768,NVIDIA,true,hami-core:", id="a negative number"),
        pytest.param("GPU-a,1,99999999999999999999,NVIDIA,true,hami-core:", id="a huge number"),
        pytest.param("GPU-a,1,1,NVIDIA,true,hami-core:" * 2, id="a card twice"),
        pytest.param("".join(f"GPU-{i},1,1,N,true,x:" for i in range(1000)), id="a thousand cards"),
        pytest.param("x" * 1_000_000, id="a megabyte"),
    ],
)
def test_a_node_with_a_register_that_cannot_be_used_is_passed_over_by_name(register: str) -> None:
    plan = plan_of(vgpu_node("bad", register=register), vgpu_node("good"), waiting("p", memory=1), conf=shares())
    assert binds(plan) == {"p": "good"}
    assert [f.where for f in plan.findings if f.code == "DeviceAnnotations"] == ["node bad"]
    alone = plan_of(vgpu_node("bad", register=register), waiting("p", memory=1), conf=shares())
    assert "node(s) had device annotations that cannot be used" in pending(alone)["p"].message


def test_a_node_that_offers_the_resource_and_registers_no_card_is_passed_over() -> None:
    plan = plan_of(vgpu_node("n", register=""), waiting("p", memory=1), conf=shares())
    assert "node(s) had no registered devices of the requested kind" in pending(plan)["p"].message


def test_a_card_is_given_out_however_its_model_is_written() -> None:
    register = "n-0,10,32768,A100,true,hami-core:"
    assert record(plan_of(vgpu_node("n", 1, register=register), waiting("p"), conf=shares()), "p") == (
        "n-0,NVIDIA,32768,0:"
    )
    other = waiting("p", annotations={"nvidia.com/use-gputype": "H100"})
    assert binds(plan_of(vgpu_node("n", 1, register=register), other, conf=shares())) == {}


def test_unhealthy_cards_are_not_given_out() -> None:
    text = "n-0,10,100,NVIDIA,true,hami-core:n-1,10,100,NVIDIA,false,hami-core:"
    plan = plan_of(vgpu_node("n", register=text), waiting("p", memory=1), conf=shares())
    assert record(plan, "p") == "n-0,NVIDIA,1,0:"


@pytest.mark.parametrize(("policy", "expected"), [("binpack", "b"), ("spread", "a")])
def test_the_policy_scores_nodes_by_their_cards(policy: str, expected: str) -> None:
    there = running("x", "b-0,NVIDIA,8192,0:", on="b", memory=8192)
    plan = plan_of(vgpu_node("a", 1), vgpu_node("b", 1), there, waiting("p", memory=8192), conf=shares(policy, 10))
    assert binds(plan) == {"p": expected}


@pytest.mark.parametrize(
    ("asked", "expected"),
    [
        # Card b-0 has 8192 of 32768 MiB in use; 10 points for each hundredth, halves rounded up.
        pytest.param({"memory": 8192}, {"a": 250, "b": 500}, id="the worked example of the specification"),
        pytest.param({"memory": 8192, "number": 2}, {"a": 500, "b": 750}, id="the cards of a pod add up"),
        pytest.param({"memory": 4096}, {"a": 130, "b": 380}, id="halves of hundredths"),
        pytest.param({"memory": 1000}, {"a": 30, "b": 280}, id="less than halves"),
        pytest.param({}, {"a": 1000, "b": 1000}, id="a whole card, which is full in any case"),
    ],
)
def test_binpack_scores_how_full_the_cards_of_a_pod_get(asked: dict[str, int], expected: dict[str, float]) -> None:
    there = running("x", "b-0,NVIDIA,8192,0:", on="b", memory=8192)
    nodes = [vgpu_node("a"), vgpu_node("b")]
    assert scores_of(nodes, there, waiting("p", **asked), conf=shares("binpack", 10)) == expected


def test_kinds_that_are_switched_off_do_not_hold_a_pod_up() -> None:
    both = pod("p", "p", requests={"cpu": "1", "volcano.sh/gpu-memory": 1, "volcano.sh/vgpu-memory": 8})
    there = vgpu_node("n", 1)
    assert there.status is not None  # type: ignore[attr-defined]  # nodes have one
    there.status.allocatable["volcano.sh/gpu-memory"] = 10  # type: ignore[attr-defined]
    only = conf("allocate", ["gang"], ["predicates", plugin("deviceshare", {"deviceshare.VGPUEnable": True})])
    plan = plan_of(there, group("p"), both, conf=only)
    assert (binds(plan), record(plan, "p")) == ({"p": "n"}, "n-0,NVIDIA,8,0:")


def test_without_its_plugin_nothing_is_written() -> None:
    plan = plan_of(vgpu_node("n"), waiting("p", memory=1))
    assert [b.annotations for b in plan.binds] == [()]


# --- GPUs shared by memory, and taken whole


def old_node(name: str = "n", cards: int = 2, memory: int = 10, **more: Any) -> Object:
    """A node that offers the memory and the number of its cards."""
    offers = {"volcano.sh/gpu-memory": cards * memory, "volcano.sh/gpu-number": cards}
    return node(name, 64, "256Gi", resources=offers, **more)


def old(name: str, memory: int = 0, number: int = 0, **more: Any) -> list[Object]:
    """A pod that asks for memory of a card or for whole cards."""
    asked: dict[str, Any] = {"cpu": "1"}
    asked |= {"volcano.sh/gpu-memory": memory} if memory else {}
    asked |= {"volcano.sh/gpu-number": number} if number else {}
    return [group(name), pod(name, name, requests=asked, **more)]


@pytest.mark.parametrize(
    ("objects", "expected"),
    [
        pytest.param([old("p", memory=6), old("q", memory=6)], {"p": "0", "q": "1"}, id="each on one card"),
        pytest.param([old("p", memory=4), old("q", memory=6)], {"p": "0", "q": "0"}, id="the lowest card that fits"),
        pytest.param([old("p", memory=6), old("q", number=1)], {"p": "0", "q": "1"}, id="whole cards beside shares"),
        pytest.param([old("p", number=2), old("q", memory=1)], {"p": "0,1"}, id="no share of a whole card"),
        pytest.param([old("p", memory=1), old("q", number=2)], {"p": "0"}, id="a shared card is not given out whole"),
        pytest.param([old("p", memory=11)], {}, id="more than a card has"),
    ],
)
def test_shares_by_memory_and_whole_cards_are_never_given_out_twice(
    objects: list[Objects], expected: dict[str, str]
) -> None:
    plan = plan_of(old_node(), *objects, conf=shares())
    found = {b.pod.removeprefix("ns/"): dict(b.annotations)["volcano.sh/gpu-index"] for b in plan.binds}
    assert found == expected


def test_unhealthy_ids_remove_cards() -> None:
    marks = {"volcano.sh/gpu-unhealthy-ids": "0"}
    plan = plan_of(old_node(annotations=marks), old("p", memory=1), conf=shares())
    assert dict(plan.binds[0].annotations)["volcano.sh/gpu-index"] == "1"


SAMPLE = {"predicate.GPUSharingEnable": True, "predicate.GPUNumberEnable": True}
"""Switches as configurations for former versions have them."""


@pytest.mark.parametrize(
    ("entries", "expected"),
    [
        pytest.param([plugin("predicates", SAMPLE)], "0", id="without deviceshare"),
        pytest.param([plugin("predicates", SAMPLE), "deviceshare"], "0", id="with deviceshare, which says nothing"),
        pytest.param(
            [plugin("predicates", SAMPLE), plugin("deviceshare", {f"deviceshare{k[9:]}": False for k in SAMPLE})],
            None,
            id="with deviceshare, which says otherwise",
        ),
        pytest.param([plugin("predicates", dict.fromkeys(SAMPLE, False))], None, id="switched off"),
    ],
)
def test_switches_of_former_versions_are_passed_on_with_a_warning(entries: list[Any], expected: str | None) -> None:
    plan = plan_of(old_node(), old("p", memory=6), conf=conf("allocate", ["gang"], entries))
    assert dict(plan.binds[0].annotations).get("volcano.sh/gpu-index") == expected
    moved = [finding.hint for finding in plan.findings if finding.code == "moved-argument"]
    assert moved == ["deviceshare.GPUSharingEnable", "deviceshare.GPUNumberEnable"]


@pytest.mark.parametrize(("policy", "expected"), [("binpack", {"a": 300, "b": 500}), ("", {"a": 0, "b": 0})])
def test_the_policy_holds_for_memory_of_a_card_too(policy: str, expected: dict[str, float]) -> None:
    held = pod("x", "x", requests={"cpu": "1", "volcano.sh/gpu-memory": 2}, node="b", annotations={GPU_INDEX: "0"})
    nodes = [old_node("a"), old_node("b"), group("x", phase="Running"), held]
    assert scores_of(nodes, old("p", memory=3), conf=shares(policy, 10)) == expected


# --- Ascend


def ascend_node(text: str | None = None, name: str = "n") -> Object:
    card = '{{"id":"npu-{0}","index":{0},"count":7,"devmem":21527,"devcore":100,"type":"Ascend310P","health":true}}'
    cards = "[" + ",".join(card.format(i) for i in range(2)) + "]"
    offers = {"huawei.com/Ascend310P": 14, "huawei.com/Ascend310P-memory": 2 * 21527}
    return node(name, 64, resources=offers, annotations={"hami.io/node-register-Ascend310P": text or cards})


def ascend(name: str, memory: int = 0) -> list[Object]:
    asked: dict[str, Any] = {"cpu": "1", "huawei.com/Ascend310P": 1}
    asked |= {"huawei.com/Ascend310P-memory": memory} if memory else {}
    return [group(name), pod(name, name, requests=asked)]


def test_npus_are_given_out_by_memory_with_hami_s_annotations() -> None:
    plan = plan_of(ascend_node(), ascend("p", 6144), ascend("q"), conf=shares())
    found = {b.pod.removeprefix("ns/"): dict(b.annotations) for b in plan.binds}
    assert found["p"]["hami.io/Ascend310P-devices-allocated"] == "npu-0,Ascend310P,6144,0:"
    assert found["q"]["hami.io/Ascend310P-devices-allocated"] == "npu-1,Ascend310P,21527,0:"
    assert found["p"]["huawei.com/Ascend310P"] == '[{"UUID":"npu-0","temp":"vir02"}]'


@pytest.mark.parametrize(
    ("asked", "key", "expected"),
    [
        ({"volcano.sh/vgpu-number": 1, "volcano.sh/vgpu-memory-percentage": 25}, RECORD, "n-1,NVIDIA,8192,0:"),
        ({"volcano.sh/vgpu-number": 1, "volcano.sh/vgpu-memory": 1000}, RECORD, "n-1,NVIDIA,1000,0:"),
        ({"volcano.sh/vgpu-number": 1, "volcano.sh/vgpu-cores": 30}, RECORD, "n-1,NVIDIA,32768,30:"),
        ({"huawei.com/Ascend310P": 1, "huawei.com/Ascend310P-memory": 6144}, NPU_RECORD, "npu-0,Ascend310P,6144,0:"),
    ],
)
def test_a_node_need_not_offer_parts_of_its_cards_as_resources(asked: dict[str, Any], key: str, expected: str) -> None:
    notes = {**vgpu_node("n").annotations, **ascend_node().annotations}
    bare = node("n", 64, resources={"volcano.sh/vgpu-number": 20, "huawei.com/Ascend310P": 14}, annotations=notes)
    plan = plan_of(bare, group("p"), pod("p", "p", requests={"cpu": "1", **asked}), conf=shares())
    assert record(plan, "p", key) == expected


def test_a_node_has_no_parts_of_cards_that_are_not_healthy_or_cannot_be_read() -> None:
    offers = {"volcano.sh/vgpu-number": 20}
    sick = "a,10,100,NVIDIA-A100,false,hami-core:"
    for text in (sick, "garbage", "x" * 300_000):
        bare = node("n", 64, resources=offers, annotations={REGISTER: text})
        plan = plan_of(bare, waiting("p", memory=50), conf=shares())
        assert "Insufficient volcano.sh/vgpu-memory" in pending(plan)["p"].message


def npu_pair() -> list[Objects]:
    """Two nodes with NPUs of 21527 MiB, of which one has 6144 MiB in use on node b."""
    record = {"hami.io/Ascend310P-devices-allocated": "npu-0,Ascend310P,6144,0:"}
    held = {"cpu": "1", "huawei.com/Ascend310P": 1, "huawei.com/Ascend310P-memory": 6144}
    busy = pod("x", "x", requests=held, node="b", annotations=record)
    return [ascend_node(name="a"), ascend_node(name="b"), group("x", phase="Running"), busy]


@pytest.mark.parametrize(
    ("policy", "expected"),
    [("binpack", {"a": 0, "b": 290}), ("spread", {"a": 1000, "b": 1000}), ("", {"a": 0, "b": 0})],
)
def test_npus_are_scored_as_they_were_before_the_pod(policy: str, expected: dict[str, float]) -> None:
    # 6144 of 21527 MiB are 28.5 hundredths; with spread, the pod gets the unused chip of either node.
    assert scores_of(npu_pair(), ascend("p", 6144), conf=shares(policy, 10)) == expected


@pytest.mark.parametrize("text", ["{", "[1]", '[{"id":"a","count":"x"}]', '[{"index":0}]', "[" * 100_000])
def test_a_node_with_npus_that_cannot_be_read_is_passed_over(text: str) -> None:
    plan = plan_of(ascend_node(text), ascend("p"), conf=shares())
    assert codes(plan) == {"p": "Unschedulable"}
    assert [f.code for f in plan.findings] == ["DeviceAnnotations"]


def test_the_memory_of_an_npu_is_that_of_a_template() -> None:
    plan = plan_of(ascend_node(), ascend("p", 1000), ascend("q", 20000), conf=shares())
    found = {b.pod.removeprefix("ns/"): dict(b.annotations) for b in plan.binds}
    assert found["p"]["hami.io/Ascend310P-devices-allocated"] == "npu-0,Ascend310P,3072,0:"
    assert found["p"]["huawei.com/Ascend310P"] == '[{"UUID":"npu-0","temp":"vir01"}]'
    assert found["q"]["hami.io/Ascend310P-devices-allocated"] == "npu-1,Ascend310P,21527,0:"


@pytest.mark.parametrize(
    ("asked", "expected"),
    [
        pytest.param({"": 2, "-memory": 3072}, "does not support partial memory", id="parts of several NPUs"),
        pytest.param({"": 1, "-memory": 30000}, "no NPU of the requested kind has", id="more than a chip has"),
    ],
)
def test_npus_that_no_node_can_give_are_refused_by_name(asked: dict[str, int], expected: str) -> None:
    requests = {"cpu": "1"} | {f"huawei.com/Ascend310P{suffix}": amount for suffix, amount in asked.items()}
    plan = plan_of(ascend_node(), group("p"), pod("p", "p", requests=requests), conf=shares())
    assert codes(plan) == {"p": "Unschedulable"}
    assert expected in pending(plan)["p"].message


@pytest.mark.parametrize(("soft", "expected"), [("true", {"p": "n"}), ("false", {}), (None, {})])
def test_a_pod_that_shares_npus_by_software_needs_a_node_that_does(soft: str | None, expected: dict[str, str]) -> None:
    there = ascend_node()
    assert there.metadata.annotations is not None
    there.metadata.annotations |= {"hami-vnpu-core": soft} if soft is not None else {}
    asked = {"cpu": "1", "huawei.com/Ascend310P": 1, "huawei.com/Ascend310P-memory": 1000}
    marks = {"huawei.com/vnpu-mode": "hami-core"}
    plan = plan_of(there, group("p"), pod("p", "p", requests=asked, annotations=marks), conf=shares())
    assert binds(plan) == expected
    if expected:
        assert dict(plan.binds[0].annotations)["huawei.com/Ascend310P"] == '[{"UUID":"npu-0","memory":1000,"core":0}]'


@pytest.mark.parametrize(
    ("devcore", "cores", "expected"),
    [
        pytest.param("8", [60, 40], ["p0", "p1"], id="hundredths, however many cores a chip has"),
        pytest.param("8", [60, 50], ["p0"], id="no more than all"),
        pytest.param("0", [60, 40], ["p0", "p1"], id="a chip that says nothing of its cores"),
    ],
)
def test_npus_that_are_shared_by_software_have_a_hundred_cores(
    devcore: str, cores: list[int], expected: list[str]
) -> None:
    text = f'[{{"id":"npu-0","count":7,"devmem":21527,"devcore":{devcore},"type":"Ascend310P"}}]'
    notes = {"hami.io/node-register-Ascend310P": text, "hami-vnpu-core": "true"}
    there = node("n", 64, resources={"huawei.com/Ascend310P": 7}, annotations=notes)
    asked = {"cpu": "1", "huawei.com/Ascend310P": 1, "huawei.com/Ascend310P-memory": 1000}
    marks = {"huawei.com/vnpu-mode": "hami-core"}
    pods = [
        [group(f"p{i}"), pod(f"p{i}", f"p{i}", requests={**asked, "huawei.com/Ascend310P-core": n}, annotations=marks)]
        for i, n in enumerate(cores)
    ]
    assert sorted(binds(plan_of(there, pods, conf=shares()))) == expected


def test_an_npu_that_names_no_cores_is_given_out_whole() -> None:
    text = '[{"id":"npu-0","count":7,"devmem":21527,"devcore":0,"type":"Ascend310P"}]'
    assert binds(plan_of(ascend_node(text), ascend("p"), conf=shares())) == {"p": "n"}


def test_npus_of_one_network_are_given_together() -> None:
    networks = [1, 2, 1, 2, 2]
    cards = ",".join(
        f'{{"id":"npu-{i}","count":1,"devmem":100,"type":"Ascend910B","custominfo":{{"NetworkID":{network}}}}}'
        for i, network in enumerate(networks)
    )
    offers = {"huawei.com/Ascend910B": 5}
    there = node("n", 64, resources=offers, annotations={"hami.io/node-register-Ascend910B": f"[{cards}]"})
    asked = pod("p", "p", requests={"cpu": "1", "huawei.com/Ascend910B": 3})
    plan = plan_of(there, group("p"), asked, conf=shares())
    text = dict(plan.binds[0].annotations)["hami.io/Ascend910B-devices-allocated"]
    assert [part.split(",")[0] for part in text.split(":")[:-1]] == ["npu-1", "npu-3", "npu-4"]


def npu_node(name: str, *networks: int | None, kind: str = "Ascend910B") -> Object:
    """A node with a chip on each of some networks."""
    custom = [f',"custominfo":{{"NetworkID":{network}}}' if network is not None else "" for network in networks]
    cards = ",".join(
        f'{{"id":"{name}-{i}","count":1,"devmem":100,"type":"{kind}"{each}}}' for i, each in enumerate(custom)
    )
    offers = {f"huawei.com/{kind}": len(networks)}
    return node(name, 64, resources=offers, annotations={f"hami.io/node-register-{kind}": f"[{cards}]"})


@pytest.mark.parametrize(
    ("there", "number", "weight", "expected"),
    [
        pytest.param([npu_node("a", 1, 2), npu_node("b", 1, 1)], 2, 1, "b", id="two chips of one network"),
        pytest.param([npu_node("a", 1, 1, 2, 2), npu_node("b", 1, 1, 1, 2)], 4, 1, "b", id="three of four chips"),
        pytest.param([npu_node("a", 1, None), npu_node("b", 1, 2)], 2, 1, "b", id="a chip without a network"),
        pytest.param([npu_node("a", 1, 2), npu_node("b", 1, 1)], 2, 0, "a", id="no weight"),
        pytest.param([npu_node("a", 1, 2), npu_node("b", 1, 1)], 1, 1, "a", id="a single chip"),
    ],
)
def test_a_node_whose_chips_are_of_one_network_scores_higher(
    there: list[Object], number: int, weight: int, expected: str
) -> None:
    asked = pod("p", "p", requests={"cpu": "1", "huawei.com/Ascend910B": number})
    assert binds(plan_of(there, group("p"), asked, conf=shares(weight=weight))) == {"p": expected}


def test_the_networks_of_other_chips_do_not_count() -> None:
    there = [npu_node("a", 1, 2, kind="Ascend310P"), npu_node("b", 1, 1, kind="Ascend310P")]
    asked = pod("p", "p", requests={"cpu": "1", "huawei.com/Ascend310P": 2})
    assert binds(plan_of(there, group("p"), asked, conf=shares(weight=1))) == {"p": "a"}


# --- rules

TRAIN, WEB, GREEN = {"app": "train"}, {"app": "web"}, {"app": "web", "tint": "green"}


@pytest.mark.parametrize(
    ("rules", "first", "second", "shared"),
    [
        pytest.param([TRAIN], TRAIN, TRAIN, False, id="two pods of one rule share no card"),
        pytest.param([TRAIN], TRAIN, WEB, True, id="others join them"),
        pytest.param([TRAIN, WEB], TRAIN, WEB, True, id="pods of different rules share"),
        pytest.param([GREEN], GREEN, WEB, True, id="a pod matches with all labels of a rule"),
        pytest.param([TRAIN, WEB], GREEN, WEB, False, id="any rule that both match"),
        pytest.param([], TRAIN, TRAIN, True, id="without rules all share"),
    ],
)
@pytest.mark.parametrize("runs", [True, False], ids=["one runs already", "both start"])
def test_pods_that_match_the_same_rule_share_no_card(
    rules: list[Data], first: dict[str, str], second: dict[str, str], shared: bool, runs: bool
) -> None:
    where: Data = {"node": "n", "annotations": {RECORD: "n-0,NVIDIA,10,10:"}} if runs else {}
    a = [group("a", phase="Running" if runs else "Inqueue"), vgpu("a", 10, 10, labels=first, **where)]
    b = [group("b"), vgpu("b", 10, 10, labels=second)]
    plan = plan_of(vgpu_node("n", 1), a, b, conf=shares(GPUExclusiveRules=rules))
    assert (len(binds(plan)) == (1 if runs else 2)) is shared


@pytest.mark.parametrize("rule", ["app=train", {}, {"app": 3}, 7, None])
def test_a_rule_that_is_not_a_map_of_labels_is_named_and_left_out(rule: Any) -> None:
    plan = plan_of(vgpu_node("n"), waiting("p"), conf=shares(GPUExclusiveRules=[rule]))
    assert binds(plan) == {"p": "n"}
    assert [f.where for f in plan.findings] == ["plugin deviceshare: deviceshare.GPUExclusiveRules[0]"]


# --- actions of users


def wide_node() -> Object:
    """A node with one card that offers more than its card has, so that only the card is short."""
    there = vgpu_node("n", 1)
    there.status.allocatable |= dict.fromkeys(("volcano.sh/vgpu-cores", "volcano.sh/vgpu-memory"), 100000)  # type: ignore[attr-defined]  # nodes have one
    return there


def test_an_action_that_places_where_no_card_is_free_is_refused_and_can_go_on() -> None:
    def execute(session: Session) -> None:
        statement = session.statement()
        for job in session.waiting_jobs():
            for task in job.pending():
                try:
                    statement.allocate(task, 0)
                except StatementError as error:
                    refused.append(str(error))
        statement.commit()

    refused: list[str] = []
    document = shares()
    document["actions"] = "enqueue, launch"
    there: list[Objects] = [wide_node(), waiting("p", cores=60), waiting("q", cores=60)]
    plan = plan_of(there, conf=document, actions=[action_called("launch", execute)])
    message = "task ns/q cannot be placed: node n has no cards with enough free memory, cores and slots for it"
    assert (binds(plan), refused) == ({"p": "n"}, [message])
    assert record(plan, "p") == "n-0,NVIDIA,32768,60:"


def test_placing_at_once_is_refused_too_where_no_card_is_free() -> None:
    def act(session: Session) -> None:
        tasks = session.state.tasks
        session.allocate_at_once(tasks["ns/p"], 0)
        refusal = session.allocate_at_once(tasks["ns/q"], 0)
        assert refusal is not None
        assert "has no cards with enough free memory" in refusal.message
        assert tasks["ns/q"].node == ""
        assert session.card_ledger is not None
        assert sorted(session.card_ledger.bookings) == ["ns/p"]

    document = shares()
    document["actions"] = "enqueue"
    inside(wide_node(), waiting("p", cores=60), waiting("q", cores=60), do=act, conf=document)


# --- locks of nodes


@pytest.mark.parametrize(
    ("seconds", "bound"),
    [
        pytest.param(10, False, id="a fresh lock: the pod waits for the node"),
        pytest.param(301, True, id="a stale lock holds nothing up"),
        pytest.param(None, True, id="what is not a time locks nothing"),
    ],
)
def test_a_locked_node_starts_no_pod(seconds: int | None, bound: bool) -> None:
    there = vgpu_node("n")
    assert there.metadata.annotations is not None
    text = format_time(NOW - seconds * SECOND) if seconds is not None else "soon"
    there.metadata.annotations |= {"hamivgpu": text}
    plan = plan_of(there, waiting("p"), conf=shares(NodeLockEnable=True))
    assert (binds(plan), [n.node for n in plan.nominations]) == (({"p": "n"}, []) if bound else ({}, ["n"]))
    other = plan_of(there, vgpu_node("other"), waiting("p"), conf=shares(NodeLockEnable=True))
    assert binds(other) == {"p": "n" if bound else "other"}
    assert binds(plan_of(there, waiting("p"), conf=shares())) == {"p": "n"}


def test_a_bind_names_the_locks_of_the_cards_that_it_gives() -> None:
    plan = plan_of(vgpu_node("n"), waiting("p"), conf=shares(NodeLockEnable=True))
    assert plan.binds[0].locks == ("hamivgpu",)
    assert plan_of(vgpu_node("n"), waiting("p"), conf=shares()).binds[0].locks == ()


# --- arguments


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        pytest.param({"deviceshare.VGPUEnable": "maybe"}, "deviceshare.VGPUEnable takes true or false", id="no bool"),
        pytest.param({"deviceshare.SchedulePolicy": "binpak"}, "did you mean 'binpack'?", id="a policy misspelt"),
        pytest.param({"deviceshare.SchedulePolicy": "x"}, "takes binpack or spread, not 'x'", id="an unknown policy"),
        pytest.param({"deviceshare.ScheduleWeight": -1}, "cannot be less than 0", id="a negative weight"),
        pytest.param({"deviceshare.VgpuEnable": True}, "did you mean 'deviceshare.VGPUEnable'?", id="a key misspelt"),
    ],
)
def test_invalid_arguments_are_found_and_change_nothing(given: dict[str, Any], expected: str) -> None:
    document = conf("allocate", ["gang"], ["predicates", plugin("deviceshare", given)])
    plan = plan_of(vgpu_node("n"), waiting("p", memory=1), conf=document)
    assert binds(plan) == {"p": "n"}
    assert any(expected in finding.message for finding in plan.findings), plan.findings
