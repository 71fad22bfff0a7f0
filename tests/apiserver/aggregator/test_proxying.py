"""Requests that are handed on to the API server of an APIService."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest
from aiohttp import web

from kilauea.apiserver.aggregator import proxying
from kilauea.apiserver.request import ApiResponse, TextStream, Tunnel, User, make_request
from support.aggregated_server import API_SERVICES, PATH, AggregatedServer, Aggregation, api_service
from support.api_core import ADMIN

FLUNDERS = f"{PATH}/namespaces/default/flunders"
FORGED = {
    "x-remote-user": "root",
    "x-remote-group": "system:masters",
    "x-remote-extra-a": "b",
    "authorization": "Bearer secret",
    "accept": "a/b",
}
ANNA = User("anna", "7", ("staff", "system:authenticated"), {"example.com/Team": ("blue", "red")})


def ask(
    behind: Aggregation, method: str, target: str, body: bytes = b"", user: User = ADMIN, **headers: str
) -> tuple[int, bytes, dict[str, str]]:
    """Code, body and headers of an answer."""

    async def answered() -> tuple[int, bytes, dict[str, str]]:
        sent = {name.replace("_", "-"): value for name, value in headers.items()}
        answer = await behind.api.server.handle(make_request(method, target, sent, body, user))
        if isinstance(answer, TextStream):
            content = b"".join([part async for part in answer.chunks])
        else:
            assert isinstance(answer, ApiResponse)
            assert isinstance(answer.body, bytes)
            content = answer.body
        return answer.status, content, {**dict(answer.headers), "content-type": answer.content_type}

    return behind.api.run(answered())


def allow(behind: Aggregation, *verbs: str) -> None:
    """Allow the group `staff` to do something with flunders."""
    rules = [{"apiGroups": ["wardle.example.com"], "resources": ["flunders"], "verbs": list(verbs)}]
    roles = "/apis/rbac.authorization.k8s.io/v1"
    behind.api.good("POST", f"{roles}/clusterroles", {"metadata": {"name": "flunders"}, "rules": rules})
    reference = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "flunders"}
    subjects = [{"apiGroup": "rbac.authorization.k8s.io", "kind": "Group", "name": "staff"}]
    binding = {"metadata": {"name": "flunders"}, "roleRef": reference, "subjects": subjects}
    behind.api.good("POST", f"{roles}/clusterrolebindings", binding)


def test_method_path_query_and_body_reach_the_server(behind: Aggregation, server: AggregatedServer) -> None:
    behind.register(server)
    for method in ("GET", "POST", "PUT", "PATCH", "DELETE"):
        body = b"" if method == "GET" else b'{"kind":"Flunder"}'
        code, content, _ = ask(behind, method, f"{FLUNDERS}/a%20b?labelSelector=a%3Db&x=1%262", body)
        echo = json.loads(content)
        assert (code, echo["body"]) == (200, body.decode())
        assert echo["path"] == f"{FLUNDERS}/a%20b?labelSelector=a%3Db&x=1%262"
        assert server.requests[-1][0] == method


def test_the_server_is_told_who_asks_and_gets_no_credentials(behind: Aggregation, server: AggregatedServer) -> None:
    behind.register(server)
    allow(behind, "list")
    forged = make_request("GET", FLUNDERS, FORGED, user=ANNA)
    answer = behind.api.run(behind.api.server.handle(forged))
    assert isinstance(answer, TextStream)
    code = answer.status
    behind.api.run(answer.chunks.aclose())
    assert code == 200
    headers = server.requests[-1][2]
    about = [each for each in headers if each[0].startswith(("x-remote", "authorization", "impersonate"))]
    assert about == [
        ("x-remote-user", "anna"),
        ("x-remote-uid", "7"),
        ("x-remote-group", "staff"),
        ("x-remote-group", "system:authenticated"),
        ("x-remote-extra-example.com%2fteam", "blue"),
        ("x-remote-extra-example.com%2fteam", "red"),
    ]
    assert ("accept", "a/b") in headers
    assert set(server.clients) == {"front-proxy-client"}


def test_who_acts_as_someone_else_is_that_user(behind: Aggregation, server: AggregatedServer) -> None:
    behind.register(server)
    allow(behind, "list")
    assert ask(behind, "GET", FLUNDERS, impersonate_user="anna", impersonate_group="staff")[0] == 200
    headers = server.requests[-1][2]
    assert ("x-remote-user", "anna") in headers
    assert not [name for name, _ in headers if name.startswith("impersonate")]


def test_rights_are_checked_before_the_server_is_asked(behind: Aggregation, server: AggregatedServer) -> None:
    behind.register(server)
    allow(behind, "list")
    before = len(server.requests)
    code, content, _ = ask(behind, "DELETE", f"{FLUNDERS}/a", user=ANNA)
    assert code == 403
    assert json.loads(content)["message"] == (
        'flunders.wardle.example.com "a" is forbidden: User "anna" cannot delete resource "flunders" in API group '
        '"wardle.example.com" in the namespace "default"'
    )
    assert len(server.requests) == before


def test_an_answer_keeps_its_code_and_headers(behind: Aggregation, server: AggregatedServer) -> None:
    async def teapot(request: web.Request) -> web.StreamResponse:
        headers = {"Warning": '299 - "x"', "Access-Control-Allow-Origin": "*", "Content-Type": "a/b"}
        return web.Response(status=418, headers=headers, body=b"short")

    server.handlers[FLUNDERS] = teapot
    behind.register(server)
    code, content, headers = ask(behind, "GET", FLUNDERS)
    assert (code, content, headers["content-type"], headers["warning"]) == (418, b"short", "a/b", '299 - "x"')
    assert "access-control-allow-origin" not in headers
    code, content, headers = ask(behind, "HEAD", FLUNDERS)
    assert (code, content, headers["content-type"]) == (418, b"", "a/b")


def test_redirects_are_refused(behind: Aggregation, server: AggregatedServer) -> None:
    async def moved(request: web.Request) -> web.StreamResponse:
        return web.Response(status=302, headers={"Location": "https://169.254.169.254/secret"})

    server.handlers[FLUNDERS] = moved
    behind.register(server)
    code, content, headers = ask(behind, "GET", FLUNDERS)
    assert (code, content) == (502, b"the backend attempted to redirect this request, which is not permitted")
    assert "location" not in headers


def test_a_watch_comes_as_it_is_sent(behind: Aggregation, server: AggregatedServer) -> None:
    more = asyncio.Event()

    async def watch(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Type": "application/json"})
        await response.prepare(request)
        await response.write(b'{"type":"ADDED"}\n')
        await more.wait()
        await response.write(b'{"type":"DELETED"}\n')
        return response

    server.handlers[FLUNDERS] = watch
    behind.register(server)
    answer = behind.api.run(behind.api.server.handle(make_request("GET", f"{FLUNDERS}?watch=1", {}, user=ADMIN)))
    assert isinstance(answer, TextStream)
    chunks: Any = answer.chunks
    assert behind.api.run(anext(chunks)) == b'{"type":"ADDED"}\n'
    server.call(more.set)
    assert behind.api.run(anext(chunks)) == b'{"type":"DELETED"}\n'
    behind.api.run(chunks.aclose())
    assert behind.open_connections() == 0


def test_an_answer_that_was_never_read_ends_its_connection(behind: Aggregation, server: AggregatedServer) -> None:
    behind.register(server)
    answer = behind.api.run(behind.api.server.handle(make_request("GET", FLUNDERS, {}, user=ADMIN)))
    assert isinstance(answer, TextStream)
    assert behind.open_connections() == 1
    behind.api.run(answer.chunks.aclose())
    assert behind.open_connections() == 0


def test_a_server_that_is_away_is_told_in_the_words_of_kubernetes(
    behind: Aggregation, server: AggregatedServer
) -> None:
    behind.register(server)
    server.stop_listening()
    code, content, headers = ask(behind, "GET", FLUNDERS)
    words = f"error trying to reach service: dial tcp 127.0.0.1:{server.port}: connect: connection refused"
    assert (code, content.decode()) == (503, words)
    assert headers["content-type"] == "text/plain; charset=utf-8"
    behind.wait("False", "FailedDiscoveryCheck")
    assert ask(behind, "GET", FLUNDERS)[:2] == (503, b"service unavailable\n")


def test_one_tenant_can_have_only_so_many_connections(behind: Aggregation, server: AggregatedServer) -> None:
    behind.register(server)
    service = behind.aggregator.services["wardle.example.com", "v1alpha1"]
    sessions = behind.aggregator.sessions(service)
    for _ in range(128):
        sessions.begin(ADMIN)
    code, content, _ = ask(behind, "GET", FLUNDERS)
    assert (code, json.loads(content)["reason"]) == (429, "TooManyRequests")
    allow(behind, "list")
    assert ask(behind, "GET", FLUNDERS, user=ANNA)[0] == 200


def test_paths_that_lead_elsewhere_are_not_handed_on(behind: Aggregation, server: AggregatedServer) -> None:
    behind.register(server)
    before = len(server.requests)
    assert ask(behind, "GET", f"{FLUNDERS}/a/%2E%2E/%2E%2E/secrets")[0] == 404
    assert len(server.requests) == before


def test_an_answer_that_does_not_end_is_cut_off(
    behind: Aggregation, server: AggregatedServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(proxying, "ANSWER_SECONDS", 0.2)

    async def slow(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        await response.write(b"some")
        await asyncio.sleep(60)
        return response

    server.handlers[FLUNDERS] = slow
    behind.register(server)
    with pytest.raises(ConnectionResetError):
        ask(behind, "GET", FLUNDERS)
    assert behind.open_connections() == 0


def test_another_protocol_is_agreed_on_with_the_server(behind: Aggregation, server: AggregatedServer) -> None:
    async def talk(request: web.Request) -> web.StreamResponse:
        socket = web.WebSocketResponse(protocols=("v5.channel.k8s.io",))
        await socket.prepare(request)
        async for message in socket:
            await socket.send_bytes(message.data)
        return socket

    server.handlers[f"{FLUNDERS}/a/exec"] = talk
    behind.register(server)
    headers = {
        "connection": "Upgrade", "upgrade": "websocket", "sec-websocket-version": "13",
        "sec-websocket-key": "dGhlIHNhbXBsZSBub25jZQ==", "sec-websocket-protocol": "v5.channel.k8s.io",
    }  # fmt: skip
    asked = make_request("GET", f"{FLUNDERS}/a/exec?command=ls", headers, user=ADMIN)
    answer = behind.api.run(behind.api.server.handle(asked))
    assert isinstance(answer, Tunnel)
    assert ("sec-websocket-protocol", "v5.channel.k8s.io") in answer.head
    assert behind.open_connections() == 1
    behind.api.run(answer.connection.write(bytes([0x82, 0x82, 0, 0, 0, 0]) + b"hi"))
    assert behind.api.run(answer.connection.read()) == bytes([0x82, 0x02]) + b"hi"
    behind.api.run(answer.connection.close())
    assert behind.open_connections() == 0


@pytest.mark.parametrize("role", ["admin", "edit", "view"])
def test_rights_in_a_namespace_do_not_allow_api_services(
    behind: Aggregation, server: AggregatedServer, role: str
) -> None:
    reference = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": role}
    subjects = [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "anna"}]
    binding = {"metadata": {"name": "anna"}, "roleRef": reference, "subjects": subjects}
    bindings = "/apis/rbac.authorization.k8s.io/v1/namespaces/default/rolebindings"
    behind.api.good("POST", bindings, binding)
    assert behind.api.ask("POST", API_SERVICES, api_service(server.bundle), user=ANNA).code == 403
    assert behind.aggregator.services == {}
