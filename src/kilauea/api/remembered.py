"""Functions of texts that cache their results, except for texts so long that these would fill the memory."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache, wraps
from typing import Any, ParamSpec, TypeVar

Text = TypeVar("Text", str, bytes)
T = TypeVar("T")
P = ParamSpec("P")
Items = TypeVar("Items", bound=tuple[Any, ...])


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


def remembered_parts(most: int, longest: int = 16 * 1024) -> Callable[[Callable[P, T]], Callable[P, T]]:
    """Remember the answers of a function of texts and tuples of texts.

    Args:
        most: answers that are remembered; the one that was asked for least lately makes room.
        longest: characters of all texts from which on the answer is made each time.
    """

    def decorate(function: Callable[P, T]) -> Callable[P, T]:
        kept: Callable[P, T] = lru_cache(maxsize=most)(function)  # type: ignore[assignment]

        @wraps(function)
        def ask(*arguments: P.args, **named: P.kwargs) -> T:
            ours = function if _size(arguments) + _size(tuple(named.values())) > longest else kept
            return ours(*arguments, **named)

        return ask

    return decorate


def remembered_items(
    most: int, longest: int = 64, characters: int = 1024
) -> Callable[[Callable[[Items], T]], Callable[[Items], T]]:
    """Remember the answers of a function of a tuple of short items, such as pairs of a name and a quantity.

    Characters are counted only before an answer is remembered: known ones are found without that.

    Args:
        most: answers that are remembered; then all are forgotten.
        longest: length of a tuple from which on the answer is made each time.
        characters: of all texts in it, from which on the same is so.
    """

    def decorate(function: Callable[[Items], T]) -> Callable[[Items], T]:
        kept: dict[Items, T] = {}

        @wraps(function)
        def ask(items: Items) -> T:
            try:
                return kept[items]
            except KeyError:
                pass
            answer = function(items)
            if len(items) <= longest and _size(items) <= characters:
                if len(kept) >= most:
                    kept.clear()
                kept[items] = answer
            return answer

        return ask

    return decorate


def _size(value: Any) -> int:
    """Characters of all texts in it."""
    if isinstance(value, tuple):
        return sum(map(_size, value))
    return len(value) if isinstance(value, str) else 0
