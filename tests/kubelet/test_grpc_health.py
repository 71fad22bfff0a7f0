"""Probes by gRPC, at a server that gives the bytes with which grpcio 1.x answers."""

from __future__ import annotations

import asyncio
import struct

import pytest

from kilauea.kubelet.handlers import Result, Target, handle
from support.scripted_runtime import ScriptedRuntime
from support.virtual_time import LoopClock

BEGIN = (
    "000018040000000000000400400000000500400000000600004000fe0300000001000004080000000000003f0001000000040100000000"
    "00000408000000000000000005000008060000000000{ping}"
)
HEAD = (
    "00004e01040000000188400c636f6e74656e742d74797065106170706c69636174696f6e2f677270634014677270632d6163636570742d65"
    "6e636f64696e67176964656e746974792c206465666c6174652c20677a6970"
)
DATA, TRAILERS = (
    "0000070000000000010000000002080{status}",
    ("00001e010500000001400b677270632d7374617475730130000c677270632d6d65737361676500"),
)
NO_METHOD = (
    "00005001050000000188400c636f6e74656e742d74797065106170706c69636174696f6e2f67727063400b677270632d7374617475730231"
    "32000c677270632d6d657373616765114d6574686f64206e6f7420666f756e6421"
)
PING = "6e20b5eab0200a67"


def answer(*parts: str) -> bytes:
    return bytes.fromhex("".join((BEGIN.format(ping=PING), *parts)))


class Server:
    """Answers each call with the same bytes, and keeps what it was sent."""

    def __init__(self, reply: bytes) -> None:
        self._reply = reply
        self.calls: list[tuple[int, int, bytes]] = []
        self.answered_ping = asyncio.Event()

    async def talk(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        assert await reader.readexactly(24) == b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
        ended = False
        while not ended:
            kind, flags, content = await self._frame(reader)
            self.calls.append((kind, flags, content))
            ended = kind == 0 and bool(flags & 1)
        writer.write(self._reply)
        try:
            while True:
                kind, flags, content = await self._frame(reader)
                if (kind, flags, content) == (6, 1, bytes.fromhex(PING)):
                    self.answered_ping.set()
        except asyncio.IncompleteReadError:
            writer.close()

    async def _frame(self, reader: asyncio.StreamReader) -> tuple[int, int, bytes]:
        head = await reader.readexactly(9)
        return head[3], head[4], await reader.readexactly(int.from_bytes(head[:3]))


def probe(reply: bytes, service: str = "") -> tuple[Result, Server]:
    """The result of a probe at a server, and what that has seen."""

    async def story() -> tuple[Result, Server]:
        server = Server(reply)
        async with await asyncio.start_server(server.talk, "127.0.0.1", 0) as listening:
            port = listening.sockets[0].getsockname()[1]
            target = Target(ScriptedRuntime(LoopClock(asyncio.get_running_loop())), "id", {"name": "c"}, "127.0.0.1")
            result = await handle({"grpc": {"port": port, "service": service}}, target, 60)
            if reply:
                await asyncio.wait_for(server.answered_ping.wait(), 60)
        return result, server

    return asyncio.run(story())


@pytest.mark.parametrize(
    ("reply", "verdict", "said"),
    [
        (answer(HEAD, DATA.format(status=1), TRAILERS), "success", "service healthy"),
        (answer(HEAD, DATA.format(status=2), TRAILERS), "failure", 'service unhealthy (responded with "NOT_SERVING")'),
        (answer(NO_METHOD), "failure", "error: health rpc failed: the server does not implement the health protocol"),
    ],
    ids=["serving", "not serving", "no such method"],
)
def test_a_probe_has_the_verdict_of_the_server(reply: bytes, verdict: str, said: str) -> None:
    result, _ = probe(reply)
    assert (result.verdict, result.output[: len(said)]) == (verdict, said)


@pytest.mark.parametrize("service", ["", "db", "x" * 300])
def test_the_call_names_method_and_service(service: str) -> None:
    _, server = probe(answer(HEAD, DATA.format(status=1), TRAILERS), service)
    (settings, headers, data) = server.calls
    assert settings == (4, 0, b"")
    assert (headers[0], headers[1]) == (1, 4)
    assert b"\x05:path\x1c/grpc.health.v1.Health/Check" in headers[2]
    name = service.encode()
    size = bytes((len(name),)) if len(name) < 128 else bytes((len(name) & 127 | 128, len(name) >> 7))
    message = b"\x0a" + size + name if name else b""
    assert data == (0, 1, struct.pack(">BI", 0, len(message)) + message)


def test_a_port_at_which_nothing_listens_is_said_as_go_says_it() -> None:
    async def story() -> Result:
        target = Target(ScriptedRuntime(LoopClock(asyncio.get_running_loop())), "id", {"name": "c"}, "127.0.0.1")
        return await handle({"grpc": {"port": 1}}, target, 60)

    refused = 'timeout: failed to connect service "127.0.0.1:1": dial tcp 127.0.0.1:1: connect: connection refused'
    assert asyncio.run(story()) == Result("failure", refused)
