"""Log: what a container has written, whole or followed. The lines come from what runs containers (`Backend.logs`)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Sequence
from dataclasses import dataclass

from kilauea.api.container_logs import ContainerLog, LogLine
from kilauea.api.times import SECOND, format_time, parse_time
from kilauea.apiserver import status
from kilauea.apiserver.request import ApiResponse, TextStream
from kilauea.apiserver.rest.call import Call, Object
from kilauea.apiserver.rest.get import read_stored
from kilauea.apiserver.rest.objects import decode

LOOK_SECONDS = 0.5
"""Between two looks at a log that is followed."""
TEXT = "text/plain"


@dataclass(frozen=True, slots=True)
class _Options:
    """The requested lines, and their form.

    Attributes:
        tail: only so many of the last lines; None for all.
        since: only lines from this moment on, in microseconds since 1970.
        limit: at most so many bytes; None for all.
        timestamps: whether each line begins with its moment.
    """

    tail: int | None
    since: int
    limit: int | None
    timestamps: bool

    def chosen(self, lines: Sequence[LogLine]) -> list[LogLine]:
        """The lines of a log as it is now that are asked for."""
        kept = lines if self.tail is None else lines[max(len(lines) - self.tail, 0) :]
        return [line for line in kept if line.moment >= self.since]

    def text(self, lines: Sequence[LogLine]) -> bytes:
        """Lines as they are sent."""
        if not self.timestamps:
            return "".join(f"{line.text}\n" for line in lines).encode()
        return "".join(f"{_nanoseconds(line.moment)} {line.text}\n" for line in lines).encode()


async def read_log(call: Call) -> ApiResponse | TextStream:
    """Answer a get of a pod's `log`."""
    pod = decode(read_stored(call).value)
    container = _container(pod, call.request.first("container"))
    options = _options(call)
    if not pod["spec"].get("nodeName"):
        return ApiResponse(204, content_type="")  # nothing has run that could have written anything
    log = _log(call, container)
    name = call.info.name
    if log.waits and not call.request.flag("previous"):
        raise status.bad_request(f'container "{container}" in pod "{name}" is waiting to start: {log.waits}')
    if call.request.flag("previous") and not log.started:
        raise status.bad_request(f'previous terminated container "{container}" in pod "{name}" not found')
    if call.request.flag("follow") and log.running:
        return TextStream(_follow(call, container, options, log), TEXT)
    return ApiResponse(200, options.text(options.chosen(log.lines))[: options.limit], TEXT)


async def _follow(call: Call, container: str, options: _Options, log: ContainerLog) -> AsyncGenerator[bytes, None]:
    """A log line by line as it is written, until its container ends."""
    left, started, lines = options.limit, log.started, options.chosen(log.lines)
    while True:
        text = options.text(lines)[:left]
        if text:
            yield text
        left = None if left is None else left - len(text)
        if not log.running or log.started != started or left == 0:
            return
        seen = len(log.lines)
        await asyncio.sleep(LOOK_SECONDS)
        log = _log(call, container)
        # What the run that is followed has written since; a run after it is not followed, as with kubelets.
        lines = list(log.lines[seen:]) if log.started == started else []


def _log(call: Call, container: str) -> ContainerLog:
    """The log of a container as it is now."""
    logs = call.backend.logs
    if logs is None:
        return ContainerLog()
    return logs.read(
        call.namespace, call.info.name, container, call.request.flag("previous") is True, call.backend.now()
    )


def _options(call: Call) -> _Options:
    """The lines that a request asks for.

    Raises:
        ApiFault: a parameter cannot be read (400).
    """
    first = call.request.first
    seconds, since = _number(call, "sinceSeconds"), 0
    if seconds is not None and first("sinceTime"):
        raise status.bad_request("at most one of sinceTime or sinceSeconds may be specified")
    if seconds is not None:
        since = call.backend.now() - seconds * SECOND
    try:
        since = parse_time(first("sinceTime")) if first("sinceTime") else since
    except ValueError as error:
        raise status.bad_request(f"sinceTime: {error}") from None
    return _Options(
        _number(call, "tailLines"), since, _number(call, "limitBytes"), call.request.flag("timestamps") is True
    )


def _number(call: Call, name: str) -> int | None:
    """A parameter that is a whole number; None if it is not given."""
    text = call.request.first(name)
    if text and not (text.isascii() and text.isdecimal() and len(text) < 16):
        raise status.bad_request(f'{name}: invalid value "{text}": must be a whole number of 0 or more')
    return int(text) if text else None


def _nanoseconds(moment: int) -> str:
    """A moment as kubelets write it: with nine digits of a second."""
    text, _, fraction = format_time(moment).removesuffix("Z").partition(".")
    return f"{text}.{fraction:0<9}Z"


def _container(pod: Object, asked: str) -> str:
    """The container that is meant; the only one if none is named."""
    spec, name = pod["spec"], pod["metadata"]["name"]
    names = [each["name"] for each in spec.get("containers") or []]
    init = [each["name"] for each in spec.get("initContainers") or []]
    if asked:
        if asked not in names + init:
            raise status.bad_request(f"container {asked} is not valid for pod {name}")
        return asked
    default = (pod["metadata"].get("annotations") or {}).get("kubectl.kubernetes.io/default-container")
    if default in names:
        return str(default)
    if len(names) == 1 and not init:
        return str(names[0])
    if not init:
        raise status.bad_request(
            f"a container name must be specified for pod {name}, choose one of: [{' '.join(names)}]"
        )
    message = f"choose one of: [{' '.join(names)}] or one of the init containers: [{' '.join(init)}]"
    raise status.bad_request(f"a container name must be specified for pod {name}, {message}")
