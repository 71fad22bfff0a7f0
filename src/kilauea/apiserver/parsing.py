"""Parsing of request bodies in JSON, YAML or protobuf, with errors and duplicate keys."""

from __future__ import annotations

import json
import re
from itertools import islice
from typing import Any

import msgspec

from kilauea.api.yamltext import TextError, YamlError, bad_character, read_documents, whole
from kilauea.apiserver.protobuf import ProtobufError, decode_protobuf
from kilauea.apiserver.resources.message_names import message_name
from kilauea.apiserver.schema.repeated import repeated_fields
from kilauea.apiserver.syntax_errors import json_syntax_error, yaml_syntax_error

MOST_REPEATED = 100
"""Maximum duplicate keys to report for one body, as in the real server."""
MOST_CONTAINERS = 250_000
"""Maximum lists and objects in a body. Parsing them takes many times as long as text, and blocks the loop."""
_TEXT_IN_JSON = re.compile(rb'"(?:[^"\\]|\\.)*"')
_OTHER_IN_YAML = re.compile(rb"\xc2\x85|\xe2\x80[\xa8\xa9]|\\u[dD][89a-fA-F]")
"""Line breaks that only YAML has, and surrogate pairs of escapes, which YAML does not support."""
_MAY_BE_WHOLE = re.compile(rb"[0-9](?:\.0|[eE])")
_TWICE = "is given twice: keep one of them"


class Parsed(msgspec.Struct):
    """A parsed body: its value as JSON, or the syntax error; and messages about duplicate keys.

    A body with too many lists and objects has no value.
    """

    value: msgspec.Raw = msgspec.Raw(b"null")
    error: str = ""
    repeated: list[str] = []
    has_too_many: bool = False


def may_have_too_many(text: bytes) -> bool:
    """Return True if JSON may have too many lists and objects; brackets may also be in its strings."""
    return text.count(b"[") + text.count(b"{") > MOST_CONTAINERS


def has_too_many(text: bytes) -> bool:
    """Return True if JSON has too many lists and objects."""
    return may_have_too_many(text) and may_have_too_many(_TEXT_IN_JSON.sub(b"", text))


def parsed(value: bytes, repeated: list[str]) -> Parsed:
    """Return a parsed body with this JSON value."""
    return Parsed(has_too_many=True) if has_too_many(value) else Parsed(msgspec.Raw(value), "", repeated)


def may_repeat_keys(body: bytes, value: Any) -> bool:
    """Return True if JSON may have duplicate keys, given its parsed value.

    The value has fewer quotes than the text if a key was dropped, so the text need not be parsed again.
    """
    return body.count(b'"') != msgspec.json.encode(value).count(b'"') or b"\\u0022" in body


def is_plain_json(body: bytes) -> bool:
    """Return True if a body is valid JSON, without duplicate keys as far as the number of quotes shows."""
    if not body.lstrip().startswith((b"{", b"[")) or may_have_too_many(body):
        return False
    try:
        return not may_repeat_keys(body, msgspec.json.decode(body))
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return False


def is_json_in_yaml(body: bytes) -> bool:
    """Return True if a YAML body is also JSON, which is many times faster to parse."""
    return is_plain_json(body) and bad_character(body) is None and not _OTHER_IN_YAML.search(body)


def parse_json(body: bytes) -> Parsed:
    """Parse JSON; the last of duplicate keys wins."""
    try:
        value = msgspec.json.encode(msgspec.json.decode(body))
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        return Parsed(error=json_syntax_error(body, str(error)))
    return parsed(value, [f'duplicate field "{path}"' for path in _repeated(body)])


def _repeated(body: bytes) -> list[str]:
    try:
        return repeated_fields(body)[:MOST_REPEATED]
    except (ValueError, RecursionError):
        return []


def parse_yaml(body: bytes) -> Parsed:
    """Parse YAML: the first document that is not empty."""
    try:
        value, lines = read_yaml(body)
    except YamlError as error:
        return Parsed(error=yaml_syntax_error(body, str(error)))
    return parsed(_encoded(value), lines)


def parse_protobuf(body: bytes) -> Parsed:
    """Parse an object in protobuf."""
    try:
        return parsed(msgspec.json.encode(decode_protobuf(body, message_name)), [])
    except ProtobufError as error:
        return Parsed(error=str(error))


def read_yaml(body: bytes) -> tuple[Any, list[str]]:
    """Return the first YAML document that is not empty, and messages about its duplicate keys.

    Most clients apply JSON.

    Raises:
        YamlError: the body is not YAML.
    """
    if is_json_in_yaml(body):
        value = msgspec.json.decode(body)
        return (_whole_numbers(value) if _MAY_BE_WHOLE.search(body) else value), []
    repeated: list[str] = []
    for part in read_documents(body.removeprefix(b"\xef\xbb\xbf")):
        if isinstance(part, TextError):
            raise YamlError(part.line, part.column, part.message)
        for fault in part.faults:
            if fault.message != _TWICE:
                raise YamlError(fault.line, fault.column, fault.message)
        again = islice(part.faults, MOST_REPEATED - len(repeated))
        repeated += [f'line {fault.line}: key "{fault.path[-1]}" already set in map' for fault in again]
        if part.value is not None:
            return part.value, repeated
    return None, repeated


def _whole_numbers(value: Any) -> Any:
    """Convert whole numbers of a YAML value to integers, in place."""
    if isinstance(value, dict):
        for key, each in value.items():
            value[key] = _whole_numbers(each)
    elif isinstance(value, list):
        value[:] = map(_whole_numbers, value)
    elif isinstance(value, float):
        return whole(value)
    return value


def _encoded(value: Any) -> bytes:
    """Encode a value as JSON, also with integers of more than 64 bits."""
    try:
        return msgspec.json.encode(value)
    except OverflowError:
        return json.dumps(value).encode()
