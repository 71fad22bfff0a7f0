"""The order of items after a strategic merge.

Items in the patch keep its order, other items their old order. The two sequences are merged so that neither changes: an
item that is not in the patch is placed before the first patch item that it preceded.
"""

from __future__ import annotations

from typing import Any

import msgspec

from kilauea.apiserver.patch.values import ABSENT, go_text, go_type
from kilauea.apiserver.status import ApiFault


class Places:
    """The indexes of the items of a list, by merge key (or by value, without a key): the first of equal ones counts.

    A list is searched once for each item of a patch, and both may have a hundred thousand; so the indexes are cached.
    """

    def __init__(self, items: list[Any], key: str) -> None:
        self._key = key
        self._places: dict[Any, int] = {}
        self._count = len(items)
        for place, item in enumerate(items):
            self._places.setdefault(self._identity(item), place)

    def add(self, item: Any) -> None:
        """Add the next item of the list."""
        self._places.setdefault(self._identity(item), self._count)
        self._count += 1

    def of(self, item: Any) -> int:
        """Return the index of the item with the same merge key, or -1."""
        wanted = self._identity(item)
        return -1 if wanted is ABSENT else self._places.get(wanted, -1)

    def _identity(self, item: Any) -> Any:
        value = item.get(self._key, ABSENT) if self._key else item
        return value if value is ABSENT else identity(value)


def identity(value: Any) -> Any:
    """Return a hashable key that is the same only for equal JSON values."""
    if value.__class__ is str:
        return value
    if isinstance(value, dict | list):
        return msgspec.json.encode(value, order="sorted")
    return isinstance(value, bool), value


def in_patch_order(items: list[Any], order: list[Any], before: list[Any], key: str) -> list[Any]:
    """Return merged items in their final order.

    Args:
        items: the merged items.
        order: items, or only their keys, in the order of the patch.
        before: the items in their old order.
        key: the merge key; empty for plain values.
    """
    _check_keys(key, items, order)
    wanted = Places(order, key)
    places = [wanted.of(each) for each in items]
    named = [items[at] for at in sorted((at for at, place in enumerate(places) if place >= 0), key=places.__getitem__)]
    others = [each for each, place in zip(items, places, strict=True) if place < 0]
    if not others:
        return named
    return _woven(others, named, before, key)


def _woven(others: list[Any], named: list[Any], before: list[Any], key: str) -> list[Any]:
    """Merge two sequences; each of `others` is placed before the first of `named` that it preceded."""
    woven: list[Any] = []
    waiting, stood = list(reversed(others)), Places(before, key)
    for item in named:
        place = stood.of(item)
        while waiting and place >= 0 and 0 <= stood.of(waiting[-1]) < place:
            woven.append(waiting.pop())
        woven.append(item)
    return woven + waiting[::-1]


def check_order(items: list[Any], order: list[Any], key: str) -> None:
    """Check that the items of a patch have the order that the patch itself sets."""
    wanted = [each for each in items if not (isinstance(each, dict) and "$patch" in each)]
    if not order:
        return
    _check_keys(key, wanted, order)
    ordered = Places(order, key)
    places = [ordered.of(each) for each in wanted]
    if -1 in places or places != sorted(places):
        raise ApiFault(
            500,
            "",
            f"The order in patch list:\n{go_text(items)}\n doesn't match $setElementOrder list:\n{go_text(order)}\n",
        )


def _check_keys(key: str, *lists: list[Any]) -> None:
    """Check that the items of a list with a merge key are objects that have it."""
    for item in (item for items in lists for item in items) if key else ():
        if not isinstance(item, dict):
            raise ApiFault(500, "", f"expected a map[string]interface {{}}, but received a {go_type(item)}")
        if key not in item:
            raise ApiFault(500, "", f"map: {go_text(item)} does not contain declared merge key: {key}")
