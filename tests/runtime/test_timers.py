"""What is put off is never asked for too early."""

from __future__ import annotations

from kilauea.runtime.timers import Timers
from virtual_time import LoopClock, virtual_loop


def test_a_moment_within_a_microsecond_is_not_now() -> None:
    with virtual_loop() as loop:
        clock, seen = LoopClock(loop), []
        timers: Timers[str] = Timers(clock, lambda name: seen.append((name, clock.now())))
        begin = clock.now()
        timers.set("soon", 9.999999974752427e-07)
        loop.create_task(timers.run())
        loop.run_until_complete(clock.sleep(1))
        assert seen == [("soon", begin + 1)]
