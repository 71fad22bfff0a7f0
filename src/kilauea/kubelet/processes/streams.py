"""Processes of exec and attach, connected by pipes or a terminal that bypass the supervisor."""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import json
import os
import socket
import struct
import termios
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, Protocol

from kilauea.api.container_streams import Channel, Output
from kilauea.kubelet.container_runtime import ContainerError
from kilauea.kubelet.processes.connection import error_of, messages

_AT_ONCE = 64 * 1024
_LAST_OUTPUT = 0.5
"""Seconds for remaining output to arrive after the end of a process; a descendant may keep its output open forever."""


class Link(Protocol):
    """The connection to whatever runs a process."""

    async def exit_code(self) -> int:
        """Wait for the end of the process; return its exit code."""
        ...

    def end_input(self) -> None:
        """Report the end of the input."""
        ...

    async def close(self) -> None:
        """Disconnect; a process started for this connection alone ends."""
        ...


class StreamProcess:
    """A connected process; see `container_streams.Process`.

    Args:
        outputs: descriptors to read from, by channel.
        stdin: descriptor to write to; None for none.
        terminal: descriptor of its terminal; None for none.
        link: to whatever runs it; the process ends with it.
    """

    def __init__(
        self,
        outputs: Mapping[Channel, int],
        stdin: int | None,
        terminal: int | None,
        link: Link,
    ) -> None:
        self._outputs = dict(outputs)
        self._stdin, self._terminal = stdin, terminal
        self._link = link
        self._ready = asyncio.Event()
        self._exit: asyncio.Task[int] = asyncio.create_task(link.exit_code())
        self._exit.add_done_callback(lambda _: self._ready.set())
        for descriptor in {*outputs.values(), *(item for item in (stdin, terminal) if item is not None)}:
            os.set_blocking(descriptor, False)

    async def read(self) -> Output | None:
        """Return its next output, at most 64 KiB; None at the end."""
        while self._outputs:
            for channel in list(self._outputs):
                data = self._read_now(channel)
                if data:
                    return Output(channel, data)
            if self._outputs and not await self._wait():
                break
        return None

    async def write(self, data: bytes) -> None:
        """Write to its standard input; dropped after it has ended."""
        rest = memoryview(data)
        while rest and self._stdin is not None:
            try:
                rest = rest[os.write(self._stdin, rest) :]
            except BlockingIOError:
                await self._wait_writable(self._stdin)
            except OSError:
                return

    async def end_input(self) -> None:
        """Close its standard input; a terminal cannot be closed in one direction."""
        self._drop_input()
        self._link.end_input()

    async def resize(self, columns: int, rows: int) -> None:
        """Set the size of its terminal; nothing happens without one."""
        if self._terminal is not None:
            with contextlib.suppress(OSError):
                fcntl.ioctl(self._terminal, termios.TIOCSWINSZ, struct.pack("4H", rows, columns, 0, 0))

    async def wait(self) -> int:
        """Wait for its end; return its exit code, 128 plus the signal if a signal ended it."""
        return await asyncio.shield(self._exit)

    async def close(self) -> None:
        """Disconnect; a process started for this connection alone (exec) ends."""
        self._exit.cancel()
        with contextlib.suppress(asyncio.CancelledError, ContainerError):
            await self._exit
        await self._link.close()
        loop = asyncio.get_running_loop()
        descriptors = {*self._outputs.values(), *(item for item in (self._stdin, self._terminal) if item is not None)}
        for descriptor in descriptors:
            loop.remove_reader(descriptor)
            loop.remove_writer(descriptor)
            os.close(descriptor)
        self._outputs.clear()
        self._stdin = self._terminal = None
        self._ready.set()

    def _read_now(self, channel: Channel) -> bytes:
        """Return the available output; an output that has ended is closed."""
        descriptor = self._outputs[channel]
        try:
            data = os.read(descriptor, _AT_ONCE)
        except BlockingIOError:
            return b""
        except OSError:
            # The end of a terminal.
            data = b""
        if not data:
            del self._outputs[channel]
            if descriptor != self._terminal:
                os.close(descriptor)
        return data

    async def _wait(self) -> bool:
        """Wait for output; return False if none arrived long after the end of the process."""
        loop = asyncio.get_running_loop()
        ended = self._exit.done()
        self._ready.clear()
        descriptors = list(self._outputs.values())
        for descriptor in descriptors:
            loop.add_reader(descriptor, self._ready.set)
        try:
            async with asyncio.timeout(_LAST_OUTPUT if ended else None):
                await self._ready.wait()
        except TimeoutError:
            return False
        finally:
            for descriptor in descriptors:
                loop.remove_reader(descriptor)
        return True

    async def _wait_writable(self, descriptor: int) -> None:
        loop = asyncio.get_running_loop()
        ready = asyncio.Event()
        # A copy: a terminal may be watched for reading at the same time, and writing continues when it is closed.
        copy = os.dup(descriptor)
        loop.add_writer(copy, ready.set)
        waits = asyncio.create_task(ready.wait())
        try:
            await asyncio.wait({waits, self._exit}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            waits.cancel()
            loop.remove_writer(copy)
            os.close(copy)
        if self._exit.done():
            self._drop_input()

    def _drop_input(self) -> None:
        if self._stdin is not None and self._stdin != self._terminal:
            os.close(self._stdin)
        self._stdin = None


class SupervisorLink:
    """The connection to the supervisor that started a process."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer = reader, writer

    async def exit_code(self) -> int:
        """Wait for the end of the process; return its exit code."""
        async for message in messages(self._reader):
            if "exit" in message:
                return int(message["exit"]["exit_code"])
        # The supervisor was killed, and the process with it.
        return 137

    def end_input(self) -> None:
        """Report the end of the input."""
        if not self._writer.is_closing():
            self._writer.write(b'{"call": "end_input"}\n')

    async def close(self) -> None:
        """Disconnect."""
        self._writer.close()
        with contextlib.suppress(OSError):
            await self._writer.wait_closed()


class Pipes(NamedTuple):
    """The standard streams of a process that is about to be started.

    Attributes:
        outputs: our ends of its outputs, by channel.
        stdin: our end of its input; None for none.
        terminal: our end of its terminal; None for none.
        theirs: its ends: one for all streams of a terminal, otherwise input, output and error.
    """

    outputs: dict[Channel, int]
    stdin: int | None
    terminal: int | None
    theirs: tuple[int, ...]

    def close_ours(self) -> None:
        """Close our ends, if the process is not started."""
        ends = {*self.outputs.values(), *((self.stdin,) if self.stdin is not None else ())}
        for descriptor in ends:
            os.close(descriptor)

    def process(self, link: Link) -> StreamProcess:
        """The process with the other ends, behind a link."""
        return StreamProcess(self.outputs, self.stdin, self.terminal, link)

    def close_theirs(self) -> None:
        """Close its ends, which it has inherited."""
        for descriptor in self.theirs:
            os.close(descriptor)


def make_pipes(*, stdin: bool, tty: bool) -> Pipes:
    """Create the streams of a process.

    Args:
        stdin: True to write to its standard input.
        tty: True to give it a terminal.
    """
    if tty:
        master, slave = os.openpty()
        return Pipes({"stdout": master}, master if stdin else None, master, (slave,))
    output, its_output = os.pipe()
    errors, its_errors = os.pipe()
    its_input, ours = os.pipe() if stdin else (os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC), None)
    return Pipes({"stdout": output, "stderr": errors}, ours, None, (its_input, its_output, its_errors))


async def open_exec(link: socket.socket, id: str, argv: Sequence[str], *, stdin: bool, tty: bool) -> StreamProcess:
    """Run a command over a new connection to the supervisor."""
    pipes = make_pipes(stdin=stdin, tty=tty)
    request = {"id": 1, "call": "exec", "container": id, "argv": list(argv), "tty": tty}
    try:
        reader, writer, _, _ = await _request(link, request, pipes.theirs)
    except BaseException:
        pipes.close_ours()
        raise
    return pipes.process(SupervisorLink(reader, writer))


async def open_attach(link: socket.socket, id: str, *, stdin: bool) -> StreamProcess:
    """Connect to a running container over a new connection to the supervisor."""
    output, its_output = os.pipe()
    errors, its_errors = os.pipe()
    request = {"id": 1, "call": "attach", "container": id, "stdin": stdin}
    try:
        reader, writer, result, received = await _request(link, request, [its_output, its_errors])
    except BaseException:
        os.close(output)
        os.close(errors)
        raise
    outputs: dict[Channel, int] = {"stdout": output, "stderr": errors}
    terminal = received[0] if result["tty"] and received else None
    return StreamProcess(
        outputs, received[0] if received and result["stdin"] else None, terminal, SupervisorLink(reader, writer)
    )


async def _request(
    link: socket.socket, request: Mapping[str, Any], descriptors: Sequence[int]
) -> tuple[asyncio.StreamReader, asyncio.StreamWriter, dict[str, Any], list[int]]:
    """Send a request with descriptors, which are closed here; return the connection, result and new descriptors."""
    try:
        # Descriptors are sent with a byte of white space, which JSON ignores.
        socket.send_fds(link, [b" "], list(descriptors))
    except OSError as error:
        link.close()
        raise ContainerError("ContainerCannotRun", f"cannot reach the supervisor: {error.strerror}") from error
    finally:
        for descriptor in descriptors:
            os.close(descriptor)
    link.setblocking(False)
    loop = asyncio.get_running_loop()
    received: list[int] = []
    try:
        await loop.sock_sendall(link, json.dumps(request).encode() + b"\n")
        ready = asyncio.Event()
        loop.add_reader(link, ready.set)
        try:
            await ready.wait()
        finally:
            loop.remove_reader(link)
        first, received, _, _ = socket.recv_fds(link, 1, 2)
    except BaseException:
        link.close()
        raise
    reader, writer = await asyncio.open_unix_connection(sock=link)
    try:
        return reader, writer, await _result(first, reader), received
    except BaseException:
        writer.close()
        for descriptor in received:
            os.close(descriptor)
        raise


async def _result(first: bytes, reader: asyncio.StreamReader) -> dict[str, Any]:
    line = first + await reader.readline()
    if not line.strip():
        raise ContainerError("ContainerCannotRun", "the supervisor of containers has ended; try again")
    reply = json.loads(line)
    if "error" in reply:
        raise error_of(reply)
    result: dict[str, Any] = reply["result"]
    return result
