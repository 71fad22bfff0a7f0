"""Stops containers: preStop hook, stop signal, grace period, and finally by force."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress

from kilauea.api.ports import Obj
from kilauea.kubelet.container_runtime import ContainerError, ContainerRuntime
from kilauea.kubelet.handlers import Target
from kilauea.kubelet.hooks import pre_stop, stop_signal
from kilauea.kubelet.members import Member

FIRST_WAIT, LONGEST_WAIT = 1.0, 30.0
"""Seconds until a container that should have been killed is killed again, and the maximum."""


async def stop_container(
    pod: Obj, member: Member, target: Target, grace: float, hook: bool, failed: Callable[[str], None]
) -> None:
    """End a container; runs until it is cancelled, when the container has ended.

    Args:
        pod: its pod.
        member: the container.
        target: the same container, for handlers.
        grace: seconds of its grace period.
        hook: True if its preStop hook has not run yet.
        failed: called if the hook failed.
    """
    runtime = target.runtime
    if hook:
        grace = await pre_stop(member.spec, target, grace, failed)
    if grace > 0:
        with suppress(ContainerError):
            asked = stop_signal(pod, member.spec)
            await runtime.signal(target.id, asked.number, everyone=asked.everyone)
        await asyncio.sleep(grace)
    await _kill(runtime, target.id)


async def _kill(runtime: ContainerRuntime, id: str) -> None:
    """Kill a container repeatedly until cancelled."""
    pause = FIRST_WAIT
    while True:
        with suppress(ContainerError):
            await runtime.kill(id)
        await asyncio.sleep(pause)
        pause = min(2 * pause, LONGEST_WAIT)
