"""Pods of other schedulers."""

from __future__ import annotations

from collections.abc import Collection

NO_SCHEDULER = "NoScheduler"
"""Type of the condition of a pod group, and reason of the condition of a pod, whose scheduler does not run."""


def left_to(scheduler: str, served: Collection[str], *, runs: bool = False) -> str:
    """Return the reason why pods of another scheduler are pending.

    Args:
        scheduler: its name.
        served: the names that this scheduler serves.
        runs: True if the other scheduler has processed them.
    """
    if runs:
        return f'schedulerName is "{scheduler}", which has processed the pods: its events on them say why they wait'
    names = ", ".join(sorted(served))
    return f'schedulerName is "{scheduler}", and this scheduler serves {names}; run the other one, or correct the name'
