"""Roles and bindings as far as decisions need them, decoded once for each version of an object."""

from __future__ import annotations

from functools import lru_cache

import msgspec


class PolicyRule(msgspec.Struct, frozen=True, rename="camel"):
    """Actions that a role allows; an empty list of names stands for all of them."""

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
    """The role that is bound."""

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


role_of = lru_cache(maxsize=4096)(msgspec.json.Decoder(Role).decode)
"""The role in stored bytes."""
binding_of = lru_cache(maxsize=4096)(msgspec.json.Decoder(Binding).decode)
"""The binding in stored bytes."""
