"""The records that the store returns (objects, events, pages), and the format of keys.

Records contain only bytes and integers and never form cycles, so they are excluded from garbage collection: a full
collection does not traverse a hundred thousand of them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Literal, Protocol

import msgspec

Durability = Literal["full", "normal", "memory"]
Kind = Literal["added", "modified", "deleted"]


class Form(Protocol):
    """The compressed form of some values."""

    def unpack(self, packed: bytes, /) -> bytes:
        """Return the uncompressed value."""
        ...

    def length(self, packed: bytes, /) -> int:
        """Return the length of a value in bytes without unpacking it."""
        ...


class Stored(msgspec.Struct, gc=False):
    """An object at a revision: `revision` of its last write, `created` of its first write.

    Its value never changes, but may be compressed once it is old. While it is new, `decoded` is the object that was
    encoded, so that readers need not decode the value. It must not be changed.
    """

    key: str
    _data: bytes
    revision: int
    created: int
    _form: Form | None = None
    decoded: dict[str, Any] | None = None

    @property
    def value(self) -> bytes:
        """The bytes of the object."""
        return self._data if self._form is None else self._form.unpack(self._data)

    @property
    def length(self) -> int:
        """The length of the value in bytes, for limits on reading."""
        return len(self._data) if self._form is None else self._form.length(self._data)

    @property
    def size(self) -> int:
        """The bytes that the value uses in memory."""
        return len(self._data)

    def pack(self, packed: bytes, form: Form) -> None:
        """Keep the value in packed form from now on."""
        self._data, self._form = packed, form

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Stored):
            return NotImplemented
        return self._facts() == other._facts()

    def __hash__(self) -> int:
        return hash((self.key, self.revision))

    def _facts(self) -> tuple[str, bytes, int, int]:
        return self.key, self.value, self.revision, self.created


def values_of(items: Iterable[Stored]) -> Iterator[bytes]:
    """Yield the values of objects, faster than by the property of each."""
    for stored in items:
        form = stored._form
        yield stored._data if form is None else form.unpack(stored._data)


class Event(msgspec.Struct, frozen=True, gc=False):
    """A write: the object after it and the object before it.

    After a deletion `now` holds the last value, at the revision of the deletion.
    """

    kind: Kind
    now: Stored
    before: Stored | None

    @property
    def key(self) -> str:
        """The key of the object."""
        return self.now.key

    @property
    def value(self) -> bytes:
        """The value written; the last value of a deleted object."""
        return self.now.value

    @property
    def previous(self) -> bytes | None:
        """The previous value; None for a new object."""
        return None if self.before is None else self.before.value

    @property
    def revision(self) -> int:
        """The revision of this write."""
        return self.now.revision


class Page(msgspec.Struct, frozen=True, gc=False):
    """Objects in the order of their keys, all as of `revision`.

    `remaining` objects follow; `next_key` is the `after_key` of the next page, None at the end.
    """

    items: list[Stored]
    revision: int
    remaining: int
    next_key: str | None


def resource_of(key: str) -> str:
    """Return `/GROUP/PLURAL/` of a key or of a prefix.

    Raises:
        ValueError: it has another format.
    """
    second = key.find("/", 1)
    third = key.find("/", second + 1)
    if second < 2 or third < second + 2 or key[0] != "/":
        raise ValueError(f"key {key!r}: want /GROUP/PLURAL/..., a prefix with a / at its end")
    return key[: third + 1]


def scopes_of(key: str) -> tuple[str, ...]:
    """Return the scopes in which a watcher can see this key: the resource, the namespace, the key itself."""
    resource, parent = resource_of(key), key[: key.rindex("/") + 1]
    return (resource, key) if parent == resource else (resource, parent, key)


def covers(prefix: str, key: str) -> bool:
    """Return True if a key is under a prefix, which ends in `/` or is the key itself."""
    return key.startswith(prefix) if prefix.endswith("/") else key == prefix
