"""Reading other objects in admission: only the requested fields, decoded once until they change."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Generic, TypeVar

import msgspec

from kilauea.api.remembered import remembered
from kilauea.apiserver.storage import Store

T = TypeVar("T")
REMEMBERED = 4096
"""Cached decoded objects of a kind; clusters have fewer namespaces, accounts and classes."""
LONGEST = 8192
"""Bytes of an object from which it is decoded each time: a tenant can write accounts of a megabyte."""


class Record(msgspec.Struct, frozen=True, rename="camel"):
    """Base of records that are read; unknown fields are skipped."""


class Metadata(Record, frozen=True):
    """The part of metadata that admission uses."""

    name: str = ""
    creation_timestamp: str | None = None
    annotations: dict[str, str] | None = None


class Derived(Generic[T]):
    """A value derived from all objects under a prefix, derived again only after a write to their resource.

    Args:
        make: returns the value, given the bytes of the objects; the value must not be changed.
    """

    def __init__(self, make: Callable[[Sequence[bytes]], T]) -> None:
        self._make = make
        self._known: dict[str, tuple[Store, int, T]] = {}

    def of(self, store: Store, prefix: str) -> T:
        """Return the value for the current objects under a prefix."""
        newest = store.newest(prefix)
        known = self._known.get(prefix)
        if known is not None and known[0] is store and known[1] == newest:
            return known[2]
        if len(self._known) >= REMEMBERED:
            self._known.clear()
        made = self._make([each.value for each in store.list(prefix).items])
        self._known[prefix] = store, newest, made
        return made


def reader(kind: type[T]) -> Callable[[bytes], T]:
    """Return a function that decodes a record, which must not be changed: equal bytes share one if they are short."""
    decoder: msgspec.json.Decoder[T] = msgspec.json.Decoder(kind)

    @remembered(REMEMBERED, LONGEST)
    def read(value: bytes) -> T:
        return decoder.decode(value)

    return read


def default_of(classes: Sequence[Metadata], marks: Sequence[str]) -> str:
    """Return the name of the default class: the newest marked one, the first by name among equally old ones.

    Args:
        classes: the metadata of all classes of a kind.
        marks: annotations, one of which is `true` on a default class.
    """
    marked = [each for each in classes if any((each.annotations or {}).get(key) == "true" for key in marks)]
    marked.sort(key=lambda each: each.name)
    return max(marked, key=lambda each: each.creation_timestamp or "").name if marked else ""
