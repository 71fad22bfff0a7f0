"""Carries out operations of controllers, and returns traces of the writes."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Sequence
from typing import Any, NamedTuple

import msgspec

from kilauea.api.numbers import plural
from kilauea.api.ports import (
    Api,
    ApiError,
    Confirm,
    Create,
    Delete,
    Empty,
    Key,
    Obj,
    Patch,
    Reference,
    Remaining,
    Replace,
    Resource,
    key_of,
)
from kilauea.client.rest import version_of

CONFIRMED_AT_ONCE = 50
"""Number of objects to request before other tasks may run: requests to a server in this process do not wait."""
MOST_REMEMBERED = 10_000
"""Number of absent objects that are remembered; then all are forgotten."""
COUNTED_AT_ONCE = 500
"""Number of objects whose finalizers are counted before other tasks may run."""
LOOKED_AT_A_SECOND = 1000
"""Number of objects being deleted that are listed per second."""


class _Metadata(msgspec.Struct, rename="camel"):
    finalizers: list[str] | None = None
    deletion_grace_period_seconds: int = 0


class _Header(msgspec.Struct):
    metadata: _Metadata


_header_of = msgspec.json.Decoder(_Header).decode


class Written(NamedTuple):
    """An object was written; a watch of its kind will reach this version."""

    resource: Resource
    version: int


class Deleted(NamedTuple):
    """An object was deleted, or is terminating; a watch of its kind will show that."""

    resource: Resource
    key: Key
    uid: str


Trace = Written | Deleted
"""The change that an operation causes in a watch."""


Action = Create | Patch | Replace | Delete | Confirm | Empty
"""An operation at an API server."""


class NotYet(Exception):
    """An operation must wait for objects that still exist.

    Attributes:
        again: seconds until the retry.
        trace: the change that reports them, which does not cause an earlier retry; None for none.
    """

    def __init__(self, words: str, again: float, trace: Trace | None = None) -> None:
        super().__init__(words)
        self.again = again
        self.trace = trace


async def carry_out(api: Api, operation: Action, manager: str, absent: set[Reference] | None = None) -> Trace | None:
    """Carry out an operation, and return its trace; None if no watch will show it.

    Args:
        api: the cluster.
        operation: the operation; it succeeds if the object already exists, or is already gone.
        manager: field manager of patches of the type `apply`.
        absent: objects that were found not to exist; with their UIDs, they never will again.

    Raises:
        ApiError: it failed; a Conflict if the object does not have the version of the operation.
        NotYet: objects that should be gone first still exist.
    """
    if isinstance(operation, Confirm):
        await _confirm(api, operation, set() if absent is None else absent)
        return None
    if isinstance(operation, Empty):
        await _empty(api, operation, manager)
        return None
    if isinstance(operation, Replace):
        return await _replace(api, operation)
    if isinstance(operation, Create):
        return await _create(api, operation)
    if isinstance(operation, Patch):
        return await _patch(api, operation, manager)
    await _delete(api, operation)
    return Deleted(operation.resource, operation.key, operation.uid)


async def _create(api: Api, operation: Create) -> Written | None:
    namespace = operation.body["metadata"].get("namespace", "")
    try:
        made = await api.create(operation.resource, namespace, operation.body)
    except ApiError as error:
        if error.reason != "AlreadyExists":
            raise
        return None
    return written(operation.resource, made)


async def _patch(api: Api, operation: Patch, manager: str) -> Written | None:
    apply = operation.type == "apply"
    patch = _at_version(operation) if operation.version else operation.patch
    try:
        changed = await api.patch(
            operation.resource,
            operation.key,
            patch,
            operation.type,
            operation.subresource,
            manager if apply else "",
            force=apply,
        )
    except ApiError as error:
        if error.code != 404:
            raise
        return None
    version = version_of(changed)
    return Written(operation.resource, int(version)) if version else None


def _at_version(operation: Patch) -> Any:
    """A patch that is rejected if the object has another version."""
    if operation.type == "json":
        return [{"op": "test", "path": "/metadata/resourceVersion", "value": operation.version}, *operation.patch]
    metadata = {**operation.patch.get("metadata", {}), "resourceVersion": operation.version}
    return {**operation.patch, "metadata": metadata}


async def _replace(api: Api, operation: Replace) -> Written | None:
    try:
        made = await api.update(operation.resource, operation.body, operation.subresource)
    except ApiError as error:
        if error.code != 404:
            raise
        return None
    return written(operation.resource, made)


async def _confirm(api: Api, operation: Confirm, known: set[Reference]) -> None:
    unknown = [each for each in operation.absent if each not in known]
    for number, reference in enumerate(unknown, 1):
        if number % CONFIRMED_AT_ONCE == 0:
            await asyncio.sleep(0)
        resource, key, uid = reference
        try:
            found = await api.get(resource, key)
        except ApiError as error:
            if error.code != 404:
                raise
        else:
            if uid in ("", found["metadata"]["uid"]):
                raise ApiError(409, "Conflict", f"{resource.plural} {key} exists")
        if uid:
            if len(known) >= MOST_REMEMBERED:
                known.clear()
            known.add(reference)


async def _empty(api: Api, operation: Empty, manager: str) -> None:
    left = [each for resource in operation.resources if (each := await _remaining(api, operation, resource))]
    change = operation.report(left) if operation.report else None
    trace = None if change is None else await _patch(api, change, manager)
    if left:
        again = max(operation.again, sum(each.count for each in left) / LOOKED_AT_A_SECOND)
        raise NotYet(f"not deleted yet: {', '.join(each.resource.plural for each in left)}", again, trace)


async def _remaining(api: Api, operation: Empty, resource: Resource) -> Remaining | None:
    """Delete the objects of a kind; return the remaining ones, None without any."""
    try:
        if await api.delete_all(resource, operation.namespace):
            return None
        items = (await api.list(resource, operation.namespace)).items
        return Remaining(resource, len(items)) if operation.report is None else await _counted(resource, items)
    except ApiError as error:
        if error.code == 404:  # a kind that is no longer served has no objects
            return None
        if operation.report is None or error.code == 0:
            raise
        return Remaining(resource, fault=error.message)


async def _counted(resource: Resource, items: Sequence[bytes]) -> Remaining | None:
    held: Counter[str] = Counter()
    grace = 0
    for number, item in enumerate(items, 1):
        if number % COUNTED_AT_ONCE == 0:
            await asyncio.sleep(0)
        metadata = _header_of(item).metadata
        held.update(metadata.finalizers or ())
        grace = max(grace, metadata.deletion_grace_period_seconds)
    return Remaining(resource, len(items), held, grace) if items else None


async def _delete(api: Api, operation: Delete) -> None:
    try:
        await api.delete(
            operation.resource,
            operation.key,
            uid=operation.uid,
            grace=operation.grace,
            propagation=operation.propagation,
        )
    except ApiError as error:
        gone = error.code == 404 or (error.reason == "Conflict" and operation.uid)
        if not gone:
            raise


def written(resource: Resource, obj: Obj) -> Written | None:
    """Return the trace of the write that produced an object; None if it has no version."""
    version = obj["metadata"].get("resourceVersion")
    return Written(resource, int(version)) if version else None


def told(operation: Action) -> str:
    """A short description of an operation, for the log."""
    name = type(operation).__name__.lower()
    if isinstance(operation, Confirm):
        return f"{name} the absence of {plural(len(operation.absent), 'object')}"
    if isinstance(operation, Empty):
        return f"{name} {operation.namespace or 'all namespaces'} of {plural(len(operation.resources), 'kind')}"
    key = key_of(operation.body) if isinstance(operation, Create | Replace) else operation.key
    return f"{name} {operation.resource.plural} {key}"
