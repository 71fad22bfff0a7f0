"""Requests over connections to containers, and what can be wrong with the answers."""

from __future__ import annotations

import asyncio

import pytest

from kilauea.apiserver.streams.http_exchange import CHUNKS_AT_ONCE, Answer, ExchangeError, exchange


class Scripted:
    """A connection that brings an answer piece by piece, and keeps what it is sent."""

    def __init__(self, answer: bytes, size: int) -> None:
        self._parts = [answer[place : place + size] for place in range(0, len(answer), size)]
        self.sent = b""
        self.closed = False

    async def read(self) -> bytes:
        return self._parts.pop(0) if self._parts else b""

    async def write(self, data: bytes) -> None:
        self.sent += data

    async def end_input(self) -> None:
        raise NotImplementedError

    async def close(self) -> None:
        self.closed = True


def ask(
    answer: bytes, size: int = 1000, *, method: str = "GET", target: str = "/", body: bytes = b""
) -> tuple[int, bytes, Scripted]:
    """Status and body of an answer."""
    connection = Scripted(answer, size)

    async def story() -> tuple[int, bytes]:
        found = await exchange(connection, method, target, [("host", "a:80")], body)
        assert isinstance(found, Answer)
        return found.status, b"".join([part async for part in found.body])

    return (*asyncio.run(story()), connection)


@pytest.mark.parametrize("size", [1, 7, 1000])
@pytest.mark.parametrize(
    ("answer", "status", "body"),
    [
        (b"HTTP/1.0 200 OK\r\n\r\nall of it", 200, b"all of it"),
        (b"HTTP/1.1 201 Created\r\nContent-Length: 3\r\n\r\nabcdef", 201, b"abc"),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n2;x=y\r\nde\r\n0\r\n\r\n", 200, b"abcde"),
        (b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 404 Not Found\n\nnone", 404, b"none"),
        (b"HTTP/1.1 204 No Content\r\nContent-Length: 3\r\n\r\n", 204, b""),
    ],
    ids=["to the end", "by its length", "in chunks", "after a first answer", "without content"],
)
def test_an_answer_is_read_however_it_is_cut(answer: bytes, status: int, body: bytes, size: int) -> None:
    found = ask(answer, size)
    assert found[:2] == (status, body)
    assert found[2].closed


@pytest.mark.parametrize(("size", "most"), [(10_000_000, 10), (1000, 2000)])
def test_small_chunks_are_joined_as_far_as_they_have_been_read(size: int, most: int) -> None:
    count = 50_000
    chunks = b"".join(b"1\r\n%c\r\n" % (97 + number % 26) for number in range(count))
    connection = Scripted(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + chunks + b"0\r\n\r\n", size)

    async def story() -> list[bytes]:
        found = await exchange(connection, "GET", "/", [], b"")
        assert isinstance(found, Answer)
        return [part async for part in found.body]

    parts = asyncio.run(story())
    assert b"".join(parts) == bytes(97 + number % 26 for number in range(count))
    assert len(parts) <= most


def test_a_chunk_does_not_wait_for_the_next_one() -> None:
    class Slow(Scripted):
        async def read(self) -> bytes:
            part = await super().read()
            if not part:
                await asyncio.Event().wait()
            return part

    connection = Slow(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n3\r\n", 1000)

    async def story() -> bytes:
        found = await exchange(connection, "GET", "/", [], b"")
        assert isinstance(found, Answer)
        async with asyncio.timeout(5):
            return await anext(found.body)

    assert asyncio.run(story()) == b"abc"


def test_a_request_has_its_headers_and_its_body() -> None:
    _, _, connection = ask(b"HTTP/1.1 200 OK\r\n\r\n", method="POST", target="/x?y=1", body=b"data")
    head, _, body = connection.sent.partition(b"\r\n\r\n")
    assert head.split(b"\r\n") == [b"POST /x?y=1 HTTP/1.1", b"host: a:80", b"Content-Length: 4", b"Connection: close"]
    assert body == b"data"


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (b"", "EOF"),
        (b"SSH-2.0-OpenSSH\r\n\r\n", "malformed HTTP response"),
        (b"HTTP/1.1 200 OK\r\nno colon\r\n\r\n", "malformed HTTP response"),
        (b"HTTP/1.1 200 OK\r\nx: " + b"y" * 100_000, "the head of the answer is too long"),
        (b"HTTP/1.1 000 OK\r\n\r\n", "malformed HTTP response"),
        (b"HTTP/1.1 099 OK\r\n\r\n", "malformed HTTP response"),
        (b"HTTP/1.1 200 OK\r\nx: a\rSet-Cookie: b\r\n\r\n", "malformed HTTP response"),
        (b"HTTP/1.1 200 OK\r\nx: a\0b\r\n\r\n", "malformed HTTP response"),
        (b"HTTP/1.1 200 OK\r\nx y: a\r\n\r\n", "malformed HTTP response"),
        (b"HTTP/1.1 200 OK\r\n: a\r\n\r\n", "malformed HTTP response"),
        (b"HTTP/1.1 100 Continue\r\n\r\n" * 100 + b"HTTP/1.1 200 OK\r\n\r\n", "too many 1xx informational responses"),
    ],
)
def test_what_is_no_answer_is_said(answer: bytes, said: str) -> None:
    with pytest.raises(ExchangeError, match=said):
        ask(answer)


@pytest.mark.parametrize(
    "answer",
    [
        b"HTTP/1.1 200 OK\r\nContent-Length: 30\r\n\r\nabc",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n-1\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nffffffffffffffffff\r\n",
    ],
)
def test_a_body_that_is_not_whole_ends_with_an_error(answer: bytes) -> None:
    with pytest.raises(ConnectionResetError):
        ask(answer)


def test_a_target_with_a_line_break_is_refused() -> None:
    connection = Scripted(b"HTTP/1.1 200 OK\r\n\r\n", 1000)
    with pytest.raises(ExchangeError, match="line break"):
        asyncio.run(exchange(connection, "GET", "/ HTTP/1.1\r\nX: y", [], b""))
    assert (connection.sent, connection.closed) == (b"", True)


def test_an_answer_that_is_not_read_ends_its_connection() -> None:
    connection = Scripted(b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nabc", 1000)

    async def story() -> None:
        found = await exchange(connection, "HEAD", "/", [], b"")
        assert isinstance(found, Answer)
        await found.body.aclose()

    asyncio.run(story())
    assert connection.closed


def test_many_small_chunks_let_others_have_their_turn() -> None:
    count = 5000
    answer = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + b"1\r\na\r\n" * count + b"0\r\n\r\n"
    turns = 0

    async def other() -> None:
        nonlocal turns
        while True:
            await asyncio.sleep(0)
            turns += 1

    async def story() -> bytes:
        task = asyncio.ensure_future(other())
        found = await exchange(Scripted(answer, len(answer)), "GET", "/", [], b"")
        assert isinstance(found, Answer)
        body = b"".join([part async for part in found.body])
        task.cancel()
        return body

    assert asyncio.run(story()) == b"a" * count
    assert turns >= count // CHUNKS_AT_ONCE - 1
