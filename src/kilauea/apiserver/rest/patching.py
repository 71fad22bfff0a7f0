"""Patch: JSON patch, merge patch, strategic merge patch, and server-side apply, which may also create."""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import partial
from typing import Any

import msgspec

from kilauea.api.yamltext import YamlError
from kilauea.apiserver import status
from kilauea.apiserver.fields import forbidden_field, invalid_value, required
from kilauea.apiserver.go_json import GO_KINDS, go_json
from kilauea.apiserver.huge_numbers import huge_number, may_have_huge_number
from kilauea.apiserver.parsing import may_repeat_keys, parse_json, read_yaml
from kilauea.apiserver.patch import (
    check_applied,
    full_kind,
    json_patch,
    merge_patch,
    merged,
    server_side_apply,
    strategic_merge,
    subject_of,
)
from kilauea.apiserver.request import ApiResponse
from kilauea.apiserver.rest.answers import object_response
from kilauea.apiserver.rest.body import check_kind, kind_problem, media_type, strip
from kilauea.apiserver.rest.call import Call, Object
from kilauea.apiserver.rest.create import create_if_missing
from kilauea.apiserver.rest.objects import decode, metadata_of, unowned_fields
from kilauea.apiserver.rest.renewal import renew
from kilauea.apiserver.rest.update import change_object, check_body_name
from kilauea.apiserver.syntax_errors import json_syntax_error, yaml_syntax_error

JSON_PATCH = "application/json-patch+json"
MERGE_PATCH = "application/merge-patch+json"
STRATEGIC_PATCH = "application/strategic-merge-patch+json"
APPLY_PATCH = "application/apply-patch+yaml"
_encode = msgspec.json.Encoder().encode


async def patch(call: Call) -> ApiResponse:
    """Answer a patch of an object or of its status."""
    form = patch_form(call)
    if form == APPLY_PATCH:
        return await _apply(call)
    if form == MERGE_PATCH and (renewed := await renew(call)) is not None:
        return renewed
    if call.backend.store.get(call.key) is None:
        raise call.not_found()  # whatever the patch contains
    document = await call.aside(_read, call, form)
    if form == MERGE_PATCH and _is_of_status(call, document):
        return object_response(call, await change_object(call, partial(_with_status, call, document), shares=True))

    def change(obj: Object) -> Object:
        return patched(call, form, obj, document)

    return object_response(call, await change_object(call, change))


def _read(call: Call, form: str) -> Any:
    """Return the patch in the body, and report its duplicate keys."""
    document = parse_patch(call)
    if call.resource.is_custom and may_have_huge_number(call.request.body) and (why := huge_number(document)):
        raise status.bad_request(f"error decoding patch: {why}")
    if form != JSON_PATCH:
        _check_repeated(call, document)
    return document


def _is_of_status(call: Call, document: Any) -> bool:
    """Return True if a merge patch changes only the status of an object of a built-in kind.

    It may name its object and version. Webhooks and policies could change more, so none may exist.
    """
    if call.subresource is None or call.subresource.name != "status" or call.resource.is_custom:
        return False
    if call.backend.dynamic is not None and call.backend.dynamic.has_any():
        return False
    if not isinstance(document, dict) or not isinstance(document.get("status"), dict):
        return False
    metadata = document.get("metadata", {})
    return (
        document.keys() <= {"status", "metadata"}
        and isinstance(metadata, dict)
        and metadata.keys() <= {"uid", "resourceVersion"}
        and all(isinstance(value, str) for value in metadata.values())
    )


def _with_status(call: Call, document: Object, old: Object) -> Object:
    """Return an object with a patch applied to its status; the rest is shared with the old object."""
    nulls, patch = b"null" in call.request.body, document["status"]
    obj = {**old, "metadata": {**old["metadata"], **document.get("metadata", {})}}
    # The checks below change the new status in place, so it must not share parts with the old one.
    before = {
        key: value
        if value.__class__ not in (dict, list) or isinstance(patch.get(key), list)
        else decode(_encode(value))
        for key, value in (old.get("status") or {}).items()
    }
    obj["status"] = merged(before, patch, nulls=nulls)
    _strip_built_in(call, MERGE_PATCH, obj, ("status",))
    return obj


def patch_form(call: Call) -> str:
    """Return the type of the patch; reject unsupported types and options that do not apply to it."""
    form = media_type(call.request.headers.get("content-type", ""))
    allowed = [JSON_PATCH, MERGE_PATCH, *([] if call.resource.is_custom else [STRATEGIC_PATCH]), APPLY_PATCH]
    if form not in allowed:
        if call.resource.is_custom:
            raise status.unsupported_media_type(allowed)
        raise status.ApiFault(415, "UnsupportedMediaType", "415: Unsupported Media Type", {})
    causes = []
    if form == APPLY_PATCH and not call.request.first("fieldManager"):
        causes.append(required("fieldManager", "is required for apply patch"))
    if form != APPLY_PATCH and call.request.flag("force") is not None:
        causes.append(forbidden_field("force", "may not be specified for non-apply patch"))
    if causes:
        raise call.bad_options(causes)
    return form


def parse_patch(call: Call) -> Any:
    """Parse the patch in the body."""
    parsed = call.request.parsed
    if parsed is not None:
        if parsed.error:
            raise status.bad_request(f"error decoding patch: {parsed.error}")
        return msgspec.json.decode(parsed.value)
    try:
        return msgspec.json.decode(call.request.body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise status.bad_request(f"error decoding patch: {json_syntax_error(call.request.body, str(error))}") from error


def _check_repeated(call: Call, document: Any) -> None:
    """Warn about duplicate keys in a patch or reject it, as requested."""
    mode, parsed = call.field_validation(), call.request.parsed
    if mode == "Ignore" or call.request.is_ours:
        return
    if parsed is None and not may_repeat_keys(call.request.body, document):
        return
    found = parse_json(call.request.body).repeated if parsed is None else parsed.repeated
    if mode == "Warn":
        call.warnings += found
    elif found:
        message = f"strict decoding error: {', '.join(found)}"
        raise status.invalid("", "", "", [invalid_value("patch", _encode(document).decode(), message)])


def patched(call: Call, form: str, obj: Object, document: Any) -> Object:
    """Apply a patch to an object, without fields that its kind does not have."""
    obj = _merged(call, form, obj, document)
    if not isinstance(obj, dict):
        raise status.bad_request("the patch leaves no object")
    why = kind_problem(obj)
    if why:
        raise status.invalid("", "", "", [invalid_value("patch", _encode(obj).decode(), why)])
    if call.resource.is_custom and not obj.get("kind"):
        text = go_json(obj, "sorted")
        raise status.invalid("", "", "", [invalid_value("patch", text, f"Object 'Kind' is missing in '{text}'")])
    if call.resource.is_custom and not obj.get("apiVersion"):
        raise status.internal("Object 'apiVersion' is missing in 'object has no apiVersion field'")
    check_kind(obj, call.resource.api_version, call.resource.kind)
    check_body_name(call, obj)
    if call.resource.is_custom:
        _strip_custom(call, form, obj, document)
    else:
        _strip_built_in(call, form, obj, document)
    return obj


def _strip_built_in(call: Call, form: str, obj: Object, document: Any) -> None:
    """Remove fields unknown to a built-in kind; reject values of wrong types with a message about the whole object."""
    try:
        _strip_changed(call, form, obj, document)
    except status.ApiFault as fault:
        why = str(fault).partition(f"cannot be handled as a {call.resource.kind}: ")[2]
        text = _encode(_merge_again(call, form)).decode()
        raise status.invalid("", "", "", [invalid_value("patch", text, why)]) from fault


def _merge_again(call: Call, form: str) -> Object:
    """Merge a patch into the stored object again, keeping all unknown fields."""
    stored = call.backend.store.get(call.key)
    before = decode(call.resource.served(stored.value)) if stored is not None else {}
    obj: Object = _merged(call, form, before, parse_patch(call))
    check_kind(obj, call.resource.api_version, call.resource.kind)
    return obj


def _merged(call: Call, form: str, obj: Object, document: Any) -> Any:
    """Return an object with a patch applied."""
    if form == JSON_PATCH:
        return json_patch(obj, document)
    if form == MERGE_PATCH:
        return merge_patch(obj, document)
    return strategic_merge(obj, document, call.resource.schema)


def _strip_custom(call: Call, form: str, obj: Object, document: Any) -> None:
    """Remove unknown fields of a custom resource, or of its status if only that can have changed."""
    if form == JSON_PATCH:
        parts = set().union(*map(_parts_of, document))
    else:
        parts = set(document)
    text = _encode(obj).decode() if call.field_validation() == "Strict" else ""
    try:
        if parts == {"status"}:
            _strip_parts(call, obj, parts)
        else:
            strip(call, obj)
    except status.ApiFault as fault:
        why = str(fault).partition(f"cannot be handled as a {call.resource.kind}: ")[2]
        if not why.startswith("strict decoding error"):
            raise
        raise status.invalid("", "", "", [invalid_value("patch", text, why)]) from fault


def _parts_of(operation: dict[str, Any]) -> set[str]:
    """Return the top-level fields that an operation of a JSON patch can change; the empty string means all."""
    if operation["op"] == "test":
        return set()
    places = (operation[name] for name in ("path", "from") if name in operation)
    return {"".join(str(place).split("/")[1:2]) for place in places}


def _strip_changed(call: Call, form: str, obj: Object, document: Any) -> None:
    """Remove fields unknown to a built-in kind in the parts that a patch can change."""
    if form == JSON_PATCH:
        strip(call, obj)
    else:
        _strip_parts(call, obj, document)


def _strip_parts(call: Call, obj: Object, names: Iterable[str]) -> None:
    """Remove unknown fields below some top-level fields."""
    part = {key: obj[key] for key in names if key in obj}
    strip(call, part)
    for key in names:
        if key in part:
            obj[key] = part[key]
        else:
            obj.pop(key, None)


async def _apply(call: Call) -> ApiResponse:
    """Answer a server-side apply, which creates a missing object."""
    applied, repeated = await call.aside(parse_applied, call)
    if (applied.get("apiVersion"), applied.get("kind")) != (call.resource.api_version, call.resource.kind):
        raise status.bad_request(f"invalid object type: {full_kind(applied)}")
    if not _is_named_by_text(applied):
        check_applied(applied, call.resource.api_version, call.resource.schema)
    metadata_of(applied)
    metadata = applied["metadata"]
    is_new = call.backend.store.get(call.key) is None and call.subresource is None
    if not is_new or metadata.get("name"):
        metadata.setdefault("name", call.info.name)
        check_body_name(call, applied)
    tell_repeated(call, repeated)
    if is_new:
        obj = await call.aside(_applied, call, None, applied)
        if metadata.get("uid"):
            message = f"the provided object specified uid {metadata['uid']}, and no existing object was found"
            raise call.conflict(f"uid mismatch: {message}")
        check_body_name(call, obj)
        created = await create_if_missing(call, obj, track=False)
        if created is not None:
            return object_response(call, created, 201)
    return object_response(call, await change_object(call, lambda obj: _applied(call, obj, applied), track=False))


def _is_named_by_text(applied: Object) -> bool:
    """Return True if metadata and name have readable types, if present."""
    metadata = applied.get("metadata")
    if not isinstance(metadata, dict):
        return metadata is None
    return isinstance(metadata.get("name"), str | None)


def tell_repeated(call: Call, repeated: list[str]) -> None:
    """Warn about duplicate keys in an applied object or reject it, as requested."""
    mode = call.field_validation()
    if mode == "Warn":
        call.warnings += repeated
    elif mode == "Strict" and repeated:
        lines = "\n  ".join(repeated)
        message = "error strict decoding YAML: error converting YAML to JSON: yaml: unmarshal errors"
        raise status.bad_request(f"{message}:\n  {lines}")


def parse_applied(call: Call) -> tuple[Object, list[str]]:
    """Parse the applied object, JSON or YAML; return it with messages about duplicate keys."""
    body, parsed, error = call.request.body, call.request.parsed, ""
    applied: Any = None
    repeated: list[str] = []
    if parsed is None:
        try:
            applied, repeated = read_yaml(body)
        except YamlError as fault:
            error = yaml_syntax_error(body, str(fault))
    else:
        applied, error, repeated = msgspec.json.decode(parsed.value), parsed.error, parsed.repeated
    if error:
        raise status.bad_request(f"error decoding YAML: error converting YAML to JSON: {error}")
    if applied is None:
        return {}, repeated
    if not isinstance(applied, dict):
        kind = GO_KINDS.get(type(applied), "number")
        message = f"json: cannot unmarshal {kind} into Go value of type map[string]interface {{}}"
        raise status.bad_request(f"error decoding YAML: error unmarshaling JSON: while decoding JSON: {message}")
    if call.resource.is_custom and may_have_huge_number(body) and (why := huge_number(applied)):
        raise status.bad_request(f"error decoding YAML: error unmarshaling JSON: while decoding JSON: {why}")
    return applied, repeated


def _applied(call: Call, live: Object | None, applied: Object) -> Object:
    """Return the live object merged with the applied one, whose fields the caller owns."""
    resource = call.resource
    force = call.request.flag("force") is True
    subresource = call.subresource.name if call.subresource else ""
    obj = server_side_apply(
        live, applied, call.field_manager(), force, resource.schema, resource.api_version,
        call.backend.timestamp(), subresource, reset=unowned_fields(call),
    )  # fmt: skip
    if live is not None:
        obj["metadata"].setdefault("resourceVersion", live["metadata"]["resourceVersion"])
    obj = decode(_encode(obj))  # the result shares parts with its sources
    try:
        strip(call, obj, keep_nulls=True)
    except status.ApiFault as fault:
        why = _conversion_problem(str(fault).partition(f"cannot be handled as a {resource.kind}: ")[2])
        if resource.is_custom or not why:
            raise
        target = f"unable to convert unstructured object to {full_kind(applied)}"
        message = f"failed to convert new object ({subject_of(applied)}) to proper version: {target}: {why}"
        raise status.ApiFault(500, "", message) from fault
    return obj


def _conversion_problem(why: str) -> str:
    """Return the reason why JSON cannot be read, worded as in Kubernetes for conversion of decoded values."""
    number = re.match(r"json: cannot unmarshal number (\S+) into Go struct field \S+ of type (int32|int64)$", why)
    if number and not number[1].lstrip("-").isdigit():
        return f"cannot convert float64 to {number[2]}"
    if why.startswith("illegal base64"):
        return f"error decoding from json: {why}"
    return re.sub(r"into Go struct field \S+ of type", "into Go value of type", why)
