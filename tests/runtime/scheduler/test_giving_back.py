"""Admission that leads nowhere goes back: which groups lose it, and which keep it."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from builders import Objects, flat, group, node, pod, queue
from kilauea.engine.plan import GroupOutcome, Plan, Refusal
from kilauea.runtime.planning import build_state
from kilauea.runtime.scheduler.giving_back import FRUITLESS, GivingBack

WAITING = GroupOutcome("Pending", {}, refusal=Refusal("QueueQuotaInsufficient", "no quota left"))


def given_back(counts: Mapping[str, int], *others: Objects, phase: str = "Inqueue", cycles: int = FRUITLESS) -> bool:
    """Whether an admitted group with such pods goes back after so many cycles while another one waits."""
    admitted = [group("g", resources={"cpu": "4"}), pod("g-0", cpu=4)]
    state = build_state(flat([node("n", cpu=1), queue(), *admitted, *others]))
    plan = Plan(groups={"ns/g": GroupOutcome(phase, counts), "ns/other": WAITING})
    giving = GivingBack()
    outcomes = [giving.after(plan, state, now) for now in range(cycles)]
    return any("ns/g" in each for each in outcomes)


@pytest.mark.parametrize(
    "counts",
    [
        pytest.param({"Pending": 1}, id="its pods wait"),
        pytest.param({"Succeeded": 2, "Pending": 1}, id="some have ended well, and nothing runs any more"),
        pytest.param({"Succeeded": 2}, id="those that are left have all ended"),
        pytest.param({"Failed": 1, "Pending": 1}, id="one has failed"),
    ],
)
def test_a_group_of_which_nothing_is_placed_gives_back(counts: Mapping[str, int]) -> None:
    assert given_back(counts)


@pytest.mark.parametrize("status", ["Binding", "Bound", "Running", "Releasing", "Pipelined"])
def test_a_group_of_which_something_is_placed_keeps_it(status: str) -> None:
    assert not given_back({status: 1, "Pending": 1})


def test_a_cycle_fewer_is_not_enough() -> None:
    assert not given_back({"Pending": 1}, cycles=FRUITLESS - 1)
