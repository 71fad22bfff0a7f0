"""A bounded queue of objects to write, in which important ones come first.

Other items have little room, and are rejected if it is full. Important ones have much. Once some wait, only the newest
of each subject is kept, so that the backlog of a rush grows with the number of subjects and not with time.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable
from typing import Generic, TypeVar

_Subject = TypeVar("_Subject", bound=Hashable)
_Item = TypeVar("_Item")


class Backlog(Generic[_Subject, _Item]):
    """Items by subject and text, in order.

    Args:
        important: the maximum number of important items.
        rest: the maximum number of others; from this many important ones, only the newest of each subject is kept.
    """

    def __init__(self, important: int, rest: int) -> None:
        self._most = important, rest
        self._important: OrderedDict[tuple[_Subject, str], _Item] = OrderedDict()
        self._rest: OrderedDict[tuple[_Subject, str], _Item] = OrderedDict()
        self._newest: dict[_Subject, str] = {}
        """The text of the last item of each subject with waiting important items."""
        self.lost = 0
        """Number of items that were rejected or replaced by newer ones."""

    def __len__(self) -> int:
        return len(self._important) + len(self._rest)

    def __contains__(self, name: tuple[_Subject, str]) -> bool:
        return name in self._important or name in self._rest

    @property
    def important(self) -> int:
        """The number of important items."""
        return len(self._important)

    def put(self, subject: _Subject, text: str, item: _Item, *, important: bool) -> bool:
        """Add an item, replacing the one under its subject and text; return False if the queue is full."""
        name = subject, text
        if not important:
            if len(self._rest) >= self._most[1] and name not in self._rest:
                self.lost += 1
                return False
            self._rest[name] = item
            return True
        if name not in self._important and len(self._important) >= self._most[1]:
            older = self._important.pop((subject, self._newest.get(subject, "")), None)
            full = len(self._important) >= self._most[0]
            self.lost += full or older is not None
            if full:
                return False
        self._important[name] = item
        self._newest[subject] = text
        return True

    def take(self) -> _Item:
        """Remove and return the next item.

        Raises:
            KeyError: the queue is empty.
        """
        if not self._important:
            return self._rest.popitem(last=False)[1]
        (subject, text), item = self._important.popitem(last=False)
        if self._newest.get(subject) == text:
            del self._newest[subject]
        return item
