"""Known formats in the schemas of definitions."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

Raw = Mapping[str, Any]

_KNOWN = {
    "string": frozenset(
        "bson-object-id bsonobjectid byte cidr creditcard date date-time datetime duration email hexcolor hostname "
        "ipv4 ipv6 isbn isbn10 isbn13 k8s-long-name k8s-short-name mac password rgbcolor ssn uri "
        "uuid uuid3 uuid4 uuid5".split()
    ),
    "integer": frozenset(("int32", "int64")),
    "number": frozenset(("double", "float")),
}
"""The formats that Kubernetes knows, by type."""
_NONE: frozenset[str] = frozenset()


def format_warnings(definition: dict[str, Any], old: dict[str, Any] | None = None) -> list[str]:
    """Return a warning for each unknown format in a definition that an older definition did not have."""
    known = _unrecognized(old) if old is not None else set()
    return [f'unrecognized format "{each}"' for each in sorted(_unrecognized(definition) - known)]


def _unrecognized(definition: dict[str, Any]) -> set[str]:
    schemas = [(each.get("schema") or {}).get("openAPIV3Schema") for each in definition["spec"].get("versions") or ()]
    return {each for schema in schemas if schema for each in _below(schema)}


def _below(raw: Raw) -> Iterator[str]:
    """Yield the unknown formats at and below a schema."""
    given = raw.get("format")
    if given and given not in _KNOWN.get(raw.get("type", ""), _NONE):
        yield given
    for children in (raw.get("properties"), raw.get("patternProperties")):
        for child in (children or {}).values():
            yield from _below(child)
    for name in ("items", "additionalProperties", "not"):
        child = raw.get(name)
        if isinstance(child, dict):
            yield from _below(child)
    for name in ("allOf", "anyOf", "oneOf"):
        for child in raw.get(name) or ():
            yield from _below(child)
