"""Create: from a body to a stored object."""

from __future__ import annotations

from functools import partial
from typing import Any

from kilauea.apiserver import status
from kilauea.apiserver.admission.attributes import Attributes
from kilauea.apiserver.rbac.authorizer import action_of
from kilauea.apiserver.request import ApiResponse
from kilauea.apiserver.rest.alike import remember
from kilauea.apiserver.rest.answers import object_response
from kilauea.apiserver.rest.body import read_object
from kilauea.apiserver.rest.call import Call, Object
from kilauea.apiserver.rest.dynamic import mutate_dynamically, validate_dynamically
from kilauea.apiserver.rest.objects import (
    check_depth,
    check_metadata,
    complete,
    encode,
    encoder,
    fill_status,
    in_stored_form,
    metadata_of,
    new_metadata,
    note_manager,
    refuse,
    settle_namespace,
)
from kilauea.apiserver.rest.versions import served_value, stored_form
from kilauea.apiserver.rest.writing import within_share, write_admitted
from kilauea.apiserver.schema import forget_empty
from kilauea.apiserver.storage import Conflict

LONGEST_PREFIX = 58
"""Characters of a generated name before its suffix, within the limit of a DNS label."""
TRIES = 8
"""Generated names to try before giving up."""


async def create(call: Call) -> ApiResponse:
    """Answer a create."""
    obj = await call.aside(read_object, call, new=True)
    value = await create_object(call, obj)
    return object_response(call, value, 201)


async def create_if_missing(call: Call, obj: Object, *, track: bool = True) -> bytes | None:
    """Create an object as `create_object` does; return None if another request has created it meanwhile."""
    try:
        return await create_object(call, obj, track=track)
    except status.ApiFault as fault:
        if fault.reason != "AlreadyExists" or call.backend.store.get(call.key) is None:
            raise
        return None


async def create_object(call: Call, obj: Object, *, track: bool = True) -> bytes:
    """Store a new object and return its bytes. The object is changed in place.

    Args:
        call: the request; a name in its path must be the name of the object.
        obj: the object as requested.
        track: True to record the fields as set by the caller; a server-side apply has already done that.

    Raises:
        ApiFault: it cannot be created, or an update or apply creates it and the caller may not create objects of the
            kind.
    """
    if call.info.verb != "create":
        action = action_of(call.request.method, call.request.path, call.info)
        call.backend.authorizer.check(call.user, action._replace(verb="create"))
    metadata_of(obj)
    settle_namespace(call, obj)
    revision = obj["metadata"].get("resourceVersion")
    attributes = await _admitted(call, obj, track)
    metadata = obj["metadata"]  # webhooks and policies may have replaced it
    generate = metadata.get("generateName") if not metadata.get("name") else ""
    for number in range(TRIES if generate else 1):
        if generate:
            metadata["name"] = generate[:LONGEST_PREFIX] + _suffix(call, number)
        value = await _store(call, obj, attributes, revision)
        if value is not None:
            return value
    name = metadata["name"]
    make = status.name_conflict if generate else status.already_exists
    raise make(call.resource.plural, call.resource.group, name)


def _suffix(call: Call, number: int) -> str:
    """Return the suffix of a generated name, which is the same each time that the request is processed."""
    suffixes = call.request.suffixes
    if number == len(suffixes):
        suffixes.append(call.backend.new_suffix())
    return suffixes[number]


async def _admitted(call: Call, obj: Object, track: bool) -> Attributes:
    """Set defaults, managedFields, and the additions of admission, which have no manager."""
    await call.aside(_complete, call, obj, track)
    attributes = call.attributes("CREATE", obj, None, obj["metadata"].get("name", ""))
    call.backend.admission.mutate(attributes)
    await mutate_dynamically(call, attributes)
    return attributes


def _complete(call: Call, obj: Object, track: bool) -> None:
    complete(call, obj)
    if call.like is not None and call.like.known is None:
        call.like = remember(call.resource, obj, call.like)
    if track:
        note_manager(call, None, obj)
    forget_empty(call.resource.schema, obj)
    call.like = None  # admission can change the specification


def _check(call: Call, obj: Object) -> None:
    """Reject an object with errors, and add its warnings."""
    strategy = call.resource.strategy
    if strategy.checks_metadata_last:
        causes = strategy.validate(obj) or check_metadata(call, obj)
    elif strategy.checks_metadata_between:
        causes = strategy.validate(obj) + check_metadata(call, obj) + strategy.validate_last(obj)
    else:
        causes = check_metadata(call, obj)
        causes += strategy.validate(obj)
    refuse(call, obj["metadata"].get("name", ""), causes)
    call.warnings += strategy.warnings(obj)
    if call.turn is not None:
        check_depth(obj)


async def _store(call: Call, obj: Object, attributes: Attributes, revision: Any) -> bytes | None:
    """Prepare, check and write an object that has its name; return None if the name is taken.

    An object with a revision is checked and not written.
    """
    resource, backend = call.resource, call.backend
    new_metadata(call, obj)
    if resource.strategy.is_named and not obj["metadata"].get("name"):
        obj["metadata"]["name"] = backend.new_uid()
    resource.strategy.prepare_create(obj)
    fill_status(call, obj)
    metadata = obj["metadata"]
    name = metadata.get("name", "")
    await call.aside(_check, call, obj)
    await validate_dynamically(call, attributes)
    key = resource.key(metadata.get("namespace", ""), name)
    if attributes.dry_run:
        return None if backend.store.get(key) else encoder(call, obj)(0)
    if revision:
        raise status.ApiFault(500, "", "resourceVersion should not be set on objects to be created")
    try:
        form = in_stored_form(call, await stored_form(call, obj))
        make = partial(encode, form, deepens=call.turn is None or form is not obj)
        stored = await write_admitted(call, attributes, key, 0, within_share(call, key, None, make), form)
    except Conflict:
        return None
    return await served_value(call, stored.value)
