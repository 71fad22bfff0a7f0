"""Bytes of an event to the object that the state takes, or to words about what is wrong with it."""

from __future__ import annotations

from msgspec import DecodeError
from msgspec.structs import replace

from kilauea.api.core import Pod
from kilauea.api.decode import GROUPS, decode
from kilauea.api.meta import Object
from kilauea.api.validate import check
from kilauea.runtime.inputs.resources import DECODERS, RESOURCES


class Unusable(ValueError):
    """An object that scheduling cannot use; the message says which field, its value, and what would be right."""


def read(kind: str, data: bytes) -> Object:
    """The object in an event.

    Raises:
        Unusable: something in it is wrong.
    """
    obj = decoded(kind, data)
    check_usable(obj)
    return obj


def decoded(kind: str, data: bytes) -> Object:
    """The object in an event, of which nothing is checked but that it is one.

    Raises:
        Unusable: it is none.
    """
    try:
        obj = DECODERS[kind].decode(data)
    except (DecodeError, UnicodeDecodeError, RecursionError):
        obj = _read_slowly(kind, data)
    obj.kind, obj.api_version = kind, RESOURCES[kind].api_version
    return obj


def check_usable(obj: Object) -> None:
    """Look for what scheduling cannot use.

    Raises:
        Unusable: something is wrong.
    """
    errors = check(obj)
    if errors:
        raise Unusable("; ".join(f"{error.field}: {error.message}" for error in errors))


def has_only_advanced(before: Pod, now: Pod) -> bool:
    """True if only version, node and status of a pod changed, so that it need not be checked again."""
    metadata = replace(before.metadata, resource_version=now.metadata.resource_version)
    return metadata == now.metadata and replace(before.spec, node_name=now.spec.node_name) == now.spec


def _read_slowly(kind: str, data: bytes) -> Object:
    """Read an object that has nulls or faults, and say what they are."""
    decoded = decode(data, "watch")
    if decoded.objects and decoded.objects[0].kind == kind:
        return decoded.objects[0]
    errors = "; ".join(f"{error.field}: {error.message}" for error in decoded.errors)
    raise Unusable(errors or f"it is not a {kind} of {GROUPS[kind] or 'the core group'}")
