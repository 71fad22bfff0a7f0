"""Schemas of custom resources, from the structural OpenAPI schema that their definition carries."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kilauea.apiserver.schema.builtin import definition
from kilauea.apiserver.schema.nodes import OBJECT_META, Schema
from kilauea.apiserver.schema.reading import read_builtin
from kilauea.apiserver.schema.unknown import prune, unknown_fields


def from_openapi(openapi: Mapping[str, Any]) -> Schema:
    """The schema of a custom resource from `openAPIV3Schema`; apiVersion, kind and metadata need not be described."""
    return Schema({**openapi, "type": "object", "x-kubernetes-embedded-resource": True}, definition)


def read_custom(schema: Schema, obj: dict[str, Any]) -> list[str]:
    """Reduce a custom resource, in place, to the fields that its schema knows; returns the paths of the others, sorted.

    Fields that are null and must not be count as absent. Metadata is read as that of built-in kinds; what else is there
    may still be invalid.

    Raises:
        DecodeError: a value in the metadata is not of the type of its field.
    """
    unknown = unknown_fields(schema, obj)
    if unknown:
        prune(schema, obj)
    if obj.get("metadata") is not None:
        read_builtin(definition(OBJECT_META), obj["metadata"])
    _drop_nulls(schema, obj)
    return sorted(unknown)


def _drop_nulls(schema: Schema, value: Any) -> None:
    if isinstance(value, list):
        if schema.items is not None:
            for item in value:
                _drop_nulls(schema.items, item)
    elif isinstance(value, dict):
        for key, each in list(value.items()):
            child = schema.field(key)
            if child is None:
                continue
            if each is None and not child.nullable:
                del value[key]
            else:
                _drop_nulls(child, each)
