"""What is worth saying: what has been true for a while. A gang that is being made has another complaint each moment."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Generic, TypeVar

LONGEST = 10
"""Looks after which something is said although it changes all the time."""

T = TypeVar("T")


class Settling(Generic[T]):
    """Compares what is wanted to be said with what was wanted at the look before."""

    def __init__(self) -> None:
        self._heard: dict[str, tuple[T, int]] = {}

    def settled(self, wanted: Mapping[str, T]) -> dict[str, T]:
        """What of this, by object, was wanted the last time too, or has been changing for long."""
        heard: dict[str, tuple[T, int]] = {}
        out: dict[str, T] = {}
        for name, content in wanted.items():
            before, looks = self._heard.get(name, (None, 0))
            heard[name] = (content, looks + 1)
            if content == before or looks >= LONGEST:
                out[name] = content
        self._heard = heard
        return out
