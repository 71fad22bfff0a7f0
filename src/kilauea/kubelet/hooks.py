"""Lifecycle hooks: postStart, which must succeed before a container counts as started, and preStop."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable
from typing import NamedTuple

from kilauea.api.ports import Obj
from kilauea.kubelet.handlers import Result, Target, handle
from kilauea.nodes.annotations import STOP_SIGNAL, annotations_of

FAILED_POST_START, FAILED_PRE_STOP = "FailedPostStartHook", "FailedPreStopHook"
LEAST_GRACE = 2
"""Seconds for a container to end after SIGTERM, even if its preStop hook used up its grace period."""
_SIGNALS = {each.name: int(each) for each in signal.Signals}


async def post_start(container: Obj, target: Target) -> Result:
    """Run the postStart hook of a container that has just started."""
    hook = (container.get("lifecycle") or {}).get("postStart")
    return await handle(hook, target, None) if hook else Result("success")


async def pre_stop(container: Obj, target: Target, grace: float, failed: Callable[[str], None]) -> float:
    """Run the preStop hook of a container; return the remaining seconds of its grace period.

    Args:
        container: its specification.
        target: the same container, for handlers.
        grace: seconds of its grace period.
        failed: called if the hook failed.
    """
    hook = (container.get("lifecycle") or {}).get("preStop")
    if not hook or grace <= 0:
        return grace
    loop = asyncio.get_running_loop()
    begin = loop.time()
    try:
        async with asyncio.timeout(grace):
            result = await handle(hook, target, None)
    except TimeoutError:
        result = Result("failure", f"the hook was still running after the grace period of {grace:g} seconds")
    if result.verdict != "success":
        failed(result.output)
    return max(grace - (loop.time() - begin), LEAST_GRACE)


class StopSignal(NamedTuple):
    """The signal that asks a container to end.

    Attributes:
        number: of the signal.
        everyone: True if all processes get it, False if the first does.
    """

    number: int
    everyone: bool


def stop_signal(pod: Obj, container: Obj) -> StopSignal:
    """Return the signal that asks a container of a pod to end."""
    asked = _SIGNALS.get(annotations_of(pod).get(STOP_SIGNAL) or "")
    name = (container.get("lifecycle") or {}).get("stopSignal") or "SIGTERM"
    return StopSignal(asked or _SIGNALS.get(name, int(signal.SIGTERM)), asked is not None)
