"""Values of CEL: the types that Python lacks, equality, and the errors of the language.

Other values are Python's: `None`, `bool`, `int`, `float`, `str`, `bytes`, `list`, `dict`, `datetime` for a timestamp
and `timedelta` for a duration.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

INT_MIN, INT_MAX, UINT_MAX = -(2**63), 2**63 - 1, 2**64 - 1


class CelError(ValueError):
    """An expression cannot be compiled or evaluated; the message has the reason."""

    cost = 0
    """The cost of the program up to the failure."""


class CelCostError(CelError):
    """An expression exceeds its cost limit."""


class UInt(int):
    """An unsigned integer."""


@dataclass(frozen=True)
class CelType:
    """A type as a value: `type(1) == int`."""

    name: str


@dataclass(frozen=True, eq=False)
class Optional:
    """A value that may be missing."""

    value: Any = None
    present: bool = False


NONE = Optional()
_TYPES: dict[type, str] = {
    bool: "bool", int: "int", UInt: "uint", float: "double", str: "string", bytes: "bytes", list: "list", dict: "map",
    type(None): "null_type", datetime: "google.protobuf.Timestamp", timedelta: "google.protobuf.Duration",
    CelType: "type", Optional: "optional_type",
}  # fmt: skip
NAMED_TYPES = {
    name: CelType(name)
    for name in ("bool", "int", "uint", "double", "string", "bytes", "list", "map", "null_type", "type")
}
"""Types that expressions can name."""
_NUMBERS = frozenset({int, UInt, float})


def type_of(value: Any) -> str:
    """Return the name of the type of a value."""
    return _TYPES.get(value.__class__) or str(getattr(value, "cel_type", value.__class__.__name__))


def is_number(value: Any) -> bool:
    """Return True if a value is a number; a bool is not."""
    return value.__class__ in _NUMBERS


def equal(left: Any, right: Any) -> bool:
    """Return True if two values are equal; values of different types are not, but numbers compare across types."""
    kind, other = left.__class__, right.__class__
    if kind is not other:
        return kind in _NUMBERS and other in _NUMBERS and bool(left == right)
    if kind is list:
        return len(left) == len(right) and all(map(equal, left, right))
    if kind is dict:
        return len(left) == len(right) and all(key in right and equal(value, right[key]) for key, value in left.items())
    if kind is Optional:
        return bool(left.present == right.present) and equal(left.value, right.value)
    return bool(left == right)


def check_type(kind: type, *values: Any) -> None:
    """Check that values have a type.

    Raises:
        CelError: one has another.
    """
    for value in values:
        if value.__class__ is not kind:
            raise CelError("no such overload")


def size_of(value: Any) -> int:
    """Return the size of a value, for the cost of traversing it; 1 if it has none."""
    return len(value) if value.__class__ in (str, bytes, list, dict) else 1
