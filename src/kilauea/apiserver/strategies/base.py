"""The rules that a kind may override; the class itself serves kinds without special rules.

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
    always_warns = False
    """True if an update has all warnings about the object, also if its specification does not change."""
    answers_deleted_object = False
    """True if a deletion returns the object instead of a Status."""
    is_graceful = False
    """True if deletion may have a grace period (pods)."""
    deletes_plainly = False
    """True if the start of a deletion sets only its time (kinds with special deletion)."""
    is_named = False
    """True if a new object without a name gets one (limit ranges)."""
    propagation: Literal["Background", "Foreground", "Orphan"] = "Background"
    """The default propagation policy of a deletion."""
    selectable: tuple[str, ...] = ()
    """Field selectors beyond `metadata.name` and `metadata.namespace`."""
    deprecated = ""
    """The warning in every response for the kind; empty for none."""
    unowned: Mapping[str, tuple[str, ...]] = {}
    """Fields that a write does not change, by subresource, if they differ from the default."""
    sources: Mapping[str, tuple[str, ...]] = MappingProxyType({})
    """Paths of selectable fields in stored objects, if they differ from the field; the first value counts."""
    kept_in_status: tuple[str, ...] = ()
    """Metadata that a write of the status does not change, besides the metadata that only the server sets."""
    orphan_warning = ""
    """The warning about a deletion without a propagation policy; empty for none."""
    zero_values: Mapping[str, str] = MappingProxyType({})
    """Default values of selectable fields that objects may omit; the empty string unless listed."""
    are_alike = False
    """True if many objects differ only in their names and environment variables (pods)."""
    checks_metadata_last = False
    """True if metadata is checked only if everything else is valid."""
    checks_metadata_between = False
    """True if metadata is checked between `validate` and `validate_last`."""
    name_problems: Callable[[str], tuple[str, ...]] = staticmethod(subdomain_problems)
    """Return the errors in a name for an object of this kind."""

    def default(self, obj: Object) -> None:
        """Set defaults."""

    def note_times(self, obj: Object, old: Object | None, now: str) -> None:
        """Set missing times; `old` is the previous object, None for a new one."""

    def prepare_create(self, obj: Object) -> None:
        """Remove fields that a new object may not set."""
        if self.has_status:
            obj.pop("status", None)
        if self.has_generation:
            obj["metadata"]["generation"] = 1

    def prepare_update(self, obj: Object, old: Object) -> None:
        """Restore fields that an update may not change, such as the status, and count a change of the rest."""
        if self.has_status:
            keep(obj, old, "status")
        if self.has_generation:
            count_generation(obj, old)

    def prepare_status(self, obj: Object, old: Object) -> None:
        """Restore all fields but the status and, for most kinds, the metadata."""
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
        """Return the errors in a new object that are reported after those in its metadata."""
        return []

    def validate_change(self, obj: Object, old: Object) -> list[Cause]:
        """Return the errors in an updated object; custom resources ignore those in unchanged values."""
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
        """Return the warnings about an updated object."""
        return self.warnings(obj) if self.always_warns or obj.get("spec") != old.get("spec") else []

    def warnings(self, obj: Object) -> list[str]:
        """Return the warnings about a valid specification."""
        return []

    def grace_seconds(self, obj: Object, asked: int | None) -> int:
        """Return the grace period of a deletion in seconds; not 0 only for pods."""
        return 0

    def prepare_delete(self, obj: Object) -> None:
        """Change an object when its deletion starts."""

    def field(self, obj: Mapping[str, Any], path: str) -> str:
        """Return the value of a selectable field of an object that `read_fields` has read."""
        for source in self.sources.get(path, (path,)):
            found = text_at(obj, source)
            if found:
                return found
        return self.zero_values.get(path, "")

    @cached_property
    def read_fields(self) -> Callable[[bytes], Mapping[str, Any]]:
        """Return a reader of the selectable fields of a stored object."""
        return reader_of(source for path in self.selectable for source in self.sources.get(path, (path,)))

    def may_go(self, obj: Object) -> bool:
        """Return True if an object that is being deleted and has no finalizers can be removed."""
        return True


def keep(obj: Object, old: Mapping[str, Any], field: str) -> None:
    """Restore the old value of a field."""
    if field in old:
        obj[field] = old[field]
    else:
        obj.pop(field, None)


def count_generation(obj: Object, old: Object) -> None:
    """Increment the generation if anything but metadata and status has changed, or deletion was requested."""
    generation = old["metadata"].get("generation", 1)
    parts = {**old, **obj}.keys() - {"metadata", "status", "kind", "apiVersion"}
    changed = any(obj.get(part) != old.get(part) for part in parts)
    obj["metadata"]["generation"] = generation + 1 if changed else generation


def text_at(obj: Mapping[str, Any], path: str) -> str:
    """Return the value at a path as field selectors compare it; empty if missing."""
    value: Any = obj
    for step in path.split("."):
        value = value.get(step) if isinstance(value, Mapping) else None
    if isinstance(value, bool):
        return "true" if value else "false"
    return "" if value is None else str(value)


def spec_of(obj: Mapping[str, Any]) -> Object:
    """Return the specification, or an empty one if missing."""
    spec = obj.get("spec")
    return spec if isinstance(spec, dict) else {}
