"""Requests that come whole and in the simplest form of HTTP, as nearly all writes do, and the answers to them.

What is not read here is not wrong; it is left to a parser that knows all of HTTP.
"""

from __future__ import annotations

import re
import time
from collections.abc import Mapping
from email.utils import formatdate
from functools import lru_cache
from http import HTTPStatus
from types import MappingProxyType
from urllib.parse import unquote

from aiohttp.http import SERVER_SOFTWARE
from yarl import URL

from kilauea.apiserver.request import ApiRequest, ApiResponse, WatchStream

COMPRESSED_FROM = 128 * 1024
"""Bytes of an answer from which it is compressed, if the client takes that."""
LONGEST_HEAD = 4096
"""Bytes of a head that is read here."""
MOST_FIELDS = 64

_REQUEST_LINE = re.compile(
    rb"(GET|POST|PUT|PATCH|DELETE) (/(?!/)[\w.~!$&'()*+,;=:@%/-]*)(?:\?([\w.~!$&'()*+,;=:@%/?-]*))? HTTP/1\.1\r\n"
)
_FIELD = re.compile(rb"([\w!#$%&'*+.^`|~-]+): ?([!-~](?:[ -~]*[!-~])?)")
_LEFT_OUT = frozenset(
    {"connection", "content-encoding", "expect", "proxy-connection", "sec-websocket-key1", "trailer",
     "transfer-encoding", "upgrade"}
)  # fmt: skip
"""Fields that say how the message itself is to be read, or the connection to be used."""


def read_request(data: bytes) -> ApiRequest | None:
    """The request that these bytes are, no more and no less; None if it is not of the simplest form."""
    line, end = _REQUEST_LINE.match(data), data.find(b"\r\n\r\n", 0, LONGEST_HEAD)
    if line is None or end < 0:
        return None
    headers, body = _fields(data[line.end() : end]), data[end + 4 :]
    if headers is None or headers.get("content-length", "0") != str(len(body)):
        return None
    method, path, query = line.groups()
    pairs = list(URL.build(query_string=query.decode(), encoded=True).query.items()) if query else []
    return ApiRequest(method.decode(), unquote(path.decode()), pairs, headers, body)


@lru_cache(maxsize=512)
def _fields(block: bytes) -> Mapping[str, str] | None:
    """The fields of a head, by names in lower case; clients send the same ones again and again."""
    found: dict[str, str] = {}
    for line in block.split(b"\r\n"):
        field = _FIELD.fullmatch(line)
        name = field[1].decode().lower() if field is not None else ""
        if field is None or name in found or name in _LEFT_OUT:
            return None
        found[name] = field[2].decode()
    return MappingProxyType(found) if "host" in found and len(found) <= MOST_FIELDS else None


def plain_answer(answer: ApiResponse | WatchStream) -> bytes | None:
    """The bytes of an answer; None if it is large, comes in parts or has no body."""
    if isinstance(answer, WatchStream) or not isinstance(answer.body, bytes):
        return None
    if not 0 < len(answer.body) < COMPRESSED_FROM:
        return None
    head = _beginning(answer.status, answer.content_type)
    if answer.headers:
        head += "".join(f"{name}: {value}\r\n" for name, value in answer.headers)
    head += f"Content-Length: {len(answer.body)}\r\n{_ending(int(time.time()))}"
    return head.encode() + answer.body


@lru_cache(maxsize=64)
def _beginning(code: int, content_type: str) -> str:
    line = f"HTTP/1.1 {code} {HTTPStatus(code).phrase}\r\n"
    return f"{line}Cache-Control: no-cache, private\r\nContent-Type: {content_type}\r\n"


@lru_cache(maxsize=1)
def _ending(second: int) -> str:
    return f"Date: {formatdate(second, usegmt=True)}\r\nServer: {SERVER_SOFTWARE}\r\n\r\n"
