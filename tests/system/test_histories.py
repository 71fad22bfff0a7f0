"""The whole cluster under random histories and faults: the guarantees hold at every moment, and in the end all is well.

KILAUEA_HISTORIES says how many seeds are played. One that fails is played again, with its acts, by
`python tests/system/replay.py --seed N`; the same command with `--count` plays thousands.
"""

from __future__ import annotations

import os

import pytest

from system.history import play

COUNT = int(os.environ.get("KILAUEA_HISTORIES", "8"))


@pytest.mark.parametrize("seed", range(COUNT))
def test_whatever_happens_the_guarantees_hold_and_all_that_can_run_runs(seed: int) -> None:
    broken, acts = play(seed)
    assert not broken, "\n".join([*broken, *acts])


def test_a_seed_replays_to_the_same_end() -> None:
    assert play(COUNT) == play(COUNT)
