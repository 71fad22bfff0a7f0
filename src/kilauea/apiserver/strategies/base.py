"""The rules that a kind may override; the class itself suits kinds without rules of their own.

The verbs call the methods in this order: `default`, then admission, then `prepare_*`, then `validate_*`. Objects are
dicts; preparation changes them in place, validation does not.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cached_property
from types import MappingProxyType
from typing import Any, Literal, NamedTuple

from kilauea.api.names import subdomain_problems
from kilauea.apiserver.status import Cause
from kilauea.apiserver.strategies.path_reader import reader_of

Object = dict[str, Any]


METADATA = ("labels", "annotations", "finalizers", "ownerReferences")
"""The metadata that users write."""


class ScalePaths(NamedTuple):
    """Paths of the values of `scale` in an object."""

    replicas: str = "spec.replicas"
    current: str = "status.replicas"
    selector: str = "spec.selector"
    plain: bool = False
    """True if the selector is a map of labels."""


class Strategy:
    """The rules of one kind."""

    scale = ScalePaths()

    has_status = True
    """True if `status` belongs to the status subresource, so that other writes do not change it."""
    has_generation = True
    """True if `metadata.generation` counts the changes of the specification."""
    unconditional_update = True
    """True if an update may come without a resourceVersion."""
    create_on_update = False
    """True if an update of a missing object creates it."""
    answers_deleted_object = False
    """True if a deletion is answered with the object, and not with a Status."""
    is_graceful = False
    """True if deletion may give the object time to end (pods)."""
    deletes_plainly = False
    """True if the start of a deletion sets its time and nothing else (kinds with a deletion of their own)."""
    is_named = False
    """True if a new object that comes without a name is given one (limit ranges)."""
    propagation: Literal["Background", "Foreground", "Orphan"] = "Background"
    """The treatment of dependents when a deletion does not choose one."""
    selectable: tuple[str, ...] = ()
    """Field selectors beyond `metadata.name` and `metadata.namespace`."""
    deprecated = ""
    """The warning that every answer about the kind has; empty for none."""
    unowned: Mapping[str, tuple[str, ...]] = {}
    """Fields that a write does not change, by subresource, where they are not the usual ones."""
    sources: Mapping[str, tuple[str, ...]] = MappingProxyType({})
    """Paths at which a stored object has a selectable field, unless it is the field's own; the first value counts."""
    kept_in_status: tuple[str, ...] = ()
    """Metadata that a write of the status does not change, beside what only the server may say."""
    orphan_warning = ""
    """The warning to those whose deletion does not say what becomes of dependents; empty for none."""
    zero_values: Mapping[str, str] = MappingProxyType({})
    """Values of selectable fields that objects may leave out; empty unless given."""
    are_alike = False
    """True if many objects are made that differ in their names and variables only (pods)."""
    checks_metadata_last = False
    """True if metadata is only looked at where all else is well."""
    checks_metadata_between = False
    """True if metadata is looked at between `validate` and `validate_last`."""
    name_problems: Callable[[str], tuple[str, ...]] = staticmethod(subdomain_problems)
    """Return the errors in a name for an object of this kind."""

    def default(self, obj: Object) -> None:
        """Fill in what the caller left out."""

    def note_times(self, obj: Object, old: Object | None, now: str) -> None:
        """Fill in times that the caller left out; `old` is the object before, None for a new one."""

    def prepare_create(self, obj: Object) -> None:
        """Remove fields that a new object may not set."""
        if self.has_status:
            obj.pop("status", None)
        if self.has_generation:
            obj["metadata"]["generation"] = 1

    def prepare_update(self, obj: Object, old: Object) -> None:
        """Restore fields that an update may not change: the status stays; a change of the rest counts."""
        if self.has_status:
            keep(obj, old, "status")
        if self.has_generation:
            count_generation(obj, old)

    def prepare_status(self, obj: Object, old: Object) -> None:
        """An update of the status changes nothing else, but for the metadata of most kinds."""
        for field in [name for name in {**old, **obj} if name not in ("status", "metadata", "kind", "apiVersion")]:
            keep(obj, old, field)
        metadata, before = obj["metadata"], old["metadata"]
        for field in ("generation", "deletionTimestamp", *self.kept_in_status):
            keep(metadata, before, field)

    def prepare_part(self, obj: Object, old: Object, subresource: str) -> None:
        """Restore fields that an update of any other subresource may not change: the status."""
        keep(obj, old, "status")
        if self.has_generation:
            count_generation(obj, old)

    def validate(self, obj: Object) -> list[Cause]:
        """Return the errors in an object."""
        return []

    def validate_last(self, obj: Object) -> list[Cause]:
        """Return the errors in a new object that are told after those in its metadata."""
        return []

    def validate_change(self, obj: Object, old: Object) -> list[Cause]:
        """Return the errors in an updated object; custom resources ignore those in values that did not change."""
        return self.validate(obj)

    def validate_update(self, obj: Object, old: Object) -> list[Cause]:
        """Return the errors in a change between valid objects."""
        return []

    def validate_part(self, obj: Object, old: Object, subresource: str) -> list[Cause]:
        """Return the errors in a change through any other subresource."""
        return []

    def validate_status(self, obj: Object, old: Object) -> list[Cause]:
        """Return the errors in a change of the status."""
        return []

    def warnings_of_change(self, obj: Object, old: Object) -> list[str]:
        """Return what may not be meant in an object that was updated."""
        return self.warnings(obj) if obj.get("spec") != old.get("spec") else []

    def warnings(self, obj: Object) -> list[str]:
        """Return the warnings about a valid specification."""
        return []

    def grace_seconds(self, obj: Object, asked: int | None) -> int:
        """Return the seconds for which a deletion waits for the object to end; only pods take time."""
        return 0

    def prepare_delete(self, obj: Object) -> None:
        """Change an object when its deletion starts."""

    def field(self, obj: Mapping[str, Any], path: str) -> str:
        """The value of a selectable field of an object that `read_fields` has read."""
        for source in self.sources.get(path, (path,)):
            found = text_at(obj, source)
            if found:
                return found
        return self.zero_values.get(path, "")

    @cached_property
    def read_fields(self) -> Callable[[bytes], Mapping[str, Any]]:
        """Reads of a stored object what its selectable fields need."""
        return reader_of(source for path in self.selectable for source in self.sources.get(path, (path,)))

    def may_go(self, obj: Object) -> bool:
        """Return True if an object that is being deleted, and has no finalizers left, can be removed."""
        return True


def keep(obj: Object, old: Mapping[str, Any], field: str) -> None:
    """Put a field back to what it was."""
    if field in old:
        obj[field] = old[field]
    else:
        obj.pop(field, None)


def count_generation(obj: Object, old: Object) -> None:
    """Add one to the generation if anything but metadata and status changed, or deletion was asked for."""
    generation = old["metadata"].get("generation", 1)
    parts = {**old, **obj}.keys() - {"metadata", "status", "kind", "apiVersion"}
    changed = any(obj.get(part) != old.get(part) for part in parts)
    obj["metadata"]["generation"] = generation + 1 if changed else generation


def text_at(obj: Mapping[str, Any], path: str) -> str:
    """The value at a path as field selectors compare it; empty if there is none."""
    value: Any = obj
    for step in path.split("."):
        value = value.get(step) if isinstance(value, Mapping) else None
    if isinstance(value, bool):
        return "true" if value else "false"
    return "" if value is None else str(value)


def spec_of(obj: Mapping[str, Any]) -> Object:
    """The specification, an empty one if there is none."""
    spec = obj.get("spec")
    return spec if isinstance(spec, dict) else {}
