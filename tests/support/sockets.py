"""A WebSocket in memory, as conversations with containers see it."""

from __future__ import annotations

import asyncio


class MemorySocket:
    """The test is the client: it puts messages in, and takes those of the server."""

    def __init__(self, protocol: str = "") -> None:
        self.protocol = protocol
        self._to_server: asyncio.Queue[bytes | None] = asyncio.Queue()
        self._to_client: asyncio.Queue[bytes] = asyncio.Queue(16)
        self.is_gone = False

    # --- the client

    def put(self, *messages: bytes) -> None:
        """Send messages to the server."""
        for message in messages:
            self._to_server.put_nowait(message)

    def leave(self) -> None:
        """Close the connection."""
        self.is_gone = True
        self._to_server.put_nowait(None)

    async def take(self) -> bytes:
        """The next message of the server."""
        async with asyncio.timeout(60):
            return await self._to_client.get()

    @property
    def has_more(self) -> bool:
        """True if the server has sent something that was not taken."""
        return not self._to_client.empty()

    async def next_or(self, work: asyncio.Future[None]) -> bytes | None:
        """The next message of the server; None if some work is done before."""
        taking = asyncio.ensure_future(self._to_client.get())
        await asyncio.wait((taking, work), return_when=asyncio.FIRST_COMPLETED)
        if taking.done():
            return taking.result()
        taking.cancel()
        return None

    async def until_full(self) -> None:
        """Wait until the server has sent all that there is room for."""
        while not self._to_client.full():
            await asyncio.sleep(0.01)

    # --- the server

    async def receive(self) -> bytes | None:
        return await self._to_server.get()

    async def send(self, message: bytes | str) -> None:
        if self.is_gone:
            raise ConnectionResetError
        await self._to_client.put(message.encode() if isinstance(message, str) else message)
