"""The worst-case cost of each function, from the sizes of its arguments, and the size of its result."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

from kilauea.api.cel import authorization
from kilauea.api.cel.typing.checker import Checked
from kilauea.api.cel.typing.signatures import Overload
from kilauea.api.cel.typing.sizes import MOST, OF_PATTERN, OF_TEXT, ONE, Estimate, Size, capped, scaled
from kilauea.api.cel.typing.types import OPTIONAL

_LIST = 10
"""Cost of creating a list."""
_LONGEST_NAMED_PATTERN = 128
_ADDRESS = Size(4, 16)
"""Bytes of an address."""
_TEXTS = ("string", "bytes")


class Sizes(Protocol):
    """The sizes of the parts of an expression."""

    def size(self, checked: Checked) -> Size:
        """Return the size of a part."""
        ...

    def element_size(self, checked: Checked) -> Size:
        """Return the size of the elements of a list."""
        ...


Parts = Sequence[Checked]
Coster = Callable[[Overload, Parts, Sizes], Estimate | None]
"""Returns the estimate of a function; None if its cost is that of a step."""


def estimate_of(name: str, overload: Overload, parts: Parts, sizes: Sizes) -> Estimate:
    """Return the estimate of a call, without the cost of its arguments."""
    coster = _COSTERS.get(name)
    found = coster(overload, parts, sizes) if coster is not None else None
    return Estimate(1) if found is None else found


def _read(number: int, factor: float = OF_TEXT) -> Coster:
    """Return the coster of a function that reads one of its arguments."""

    def run(_: Overload, parts: Parts, sizes: Sizes) -> Estimate | None:
        return Estimate(scaled(sizes.size(parts[number]).most, factor)) if number < len(parts) else None

    return run


def _changed(_: Overload, parts: Parts, sizes: Sizes) -> Estimate:
    """Estimate a function that reads a string and returns one that is not longer."""
    size = sizes.size(parts[0])
    return Estimate(scaled(size.most, OF_TEXT), size)


def _over_list(overload: Overload, parts: Parts, sizes: Sizes) -> Estimate | None:
    """Estimate a function that compares the elements of a list, or reads a string."""
    if not overload.is_member:
        return None
    count = sizes.size(parts[0]).most
    if not parts[0].type.params:
        return Estimate(scaled(count, OF_TEXT))
    each = 1
    if parts[0].type.params[0].kind in _TEXTS:
        each = capped(1 + scaled(sizes.element_size(parts[0]).most, OF_TEXT))
    return Estimate(capped(count * each))


def _replace(_: Overload, parts: Parts, sizes: Sizes) -> Estimate:
    text, old, new = (sizes.size(part) for part in parts[:3])
    most, kept = 0, text.most
    if old.least == 0:
        most = capped(text.most + 1)
    elif new.most > old.least:
        most, kept = math.ceil(float(text.most) / float(old.least)), 0
    least, left = 0, text.least
    if old.most == 0:
        least = capped(text.least + 1)
    elif old.most > new.least:
        least, left = math.ceil(float(text.least) / float(old.most)), 0
    made = Size(least, min(most, MOST)).times(new).plus(Size(left, kept))
    return Estimate(scaled(text.most, 2 * OF_TEXT), made)


def _split(_: Overload, parts: Parts, sizes: Sizes) -> Estimate:
    text = sizes.size(parts[0])
    most = _literal(parts[2], text.most, negative=MOST) if len(parts) > 2 else text.most
    return Estimate(scaled(text.most, 2 * OF_TEXT), Size(0, most))


def _literal(part: Checked, other: int, negative: int = 0) -> int:
    """Return the number in a literal; `other` if the part is not a literal."""
    if part.node.kind != "literal" or part.node.value.__class__ is not int:
        return other
    return part.node.value if part.node.value >= 0 else negative


def _join(_: Overload, parts: Parts, sizes: Sizes) -> Estimate:
    count = sizes.size(parts[0])
    made = count.times(sizes.element_size(parts[0])) if parts[0].type.params else Size(0, 0)
    if len(parts) > 1:
        between = Size(max(count.least - 1, 0), max(count.most - 1, 0))
        made = made.plus(sizes.size(parts[1]).times(between))
    return Estimate(scaled(made.most, OF_TEXT), made)


def _search(text: Size, pattern: Size) -> int:
    return capped(scaled(text.plus(ONE).most, OF_TEXT) * scaled(pattern.most, OF_PATTERN))


def _find(_: Overload, parts: Parts, sizes: Sizes) -> Estimate:
    text = sizes.size(parts[0])
    return Estimate(_search(text, sizes.size(parts[1])), Size(0, text.most))


def _matches(overload: Overload, parts: Parts, sizes: Sizes) -> Estimate | None:
    return Estimate(_search(sizes.size(parts[0]), sizes.size(parts[1]))) if overload.is_member else None


def _contains(_: Overload, parts: Parts, sizes: Sizes) -> Estimate:
    return Estimate(capped(math.prod(scaled(sizes.size(part).most, OF_TEXT) for part in parts)))


def _validate(_: Overload, parts: Parts, sizes: Sizes) -> Estimate:
    cost = scaled(sizes.size(parts[0]).most, OF_TEXT) if len(parts) == 1 else scaled(sizes.size(parts[1]).most, OF_TEXT)
    return Estimate(scaled(cost, _LONGEST_NAMED_PATTERN * OF_PATTERN))


def _address(overload: Overload, parts: Parts, sizes: Sizes) -> Estimate:
    """Estimate `ip(text)`, which reads a string, and `cidr.ip()`, which does not."""
    return Estimate(1) if overload.is_member else Estimate(scaled(sizes.size(parts[0]).most, OF_TEXT))


def _contains_address(whole: bool) -> Coster:
    """Return the coster of a function that checks if a network contains an address, or a `whole` network."""

    def run(overload: Overload, parts: Parts, sizes: Sizes) -> Estimate:
        cost = scaled(_ADDRESS.plus(_ADDRESS).most, OF_TEXT)
        if whole:
            cost += scaled(_ADDRESS.most, OF_TEXT) + 1
        if overload.arguments[1].kind == "string":
            cost += scaled(sizes.size(parts[1]).most, OF_TEXT)
        return Estimate(capped(cost))

    return run


def _sets(factor: float) -> Coster:
    def run(_: Overload, parts: Parts, sizes: Sizes) -> Estimate:
        pairs = sizes.size(parts[0]).times(sizes.size(parts[1])).most
        return Estimate(capped(scaled(pairs, factor) + 1))

    return run


def _made_list(size: Size, factor: float = 1.0) -> Estimate:
    return Estimate(capped(scaled(size.most, factor) + 1 + _LIST), size)


def _slice(_: Overload, parts: Parts, sizes: Sizes) -> Estimate:
    start, end = _literal(parts[1], 0), _literal(parts[2], sizes.size(parts[0]).most)
    count = (end - start) % (MOST + 1)
    return _made_list(Size(count, count))


def _range(_: Overload, parts: Parts, __: Sizes) -> Estimate:
    count = _literal(parts[0], MOST)
    return _made_list(Size(count, count))


def _flatten(_: Overload, parts: Parts, sizes: Sizes) -> Estimate:
    depth = _literal(parts[1], MOST) if len(parts) > 1 else 1
    return _made_list(sizes.size(parts[0]), float(depth))


def _reverse(overload: Overload, parts: Parts, sizes: Sizes) -> Estimate | None:
    return _made_list(sizes.size(parts[0])) if overload.arguments[0].kind == "list" else None


def _compared(number: int) -> Coster:
    """Return the coster of a function that compares all elements of a list with each other."""

    def run(overload: Overload, parts: Parts, sizes: Sizes) -> Estimate:
        size = sizes.size(parts[number])
        is_text = overload.arguments[number].params[0].kind in _TEXTS
        return _made_list(size.times(size), 2.0 + OF_TEXT if is_text else 2.0)

    return run


def _bytes(overload: Overload, parts: Parts, sizes: Sizes) -> Estimate | None:
    size = sizes.size(parts[0])
    if overload.arguments[0].kind != "string":
        return None
    return Estimate(scaled(size.most, OF_TEXT), Size(size.least, capped(size.most * 4)))


def _string(overload: Overload, parts: Parts, sizes: Sizes) -> Estimate | None:
    size = sizes.size(parts[0])
    if overload.arguments[0].kind != "bytes":
        return None
    return Estimate(scaled(size.most, OF_TEXT), Size(size.least // 4, size.most))


def _quote(_: Overload, parts: Parts, sizes: Sizes) -> Estimate:
    size = sizes.size(parts[0])
    return Estimate(scaled(size.most, OF_TEXT), Size(capped(size.least + 2), capped(size.most * 2 + 2)))


def _in(overload: Overload, parts: Parts, sizes: Sizes) -> Estimate | None:
    return Estimate(sizes.size(parts[1]).most) if overload.arguments[1].kind == "list" else None


def _add(overload: Overload, parts: Parts, sizes: Sizes) -> Estimate | None:
    kind = overload.arguments[0].kind
    if kind not in ("string", "bytes", "list"):
        return None
    made = sizes.size(parts[0]).plus(sizes.size(parts[1]))
    return Estimate(1 if kind == "list" else scaled(made.most, OF_TEXT), made)


def _ordered(overload: Overload, parts: Parts, sizes: Sizes) -> Estimate | None:
    return _smaller(parts, sizes) if overload.arguments[0].kind in _TEXTS else None


def _smaller(parts: Parts, sizes: Sizes) -> Estimate:
    return Estimate(scaled(min(sizes.size(part).most for part in parts), OF_TEXT))


_AT_ONCE = frozenset(
    {"net.IP", "net.CIDR", "kubernetes.Quantity", "kubernetes.Semver"}
    | {authorization.PREFIX + name for name in ("Authorizer", "PathCheck", "GroupCheck", "ResourceCheck", "Decision")}
)
_LONGEST_FORMAT = 64


def _equal(_: Overload, parts: Parts, sizes: Sizes) -> Estimate:
    kind = parts[0].type
    if kind == parts[1].type and kind.kind in ("object", "opaque") and kind.name != OPTIONAL:
        if kind.name in _AT_ONCE or kind.name == "kubernetes.URL":
            return Estimate(1)
        if kind.name == "kubernetes.NamedFormat":
            return Estimate(scaled(_LONGEST_FORMAT, OF_TEXT))
    return _smaller(parts, sizes)


def _unequal(_: Overload, parts: Parts, sizes: Sizes) -> Estimate:
    return _smaller(parts, sizes)


_COSTERS: Mapping[str, Coster] = {
    "!=": _unequal,
    "+": _add,
    "<": _ordered, "<=": _ordered, ">": _ordered, ">=": _ordered,
    "==": _equal,
    "@sortByAssociatedKeys": _compared(1),
    "bytes": _bytes,
    "check": lambda *_: Estimate(authorization.COST_OF_CHECK),
    "cidr": _read(0),
    "contains": _contains,
    "containsCIDR": _contains_address(True),
    "containsIP": _contains_address(False),
    "distinct": lambda _, parts, sizes: _made_list(sizes.size(parts[0]).times(sizes.size(parts[0])), 2.0),
    "endsWith": _read(1),
    "find": _find,
    "findAll": _find,
    "flatten": _flatten,
    "format": _read(0),
    "in": _in,
    "indexOf": _over_list,
    "ip": _address,
    "ip.isCanonical": _read(0, 2 * OF_TEXT),
    "isCIDR": _read(0),
    "isIP": _read(0),
    "isQuantity": _read(0),
    "isSemver": _read(0),
    "isSorted": _over_list,
    "join": _join,
    "lastIndexOf": _over_list,
    "lists.range": _range,
    "lowerAscii": _changed,
    "matches": _matches,
    "max": _over_list,
    "min": _over_list,
    "quantity": _read(0),
    "replace": _replace,
    "reverse": _reverse,
    "semver": _read(0),
    "sets.contains": _sets(1.0),
    "sets.equivalent": _sets(2.0),
    "sets.intersects": _sets(1.0),
    "slice": _slice,
    "sort": _compared(0),
    "split": _split,
    "startsWith": _read(1),
    "string": _string,
    "strings.quote": _quote,
    "substring": _changed,
    "sum": _over_list,
    "trim": _changed,
    "upperAscii": _changed,
    "url": _read(0),
    "validate": _validate,
}  # fmt: skip
