"""Storage of cached objects as JSON, because nested dicts would need five times the memory.

`Whole` stores whole objects, `Packed` a few fields of each.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Generic, Protocol, TypeVar, cast, overload

import msgspec

from kilauea.api.ports import Holder, Key, Obj, Text, is_kept_decoded
from kilauea.api.shared import shared

DECODED = 500
"""Number of objects of a kind that are also kept as dicts: the last changed or used ones, unless large."""
T = TypeVar("T")
_MANAGED = b'"managedFields":'


class Kept(Protocol):
    """Objects by key."""

    def __len__(self) -> int: ...

    def get(self, key: Key) -> Obj | None:
        """Return one object."""
        ...

    def put(self, key: Key, text: Text, obj: Obj) -> None:
        """Store an object that was received as this text."""
        ...

    def take(self, key: Key) -> Obj | None:
        """Remove and return an object."""
        ...

    def several(self, keys: Sequence[Key]) -> Sequence[Obj]:
        """Return the existing objects, in the order of their keys."""
        ...

    def items(self) -> Iterator[tuple[Key, Obj]]:
        """Yield all objects with their keys."""
        ...


class Whole:
    """Whole objects, stored as the received texts.

    In the process of a server, its store keeps the texts, so that the cache needs no additional memory.
    """

    def __init__(self) -> None:
        self._texts: dict[Key, Text] = {}
        self._decoded: OrderedDict[Key, Obj] = OrderedDict()

    def __len__(self) -> int:
        return len(self._texts)

    def get(self, key: Key) -> Obj | None:
        """Return one object."""
        obj = self._decoded.get(key)
        if obj is None and (text := self._texts.get(key)) is not None:
            obj = obj_of(text)
            self._keep_decoded(key, text, obj)
        return obj

    def put(self, key: Key, text: Text, obj: Obj) -> None:
        """Store an object that was received as this text."""
        self._texts[key] = text
        self._decoded.pop(key, None)
        self._keep_decoded(key, text, obj)

    def take(self, key: Key) -> Obj | None:
        """Remove and return an object."""
        obj = self.get(key)
        self._texts.pop(key, None)
        self._decoded.pop(key, None)
        return obj

    def several(self, keys: Sequence[Key]) -> Sequence[Obj]:
        """Return the existing objects, in the order of their keys; each is decoded on access."""
        if len(self._decoded) == len(self._texts):
            return [self._decoded[key] for key in keys]
        return _Several([self._decoded.get(key) or self._texts[key] for key in keys], _as_obj)

    def items(self) -> Iterator[tuple[Key, Obj]]:
        """Yield all objects with their keys."""
        for key, text in self._texts.items():
            yield key, self._decoded.get(key) or obj_of(text)

    def _keep_decoded(self, key: Key, text: Text, obj: Obj) -> None:
        if not is_kept_decoded(text):
            return
        if len(self._decoded) >= DECODED:
            self._decoded.popitem(last=False)  # in a dict, the search for the first entry would pass all deleted ones
        self._decoded[key] = obj


class _Several(Sequence[Obj], Generic[T]):
    """A sequence of stored objects, which are decoded on access and use memory only then."""

    def __init__(self, found: Sequence[T], decode: Callable[[T], Obj]) -> None:
        self._found = found
        self._decode = decode

    def __len__(self) -> int:
        return len(self._found)

    @overload
    def __getitem__(self, index: int) -> Obj: ...

    @overload
    def __getitem__(self, index: slice) -> Sequence[Obj]: ...

    def __getitem__(self, index: int | slice) -> Obj | Sequence[Obj]:
        if isinstance(index, slice):
            return _Several(self._found[index], self._decode)
        return self._decode(self._found[index])

    def __iter__(self) -> Iterator[Obj]:
        return map(self._decode, self._found)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sequence) and len(self) == len(other) and all(map(_equal, self, other))

    __hash__ = None  # type: ignore[assignment]  # as lists have none


def _equal(one: object, other: object) -> bool:
    return one == other


def _as_obj(found: Obj | Text) -> Obj:
    return found if isinstance(found, dict) else obj_of(cast(Text, found))


_unpack = msgspec.json.Decoder(dict[str, Any]).decode
_pack = msgspec.json.Encoder().encode


class Packed:
    """Objects with few fields, which are decoded on each access.

    Attributes:
        read: decodes the fields to keep.
    """

    def __init__(self, read: Callable[[bytes], Obj]) -> None:
        self.read = read
        self._texts: dict[Key, bytes] = {}
        self._unread: dict[Key, Holder] = {}
        """Holders of the objects of which only the key has been read."""

    def __len__(self) -> int:
        return len(self._texts) + len(self._unread)

    def get(self, key: Key) -> Obj | None:
        """Return one object."""
        text = self._texts.get(key)
        if text is not None:
            return _unpack(text)
        holder = self._unread.get(key)
        return None if holder is None else self.read(holder.value)

    def put(self, key: Key, text: Text, obj: Obj) -> None:
        """Store the decoded fields of an object."""
        self._unread.pop(key, None)
        self._texts[key] = _pack(obj)

    def put_unread(self, key: Key, holder: Holder) -> bool:
        """Store an object of which only the key has been read; return True if it is new."""
        is_new = key not in self._unread
        self._unread[key] = holder
        return is_new

    def has_read(self, key: Key) -> bool:
        """Return True if fields of the object are stored."""
        return key in self._texts

    def take(self, key: Key) -> Obj | None:
        """Remove and return an object."""
        obj = self.get(key)
        self._texts.pop(key, None)
        self._unread.pop(key, None)
        return obj

    def several(self, keys: Sequence[Key]) -> Sequence[Obj]:
        """Return the existing objects, in the order of their keys; each is decoded on access."""
        return _Several([self._texts[key] if key in self._texts else self._unread[key] for key in keys], self._decoded)

    def _decoded(self, kept: bytes | Holder) -> Obj:
        return _unpack(kept) if isinstance(kept, bytes) else self.read(kept.value)

    def items(self) -> Iterator[tuple[Key, Obj]]:
        """Yield all objects with their keys."""
        for key, text in self._texts.items():
            yield key, _unpack(text)
        for key, holder in self._unread.items():
            yield key, self.read(holder.value)


class _Metadata(msgspec.Struct, rename="camel"):
    name: str = ""
    namespace: str = ""
    managed_fields: msgspec.Raw = msgspec.Raw(b"")


class _Head(msgspec.Struct):
    metadata: _Metadata


_head_of = msgspec.json.Decoder(_Head).decode


def key_in(text: bytes) -> Key:
    """Return the key of an encoded object."""
    metadata = _head_of(text).metadata
    return Key(shared(metadata.namespace), metadata.name)


def obj_of(text: Text) -> Obj:
    """Return an object without its managed fields; shared with the store if that keeps it decoded."""
    if isinstance(text, bytes):
        return read(text)
    decoded = text.decoded
    if decoded is None:
        return read(text.value)
    metadata = {name: value for name, value in decoded["metadata"].items() if name != "managedFields"}
    return {**decoded, "metadata": metadata}


def read(text: bytes) -> Obj:
    """Decode an object without its managed fields, which can be half of it and which controllers do not use."""
    return split(text)[1]


def split(text: bytes) -> tuple[bytes, Obj]:
    """Return the text of an object without its managed fields, and the object.

    They are cut out before the rest is decoded, as long-lived objects are expensive to create. A text with an unusual
    format, in which the cut fails, is decoded as a whole.
    """
    fields = bytes(_head_of(text).metadata.managed_fields)
    start = text.find(_MANAGED) + len(_MANAGED)
    if fields and text.startswith(fields, start):
        rest = b"%bnull%b" % (text[:start], text[start + len(fields) :])
        obj = _unpack(rest)
        if obj["metadata"].pop("managedFields") is None:
            return rest, obj
    obj = _unpack(text)
    obj["metadata"].pop("managedFields", None)
    return text, obj
