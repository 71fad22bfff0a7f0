"""A client of an API server in the same process, without HTTP and TLS.

    client = DirectClient(server, "kube-controller-manager", rng)

Callers use it as for any other cluster. Requests are not rate-limited.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import aclosing
from random import Random
from typing import overload

import msgspec

from kilauea.api.ports import Holder, Listed, Resource, Seen
from kilauea.apiserver.core import ApiServer
from kilauea.apiserver.request import (
    GROUP_MASTERS,
    ApiRequest,
    ApiResponse,
    Frame,
    TextStream,
    Tunnel,
    Upgrade,
    User,
    WatchStream,
    make_request,
)
from kilauea.client.rest import SHORTEST_WATCH, Client, collection_path
from kilauea.client.transport import Answer, header_map, refusal, refusal_of, unreachable

BEHIND = 100
"""Writes by which a watch may be behind the server; beyond that, it continues without a pause."""


class DirectTransport:
    """Sends requests to a server as an administrator.

    Args:
        server: the server.
        component: name of the client in the server's records.
    """

    def __init__(self, server: ApiServer, component: str) -> None:
        self._server = server
        self._user = User(f"system:{component}", groups=(GROUP_MASTERS,))
        self._closed = False

    async def request(self, method: str, target: str, headers: Mapping[str, str], body: bytes) -> Answer:
        """Send a request."""
        asked = make_request(method, target, headers, body)
        answer = await self.answer(asked)
        if not isinstance(answer.body, bytes):
            parts = []
            for part in answer.body:  # producing a part may process hundreds of objects
                parts.append(part)
                await asyncio.sleep(0)
            answer.body = b"".join(parts)
        return _complete(answer)

    async def answer(self, request: ApiRequest) -> ApiResponse:
        """Return the response of the server to a request."""
        if self._closed:
            raise unreachable("the transport is closed")
        request.user, request.is_ours = self._user, True
        answer = await self._server.handle(request)
        if isinstance(answer, TextStream):
            async with aclosing(answer.chunks) as chunks:
                return ApiResponse(answer.status, b"".join([chunk async for chunk in chunks]), answer.content_type)
        if not isinstance(answer, ApiResponse):
            await _end(answer)
            raise unreachable(f"{request.method} {request.path}: the response is a stream")
        return answer

    async def stream(self, target: str, headers: Mapping[str, str]) -> AsyncGenerator[bytes, None]:
        """The chunks of a watch; each holds whole lines."""
        answer = await self.watch(make_request("GET", target, headers))
        async with aclosing(answer.chunks) as chunks:
            async for chunk in chunks:
                yield chunk

    async def watch(self, request: ApiRequest) -> WatchStream:
        """Start a watch.

        Raises:
            ApiError: the server refuses it.
        """
        if self._closed:
            raise unreachable("the transport is closed")
        request.user, request.is_ours = self._user, True
        answer = await self._server.handle(request)
        if isinstance(answer, ApiResponse):
            raise refusal(_complete(answer))
        if not isinstance(answer, WatchStream):
            await _end(answer)
            raise unreachable(f"{request.path}: the response is not a watch")
        return answer

    def has_caught_up(self, version: str) -> bool:
        """Return True if the server is not far ahead of a version."""
        return self._server.backend.store.revision - int(version) < BEHIND

    async def close(self) -> None:
        """Refuse requests from now on."""
        self._closed = True


async def _end(answer: WatchStream | TextStream | Upgrade | Tunnel) -> None:
    """End a response that was not requested."""
    if isinstance(answer, Upgrade | Tunnel):
        if isinstance(answer, Tunnel):
            await answer.connection.close()
        answer.end()
    else:
        await (answer.batches if isinstance(answer, WatchStream) else answer.chunks).aclose()


class DirectClient(Client):
    """The client of a component in the process of its server: it receives the store's events without decoding.

    Args:
        server: the server.
        component: name of the client.
        rng: randomness of the duration of watches.
        gather: seconds after a batch of events for which further events are collected: many small batches cost more
            CPU. A watch that has not reached the server's newest writes continues at once: batches have a limited size.
    """

    def __init__(self, server: ApiServer, component: str, rng: Random | None = None, *, gather: float = 0.0) -> None:
        self._direct = DirectTransport(server, component)
        self._gather = gather
        super().__init__(self._direct, component, rng, page=0)

    async def list(
        self,
        resource: Resource,
        namespace: str = "",
        labels: str = "",
        fields: str = "",
        reduce: Callable[[bytes], bytes] | None = None,
    ) -> Listed:
        """All objects of a kind at one version, in their stored form, so they need not be reduced."""
        request = make_request("GET", collection_path(resource, namespace), self._headers)
        query = {"labelSelector": labels, "fieldSelector": fields}
        request.query = [(name, value) for name, value in query.items() if value]
        answer = await self._direct.answer(request)
        if answer.status >= 300:
            raise refusal(_complete(answer))
        if answer.listing is None:
            return await super().list(resource, namespace, labels, fields, reduce)
        holders = answer.listing.items
        return Listed(_Values(holders), str(answer.listing.revision), holders)

    async def watch(
        self, resource: Resource, version: str, namespace: str = "", labels: str = "", fields: str = ""
    ) -> AsyncIterator[Sequence[Seen]]:
        """Yield events after a version, in batches, with bookmarks, until the server ends the watch."""
        seconds = int(SHORTEST_WATCH * (1 + self._rng.random()))
        query = {"watch": "true", "allowWatchBookmarks": "true", "timeoutSeconds": str(seconds)}
        query |= {"resourceVersion": version, "labelSelector": labels, "fieldSelector": fields}
        request = make_request("GET", collection_path(resource, namespace), self._headers)
        request.query = [(name, value) for name, value in query.items() if value]
        async with aclosing((await self._direct.watch(request)).batches) as batches:
            async for batch in batches:
                seen = [_seen(frame) for frame in batch]
                yield seen
                if self._gather and self._direct.has_caught_up(seen[-1].version):
                    await asyncio.sleep(self._gather)


class _Values(Sequence[bytes]):
    """The bytes of objects, each read only when it is accessed."""

    def __init__(self, holders: Sequence[Holder]) -> None:
        self._holders = holders

    def __len__(self) -> int:
        return len(self._holders)

    @overload
    def __getitem__(self, index: int) -> bytes: ...

    @overload
    def __getitem__(self, index: slice) -> Sequence[bytes]: ...

    def __getitem__(self, index: int | slice) -> bytes | Sequence[bytes]:
        if isinstance(index, slice):
            return _Values(self._holders[index])
        return self._holders[index].value

    def __iter__(self) -> Iterator[bytes]:
        return (each.value for each in self._holders)


def _seen(frame: Frame) -> Seen:
    """Convert a frame into an event.

    Raises:
        ApiError: the frame is the error that ends the watch.
    """
    kind, value, revision, stored = frame
    if kind == "ERROR":
        raise refusal_of(msgspec.json.decode(value))
    return Seen(kind, value, str(revision), stored)


def _complete(answer: ApiResponse) -> Answer:
    """A response in one piece."""
    body = answer.body if isinstance(answer.body, bytes) else b"".join(answer.body)
    return Answer(answer.status, header_map(answer.headers), body)
