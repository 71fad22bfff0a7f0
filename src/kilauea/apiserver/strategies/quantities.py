"""Checks of amounts of resources."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from fractions import Fraction
from typing import Any

from kilauea.api.quantity import QuantityError, parse_milli, parse_size
from kilauea.api.remembered import remembered
from kilauea.apiserver.fields import invalid_value
from kilauea.apiserver.status import Cause

NEGATIVE = "must be greater than or equal to 0"


@remembered(4096, 64)
def amount(text: str) -> Fraction | None:
    """Return the value of a quantity, rounded to thousandths unless it is too large; None if it is invalid."""
    try:
        return Fraction(parse_milli(text), 1000)
    except QuantityError:
        pass
    try:
        return Fraction(parse_size(text))
    except QuantityError:
        return None


def check_amounts(path: str, amounts: dict[str, Any]) -> list[Cause]:
    """Check the amounts of a resource list."""
    causes: list[Cause] = []
    for name, text in amounts.items():
        number = amount(str(text))
        if number is not None and number.numerator < 0:
            causes.append(invalid_value(f"{path}.{name}", text, NEGATIVE))
    return causes


def fraction_warnings(path: str, amounts: dict[str, Any], names: Sequence[str]) -> Iterator[str]:
    """Warn about fractional bytes.

    Args:
        path: the path of the amounts.
        amounts: amounts in canonical form.
        names: those that are in bytes.
    """
    for name in names:
        text = amounts.get(name, "")
        number = amount(text) if text.endswith("m") else None
        if number is not None and number.denominator != 1:
            yield f'{path}[{name}]: fractional byte value "{text}" is invalid, must be an integer'


def claim_warnings(path: str, resources: dict[str, Any]) -> Iterator[str]:
    """Warn about fractional bytes in the resources of a claim, or of a template for claims."""
    for part in ("requests", "limits"):
        yield from fraction_warnings(f"{path}.{part}", resources.get(part) or {}, ("storage",))
