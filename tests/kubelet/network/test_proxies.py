"""Proxies of services, over real connections of this machine."""

from __future__ import annotations

import asyncio
import errno
import logging
import socket
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from contextlib import asynccontextmanager, suppress
from functools import partial
from typing import Any

import pytest

from kilauea.kubelet.network.proxies import Proxies
from kilauea.kubelet.network.routes import Listen, Route
from kilauea.runtime.clock import SystemClock

HOST = "127.0.0.1"
SECONDS = 30
Handler = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


def free_port(kind: int = socket.SOCK_STREAM) -> int:
    """A port that nothing uses."""
    with socket.socket(socket.AF_INET, kind) as probe:
        probe.bind((HOST, 0))
        return int(probe.getsockname()[1])


def run(work: Coroutine[Any, Any, None]) -> None:
    """Run a test, which does not hang."""
    asyncio.run(asyncio.wait_for(work, SECONDS))


@asynccontextmanager
async def proxies() -> AsyncIterator[Proxies]:
    """Proxies that end with the block."""
    found = Proxies(SystemClock())
    try:
        yield found
    finally:
        await found.close()


@asynccontextmanager
async def server(handler: Handler) -> AsyncIterator[tuple[str, int]]:
    """A server at a free port."""
    found = await asyncio.start_server(handler, HOST, 0)
    try:
        yield HOST, found.sockets[0].getsockname()[1]
    finally:
        found.close()


def _failed(found: Proxies) -> bool:
    return found.retry > 0


def says(word: bytes) -> Handler:
    """A server that says a word and what it was told up to the end."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        told = await reader.read()
        writer.write(word + told)
        await writer.drain()
        writer.close()

    return answer


async def ask(port: int, text: bytes = b"", host: str = HOST) -> bytes:
    """Say something, end, and return what comes back."""
    reader, writer = await asyncio.open_connection(host, port)
    writer.write(text)
    writer.write_eof()
    answer = await reader.read()
    writer.close()
    return answer


def test_connections_reach_the_endpoints_in_turn_and_the_end_of_input_is_passed_on() -> None:
    async def main() -> None:
        async with proxies() as found, server(says(b"one ")) as one, server(says(b"two ")) as two:
            listen = Listen(HOST, free_port(), "TCP")
            await found.follow({listen: Route("default/web", (one, two))})
            answers = [await ask(listen.port, b"hello") for _ in range(4)]
            assert sorted(answers) == [b"one hello"] * 2 + [b"two hello"] * 2

    run(main())


def test_an_endpoint_that_refuses_is_passed_over() -> None:
    async def main() -> None:
        async with proxies() as found, server(says(b"two")) as two:
            listen = Listen(HOST, free_port(), "TCP")
            await found.follow({listen: Route("default/web", ((HOST, free_port()), two))})
            assert [await ask(listen.port) for _ in range(3)] == [b"two"] * 3

    run(main())


def test_a_client_sees_a_reset_if_no_endpoint_answers_and_a_refusal_if_there_is_none() -> None:
    async def main() -> None:
        async with proxies() as found:
            listen = Listen(HOST, free_port(), "TCP")
            await found.follow({listen: Route("default/web", ((HOST, free_port()),))})
            with pytest.raises(ConnectionResetError):
                await ask(listen.port)
            await found.follow({})
            with pytest.raises(ConnectionRefusedError):
                await ask(listen.port)

    run(main())


def test_much_data_passes_both_ways_at_once() -> None:
    size = 20_000_000

    async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while data := await reader.read(65536):
            writer.write(data)
            await writer.drain()
        writer.close()

    async def main() -> None:
        async with proxies() as found, server(echo) as target:
            listen = Listen(HOST, free_port(), "TCP")
            await found.follow({listen: Route("default/web", (target,))})
            reader, writer = await asyncio.open_connection(HOST, listen.port)

            async def send() -> None:
                for _ in range(size // 100_000):
                    writer.write(b"x" * 100_000)
                    await writer.drain()
                writer.write_eof()

            sending, received = asyncio.create_task(send()), 0
            while data := await reader.read(1 << 20):
                received += len(data)
            await sending
            writer.close()
            assert received == size

    run(main())


def test_a_connection_that_the_endpoint_breaks_ends_for_the_client_too() -> None:
    async def hang_up(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(1)
        writer.transport.abort()

    async def main() -> None:
        async with proxies() as found, server(hang_up) as target:
            listen = Listen(HOST, free_port(), "TCP")
            await found.follow({listen: Route("default/web", (target,))})
            reader, writer = await asyncio.open_connection(HOST, listen.port)
            writer.write(b"hello")
            with suppress(ConnectionResetError):
                assert await reader.read() == b""
            writer.close()

    run(main())


def test_connections_go_on_when_their_service_ends_and_new_ones_are_refused() -> None:
    async def main() -> None:
        async with proxies() as found, server(says(b"still here: ")) as target:
            listen = Listen(HOST, free_port(), "TCP")
            await found.follow({listen: Route("default/web", (target,))})
            reader, writer = await asyncio.open_connection(HOST, listen.port)
            writer.write(b"a")
            await asyncio.sleep(0.1)
            await found.follow({})
            writer.write(b"b")
            writer.write_eof()
            assert await reader.read() == b"still here: ab"
            writer.close()
            with pytest.raises(ConnectionRefusedError):
                await ask(listen.port)

    run(main())


def test_more_connections_than_are_allowed_wait_for_their_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kilauea.kubelet.network.proxies._most_connections", lambda: 2)

    async def main() -> None:
        async with proxies() as found, server(says(b"")) as target:
            listen = Listen(HOST, free_port(), "TCP")
            await found.follow({listen: Route("default/web", (target,))})
            opened = [await asyncio.open_connection(HOST, listen.port) for _ in range(5)]
            answers = []
            for number, (reader, writer) in enumerate(opened):
                writer.write(f"{number}".encode())
                writer.write_eof()
                answers.append(await reader.read())
                writer.close()
            assert answers == [b"0", b"1", b"2", b"3", b"4"]

    run(main())


def test_a_port_that_is_taken_is_told_once_and_tried_again(caplog: pytest.LogCaptureFixture) -> None:
    async def main() -> None:
        async with proxies() as found, server(says(b"mine")) as target:
            with socket.create_server((HOST, 0)) as other:
                listen = Listen(HOST, other.getsockname()[1], "TCP")
                routes = {listen: Route("default/web", (target,))}
                with caplog.at_level(logging.WARNING):
                    await found.follow(routes)
                    await found.follow(routes)
                (text,) = [record.getMessage() for record in caplog.records]
                assert text.startswith(f"service default/web is not available at {listen}: Address already in use: ")
                assert _failed(found)
            await found.follow(routes)
            assert not _failed(found)
            assert await ask(listen.port) == b"mine"

    run(main())


def test_a_program_that_listens_at_all_addresses_can_have_the_port_of_its_service(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def main() -> None:
        async with proxies() as found:
            port = free_port()
            listen = Listen("127.0.0.9", port, "TCP")
            routes = {listen: Route("default/web", (("127.0.0.8", port),))}
            with caplog.at_level(logging.WARNING):
                await found.follow(routes)
                assert 0 < found.retry < 1
                program = await asyncio.start_server(says(b"here"), "0.0.0.0", port)
                await found.follow(routes)
                assert await ask(port, host="127.0.0.9") == b"here"
                program.close()
            assert not caplog.records

    run(main())


def test_a_program_that_listens_at_its_own_address_has_a_proxy_at_the_same_port() -> None:
    async def main() -> None:
        async with proxies() as found:
            port = free_port()
            listen = Listen("127.0.0.9", port, "TCP")
            routes = {listen: Route("default/web", (("127.0.0.8", port),))}
            await found.follow(routes)
            program = await asyncio.start_server(says(b"there"), "127.0.0.8", port)
            await found.follow(routes)
            assert not _failed(found)
            assert await ask(port, host="127.0.0.9") == b"there"
            program.close()

    run(main())


def test_a_port_that_needs_a_privilege_is_told_with_the_way_out(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(self: socket.socket, address: object) -> None:
        raise PermissionError(errno.EACCES, "Permission denied")

    async def main() -> None:
        monkeypatch.setattr(socket.socket, "bind", refuse)
        async with proxies() as found:
            await found.follow({Listen(HOST, 80, "TCP"): Route("default/web", ((HOST, 1),))})
        assert "sysctl net.ipv4.ip_unprivileged_port_start=0" in caplog.text

    run(main())


class Echo(asyncio.DatagramProtocol):
    """Answers each datagram with a word before it."""

    def __init__(self, word: bytes) -> None:
        self.word = word
        self.clients: set[Any] = set()

    def connection_made(self, transport: Any) -> None:
        self.transport = transport

    def datagram_received(self, data: bytes, addr: Any) -> None:
        self.clients.add(addr)
        self.transport.sendto(self.word + data, addr)


def _same(echo: Echo) -> Echo:
    return echo


async def exchange(client: socket.socket, port: int, text: bytes) -> bytes:
    """Send a datagram, again and again until an answer comes."""
    loop = asyncio.get_running_loop()
    while True:
        await loop.sock_sendto(client, text, (HOST, port))
        try:
            return await asyncio.wait_for(loop.sock_recv(client, 100), 1)
        except (TimeoutError, ConnectionRefusedError):
            continue


def test_datagrams_of_a_client_go_to_one_endpoint_and_its_answers_come_back() -> None:
    async def main() -> None:
        loop, servers, targets = asyncio.get_running_loop(), [Echo(b"one "), Echo(b"two ")], []
        transports = []
        for each in servers:
            transport, _ = await loop.create_datagram_endpoint(partial(_same, each), local_addr=(HOST, 0))
            targets.append((HOST, transport.get_extra_info("sockname")[1]))
            transports.append(transport)
        async with proxies() as found:
            listen = Listen(HOST, free_port(socket.SOCK_DGRAM), "UDP")
            await found.follow({listen: Route("default/dns", tuple(targets))})
            words = []
            for _ in range(2):
                with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as client:
                    client.setblocking(False)
                    client.bind((HOST, 0))
                    answers = [await exchange(client, listen.port, b"hello") for _ in range(3)]
                    assert len(set(answers)) == 1
                    words.append(answers[0])
            assert sorted(words) == [b"one hello", b"two hello"]
        for transport in transports:
            transport.close()

    run(main())


def test_a_client_whose_endpoint_is_gone_reaches_another() -> None:
    async def main() -> None:
        loop = asyncio.get_running_loop()
        gone = free_port(socket.SOCK_DGRAM)
        transport, _ = await loop.create_datagram_endpoint(lambda: Echo(b"here "), local_addr=(HOST, 0))
        there = (HOST, transport.get_extra_info("sockname")[1])
        async with proxies() as found:
            listen = Listen(HOST, free_port(socket.SOCK_DGRAM), "UDP")
            await found.follow({listen: Route("default/dns", (there, (HOST, gone)))})
            with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as client:
                client.setblocking(False)
                client.bind((HOST, 0))
                assert await exchange(client, listen.port, b"hello") == b"here hello"
        transport.close()

    run(main())
