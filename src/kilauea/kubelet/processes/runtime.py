"""A container runtime that runs containers as processes on this machine."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import signal
import socket
from collections.abc import AsyncIterator, Collection, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import msgspec

from kilauea.api.container_streams import Process
from kilauea.kubelet.container_runtime import (
    LOG_FILES,
    LOG_SIZE,
    Container,
    ContainerError,
    ContainerState,
    Limits,
    Usage,
)
from kilauea.kubelet.processes.connection import LONGEST, Connection, connect, connect_or_start, last_error
from kilauea.kubelet.processes.streams import open_attach, open_exec
from kilauea.version import __version__

log = logging.getLogger(__name__)

Isolation = Literal["auto", "namespaces", "plain"]
_PATIENCE = 10.0
"""Seconds for a supervisor of another version to end."""
_AGAIN = 1.0
"""Seconds between two attempts to restart a supervisor that has ended."""


class ProcessRuntime:
    """Runs containers as processes on this machine, under a supervisor that outlives this process.

    Args:
        folder: folder for the supervisor's files; created if missing.
        isolation: `namespaces`, `plain` for none, or the best available. A running supervisor keeps its own.
        log_size: size in bytes at which the next log file starts.
        log_files: number of log files per container.
        idle: seconds without a client and a container after which the supervisor ends.
    """

    name = "processes"
    version = __version__

    def __init__(
        self,
        folder: Path,
        *,
        isolation: Isolation = "auto",
        log_size: int = LOG_SIZE,
        log_files: int = LOG_FILES,
        idle: float = 60.0,
    ) -> None:
        self._folder = folder
        self._options = ("--isolation", isolation, "--idle", str(idle))
        self._log_size, self._log_files = log_size, log_files
        self._connection: Connection | None = None
        self._exits: asyncio.Queue[ContainerState] = asyncio.Queue()
        self._running: set[str] = set()
        self._about: Mapping[str, Any] = {}
        self._reopening: asyncio.Task[None] | None = None

    @property
    def limitations(self) -> Sequence[str]:
        """Limitations on this machine, available from `open` on."""
        return tuple(self._about.get("limitations", ()))

    @property
    def isolation(self) -> str:
        """`namespaces` or `plain`, from `open` on."""
        return str(self._about.get("isolation", ""))

    @property
    def supervisor(self) -> int:
        """Process id of the supervisor, from `open` on."""
        return int(self._about.get("pid", 0))

    @property
    def running(self) -> Collection[str]:
        """Ids of running containers; without those whose end is still to be yielded by `exits`."""
        return frozenset(self._running)

    async def open(self) -> Sequence[ContainerState]:
        """Connect; return all known containers, running or exited, that are not removed."""
        if self._connection is not None:
            await self._connection.close()
        connection = await self._opened()
        if self._about.get("version") != __version__ and not _running(self._about):
            await connection.close()
            await self._end_supervisor()
            connection = await self._opened()
        self._connection = connection
        states = [state_of(data) for data in self._about["containers"]]
        self._running = {state.id for state in states if state.state == "running"}
        return states

    async def _opened(self) -> Connection:
        """Return a connection to a supervisor after its introduction."""
        link = await connect_or_start(self._folder, self._options)
        reader, writer = await asyncio.open_unix_connection(sock=link, limit=LONGEST)
        connection = Connection(reader, writer, self._exited, self._lost)
        try:
            self._about = await connection.call("open")
        except ContainerError as error:
            await connection.close()
            raise ContainerError(error.reason, error.message + last_error(self._folder)) from error
        return connection

    async def _end_supervisor(self) -> None:
        """End a supervisor of another version without running containers."""
        log.info("the supervisor of containers in %s is replaced, because its version is different", self._folder)
        try:
            descriptor = os.pidfd_open(self.supervisor)
        except ProcessLookupError:
            return
        ended, loop = asyncio.Event(), asyncio.get_running_loop()
        loop.add_reader(descriptor, ended.set)
        try:
            signal.pidfd_send_signal(descriptor, signal.SIGTERM)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_PATIENCE):
                    await ended.wait()
        finally:
            loop.remove_reader(descriptor)
            os.close(descriptor)

    async def close(self) -> None:
        """Disconnect; containers keep running."""
        if self._reopening is not None:
            self._reopening.cancel()
        if self._connection is not None:
            await self._connection.close()
            self._connection = None

    async def start(self, container: Container) -> ContainerState:
        """Create a container and run its command."""
        data = msgspec.to_builtins(container, enc_hook=str)
        data |= {"log_size": self._log_size, "log_files": self._log_files}
        known = container.id in self._running
        self._running.add(container.id)
        try:
            return state_of(await self._call("start", container=data))
        except ContainerError:
            if not known:
                self._running.discard(container.id)
            raise

    async def signal(self, id: str, number: int, *, everyone: bool = False) -> None:
        """Send a signal to the first process of a container, or to all; no error if it has exited."""
        await self._call("signal", container=id, signal=number, everyone=everyone)

    async def kill(self, id: str) -> None:
        """End all processes of a container at once, including those that left its process group."""
        await self._call("kill", container=id)

    async def resize(self, id: str, limits: Limits) -> None:
        """Change the limits of a running container."""
        try:
            await self._call("resize", container=id, limits=msgspec.to_builtins(limits))
        except ContainerError as error:
            raise ContainerError("ResizeError", error.message) from error

    async def remove(self, id: str) -> None:
        """Remove a container that has exited, with everything except its log."""
        await self._call("remove", container=id)

    async def exits(self) -> AsyncIterator[ContainerState]:
        """Yield each container that exits, from `open` on."""
        while True:
            yield await self._exits.get()

    async def usage(self, ids: Sequence[str]) -> Mapping[str, Usage]:
        """Return the usage of running containers; others are left out."""
        used = await self._call("usage", containers=list(ids))
        return {id: Usage(*used[id]) for id in ids if id in used}

    async def folders(self, ids: Sequence[str]) -> Mapping[str, Path]:
        """Return the folders with everything that containers have written to their root and to /tmp."""
        try:
            found = await self._call("folders", containers=list(ids))
        except ContainerError as error:
            if error.reason == "NotSupported":  # from the supervisor of an earlier version
                return {}
            raise
        return {id: Path(path) for id, path in found.items()}

    async def exec(self, id: str, argv: Sequence[str], *, stdin: bool = False, tty: bool = False) -> Process:
        """Run another command in a running container."""
        return await open_exec(self._connect(), id, argv, stdin=stdin, tty=tty)

    async def attach(self, id: str, *, stdin: bool = False) -> Process:
        """Connect to the input and the output of a running container, from now on."""
        return await open_attach(self._connect(), id, stdin=stdin)

    def _connect(self) -> socket.socket:
        try:
            return connect(self._folder)
        except OSError as error:
            message = f"cannot reach the supervisor of containers: {error.strerror}"
            raise ContainerError("ContainerCannotRun", message) from error

    async def _call(self, name: str, **arguments: Any) -> Any:
        if self._reopening is not None and not self._reopening.done():
            await asyncio.shield(self._reopening)
        if self._connection is None:
            raise ContainerError("ContainerCannotRun", "the runtime is not open")
        return await self._connection.call(name, **arguments)

    def _exited(self, data: dict[str, Any]) -> None:
        state = state_of(data)
        if state.id in self._running:
            self._running.discard(state.id)
            self._exits.put_nowait(state)

    def _lost(self) -> None:
        """Handle that the supervisor has ended, and all containers with it."""
        if self._connection is None:
            return
        self._connection = None
        log.warning("the supervisor of containers in %s has ended; it is restarted", self._folder)
        self._reopening = asyncio.create_task(self._reopen())

    async def _reopen(self) -> None:
        ran = self._running
        while True:
            try:
                states = await self.open()
            except ContainerError as error:
                log.error("%s", error)
                await asyncio.sleep(_AGAIN)
                continue
            for state in states:
                if state.id in ran and state.state == "exited":
                    self._exits.put_nowait(state)
            return


def state_of(data: Mapping[str, Any]) -> ContainerState:
    """Parse a container from the supervisor; fields of later versions are ignored."""
    return ContainerState(**{name: data[name] for name in ContainerState._fields if name in data})


def _running(about: Mapping[str, Any]) -> bool:
    """Return True if a supervisor runs a container."""
    return any(each.get("state") == "running" for each in about["containers"])
