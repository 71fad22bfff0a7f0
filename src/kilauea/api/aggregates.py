"""Aggregates of the objects of a kind that views keep up to date: `Interest.aggregates`."""

from __future__ import annotations

import logging
from collections.abc import Callable

from kilauea.api.ports import Aggregate, Aggregation, Key, Obj

log = logging.getLogger(__name__)


class Aggregates:
    """The aggregates of one name, by value."""

    def __init__(self, aggregation: Aggregation) -> None:
        self._by, self._new = aggregation
        self._found: dict[str, Aggregate] = {}
        self._failed = False

    def find(self, value: str) -> Aggregate | None:
        """Return the aggregate of the objects with a value."""
        return self._found.get(value)

    def move(self, key: Key, old: Obj | None, new: Obj | None, kept: Callable[[Key], Key] = lambda key: key) -> None:
        """Update the aggregates for a change of an object; None if it does not exist.

        Args:
            key: the key of the object.
            old: the old object.
            new: the new object.
            kept: returns the key to store in place of an equal one, if the object exists.
        """
        before, after = self._value_of(old), self._value_of(new)
        if before and before != after:
            self._drop(before, key)
        if not after or new is None:
            return
        found = self._found.get(after)
        if found is None:
            found = self._found[after] = self._new()
        try:
            found.put(key if before == after else kept(key), new)
        except Exception:
            self._tell(new)
            self._drop(after, key)

    def _drop(self, value: str, key: Key) -> None:
        found = self._found.get(value)
        if found is not None:
            found.drop(key)
            if not len(found):
                del self._found[value]

    def _value_of(self, obj: Obj | None) -> str:
        """Return the value of an object; empty if it cannot be computed, so that the object is in no aggregate."""
        if obj is None:
            return ""
        try:
            return self._by(obj)
        except Exception:
            self._tell(obj)
            return ""

    def _tell(self, obj: Obj) -> None:
        level = logging.DEBUG if self._failed else logging.ERROR  # log once, as every object may fail
        self._failed = True
        log.log(level, "an aggregate cannot read %s", obj["metadata"].get("name"), exc_info=True)
