"""A connection that reports, once for a whole process, when the server becomes unavailable and available again.

A process has dozens of requests and watches in progress. If the server cannot be reached or rejects the credentials,
all of them fail and retry; a single message reports this, with the reason and the remedy.
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
"""Seconds after which a persistent fault is logged again."""

log = logging.getLogger(__name__)


class Reporting:
    """Forwards requests, and logs when the server is unavailable.

    Args:
        transport: the connection.
        clock: measures the duration of a fault.
        quiet: True to log only at debug level, as another connection to the same server reports.

    Attributes:
        fault: the reason why the server is unavailable; empty if it is available.
    """

    def __init__(self, transport: Transport, clock: Clock, *, quiet: bool = False) -> None:
        self._transport = transport
        self._quiet = quiet
        self._clock = clock
        self._since = 0
        self._said_at = 0
        self.fault = ""

    async def request(self, method: str, target: str, headers: Mapping[str, str], body: bytes) -> Answer:
        """Send a request.

        Raises:
            ApiError: the server did not respond, or rejects the credentials.
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
        """Yield the response to a long GET; a later disconnect is routine and not reported."""
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
        """Log a fault when it begins, when its reason changes, and periodically while it lasts."""
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
    """Return the reason of a fault without the failed request: `https://h:6443: Connection refused`."""
    words = str(error).split(": ")
    return ": ".join([words[0], *words[2:]]) if len(words) > 2 else str(error)
