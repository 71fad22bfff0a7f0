"""Connections to containers over HTTPS: who may open them, what is refused, and clients that misbehave."""

from __future__ import annotations

import asyncio
import json
import ssl
from collections.abc import Awaitable, Callable, Iterator
from typing import TypeVar

import aiohttp
import pytest

from kilauea.apiserver.request import User
from kilauea.apiserver.streams.sessions import Sessions
from kilauea.apiserver.streams.spdy.frames import FrameWriter
from support.served_pods import PODS, ServedPods, abort_connections

T = TypeVar("T")
RBAC = "/apis/rbac.authorization.k8s.io/v1/namespaces/default"
V5, TUNNEL = "v5.channel.k8s.io", "SPDY/3.1+portforward.k8s.io"
ECHO = "exec?stdout=true&command=echo&command=hi"
CAT = "exec?stdin=true&stdout=true&command=cat"


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServedPods]:
    users = {"reader-token": User("reader"), "runner-token": User("runner")}
    with ServedPods(tmp_path_factory.mktemp("served"), users) as made:
        made.run_pod("a", "sleep", "10000")
        for user, verbs in (("reader", ["get"]), ("runner", ["get", "create"])):
            rules = [{"apiGroups": [""], "resources": ["pods/exec"], "verbs": verbs}]
            made.ask("POST", f"{RBAC}/roles", {"metadata": {"name": user}, "rules": rules})
            role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": user}
            subject = {"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": user}
            body = {"metadata": {"name": user}, "roleRef": role, "subjects": [subject]}
            made.ask("POST", f"{RBAC}/rolebindings", body)
        yield made


class Client:
    """Requests of a user."""

    def __init__(self, served: ServedPods, session: aiohttp.ClientSession, token: str) -> None:
        self._served = served
        self._session = session
        self._headers = {"Authorization": f"Bearer {token or served.token}"}

    async def get(self, path: str, **headers: str) -> tuple[int, str]:
        """Code and message of an answer."""
        sent = self._headers | {key.replace("_", "-"): value for key, value in headers.items()}
        async with self._session.get(f"{self._served.url}{PODS}/{path}", headers=sent) as answer:
            return answer.status, json.loads(await answer.read())["message"]

    async def open(self, path: str, protocol: str = V5) -> aiohttp.ClientWebSocketResponse:
        """A WebSocket."""
        url = f"{self._served.url}{PODS}/{path}"
        return await self._session.ws_connect(url, protocols=(protocol,), headers=self._headers)

    async def code(self, path: str, protocol: str = V5) -> int:
        """The code with which a WebSocket is refused; 101 for one that is not."""
        try:
            socket = await self.open(path, protocol)
        except aiohttp.WSServerHandshakeError as refusal:
            return refusal.status
        await socket.close()
        return 101


def play(served: ServedPods, story: Callable[[Client], Awaitable[T]], token: str = "") -> T:
    """Do something as a client."""

    async def run() -> T:
        tls = aiohttp.TCPConnector(ssl=ssl.create_default_context(cadata=served.authority))
        async with aiohttp.ClientSession(connector=tls) as session:
            found = await asyncio.wait_for(story(Client(served, session, token)), 60)
        await abort_connections()
        return found

    return asyncio.run(run())


async def output(socket: aiohttp.ClientWebSocketResponse) -> bytes:
    """All that a command prints."""
    found = b""
    async for message in socket:
        if message.data[0] == 1:
            found += message.data[1:]
    return found


UPGRADE = {"Connection": "Upgrade", "Upgrade": "websocket", "Sec_WebSocket_Protocol": "v9.channel.k8s.io"}


@pytest.mark.parametrize(
    ("path", "headers", "code", "message"),
    [
        (f"a/{ECHO}", {}, 400, "Upgrade request required"),
        (f"a/{ECHO}", {"Connection": "Upgrade", "Upgrade": "h2c"}, 400, "Upgrade request required"),
        (f"a/{ECHO}", UPGRADE, 403, "unable to upgrade: requested protocol(s) are not supported: [v9.channel.k8s.io]"),
        ("a/exec?command=ls", {}, 400, "you must specify at least 1 of stdin, stdout, stderr"),
        ("a/exec?stdout=true", {}, 400, "you must specify at least one command for the container"),
        ("a/exec?stdout=true&command=ls&container=b", {}, 400, "container b is not valid for pod a"),
        ("a/portforward", UPGRADE | {"Sec_WebSocket_Protocol": "v4.channel.k8s.io"}, 400, '"ports" is required'),
        ("a/portforward?ports=x", UPGRADE | {"Sec_WebSocket_Protocol": "v4.channel.k8s.io"}, 400, '"x" as a port'),
        (f"none/{ECHO}", {}, 404, 'pods "none" not found'),
        (f"waits/{ECHO}", {}, 400, "pod waits does not have a host assigned"),
        (f"elsewhere/{ECHO}", {}, 400, "pod default/elsewhere is simulated"),
        (f"ended/{ECHO}", {}, 500, 'container not found ("main")'),
        ("ended/attach?stdout=true", {}, 500, 'container not found ("main")'),
        ("ended/portforward", {}, 500, 'pod not found ("ended_default")'),
    ],
)
def test_what_cannot_be_connected_is_told(
    served: ServedPods, path: str, headers: dict[str, str], code: int, message: str
) -> None:
    name = path.partition("/")[0]
    containers = [{"name": "main", "image": "host", "command": ["true"]}]
    if name in ("waits", "elsewhere") and served.is_absent(name):
        spec = {"containers": containers, **({"nodeName": "another"} if name == "elsewhere" else {})}
        served.ask("POST", PODS, {"metadata": {"name": name}, "spec": spec})
    if name == "ended" and served.is_absent(name):
        served.run_pod("ended", "true")
        served.until_ended("ended")
    found = play(served, lambda client: client.get(path, **headers))
    assert found[0] == code
    assert message in found[1]


def test_a_websocket_needs_the_right_to_create(served: ServedPods) -> None:
    code, message = play(served, lambda client: client.get(f"a/{ECHO}"), "reader-token")
    assert code == 403
    assert 'User "reader" cannot create resource "pods/exec" in API group "" in the namespace "default"' in message
    assert play(served, lambda client: client.code(f"a/{ECHO}"), "runner-token") == 101
    assert play(served, lambda client: client.code("a/attach?stdout=true"), "runner-token") == 403


def test_there_are_only_so_many_connections_and_an_end_makes_room(served: ServedPods) -> None:
    served.backend.sessions = Sessions(most=3, most_of_tenant=2)

    async def story(client: Client) -> None:
        first, second = await client.open(f"a/{CAT}"), await client.open(f"a/{CAT}")
        code, message = await client.get(f"a/{ECHO}", **UPGRADE | {"Sec_WebSocket_Protocol": V5})
        assert (code, message) == (
            429,
            "user kubernetes-admin has 2 connections to containers, which is the limit; end some of them first",
        )
        await first.send_bytes(b"\x00still here")
        while (content := await first.receive_bytes()) == b"\x01":
            pass
        assert content == b"\x01still here"
        await second.close()
        while await client.code(f"a/{ECHO}") == 429:
            await asyncio.sleep(0.05)
        await first.close()

    try:
        play(served, story)
    finally:
        served.backend.sessions = Sessions()


def test_a_command_ends_when_its_client_vanishes(served: ServedPods) -> None:
    async def story(client: Client) -> None:
        socket = await client.open("a/exec?stdout=true&command=sh&command=-c&command=echo started; sleep 10000")
        while await socket.receive_bytes() != b"\x01started\n":
            pass
        socket._response.connection.transport.abort()  # type: ignore[union-attr]

    play(served, story)
    assert served.wait_for_last_command() == -9


@pytest.mark.slow
def test_a_connection_outlasts_the_time_of_a_request(served: ServedPods, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kilauea.apiserver.http.transport.REQUEST_SECONDS", 0.1)

    async def story(client: Client) -> bytes:
        return await output(await client.open("a/exec?stdout=true&command=sh&command=-c&command=sleep 3; echo done"))

    assert play(served, story) == b"done\n"


@pytest.mark.parametrize("garbage", [b"\xff" * 100, b"\x82\xff" + b"\xff" * 8, b"GET / HTTP/1.1\r\n\r\n"])
def test_garbage_ends_one_connection_and_no_other(served: ServedPods, garbage: bytes) -> None:
    async def story(client: Client) -> bytes:
        socket = await client.open(f"a/{CAT}")
        socket._response.connection.transport.write(garbage)  # type: ignore[union-attr]
        while not socket.closed:
            await socket.receive()
        return await output(await client.open(f"a/{ECHO}"))

    assert play(served, story) == b"hi\n"


def test_a_tunnel_of_nonsense_is_closed(served: ServedPods) -> None:
    async def story(client: Client) -> None:
        socket = await client.open("a/portforward", TUNNEL)
        await socket.send_bytes(FrameWriter().opened(1, {"streamtype": "data", "port": "nonsense"}))
        refused = await socket.receive_bytes()
        assert refused[:4] == b"\x80\x03\x00\x03"
        await socket.send_bytes(b"\xff" * 50)
        while not socket.closed:
            await socket.receive()

    play(served, story)


def test_the_server_ends_with_its_connections(tmp_path_factory: pytest.TempPathFactory) -> None:
    with ServedPods(tmp_path_factory.mktemp("another")) as made:
        made.run_pod("a", "sleep", "10000")

        async def story(client: Client) -> None:
            socket = await client.open(f"a/{CAT}")
            await socket.receive_bytes()
            closing = asyncio.ensure_future(asyncio.to_thread(made.close_transport))
            while not socket.closed:
                await socket.receive()
            await closing

        play(made, story)
