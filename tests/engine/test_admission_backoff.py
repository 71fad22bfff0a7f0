"""Groups that were admitted in vain: which give their admission back, and when they are admitted again."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from kilauea.api.meta import Object
from kilauea.api.times import SECOND
from kilauea.engine.cycle import cycle
from kilauea.engine.events import Gone
from kilauea.engine.model.attempts import NO_BACKOFF
from kilauea.engine.placement.admission_backoff import (
    FIRST,
    FRUITLESS,
    LONGEST,
    is_fruitless,
)
from kilauea.engine.plan import GroupOutcome
from kilauea.simulator.scenario import build_state
from support.builders import NOW, conf, flat, group, node, parsed, plugin, pod, queue
from support.device_objects import claim, device, device_class, slice_
from support.life import CONF, Life, asking
from support.volume_objects import claim as volume_claim
from support.volume_objects import storage_class, volume

HOPELESS: dict[str, Any] = {"nodeSelector": {"no": "such"}}


def quota(cpu: int = 4) -> Object:
    return queue("q", capability={"cpu": str(cpu)})


def in_vain(*others: Object | Sequence[Object], **of_pod: Any) -> Life:
    """A hopeless group holds the quota of its queue, for which a second one waits."""
    return Life(quota(), node("n1"), asking("lost", 3, **(of_pod or HOPELESS)), asking("next", 3, created=1), *others)


def test_what_others_wait_for_goes_to_them_after_a_minute_in_vain() -> None:
    life = in_vain().run(FRUITLESS // SECOND)
    assert (life.phase("lost"), life.phase("next")) == ("Inqueue", "Pending")
    life.run(2)
    assert life.placed() == {"next-0"}
    assert life.phase("lost") == "Pending"
    reason = next(pending for pending in life.plan.pending if pending.pod == "ns/lost-0")
    assert reason.code == "AdmissionGivenBack"
    assert "could not be placed within 60 s of its admission, which others waited for" in reason.message


def test_what_no_one_waits_for_is_kept() -> None:
    life = Life(quota(), node("n1"), asking("lost", 3, **HOPELESS)).run(150)
    assert life.phase("lost") == "Inqueue"


@pytest.mark.slow
def test_two_hopeless_groups_do_not_chase_each_other() -> None:
    life = Life(quota(3), node("n1"), asking("lost", 3, **HOPELESS), asking("also", 3, created=1, **HOPELESS))
    changes, before = 0, ""
    for _ in range(600):
        life.run(1)
        changes += life.phase("lost") != before
        before = life.phase("lost")
    assert changes < 12


def test_it_is_admitted_in_the_cycle_in_which_it_could_be_placed() -> None:
    life = in_vain().run(FRUITLESS // SECOND + 5)
    life.delete("next-0")
    life.apply(node("n2", labels={"no": "such"}))
    life.run(1)
    assert "lost-0" in life.placed()


CARDS = parsed(
    conf(
        "enqueue, allocate, backfill",
        ["priority", "gang"],
        ["predicates", "capacity", plugin("deviceshare", {"deviceshare.VGPUEnable": True})],
    )
)[0]
CLAIMING: dict[str, Any] = {"resourceClaims": [{"name": "c", "resourceClaimName": "c"}]}
MOUNTING: dict[str, Any] = {"volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "c"}}]}
SHARING: dict[str, Any] = {"requests": {"cpu": "3", "volcano.sh/vgpu-number": 1, "volcano.sh/vgpu-memory": 60}}
TAINTED: dict[str, Any] = {"nodeSelector": {"disk": "ssd"}}


def carded(*memory: int) -> Object:
    """A node with vGPUs of so much memory."""
    text = "".join(f"n2-{i},4,{each},NVIDIA-A,true,hami-core:" for i, each in enumerate(memory))
    notes = {"volcano.sh/node-vgpu-register": text}
    return node("n2", resources={"volcano.sh/vgpu-number": 4 * len(memory)}, annotations=notes)


@pytest.mark.parametrize(
    ("wants", "before", "after"),
    [
        pytest.param(CLAIMING, [device_class(), claim("c")], slice_("n1", device("d")), id="devices come"),
        pytest.param(CLAIMING, [slice_("n1", device("d")), claim("c")], device_class(), id="their class comes"),
        pytest.param(CLAIMING, [slice_("n1", device("d")), device_class()], claim("c"), id="the claim comes"),
        pytest.param(MOUNTING, [storage_class(), volume_claim("c")], volume("v"), id="a volume comes"),
        pytest.param(MOUNTING, [volume_claim("c"), volume("v")], storage_class(), id="the class of a volume comes"),
        pytest.param(MOUNTING, [storage_class(), volume("v")], volume_claim("c"), id="the claim for a volume comes"),
        pytest.param(SHARING, [carded(30, 50)], carded(60), id="a card is large enough"),
        pytest.param(
            TAINTED,
            [node("n2", labels={"disk": "ssd"}, taints=["a=b:NoSchedule"])],
            node("n2", labels={"disk": "ssd"}),
            id="a taint goes",
        ),
    ],
)
def test_it_is_admitted_in_the_cycle_in_which_whatever_it_lacked_is_there(
    wants: dict[str, Any], before: list[Object], after: Object
) -> None:
    lost = [group("lost", "q", resources={"cpu": "3"}, phase=None), pod("lost-0", "lost", **{"cpu": 3, **wants})]
    life = Life(quota(), lost, node("n1"), asking("next", 3, created=1), before, conf=CARDS)
    life.run(FRUITLESS // SECOND + 5)
    assert life.placed() == {"next-0"}
    assert life.phase("lost") == "Pending"
    life.delete("next-0")
    life.apply(after)
    life.run(1)
    assert "lost-0" in life.placed()


def test_an_empty_cluster_admits_at_once_who_gave_back_while_it_was_full() -> None:
    """A gang that must wait, beside a hopeless group: the gang starts when the room is free, not minutes later."""
    full = [group("full", phase="Running", minimum=1), pod("full-0", "full", cpu=3, node="n1")]
    life = Life(queue("q", capability={"cpu": "6"}), node("n1"), full, asking("gang", 3), asking("lost", 6, created=1))
    life.run(FRUITLESS // SECOND + 2)
    assert life.phase("gang") == "Pending"
    life.delete("full-0")
    life.run(1)
    assert "gang-0" in life.placed()


def test_room_without_quota_does_not_end_it() -> None:
    life = in_vain().run(FRUITLESS // SECOND + 5)
    life.apply(node("n2", labels={"no": "such"}))
    life.run(3)
    assert life.placed() == {"next-0"}
    assert life.phase("lost") == "Pending"


@pytest.mark.slow
def test_without_a_change_it_is_tried_again_after_a_time_that_doubles() -> None:
    wants = [*asking("lost", 3, **HOPELESS), *asking("next", 3, created=1, **HOPELESS)]
    third = asking("third", 4, created=2, **HOPELESS)
    life = Life(quota(), node("n1"), wants, third)
    ends: list[int] = []
    for _ in range(1000):
        life.run(1)
        attempt = life.backoff.attempts.get("ns/lost")
        if attempt is not None and attempt.until and attempt.until not in ends:
            ends.append(attempt.until)
            assert attempt.until - life.backoff.moment == min(FIRST << (attempt.times - 1), LONGEST)
    assert len(ends) >= 3
    assert life.backoff.attempts["ns/lost"].times == len(ends)


@pytest.mark.parametrize(
    ("minimum", "pods"),
    [
        pytest.param({"minimum": 2}, ["driver"], id="fewer pods than its minimum"),
        pytest.param({"minimum": 1}, [], id="no pods"),
        pytest.param(
            {"minimum": 2, "roles": {"driver": 1, "executor": 1}}, ["driver", "driver"], id="a role lacks pods"
        ),
    ],
)
def test_a_group_whose_pods_have_not_all_come_loses_nothing(minimum: dict[str, Any], pods: list[str]) -> None:
    spark = group("spark", resources={"cpu": "3"}, **minimum)
    made = [pod(f"spark-{n}", "spark", cpu=1, role=role) for n, role in enumerate(pods)]
    life = Life(quota(), node("n1"), spark, made, asking("next", 3, created=1)).run(200)
    assert life.phase("spark") == "Inqueue"
    life.apply([pod(f"late-{n}", "spark", cpu=1, role="executor") for n in range(2)])
    life.run(1)
    assert {"late-0", "late-1"} <= life.placed()


@pytest.mark.parametrize("phases", [["Succeeded"], ["Failed"], ["Succeeded", "Pending"], ["Failed", "Pending"]])
def test_a_group_of_which_nothing_runs_any_more_gives_back(phases: list[str]) -> None:
    ended = group("ended", minimum=2, resources={"cpu": "3"}, phase="Inqueue")
    pods = [pod(f"ended-{n}", "ended", cpu=2, phase=phase, **HOPELESS) for n, phase in enumerate(phases)]
    life = Life(quota(), node("n1"), ended, pods, asking("next", 3, created=1)).run(FRUITLESS // SECOND + 3)
    assert life.phase("ended") == "Pending"
    assert "next-0" in life.placed()


@pytest.mark.parametrize("status", ["Binding", "Bound", "Running", "Releasing", "Pipelined"])
def test_a_group_of_which_something_is_placed_keeps_it(status: str) -> None:
    state = build_state(flat([quota(), asking("runs", 3)]))
    job = state.jobs["ns/runs"]
    assert is_fruitless(GroupOutcome("Inqueue", {"Pending": 1}), job)
    assert not is_fruitless(GroupOutcome("Inqueue", {status: 1, "Pending": 1}), job)


def test_a_group_that_takes_the_name_of_one_that_gave_back_begins_without_its_past() -> None:
    life = in_vain().run(FRUITLESS // SECOND + 5)
    life.delete("lost-0", "next-0")
    life.state.apply(Gone("PodGroup", "ns/lost"))
    life.apply(asking("lost", 3, created=9, **HOPELESS))
    life.run(1)
    assert life.phase("lost") == "Inqueue"


def test_a_trial_leaves_no_trace_in_the_plan_and_the_state() -> None:
    life = in_vain().run(FRUITLESS // SECOND + 5)
    with_trial = cycle(life.state, CONF, NOW, backoff=life.backoff)
    assert with_trial == cycle(life.state, CONF, NOW, backoff=life.backoff)
    assert (with_trial.binds, with_trial.nominations, with_trial.evictions) == ((), (), ())


def test_without_enqueue_there_is_no_admission_to_give_back() -> None:
    plain = parsed(conf("allocate", ["priority", "gang"], ["predicates", "capacity"]))[0]
    state = build_state(flat([quota(), node("n1"), asking("lost", 3, **HOPELESS), asking("next", 3, **HOPELESS)]))
    backoff = NO_BACKOFF
    for number in range(100):
        plan = cycle(state, plain, NOW, backoff=backoff.at(number * SECOND))
        backoff = plan.backoff or backoff
    assert not backoff.attempts
