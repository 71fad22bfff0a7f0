"""A connection that reports once for all parts of a process when the server is lost and found again.

A process has dozens of requests and watches under way. When the server cannot be reached, or does not accept the
credentials, each of them fails and tries again; one message says so, with the reason and what to do.
"""

from __future__ import annotations

import logging
from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing

from kilauea.api.ports import ApiError, Clock
from kilauea.api.times import SECOND
from kilauea.client.advice import UNAUTHORIZED, with_advice
from kilauea.client.transport import UNREACHABLE, Answer, Transport, refusal

REPEAT_SECONDS = 60
"""Seconds after which a fault that lasts is logged again."""

log = logging.getLogger(__name__)


class Reporting:
    """Carries requests on, and logs when there is no way to the server.

    Args:
        transport: the connection.
        clock: for the length of a fault.
        quiet: log only for debugging, as another connection to the same server reports.

    Attributes:
        fault: why the server cannot be used now; empty if it can.
    """

    def __init__(self, transport: Transport, clock: Clock, *, quiet: bool = False) -> None:
        self._transport = transport
        self._quiet = quiet
        self._clock = clock
        self._since = 0
        self._said_at = 0
        self.fault = ""

    async def request(self, method: str, target: str, headers: Mapping[str, str], body: bytes) -> Answer:
        """Ask.

        Raises:
            ApiError: there was no answer, or the server does not accept the credentials.
        """
        try:
            answer = await self._transport.request(method, target, headers, body)
        except ApiError as error:
            self._report(error)
            raise
        if answer.status == UNAUTHORIZED:
            refused = refusal(answer)
            self._report(refused)
            raise refused
        self._answered()
        return answer

    async def stream(self, target: str, headers: Mapping[str, str]) -> AsyncGenerator[bytes, None]:
        """The answer to a GET that does not end soon; one that breaks off after a while is routine."""
        began = False
        async with aclosing(self._transport.stream(target, headers)) as pieces:
            try:
                async for piece in pieces:
                    if not began:
                        began = True
                        self._answered()
                    yield piece
            except ApiError as error:
                if not began:
                    self._report(error)
                raise

    async def close(self) -> None:
        """End all connections."""
        await self._transport.close()

    def _report(self, error: ApiError) -> None:
        """Log a fault when it begins, when its reason changes, and from time to time while it lasts."""
        if error.reason != UNREACHABLE and error.code != UNAUTHORIZED:
            return
        error.reported = True
        now = self._clock.monotonic()
        reason = _reason(error)
        lasts = reason == self.fault
        if lasts and now - self._said_at < REPEAT_SECONDS * SECOND:
            return
        if not self.fault:
            self._since = now
        self.fault, self._said_at = reason, now
        level = logging.DEBUG if self._quiet else logging.WARNING
        log.log(level, "the API server cannot be used: %s; trying again", with_advice(error))

    def _answered(self) -> None:
        if self.fault:
            seconds = (self._clock.monotonic() - self._since) / SECOND
            level = logging.DEBUG if self._quiet else logging.INFO
            log.log(level, "the API server answers again, after %.0f s", seconds)
            self.fault = ""


def _reason(error: ApiError) -> str:
    """Return the reason of a fault without the request that met it: `https://h:6443: Connection refused`."""
    words = str(error).split(": ")
    return ": ".join([words[0], *words[2:]]) if len(words) > 2 else str(error)
