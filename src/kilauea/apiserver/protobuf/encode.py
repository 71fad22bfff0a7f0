"""Encoding of JSON values to protobuf, for clients that accept nothing else.

The field numbers are those of `decode.py`. Fields that a kind does not have in protobuf are omitted.
"""

from __future__ import annotations

import base64
import struct
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any

import msgspec

from kilauea.api.times import SECOND, parse_time
from kilauea.apiserver.protobuf.decode import EITHER, JSON_VALUE, MACHINERY, MAGIC, SCHEMA, Field, messages

_META = f"{MACHINERY}apis.meta.v1."
_LIST = "List"
_NO_TIME = b""


def encode_protobuf(obj: Mapping[str, Any], definition_of: Callable[[str, str], str]) -> bytes:
    """Encode an object or a list in its envelope.

    Args:
        obj: the object, with apiVersion and kind.
        definition_of: returns the name of a message for apiVersion and kind; raises LookupError for unknown kinds.

    Raises:
        LookupError: the kind does not support protobuf.
    """
    api_version, kind = str(obj["apiVersion"]), str(obj["kind"])
    if "items" in obj and kind.endswith(_LIST):
        content = _list(obj, definition_of(api_version, kind.removesuffix(_LIST)))
    else:
        content = _message(definition_of(api_version, kind), obj)
    type_meta = _bytes(1, api_version.encode()) + _bytes(2, kind.encode())
    return MAGIC + _bytes(1, type_meta) + _bytes(2, content) + _bytes(3, b"") + _bytes(4, b"")


def watch_event(kind: str, envelope: bytes) -> bytes:
    """Encode a frame of a watch: an event with an object in its envelope, preceded by its length."""
    event = _bytes(1, kind.encode()) + _bytes(2, _bytes(1, envelope))
    return struct.pack(">I", len(event)) + event


def _list(obj: Mapping[str, Any], name: str) -> bytes:
    """Encode the content of a list; all kinds of lists have the same fields."""
    parts = [_bytes(1, _message(f"{_META}ListMeta", obj["metadata"]))]
    parts += [_bytes(2, _message(name, each)) for each in obj["items"] or ()]
    return b"".join(parts)


# --- wire format


def _varint(value: int) -> bytes:
    """Encode a number; negative ones as 64-bit two's complement."""
    value &= (1 << 64) - 1
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def _bytes(number: int, value: bytes) -> bytes:
    return _varint(number << 3 | 2) + _varint(len(value)) + value


def _number(number: int, value: int) -> bytes:
    return _varint(number << 3) + _varint(value)


# --- objects


def _message(name: str, obj: Mapping[str, Any]) -> bytes:
    """Encode the content of a message."""
    parts = []
    for number, field in _layout(name):
        given = obj if not field[0] else obj.get(field[0])
        if given is not None:
            parts.append(_field(number, field, given))
    return b"".join(parts)


@cache
def _layout(name: str) -> tuple[tuple[int, Field], ...]:
    """Return the fields of a message in the order of their numbers."""
    return tuple(sorted((int(number), field) for number, field in messages()[name].items()))


def _field(number: int, field: Field, given: Any) -> bytes:
    """Encode a field with its number, once for each value."""
    name, kind, label = field
    if label == "map":
        entries = ((_bytes(1, key.encode()) + _value(2, kind, each)) for key, each in sorted(given.items()))
        return b"".join(_bytes(number, entry) for entry in entries)
    if label:
        return b"".join(_value(number, kind, each) for each in given)
    if not name:
        content = _message(kind, given)
        return _bytes(number, content) if content else b""
    return _value(number, kind, given)


def _value(number: int, kind: str, given: Any) -> bytes:
    """Encode one value with its number."""
    if kind in _NUMBERS:
        return _number(number, int(given or 0))
    if kind == "double":
        return _varint(number << 3 | 1) + struct.pack("<d", given or 0.0)
    write = _CONTENTS.get(kind)
    if write is not None:
        return _bytes(number, write(given))
    if kind in EITHER:
        return _bytes(number, _either(EITHER[kind], given))
    if kind.endswith(".ExtraValue"):
        given = {"items": given}
    return _bytes(number, _message(kind, given or {}))


def _either(other: tuple[int, int, str], given: Any) -> bytes:
    """Encode a schema, or the alternative in its place."""
    schema, number, label = other
    if isinstance(given, Mapping):
        content = _bytes(schema, _message(SCHEMA, given))
        return _number(1, 1) + content if label == "bool" else content
    if label == "bool":
        return _number(number, int(given))
    return b"".join(_value(number, label, each) for each in given)


def _time(given: Any) -> bytes:
    """Encode a time; None is an empty message."""
    if not given:
        return _NO_TIME
    seconds, rest = divmod(parse_time(given), SECOND)
    return _number(1, seconds) + _number(2, rest * 1000)


def _int_or_string(given: int | str) -> bytes:
    if isinstance(given, str):
        return _number(1, 1) + _number(2, 0) + _bytes(3, given.encode())
    return _number(1, 0) + _number(2, given) + _bytes(3, b"")


def _json(given: Any) -> bytes:
    return _bytes(1, msgspec.json.encode(given))


_NUMBERS = frozenset("bool int32 int64 uint32 uint64".split())
_CONTENTS: Mapping[str, Callable[[Any], bytes]] = {
    "string": lambda given: str(given or "").encode(),
    "bytes": lambda given: base64.b64decode(given or ""),
    f"{MACHINERY}api.resource.Quantity": lambda given: _bytes(1, str(given).encode()),
    f"{_META}Time": _time,
    f"{_META}MicroTime": _time,
    f"{MACHINERY}util.intstr.IntOrString": _int_or_string,
    f"{_META}FieldsV1": _json,
    f"{MACHINERY}runtime.RawExtension": _json,
    JSON_VALUE: _json,
}
"""Encoders of types without regular fields."""
