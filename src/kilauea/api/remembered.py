"""Functions of texts that remember their answers, but not for texts so long that these would fill the memory."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import TypeVar

Text = TypeVar("Text", str, bytes)
T = TypeVar("T")


def remembered(most: int, longest: int = 1024) -> Callable[[Callable[[Text], T]], Callable[[Text], T]]:
    """Remember the answers of a function.

    Args:
        most: answers that are remembered.
        longest: length of a text from which on its answer is made each time: clients choose these texts.
    """

    def decorate(function: Callable[[Text], T]) -> Callable[[Text], T]:
        known = lru_cache(maxsize=most)(function)

        def answer(text: Text) -> T:
            return known(text) if len(text) <= longest else function(text)

        answer.__doc__ = function.__doc__
        return answer

    return decorate
