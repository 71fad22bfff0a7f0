"""Results that are cached for as long as a part of an object remains identical.

Controllers look at an object again whenever its status changes, and its specification is then the same object in
memory. What has been read from it need not be read again.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from typing import Any, Generic, TypeVar

T = TypeVar("T")
Part = Mapping[str, Any]

MOST_KEPT = 1024
MOST_VALUES = 400
"""Values in a part that is kept: a job has fewer than a hundred, and those who write huge ones must not fill memory."""
MOST_CHARACTERS = 16 * 1024
"""Characters of all texts in a part that is kept."""


class Remembered(Generic[T]):
    """A function of a part of an object that reads the very same part once, unless it is large.

    Args:
        read: the function; neither its argument nor its result may be changed.
    """

    def __init__(self, read: Callable[..., T]) -> None:
        self._read = read
        self._kept: dict[tuple[Hashable, ...], tuple[Part, T]] = {}

    def __call__(self, part: Part, *others: Hashable) -> T:
        """The result for a part, and further arguments."""
        # What is kept holds its part, so that nothing else can have the same identity meanwhile.
        at = (id(part), *others)
        known = self._kept.get(at)
        if known is not None:
            return known[1]
        found = self._read(part, *others)
        if is_small(part):
            while len(self._kept) >= MOST_KEPT:
                del self._kept[next(iter(self._kept))]
            self._kept[at] = part, found
        return found


def is_small(part: Part) -> bool:
    """Return True if a part takes little memory; looks at no more of it than that."""
    values, characters = MOST_VALUES, MOST_CHARACTERS
    left: list[Any] = [part]
    while left:
        each = left.pop()
        if isinstance(each, str):
            characters -= len(each)
        elif isinstance(each, dict):
            values -= len(each)
            characters -= sum(map(len, each)) if values >= 0 else 0
            left += each.values() if values >= 0 else ()
        elif isinstance(each, list):
            values -= len(each)
            left += each if values >= 0 else ()
        if values < 0 or characters < 0:
            return False
    return True
