"""Schemas of custom resources, from the structural OpenAPI schema that their definition carries."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kilauea.apiserver.schema.builtin import definition
from kilauea.apiserver.schema.nodes import Schema


def from_openapi(openapi: Mapping[str, Any]) -> Schema:
    """The schema of a custom resource from `openAPIV3Schema`; apiVersion, kind and metadata need not be described."""
    return Schema({**openapi, "type": "object", "x-kubernetes-embedded-resource": True}, definition)
