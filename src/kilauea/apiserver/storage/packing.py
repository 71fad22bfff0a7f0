"""Compression of older values in memory, as most objects of a kind are similar.

A value is compressed with others of its resource as the dictionary, to a tenth of its size or less. LZ4 compresses in
3 µs and decompresses in 1 µs, so that lists of old values are as fast as those of new ones. (zlib takes 13 and 4 µs for
two thirds of the size, Zstandard 5 and 2.5 µs.) The newest values of each resource stay uncompressed: they are read
most.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from functools import partial

from lz4.block import compress, decompress

from kilauea.apiserver.storage.records import Form, Stored

PLAIN_BYTES = 1 << 20
"""Bytes of the newest values of each resource, which stay uncompressed."""
LEAST = 256
"""The minimum size of a value to compress, in bytes."""
LONGEST_EXAMPLE = 12 << 10
POOR = 16
"""A value that compresses to more than a sixteenth joins the example for later ones.

The times in an object are most of its new content, the more so the older the example is.
"""
PATIENCE = 1024
"""Values between two changes of the example, fewer at first: each example stays in memory as long as its values."""


class Example(Form):
    """The dictionary with which values are compressed: some of the values.

    Attributes:
        pack: a function that compresses a value.
    """

    def __init__(self, text: bytes) -> None:
        self._text = text[-LONGEST_EXAMPLE:]
        self.pack: Callable[[bytes], bytes] = partial(compress, dict=self._text)

    def unpack(self, packed: bytes, /) -> bytes:
        """Return a packed value."""
        # Arguments by position: LZ4 takes almost as long to find keyword arguments as to decompress.
        value: bytes = decompress(packed, -1, False, self._text)
        return value

    def length(self, packed: bytes, /) -> int:
        """Return the length of a packed value, which LZ4 stores as its prefix."""
        return int.from_bytes(packed[:4], "little")

    def joined(self, value: bytes) -> Example:
        """Return an example with one more value in place of the oldest ones."""
        return Example(self._text + value)


class Ageing:
    """The values of one resource that are not packed yet, oldest first, and the example for them.

    The example contains values in several states, such as a new pod and a running one.
    """

    def __init__(self) -> None:
        self._waiting: deque[tuple[Stored, int]] = deque()
        self._size = 0
        self._example: Example | None = None
        self._packed = 0
        self._next_change, self._between = 1, 8

    def add(self, stored: Stored) -> None:
        """Add a new value, and pack those that are no longer new."""
        size = stored.size
        if size < LEAST:
            return
        self._waiting.append((stored, size))
        self._size += size
        while self._size > PLAIN_BYTES:
            oldest, size = self._waiting.popleft()
            self._size -= size
            self._pack(oldest)

    def _pack(self, stored: Stored) -> None:
        """Pack a value, unless that saves little."""
        value = stored.value
        example = self._example = self._example or Example(value)
        packed = example.pack(value)
        if len(packed) * 2 < len(value):
            stored.pack(packed, example)
        self._packed += 1
        if len(packed) * POOR > len(value) and self._packed >= self._next_change:
            self._next_change = self._packed + self._between
            self._between = min(self._between * 2, PATIENCE)
            self._example = example.joined(value)
