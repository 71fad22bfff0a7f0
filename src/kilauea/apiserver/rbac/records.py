"""Roles and bindings, reduced to the fields that decisions need."""

from __future__ import annotations

import msgspec


class PolicyRule(msgspec.Struct, frozen=True, rename="camel"):
    """Actions that a role allows; an empty list of names means all."""

    verbs: tuple[str, ...] = ()
    api_groups: tuple[str, ...] = ()
    resources: tuple[str, ...] = ()
    resource_names: tuple[str, ...] = ()
    non_resource_urls: tuple[str, ...] = msgspec.field(default=(), name="nonResourceURLs")


class Subject(msgspec.Struct, frozen=True):
    """A subject of a binding."""

    kind: str = ""
    name: str = ""
    namespace: str = ""


class RoleRef(msgspec.Struct, frozen=True):
    """The bound role."""

    kind: str = ""
    name: str = ""


class _Name(msgspec.Struct, frozen=True):
    name: str = ""


class Role(msgspec.Struct, frozen=True):
    """A Role or ClusterRole."""

    metadata: _Name
    rules: tuple[PolicyRule, ...] | None = None


class Binding(msgspec.Struct, frozen=True, rename="camel"):
    """A RoleBinding or ClusterRoleBinding."""

    metadata: _Name
    role_ref: RoleRef
    subjects: tuple[Subject, ...] | None = None


read_role = msgspec.json.Decoder(Role).decode
"""Decode a role from stored bytes."""
read_binding = msgspec.json.Decoder(Binding).decode
"""Decode a binding from stored bytes."""
