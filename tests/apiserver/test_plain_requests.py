"""Requests in the simplest form of HTTP, which are read without aiohttp, are read as aiohttp does it."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web
from hypothesis import given, settings
from hypothesis import strategies as st

from kilauea.apiserver.http.plain import plain_answer, read_request
from kilauea.apiserver.http.transport import api_request, body_of
from kilauea.apiserver.request import ApiRequest, ApiResponse

SECONDS = 30.0


class Aiohttp:
    """What aiohttp reads of some bytes."""

    def __init__(self, folder: Path) -> None:
        self.loop = asyncio.new_event_loop()
        self._path = str(folder / "socket")
        self._read: list[ApiRequest] = []
        self._listening = self.loop.run_until_complete(self._listen())

    async def _listen(self) -> asyncio.Server:
        self._server = web.Server(self._note, access_log=None)
        return await self.loop.create_unix_server(self._server, self._path)

    async def _note(self, request: web.BaseRequest) -> web.Response:
        self._read.append(api_request(request, await body_of(request), None))
        return web.Response()

    async def _ask(self, data: bytes) -> None:
        reader, writer = await asyncio.open_unix_connection(self._path)
        writer.write(data)
        await reader.readuntil(b"\r\n\r\n")
        writer.close()

    def read(self, data: bytes) -> ApiRequest:
        """The one request in it."""
        self._read.clear()
        self.loop.run_until_complete(asyncio.wait_for(self._ask(data), SECONDS))
        (request,) = self._read
        return request

    def close(self) -> None:
        """End it."""
        self._listening.close()
        self.loop.run_until_complete(self._server.shutdown(1.0))
        self.loop.close()


@pytest.fixture(scope="module")
def aiohttp(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Aiohttp]:
    other = Aiohttp(tmp_path_factory.mktemp("aiohttp"))
    yield other
    other.close()


def bytes_of(line: str, *fields: str, body: bytes = b"") -> bytes:
    """A request."""
    return "\r\n".join([line, *fields, "", ""]).encode("latin-1") + body


PLAIN_PIECES = [
    "/",
    "api",
    "v1",
    "%2F",
    "%e4",
    "%",
    "?",
    "&",
    "=",
    "+",
    ";",
    ":",
    "@",
    "~",
    "watch=1",
    "%20",
    "*",
    "..",
    "./",
]
PIECES = st.sampled_from(PLAIN_PIECES * 3 + ["a b", "é", "#", "//", '"', "[", "\\", "|", "^"])
TARGETS = st.lists(PIECES, max_size=6).map(lambda parts: "/" + "".join(parts))
NAMES = st.sampled_from(
    ["Accept", "X-A", "x-b", "Content-Type", "User-Agent", "Impersonate-Group", "Cookie", "Te", "A b", "C@"]
)
VALUES = st.text(st.sampled_from('ab ,;="\\%(){}@'), max_size=5).map(lambda text: f"c{text}d")
ODD_VALUES = st.text(st.sampled_from("ab \té\x00\r\x7f"), max_size=3)
FIELDS = st.builds("{}: {}".format, NAMES, VALUES) | st.builds(
    "{}{}{}".format, NAMES, st.sampled_from([":", ":  ", " : ", ":\t"]), VALUES | ODD_VALUES
)
REQUESTS = st.builds(
    lambda method, target, version, host, fields, body, wrong: bytes_of(
        f"{method} {target} {version}", *host, *fields, f"Content-Length: {len(body) + wrong}", body=body
    ),
    st.sampled_from(["GET", "POST", "PUT", "PATCH", "DELETE", "GET", "POST", "HEAD", "post"]),
    TARGETS,
    st.sampled_from(["HTTP/1.1"] * 5 + ["HTTP/1.0"]),
    st.sampled_from([["Host: h"]] * 5 + [[]]),
    st.lists(FIELDS, max_size=3),
    st.binary(max_size=20),
    st.sampled_from([0] * 6 + [1, -1]),
)


@settings(max_examples=300, deadline=None)
@given(data=REQUESTS)
def test_what_is_read_is_what_aiohttp_reads(aiohttp: Aiohttp, data: bytes) -> None:
    request = read_request(data)
    if request is not None:
        request.headers = dict(request.headers)
        assert request == aiohttp.read(data)


def test_a_request_in_the_simplest_form_is_read(aiohttp: Aiohttp) -> None:
    data = bytes_of(
        "PATCH /api/v1/namespaces/a%2Fb/pods/c?fieldManager=d+e&force HTTP/1.1",
        "Host: localhost:6443", "User-Agent: tester/1 (linux)", "ACCEPT:application/json, */*", "Content-Length: 2",
        body=b"{}",
    )  # fmt: skip
    request = read_request(data)
    assert request is not None
    assert (request.method, request.path, request.body) == ("PATCH", "/api/v1/namespaces/a/b/pods/c", b"{}")
    assert request.query == [("fieldManager", "d e"), ("force", "")]
    assert request.headers["accept"] == "application/json, */*"
    assert dict(request.headers) == aiohttp.read(data).headers


def test_equal_fields_do_not_make_equal_requests() -> None:
    first = read_request(bytes_of("POST /a HTTP/1.1", "Host: h", "X: 1", "Content-Length: 1", body=b"a"))
    second = read_request(bytes_of("PUT /b?c=d HTTP/1.1", "Host: h", "X: 1", "Content-Length: 1", body=b"b"))
    third = read_request(bytes_of("PUT /b?c=d HTTP/1.1", "Host: h", "X: 2", "Content-Length: 1", body=b"b"))
    assert first is not None
    assert second is not None
    assert third is not None
    assert [(each.method, each.path, each.body, each.headers["x"]) for each in (first, second, third)] == [
        ("POST", "/a", b"a", "1"), ("PUT", "/b", b"b", "1"), ("PUT", "/b", b"b", "2"),
    ]  # fmt: skip
    with pytest.raises(TypeError):
        first.headers["x"] = "3"  # type: ignore[index]


LEFT = [
    bytes_of("HEAD / HTTP/1.1", "Host: h"),
    bytes_of("GET / HTTP/1.0", "Host: h"),
    bytes_of("GET // HTTP/1.1", "Host: h"),
    bytes_of("GET /a#b HTTP/1.1", "Host: h"),
    bytes_of("GET https://h/ HTTP/1.1", "Host: h"),
    bytes_of("GET / HTTP/1.1"),
    bytes_of("GET / HTTP/1.1", "A: b"),
    bytes_of("GET / HTTP/1.1", "Host: h", "Connection: close"),
    bytes_of("GET / HTTP/1.1", "Host: h", "A: b", "a: c"),
    bytes_of("GET / HTTP/1.1", "Host: h", "A: b", " c"),
    bytes_of("GET / HTTP/1.1", "Host: h", "A: é"),
    bytes_of("GET / HTTP/1.1", "Host: h", "A: " + "b" * 5000),
    bytes_of("GET / HTTP/1.1", "Host: h", *(f"A{number}: b" for number in range(64))),
    bytes_of("POST / HTTP/1.1", "Host: h", "Transfer-Encoding: chunked", body=b"1\r\na\r\n0\r\n\r\n"),
    bytes_of("POST / HTTP/1.1", "Host: h", "Expect: 100-continue", "Content-Length: 0"),
    bytes_of("POST / HTTP/1.1", "Host: h", "Content-Encoding: gzip", "Content-Length: 1", body=b"a"),
    bytes_of("POST / HTTP/1.1", "Host: h", "Content-Length: 2", body=b"a"),
    bytes_of("POST / HTTP/1.1", "Host: h", "Content-Length: 1", body=b"aGET / HTTP/1.1\r\n"),
    bytes_of("POST / HTTP/1.1", "Host: h", "Content-Length: +1", body=b"a"),
    bytes_of("POST / HTTP/1.1", "Host: h", "Content-Length: 01", body=b"a"),
    b"POST / HTTP/1.1\nContent-Length: 1\n\na",
    b"GET / HTTP/1.1\r\nHost",
    b"",
]


@pytest.mark.parametrize("data", LEFT)
def test_anything_else_is_left_to_aiohttp(data: bytes) -> None:
    assert read_request(data) is None


@pytest.mark.parametrize("body", [b"", b"a" * (128 * 1024), [b"a", b"b"]])
def test_answers_that_are_large_or_empty_or_come_in_parts_are_left_to_aiohttp(body: Any) -> None:
    assert plain_answer(ApiResponse(200, body)) is None
