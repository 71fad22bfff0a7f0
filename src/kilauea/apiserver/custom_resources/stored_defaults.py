"""Defaults that were added to a definition after objects were stored: they are applied when the objects are read.

What is written after the change has them already. So the objects are looked through once for each version of a
definition, and nothing is done to kinds of which no object is older.
"""

from __future__ import annotations

from typing import Any

import msgspec

from kilauea.apiserver.negotiation import header_of
from kilauea.apiserver.schema import Schema, apply_defaults, has_defaults
from kilauea.apiserver.storage import Store


class StoredDefaults:
    """Fills in the defaults of a schema in objects that are older than it.

    Args:
        schema: of the version in which objects are served.
        revision: of the definition.
    """

    def __init__(self, schema: Schema, revision: int) -> None:
        self._schema = schema
        self._revision = revision

    def __call__(self, value: bytes) -> bytes:
        """A served object with all defaults."""
        if int(header_of(value).metadata.resource_version or 0) > self._revision:
            return value
        obj: dict[str, Any] = msgspec.json.decode(value)
        apply_defaults(self._schema, obj)
        return msgspec.json.encode(obj)


def stored_defaults(store: Store, prefix: str, schema: Schema, revision: int) -> StoredDefaults | None:
    """The defaults to fill in as objects are read; None if all objects have them.

    Args:
        store: has the objects.
        prefix: of the keys of the objects of a definition.
        schema: of the version in which they are served.
        revision: of the definition.
    """
    if not has_defaults(schema) or all(each.revision > revision for each in store.list(prefix).items):
        return None
    return StoredDefaults(schema, revision)
