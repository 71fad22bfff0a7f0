"""Metadata that every Kubernetes object carries, and the label selectors that refer to it.

Only the fields that Kilauea reads are named; others are skipped while decoding. Every field may be absent or null, as
objects written by people are.
"""

from __future__ import annotations

import msgspec


class Wire(msgspec.Struct, rename="camel", omit_defaults=True):
    """Base of all wire types: camelCase on the wire, unknown fields are ignored."""


class OwnerReference(Wire):
    """One entry of `metadata.ownerReferences`."""

    kind: str = ""
    name: str = ""
    uid: str = ""
    api_version: str = ""
    controller: bool | None = None
    block_owner_deletion: bool | None = None


class ObjectMeta(Wire):
    """`metadata`: identity, labels and times (RFC 3339 text) of an object."""

    name: str = ""
    namespace: str | None = None
    uid: str | None = None
    resource_version: str | None = None
    generation: int | None = None
    labels: dict[str, str] | None = None
    annotations: dict[str, str] | None = None
    creation_timestamp: str | None = None
    deletion_timestamp: str | None = None
    owner_references: list[OwnerReference] | None = None
    finalizers: list[str] | None = None


class SelectorRequirement(Wire):
    """`key operator values`, as label selectors and node selectors use it."""

    key: str = ""
    operator: str = ""
    values: list[str] | None = None


class LabelSelector(Wire):
    """`metav1.LabelSelector`; all parts must hold, an empty one matches everything."""

    match_labels: dict[str, str] | None = None
    match_expressions: list[SelectorRequirement] | None = None


class Condition(Wire):
    """`metav1.Condition`: something that is so, or is not, since a time."""

    type: str = ""
    status: str = ""
    observed_generation: int | None = None
    last_transition_time: str = ""
    reason: str = ""
    message: str = ""


class Object(Wire):
    """Fields of every kind: apiVersion, kind and metadata."""

    api_version: str = ""
    kind: str = ""
    metadata: ObjectMeta = msgspec.field(default_factory=ObjectMeta)

    @property
    def name(self) -> str:
        """Name of the object, unique in its namespace (or in the cluster, for kinds without one)."""
        return self.metadata.name

    @property
    def namespace(self) -> str:
        """Namespace of the object; `default` when it does not name one."""
        return self.metadata.namespace or "default"

    @property
    def key(self) -> str:
        """`namespace/name`, the key that plans and messages use for namespaced kinds."""
        return f"{self.namespace}/{self.metadata.name}"

    @property
    def labels(self) -> dict[str, str]:
        """Labels, never None."""
        return self.metadata.labels or {}

    @property
    def annotations(self) -> dict[str, str]:
        """Annotations, never None."""
        return self.metadata.annotations or {}


ResourceMap = dict[str, str | int | float]
"""A Kubernetes resource list: name to quantity, as text or as a bare number."""
