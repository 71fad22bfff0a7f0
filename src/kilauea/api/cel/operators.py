"""Operators of CEL, with the errors of its reference implementation."""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from datetime import datetime, timedelta
from math import copysign, inf, isnan, nan
from typing import Any

from kilauea.api.cel.values import INT_MAX, INT_MIN, NONE, UINT_MAX, CelError, Optional, UInt, is_number

_MISSING = object()


def ranged(value: int, kind: type) -> int:
    """Return an integer within the range of its type; raises CelError if it is outside."""
    if kind is UInt:
        if not 0 <= value <= UINT_MAX:
            raise CelError("unsigned integer overflow")
        return UInt(value)
    if not INT_MIN <= value <= INT_MAX:
        raise CelError("integer overflow")
    return value


def add(left: Any, right: Any) -> Any:
    """Return the sum, or the concatenation of strings or lists."""
    kind, other = left.__class__, right.__class__
    if kind is other:
        if kind is int or kind is UInt:
            return ranged(int(left) + int(right), kind)
        if kind in (str, float, list, bytes, timedelta):
            return left + right
    if {kind, other} == {datetime, timedelta}:
        return left + right
    raise CelError("no such overload")


def _subtract(left: Any, right: Any) -> Any:
    kind, other = left.__class__, right.__class__
    if kind is other and (kind is int or kind is UInt):
        return ranged(int(left) - int(right), kind)
    if (kind is other and kind in (float, timedelta, datetime)) or (kind is datetime and other is timedelta):
        return left - right
    raise CelError("no such overload")


def _multiply(left: Any, right: Any) -> Any:
    kind = left.__class__
    if kind is not right.__class__ or not is_number(left):
        raise CelError("no such overload")
    return left * right if kind is float else ranged(int(left) * int(right), kind)


def _divide(left: Any, right: Any) -> Any:
    kind = left.__class__
    if kind is not right.__class__ or not is_number(left):
        raise CelError("no such overload")
    if kind is float:
        return _divided(left, right)
    if not right:
        raise CelError("division by zero")
    whole = abs(int(left)) // abs(int(right))
    return ranged(whole if (left < 0) == (right < 0) else -whole, kind)


def _divided(left: float, right: float) -> float:
    """Return a quotient as in IEEE 754."""
    if right:
        return left / right
    return copysign(inf, left) * copysign(1.0, right) if left and not isnan(left) else nan


def _modulus(left: Any, right: Any) -> Any:
    kind = left.__class__
    if kind is not right.__class__ or kind not in (int, UInt):
        raise CelError("no such overload")
    if not right:
        raise CelError("modulus by zero")
    rest = abs(int(left)) % abs(int(right))
    return ranged(-rest if left < 0 else rest, kind)


def _negative(value: Any) -> Any:
    if value.__class__ is float:
        return -value
    if value.__class__ is int:
        return ranged(-value, int)
    raise CelError("no such overload")


def _not(value: Any) -> bool:
    if value.__class__ is not bool:
        raise CelError("no such overload")
    return not value


_ORDERED = frozenset({str, bytes, bool, datetime, timedelta})


def _ordered(compare: Callable[[Any, Any], bool]) -> Callable[[Any, Any], bool]:
    def run(left: Any, right: Any) -> bool:
        if (left.__class__ is right.__class__ and left.__class__ in _ORDERED) or (is_number(left) and is_number(right)):
            return compare(left, right)
        raise CelError("no such overload")

    return run


OPERATORS: Mapping[str, Callable[..., Any]] = {
    "!_": _not,
    "-_": _negative,
    "==": operator.eq,
    "!=": operator.ne,
    "in": operator.contains,
    "<": _ordered(operator.lt),
    "<=": _ordered(operator.le),
    ">": _ordered(operator.gt),
    ">=": _ordered(operator.ge),
    "+": add,
    "-": _subtract,
    "*": _multiply,
    "/": _divide,
    "%": _modulus,
}
"""Operators by symbol; the program evaluates equality and `in`, with their cost."""


def select_of(target: Any, field: str, *, optional: bool) -> Any:
    """Return a field of a map; an optional for an optional."""
    if target.__class__ is dict:
        value = target.get(field, _MISSING)
        if not optional:
            if value is _MISSING:
                raise CelError(f"no such key: {field}")
            return value
        return NONE if value is _MISSING else Optional(value, True)
    if target.__class__ is Optional:
        return select_of(target.value, field, optional=True) if target.present else NONE
    if optional and target is None:
        return NONE
    raise CelError("no such overload" if target.__class__ is list else f"no such key: {field}")


def index_of(target: Any, key: Any, *, optional: bool) -> Any:
    """Return an element of a list or a map; an optional for an optional."""
    if target.__class__ is Optional:
        return index_of(target.value, key, optional=True) if target.present else NONE
    if key.__class__ is float and key.is_integer():
        key = int(key)
    if target.__class__ is dict:
        value = target.get(key, _MISSING) if key.__class__ is not list and key.__class__ is not dict else _MISSING
        if value is not _MISSING:
            return Optional(value, True) if optional else value
        if optional:
            return NONE
        raise CelError(f"no such key: {key}")
    if target.__class__ is list and key.__class__ in (int, UInt):
        if 0 <= key < len(target):
            return Optional(target[key], True) if optional else target[key]
        if optional:
            return NONE
        raise CelError(f"index out of bounds: {key}")
    raise CelError("no such overload")
