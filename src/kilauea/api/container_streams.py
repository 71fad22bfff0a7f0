"""Connections to containers, from the container runtime to the API server: exec, attach and port-forward."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, NamedTuple, Protocol

from kilauea.api.ports import Obj

Channel = Literal["stdout", "stderr"]


class Output(NamedTuple):
    """Some bytes that a process has written."""

    channel: Channel
    data: bytes


class Process(Protocol):
    """A process that is connected to. With a terminal, all output is on `stdout`."""

    async def read(self) -> Output | None:
        """Return what it has written next, at most 64 KiB; None when nothing more comes."""
        ...

    async def write(self, data: bytes) -> None:
        """Write to its standard input; what is written after it has ended is dropped."""
        ...

    async def end_input(self) -> None:
        """Close its standard input."""
        ...

    async def resize(self, columns: int, rows: int) -> None:
        """Set the size of its terminal; nothing happens without one."""
        ...

    async def wait(self) -> int:
        """Wait for its end; return its exit code, 128 and the signal for one that a signal has ended."""
        ...

    async def close(self) -> None:
        """Disconnect; what was started for this connection alone (exec) ends."""
        ...


class Connection(Protocol):
    """A connection to a port."""

    async def read(self) -> bytes:
        """Return what has arrived next, at most 64 KiB; nothing when no more comes."""
        ...

    async def write(self, data: bytes) -> None:
        """Send some bytes."""
        ...

    async def end_input(self) -> None:
        """Say that no more is sent."""
        ...

    async def close(self) -> None:
        """Disconnect."""
        ...


class PodConnections(Protocol):
    """The way to the containers of running pods. All calls raise `ApiError`, as a kubelet words it."""

    def runs(self, pod: Obj) -> bool:
        """Return True if it runs this pod."""
        ...

    def check(self, pod: Obj, container: str) -> None:
        """Refuse a container that does not run, before anything is done for a connection to it."""
        ...

    def check_pod(self, pod: Obj) -> None:
        """Refuse a pod whose ports cannot be reached."""
        ...

    async def exec(
        self, pod: Obj, container: str, command: Sequence[str], *, stdin: bool = False, tty: bool = False
    ) -> Process:
        """Run a command in a running container."""
        ...

    async def attach(self, pod: Obj, container: str, *, stdin: bool = False, tty: bool = False) -> Process:
        """Connect to a running container."""
        ...

    async def connect(self, pod: Obj, port: int, *, tls: bool = False) -> Connection:
        """Open a connection to a port of a pod; by TLS with any certificate if that is asked for."""
        ...
