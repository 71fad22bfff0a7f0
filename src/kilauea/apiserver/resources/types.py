"""A kind as the server knows it: its names, its scope, its verbs and the rules for its objects."""

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
    """Something below an object, e.g. `scale`. The group, version and kind are those of what is sent and answered."""

    name: str
    kind: str
    verbs: tuple[str, ...]
    group: str
    version: str


class StoredForm(Protocol):
    """Objects of a built-in kind that are stored as those of another group or version."""

    def stored(self, obj: dict[str, Any]) -> dict[str, Any]:
        """Return the stored form of an object; an object in that form stays as it is."""
        ...

    def served(self, value: bytes, api_version: str) -> bytes:
        """Return stored bytes in the form of a version, with kind, apiVersion and metadata first."""
        ...


class Conversion(Protocol):
    """Converts the objects of a definition between its versions; they are stored in the version `storage`."""

    storage: str

    @property
    def is_plain(self) -> bool:
        """True if nothing but the apiVersion changes."""
        ...

    def served(self, value: bytes, api_version: str) -> bytes:
        """Return stored bytes in a version, if conversion is plain or they are in that version."""
        ...

    async def convert(self, objects: list[dict[str, Any]], api_version: str) -> list[dict[str, Any]]:
        """Return the objects in a version; raises an `ApiFault` if that fails."""
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
    """The schema of a kind that a definition brought; None for a built-in kind."""
    storage_version_hash: str = ""
    table: TableForm | None = None
    """The table that `kubectl get` shows; None for the built-in form."""
    other_form: StoredForm | None = None
    """The form in which objects are stored, where that is another kind's or version's; None for their own."""
    conversion: Conversion | None = None
    """Between the versions of a definition; None if there is one only, in which all objects are stored."""
    late_defaults: Callable[[bytes], bytes] | None = None
    """Fills in what objects lack that are older than the schema; None if there are none."""
    stored_group: str | None = None
    """Group under which the objects are kept, where several groups serve the same ones; None for its own."""

    told_schema: Mapping[str, Any] | None = None
    """The schema in OpenAPI of a kind that is told when it is asked for and never stored; None for any other kind."""

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

    @cached_property
    def singular_name(self) -> str:
        """The kind in lower case unless it says otherwise."""
        return self.singular or self.kind.lower()

    @cached_property
    def kind_of_list(self) -> str:
        """The kind of a list of these."""
        return self.list_kind or f"{self.kind}List"

    @cached_property
    def root(self) -> str:
        """Prefix of the keys of all objects."""
        group = self.group if self.stored_group is None else self.stored_group
        return f"/{group or 'core'}/{self.plural}/"

    @cached_property
    def head(self) -> bytes:
        """The first bytes of every stored object; lists leave them out, as the real server does for its own kinds."""
        return f'{{"kind":"{self.kind}","apiVersion":"{self.api_version}",'.encode()

    @cached_property
    def is_served_as_stored(self) -> bool:
        """True if `served` changes nothing."""
        return self.conversion is None and self.other_form is None and self.late_defaults is None

    def served(self, value: bytes) -> bytes:
        """Stored bytes in the form of this version."""
        if self.conversion is not None:
            value = self.conversion.served(value, self.api_version)
        elif self.other_form is not None:
            value = self.other_form.served(value, self.api_version)
        return value if self.late_defaults is None else self.late_defaults(value)

    def key(self, namespace: str, name: str) -> str:
        """Key of an object in the store."""
        return f"{self.root}{namespace}/{name}" if self.namespaced else self.root + name

    def prefix(self, namespace: str) -> str:
        """Prefix of the keys of all objects, or of those in a namespace."""
        return f"{self.root}{namespace}/" if namespace and self.namespaced else self.root

    def subresource(self, name: str) -> Subresource | None:
        """A subresource by its name."""
        return self._by_name.get(name)

    @cached_property
    def _by_name(self) -> dict[str, Subresource]:
        return {each.name: each for each in self.subresources}
