"""Helpers for tables of facts that types do not contain: limits, defaults and descriptions of fields."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from kilauea.api.meta import Wire

Facts = Mapping[type[Wire], Mapping[str, "Fact"]]
"""By type and by the field's name in it; a field that is not named has no limits and no words."""


@dataclass(frozen=True)
class Fact:
    """Facts about a field that its type does not tell.

    Attributes:
        words: what `kubectl explain` says.
        rules: keywords of its schema; `items` and `additionalProperties` are merged into those of the type.
        required: True if it must be there.
        kubernetes: definition of Kubernetes that is its schema, for fields that are kept as they are.
    """

    words: str
    rules: Mapping[str, Any] = field(default_factory=dict)
    required: bool = False
    kubernetes: str = ""


def fact(words: str, *rules: Mapping[str, Any], required: bool = False, **more: Any) -> Fact:
    """A fact whose keywords are those of all `rules` and `more`."""
    merged = {key: value for each in (*rules, more) for key, value in each.items()}
    return Fact(words, merged, required)


def kubernetes(words: str, definition: str) -> Fact:
    """A field that is of one of Kubernetes' own types."""
    return Fact(words, kubernetes=definition)


def one_of(*values: str) -> Mapping[str, Any]:
    """Only these texts."""
    return {"enum": list(values)}


def each_one_of(*values: str) -> Mapping[str, Any]:
    """A list of only these texts."""
    return {"items": {"enum": list(values)}}


INT32: Mapping[str, Any] = {"format": "int32"}
INT64: Mapping[str, Any] = {"format": "int64"}
COUNT: Mapping[str, Any] = {"format": "int32", "minimum": 0}
POSITIVE: Mapping[str, Any] = {"format": "int32", "minimum": 1}
COUNTS: Mapping[str, Any] = {"additionalProperties": {"format": "int32"}}
PERCENT: Mapping[str, Any] = {"minimum": 0, "maximum": 100}
PORT: Mapping[str, Any] = {"minimum": 0, "maximum": 65535}
TIME: Mapping[str, Any] = {"format": "date-time"}
NAME: Mapping[str, Any] = {"maxLength": 253}
SHORT: Mapping[str, Any] = {"maxLength": 63}
ATOMIC: Mapping[str, Any] = {"x-kubernetes-list-type": "atomic"}

_LABEL = "[a-z0-9]([-a-z0-9]*[a-z0-9])?"
LABEL: Mapping[str, Any] = {"maxLength": 63, "pattern": f"^{_LABEL}$"}
SUBDOMAIN: Mapping[str, Any] = {"maxLength": 253, "pattern": rf"^{_LABEL}(\.{_LABEL})*$"}

_NUMBER = r"(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))"
QUANTITY: Mapping[str, Any] = {
    "anyOf": [{"type": "integer"}, {"type": "string"}],
    "pattern": rf"^(\+|-)?{_NUMBER}(([KMGTPE]i)|[numkMGTPE]|([eE](\+|-)?{_NUMBER}))?$",
    "x-kubernetes-int-or-string": True,
}
"""The schema of a quantity."""
