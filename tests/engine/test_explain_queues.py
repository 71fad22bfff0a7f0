"""What queues and evictions have to do with a group that waits: the level that blocks, borrowers, victims spared."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kilauea.api.scheduling import PodDisruptionBudget
from kilauea.engine.cycle import cycle
from kilauea.engine.explain.group import Explanation, explain
from kilauea.engine.explain.replay import replay
from kilauea.engine.extension import PERMIT
from kilauea.engine.model.tasks import Task
from kilauea.engine.plugin import Plugin
from kilauea.engine.session import Session
from kilauea.simulator.extensions import Extensions
from kilauea.simulator.planning import Result, plan_cycles
from kilauea.simulator.scenario import Scenario, build_state
from kilauea.simulator.what_if import WhatIf
from support.builders import (
    NOW,
    Data,
    Objects,
    at,
    conf,
    flat,
    group,
    node,
    parsed,
    plugin,
    pod,
    priority_class,
    queue,
)

GANG = plugin("gang", enableReclaimable=False, enablePreemptable=False)
RECLAIM = conf("allocate, reclaim", ["priority", GANG, "conformance", "cdp", "pdb", "capacity"], ["predicates"])
TREE = conf("allocate, reclaim", ["priority", GANG, plugin("capacity", enableHierarchy=True)], ["predicates"])
VOTING = conf("allocate, reclaim", ["priority", "gang"], ["predicates", "proportion"])
PREEMPT = conf("allocate, preempt", ["priority", GANG, "conformance"], ["predicates"])


def explained(objects: Objects, chosen: Data, key: str = "ns/g") -> Explanation:
    listed = flat(objects)
    result = plan_cycles(Scenario(listed, parsed(chosen)[0], NOW))
    explanation = result.explain(key)
    assert result.scenario.decide(result.state) == result.plan, "explaining leaves the cluster as it was"
    return explanation


def claim(queue: str = "red", cpu: int = 4, **more: Any) -> Objects:
    """The group that waits: one pod."""
    return [group("g", queue, **more), pod("g-0", cpu=cpu)]


def held(name: str = "h", of: str = "blue", cpu: int = 4, *, pods: int = 1, minimum: int = 1, **more: Any) -> Objects:
    """A group that runs on node n."""
    priority = more.pop("of_class", None)
    fields = {"node": "n", "labels": {"app": name}} | more
    mates = [pod(f"{name}-{i}", name, cpu=cpu, **fields) for i in range(pods)]
    return [group(name, of, minimum, "Running", priority=priority), mates]


def codes(explanation: Explanation) -> list[tuple[str, int]]:
    """Reasons of the only attempt, with numbers of pods."""
    (attempt,) = explanation.attempts
    assert sum(s.pods for s in attempt.spared) == attempt.considered
    return [(s.code, s.pods) for s in attempt.spared]


# --- levels and borrowers


@pytest.mark.parametrize("blocked", range(4))
def test_the_level_that_blocks_is_found_at_any_depth(blocked: int) -> None:
    """A chain of queues of which one may use 4 cpu, all in use by a sister of the lowest."""
    names = ["a", "b", "c", "d"]
    parents = ["root", *names]
    limit: dict[str, Any] = {"capability": {"cpu": "4"}}
    chain = [queue(n, parent=parents[i], **(limit if i == blocked else {})) for i, n in enumerate(names)]
    sister = queue("sister", parent="c", deserved={"cpu": "1"})
    running = held(of="sister" if blocked < 3 else "d")
    objects: list[Objects] = [node("n", cpu=16), node("m", cpu=16), chain, queue("root"), sister, running, claim("d")]
    found = explained(objects, TREE)
    assert [level.queue for level in found.levels] == ["root", *names]
    # A limit comes down to the queues below, so those on the way to the sister are as full.
    full = names[blocked : 3 if blocked < 3 else 4]
    assert [level.queue for level in found.levels if level.blocks] == full
    level = found.levels[blocked + 1]
    assert (level.allocated, level.asked, level.may_use) == (4000, 4000, 4000)
    assert [b.queue for b in found.borrowers] == (["sister"] if blocked < 3 else [])


def test_borrowers_are_named_the_nearest_first() -> None:
    """Of the same cluster: sister, cousin, stranger; a queue that holds what it deserves is not among them."""
    queues = [
        queue("root"),
        queue("top", parent="root", deserved={"cpu": "40"}),
        queue("near", parent="top", deserved={"cpu": "20"}),
        queue("own", parent="near", deserved={"cpu": "8"}),
        queue("sister", parent="near", deserved={"cpu": "1"}, reclaimable=False),
        queue("cousin", parent="top", deserved={"cpu": "1"}, reclaimable=False),
        queue("stranger", parent="root", deserved={"cpu": "1"}, reclaimable=False),
        queue("fair", parent="root", deserved={"cpu": "4"}, reclaimable=False),
    ]
    running = [held(name, name) for name in ("stranger", "sister", "fair", "cousin")]
    found = explained([node("n", cpu=16), queues, running, claim("own")], TREE)
    assert [(b.queue, b.resource, b.borrowed, b.distance) for b in found.borrowers] == [
        ("sister", "cpu", 3000, 1),
        ("cousin", "cpu", 3000, 2),
        ("stranger", "cpu", 3000, 3),
    ]
    assert [level.queue for level in found.levels if level.blocks] == ["root"], "the cluster is full"


def test_no_one_borrows_what_the_queue_itself_may_not_use() -> None:
    queues = [queue("red", deserved={"cpu": "2"}, capability={"cpu": "2"}), queue("blue", deserved={"cpu": "1"})]
    found = explained([node("n", cpu=16), queues, held(), claim()], RECLAIM)
    assert [level.queue for level in found.levels if level.blocks] == ["red"]
    assert found.borrowers == ()


def test_a_capability_above_the_group_is_raised_if_that_is_what_blocks() -> None:
    queues = [queue("root"), queue("top", parent="root", capability={"cpu": "4"}), queue("low", parent="top")]
    found = explained([node("n", cpu=16), queues, held(of="low"), claim("low")], TREE)
    assert found.change is not None
    assert (found.change.what, found.change.object, found.change.by) == ("quota", "top", 4000)


# --- why victims are spared

DESERVED: dict[str, Any] = {"deserved": {"cpu": "2"}}
"""A queue that deserves less than the four cpus that run in it."""

BUDGET = {
    "kind": "PodDisruptionBudget",
    "metadata": {"name": "b", "namespace": "ns"},
    "spec": {"selector": {"matchLabels": {"app": "h"}}},
    "status": {"disruptionsAllowed": 0},
}
SCHEDULED = [{"type": "PodScheduled", "status": "True", "lastTransitionTime": at(0)}]


def red(above_share: bool) -> Objects:
    """The queue that waits; it deserves all that its pod asks for, or only some of it."""
    return queue("red", deserved={"cpu": "3", "memory": "64Gi"} if above_share else {"cpu": "4"})


@pytest.mark.parametrize(
    ("code", "blue", "victim"),
    [
        ("NotPreemptable", DESERVED, {"annotations": {"volcano.sh/preemptable": "false"}}),
        ("NotRunning", DESERVED, {"phase": "Pending"}),
        ("QueueNotReclaimable", DESERVED | {"reclaimable": False}, {}),
        ("QueueWithinDeserved", {"deserved": {"cpu": "4", "memory": "1Gi"}}, {}),
        ("PreemptorHasItsShare", {"deserved": {"cpu": "3"}}, {"above_share": True}),
        ("Guarantee", DESERVED | {"guarantee": {"cpu": "1"}}, {}),
        ("SystemCritical", DESERVED, {"priorityClassName": "system-node-critical"}),
        ("NoLabels", DESERVED, {"labels": {}}),
        ("GangGoesWhole", DESERVED, {"minimum": 2, "mixed": True}),
    ],
)
def test_reclaim_spares_a_pod(code: str, blue: Data, victim: Data) -> None:
    """A node of 4 cpu that one pod fills; the queue that waits deserves as much, or less cpu but some memory."""
    victim = dict(victim)
    mixed, above_share = victim.pop("mixed", False), victim.pop("above_share", False)
    running = held(cpu=4, **victim)
    if mixed:
        running = [running, pod("h-x", "h", cpu=1, node="m", labels={"app": "h"}, annotations=MARKED)]
    objects = [node("n", cpu=4), node("m", cpu=1), red(above_share), queue("blue", **blue)]
    expected = [(code, 1), ("NotPreemptable", 1)] if mixed else [(code, 1)]
    assert codes(explained([objects, running, claim()], RECLAIM)) == expected


MARKED = {"volcano.sh/preemptable": "false"}


def test_reclaim_spares_what_a_budget_keeps() -> None:
    budget = msgspec.convert(BUDGET, PodDisruptionBudget)
    objects = [node("n"), queue("red", deserved={"cpu": "4"}), queue("blue", **DESERVED), held(), claim(), budget]
    assert codes(explained(objects, RECLAIM)) == [("DisruptionBudget", 1)]


def test_reclaim_spares_a_gang_at_its_minimum_where_the_gang_plugin_votes() -> None:
    """Proportion would let one of the two go; what gang spares stays spared."""
    objects = [node("n"), queue("red"), queue("blue"), held(cpu=2, pods=2, minimum=2), claim(cpu=2)]
    found = explained(objects, VOTING)
    assert codes(found) == [("GangAtMinimum", 2)]
    assert found.attempts[0].spared[0].plugin == "gang"


def test_preempt_spares_a_gang_that_reclaim_evicts_pods_for() -> None:
    """The gang has its minimum and gets a third pod from queue red; its two pods would make room for the group."""
    both = conf("allocate, reclaim, preempt", ["priority", GANG, plugin("capacity")], ["predicates"])
    gang = [held(cpu=2, pods=2, minimum=2, of_class="low"), pod("h-more", "h", cpu=1)]
    classes = [priority_class("low", 1), priority_class("high", 2)]
    queues = [queue("red"), queue("blue", deserved={"cpu": "5", "memory": "9Gi"})]
    lender = held("lender", "red", cpu=1, node="m")
    waits = [group("g", "blue", priority="high"), pod("g-0", cpu=4, priority=2)]
    found = explained([classes, node("n", cpu=4), node("m", cpu=1), queues, gang, lender, waits], both)
    assert [(a.action, [(s.code, s.pods) for s in a.spared]) for a in found.attempts] == [
        ("reclaim", []),
        ("preempt", [("GangIsServed", 2)]),
    ]


def test_reclaim_spares_pods_whose_going_would_not_help() -> None:
    """One pod's node has a taint, the other's is too small."""
    queues = [queue("red", deserved={"cpu": "8"}), queue("blue", deserved={"cpu": "1"})]
    nodes = [node("n", cpu=8, taints=["a=b:NoSchedule"]), node("small", cpu=4)]
    running = [held("h", cpu=8), held("s", cpu=4, node="small")]
    assert codes(explained([nodes, queues, running, claim(cpu=8)], RECLAIM)) == [
        ("NodeRuledOut", 1),
        ("NotEnoughRoom", 1),
    ]


def test_reclaim_takes_no_parent_below_its_guarantee() -> None:
    """The leaf could spare the pod, but its parent is guaranteed what it holds."""
    queues = [
        queue("root"),
        queue("red", parent="root", deserved={"cpu": "4"}),
        queue("dept", parent="root", deserved={"cpu": "4"}, guarantee={"cpu": "3"}),
        queue("blue", parent="dept", deserved={"cpu": "2"}),
    ]
    found = explained([node("n", cpu=4), queues, held(cpu=2, pods=2), claim(cpu=1)], TREE)
    assert codes(found) == [("Guarantee", 2)]
    assert "dept" in found.attempts[0].spared[0].why


def test_pods_that_may_each_go_may_not_all_go_together() -> None:
    """Two pods of 2 would have to go for 4, and their queue may lose one of them."""
    queues = [queue("red", deserved={"cpu": "4"}), queue("blue", deserved={"cpu": "2"})]
    objects: list[Objects] = [node("n", cpu=4), queues, held("h", cpu=2), held("i", cpu=2), claim()]
    assert codes(explained(objects, RECLAIM)) == [("NotTogether", 2)]


def test_a_gang_that_gets_room_for_a_part_gets_none() -> None:
    """One of two pods could have the room of another queue, for the other there is nothing."""
    queues = [queue("red", deserved={"cpu": "8"}), queue("blue")]
    nodes = [node("n", cpu=4), node("m", cpu=4, taints=["a=b:NoSchedule"])]
    objects = [nodes, queues, held(), group("g", "red", 2), [pod(f"g-{i}", cpu=4) for i in range(2)]]
    assert codes(explained(objects, RECLAIM)) == [("NotTheWholeGang", 1)]


def test_a_group_that_was_admitted_too_late_may_evict_in_the_next_cycle() -> None:
    """Reclaim has had its turn when enqueue admits the group; in the cycle after it evicts the pod that is named."""
    late = conf("reclaim, enqueue, allocate", ["priority", GANG, "capacity"], ["predicates"])
    queues = [queue("red", deserved={"cpu": "4"}), queue("blue")]
    objects: list[Objects] = [node("n"), queues, held()]
    assert codes(explained([objects, claim(phase="Pending")], late)) == [("MayGo", 1)]
    plan = cycle(build_state(flat([objects, claim(phase="Inqueue")])), parsed(late)[0], NOW)
    assert [(e.pod, e.by) for e in plan.evictions] == [("ns/h-0", "ns/g")]


def test_a_queue_that_has_its_share_is_told_so_and_no_one_is_asked() -> None:
    queues = [queue("red", deserved={"cpu": "2"}), queue("blue", deserved={"cpu": "1"})]
    (attempt,) = explained([node("n"), queues, held(), claim()], RECLAIM).attempts
    assert (attempt.action, attempt.pod, attempt.considered) == ("reclaim", "ns/g-0", 0)
    assert "queue red" in attempt.refusal


@pytest.mark.parametrize("by", ["reclaim", "gangreclaim"])
def test_a_queue_that_would_come_after_the_other_is_told_so_and_of_no_share_or_limit(by: str) -> None:
    """No plugin says what the queues deserve, and both hold as much as they would in turns."""
    queues = [queue("red"), queue("blue")]
    running = [held(cpu=1, pods=2), held("own", "red", cpu=1, pods=2)]
    chosen = conf(f"allocate, {by}", ["priority", "gang"], ["predicates"])
    found = explained([node("n", cpu=4), queues, running, claim(cpu=1)], chosen)
    (blocker,), (attempt,) = found.blockers, found.attempts
    assert blocker.code == "QueueOutOfTurn"
    assert (attempt.action, attempt.pod, attempt.considered) == (by, "ns/g-0", 0)
    assert attempt.refusal == blocker.message == "queue red would come after queue blue if it took this room from it"


@pytest.mark.parametrize(("of_class", "code"), [("high", "PriorityNotLower"), ("low", "NotEnoughRoom")])
def test_preempt_asks_the_pods_of_the_same_queue(of_class: str, code: str) -> None:
    classes = [priority_class("low", 1), priority_class("high", 9)]
    running = [held(of="red", cpu=2, of_class=of_class), held("other", "blue", cpu=2)]
    objects: list[Objects] = [classes, queue("red"), queue("blue"), node("n"), running, claim(cpu=4, priority="high")]
    assert codes(explained(objects, PREEMPT)) == [(code, 1)]


def test_without_an_action_that_evicts_there_is_no_attempt() -> None:
    found = explained([node("n"), queue("red"), queue("blue"), held(), claim()], conf("allocate", ["priority", "gang"]))
    assert found.attempts == ()
    assert found.levels == ()


class Keeper(Plugin):
    """Lets no one go, and fails when it is told to."""

    name = "keeper"
    fails = False

    def on_session_open(self, session: Session) -> None:
        session.add_reclaimable(self.name, self._vote)

    def _vote(self, _: Task, candidates: Sequence[Task]) -> tuple[list[Task], int]:
        if self.fails:
            raise RuntimeError("lost")
        return [], PERMIT


class Loser(Keeper):
    """Fails once the cycle is over."""

    name = "loser"
    fails = True


@pytest.mark.parametrize(("keeper", "expected"), [(Keeper, ["SparedByPlugin"]), (Loser, [])])
def test_plugins_of_the_user_are_named(keeper: type[Plugin], expected: list[str]) -> None:
    """One that fails while it is asked about victims only leaves these out of the explanation."""
    document = conf("allocate, reclaim", ["priority", GANG, keeper.name, "capacity"], ["predicates"])
    chosen, plugins, actions = parsed(document, [keeper])
    objects = flat([node("n"), queue("red", deserved={"cpu": "4"}), queue("blue", **DESERVED), held(), claim()])
    state = build_state(objects)
    quiet = parsed(conf("allocate", ["priority", GANG, "capacity"], ["predicates"]))[0]
    plan = cycle(state, quiet, NOW)
    scenario = Scenario(objects, chosen, NOW, extensions=Extensions(plugins, actions))
    found = Result(scenario, plan, state).explain("ns/g")
    assert found.verdict == "waits"
    assert [s.code for attempt in found.attempts for s in attempt.spared] == expected


# --- what holds on any cluster

sizes = st.integers(1, 4)


@st.composite
def clusters(draw: st.DrawFn) -> list[Objects]:
    """Two queues with jobs that run and wait on small nodes."""
    shares = draw(st.tuples(st.integers(0, 12), st.integers(0, 12)))
    names = ("red", "blue")
    queues = [queue(name, deserved={"cpu": str(share)}) for name, share in zip(names, shares, strict=True)]
    objects: list[Objects] = [queues]
    for i in range(draw(st.integers(1, 3))):
        objects.append(node(f"n{i}", cpu=6))
        for j, cpu in enumerate(draw(st.lists(sizes, max_size=2))):
            name = f"r{i}{j}"
            if cpu + j * 3 <= 6:
                mates = pod(f"{name}-0", name, cpu=min(cpu, 3), node=f"n{i}", labels={"app": name})
                objects.append([group(name, draw(st.sampled_from(names)), 1, "Running"), mates])
    for k, wanted in enumerate(draw(st.lists(st.lists(sizes, min_size=1, max_size=3), min_size=1, max_size=3))):
        name = f"w{k}"
        pods = [pod(f"{name}-{i}", name, cpu=cpu, labels={"app": name}) for i, cpu in enumerate(wanted)]
        objects.append([group(name, draw(st.sampled_from(names)), len(wanted), created=k), pods])
    return objects


@given(objects=clusters())
def test_the_session_after_the_fact_has_the_figures_of_the_plan(objects: list[Objects]) -> None:
    state, chosen = build_state(flat(objects)), parsed(RECLAIM)[0]
    plan = cycle(state, chosen, NOW)
    with replay(state, chosen, NOW, None, plan) as session:
        for name, outcome in plan.queues.items():
            held_now = {n: amount for n, amount in session.queues[name].allocated.items() if amount}
            assert held_now == {n: amount for n, amount in outcome.allocated.items() if amount}
    assert cycle(state, chosen, NOW) == plan


@given(objects=clusters())
def test_every_pod_thought_of_has_one_reason_and_runs_on(objects: list[Objects]) -> None:
    listed = flat(objects)
    state, chosen = build_state(listed), parsed(RECLAIM)[0]
    plan = cycle(state, chosen, NOW)
    gone = {eviction.pod for eviction in plan.evictions}
    for key in dict.fromkeys(p.group for p in plan.pending):
        found = Result(Scenario(listed, chosen, NOW), plan, state).explain(key)
        for attempt in found.attempts:
            assert attempt.considered == sum(s.pods for s in attempt.spared)
            assert gone.isdisjoint(example for s in attempt.spared for example in s.examples)


@given(objects=clusters())
def test_trials_that_are_spared_would_have_failed(objects: list[Objects]) -> None:
    """With and without the look at the nodes before each trial the same change is found."""
    listed = flat(objects)
    state, chosen = build_state(listed), parsed(conf("allocate", ["priority", "gang"], ["predicates", "capacity"]))[0]
    plan = cycle(state, chosen, NOW)
    for key in dict.fromkeys(p.group for p in plan.pending):
        explanation = explain(plan, state, key)
        found = [
            WhatIf(listed, state, lambda s: cycle(s, chosen, NOW), key, plan, evicting=evicting).smallest(explanation)
            for evicting in (True, False)
        ]
        assert found[0] == found[1]
