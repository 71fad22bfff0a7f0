"""Decodes the bytes of an event into an object for the state, or reports invalid fields."""

from __future__ import annotations

import msgspec
from msgspec import DecodeError
from msgspec.structs import replace

from kilauea.api.core import Pod
from kilauea.api.decode import GROUPS, decode
from kilauea.api.meta import Object
from kilauea.api.ports import Holder
from kilauea.api.resized import counted, counts_alike
from kilauea.api.validate import check
from kilauea.runtime.inputs.resources import DECODERS, RESOURCES

_encode = msgspec.json.Encoder().encode


class Unusable(ValueError):
    """An object cannot be used; the message names the field, its value and valid values."""


def read(kind: str, data: bytes) -> Object:
    """The object in an event.

    Raises:
        Unusable: a field is invalid.
    """
    obj = decoded(kind, data)
    check_usable(obj)
    return obj


def decoded(kind: str, data: bytes) -> Object:
    """The object in an event, without validation of its fields.

    Raises:
        Unusable: the data is not an object of the kind.
    """
    try:
        obj = DECODERS[kind].decode(data)
    except (DecodeError, UnicodeDecodeError, RecursionError):
        obj = _read_slowly(kind, data)
    obj.kind, obj.api_version = kind, RESOURCES[kind].api_version
    return obj


def pod_in(data: bytes | Holder) -> Pod:
    """Decode a pod that was already validated."""
    pod = decoded("Pod", data if isinstance(data, bytes) else data.value)
    assert isinstance(pod, Pod)
    return pod


def kept(pod: Pod) -> bytes:
    """Reduce a pod to the fields that scheduling reads, about a quarter of the whole, for storing it.

    For a pod on a node, the conditions are left out except the time at which it was scheduled, and the allocated
    resources of its containers unless they differ from the requests.
    """
    status = pod.status
    if status is not None and counted(pod) is pod:
        status = replace(status, container_statuses=None, init_container_statuses=None)
        if pod.spec.node_name and status.conditions:
            status.conditions = [each for each in status.conditions if each.type == "PodScheduled"]
        pod = replace(pod, status=status)
    return _encode(pod)


def reduced(data: bytes) -> bytes:
    """Reduce a pod of a list; unchanged if it cannot be decoded, so that the error is found when it is read."""
    try:
        pod = decoded("Pod", data)
    except Unusable:
        return data
    assert isinstance(pod, Pod)
    return kept(pod)


def check_usable(obj: Object) -> None:
    """Validate an object.

    Raises:
        Unusable: a field is invalid.
    """
    errors = check(obj)
    if errors:
        raise Unusable("; ".join(f"{error.field}: {error.message}" for error in errors))


def has_only_advanced(before: Pod, now: Pod) -> bool:
    """Return True if only version, node and status of a pod changed, so that it need not be validated again.

    The claims created for a pod are in its status, but are read with its spec, and so are the allocated resources of
    its containers during a resize. A pod of another scheduler counts only while it has a node, so it is read again if
    it loses it.
    """
    if before.spec.node_name and not now.spec.node_name:
        return False
    if now.spec.resource_claims and _made_claims(before) != _made_claims(now):
        return False
    if not counts_alike(before, now):
        return False
    metadata = replace(before.metadata, resource_version=now.metadata.resource_version)
    return metadata == now.metadata and replace(before.spec, node_name=now.spec.node_name) == now.spec


def _made_claims(pod: Pod) -> object:
    return pod.status.resource_claim_statuses if pod.status else None


def _read_slowly(kind: str, data: bytes) -> Object:
    """Read an object with nulls or invalid fields, and report them."""
    decoded = decode(data, "watch")
    if decoded.objects and decoded.objects[0].kind == kind:
        return decoded.objects[0]
    errors = "; ".join(f"{error.field}: {error.message}" for error in decoded.errors)
    raise Unusable(errors or f"it is not a {kind} of {GROUPS[kind] or 'the core group'}")
