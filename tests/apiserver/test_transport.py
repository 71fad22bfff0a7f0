"""The server as a process: TLS, credentials, limits, restarts, and the official Python client."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import gzip
import json
import os
import signal
import socket
import ssl
import stat
import subprocess
import sys
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any, Self

import pytest
import yaml

from kilauea.connections import HEAD_SECONDS, SWEEP_SECONDS
from support.api_core import MAPS, PODS

SECONDS = 60


class Process:
    """`kilauea apiserver` on a free port."""

    def __init__(self, folder: Path, *arguments: str, descriptors: int = 0) -> None:
        self.folder = folder
        self.kubeconfig = folder / "kubeconfig"
        command = [sys.executable, "-m", "kilauea", "apiserver", "--listen", "127.0.0.1:0"]
        command += ["--data-dir", str(folder / "data"), "--kubeconfig", str(self.kubeconfig), *arguments]
        if descriptors:
            command = ["sh", "-c", f'ulimit -n {descriptors}; exec "$@"', "sh", *command]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        assert self.process.stdout is not None
        self.first_line = self.process.stdout.readline()

    def __enter__(self) -> Self:
        document = yaml.safe_load(self.kubeconfig.read_text())
        self.url = document["clusters"][0]["cluster"]["server"]
        authority = base64.b64decode(document["clusters"][0]["cluster"]["certificate-authority-data"])
        self.authority = authority.decode()
        self.token = document["users"][0]["user"]["token"]
        return self

    def __exit__(self, *_: object) -> None:
        if self.process.poll() is None:
            self.stop()

    def stop(self) -> None:
        """End it as a service manager does."""
        self.process.send_signal(signal.SIGTERM)
        _, faults = self.process.communicate(timeout=SECONDS)
        assert (self.process.returncode, faults) == (0, "")

    def tls(self) -> ssl.SSLContext:
        """TLS that trusts the server's authority and no other."""
        return ssl.create_default_context(cadata=self.authority)

    def ask(
        self, method: str, path: str, body: bytes | None = None, *, tls: ssl.SSLContext | None = None, **headers: str
    ) -> tuple[int, bytes, dict[str, str]]:
        """A request as the administrator, unless headers say otherwise."""
        sent = {"Authorization": f"Bearer {self.token}", "Content-Type": "application/json"}
        sent |= {key.replace("_", "-").title(): value for key, value in headers.items()}
        request = urllib.request.Request(self.url + path, body, {k: v for k, v in sent.items() if v}, method=method)
        try:
            with urllib.request.urlopen(request, timeout=SECONDS, context=tls or self.tls()) as answer:
                return answer.status, answer.read(), dict(answer.headers)
        except urllib.error.HTTPError as error:
            with error:
                return error.code, error.read(), dict(error.headers)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Process]:
    with Process(tmp_path_factory.mktemp("server")) as process:
        yield process


def test_it_says_where_it_listens_and_keeps_its_secrets(server: Process) -> None:
    assert server.first_line == f"listening on {server.url}\n"
    assert stat.S_IMODE(server.kubeconfig.stat().st_mode) == 0o600
    credentials = server.folder / "data" / "credentials"
    assert stat.S_IMODE(credentials.stat().st_mode) == 0o700
    assert {stat.S_IMODE(file.stat().st_mode) for file in credentials.iterdir()} == {0o600}
    for file in (server.folder / "data" / "store").iterdir():
        assert stat.S_IMODE(file.stat().st_mode) & 0o077 == 0, file


@pytest.mark.parametrize("authorization", ["", "Bearer wrong", "Basic YTpi", "Bearer", "Bearer \xe9"])
def test_no_one_unknown_is_answered(server: Process, authorization: str) -> None:
    code, body, _ = server.ask("GET", PODS, authorization=authorization)
    assert (code, json.loads(body)["reason"]) == (401, "Unauthorized")


def test_health_needs_no_credentials(server: Process) -> None:
    assert server.ask("GET", "/readyz", authorization="")[:2] == (200, b"ok")


def test_answers_name_the_flow_schema_and_the_priority_level(server: Process) -> None:
    group = "/apis/flowcontrol.apiserver.k8s.io/v1"
    paths = (f"{group}/flowschemas/exempt", f"{group}/prioritylevelconfigurations/exempt")
    uids = [json.loads(server.ask("GET", path)[1])["metadata"]["uid"] for path in paths]
    for path in ("/api/v1/nodes", "/api/v1/nodes/none", "/version"):
        _, _, headers = server.ask("GET", path)
        found = [headers["X-Kubernetes-Pf-Flowschema-Uid"], headers["X-Kubernetes-Pf-Prioritylevel-Uid"]]
        assert found == uids, path
    _, _, headers = server.ask("GET", "/api/v1/nodes", authorization="Bearer wrong")
    assert "X-Kubernetes-Pf-Flowschema-Uid" not in headers


def test_a_client_certificate_says_who_one_is(server: Process) -> None:
    credentials = server.folder / "data" / "credentials"
    tls = server.tls()
    tls.load_cert_chain(credentials / "admin.crt", credentials / "admin.key")
    path = "/apis/authentication.k8s.io/v1/selfsubjectreviews"
    code, body, _ = server.ask("POST", path, b"{}", tls=tls, authorization="")
    user = json.loads(body)["status"]["userInfo"]
    assert (code, user["username"]) == (201, "kubernetes-admin")
    assert user["groups"] == ["system:masters", "system:authenticated"]


def test_a_body_beyond_the_limit_is_refused(server: Process) -> None:
    answer = None
    with contextlib.suppress(urllib.error.URLError):  # the server may stop reading before all is sent
        answer = server.ask("POST", MAPS, b" " * (3 * 1024 * 1024 + 1))
    assert answer is None or answer[0] == 413
    assert server.ask("POST", MAPS, b" " * (1024 * 1024))[0] == 400


def test_a_packed_body_is_not_unpacked(server: Process) -> None:
    """Kubernetes does not either; a kilobyte can stand for a million."""
    code, body, _ = server.ask("POST", MAPS, gzip.compress(b'{"metadata":{"name":"packed"}}'), content_encoding="gzip")
    assert (code, json.loads(body)["reason"]) == (400, "BadRequest")


def test_heads_are_limited_before_a_client_is_known(server: Process) -> None:
    for header in (b"A: " + b"x" * 40_000, b"\r\n".join(b"H%d: x" % number for number in range(200))):
        with connected(server) as client:
            client.sendall(b"GET /readyz HTTP/1.1\r\nHost: x\r\n" + header + b"\r\n\r\n")
            assert client.recv(1000).startswith(b"HTTP/1.0 400")


def connected(server: Process) -> ssl.SSLSocket:
    where = urllib.parse.urlsplit(server.url)
    plain = socket.create_connection((where.hostname, where.port), timeout=SECONDS)
    return server.tls().wrap_socket(plain, server_hostname=where.hostname)


def test_a_client_may_ask_for_leave_to_send_its_body(server: Process) -> None:
    body = b'{"metadata":{"name":"expected"}}'
    head = f"POST {MAPS} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {server.token}\r\nExpect: 100-continue\r\n"
    with connected(server) as client:
        client.sendall(f"{head}Content-Length: {len(body)}\r\n\r\n".encode())
        assert client.recv(1000) == b"HTTP/1.1 100 Continue\r\n\r\n"
        client.sendall(body)
        assert client.recv(1000).startswith(b"HTTP/1.1 201 Created")


@pytest.mark.parametrize("target", ["{}", "https://localhost{}", "{}?watch=0", "{}?", "{}?watch=0#there"])
def test_the_target_of_a_request_is_read_in_every_form(server: Process, target: str) -> None:
    path = target.format(f"{MAPS}/kube%2Droot-ca.crt")
    with connected(server) as client:
        head = f"GET {path} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {server.token}\r\n\r\n"
        client.sendall(head.encode())
        assert b'configmaps \\"kube-root-ca.crt\\" not found' in client.recv(1000)


def test_the_body_of_a_client_that_is_not_known_is_not_waited_for(server: Process) -> None:
    with connected(server) as client:
        client.sendall(f"POST {MAPS} HTTP/1.1\r\nHost: x\r\nContent-Length: 1000\r\n\r\n".encode())
        assert client.recv(1000).startswith(b"HTTP/1.1 401 Unauthorized")


@pytest.mark.slow
def test_half_sent_requests_lock_no_client_out(tmp_path: Path) -> None:
    with Process(tmp_path, descriptors=64) as server, ExitStack() as opened:
        clients = [opened.enter_context(connected(server)) for _ in range(100)]
        for client in clients[50:]:
            client.sendall(b"GET /api HTTP/1.1\r\nHost:")
        assert server.ask("GET", MAPS)[0] == 200
        clients[-1].settimeout(SECONDS)
        start = time.monotonic()
        with suppress(ConnectionError):
            assert clients[-1].recv(1000) == b""
        assert time.monotonic() - start < HEAD_SECONDS + 3 * SWEEP_SECONDS + 10
        server.stop()


def test_large_answers_are_compressed_if_the_client_takes_that(server: Process) -> None:
    for number in range(3):
        body = {"metadata": {"name": f"large-{number}"}, "data": {"text": "x" * 100_000}}
        assert server.ask("POST", MAPS, json.dumps(body).encode())[0] == 201
    _, plain, _ = server.ask("GET", MAPS)
    _, packed, headers = server.ask("GET", MAPS, accept_encoding="gzip")
    assert headers["Content-Encoding"] == "gzip"
    assert len(packed) < len(plain) / 10
    assert gzip.decompress(packed) == plain


@pytest.mark.parametrize(
    ("line", "code"),
    [("BREW {} HTTP/1.1", 405), ("get {} HTTP/1.1", 405), ("BREW HTTP/1.1", 400), ("BREW {} SMTP/1.1", 400)],
)
def test_methods_that_no_path_has_are_refused_as_such(server: Process, line: str, code: int) -> None:
    host, port = server.url.removeprefix("https://").split(":")
    with server.tls().wrap_socket(socket.create_connection((host, int(port))), server_hostname=host) as connection:
        connection.settimeout(SECONDS)
        connection.sendall(f"{line.format(MAPS)}\r\nHost: a\r\nAuthorization: Bearer {server.token}\r\n\r\n".encode())
        answer = b"".join(iter(lambda: connection.recv(65536), b"")).decode()
    assert answer.split()[1] == str(code)
    assert ('"reason":"MethodNotAllowed"' in answer) == (code == 405)


@pytest.mark.parametrize(
    ("path", "code"),
    [
        ("/healthz", 200),
        ("/metrics", 200),
        ("/openapi/v2", 200),
        (PODS, 405),
        (f"{PODS}?watch=1", 405),
        ("/apis/scheduling.volcano.sh/v1beta1/queues", 200),
        ("/nothing", 404),
    ],
)
def test_an_answer_to_head_has_no_body_that_the_next_answer_could_be_mixed_up_with(
    server: Process, path: str, code: int
) -> None:
    host, port = server.url.removeprefix("https://").split(":")
    sent = f"Host: a\r\nAuthorization: Bearer {server.token}\r\n"
    with server.tls().wrap_socket(socket.create_connection((host, int(port))), server_hostname=host) as connection:
        connection.settimeout(SECONDS)
        connection.sendall(
            f"HEAD {path} HTTP/1.1\r\n{sent}\r\nGET /readyz HTTP/1.1\r\n{sent}Connection: close\r\n\r\n".encode()
        )
        answers = b"".join(iter(lambda: connection.recv(65536), b"")).decode()
    first, _, second = answers.partition("\r\n\r\n")
    assert first.startswith(f"HTTP/1.1 {code} ")
    assert second.startswith("HTTP/1.1 200 ")
    assert second.endswith("\r\n\r\nok")


@pytest.mark.slow
def test_the_official_python_client_works(server: Process) -> None:
    client = pytest.importorskip("kubernetes")
    api = client.config.new_client_from_config(str(server.kubeconfig))
    core = client.client.CoreV1Api(api)
    spec = {"containers": [{"name": "a", "image": "busybox"}]}
    pod = core.create_namespaced_pod("default", {"metadata": {"name": "from-python"}, "spec": spec})
    assert pod.status.phase == "Pending"
    assert pod.metadata.name in [each.metadata.name for each in core.list_pod_for_all_namespaces().items]
    patched = core.patch_namespaced_pod("from-python", "default", {"metadata": {"labels": {"a": "b"}}})
    assert patched.metadata.labels == {"a": "b"}
    watch = client.watch.Watch()
    revision = core.list_namespaced_pod("default").metadata.resource_version
    core.delete_namespaced_pod("from-python", "default")
    events = watch.stream(core.list_namespaced_pod, "default", resource_version=revision, timeout_seconds=5)
    event = next(iter(events))
    assert (event["type"], event["object"].metadata.name) == ("DELETED", "from-python")
    watch.stop()
    events.close()
    with pytest.raises(client.client.ApiException) as caught:
        core.read_namespaced_pod("from-python", "default")
    assert json.loads(caught.value.body)["reason"] == "NotFound"
    api.close()


def test_a_client_that_goes_away_is_forgotten(server: Process) -> None:
    async def begin_and_go() -> None:
        host, port = server.url.removeprefix("https://").split(":")
        reader, writer = await asyncio.open_connection(host, int(port), ssl=server.tls())
        writer.write(
            f"GET {PODS}?watch=true HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {server.token}\r\n\r\n".encode()
        )
        assert b"200 OK" in await reader.readuntil(b"\r\n\r\n")
        writer.transport.abort()

    asyncio.run(begin_and_go())
    spec = {"containers": [{"name": "a", "image": "busybox"}]}
    body = json.dumps({"metadata": {"name": "after"}, "spec": spec}).encode()
    assert server.ask("POST", PODS, body)[0] == 201
    assert server.ask("DELETE", f"{PODS}/after")[0] == 200


def watched(server: Process) -> float:
    """The number of watches of config maps."""
    lines = server.ask("GET", "/metrics")[1].decode().splitlines()
    wanted = 'apiserver_longrunning_requests{group="",resource="configmaps",verb="WATCH"} '
    return sum(float(line.removeprefix(wanted)) for line in lines if line.startswith(wanted))


def begin_watch(server: Process, token: str = "") -> ssl.SSLSocket:
    """A watch in which nothing happens, once it has started."""
    client = connected(server)
    head = f"GET {MAPS}?watch=1&resourceVersion=1 HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {token or server.token}"
    client.sendall(f"{head}\r\n\r\n".encode())
    assert client.recv(1000).startswith(b"HTTP/1.1 200")
    return client


def test_a_watch_without_events_ends_with_its_connection(server: Process) -> None:
    before = watched(server)
    clients = [begin_watch(server) for _ in range(5)]
    assert watched(server) == before + 5
    for client in clients:
        client.close()
    end = time.monotonic() + SECONDS
    while watched(server) > before:
        assert time.monotonic() < end
        time.sleep(0.05)


@pytest.mark.slow
def test_a_user_with_many_watches_locks_no_client_out(tmp_path: Path) -> None:
    with Process(tmp_path, descriptors=100) as server, ExitStack() as opened:
        accounts = "/api/v1/namespaces/default/serviceaccounts"
        bound = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "view"}
        subject = {"kind": "ServiceAccount", "name": "default", "namespace": "default"}
        body = {"metadata": {"name": "v"}, "roleRef": bound, "subjects": [subject]}
        path = "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings"
        assert server.ask("POST", path, json.dumps(body).encode())[0] == 201
        server.ask("POST", accounts, b'{"metadata":{"name":"default"}}')
        token = json.loads(server.ask("POST", f"{accounts}/default/token", b'{"spec":{}}')[1])["status"]["token"]
        own = opened.enter_context(begin_watch(server))
        for _ in range(120):
            opened.enter_context(begin_watch(server, token))
        assert server.ask("GET", MAPS)[0] == 200
        assert server.ask("POST", MAPS, b'{"metadata":{"name":"seen"}}')[0] == 201
        own.settimeout(SECONDS)
        text = b""
        while b'"name":"seen"' not in text:  # the watch of a user with one watch goes on
            part = own.recv(100_000)
            assert part
            text += part
        server.process.kill()
        server.process.communicate()


@pytest.mark.slow
def test_credentials_and_objects_are_there_again_after_a_restart(tmp_path: Path) -> None:
    body = json.dumps({"metadata": {"name": "kept"}, "data": {"a": "b"}}).encode()
    with Process(tmp_path) as first:
        made = json.loads(first.ask("POST", MAPS, body)[1])
        token, authority = first.token, first.authority
    with Process(tmp_path) as second:
        assert (second.token, second.authority) == (token, authority)
        assert json.loads(second.ask("GET", f"{MAPS}/kept")[1]) == made


@pytest.mark.slow
def test_it_ends_although_a_watch_is_open(tmp_path: Path) -> None:
    with Process(tmp_path, "--durability", "memory") as process:
        request = urllib.request.Request(process.url + f"{PODS}?watch=true&resourceVersion=1")
        request.add_header("Authorization", f"Bearer {process.token}")
        with urllib.request.urlopen(request, timeout=SECONDS, context=process.tls()) as stream:
            process.stop()
            assert stream.read() == b""


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (["--listen", "here"], 2, 'invalid address "here": use HOST:PORT, for example 127.0.0.1:6443'),
        (["--durability", "none"], 2, "'none' is not one of 'full', 'normal', 'memory'"),
    ],
)
def test_arguments_that_cannot_be_used_are_told(arguments: list[str], code: int, words: str) -> None:
    done = _run(*arguments)
    assert done.returncode == code
    assert words in done.stderr


@pytest.mark.slow
def test_a_port_in_use_and_a_folder_in_use_are_told(server: Process, tmp_path: Path) -> None:
    port = server.url.rpartition(":")[2]
    done = _run("--listen", f"127.0.0.1:{port}", "--data-dir", str(tmp_path))
    assert done.returncode == 1
    assert f"127.0.0.1:{port}: cannot listen" in done.stderr
    assert "choose another port with --listen" in done.stderr
    done = _run("--listen", "127.0.0.1:0", "--data-dir", str(server.folder / "data"))
    assert done.returncode == 1
    assert str(server.folder / "data" / "store") in done.stderr
    assert "Traceback" not in done.stderr


def _run(*arguments: str) -> subprocess.CompletedProcess[Any]:
    command = [sys.executable, "-m", "kilauea", "apiserver", *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=SECONDS, check=False, env=dict(os.environ))
