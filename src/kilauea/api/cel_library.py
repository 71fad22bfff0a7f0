"""The functions that Kubernetes adds to CEL, of text, lists, regular expressions and quantities.

A quantity is held as a whole number of thousandths, so that comparing and adding are those of numbers.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import pairwise
from typing import Any

from kilauea.api.patterns import find_all, pattern_of
from kilauea.api.quantity import QuantityError, parse_milli

_MILLI = 1000


def _is_quantity(text: str) -> bool:
    try:
        parse_milli(text)
    except QuantityError:
        return False
    return True


def _compare(left: Any, right: Any) -> int:
    return int(left > right) - int(left < right)


def _is_sorted(values: list[Any]) -> bool:
    return all(left <= right for left, right in pairwise(values))


def _index(values: Any, wanted: Any, start: int = 0) -> int:
    if isinstance(values, str):
        return values.find(wanted, start)
    return values.index(wanted) if wanted in values else -1


def _last_index(values: Any, wanted: Any) -> int:
    if isinstance(values, str):
        return values.rfind(wanted)
    return len(values) - 1 - values[::-1].index(wanted) if wanted in values else -1


def _find_all(text: str, pattern: str, limit: int = -1) -> list[str]:
    found = find_all(pattern, text)
    return found if limit < 0 else found[:limit]


def _find(text: str, pattern: str) -> str:
    found = pattern_of(pattern).search(text)
    return found[0] if found else ""


def _split(text: str, separator: str, limit: int = -1) -> list[str]:
    if not separator:
        return list(text)
    return text.split(separator, limit - 1 if limit > 0 else -1)


def _substring(text: str, start: int, end: int | None = None) -> str:
    if not 0 <= start <= len(text) or (end is not None and not start <= end <= len(text)):
        raise ValueError(f"index out of range: {start}")
    return text[start:end]


FUNCTIONS: Mapping[str, Callable[..., Any]] = {
    "add": lambda left, right: left + right,
    "asApproximateFloat": lambda quantity: quantity / _MILLI,
    "asInteger": lambda quantity: quantity // _MILLI,
    "charAt": lambda text, index: text[index : index + 1],
    "compareTo": _compare,
    "find": _find,
    "findAll": _find_all,
    "indexOf": _index,
    "isGreaterThan": lambda left, right: left > right,
    "isInteger": lambda quantity: quantity % _MILLI == 0,
    "isLessThan": lambda left, right: left < right,
    "isQuantity": _is_quantity,
    "isSorted": _is_sorted,
    "join": lambda values, separator="": separator.join(values),
    "lastIndexOf": _last_index,
    "lowerAscii": str.lower,
    "max": max,
    "min": min,
    "quantity": parse_milli,
    "replace": lambda text, old, new, limit=-1: text.replace(old, new, limit),
    "sign": lambda quantity: _compare(quantity, 0),
    "split": _split,
    "sub": lambda left, right: left - right,
    "substring": _substring,
    "sum": sum,
    "trim": str.strip,
    "upperAscii": str.upper,
}
"""By name; the first argument is what the function is called on."""
