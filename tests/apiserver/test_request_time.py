"""The time of a whole request: every request ends, however slow its body, its work or its reader is."""

from __future__ import annotations

import asyncio
import datetime
import itertools
import json
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from typing import Any

import pytest

from kilauea import connections
from kilauea.apiserver import turns as turns_of_requests
from kilauea.apiserver.authentication import Authenticator
from kilauea.apiserver.core import ApiServer
from kilauea.apiserver.http import transport
from kilauea.apiserver.http.credentials import Credentials, load_credentials
from kilauea.apiserver.http.transport import Transport
from kilauea.apiserver.request import ApiRequest, ApiResponse, WatchStream
from support.api_core import ADMIN, MAPS, Api

PATIENCE = 60.0
LATE = "Timeout: request did not complete within the allotted timeout"
Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]


@pytest.fixture(scope="module")
def credentials(tmp_path_factory: pytest.TempPathFactory) -> Credentials:
    now = datetime.datetime.now(datetime.UTC)
    return load_credentials(tmp_path_factory.mktemp("credentials"), "127.0.0.1", now)


class Line:
    """A server that listens, and clients that write bytes to it."""

    def __init__(self, server: ApiServer, credentials: Credentials) -> None:
        self._credentials = credentials
        authenticator = Authenticator({credentials.token: ADMIN})
        self.transport = Transport(server, authenticator, credentials.server_context())
        self.port = 0
        self.opened: list[asyncio.StreamWriter] = []

    async def open(self) -> Streams:
        trust = ssl.create_default_context(cadata=self._credentials.ca.decode())
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port, ssl=trust, server_hostname="127.0.0.1")
        self.opened.append(writer)
        return reader, writer

    def head(self, method: str, path: str, size: int = 0) -> bytes:
        lines = [f"{method} {path} HTTP/1.1", "Host: x", f"Authorization: Bearer {self._credentials.token}"]
        return "\r\n".join([*lines, f"Content-Length: {size}", "", ""]).encode()


@asynccontextmanager
async def listening(server: ApiServer, credentials: Credentials) -> AsyncIterator[Line]:
    line = Line(server, credentials)
    line.port = await line.transport.listen("127.0.0.1", 0)
    try:
        yield line
    finally:
        for writer in line.opened:
            writer.transport.abort()
            with suppress(ConnectionError, ssl.SSLError):
                await writer.wait_closed()
        await line.transport.close()


def play(api: Api, credentials: Credentials, story: Callable[[Line], Awaitable[None]]) -> None:
    """Play a story with a server whose requests may take half a second."""

    async def run() -> None:
        async with listening(api.server, credentials) as line, asyncio.timeout(PATIENCE):
            await story(line)

    api.run(run())


@pytest.fixture
def short(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transport, "REQUEST_SECONDS", 0.5)
    monkeypatch.setattr(transport, "LINGER_SECONDS", 0.2)
    monkeypatch.setattr(connections, "SWEEP_SECONDS", 0.1)


async def answer_of(reader: asyncio.StreamReader) -> tuple[int, dict[str, str], Any]:
    """Code, headers and body of an answer."""
    lines = (await reader.readuntil(b"\r\n\r\n")).decode().splitlines()
    headers = {key.lower(): value for key, _, value in (line.partition(": ") for line in lines[1:] if line)}
    body = await reader.readexactly(int(headers.get("content-length", "0")))
    return int(lines[0].split()[1]), headers, json.loads(body)


@pytest.mark.usefixtures("short")
def test_a_body_that_comes_byte_by_byte_ends_in_a_timeout_and_the_connection_is_closed(
    api: Api, credentials: Credentials
) -> None:
    async def story(line: Line) -> None:
        reader, writer = await line.open()
        writer.write(line.head("POST", MAPS, 100_000))

        async def trickle() -> None:
            while True:
                writer.write(b" ")
                await asyncio.sleep(0.05)

        trickling = asyncio.create_task(trickle())
        code, headers, status = await answer_of(reader)
        assert (code, status["code"], status["reason"], status["message"]) == (504, 504, "Timeout", LATE)
        assert headers["connection"] == "close"
        assert await reader.read() == b""
        trickling.cancel()

    play(api, credentials, story)


@pytest.mark.usefixtures("short")
def test_work_that_takes_too_long_ends_in_a_timeout_and_others_are_served(
    api: Api, credentials: Credentials, monkeypatch: pytest.MonkeyPatch
) -> None:
    at_work = ApiServer.handle
    ended: list[str] = []

    async def slow(server: ApiServer, request: ApiRequest) -> Any:
        if request.path.endswith("/slow"):
            try:
                await asyncio.sleep(PATIENCE * 2)
            finally:
                ended.append(request.path)
        return await at_work(server, request)

    monkeypatch.setattr(ApiServer, "handle", slow)

    async def story(line: Line) -> None:
        reader, writer = await line.open()
        writer.write(line.head("GET", f"{MAPS}/slow"))
        assert (await answer_of(reader))[0] == 504
        assert ended == [f"{MAPS}/slow"]
        again, more = await line.open()
        more.write(line.head("GET", "/version"))
        assert (await answer_of(again))[0] == 200

    play(api, credentials, story)


@pytest.mark.slow
def test_a_request_may_ask_for_less_time_but_not_for_more(
    api: Api, credentials: Credentials, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connections, "SWEEP_SECONDS", 0.1)

    async def story(line: Line) -> None:
        reader, writer = await line.open()
        writer.write(line.head("POST", f"{MAPS}?timeout=200ms", 100_000))
        assert (await answer_of(reader))[0] == 504
        monkeypatch.setattr(transport, "REQUEST_SECONDS", 0.5)
        for asked in ("1h", "0", "-1s", "1h&timeout=2h"):
            reader, writer = await line.open()
            writer.write(line.head("POST", f"{MAPS}?timeout={asked}", 100_000))
            assert (await answer_of(reader))[0] == 504, asked

    play(api, credentials, story)


@pytest.mark.usefixtures("short")
def test_an_answer_that_is_read_too_slowly_is_cut_off(
    api: Api, credentials: Credentials, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def endless(server: ApiServer, request: ApiRequest) -> ApiResponse:
        return ApiResponse(200, (b"x" * 65_536 for _ in range(1_000_000)))

    monkeypatch.setattr(ApiServer, "handle", endless)

    async def story(line: Line) -> None:
        reader, writer = await line.open()
        writer.write(line.head("GET", MAPS))
        with pytest.raises((asyncio.IncompleteReadError, ConnectionError)):
            await reader.readexactly(65_536 * 1_000_000)

    play(api, credentials, story)


@pytest.mark.usefixtures("short")
def test_a_watch_lasts_longer_than_any_other_request(api: Api, credentials: Credentials) -> None:
    async def story(line: Line) -> None:
        reader, writer = await line.open()
        writer.write(line.head("GET", f"{MAPS}?watch=1&timeout=200ms"))
        await reader.readuntil(b"\r\n\r\n")
        late, more = await line.open()  # ends later than the watch would
        more.write(line.head("POST", MAPS, 100_000))
        assert (await answer_of(late))[0] == 504
        made, third = await line.open()
        body = b'{"metadata":{"name":"a"}}'
        third.write(line.head("POST", MAPS, len(body)) + body)
        assert (await answer_of(made))[0] == 201
        seen = await reader.readuntil(b"\n")
        while b'"ADDED"' not in seen:
            seen = await reader.readuntil(b"\n")

    play(api, credentials, story)


@pytest.mark.usefixtures("short")
def test_what_took_too_long_is_counted_as_such(
    api: Api, credentials: Credentials, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def slow(server: ApiServer, request: ApiRequest) -> WatchStream:
        await asyncio.sleep(PATIENCE * 2)
        raise AssertionError

    monkeypatch.setattr(ApiServer, "_answer", slow)

    async def story(line: Line) -> None:
        reader, writer = await line.open()
        writer.write(line.head("GET", MAPS))
        assert (await answer_of(reader))[0] == 504

    play(api, credentials, story)
    samples = [each for metric in api.server.metrics.registry.collect() for each in metric.samples]
    counts = {each.labels["code"]: each.value for each in samples if each.name == "apiserver_request_total"}
    assert counts["504"] == 1


@pytest.mark.parametrize(("seconds", "most_turns", "least_turns"), [(0.0, 4, 0), (1.0, 100, 10)])
def test_others_have_their_turn_for_the_time_that_a_large_answer_takes_not_for_its_parts(
    api: Api, credentials: Credentials, monkeypatch: pytest.MonkeyPatch,
    seconds: float, most_turns: int, least_turns: int,
) -> None:  # fmt: skip
    for number in range(80):
        api.create_map(f"m{number}", text="x" * 50_000)
    times, turns, sleep = itertools.count(), [0], asyncio.sleep

    async def counted(delay: float) -> None:
        turns[0] += delay == 0
        await sleep(delay)

    async def story(line: Line) -> None:
        reader, writer = await line.open()
        monkeypatch.setattr(turns_of_requests, "thread_time", lambda: next(times) * seconds)
        monkeypatch.setattr(asyncio, "sleep", counted)
        writer.write(line.head("GET", MAPS))
        found = b""
        while not found.endswith(b"0\r\n\r\n"):
            found += await reader.read(1 << 20)
        monkeypatch.setattr(asyncio, "sleep", sleep)
        assert len(found) > 4_000_000

    play(api, credentials, story)
    assert least_turns <= turns[0] <= most_turns


@pytest.mark.slow
@pytest.mark.parametrize("query", ["", "?watch=true"])
def test_a_client_that_reads_nothing_is_disconnected(
    api: Api, credentials: Credentials, monkeypatch: pytest.MonkeyPatch, query: str
) -> None:
    for number in range(30):
        api.create_map(f"m{number}", text="x" * 1_000_000)
    monkeypatch.setattr(transport, "PATIENCE", 0.5)

    async def story(line: Line) -> None:
        reader, writer = await line.open()
        writer.write(line.head("GET", f"{MAPS}{query}"))
        await asyncio.sleep(1.5)  # the reader takes some of it, and then no more
        size = 0
        with suppress(ConnectionError, asyncio.IncompleteReadError):
            while part := await reader.read(1 << 20):
                size += len(part)
        assert 0 < size < 30_000_000

    play(api, credentials, story)


@pytest.mark.slow
def test_a_client_that_reads_slowly_gets_everything(
    api: Api, credentials: Credentials, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(12):
        api.create_map(f"m{number}", text="x" * 500_000)
    monkeypatch.setattr(transport, "PATIENCE", 1.0)

    async def story(line: Line) -> None:
        reader, writer = await line.open()
        writer.write(line.head("GET", MAPS))
        found = b""
        while not found.endswith(b"0\r\n\r\n"):
            found += await reader.read(1 << 20)
            await asyncio.sleep(0.1)

    play(api, credentials, story)
