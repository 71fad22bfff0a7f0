"""Server-side apply: a manager declares the fields that it wants, and owns exactly those.

Fields that it declared last time but not now are removed, unless another manager owns them. A field that another
manager owns with a different value is a conflict, unless the apply is forced.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from kilauea.apiserver.patch.compare import Change, applied_fields, compare
from kilauea.apiserver.patch.conflicts import ApplyConflict, all_fields, conflicts_of, remaining
from kilauea.apiserver.patch.fieldset import EMPTY, FieldSet, difference, intersection, ordered, union, without
from kilauea.apiserver.patch.last_applied import allowed_conflicts, refresh_annotation
from kilauea.apiserver.patch.managed import (
    APPLY,
    NEVER_OWNED,
    UPDATE,
    Managed,
    Manager,
    Owned,
    decode,
    disowned,
    encode,
    taken_over,
)
from kilauea.apiserver.patch.merging import merged, pruned, with_fields_on_the_way
from kilauea.apiserver.patch.shape import Shape, shape_of
from kilauea.apiserver.patch.typed import problems, text_of
from kilauea.apiserver.patch.values import same
from kilauea.apiserver.schema.nodes import Schema
from kilauea.apiserver.status import ApiFault, bad_request

BEFORE_FIRST_APPLY = "before-first-apply"
KUBECTL = "kubectl"


class Apply(NamedTuple):
    """A server-side apply: its manager, version and time."""

    manager: Manager
    api_version: str
    shape: Shape
    reset: FieldSet
    now: str
    force: bool


def server_side_apply(
    live: dict[str, Any] | None,
    applied: dict[str, Any],
    manager: str,
    force: bool,
    schema: Schema,
    api_version: str,
    now: str,
    subresource: str = "",
    *,
    reset: FieldSet = EMPTY,
) -> dict[str, Any]:
    """Return the object after an apply, with its new `metadata.managedFields`, not yet defaulted.

    Args:
        live: the current object; None if it does not exist.
        applied: the applied object. Neither is changed; the result shares parts with both.
        manager: the name of the field manager.
        force: True to take fields from other managers.
        schema: the schema of the kind.
        api_version: group and version of the request.
        now: the time, RFC 3339 in UTC, whole seconds.
        subresource: the subresource of the request; empty for the object itself.
        reset: fields that a write through this (sub)resource does not change, such as the status.

    Raises:
        ApplyConflict: other managers own fields that would change; has a cause for each of them.
        ApiFault: 400 for another version; 500, as in the real server, for an object that does not match the schema
            of its kind.
    """
    check_applied(applied, api_version, schema)
    who = Manager(manager, APPLY, "", subresource)
    request = Apply(who, api_version, shape_of(schema), reset, now, force)
    current = live or {}
    new, managed = _applied(request, current, _managed_of(request, current), applied)
    out = {**new, "metadata": {**(new.get("metadata") or {}), "managedFields": encode(managed)}}
    if manager == KUBECTL:
        refresh_annotation(out["metadata"], applied)
    return out


def check_applied(applied: dict[str, Any], api_version: str, schema: Schema) -> None:
    """Check version and schema of an applied object.

    Raises:
        ApiFault: 400 for another version; 500, as in the real server, for an object that does not match its schema.
    """
    if applied.get("apiVersion") != api_version:
        raise bad_request(f"invalid object type: {full_kind(applied)}")
    metadata = applied.get("metadata") or {}
    if isinstance(metadata, dict) and metadata.get("managedFields") is not None:
        raise bad_request("metadata.managedFields must be nil")
    found = problems(shape_of(schema), applied)
    if found:
        raise ApiFault(500, "", f"failed to create typed patch object ({subject_of(applied)}): {text_of(found)}")


def full_kind(applied: dict[str, Any]) -> str:
    """Return the group, version and kind of an object, formatted as by the real server."""
    stated, kind = (applied[key] if isinstance(applied.get(key), str) else "" for key in ("apiVersion", "kind"))
    if stated.count("/") > 1:
        stated, kind = "", ""
    group, _, version = stated.rpartition("/")
    return f"{group}/{version}, Kind={kind}"


def subject_of(applied: dict[str, Any]) -> str:
    """Return the names and the kind of an applied object, formatted as by the real server."""
    metadata = applied.get("metadata")
    names = metadata if isinstance(metadata, dict) else {}
    namespace, name = (names[key] if isinstance(names.get(key), str) else "" for key in ("namespace", "name"))
    return f"{namespace}/{name}; {full_kind(applied)}"


def _managed_of(request: Apply, live: dict[str, Any]) -> Managed:
    """Return the owners of fields before the apply; unowned fields get a separate owner."""
    try:
        managed = decode((live.get("metadata") or {}).get("managedFields"))
    except ValueError as error:
        raise ApiFault(500, "", f"failed to decode managed fields: {error}") from None
    if managed or not live:
        return managed
    before = Manager(BEFORE_FIRST_APPLY, UPDATE, request.api_version, request.manager.subresource)
    change = _filtered(request, compare(request.shape, {}, live))
    return taken_over({}, before, request.api_version, change, request.now)


def _filtered(request: Apply, change: Change) -> Change:
    if not request.reset:
        return change
    return Change(without(change.changed, request.reset), without(change.removed, request.reset))


def _applied(
    request: Apply, live: dict[str, Any], managed: Managed, applied: dict[str, Any]
) -> tuple[dict[str, Any], Managed]:
    """Return the object and the owners of its fields after the apply."""
    who, shape = request.manager, request.shape
    last = managed.get(who)
    own = without(applied_fields(shape, applied), request.reset)
    claimed = {**managed, who: Owned(request.api_version, own, last.time if last else None)}
    new = merged(shape, live, applied)
    if last:
        new = _without_dropped(shape, new, last.fields, claimed)
    change = _filtered(request, compare(shape, live, new))
    _refuse_conflicts(request, live, claimed, change)
    after = disowned({manager: owned for manager, owned in managed.items() if manager != who}, change)
    kept = difference(own, NEVER_OWNED)
    unchanged = same(live, new)
    if kept:
        time = (last.time if last else None) if unchanged else request.now
        after[who] = Owned(request.api_version, ordered(kept), time)
    return (live if unchanged else new), after


def _refuse_conflicts(request: Apply, live: dict[str, Any], managed: Managed, change: Change) -> None:
    """Reject an apply that takes fields of others; kubectl may take those that its annotation records as applied."""
    conflicts = {} if request.force else conflicts_of(managed, change.changed, request.manager)
    if not conflicts:
        return
    if request.manager.name == KUBECTL:
        allowed = allowed_conflicts(request.shape, live, request.api_version)
        if allowed is not None:
            conflicts = remaining(conflicts, allowed) if difference(all_fields(conflicts), allowed) else {}
    if conflicts:
        raise ApplyConflict(conflicts)


def _without_dropped(shape: Shape, new: dict[str, Any], last: FieldSet, managed: Managed) -> dict[str, Any]:
    """Return the merged object without fields that the manager no longer applies and no other manager owns."""
    stated = with_fields_on_the_way(shape, last)
    whole = with_fields_on_the_way(shape, applied_fields(shape, new))
    owned = EMPTY
    for each in managed.values():
        owned = union(owned, each.fields)
    left = _set_of(shape, pruned(shape, new, stated))
    kept = pruned(shape, new, difference(whole, union(left, with_fields_on_the_way(shape, owned))))
    gone = intersection(difference(whole, _set_of(shape, kept)), stated)
    result: dict[str, Any] = pruned(shape, new, gone)
    return result


def _set_of(shape: Shape, value: dict[str, Any]) -> FieldSet:
    return with_fields_on_the_way(shape, applied_fields(shape, value))
