"""Checks of amounts of resources."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

from kilauea.api.names import qualified_name_problems
from kilauea.api.quantity import QuantityError, parse_milli, parse_size
from kilauea.api.remembered import remembered
from kilauea.apiserver.fields import invalid_value
from kilauea.apiserver.status import Cause

_MOST, _MOST_AMOUNTS, _LONGEST = 4096, 16, 256
_VALID: set[tuple[tuple[str, str] | None, ...]] = set()
"""Requests and limits of containers without errors, since most containers ask for what others ask for."""
NEGATIVE = "must be greater than or equal to 0"


@remembered(4096, 64)
def amount(text: str) -> Fraction | None:
    """The number that a quantity stands for, to a thousandth where it is not too large for that; None if it is none."""
    try:
        return Fraction(parse_milli(text), 1000)
    except QuantityError:
        pass
    try:
        return Fraction(parse_size(text))
    except QuantityError:
        return None


def check_amounts(path: str, amounts: dict[str, Any]) -> list[Cause]:
    """Names and amounts of a resource list."""
    causes: list[Cause] = []
    for name, text in amounts.items():
        causes += [invalid_value(path, name, each) for each in qualified_name_problems(name)]
        number = amount(str(text))
        if number is not None and number.numerator < 0:
            causes.append(invalid_value(f"{path}[{name}]", text, NEGATIVE))
    return causes


def check_resources(path: str, resources: dict[str, Any]) -> list[Cause]:
    """Requests and limits of a container: no request above its limit."""
    requests, limits = resources.get("requests") or {}, resources.get("limits") or {}
    amounts = (*requests.items(), None, *limits.items())
    if amounts in _VALID:
        return []
    causes = _resource_problems(path, requests, limits)
    if not causes and len(amounts) <= _MOST_AMOUNTS and all(len(each[1]) <= _LONGEST for each in amounts if each):
        if len(_VALID) >= _MOST:
            _VALID.clear()
        _VALID.add(amounts)
    return causes


def _resource_problems(path: str, requests: dict[str, str], limits: dict[str, str]) -> list[Cause]:
    causes = check_amounts(f"{path}.limits", limits) + check_amounts(f"{path}.requests", requests)
    for name, text in requests.items():
        if limits.get(name, text) == text:
            continue
        asked, most = amount(str(text)), amount(str(limits[name]))
        if asked is not None and most is not None and asked > most:
            causes.append(
                invalid_value(f"{path}.requests", text, f"must be less than or equal to {name} limit of {limits[name]}")
            )
    return causes
