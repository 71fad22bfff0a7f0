"""Schemas of objects: the names and types of fields, and how lists and maps are merged.

A `Schema` is a node of the OpenAPI description of a kind, built-in (`kilauea.apiserver.schema.builtin`) or custom
(`kilauea.apiserver.schema.custom`). Nodes are created on first use and cached, so that recursive definitions work and
only used parts of a kind cost memory. They are immutable and shared by all requests.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cached_property
from typing import Any, TypeVar

Made = TypeVar("Made")
Resolve = Callable[[str], "Schema"]
"""Returns the node of a definition, by the name at the end of a `$ref`."""

OBJECT_META = "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"
RESOURCE_FIELDS: Mapping[str, Any] = {
    "apiVersion": {"type": "string"},
    "kind": {"type": "string"},
    "metadata": {"$ref": OBJECT_META},
}
"""Implicit fields of an embedded resource."""


class Schema:
    """One node of a structural schema.

    Attributes:
        raw: the OpenAPI node, with the keywords beside a reference merged over its target.
        layout: the encoding of the fields of a built-in definition in Go: `[=][*][Embedded/]type`, where `=` is always
            written, `*` distinguishes null from empty; empty for custom resources and for types that are not structs.
        name: the name of the definition, such as `io.k8s.api.core.v1.Container`; empty for a node within one.
        type: `object`, `array`, `string`, `integer`, `number`, `boolean`; empty if several are allowed.
        required: the names of required fields.
        enum: the allowed values, or None.
        format: the format, such as `date-time` or `int32`; empty if none.
        nullable: True if null is kept as a value.
        int_or_string: True if integers and strings are allowed.
        preserve_unknown: True if undescribed fields are kept.
        embedded: True if the object is an embedded resource with apiVersion, kind and metadata.
        patch_strategy: `merge`, `retainKeys`, or both with a comma; empty if none.
        merge_key: the field that identifies the items of a list in a strategic merge patch.
        list_type: `atomic` (the default), `set` or `map`.
        list_keys: the fields that identify the items of a map list.
        map_type: `granular` or `atomic`.
        derived: cached values derived from the node (see `derived`).
    """

    def __init__(
        self, raw: Mapping[str, Any], resolve: Resolve, name: str = "", layout: Mapping[str, str] | None = None
    ) -> None:
        self._resolve = resolve
        self.raw = raw
        self.name = name
        self.layout: Mapping[str, str] = layout or {}
        self.type: str = raw.get("type", "")
        self.format: str = raw.get("format", "")
        self.required: tuple[str, ...] = tuple(raw.get("required", ()))
        self.enum: list[Any] | None = raw.get("enum")
        self.nullable: bool = raw.get("nullable", False)
        self.int_or_string: bool = raw.get("x-kubernetes-int-or-string", False)
        self.preserve_unknown: bool = raw.get("x-kubernetes-preserve-unknown-fields", False)
        self.embedded: bool = raw.get("x-kubernetes-embedded-resource", False)
        self.patch_strategy: str = raw.get("x-kubernetes-patch-strategy", "")
        self.merge_key: str = raw.get("x-kubernetes-patch-merge-key", "")
        self.list_type: str = raw.get("x-kubernetes-list-type", "atomic")
        self.list_keys: tuple[str, ...] = tuple(raw.get("x-kubernetes-list-map-keys", ()))
        self.map_type: str = raw.get("x-kubernetes-map-type", "granular")
        self.derived: dict[Any, Any] = {}
        self.has_default = "default" in raw
        self.default: Any = raw.get("default")

    def __repr__(self) -> str:
        """Return the name of the definition, or the type."""
        return f"Schema({self.name or self.type or 'any'})"

    @cached_property
    def properties(self) -> Mapping[str, Schema]:
        """The described fields of an object."""
        described = self.raw.get("properties", {})
        if self.embedded:
            described = {**described, **RESOURCE_FIELDS}
        return {key: self._child(raw) for key, raw in described.items()}

    @cached_property
    def items(self) -> Schema | None:
        """The schema of the items of a list."""
        raw = self.raw.get("items")
        return None if raw is None else self._child(raw)

    @cached_property
    def additional(self) -> Schema | None:
        """The schema of the values of a map; None if only described fields are allowed."""
        raw = self.raw.get("additionalProperties")
        return None if raw is None or raw is False else self._child({} if raw is True else raw)

    def field(self, key: str) -> Schema | None:
        """Return the schema of a described field, or of a value of a map; None if the field is unknown."""
        return self.properties.get(key) or self.additional

    def _child(self, raw: Mapping[str, Any]) -> Schema:
        reference = raw.get("$ref")
        if reference is not None:
            return self._resolve(_definition_name(reference))
        wrapped = raw.get("allOf")
        if wrapped is not None and len(wrapped) == 1 and "$ref" in wrapped[0]:
            target = self._resolve(_definition_name(wrapped[0]["$ref"]))
            beside = {key: value for key, value in raw.items() if key != "allOf"}
            return Schema({**target.raw, **beside}, self._resolve, target.name, target.layout) if beside else target
        return Schema(raw, self._resolve)


def _definition_name(reference: str) -> str:
    return reference.rpartition("/")[2]


def derived(make: Callable[[Schema], Made]) -> Callable[[Schema], Made]:
    """Return a function that is computed once for each node and cached with it."""

    def of(schema: Schema) -> Made:
        try:
            made: Made = schema.derived[make]
        except KeyError:
            made = schema.derived[make] = make(schema)
        return made

    return of
