"""A client that runs for long follows new tokens, certificates and authorities, which are renewed from outside."""

from __future__ import annotations

import asyncio
import datetime
import json
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web
from cryptography import x509

from kilauea.api.kinds import NAMESPACES
from kilauea.api.ports import ApiError, Key
from kilauea.client.access import Access, Credentials
from kilauea.client.certificate_files import CertificateFiles
from kilauea.client.http import HttpTransport
from kilauea.client.incluster import in_cluster
from kilauea.client.kubeconfig import load_kubeconfig
from kilauea.client.rest import Client
from kilauea.pki import CLIENT, SERVER, Authority, pem, subject

NOW = datetime.datetime.now(datetime.UTC)
Check = Callable[[web.Request], bool]


def issue(authority: Authority, folder: Path, name: str, usage: Any = CLIENT) -> int:
    """Write a certificate and its key into a folder; returns the serial number."""
    issued = authority.issue(subject(name), ["127.0.0.1"], usage, NOW)
    (folder / f"{name}.crt").write_bytes(issued.certificate)
    (folder / f"{name}.key").write_bytes(issued.key)
    return x509.load_pem_x509_certificate(issued.certificate).serial_number


class Rotating:
    """An HTTPS server whose certificate, and the clients that it takes, can be replaced while it serves."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.authority = Authority.create("first", NOW)
        self.accepts: Check = lambda request: True
        self.port = 0

    def trust(self) -> None:
        """Write the certificate of the authority where clients look."""
        (self.folder / "ca.crt").write_bytes(pem(self.authority.certificate))

    def context(self) -> ssl.SSLContext:
        """TLS with a new certificate, and client certificates of the same authority."""
        issue(self.authority, self.folder, "server", SERVER)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(self.folder / "server.crt", self.folder / "server.key")
        context.load_verify_locations(cadata=pem(self.authority.certificate).decode())
        context.verify_mode = ssl.CERT_OPTIONAL
        return context

    @asynccontextmanager
    async def serving(self) -> AsyncIterator[None]:
        """Serve for the length of a block, at the same port as before."""

        async def answer(request: web.Request) -> web.Response:
            if self.accepts(request):
                return web.json_response({"metadata": {"name": "default"}})
            return web.json_response({"code": 401, "reason": "Unauthorized", "message": "no"}, status=401)

        app = web.Application()
        app.router.add_get("/{path:.*}", answer)
        runner = web.AppRunner(app)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", self.port, ssl_context=self.context()).start()
        self.port = runner.addresses[0][1]
        try:
            yield
        finally:
            await runner.cleanup()


@pytest.fixture
def server(tmp_path: Path) -> Rotating:
    made = Rotating(tmp_path)
    made.trust()
    return made


def play(test: Callable[[], Coroutine[Any, Any, None]]) -> None:
    async def main() -> None:
        await asyncio.wait_for(test(), 60)
        await asyncio.sleep(0.1)  # lets the sockets of refused handshakes close before the loop ends

    asyncio.run(main())


async def name_of(client: Client) -> str:
    return str((await client.get(NAMESPACES, Key("", "default")))["metadata"]["name"])


async def pod(server: Rotating, token: str) -> Access:
    """The way to the server for a process in a pod."""
    (server.folder / "token").write_text(token)
    (server.folder / "namespace").write_text("volcano-system")
    environment = {"KUBERNETES_SERVICE_HOST": "127.0.0.1", "KUBERNETES_SERVICE_PORT": str(server.port)}
    return in_cluster(environment, server.folder)


def kubeconfig(folder: Path, port: int, **user: str) -> Path:
    """A kubeconfig that names files."""
    path = folder / "config"
    cluster = {"server": f"https://127.0.0.1:{port}", "certificate-authority": "ca.crt"}
    document = {
        "clusters": [{"name": "c", "cluster": cluster}],
        "users": [{"name": "u", "user": user}],
        "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
        "current-context": "x",
    }
    path.write_text(json.dumps(document))
    return path


PAIR = {"client-certificate": "client.crt", "client-key": "client.key"}


async def with_kubeconfig(server: Rotating, token: str) -> Access:
    """The way to the server by a kubeconfig that names files."""
    (server.folder / "token").write_text(token)
    return load_kubeconfig([kubeconfig(server.folder, server.port, tokenFile="token")], {})


@pytest.mark.parametrize("way", [pod, with_kubeconfig])
def test_a_token_that_expires_is_read_again(
    server: Rotating, way: Callable[[Rotating, str], Awaitable[Access]]
) -> None:
    async def test() -> None:
        async with server.serving():
            server.accepts = lambda request: request.headers.get("Authorization") == "Bearer one"
            async with HttpTransport(await way(server, "one")) as transport:
                client = Client(transport)
                assert await name_of(client) == "default"
                server.accepts = lambda request: request.headers.get("Authorization") == "Bearer two"
                with pytest.raises(ApiError) as refused:
                    await name_of(client)
                assert refused.value.code == 401
                (server.folder / "token").write_text("two")
                assert await name_of(client) == "default"

    play(test)


@pytest.mark.parametrize("way", [pod, with_kubeconfig])
def test_a_server_with_a_new_authority_is_trusted_once_its_file_is_replaced(
    server: Rotating, way: Callable[[Rotating, str], Awaitable[Access]]
) -> None:
    async def test() -> None:
        async with server.serving():
            access = await way(server, "one")
        async with HttpTransport(access) as transport:
            client = Client(transport)
            async with server.serving():
                assert await name_of(client) == "default"
            server.authority = Authority.create("second", NOW)
            async with server.serving():
                with pytest.raises(ApiError, match="certificate"):
                    await name_of(client)
                (server.folder / "ca.crt").unlink()
                with pytest.raises(ApiError, match="certificate"):
                    await name_of(client)
                server.trust()
                assert await name_of(client) == "default"

    play(test)


def test_a_client_certificate_that_expires_is_read_again(server: Rotating) -> None:
    def accept_only(serial: int) -> Check:
        def accepts(request: web.Request) -> bool:
            assert request.transport is not None
            shown = request.transport.get_extra_info("ssl_object").getpeercert()
            return int(shown["serialNumber"], 16) == serial

        return accepts

    async def test() -> None:
        async with server.serving():
            server.accepts = accept_only(issue(server.authority, server.folder, "client"))
            path = kubeconfig(server.folder, server.port, **PAIR)
            async with HttpTransport(load_kubeconfig([path], {})) as transport:
                client = Client(transport)
                assert await name_of(client) == "default"
                server.accepts = accept_only(issue(server.authority, server.folder, "client"))
                assert await name_of(client) == "default"

    play(test)


def test_files_of_a_client_certificate_are_read_again_after_a_while_and_when_they_fit(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    authority, moments = Authority.create("a", NOW), [0.0]
    certificate, key = tmp_path / "client.crt", tmp_path / "client.key"

    async def test() -> None:
        issue(authority, tmp_path, "client")
        first = (certificate.read_bytes(), key.read_bytes())
        files = CertificateFiles(Credentials("", *first), certificate, key, lambda: moments[0])
        issue(authority, tmp_path, "client")
        second = (certificate.read_bytes(), key.read_bytes())
        assert (await files(False))[1:] == first
        moments[0] = 61.0
        assert (await files(False))[1:] == second
        certificate.write_bytes(first[0])
        assert (await files(True))[1:] == second
        certificate.unlink()
        assert (await files(True))[1:] == second
        assert (await files(True))[1:] == second
        assert [str(certificate) in text for text in caplog.messages] == [True, True]
        certificate.write_bytes(first[0])
        key.write_bytes(first[1])
        assert (await files(True))[1:] == first

    play(test)
