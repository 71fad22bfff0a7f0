"""Servers of all processes: clients that send half a request, or nothing, lock no one out."""

from __future__ import annotations

import asyncio
import datetime
import socket
import ssl
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import AsyncExitStack, suppress
from pathlib import Path

import aiohttp
import pytest
from aiohttp import web
from prometheus_client import CollectorRegistry
from prometheus_client.core import Metric

from kilauea import connections
from kilauea.connections import Bounded, Listening
from kilauea.pki import SERVER, Authority, pem, subject
from kilauea.runtime.cluster.server_loop import new_loop
from kilauea.telemetry.serving import MOST_CONNECTIONS, pages, serve_pages

LOOPS = [None] if new_loop is None else [None, new_loop]
HALF = b"GET /healthz HTTP/1.1\r\nHost: x\r\nX-"
HEALTH = b"GET /healthz HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"


async def asked(port: int, tls: ssl.SSLContext | None = None) -> bytes:
    """The first line of the answer to another client, which does not wait for long."""
    async with asyncio.timeout(5):
        reader, writer = await asyncio.open_connection("127.0.0.1", port, ssl=tls)
        writer.write(HEALTH)
        line = await reader.readline()
        writer.close()
        with suppress(OSError):
            await writer.wait_closed()
    return line


async def held(stack: AsyncExitStack, port: int, count: int, sent: bytes) -> None:
    """Hold connections on which nothing follows."""
    for _ in range(count):
        client = stack.enter_context(socket.create_connection(("127.0.0.1", port)))
        client.sendall(sent)
        await asyncio.sleep(0)
    await asyncio.sleep(0.1)


@pytest.mark.parametrize("sent", [b"", HALF])
def test_clients_that_send_half_a_request_do_not_lock_others_out_of_the_pages(sent: bytes) -> None:
    async def attack() -> tuple[bytes, int]:
        made = pages(str, CollectorRegistry(), dict)
        before = descriptors()
        async with serve_pages("127.0.0.1", 0, made) as port, AsyncExitStack() as stack:
            await held(stack, port, 3 * MOST_CONNECTIONS, sent)
            return await asked(port), descriptors() - before

    line, opened = asyncio.run(attack())
    assert line.startswith(b"HTTP/1.1 200")
    assert opened < 4.5 * MOST_CONNECTIONS  # 3 of the clients, which are in this process, and 1 of the server


def descriptors() -> int:
    folder = Path("/proc/self/fd")
    return len(list(folder.iterdir())) if folder.exists() else 0


def certified(folder: Path) -> tuple[ssl.SSLContext, ssl.SSLContext]:
    """TLS of a server and of its clients."""
    now = datetime.datetime.now(datetime.UTC)
    authority = Authority.create("one", now)
    issued = authority.issue(subject("server"), ["127.0.0.1"], SERVER, now)
    (folder / "pair").write_bytes(issued.key.rstrip() + b"\n" + issued.certificate)
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server.load_cert_chain(folder / "pair")
    return server, ssl.create_default_context(cadata=pem(authority.certificate).decode())


@pytest.mark.parametrize("loop", LOOPS)
@pytest.mark.parametrize("sent", [b"", b"\x16\x03\x01", b"GET / HTTP/1.1\r\n"])
def test_clients_that_do_not_finish_encrypting_lock_no_one_out(
    sent: bytes, loop: Callable[[], asyncio.AbstractEventLoop] | None, tmp_path: Path
) -> None:
    ours, theirs = certified(tmp_path)

    async def attack() -> tuple[list[bytes], int]:
        made, before = pages(str, CollectorRegistry(), dict), descriptors()
        async with Bounded(made, 8, 10.0, 0.1) as server, AsyncExitStack() as stack:
            port = await server.listen("127.0.0.1", 0, ours)
            lines = [await asked(port, theirs)]
            await held(stack, port, 60, sent)
            opened = descriptors() - before
            return [*lines, await asked(port, theirs)], opened

    with asyncio.Runner(loop_factory=loop) as runner:
        lines, opened = runner.run(attack())
    assert [line[:12] for line in lines] == [b"HTTP/1.1 200"] * 2
    assert opened < 60 + 30  # those of the clients, which are in this process, those of the server, the loop's


@pytest.mark.parametrize("loop", LOOPS)
def test_clients_that_come_at_once_wait_for_no_second_packet_and_are_accepted_in_turns(
    loop: Callable[[], asyncio.AbstractEventLoop] | None,
) -> None:
    came, clients = Counter[int](), 200

    async def rush() -> None:
        iteration = 0
        async with AsyncExitStack() as stack:
            (socket_of,) = await connections.listening_sockets("127.0.0.1", 0)

            def take_in(client: socket.socket) -> None:
                stack.callback(client.close)
                came[iteration] += 1

            listening = Listening([socket_of], take_in)
            stack.push_async_callback(listening.close)
            for _ in range(clients):  # the loop does not run meanwhile
                stack.enter_context(socket.create_connection(("127.0.0.1", listening.port), timeout=0.5))
            async with asyncio.timeout(5):
                while came.total() < clients:
                    iteration += 1
                    await asyncio.sleep(0)

    with asyncio.Runner(loop_factory=loop) as runner:
        runner.run(rush())
    assert max(came.values()) <= connections.ACCEPTED
    assert len(came) <= 2 * clients / connections.ACCEPTED, "a busy server has few iterations in a second"


def test_a_request_ends_when_its_time_is_over(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "SWEEP_SECONDS", 0.05)

    async def never(_request: web.Request) -> web.Response:
        await asyncio.Event().wait()
        raise AssertionError

    async def attack() -> bytes:
        made = web.Application()
        made.router.add_get("/healthz", never)
        async with Bounded(made, 8, 0.1, 0.1) as server:
            return await asked(await server.listen("127.0.0.1", 0))

    assert asyncio.run(attack()) == b""


def test_metrics_that_many_ask_for_are_made_once() -> None:
    class Slow:
        made = 0

        def collect(self) -> Iterator[Metric]:
            self.made += 1
            end = time.thread_time() + 0.1
            while time.thread_time() < end:
                pass
            yield Metric("volcano_x", "text", "gauge")

    slow, registry = Slow(), CollectorRegistry()

    async def ask() -> None:
        registry.register(slow)
        slow.made = 0
        async with serve_pages("127.0.0.1", 0, pages(str, registry, dict)) as port, aiohttp.ClientSession() as session:
            for _ in range(30):
                async with session.get(f"http://127.0.0.1:{port}/metrics") as answer:
                    assert "volcano_x" in await answer.text()

    start = time.monotonic()
    asyncio.run(ask())
    assert slow.made <= 1 + (time.monotonic() - start) / 0.9
