"""The client over HTTPS against the command: how it is let in, whom it trusts, what it says when no one answers."""

from __future__ import annotations

import asyncio
import base64
import gc
import json
import os
import signal
import socket
import subprocess
from collections.abc import AsyncGenerator, Callable, Coroutine, Iterator
from contextlib import aclosing, asynccontextmanager
from pathlib import Path
from random import Random
from typing import Any

import pytest
import yaml
from aiohttp import web

from client.conftest import MAPS, NAMESPACES
from cluster.api_process import Server, running_server
from kilauea.api.ports import ApiError, Key
from kilauea.client import http
from kilauea.client.access import Access, Credentials, always
from kilauea.client.finding import find_access
from kilauea.client.http import HttpTransport
from kilauea.client.kubeconfig import load_kubeconfig
from kilauea.client.rest import Client
from kilauea.client.view import Cache
from kilauea.runtime.clock import SystemClock

DEFAULT = Key("", "default")


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with running_server(tmp_path_factory.mktemp("https") / "data") as running:
        yield running


def config(running: Server, folder: Path, user: dict[str, Any], **cluster: Any) -> Path:
    """A kubeconfig like the server's own with another user, and other words about the cluster."""
    document = yaml.safe_load(running.kubeconfig.read_text())
    document["users"][0]["user"] = user
    document["clusters"][0]["cluster"] |= cluster
    path = folder / "config"
    path.write_text(yaml.safe_dump(document))
    return path


def certificate_of(server: Server) -> dict[str, str]:
    folder = server.data_dir / "credentials"
    return {"client-certificate": str(folder / "admin.crt"), "client-key": str(folder / "admin.key")}


def ask(path: Path, work: Callable[[Client], Coroutine[Any, Any, Any]] | None = None) -> Any:
    """What comes of some work with a client; without it, the name of a namespace."""

    async def main() -> Any:
        async with HttpTransport(find_access(path, os.environ)) as transport:
            client = Client(transport)
            if work is not None:
                return await work(client)
            return (await client.get(NAMESPACES, DEFAULT))["metadata"]["name"]

    return asyncio.run(asyncio.wait_for(main(), 60))


def refused(path: Path) -> ApiError:
    with pytest.raises(ApiError) as caught:
        ask(path)
    return caught.value


def test_a_token_lets_in_and_a_wrong_one_does_not(server: Server, tmp_path: Path) -> None:
    assert ask(config(server, tmp_path, {"token": server.token})) == "default"
    error = refused(config(server, tmp_path, {"token": "wrong"}))
    assert (error.code, error.reason) == (401, "Unauthorized")


def test_a_certificate_lets_in_from_files_and_from_the_text(server: Server, tmp_path: Path) -> None:
    files = certificate_of(server)
    assert ask(config(server, tmp_path, files)) == "default"
    data = {f"{name}-data": base64.b64encode(Path(path).read_bytes()).decode() for name, path in files.items()}
    assert ask(config(server, tmp_path, data)) == "default"


def test_a_certificate_that_is_none_is_named(server: Server, tmp_path: Path) -> None:
    nonsense = base64.b64encode(b"nonsense").decode()
    error = refused(config(server, tmp_path, {"client-certificate-data": nonsense, "client-key-data": nonsense}))
    assert error.code == 0
    assert "the client's certificate cannot be used" in str(error)


def test_a_key_with_a_password_is_refused_without_a_question(server: Server, tmp_path: Path) -> None:
    files = certificate_of(server)
    locked = tmp_path / "locked.key"
    command = ["openssl", "pkey", "-in", files["client-key"], "-aes256", "-passout", "pass:secret", "-out", str(locked)]
    subprocess.run(command, check=True, capture_output=True)
    error = refused(config(server, tmp_path, files | {"client-key": str(locked)}))
    assert "the key without a password" in str(error)


def test_a_token_that_was_replaced_is_read_again_at_the_refusal(server: Server, tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text("old")
    path = config(server, tmp_path, {"tokenFile": str(file)})

    async def work(client: Client) -> list[str]:
        with pytest.raises(ApiError):
            await client.get(NAMESPACES, DEFAULT)
        file.write_text(server.token)
        return [(await client.get(NAMESPACES, DEFAULT))["metadata"]["name"] for _ in range(2)]

    assert ask(path, work) == ["default", "default"]


def test_a_plugin_lets_in_with_a_token_and_with_a_certificate(server: Server, tmp_path: Path) -> None:
    files = {name: Path(path).read_text() for name, path in certificate_of(server).items()}
    for status in (
        {"token": server.token},
        {"clientCertificateData": files["client-certificate"], "clientKeyData": files["client-key"]},
    ):
        version = "client.authentication.k8s.io/v1"
        said = tmp_path / "said.json"
        said.write_text(json.dumps({"apiVersion": version, "kind": "ExecCredential", "status": status}))
        user = {"exec": {"apiVersion": version, "command": "cat", "args": [str(said)], "interactiveMode": "Never"}}
        assert ask(config(server, tmp_path, user)) == "default"


def test_a_server_of_another_authority_is_not_trusted(server: Server, tmp_path: Path) -> None:
    key, certificate = tmp_path / "key", tmp_path / "crt"
    command = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes"]
    command += ["-subj", "/CN=other", "-keyout", str(key), "-out", str(certificate)]
    subprocess.run(command, check=True, capture_output=True)
    other: dict[str, Any] = {"certificate-authority-data": base64.b64encode(certificate.read_bytes()).decode()}
    error = refused(config(server, tmp_path, {"token": server.token}, **other))
    assert error.code == 0
    assert "certificate" in str(error)
    other = {"certificate-authority-data": None, "insecure-skip-tls-verify": True}
    assert ask(config(server, tmp_path, {"token": server.token}, **other)) == "default"
    nonsense = {"certificate-authority-data": base64.b64encode(b"nonsense").decode()}
    assert "cannot be read" in str(refused(config(server, tmp_path, {"token": server.token}, **nonsense)))


def test_the_name_in_the_certificate_can_be_given(server: Server, tmp_path: Path) -> None:
    user = {"token": server.token}
    assert ask(config(server, tmp_path, user, **{"tls-server-name": "kubernetes.default"})) == "default"
    error = refused(config(server, tmp_path, user, **{"tls-server-name": "elsewhere"}))
    assert error.code == 0


def test_no_one_at_the_address_is_told_in_one_line(server: Server, tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    error = refused(config(server, tmp_path, {"token": "t"}, server=f"https://127.0.0.1:{port}"))
    assert (error.code, error.reason) == (0, "Unreachable")
    assert str(error).startswith(f"https://127.0.0.1:{port}: GET ")
    assert str(error).endswith(": Connection refused")


@pytest.mark.slow
def test_a_server_that_goes_and_comes_back_is_followed(tmp_path: Path) -> None:
    body = {"metadata": {"name": "before", "labels": {"mine": "x"}}}

    async def main(path: Path, stop: Callable[[], None], again: Callable[[], Path]) -> list[str]:
        access = load_kubeconfig([path], os.environ)
        async with HttpTransport(access) as transport:
            client, cache = Client(transport), Cache()
            indexer = cache.declare(MAPS, ["mine"])
            following = asyncio.create_task(cache.run(client, SystemClock(), Random(1)))
            await cache.complete()
            await client.create(MAPS, "default", body)
            while not indexer.labelled("mine", "x"):
                await asyncio.sleep(0.01)
            await asyncio.to_thread(stop)
            await asyncio.to_thread(again)
            await client.create(MAPS, "default", {"metadata": {"name": "while-away", "labels": {"mine": "x"}}})
            while len(indexer.labelled("mine", "x")) < 2:
                await asyncio.sleep(0.01)
            following.cancel()
            await asyncio.gather(following, return_exceptions=True)
            return [each["metadata"]["name"] for each in indexer.labelled("mine", "x")]

    with running_server(tmp_path / "data") as first:
        port = first.url.rpartition(":")[2]
        copy = tmp_path / "config"
        copy.write_text(first.kubeconfig.read_text())
        later: list[Any] = []

        def again() -> Path:
            context = running_server(tmp_path / "data", "--listen", f"127.0.0.1:{port}")
            later.append(context)
            return context.__enter__().kubeconfig

        try:
            names = asyncio.run(asyncio.wait_for(main(copy, first.stop, again), 60))
        finally:
            for context in later:
                context.__exit__(None, None, None)
    assert names == ["before", "while-away"]


def test_a_stream_that_is_left_leaves_no_socket_open_although_the_server_does_not_answer(server: Server) -> None:
    async def main() -> None:
        async with (
            HttpTransport(load_kubeconfig([server.kubeconfig], os.environ)) as transport,
            aclosing(transport.stream("/api/v1/namespaces?watch=true", {})) as pieces,
        ):
            await anext(pieces)
            server.process.send_signal(signal.SIGSTOP)

    try:
        asyncio.run(asyncio.wait_for(main(), 60))
        gc.collect()  # a socket that is open is an error
    finally:
        server.process.send_signal(signal.SIGCONT)


# --- servers that behave oddly


@asynccontextmanager
async def odd_server(answer: Callable[[web.BaseRequest], Any]) -> AsyncGenerator[str, None]:
    """A plain HTTP server that does what a function says."""
    runner = web.ServerRunner(web.Server(answer), shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    try:
        yield f"http://127.0.0.1:{runner.addresses[0][1]}"
    finally:
        await runner.cleanup()


def at_odd_server(
    answer: Callable[[web.BaseRequest], Any], work: Callable[[Client, HttpTransport], Coroutine[Any, Any, Any]]
) -> Any:
    async def main() -> Any:
        async with (
            odd_server(answer) as address,
            HttpTransport(Access(address, always(Credentials()))) as transport,
        ):
            return await work(Client(transport), transport)

    return asyncio.run(asyncio.wait_for(main(), 60))


@pytest.mark.parametrize(
    ("response", "code", "reason", "words"),
    [
        ({"status": 502, "text": "<html>bad gateway</html>"}, 502, "BadGateway", "<html>bad gateway</html>"),
        ({"status": 503}, 503, "ServiceUnavailable", "the server answers 503"),
        ({"status": 302, "headers": {"Location": "/"}}, 302, "Found", "the server answers 302"),
        ({"status": 429, "headers": {"Retry-After": "7"}}, 429, "TooManyRequests", "the server answers 429"),
        ({"status": 403, "text": '{"kind": "Status", "reason": "Forbidden", "message": "no"}'}, 403, "Forbidden", "no"),
    ],
)
def test_an_answer_of_somebody_between_is_an_error_with_its_code(
    response: dict[str, Any], code: int, reason: str, words: str
) -> None:
    async def answer(request: web.BaseRequest) -> web.Response:
        return web.Response(**response)

    async def work(client: Client, transport: HttpTransport) -> None:
        with pytest.raises(ApiError) as caught:
            await client.get(NAMESPACES, DEFAULT)
        error = caught.value
        assert (error.code, error.reason, str(error)) == (code, reason, words)
        assert error.retry_after == (7 if code == 429 else 0)
        with pytest.raises(ApiError) as caught:
            async for _ in client.watch(NAMESPACES, "1"):
                pass
        assert caught.value.code == code

    at_odd_server(answer, work)


def test_a_stream_comes_in_whole_lines_and_its_torn_end_is_dropped() -> None:
    async def answer(request: web.BaseRequest) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        for piece in (b"one\ntw", b"o", b"\nthr", b"ee\nfour\n", b"to", b"rn"):
            await response.write(piece)
            await asyncio.sleep(0.02)
        return response

    async def work(client: Client, transport: HttpTransport) -> list[bytes]:
        async with aclosing(transport.stream("/", {})) as pieces:
            return [piece async for piece in pieces]

    pieces = at_odd_server(answer, work)
    assert b"".join(pieces) == b"one\ntwo\nthree\nfour\n"
    assert all(piece.endswith(b"\n") for piece in pieces)


@pytest.mark.parametrize("kind", ["request", "stream"])
def test_silence_is_given_up(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http, "ANSWER_SECONDS", 0.3)
    monkeypatch.setattr(http, "SILENT_SECONDS", 0.3)

    async def answer(request: web.BaseRequest) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        await response.write(b'{"type":"BOOKMARK","object":{"metadata":{"resourceVersion":"5"}}}\n')
        await asyncio.sleep(30)
        return response

    async def watched(client: Client) -> None:
        async for batch in client.watch(NAMESPACES, "1"):
            assert [seen.version for seen in batch] == ["5"]

    async def work(client: Client, transport: HttpTransport) -> None:
        with pytest.raises(ApiError) as caught:
            await (client.get(NAMESPACES, DEFAULT) if kind == "request" else watched(client))
        assert (caught.value.code, caught.value.reason) == (0, "Unreachable")
        assert "no answer in time" in str(caught.value)

    at_odd_server(answer, work)


def test_a_connection_that_is_cut_in_the_midst_of_an_answer_is_an_error() -> None:
    async def answer(request: web.BaseRequest) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Length": "100"})
        await response.prepare(request)
        await response.write(b'{"metadata":')
        assert request.transport is not None
        request.transport.abort()
        return response

    async def work(client: Client, transport: HttpTransport) -> None:
        with pytest.raises(ApiError) as caught:
            await client.get(NAMESPACES, DEFAULT)
        assert caught.value.code == 0

    at_odd_server(answer, work)


@pytest.mark.parametrize("server", ["https://127.0.0.1:99999", "http://127.0.0.1:no"])
def test_an_address_with_an_invalid_port_is_an_error_that_names_it(server: str) -> None:
    async def main() -> None:
        async with HttpTransport(Access(server, always(Credentials()))) as transport:
            with pytest.raises(ApiError, match=f"{server}: invalid address of a server: "):
                await Client(transport, "test").get(NAMESPACES, DEFAULT)

    asyncio.run(main())
