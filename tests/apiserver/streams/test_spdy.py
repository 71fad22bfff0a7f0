"""SPDY/3.1, as kubectl tunnels it: frames in any pieces, streams, and whatever is not SPDY."""

from __future__ import annotations

import asyncio
import struct
import zlib
from collections.abc import Callable, Coroutine, Mapping
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kilauea.apiserver.streams.spdy import frames
from kilauea.apiserver.streams.spdy.connection import (
    MOST_KEPT,
    MOST_KEPT_OF_ALL,
    MOST_STREAMS,
    SpdyConnection,
    SpdyStream,
)
from kilauea.apiserver.streams.spdy.dictionary import DICTIONARY
from kilauea.apiserver.streams.spdy.frames import Control, Data, FrameReader, FrameWriter, Opened, SpdyError
from support.sockets import MemorySocket

TEXTS = st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=30)
HEADERS = st.dictionaries(TEXTS.map(str.lower), TEXTS, max_size=5)
FRAMES = st.one_of(
    st.builds(Data, st.integers(1, 2**31 - 1), st.binary(max_size=300), st.booleans()),
    st.builds(Opened, st.integers(1, 2**31 - 1), HEADERS, st.booleans()),
    st.builds(lambda n: Control(frames.PING, (n,)), st.integers(0, 2**32 - 1)),
    st.builds(lambda s, r: Control(frames.RST_STREAM, (s, r)), st.integers(1, 2**31 - 1), st.integers(1, 11)),
    st.builds(lambda s: Control(frames.GOAWAY, (s, 0)), st.integers(0, 2**31 - 1)),
)


def written(writer: FrameWriter, frame: frames.Frame) -> bytes:
    """A frame as bytes."""
    if isinstance(frame, Data):
        return writer.data(frame.stream, frame.data, fin=frame.fin)
    if isinstance(frame, Opened):
        return writer.opened(frame.stream, frame.headers, fin=frame.fin)
    if frame.kind == frames.PING:
        return writer.ping(frame.numbers[0])
    return writer.reset(*frame.numbers) if frame.kind == frames.RST_STREAM else writer.go_away(frame.numbers[0])


def joined(found: list[frames.Frame]) -> list[frames.Frame]:
    """Frames, with parts of one data frame put together."""
    out: list[frames.Frame] = []
    for frame in found:
        last = out[-1] if out else None
        if isinstance(frame, Data) and isinstance(last, Data) and last.stream == frame.stream and not last.fin:
            out[-1] = Data(frame.stream, last.data + frame.data, frame.fin)
        else:
            out.append(frame)
    return out


@given(st.lists(FRAMES, max_size=8), st.integers(1, 50))
def test_frames_come_back_in_whatever_pieces(sent: list[frames.Frame], size: int) -> None:
    writer, reader = FrameWriter(), FrameReader()
    content = b"".join(written(writer, each) for each in sent)
    found = [frame for at in range(0, len(content), size) for frame in reader.feed(content[at : at + size])]
    lowered = [
        Opened(each.stream, {key.lower(): value for key, value in each.headers.items()}, each.fin)
        if isinstance(each, Opened)
        else each
        for each in sent
    ]
    assert joined(found) == joined(lowered)


@given(st.lists(st.binary(max_size=200), max_size=5))
def test_nonsense_is_an_error_or_nothing(pieces: list[bytes]) -> None:
    reader = FrameReader()
    with suppress(SpdyError):
        for piece in pieces:
            list(reader.feed(piece))


def test_the_dictionary_is_that_of_the_protocol() -> None:
    assert (len(DICTIONARY), zlib.adler32(DICTIONARY)) == (1423, 0xE3C6A7C2)


def control(kind: int, body: bytes, version: int = 3) -> bytes:
    return struct.pack(">II", 0x80000000 | version << 16 | kind, len(body)) + body


def block(content: bytes) -> bytes:
    """A header block."""
    packer = zlib.compressobj(zdict=DICTIONARY)
    return packer.compress(content) + packer.flush(zlib.Z_SYNC_FLUSH)


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (control(frames.PING, bytes(4), version=2), "version 2"),
        (control(frames.PING, bytes(8)), "kind 6 with 8 bytes"),
        (struct.pack(">II", 0x80030004, 0xFFFFFF), "16777215 bytes"),
        (control(frames.SYN_STREAM, bytes(3)), "3 bytes"),
        (control(frames.SYN_STREAM, bytes(10)), "stream 0"),
        (struct.pack(">II", 0, 1) + b"x", "stream 0"),
        (control(frames.SYN_STREAM, bytes((0, 0, 0, 1)) + bytes(6) + b"not zlib"), "headers"),
        (control(frames.SYN_STREAM, bytes((0, 0, 0, 1)) + bytes(6) + block(bytes(1 << 20))), "more than"),
        (control(frames.SYN_STREAM, bytes((0, 0, 0, 1)) + bytes(6) + block(b"\0\0\xff\xff")), "65535 headers"),
        (control(frames.SYN_STREAM, bytes((0, 0, 0, 1)) + bytes(6) + block(b"\0\0\0\1\0\0\0\5ab")), "too early"),
    ],
)
def test_what_is_not_spdy_is_told(content: bytes, said: str) -> None:
    with pytest.raises(SpdyError, match=said):
        list(FrameReader().feed(content))


Story = Callable[["Client"], Coroutine[Any, Any, None]]


class Client:
    """The side of kubectl."""

    def __init__(self) -> None:
        self.socket = MemorySocket()
        self.accepted: list[SpdyStream] = []
        self.headers: Mapping[str, str] = {}
        self.refuses = False
        self.writer = FrameWriter()
        self._reader = FrameReader()
        self._frames: list[frames.Frame] = []
        self.connection = SpdyConnection(self.socket, self._accept)

    def _accept(self, stream: SpdyStream, headers: Mapping[str, str]) -> bool:
        self.headers = headers
        if not self.refuses:
            self.accepted.append(stream)
        return not self.refuses

    def open(self, number: int, **headers: str) -> None:
        self.socket.put(self.writer.opened(number, headers))

    async def take(self) -> frames.Frame:
        while not self._frames:
            self._frames += self._reader.feed(await self.socket.take())
        return self._frames.pop(0)


def play(story: Story) -> None:
    """A client that talks to a connection, and leaves."""

    async def both() -> None:
        client = Client()
        running = asyncio.ensure_future(client.connection.run())
        await asyncio.wait_for(story(client), 60)
        client.socket.leave()
        await asyncio.wait_for(running, 60)

    asyncio.run(both())


def test_a_stream_is_accepted_and_carries_data_both_ways() -> None:
    async def story(client: Client) -> None:
        client.open(1, streamType="data")
        assert await client.take() == Control(frames.SYN_REPLY)
        (stream,) = client.accepted
        assert client.headers == {"streamtype": "data"}
        client.socket.put(client.writer.data(1, b"hello"), client.writer.data(1, b"", fin=True))
        assert (await stream.read(), await stream.read()) == (b"hello", b"")
        await stream.write(b"x" * 100_000)
        await stream.end()
        found = b""
        while not (frame := await client.take()).fin:  # type: ignore[union-attr]
            assert isinstance(frame, Data)
            found += frame.data
        assert found == b"x" * 100_000
        assert not client.connection.streams

    play(story)


def test_pings_of_the_client_are_answered() -> None:
    async def story(client: Client) -> None:
        client.socket.put(client.writer.ping(2), client.writer.ping(7))
        assert await client.take() == Control(frames.PING, (7,))

    play(story)


def test_streams_are_refused_or_reset_alone() -> None:
    async def story(client: Client) -> None:
        client.open(2)
        assert await client.take() == Control(frames.RST_STREAM, (2, frames.PROTOCOL_ERROR))
        client.open(3)
        client.open(3)
        assert await client.take() == Control(frames.SYN_REPLY)
        assert await client.take() == Control(frames.RST_STREAM, (3, frames.PROTOCOL_ERROR))
        client.refuses = True
        client.open(5)
        assert await client.take() == Control(frames.RST_STREAM, (5, frames.REFUSED_STREAM))
        client.socket.put(client.writer.data(99, b"for no stream"), client.writer.reset(3, frames.CANCEL))
        (stream,) = client.accepted
        assert await stream.read() == b""
        await stream.write(b"dropped")
        client.socket.put(client.writer.ping(1))
        assert await client.take() == Control(frames.PING, (1,))

    play(story)


def test_there_are_only_so_many_streams() -> None:
    async def story(client: Client) -> None:
        for number in range(MOST_STREAMS):
            client.open(2 * number + 1)
            assert await client.take() == Control(frames.SYN_REPLY)
        client.open(2 * MOST_STREAMS + 1)
        assert await client.take() == Control(frames.RST_STREAM, (2 * MOST_STREAMS + 1, frames.REFUSED_STREAM))
        assert len(client.connection.streams) == MOST_STREAMS

    play(story)


def test_a_stream_that_is_not_read_holds_the_client_up_and_not_the_server() -> None:
    async def story(client: Client) -> None:
        client.open(1)
        await client.take()
        (stream,) = client.accepted
        part = bytes(32 * 1024)
        for _ in range(3 * MOST_KEPT // len(part)):
            client.socket.put(client.writer.data(1, part))
        client.socket.put(client.writer.ping(1))
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.05):
                await client.take()
        read = 0
        while read < 3 * MOST_KEPT:
            read += len(await stream.read())
        assert await client.take() == Control(frames.PING, (1,))

    play(story)


def test_a_client_that_talks_nonsense_is_left() -> None:
    async def story(client: Client) -> None:
        client.open(1)
        await client.take()
        client.socket.put(b"\xff" * 20)
        assert await client.take() == Control(frames.GOAWAY, (1, 0))
        (stream,) = client.accepted
        assert await stream.read() == b""

    play(story)


def test_streams_that_are_not_read_keep_little_together() -> None:
    async def story(client: Client) -> None:
        part = bytes(MOST_KEPT // 2)
        count = 2 * MOST_KEPT_OF_ALL // len(part)
        for number in range(count):
            client.open(2 * number + 1)
            client.socket.put(client.writer.data(2 * number + 1, part))
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.05):
                await until_accepted(client, count)
        assert len(client.accepted) * len(part) <= MOST_KEPT_OF_ALL + len(part)
        client.socket.put(client.writer.reset(1, frames.CANCEL))
        read = 0
        for number in range(count):
            await until_accepted(client, number + 1)
            read += len(await client.accepted[number].read())
        assert read == count * len(part)

    play(story)


async def until_accepted(client: Client, count: int) -> None:
    """Wait for so many streams, and take what the server says meanwhile."""
    while len(client.accepted) < count:
        if client.socket.has_more:
            await client.socket.take()
        await asyncio.sleep(0)


def test_others_have_their_turn_while_many_small_frames_are_taken() -> None:
    async def story(client: Client) -> None:
        turns = 0
        client.socket.put(client.writer.data(1, b"") * 10_000 + client.writer.ping(1))
        while not client.socket.has_more:
            turns += 1
            await asyncio.sleep(0)
        assert turns >= 50

    play(story)
