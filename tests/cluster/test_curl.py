"""curl and bare sockets against the server: who is let in, and what becomes of requests that are wrong or cut off."""

from __future__ import annotations

import json
import re
import shutil
import socket
import ssl
import stat
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from cluster.api_process import Client, Server

MEGABYTE = 1 << 20

pytestmark = pytest.mark.skipif(not (shutil.which("curl") and shutil.which("openssl")), reason="needs curl and openssl")


def curl(server: Server, path: str, *options: str, token: str | None = "") -> tuple[int, str]:
    """Code and body of a request; the administrator's token unless another is given, none for None."""
    authorization = [] if token is None else ["-H", f"Authorization: Bearer {token or server.token}"]
    command = ["curl", "--silent", "--show-error", "--globoff", "--cacert", str(server.authority), "--max-time", "30"]
    command += ["--write-out", r"\n%{http_code}", *authorization, *options, server.url + path]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    body, _, code = done.stdout.rpartition("\n")
    return int(code), body


def reason(body: str) -> str:
    """The reason of a `metav1.Status`."""
    status = json.loads(body)
    assert (status["kind"], status["status"]) == ("Status", "Failure")
    return str(status["reason"])


@pytest.fixture(scope="module", autouse=True)
def _survives(server: Server) -> Iterator[None]:
    """After all that this file does, the server answers and is not much larger."""
    before = server.memory()
    yield
    assert server.process.poll() is None
    assert server.client().get("/api/v1/namespaces")["items"]
    assert server.memory() - before < 150 * MEGABYTE


# --- who is let in


@pytest.mark.parametrize("path", ["/api/v1/pods", "/apis", "/api", "/openapi/v2", "/metrics", "/nothing", "/"])
@pytest.mark.parametrize("token", [None, "wrong"])
def test_no_one_without_a_good_token_gets_an_answer(server: Server, path: str, token: str | None) -> None:
    code, body = curl(server, path, token=token)
    assert (code, reason(body)) == (401, "Unauthorized")


@pytest.mark.parametrize("path", ["/healthz", "/livez", "/readyz", "/version"])
def test_health_and_version_are_public(server: Server, path: str) -> None:
    assert curl(server, path, token=None)[0] == 200


@pytest.mark.parametrize("header", ["Basic YTpi", "Bearer", "Bearer ", "bearer", "Bearer a b", "\x07"])
def test_a_header_that_is_no_token_is_no_one(server: Server, header: str) -> None:
    code, _ = curl(server, "/api/v1/pods", "-H", f"Authorization: {header}", token=None)
    assert code in (400, 401)


def test_the_certificate_of_the_administrator_is_good_without_a_token(server: Server) -> None:
    folder = server.data_dir / "credentials"
    options = ["--cert", str(folder / "admin.crt"), "--key", str(folder / "admin.key")]
    assert curl(server, "/api/v1/pods", *options, token=None)[0] == 200


def test_a_certificate_of_another_authority_is_refused(server: Server, tmp_path: Path) -> None:
    key, certificate = tmp_path / "key", tmp_path / "crt"
    subject = "/O=system:masters/CN=kubernetes-admin"
    command = [
        "openssl",
        "req",
        "-x509",
        "-newkey",
        "ec",
        "-pkeyopt",
        "ec_paramgen_curve:P-256",
        "-nodes",
        "-days",
        "1",
    ]
    command += ["-subj", subject, "-keyout", str(key), "-out", str(certificate)]
    subprocess.run(command, check=True, capture_output=True)
    command = ["curl", "--silent", "--cacert", str(server.authority), "--cert", str(certificate), "--key", str(key)]
    done = subprocess.run([*command, server.url + "/api/v1/pods"], capture_output=True, text=True, check=False)
    assert done.returncode != 0
    assert done.stdout == ""


def test_the_server_is_not_trusted_without_its_authority(server: Server) -> None:
    assert subprocess.run(["curl", "--silent", server.url], capture_output=True, check=False).returncode == 60


def test_plain_http_gets_nothing(server: Server) -> None:
    done = subprocess.run(
        ["curl", "--silent", "--max-time", "10", server.url.replace("https", "http") + "/api"],
        capture_output=True,
        check=False,
    )
    assert done.returncode != 0
    assert b"versions" not in done.stdout


def test_secrets_are_readable_by_the_owner_only(server: Server) -> None:
    open_to_others = [
        str(path.relative_to(server.data_dir))
        for path in server.data_dir.rglob("*")
        if path.is_file() and stat.S_IMODE(path.stat().st_mode) & 0o077
    ]
    assert open_to_others == []
    assert server.token not in server.log.read_text()


# --- what is wrong with a request

CONFIG_MAPS = "/api/v1/namespaces/default/configmaps"


@pytest.mark.parametrize(
    ("method", "path", "code"),
    [
        ("GET", "/no/such/path", 404),
        ("GET", "/api/v2/pods", 404),
        ("GET", "/apis/no.group/v1/things", 404),
        ("GET", "/api/v1/nothings", 404),
        ("GET", "/api/v1/namespaces/default/pods/p/nothing", 404),
        ("GET", "/api/v1/namespaces/default/nodes", 404),
        ("POST", "/api/v1/namespaces/default/pods/p", 405),
        ("PUT", CONFIG_MAPS, 405),
        ("PATCH", CONFIG_MAPS, 405),
        ("DELETE", "/api/v1/namespaces", 405),
        ("POST", "/api/v1/pods", 405),
        ("BREW", CONFIG_MAPS, 405),  # no method of HTTP
        ("OPTIONS", CONFIG_MAPS, 405),
        ("TRACE", CONFIG_MAPS, 405),
        ("HEAD", "/version", 405),
        ("GET", "/api/v1/namespaces/default/configmaps/%2e%2e%2f%2e%2e", 404),
        ("GET", "/api/v1/namespaces/default/configmaps/a%00b", 404),
        ("GET", "/api/v1/namespaces//configmaps/a", 404),
        ("GET", "/api/v1/namespaces/default/configmaps/%ff%fe", 404),
    ],
)
def test_a_path_or_method_that_is_not_served_is_told(server: Server, method: str, path: str, code: int) -> None:
    method_options = ["--head"] if method == "HEAD" else ["-X", method]
    assert curl(server, path, "--path-as-is", *method_options)[0] == code


@pytest.mark.parametrize(
    ("content_type", "body", "code", "expected"),
    [
        ("application/json", "{", 400, "BadRequest"),
        ("application/json", "", 400, "BadRequest"),
        ("application/json", "null", 422, "Invalid"),
        ("application/json", "[]", 400, "BadRequest"),
        ("application/json", "3", 400, "BadRequest"),
        ("application/json", '"text"', 400, "BadRequest"),
        ("application/json", '{"metadata": 3}', 400, "BadRequest"),
        ("application/json", '{"metadata": {"name": 3}}', 400, "BadRequest"),
        ("application/json", '{"metadata": {"name": "a"}, "data": [1]}', 400, "BadRequest"),
        ("application/json", '{"kind": "Pod", "apiVersion": "v1", "metadata": {"name": "a"}}', 400, "BadRequest"),
        ("application/json", '{"kind": "ConfigMap", "apiVersion": "v9", "metadata": {"name": "a"}}', 400, "BadRequest"),
        ("application/json", "[" * 100_000, 400, "BadRequest"),
        ("application/json", '{"a":' * 100_000, 400, "BadRequest"),
        ("application/json", '{"metadata": {"name": "a", "labels": {"a": "\\ud800"}}}', None, ""),
        ("application/yaml", "a: [", 400, "BadRequest"),
        ("application/yaml", "- a", 400, "BadRequest"),
        ("application/yaml", "&a [*a]", 400, "BadRequest"),
        ("application/yaml", "!!python/object/apply:os.system [true]", 400, "BadRequest"),
        ("application/vnd.kubernetes.protobuf", "k8s\x01", 400, "BadRequest"),
        ("text/plain", "{}", 415, "UnsupportedMediaType"),
        ("application/xml", "<a/>", 415, "UnsupportedMediaType"),
        ("nonsense", "{}", 415, "UnsupportedMediaType"),
    ],
)
def test_a_body_that_cannot_be_read_is_refused(
    server: Server, content_type: str, body: str, code: int | None, expected: str, tmp_path: Path
) -> None:
    file = tmp_path / "body"
    file.write_text(body)
    options = ["-H", f"Content-Type: {content_type}", "--data-binary", f"@{file}"]
    got, answer = curl(server, CONFIG_MAPS + "?dryRun=All", *options)
    if code is None:
        assert got < 500
    else:
        assert (got, reason(answer)) == (code, expected)


def test_a_yaml_bomb_is_refused_before_it_grows(server: Server, tmp_path: Path) -> None:
    lines = ["apiVersion: v1", "kind: ConfigMap", "a0: &a0 [x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]" for n in range(1, 12)]
    file = tmp_path / "body"
    file.write_text("\n".join(lines))
    options = ["-H", "Content-Type: application/yaml", "--data-binary", f"@{file}"]
    code, answer = curl(server, CONFIG_MAPS, *options)
    assert (code, reason(answer)) == (400, "BadRequest")


@pytest.mark.parametrize("chunked", [False, True])
def test_a_body_over_three_megabytes_is_too_large(server: Server, tmp_path: Path, chunked: bool) -> None:
    body = {"metadata": {"name": "big"}, "data": {"a": "x" * (3 * MEGABYTE)}}
    file = tmp_path / "body"
    file.write_text(json.dumps(body))
    options = ["-H", "Content-Type: application/json", "--data-binary", f"@{file}"]
    code, answer = curl(server, CONFIG_MAPS, *options, *(["-H", "Transfer-Encoding: chunked"] if chunked else []))
    assert (code, reason(answer)) == (413, "RequestEntityTooLarge")


def test_an_answer_form_that_is_not_spoken_is_refused(server: Server) -> None:
    code, answer = curl(server, CONFIG_MAPS, "-H", "Accept: text/csv")
    assert (code, reason(answer)) == (406, "NotAcceptable")


@pytest.mark.parametrize(
    "query",
    [
        "limit=x",
        "resourceVersion=-1",
        "resourceVersion=x",
        "continue=%00",
        "labelSelector=a%20b",
        "fieldSelector=nonsense",
        "watch=true&timeoutSeconds=x",
        "labelSelector=" + "(" * 3000,
        "labelSelector=a%20in%20(" + "x," * 3000 + ")%20b",
    ],
)
def test_a_query_that_means_nothing_is_refused(server: Server, query: str) -> None:
    code, answer = curl(server, f"{CONFIG_MAPS}?{query}")
    assert (code, reason(answer)) == (400, "BadRequest")


def test_a_resource_version_of_the_future_is_too_large(server: Server) -> None:
    code, answer = curl(server, f"{CONFIG_MAPS}?resourceVersion=99999999999")
    assert (code, reason(answer)) == (504, "Timeout")


def test_a_selector_of_many_terms_is_answered(server: Server) -> None:
    terms = ",".join(f"k{n}!=v" for n in range(5000))
    assert curl(server, f"{CONFIG_MAPS}?labelSelector={terms}")[0] == 200


def test_a_huge_value_in_a_query_is_refused(server: Server) -> None:
    code, answer = curl(server, f"{CONFIG_MAPS}?labelSelector={'a' * 60_000}")
    assert (code, reason(answer)) == (400, "BadRequest")


# --- connections that are not kept as they should be


def connect(server: Server) -> ssl.SSLSocket:
    """A connection of TLS, nothing sent."""
    host, port = re.fullmatch(r"https://(.*):(\d+)", server.url).groups()  # type: ignore[union-attr]
    context = ssl.create_default_context(cafile=str(server.authority))
    return context.wrap_socket(socket.create_connection((host, int(port)), timeout=30), server_hostname=host)


def head(server: Server, line: str, *headers: str) -> bytes:
    """The head of a request of the administrator."""
    return "\r\n".join([line, "Host: x", f"Authorization: Bearer {server.token}", *headers, "", ""]).encode()


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"\0" * 1000,
        b"GET",
        b"GET / HTTP/9.9\r\n\r\n",
        b"GET /api HTTP/1.1\r\nContent-Length: x\r\n\r\n",
        b"A" * 100_000,
        b"GET /api?a=" + b"a" * 4 * MEGABYTE,
        b"GET /api HTTP/1.1\r\nX-Long: " + b"a" * 4 * MEGABYTE,
    ],
)
def test_what_is_no_request_ends_the_connection(server: Server, content: bytes) -> None:
    with connect(server) as connection:
        connection.settimeout(10)
        try:
            connection.sendall(content)
            if content in (b"", b"GET"):
                return  # cut off by us
            assert re.match(rb"HTTP/1\.[01] 4|$", connection.recv(65536))
        except (BrokenPipeError, ConnectionResetError, ssl.SSLError):
            return  # refused before all was sent


def test_a_body_that_is_never_finished_creates_nothing(server: Server, client: Client) -> None:
    body = json.dumps({"metadata": {"name": "unfinished"}}).encode()
    with connect(server) as connection:
        length = f"Content-Length: {len(body) + 10}"
        connection.sendall(
            head(server, f"POST {CONFIG_MAPS} HTTP/1.1", "Content-Type: application/json", length) + body
        )
    assert client.send("GET", f"{CONFIG_MAPS}/unfinished").code == 404


def test_a_client_that_says_no_more_still_gets_its_answer(server: Server) -> None:
    with connect(server) as connection:
        connection.sendall(head(server, f"GET {CONFIG_MAPS} HTTP/1.1", "Connection: close"))
        received = b""
        while chunk := connection.recv(65536):
            received += chunk
        assert b"ConfigMapList" in received


def test_hundreds_of_idle_connections_do_not_keep_others_out(server: Server, client: Client) -> None:
    connections = [connect(server) for _ in range(200)]
    try:
        assert client.get("/api/v1/namespaces")["items"]
    finally:
        for each in connections:
            each.close()


def test_a_watcher_that_takes_nothing_is_not_buffered_for(server: Server, client: Client, namespace: str) -> None:
    """40 MB of events for each of 5 watchers that never read: memory stays bounded, and another watcher is not hurt."""
    path = f"/api/v1/namespaces/{namespace}/configmaps"
    version = client.get(path)["metadata"]["resourceVersion"]
    lazy = [connect(server) for _ in range(5)]
    for each in lazy:
        each.sendall(head(server, f"GET {path}?watch=true&resourceVersion={version} HTTP/1.1"))
    before = server.memory()
    for number in range(200):
        body = {"metadata": {"name": "big"}, "data": {"n": str(number), "a": "x" * 200_000}}
        answer = client.send("POST" if number == 0 else "PUT", path if number == 0 else f"{path}/big", body)
        assert answer.code in (200, 201)
    assert server.memory() - before < 150 * MEGABYTE
    versions = []
    for event in client.watch(f"{path}?watch=true&timeoutSeconds=30&resourceVersion={version}"):
        if event["type"] == "ERROR":
            assert event["object"]["code"] == 410
            break
        versions.append(int(event["object"]["metadata"]["resourceVersion"]))
        if event["object"].get("data", {}).get("n") == "199":
            break
    assert versions == sorted(set(versions))
    for each in lazy:
        each.close()
    assert client.send("DELETE", f"{path}/big").code == 200


def test_watches_that_are_cut_off_leave_nothing_behind(server: Server, client: Client) -> None:
    for _ in range(100):
        with connect(server) as connection:
            connection.sendall(head(server, f"GET {CONFIG_MAPS}?watch=true HTTP/1.1"))
            connection.recv(100)
    assert client.send("POST", CONFIG_MAPS, {"metadata": {"name": "after"}}).code == 201
    assert client.send("DELETE", f"{CONFIG_MAPS}/after").code == 200
    deadline = time.monotonic() + 20
    while (count := open_connections(server)) > 40:
        assert time.monotonic() < deadline, f"{count} connections are still open"
        time.sleep(0.1)


def open_connections(server: Server) -> int:
    """How many files and sockets the process holds."""
    return len(list(Path(f"/proc/{server.process.pid}/fd").iterdir()))
