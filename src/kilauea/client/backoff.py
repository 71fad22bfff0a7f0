"""Exponential backoff with jitter, so that clients that fail together do not retry together."""

from __future__ import annotations

from random import Random

FIRST, LONGEST = 0.5, 30.0


def pause(failures: int, rng: Random, first: float = FIRST, longest: float = LONGEST) -> float:
    """Return the seconds to wait after this many consecutive failures: doubled up to a limit, half of it random."""
    whole = min(longest, first * 2.0 ** min(failures - 1, 60))
    return whole * (0.5 + 0.5 * rng.random())
