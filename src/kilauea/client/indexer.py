"""`Indexer`: copies of all objects of one kind, updated by its watch."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import islice

import msgspec

from kilauea.api.aggregates import Aggregates
from kilauea.api.ports import (
    HEAD,
    Aggregate,
    Aggregation,
    Holder,
    Key,
    Obj,
    Resource,
    Seen,
    Text,
    Texts,
    bytes_of,
    key_of,
)
from kilauea.api.shared import shared
from kilauea.client.fields import decoder_of, skimmer_of
from kilauea.client.index import Index, Values, by_label, by_text, owners, remove
from kilauea.client.kept import Kept, Packed, Whole, key_in, obj_of, read, split

Listener = Callable[[Obj | None, Obj | None], None]
"""Called with a change: the object before and after, None if it did not exist."""

_OWNERS = "owners"
MOST_HEADS, LARGEST_HEAD = 500, 4096
"""Number of objects of a kind whose heads are kept, and bytes up to which they are."""


class Indexer:
    """All objects of one kind, without their `managedFields`. It is the handler of a reflector.

    Attributes:
        resource: the kind.
        fields: paths of the fields of each object that are kept besides `kilauea.client.fields.ALWAYS`; None for all.
        version: the version up to which all events are known; 0 before the first list.
        listeners: are notified of every change, after it.
        progress: are notified whenever `version` may have increased.
    """

    def __init__(self, resource: Resource, fields: Iterable[str] | None = None) -> None:
        self.resource = resource
        self._signs: tuple[str, ...] | None = ("metadata.ownerReferences",)
        self._skimmed = skimmer_of(self._signs)
        self.fields: frozenset[str] | None = frozenset()
        self._read: Callable[[bytes], Obj] = read
        self._packed: Packed | None = Packed(read)
        """The objects, if only some of their fields are kept."""
        self._objects: Kept = self._packed
        self.keep(fields)
        self.version = 0
        self.listeners: list[Listener] = []
        self.progress: list[Callable[[Indexer], None]] = []
        self._order: list[Key] = []
        self._heads: dict[Key, Obj] = {}
        self._indexes = {_OWNERS: Index(owners)}
        self._aggregates: dict[str, Aggregates] = {}

    def __len__(self) -> int:
        return len(self._objects)

    # --- lookups

    def get(self, key: Key) -> Obj | None:
        """Return one object."""
        return self._objects.get(key)

    def head(self, key: Key) -> Obj | None:
        """Return an object with only the part of its metadata in `HEAD`; the newest of these are kept."""
        head = self._heads.get(key)
        if head is None and (obj := self._objects.get(key)) is not None:
            head = {"metadata": {name: obj["metadata"][name] for name in HEAD if name in obj["metadata"]}}
            if len(msgspec.json.encode(head)) <= LARGEST_HEAD:
                if len(self._heads) >= MOST_HEADS:
                    del self._heads[next(iter(self._heads))]
                self._heads[key] = head
        return head

    def all(self, namespace: str = "") -> Sequence[Obj]:
        """Return all objects, or those in a namespace, ordered by key."""
        keys = self._order
        if namespace:
            keys = keys[bisect_left(keys, (namespace, "")) : bisect_left(keys, (namespace + "\0", ""))]
        return self._at(keys)

    def owned(self, uid: str, namespace: str = "", most: int | None = None) -> Sequence[Obj]:
        """Return objects with this UID as an owner, or those in a namespace, ordered by key; `most` at most."""
        keys: Iterable[Key] = self._indexes[_OWNERS].find(uid)
        if namespace:
            keys = (key for key in keys if key.namespace == namespace)
        return self._at(list(islice(keys, most)))

    def labelled(self, label: str, value: str) -> Sequence[Obj]:
        """Return objects with a label, ordered by key.

        Raises:
            KeyError: this label is not indexed.
        """
        return self._found(_label_index(label), value)

    def indexed(self, index: str, value: str) -> Sequence[Obj]:
        """Return objects with this value in an index, ordered by key.

        Raises:
            KeyError: the index does not exist.
        """
        return self._found(_text_index(index), value)

    def count_indexed(self, index: str, value: str) -> int:
        """Return the number of objects with this value in an index, without decoding them.

        Raises:
            KeyError: the index does not exist.
        """
        return len(self._keys(_text_index(index), value))

    def aggregate(self, name: str, value: str) -> Aggregate | None:
        """Return the aggregate of the objects with a value; None without objects.

        Raises:
            KeyError: the aggregate does not exist.
        """
        return self._aggregates[name].find(value)

    def _found(self, name: str, value: str) -> Sequence[Obj]:
        return self._at(self._keys(name, value))

    def _keys(self, name: str, value: str) -> Sequence[Key]:
        if name not in self._indexes:
            raise KeyError(f"{self.resource.plural} have no index by {name}: name it in the interest")
        return self._indexes[name].find(value)

    def _at(self, keys: Sequence[Key]) -> Sequence[Obj]:
        return self._objects.several(keys)

    # --- declarations

    def keep(self, fields: Iterable[str] | None) -> None:
        """Also keep these fields of objects; None for all. Existing objects stay unchanged."""
        self.fields = None if fields is None or self.fields is None else self.fields.union(fields)
        if self.fields is None:
            packed, self._packed = self._packed, None
            if packed is not None:
                self._objects, self._read = Whole(), read
                for key, obj in packed.items():
                    self._objects.put(key, msgspec.json.encode(obj), obj)
        elif self._packed is not None:
            self._packed.read = self._read = decoder_of(self.fields)

    def read_if(self, signs: Iterable[str] | None) -> None:
        """Read objects with one of these fields; all objects if None. No events are sent for others.

        Each caller that needs changes must call this before the first event.
        """
        if signs is None or self._signs is None:
            self._signs = None
        else:
            self._signs = tuple(dict.fromkeys((*self._signs, *signs)))
            self._skimmed = skimmer_of(self._signs)

    def keeps(self, fields: Iterable[str] | None) -> bool:
        """Return True if these fields are kept."""
        return self.fields is None or (fields is not None and self.fields.issuperset(fields))

    def add_indexes(self, labels: Iterable[str], indexes: Mapping[str, Texts]) -> None:
        """Index objects by labels and functions, including existing objects."""
        for label in labels:
            self._add_index(_label_index(label), by_label(label))
        for name, text in indexes.items():
            self._add_index(_text_index(name), by_text(text))

    def add_aggregates(self, aggregates: Mapping[str, Aggregation]) -> None:
        """Aggregate objects, including existing ones."""
        for name, aggregation in aggregates.items():
            if name not in self._aggregates:
                found = self._aggregates[name] = Aggregates(aggregation)
                for key, obj in self._objects.items():
                    found.move(self._first_of(key), None, obj)

    def _add_index(self, name: str, values: Values) -> None:
        if name not in self._indexes:
            index = self._indexes[name] = Index(values)
            for key, obj in self._objects.items():
                index.move(key, None, obj)

    # --- events of watches

    def on_relist(self, items: Sequence[Text], version: str) -> None:
        """Replace all objects."""
        found = {key_in(bytes_of(text)): text for text in items}
        for key in [key for key in self._order if key not in found]:
            self._take_out(key)
        for key, text in found.items():
            if isinstance(text, bytes):
                self._put(key, *self._split(text))
                continue
            value = text.value
            if not self._skim(value, text):
                self._put(key, text, self._read(value))
        self._come_to(version)

    def on_events(self, batch: Sequence[Seen]) -> None:
        """Apply events."""
        for seen in batch:
            if seen.type == "BOOKMARK" or (
                seen.holder is not None and seen.type != "DELETED" and self._skim(seen.object, seen.holder)
            ):
                continue
            obj = obj_of(seen.holder) if seen.holder and self.fields is None else self._read(seen.object)
            if seen.type == "DELETED":
                self._take_out(key_of(obj))
            else:
                self._put(key_of(obj), seen.holder or seen.object, obj)
        self._come_to(batch[-1].version)

    def _skim(self, text: bytes, holder: Holder) -> bool:
        """Keep an object unread if it has no field of interest, and had none before."""
        packed = self._packed
        if packed is None or self._signs is None:
            return False
        try:
            key = self._skimmed(text)
        except msgspec.DecodeError:
            return False
        self._heads.pop(key, None)
        if packed.has_read(key):
            return False
        if packed.put_unread(key, holder):
            insort(self._order, key)
        return True

    def _split(self, text: bytes) -> tuple[bytes, Obj]:
        """Return the text to keep of a listed object, which nothing else keeps, and the object."""
        return split(text) if self.fields is None else (text, self._read(text))

    def _put(self, key: Key, text: Text, obj: Obj) -> None:
        self._heads.pop(key, None)
        old = self._objects.get(key)
        if old is None:
            key = Key(shared(key.namespace), key.name)  # the many objects of a namespace share one string
            insort(self._order, key)
        elif old["metadata"]["resourceVersion"] == obj["metadata"]["resourceVersion"]:
            return
        self._objects.put(key, text, obj)
        self._changed(key, old, obj)

    def _take_out(self, key: Key) -> None:
        self._heads.pop(key, None)
        old = self._objects.take(key)
        if old is not None:
            remove(self._order, key)
            self._changed(key, old, None)

    def _changed(self, key: Key, old: Obj | None, new: Obj | None) -> None:
        for index in self._indexes.values():
            index.move(key, old, new, self._first_of)
        for aggregates in self._aggregates.values():
            aggregates.move(key, old, new, self._first_of)
        for listener in self.listeners:
            listener(old, new)

    def _first_of(self, key: Key) -> Key:
        """Return the equal key that is stored with its object, so that all indexes share it."""
        return self._order[bisect_left(self._order, key)]

    def _come_to(self, version: str) -> None:
        self.version = int(version)
        for told in self.progress:
            told(self)


def _label_index(label: str) -> str:
    return f"the label {label}"


def _text_index(name: str) -> str:
    return f"the index {name}"
