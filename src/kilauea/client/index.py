"""Indexes of object keys by a value in the objects, such as their owners or a label."""

from __future__ import annotations

import logging
from bisect import bisect_left, insort
from collections.abc import Callable, Sequence

from kilauea.api.ports import Key, Obj, Texts

log = logging.getLogger(__name__)

FEW = 16
"""Number of values of an object up to which they are compared pairwise."""
Values = Callable[[Obj], Sequence[str]]
"""Returns the values of an object."""


class Index:
    """Keys by value, each list in order."""

    def __init__(self, values: Values) -> None:
        self._values = values
        self._keys: dict[str, list[Key]] = {}
        self._failed = False

    def find(self, value: str) -> Sequence[Key]:
        """Return the keys of the objects with a value."""
        return self._keys.get(value, ())

    def move(self, key: Key, old: Obj | None, new: Obj | None, kept: Callable[[Key], Key] = lambda key: key) -> None:
        """Update the index for a change of an object; None if it does not exist.

        Args:
            key: the key of the object.
            old: the old object.
            new: the new object.
            kept: returns the key to store in place of an equal one, if the object exists.
        """
        try:
            before = () if old is None else self._values(old)
            after = () if new is None else self._values(new)
        except Exception:
            before, after = self._values_of(old), self._values_of(new)
        if before == after:
            return
        # Most have one value. Clients can set thousands, for which pairwise comparison takes quadratic time.
        had, has = (before, after) if len(before) + len(after) <= FEW else (frozenset(before), frozenset(after))
        for value in before:
            if value not in has:
                self._drop(value, key)
        for value in after:
            if value not in had:
                insort(self._keys.setdefault(value, []), kept(key))

    def _values_of(self, obj: Obj | None) -> Sequence[str]:
        """Return the values of an object; none if they cannot be computed."""
        if obj is None:
            return ()
        try:
            return self._values(obj)
        except Exception:
            level = logging.DEBUG if self._failed else logging.ERROR  # log once, as every object may fail
            self._failed = True
            log.log(level, "an index cannot read %s", obj["metadata"].get("name"), exc_info=True)
            return ()

    def _drop(self, value: str, key: Key) -> None:
        keys = self._keys[value]
        remove(keys, key)
        if not keys:
            del self._keys[value]


def remove(keys: list[Key], key: Key) -> None:
    """Remove a key from a sorted list."""
    del keys[bisect_left(keys, key)]


def owners(obj: Obj) -> Sequence[str]:
    """Return the distinct UIDs of an object's owners."""
    references = obj["metadata"].get("ownerReferences")
    return tuple(dict.fromkeys(reference["uid"] for reference in references)) if references else ()


def by_label(label: str) -> Values:
    """Return an index by the value of a label."""

    def values(obj: Obj) -> Sequence[str]:
        labels = obj["metadata"].get("labels")
        return (labels[label],) if labels and label in labels else ()

    return values


def by_text(texts: Texts) -> Values:
    """Return an index by the result of a function, without objects with an empty result."""

    def values(obj: Obj) -> Sequence[str]:
        said = texts(obj)
        if isinstance(said, str):
            return (said,) if said else ()
        return said

    return values
