"""Paused queues: nothing more starts in them or below them, and what runs keeps running."""

from __future__ import annotations

from typing import Any

import pytest

from kilauea.api.meta import Object
from kilauea.engine.events import Changed
from support.builders import (
    Data,
    Objects,
    best_effort,
    binds,
    build,
    codes,
    conf,
    gang,
    group,
    manifest,
    node,
    phases,
    plan_in,
    plan_of,
    plugin,
    pod,
    queue,
    state_of,
)

ROOM = {"cpu": 8, "memory": "64Gi"}
ACTIONS = "enqueue, allocate, backfill, preempt, reclaim, gangpreempt, gangreclaim"
FORMS = {
    "no queue plugin": conf(ACTIONS, ["gang", "priority"], ["predicates"]),
    "capacity": conf(ACTIONS, ["gang", "priority"], ["predicates", "capacity"]),
    "a tree of capacity": conf(ACTIONS, ["gang", "priority"], ["predicates", plugin("capacity", enableHierarchy=True)]),
    "capacity-card": conf(ACTIONS, ["gang", "priority"], ["predicates", "capacity-card"]),
    "proportion": conf(ACTIONS, ["gang", "priority"], ["predicates", "proportion"]),
}


def paused(name: str, value: str = "true", **more: Any) -> Object:
    """A queue with the annotation."""
    data = manifest(queue(name, **more))
    data["metadata"]["annotations"] = {"kilauea.dev/paused": value}
    return build(data)


@pytest.mark.parametrize("form", FORMS.values(), ids=FORMS)
def test_nothing_more_starts_until_it_is_resumed(form: Data) -> None:
    state = state_of(
        node("n1", cpu=8),
        [queue("root"), paused("q", capability=ROOM)],
        gang("runs", 1, queue="q", node="n1", phase="Running"),
        gang("new", 2, queue="q", phase="Pending", resources={"cpu": 2}),
        gang("in", 2, queue="q", phase="Inqueue"),
        group("free", queue="q"),
        best_effort("b", "free"),
    )
    plan = plan_in(state, form)
    assert binds(plan) == {}
    assert plan.evictions == ()
    assert phases(plan)["new"] == "Pending"
    assert set(codes(plan).values()) == {"QueuePaused"}
    assert {each.message for each in plan.pending} == {"queue q is paused"}
    state.apply(Changed(queue("q", capability=ROOM)))
    plan = plan_in(state, form)
    assert {"in-w-0", "in-w-1", "b"} <= binds(plan).keys()
    assert phases(plan)["new"] != "Pending"


@pytest.mark.parametrize("form", FORMS.values(), ids=FORMS)
def test_a_queue_above_it_pauses_it_too_and_others_go_on(form: Data) -> None:
    plan = plan_of(
        node("n1", cpu=8),
        [queue("root"), paused("up"), queue("low", parent="up"), queue("other", capability=ROOM)],
        gang("low", 2, queue="low"),
        gang("other", 2, queue="other"),
        conf=form,
    )
    assert set(binds(plan)) == {"other-w-0", "other-w-1"}
    assert {each.message for each in plan.pending} == {"queue low is paused, as queue up above it is"}


def test_root_pauses_everything() -> None:
    plan = plan_of(node("n1"), [paused("root"), queue("a")], gang("g", 1, queue="a"), conf=FORMS["capacity"])
    assert codes(plan) == {"g-w-0": "QueuePaused"}


def test_it_neither_preempts_nor_reclaims_and_may_lose_what_it_borrowed() -> None:
    lender: Data = {"deserved": {"cpu": 4}}
    full: list[Objects] = [node("n1", cpu=4), gang("held", 4, 1, queue="b", node="n1", phase="Running")]
    wants = gang("wants", 2, queue="a", phase="Inqueue")
    borrowed = queue("b", deserved={"cpu": 0})
    form = FORMS["capacity"]
    assert plan_of(*full, borrowed, queue("a", **lender), wants, conf=form).evictions
    assert plan_of(*full, borrowed, paused("a", **lender), wants, conf=form).evictions == ()
    assert plan_of(*full, paused("b", deserved={"cpu": 0}), queue("a", **lender), wants, conf=form).evictions


def test_no_room_is_kept_for_a_paused_queue() -> None:
    form = conf("enqueue, allocate, reclaim", ["gang", "priority"], ["predicates", "capacity"])
    objects: list[Objects] = [
        node("n1", cpu=4),
        queue("b", deserved={"cpu": 0}),
        gang("held", 2, 1, queue="b", node="n1", phase="Running"),
        gang("more", 2, queue="b"),
        gang("wants", 3, queue="a"),
    ]
    assert "more-w-0" not in binds(plan_of(*objects, queue("a", deserved={"cpu": 4}), conf=form))
    assert "more-w-0" in binds(plan_of(*objects, paused("a", deserved={"cpu": 4}), conf=form))


def test_with_proportion_others_may_have_what_a_paused_queue_cannot_use() -> None:
    objects: list[Objects] = [node("n1", cpu=8), queue("b"), gang("a", 8, 1, queue="a"), gang("b", 8, 1, queue="b")]
    assert len(binds(plan_of(*objects, queue("a"), conf=FORMS["proportion"]))) == 8
    bound = binds(plan_of(*objects, paused("a"), conf=FORMS["proportion"]))
    assert set(bound) == {f"b-w-{number}" for number in range(8)}


def test_queues_above_one_another_in_a_circle_are_paused_together() -> None:
    plan = plan_of(
        node("n1"), [queue("a", parent="b"), paused("b", parent="a")], gang("g", 1, queue="a"), conf=FORMS["capacity"]
    )
    assert codes(plan) == {"g-w-0": "QueuePaused"}


@pytest.mark.parametrize("value", ["false", "", "yes"])
def test_other_values_pause_nothing(value: str) -> None:
    assert binds(plan_of(node("n1"), paused("q", value), group(queue="q"), pod("p"), conf=FORMS["capacity"]))
