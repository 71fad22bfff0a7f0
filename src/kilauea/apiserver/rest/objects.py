"""Conversion of objects between bytes and dicts, and the metadata that only the server writes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cache, partial
from typing import Any

import msgspec

from kilauea.api.names import qualified_name_problems
from kilauea.apiserver import status
from kilauea.apiserver.fields import (
    check_annotations,
    check_labels,
    check_name,
    forbidden_field,
    invalid_value,
    invalid_values,
    required,
)
from kilauea.apiserver.patch import FieldSet, fields, track_update
from kilauea.apiserver.patch.values import same
from kilauea.apiserver.rest.call import Call, Object
from kilauea.apiserver.rest.extent import DEEPEST, check_size, is_deep, too_deep
from kilauea.apiserver.schema import apply_defaults
from kilauea.apiserver.status import ApiFault, Cause
from kilauea.apiserver.strategies.base import METADATA, keep

SERVER_FIELDS = (
    "uid",
    "creationTimestamp",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
    "selfLink",
    "generateName",
    "generation",
)
"""Metadata that an update does not change."""
FINALIZERS_OF_OWN = frozenset({"orphan", "foregroundDeletion"})
"""Finalizers without a domain that Kubernetes itself uses."""

_ANY_FINALIZERS = frozenset(
    ("apiextensions.k8s.io", "admissionregistration.k8s.io", "coordination.k8s.io", "node.k8s.io", "policy")
)
"""Groups whose objects can have any finalizer without a domain."""

MOST_CONTROLLERS = 100
"""Maximum errors about owners that are controllers besides the first; each error shows all owners."""

_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder().decode


def decode(value: bytes) -> Object:
    """Decode a stored object into a new dict that may be changed."""
    obj: Object = _decode(value)
    return obj


class _Metadata(msgspec.Struct, rename="camel"):
    managed_fields: msgspec.Raw = msgspec.Raw(b"")


class _Head(msgspec.Struct):
    metadata: _Metadata


_head_of = msgspec.json.Decoder(_Head).decode
_MANAGED = b'"managedFields":'


def decode_but_managers(value: bytes) -> Object:
    """Decode a stored object for changes that have no manager: `managedFields` stay encoded.

    They are half of many objects. Quotes within text are escaped, so the search can find only a key of this name.
    """
    managed = bytes(_head_of(value).metadata.managed_fields)
    start = value.find(_MANAGED) + len(_MANAGED)
    if managed and value.startswith(managed, start):
        obj: Object = _decode(b"%bnull%b" % (value[:start], value[start + len(managed) :]))
        if obj["metadata"].get("managedFields", managed) is None:
            obj["metadata"]["managedFields"] = msgspec.Raw(managed)
            return obj
    return decode(value)


def encode(obj: Object, revision: int, *, deepens: bool = True) -> bytes:
    """Encode an object at a revision; kind, apiVersion and metadata come first, as lists and watches rely on that.

    Args:
        obj: the object.
        revision: the revision of the write.
        deepens: False for a change that adds no levels to a stored object.
    """
    metadata = obj["metadata"]
    if revision:
        metadata["resourceVersion"] = str(revision)
    else:
        metadata.pop("resourceVersion", None)
    value = _encode({"kind": obj["kind"], "apiVersion": obj["apiVersion"], "metadata": metadata, **obj})
    check_size(value, obj["kind"], metadata)
    # Few brackets cannot be nested too deeply.
    if deepens and value.count(b"{") + value.count(b"[") > DEEPEST and is_deep(obj):
        raise too_deep()
    return value


def check_depth(obj: Object) -> None:
    """Reject an object that is nested too deeply; `encode` need not check it again."""
    if is_deep(obj):
        raise too_deep()


def encoder(call: Call, obj: Object) -> Callable[[int], bytes]:
    """Return a function that encodes an object for the store once its revision is known."""
    return partial(encode, in_stored_form(call, obj))


def in_stored_form(call: Call, obj: Object) -> Object:
    """Return an object of a built-in kind in its stored form, which may be that of another kind or version."""
    form = call.resource.other_form
    return obj if form is None else form.stored(obj)


def unshared(obj: Object) -> Object:
    """Return a copy of an object with new dicts for metadata, spec and status; everything below is shared."""
    return {key: dict(value) if value.__class__ is dict else value for key, value in obj.items()}


def metadata_of(obj: Object) -> Object:
    """Return the metadata of an object, adding it if missing."""
    metadata = obj.get("metadata")
    if metadata is None:
        metadata = obj["metadata"] = {}
    elif not isinstance(metadata, dict):
        raise status.bad_request("metadata: expected an object")
    return metadata


def settle_namespace(call: Call, obj: Object) -> None:
    """Set the namespace of an object to that of the request; reject a different one."""
    metadata = metadata_of(obj)
    named = metadata.get("namespace") or ""
    if not call.resource.namespaced:
        metadata.pop("namespace", None)
    elif named and named != call.namespace:
        raise status.bad_request(
            "the namespace of the provided object does not match the namespace sent on the request"
        )
    else:
        metadata["namespace"] = call.namespace


def new_metadata(call: Call, obj: Object) -> None:
    """Set the metadata that the server writes in a new object, and remove what clients may not set."""
    metadata = obj["metadata"]
    for field in ("deletionTimestamp", "deletionGracePeriodSeconds", "selfLink", "resourceVersion"):
        metadata.pop(field, None)
    metadata["uid"] = call.backend.new_uid()
    metadata["creationTimestamp"] = call.backend.timestamp()


def kept_metadata(obj: Object, old: Object) -> None:
    """Restore, in an update, the metadata that only the server may set."""
    for field in SERVER_FIELDS:
        keep(obj["metadata"], old["metadata"], field)


_STATUS = fields("status")
_NOTHING = fields()
_CUSTOM_BUT_STATUS = fields("spec", "metadata")


def complete(call: Call, obj: Object, old: Object | None = None) -> None:
    """Set defaults; unchanged parts already have them, as defaults of built-in kinds never change."""
    kept: Sequence[str] = ()
    if call.like is not None and call.like.known is not None:
        kept = ("spec",)
    elif old and not call.resource.is_custom:
        kept = [key for key, value in obj.items() if key in old and (value is old[key] or value == old[key])]
    apply_defaults(call.resource.schema, obj, kept)
    call.resource.strategy.default(obj)
    call.resource.strategy.note_times(obj, old, call.backend.timestamp())


def fill_status(call: Call, obj: Object) -> None:
    """Set the status fields that every new object of a built-in kind has."""
    schema = None if call.resource.is_custom else call.resource.schema.properties.get("status")
    if schema is not None:
        apply_defaults(schema, obj.setdefault("status", {}))


def unowned_fields(call: Call) -> FieldSet:
    """Return the fields that a write through the subresource of a call, or to the object itself, does not change."""
    reset = call.resource.strategy.unowned.get(call.subresource.name if call.subresource else "")
    if reset is not None:
        return fields(*reset)
    if call.subresource is None:
        return _STATUS if call.resource.strategy.has_status else _NOTHING
    if call.subresource.name != "status":
        return _STATUS
    return _CUSTOM_BUT_STATUS if call.resource.is_custom else _all_but_status(call.resource.strategy.kept_in_status)


@cache
def _all_but_status(kept: tuple[str, ...]) -> FieldSet:
    """Return the fields that a write of the status does not change, including the metadata that it keeps."""
    return fields("spec", *(["metadata"] if kept == METADATA else [f"metadata.{each}" for each in kept]))


def note_manager(call: Call, old: Object | None, obj: Object) -> None:
    """Update `managedFields` of an object that is written by other means than a server-side apply."""
    resource = call.resource
    subresource = call.subresource.name if call.subresource else ""
    entries = track_update(
        old, obj, call.field_manager(), resource.schema, resource.api_version, call.backend.timestamp(),
        subresource=subresource, reset=unowned_fields(call), known=_known_fields(call) if old is None else None,
    )  # fmt: skip
    if entries:
        obj["metadata"]["managedFields"] = entries
    else:
        obj["metadata"].pop("managedFields", None)


def _known_fields(call: Call) -> Mapping[str, FieldSet | None] | None:
    """Return the known fields of a new object, by part."""
    return {"spec": call.like.known.owned} if call.like is not None and call.like.known is not None else None


def refuse(call: Call, name: str, causes: list[Cause]) -> None:
    """Raise the error for an invalid object if there are causes."""
    if causes:
        raise invalid(call, name, causes)


def invalid(call: Call, name: str, causes: list[Cause]) -> ApiFault:
    """Return the error for an invalid object of the kind of the call."""
    group = "" if call.resource.kind == "Event" else call.resource.group  # both kinds of events are named as in core
    return status.invalid(call.resource.kind, group, name, causes)


def check_metadata(call: Call, obj: Object, old: Object | None = None) -> list[Cause]:
    """Return the errors in the metadata of an object; parts unchanged from `old` were checked before."""
    metadata = obj["metadata"]
    if old is not None and _checked_of(metadata) == _checked_of(old["metadata"]):
        return []
    causes: list[Cause] = []
    name = metadata.get("name", "")
    if metadata.get("generateName"):
        causes += _check_prefix(call, metadata["generateName"])
    if not name:
        causes.append(required("metadata.name", "name or generateName is required"))
    else:
        causes += check_name("metadata.name", name, call.resource.strategy.name_problems(name))
    causes += check_labels("metadata.labels", metadata.get("labels") or {})
    causes += check_annotations("metadata.annotations", metadata.get("annotations") or {})
    if metadata.get("ownerReferences"):
        causes += _check_owners(metadata["ownerReferences"])
    if metadata.get("finalizers"):
        causes += _check_finalizers(call, metadata["finalizers"])
    return causes


def _checked_of(metadata: Object) -> tuple[Any, ...]:
    """Return the parts of metadata that can have errors."""
    get = metadata.get
    return (
        get("name"), get("generateName"), get("labels"), get("annotations"), get("ownerReferences"), get("finalizers")
    )  # fmt: skip


def _check_prefix(call: Call, prefix: str) -> list[Cause]:
    """Check the prefix of a generated name, which may end with a hyphen."""
    name = f"{prefix[:-2]}a" if len(prefix) > 1 and prefix.endswith("-") else prefix
    problems = call.resource.strategy.name_problems(name)
    return check_name("metadata.generateName", prefix, problems)


def _check_finalizers(call: Call, finalizers: list[str]) -> list[Cause]:
    path = "metadata.finalizers"
    causes = [cause for each in finalizers for cause in check_name(path, each, qualified_name_problems(each))]
    if FINALIZERS_OF_OWN.issubset(finalizers):
        causes.append(invalid_value(path, finalizers, "finalizer orphan and foregroundDeletion cannot be both set"))
    if not call.resource.is_custom and call.resource.group not in _ANY_FINALIZERS:
        for number, each in enumerate(finalizers):
            causes += _check_finalizer(f"{path}[{number}]", each)
    return causes


def _check_owners(owners: list[Object]) -> list[Cause]:
    """Check owner references: all fields, and at most one controller."""
    causes: list[Cause] = []
    path = "metadata.ownerReferences"
    for owner in owners:
        version = owner.get("apiVersion", "")
        if not version or version[-1] == "/" or version.count("/") > 1:
            causes.append(invalid_value(f"{path}.apiVersion", version, "version must not be empty"))
        for field in ("kind", "name", "uid"):
            if not owner.get(field):
                causes.append(invalid_value(f"{path}.{field}", owner.get(field, ""), "must not be empty"))
        if (version, owner.get("kind")) == ("v1", "Event"):
            message = "/v1, Kind=Event is disallowed from being an owner"
            causes.append(invalid_value(path, _in_order(owner), message))
    if len(owners) < 2:
        return causes
    controllers = [f"{each.get('kind', '')}/{each.get('name', '')}" for each in owners if each.get("controller")]
    if len(controllers) < 2:
        return causes
    details = (
        "Only one reference can have Controller set to true. Found "
        f'"true" in references for {controllers[0]} and {name}'
        for name in controllers[1 : MOST_CONTROLLERS + 1]
    )
    return causes + invalid_values(path, [_in_order(each) for each in owners], details)


def _in_order(owner: Object) -> Object:
    """Return an owner reference with its fields in the order of the real server."""
    needed = {field: owner.get(field, "") for field in ("apiVersion", "kind", "name", "uid")}
    return needed | {field: owner[field] for field in ("controller", "blockOwnerDeletion") if field in owner}


def _check_finalizer(path: str, finalizer: str) -> list[Cause]:
    """Check that a finalizer has a domain unless Kubernetes itself uses it; definitions are checked less strictly."""
    if "/" in finalizer or finalizer in FINALIZERS_OF_OWN or finalizer == "kubernetes":
        return []
    return [invalid_value(path, finalizer, "name is neither a standard finalizer name nor is it fully qualified")]


def check_changed_metadata(obj: Object, old: Object) -> list[Cause]:
    """Check that the UID is unchanged, and that no finalizer is added to an object that is being deleted."""
    metadata, before = obj["metadata"], old["metadata"]
    if not before.get("deletionTimestamp"):
        return []
    added = set(metadata.get("finalizers") or []) - set(before.get("finalizers") or [])
    if not added:
        return []
    listed = " ".join(f'"{each}"' for each in sorted(added))
    detail = f"no new finalizers can be added if the object is being deleted, found new finalizers []string{{{listed}}}"
    return [forbidden_field("metadata.finalizers", detail.replace('" "', '", "'))] * 2  # the real server checks twice


def same_but_for_times(obj: Object, old: Object) -> bool:
    """Return True if an update changes only times in managedFields, so that it need not be written."""
    if obj.keys() != old.keys() or any(obj[part] != old[part] for part in obj if part != "metadata"):
        return False
    if _without_times(obj["metadata"]) != _without_times(old["metadata"]):
        return False
    return all(same(obj[part], old[part]) for part in obj if part != "metadata")  # in Python, 1 == True


def _without_times(metadata: Object) -> dict[str, Any]:
    """Return metadata without the parts that every write changes."""
    kept = {key: value for key, value in metadata.items() if value not in (None, {}, []) and key != "resourceVersion"}
    kept["managedFields"] = [
        {key: value for key, value in entry.items() if key != "time"} for entry in metadata.get("managedFields") or []
    ]
    return kept
