"""From protobuf to the decoded JSON that all other modules use.

Kubernetes puts four bytes and an envelope (`runtime.Unknown`) around an object. The numbers of fields are in
`messages.json.gz`, made by `tests/kubernetes/generate_protobuf.py`; numbers that are not in it are skipped, as protobuf
wants it.
"""

from __future__ import annotations

import base64
import struct
import zlib
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any

import msgspec

from kilauea.api.times import SECOND, format_time

PROTOBUF = "application/vnd.kubernetes.protobuf"
MAGIC = b"k8s\0"
DEEPEST = 64
"""Messages within messages; no kind comes near it."""
_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5
MACHINERY = "io.k8s.apimachinery.pkg."

Wire = int | bytes
Field = tuple[str, str, str]
"""Name, type and label."""


class ProtobufError(ValueError):
    """The bytes are not an object in protobuf form."""


@cache
def messages() -> Mapping[str, Mapping[str, Field]]:
    """Messages by name: their fields by number."""
    packed = (Path(__file__).parent / "messages.json.gz").read_bytes()
    found: dict[str, dict[str, Field]] = msgspec.json.decode(
        zlib.decompress(packed, wbits=31), type=dict[str, dict[str, tuple[str, str, str]]]
    )
    return found


def decode_protobuf(
    body: bytes, definition_of: Callable[[str, str], str], expected: tuple[str, str] = ("", "")
) -> dict[str, Any]:
    """An object from its protobuf form.

    Args:
        body: the bytes of a request.
        definition_of: gives the name of a message from apiVersion and kind; raises LookupError for unknown kinds.
        expected: apiVersion and kind of an object that does not say what it is.

    Raises:
        ProtobufError: the bytes have another form, or the kind has no protobuf form here.
    """
    if not body.startswith(MAGIC):
        raise ProtobufError("provided data does not appear to be a protobuf message, expected prefix [107 56 115 0]")
    envelope = dict(_fields(body[len(MAGIC) :]))
    type_meta = {number: _text(value) for number, value in _fields(_message(envelope.get(1, b"")))}
    api_version, kind = (type_meta.get(at + 1) or each for at, each in enumerate(expected))
    try:
        name = definition_of(api_version, kind)
        layout = messages()[name]
    except LookupError as error:
        raise ProtobufError(f'no kind "{kind}" is known in version "{api_version}" in protobuf form') from error
    obj = _object(layout, _message(envelope.get(2, b"")), 0)
    return {"kind": kind, "apiVersion": api_version, **obj}


# --- the wire


def _varint(data: bytes, at: int) -> tuple[int, int]:
    """A number and where it ends."""
    value = shift = 0
    while True:
        if at >= len(data) or shift > 63:
            raise ProtobufError("the message ends within a number")
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
        shift += 7


def _fields(data: bytes) -> Iterator[tuple[int, Wire]]:
    """The fields of a message: numbers, and integers or bytes."""
    at, end = 0, len(data)
    while at < end:
        key, at = _varint(data, at)
        form = key & 7
        if form == _VARINT:
            value, at = _varint(data, at)
            yield key >> 3, value
            continue
        if form == _BYTES:
            length, at = _varint(data, at)
        elif form in (_FIXED64, _FIXED32):
            length = 8 if form == _FIXED64 else 4
        else:
            raise ProtobufError(f"wire type {form} is not used by Kubernetes")
        if at + length > end:
            raise ProtobufError("the message ends within a field")
        yield key >> 3, data[at : at + length]
        at += length


def _message(value: Wire) -> bytes:
    if isinstance(value, int):
        raise ProtobufError("a number stands where a message is expected")
    return value


def _text(value: Wire) -> str:
    try:
        return _message(value).decode()
    except UnicodeDecodeError as error:
        raise ProtobufError("a text is not UTF-8") from error


def _signed(value: Wire) -> int:
    """Integers are two's complement in 64 bits."""
    if not isinstance(value, int):
        raise ProtobufError("bytes stand where a number is expected")
    value &= (1 << 64) - 1
    return value - (1 << 64) if value >> 63 else value


def _double(value: Wire) -> float:
    data = _message(value)
    if len(data) != 8:
        raise ProtobufError("a number has the wrong length")
    found: float = struct.unpack("<d", data)[0]
    return found


# --- objects


def _object(layout: Mapping[str, Field], data: bytes, depth: int) -> dict[str, Any]:
    """A message as an object."""
    if depth > DEEPEST:
        raise ProtobufError("the message is nested too deep")
    out: dict[str, Any] = {}
    for number, wire in _fields(data):
        field = layout.get(str(number))
        if field is None:
            continue
        name, kind, label = field
        if label == "map":
            key, value = _entry(kind, _message(wire), depth)
            out.setdefault(name, {})[key] = value
        elif label:
            out.setdefault(name, []).append(_value(kind, wire, depth))
        elif not name:
            out.update(_value(kind, wire, depth))
        else:
            out[name] = _value(kind, wire, depth)
    return out


def _entry(kind: str, data: bytes, depth: int) -> tuple[str, Any]:
    """A key of a map with its value."""
    parts = dict(_fields(data))
    value = parts.get(2)
    if value is None:
        value = 0 if kind in ("bool", "int32", "int64") else b""
    return _text(parts.get(1, b"")), _value(kind, value, depth)


def _value(kind: str, wire: Wire, depth: int) -> Any:
    """A field's value as JSON has it."""
    read = _SCALARS.get(kind) or _SPECIAL.get(kind)
    if read is not None:
        return read(wire)
    either = EITHER.get(kind)
    if either is not None:
        return _either(either, _message(wire), depth)
    layout = messages().get(kind)
    if layout is None:
        raise ProtobufError(f"{kind} has no protobuf form here")
    found = _object(layout, _message(wire), depth + 1)
    if kind == SCHEMA:
        return {name: value for name, value in found.items() if value or name not in _ALWAYS_SENT}
    return found.get("items", []) if kind.endswith(".ExtraValue") else found


def _either(other: tuple[int, int, str], data: bytes, depth: int) -> Any:
    """A schema, or what stands in its place."""
    schema, number, label = other
    fields = list(_fields(data))
    found = [_value(SCHEMA, wire, depth) for key, wire in fields if key == schema]
    if found:
        return found[-1]
    others = [wire for key, wire in fields if key == number]
    if label == "bool":
        return bool(others and others[-1])
    return [_value(label, wire, depth) for wire in others]


def _quantity(wire: Wire) -> str:
    return next((_text(value) for number, value in _fields(_message(wire)) if number == 1), "0")


def _time(wire: Wire) -> str | None:
    """Whole seconds; an empty message stands for no time."""
    return _moment(wire, micro=False)


def _micro_time(wire: Wire) -> str | None:
    """With six digits of a second."""
    return _moment(wire, micro=True)


def _moment(wire: Wire, *, micro: bool) -> str | None:
    parts = {number: _signed(value) for number, value in _fields(_message(wire))}
    if not parts:
        return None
    seconds = parts.get(1, 0)
    try:
        text = format_time(seconds * SECOND)
    except ValueError as error:
        raise ProtobufError(str(error)) from error
    return f"{text[:-1]}.{parts.get(2, 0) // 1000:06}Z" if micro else text


def _int_or_string(wire: Wire) -> int | str:
    parts = dict(_fields(_message(wire)))
    return _text(parts.get(3, b"")) if parts.get(1) else _signed(parts.get(2, 0))


def _json(wire: Wire) -> Any:
    """A value that is kept as JSON."""
    raw = next((value for number, value in _fields(_message(wire)) if number == 1), b"")
    if not raw:
        return None
    try:
        return msgspec.json.decode(_message(raw))
    except msgspec.DecodeError as error:
        raise ProtobufError(f"a value is not JSON: {error}") from error


_SCALARS: Mapping[str, Callable[[Wire], Any]] = {
    "string": _text,
    "bytes": lambda wire: base64.b64encode(_message(wire)).decode(),
    "bool": bool,
    "int32": _signed,
    "int64": _signed,
    "uint32": _signed,
    "uint64": _signed,
    "double": _double,
}
_EXTENSIONS = "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1."
_ALWAYS_SENT = frozenset(
    "id $schema description type format title exclusiveMaximum exclusiveMinimum uniqueItems nullable pattern "
    "x-kubernetes-embedded-resource x-kubernetes-int-or-string".split()
)
"""Fields of schemas that Go clients send even when they are empty; in JSON they are absent then."""
SCHEMA = f"{_EXTENSIONS}JSONSchemaProps"
JSON_VALUE = f"{_EXTENSIONS}JSON"
EITHER: Mapping[str, tuple[int, int, str]] = {
    f"{_EXTENSIONS}JSONSchemaPropsOrArray": (1, 2, SCHEMA),
    f"{_EXTENSIONS}JSONSchemaPropsOrBool": (2, 1, "bool"),
    f"{_EXTENSIONS}JSONSchemaPropsOrStringArray": (1, 2, "string"),
}
"""Messages with a schema or something else: the field of the schema, the field of the other, and its type."""
_SPECIAL: Mapping[str, Callable[[Wire], Any]] = {
    f"{MACHINERY}api.resource.Quantity": _quantity,
    f"{MACHINERY}apis.meta.v1.Time": _time,
    f"{MACHINERY}apis.meta.v1.MicroTime": _micro_time,
    f"{MACHINERY}util.intstr.IntOrString": _int_or_string,
    f"{MACHINERY}apis.meta.v1.FieldsV1": _json,
    f"{MACHINERY}runtime.RawExtension": _json,
    JSON_VALUE: _json,
}
