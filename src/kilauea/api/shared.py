"""Equal texts that several parts of a process keep for a long time, stored as one object in memory.

`sys.intern` would do that, too, but Python 3.12 never forgets what it interned, and most of these texts name pods
and jobs, which come and go.
"""

from __future__ import annotations

from functools import lru_cache

REMEMBERED = 8192
"""Texts that were seen last. The parts of a process see an object within moments of each other."""


@lru_cache(REMEMBERED)
def shared(text: str) -> str:
    """Return the first text that was seen among those that equal this one."""
    return text
