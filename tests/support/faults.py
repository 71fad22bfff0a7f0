"""A transport on which things go wrong at random, as networks and servers do; the same seed does the same."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing
from random import Random

from kilauea.client.transport import Answer, Transport, unreachable

REFUSALS = ((429, "TooManyRequests"), (500, "InternalError"), (503, "ServiceUnavailable"))


class FaultyTransport:
    """Loses requests and answers, refuses, delays, cuts watches off, repeats what they said, forgets the past.

    Args:
        transport: what carries requests if nothing goes wrong.
        rng: decides.
        rate: of requests and pieces of watches, that something happens to; may be changed at any time.
    """

    def __init__(self, transport: Transport, rng: Random, rate: float) -> None:
        self._transport = transport
        self._rng = rng
        self.rate = rate
        self.cut = False
        """No request passes."""

    def _fault(self, *kinds: str) -> str:
        """What goes wrong now; empty for nothing."""
        return self._rng.choice(kinds) if self._rng.random() < self.rate else ""

    async def request(self, method: str, target: str, headers: Mapping[str, str], body: bytes) -> Answer:
        """Ask, if nothing goes wrong."""
        if self.cut:
            raise unreachable("no route")
        fault = self._fault("lost", "refused", "late", "answer late", "answer lost")
        if fault == "late":
            await asyncio.sleep(self._rng.uniform(0, 5))
        if fault == "lost":
            raise unreachable("the request is lost")
        if fault == "refused":
            code, reason = self._rng.choice(REFUSALS)
            status = {"kind": "Status", "code": code, "reason": reason, "message": "not now"}
            return Answer(code, {}, json.dumps(status).encode())
        answer = await self._transport.request(method, target, headers, body)
        if fault == "answer late":
            await asyncio.sleep(self._rng.uniform(0, 10))
        if fault == "answer lost":
            raise unreachable("the answer is lost")
        return answer

    async def stream(self, target: str, headers: Mapping[str, str]) -> AsyncGenerator[bytes, None]:
        """A watch, as far as it goes."""
        if self._fault("refused"):
            raise unreachable("the watch cannot begin")
        last = b""
        async with aclosing(self._transport.stream(target, headers)) as pieces:
            async for piece in pieces:
                fault = self._fault("cut", "cut in the midst", "late", "again", "forgotten")
                if fault == "cut":
                    raise unreachable("the watch is cut off")
                if fault == "cut in the midst":
                    lines = piece.splitlines(keepends=True)
                    yield b"".join(lines[: self._rng.randrange(len(lines))])
                    raise unreachable("the watch is cut off")
                if fault == "late":
                    await asyncio.sleep(self._rng.uniform(0, 20))
                if fault == "forgotten":
                    status = {"kind": "Status", "code": 410, "reason": "Expired", "message": "too old"}
                    yield json.dumps({"type": "ERROR", "object": status}).encode() + b"\n"
                    return
                yield last + piece if fault == "again" else piece
                last = piece

    async def close(self) -> None:
        """End all connections."""
        await self._transport.close()
