"""The whole cluster under random histories and faults: the guarantees hold at every moment, and in the end all is well.

KILAUEA_HISTORIES says how many seeds are played. One that fails is played again, with its acts, by
`python tests/system/replay.py --seed N`; the same command with `--count` plays thousands.
"""

from __future__ import annotations

import gc
import os
from collections.abc import Iterator

import pytest

from system.history import play

COUNT = int(os.environ.get("KILAUEA_HISTORIES", "8"))


@pytest.fixture(autouse=True, scope="module")
def seldom_collected() -> Iterator[None]:
    """A history makes many objects and hardly a cycle: looking for cycles takes a quarter of its time."""
    before = gc.get_threshold()
    gc.set_threshold(100_000, 50, 100)
    yield
    gc.set_threshold(*before)


@pytest.mark.parametrize("seed", range(COUNT))
def test_whatever_happens_the_guarantees_hold_and_all_that_can_run_runs(seed: int) -> None:
    broken, acts = play(seed)
    assert not broken, "\n".join([*broken, *acts])


def test_a_seed_replays_to_the_same_end() -> None:
    assert play(COUNT) == play(COUNT)
