"""The subresource `proxy` in front of real servers: HTTPS and WebSockets, with kubectl and the Python client."""

from __future__ import annotations

import os
import ssl
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import trustme
import urllib3
import websocket

from cluster.up_process import until
from kilauea.apiserver.streams.sessions import Sessions
from kubernetes import client as k8s
from kubernetes import config
from support.served_pods import PODS, ServedPods

TOKEN = "base64url.bearer.authorization.k8s.io.c2VjcmV0"
SERVER = """if True:
    import os, pathlib, ssl, sys
    from aiohttp import WSMsgType, web

    sent = 0

    async def echo(request):
        socket = web.WebSocketResponse(protocols=["chat"], max_msg_size=0)
        await socket.prepare(request)
        async for message in socket:
            if message.type is WSMsgType.BINARY:
                await socket.send_bytes(message.data)
            elif message.data == "end":
                await socket.close(code=4321, message=b"as asked")
            else:
                await socket.send_str(f"{message.data} from {request.query_string}")
        return socket

    async def flood(request):
        global sent
        socket = web.WebSocketResponse()
        await socket.prepare(request)
        try:
            while True:
                await socket.send_bytes(bytes(65536))
                sent += 65536
        finally:
            sent = -1

    async def count(request):
        return web.Response(text=str(sent))

    async def head(request):
        return web.json_response(dict(request.headers))

    async def refuse(request):
        return web.Response(status=403, text="not you")

    folder = pathlib.Path(sys.argv[1])
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(folder / "certificate")

    async def begin():
        app = web.Application()
        for each in (echo, flood, count, head, refuse):
            app.router.add_get(f"/{each.__name__}", each)
        runner = web.AppRunner(app)
        await runner.setup()
        ports = []
        for secured in (None, tls):
            site = web.TCPSite(runner, "127.0.0.1", 0, ssl_context=secured)
            await site.start()
            ports.append(site._server.sockets[0].getsockname()[1])
        (folder / "new").write_text(" ".join(map(str, ports)))
        (folder / "new").rename(folder / "ports")
        import asyncio
        await asyncio.Event().wait()

    import asyncio
    asyncio.run(begin())
"""


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServedPods]:
    with ServedPods(tmp_path_factory.mktemp("served")) as made:
        yield made


@pytest.fixture(scope="module")
def ports(served: ServedPods, tmp_path_factory: pytest.TempPathFactory) -> tuple[int, int]:
    """The ports of a server in a pod, plain and with TLS; a service has the pod behind it."""
    folder = tmp_path_factory.mktemp("web")
    certificate = trustme.CA().issue_cert("of.someone.else")
    certificate.private_key_and_cert_chain_pem.write_to_path(folder / "certificate")
    served.run_pod("web", sys.executable, "-c", SERVER, str(folder))
    until((folder / "ports").exists, "the ports")
    plain, secured = map(int, (folder / "ports").read_text().split())
    numbers = [{"name": "http", "port": 80, "targetPort": plain}, {"name": "https", "port": 443, "targetPort": secured}]
    served.ask("POST", "/api/v1/namespaces/default/services", {"metadata": {"name": "web"}, "spec": {"ports": numbers}})
    piece = {
        "metadata": {"name": "web-1", "labels": {"kubernetes.io/service-name": "web"}},
        "addressType": "IPv4",
        "ports": [{"name": "http", "port": plain}, {"name": "https", "port": secured}],
        "endpoints": [{"addresses": ["192.0.2.1"], "targetRef": {"kind": "Pod", "name": "web"}}],
    }
    served.ask("POST", "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices", piece)
    return plain, secured


@pytest.fixture(scope="module")
def core(served: ServedPods) -> Iterator[k8s.CoreV1Api]:
    with config.new_client_from_config(str(served.kubeconfig)) as api:
        yield k8s.CoreV1Api(api)


def raw(served: ServedPods, path: str) -> subprocess.CompletedProcess[str]:
    """The end of a kubectl that reads at a path."""
    words = ["kubectl", "get", "--raw", path]
    environment = os.environ | {"KUBECONFIG": str(served.kubeconfig), "HOME": str(served.folder)}
    return subprocess.run(words, capture_output=True, text=True, timeout=240, env=environment, check=False)


@contextmanager
def socket_at(served: ServedPods, path: str, *protocols: str) -> Iterator[websocket.WebSocket]:
    """A WebSocket through the API server."""
    url = f"{served.url.replace('https', 'wss')}{path}"
    context = ssl.create_default_context(cadata=served.authority)
    header = {"Authorization": f"Bearer {served.token}"}
    with opened(url, header=header, subprotocols=list(protocols) or None, sslopt={"context": context}) as talk:
        yield talk


@contextmanager
def opened(url: str, **options: Any) -> Iterator[websocket.WebSocket]:
    talk = websocket.create_connection(url, timeout=240, **options)
    try:
        yield talk
    finally:
        talk.shutdown()  # type: ignore[no-untyped-call]


def refused(served: ServedPods, path: str, *protocols: str) -> tuple[int, bytes]:
    """Code and content of an answer to a client that asks for a WebSocket."""
    headers = {
        "Authorization": f"Bearer {served.token}", "Connection": "Upgrade", "Upgrade": "websocket",
        "Sec-WebSocket-Version": "13", "Sec-WebSocket-Key": "dGhlIHNhbXBsZSBub25jZQ==",
        "Sec-WebSocket-Protocol": ", ".join(protocols),
    }  # fmt: skip
    with urllib3.PoolManager(ca_cert_data=served.authority) as pool:
        answer = pool.request("GET", f"{served.url}{path}", headers=headers)
        return answer.status, answer.data


def test_https_reaches_a_pod_and_a_pod_behind_a_service_whatever_its_certificate(
    served: ServedPods, core: k8s.CoreV1Api, ports: tuple[int, int]
) -> None:
    plain, secured = ports
    assert raw(served, f"{PODS}/https:web:{secured}/proxy/count").stdout == "0"
    assert raw(served, f"{PODS}/http:web:{plain}/proxy/count").stdout == "0"
    for name in ("https:web:443", "https:web:https", "http:web:80"):
        assert raw(served, f"/api/v1/namespaces/default/services/{name}/proxy/count").stdout == "0"
    assert core.connect_get_namespaced_pod_proxy_with_path(f"https:web:{secured}", "default", "count") == "0"
    assert core.connect_get_namespaced_service_proxy_with_path("https:web:https", "default", "count") == "0"


def test_a_port_without_tls_is_named(served: ServedPods, ports: tuple[int, int]) -> None:
    refused = raw(served, f"{PODS}/https:web:{ports[0]}/proxy/count").stderr
    assert f"port {ports[0]} of the pod at 127.0.0.1 does not answer with TLS" in refused


@pytest.mark.parametrize("scheme", ["http", "https"])
def test_a_websocket_goes_both_ways_until_the_container_ends_it(
    served: ServedPods, ports: tuple[int, int], scheme: str
) -> None:
    port = ports[scheme == "https"]
    with socket_at(served, f"{PODS}/{scheme}:web:{port}/proxy/echo?a=b", TOKEN, "chat") as talk:
        assert talk.getsubprotocol() == "chat"
        talk.send("hello")
        assert talk.recv() == "hello from a=b"
        large = os.urandom(3_000_000)
        talk.send_binary(large)
        assert talk.recv() == large
        talk.send("end")
        code, content = talk.recv_data()
        assert (code, content) == (websocket.ABNF.OPCODE_CLOSE, (4321).to_bytes(2) + b"as asked")


def test_a_websocket_reaches_a_service_through_kubectl_proxy(served: ServedPods, ports: tuple[int, int]) -> None:
    with kubectl_proxy(served) as address:
        url = f"ws://{address}/api/v1/namespaces/default/services/web:http/proxy/echo"
        with opened(url) as talk:
            talk.send("hello")
            assert talk.recv() == "hello from "


@contextmanager
def kubectl_proxy(served: ServedPods) -> Iterator[str]:
    """The address at which `kubectl proxy` serves."""
    environment = os.environ | {"KUBECONFIG": str(served.kubeconfig), "HOME": str(served.folder)}
    with subprocess.Popen(["kubectl", "proxy", "--port", "0"], stdout=subprocess.PIPE, env=environment) as proxy:
        try:
            assert proxy.stdout is not None
            yield proxy.stdout.readline().decode().split()[-1]
        finally:
            proxy.terminate()


def test_a_refused_websocket_has_the_answer_of_the_container(served: ServedPods, ports: tuple[int, int]) -> None:
    assert refused(served, f"{PODS}/web:{ports[0]}/proxy/refuse") == (403, b"not you")


def test_credentials_do_not_reach_the_container(served: ServedPods, ports: tuple[int, int]) -> None:
    code, headers = refused(served, f"{PODS}/web:{ports[0]}/proxy/head", TOKEN, "chat")
    assert (code, b'"sec-websocket-protocol": "chat"' in headers.lower()) == (200, True)
    assert b"bearer" not in headers.lower()


def test_a_client_that_does_not_read_holds_up_its_container(served: ServedPods, ports: tuple[int, int]) -> None:
    def count() -> int:
        return int(raw(served, f"{PODS}/web:{ports[0]}/proxy/count").stdout)

    with socket_at(served, f"{PODS}/web:{ports[0]}/proxy/flood") as talk:
        talk.recv()
        seen = [-1]

        def rests() -> bool:
            seen.append(count())
            return seen[-1] == seen[-2]

        until(rests, "the container to wait")
        assert seen[-1] < 64 * 1024 * 1024
    until(lambda: count() == -1, "the container to see that the client has gone")


def test_tunnels_count_as_connections_to_containers(served: ServedPods, ports: tuple[int, int]) -> None:
    served.backend.sessions = Sessions(most_of_tenant=1)
    path = f"{PODS}/web:{ports[0]}/proxy/echo"
    with socket_at(served, path):
        assert refused(served, path)[0] == 429

    def free() -> bool:
        try:
            with socket_at(served, path):
                return True
        except websocket.WebSocketBadStatusException:
            return False

    until(free, "the tunnel to have ended")
    served.backend.sessions = Sessions()


def test_a_server_ends_its_tunnels_with_itself(tmp_path: Path) -> None:
    certificate = trustme.CA().issue_cert("web")
    certificate.private_key_and_cert_chain_pem.write_to_path(tmp_path / "certificate")
    with ServedPods(tmp_path) as served:
        served.run_pod("web", sys.executable, "-c", SERVER, str(tmp_path))
        until((tmp_path / "ports").exists, "the ports")
        port = (tmp_path / "ports").read_text().split()[0]
        with socket_at(served, f"{PODS}/web:{port}/proxy/echo") as talk:
            talk.send("hello")
            assert talk.recv() == "hello from "
            served.close_transport()
            with pytest.raises((websocket.WebSocketException, OSError)):
                talk.recv()
