"""Tracing of requests as spans, with headers with which the API server continues the traces.

transport = Traced(HttpTransport(access), tracer)
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing

from kilauea.client.transport import Answer, Transport
from kilauea.telemetry.tracing import Tracer


class Traced:
    """Forwards requests, each within its own span. Watches have none, as they never end."""

    def __init__(self, transport: Transport, tracer: Tracer) -> None:
        self._transport = transport
        self._tracer = tracer

    async def request(self, method: str, target: str, headers: Mapping[str, str], body: bytes) -> Answer:
        """Send a request with the headers of the trace."""
        path = target.partition("?")[0]
        with self._tracer.span(method, {"http.request.method": method, "url.path": path}) as span:
            answer = await self._transport.request(method, target, {**headers, **self._tracer.headers()}, body)
            span.note({"http.response.status_code": answer.status})
            if answer.status >= 400:
                span.fail(f"the server answers {answer.status}")
            return answer

    async def stream(self, target: str, headers: Mapping[str, str]) -> AsyncGenerator[bytes, None]:
        """Yield the response to a long GET."""
        async with aclosing(self._transport.stream(target, headers)) as pieces:
            async for piece in pieces:
                yield piece

    async def close(self) -> None:
        """End all connections."""
        await self._transport.close()
