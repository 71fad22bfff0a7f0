"""Update: replaces an object; patches share most of the code.

A change is applied to the current object, checked, and written if the object is still the same; otherwise it is applied
again to the new one, unless the caller named the revision that the change is for.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import msgspec

from kilauea.apiserver import status
from kilauea.apiserver.fields import invalid_value
from kilauea.apiserver.request import ApiResponse
from kilauea.apiserver.rest.answers import object_response
from kilauea.apiserver.rest.body import read_object
from kilauea.apiserver.rest.call import Call, Object
from kilauea.apiserver.rest.create import create_if_missing
from kilauea.apiserver.rest.dynamic import mutate_dynamically, validate_dynamically
from kilauea.apiserver.rest.objects import (
    check_changed_metadata,
    check_depth,
    check_metadata,
    complete,
    decode,
    encode,
    encoder,
    in_stored_form,
    kept_metadata,
    metadata_of,
    note_manager,
    refuse,
    same_but_for_times,
    settle_namespace,
)
from kilauea.apiserver.rest.versions import served_value, stored_form
from kilauea.apiserver.rest.writing import within_share, write_admitted
from kilauea.apiserver.schema import forget_empty
from kilauea.apiserver.status import LET_PASS
from kilauea.apiserver.storage import Conflict, Missing, Stored

TRIES = 100
"""Attempts at a change that conflicts with other writes; far more than clients in the same process can cause."""

Change = Callable[[Object], Object]
"""Maps the current object, which it may change, to the desired one."""


async def update(call: Call) -> ApiResponse:
    """Answer an update of an object or of its status."""
    body, text = await call.aside(_read, call)
    exists = call.backend.store.get(call.key) is not None
    if not exists and call.resource.strategy.create_on_update and call.subresource is None:
        created = await create_if_missing(call, body)
        if created is not None:
            return object_response(call, created, 201)
    value = await change_object(call, lambda _: decode(text), whole=True)
    return object_response(call, value)


def _read(call: Call) -> tuple[Object, bytes]:
    """Return the object in the body, and its bytes."""
    body = read_object(call)
    check_body_name(call, body)
    return body, msgspec.json.encode(body)


def check_body_name(call: Call, body: Object) -> None:
    """Check that the name in an object is that in the path."""
    name = metadata_of(body).get("name")
    if not name:
        message = f"the name of the object ({call.info.name} based on URL) was undeterminable: name must be provided"
        raise status.bad_request(message)
    if name != call.info.name:
        raise status.bad_request(
            f"the name of the object ({name}) does not match the name on the URL ({call.info.name})"
        )


async def change_object(
    call: Call, change: Change, *, track: bool = True, whole: bool = False, shares: bool = False
) -> bytes:
    """Change the object that a call names; return its bytes.

    Args:
        call: an update or patch of an object, or of its status.
        change: may be called several times, each time with the object as of then.
        track: True to record changed fields as set by the caller; a server-side apply has already done that.
        whole: True if the change is a whole object, whose missing resourceVersion must be allowed by the kind.
        shares: True if the change does not modify the given object, and shares parts of it.
    """
    store = call.backend.store
    for _ in range(TRIES):
        current = store.get(call.key)
        if current is None:
            raise call.not_found()
        served = await served_value(call, current.value)
        obj, old = await call.aside(_changed, call, change, current, served, track, whole, shares)
        await _prepare(call, obj, old)
        if await call.aside(same_but_for_times, obj, old):
            return served
        value = await write_change(call, obj, old, current)
        if value is not None:
            return value
    raise call.conflict()


def _changed(
    call: Call, change: Change, current: Stored, served: bytes, track: bool, whole: bool, shares: bool
) -> tuple[Object, Object]:
    """Return the changed object with defaults and managers, and the old object."""
    old = (shares and _decoded(call, current)) or decode(served)
    obj = change(old if shares else decode(served))
    _settle(call, obj, old, current, whole)
    complete(call, obj, old)
    if track:
        note_manager(call, old, obj)
    forget_empty(call.resource.schema, obj)
    kept_metadata(obj, old)
    return obj, old


def _decoded(call: Call, current: Stored) -> Object | None:
    """Return the decoded object if the store keeps it; it is shared and must not be changed."""
    return current.decoded if call.resource.is_served_as_stored else None


async def write_change(call: Call, obj: Object, old: Object, current: Stored) -> bytes | None:
    """Write a completed change, or delete the object if the change removes the last obstacle to its deletion.

    Returns:
        The bytes, or None if the object has changed meanwhile.
    """
    if call.dry_run():
        return encoder(call, obj)(current.revision)
    goes = is_free_to_go(call, obj)
    form = in_stored_form(call, await stored_form(call, obj))
    try:
        if goes:
            stored = await write_admitted(
                call, call.attributes("DELETE", None, old), current.key, current.revision, None
            )
        else:
            attributes = call.attributes("UPDATE", obj, old)
            make: Callable[[int], bytes] = partial(encode, form, deepens=call.turn is None or form is not obj)
            begins = obj["metadata"].get("deletionTimestamp") and not old["metadata"].get("deletionTimestamp")
            if not begins:  # a deletion makes room
                make = within_share(call, current.key, current, make)
            stored = await write_admitted(call, attributes, current.key, current.revision, make, form)
    except (Conflict, Missing):
        return None
    return encoder(call, obj)(stored.revision) if goes else await served_value(call, stored.value)


def is_free_to_go(call: Call, obj: Object) -> bool:
    """Return True if an object is being deleted and nothing delays that any more."""
    metadata = obj["metadata"]
    if (
        not metadata.get("deletionTimestamp")
        or metadata.get("finalizers")
        or metadata.get("deletionGracePeriodSeconds")
    ):
        return False
    return call.resource.strategy.may_go(obj)


def _settle(call: Call, obj: Object, old: Object, current: Stored, whole: bool) -> None:
    """Check that the object has the identity and revision that the caller expects."""
    settle_namespace(call, obj)
    metadata, before = obj["metadata"], old["metadata"]
    uid, revision = metadata.get("uid"), metadata.get("resourceVersion")
    if uid and uid != before["uid"]:
        key = call.key.replace("/core/", "/registry/", 1) if call.key.startswith("/core/") else f"/registry{call.key}"
        message = f"StorageError: invalid object, Code: 4, Key: {key}, ResourceVersion: 0, AdditionalErrorMsg: "
        message += f"Precondition failed: UID in precondition: {uid}, UID in object meta: {before['uid']}"
        raise call.conflict(message)
    if revision and revision != "0":
        if not str(revision).isdigit():
            raise status.ApiFault(500, "", f'strconv.ParseUint: parsing "{revision}": invalid syntax')
        if revision != str(current.revision):
            raise call.conflict()
    elif whole and not call.resource.strategy.unconditional_update:
        cause = invalid_value("metadata.resourceVersion", 0, "must be specified for an update")
        raise status.invalid(call.resource.plural, call.resource.group, call.info.name, [cause])
    metadata["name"] = before["name"]


async def _prepare(call: Call, obj: Object, old: Object) -> None:
    """Run admission, restore the metadata that only the server may set, and check the object."""
    attributes = call.attributes("UPDATE", obj, old)
    call.backend.admission.mutate(attributes)
    await mutate_dynamically(call, attributes)
    await call.aside(_check, call, obj, old)
    await validate_dynamically(call, attributes)


def _check(call: Call, obj: Object, old: Object) -> None:
    """Restore the metadata that only the server may set, reject errors, and add warnings."""
    strategy, part = call.resource.strategy, call.subresource.name if call.subresource else ""
    if part == "status":
        strategy.prepare_status(obj, old)
    elif part in ("", "scale"):
        strategy.prepare_update(obj, old)
    else:
        strategy.prepare_part(obj, old, part)
    causes = check_metadata(call, obj, old) + check_changed_metadata(obj, old)
    if part == "status":
        causes += strategy.validate_status(obj, old)
    else:
        causes += strategy.validate_change(obj, old)
        whole = part in ("", "scale")
        causes += strategy.validate_update(obj, old) if whole else strategy.validate_part(obj, old, part)
    call.warnings += [str(each) for each in causes if each.reason == LET_PASS]
    refuse(call, call.info.name, [each for each in causes if each.reason != LET_PASS])
    call.warnings += strategy.warnings_of_change(obj, old)
    if call.turn is not None:
        check_depth(obj)
