"""Clients of all kinds that visit a server in the same process now and then, under any clock, for `bench_soak.py`."""

from __future__ import annotations

import asyncio
import json
import urllib.parse
from collections.abc import Callable
from contextlib import aclosing
from typing import Any

from kilauea.api.ports import Clock
from kilauea.apiserver.account_tokens import AccountTokens
from kilauea.apiserver.authentication import Authenticator
from kilauea.apiserver.core import ApiServer
from kilauea.apiserver.request import GROUP_MASTERS, ApiResponse, User, WatchStream, make_request
from kilauea.apiserver.status import ApiFault
from kilauea.pki import key_pem, new_key
from support.attacks import JSON_BODIES
from support.definitions import DEFINITIONS, TREES, trees

CORE = "/api/v1/namespaces/default"
MAPS = f"{CORE}/configmaps"
TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io"
APPLY, MERGE = "application/apply-patch+yaml", "application/merge-patch+json"
WATCH_SECONDS, TOKEN_SECONDS = 300, 600
TOKENS = 20
"""Tokens that are kept to be shown again, also when they have expired."""


class Visitors:
    """Clients that list, apply, watch, define kinds, ask for tokens, and send what is wrong."""

    def __init__(self, api: ApiServer, clock: Clock, every: float) -> None:
        self._api, self._clock, self._every = api, clock, every
        self._user = User("visitor", groups=(GROUP_MASTERS,))
        api.backend.accounts = AccountTokens(key_pem(new_key()), api.backend.store, clock.now)
        self._authenticator = Authenticator({}, api.backend.accounts)
        self._tokens: list[tuple[int, str]] = []
        self.answers = self.events = self.expired = 0
        """Requests that were answered, events that watches told of, and tokens that were known no more."""

    async def ask(self, method: str, path: str, body: Any = None, **headers: str) -> tuple[int, bytes]:
        """The code and the body of an answer, which must not be an error of the server."""
        sent = {"user-agent": "visitor/1"} | {name.replace("_", "-"): value for name, value in headers.items()}
        data = body if isinstance(body, bytes) else b"" if body is None else json.dumps(body).encode()
        answer = await self._api.handle(make_request(method, path, sent, data, self._user))
        assert isinstance(answer, ApiResponse)
        content = answer.body if isinstance(answer.body, bytes) else b"".join(answer.body)
        assert answer.status < 500, f"{method} {path}: {answer.status}: {content[:300]!r}"
        self.answers += 1
        return answer.status, content

    async def visit(self) -> None:
        """Come again and again."""
        await self.ask("POST", f"{CORE}/serviceaccounts", {"metadata": {"name": "visitor"}})
        number = 0
        while True:
            await self._as_kubectl(number)
            await self._with_tokens()
            await self._with_wrong_bodies()
            if number % 10 == 0:
                await self._with_a_kind(number)
                await self._with_a_namespace(number)
            number += 1
            await self._clock.sleep(self._every)

    async def watch(self) -> None:
        """Watch all pods, and begin again whenever the watch ends."""
        while True:
            path = f"/api/v1/pods?watch=1&timeoutSeconds={WATCH_SECONDS}&allowWatchBookmarks=true"
            answer = await self._api.handle(make_request("GET", path, {}, b"", self._user))
            assert isinstance(answer, WatchStream)
            async with aclosing(answer.batches) as batches:
                async for batch in batches:
                    self.events += len(batch)

    async def _as_kubectl(self, number: int) -> None:
        more = ""
        while True:
            content = (await self.ask("GET", f"/api/v1/pods?limit=500{more}", accept=TABLE))[1]
            token = json.loads(content).get("metadata", {}).get("continue", "")
            if not token:
                break
            more = f"&continue={urllib.parse.quote(token)}"
        name = f"applied-{number % 50}"
        body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": {"n": str(number)}}
        for manager in ("kubectl", f"other-{number % 5}"):
            await self.ask("PATCH", f"{MAPS}/{name}?fieldManager={manager}&force=true", body, content_type=APPLY)
        for path in (f"{MAPS}/{name}", f"{CORE}/events?limit=100"):
            await self.ask("GET", path, accept="application/yaml")
        if number % 3 == 0:
            await self.ask("DELETE", f"{MAPS}/{name}")

    async def _with_tokens(self) -> None:
        """Ask for a token, and show those of before: each is known until it expires, and never after that."""
        wanted = {"spec": {"expirationSeconds": TOKEN_SECONDS}}
        content = (await self.ask("POST", f"{CORE}/serviceaccounts/visitor/token", wanted))[1]
        self._tokens = [*self._tokens[1 - TOKENS :], (self._clock.now(), json.loads(content)["status"]["token"])]
        for made, token in self._tokens:
            age = (self._clock.now() - made) / 1_000_000
            known = self._is_known(token)
            assert known is (age < TOKEN_SECONDS) or abs(age - TOKEN_SECONDS) < 2, f"a token of {age:.0f} s: {known}"
            self.expired += not known

    def _is_known(self, token: str) -> bool:
        try:
            return self._authenticator.user_of(None, f"Bearer {token}") is not None
        except ApiFault:
            return False

    async def _with_wrong_bodies(self) -> None:
        await self.ask("POST", MAPS, {"metadata": {"name": "target"}})
        for method, path, body, form in JSON_BODIES:
            await self.ask(method, path, body, content_type=form)

    async def _with_a_kind(self, number: int) -> None:
        """Define a kind, make an object of it, and take both away."""
        await self.ask("POST", DEFINITIONS, trees({"type": "object", "x-kubernetes-preserve-unknown-fields": True}))
        await self._until(lambda code: code == 200, "GET", TREES)
        body = {"apiVersion": "example.com/v1", "kind": "Tree", "metadata": {"name": f"t-{number}"}}
        await self.ask("POST", TREES, body)
        await self.ask("GET", "/openapi/v2")
        await self.ask("DELETE", f"{DEFINITIONS}/trees.example.com")
        await self._until(lambda code: code == 404, "GET", TREES)

    async def _with_a_namespace(self, number: int) -> None:
        namespace = f"/api/v1/namespaces/visit-{number}"
        await self.ask("POST", "/api/v1/namespaces", {"metadata": {"name": f"visit-{number}"}})
        for name in ("a", "b"):
            await self.ask("POST", f"{namespace}/configmaps", {"metadata": {"name": name}})
        await self.ask("DELETE", namespace)
        await self._until(lambda code: code == 404, "GET", namespace)

    async def _until(self, good: Callable[[int], bool], method: str, path: str) -> None:
        for _ in range(1000):
            if good((await self.ask(method, path))[0]):
                return
            await asyncio.sleep(0.1)
        raise AssertionError(f"{method} {path} does not come to its end")
