"""The interface between pods and container runtimes, modeled on the Container Runtime Interface of Kubernetes.

A runtime keeps containers running when the process that started them ends; `open` finds them again. It writes their
output to log files in the format of that interface: `2026-01-02T03:04:05.000000000Z stdout F text` for a line, `P` for
a part of a long one. Older lines are in `FILE.1`, still older ones in `FILE.2` and so on.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, NamedTuple, Protocol

from kilauea.api.container_streams import Process

LOG_SIZE, LOG_FILES = 10 * 1024 * 1024, 5
"""Size of a log file in bytes at which the next one starts, and number of files per container: kubelets' defaults."""


@dataclass(frozen=True, slots=True)
class Mount:
    """A file or folder that a container sees at a path.

    Attributes:
        target: absolute path in the container.
        source: path on this machine; empty for an empty folder in memory.
        read_only: True if it is read-only.
        size: maximum bytes of a folder in memory; None for no limit.
        image: name of the mounted image, for a runtime with images; empty for none.
        real: True if the source is a path without links; if one has come in since that was checked, nothing is mounted.
        optional: True if the container runs without it where a runtime cannot mount: the kubelet's own files, such as
            /etc/hosts and the token of its service account.
    """

    target: str
    source: str = ""
    read_only: bool = False
    size: int | None = None
    optional: bool = False
    image: str = ""
    real: bool = False


@dataclass(frozen=True, slots=True)
class Limits:
    """Limits of a container; None for no limit.

    Attributes:
        cpu: thousandths of a processor.
        memory: bytes.
        processes: number of processes and threads.
    """

    cpu: int | None = None
    memory: int | None = None
    processes: int | None = None


@dataclass(frozen=True, slots=True)
class Container:
    """A container to start, with everything that a runtime needs.

    Attributes:
        id: unique on this machine, also over restarts of the container.
        pod: uid of its pod.
        name: its name in the pod.
        attempt: number of previous restarts.
        argv: the command and its arguments; the first is looked up in the container's PATH.
        log: its log file.
        root: root folder of its file system; None for that of its image, or of this machine without an image.
        image: name of its image, for a runtime with images.
        image_user: user of the image, a name or a number; empty for root.
        environment: all its variables.
        working_dir: absolute path; the root folder if empty.
        mounts: its mounts, parents first.
        limits: its resource limits.
        hostname: its host name.
        user: numeric user; None for that of the runtime.
        group: numeric group; None for that of the runtime.
        groups: further numeric groups of its processes, which only root can give them.
        read_only: True if its root is read-only.
        no_new_privileges: True if it must not gain privileges by running other programs, such as sudo.
        stdin: True if it has a standard input, which `attach` writes to; otherwise it is empty.
        stdin_once: True if its standard input ends when the first `attach` does.
        tty: True if it has a terminal.
        oom_score: how early the kernel ends its processes when the machine has no memory left: from 0, like the
            kubelet, to 1000, first.
    """

    id: str
    pod: str
    name: str
    attempt: int
    argv: Sequence[str]
    log: Path
    root: Path | None = None
    image: str = ""
    image_user: str = ""
    environment: Mapping[str, str] = field(default_factory=dict)
    working_dir: str = ""
    mounts: Sequence[Mount] = ()
    limits: Limits = Limits()
    hostname: str = ""
    user: int | None = None
    group: int | None = None
    groups: Sequence[int] = ()
    read_only: bool = False
    no_new_privileges: bool = False
    stdin: bool = False
    stdin_once: bool = False
    tty: bool = False
    oom_score: int = 0


class ContainerState(NamedTuple):
    """The state of a container.

    Attributes:
        id: of the container.
        pod: uid of its pod.
        name: its name in the pod.
        attempt: number of previous restarts.
        state: `running` or `exited`.
        pid: process id on this machine; 0 if it has none.
        started: microseconds since 1970.
        finished: microseconds since 1970; 0 while it runs.
        exit_code: as in shells: 128 plus the signal if a signal ended it.
        signal: the signal that ended it; 0 for none.
        reason: as in kubelets: Completed, Error, OOMKilled, StartError, ContainerStatusUnknown; empty while it runs.
        message: more about its end; or empty.
    """

    id: str
    pod: str
    name: str
    attempt: int
    state: Literal["running", "exited"]
    pid: int = 0
    started: int = 0
    finished: int = 0
    exit_code: int = 0
    signal: int = 0
    reason: str = ""
    message: str = ""


class Usage(NamedTuple):
    """Resources that a container has used.

    Attributes:
        cpu: processor time since its start, in microseconds.
        memory: bytes in use now.
        processes: number of its processes.
    """

    cpu: int
    memory: int
    processes: int


@dataclass
class ContainerError(Exception):
    """A container could not be started, or reached.

    Attributes:
        reason: as in kubelets: CreateContainerError, RunContainerError, ContainerCannotRun, NotFound.
        message: the message, with the fix.
    """

    reason: str
    message: str

    def __str__(self) -> str:
        """The message."""
        return self.message


class ContainerRuntime(Protocol):
    """Runs containers. All calls raise `ContainerError`."""

    @property
    def name(self) -> str:
        """The name in node statuses: `processes` or `podman`."""
        ...

    @property
    def version(self) -> str:
        """Its version."""
        ...

    @property
    def limitations(self) -> Sequence[str]:
        """Limitations on this machine, each with the reason and the fix, for the log and the node."""
        ...

    async def open(self) -> Sequence[ContainerState]:
        """Connect; return all known containers, running or exited, that are not removed."""
        ...

    async def close(self) -> None:
        """Disconnect; containers keep running."""
        ...

    async def start(self, container: Container) -> ContainerState:
        """Create a container and run its command.

        If its command cannot be run, this raises `ContainerError` with the reason RunContainerError, and the container
        has exited with code 128 and the reason StartError, as with containerd; `exits` does not yield it.
        """
        ...

    async def signal(self, id: str, number: int, *, everyone: bool = False) -> None:
        """Send a signal to the first process of a container; no error if it has exited.

        Args:
            id: of the container.
            number: of the signal.
            everyone: True to send it to all processes, as a terminal does. A first process that does not handle it ends
                as soon as the others have ended, although the kernel protects the first process of a namespace.
        """
        ...

    async def kill(self, id: str) -> None:
        """End all processes of a container at once, including those that left its process group."""
        ...

    async def resize(self, id: str, limits: Limits) -> None:
        """Change the limits of a running container."""
        ...

    async def remove(self, id: str) -> None:
        """Remove a container that has exited, with everything except its log."""
        ...

    def exits(self) -> AsyncIterator[ContainerState]:
        """Yield each container that exits, from `open` on."""
        ...

    async def exec(self, id: str, argv: Sequence[str], *, stdin: bool = False, tty: bool = False) -> Process:
        """Run another command in a running container."""
        ...

    async def attach(self, id: str, *, stdin: bool = False) -> Process:
        """Connect to the input and the output of a running container, from now on."""
        ...

    async def usage(self, ids: Sequence[str]) -> Mapping[str, Usage]:
        """Return the usage of running containers; others are left out."""
        ...

    async def folders(self, ids: Sequence[str]) -> Mapping[str, Path]:
        """Return the folders with everything that containers have written to their root and to /tmp.

        Containers that do not run, or have no such folder, are left out.
        """
        ...
