"""Pods of a scheduler that does not run."""

from __future__ import annotations

from collections.abc import Collection


def left_to(scheduler: str, served: Collection[str]) -> str:
    """Return the reason why pods of another scheduler are pending."""
    names = ", ".join(sorted(served))
    return f'schedulerName is "{scheduler}", and this scheduler serves {names}; run the other one, or correct the name'
