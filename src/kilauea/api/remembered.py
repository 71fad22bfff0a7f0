"""Functions of texts that remember their answers, but not for texts so long that these would fill the memory."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

Text = TypeVar("Text", str, bytes)
T = TypeVar("T")


class _Answers(dict[Any, T]):
    """Answers by text. A known one is found without a call of Python code, as most are asked for again and again."""

    def __init__(self, function: Callable[[Any], T], most: int, longest: int) -> None:
        super().__init__()
        self._function = function
        self._most = most
        self._longest = longest

    def __missing__(self, text: Any) -> T:
        answer = self._function(text)
        if len(text) <= self._longest:
            if len(self) >= self._most:
                self.clear()
            self[text] = answer
        return answer


def remembered(most: int, longest: int = 1024) -> Callable[[Callable[[Text], T]], Callable[[Text], T]]:
    """Remember the answers of a function.

    Args:
        most: answers that are remembered; then all are forgotten.
        longest: length of a text from which on its answer is made each time: clients choose these texts.
    """

    def decorate(function: Callable[[Text], T]) -> Callable[[Text], T]:
        return _Answers(function, most, longest).__getitem__

    return decorate
