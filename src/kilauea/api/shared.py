"""Sharing of equal strings that several parts of a process keep for long.

`sys.intern` does the same, but Python 3.12 never frees interned strings, and most of these are names of short-lived
pods and jobs.
"""

from __future__ import annotations

from functools import lru_cache

REMEMBERED = 8192
"""Number of recent strings. The parts of a process see an object at nearly the same time."""


@lru_cache(REMEMBERED)
def shared(text: str) -> str:
    """Return the first string seen that equals this one."""
    return text
