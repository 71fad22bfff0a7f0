"""What a request carries: bytes of JSON or YAML, read into an object of the kind that the path names.

Unknown fields are taken out of objects of built-in kinds as the real server does by decoding into its types; what is
said about them is up to `fieldValidation`.
"""

from __future__ import annotations

from typing import Any

import msgspec
import yaml

from kilauea.api.yamltext import YamlError, load_yaml
from kilauea.apiserver import status
from kilauea.apiserver.protobuf import PROTOBUF, ProtobufError, decode_protobuf
from kilauea.apiserver.request import JSON, YAML
from kilauea.apiserver.rest.call import Call, Object
from kilauea.apiserver.schema import DecodeError, definition_name, read_builtin, read_custom
from kilauea.apiserver.status import ApiFault

READABLE = (JSON, YAML, PROTOBUF)
_ANSWERED = frozenset({("autoscaling/v1", "Scale"), ("policy/v1", "Eviction")})
"""Kinds of subresources, which are no resources of their own."""


_SHOWN = 64
"""Bytes of a body that a message repeats."""
_GO_KINDS = {list: "array", str: "string", bool: "bool"}
_TYPE_META = 'struct { APIVersion string "json:\\"apiVersion,omitempty\\""; Kind string "json:\\"kind,omitempty\\"" }'


def media_type(header: str) -> str:
    """A media type without its parameters."""
    return header.partition(";")[0].strip().lower()


def read_document(call: Call, expected: str) -> Object:
    """The body as a dict.

    Args:
        call: whose body is read; no content type stands for JSON.
        expected: the kind, for messages.
    """
    form = media_type(call.request.headers.get("content-type", "")) or JSON
    if form not in READABLE:
        raise status.unsupported_media_type(READABLE)
    if form == PROTOBUF:
        return _read_protobuf(call.request.body)
    document = parse(call.request.body, form, expected)
    if document is None:
        return {}
    if not isinstance(document, dict):
        kind = _GO_KINDS.get(type(document), "number")
        words = f"json: cannot unmarshal {kind} into Go value of type {_TYPE_META}"
        raise _unrecognised(expected, call.request.body, words)
    return document


def _read_protobuf(body: bytes) -> Object:
    """An object in protobuf form."""
    try:
        return decode_protobuf(body, message_name)
    except ProtobufError as error:
        raise status.bad_request(str(error)) from error


def message_name(api_version: str, kind: str) -> str:
    """The name of the protobuf message of a kind, which is that of its definition.

    Raises:
        LookupError: no such kind is built in.
    """
    group, _, version = api_version.rpartition("/")
    if kind == "DeleteOptions":
        return "io.k8s.apimachinery.pkg.apis.meta.v1.DeleteOptions"
    if (api_version, kind) in _ANSWERED:
        return f"io.k8s.api.{group}.{version}.{kind}"
    return definition_name(group, version, kind)


def parse(body: bytes, form: str, expected: str) -> Any:
    """JSON or YAML as plain values."""
    try:
        return msgspec.json.decode(body) if form == JSON else load_yaml(body)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise _unrecognised(expected, body, json_complaint(body, error)) from error
    except (YamlError, yaml.YAMLError) as error:
        raise _unrecognised(expected, body, str(error)) from error


def json_complaint(body: bytes, error: Exception) -> str:
    """What is wrong with JSON; the most usual fault in the words of Go."""
    if not body.strip() or "truncated" in str(error):
        return "unexpected end of JSON input"
    return str(error)


def _unrecognised(expected: str, body: bytes, why: str) -> ApiFault:
    words = f"the object provided is unrecognized (must be of type {expected})"
    shown = body[:_SHOWN].decode(errors="replace") if body.startswith(b"{") else body[:_SHOWN].hex()
    why = f"{why} ({shown or '<empty>'})"
    return status.bad_request(f"{words}: couldn't get version/kind; json parse error: {why}")


def read_object(call: Call) -> Object:
    """The object in the body, of the kind of the resource, without unknown fields."""
    obj = read_document(call, call.resource.kind)
    check_kind(obj, call.resource.api_version, call.resource.kind)
    strip(call, obj)
    return obj


def check_kind(obj: Object, api_version: str, kind: str) -> None:
    """Refuse an object of another kind; one that does not say is taken for this kind."""
    given, given_kind = obj.get("apiVersion") or api_version, obj.get("kind") or kind
    if (given, given_kind) != (api_version, kind):
        into = f"{api_version.partition('/')[0].partition('.')[0] if '/' in api_version else 'core'}.{kind}"
        version = str(given).rpartition("/")[2]
        raise status.bad_request(
            f'{given_kind} in version "{version}" cannot be handled as a {kind}: '
            f"converting ({version}.{given_kind}) to ({into}): unknown conversion"
        )
    obj["apiVersion"], obj["kind"] = api_version, kind


def strip(call: Call, obj: Object) -> None:
    """Take out what the kind does not know, and say so as asked; refuse values of the wrong type."""
    resource = call.resource
    try:
        unknown = read_custom(resource.schema, obj) if resource.is_custom else read_builtin(resource.schema, obj)
    except DecodeError as error:
        raise _unfit(call, str(error)) from error
    if unknown:
        _tell_unknown(call, unknown)


def _unfit(call: Call, why: str) -> ApiFault:
    resource = call.resource
    version, kind = resource.version, resource.kind
    return status.bad_request(f'{kind} in version "{version}" cannot be handled as a {kind}: {why}')


def _tell_unknown(call: Call, paths: list[str]) -> None:
    """Warn of unknown fields, refuse them, or keep quiet."""
    mode = call.field_validation()
    texts = [f'unknown field "{path}"' for path in paths]
    if mode == "Warn":
        call.warnings += texts
    elif mode == "Strict":
        raise _unfit(call, f"strict decoding error: {', '.join(texts)}")
