"""Whose turn comes before that of a group that waits, and who holds what it lacks."""

from __future__ import annotations

from typing import Any

from kilauea.engine.explain.group import Explanation
from kilauea.simulator.planning import plan_cycles
from kilauea.simulator.scenario import Scenario
from support.builders import NOW, Objects, conf, flat, group, node, parsed, plugin, pod, priority_class, queue

CONF = conf("allocate", ["priority", plugin("gang")], ["predicates", "capacity"])


def explained(objects: Objects, key: str = "ns/mine") -> Explanation:
    listed = flat(objects)
    return plan_cycles(Scenario(listed, parsed(CONF)[0], NOW)).explain(key)


def waiting(name: str, of: str = "q", cpu: int = 4, **more: Any) -> Objects:
    return [group(name, of, **more), pod(f"{name}-0", name, cpu=cpu)]


def test_an_older_group_of_the_queue_is_asked_first_and_takes_the_room() -> None:
    mine = waiting("mine", created=20)
    found = explained([node("n", cpu=4), queue(), waiting("older", created=10), mine, waiting("younger", created=30)])
    assert [(a.group, a.why, a.starting, a.waiting) for a in found.ahead] == [("ns/older", "it is older", 1, 0)]


def test_a_more_important_group_is_asked_first_and_says_by_how_much() -> None:
    urgent = [group("urgent", created=30, priority="high"), pod("urgent-0", "urgent", cpu=9)]
    classes = priority_class("high", 100)
    found = explained([node("n", cpu=2), queue(), classes, waiting("mine", created=20), urgent])
    assert [(a.group, a.why, a.starting, a.waiting) for a in found.ahead] == [
        ("ns/urgent", "its priority 100 is above 0", 0, 1)
    ]


def test_a_queue_that_holds_less_of_its_share_comes_first_with_its_groups() -> None:
    queues = [queue("poor", deserved={"cpu": "4"}), queue("rich", deserved={"cpu": "4"})]
    running = [group("has", "rich", phase="Running"), pod("has-0", "has", cpu=4, node="n", phase="Running")]
    found = explained([node("n", cpu=5), queues, running, waiting("other", "poor", 9), waiting("mine", "rich", 9)])
    assert [(a.group, a.queue, a.why) for a in found.ahead] == [("ns/other", "poor", "queue poor comes first")]


def test_no_one_is_ahead_of_the_only_group() -> None:
    assert explained([node("n", cpu=1), queue(), waiting("mine")]).ahead == ()


def test_holders_of_what_is_lacking_come_by_how_much_they_hold() -> None:
    small = [group("small", phase="Running"), pod("small-0", "small", cpu=1, node="n", phase="Running")]
    large = [group("large", phase="Running"), pod("large-0", "large", cpu=3, node="n", phase="Running")]
    found = explained([node("n", cpu=4), queue(), small, large, waiting("mine", cpu=2)])
    assert [(h.group, h.resource, h.amount) for h in found.holders] == [
        ("ns/large", "cpu", 3000),
        ("ns/small", "cpu", 1000),
    ]


def test_where_a_queue_is_full_only_its_own_groups_are_holders() -> None:
    queues = [queue("full", capability={"cpu": "2"}), queue("side")]
    ours = [group("ours", "full", phase="Running"), pod("ours-0", "ours", cpu=2, node="n", phase="Running")]
    theirs = [group("theirs", "side", phase="Running"), pod("theirs-0", "theirs", cpu=4, node="n", phase="Running")]
    found = explained([node("n", cpu=16), queues, ours, theirs, waiting("mine", "full", 2)])
    assert [h.group for h in found.holders] == ["ns/ours"]
