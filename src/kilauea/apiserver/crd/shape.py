"""Type checks of a schema: each keyword must have a value of the right type, at all levels.

Decoding a definition checks only the levels above the first `items` or `additionalProperties`, which accept anything.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from kilauea.apiserver.fields import wrong_type
from kilauea.apiserver.status import Cause

_TEXTS = ("type", "format", "pattern", "x-kubernetes-list-type", "x-kubernetes-map-type")
_FLAGS = (
    "nullable",
    "uniqueItems",
    "exclusiveMaximum",
    "exclusiveMinimum",
    "x-kubernetes-embedded-resource",
    "x-kubernetes-int-or-string",
    "x-kubernetes-preserve-unknown-fields",
)
_NUMBERS = ("maximum", "minimum", "multipleOf")
_COUNTS = ("maxItems", "maxLength", "maxProperties", "minItems", "minLength", "minProperties")
_LISTS = ("enum", "required", "x-kubernetes-list-map-keys", "x-kubernetes-validations", "allOf", "anyOf", "oneOf")
_SCHEMAS = ("allOf", "anyOf", "oneOf")
_FORMS: Mapping[str, tuple[tuple[type, ...], str]] = {
    **dict.fromkeys(_TEXTS, ((str,), "must be text")),
    **dict.fromkeys(_FLAGS, ((bool,), "must be true or false")),
    **dict.fromkeys(_NUMBERS, ((int, float), "must be a number")),
    **dict.fromkeys(_COUNTS, ((int,), "must be a whole number")),
    **dict.fromkeys(_LISTS, ((list,), "must be a list")),
    "properties": ((dict,), "must be an object of schemas"),
    "additionalProperties": ((bool, dict), "boolean or JSON schema expected"),
    "items": ((dict, list), "must be a schema"),
    "not": ((dict,), "must be a schema"),
}
_TEXT_LISTS = ("required", "x-kubernetes-list-map-keys")


def check_shape(raw: Any, path: str) -> Iterator[Cause]:
    """Yield errors for keywords with values of a wrong type."""
    if not isinstance(raw, dict):
        yield wrong_type(path, raw, "must be a schema")
        return
    for key, value in raw.items():
        kinds, message = _FORMS.get(key, ((), ""))
        if kinds and not _is(value, kinds):
            yield wrong_type(f"{path}.{key}", value, message)
        else:
            yield from _below(key, value, f"{path}.{key}")


def _is(value: Any, kinds: tuple[type, ...]) -> bool:
    return isinstance(value, kinds) and (bool in kinds or not isinstance(value, bool))


def _below(key: str, value: Any, path: str) -> Iterator[Cause]:
    """Yield the errors within the value of a keyword."""
    if key == "properties":
        for name, each in value.items():
            yield from check_shape(each, f"{path}[{name}]")
    elif key in _SCHEMAS:
        for number, each in enumerate(value):
            yield from check_shape(each, f"{path}[{number}]")
    elif key == "not" or (key in ("items", "additionalProperties") and isinstance(value, dict)):
        yield from check_shape(value, path)
    elif key in _TEXT_LISTS:
        yield from (wrong_type(path, each, "must be text") for each in value if not isinstance(each, str))
    elif key == "x-kubernetes-validations":
        yield from (wrong_type(path, each, "must be a rule") for each in value if not _is_rule(each))


def _is_rule(rule: Any) -> bool:
    """Return True if the fields of a rule are strings."""
    texts = ("rule", "message", "messageExpression", "reason", "fieldPath")
    return isinstance(rule, dict) and all(isinstance(rule.get(key) or "", str) for key in texts)
