"""Texts of requests, JSON or YAML, parsed with all errors and duplicate keys."""

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
"""Duplicate keys that are reported for one body, as in the real server."""
MOST_CONTAINERS = 250_000
"""Lists and objects in a body. Reading them takes many times as long as text does, and nothing else goes on then."""
_TEXT_IN_JSON = re.compile(rb'"(?:[^"\\]|\\.)*"')
_OTHER_IN_YAML = re.compile(rb"\xc2\x85|\xe2\x80[\xa8\xa9]|\\u[dD][89a-fA-F]")
"""Ends of lines in YAML alone, and escapes in pairs, which YAML does not have."""
_MAY_BE_WHOLE = re.compile(rb"[0-9](?:\.0|[eE])")
_TWICE = "is given twice: keep one of them"


class Parsed(msgspec.Struct):
    """A body that was read: its value as JSON, or the syntax error; and messages about keys that are given twice.

    One with too many lists and objects has no value.
    """

    value: msgspec.Raw = msgspec.Raw(b"null")
    error: str = ""
    repeated: list[str] = []
    has_too_many: bool = False


def may_have_too_many(text: bytes) -> bool:
    """Return True if a JSON text may have more lists and objects than are read: brackets can be in its texts, too."""
    return text.count(b"[") + text.count(b"{") > MOST_CONTAINERS


def has_too_many(text: bytes) -> bool:
    """Return True if a JSON text has more lists and objects than are read."""
    return may_have_too_many(text) and may_have_too_many(_TEXT_IN_JSON.sub(b"", text))


def parsed(value: bytes, repeated: list[str]) -> Parsed:
    """Return a body that was read, of which the value is given as JSON."""
    return Parsed(has_too_many=True) if has_too_many(value) else Parsed(msgspec.Raw(value), "", repeated)


def may_repeat_keys(body: bytes, value: Any) -> bool:
    """Return True if a key may be in a JSON text twice, given the value read from it.

    A key that was lost has taken its quotes along; the text need not be parsed again to see that.
    """
    return body.count(b'"') != msgspec.json.encode(value).count(b'"') or b"\\u0022" in body


def is_plain_json(body: bytes) -> bool:
    """Return True if a text is JSON without errors, and no key is in it twice as far as its quotes tell."""
    if not body.lstrip().startswith((b"{", b"[")) or may_have_too_many(body):
        return False
    try:
        return not may_repeat_keys(body, msgspec.json.decode(body))
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return False


def is_json_in_yaml(body: bytes) -> bool:
    """Return True if a YAML text is JSON, too, so that it can be read as that, which is many times faster."""
    return is_plain_json(body) and bad_character(body) is None and not _OTHER_IN_YAML.search(body)


def parse_json(body: bytes) -> Parsed:
    """Read JSON; of keys given twice the last counts."""
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
    """Read YAML: the first document that is not empty."""
    try:
        value, lines = read_yaml(body)
    except YamlError as error:
        return Parsed(error=yaml_syntax_error(body, str(error)))
    return parsed(_encoded(value), lines)


def parse_protobuf(body: bytes) -> Parsed:
    """Read an object in protobuf form."""
    try:
        return parsed(msgspec.json.encode(decode_protobuf(body, message_name)), [])
    except ProtobufError as error:
        return Parsed(error=str(error))


def read_yaml(body: bytes) -> tuple[Any, list[str]]:
    """The first document of a YAML text that is not empty, and messages about its keys that are given twice.

    Most clients apply JSON.

    Raises:
        YamlError: it is not YAML.
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
    """A value with numbers as YAML has them, in place: without a fraction where they are whole."""
    if isinstance(value, dict):
        for key, each in value.items():
            value[key] = _whole_numbers(each)
    elif isinstance(value, list):
        value[:] = map(_whole_numbers, value)
    elif isinstance(value, float):
        return whole(value)
    return value


def _encoded(value: Any) -> bytes:
    """A value as JSON, also with numbers of more than 64 bits."""
    try:
        return msgspec.json.encode(value)
    except OverflowError:
        return json.dumps(value).encode()
