"""The API server's core without a transport, driven step by step: a loop, a clock and a seed of its own."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, Coroutine
from ipaddress import IPv4Network
from random import Random
from typing import Any, NamedTuple, TypeVar

from kilauea.apiserver.admission.chain import admission_steps
from kilauea.apiserver.backend import Backend
from kilauea.apiserver.core import ApiServer
from kilauea.apiserver.dynamic.admission import DynamicAdmission
from kilauea.apiserver.dynamic.remote import Remote
from kilauea.apiserver.request import GROUP_MASTERS, ApiResponse, User, WatchStream, make_request
from kilauea.apiserver.resources.builtin import builtin_types
from kilauea.apiserver.resources.registry import Registry
from kilauea.apiserver.server_state import SERVICE_RANGE
from kilauea.apiserver.storage import Retention
from support.first_writes import started_store

T = TypeVar("T")
ADMIN = User("admin", groups=(GROUP_MASTERS,))
PODS = "/api/v1/namespaces/default/pods"
MAPS = "/api/v1/namespaces/default/configmaps"
START = 1_700_000_000_000_000


class Answer(NamedTuple):
    """What came back: the code, the decoded body (or text), and the headers."""

    code: int
    body: Any
    headers: dict[str, str]


class Watch:
    """A watch whose events are taken one after another."""

    def __init__(self, api: Api, chunks: AsyncGenerator[bytes, None]) -> None:
        self._api = api
        self._chunks = chunks
        self._events: list[dict[str, Any]] = []

    def next(self, seconds: float = 2.0) -> dict[str, Any]:
        """The next event; fails the test if none comes."""
        while not self._events:
            chunk = self._api.run(asyncio.wait_for(anext(self._chunks), seconds))
            self._events += [json.loads(line) for line in chunk.splitlines()]
        return self._events.pop(0)

    def seen(self, count: int) -> list[tuple[str, str]]:
        """Type and name of the next events."""
        events = [self.next() for _ in range(count)]
        return [(event["type"], event["object"]["metadata"].get("name", "")) for event in events]

    def close(self) -> None:
        """End it."""
        self._api.run(self._chunks.aclose())


class Api:
    """An API in memory, with the namespaces of every cluster, whose time stands still until it is moved.

    With `volcano` it has the definitions of the Volcano kinds, too, which `Definitions` serves.
    """

    def __init__(
        self,
        retention: Retention | None = None,
        remote: Remote | None = None,
        service_range: IPv4Network = SERVICE_RANGE,
        *,
        volcano: bool = False,
    ) -> None:
        self.loop = asyncio.new_event_loop()
        self.now = START
        self.backend = Backend(
            started_store(self.loop, retention, service_range, volcano=volcano),
            Registry(builtin_types(loopback=service_range.is_loopback)),
            lambda: self.now,
            Random(7),
            admission_steps(),
            service_range=service_range,
        )
        self.backend.dynamic = DynamicAdmission(self.backend.store, remote)
        self.server = ApiServer(self.backend)

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """The result of a coroutine."""
        return self.loop.run_until_complete(work)

    def close(self) -> None:
        """End everything."""
        self.run(self.backend.store.close())
        self.loop.close()

    def ask(self, method: str, path: str, body: Any = None, *, user: User | None = ADMIN, **headers: str) -> Answer:
        """A request and its complete answer; headers are given with underscores."""
        sent = {"user-agent": "tester/1"} | {key.replace("_", "-"): value for key, value in headers.items()}
        data = body if isinstance(body, bytes) else b"" if body is None else json.dumps(body).encode()
        answer = self.run(self.server.handle(make_request(method, path, sent, data, user)))
        assert isinstance(answer, ApiResponse), "a stream"
        content = answer.body if isinstance(answer.body, bytes) else b"".join(answer.body)
        decoded = (
            json.loads(content) if content and answer.content_type.startswith("application/json") else content.decode()
        )
        return Answer(answer.status, decoded, dict(answer.headers))

    def good(self, method: str, path: str, body: Any = None, *, user: User | None = ADMIN, **headers: str) -> Any:
        """The body of an answer that must be a success."""
        answer = self.ask(method, path, body, user=user, **headers)
        assert answer.code in (200, 201), answer.body
        return answer.body

    def watch(self, path: str, **headers: str) -> Watch:
        """A watch, which must be granted."""
        joined = path + ("&" if "?" in path else "?") + "watch=true"
        answer = self.run(self.server.handle(make_request("GET", joined, headers, user=ADMIN)))
        assert isinstance(answer, WatchStream), answer
        return Watch(self, answer.chunks)

    def create_map(self, name: str, **data: str) -> Any:
        """A ConfigMap in the default namespace."""
        return self.good("POST", MAPS, {"metadata": {"name": name}, "data": data})

    def create_pod(self, name: str, labels: dict[str, str] | None = None, **spec: Any) -> Any:
        """A pod in the default namespace."""
        spec = {"containers": [{"name": "main", "image": "busybox:1"}], **spec}
        return self.good("POST", PODS, {"metadata": {"name": name, "labels": labels or {}}, "spec": spec})


def named(body: Any) -> list[str]:
    """The names of the items of a list."""
    return [item["metadata"]["name"] for item in body["items"]]


def causes(answer: Answer) -> list[tuple[str, str]]:
    """Field and reason of each cause."""
    return [(each["field"], each["reason"]) for each in answer.body["details"]["causes"]]
