"""Schemas of custom resources, from the structural OpenAPI schema of their definition."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any

from kilauea.apiserver.schema.builtin import definition
from kilauea.apiserver.schema.nodes import OBJECT_META, Schema
from kilauea.apiserver.schema.reading import read_builtin
from kilauea.apiserver.schema.unknown import knows, prune, unknown_fields


def from_openapi(openapi: Mapping[str, Any]) -> Schema:
    """Return the schema of a custom resource from `openAPIV3Schema`, which may omit apiVersion, kind and metadata."""
    return Schema({**openapi, "type": "object", "x-kubernetes-embedded-resource": True}, definition)


def read_custom(schema: Schema, obj: dict[str, Any], *, keep_nulls: bool = False) -> list[str]:
    """Reduce a custom resource in place to the fields of its schema; return the paths of the others, sorted.

    Non-nullable fields that are null count as absent. Metadata is read as for built-in kinds; the rest may still be
    invalid.

    Args:
        schema: the schema of the kind.
        obj: changed in place.
        keep_nulls: True to keep an invalid null without a default, so that it is rejected.

    Raises:
        DecodeError: a value in the metadata is not of the type of its field.
    """
    unknown: list[str] = []
    if not knows(schema, obj):
        unknown = unknown_fields(schema, obj)
        prune(schema, obj)
    if obj.get("metadata") is not None:
        read_builtin(definition(OBJECT_META), obj["metadata"])
    _settle(schema, obj, keep_nulls)
    return sorted(unknown)


def _settle(schema: Schema | None, value: Any, keep_nulls: bool) -> None:
    """Replace invalid nulls by the default or drop them, and write whole numbers as integers, as Go does."""
    if isinstance(value, list):
        below = schema.items if schema is not None else None
        for index, item in enumerate(value):
            if item.__class__ is float:
                value[index] = _number(item)
            elif isinstance(item, dict | list):
                _settle(below, item, keep_nulls)
    elif isinstance(value, dict):
        for key, each in list(value.items()):
            if each.__class__ is float:
                value[key] = _number(each)
            elif each is None or isinstance(each, dict | list):
                child = schema.field(key) if schema is not None else None
                if each is not None:
                    _settle(child, each, keep_nulls)
                elif child is not None and not child.nullable:
                    _settle_null(child, value, key, keep_nulls)


def _settle_null(schema: Schema, value: dict[str, Any], key: str, keep_nulls: bool) -> None:
    """Replace an invalid null by the default, or drop it."""
    if schema.has_default:
        value[key] = copy.deepcopy(schema.default)
    elif not keep_nulls:
        del value[key]


def _number(value: float) -> int | float:
    return int(value) if value.is_integer() and abs(value) < _LARGEST_PLAIN else value


_LARGEST_PLAIN = 1e21
"""The number from which Go writes an exponent."""
