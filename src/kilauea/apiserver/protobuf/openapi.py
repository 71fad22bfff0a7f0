"""The OpenAPI document of version 2 in protobuf format, which kubectl requests if version 3 does not have a kind.

It has the definitions; paths, which no client reads in this format, are omitted. The messages and field numbers are
those of the public openapiv2.proto; fields are written in the order of their numbers.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

_BYTES = 2  # wire type of text, bytes and messages
_TEXTS = {"$ref": 1, "format": 2, "description": 4}


def encode_document(document: Mapping[str, Any], definitions: Iterable[bytes]) -> bytes:
    """Encode a Swagger document as message `Document`, with already encoded definitions."""
    info = _text(1, document["info"]["title"]) + _text(2, document["info"]["version"])
    return _text(1, document["swagger"]) + _field(2, info) + _field(9, b"".join(definitions))


def encode_definition(name: str, schema: Mapping[str, Any]) -> bytes:
    """Encode a schema of a Swagger document, as one of the messages of `Definitions`."""
    return _all([_named(name, schema)])


def _schema(schema: Mapping[str, Any]) -> bytes:
    """Encode a message `Schema`."""
    parts = [_text(number, schema[key]) for key, number in _TEXTS.items() if key in schema]
    if "default" in schema:
        parts.append(_field(5, _any(schema["default"])))
    parts += [_text(19, name) for name in schema.get("required", ())]
    parts += [_field(20, _any(value)) for value in schema.get("enum", ())]
    additional = schema.get("additionalProperties")
    if isinstance(additional, Mapping):
        parts.append(_field(21, _field(1, _schema(additional))))
    elif additional:
        parts.append(_field(21, b"\x10\x01"))  # the boolean of field 2
    if "type" in schema:
        parts.append(_field(22, _text(1, schema["type"])))
    if isinstance(schema.get("items"), Mapping):
        parts.append(_field(23, _field(1, _schema(schema["items"]))))
    parts += [_field(24, _schema(each)) for each in schema.get("allOf", ())]
    if schema.get("properties"):
        parts.append(_field(25, _all(_named(name, each) for name, each in schema["properties"].items())))
    parts += [_field(31, _text(1, key) + _field(2, _any(schema[key]))) for key in schema if key.startswith("x-")]
    return b"".join(parts)


def _named(name: str, schema: Mapping[str, Any]) -> bytes:
    """Encode a message `NamedSchema`."""
    return _text(1, name) + _field(2, _schema(schema))


def _all(messages: Iterable[bytes]) -> bytes:
    """Encode messages as the repeated field 1."""
    return b"".join(_field(1, each) for each in messages)


def _any(value: Any) -> bytes:
    """Encode a message `Any` with the value as YAML."""
    return _field(2, msgspec.json.encode(value))


def _text(number: int, text: str) -> bytes:
    return _field(number, text.encode())


def _field(number: int, content: bytes) -> bytes:
    return _varint(number << 3 | _BYTES) + _varint(len(content)) + content


def _varint(number: int) -> bytes:
    out = bytearray()
    while number > 127:
        out.append(number & 127 | 128)
        number >>= 7
    out.append(number)
    return bytes(out)
