"""Connections to the supervisor, which is started if it is not running."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import socket
import sys
from collections.abc import AsyncIterator, Callable, Sequence
from pathlib import Path
from typing import Any

from kilauea.kubelet.container_runtime import ContainerError
from kilauea.version import __version__

PROGRAM = Path(__file__).parent / "supervisor" / "__main__.py"
SOCKET, ERRORS = "supervisor.sock", "supervisor.log"
LONGEST = 64 * 1024 * 1024
"""Maximum bytes of a reply: `open` returns all containers at once."""
_PATIENCE = 20.0
"""Seconds that a supervisor may take to start on a busy machine."""


async def start_supervisor(folder: Path, options: Sequence[str]) -> None:
    """Start a supervisor for a folder, in the background; nothing happens if it already has one."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    folder.chmod(0o700)
    command = [sys.executable, "-I", "-S", str(PROGRAM), str(folder), "--version", __version__, *options]
    environment = {key: value for key, value in os.environ.items() if not key.startswith("PYTHON")}
    process = await asyncio.create_subprocess_exec(
        *command,
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.PIPE,
        env=environment,
    )
    _, errors = await process.communicate()
    if process.returncode:
        last = errors.decode(errors="replace").strip().rpartition("\n")[2]
        raise ContainerError("ContainerCannotRun", f"the supervisor of containers in {folder} does not start: {last}")


def connect(folder: Path) -> socket.socket:
    """Return a socket that is connected to the supervisor of a folder; raise OSError if none listens."""
    directory = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    link = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_CLOEXEC)
    try:
        # The address of a socket is limited to 108 characters; the path of a folder may be longer.
        link.connect(f"/proc/self/fd/{directory}/{SOCKET}")
    except OSError:
        link.close()
        raise
    finally:
        os.close(directory)
    return link


async def connect_or_start(folder: Path, options: Sequence[str]) -> socket.socket:
    """Return a socket that is connected to the supervisor of a folder, which is started if there is none."""
    loop = asyncio.get_running_loop()
    end = loop.time() + _PATIENCE
    while True:
        with contextlib.suppress(OSError):
            return connect(folder)
        if loop.time() > end:
            raise ContainerError("ContainerCannotRun", f"the supervisor of containers in {folder} does not answer")
        await start_supervisor(folder, options)
        with contextlib.suppress(OSError):
            return connect(folder)
        # Another supervisor holds the lock of the folder and is about to listen or to end.
        await asyncio.sleep(0.05)


def last_error(folder: Path) -> str:
    """Return the last error message of a supervisor, to append to a message."""
    try:
        line = (folder / ERRORS).read_text(errors="replace").strip().rpartition("\n")[2]
    except OSError:
        return ""
    return f" ({line})" if line else ""


def error_of(reply: dict[str, Any]) -> ContainerError:
    """Return the error in a reply."""
    error = reply["error"]
    return ContainerError(str(error.get("reason", "")), str(error.get("message", "")))


class Connection:
    """A connection for concurrent requests.

    Args:
        reader: of the socket.
        writer: of the socket.
        exited: called with each exit that the supervisor reports.
        lost: called when the connection has ended, unless by `close`.
    """

    def __init__(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        exited: Callable[[dict[str, Any]], None],
        lost: Callable[[], None],
    ) -> None:
        self._reader, self._writer = reader, writer
        self._exited, self._lost = exited, lost
        self._waiting: dict[int, asyncio.Future[Any]] = {}
        self._next = 0
        self._task = asyncio.create_task(self._read())

    async def call(self, name: str, **arguments: Any) -> Any:
        """Send a request; return its result, or raise ContainerError."""
        if self._task.done():
            raise _gone()
        self._next += 1
        number = self._next
        reply: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self._waiting[number] = reply
        try:
            self._writer.write(json.dumps({"id": number, "call": name, **arguments}).encode() + b"\n")
            with contextlib.suppress(OSError):
                await self._writer.drain()
            return await reply
        finally:
            self._waiting.pop(number, None)

    async def close(self) -> None:
        """Disconnect."""
        self._task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await self._task
        self._end()
        with contextlib.suppress(OSError):
            await self._writer.wait_closed()

    def _end(self) -> None:
        self._writer.close()
        for reply in self._waiting.values():
            if not reply.done():
                reply.set_exception(_gone())

    async def _read(self) -> None:
        async for message in messages(self._reader):
            if "exit" in message:
                self._exited(message["exit"])
                continue
            reply = self._waiting.get(message.get("id", 0))
            if reply is None or reply.done():
                continue
            if "error" in message:
                reply.set_exception(error_of(message))
            else:
                reply.set_result(message.get("result"))
        self._end()
        self._lost()


def _gone() -> ContainerError:
    return ContainerError("ContainerCannotRun", "the connection to the supervisor of containers was lost; try again")


async def messages(reader: asyncio.StreamReader) -> AsyncIterator[dict[str, Any]]:
    """Yield the messages of a supervisor until it disconnects."""
    while True:
        try:
            line = await reader.readuntil(b"\n")
        except (OSError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
            return
        yield json.loads(line)
