"""The objects of one resource in the order of their keys, so that a list never sorts.

Chunks of at most `CHUNK` keys, each beside a list of the same length with its objects. A write moves one chunk at
most; a list joins chunks. A key is found by bisection, as a table of all keys would take 50 bytes for each.
"""

from __future__ import annotations

import sys
from bisect import bisect_left, bisect_right

from kilauea.apiserver.storage.records import Stored

CHUNK = 1024


class Ordered:
    """A map from key to object, iterated in the order of keys."""

    def __init__(self) -> None:
        self._firsts: list[str] = []
        self._keys: list[list[str]] = []
        self._objects: list[list[Stored]] = []

    def get(self, key: str) -> Stored | None:
        """The object of a key."""
        chunk = bisect_right(self._firsts, key) - 1
        if chunk < 0:
            return None
        keys = self._keys[chunk]
        place = bisect_left(keys, key)
        return self._objects[chunk][place] if place < len(keys) and keys[place] == key else None

    def put(self, stored: Stored) -> None:
        """Add an object or replace the one of its key."""
        key = stored.key
        if not self._firsts:
            self._firsts, self._keys, self._objects = [key], [[key]], [[stored]]
            return
        chunk = max(bisect_right(self._firsts, key) - 1, 0)
        keys, objects = self._keys[chunk], self._objects[chunk]
        place = bisect_left(keys, key)
        if place < len(keys) and keys[place] == key:
            objects[place] = stored
            return
        keys.insert(place, key)
        objects.insert(place, stored)
        self._firsts[chunk] = keys[0]
        if len(keys) > CHUNK:
            self._split(chunk)

    def remove(self, key: str) -> None:
        """Take out the object of a key, which must be there."""
        chunk = bisect_right(self._firsts, key) - 1
        keys, objects = self._keys[chunk], self._objects[chunk]
        place = bisect_left(keys, key)
        del keys[place], objects[place]
        if keys:
            self._firsts[chunk] = keys[0]
        else:
            del self._firsts[chunk], self._keys[chunk], self._objects[chunk]

    def between(self, first: str, end: str, most: int | None = None) -> list[Stored]:
        """Objects with first <= key < end, at most so many."""
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
        return sum(len(keys) for keys in self._keys[chunk:last]) - place + stop

    def _find(self, key: str) -> tuple[int, int]:
        """The chunk and the place in it of the first object whose key is not below this one."""
        if not self._firsts:
            return 0, 0
        chunk = max(bisect_right(self._firsts, key) - 1, 0)
        return chunk, bisect_left(self._keys[chunk], key)

    def _split(self, chunk: int) -> None:
        keys, objects = self._keys[chunk], self._objects[chunk]
        half = len(keys) // 2
        self._keys[chunk : chunk + 1] = [keys[:half], keys[half:]]
        self._objects[chunk : chunk + 1] = [objects[:half], objects[half:]]
        self._firsts.insert(chunk + 1, keys[half])
