"""Queues that contradict themselves or the cluster: each is named, with numbers, and the other jobs start."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from kilauea.engine.events import Changed, Gone
from kilauea.engine.plan import Condition, Plan
from kilauea.engine.queues.faults.fault import MOST_FINDINGS
from support.builders import GPU, Data, Objects, binds, codes, gang, group, node, plan_in, plan_of, pod, queue, state_of
from support.card_objects import A, C, card_node, card_pod, card_queue

NODE = node("n1", cpu=100, memory="100Gi")
TREE, FLAT, CARDS, WEIGHTS = "tree", "flat", "cards", "weights"
PLUGINS: dict[str, Data] = {
    TREE: {"name": "capacity", "enableHierarchy": True},
    FLAT: {"name": "capacity"},
    CARDS: {"name": "capacity-card"},
    WEIGHTS: {"name": "proportion"},
}
ALL = tuple(PLUGINS)


def conf(form: str) -> Data:
    others = [{"name": name} for name in ("priority", "gang")], [{"name": "predicates"}, PLUGINS[form]]
    return {"actions": "enqueue, allocate, backfill", "tiers": [{"plugins": tier} for tier in others]}


def child(name: str, parent: str | None = "root", cpu: int | None = None, **more: Any) -> Objects:
    """A queue; `cpu` is what it deserves."""
    deserved: Data = {} if cpu is None else {"deserved": {"cpu": cpu}}
    return queue(name, parent=parent, **deserved, **more)


def team(name: str, parent: str | None = "root", **more: Any) -> Objects:
    """A queue with a job that waits, named like the queue."""
    return [child(name, parent, **more), gang(name, 1, queue=name)]


ROOM = {"cpu": 50, "memory": "50Gi"}
GOOD: list[Objects] = [NODE, queue("root"), queue("good", capability=ROOM), gang("good", 2, queue="good")]


def plan_beside(objects: Objects, form: str) -> Plan:
    """The plan of a cluster in which these objects are beside a sound queue, whose jobs have to start."""
    plan = plan_of(GOOD, objects, conf=conf(form))
    assert {"good-w-0", "good-w-1"} <= set(binds(plan)), "the rest is scheduled on"
    return plan


def said(plan: Plan) -> list[str]:
    return [f"{finding.where}: {finding.code}: {finding.message}" for finding in plan.findings]


def started(plan: Plan) -> set[str]:
    """Groups that start, without the sound one."""
    return {name.rpartition("-w-")[0] for name in binds(plan)} - {"good"}


# --- where a queue stands

OWN = team("a", "a")
RING = [team("a", "b"), team("b", "a")]
RING_OF_THREE = [team("a", "b"), team("b", "c"), team("c", "a"), team("below", "c")]
LOST = [team("a", "gone"), team("below", "a")]

ASTRAY = [
    pytest.param(OWN, {"a": ("ParentCycle", "cycle detected in queue hierarchy for queue a")}, id="its own parent"),
    pytest.param(
        RING,
        {
            "a": ("ParentCycle", "cycle detected in queue hierarchy for queue a"),
            "b": ("ParentCycle", "cycle detected in queue hierarchy for queue b"),
        },
        id="a cycle of two",
    ),
    pytest.param(
        RING_OF_THREE,
        {
            **{name: ("ParentCycle", f"cycle detected in queue hierarchy for queue {name}") for name in "abc"},
            "below": ("ParentCycle", "cycle detected in queue hierarchy for queue c"),
        },
        id="a cycle of three, and a queue below it",
    ),
    pytest.param(
        LOST,
        dict.fromkeys(("a", "below"), ("ParentNotFound", "the queue a has invalid parent queue gone")),
        id="a parent that does not exist, and a queue below",
    ),
]


@pytest.mark.parametrize("form", ALL)
@pytest.mark.parametrize(("objects", "expected"), ASTRAY)
def test_a_queue_without_a_way_to_the_root_is_named(
    objects: Objects, expected: dict[str, tuple[str, str]], form: str
) -> None:
    plan = plan_beside(objects, form)
    waits, goes_on = "it and its jobs wait", "parents are not looked at here, so its jobs go on"
    for name, (reason, why) in expected.items():
        message = f"{why}; {waits if form == TREE else goes_on}"
        assert f"queue {name}: {reason}: {message}" in said(plan)
        assert Condition("Detached", reason, message) in plan.queues[name].conditions
    if form == TREE:
        assert started(plan) == set()
        assert codes(plan) == {f"{name}-w-0": "QueueFault" for name in expected}
    if form in (FLAT, WEIGHTS):
        assert started(plan) == set(expected)


def test_without_a_root_all_wait_and_it_is_named() -> None:
    plan = plan_of(NODE, team("a", None), conf=conf(TREE))
    assert said(plan) == ["queue root: RootNotFound: it does not exist; all jobs wait"]
    assert codes(plan) == {"a-w-0": "QueueFault"}


@pytest.mark.parametrize(
    ("form", "why"),
    [
        (FLAT, "capacity ignores them: enableHierarchy is not true"),
        (WEIGHTS, "proportion ignores them: only capacity knows a tree of queues"),
        (CARDS, "capacity-card ignores them: only capacity knows a tree of queues"),
    ],
)
def test_parents_that_no_one_looks_at_are_named_once(form: str, why: str) -> None:
    tree = [child("p", capability=ROOM), team("a", "p", capability=ROOM), team("b", "p", capability=ROOM)]
    plan = plan_beside(tree, form)
    assert said(plan) == [f"queue root: ParentsIgnored: queues have parents (a in p, and 1 more); {why}"]
    assert started(plan) == {"a", "b"}


def test_jobs_in_a_parent_wait_and_those_in_its_leaves_start() -> None:
    in_parent = [gang("first", 2, queue="p"), gang("second", 1, queue="p", node="n1", phase="Running")]
    plan = plan_beside([child("p"), in_parent, team("leaf", "p")], TREE)
    work = "2 pod groups may start nothing: 2 pods waiting, 1 pod running on"
    message = f"it has children, and jobs go to leaves; its {work}"
    assert said(plan) == [f"queue p: JobsInParentQueue: {message}"]
    assert plan.queues["p"].conditions == (Condition("HoldsJobs", "JobsInParentQueue", message),)
    assert started(plan) == {"leaf"}


def test_finished_jobs_in_a_parent_are_nobodys_business() -> None:
    done = [group("done", "p", phase="Completed"), pod("done-w-0", "done", node="n1", phase="Succeeded")]
    assert said(plan_beside([child("p"), done, team("leaf", "p")], TREE)) == []


# --- what is promised


def promised(kind: str, of: Data) -> Data:
    return {kind: of}


@pytest.mark.parametrize("form", ALL)
@pytest.mark.parametrize("kind", ["deserved", "guarantee"])
def test_a_first_level_that_is_promised_more_than_the_cluster_has_is_named_on_the_root(kind: str, form: str) -> None:
    objects = [team(name, capability=ROOM, **promised(kind, {"cpu": cpu})) for name, cpu in (("a", 60), ("b", 41))]
    plan = plan_of(GOOD, objects, conf=conf(form))
    if form == WEIGHTS and kind == "deserved":
        assert said(plan) == []
        return
    message = f"the {kind} amounts of first-level queues add up to more than what the cluster has: cpu 101 of 100"
    reason = f"{kind.capitalize()}OverPromised"
    assert said(plan) == [f"queue root: {reason}: {message}"]
    assert plan.queues["root"].conditions == (Condition("OverPromised", reason, message),)
    assert started(plan) == {"a", "b"}
    if kind == "deserved":
        assert {"good-w-0", "good-w-1"} <= set(binds(plan))


@pytest.mark.parametrize("form", [FLAT, TREE])
def test_a_first_level_that_is_promised_just_what_there_is_is_sound(form: str) -> None:
    objects = [team("a", deserved={"cpu": 60}, guarantee={"cpu": 30}), team("b", deserved={"cpu": 40})]
    assert said(plan_beside(objects, form)) == []


@pytest.mark.parametrize("kind", ["deserved", "guarantee"])
def test_children_that_are_promised_more_than_their_parent_are_named_on_it(kind: str) -> None:
    parent = child("p", **promised(kind, {"cpu": 10, "memory": "8Gi"}))
    children = [team(name, "p", **promised(kind, {"cpu": 6, "memory": "5Gi"})) for name in "ab"]
    plan = plan_beside([parent, children], TREE)
    message = f"the {kind} amounts of its children add up to more than its own: cpu 12 of 10, memory 10Gi of 8Gi"
    assert said(plan) == [f"queue p: {kind.capitalize()}OverPromised: {message}"]
    assert started(plan) == {"a", "b"}


def test_children_of_a_parent_that_is_promised_nothing_are_promised_too_much() -> None:
    plan = plan_beside([child("p"), team("a", "p", guarantee={"cpu": 1})], TREE)
    message = "the guarantee amounts of its children add up to more than its own: cpu 1 of 0"
    assert said(plan) == [f"queue p: GuaranteeOverPromised: {message}"]


def test_both_promises_share_one_condition() -> None:
    plan = plan_beside([child("p"), team("a", "p", guarantee={"cpu": 1}, deserved={"cpu": 2})], TREE)
    (condition,) = plan.queues["p"].conditions
    assert (condition.type, condition.reason) == ("OverPromised", "GuaranteeOverPromised")
    assert "cpu 1 of 0; " in condition.message
    assert condition.message.endswith("cpu 2 of 0")
    assert len(plan.findings) == 2


@pytest.mark.parametrize(
    ("kind", "form"), [*(("guarantee", form) for form in ALL), *(("deserved", form) for form in (TREE, FLAT, CARDS))]
)
def test_a_queue_with_more_than_the_cluster_has_is_named(kind: str, form: str) -> None:
    limits: dict[str, Any] = {"capability": ROOM} | promised(kind, {"cpu": 101, "memory": "1Gi"})
    plan = plan_of(GOOD, team("a", **limits), conf=conf(form))
    reason, message = f"{kind.capitalize()}AboveCluster", f"its {kind} is more than the cluster has: cpu 101 of 100"
    assert f"queue a: {reason}: {message}" in said(plan)
    assert Condition("OutOfReach", reason, message) in plan.queues["a"].conditions
    assert started(plan) == {"a"}
    if kind != "guarantee":  # what is guaranteed to one is kept from all others
        assert {"good-w-0", "good-w-1"} <= set(binds(plan))


def test_a_capability_above_that_of_an_ancestor_is_named() -> None:
    tree = [child("top", capability={"cpu": 10}), child("mid", "top", capability={"memory": "4Gi"})]
    leaf = team("a", "mid", capability={"cpu": 11, "memory": "5Gi"})
    plan = plan_beside([tree, leaf], TREE)
    above = "cpu 11 of 10 of queue top, memory 5Gi of 4Gi of queue mid"
    assert said(plan) == [f"queue a: CapabilityAboveParent: its capability is more than that of its ancestors: {above}"]
    assert started(plan) == {"a"}


@pytest.mark.parametrize("form", ALL)
@pytest.mark.parametrize("cpu", [90, 110])
def test_capabilities_are_no_promises_and_may_be_more_than_there_is(form: str, cpu: int) -> None:
    most = {"cpu": cpu, "memory": "90Gi"}
    tree = [child("p", capability=most), *(team(name, "p", capability=most) for name in "ab")]
    flat = [team(name, capability=most) for name in "ab"]
    assert said(plan_beside(tree if form == TREE else flat, form)) == []


def test_under_cards_only_cpu_and_memory_are_promised() -> None:
    assert said(plan_beside(team("a", guarantee={GPU: 8}, capability=ROOM), CARDS)) == []


def test_a_cluster_without_nodes_breaks_no_promise() -> None:
    assert said(plan_of(queue("root"), team("a", guarantee={"cpu": 1}), conf=conf(TREE))) == []


def test_a_promise_is_measured_by_what_there_is_now() -> None:
    state = state_of(GOOD, team("a", guarantee={"cpu": 90}))
    assert said(plan_in(state, conf(TREE))) == []
    state.apply(Changed(node("n1", cpu=80, memory="100Gi")))
    assert [f.code for f in plan_in(state, conf(TREE)).findings] == ["GuaranteeAboveCluster", "GuaranteeOverPromised"]
    state.apply(Changed(queue("a", guarantee={"cpu": 9})))
    assert said(plan_in(state, conf(TREE))) == []


# --- work without a queue that takes it


@pytest.mark.parametrize("form", ALL)
@pytest.mark.parametrize("state", ["Closed", "Closing", "Unknown"])
def test_a_queue_that_is_closed_under_running_jobs_is_named(state: str, form: str) -> None:
    shut = queue("shut", capability=ROOM, state=state)
    jobs = [gang("run", 3, queue="shut", node="n1", phase="Running"), gang("wait", 2, queue="shut")]
    plan = plan_beside([shut, jobs], form)
    work = "2 pod groups may start nothing: 2 pods waiting, 3 pods running on"
    assert said(plan) == [f"queue shut: QueueNotOpen: it is {state}; its {work}"]
    assert plan.queues["shut"].conditions == (Condition("NotOpen", "QueueNotOpen", f"it is {state}; its {work}"),)
    assert set(codes(plan).values()) == {"QueueClosed"}
    assert plan.evictions == ()


@pytest.mark.parametrize("form", ALL)
def test_a_closed_queue_without_work_is_as_it_should_be(form: str) -> None:
    assert said(plan_beside(queue("shut", state="Closed"), form)) == []


@pytest.mark.parametrize("form", ALL)
def test_a_queue_that_is_deleted_under_running_jobs_is_named_also_on_its_groups(form: str) -> None:
    jobs = [gang("run", 3, queue="lost", node="n1", phase="Running"), gang("wait", 2, queue="lost")]
    state = state_of(GOOD, queue("lost", capability=ROOM), jobs)
    assert said(plan_in(state, conf(form))) == []
    state.apply(Gone("Queue", "lost"))
    plan = plan_in(state, conf(form))
    work = "2 pod groups such as ns/run may start nothing: 3 pods running on"
    assert said(plan) == [f"queue lost: QueueNotFound: it does not exist; its {work}"]
    for name, phase in (("run", "Running"), ("wait", "Inqueue")):
        message = f"queue lost of pod group ns/{name} does not exist"
        outcome = plan.groups[f"ns/{name}"]
        assert outcome.condition == Condition("QueueNotFound", "QueueNotFound", message)
        assert outcome.phase == phase
    assert codes(plan) == {"wait-w-0": "QueueNotFound", "wait-w-1": "QueueNotFound"}
    assert set(binds(plan)) == {"good-w-0", "good-w-1"}


# --- card quotas

FLEET = [card_node("n2", C, gpu=4)]

QUOTAS = [
    pytest.param(
        '{"NVIDIA-H200": 1', "Unreadable", "InvalidCardAnnotation", "failed to unmarshal card json: ", id="broken"
    ),
    pytest.param({C: -1}, "Unreadable", "InvalidCardAnnotation", "failed to unmarshal card json: ", id="negative"),
    pytest.param("[1]", "Unreadable", "InvalidCardAnnotation", "failed to unmarshal card json: ", id="a list"),
    pytest.param({A: 2}, "OutOfReach", "UnknownCard", f"no node has the card {A} of its quota", id="an unknown model"),
    pytest.param(
        {C: 5},
        "OutOfReach",
        "CardQuotaAboveCluster",
        f"its card quota is more than the cluster has: {C} 5 of 4",
        id="more than there are",
    ),
]


@pytest.mark.parametrize(("quota", "type_", "reason", "message"), QUOTAS)
def test_a_card_quota_that_cannot_be_met_is_named(quota: Any, type_: str, reason: str, message: str) -> None:
    cards = [card_queue("a", quota), group("a", "a"), card_pod("a-w-0", "a", C)]
    plan = plan_beside([FLEET, cards], CARDS)
    found = [f for f in plan.findings if f.where == "queue a"]
    (condition,) = (c for c in plan.queues["a"].conditions if c.type == type_)
    assert reason in {f.code for f in found}
    assert condition.reason == reason
    assert condition.message.startswith(message)
    assert started(plan) == ({"a"} if reason == "CardQuotaAboveCluster" else set())


def test_card_quotas_may_add_up_to_more_than_there_are() -> None:
    assert (
        said(plan_beside([FLEET, card_queue("a", {C: 4}, 90, "90Gi"), card_queue("b", {C: 4}, 90, "90Gi")], CARDS))
        == []
    )


def test_card_quotas_are_read_only_with_their_plugin_and_named_as_ignored_without_it() -> None:
    (text,) = said(plan_beside([card_queue("a", "{", 90, "90Gi")], FLAT))
    assert text.startswith("queue a: PluginNotConfigured: annotation volcano.sh/card.quota is ignored")


# --- many


def test_findings_of_one_reason_do_not_flood_and_conditions_stay_whole() -> None:
    count = MOST_FINDINGS + 5
    plan = plan_beside([child(f"q{number:02}", "gone") for number in range(count)], TREE)
    assert len(plan.findings) == MOST_FINDINGS + 1
    assert said(plan)[-1] == "queues: ParentNotFound: 5 more with ParentNotFound"
    assert sum(bool(outcome.conditions) for outcome in plan.queues.values()) == count


def test_the_page_about_queues_names_every_reason() -> None:
    root = Path(__file__).resolve().parents[2]
    code = "".join(file.read_text() for file in sorted((root / "src/kilauea/engine/queues/faults").glob("*.py")))
    reasons = set(re.findall(r'"([A-Z][a-z]+(?:[A-Z][a-z]+)+)"', re.sub(r"__all__ = .*", "", code)))
    tree = (root / "src/kilauea/engine/model/queue_tree.py").read_text()
    reasons |= set(re.findall(r'TreeFault\("(\w+)"', tree))
    page = (root / "docs/concepts/queues.md").read_text()
    assert {"ParentCycle", "QueueNotOpen", "OverPromised"} <= reasons
    assert {reason for reason in reasons if f"`{reason}`" not in page} == set()
