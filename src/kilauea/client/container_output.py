"""The output of a container through the API, each byte once: a log that is followed across lost connections.

Logs are asked for with the moment of each line. After a loss, `sinceTime` names the second of the last line, and the
lines of that second that have already come are left out. A server may know `sinceTime` to the second only.
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
"""Most bytes of the moment at the start of a line; a line without one is a message of the node."""
_MOMENT = re.compile(rb"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)(?:\.\d+)?(Z|[+-]\d\d:\d\d)[ \n]")
_HEADERS = {"accept": "*/*", "user-agent": "kilauea-run"}


class LogPosition:
    """The place up to which a log has been read.

    Attributes:
        second: of the newest line, as the log writes it; empty before the first.
        zone: time zone of the log, such as `Z` or `+01:00`.
        lines: lines of this second that have come whole.
        partial: bytes of the text that have come of the line after them.
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
        """The moment from which the log is to be sent; empty for all of it."""
        return (self.second + self.zone).decode() if self.second else ""

    def reconnect(self) -> None:
        """Begin with an answer that starts at `since`."""
        self._skipped_lines, self._skipped_bytes = self.lines, self.partial
        self._start, self._in_text = b"", False

    def new_text(self, piece: bytes) -> bytes:
        """The text in a piece of the answer that has not come before, without the moments."""
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
        """Read the moment of a line up to the blank after it; return where the text starts."""
        blank, end = piece.find(b" ", at, at + MOMENT_LENGTH), piece.find(b"\n", at, at + MOMENT_LENGTH) + 1
        stop = min((each for each in (blank + 1, end) if each), default=0)
        known = self._start + piece[at : stop or at + MOMENT_LENGTH]
        if not stop and len(known) < MOMENT_LENGTH:
            self._start = known
            return len(piece)
        self._start, self._in_text = b"", True
        if moment := _MOMENT.fullmatch(known):
            self._see(moment[1], moment[2])
            # A line without text may have no blank after its moment.
            return stop - 1 if known.endswith(b"\n") else stop
        self._is_counted = False
        found.append(self._text(known, ended=known.endswith(b"\n")))
        return stop or min(at + MOMENT_LENGTH, len(piece))

    def _see(self, second: bytes, zone: bytes) -> None:
        if second > self.second:
            self.second, self.zone = second, zone
            self.lines = self.partial = self._skipped_lines = self._skipped_bytes = 0
        self._is_counted = second == self.second  # an older line, out of order, is not sent again

    def _text(self, text: bytes, *, ended: bool) -> bytes:
        """The new bytes in a part of a line."""
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
        """Yield new output until the container ends or the connection does; nothing for what comes again.

        Args:
            pod: the pod.
            container: name of the container.
            position: the place up to which it has been read; it moves on.
            follow: True to stay until the container ends.
            stream: `Stdout` or `Stderr`; empty for both in the order in which they were written.

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
        """Return True if the server tells standard output from standard error: it refuses a stream without a name."""
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
