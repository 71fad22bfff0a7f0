"""Carries out operations of controllers, and returns traces of the writes."""

from __future__ import annotations

from typing import Any, NamedTuple

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
    Replace,
    Resource,
    key_of,
)
from kilauea.client.rest import version_of


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
    """An operation has to wait for objects that still exist.

    Attributes:
        again: seconds until the retry.
    """

    def __init__(self, words: str, again: float) -> None:
        super().__init__(words)
        self.again = again


async def carry_out(api: Api, operation: Action, manager: str) -> Trace | None:
    """Carry out an operation, and return its trace; None if no watch will show it.

    Args:
        api: the cluster.
        operation: the operation; it succeeds if the object already exists, or is already gone.
        manager: field manager of patches of the type `apply`.

    Raises:
        ApiError: it failed; a Conflict if the object does not have the version of the operation.
        NotYet: objects that should be gone first still exist.
    """
    if isinstance(operation, Confirm):
        await _confirm(api, operation)
        return None
    if isinstance(operation, Empty):
        await _empty(api, operation)
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
    """A patch that is refused if the object has another version."""
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


async def _confirm(api: Api, operation: Confirm) -> None:
    for resource, key, uid in operation.absent:
        try:
            found = await api.get(resource, key)
        except ApiError as error:
            if error.code != 404:
                raise
            continue
        if found["metadata"]["uid"] == uid:
            raise ApiError(409, "Conflict", f"{resource.plural} {key} exists")


async def _empty(api: Api, operation: Empty) -> None:
    left = []
    for resource in operation.resources:
        try:
            if not await api.delete_all(resource, operation.namespace):
                left.append(resource.plural)
        except ApiError as error:
            if error.code != 404:  # a kind that is no longer served has no objects
                raise
    if left:
        raise NotYet(f"not deleted yet: {', '.join(left)}", operation.again)


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
        return f"{name} that {len(operation.absent)} objects do not exist"
    if isinstance(operation, Empty):
        return f"{name} {operation.namespace or 'all namespaces'} of {len(operation.resources)} kinds"
    key = key_of(operation.body) if isinstance(operation, Create | Replace) else operation.key
    return f"{name} {operation.resource.plural} {key}"
