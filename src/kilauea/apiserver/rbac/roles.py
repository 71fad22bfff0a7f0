"""A cache of current roles, read once for each version, with a limit on the total size."""

from __future__ import annotations

from collections import OrderedDict
from typing import NamedTuple

from kilauea.apiserver.rbac.records import Role, read_role
from kilauea.apiserver.storage import Store

MOST_BYTES = 8 * 1024 * 1024
"""Maximum bytes in JSON of the cached roles."""


class Sized(NamedTuple):
    """A role, its revision, and its bytes in JSON."""

    role: Role
    revision: int
    size: int


class Roles:
    """The roles in a store."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._kept: OrderedDict[str, Sized] = OrderedDict()
        self._size = 0

    def get(self, key: str) -> Sized | None:
        """Return the role of a key."""
        stored, kept = self._store.get(key), self._kept.get(key)
        if stored is None or kept is None or kept.revision != stored.revision:
            if kept is not None:
                self._size -= self._kept.pop(key).size
            return None if stored is None else self._keep(key, stored.value, stored.revision)
        self._kept.move_to_end(key)
        return kept

    def _keep(self, key: str, value: bytes, revision: int) -> Sized:
        found = Sized(read_role(value), revision, len(value))
        self._kept[key] = found
        self._size += found.size
        while self._size > MOST_BYTES:  # evict the least recently used role
            self._size -= self._kept.popitem(last=False)[1].size
        return found
