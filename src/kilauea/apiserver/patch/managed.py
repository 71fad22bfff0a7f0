"""`metadata.managedFields`: the owners of fields, updated by every write.

It has an entry for each manager, operation (Apply or Update), API version (of updates only) and subresource. The
manager of a request becomes the only owner of the fields that it changes; a removed field has no owner.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from kilauea.apiserver.patch.compare import Change, compare
from kilauea.apiserver.patch.fieldset import (
    EMPTY,
    FieldSet,
    difference,
    fields,
    from_fields_v1,
    ordered,
    union,
    without,
)
from kilauea.apiserver.patch.fresh import fresh_fields
from kilauea.apiserver.patch.shape import shape_of
from kilauea.apiserver.schema.nodes import Schema

MAX_UPDATERS = 10
ANCIENT = "ancient-changes"
UPDATE, APPLY = "Update", "Apply"

NEVER_OWNED = fields(
    "apiVersion",
    "kind",
    "metadata",
    "metadata.name",
    "metadata.namespace",
    "metadata.creationTimestamp",
    "metadata.selfLink",
    "metadata.uid",
    "metadata.clusterName",
    "metadata.generation",
    "metadata.managedFields",
    "metadata.resourceVersion",
)


class Manager(NamedTuple):
    """An owner of fields; the API version is empty for applies, which have one entry for all versions."""

    name: str
    operation: str
    api_version: str
    subresource: str


class Owned(NamedTuple):
    """The fields that a manager owns, their version, and the time of their last change (RFC 3339)."""

    api_version: str
    fields: FieldSet
    time: str | None


Managed = dict[Manager, Owned]


# --- entries


def decode(entries: Any) -> Managed:
    """Decode the entries of an object.

    Raises:
        ValueError: they are invalid.
    """
    managed: Managed = {}
    for entry in entries or ():
        if entry.get("operation") not in (APPLY, UPDATE):
            raise ValueError("operation must be `Apply` or `Update`")
        if not entry.get("apiVersion"):
            raise ValueError("apiVersion must not be empty")
        if entry.get("fieldsType") != "FieldsV1":
            raise ValueError(f"invalid fieldsType {entry.get('fieldsType')!r}")
        owned = Owned(entry["apiVersion"], from_fields_v1(entry.get("fieldsV1") or {}), entry.get("time"))
        managed[manager_of(entry)] = owned
    return managed


def manager_of(entry: dict[str, Any]) -> Manager:
    """Return the manager of an entry."""
    operation = entry["operation"]
    version = "" if operation == APPLY else entry["apiVersion"]
    return Manager(entry.get("manager", ""), operation, version, entry.get("subresource", ""))


def encode(managed: Managed) -> list[dict[str, Any]]:
    """Encode the entries, in the order of the real server."""
    return [_entry(manager, owned) for manager, owned in sorted(managed.items(), key=_place)]


def _place(item: tuple[Manager, Owned]) -> tuple[str, ...]:
    manager, owned = item
    return manager.operation, owned.time or "", manager.name, owned.api_version, manager.subresource


def _entry(manager: Manager, owned: Owned) -> dict[str, Any]:
    entry: dict[str, Any] = {"manager": manager.name, "operation": manager.operation, "apiVersion": owned.api_version}
    if not manager.name:
        del entry["manager"]
    if owned.time:
        entry["time"] = owned.time
    entry["fieldsType"] = "FieldsV1"
    entry["fieldsV1"] = owned.fields
    if manager.subresource:
        entry["subresource"] = manager.subresource
    return entry


# --- writes


def track_update(
    old: dict[str, Any] | None,
    new: dict[str, Any],
    manager: str,
    schema: Schema,
    api_version: str,
    now: str,
    *,
    subresource: str = "",
    reset: FieldSet = EMPTY,
    known: Mapping[str, FieldSet | None] | None = None,
) -> list[dict[str, Any]]:
    """Return the `metadata.managedFields` of an object after a create, an update or a patch other than an apply.

    Args:
        old: the old object; None for a create.
        new: the requested object with defaults, before admission and preparation by the strategy: fields that those
            set have no owner.
        manager: the name of the field manager, or the start of the user agent.
        schema: the schema of the kind.
        api_version: group and version of the request.
        now: the time, RFC 3339 in UTC, whole seconds.
        subresource: the subresource of the request; empty for the object itself.
        reset: fields that a write through this (sub)resource does not change, such as the status.
        known: parts of a new object whose fields are known (`fields_of_part`).

    Returns:
        The entries; none if the client cleared them or the object has none.
    """
    managed = _before(old, new, bool(subresource))
    if not managed and old is not None:
        return []
    version = Manager(manager or "unknown", UPDATE, api_version, subresource)
    try:
        if old is None and not managed:
            owned = fresh_fields(shape_of(schema), new, reset, NEVER_OWNED, known)
            return encode({version: Owned(api_version, owned, now)}) if owned else []
        change = compare(shape_of(schema), old or {}, new)
    except ValueError:
        return []
    if reset:
        change = Change(without(change.changed, reset), without(change.removed, reset))
    return encode(capped(taken_over(managed, version, api_version, change, now)))


def _before(old: dict[str, Any] | None, new: dict[str, Any], subresource: bool) -> Managed:
    """Return the entries from which a write starts: those in the new object, if valid, or those of the old one."""
    ours = (old or {}).get("metadata", {}).get("managedFields")
    theirs = ours if subresource else new.get("metadata", {}).get("managedFields")
    if not subresource and theirs in ([], [{}]):
        return {}
    if theirs and theirs != ours:
        managed = _decoded(theirs)
        if managed:
            return {key: owned._replace(fields=ordered(owned.fields)) for key, owned in managed.items()}
    return _stored(ours)


def _stored(entries: list[dict[str, Any]] | None) -> Managed:
    """Decode entries that were written here, so that their fields need no check."""
    return {
        manager_of(entry): Owned(entry["apiVersion"], entry.get("fieldsV1") or {}, entry.get("time"))
        for entry in entries or ()
    }


def _decoded(entries: Any) -> Managed:
    """Decode entries; return none if they are invalid."""
    try:
        return decode(entries)
    except (ValueError, AttributeError, TypeError):
        return {}


def taken_over(managed: Managed, manager: Manager, api_version: str, change: Change, now: str) -> Managed:
    """Return the entries after a manager has changed fields: it is their only owner."""
    after = disowned(managed, change)
    own = difference(change.changed, NEVER_OWNED)
    if own:
        previous = after.get(manager)
        after[manager] = Owned(api_version, union(previous.fields, own) if previous else own, now)
    return after


def disowned(managed: Managed, change: Change) -> Managed:
    """Return the entries without changed or removed fields, omitting empty entries."""
    after: Managed = {}
    for manager, owned in managed.items():
        rest = difference(owned.fields, change.changed)
        rest = difference(rest, change.removed) if change.removed else rest
        if rest:
            after[manager] = owned._replace(fields=rest)
    return after


def capped(managed: Managed) -> Managed:
    """Limit entries of updates to ten: beyond that, the oldest of the same version are merged into one."""
    updaters = [manager for manager in managed if manager.operation == UPDATE]
    excess = len(updaters) - MAX_UPDATERS
    if excess <= 0:
        return managed
    after = dict(managed)
    first: dict[str, Manager] = {}
    for manager in sorted(updaters, key=lambda each: (managed[each].time or "", _identifier(each))):
        version = managed[manager].api_version
        if excess <= 0 or first.setdefault(version, manager) == manager:
            continue
        bucket = Manager(ANCIENT, UPDATE, version, "")
        if bucket not in after:
            after[bucket] = after.pop(first[version])
        owned = after.pop(manager)
        after[bucket] = owned._replace(fields=union(owned.fields, after[bucket].fields))
        excess -= 1
    return after


def _identifier(manager: Manager) -> Iterable[str]:
    """Return the sort key for managers of the same second."""
    return manager.name, manager.operation, manager.api_version, manager.subresource
