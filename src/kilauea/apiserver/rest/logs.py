"""Log: the output of a container, complete or followed. The container runtime provides it (`Backend.logs`).

A log is read in pieces while it is sent, so that a large one neither fills memory nor delays other requests. Programs
in browsers, which cannot read a response while it arrives, may request it over a WebSocket.
"""

from __future__ import annotations

import asyncio
from base64 import b64encode
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from functools import partial

from kilauea.api.container_logs import LogEntry, LogReader, LogStream, log_time
from kilauea.api.ports import ApiError
from kilauea.api.times import SECOND, parse_time
from kilauea.apiserver import status
from kilauea.apiserver.fields import forbidden_field, invalid_value, not_supported
from kilauea.apiserver.request import ApiResponse, Socket, TextStream, Upgrade
from kilauea.apiserver.rest.call import Call, Object
from kilauea.apiserver.rest.containers import container_of
from kilauea.apiserver.rest.get import read_stored
from kilauea.apiserver.rest.objects import decode
from kilauea.apiserver.rest.streams import asks_for_websocket, check_upgrade, conversation
from kilauea.apiserver.status import ApiFault, Cause

LOOK_SECONDS = 0.1
"""Seconds between two reads of a log that is followed."""
WHOLE = 256 * 1024
"""Bytes up to which a log is sent as one response."""
TEXT = "text/plain"
BASE64 = "base64.binary.k8s.io"
PROTOCOLS = ("", "binary.k8s.io", BASE64)
"""Protocols of WebSockets: messages are bytes, or Base64 text."""
_STREAMS: dict[str, LogStream | None] = {"": None, "All": None, "Stdout": "stdout", "Stderr": "stderr"}
_TWICE = "at most one of `sinceTime` or `sinceSeconds` may be specified"
_SPLIT = "Forbidden: `tailLines` and specific `stream` are mutually exclusive for now"


@dataclass(frozen=True, slots=True)
class _Options:
    """The requested lines and their format.

    Attributes:
        tail: the number of last lines; None for all.
        since: the time of the earliest line, in the format of `log_time`.
        limit: the maximum number of bytes; None for all.
        timestamps: True if each line begins with its time.
        stream: the only stream to return; None for all.
    """

    tail: int | None
    since: str
    limit: int | None
    timestamps: bool
    stream: LogStream | None


class _Text:
    """Formats log entries up to the limit."""

    def __init__(self, options: _Options) -> None:
        self._options = options
        self._left = options.limit
        self._is_new_line = True

    @property
    def is_full(self) -> bool:
        """True if the limit is reached."""
        return self._left == 0

    def of(self, entries: Sequence[LogEntry]) -> bytes:
        """Return the text of the next entries."""
        options = self._options
        if options.since:
            entries = [each for each in entries if each.time >= options.since]
        if options.stream is not None:
            entries = [each for each in entries if each.stream == options.stream]
        text = self._stamped(entries) if options.timestamps else b"".join([each.data for each in entries])
        if self._left is not None:
            text = text[: self._left]
            self._left -= len(text)
        return text

    def _stamped(self, entries: Sequence[LogEntry]) -> bytes:
        """Return entries with the time at the beginning of each line."""
        parts = []
        for entry in entries:
            if self._is_new_line:
                parts.append(f"{entry.time} ".encode())
            parts.append(entry.data)
            self._is_new_line = entry.data.endswith(b"\n")
        return b"".join(parts)


async def read_log(call: Call) -> ApiResponse | TextStream | Upgrade:
    """Answer a get of a pod's `log`."""
    if not asks_for_websocket(call):
        return await _read_log(call)
    check_upgrade(call, PROTOCOLS)
    answer = await _read_log(call)
    if isinstance(answer, ApiResponse) and answer.status >= 400:
        return answer
    chunks = answer.chunks if isinstance(answer, TextStream) else _whole(answer)

    async def serve(socket: Socket) -> None:
        async with aclosing(chunks):
            async for chunk in chunks:
                await socket.send(b64encode(chunk).decode() if socket.protocol == BASE64 else chunk)

    return conversation(call, PROTOCOLS, serve)


async def _whole(answer: ApiResponse) -> AsyncGenerator[bytes, None]:
    """Yield the body of a response, if it has one."""
    body = answer.body if isinstance(answer.body, bytes) else b"".join(answer.body)
    if body:
        yield body


async def _read_log(call: Call) -> ApiResponse | TextStream:
    pod = decode(read_stored(call).value)
    options = _options(call)
    container = container_of(pod, call.request.first("container"))
    if not pod["spec"].get("nodeName"):
        return ApiResponse(204, content_type="")  # the container has not run, so it has no log
    reader = _opened(call, pod, container, options.tail)
    if reader is None:
        return ApiResponse(200, b"", TEXT)
    try:
        return await _answer(call, reader, options)
    except BaseException:  # the client has disconnected, for example
        reader.close()
        raise


async def _answer(call: Call, reader: LogReader, options: _Options) -> ApiResponse | TextStream:
    """Return a complete log if it is short, or a stream otherwise."""
    text, first, follow = _Text(options), b"", call.request.flag("follow") is True
    turn = partial(call.backend.reading_turns.pause, call.user.tenant)
    for _ in reader.begin():
        await turn()
    while len(first) < WHOLE and not text.is_full:
        entries = reader.read()
        first += text.of(entries)
        if not entries or reader.ended:
            break
        await turn()
    else:
        if not text.is_full:
            return TextStream(_rest(reader, text, first, follow, turn), TEXT)
    if follow and not reader.ended and not text.is_full:
        return TextStream(_rest(reader, text, first, follow, turn), TEXT)
    reader.close()
    return ApiResponse(200, first, TEXT)


async def _rest(
    reader: LogReader, text: _Text, first: bytes, follow: bool, turn: Callable[[], Awaitable[None]]
) -> AsyncGenerator[bytes, None]:
    """Yield a log in pieces; a followed log as it is written, until its container ends.

    Reading and splitting a piece blocks the event loop for some milliseconds, so readers of many logs take turns.
    Waiting for new entries needs no turn.
    """
    try:
        if first:
            yield first
        entries: Sequence[LogEntry] = ()
        while not text.is_full:
            if entries:
                await turn()
            entries = reader.read()
            content = text.of(entries)
            if content:
                yield content
            if reader.ended or (not entries and not follow):
                return
            await asyncio.sleep(0 if entries else LOOK_SECONDS)
    finally:
        reader.close()


def _opened(call: Call, pod: Object, container: str, tail: int | None) -> LogReader | None:
    """Open the log of a container; return None if nothing runs containers.

    Raises:
        ApiFault: the container has no such run (400).
    """
    logs, previous = call.backend.logs, call.request.flag("previous") is True
    if logs is None:
        return None
    try:
        return logs.open(pod, container, previous=previous, tail=tail, now=call.backend.now)
    except ApiError as error:
        raise ApiFault(error.code, error.reason, error.message) from error


def _options(call: Call) -> _Options:
    """Return the log options of a request.

    Raises:
        ApiFault: a parameter cannot be parsed (400), or its value is not supported (422).
    """
    first, since = call.request.first, None
    seconds, tail, limit = (_number(call, each) for each in ("sinceSeconds", "tailLines", "limitBytes"))
    try:
        since = parse_time(first("sinceTime")) if first("sinceTime") else None
    except ValueError as error:
        raise status.bad_request(f"sinceTime: {error}") from None
    causes = []
    if tail is not None and tail < 0:
        causes.append(invalid_value("tailLines", tail, "must be greater than or equal to 0"))
    if limit is not None and limit < 1:
        causes.append(invalid_value("limitBytes", limit, "must be greater than 0"))
    if seconds is not None and since is not None:
        causes.append(forbidden_field("[]", _TWICE))
    elif seconds is not None and seconds < 1:
        causes.append(invalid_value("sinceSeconds", seconds, "must be greater than 0"))
    causes += _check_stream(first("stream"), tail)
    if causes:
        raise status.invalid("PodLogOptions", "", call.info.name, causes)
    if seconds is not None:
        since = max(call.backend.now() - seconds * SECOND, 0)
    stamped = call.request.flag("timestamps") is True
    return _Options(tail, "" if since is None else log_time(since), limit, stamped, _STREAMS[first("stream")])


def _check_stream(asked: str, tail: int | None) -> list[Cause]:
    """Return the errors in the requested stream."""
    causes = [] if asked in _STREAMS else [not_supported("stream", asked, ("All", "Stderr", "Stdout"))]
    if _STREAMS.get(asked) and tail is not None:
        causes.append(Cause("", "FieldValueForbidden", _SPLIT))
    return causes


def _number(call: Call, name: str) -> int | None:
    """Return an integer parameter; None if it is not given."""
    text = call.request.first(name)
    digits = text.removeprefix("-")
    if text and not (digits.isascii() and digits.isdecimal() and len(digits) < 16):
        raise status.bad_request(f'{name}: invalid value "{text}": must be a whole number')
    return int(text) if text else None
