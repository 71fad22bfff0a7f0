"""Whose turn it is when keys of queues change while they wait in the line."""

from __future__ import annotations

import pytest

from kilauea.engine.model.queues import Queue
from kilauea.engine.queues.turns import QueueTurns
from kilauea.engine.session import Session
from support.builders import Objects, conf, gang, node, plan_in, queue, state_of
from support.probes import action_called, plugin_called

CLUSTER: list[Objects] = [
    node("n1"),
    *(queue(name) for name in "abc"),
    *(gang(f"g{name}", 1, queue=name) for name in "abc"),
]


def turns(change: dict[str, int], reported: list[str], *, when_asked: bool = False) -> list[str]:
    """Queues in the order of their turns, when the keys of a, b, c (1, 2, 3) change while they wait in the line."""
    keys = {"a": 1, "b": 2, "c": 3}
    order: list[str] = []
    late: list[str] = []

    def register(session: Session) -> None:
        def key(queue: Queue) -> int:
            if late:
                session.queues_moved(list(late))
                late.clear()
            return keys.get(queue.name, 0)

        session.add_queue_order("keyed", key)

    def look(session: Session) -> None:
        line = QueueTurns(session, session.waiting_jobs())
        keys.update(change)
        if when_asked:
            late.extend(reported)
        else:
            session.queues_moved(reported)
        while (queue := line.next_queue()) is not None:
            order.append(queue.name)

    plugins, actions = [plugin_called("keyed", register)], [action_called("look", look)]
    plan = plan_in(state_of(*CLUSTER), conf("look", ["keyed"]), plugins=plugins, actions=actions)
    assert [str(finding) for finding in plan.findings] == []
    return order


@pytest.mark.parametrize("when_asked", [False, True])
@pytest.mark.parametrize(
    ("change", "reported", "order"),
    [
        ({}, [], ["a", "b", "c"]),
        ({"a": 9}, [], ["a", "b", "c"]),
        ({"a": 9}, ["a"], ["b", "c", "a"]),
        ({"c": 0}, ["c"], ["c", "a", "b"]),
        ({"a": 9, "c": 0}, ["c"], ["c", "a", "b"]),
        ({"a": 9, "c": 0}, ["a", "b", "c"], ["c", "b", "a"]),
        ({"c": 0}, ["c", "unknown"], ["c", "a", "b"]),
    ],
)
def test_a_queue_gets_a_new_place_in_the_line_when_it_is_reported_as_moved(
    change: dict[str, int], reported: list[str], order: list[str], when_asked: bool
) -> None:
    assert turns(change, reported, when_asked=when_asked) == order


def test_every_line_takes_in_every_move() -> None:
    keys = {"a": 1, "b": 2, "c": 3}
    first: list[str | None] = []

    def look(session: Session) -> None:
        lines = [QueueTurns(session, session.waiting_jobs()) for _ in range(2)]
        keys["c"] = 0
        session.queues_moved(["c"])
        first.extend(turn.name if (turn := line.next_queue()) else None for line in lines)

    def register(session: Session) -> None:
        session.add_queue_order("keyed", lambda queue: keys.get(queue.name, 0))

    plugins, actions = [plugin_called("keyed", register)], [action_called("look", look)]
    plan_in(state_of(*CLUSTER), conf("look", ["keyed"]), plugins=plugins, actions=actions)
    assert first == ["c", "c"]
