"""The objects of one resource in the order of their keys, so that a list never sorts.

They are in chunks of at most `CHUNK` objects. A write moves at most one chunk; a list joins chunks. A key is found by
bisection, as a dict of all keys would take 50 bytes for each, and a list 8.
"""

from __future__ import annotations

import sys
from bisect import bisect_left, bisect_right
from operator import attrgetter

from kilauea.apiserver.storage.records import Stored

CHUNK = 1024
_key = attrgetter("key")


class Ordered:
    """A map from key to object, iterated in the order of keys."""

    def __init__(self) -> None:
        self._firsts: list[str] = []
        self._objects: list[list[Stored]] = []

    def get(self, key: str) -> Stored | None:
        """Return the object of a key."""
        chunk = bisect_right(self._firsts, key) - 1
        if chunk < 0:
            return None
        objects = self._objects[chunk]
        place = bisect_left(objects, key, key=_key)
        return objects[place] if place < len(objects) and objects[place].key == key else None

    def put(self, stored: Stored) -> None:
        """Add an object or replace the one with its key."""
        key = stored.key
        if not self._firsts:
            self._firsts, self._objects = [key], [[stored]]
            return
        chunk = max(bisect_right(self._firsts, key) - 1, 0)
        objects = self._objects[chunk]
        place = bisect_left(objects, key, key=_key)
        if place < len(objects) and objects[place].key == key:
            objects[place] = stored
            return
        objects.insert(place, stored)
        self._firsts[chunk] = objects[0].key
        if len(objects) > CHUNK:
            self._split(chunk)

    def remove(self, key: str) -> None:
        """Remove the object of a key, which must exist."""
        chunk = bisect_right(self._firsts, key) - 1
        objects = self._objects[chunk]
        del objects[bisect_left(objects, key, key=_key)]
        if objects:
            self._firsts[chunk] = objects[0].key
        else:
            del self._firsts[chunk], self._objects[chunk]

    def between(self, first: str, end: str, most: int | None = None) -> list[Stored]:
        """Return objects with first <= key < end, at most `most`."""
        (chunk, place), (last, stop) = self._find(first), self._find(end)
        most = sys.maxsize if most is None else most
        found: list[Stored] = []
        while chunk <= last and len(found) < most and chunk < len(self._objects):
            until = stop if chunk == last else None
            found += self._objects[chunk][place:until]
            chunk, place = chunk + 1, 0
        del found[most:]
        return found

    def count(self, first: str, end: str) -> int:
        """Return the number of objects with first <= key < end."""
        (chunk, place), (last, stop) = self._find(first), self._find(end)
        return sum(map(len, self._objects[chunk:last])) - place + stop

    def _find(self, key: str) -> tuple[int, int]:
        """Return the chunk, and the index in it, of the first object whose key is not less than this one."""
        if not self._firsts:
            return 0, 0
        chunk = max(bisect_right(self._firsts, key) - 1, 0)
        return chunk, bisect_left(self._objects[chunk], key, key=_key)

    def _split(self, chunk: int) -> None:
        objects = self._objects[chunk]
        half = len(objects) // 2
        self._objects[chunk : chunk + 1] = [objects[:half], objects[half:]]
        self._firsts.insert(chunk + 1, objects[half].key)
