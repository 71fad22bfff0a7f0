"""Values that take less memory once they are no longer new: most objects of a kind are much like one another.

A value is compressed against others of its resource, which leaves a tenth or less of it. That takes some 15 µs,
and reading it 5 µs, so the newest values of each resource stay as they are: what is written and watched is rarely old.
"""

from __future__ import annotations

import zlib
from collections import deque

from kilauea.apiserver.storage.records import Codec, Stored

PLAIN_BYTES = 16 << 20
"""Bytes of values of each resource that stay as they are: the newest."""
LEAST = 512
"""Bytes of a value that is worth it."""
LEVEL, WINDOW, MEMORY = 3, -14, 5
"""Parameters of zlib: without a header, with a window that holds the example and the value, quick to copy."""
LONGEST_EXAMPLE = 12 << 10
POOR = 8
"""A value that takes more than its eighth joins the example for those that follow."""
PATIENCE = 1024
"""Values between two changes of the example, as each takes memory until all its values are gone; fewer at first."""


class Example(Codec):
    """The text against which values are compressed: some of them."""

    def __init__(self, text: bytes) -> None:
        self.text = text

    def unpack(self, packed: bytes) -> bytes:
        """Return a value that was packed."""
        return zlib.decompressobj(WINDOW, self.text).decompress(packed)

    def joined(self, value: bytes) -> Example:
        """Return an example with one more value, at the cost of the oldest ones."""
        return Example((self.text + value)[-LONGEST_EXAMPLE:])


class Packing:
    """Compresses values against an example, in a state of zlib of some 100 KB."""

    def __init__(self, example: Example) -> None:
        self.example = example
        self._start = zlib.compressobj(LEVEL, zlib.DEFLATED, WINDOW, MEMORY, zlib.Z_DEFAULT_STRATEGY, example.text)

    def pack(self, value: bytes) -> bytes:
        """Return a value in its compressed form."""
        packing = self._start.copy()
        return packing.compress(value) + packing.flush()


class Ageing:
    """The values of one resource that are not packed yet, oldest first, and the example for them.

    The example is made of values in several states, such as a new pod and one that runs.
    """

    def __init__(self) -> None:
        self._waiting: deque[Stored] = deque()
        self._size = 0
        self._packing: Packing | None = None
        self._packed = 0
        self._next_change, self._between = 1, 8

    def add(self, stored: Stored) -> None:
        """Take note of a new value, and pack those that are no longer new."""
        size = stored.size
        if size < LEAST:
            return
        self._waiting.append(stored)
        self._size += size
        while self._size > PLAIN_BYTES:
            oldest = self._waiting.popleft()
            self._size -= oldest.size
            self._pack(oldest)

    def _pack(self, stored: Stored) -> None:
        """Pack a value, unless that gains little."""
        value = stored.value
        packing = self._packing = self._packing or Packing(Example(value[-LONGEST_EXAMPLE:]))
        packed = packing.pack(value)
        if len(packed) * 2 < len(value):
            stored.pack(packed, packing.example)
        self._packed += 1
        if len(packed) * POOR > len(value) and self._packed >= self._next_change:
            self._next_change = self._packed + self._between
            self._between = min(self._between * 2, PATIENCE)
            self._packing = Packing(packing.example.joined(value))
