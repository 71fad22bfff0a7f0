"""Caching of functions of texts, except for long texts that would fill the memory."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, ParamSpec, TypeVar

Text = TypeVar("Text", str, bytes)
T = TypeVar("T")
P = ParamSpec("P")
Items = TypeVar("Items", bound=tuple[Any, ...])


_NAMED = object()
"""Separates named from positional arguments in a key, as in `functools.lru_cache`."""


class _Answers(dict[Any, T]):
    """Results by text. A cached one is found without a call of Python code, as most recur."""

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
    """Cache the results of a function.

    Args:
        most: answers that are remembered; then all are forgotten.
        longest: the length of a text from which its result is not cached, as clients choose these texts.
    """

    def decorate(function: Callable[[Text], T]) -> Callable[[Text], T]:
        return _Answers(function, most, longest).__getitem__

    return decorate


def remembered_parts(most: int, longest: int = 16 * 1024) -> Callable[[Callable[P, T]], Callable[P, T]]:
    """Cache the results of a function of texts and tuples of texts.

    Characters are counted only before a result is cached, not in lookups.

    Args:
        most: the maximum number of cached results; then all are discarded.
        longest: the total characters of texts from which a result is not cached.
    """

    def decorate(function: Callable[P, T]) -> Callable[P, T]:
        kept: dict[Any, T] = {}

        @wraps(function)
        def ask(*arguments: P.args, **named: P.kwargs) -> T:
            key = (*arguments, _NAMED, *named.items()) if named else arguments
            try:
                return kept[key]
            except KeyError:
                pass
            answer = function(*arguments, **named)
            if _size(arguments) + _size(tuple(named.values())) <= longest:
                if len(kept) >= most:
                    kept.clear()
                kept[key] = answer
            return answer

        return ask

    return decorate


def remembered_items(
    most: int, longest: int = 64, characters: int = 1024
) -> Callable[[Callable[[Items], T]], Callable[[Items], T]]:
    """Cache the results of a function of a tuple of short items, such as pairs of a name and a quantity.

    Characters are counted only before a result is cached, not in lookups.

    Args:
        most: answers that are remembered; then all are forgotten.
        longest: the length of a tuple from which a result is not cached.
        characters: the total characters of its texts from which a result is not cached.
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
    """Return the total characters of texts in a value."""
    if isinstance(value, tuple):
        return sum(map(_size, value))
    return len(value) if isinstance(value, str) else 0
