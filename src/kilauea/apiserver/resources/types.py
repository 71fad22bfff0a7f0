"""A served kind: its names, scope, verbs and the rules for its objects."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Protocol

from kilauea.apiserver.schema import Schema, builtin_schema
from kilauea.apiserver.strategies.base import Strategy
from kilauea.apiserver.tables.columns import TableForm

ALL_VERBS = ("create", "delete", "deletecollection", "get", "list", "patch", "update", "watch")
STATUS_VERBS = ("get", "patch", "update")


@dataclass(frozen=True)
class Subresource:
    """A subresource such as `scale`, with the group, version and kind of its requests and responses."""

    name: str
    kind: str
    verbs: tuple[str, ...]
    group: str
    version: str


class StoredForm(Protocol):
    """Objects of a built-in kind that are stored as those of another group or version."""

    def stored(self, obj: dict[str, Any]) -> dict[str, Any]:
        """Return the stored form of an object; an object in that form is unchanged."""
        ...

    def served(self, value: bytes, api_version: str) -> bytes:
        """Return stored bytes in the form of a version, with kind, apiVersion and metadata first."""
        ...


class Conversion(Protocol):
    """Converts the objects of a definition between versions; they are stored in the version `storage`."""

    storage: str

    @property
    def is_plain(self) -> bool:
        """True if only the apiVersion changes."""
        ...

    def served(self, value: bytes, api_version: str) -> bytes:
        """Return stored bytes in a version, if conversion is plain or they are in that version."""
        ...

    async def convert(self, objects: list[dict[str, Any]], api_version: str) -> list[dict[str, Any]]:
        """Return the objects converted to a version; raises an `ApiFault` if that fails."""
        ...


@dataclass(frozen=True)
class ResourceType:
    """One resource of one version of a group; an empty group is the core group."""

    group: str
    version: str
    plural: str
    kind: str
    namespaced: bool = True
    short_names: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()
    singular: str = ""
    list_kind: str = ""
    verbs: tuple[str, ...] = ALL_VERBS
    subresources: tuple[Subresource, ...] = ()
    strategy: Strategy = field(default_factory=Strategy)
    custom_schema: Schema | None = None
    """The schema of a custom kind; None for a built-in kind."""
    storage_version_hash: str = ""
    table: TableForm | None = None
    """The table for `kubectl get`; None for the built-in form."""
    other_form: StoredForm | None = None
    """The stored form of objects, if it is that of another kind or version; None for their own."""
    conversion: Conversion | None = None
    """The conversion between the versions of a definition; None if it has only one."""
    late_defaults: Callable[[bytes], bytes] | None = None
    """Sets defaults in objects that are older than the schema; None if none are."""
    stored_group: str | None = None
    """The group under which objects are stored, if several groups serve the same ones; None for its own."""

    told_schema: Mapping[str, Any] | None = None
    """The OpenAPI schema of a kind that is computed and never stored; None for any other kind."""

    @cached_property
    def api_version(self) -> str:
        """`v1`, or `apps/v1`."""
        return f"{self.group}/{self.version}" if self.group else self.version

    @cached_property
    def schema(self) -> Schema:
        """The schema of its objects."""
        return self.custom_schema or builtin_schema(self.group, self.version, self.kind)

    @property
    def is_custom(self) -> bool:
        """True if the kind comes from a definition."""
        return self.custom_schema is not None

    @property
    def has_protobuf(self) -> bool:
        """True if its objects have a protobuf form: those of built-in kinds that the server stores."""
        return self.custom_schema is None and self.told_schema is None

    @cached_property
    def singular_name(self) -> str:
        """The singular name; by default the kind in lower case."""
        return self.singular or self.kind.lower()

    @cached_property
    def kind_of_list(self) -> str:
        """The kind of the list."""
        return self.list_kind or f"{self.kind}List"

    @cached_property
    def root(self) -> str:
        """The prefix of the keys of all objects."""
        group = self.group if self.stored_group is None else self.stored_group
        return f"/{group or 'core'}/{self.plural}/"

    @cached_property
    def head(self) -> bytes:
        """The first bytes of every stored object, which lists omit, as the real server does for built-in kinds."""
        return f'{{"kind":"{self.kind}","apiVersion":"{self.api_version}",'.encode()

    @cached_property
    def is_served_as_stored(self) -> bool:
        """True if `served` changes nothing."""
        return self.conversion is None and self.other_form is None and self.late_defaults is None

    def served(self, value: bytes) -> bytes:
        """Return stored bytes in the form of this version."""
        if self.conversion is not None:
            value = self.conversion.served(value, self.api_version)
        elif self.other_form is not None:
            value = self.other_form.served(value, self.api_version)
        return value if self.late_defaults is None else self.late_defaults(value)

    def key(self, namespace: str, name: str) -> str:
        """Return the key of an object in the store."""
        return f"{self.root}{namespace}/{name}" if self.namespaced else self.root + name

    def prefix(self, namespace: str) -> str:
        """Return the prefix of the keys of all objects, or of those in a namespace."""
        return f"{self.root}{namespace}/" if namespace and self.namespaced else self.root

    def subresource(self, name: str) -> Subresource | None:
        """Return a subresource by its name."""
        return self._by_name.get(name)

    @cached_property
    def _by_name(self) -> dict[str, Subresource]:
        return {each.name: each for each in self.subresources}
