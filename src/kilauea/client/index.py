"""Keys of objects by a value in the objects, such as their owners or a label."""

from __future__ import annotations

import logging
from bisect import bisect_left, insort
from collections.abc import Callable, Sequence

from kilauea.api.ports import Key, Obj, Texts

log = logging.getLogger(__name__)

FEW = 16
"""Values of an object that are compared one by one."""
Values = Callable[[Obj], Sequence[str]]
"""The values of an object."""


class Index:
    """Keys by value, each list in order."""

    def __init__(self, values: Values) -> None:
        self._values = values
        self._keys: dict[str, list[Key]] = {}
        self._failed = False

    def find(self, value: str) -> Sequence[Key]:
        """Keys of the objects that say this."""
        return self._keys.get(value, ())

    def move(self, key: Key, old: Obj | None, new: Obj | None, kept: Callable[[Key], Key] = lambda key: key) -> None:
        """Bring the index from an object's old state to its new one; None if there is no object.

        Args:
            key: of the object.
            old: as it was.
            new: as it is.
            kept: returns the key to keep in place of an equal one, if there is an object.
        """
        try:
            before = () if old is None else self._values(old)
            after = () if new is None else self._values(new)
        except Exception:
            before, after = self._values_of(old), self._values_of(new)
        if before == after:
            return
        # Most have one value. Clients can give objects thousands, of which each would be compared with each.
        had, has = (before, after) if len(before) + len(after) <= FEW else (frozenset(before), frozenset(after))
        for value in before:
            if value not in has:
                self._drop(value, key)
        for value in after:
            if value not in had:
                insort(self._keys.setdefault(value, []), kept(key))

    def _values_of(self, obj: Obj | None) -> Sequence[str]:
        """Values of an object; an object for which they cannot be computed is not in the index."""
        if obj is None:
            return ()
        try:
            return self._values(obj)
        except Exception:
            level = logging.DEBUG if self._failed else logging.ERROR  # told once: it may be so for every object
            self._failed = True
            log.log(level, "an index cannot read %s", obj["metadata"].get("name"), exc_info=True)
            return ()

    def _drop(self, value: str, key: Key) -> None:
        keys = self._keys[value]
        remove(keys, key)
        if not keys:
            del self._keys[value]


def remove(keys: list[Key], key: Key) -> None:
    """Take a key out of a list in order."""
    del keys[bisect_left(keys, key)]


def owners(obj: Obj) -> Sequence[str]:
    """Uids of an object's owners, each once."""
    references = obj["metadata"].get("ownerReferences")
    return tuple(dict.fromkeys(reference["uid"] for reference in references)) if references else ()


def by_label(label: str) -> Values:
    """The value of a label, if the object has it."""

    def values(obj: Obj) -> Sequence[str]:
        labels = obj["metadata"].get("labels")
        return (labels[label],) if labels and label in labels else ()

    return values


def by_text(texts: Texts) -> Values:
    """Make an index by the result of a function, which leaves out objects with an empty result."""

    def values(obj: Obj) -> Sequence[str]:
        said = texts(obj)
        if isinstance(said, str):
            return (said,) if said else ()
        return said

    return values
