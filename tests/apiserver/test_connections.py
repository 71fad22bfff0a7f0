"""Connections: what is answered without aiohttp is answered as aiohttp does it, and any other request may follow.

A request that comes in two pieces is always handled by aiohttp.
"""

from __future__ import annotations

import asyncio
import datetime
import json
import re
import socket
import ssl
import time
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from api_core import MAPS, Api
from cluster.api_process import Server, running_server
from kilauea.apiserver.authentication import Authenticator
from kilauea.apiserver.http import connection
from kilauea.apiserver.http.credentials import load_credentials
from kilauea.apiserver.http.transport import Transport
from kilauea.apiserver.request import User

SECONDS = 30.0
ONE, LARGE = f"{MAPS}/a", f"{MAPS}/large"
JSON, MERGE = "Content-Type: application/json", "Content-Type: application/merge-patch+json"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with running_server(tmp_path_factory.mktemp("server") / "data") as process:
        for name, text in (("a", "b"), ("large", "x" * 200_000)):
            body = {"metadata": {"name": name}, "data": {"text": text}}
            assert process.client().send("POST", MAPS, body).code == 201
        yield process


class Wire:
    """A connection."""

    def __init__(self, server: Server) -> None:
        host, port = server.url.removeprefix("https://").split(":")
        tls = ssl.create_default_context(cafile=str(server.authority))
        plain = socket.create_connection((host, int(port)), SECONDS)
        plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._socket = tls.wrap_socket(plain, server_hostname=host)
        self._left = b""

    def __enter__(self) -> Wire:
        return self

    def __exit__(self, *_: object) -> None:
        self._socket.close()

    def send(self, data: bytes, *, whole: bool = True) -> None:
        """Send it at once, or in two pieces."""
        if not whole:
            self._socket.sendall(data[:10])
            time.sleep(0.1)
            data = data[10:]
        self._socket.sendall(data)

    def answer(self, *, has_body: bool = True) -> tuple[bytes, bytes]:
        """Head, without the date, and body of the next answer."""
        head, body = self._until(b"\r\n\r\n"), b""
        length = re.search(rb"Content-Length: (\d+)", head)
        if has_body and length is not None:
            body = self._next(int(length[1]))
        elif has_body and b"chunked" in head:
            while size := int(self._until(b"\r\n"), 16):
                body += self._next(size + 2)[:-2]
            self._until(b"\r\n")
        return re.sub(rb"Date: [A-Z][a-z]{2}, \d\d [A-Z][a-z]{2} \d{4} \d\d:\d\d:\d\d GMT", b"Date: now", head), body

    def is_over(self) -> bool:
        """Whether the server has ended it."""
        return not self._left and self._socket.recv(1) == b""

    def _until(self, mark: bytes) -> bytes:
        while mark not in self._left:
            self._receive()
        return self._next(self._left.index(mark) + len(mark))

    def _next(self, count: int) -> bytes:
        while len(self._left) < count:
            self._receive()
        found, self._left = self._left[:count], self._left[count:]
        return found

    def _receive(self) -> None:
        more = self._socket.recv(65536)
        assert more, f"the server has ended the connection after {self._left!r}"
        self._left += more


def bytes_of(line: str, *fields: str, body: bytes = b"") -> bytes:
    """A request."""
    return "\r\n".join([line, "Host: localhost", *fields, "", ""]).encode("latin-1") + body


def asked(server: Server, line: str, *fields: str, body: bytes = b"") -> bytes:
    """A request of the administrator."""
    length = [f"Content-Length: {len(body)}"] if body and "Transfer-Encoding: chunked" not in fields else []
    return bytes_of(line, f"Authorization: Bearer {server.token}", *length, *fields, body=body)


ASKED: list[tuple[str, tuple[str, ...], bytes]] = [
    ("GET /version HTTP/1.1", (), b""),
    (f"GET {ONE} HTTP/1.1", ("Accept: application/yaml",), b""),
    (f"GET {ONE} HTTP/1.1", ("Accept: text/html",), b""),
    (f"GET {ONE} HTTP/1.1", ("Connection: close",), b""),
    (f"GET {ONE} HTTP/1.0", (), b""),
    (f"HEAD {ONE} HTTP/1.1", (), b""),
    (f"GET {MAPS}/no%2Fne HTTP/1.1", (), b""),
    ("GET /nowhere HTTP/1.1", (), b""),
    (f"GET {MAPS} HTTP/1.1", (), b""),
    (f"GET {LARGE} HTTP/1.1", (), b""),
    (f"GET {LARGE} HTTP/1.1", ("Accept-Encoding: gzip",), b""),
    (f"GET {MAPS}?watch=1&timeoutSeconds=1&resourceVersion=0 HTTP/1.1", (), b""),
    (f"PATCH {ONE} HTTP/1.1", (MERGE,), b'{"data":{"text":"b"}}'),
    (f"PATCH {ONE}?fieldValidation=Warn HTTP/1.1", (MERGE,), b'{"d\xc3\xa9\\"\\n":"","more":1}'),
    (f"PATCH {LARGE} HTTP/1.1", (MERGE, "Accept-Encoding: gzip"), b"{}"),
    (f"PATCH {ONE} HTTP/1.1", ("Content-Type: a/b",), b"{}"),
    (f"POST {MAPS} HTTP/1.1", (JSON,), b"{"),
    (f"POST {MAPS} HTTP/1.1", (JSON,), b'{"metadata":{"name":"A"}}'),
    (f"POST {MAPS} HTTP/1.1", (JSON, "Transfer-Encoding: chunked"), b"1\r\n{\r\n0\r\n\r\n"),
    (f"PUT {MAPS} HTTP/1.1", (JSON,), b"{}"),
    (f"DELETE {MAPS}/none HTTP/1.1", (), b""),
    (f"GET {ONE} HTTP/1.1", ("Impersonate-User: nobody",), b""),
]


@pytest.mark.parametrize(("line", "fields", "body"), ASKED)
def test_an_answer_is_that_which_aiohttp_gives(server: Server, line: str, fields: tuple[str, ...], body: bytes) -> None:
    data, answers = asked(server, line, *fields, body=body), []
    for whole in (True, False):
        with Wire(server) as wire:
            wire.send(data, whole=whole)
            answers.append(wire.answer(has_body=not line.startswith("HEAD")))
            if "Connection: close" in fields or line.endswith("HTTP/1.0"):
                assert wire.is_over()
                continue
            wire.send(asked(server, "GET /version HTTP/1.1"))
            assert b"gitVersion" in wire.answer()[1]  # the first answer has been read to its end
    assert answers[0] == answers[1]


@pytest.mark.parametrize("fields", [(), ("Authorization: Bearer wrong",)])
def test_nobody_unknown_is_answered_in_either_way(server: Server, fields: tuple[str, ...]) -> None:
    answers = []
    for whole in (True, False):
        with Wire(server) as wire:
            wire.send(bytes_of(f"GET {ONE} HTTP/1.1", *fields), whole=whole)
            answers.append(wire.answer())
    assert answers[0] == answers[1]
    assert answers[0][0].startswith(b"HTTP/1.1 401 Unauthorized\r\n")


@pytest.mark.parametrize(
    "data", [b"GET\r\n\r\n", b"GET / HTTP/1.1\r\nA b\r\n\r\n", b"GET / HTTP/1.1\r\nA: \x01\r\n\r\n"]
)
def test_what_is_not_http_is_told_so_at_any_time(server: Server, data: bytes) -> None:
    for requests_before in (0, 2):
        with Wire(server) as wire:
            for _ in range(requests_before):
                wire.send(asked(server, "GET /version HTTP/1.1"))
                assert wire.answer()[0].startswith(b"HTTP/1.1 200 OK\r\n")
            wire.send(data)
            assert wire.answer()[0].split(b" ")[1] == b"400"


def test_requests_that_do_not_wait_are_answered_in_their_order(server: Server) -> None:
    first, second = (asked(server, f"GET {path} HTTP/1.1") for path in (ONE, "/version"))
    ways = [
        [first + second + first],
        [first, second + first],
        [first, second, first],
        [first + second[:20], second[20:] + first],
        [first, second[:20], second[20:], first],
    ]
    for pieces in ways:
        with Wire(server) as wire:
            for piece in pieces:
                wire.send(piece)
            kinds = [json.loads(wire.answer()[1]).get("kind") for _ in range(3)]
            assert kinds == ["ConfigMap", None, "ConfigMap"], pieces


def test_a_connection_goes_on_after_a_watch_and_a_large_answer(server: Server) -> None:
    watch, answers = f"{MAPS}?watch=1&timeoutSeconds=1", []
    with Wire(server) as wire:
        for path in ("/version", watch, "/version", LARGE, ONE, watch, ONE):
            wire.send(asked(server, f"GET {path} HTTP/1.1"))
            answers.append(wire.answer())
        assert {head.split(b"\r\n")[0] for head, _ in answers} == {b"HTTP/1.1 200 OK"}
        assert json.loads(answers[-1][1])["metadata"]["name"] == "a"


def test_the_request_of_a_client_that_goes_before_its_answer_is_carried_out(server: Server) -> None:
    with Wire(server) as wire:
        wire.send(asked(server, f"POST {MAPS} HTTP/1.1", JSON, body=b'{"metadata":{"name":"left-behind"}}'))
    end = time.monotonic() + SECONDS
    while server.client().send("GET", f"{MAPS}/left-behind").code != 200:
        assert time.monotonic() < end
        time.sleep(0.05)


def test_a_client_that_takes_its_answers_late_gets_them_all(server: Server) -> None:
    text, count = "y" * 120_000, 150
    assert server.client().send("POST", MAPS, {"metadata": {"name": "long"}, "data": {"text": text}}).code == 201
    with Wire(server) as wire:
        for _ in range(count):
            wire.send(asked(server, f"GET {MAPS}/long HTTP/1.1"))
            time.sleep(0.01)  # so that each comes alone, until the server has no more room for answers
        for _ in range(count):
            assert json.loads(wire.answer()[1])["data"] == {"text": text}


# --- in the process: how connections end


@asynccontextmanager
async def connected(
    api: Api, folder: Path, kind: type[Authenticator] = Authenticator
) -> AsyncIterator[tuple[Transport, asyncio.StreamReader, asyncio.StreamWriter]]:
    """A server in this process, and a connection to it."""
    made = load_credentials(folder, "127.0.0.1", datetime.datetime.now(datetime.UTC))
    administrator = User("admin", groups=("system:masters",))
    transport = Transport(api.server, kind({"secret": administrator}), made.server_context())
    port = await transport.listen("127.0.0.1", 0)
    tls = ssl.create_default_context(cadata=made.ca.decode())
    reader, writer = await asyncio.open_connection("127.0.0.1", port, ssl=tls)
    try:
        yield transport, reader, writer
    finally:
        writer.close()
        await transport.close()


@pytest.fixture
def api() -> Iterator[Api]:
    core = Api()
    yield core
    core.close()


def test_a_connection_without_requests_ends(api: Api, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection, "IDLE_SECONDS", 0.2)

    async def test() -> None:
        async with connected(api, tmp_path) as (transport, reader, writer):
            writer.write(bytes_of("GET /readyz HTTP/1.1"))
            assert (await reader.readuntil(b"ok")).startswith(b"HTTP/1.1 200 OK")
            assert await asyncio.wait_for(reader.read(), SECONDS) == b""
            writer.close()
            while transport.connections:
                await asyncio.sleep(0.01)

    api.run(asyncio.wait_for(test(), SECONDS))


def test_the_end_waits_for_a_request_that_is_being_answered(api: Api, tmp_path: Path) -> None:
    ahead = api.backend.store.revision + 1
    request = bytes_of(f"GET {MAPS}?resourceVersion={ahead} HTTP/1.1", "Authorization: Bearer secret")

    async def test() -> None:
        async with connected(api, tmp_path) as (transport, reader, writer):
            writer.write(request)
            while not any(each.task for each in transport.connections):
                await asyncio.sleep(0.01)
            ending = asyncio.create_task(transport.close())
            await asyncio.sleep(0.1)
            await api.backend.store.write("/core/secrets/default/new", 0, lambda revision: b"{}")
            await ending
            assert (await reader.readuntil(b"\r\n")) == b"HTTP/1.1 200 OK\r\n"

    api.run(asyncio.wait_for(test(), SECONDS))


def test_the_end_does_not_wait_for_long(api: Api, tmp_path: Path) -> None:
    request = bytes_of(f"GET {MAPS}?resourceVersion=1000000 HTTP/1.1", "Authorization: Bearer secret")

    async def test() -> None:
        async with connected(api, tmp_path) as (transport, reader, writer):
            writer.write(request)
            while not any(each.task for each in transport.connections):
                await asyncio.sleep(0.01)
            tasks = [each.task for each in transport.connections if each.task]
            await transport.close()
            await asyncio.sleep(0)
            assert [task.cancelled() for task in tasks] == [True]
            assert await reader.read() == b""

    api.run(asyncio.wait_for(test(), SECONDS))


class Forgetful(Authenticator):
    """Knows a caller at each second request."""

    asked = 0

    def user_of(self, certificate: Mapping[str, Any] | None, authorization: str) -> User | None:
        """Who a caller is, if it is time."""
        self.asked += 1
        return super().user_of(certificate, authorization if self.asked % 2 else "Bearer wrong")


def test_an_answer_that_could_not_be_sent_is_not_given_to_another_request(api: Api, tmp_path: Path) -> None:
    async def test() -> None:
        async with connected(api, tmp_path, Forgetful) as (_, reader, writer):
            writer.write(bytes_of(f"GET {MAPS} HTTP/1.1", "Authorization: Bearer secret"))  # known, then forgotten
            assert (await reader.readuntil(b'Unauthorized","code":401}')).startswith(b"HTTP/1.1 401 ")
            writer.write(bytes_of("GET /version HTTP/1.1", "Authorization: Bearer secret"))
            assert b"gitVersion" in await reader.readuntil(b"}")

    api.run(asyncio.wait_for(test(), SECONDS))
