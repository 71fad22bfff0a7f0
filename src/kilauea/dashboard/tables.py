"""`Table`: rows of all objects of a kind, updated by a watch. It is the handler of a reflector."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Generic, TypeVar

import msgspec

from kilauea.api.ports import Key, Seen, Text, bytes_of

Row = TypeVar("Row")


class _Metadata(msgspec.Struct):
    name: str = ""
    namespace: str = ""


class _Head(msgspec.Struct):
    metadata: _Metadata


_head_of = msgspec.json.Decoder(_Head).decode


def key_in(text: bytes) -> Key:
    """The key of an object."""
    metadata = _head_of(text).metadata
    return Key(metadata.namespace, metadata.name)


def _token(key: Key) -> bytes:
    return f"{key.namespace}/{key.name}".encode()


class Table(Generic[Row]):
    """Rows by key.

    Args:
        read: converts an object to its row; raises `msgspec.MsgspecError` for invalid ones.
        changed: called with the row before and after each change, None for no row.

    Attributes:
        version: increases with each change.
        complete: True once all objects have been listed.
        refused: the server's message if listing is forbidden; empty if it is allowed.
        unread: invalid objects, by key.
    """

    def __init__(
        self,
        read: Callable[[bytes], Row],
        changed: Callable[[Row | None, Row | None], None] = lambda old, new: None,
    ) -> None:
        self._read, self._changed = read, changed
        self._rows: dict[Key, Row] = {}
        self.version = 0
        self.complete = False
        self.refused = ""
        self.unread: dict[Key, str] = {}

    def __len__(self) -> int:
        return len(self._rows)

    def __iter__(self) -> Iterator[Row]:
        return iter(self._rows.values())

    def get(self, namespace: str, name: str) -> Row | None:
        """The row of an object."""
        return self._rows.get(Key(namespace, name))

    def several(self, keys: Iterable[Key]) -> list[Row]:
        """The rows of those objects that exist, in the order of the keys."""
        return [row for key in keys if (row := self._rows.get(key)) is not None]

    # --- events of the reflector

    def reduce(self, text: bytes) -> bytes:
        """Store an object of a list as it arrives, and return only its key: a list of all pods is large."""
        key = key_in(text)
        self._put(key, self._row(key, text))
        return _token(key)

    def on_relist(self, items: Sequence[Text], version: str) -> None:
        """Replace all objects by those in a list, reduced or not."""
        found = {self.reduce(text) if text.startswith(b"{") else text for text in map(bytes_of, items)}
        for key in [key for key in self._rows if _token(key) not in found]:
            self._put(key, None)
        self.unread = {key: why for key, why in self.unread.items() if _token(key) in found}
        self.complete, self.refused = True, ""
        self.version += 1

    def on_events(self, batch: Sequence[Seen]) -> None:
        """Apply changes."""
        for seen in batch:
            if seen.type != "BOOKMARK":
                key = key_in(seen.object)
                if seen.type == "DELETED":
                    self.unread.pop(key, None)
                self._put(key, None if seen.type == "DELETED" else self._row(key, seen.object))

    def refuse(self, message: str) -> None:
        """Remove all objects: the server forbids listing them."""
        for key in list(self._rows):
            self._put(key, None)
        self.refused = message
        self.version += 1

    def _row(self, key: Key, text: bytes) -> Row | None:
        try:
            row = self._read(text)
        except msgspec.MsgspecError as error:
            self.unread[key] = str(error)
            return None
        self.unread.pop(key, None)
        return row

    def _put(self, key: Key, row: Row | None) -> None:
        old = self._rows.pop(key, None) if row is None else self._rows.get(key)
        if row is not None:
            self._rows[key] = row
        if old != row:
            self.version += 1
            self._changed(old, row)
