"""The CEL types of the values that a schema describes, with their maximum sizes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from kilauea.api.cel.typing import (
    BOOL,
    BYTES,
    DOUBLE,
    DURATION,
    DYN,
    INT,
    STRING,
    TIMESTAMP,
    Type,
    list_of,
    map_of,
    object_of,
)
from kilauea.apiserver.schema.nodes import Schema
from kilauea.apiserver.schema.rule_values import escaped

Raw = Mapping[str, Any]
LARGEST_REQUEST = 3 * 1024 * 1024
"""Maximum bytes of a request. A value without a limit in its schema is as large as fits into one."""
_LONGEST_TEXT = LARGEST_REQUEST - 2
_TIMES: Mapping[str, Type] = {
    "duration": replace(DURATION, most=32, least_bytes=3),
    "date": replace(TIMESTAMP, most=12, least_bytes=12),
    "date-time": replace(TIMESTAMP, most=32, least_bytes=21),
}
_PLAIN: Mapping[str, Type] = {
    "boolean": replace(BOOL, least_bytes=4),
    "number": replace(DOUBLE, least_bytes=1),
    "integer": replace(INT, least_bytes=1),
}
_TEXT = replace(STRING, most=_LONGEST_TEXT)
_METADATA: Mapping[str, Any] = {
    "type": "object", "properties": {"name": {"type": "string"}, "generateName": {"type": "string"}}
}  # fmt: skip


def type_of_schema(raw: Raw, name: str, *, whole: bool) -> Type | None:
    """Return the type of the values of a schema; None if expressions cannot access them.

    Args:
        raw: the schema.
        name: the name of the type if it is an object, which is the prefix of the names of its parts.
        whole: True if it is the schema of a whole object, whose kind and name expressions can access.
    """
    if raw.get("x-kubernetes-int-or-string"):
        most = raw["maxLength"] * 4 if "maxLength" in raw else _LONGEST_TEXT
        return replace(DYN, most=most, least_bytes=1)
    kind = raw.get("type")
    if kind == "array":
        return _list(raw, name)
    if kind == "object":
        return _map(raw, name) if isinstance(raw.get("additionalProperties"), dict) else _object(raw, name, whole)
    return _text(raw) if kind == "string" else _PLAIN.get(str(kind))


def _list(raw: Raw, name: str) -> Type | None:
    item = _part(raw.get("items") or {}, f"{name}.@idx")
    if item is None:
        return None
    most = raw.get("maxItems")
    return list_of(item, max(most, 0) if most is not None else (LARGEST_REQUEST - 2) // (item.least_bytes + 1))


def _map(raw: Raw, name: str) -> Type | None:
    value = _part(raw["additionalProperties"], f"{name}.@elem")
    if value is None:
        return None
    most = raw.get("maxProperties")
    return map_of(STRING, value, max(most, 0) if most is not None else (LARGEST_REQUEST - 2) // (value.least_bytes + 6))


def _part(raw: Raw, name: str) -> Type | None:
    return type_of_schema(raw, name, whole=bool(raw.get("x-kubernetes-embedded-resource")))


def _object(raw: Raw, name: str, whole: bool) -> Type:
    properties = dict(raw.get("properties") or {})
    if whole:
        given = properties.get("metadata") or {}
        own = {**_METADATA["properties"], **(given.get("properties") or {})}
        properties |= {"apiVersion": {"type": "string"}, "kind": {"type": "string"}}
        properties["metadata"] = {**_METADATA, "properties": own}
    needed = frozenset(raw.get("required") or ())
    fields: dict[str, Type] = {}
    least = 2
    for key, child in properties.items():
        field = _part(child, f"{name}.{key}")
        if field is None:
            continue
        fields[escaped(key)] = field
        if key in needed and "default" not in child:
            least += len(key) + field.least_bytes + 4
    return object_of(name, fields, least)


def _text(raw: Raw) -> Type:
    form, longest = raw.get("format") or "", raw.get("maxLength")
    if form in _TIMES:
        return _TIMES[form]
    if form == "byte":
        return replace(BYTES, most=_LONGEST_TEXT if longest is None else max(longest, 0))
    if longest is not None:
        return replace(STRING, most=max(longest, 0) * 4)  # a character may be four bytes
    if raw.get("enum"):
        return replace(STRING, most=max((len(str(each).encode()) for each in raw["enum"]), default=0))
    return _TEXT


# --- types of schema nodes of any kind


def type_of_node(node: Schema, name: str) -> Type | None:
    """Return the type of the values of a schema node; None if expressions cannot access them.

    Fields are resolved only when an expression uses them, as kinds may be recursive.
    """
    if node.int_or_string or node.format == "int-or-string":
        return DYN
    if node.type == "array":
        item = type_of_node(node.items, f"{name}.@idx") if node.items is not None else None
        return None if item is None else list_of(item)
    if node.type == "object":
        value = node.additional
        if value is None or node.properties:
            return object_of(name, _Fields(node, name))
        found = type_of_node(value, f"{name}.@elem")
        return None if found is None else map_of(STRING, found)
    return _text(node.raw) if node.type == "string" else _PLAIN.get(node.type)


class _Fields(Mapping[str, Type]):
    """The fields of an object, by their names in expressions."""

    def __init__(self, node: Schema, name: str) -> None:
        self._name = name
        self._nodes = {escaped(key): child for key, child in node.properties.items()}

    def __getitem__(self, key: str) -> Type:
        found = type_of_node(self._nodes[key], f"{self._name}.{key}")
        if found is None:
            raise KeyError(key)
        return found

    def __iter__(self) -> Iterator[str]:
        return iter(self._nodes)

    def __len__(self) -> int:
        return len(self._nodes)
