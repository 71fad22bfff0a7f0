"""The way to an API server in the same process: a call, without HTTP and TLS.

    client = Client(DirectTransport(server, "kube-controller-manager"), page=0)

Everything above it is the same as for any other cluster. There is no limit to requests a second.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing

from kilauea.apiserver.core import ApiServer
from kilauea.apiserver.request import GROUP_MASTERS, ApiResponse, User, make_request
from kilauea.client.transport import Answer, refusal, unreachable


class DirectTransport:
    """Carries requests to a server as one of its administrators.

    Args:
        server: answers them.
        component: on whose behalf, as the server's records name it.
    """

    def __init__(self, server: ApiServer, component: str) -> None:
        self._server = server
        self._user = User(f"system:{component}", groups=(GROUP_MASTERS,))
        self._closed = False

    async def request(self, method: str, target: str, headers: Mapping[str, str], body: bytes) -> Answer:
        """Ask."""
        if self._closed:
            raise unreachable("the transport is closed")
        answer = await self._server.handle(make_request(method, target, headers, body, self._user))
        if not isinstance(answer, ApiResponse):
            await answer.chunks.aclose()
            raise unreachable(f"{method} {target}: is answered with a stream")
        return _complete(answer)

    async def stream(self, target: str, headers: Mapping[str, str]) -> AsyncGenerator[bytes, None]:
        """The chunks of a watch, as the server makes them: each holds whole lines."""
        if self._closed:
            raise unreachable("the transport is closed")
        answer = await self._server.handle(make_request("GET", target, headers, b"", self._user))
        if isinstance(answer, ApiResponse):
            raise refusal(_complete(answer))
        async with aclosing(answer.chunks) as chunks:
            async for chunk in chunks:
                yield chunk

    async def close(self) -> None:
        """Refuse requests from now on."""
        self._closed = True


def _complete(answer: ApiResponse) -> Answer:
    """An answer in one piece."""
    body = answer.body if isinstance(answer.body, bytes) else b"".join(answer.body)
    return Answer(answer.status, {name.lower(): value for name, value in answer.headers}, body)
