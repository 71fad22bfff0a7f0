"""The bytes that the objects of each namespace take, and the share of the memory that each may take.

A namespace may use `CREATES` times of what is free. So one namespace alone can use three quarters of the limit, two of
them three sevenths each, and always something is left for the others, which need no reservations. Updates may use a
little more, so that pods of a namespace that has used up its share still get their status.
"""

from __future__ import annotations

from collections import defaultdict

from kilauea.apiserver.storage.records import Event, resource_of

OVERHEAD = 1 << 10
"""Approximate bytes of an object besides its value, in all caches of the process."""
CREATES, UPDATES = 3, 4
"""The maximum usage of a namespace as a multiple of what is free after the write."""


class Usage:
    """The usage of all namespaces, in bytes; cluster-scoped objects count as one namespace without a name.

    Values count with their length, although many are compressed: on disk, they are not.

    Attributes:
        limit: the bytes that all objects may take; None for no limit.
        total: the bytes of all objects.
    """

    def __init__(self, limit: int | None = None) -> None:
        self.limit = limit
        self.total = 0
        self._namespaces: defaultdict[str, int] = defaultdict(int)

    def apply(self, event: Event) -> None:
        """Apply a write."""
        now, before = event.now, event.before
        more = 0 if event.kind == "deleted" else now.length + OVERHEAD
        if before is not None:
            more -= before.length + OVERHEAD
        self.total += more
        namespace = namespace_of(now.key)
        self._namespaces[namespace] += more
        if not self._namespaces[namespace]:
            del self._namespaces[namespace]

    def of(self, namespace: str) -> int:
        """Return the bytes of the objects in a namespace."""
        return self._namespaces.get(namespace, 0)

    def has_room(self, namespace: str, more: int, share: int) -> bool:
        """Return True if the objects of a namespace may take more bytes.

        Args:
            namespace: the namespace.
            more: the bytes by which they grow.
            share: `CREATES` or `UPDATES`.
        """
        if self.limit is None or more <= 0:
            return True
        return self.of(namespace) + more <= share * (self.limit - self.total - more)

    def share(self, namespace: str) -> int:
        """Return the bytes that the objects of a namespace may take, while the others take what they do now."""
        return max(0, (self.limit or 0) - self.total + self.of(namespace)) * CREATES // (CREATES + 1)


def namespace_of(key: str) -> str:
    """Return the namespace of a key; empty for cluster-scoped objects."""
    first = len(resource_of(key))
    return key[first : max(first, key.rfind("/"))]
