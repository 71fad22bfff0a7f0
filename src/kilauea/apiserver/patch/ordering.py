"""The order of items after a strategic merge.

The items that the patch names stand in its order, the others in the order that they had. The two rows are woven
together so that neither changes: an item that the patch does not name goes before the first that it stood before.
"""

from __future__ import annotations

from typing import Any

from kilauea.apiserver.patch.values import ABSENT, go_text, go_type, same
from kilauea.apiserver.status import ApiFault


def position(items: list[Any], item: Any, key: str) -> int:
    """Index of the item of the same merge key (of the same value, without a key), or -1."""
    wanted = item.get(key, ABSENT) if key else item
    for at, each in enumerate(items):
        if wanted is not ABSENT and same(each.get(key, ABSENT) if key else each, wanted):
            return at
    return -1


def in_patch_order(items: list[Any], order: list[Any], before: list[Any], key: str) -> list[Any]:
    """Merged items in their final order.

    Args:
        items: the merged items.
        order: items, or their keys alone, in the order that the patch wants.
        before: the items as they stood.
        key: the merge key; empty for plain values.
    """
    _check_keys(key, items, order)
    places = [position(order, each, key) for each in items]
    named = [items[at] for at in sorted((at for at, place in enumerate(places) if place >= 0), key=places.__getitem__)]
    others = [each for each, place in zip(items, places, strict=True) if place < 0]
    return _woven(others, named, before, key)


def _woven(others: list[Any], named: list[Any], before: list[Any], key: str) -> list[Any]:
    """Two rows as one; `others` go before the first of `named` that they stood before."""
    woven: list[Any] = []
    waiting = list(reversed(others))
    for item in named:
        place = position(before, item, key)
        while waiting and place >= 0 and 0 <= position(before, waiting[-1], key) < place:
            woven.append(waiting.pop())
        woven.append(item)
    return woven + waiting[::-1]


def check_order(items: list[Any], order: list[Any], key: str) -> None:
    """The items of a patch must stand in the order that the patch itself sets."""
    wanted = [each for each in items if not (isinstance(each, dict) and "$patch" in each)]
    if not order:
        return
    _check_keys(key, wanted, order)
    places = [position(order, each, key) for each in wanted]
    if -1 in places or places != sorted(places):
        raise ApiFault(
            500,
            "",
            f"The order in patch list:\n{go_text(items)}\n doesn't match $setElementOrder list:\n{go_text(order)}\n",
        )


def _check_keys(key: str, *lists: list[Any]) -> None:
    """Items of a list with a merge key must be objects that have it."""
    for item in (item for items in lists for item in items) if key else ():
        if not isinstance(item, dict):
            raise ApiFault(500, "", f"expected a map[string]interface {{}}, but received a {go_type(item)}")
        if key not in item:
            raise ApiFault(500, "", f"map: {go_text(item)} does not contain declared merge key: {key}")
