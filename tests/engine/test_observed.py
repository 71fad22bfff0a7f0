"""Cycles whose time is taken: what the observer hears, and that hearing changes nothing."""

from __future__ import annotations

from collections import Counter

from kilauea.engine.cycle import cycle
from kilauea.engine.extension.observer import Part
from support.builders import NOW, conf, group, node, parsed, pod, priority_class, state_of

CONF = parsed(conf("allocate, preempt", ["priority", "gang"], ["predicates", "nodeorder"]))[0]
CLUSTER = (
    [node("n1", cpu=4), node("n2", cpu=4), priority_class("low", 1), priority_class("high", 9)],
    [group("old", minimum=1, phase="Running", priority="low")],
    [pod(f"old-{i}", "old", cpu=2, node=f"n{i % 2 + 1}", priority=1) for i in range(3)],
    [group("new", minimum=3, phase="Inqueue", priority="high")],
    [pod(f"new-{i}", "new", cpu=2, priority=9) for i in range(3)],
)


class Listening:
    """An observer whose clock moves on by one whenever it is read."""

    def __init__(self) -> None:
        self.time = 0
        self.heard: list[tuple[Part, str]] = []
        self.times: list[int] = []
        self.choices = 0
        self.tries: Counter[str] = Counter()

    def now(self) -> int:
        self.time += 1
        return self.time

    def took(self, part: Part, name: str, time: int) -> None:
        self.heard.append((part, name))
        self.times.append(time)

    def chose(self, predicates: int, scoring: int) -> None:
        self.choices += 1
        self.times += [predicates, scoring]

    def tried(self, action: str) -> None:
        self.tries[action] += 1


def test_an_observer_hears_of_every_part_in_order() -> None:
    listening = Listening()
    cycle(state_of(CLUSTER), CONF, NOW, observer=listening)
    plugins = [plugin.name for tier in CONF.tiers for plugin in tier]
    assert listening.heard == [
        *(("opening", name) for name in plugins),
        ("session", "open"),
        *(("action", name) for name in CONF.actions),
        *(("closing", name) for name in plugins),
    ]
    assert listening.choices >= 3
    assert min(listening.times) >= 0
    assert listening.tries["preempt"] >= 1
    assert listening.tries.keys() == {"preempt"}


def test_a_cycle_decides_the_same_whether_observed_or_not() -> None:
    state = state_of(CLUSTER)
    observed = cycle(state, CONF, NOW, observer=Listening())
    assert observed == cycle(state, CONF, NOW)
    assert observed.evictions
