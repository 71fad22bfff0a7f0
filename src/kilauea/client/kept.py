"""The objects that caches store: as JSON, because they would need five times the memory as nested dicts.

`Whole` keeps whole objects, `Packed` a few fields of each.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Generic, Protocol, TypeVar, cast, overload

import msgspec

from kilauea.api.ports import Holder, Key, Obj, Text, is_kept_decoded
from kilauea.api.shared import shared

DECODED = 500
"""Objects of a kind that are kept as dicts, too: those that changed or were looked at last, unless they are large."""
T = TypeVar("T")
_MANAGED = b'"managedFields":'


class Kept(Protocol):
    """Objects by key."""

    def __len__(self) -> int: ...

    def get(self, key: Key) -> Obj | None:
        """One object."""
        ...

    def put(self, key: Key, text: Text, obj: Obj) -> None:
        """Keep an object, which has come as this text."""
        ...

    def take(self, key: Key) -> Obj | None:
        """Take an object out."""
        ...

    def several(self, keys: Sequence[Key]) -> Sequence[Obj]:
        """Objects that are there, in the order of their keys."""
        ...

    def items(self) -> Iterator[tuple[Key, Obj]]:
        """Yield all objects with their keys."""
        ...


class Whole:
    """Whole objects, kept as the texts that they came in.

    In the process of a server, its store keeps them, so that the cache adds nothing.
    """

    def __init__(self) -> None:
        self._texts: dict[Key, Text] = {}
        self._decoded: OrderedDict[Key, Obj] = OrderedDict()

    def __len__(self) -> int:
        return len(self._texts)

    def get(self, key: Key) -> Obj | None:
        """One object."""
        obj = self._decoded.get(key)
        if obj is None and (text := self._texts.get(key)) is not None:
            obj = obj_of(text)
            self._keep_decoded(key, text, obj)
        return obj

    def put(self, key: Key, text: Text, obj: Obj) -> None:
        """Keep an object, which has come as this text."""
        self._texts[key] = text
        self._decoded.pop(key, None)
        self._keep_decoded(key, text, obj)

    def take(self, key: Key) -> Obj | None:
        """Take an object out."""
        obj = self.get(key)
        self._texts.pop(key, None)
        self._decoded.pop(key, None)
        return obj

    def several(self, keys: Sequence[Key]) -> Sequence[Obj]:
        """Objects that are there, in the order of their keys; each is decoded when it is looked at."""
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
            self._decoded.popitem(last=False)  # of a dict, the first would be looked for among all that were deleted
        self._decoded[key] = obj


class _Several(Sequence[Obj], Generic[T]):
    """Objects as they are kept; they are decoded when they are looked at, and only then take memory."""

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
    """Objects of few fields. Each look at an object decodes it.

    Attributes:
        read: reads the fields to keep of a text.
    """

    def __init__(self, read: Callable[[bytes], Obj]) -> None:
        self.read = read
        self._texts: dict[Key, bytes] = {}
        self._unread: dict[Key, Holder] = {}
        """Holders of the objects of which nothing has been read but the key."""

    def __len__(self) -> int:
        return len(self._texts) + len(self._unread)

    def get(self, key: Key) -> Obj | None:
        """One object."""
        text = self._texts.get(key)
        if text is not None:
            return _unpack(text)
        holder = self._unread.get(key)
        return None if holder is None else self.read(holder.value)

    def put(self, key: Key, text: Text, obj: Obj) -> None:
        """Keep the fields of an object that were read of its text."""
        self._unread.pop(key, None)
        self._texts[key] = _pack(obj)

    def put_unread(self, key: Key, holder: Holder) -> bool:
        """Keep an object of which nothing has been read but the key; return True if it is new."""
        is_new = key not in self._unread
        self._unread[key] = holder
        return is_new

    def has_read(self, key: Key) -> bool:
        """Return True if fields of the object are kept."""
        return key in self._texts

    def take(self, key: Key) -> Obj | None:
        """Take an object out."""
        obj = self.get(key)
        self._texts.pop(key, None)
        self._unread.pop(key, None)
        return obj

    def several(self, keys: Sequence[Key]) -> Sequence[Obj]:
        """Objects that are there, in the order of their keys; each is decoded when it is looked at."""
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
    """The key of an object."""
    metadata = _head_of(text).metadata
    return Key(shared(metadata.namespace), metadata.name)


def obj_of(text: Text) -> Obj:
    """An object without its managed fields; shared with what keeps it decoded, if that does."""
    if isinstance(text, bytes):
        return read(text)
    decoded = text.decoded
    if decoded is None:
        return read(text.value)
    metadata = {name: value for name, value in decoded["metadata"].items() if name != "managedFields"}
    return {**decoded, "metadata": metadata}


def read(text: bytes) -> Obj:
    """An object without its managed fields, which can be half of it and which no controller looks at."""
    return split(text)[1]


def split(text: bytes) -> tuple[bytes, Obj]:
    """The text of an object without its managed fields, and the object.

    They are cut out before the rest is decoded: what is kept for long is dear to make. A text that is written otherwise
    than servers do, so that the cut is not found or hits something else, is decoded as a whole.
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
