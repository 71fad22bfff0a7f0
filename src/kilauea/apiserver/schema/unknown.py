"""Fields that a schema does not describe: finding and removing them."""

from __future__ import annotations

from json import dumps
from typing import Any

from kilauea.apiserver.schema.nodes import Schema


def knows(schema: Schema, value: Any) -> bool:
    """Return True if a schema describes all fields of a value, the common case; avoids computing paths."""
    if isinstance(value, list):
        items = schema.items
        return items is None or all(knows(items, item) for item in value if isinstance(item, dict | list))
    if is_open(schema):
        return True
    properties, additional = schema.properties, schema.additional
    for key, each in value.items():
        child = properties.get(key) or additional
        if child is None:
            if not schema.preserve_unknown:
                return False
        elif isinstance(each, dict | list) and not knows(child, each):
            return False
    return True


def unknown_fields(schema: Schema, value: Any, path: str = "") -> list[str]:
    """Return the paths of the fields that a schema does not describe, such as `spec.containers[0].foo`, in order."""
    paths: list[str] = []
    if isinstance(value, list):
        if schema.items is not None:
            for index, item in enumerate(value):
                paths += unknown_fields(schema.items, item, f"{path}[{index}]")
    elif isinstance(value, dict) and not is_open(schema):
        for key, each in value.items():
            below = f"{path}.{key}" if path else key
            child = schema.field(key)
            if child is not None:
                paths += unknown_fields(child, each, below)
            elif not schema.preserve_unknown:
                paths.append(below)
    return paths


def unknown_field(path: str, *, custom: bool) -> str:
    """Return the message of strict validation about a field; the decoder of built-in kinds escapes quotes in it."""
    return f'unknown field "{path}"' if custom else f"unknown field {dumps(path, ensure_ascii=False)}"


def prune(schema: Schema, value: Any) -> None:
    """Remove, in place, the fields of an object that its schema does not describe."""
    if isinstance(value, list):
        if schema.items is not None:
            for item in value:
                prune(schema.items, item)
    elif isinstance(value, dict) and not is_open(schema):
        for key, each in list(value.items()):
            child = schema.field(key)
            if child is not None:
                prune(child, each)
            elif not schema.preserve_unknown:
                del value[key]


def is_open(schema: Schema) -> bool:
    """Return True if a node describes no fields, and so allows any."""
    return schema.preserve_unknown and not schema.properties and schema.additional is None
