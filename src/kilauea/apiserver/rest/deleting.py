"""Delete: immediately, or in steps if finalizers, dependents or a grace period delay the deletion."""

from __future__ import annotations

import msgspec

from kilauea.api.times import SECOND, format_time, parse_time
from kilauea.apiserver import status
from kilauea.apiserver.admission.attributes import Attributes
from kilauea.apiserver.request import ApiResponse, TextStream
from kilauea.apiserver.rest.answers import object_response
from kilauea.apiserver.rest.call import Call, Object
from kilauea.apiserver.rest.delete_options import DeleteOptions, read_delete_options
from kilauea.apiserver.rest.dynamic import mutate_dynamically, validate_dynamically
from kilauea.apiserver.rest.list_options import read_options
from kilauea.apiserver.rest.listing import TURN, Found, asked_selection, find, list_response
from kilauea.apiserver.rest.objects import decode, encode
from kilauea.apiserver.rest.update import TRIES, write_change
from kilauea.apiserver.rest.versions import served_value
from kilauea.apiserver.rest.writing import write_admitted
from kilauea.apiserver.status import ApiFault
from kilauea.apiserver.storage import Conflict, Missing, Stored
from kilauea.apiserver.turns import TimeSlice

ORPHAN, FOREGROUND = "orphan", "foregroundDeletion"
_FINALIZER_OF = {"Orphan": ORPHAN, "Foreground": FOREGROUND}


class _Metadata(msgspec.Struct):
    uid: str = ""


class _Head(msgspec.Struct):
    metadata: _Metadata


_head_of = msgspec.json.Decoder(_Head).decode


async def delete(call: Call) -> ApiResponse:
    """Answer a delete."""
    options = _options(call)
    value, gone = await delete_object(call, call.info.name, options)
    if gone and not call.resource.strategy.answers_deleted_object:
        uid = _head_of(value).metadata.uid
        resource = call.resource
        details = {"name": call.info.name, "group": resource.group, "kind": resource.plural, "uid": uid}
        return status_response({key: text for key, text in details.items() if text})
    return object_response(call, value)


def _options(call: Call) -> DeleteOptions:
    """Return the options of a call, and warn if their defaults may surprise users."""
    options = read_delete_options(call)
    if options.propagation is None and call.resource.strategy.orphan_warning:
        call.warnings.append(call.resource.strategy.orphan_warning)
    return options


def status_response(details: dict[str, str]) -> ApiResponse:
    """Return a Status of success, for a deletion that has no object to return."""
    return ApiResponse(200, status.encode(status.status("Success", 0, details=details)))


async def delete_collection(call: Call) -> ApiResponse | TextStream:
    """Answer a deletecollection: delete all selected objects one by one."""
    options = _options(call)
    found = await find(call, read_options(call), await asked_selection(call))
    deleted = []
    time_slice = TimeSlice(call.pause, TURN, look=0)
    for stored in found.items:
        if time_slice.is_over(stored.length):  # objects with finalizers may need no write, and so no wait
            await time_slice.renew()
        metadata = decode(stored.value)["metadata"]
        try:
            value, _ = await delete_object(call, metadata["name"], options, metadata.get("namespace", ""))
        except ApiFault as fault:
            if fault.code != 404:
                raise
            continue
        deleted.append(Stored(stored.key, value, stored.revision, stored.created))
    return await list_response(call, Found(deleted, call.backend.store.revision, found.token, found.remaining))


async def delete_object(
    call: Call, name: str, options: DeleteOptions, namespace: str | None = None, *, reviewed: bool = False
) -> tuple[bytes, bool]:
    """Delete an object, or begin its deletion.

    Args:
        call: the request, which determines the kind.
        name: the name of the object.
        options: the options of the deletion.
        namespace: the namespace of the object, if not that of the call.
        reviewed: True if admission has already allowed it, as an eviction.

    Returns:
        The object's last bytes, and True if it is deleted.
    """
    key = call.resource.key(call.namespace if namespace is None else namespace, name)
    for _ in range(TRIES):
        current = call.backend.store.get(key)
        if current is None:
            raise call.not_found(name)
        current = Stored(current.key, await served_value(call, current.value), current.revision, current.created)
        old, obj = await call.aside(_decoded_twice, current.value)
        check_preconditions(call, old, options)
        attributes = call.attributes("DELETE", None, old, name)
        attributes.dry_run = attributes.dry_run or options.dry_run
        if not reviewed:
            await mutate_dynamically(call, attributes)
            await validate_dynamically(call, attributes)
        done = await _delete_once(call, current, options, attributes, obj)
        if done is not None:
            return done
    raise call.conflict(name=name)


async def _delete_once(
    call: Call, current: Stored, options: DeleteOptions, attributes: Attributes, obj: Object
) -> tuple[bytes, bool] | None:
    """Try once, changing the object in place; return None if the stored object has changed meanwhile."""
    old = attributes.old or {}
    changed = _begin(call, obj, options)
    goes = not obj["metadata"].get("finalizers") and not obj["metadata"].get("deletionGracePeriodSeconds")
    goes = goes and call.resource.strategy.may_go(obj)
    if attributes.dry_run:
        return current.value, goes
    if goes:
        try:
            gone = await write_admitted(call, attributes, current.key, current.revision, None)
        except (Conflict, Missing):
            return None
        return (encode(obj, gone.revision) if call.resource.strategy.is_graceful else current.value), True
    if not changed:
        return current.value, False
    value = await write_change(call, obj, old, current)
    return None if value is None else (value, False)


def _decoded_twice(value: bytes) -> tuple[Object, Object]:
    """Return an object, and a copy to change."""
    return decode(value), decode(value)


def check_preconditions(call: Call, old: Object, options: DeleteOptions) -> None:
    """Check that the object has the UID and revision in the preconditions.

    Raises:
        ApiFault: it does not (409).
    """
    metadata = old["metadata"]
    for field, label, wanted, fate in (
        ("uid", "UID", options.uid, "deleted and then recreated"),
        ("resourceVersion", "ResourceVersion", options.revision, "modified"),
    ):
        if wanted and wanted != metadata[field]:
            message = (
                f"the {label} in the precondition ({wanted}) does not match the {label} in record ({metadata[field]}). "
                f"The object might have been {fate}"
            )
            raise status.conflict(call.resource.kind, call.resource.group, metadata["name"], message)


def _begin(call: Call, obj: Object, options: DeleteOptions) -> bool:
    """Mark an object as being deleted; return True if that changed it."""
    metadata = obj["metadata"]
    strategy = call.resource.strategy
    changed = _set_finalizers(metadata, options.propagation or strategy.propagation)
    grace = strategy.grace_seconds(obj, options.grace)
    if metadata.get("deletionTimestamp"):
        if grace >= metadata.get("deletionGracePeriodSeconds", 0):
            return changed
    else:
        if strategy.deletes_plainly:
            metadata["deletionTimestamp"] = call.backend.timestamp()
        strategy.prepare_delete(obj)
        if strategy.deletes_plainly:
            return True
        if strategy.has_generation and metadata.get("generation"):
            metadata["generation"] += 1
    begin = call.backend.now() // SECOND * SECOND
    if metadata.get("deletionTimestamp"):  # a shorter grace period counts from the first deletion, too
        begin = parse_time(metadata["deletionTimestamp"]) - metadata.get("deletionGracePeriodSeconds", 0) * SECOND
    metadata["deletionTimestamp"] = format_time(begin + grace * SECOND)
    metadata["deletionGracePeriodSeconds"] = grace
    return True


def _set_finalizers(metadata: Object, propagation: str) -> bool:
    """Set the finalizer of the policy for dependents, and remove that of another policy."""
    before = metadata.get("finalizers") or []
    wanted = [each for each in before if each not in _FINALIZER_OF.values()]
    if propagation in _FINALIZER_OF:
        wanted.append(_FINALIZER_OF[propagation])
    if wanted == before:
        return False
    metadata["finalizers"] = wanted
    return True
