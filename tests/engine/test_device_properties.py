"""Cards are never given out twice, whatever asks for them, over cycles, evictions and restarts."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple
from unittest.mock import patch

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kilauea.api.core import Pod
from kilauea.api.devices import read_record
from kilauea.api.meta import Object
from kilauea.engine.cycle import cycle
from kilauea.engine.devices import ledger
from kilauea.engine.plan import Plan
from kilauea.simulator.cluster import SimulatedCluster
from support.builders import (
    NOW,
    Entry,
    build,
    conf,
    flat,
    group,
    manifest,
    node,
    parsed,
    plugin,
    pod,
    priority_class,
    queue,
    state_of,
)

MEMORY, SLOTS = 100, 4
RECORD = "volcano.sh/vgpu-ids-new"


class Ask(NamedTuple):
    """Cards that each pod of a gang asks for."""

    pods: int
    number: int
    memory: int
    cores: int
    containers: int
    high: bool
    spread: bool


ASKS = st.builds(
    Ask,
    st.integers(1, 3),
    st.integers(1, 2),
    st.sampled_from([0, 10, 30, 60, 100]),
    st.sampled_from([0, 10, 50, 100]),
    st.integers(1, 2),
    st.booleans(),
    st.booleans(),
)


def machine(name: str, cards: int) -> Object:
    text = "".join(f"{name}-{i},{SLOTS},{MEMORY},NVIDIA-A,true,hami-core:" for i in range(cards))
    names = ("volcano.sh/vgpu-number", "volcano.sh/vgpu-memory", "volcano.sh/vgpu-cores")
    offers = dict(zip(names, (cards * SLOTS, cards * MEMORY, cards * 100), strict=True))
    return node(name, 64, resources=offers, annotations={"volcano.sh/node-vgpu-register": text})


def gang_of(index: int, ask: Ask) -> list[Object]:
    """A group and its pods; the group may lose any of them."""
    name = f"g{index}"
    asked = {"cpu": "1", "volcano.sh/vgpu-number": ask.number}
    asked |= {"volcano.sh/vgpu-memory": ask.memory} if ask.memory else {}
    asked |= {"volcano.sh/vgpu-cores": ask.cores} if ask.cores else {}
    marks = {"volcano.sh/vgpu-podgroup-policy": "spread"} if ask.spread else {}
    level = "high" if ask.high else "low"
    out: list[Object] = [group(name, minimum=0, priority=level, created=index)]
    for number in range(ask.pods):
        made = manifest(pod(f"{name}-{number}", name, requests=asked, annotations=marks, created=index))
        made["metadata"]["ownerReferences"] = [
            {"apiVersion": "v1", "kind": "Job", "name": name, "uid": name, "controller": True}
        ]
        made["spec"]["containers"] *= ask.containers
        made["spec"]["terminationGracePeriodSeconds"] = 2
        out.append(build(made))
    return out


def check(objects: Iterable[Object]) -> None:
    """No card has more than it offers, and each pod has what it asked for on cards of its node."""
    used: dict[str, list[int]] = {}
    mates: dict[tuple[str, str], str] = {}
    for each in objects:
        if not isinstance(each, Pod) or not each.spec.node_name:
            continue
        for container, slices in zip(each.spec.containers or (), read_record(each.annotations[RECORD]), strict=True):
            asked = (container.resources and container.resources.requests) or {}
            assert len({s.card for s in slices}) == int(asked["volcano.sh/vgpu-number"])
            for part in slices:
                assert part.card.startswith(each.spec.node_name + "-")
                assert part.memory == int(asked.get("volcano.sh/vgpu-memory", MEMORY))
                amounts = used.setdefault(part.card, [0, 0, 0, 0])
                amounts[0] += part.memory
                amounts[1] += part.cores
                amounts[2] += 1
                amounts[3] += part.cores == 100
                if "volcano.sh/vgpu-podgroup-policy" in each.annotations:
                    place = (each.annotations["scheduling.k8s.io/group-name"], part.card)
                    assert mates.setdefault(place, each.key) == each.key
    for card, (memory, cores, pods, whole) in used.items():
        assert (memory <= MEMORY, cores <= 100, pods <= SLOTS) == (True, True, True), (card, memory, cores, pods)
        assert not whole or pods == 1, card


@pytest.mark.slow
@given(
    st.lists(st.integers(1, 3), min_size=1, max_size=3),
    st.lists(ASKS, min_size=1, max_size=7),
    st.sampled_from(["", "binpack", "spread", "fragmentation"]),
    st.integers(1, 3),
)
def test_no_card_is_given_out_twice_over_cycles_evictions_and_restarts(
    cards: list[int], asks: list[Ask], policy: str, waves: int
) -> None:
    arguments: dict[str, Any] = {"deviceshare.VGPUEnable": True, "deviceshare.ScheduleWeight": 1}
    if policy != "fragmentation":
        arguments["deviceshare.SchedulePolicy"] = policy
    tier: list[Entry] = [
        "predicates",
        plugin("deviceshare", arguments),
        *(["fragmentation"] if policy == "fragmentation" else []),
    ]
    usable = parsed(conf("allocate, backfill, preempt", ["priority", "gang"], tier))[0]
    machines = [machine(f"n{i}", count) for i, count in enumerate(cards)]
    cluster = SimulatedCluster(flat([queue("q"), priority_class("low", 1), priority_class("high", 9), machines]), NOW)
    for wave in range(waves):
        for index, ask in enumerate(asks[wave::waves]):
            cluster.put(*gang_of(wave * 10 + index, ask))
        for _ in range(4):
            # Each cycle starts from the objects alone, as a scheduler does that has just restarted.
            plan = cycle(state_of(cluster.objects), usable, cluster.now)
            assert [finding for finding in plan.findings if finding.error] == []
            cluster.carry_out(plan)
            check(cluster.objects)


@pytest.mark.slow
@given(st.lists(ASKS, min_size=1, max_size=6), st.sampled_from(["", "binpack", "spread"]))
def test_a_cycle_leaves_the_state_as_it_was_and_decides_the_same_again(asks: list[Ask], policy: str) -> None:
    arguments = {"deviceshare.VGPUEnable": True, "deviceshare.SchedulePolicy": policy, "deviceshare.ScheduleWeight": 1}
    usable = parsed(conf("allocate, preempt", ["priority"], ["predicates", plugin("deviceshare", arguments)]))[0]
    objects = flat([machine("n0", 2), machine("n1", 3), [gang_of(i, ask) for i, ask in enumerate(asks)]])
    state = state_of(objects)
    first: Plan = cycle(state, usable, NOW)
    assert cycle(state, usable, NOW) == first
    assert cycle(state_of(list(reversed(objects))), usable, NOW) == first


@pytest.mark.slow
@given(
    st.lists(st.integers(1, 3), min_size=2, max_size=4),
    st.lists(ASKS, min_size=1, max_size=6),
    st.sampled_from(["", "binpack", "spread", "fragmentation"]),
)
def test_what_is_remembered_of_cards_in_the_same_state_decides_nothing(
    cards: list[int], asks: list[Ask], policy: str
) -> None:
    own: dict[str, Any] = {"deviceshare.SchedulePolicy": policy, "deviceshare.ScheduleWeight": 3}
    own = {} if policy == "fragmentation" else own
    tier: list[Entry] = ["predicates", plugin("deviceshare", {"deviceshare.VGPUEnable": True, **own})]
    tier += ["fragmentation"] if policy == "fragmentation" else []
    usable = parsed(conf("allocate, preempt", ["priority"], tier))[0]
    machines = [machine(f"n{i}", count) for i, count in enumerate(cards)]
    objects = flat([machines, [gang_of(i, ask) for i, ask in enumerate(asks)]])
    remembering: Plan = cycle(state_of(objects), usable, NOW)
    with patch.object(ledger, "depends_on_state", lambda shape: False):
        assert cycle(state_of(objects), usable, NOW) == remembering


def test_the_check_finds_a_card_that_is_given_out_twice() -> None:
    marks = {RECORD: "n0-0,NVIDIA,60,0:"}
    asked = {"volcano.sh/vgpu-number": 1, "volcano.sh/vgpu-memory": 60}
    twice = [pod(name, requests=asked, node="n0", annotations=marks) for name in ("p", "q")]
    try:
        check(twice)
    except AssertionError:
        return
    raise AssertionError(msgspec.json.encode(twice))
