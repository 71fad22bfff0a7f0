"""Connections to containers, from the container runtime to the API server: exec, attach and port-forward."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, NamedTuple, Protocol

from kilauea.api.ports import Obj

Channel = Literal["stdout", "stderr"]


class Output(NamedTuple):
    """Bytes that a process has written."""

    channel: Channel
    data: bytes


class Process(Protocol):
    """A connected process. With a terminal, all output is on `stdout`."""

    async def read(self) -> Output | None:
        """Return its next output, at most 64 KiB; None at the end."""
        ...

    async def write(self, data: bytes) -> None:
        """Write to its standard input; data after its end is dropped."""
        ...

    async def end_input(self) -> None:
        """Close its standard input."""
        ...

    async def resize(self, columns: int, rows: int) -> None:
        """Set the size of its terminal, if it has one."""
        ...

    async def wait(self) -> int:
        """Wait for its end; return its exit code, or 128 plus the signal that ended it."""
        ...

    async def close(self) -> None:
        """Disconnect; a process started for this connection (exec) ends."""
        ...


class Connection(Protocol):
    """A connection to a port."""

    async def read(self) -> bytes:
        """Return the next data, at most 64 KiB; empty at the end."""
        ...

    async def write(self, data: bytes) -> None:
        """Send data."""
        ...

    async def end_input(self) -> None:
        """Close the sending side."""
        ...

    async def close(self) -> None:
        """Disconnect."""
        ...


class PodConnections(Protocol):
    """Opens connections to the containers of running pods. All calls raise `ApiError`, worded as by a kubelet."""

    def runs(self, pod: Obj) -> bool:
        """Return True if it runs this pod."""
        ...

    def check(self, pod: Obj, container: str) -> None:
        """Raise for a container that is not running, before connecting to it."""
        ...

    def check_pod(self, pod: Obj) -> None:
        """Raise for a pod whose ports cannot be reached."""
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
        """Open a connection to a port of a pod, optionally over TLS with any certificate."""
        ...
