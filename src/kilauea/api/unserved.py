"""Pods that name a scheduler that does not run."""

from __future__ import annotations

from collections.abc import Collection


def left_to(scheduler: str, served: Collection[str]) -> str:
    """Return why pods that name another scheduler wait."""
    names = ", ".join(sorted(served))
    return f'schedulerName is "{scheduler}", and this scheduler serves {names}; run the other one, or correct the name'
