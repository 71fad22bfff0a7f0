"""The kinds that the server stores, for controllers that handle objects of every kind.

A controller that calls `stored_kinds` has `DEFINED_KINDS` among its interests.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

from kilauea.api.kinds import BUILT_IN, DEFINITIONS, defined_kind
from kilauea.api.ports import Aggregation, Interest, Key, Obj, Resource, View, no_keys

ALL = "all"
"""The value that every definition has."""
NAME = "kinds that are defined"
VERSION_FIELDS = ("spec.versions[].name", "spec.versions[].served", "spec.versions[].storage")
FIELDS = ("spec.group", "spec.names", "spec.scope", *VERSION_FIELDS, "status.conditions")
"""Fields of a definition that determine its kind; its schemas, which can take a megabyte, do not."""


class DefinedKinds:
    """The kinds that definitions add, kept up to date by definition: an aggregate."""

    def __init__(self) -> None:
        self._kinds: dict[Key, Resource | None] = {}
        self._found: tuple[Resource, ...] | None = None

    def __len__(self) -> int:
        return len(self._kinds)

    def put(self, key: Key, obj: Obj) -> None:
        """Add or update a definition."""
        self._kinds[key], self._found = defined_kind(obj), None

    def drop(self, key: Key) -> None:
        """Remove a definition."""
        self._kinds.pop(key, None)
        self._found = None

    @property
    def found(self) -> Sequence[Resource]:
        """The kinds, in the order of the definitions' names."""
        if self._found is None:
            self._found = tuple(kind for _, kind in sorted(self._kinds.items()) if kind is not None)
        return self._found


def _all(_: Obj) -> str:
    return ALL


DEFINED_KINDS = Interest(
    DEFINITIONS,
    no_keys,
    fields=FIELDS,
    aggregates={NAME: Aggregation(_all, DefinedKinds)},
)
"""The interest of a controller that calls `stored_kinds`."""


def stored_kinds(view: View) -> Sequence[Resource]:
    """All kinds that the server stores: those built in, then those that are defined and established."""
    defined = cast(DefinedKinds | None, view.aggregate(DEFINITIONS, NAME, ALL))
    return BUILT_IN if defined is None else (*BUILT_IN, *defined.found)
