"""What is put off is never asked for too early."""

from __future__ import annotations

import tracemalloc

import pytest

from kilauea.runtime.manager.timers import Timers
from support.virtual_time import LoopClock, virtual_loop


def test_a_moment_within_a_microsecond_is_not_now() -> None:
    with virtual_loop() as loop:
        clock, seen = LoopClock(loop), []
        timers: Timers[str] = Timers(clock, lambda name: seen.append((name, clock.now())))
        begin = clock.now()
        timers.set("soon", 9.999999974752427e-07)
        loop.create_task(timers.run())
        loop.run_until_complete(clock.sleep(1))
        assert seen == [("soon", begin + 1)]


def called(step: float, *waits: float, seconds: float) -> list[tuple[str, float]]:
    """Who was called, and after how many seconds, when the time of day is set after one second."""
    with virtual_loop() as loop:
        clock, seen = LoopClock(loop), list[tuple[str, float]]()
        timers: Timers[str] = Timers(clock, lambda name: seen.append((name, loop.seconds)))
        for wait in waits:
            timers.set(f"{wait:g}", wait)
        loop.create_task(timers.run())
        loop.run_until_complete(clock.sleep(1))
        clock.step(step)
        loop.run_until_complete(clock.sleep(seconds))
        return seen


@pytest.mark.parametrize("step", [-600.0, -60.0, 60.0, 600.0])
def test_setting_the_time_of_day_makes_no_one_wait_longer(step: float) -> None:
    assert called(step, 3.0, seconds=4) == [("3", 3.0)]


@pytest.mark.parametrize("step", [-600.0, 600.0])
def test_who_waits_for_a_time_of_day_hears_soon_that_it_was_set(step: float) -> None:
    assert called(step, 7200.0, 3600.0, seconds=30) == [("3600", 10.0), ("7200", 10.0)]


def test_clocks_that_drift_apart_disturb_no_one() -> None:
    assert called(0.5, 40.0, seconds=60) == [("40", 40.0)]


@pytest.mark.slow
def test_timers_that_are_set_again_and_again_take_no_more_memory() -> None:
    with virtual_loop() as loop:
        clock, seen = LoopClock(loop), list[str]()
        timers: Timers[str] = Timers(clock, seen.append)
        timers.set("other", 3600)
        tracemalloc.start()
        timers.set("deadline", 86400)
        before = tracemalloc.get_traced_memory()[0]
        for number in range(10_000):
            timers.set("deadline", 86400 - number)
            timers.set(f"gone-{number}", 86400)
            timers.cancel(f"gone-{number}")
        grown = tracemalloc.get_traced_memory()[0] - before
        tracemalloc.stop()
        assert grown < 100_000  # an entry of the 20,000 takes more than 100 bytes
        loop.create_task(timers.run())
        loop.run_until_complete(clock.sleep(86400))
        assert seen == ["other", "deadline"]
