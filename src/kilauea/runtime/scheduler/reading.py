"""Bytes of an event to the object that the state takes, or to words about what is wrong with it."""

from __future__ import annotations

from msgspec import DecodeError
from msgspec.structs import replace

from kilauea.api import wellknown
from kilauea.api.core import Pod
from kilauea.api.decode import GROUPS, decode
from kilauea.api.meta import Object, ObjectMeta
from kilauea.api.scheduling import PodGroup, PodGroupSpec, PodGroupStatus
from kilauea.api.validate import check
from kilauea.runtime.scheduler.watched import DECODERS, RESOURCES


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
    """Whether nothing of a pod is new but its version, its node and its status: as usable as it was, it still is."""
    metadata = replace(before.metadata, resource_version=now.metadata.resource_version)
    return metadata == now.metadata and replace(before.spec, node_name=now.spec.node_name) == now.spec


def _read_slowly(kind: str, data: bytes) -> Object:
    """Read an object that has nulls or faults, and say what they are."""
    decoded = decode(data, "watch")
    if decoded.objects and decoded.objects[0].kind == kind:
        return decoded.objects[0]
    errors = "; ".join(f"{error.field}: {error.message}" for error in decoded.errors)
    raise Unusable(errors or f"it is no {kind} of {GROUPS[kind] or 'the core group'}")


def stands_alone(pod: Pod, schedulers: frozenset[str]) -> bool:
    """Whether a pod is a group of one: it names no group, and these schedulers ask for none."""
    name = pod.spec.scheduler_name or ""
    return name in schedulers and wellknown.GROUP_NAME not in pod.annotations


def group_of_one(pod: Pod) -> tuple[Pod, PodGroup]:
    """A pod with a group of its own, which exists in this process only; no PodGroup can have its name."""
    meta = pod.metadata
    name = f"pod:{meta.name}"
    annotations = {**pod.annotations, wellknown.GROUP_NAME: name}
    own = ObjectMeta(name, meta.namespace, annotations=pod.annotations, creation_timestamp=meta.creation_timestamp)
    spec = PodGroupSpec(min_member=1, priority_class_name=pod.spec.priority_class_name)
    group = PodGroup(RESOURCES["PodGroup"].api_version, "PodGroup", own, spec, PodGroupStatus(phase="Inqueue"))
    return replace(pod, metadata=replace(meta, annotations=annotations)), group
