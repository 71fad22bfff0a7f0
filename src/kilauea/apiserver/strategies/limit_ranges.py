"""The rules for limit ranges, whose values must be consistent so that objects can comply."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from typing import Any

from kilauea.api.names import qualified_name_problems
from kilauea.apiserver.fields import duplicate, forbidden_field, invalid_value, required
from kilauea.apiserver.status import Cause
from kilauea.apiserver.strategies.base import Object, spec_of
from kilauea.apiserver.strategies.core import Plain
from kilauea.apiserver.strategies.quantities import amount

_TYPES = ("Container", "PersistentVolumeClaim", "Pod")
_PARTS = ("max", "min", "default", "defaultRequest", "maxLimitRequestRatio")
_NAMES = frozenset({"cpu", "memory", "ephemeral-storage", "storage"})
_NATIVE = frozenset({"cpu", "memory", "ephemeral-storage"})
"""Resources of containers that may be overcommitted."""
_ORDER = (
    ("min", "max", "min", "min value {} is greater than max value {}"),
    ("min", "defaultRequest", "defaultRequest", "min value {} is greater than default request value {}"),
    ("defaultRequest", "max", "defaultRequest", "default request value {} is greater than max value {}"),
    ("defaultRequest", "default", "defaultRequest", "default request value {} is greater than default limit value {}"),
    ("min", "default", "default", "min value {} is greater than default value {}"),
    ("default", "max", "default", "default value {} is greater than max value {}"),
)
"""Pairs of limits, the first of which may not exceed the second, with the field of the error and its message."""
_SHOWN = {"default": {"min": "min", "default": "max"}}
"""The value in errors about a default that is out of bounds: the bound, as in the real server."""


class LimitRanges(Plain):
    """Limit ranges: limits and defaults for the objects of a namespace."""

    is_named = True

    def validate(self, obj: Object) -> list[Cause]:
        causes: list[Cause] = []
        seen: set[str] = set()
        for number, limit in enumerate(spec_of(obj).get("limits") or []):
            path, kind = f"spec.limits[{number}]", limit.get("type", "")
            causes += _check_type(f"{path}.type", kind)
            if kind in seen:
                causes.append(duplicate(f"{path}.type", kind))
            seen.add(kind)
            causes += _check_limit(path, kind, limit)
        return causes


def _check_type(path: str, kind: str) -> list[Cause]:
    causes = [invalid_value(path, kind, each) for each in qualified_name_problems(kind)]
    if not causes and "/" not in kind and kind not in _TYPES:
        causes.append(invalid_value(path, kind, "must be a standard limit type or fully qualified"))
    return causes


def _check_limit(path: str, kind: str, limit: Object) -> Iterator[Cause]:
    """Check the limits of one type, such as Container."""
    parts = {part: limit.get(part) or {} for part in _PARTS}
    if kind == "Pod":
        for part in ("default", "defaultRequest"):
            if parts.pop(part):
                yield forbidden_field(f"{path}.{part}", "may not be specified when `type` is 'Pod'")
            parts[part] = {}
    for part in _PARTS:
        for name in parts[part]:
            yield from check_resource_name(f"{path}.{part}[{name}]", kind, name)
    if kind == "PersistentVolumeClaim" and not any("storage" in parts[part] for part in ("min", "max")):
        message = "either minimum or maximum storage value is required, but neither was provided"
        yield required(f"{path}.limits", message)
    for name in sorted({name for part in _PARTS for name in parts[part]}):
        yield from _check_figures(path, name, {part: parts[part][name] for part in _PARTS if name in parts[part]})


def check_resource_name(path: str, kind: str, name: str) -> Iterator[Cause]:
    """Check the name of a resource, which pods and containers must be able to request."""
    for problem in qualified_name_problems(name):
        yield invalid_value(path, name, problem)
    if qualified_name_problems(name):
        if kind in ("Pod", "Container"):
            yield invalid_value(path, name, "must be a standard resource for containers")
        return
    standard = "/" in name or name in _NAMES or name.startswith("hugepages-")
    if not standard:
        yield invalid_value(path, name, "must be a standard resource type or fully qualified")
    if kind in ("Pod", "Container") and (not standard or name == "storage"):
        yield invalid_value(path, name, "must be a standard resource for containers")


def _check_figures(path: str, name: str, given: dict[str, Any]) -> Iterator[Cause]:
    """Check that the values for one resource are consistent."""
    figures = {part: amount(str(text)) for part, text in given.items()}
    for low, high, told, message in _ORDER:
        below, above = figures.get(low), figures.get(high)
        if below is not None and above is not None and below > above:
            shown = given[_SHOWN.get(told, {}).get(low, told)]
            yield invalid_value(f"{path}.{told}[{name}]", shown, message.format(given[low], given[high]))
    yield from _check_ratio(f"{path}.maxLimitRequestRatio[{name}]", given, figures)
    request, default = given.get("defaultRequest"), given.get("default")
    if request is not None and default is not None and request != default and name not in _NATIVE:
        message = f"default value {default} must equal to defaultRequest value {request} in {name}"
        yield invalid_value(f"{path}.defaultRequest[{name}]", request, message)


def _check_ratio(path: str, given: dict[str, Any], figures: dict[str, Fraction | None]) -> Iterator[Cause]:
    """Check the maximum ratio of limit to request."""
    ratio, low, high = (figures.get(part) for part in ("maxLimitRequestRatio", "min", "max"))
    text = given.get("maxLimitRequestRatio")
    if ratio is not None and ratio < 1:
        yield invalid_value(path, text, f"ratio {text} is less than 1")
    if ratio is not None and low and high is not None and ratio > high / low:
        yield invalid_value(path, text, f"ratio {text} is greater than max/min = {float(high / low):f}")
