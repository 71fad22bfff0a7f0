"""Decoding and encoding of SPDY/3.1 frames, without I/O.

Data is passed on as it arrives, regardless of the size of its frame. Invalid frames end the connection: headers are
compressed in one stream over all frames, so nothing can be decoded after an invalid one.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from kilauea.apiserver.streams.spdy.dictionary import DICTIONARY

SYN_STREAM, SYN_REPLY, RST_STREAM, SETTINGS, PING, GOAWAY, HEADERS, WINDOW_UPDATE = 1, 2, 3, 4, 6, 7, 8, 9
PROTOCOL_ERROR, INVALID_STREAM, REFUSED_STREAM, CANCEL = 1, 2, 3, 5
"""Reasons for which a stream is reset."""
VERSION = 3
LARGEST_CONTROL = 64 * 1024
"""Maximum bytes of a control frame."""
LARGEST_HEADERS = 64 * 1024
"""Maximum bytes of uncompressed headers."""
MOST_HEADERS = 100
_FIN = 1
_WORD = struct.Struct(">I")
_HEAD = struct.Struct(">II")
_STREAM_MASK = 0x7FFFFFFF
_CONTROL = 0x80000000
_FIXED = {RST_STREAM: 8, GOAWAY: 8, WINDOW_UPDATE: 8, PING: 4}
"""Lengths of the frames with a fixed length."""


class SpdyError(Exception):
    """The data is not SPDY/3.1, or too large."""


@dataclass(frozen=True, slots=True)
class Data:
    """Data of a stream, maybe part of a frame; the last if `fin`."""

    stream: int
    data: bytes
    fin: bool = False


@dataclass(frozen=True, slots=True)
class Opened:
    """A stream that the other side opens; it sends no data if `fin`."""

    stream: int
    headers: Mapping[str, str]
    fin: bool = False


@dataclass(frozen=True, slots=True)
class Control:
    """Any other frame: its kind and its numbers."""

    kind: int
    numbers: tuple[int, ...] = ()


Frame = Data | Opened | Control


class FrameReader:
    """Decodes frames from bytes that arrive in arbitrary pieces."""

    def __init__(self) -> None:
        self._pending = bytearray()
        self._inflate = zlib.decompressobj(zdict=DICTIONARY)
        self._stream = 0
        self._fin = False
        self._left = 0
        """Bytes of a data frame that have not arrived yet."""

    def feed(self, content: bytes) -> Iterator[Frame]:
        """Yield the frames that are complete with these bytes.

        Raises:
            SpdyError: they are not SPDY; the connection must end.
        """
        self._pending += content
        while (frame := self._next()) is not None:
            yield frame

    def _next(self) -> Frame | None:
        if self._left:
            return self._data()
        if len(self._pending) < _HEAD.size:
            return None
        first, second = _HEAD.unpack_from(self._pending)
        flags, length = second >> 24, second & 0xFFFFFF
        if first & _CONTROL:
            return self._control(first >> 16 & 0x7FFF, first & 0xFFFF, flags, length)
        if first == 0:
            raise SpdyError("data of stream 0")
        del self._pending[: _HEAD.size]
        self._stream, self._fin, self._left = first, bool(flags & _FIN), length
        return self._data() if length else Data(first, b"", self._fin)

    def _data(self) -> Data | None:
        """Return the part of a data frame that has arrived."""
        if not self._pending:
            return None
        data = bytes(self._pending[: self._left])
        del self._pending[: self._left]
        self._left -= len(data)
        return Data(self._stream, data, self._fin and not self._left)

    def _control(self, version: int, kind: int, flags: int, length: int) -> Frame | None:
        if version != VERSION:
            raise SpdyError(f"version {version} instead of {VERSION}")
        if length > LARGEST_CONTROL:
            raise SpdyError(f"a frame of {length} bytes; {LARGEST_CONTROL} is the limit")
        if _FIXED.get(kind, length) != length:
            raise SpdyError(f"a frame of kind {kind} with {length} bytes")
        end = _HEAD.size + length
        if len(self._pending) < end:
            return None
        body = bytes(self._pending[_HEAD.size : end])
        del self._pending[:end]
        if kind == SYN_STREAM:
            return self._opened(body, flags)
        if kind in (SYN_REPLY, HEADERS):
            self._headers(body[4:])  # all headers are one compressed stream
            return Control(kind)
        return Control(kind, tuple(number for (number,) in _WORD.iter_unpack(body[: length & ~3])))

    def _opened(self, body: bytes, flags: int) -> Opened:
        if len(body) < 10:
            raise SpdyError(f"a new stream of {len(body)} bytes")
        stream = _WORD.unpack_from(body)[0] & _STREAM_MASK
        if not stream:
            raise SpdyError("stream 0")
        return Opened(stream, self._headers(body[10:]), bool(flags & _FIN))

    def _headers(self, content: bytes) -> dict[str, str]:
        """Return headers with lower-case names, and the first of several values."""
        try:
            text = self._inflate.decompress(content, LARGEST_HEADERS)
        except zlib.error as error:
            raise SpdyError(f"headers: {error}") from error
        if self._inflate.unconsumed_tail:
            raise SpdyError(f"headers of more than {LARGEST_HEADERS} bytes")
        fields = _Fields(text)
        count = fields.number()
        if count > MOST_HEADERS:
            raise SpdyError(f"{count} headers; {MOST_HEADERS} is the limit")
        pairs = [(fields.text(), fields.text()) for _ in range(count)]
        return {name.lower(): value.partition("\0")[0] for name, value in pairs}


class _Fields:
    """Reads a sequence of numbers and texts."""

    def __init__(self, content: bytes) -> None:
        self._content = content
        self._position = 0

    def number(self) -> int:
        """Return the next number."""
        return int(_WORD.unpack(self._take(4))[0])

    def text(self) -> str:
        """Return the next text, which follows its length."""
        return self._take(self.number()).decode(errors="replace")

    def _take(self, size: int) -> bytes:
        end = self._position + size
        if end > len(self._content):
            raise SpdyError("headers end too early")
        part = self._content[self._position : end]
        self._position = end
        return part


class FrameWriter:
    """Encodes frames."""

    def __init__(self) -> None:
        self._deflate = zlib.compressobj(zdict=DICTIONARY)

    def data(self, stream: int, data: bytes, *, fin: bool = False) -> bytes:
        """Encode data of a stream."""
        return _HEAD.pack(stream, (_FIN if fin else 0) << 24 | len(data)) + data

    def opened(self, stream: int, headers: Mapping[str, str], *, fin: bool = False) -> bytes:
        """Encode the start of a stream."""
        return self._control(SYN_STREAM, _WORD.pack(stream) + bytes(6) + self._headers(headers), fin)

    def reply(self, stream: int) -> bytes:
        """Encode the acceptance of a stream that the other side has opened."""
        return self._control(SYN_REPLY, _WORD.pack(stream) + self._headers({}))

    def reset(self, stream: int, reason: int) -> bytes:
        """Encode the reset of a stream."""
        return self._control(RST_STREAM, _WORD.pack(stream) + _WORD.pack(reason))

    def ping(self, number: int) -> bytes:
        """Encode a ping or its reply."""
        return self._control(PING, _WORD.pack(number))

    def go_away(self, last: int) -> bytes:
        """Encode the announcement that no more streams are accepted."""
        return self._control(GOAWAY, _WORD.pack(last) + _WORD.pack(0))

    def _control(self, kind: int, body: bytes, fin: bool = False) -> bytes:
        return _HEAD.pack(_CONTROL | VERSION << 16 | kind, (_FIN if fin else 0) << 24 | len(body)) + body

    def _headers(self, headers: Mapping[str, str]) -> bytes:
        parts = [_WORD.pack(len(headers))]
        for text in (text for pair in headers.items() for text in pair):
            content = text.encode()
            parts += [_WORD.pack(len(content)), content]
        return self._deflate.compress(b"".join(parts)) + self._deflate.flush(zlib.Z_SYNC_FLUSH)
