"""Schemas of objects: the names and types of fields, and how lists and maps are merged.

A `Schema` is one node of the OpenAPI description of a kind: of a built-in one (`kilauea.apiserver.schema.builtin`) or
of a custom one (`kilauea.apiserver.schema.custom`). Nodes are made when they are first asked for and kept, so that
recursive definitions work and a kind costs what is used of it. They never change; all requests share them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cached_property
from typing import Any, TypeVar

Made = TypeVar("Made")
Resolve = Callable[[str], "Schema"]
"""The node of a definition, by the name that a `$ref` ends with."""

OBJECT_META = "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"
RESOURCE_FIELDS: Mapping[str, Any] = {
    "apiVersion": {"type": "string"},
    "kind": {"type": "string"},
    "metadata": {"$ref": OBJECT_META},
}
"""Fields that a resource within a custom resource has without describing them."""


class Schema:
    """One node of a structural schema.

    Attributes:
        raw: the node as OpenAPI has it, with the keywords beside a reference merged over what is referred to.
        layout: how Go writes the fields of a built-in definition: `[=][*][Embedded/]type`, where `=` is always written,
            and `*` tells null from empty; empty for custom resources and for types that are not structs.
        name: name of the definition, such as `io.k8s.api.core.v1.Container`; empty for a node within one.
        type: `object`, `array`, `string`, `integer`, `number`, `boolean`; empty where several are allowed.
        required: names of fields that must be there.
        enum: allowed values, or None.
        format: such as `date-time` or `int32`; empty if none.
        nullable: True if null is kept as a value.
        int_or_string: True if whole numbers and text are both allowed.
        preserve_unknown: True if fields that are not described are kept.
        embedded: True if the object is a resource of its own, with apiVersion, kind and metadata.
        patch_strategy: `merge`, `retainKeys`, or both with a comma; empty if none.
        merge_key: field that tells the items of a list apart in a strategic merge patch.
        list_type: `atomic`, `set` or `map`; atomic where nothing is said.
        list_keys: fields that tell the items of a map list apart.
        map_type: `granular` or `atomic`.
        derived: what was made of the node (see `derived`), kept as long as the node.
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
        """The name of the definition, or the type."""
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
        """The schema of the values of a map with any keys; None if only described fields are allowed."""
        raw = self.raw.get("additionalProperties")
        return None if raw is None or raw is False else self._child({} if raw is True else raw)

    def field(self, key: str) -> Schema | None:
        """The schema of a field: as described, or as any key of a map; None if it is unknown."""
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
    """A function of a node that is computed once for each node and kept with it."""

    def of(schema: Schema) -> Made:
        try:
            made: Made = schema.derived[make]
        except KeyError:
            made = schema.derived[make] = make(schema)
        return made

    return of
