"""Controllers of a replay at one moment: much work ends, and work without an end is refused."""

from __future__ import annotations

from typing import Any

import pytest

from kilauea.api.kinds import QUEUES
from kilauea.api.ports import Interest, Key, Outcome, Patch, key_of
from kilauea.simulator.replay import controlling
from kilauea.simulator.replay.controlling import Controlling, Restless
from kilauea.simulator.replay.objects import Objects

LOOKS = 200


class Counting:
    """Adds one to the status of each object until it has been looked at so often."""

    name = "counting"

    def __init__(self, most: int) -> None:
        self.interests = [Interest(QUEUES, lambda obj: [key_of(obj)])]
        self._most = most

    def reconcile(self, key: Key, view: Any, now: int) -> Outcome:
        obj = view.get(QUEUES, key)
        count = obj.get("status", {}).get("count", 0)
        return Outcome([Patch(QUEUES, key, {"status": {"count": count + 1}})] if count < self._most else [])


def run(count: int, most: int) -> int:
    """The looks at so many objects."""
    objects = Objects()
    found = Controlling(objects, [Counting(most)], lambda pod: None)
    for number in range(count):
        objects.create(QUEUES, {"metadata": {"name": f"q{number}"}}, "2026-01-01T00:00:00Z")
    found.run(0)
    return found.looks


def test_thousands_of_jobs_may_come_at_the_same_moment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(controlling, "MOST_LOOKS", LOOKS)
    assert run(count=LOOKS * 3, most=2) == LOOKS * 3 * 3


def test_controllers_that_never_end_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(controlling, "MOST_LOOKS", LOOKS)
    with pytest.raises(Restless, match="counting does not finish with"):
        run(count=1, most=10**9)
