"""Exec and attach: communication between a process and a client through channels.

Messages are read from the client only as fast as the process reads, and output from the process only as fast as the
client does, so neither fills the memory of the server.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from kilauea.api.container_streams import Process
from kilauea.api.ports import ApiError
from kilauea.apiserver import status
from kilauea.apiserver.request import Socket
from kilauea.apiserver.streams.channels import (
    ERROR,
    OLD,
    RESIZE,
    STDERR,
    STDIN,
    STDOUT,
    Message,
    closed_channel,
    pack,
    unpack,
)

LONGEST_RESIZE = 1024
"""Maximum bytes of a message with the size of a terminal."""
LARGEST_SIZE = 0xFFFF
"""Maximum columns or rows of a terminal, the limit of the kernel."""


@dataclass(frozen=True, slots=True)
class Streams:
    """The streams of a process that a client requests.

    Attributes:
        stdin: True for standard input.
        stdout: True for standard output.
        stderr: True for standard error.
        tty: True for a terminal.
        has_code: True to send the exit code; never for attach.
    """

    stdin: bool
    stdout: bool
    stderr: bool
    tty: bool
    has_code: bool = True


async def serve_process(socket: Socket, connect: Callable[[], Awaitable[Process]], streams: Streams) -> None:
    """Connect a client and a process until the process ends and its output is sent, or the client disconnects."""
    first = STDOUT if streams.stdout else STDERR if streams.stderr else ERROR
    await socket.send(pack(socket.protocol, Message(first, b"")))  # tells old clients that the connection is open
    try:
        process = await connect()
    except ApiError as error:
        return await _tell_end(socket, status.internal(error.message).status)
    try:
        await _converse(socket, process, streams)
    finally:
        with suppress(ApiError):
            await process.close()


async def _converse(socket: Socket, process: Process, streams: Streams) -> None:
    output = asyncio.ensure_future(_send_output(socket, process, streams))
    listening = asyncio.ensure_future(_take_input(socket, process, streams))
    try:
        await asyncio.wait((output, listening), return_when=asyncio.FIRST_COMPLETED)
        if output.done():
            await _tell_end(socket, output.result())
        else:
            listening.result()
    finally:
        for task in (output, listening):
            task.cancel()
        await asyncio.gather(output, listening, return_exceptions=True)


async def _send_output(socket: Socket, process: Process, streams: Streams) -> dict[str, Any]:
    """Send all output; return the status, with the exit code if requested."""
    channels = {"stdout": STDOUT if streams.stdout else None, "stderr": STDERR if streams.stderr else None}
    try:
        while (output := await process.read()) is not None:
            channel = channels[output.channel]
            if channel is not None and output.data:
                await socket.send(pack(socket.protocol, Message(channel, output.data)))
        code = await process.wait()
        return exit_status(code if streams.has_code else 0)
    except ApiError as error:
        return status.internal(error.message).status


async def _take_input(socket: Socket, process: Process, streams: Streams) -> None:
    """Forward input and terminal sizes until the client disconnects."""
    while (content := await socket.receive()) is not None:
        message = unpack(socket.protocol, content)
        if message is None:
            continue
        if closed_channel(socket.protocol, message) == STDIN and streams.stdin:
            await process.end_input()
        elif message.channel == STDIN and streams.stdin and message.data:
            await process.write(message.data)
        elif message.channel == RESIZE and streams.tty:
            await _resize(process, message.data)


async def _resize(process: Process, data: bytes) -> None:
    """Set the size of the terminal; an invalid message is ignored, as by kubelets."""
    if len(data) > LONGEST_RESIZE:
        return
    try:
        size = json.loads(data)
        columns, rows = size["Width"], size["Height"]
    except (ValueError, KeyError, TypeError, RecursionError):
        return
    if all(type(each) is int and 0 < each <= LARGEST_SIZE for each in (columns, rows)):
        await process.resize(columns, rows)


async def _tell_end(socket: Socket, outcome: dict[str, Any]) -> None:
    """Send the status; clients of old protocols get only the message of a failure."""
    if socket.protocol not in OLD:
        content = json.dumps(outcome).encode()
    elif outcome["status"] == "Success":
        return
    else:
        content = outcome["message"].encode()
    await socket.send(pack(socket.protocol, Message(ERROR, content)))


def exit_status(code: int) -> dict[str, Any]:
    """Return the status for an exit code, worded as by kubelets."""
    if code == 0:
        return {"metadata": {}, "status": "Success"}
    return {
        "metadata": {},
        "status": "Failure",
        "message": f"command terminated with non-zero exit code: exit status {code}",
        "reason": "NonZeroExitCode",
        "details": {"causes": [{"reason": "ExitCode", "message": str(code)}]},
    }
