"""A process that did not run has not listened."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from kilauea.runtime.manager.attention import Attention
from support.virtual_time import START, LoopClock, VirtualLoop, virtual_loop


@pytest.fixture
def loop() -> Iterator[VirtualLoop]:
    with virtual_loop() as made:
        yield made


def stopped(loop: VirtualLoop, seconds: float) -> None:
    """Time passes, and nothing runs."""
    loop.seconds += seconds


def test_a_process_that_runs_has_listened_from_its_start(loop: VirtualLoop) -> None:
    clock = LoopClock(loop)
    attention = Attention(clock)
    loop.create_task(attention.run())
    for _ in range(100):
        loop.run_until_complete(clock.sleep(30))
        stopped(loop, 3)
        assert attention.since(clock.now()) == START


@pytest.mark.parametrize("seconds", [60, 120, 8 * 3600])
def test_a_process_that_was_stopped_listens_from_then_on(loop: VirtualLoop, seconds: float) -> None:
    clock = LoopClock(loop)
    attention = Attention(clock)
    loop.create_task(attention.run())
    for _ in range(2):
        loop.run_until_complete(clock.sleep(30))
        stopped(loop, seconds)
        awake = clock.now()
        assert attention.since(awake) == awake
        loop.run_until_complete(clock.sleep(30))
        assert attention.since(clock.now()) == awake


@pytest.mark.parametrize("seconds", [-8 * 3600, -60, 60, 8 * 3600])
def test_times_before_the_time_of_day_was_set_do_not_count(loop: VirtualLoop, seconds: float) -> None:
    clock = LoopClock(loop)
    attention = Attention(clock)
    loop.create_task(attention.run())
    loop.run_until_complete(clock.sleep(30))
    clock.step(seconds)
    set_to = clock.now()
    loop.run_until_complete(clock.sleep(30))
    assert 0 <= attention.since(clock.now()) - set_to <= 1_000_000
