"""WebSocket connections with aiohttp.

A client may be idle or not read for any time: then output and its writer wait. Pings keep the connection alive and
detect a disconnected client; a client that does not read cannot answer them, and need not.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress

from aiohttp import WSCloseCode, WSMsgType, web

from kilauea.apiserver.request import Upgrade

PING_SECONDS = 20.0
CLOSE_SECONDS = 2.0
"""Seconds for a client to confirm the close."""


class WebSocket:
    """Adapts aiohttp's WebSocket to the interface of conversations."""

    def __init__(self, response: web.WebSocketResponse) -> None:
        self._response = response

    @property
    def protocol(self) -> str:
        """The negotiated protocol; empty if the client named none."""
        return self._response.ws_protocol or ""

    async def receive(self) -> bytes | None:
        """Return the next message, text as UTF-8; None at the end."""
        message = await self._response.receive()
        if message.type is WSMsgType.BINARY:
            content: bytes = message.data
            return content
        if message.type is WSMsgType.TEXT:
            return str(message.data).encode()
        return None

    async def send(self, message: bytes | str) -> None:
        """Send a message; wait while the client does not read."""
        if isinstance(message, str):
            await self._response.send_str(message)
        else:
            await self._response.send_bytes(message)


class Conversations:
    """The conversations of a server."""

    def __init__(self) -> None:
        self._tasks: set[asyncio.Task[None]] = set()

    async def hold(self, request: web.BaseRequest, answer: Upgrade) -> web.StreamResponse:
        """Upgrade a connection and serve it until the conversation ends or the client disconnects."""
        response = web.WebSocketResponse(
            protocols=answer.protocols, timeout=CLOSE_SECONDS, compress=False, max_msg_size=answer.largest
        )
        for key, value in answer.headers:
            response.headers.add(key, value)
        try:
            await response.prepare(request)
            await self._talk(response, answer)
        except web.HTTPException as refusal:  # not a WebSocket request
            return web.Response(status=refusal.status, text=refusal.text)
        except ConnectionError:  # the client has disconnected
            pass
        finally:
            answer.end()
        return response

    async def _talk(self, response: web.WebSocketResponse, answer: Upgrade) -> None:
        """Run the conversation, and end it when pings detect that the client has disconnected."""
        talk = asyncio.ensure_future(_serve(answer, response))
        pings = asyncio.ensure_future(_ping(response))
        self._tasks.add(talk)
        try:
            await asyncio.wait((talk, pings), return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in (talk, pings):
                task.cancel()
            await asyncio.gather(talk, pings, return_exceptions=True)
            self._tasks.discard(talk)
        fault = None if talk.cancelled() else talk.exception()
        failed = fault is not None and not isinstance(fault, ConnectionError)
        with suppress(ConnectionError, TimeoutError):
            await response.close(code=WSCloseCode.INTERNAL_ERROR if failed else WSCloseCode.OK)
        if fault is not None and failed:
            raise fault

    async def close(self) -> None:
        """End all conversations."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)


async def _serve(answer: Upgrade, response: web.WebSocketResponse) -> None:
    await answer.serve(WebSocket(response))


async def _ping(response: web.WebSocketResponse) -> None:
    """Send pings until the connection is lost."""
    while True:
        await asyncio.sleep(PING_SECONDS)
        await response.ping()
