"""The server as a process, in front of an API server of others: over HTTPS, as clients see it."""

from __future__ import annotations

import json
import socket
import time
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from aiohttp import web

from apiserver.test_transport import Process
from support.aggregated_server import API_SERVICES, NAME, PATH, AggregatedServer, api_service

FLUNDERS = f"{PATH}/namespaces/default/flunders"
SECONDS = 60


@pytest.fixture
def server() -> Iterator[AggregatedServer]:
    """An API server of others, which asks for no certificate: the process makes its own authority."""
    made = AggregatedServer()
    yield made
    made.close()


@pytest.fixture
def kubernetes(tmp_path: Path, server: AggregatedServer) -> Iterator[Process]:
    """The server, with an APIService that is available."""
    with Process(tmp_path, "--durability", "memory") as process:
        spec = {"type": "ExternalName", "externalName": "localhost"}
        body = {"metadata": {"name": "api"}, "spec": spec}
        assert process.ask("POST", "/api/v1/namespaces/default/services", json.dumps(body).encode())[0] == 201
        port = {"name": "api", "namespace": "default", "port": server.port}
        made = api_service(server.bundle, service=port)
        assert process.ask("POST", API_SERVICES, json.dumps(made).encode())[0] == 201
        end = time.monotonic() + SECONDS
        while b'"Passed"' not in process.ask("GET", f"{API_SERVICES}/{NAME}")[1]:
            assert time.monotonic() < end, process.ask("GET", f"{API_SERVICES}/{NAME}")[1]
            time.sleep(0.05)
        yield process


def test_requests_come_through(kubernetes: Process, server: AggregatedServer) -> None:
    code, content, _ = kubernetes.ask("POST", FLUNDERS, b'{"kind":"Flunder"}')
    assert (code, json.loads(content)["body"]) == (200, '{"kind":"Flunder"}')
    headers = server.requests[-1][2]
    assert ("x-remote-user", "kubernetes-admin") in headers
    assert not [value for name, value in headers if name == "authorization"]
    assert kubernetes.ask("HEAD", FLUNDERS)[:2] == (200, b"")
    groups = json.loads(kubernetes.ask("GET", "/apis")[1])["groups"]
    assert "wardle.example.com" in [each["name"] for each in groups]
    services = json.loads(kubernetes.ask("GET", API_SERVICES)[1])["items"]
    assert {"v1.", "v1.apps", NAME, "v1beta1.scheduling.volcano.sh"} <= {each["metadata"]["name"] for each in services}


def test_other_servers_can_read_whom_to_believe(kubernetes: Process) -> None:
    path = "/api/v1/namespaces/kube-system/configmaps/extension-apiserver-authentication"
    data = json.loads(kubernetes.ask("GET", path)[1])["data"]
    assert data["client-ca-file"] == kubernetes.authority
    assert data["requestheader-client-ca-file"] not in ("", kubernetes.authority)
    assert json.loads(data["requestheader-allowed-names"]) == ["front-proxy-client"]
    roles = "/apis/rbac.authorization.k8s.io/v1/namespaces/kube-system/roles"
    assert kubernetes.ask("GET", f"{roles}/extension-apiserver-authentication-reader")[0] == 200


def test_a_websocket_is_a_tunnel_to_the_server(kubernetes: Process, server: AggregatedServer) -> None:
    async def talk(request: web.Request) -> web.StreamResponse:
        answer = web.WebSocketResponse()
        await answer.prepare(request)
        async for message in answer:
            await answer.send_bytes(message.data)
        return answer

    server.handlers[f"{FLUNDERS}/a/exec"] = talk
    host, port = urlsplit(kubernetes.url).hostname or "", urlsplit(kubernetes.url).port or 0
    lines = [
        f"GET {FLUNDERS}/a/exec HTTP/1.1", f"Host: {host}", f"Authorization: Bearer {kubernetes.token}",
        "Connection: Upgrade", "Upgrade: websocket", "Sec-WebSocket-Version: 13",
        "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==",
    ]  # fmt: skip
    with (
        socket.create_connection((host, port), SECONDS) as raw,
        kubernetes.tls().wrap_socket(raw, server_hostname=host) as connection,
    ):
        connection.sendall("\r\n".join([*lines, "", ""]).encode())
        head = b""
        while b"\r\n\r\n" not in head:
            head += connection.recv(1000)
        assert head.startswith(b"HTTP/1.1 101 ")
        connection.sendall(bytes([0x82, 0x82, 0, 0, 0, 0]) + b"hi")
        assert connection.recv(1000) == bytes([0x82, 0x02]) + b"hi"
