"""Request bodies: JSON or YAML, read into an object of the kind in the path.

Unknown fields are removed from objects of built-in kinds, as the real server does by decoding into its types;
`fieldValidation` decides whether they are reported.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from itertools import islice
from typing import Any

import msgspec

from kilauea.api.yamltext import YamlError
from kilauea.apiserver import status
from kilauea.apiserver.fields import invalid_value
from kilauea.apiserver.go_json import GO_KINDS, go_json
from kilauea.apiserver.huge_numbers import huge_number, may_have_huge_number
from kilauea.apiserver.parsing import MOST_REPEATED, may_repeat_keys, read_yaml
from kilauea.apiserver.protobuf import PROTOBUF, ProtobufError, decode_protobuf
from kilauea.apiserver.request import JSON, YAML, ApiRequest
from kilauea.apiserver.resources.message_names import message_name
from kilauea.apiserver.rest.alike import read_alike
from kilauea.apiserver.rest.call import Call, Object
from kilauea.apiserver.schema import (
    DecodeError,
    Schema,
    fields_in_order,
    is_known_kind,
    read_builtin,
    read_custom,
    unknown_field,
)
from kilauea.apiserver.status import ApiFault
from kilauea.apiserver.syntax_errors import json_syntax_error, yaml_syntax_error

READABLE = (JSON, YAML, PROTOBUF)

_SHOWN = 30
"""Bytes of a body that a message repeats."""
_UNTOLD = "no kind "
"""The beginning of the error for a body without a kind that is read without its request."""
_TYPE_META = 'struct { APIVersion string "json:\\"apiVersion,omitempty\\""; Kind string "json:\\"kind,omitempty\\"" }'


def media_type(header: str) -> str:
    """A media type without its parameters."""
    return header.partition(";")[0].strip().lower()


def read_document(call: Call, expected: str, api_version: str = "v1") -> Object:
    """Return the body as a dict.

    Args:
        call: the request; a missing content type means JSON.
        expected: the kind, for messages and for a body without a kind whose format depends on it.
        api_version: the version of the expected kind.
    """
    form = media_type(call.request.headers.get("content-type", "")) or JSON
    if form not in READABLE:
        raise status.unsupported_media_type(READABLE)
    if form == PROTOBUF:
        return _read_protobuf(call.request, (api_version, expected))
    document = parse(call, form, expected)
    if document is None:
        return {}
    if not isinstance(document, dict):
        kind = GO_KINDS.get(type(document), "number")
        message = f"json: cannot unmarshal {kind} into Go value of type {_TYPE_META}"
        raise _unrecognised(expected, call.request.body, f"{_NO_KIND}: {message}")
    why = kind_problem(document)
    if why:
        raise _unrecognised(expected, call.request.body, why)
    return document


def kind_problem(document: Object) -> str:
    """Return the reason why the kind of a document cannot be read, worded as by the real server; empty if it can."""
    for field in ("apiVersion", "kind"):
        given = document.get(field)
        if given is not None and not isinstance(given, str):
            kind = GO_KINDS.get(type(given), "number")
            return f"{_NO_KIND}: json: cannot unmarshal {kind} into Go struct field .{field} of type string"
    return ""


def read_typed(call: Call, schema: Schema, api_version: str, kind: str, older: Collection[str] = ()) -> Object:
    """Return the body as a kind other than that of the path: typed, without unknown fields.

    Args:
        call: the request.
        schema: the schema of the kind.
        api_version: the version of the kind.
        kind: the name of the kind.
        older: older versions of the same format.

    Raises:
        ApiFault: it is of another kind, a value is of the wrong type, or a field is unknown in strict validation (400).
    """
    obj = read_document(call, kind, api_version)
    if obj.get("apiVersion") in older:
        obj["apiVersion"] = api_version
    check_kind(obj, api_version, kind)
    unknown = typed(schema, obj, kind)
    if unknown:
        version = api_version.rpartition("/")[2]
        tell(call, [unknown_field(path, custom=False) for path in unknown], kind, version)
    return obj


def typed(schema: Schema, obj: Object, kind: str) -> list[str]:
    """Reduce an object in place to the fields of the Go type of its kind; return the paths of unknown fields.

    Raises:
        ApiFault: a value is of the wrong type (400).
    """
    try:
        return read_builtin(schema, obj)
    except DecodeError as error:
        raise _misread(kind, str(obj.get("apiVersion") or "v1").rpartition("/")[2], str(error)) from error


def _read_protobuf(request: ApiRequest, expected: tuple[str, str]) -> Object:
    """An object in protobuf form."""
    if request.parsed is not None and not request.parsed.error.startswith(_UNTOLD):
        if request.parsed.error:
            raise status.bad_request(request.parsed.error)
        found: Object = msgspec.json.decode(request.parsed.value)
        return found
    try:
        return decode_protobuf(request.body, message_name, expected)
    except ProtobufError as error:
        raise status.bad_request(str(error)) from error


def parse(call: Call, form: str, expected: str) -> Any:
    """Parse JSON or YAML into plain values; the last of duplicate keys wins."""
    body, parsed = call.request.body, call.request.parsed
    if parsed is not None:
        if parsed.error:
            raise _unrecognised(expected, body, f"{_NO_KIND}: {parsed.error}" if form == JSON else parsed.error)
        return msgspec.json.decode(parsed.value)
    try:
        return msgspec.json.decode(body) if form == JSON else read_yaml(body)[0]
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        message = f"{_NO_KIND}: {json_syntax_error(body, str(error))}"
        raise _unrecognised(expected, body, message) from error
    except YamlError as error:
        raise _unrecognised(expected, body, yaml_syntax_error(body, str(error))) from error


def _unrecognised(expected: str, body: bytes, why: str) -> ApiFault:
    shown = body[:_SHOWN].decode(errors="replace") if body.startswith(b"{") else body[:_SHOWN].hex()
    shown += " ..." if len(body) > _SHOWN else ""
    return status.bad_request(
        f"the object provided is unrecognized (must be of type {expected}): {why} ({shown or '<empty>'})"
    )


def reason_alone(message: str, kind: str) -> str:
    """Return the reason in a message about a body, without the kind and the quoted bytes."""
    message = message.partition(f"(must be of type {kind}): ")[2].rpartition(" (")[0] or message
    return message.partition(f"cannot be handled as a {kind}: ")[2] or message


_NO_KIND = "couldn't get version/kind; json parse error"


def read_object(call: Call, *, new: bool = False) -> Object:
    """Return the object in the body, of the kind of the resource, without unknown fields.

    Args:
        call: the request.
        new: True for an object to create; sets `call.like` to the known outcome for similar ones.
    """
    obj = read_document(call, call.resource.kind, call.resource.api_version)
    twice = call.field_validation() != "Ignore" and _has_repeated_keys(call, obj)
    if call.resource.is_custom:
        _check_custom_kind(call, obj)
    check_kind(obj, call.resource.api_version, call.resource.kind)
    call.like = read_alike(call.resource, obj) if new else None
    if call.like is None or call.like.known is None:
        strip(call, obj, twice=twice)
    elif twice:
        _tell_fields(call, [], twice)
    return obj


def _check_custom_kind(call: Call, obj: Object) -> None:
    """Reject a custom resource of another kind or without one; only built-in resources may omit it."""
    resource = call.resource
    version, kind = obj.get("apiVersion", ""), obj.get("kind")
    if not kind:
        body = call.request.body
        is_json = media_type(call.request.headers.get("content-type", "")) in ("", JSON)
        text = body.decode(errors="replace") if is_json and body else go_json(obj, "sorted")
        raise _unrecognised(resource.kind, body, f"Object 'Kind' is missing in '{text}'")
    if version is None:
        why = ".apiVersion accessor error: <nil> is of the type <nil>, expected string"
        raise _misread(resource.kind, "", why)
    if version != resource.api_version:
        message = f"does not match the expected API version ({resource.api_version})"
        raise status.bad_request(f"the API version in the data ({version}) {message}")
    if kind != resource.kind:
        metadata = obj.get("metadata")
        name = metadata.get("name") if isinstance(metadata, dict) else ""
        causes = [invalid_value("kind", kind, f"must be {resource.kind}")]
        raise status.invalid(kind, resource.group, name if isinstance(name, str) else "", causes)
    if may_have_huge_number(call.request.body) and (why := huge_number(obj)):
        raise _misread(kind, version.rpartition("/")[2], why)


def _has_repeated_keys(call: Call, obj: Object) -> bool:
    """Return True if the body may have duplicate keys."""
    body, form = call.request.body, media_type(call.request.headers.get("content-type", "")) or JSON
    if call.request.is_ours:
        return False
    if call.request.parsed is not None:
        return bool(call.request.parsed.repeated)
    if form == JSON:
        return may_repeat_keys(body, obj)
    return form == YAML


def check_kind(obj: Object, api_version: str, kind: str) -> None:
    """Reject an object of another kind; a missing kind means this kind."""
    given, given_kind = obj.get("apiVersion") or api_version, obj.get("kind") or kind
    if (given, given_kind) != (api_version, kind):
        into = f"{api_version.partition('/')[0].partition('.')[0] if '/' in api_version else 'core'}.{kind}"
        group, _, version = str(given).rpartition("/")
        why = f"converting ({version}.{given_kind}) to ({into}): unknown conversion"
        if not is_known_kind(group, version, given_kind):
            why = f'no kind "{given_kind}" is registered for version "{given}" in scheme "{SCHEME}"'
        raise status.bad_request(f'{given_kind} in version "{version}" cannot be handled as a {kind}: {why}')
    obj["apiVersion"], obj["kind"] = api_version, kind


SCHEME = "pkg/runtime/scheme.go:111"
"""The name that the real server's scheme has in error messages."""


def strip(call: Call, obj: Object, *, twice: bool = False, keep_nulls: bool = False) -> None:
    """Remove unknown fields and report them as requested; reject values of the wrong type.

    Args:
        call: the request, which determines the kind.
        obj: changed in place.
        twice: True if the body may have duplicate keys.
        keep_nulls: True to keep an invalid null in a custom resource, so that it is rejected.
    """
    schema = call.resource.schema
    try:
        is_custom = call.resource.is_custom
        unknown = read_custom(schema, obj, keep_nulls=keep_nulls) if is_custom else read_builtin(schema, obj)
    except DecodeError as error:
        raise _unfit(call, str(error)) from error
    if unknown:
        call.like = None  # the next object must get these messages, too
    if unknown or twice:
        _tell_fields(call, unknown, twice)


def _tell_fields(call: Call, unknown: list[str], twice: bool) -> None:
    messages = list(islice(_field_messages(call, unknown, twice), MOST_REPEATED))
    tell(call, messages, call.resource.kind, call.resource.version)


def _field_messages(call: Call, unknown: list[str], twice: bool) -> Iterator[str]:
    """Messages about unknown fields and duplicate keys, in the order of the body unless that is large."""
    body, parsed = call.request.body, call.request.parsed
    if not twice or parsed is not None:
        yield from parsed.repeated if parsed is not None and twice else ()
        yield from (unknown_field(path, custom=call.resource.is_custom) for path in unknown)
        return
    try:
        occurrences = list(fields_in_order(body))
    except (ValueError, RecursionError):  # YAML
        yield from read_yaml(body)[1]
        yield from (unknown_field(path, custom=call.resource.is_custom) for path in sorted(unknown))
        return
    left = set(unknown)
    for path, again in dict.fromkeys(occurrences):
        if again:
            yield f'duplicate field "{path}"'
        elif path in left:
            left.remove(path)
            yield unknown_field(path, custom=call.resource.is_custom)


def _unfit(call: Call, why: str) -> ApiFault:
    return _misread(call.resource.kind, call.resource.version, why)


def _misread(kind: str, version: str, why: str) -> ApiFault:
    return status.bad_request(f'{kind} in version "{version}" cannot be handled as a {kind}: {why}')


def tell(call: Call, messages: list[str], kind: str, version: str) -> None:
    """Warn about wrong fields, reject them, or ignore them, as requested."""
    mode = call.field_validation()
    if mode == "Warn":
        call.warnings += messages
    elif mode == "Strict" and messages:
        lines = [each for each in messages if each.startswith("line ")]
        found = ["yaml: unmarshal errors:\n  " + "\n  ".join(lines)] if lines else []
        found += [each for each in messages if each not in lines]
        raise _misread(kind, version, f"strict decoding error: {', '.join(found)}")
