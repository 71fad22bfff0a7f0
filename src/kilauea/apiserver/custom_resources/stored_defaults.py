"""Defaults that were added to a definition after objects were stored, which are applied when objects are read.

Objects written after the change already have them. So the objects are scanned once for each version of a definition,
and kinds without older objects need no work.
"""

from __future__ import annotations

from typing import Any

import msgspec

from kilauea.apiserver.negotiation import header_of
from kilauea.apiserver.schema import Schema, apply_defaults, has_defaults
from kilauea.apiserver.storage import Store


class StoredDefaults:
    """Sets the defaults of a schema in objects that are older than it.

    Args:
        schema: the schema of the served version.
        revision: the revision of the definition.
    """

    def __init__(self, schema: Schema, revision: int) -> None:
        self._schema = schema
        self._revision = revision

    def __call__(self, value: bytes) -> bytes:
        """Return a served object with all defaults."""
        if int(header_of(value).metadata.resource_version or 0) > self._revision:
            return value
        obj: dict[str, Any] = msgspec.json.decode(value)
        apply_defaults(self._schema, obj)
        return msgspec.json.encode(obj)


def stored_defaults(store: Store, prefix: str, schema: Schema, revision: int) -> StoredDefaults | None:
    """Return the defaults to set when objects are read; None if all objects have them.

    Args:
        store: the store of the objects.
        prefix: the prefix of the keys of the objects.
        schema: the schema of the served version.
        revision: the revision of the definition.
    """
    if all(each.revision > revision for each in store.list(prefix).items):
        return None
    # Nodes are made where they are needed: those of all of a large schema take a quarter of a second.
    if b'"default":' not in msgspec.json.encode(schema.raw) or not has_defaults(schema):
        return None
    return StoredDefaults(schema, revision)
