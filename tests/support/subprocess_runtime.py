"""A container runtime of plain subprocesses: real processes, without isolation, that end with the test."""

from __future__ import annotations

import asyncio
import fcntl
import os
import signal
import struct
import termios
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal

from kilauea.api.container_streams import Channel, Output
from kilauea.kubelet.container_runtime import Container, ContainerError, ContainerState, Limits, Usage

LARGEST_READ = 65536


class PipeProcess:
    """A process with pipes."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self.process = process
        self._outputs: asyncio.Queue[Output | None] = asyncio.Queue(4)
        self._open = 2
        self._tasks = [
            asyncio.ensure_future(self._pump("stdout", process.stdout)),
            asyncio.ensure_future(self._pump("stderr", process.stderr)),
        ]

    async def _pump(self, channel: Channel, stream: asyncio.StreamReader | None) -> None:
        assert stream is not None
        while data := await stream.read(LARGEST_READ):
            await self._outputs.put(Output(channel, data))
        self._open -= 1
        if not self._open:
            await self._outputs.put(None)

    async def read(self) -> Output | None:
        return await self._outputs.get()

    async def write(self, data: bytes) -> None:
        assert self.process.stdin is not None
        with suppress(ConnectionError):
            self.process.stdin.write(data)
            await self.process.stdin.drain()

    async def end_input(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.close()

    async def resize(self, columns: int, rows: int) -> None:
        pass

    async def wait(self) -> int:
        code = await self.process.wait()
        return code if code >= 0 else 128 - code

    async def close(self) -> None:
        _kill(self.process)
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        for stream in (self.process.stdout, self.process.stderr):  # `wait` waits for the ends of the pipes, too
            assert stream is not None
            while await stream.read(LARGEST_READ):
                pass
        await self.process.wait()


class TerminalProcess:
    """A process with a terminal."""

    def __init__(self, process: asyncio.subprocess.Process, terminal: int) -> None:
        self.process = process
        self._terminal = terminal

    async def read(self) -> Output | None:
        loop = asyncio.get_running_loop()
        ready = asyncio.Event()
        loop.add_reader(self._terminal, ready.set)
        try:
            await ready.wait()
            data = os.read(self._terminal, LARGEST_READ)
        except OSError:  # all ends of the terminal are closed
            data = b""
        finally:
            loop.remove_reader(self._terminal)
        return Output("stdout", data) if data else None

    async def write(self, data: bytes) -> None:
        os.write(self._terminal, data)

    async def end_input(self) -> None:
        os.write(self._terminal, b"\x04")

    async def resize(self, columns: int, rows: int) -> None:
        fcntl.ioctl(self._terminal, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    async def wait(self) -> int:
        code = await self.process.wait()
        return code if code >= 0 else 128 - code

    async def close(self) -> None:
        _kill(self.process)
        await self.process.wait()
        os.close(self._terminal)


class Attached:
    """A connection to the output of a container, from now on."""

    def __init__(self, owner: _Running, stdin: bool) -> None:
        self._owner = owner
        self._stdin = stdin
        self.outputs: asyncio.Queue[Output | None] = asyncio.Queue()
        owner.attached.append(self)

    async def read(self) -> Output | None:
        return await self.outputs.get()

    async def write(self, data: bytes) -> None:
        await self._owner.process.write(data)

    async def end_input(self) -> None:
        await self._owner.process.end_input()

    async def resize(self, columns: int, rows: int) -> None:
        await self._owner.process.resize(columns, rows)

    async def wait(self) -> int:
        return await self._owner.process.wait()

    async def close(self) -> None:
        if self in self._owner.attached:
            self._owner.attached.remove(self)


class _Running:
    """A container that was started."""

    def __init__(self, container: Container, process: PipeProcess | TerminalProcess) -> None:
        self.container = container
        self.process = process
        self.attached: list[Attached] = []
        self.started = time.time_ns() // 1000
        self.finished = 0
        self.code = 0
        self.task = asyncio.ensure_future(self._follow())

    async def _follow(self) -> None:
        path = self.container.log
        path.parent.mkdir(parents=True, exist_ok=True)
        rest: dict[str, bytes] = {}
        while (output := await self.process.read()) is not None:
            for each in self.attached:
                each.outputs.put_nowait(output)
            lines = (rest.pop(output.channel, b"") + output.data).split(b"\n")
            rest[output.channel] = lines.pop()
            with path.open("ab") as file:
                for line in lines:
                    file.write(log_line(output.channel, line))
        self.code = await self.process.wait()
        with path.open("ab") as file:
            for channel, text in rest.items():
                if text:
                    file.write(log_line(channel, text, "P"))
        self.finished = time.time_ns() // 1000
        for each in self.attached:
            each.outputs.put_nowait(None)

    def state(self) -> ContainerState:
        c = self.container
        state: Literal["running", "exited"] = "exited" if self.finished else "running"
        return ContainerState(c.id, c.pod, c.name, c.attempt, state, self.process.process.pid, self.started,
                              self.finished, self.code)  # fmt: skip


def log_line(stream: str, text: bytes, tag: str = "F", moment: int | None = None) -> bytes:
    """A line as runtimes log it."""
    now = time.time_ns() if moment is None else moment * 1000
    stamp = datetime.fromtimestamp(now // 10**9, UTC).strftime("%Y-%m-%dT%H:%M:%S")
    return f"{stamp}.{now % 10**9:09d}Z {stream} {tag} ".encode() + text + b"\n"


class SubprocessRuntime:
    """Runs containers as subprocesses of this process."""

    name, version = "subprocesses", "1"
    limitations: Sequence[str] = ()

    def __init__(self) -> None:
        self._containers: dict[str, _Running] = {}
        self.exec_processes: list[PipeProcess | TerminalProcess] = []

    def find(self, id: str) -> ContainerState | None:
        """The state of a container."""
        found = self._containers.get(id)
        return found.state() if found is not None else None

    async def open(self) -> Sequence[ContainerState]:
        return [each.state() for each in self._containers.values()]

    async def close(self) -> None:
        for each in self._containers.values():
            await each.process.close()
            each.task.cancel()
            await asyncio.gather(each.task, return_exceptions=True)

    async def start(self, container: Container) -> ContainerState:
        process = await spawn(container.argv, stdin=True, tty=container.tty, environment=container.environment)
        made = self._containers[container.id] = _Running(container, process)
        return made.state()

    async def signal(self, id: str, number: int, *, everyone: bool = False) -> None:
        self._containers[id].process.process.send_signal(number)

    async def kill(self, id: str) -> None:
        _kill(self._containers[id].process.process)

    async def remove(self, id: str) -> None:
        del self._containers[id]

    async def exits(self) -> AsyncIterator[ContainerState]:
        return
        yield

    async def exec(
        self, id: str, argv: Sequence[str], *, stdin: bool = False, tty: bool = False
    ) -> PipeProcess | TerminalProcess:
        made = await spawn(argv, stdin=stdin, tty=tty, environment=self._containers[id].container.environment)
        self.exec_processes.append(made)
        return made

    async def attach(self, id: str, *, stdin: bool = False) -> Attached:
        return Attached(self._containers[id], stdin)

    async def resize(self, id: str, limits: Limits) -> None:
        """Nothing is limited."""

    async def folders(self, ids: Sequence[str]) -> Mapping[str, Path]:
        return {}

    async def usage(self, ids: Sequence[str]) -> Mapping[str, Usage]:
        return {id: Usage(1_000_000, 1 << 20, 1) for id in ids if self._containers[id].finished == 0}


async def spawn(
    argv: Sequence[str], *, stdin: bool, tty: bool, environment: Mapping[str, str] | None = None
) -> PipeProcess | TerminalProcess:
    """Start a process."""
    env = {"PATH": os.environ["PATH"], **(environment or {})}
    try:
        if tty:
            ours, theirs = os.openpty()
            process = await asyncio.create_subprocess_exec(
                *argv, stdin=theirs, stdout=theirs, stderr=theirs, start_new_session=True, env=env
            )
            os.close(theirs)
            return TerminalProcess(process, ours)
        pipe, null = asyncio.subprocess.PIPE, asyncio.subprocess.DEVNULL
        process = await asyncio.create_subprocess_exec(
            *argv, stdin=pipe if stdin else null, stdout=pipe, stderr=pipe, start_new_session=True, env=env
        )
    except FileNotFoundError as error:
        raise ContainerError("NotFound", f'exec: "{argv[0]}": executable file not found in $PATH') from error
    return PipeProcess(process)


def _kill(process: asyncio.subprocess.Process) -> None:
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
