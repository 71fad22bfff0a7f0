"""Checks that the schema of a definition is structural: one type for every field, so that objects can be pruned.

The causes and messages are those of the real server; causes with the same path are in its order.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from copy import deepcopy
from typing import Any

from kilauea.api.patterns import pattern_of
from kilauea.apiserver.crd.shape import check_shape
from kilauea.apiserver.fields import forbidden_field, invalid_value, not_supported, required
from kilauea.apiserver.schema import apply_defaults, from_openapi, prune, validate
from kilauea.apiserver.status import Cause

Raw = Mapping[str, Any]

TYPES = ("array", "boolean", "integer", "number", "object", "string")
_UNSUPPORTED = ("$ref", "definitions", "dependencies", "patternProperties", "additionalItems", "id")
_EMPTY_IN_JUNCTORS = ("title", "description", "type")
_UNDEFINED_IN_JUNCTORS = ("default", "additionalProperties")
_FALSE_IN_JUNCTORS = (
    "nullable",
    "x-kubernetes-preserve-unknown-fields",
    "x-kubernetes-embedded-resource",
    "x-kubernetes-int-or-string",
)
_INT_OR_STRING = [{"type": "integer"}, {"type": "string"}]


def check_structural(raw: Raw, path: str) -> list[Cause]:
    """Return the reasons why a schema is not structural or invalid."""
    causes = list(check_shape(raw, path))
    if causes:
        return causes
    causes = list(_root(raw, path))
    causes += _node(raw, path)
    if not causes:
        causes += _defaults(raw, path)
    return causes


def _root(raw: Raw, path: str) -> Iterator[Cause]:
    if not raw.get("type"):
        yield required(f"{path}.type", "must not be empty at the root")
    elif raw["type"] != "object":
        yield invalid_value(f"{path}.type", raw["type"], "must be object at the root")
    metadata = raw.get("properties", {}).get("metadata", {})
    others = metadata.get("properties", {}).keys() - {"name", "generateName"}
    if others or metadata.keys() - {"type", "properties", "description"}:
        message = "must not specify anything other than name and generateName, but metadata is implicitly specified"
        yield forbidden_field(f"{path}.properties[metadata]", message)
    if raw.get("nullable"):
        yield forbidden_field(f"{path}.nullable", "nullable cannot be true at the root")
    if raw.get("additionalProperties") is not None:
        yield forbidden_field(f"{path}.additionalProperties", "must not be used at the root")
    for key in ("kind", "apiVersion"):
        described = raw.get("properties", {}).get(key)
        if described is not None and described.get("type", "") != "string":
            yield invalid_value(f"{path}.properties[{key}].type", described.get("type", ""), "must be string")


def _node(raw: Raw, path: str) -> Iterator[Cause]:
    """Check a node that describes a value, and all nodes below."""
    for key in _UNSUPPORTED:
        if raw.get(key):
            yield forbidden_field(f"{path}.{key}", f"{key} is not supported")
    yield from _type(raw, path)
    yield from _list_and_map(raw, path)
    yield from _values(raw, path)
    if raw.get("uniqueItems"):
        message = "uniqueItems cannot be set to true since the runtime complexity becomes quadratic"
        yield forbidden_field(f"{path}.uniqueItems", message)
    if "additionalProperties" in raw and raw.get("properties"):
        yield forbidden_field(
            f"{path}.additionalProperties", "additionalProperties and properties are mutual exclusive"
        )
    if raw.get("x-kubernetes-embedded-resource"):
        yield from _embedded(raw, path)
    for word, child, place in _children(raw):
        yield from _typed(child, f"{path}.{place}", word)
        yield from _node(child, f"{path}.{place}")
    yield from _all_junctors(raw, path)


def _children(raw: Raw) -> Iterator[tuple[str, Raw, str]]:
    """Yield the keyword, schema and path of each child."""
    for key, child in sorted(raw.get("properties", {}).items()):
        yield "object fields", child, f"properties[{key}]"
    if isinstance(raw.get("items"), dict):
        yield "array items", raw["items"], "items"
    if isinstance(raw.get("additionalProperties"), dict):
        yield "object fields", raw["additionalProperties"], "additionalProperties"


def _typed(raw: Raw, path: str, what: str) -> Iterator[Cause]:
    free = raw.get("x-kubernetes-int-or-string") or raw.get("x-kubernetes-preserve-unknown-fields")
    if not raw.get("type") and not free and not raw.get("$ref"):
        yield required(f"{path}.type", f"must not be empty for specified {what}")


def _type(raw: Raw, path: str) -> Iterator[Cause]:
    kind = raw.get("type", "")
    if kind and kind not in TYPES:
        yield not_supported(f"{path}.type", kind, TYPES)
    if kind == "array" and raw.get("items") is None:
        yield required(f"{path}.items", "must be specified")
    if isinstance(raw.get("items"), list):
        yield forbidden_field(f"{path}.items", "items must be a schema object and not an array")


def _list_and_map(raw: Raw, path: str) -> Iterator[Cause]:
    """Check the merge rules of lists and maps."""
    map_type, list_type, keys = (raw.get(f"x-kubernetes-{each}") for each in ("map-type", "list-type", "list-map-keys"))
    if map_type is not None and map_type not in ("atomic", "granular"):
        yield not_supported(f"{path}.x-kubernetes-map-type", map_type, ("atomic", "granular"))
    if map_type is not None and raw.get("type") != "object":
        yield invalid_value(f"{path}.type", raw.get("type", ""), "must be object if x-kubernetes-map-type is specified")
    if raw.get("x-kubernetes-preserve-unknown-fields") is False:
        yield invalid_value(f"{path}.x-kubernetes-preserve-unknown-fields", False, "must be true or undefined")
    if list_type is None:
        if keys:
            yield forbidden_field(
                f"{path}.x-kubernetes-list-map-keys", "must be empty if x-kubernetes-list-type is not map"
            )
        return
    if raw.get("type") != "array":
        yield invalid_value(f"{path}.type", raw.get("type", ""), "must be array if x-kubernetes-list-type is specified")
    elif list_type not in ("atomic", "map", "set"):
        yield not_supported(f"{path}.x-kubernetes-list-type", list_type, ("atomic", "map", "set"))
    elif list_type == "map" and isinstance(raw.get("items"), dict):
        yield from _map_keys(raw["items"], keys or [], path)
    elif list_type == "set" and isinstance(raw.get("items"), dict):
        yield from _set_items(raw["items"], f"{path}.items")


def _set_items(items: Raw, path: str) -> Iterator[Cause]:
    """Check that items of a set are atomic."""
    inner = items.get("x-kubernetes-list-type")
    message = "must be atomic as item of a list with x-kubernetes-list-type=set"
    if items.get("type") == "array" and inner not in (None, "atomic"):
        yield invalid_value(f"{path}.x-kubernetes-list-type", inner, message)
    elif items.get("type") == "object" and items.get("x-kubernetes-map-type") != "atomic":
        yield invalid_value(f"{path}.x-kubernetes-map-type", inner, message)


def _map_keys(items: Raw, keys: list[str], path: str) -> Iterator[Cause]:
    if not keys:
        where = f"{path}.x-kubernetes-list-map-keys"
        yield required(where, "must not be empty if x-kubernetes-list-type is map")
    if items.get("type") != "object":
        message = "must be object if parent array's x-kubernetes-list-type is map"
        yield invalid_value(f"{path}.items.type", items.get("type", ""), message)
    fields = items.get("properties", {})
    for _ in (key for key in keys if key not in fields):  # the real server repeats the error
        yield invalid_value(f"{path}.x-kubernetes-list-map-keys", keys, "entries must all be names of item properties")
    if len(set(keys)) < len(keys):
        yield invalid_value(f"{path}.x-kubernetes-list-map-keys", keys, "must not contain duplicate entries")
    for key in keys:
        field = fields.get(key)
        if field is None:
            continue
        if key not in items.get("required", ()) and field.get("default") is None:
            message = (
                "this property is in x-kubernetes-list-map-keys, so it must have a default or be a required property"
            )
            yield required(f"{path}.items.properties[{key}].default", message)


def _values(raw: Raw, path: str) -> Iterator[Cause]:
    """Check that patterns can be compiled."""
    pattern = raw.get("pattern")
    if pattern:
        try:
            pattern_of(pattern)
        except ValueError as error:
            message = f"must be a valid regular expression, but isn't: {error}"
            yield invalid_value(f"{path}.pattern", pattern, message)


def _embedded(raw: Raw, path: str) -> Iterator[Cause]:
    if raw.get("type") != "object":
        message = "must be object if x-kubernetes-embedded-resource is true"
        yield invalid_value(f"{path}.type", raw.get("type", ""), message)
    if not raw.get("properties") and not raw.get("x-kubernetes-preserve-unknown-fields"):
        message = (
            "must not be empty if x-kubernetes-embedded-resource is true without x-kubernetes-preserve-unknown-fields"
        )
        yield required(f"{path}.properties", message)


# --- anyOf, oneOf, allOf and not, which may only narrow the schema outside of them


def _all_junctors(raw: Raw, path: str) -> Iterator[Cause]:
    for place, child in _junctors(raw):
        if raw.get("x-kubernetes-int-or-string") and _repeats_int_or_string(raw, place):
            continue
        yield from _narrowing(child, f"{path}.{place}", raw, path)


def _junctors(raw: Raw) -> Iterator[tuple[str, Raw]]:
    for key in ("allOf", "anyOf", "oneOf"):
        for number, child in enumerate(raw.get(key) or ()):
            yield f"{key}[{number}]", child
    if isinstance(raw.get("not"), dict):
        yield "not", raw["not"]


def _repeats_int_or_string(raw: Raw, place: str) -> bool:
    """Return True if alternatives only repeat that integers and strings are allowed."""
    if place.startswith("anyOf"):
        return bool(raw["anyOf"] == _INT_OR_STRING)
    return place == "allOf[0]" and bool(raw["allOf"][0] == {"anyOf": _INT_OR_STRING})


def _narrowing(raw: Raw, path: str, outside: Raw | None, outside_path: str) -> Iterator[Cause]:
    """Check a node inside a junctor: it has no types, and no fields that the schema outside does not describe."""
    for key in _UNDEFINED_IN_JUNCTORS:
        if key in raw:
            yield forbidden_field(f"{path}.{key}", "must be undefined to be structural")
    for key in _EMPTY_IN_JUNCTORS:
        if raw.get(key):
            yield forbidden_field(f"{path}.{key}", "must be empty to be structural")
    for key in _FALSE_IN_JUNCTORS:
        if raw.get(key):
            yield forbidden_field(f"{path}.{key}", "must be false to be structural")
    described = (outside or {}).get("properties", {})
    for key, child in sorted(raw.get("properties", {}).items()):
        place, outside_place = f"{path}.properties[{key}]", f"{outside_path}.properties[{key}]"
        if outside is not None and key not in described:
            yield required(outside_place, f"because it is defined in {place}")
        yield from _narrowing(child, place, described.get(key), outside_place)
    if isinstance(raw.get("items"), dict):
        if outside is not None and outside.get("items") is None:
            yield required(f"{outside_path}.items", f"because it is defined in {path}.items")
        yield from _narrowing(raw["items"], f"{path}.items", (outside or {}).get("items"), f"{outside_path}.items")
    for place, child in _junctors(raw):
        yield from _narrowing(child, f"{path}.{place}", outside, outside_path)


# --- defaults


def _defaults(raw: Raw, path: str) -> Iterator[Cause]:
    """Check that defaults are valid."""
    default = raw.get("default")
    if default is not None:
        yield from _default(raw, default, f"{path}.default")
    for _, child, place in _children(raw):
        yield from _defaults(child, f"{path}.{place}")


def _default(raw: Raw, value: Any, path: str) -> Iterator[Cause]:
    wrapped = from_openapi({"properties": {"value": raw}})
    pruned = {"value": deepcopy(value)}
    prune(wrapped, pruned)
    if pruned["value"] != value:
        yield invalid_value(path, value, "must not have unknown fields")
        return
    apply_defaults(wrapped, pruned)
    for cause in validate(wrapped, pruned):
        place = path + cause.field.removeprefix("value") if cause.field.startswith("value") else cause.field
        yield Cause(place, cause.reason, _relative(cause.message))


_IN_BODY = re.compile(r"\bvalue(\.?)([^ ]*) in body")


def _relative(message: str) -> str:
    """Return a message with the path below the default, without the field that contains it."""
    return _IN_BODY.sub(lambda found: f"{found[2]} in body", message)
