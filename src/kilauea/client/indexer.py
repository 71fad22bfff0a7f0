"""`Indexer`: copies of all objects of one kind, updated by its watch."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import islice

import msgspec

from kilauea.api.aggregates import Aggregates
from kilauea.api.ports import (
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
"""Is told of a change: what was there and what is there now, None for nothing."""

_OWNERS = "owners"


class Indexer:
    """All objects of one kind, without their `managedFields`. It is the handler of a reflector.

    Attributes:
        resource: the kind.
        fields: paths of the fields of each object that are kept besides `kilauea.client.fields.ALWAYS`; None for all.
        version: up to which everything that has happened is known; 0 before the first list.
        listeners: are notified of every change, after it.
        progress: are told whenever `version` may have grown.
    """

    def __init__(self, resource: Resource, fields: Iterable[str] | None = None) -> None:
        self.resource = resource
        self._signs: tuple[str, ...] | None = ("metadata.ownerReferences",)
        self._skimmed = skimmer_of(self._signs)
        self.fields: frozenset[str] | None = frozenset()
        self._read: Callable[[bytes], Obj] = read
        self._packed: Packed | None = Packed(read)
        """The objects, as long as only some fields of them are kept."""
        self._objects: Kept = self._packed
        self.keep(fields)
        self.version = 0
        self.listeners: list[Listener] = []
        self.progress: list[Callable[[Indexer], None]] = []
        self._order: list[Key] = []
        self._indexes = {_OWNERS: Index(owners)}
        self._aggregates: dict[str, Aggregates] = {}

    def __len__(self) -> int:
        return len(self._objects)

    # --- what is looked up

    def get(self, key: Key) -> Obj | None:
        """One object."""
        return self._objects.get(key)

    def all(self, namespace: str = "") -> Sequence[Obj]:
        """All objects, or those of a namespace, in order of their keys."""
        keys = self._order
        if namespace:
            keys = keys[bisect_left(keys, (namespace, "")) : bisect_left(keys, (namespace + "\0", ""))]
        return self._at(keys)

    def owned(self, uid: str, namespace: str = "", most: int | None = None) -> Sequence[Obj]:
        """Objects with this uid as an owner, or those in a namespace, in order of their keys; `most` at most."""
        keys: Iterable[Key] = self._indexes[_OWNERS].find(uid)
        if namespace:
            keys = (key for key in keys if key.namespace == namespace)
        return self._at(list(islice(keys, most)))

    def labelled(self, label: str, value: str) -> Sequence[Obj]:
        """Objects with a label, in order of their keys.

        Raises:
            KeyError: this label is not indexed.
        """
        return self._found(_label_index(label), value)

    def indexed(self, index: str, value: str) -> Sequence[Obj]:
        """Objects for which an index says this value, in order of their keys.

        Raises:
            KeyError: there is no such index.
        """
        return self._found(_text_index(index), value)

    def count_indexed(self, index: str, value: str) -> int:
        """Return the number of objects for which an index says this value; none of them is decoded.

        Raises:
            KeyError: there is no such index.
        """
        return len(self._keys(_text_index(index), value))

    def aggregate(self, name: str, value: str) -> Aggregate | None:
        """The aggregate of the objects with a value; None if there are none.

        Raises:
            KeyError: there is no such aggregate.
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

    # --- what is asked for

    def keep(self, fields: Iterable[str] | None) -> None:
        """Keep these fields of objects, too; None for all. Objects that are there already stay as they are."""
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

        Each caller that wants changes says so before the first event.
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
        """Make objects be found by labels and by what functions say of them; those that are there already stay."""
        for label in labels:
            self._add_index(_label_index(label), by_label(label))
        for name, text in indexes.items():
            self._add_index(_text_index(name), by_text(text))

    def add_aggregates(self, aggregates: Mapping[str, Aggregation]) -> None:
        """Aggregate objects, also those that are there already."""
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

    # --- what watches tell

    def on_relist(self, items: Sequence[Text], version: str) -> None:
        """These are all objects there are."""
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
        """This has happened since."""
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
        """Keep an object unread if it has none of the fields of interest, and had none when it was seen last."""
        packed = self._packed
        if packed is None or self._signs is None:
            return False
        try:
            key = self._skimmed(text)
        except msgspec.DecodeError:
            return False
        if packed.has_read(key):
            return False
        if packed.put_unread(key, holder):
            insort(self._order, key)
        return True

    def _split(self, text: bytes) -> tuple[bytes, Obj]:
        """The text to keep of an object in a list, which nothing else keeps, and the object."""
        return split(text) if self.fields is None else (text, self._read(text))

    def _put(self, key: Key, text: Text, obj: Obj) -> None:
        old = self._objects.get(key)
        if old is None:
            key = Key(shared(key.namespace), key.name)  # a namespace has many objects, and one text for all is enough
            insort(self._order, key)
        elif old["metadata"]["resourceVersion"] == obj["metadata"]["resourceVersion"]:
            return
        self._objects.put(key, text, obj)
        self._changed(key, old, obj)

    def _take_out(self, key: Key) -> None:
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
        """The equal key that is kept for as long as its object, so that all indexes hold the same."""
        return self._order[bisect_left(self._order, key)]

    def _come_to(self, version: str) -> None:
        self.version = int(version)
        for told in self.progress:
            told(self)


def _label_index(label: str) -> str:
    return f"the label {label}"


def _text_index(name: str) -> str:
    return f"the index {name}"
