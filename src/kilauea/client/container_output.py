"""The output of a container through the API, each byte once: follows a log across lost connections.

Logs are requested with timestamps. After a loss, `sinceTime` is the second of the last line, and the already received
lines of that second are skipped. A server may support `sinceTime` only with a precision of seconds.
"""

from __future__ import annotations

import re
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import TYPE_CHECKING
from urllib.parse import quote, urlencode

from kilauea.api.ports import ApiError, Key

if TYPE_CHECKING:
    from kilauea.client.http import HttpTransport

MOMENT_LENGTH = 40
"""Maximum bytes of the timestamp at the start of a line; a line without one is a message of the node."""
_MOMENT = re.compile(rb"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)(?:\.\d+)?(Z|[+-]\d\d:\d\d)[ \n]")
_HEADERS = {"accept": "*/*", "user-agent": "kilauea-run"}


class LogPosition:
    """The position up to which a log has been read.

    Attributes:
        second: the second of the newest line, formatted as in the log; empty before the first.
        zone: the time zone of the log, such as `Z` or `+01:00`.
        lines: the number of complete lines of this second.
        partial: the bytes of text received of the next line.
    """

    def __init__(self) -> None:
        self.second = b""
        self.zone = b"Z"
        self.lines = 0
        self.partial = 0
        self._skipped_lines = self._skipped_bytes = 0
        self._start = b""
        self._in_text = self._is_counted = False

    @property
    def since(self) -> str:
        """Return the time from which to request the log; empty for all of it."""
        return (self.second + self.zone).decode() if self.second else ""

    def reconnect(self) -> None:
        """Prepare for a response that starts at `since`."""
        self._skipped_lines, self._skipped_bytes = self.lines, self.partial
        self._start, self._in_text = b"", False

    def new_text(self, piece: bytes) -> bytes:
        """Return the new text in a piece of the response, without timestamps."""
        found: list[bytes] = []
        at = 0
        while at < len(piece):
            if not self._in_text:
                at = self._read_start(piece, at, found)
                continue
            end = piece.find(b"\n", at) + 1
            found.append(self._text(piece[at : end or len(piece)], ended=end > 0))
            at = end or len(piece)
        return b"".join(found)

    def _read_start(self, piece: bytes, at: int, found: list[bytes]) -> int:
        """Read the timestamp of a line and the space after it; return the start of the text."""
        blank, end = piece.find(b" ", at, at + MOMENT_LENGTH), piece.find(b"\n", at, at + MOMENT_LENGTH) + 1
        stop = min((each for each in (blank + 1, end) if each), default=0)
        known = self._start + piece[at : stop or at + MOMENT_LENGTH]
        if not stop and len(known) < MOMENT_LENGTH:
            self._start = known
            return len(piece)
        self._start, self._in_text = b"", True
        if moment := _MOMENT.fullmatch(known):
            self._see(moment[1], moment[2])
            # A line without text may have no space after its timestamp.
            return stop - 1 if known.endswith(b"\n") else stop
        self._is_counted = False
        found.append(self._text(known, ended=known.endswith(b"\n")))
        return stop or min(at + MOMENT_LENGTH, len(piece))

    def _see(self, second: bytes, zone: bytes) -> None:
        if second > self.second:
            self.second, self.zone = second, zone
            self.lines = self.partial = self._skipped_lines = self._skipped_bytes = 0
        self._is_counted = second == self.second  # an older line, out of order, is not repeated

    def _text(self, text: bytes, *, ended: bool) -> bytes:
        """Return the new bytes in a part of a line."""
        if not self._is_counted:
            self._in_text = not ended
            return text
        if self._skipped_lines:
            self._skipped_lines -= ended
            self._in_text = not ended
            return b""
        new = text[self._skipped_bytes :]
        self._skipped_bytes -= min(self._skipped_bytes, len(text))
        self.partial += len(new)
        if ended:
            self.lines += 1
            self.partial = self._skipped_bytes = 0
            self._in_text = False
        return new


class ContainerOutput:
    """Logs of containers, read through one transport."""

    def __init__(self, transport: HttpTransport) -> None:
        self._transport = transport

    async def read(
        self, pod: Key, container: str, position: LogPosition, *, follow: bool = True, stream: str = ""
    ) -> AsyncGenerator[bytes, None]:
        """Yield new output until the container or the connection ends, skipping repeated output.

        Args:
            pod: the pod.
            container: the name of the container.
            position: the position up to which it has been read, which is updated.
            follow: True to continue until the container ends.
            stream: `Stdout` or `Stderr`; empty for both in their order.

        Raises:
            ApiError: the log cannot be read, or the connection is lost.
        """
        query = {"container": container, "timestamps": "true", **({"follow": "true"} if follow else {})}
        query |= {"sinceTime": position.since} if position.since else {}
        query |= {"stream": stream} if stream else {}
        position.reconnect()
        async with aclosing(self._transport.pieces(_target(pod, query), _HEADERS)) as pieces:
            async for piece in pieces:
                yield position.new_text(piece)

    async def knows_streams(self, pod: Key, container: str) -> bool:
        """Return True if the server distinguishes output streams, that is, rejects an invalid one."""
        query = {"container": container, "stream": "Neither", "limitBytes": "1"}
        try:
            async with aclosing(self._transport.pieces(_target(pod, query), _HEADERS)) as pieces:
                async for _ in pieces:
                    return False
        except ApiError as error:
            return error.code in (400, 422)
        return False


def _target(pod: Key, query: dict[str, str]) -> str:
    path = f"/api/v1/namespaces/{quote(pod.namespace, safe='')}/pods/{quote(pod.name, safe='')}/log"
    return f"{path}?{urlencode(query)}"
