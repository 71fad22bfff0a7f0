"""Functions of CEL, including those of Kubernetes, with their costs.

They raise CelError or ValueError with specific messages; TypeError, AttributeError and the like become "no such
overload".
"""

from __future__ import annotations

import base64
import math
from collections.abc import Callable, Mapping
from datetime import datetime, timedelta
from functools import reduce
from itertools import pairwise
from typing import Any

from kilauea.api.cel import authorization, network, texts, times
from kilauea.api.cel.operators import OPERATORS, add, ranged
from kilauea.api.cel.quantities import Quantity, is_quantity, quantity
from kilauea.api.cel.semver import Semver, is_semver, semver
from kilauea.api.cel.values import (
    NONE,
    CelCostError,
    CelError,
    CelType,
    Optional,
    UInt,
    check_type,
    equal,
    is_number,
    size_of,
    type_of,
)  # fmt: skip

_LESS, _GREATER = OPERATORS["<"], OPERATORS[">"]


def weight(most: int, *values: Any) -> int:
    """Return the number of nested values; raises CelCostError as soon as it exceeds `most`."""
    count, stack = 0, list(values)
    while stack:
        value = stack.pop()
        kind = value.__class__
        if kind is list or kind is dict:
            count += 1 + len(value)
            stack.extend(value if kind is list else value.values())
        else:
            count += 1 + len(value) // 10 if kind is str or kind is bytes else 1
        if count > most:
            raise CelCostError("operation cancelled: actual cost limit exceeded")
    return count


# --- conversions


def _int(value: Any) -> int:
    kind = value.__class__
    if kind is int:
        return int(value)
    if kind is datetime:
        return int(value.timestamp())
    if kind is timedelta:
        return int(value.total_seconds())
    if kind is str:
        return ranged(_digits(value), int)
    if kind is float and math.isfinite(value) and -(2.0**63) < value < 2.0**63:
        return int(value)
    if kind is UInt:
        return ranged(int(value), int)
    raise CelError("integer overflow" if kind is float else "no such overload")


def _uint(value: Any) -> UInt:
    kind = value.__class__
    if kind is str:
        value = _digits(value)
    elif kind not in (int, UInt, float):
        raise CelError("no such overload")
    if kind is float and not (math.isfinite(value) and 0 <= value < 2.0**64):
        raise CelError("unsigned integer overflow")
    return UInt(ranged(int(value), UInt))


def _digits(text: str) -> int:
    if len(text) > 64 or not text.lstrip("+-").isdecimal() or not text.isascii():
        raise CelError(f'strconv.ParseInt: parsing "{text}": invalid syntax')
    return int(text)


def _double(value: Any) -> float:
    if value.__class__ is str:
        try:
            return float(value)
        except ValueError:
            raise CelError(f'strconv.ParseFloat: parsing "{value}": invalid syntax') from None
    if not is_number(value):
        raise CelError("no such overload")
    return float(value)


def _bool(value: Any) -> bool:
    if value.__class__ is bool:
        return bool(value)
    check_type(str, value)
    if value in ("1", "t", "T", "true", "TRUE", "True"):
        return True
    if value in ("0", "f", "F", "false", "FALSE", "False"):
        return False
    raise CelError(f'strconv.ParseBool: parsing "{value}": invalid syntax')


def _bytes(value: Any) -> bytes:
    if value.__class__ is bytes:
        return bytes(value)
    check_type(str, value)
    return str(value).encode()


def _size(value: Any) -> int:
    if value.__class__ not in (str, bytes, list, dict):
        raise CelError("no such overload")
    return len(value)


# --- lists


def _is_sorted(values: list[Any]) -> bool:
    check_type(list, values)
    return not any(_GREATER(left, right) for left, right in pairwise(values))


def _sum(values: list[Any]) -> Any:
    check_type(list, values)
    if not all(is_number(value) or value.__class__ is timedelta for value in values):
        raise CelError("no such overload")
    return reduce(add, values) if values else 0


def _least(values: list[Any]) -> Any:
    check_type(list, values)
    return _best(values, _LESS, "min")


def _greatest(values: list[Any]) -> Any:
    check_type(list, values)
    return _best(values, _GREATER, "max")


def _best(values: list[Any], better: Callable[[Any, Any], bool], name: str) -> Any:
    if not values:
        raise CelError(f"{name} called on empty list")
    best = values[0]
    for value in values[1:]:
        if better(value, best):
            best = value
    return best


def _of_numbers(better: Callable[[Any, Any], bool], name: str) -> Callable[..., Any]:
    def run(*values: Any) -> Any:
        numbers = values[0] if len(values) == 1 and values[0].__class__ is list else list(values)
        if not all(map(is_number, numbers)):
            raise CelError("no such overload")
        return _best(numbers, better, name)

    return run


def _index_of(values: Any, wanted: Any, start: int = 0) -> int:
    if values.__class__ is str:
        return texts.index_of(values, wanted, start)
    check_type(list, values)
    return next((number for number, value in enumerate(values) if equal(value, wanted)), -1)


def _last_index_of(values: Any, wanted: Any, start: int | None = None) -> int:
    if values.__class__ is str:
        return texts.last_index_of(values, wanted, start)
    check_type(list, values)
    return next((number for number in range(len(values) - 1, -1, -1) if equal(values[number], wanted)), -1)


def _distinct(values: list[Any]) -> list[Any]:
    check_type(list, values)
    return [value for at, value in enumerate(values) if not any(equal(value, each) for each in values[:at])]


def _flatten(values: list[Any], depth: int = 1) -> list[Any]:
    check_type(list, values)
    if depth < 0:
        raise CelError("level must be non-negative")
    made: list[Any] = []
    for value in values:
        made.extend(_flatten(value, depth - 1) if value.__class__ is list and depth else [value])
    return made


def _slice(values: list[Any], start: int, end: int) -> list[Any]:
    check_type(list, values)
    if not 0 <= start <= end <= len(values):
        raise CelError(f"cannot slice({start}, {end}), list is length {len(values)}")
    return values[start:end]


def _reverse(values: Any) -> Any:
    if values.__class__ not in (str, list):
        raise CelError("no such overload")
    return values[::-1]


def _sorted(values: list[Any]) -> list[Any]:
    check_type(list, values)
    if values and (len({value.__class__ for value in values}) > 1 or values[0].__class__ in (list, dict)):
        raise CelError("no such overload")
    return sorted(values)


def _first(values: list[Any]) -> Optional:
    check_type(list, values)
    return Optional(values[0], True) if values else NONE


def _last(values: list[Any]) -> Optional:
    check_type(list, values)
    return Optional(values[-1], True) if values else NONE


def _contains_all(values: list[Any], wanted: list[Any]) -> bool:
    check_type(list, values, wanted)
    return all(any(equal(value, each) for value in values) for each in wanted)


def _intersects(values: list[Any], others: list[Any]) -> bool:
    check_type(list, values, others)
    return any(equal(value, each) for value in values for each in others)


def _equivalent(values: list[Any], others: list[Any]) -> bool:
    return _contains_all(values, others) and _contains_all(others, values)


# --- optionals


def _optional_value(found: Optional) -> Any:
    check_type(Optional, found)
    if not found.present:
        raise CelError("optional.none() dereference")
    return found.value


def _has_value(found: Optional) -> bool:
    check_type(Optional, found)
    return found.present


def _of_non_zero(value: Any) -> Optional:
    empty = value is None or (value.__class__ is Optional and not value.present)
    return (
        NONE
        if empty or (value.__class__ in (str, bytes, list, dict, int, float, UInt, bool) and not value)
        else Optional(value, True)
    )


def _unwrapped(values: list[Any]) -> list[Any]:
    check_type(list, values)
    return [value.value for value in values if value.present]


# --- numbers


def _rounded(value: float) -> float:
    check_type(float, value)
    return math.copysign(math.floor(abs(value) + 0.5), value) if math.isfinite(value) else value


def _whole(function: Callable[[float], int]) -> Callable[[Any], float]:
    def run(value: Any) -> float:
        check_type(float, value)
        return float(function(value)) if math.isfinite(value) else float(value)

    return run


def _absolute(value: Any) -> Any:
    if not is_number(value):
        raise CelError("no such overload")
    return ranged(abs(value), value.__class__) if value.__class__ is int else abs(value)


def _math_sign(value: Any) -> Any:
    if not is_number(value):
        raise CelError("no such overload")
    return value.__class__((value > 0) - (value < 0))


def _bits(function: Callable[[int, int], int]) -> Callable[[Any, Any], int]:
    def run(left: Any, right: Any) -> int:
        if left.__class__ is not right.__class__ or left.__class__ not in (int, UInt):
            raise CelError("no such overload")
        return left.__class__(function(int(left), int(right)))  # type: ignore[no-any-return]  # int or UInt

    return run


def _shifted(value: Any, by: Any, *, left: bool) -> Any:
    check_type(int, by)
    if value.__class__ not in (int, UInt):
        raise CelError("no such overload")
    if by < 0:
        raise CelError(f"math.bitShift{'Left' if left else 'Right'}() negative offset: {by}")
    bits = int(value) & (2**64 - 1)
    bits = 0 if by > 63 else (bits << by if left else bits >> by) & (2**64 - 1)
    return UInt(bits) if value.__class__ is UInt else bits - 2**64 if bits >= 2**63 else bits


def _compared(left: Any, right: Any) -> int:
    if left.__class__ is not right.__class__ or left.__class__ not in (Quantity, Semver):
        raise CelError("no such overload")
    return int(left > right) - int(left < right)


def _decoded(text: str) -> bytes:
    check_type(str, text)
    return base64.b64decode(text + "=" * (-len(text) % 4 if "=" not in text else 0), validate=True)


def _encoded(value: bytes) -> str:
    check_type(bytes, value)
    return base64.b64encode(value).decode()


GLOBALS: Mapping[str, Callable[..., Any]] = {
    "bool": _bool,
    "bytes": _bytes,
    "cidr": network.cidr,
    "double": _double,
    "duration": times.duration,
    "dyn": lambda value: value,
    "int": _int,
    "ip": network.ip,
    "isCIDR": network.is_cidr,
    "isIP": network.is_ip,
    "isQuantity": is_quantity,
    "isSemver": is_semver,
    "isURL": network.is_url,
    "matches": texts.matches,
    "quantity": quantity,
    "semver": semver,
    "size": _size,
    "string": texts.string,
    "timestamp": times.timestamp,
    "type": lambda value: CelType(type_of(value)),
    "uint": _uint,
    "url": network.url,
}
"""Global functions."""

NAMESPACES: Mapping[str, Callable[..., Any]] = {
    "base64.decode": _decoded,
    "base64.encode": _encoded,
    "ip.isCanonical": network.is_canonical,
    "lists.range": lambda size: list(range(size)),
    "math.abs": _absolute,
    "math.bitAnd": _bits(lambda left, right: left & right),
    "math.bitNot": lambda value: UInt(~int(value) & (2**64 - 1)) if value.__class__ is UInt else ~value,
    "math.bitOr": _bits(lambda left, right: left | right),
    "math.bitShiftLeft": lambda value, by: _shifted(value, by, left=True),
    "math.bitShiftRight": lambda value, by: _shifted(value, by, left=False),
    "math.bitXor": _bits(lambda left, right: left ^ right),
    "math.ceil": _whole(math.ceil),
    "math.floor": _whole(math.floor),
    "math.greatest": _of_numbers(_GREATER, "math.greatest"),
    "math.isFinite": math.isfinite,
    "math.isInf": math.isinf,
    "math.isNaN": math.isnan,
    "math.least": _of_numbers(_LESS, "math.least"),
    "math.round": _rounded,
    "math.sign": _math_sign,
    "math.sqrt": lambda value: math.sqrt(value) if value >= 0 else math.nan,
    "math.trunc": _whole(math.trunc),
    "optional.none": lambda: NONE,
    "optional.of": lambda value: Optional(value, True),
    "optional.ofNonZeroValue": _of_non_zero,
    "optional.unwrap": _unwrapped,
    "sets.contains": _contains_all,
    "sets.equivalent": _equivalent,
    "sets.intersects": _intersects,
    "strings.quote": texts.quoted,
    **{f"format.{name}": function for name, function in texts.FORMATS.items()},
}
"""Functions with a dotted name."""

METHODS: Mapping[str, Callable[..., Any]] = {
    **authorization.METHODS,
    **times.METHODS,
    **texts.METHODS,
    **network.METHODS,
    "add": lambda left, right: left.plus(right),
    "asApproximateFloat": lambda value: value.as_float(),
    "asInteger": lambda value: value.as_integer(),
    "compareTo": _compared,
    "distinct": _distinct,
    "first": _first,
    "flatten": _flatten,
    "hasValue": _has_value,
    "indexOf": _index_of,
    "isGreaterThan": lambda left, right: _compared(left, right) > 0,
    "isInteger": lambda value: value.is_integer(),
    "isLessThan": lambda left, right: _compared(left, right) < 0,
    "isSorted": _is_sorted,
    "last": _last,
    "lastIndexOf": _last_index_of,
    "major": lambda version: version.major,
    "max": _greatest,
    "min": _least,
    "minor": lambda version: version.minor,
    "patch": lambda version: version.patch,
    "reverse": _reverse,
    "sign": lambda value: value.sign(),
    "size": _size,
    "slice": _slice,
    "sort": _sorted,
    "sub": lambda left, right: left.minus(right),
    "sum": _sum,
    "unwrapOpt": _unwrapped,
    "value": _optional_value,
}
"""Methods of values; the first argument is the target."""


def _product(most: int, left: Any, right: Any) -> int:
    return weight(most, left) * (1 + weight(most, right))


def _made_by_replace(_: int, text: str, old: str, new: str, limit: int = -1) -> int:
    count = text.count(old) if limit < 0 else min(limit, text.count(old))
    return (2 * len(text) + count * len(new)) // 10


def _of_search(_: int, text: str, pattern: str, limit: int = -1) -> int:
    return (len(text) // 10 + 1) * (len(pattern) // 4 + 1)


def _joined(most: int, values: list[str], separator: str = "") -> int:
    return weight(most, values) + len(values) * len(separator) // 10


_ONE: Callable[..., int] = lambda *_: 1  # noqa: E731  # a constant cost
COSTS: Mapping[str, Callable[..., int]] = {
    "check": lambda *_: authorization.COST_OF_CHECK,
    "contains": lambda _, text, part: size_of(text) * (1 + size_of(part) // 100) // 10,
    "distinct": lambda most, values: len(values) * weight(most, values),
    "dyn": _ONE,
    "find": _of_search,
    "findAll": _of_search,
    "flatten": lambda most, values, *_: weight(most, values),
    "format": lambda most, text, values: len(text) + 10 * weight(most, values),
    "indexOf": lambda most, values, wanted, *_: weight(most, values) * (1 + size_of(wanted) // 100),
    "lastIndexOf": lambda most, values, wanted, *_: weight(most, values) * (1 + size_of(wanted) // 100),
    "join": _joined,
    "lists.range": lambda _, size: max(size, 0),
    "matches": _of_search,
    "optional.none": _ONE,
    "optional.of": _ONE,
    "replace": _made_by_replace,
    "sets.contains": _product,
    "sets.equivalent": lambda most, left, right: 2 * _product(most, left, right),
    "sets.intersects": _product,
    "size": _ONE,
    "split": lambda _, text, *__: len(text),
    "type": _ONE,
}
"""Cost functions that use more than the size of the arguments; called with the remaining cost and the arguments."""
