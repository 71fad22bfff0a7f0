"""The gRPC health check (`grpc.health.v1.Health/Check`) of probes: one call over HTTP/2 without TLS.

It writes the few frames of one call (RFC 9113) and does not read headers of the response, so it needs no header table:
a server that supports the call responds with data, any other without.
"""

from __future__ import annotations

import asyncio
import struct
from collections.abc import Iterator

_PATH = b"/grpc.health.v1.Health/Check"
_PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
_DATA, _HEADERS, _RESET, _SETTINGS, _PING, _GO_AWAY = 0, 1, 3, 4, 6, 7
_END_STREAM = _ACK = 1
_END_HEADERS = 4
_PADDED = 8
_STREAM = 1
_LONGEST = 64 * 1024
"""Maximum bytes of a response; it usually has a few."""
_STATUSES = ("UNKNOWN", "SERVING", "NOT_SERVING", "SERVICE_UNKNOWN")
SERVING = _STATUSES[1]


class NoHealth(Exception):
    """The server does not answer the call."""


async def check_health(host: str, port: int, service: str) -> str:
    """Query the health of a service; return `SERVING` or another status of the protocol.

    Raises:
        OSError: there is no connection.
        NoHealth: the server does not speak the protocol, or does not know the service.
    """
    reader, writer = await asyncio.open_connection(host, port)
    try:
        writer.write(_call(f"{host}:{port}", service))
        return _status_of(await _answer(reader, writer))
    except (asyncio.IncompleteReadError, ConnectionResetError) as error:
        raise NoHealth("the server has closed the connection") from error
    finally:
        writer.close()


def _call(authority: str, service: str) -> bytes:
    """All frames of a call."""
    fields = [
        (b":method", b"POST"),
        (b":scheme", b"http"),
        (b":path", _PATH),
        (b":authority", authority.encode()),
        (b"content-type", b"application/grpc"),
        (b"te", b"trailers"),
        (b"user-agent", b"kube-probe"),
    ]
    # A literal field that is not indexed: its name and its value, each after its length (RFC 7541, 6.2.2).
    headers = b"".join(b"\0" + _text(name) + _text(value) for name, value in fields)
    name = service.encode()
    request = b"\x0a" + _number(len(name)) + name if name else b""
    message = struct.pack(">BI", 0, len(request)) + request
    frames = (_SETTINGS, 0, 0, b""), (_HEADERS, _END_HEADERS, _STREAM, headers), (_DATA, _END_STREAM, _STREAM, message)
    return _PREFACE + b"".join(_frame(*each) for each in frames)


def _frame(kind: int, flags: int, stream: int, content: bytes) -> bytes:
    return struct.pack(">I", len(content))[1:] + struct.pack(">BBI", kind, flags, stream) + content


def _text(text: bytes) -> bytes:
    """A text of HPACK, not compressed."""
    if len(text) < 127:
        return bytes((len(text),)) + text
    return b"\x7f" + _number(len(text) - 127) + text


def _number(value: int) -> bytes:
    """A number, seven bits in a byte, the lowest first."""
    found = bytearray()
    while value > 127:
        found.append(value & 127 | 128)
        value >>= 7
    return bytes((*found, value))


async def _answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bytes:
    """Read the response data of the call."""
    found = b""
    while len(found) <= _LONGEST:
        head = await reader.readexactly(9)
        length, kind, flags = int.from_bytes(head[:3]), head[3], head[4]
        stream = int.from_bytes(head[5:]) & 0x7FFFFFFF
        if length > _LONGEST:
            break
        content = await reader.readexactly(length)
        if kind in (_SETTINGS, _PING) and not flags & _ACK:
            writer.write(_frame(kind, _ACK, 0, content if kind == _PING else b""))
        elif kind == _GO_AWAY or (kind == _RESET and stream == _STREAM):
            break
        elif stream == _STREAM:
            if kind == _DATA:
                found += content[1 : len(content) - content[0]] if flags & _PADDED and content else content
            if flags & _END_STREAM:
                break
    return found


def _status_of(data: bytes) -> str:
    """The status in an answer: the first field of its message, a number.

    Raises:
        NoHealth: it has none.
    """
    if len(data) < 5 or data[0]:
        raise NoHealth("the server does not implement the health protocol, or does not know the service")
    fields = dict(_fields(data[5 : 5 + int.from_bytes(data[1:5])]))
    number = fields.get(1, 0)
    return _STATUSES[number] if number < len(_STATUSES) else str(number)


def _fields(message: bytes) -> Iterator[tuple[int, int]]:
    """Numbers and values of the fields of a message, up to the first that is not a number."""
    place = 0
    while place < len(message) and not message[place] & 7:
        field = message[place] >> 3
        place, value, shift = place + 1, 0, 0
        while place < len(message):
            byte = message[place]
            place, value, shift = place + 1, value | (byte & 127) << shift, shift + 7
            if byte < 128:
                break
        yield field, value
