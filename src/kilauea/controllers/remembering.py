"""Results that are cached for as long as a part of an object remains identical.

Controllers reconcile an object again whenever its status changes, and its specification is then the same object in
memory. So it need not be parsed again.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from typing import Any, Generic, TypeVar

T = TypeVar("T")
Part = Mapping[str, Any]

MOST_KEPT = 1024
MOST_VALUES = 400
"""Maximum number of values in a cached part: a job has fewer than a hundred, and huge ones must not fill memory."""
MOST_CHARACTERS = 16 * 1024
"""Maximum number of characters of all texts in a cached part."""


class Remembered(Generic[T]):
    """A function of a part of an object that is called once for the identical part, unless it is large.

    Args:
        read: the function; neither its argument nor its result may be changed.
    """

    def __init__(self, read: Callable[..., T]) -> None:
        self._read = read
        self._kept: dict[tuple[Hashable, ...], tuple[Part, T]] = {}

    def __call__(self, part: Part, *others: Hashable) -> T:
        """Return the result for a part and further arguments."""
        # The cache holds a reference to the part, so no other object can have the same identity meanwhile.
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
    """Return True if a part takes little memory; reads only as much of it as needed."""
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
