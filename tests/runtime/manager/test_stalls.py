"""A process knows since when it has run without a stall."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from kilauea.runtime.manager.stalls import Stalls
from support.virtual_time import START, LoopClock, VirtualLoop, virtual_loop


@pytest.fixture
def loop() -> Iterator[VirtualLoop]:
    with virtual_loop() as made:
        yield made


def stopped(loop: VirtualLoop, seconds: float) -> None:
    """Time passes, and nothing runs."""
    loop.seconds += seconds


def test_a_process_that_runs_has_run_since_its_start(loop: VirtualLoop) -> None:
    clock = LoopClock(loop)
    stalls = Stalls(clock)
    loop.create_task(stalls.run())
    for _ in range(100):
        loop.run_until_complete(clock.sleep(30))
        stopped(loop, 3)
        assert stalls.running_since(clock.now()) == START


@pytest.mark.parametrize("seconds", [60, 120, 8 * 3600])
def test_a_process_that_was_stopped_has_run_since_then(loop: VirtualLoop, seconds: float) -> None:
    clock = LoopClock(loop)
    stalls = Stalls(clock)
    loop.create_task(stalls.run())
    for _ in range(2):
        loop.run_until_complete(clock.sleep(30))
        stopped(loop, seconds)
        awake = clock.now()
        assert stalls.running_since(awake) == awake
        loop.run_until_complete(clock.sleep(30))
        assert stalls.running_since(clock.now()) == awake


@pytest.mark.parametrize("seconds", [-8 * 3600, -60, 60, 8 * 3600])
def test_times_before_the_time_of_day_was_set_do_not_count(loop: VirtualLoop, seconds: float) -> None:
    clock = LoopClock(loop)
    stalls = Stalls(clock)
    loop.create_task(stalls.run())
    loop.run_until_complete(clock.sleep(30))
    clock.step(seconds)
    set_to = clock.now()
    loop.run_until_complete(clock.sleep(30))
    assert 0 <= stalls.running_since(clock.now()) - set_to <= 1_000_000
