"""Conversion of field managers between a scale and its object.

The scale of an object has its replicas at another path and in another version. The conversion follows the real server,
with two peculiarities: managers of updates change when converted to the scale and back, and entries from the scale have
no time.
"""

from __future__ import annotations

from typing import Any

from kilauea.apiserver.patch.fieldset import FieldSet, difference
from kilauea.apiserver.patch.managed import Managed, Owned, decode, encode

API_VERSION = "autoscaling/v1"
_REPLICAS = ("f:spec", "f:replicas")
Entries = list[dict[str, Any]]


def entries_of_scale(entries: Entries, group: str, path: tuple[str, ...]) -> Entries:
    """Return the entries of a scale, for the managers that own the replicas.

    Args:
        entries: the entries of the object.
        group: the group of the object.
        path: the steps to its replicas.
    """
    found: Managed = {}
    for manager, owned in decode(entries).items():
        if owned.api_version.rpartition("/")[0] == group and _has(owned.fields, path):
            found[manager] = Owned(API_VERSION, _set(_REPLICAS), owned.time)
    return encode(found)


def entries_of_parent(entries: Entries, scaled: Entries | None, api_version: str, path: tuple[str, ...]) -> Entries:
    """Return the entries of an object after a write of its scale.

    Args:
        entries: the entries of the object before the write.
        scaled: the entries of the scale after the write.
        api_version: the version of the object.
        path: the steps to its replicas.
    """
    after: Managed = {}
    from_scale = decode(scaled)
    for manager, owned in decode(entries).items():
        if not _has(owned.fields, path):
            after[manager] = owned
        elif manager in from_scale:
            after[manager] = owned
            del from_scale[manager]
        else:
            left = difference(owned.fields, _set(path))
            if left:
                after[manager] = owned._replace(fields=left)
    for manager, owned in from_scale.items():
        if _has(owned.fields, _REPLICAS):
            after[manager] = Owned(api_version, _set(path), None)
    return encode(after)


def _set(path: tuple[str, ...]) -> FieldSet:
    fields: FieldSet = {}
    for step in reversed(path):
        fields = {step: fields}
    return fields


def _has(fields: FieldSet, path: tuple[str, ...]) -> bool:
    """Return True if a path is owned itself, and not only fields below it."""
    for step in path[:-1]:
        fields = fields.get(step, {})
    return path[-1] in fields
