"""Sizes of values as ranges, and costs that follow from them; neither exceeds a number of 64 bits."""

from __future__ import annotations

import math
from typing import NamedTuple

MOST = 2**64 - 1
OF_TEXT, OF_PATTERN = 0.1, 0.25
"""Cost of a character that is read, and of one of a pattern."""


class Size(NamedTuple):
    """The smallest and the largest size of a value."""

    least: int
    most: int

    def plus(self, other: Size) -> Size:
        """The size of both together."""
        return Size(capped(self.least + other.least), capped(self.most + other.most))

    def times(self, other: Size) -> Size:
        """The size of as many."""
        return Size(capped(self.least * other.least), capped(self.most * other.most))

    def or_else(self, other: Size) -> Size:
        """The size of one of both."""
        return Size(min(self.least, other.least), max(self.most, other.most))


UNKNOWN = Size(0, MOST)
ONE = Size(1, 1)


class Estimate(NamedTuple):
    """The worst cost of a call, and the size of its result if that is known."""

    cost: int
    size: Size | None = None


def capped(value: int) -> int:
    """A number, or the largest one."""
    return min(value, MOST)


def scaled(size: int, factor: float) -> int:
    """The cost of a size, rounded up."""
    return min(math.ceil(float(size) * factor), MOST)
