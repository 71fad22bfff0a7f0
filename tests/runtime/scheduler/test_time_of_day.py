"""A user sets the time of day, forward or backward: scheduling goes on as if nothing had happened."""

from __future__ import annotations

import pytest

from kilauea.api.ports import ApiError
from support.live_world import live_world

STEPS = [-600.0, -60.0, 60.0, 600.0]


@pytest.mark.parametrize("step", STEPS)
def test_a_pod_that_comes_after_the_step_is_placed_at_once(step: float) -> None:
    with live_world() as live:
        live.node("n1")
        live.start()
        live.pod("before")
        live.wait(3)
        live.world.clock.step(step)
        live.pod("after")
        live.wait(2)
        assert (live.node_of("before"), live.node_of("after")) == ("n1", "n1")


@pytest.mark.parametrize("step", STEPS)
def test_cycles_go_on_once_a_period_after_the_step(step: float) -> None:
    with live_world() as live:
        live.node("n1")
        live.pod("too-large", cpu="8")
        live.start()
        live.wait(5)
        cycles = live.scheduler.scheduler.cycles
        live.world.clock.step(step)
        live.wait(10)
        assert 9 <= live.scheduler.scheduler.cycles - cycles <= 11


@pytest.mark.parametrize("step", STEPS)
def test_a_bind_that_failed_is_tried_again_no_later(step: float) -> None:
    with live_world() as live:
        live.node("n1")
        live.start()
        failures = 3

        async def fail(method: str, target: str) -> None:
            nonlocal failures
            if target.endswith("/binding") and failures:
                failures -= 1
                raise ApiError(503, "ServiceUnavailable", "the server is busy")

        live.wire.before = fail
        live.pod("web")
        live.wait(0.02)
        live.world.clock.step(step)
        live.wait(5)
        assert live.node_of("web") == "n1"


@pytest.mark.parametrize("step", STEPS)
def test_the_engine_is_told_of_the_step_and_of_nothing_else(step: float) -> None:
    """It waits a minute more for pods that should have ended meanwhile."""
    with live_world() as live:
        live.node("n1")
        live.start()
        live.wait(120)
        assert live.scheduler.scheduler.backoff.running_since == 0
        live.world.clock.step(step)
        live.pod("after")
        live.wait(2)
        ago = live.world.clock.now() - live.scheduler.scheduler.backoff.running_since
        assert 0 < ago <= 2_000_000


def test_long_cycles_do_not_count_as_stalls(monkeypatch: pytest.MonkeyPatch) -> None:
    with live_world() as live:
        live.node("n1")
        live.pod("too-large", cpu="8")
        live.start()
        scheduler, cycles = live.scheduler.scheduler, 0
        step = scheduler.step

        async def step_for_long() -> None:
            nonlocal cycles
            await step()
            await live.world.clock.sleep(20)
            cycles += 1

        monkeypatch.setattr(scheduler, "step", step_for_long)
        live.wait(120)
        assert cycles > 1
        assert scheduler.backoff.running_since == 0
