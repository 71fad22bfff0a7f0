"""Exec and attach by channels: messages of each protocol, and real processes behind them."""

from __future__ import annotations

import asyncio
import json
from base64 import b64encode
from collections.abc import Sequence
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kilauea.api.container_streams import Process
from kilauea.api.ports import ApiError
from kilauea.apiserver.streams.channels import CLOSE, COMMANDS, ERROR, RESIZE, STDIN, Message, pack, unpack
from kilauea.apiserver.streams.remote_command import Streams, serve_process
from support.sockets import MemorySocket
from support.subprocess_runtime import spawn

V1, V4, V5 = "channel.k8s.io", "v4.channel.k8s.io", "v5.channel.k8s.io"
ALL = Streams(stdin=True, stdout=True, stderr=True, tty=False)
TERMINAL = Streams(stdin=True, stdout=True, stderr=False, tty=True)


@given(st.sampled_from(COMMANDS), st.integers(0, 9), st.binary(max_size=100))
def test_messages_come_back(protocol: str, channel: int, data: bytes) -> None:
    packed = pack(protocol, Message(channel, data))
    content = packed.encode() if isinstance(packed, str) else packed
    assert unpack(protocol, content) == Message(channel, data)


@given(st.sampled_from(COMMANDS), st.binary(max_size=50))
def test_any_bytes_are_a_message_or_none(protocol: str, content: bytes) -> None:
    found = unpack(protocol, content)
    assert found is None or len(found.data) <= len(content)


def run(
    protocol: str, command: Sequence[str], *messages: bytes, streams: Streams = ALL, leave: bool = False
) -> tuple[dict[int, bytes], Process]:
    """All that a client is sent, by channel, and the process."""

    async def conversation() -> tuple[dict[int, bytes], Process]:
        socket, made = MemorySocket(protocol), await spawn(command, stdin=streams.stdin, tty=streams.tty)

        async def connect() -> Process:
            return made

        talk = asyncio.ensure_future(serve_process(socket, connect, streams))
        socket.put(*messages)
        if leave:
            await socket.take()
            socket.leave()
        sent: dict[int, bytes] = {}
        while not talk.done() or socket.has_more:
            content = await socket.next_or(talk)
            message = unpack(protocol, content) if content is not None else None
            if message is not None:
                sent[message.channel] = sent.get(message.channel, b"") + message.data
        await talk
        return sent, made

    return asyncio.run(asyncio.wait_for(conversation(), 60))


@pytest.mark.parametrize("protocol", COMMANDS)
def test_output_comes_by_channel_and_the_code_as_a_status(protocol: str) -> None:
    sent, _ = run(protocol, ["sh", "-c", "echo out; echo err >&2; exit 5"])
    assert (sent[1], sent[2]) == (b"out\n", b"err\n")
    if protocol.startswith(("v4", "v5")):
        told = json.loads(sent[ERROR])
        assert (told["status"], told["reason"]) == ("Failure", "NonZeroExitCode")
        assert told["details"]["causes"] == [{"reason": "ExitCode", "message": "5"}]
    else:
        assert sent[ERROR] == b"command terminated with non-zero exit code: exit status 5"


def test_who_is_attached_is_not_told_the_code_of_the_container() -> None:
    """Clients would take it for a failure to attach: kubectl then prints the log after what it has printed."""
    sent, _ = run(V5, ["sh", "-c", "echo out; exit 5"], streams=replace(ALL, has_code=False))
    assert (sent[1], json.loads(sent[ERROR])["status"]) == (b"out\n", "Success")


def test_success_is_told() -> None:
    assert json.loads(run(V5, ["true"])[0][ERROR]) == {"metadata": {}, "status": "Success"}
    assert ERROR not in run(V1, ["true"])[0]


def test_a_process_that_a_signal_ends_has_its_code() -> None:
    sent, _ = run(V5, ["sh", "-c", "kill -9 $$"])
    assert json.loads(sent[ERROR])["details"]["causes"][0]["message"] == "137"


def test_input_ends_when_the_client_closes_its_channel() -> None:
    sent, _ = run(V5, ["cat"], bytes((STDIN,)) + b"some ", bytes((STDIN,)) + b"input", bytes((CLOSE, STDIN)))
    assert sent[1] == b"some input"


def test_input_of_text_protocols_is_base64() -> None:
    sent, _ = run("v4.base64.channel.k8s.io", ["head", "-c", "4"], b"0" + b64encode(b"text"), b"0not base64!")
    assert sent[1] == b"text"


def test_a_terminal_has_the_size_that_the_client_tells() -> None:
    size = bytes((RESIZE,)) + json.dumps({"Width": 91, "Height": 17}).encode()
    nonsense = [bytes((RESIZE,)) + each for each in (b"", b"{", b"[]", b'{"Width":-1,"Height":"x"}', b"[" * 100_000)]
    sent, _ = run(
        V5, ["sh", "-c", "read line; stty size"], *nonsense, size, bytes((STDIN,)) + b"go\n", streams=TERMINAL
    )
    assert b"17 91" in sent[1]


def test_messages_for_no_channel_do_nothing() -> None:
    ignored = [b"", b"\x01output", b"\x03error", b"\x09what", bytes((CLOSE,)), bytes((CLOSE, 9)), bytes((CLOSE, 0, 0))]
    sent, _ = run(V5, ["cat"], *ignored, bytes((STDIN,)) + b"x", bytes((CLOSE, STDIN)))
    assert sent[1] == b"x"


def test_streams_that_are_not_asked_for_are_not_sent() -> None:
    sent, _ = run(V4, ["sh", "-c", "echo out; echo err >&2"], streams=Streams(False, False, True, False))
    assert (sent.get(1), sent[2]) == (None, b"err\n")


def test_a_command_ends_with_its_client() -> None:
    _, process = run(V5, ["sleep", "1000"], leave=True)
    assert asyncio.run(ended(process)) == 137


async def ended(process: Process) -> int:
    return await asyncio.wait_for(process.wait(), 60)


def test_a_command_that_cannot_be_started_is_told_as_an_error() -> None:
    async def connect() -> Process:
        raise ApiError(500, "InternalError", "error executing command in container: no such file")

    async def conversation() -> bytes:
        socket = MemorySocket(V5)
        await serve_process(socket, connect, ALL)
        await socket.take()
        return await socket.take()

    content = asyncio.run(conversation())
    told = json.loads(content[1:])
    assert (content[0], told["code"], told["reason"]) == (ERROR, 500, "InternalError")
    assert told["message"] == "Internal error occurred: error executing command in container: no such file"


def test_a_client_that_does_not_read_stops_the_process_and_not_the_server() -> None:
    async def conversation() -> None:
        socket, made = MemorySocket(V5), await spawn(["sh", "-c", "yes; true"], stdin=False, tty=False)

        async def connect() -> Process:
            return made

        talk = asyncio.ensure_future(serve_process(socket, connect, ALL))
        await socket.until_full()
        assert not talk.done()
        socket.leave()
        await asyncio.wait_for(talk, 60)

    asyncio.run(asyncio.wait_for(conversation(), 60))
