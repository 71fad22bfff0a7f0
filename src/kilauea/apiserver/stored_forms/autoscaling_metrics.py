"""Metrics of autoscalers in the format of `autoscaling/v1`, which stores them in annotations."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from kilauea.apiserver.stored_forms.paths import set_at, value_at

Object = dict[str, Any]


class _Field(NamedTuple):
    """A field of `autoscaling/v1`, its path in `autoscaling/v2`, and the text for a missing value."""

    name: str
    path: str
    zero: str | None = None


_METRIC, _SELECTOR = _Field("metricName", "metric.name"), _Field("selector", "metric.selector")
_METRIC_SELECTOR, _TARGET = _Field("metricSelector", "metric.selector"), _Field("target", "describedObject")
_NAME, _CONTAINER = _Field("name", "name"), _Field("container", "container")
_SHARE, _AMOUNT = (
    _Field("targetAverageUtilization", "target.averageUtilization"),
    _Field("targetAverageValue", "target.averageValue"),
)
_SHARE_NOW, _AMOUNT_NOW = (
    _Field("currentAverageUtilization", "current.averageUtilization"),
    _Field("currentAverageValue", "current.averageValue", "0"),
)
_REFERENCE = ("kind", "name", "apiVersion")
_TYPES = ("object", "pods", "resource", "containerResource", "external")

Fields = Mapping[str, tuple[_Field, ...]]
WANTED: Fields = {
    "object": (
        _TARGET,
        _METRIC,
        _Field("targetValue", "target.value", "0"),
        _SELECTOR,
        _Field("averageValue", "target.averageValue"),
    ),
    "pods": (_METRIC, _AMOUNT._replace(zero="0"), _SELECTOR),
    "resource": (_NAME, _SHARE, _AMOUNT),
    "containerResource": (_NAME, _SHARE, _AMOUNT, _CONTAINER),
    "external": (_METRIC, _METRIC_SELECTOR, _Field("targetValue", "target.value"), _AMOUNT),
}
"""Metrics of a specification, by source, with their fields in the order of Kubernetes."""
CURRENT: Fields = {
    "object": (
        _TARGET,
        _METRIC,
        _Field("currentValue", "current.value", "0"),
        _SELECTOR,
        _Field("averageValue", "current.averageValue"),
    ),
    "pods": (_METRIC, _AMOUNT_NOW, _SELECTOR),
    "resource": (_NAME, _SHARE_NOW, _AMOUNT_NOW),
    "containerResource": (_NAME, _SHARE_NOW, _AMOUNT_NOW, _CONTAINER),
    "external": (
        _METRIC,
        _METRIC_SELECTOR,
        _Field("currentValue", "current.value", "0"),
        _AMOUNT_NOW._replace(zero=None),
    ),
}
"""Metrics of a status."""


def to_v1(metric: Object, fields: Fields) -> Object:
    """Convert a metric to `autoscaling/v1`."""
    found: Object = {"type": metric.get("type", "")}
    for source in _TYPES:
        if metric.get(source) is not None:
            found[source] = _source_to_v1(metric[source], fields[source])
    return found


def _source_to_v1(source: Object, fields: tuple[_Field, ...]) -> Object:
    found: Object = {}
    for field in fields:
        value = value_at(source, field.path)
        if field is _TARGET and value is not None:
            value = {key: value[key] for key in _REFERENCE if key in value}
        if value is not None or field.zero is not None:
            found[field.name] = field.zero if value is None else value
    return found


def to_v2(metric: Object, fields: Fields) -> Object:
    """Convert a metric to `autoscaling/v2`; values of the wrong type are unchanged."""
    found: Object = {"type": metric.get("type", "")}
    for source in _TYPES:
        value = metric.get(source)
        if isinstance(value, dict):
            found[source] = _source_to_v2(source, value, fields)
        elif value is not None:
            found[source] = value
    return found


def _source_to_v2(source: str, value: Object, fields: Fields) -> Object:
    found: Object = {}
    for field in fields[source]:
        given = value.get(field.name, field.zero)
        if given is not None:
            set_at(found, field.path, given)
    if fields is WANTED:
        found.setdefault("target", {})["type"] = _target_type(source, found["target"])
    _drop_zeros(found.get("target") or found.get("current") or {})
    return found


def _drop_zeros(amounts: Object) -> None:
    """Remove the amounts that `autoscaling/v1` writes as "0" because it cannot omit them."""
    for field, other in (("value", "averageValue"), ("averageValue", "averageUtilization")):
        if amounts.get(field) == "0" and other in amounts:
            del amounts[field]


def _target_type(source: str, target: Object) -> str:
    if source in ("resource", "containerResource"):
        return "Utilization" if "averageUtilization" in target else "AverageValue"
    if source == "external":
        return "Value" if "value" in target else "AverageValue"
    return "Value" if source == "object" and "averageValue" not in target else "AverageValue"
