"""Sizes of values as ranges, and derived costs; both are limited to 64 bits."""

from __future__ import annotations

import math
from typing import NamedTuple

MOST = 2**64 - 1
OF_TEXT, OF_PATTERN = 0.1, 0.25
"""Cost per character read, and per character of a pattern."""


class Size(NamedTuple):
    """The smallest and the largest size of a value."""

    least: int
    most: int

    def plus(self, other: Size) -> Size:
        """Return the sum of both sizes."""
        return Size(capped(self.least + other.least), capped(self.most + other.most))

    def times(self, other: Size) -> Size:
        """Return the product of both sizes."""
        return Size(capped(self.least * other.least), capped(self.most * other.most))

    def or_else(self, other: Size) -> Size:
        """Return the size of either value."""
        return Size(min(self.least, other.least), max(self.most, other.most))


UNKNOWN = Size(0, MOST)
ONE = Size(1, 1)


class Estimate(NamedTuple):
    """The maximum cost of a call, and the size of its result if known."""

    cost: int
    size: Size | None = None


def capped(value: int) -> int:
    """Return a number, limited to the largest one."""
    return min(value, MOST)


def scaled(size: int, factor: float) -> int:
    """Return the cost of a size, rounded up."""
    return min(math.ceil(float(size) * factor), MOST)
