"""Kubernetes quantities ("500m", "1.5Gi", "1e3") as exact integers, and back to canonical text.

All other packages count resources in integers: milli-units for cpu and extended resources, bytes for memory and
storage, plain counts for pods. Only this module converts the text of a quantity to such a number. It does not use float
arithmetic: a float from JSON is read by its shortest decimal text (`repr`), so 0.1 is exactly one tenth.

Rounding: fractions of the requested unit are rounded away from zero, so a request of "1u" of cpu is 1 milli-core and
"-1u" is -1, as in `Quantity.ScaledValue` of apimachinery.

This is stricter than apimachinery: text without a digit ("", "-", "m") is an error and not zero, and an amount beyond
2**53 is an error and is not clipped.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from enum import Enum
from functools import lru_cache
from types import MappingProxyType

from kilauea.api.meta import ResourceMap
from kilauea.api.remembered import remembered, remembered_items

LARGEST = 2**53
"""Largest magnitude of an amount, in its unit: up to this, float64 scores and int64 sums are exact."""

LONGEST_TEXT = 128
"""Maximum characters of a quantity."""

_DECIMAL = {"n": -9, "u": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
_BINARY = {"Ki": 10, "Mi": 20, "Gi": 30, "Ti": 40, "Pi": 50, "Ei": 60}
_FORM = re.compile(r"([+-]?)(?=\.?[0-9])([0-9]*)(?:\.([0-9]*))?(?:[eE]([+-]?[0-9]+)|([numkMGTPE]|[KMGTPE]i)?)")
_TENS: tuple[int, ...] = tuple(10**n for n in range(401))
"""Powers of ten; a number with LONGEST_TEXT digits exceeds all limits long before the last of them."""
_HINT = "use a number with an optional suffix such as 500m, 2, 1.5Gi"

Scalar = str | int | float
"""A quantity in JSON or YAML: text, or a bare number."""


class QuantityError(ValueError):
    """A quantity is invalid; the text names the value and the fix."""


class Unit(Enum):
    """The size of one unit of an amount."""

    MILLI = "milli"
    BYTES = "bytes"
    COUNT = "count"


# --- text to number


def _quoted(q: Scalar) -> str:
    """Format a value for messages: in double quotes, truncated if very long."""
    if isinstance(q, int) and abs(q) > 10**LONGEST_TEXT:
        return f"an integer of more than {LONGEST_TEXT} digits"
    text = q if isinstance(q, str) else repr(q)
    return f'"{text}"' if len(text) <= LONGEST_TEXT else f'"{text[:32]}..."'


def _scaled(sign: str, digits: str, shift: int, exponent: int) -> int:
    """Return `digits * 2**shift * 10**exponent`, rounded away from zero, in exact integer arithmetic."""
    mantissa = int(digits) << shift
    power = _TENS[min(abs(exponent), 400)]
    size = mantissa * power if exponent >= 0 else -(-mantissa // power)
    return -size if sign == "-" else size


def _read(text: str, q: Scalar, exponent: int) -> int:
    """Parse the amount in a text, in units of 10**-exponent; `q` is the value in messages."""
    found = _FORM.fullmatch(text) if len(text) <= LONGEST_TEXT else None
    if found is None:
        raise QuantityError(f"{_quoted(q)} is not a quantity: {_HINT}")
    sign, whole, fraction, power, suffix = found.groups("")
    ten = int(power) if power else _DECIMAL.get(suffix, 0)
    return _scaled(sign, whole + fraction, _BINARY.get(suffix, 0), ten - len(fraction) + exponent)


def _parse(q: Scalar, exponent: int) -> int:
    """Return the amount of a quantity in units of 10**-exponent.

    Raises:
        QuantityError: not a quantity, or its magnitude exceeds LARGEST.
    """
    if isinstance(q, int) and not isinstance(q, bool):
        amount = q * _TENS[exponent]
    else:
        amount = _read(q if isinstance(q, str) else repr(q), q, exponent)
    if -LARGEST <= amount <= LARGEST:
        return amount
    counted = " in thousandths" if exponent else ""
    bound = f"larger than {LARGEST}, the largest" if amount > 0 else f"less than {-LARGEST}, the least"
    raise QuantityError(f"{_quoted(q)}{counted} is {bound} amount that can be counted exactly")


@lru_cache(maxsize=4096, typed=True)
def parse_milli(q: Scalar) -> int:
    """Return the amount of a quantity in thousandths: "1" is 1000, "500m" is 500, "1u" is 1 (rounded away from zero).

    Negative amounts parse; the caller decides whether they make sense. Cached by text.

    Raises:
        QuantityError: not a quantity, or its magnitude in thousandths exceeds LARGEST.
    """
    return _parse(q, 3)


@lru_cache(maxsize=4096, typed=True)
def parse_units(q: Scalar) -> int:
    """Return the amount of a quantity in whole units (bytes, pieces): "1Ki" is 1024, "1500m" is 2 (away from zero).

    Negative amounts parse; the caller decides whether they make sense. Cached by text.

    Raises:
        QuantityError: not a quantity, or its magnitude exceeds LARGEST.
    """
    return _parse(q, 0)


@lru_cache(maxsize=4096, typed=True)
def parse_size(q: Scalar) -> int:
    """Return the size of a volume in bytes, of any magnitude: sizes are compared, never added, and may be huge.

    Raises:
        QuantityError: not a quantity, or negative.
    """
    size = q if isinstance(q, int) and not isinstance(q, bool) else _read(q if isinstance(q, str) else repr(q), q, 0)
    if size < 0:
        raise QuantityError(f"{_quoted(q)} is negative: use 0 or more")
    return size


# --- names


_QUALIFIED = re.compile(
    r"(?=[^/]{1,244}/)[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*"
    r"/(?=.{1,63}\Z)([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]"
)
_PLAIN_NAMES = frozenset({"cpu", "memory", "ephemeral-storage", "pods"})
_BYTE_NAMES = frozenset({"memory", "ephemeral-storage", "storage"})


@remembered(4096)
def unit_of(resource_name: str) -> Unit:
    """Return the unit in which amounts of a resource are counted.

    `memory`, `ephemeral-storage`, `storage` and `hugepages-*` in bytes; `pods`, `count/*` and `attachable-volumes-*` as
    plain counts; `cpu` and every other name in milli-units (one GPU is 1000). The prefixes `requests.` and `limits.` of
    quota names are ignored, so `requests.memory` counts in bytes, like `memory`.
    """
    name = resource_name.removeprefix("requests.").removeprefix("limits.")
    if name in _BYTE_NAMES or name.startswith("hugepages-") or name.endswith("/requests.storage"):
        return Unit.BYTES
    if name == "pods" or name.startswith(("count/", "attachable-volumes-")):
        return Unit.COUNT
    return Unit.MILLI


@remembered(4096)
def is_countable(resource_name: str) -> bool:
    """Return True if a resource is counted in scheduling.

    These do: cpu, memory, pods, ephemeral-storage, `hugepages-*`, `attachable-volumes-*`, names of the `kubernetes.io`
    domains, and well-formed extended names such as `nvidia.com/gpu`. These do not: `count/*`, `requests.*`, words
    without a domain, and malformed names.
    """
    name = resource_name
    if name in _PLAIN_NAMES or name.startswith(("hugepages-", "attachable-volumes-")):
        return True
    if "/" not in name or name.startswith("count/"):
        return False
    if "kubernetes.io/" in name:
        return True
    return not name.startswith("requests.") and _QUALIFIED.fullmatch(name) is not None


def amount(name: str, q: Scalar) -> int:
    """Return the amount of a quantity in the unit of its resource (see `unit_of`).

    Raises:
        QuantityError: not a quantity, or too large; the text does not name the resource.
    """
    return parse_milli(q) if unit_of(name) is Unit.MILLI else parse_units(q)


# --- resource lists


_NOTHING: Mapping[str, int] = MappingProxyType({})


@remembered_items(4096)
def _amounts(items: tuple[tuple[str, Scalar], ...]) -> Mapping[str, int]:
    """Return read-only amounts of the countable resources of a list, in order."""
    amounts: dict[str, int] = {}
    for name, q in items:
        if not is_countable(name):
            continue
        try:
            amounts[name] = amount(name, q)
        except QuantityError as error:
            raise QuantityError(f"[{name}]: {error}") from None
        if amounts[name] < 0:
            raise QuantityError(f"[{name}]: {_quoted(q)} is negative: use 0 or more")
    return MappingProxyType(amounts)


def resource_amounts(resources: ResourceMap | None, *, where: str = "") -> Mapping[str, int]:
    """Return the amounts of a Kubernetes resource list: resource name to integer in the unit of `unit_of`.

    Names that scheduling does not count are omitted (see `is_countable`). The result is shared between callers with
    equal lists, as clusters repeat the same few requests; it is read-only, so copy it (`dict(...)`) to change it.

    Args:
        resources: the list, or None for an empty one.
        where: path of the list for messages, e.g. `spec.containers[0].resources.requests`.

    Raises:
        QuantityError: an amount is not a quantity, too large, or negative; names `where` and the resource.
    """
    if not resources:
        return _NOTHING
    try:
        return _amounts(tuple(resources.items()))
    except QuantityError as error:
        raise QuantityError(f"{where}{error}" if where else str(error)) from None


# --- number to text


def _whole(number: int | float) -> int:
    """Return the nearest integer, rounding halves up."""
    if isinstance(number, int):
        return number
    if not math.isfinite(number):
        raise QuantityError(f"{number} is not an amount: only finite numbers have a text")
    below = math.floor(number)
    return below + (number - below >= 0.5)


def _bytes_text(count: int) -> str:
    """Format `count` with the largest binary suffix that divides it, e.g. 1610612736 as 1536Mi."""
    best = ""
    if count:
        for suffix, shift in _BINARY.items():
            if count % (1 << shift) == 0:
                best = suffix
    return f"{count >> _BINARY[best]}{best}" if best else str(count)


def format_amount(name: str, amount: int | float) -> str:
    """Return the canonical text of an amount of a resource, which `amount` parses to the same number.

    Milli-units become a whole number or keep the `m` ("2", "1500m"); bytes have the largest binary suffix that divides
    them ("3Gi", "1536Mi", "1000"); counts are plain. A float is first rounded to the nearest integer, halves up.

    Raises:
        QuantityError: the amount is infinite or no number.
    """
    count = _whole(amount)
    unit = unit_of(name)
    if unit is Unit.BYTES:
        return _bytes_text(count)
    if unit is Unit.COUNT:
        return str(count)
    return str(count // 1000) if count % 1000 == 0 else f"{count}m"


def format_resources(amounts: Mapping[str, int | float]) -> dict[str, str]:
    """Return the texts of several amounts by resource name: cpu first, then memory, then the others by name."""
    order = sorted(amounts, key=lambda name: (name != "cpu", name != "memory", name))
    return {name: format_amount(name, amounts[name]) for name in order}
