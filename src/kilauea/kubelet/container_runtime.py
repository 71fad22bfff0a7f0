"""The interface between pods and container runtimes, modeled on the Container Runtime Interface of Kubernetes.

A runtime keeps containers running when the process that started them ends; `open` finds them again. It writes what they
print to log files in the format of that interface: `2026-01-02T03:04:05.000000000Z stdout F text` for a line, `P` for a
part of a long one. Older lines are in `FILE.1`, still older ones in `FILE.2` and so on.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, NamedTuple, Protocol

from kilauea.api.container_streams import Process

LOG_SIZE, LOG_FILES = 10 * 1024 * 1024, 5
"""Bytes of a log file at which the next begins, and files that are kept of a container: the defaults of kubelets."""


@dataclass(frozen=True, slots=True)
class Mount:
    """A file or folder that a container sees at a path.

    Attributes:
        target: absolute path in the container.
        source: path on this machine; empty for an empty folder in memory.
        read_only: True if the container may not write there.
        size: most bytes of a folder in memory; None for no limit.
        image: name of the image that it shows, for a runtime that has some; empty for none.
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
    """A container to start: everything that a runtime must know about it.

    Attributes:
        id: unique on this machine, also over restarts of the container.
        pod: uid of its pod.
        name: its name in the pod.
        attempt: how often it was restarted before.
        argv: the command and its arguments; the first is looked up in the container's PATH.
        log: file to which it is logged.
        root: folder that is its file system; None for that of its image, or of this machine if it has none.
        image: name of its image, for a runtime that has some.
        image_user: user of that image, a name or a number; empty for root.
        environment: all its variables.
        working_dir: absolute path; the root folder if empty.
        mounts: what it sees beside its root, parents first.
        limits: what it may use at most.
        hostname: the name of its machine, as it sees it.
        user: numeric user; None for that of the runtime.
        group: numeric group; None for that of the runtime.
        groups: further numeric groups of its processes, which only root can give them.
        read_only: True if it may not write to its root.
        no_new_privileges: True if it must not gain rights by running other programs, such as sudo.
        stdin: True if it has a standard input, which `attach` writes to; else it reads the end of a file.
        stdin_once: True if its standard input ends when the first `attach` does.
        tty: True if it has a terminal.
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


class ContainerState(NamedTuple):
    """The state of a container.

    Attributes:
        id: of the container.
        pod: uid of its pod.
        name: its name in the pod.
        attempt: how often it was restarted before.
        state: `running` or `exited`.
        pid: process id on this machine; 0 if it has none.
        started: microseconds since 1970.
        finished: microseconds since 1970; 0 while it runs.
        exit_code: as shells have it: 128 and the signal for one that a signal has ended.
        signal: the signal that ended it; 0 for none.
        reason: as kubelets say it: Completed, Error, OOMKilled, StartError, ContainerStatusUnknown; empty while it
            runs.
        message: more about its end; empty if there is nothing to say.
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
        reason: as kubelets say it: CreateContainerError, RunContainerError, ContainerCannotRun, NotFound.
        message: in words, with what to do.
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
        """As nodes report it: `processes` or `podman`."""
        ...

    @property
    def version(self) -> str:
        """Its version."""
        ...

    @property
    def limitations(self) -> Sequence[str]:
        """Things that it cannot do on this machine, each with the reason and the way out, for the log and the node."""
        ...

    async def open(self) -> Sequence[ContainerState]:
        """Connect; return all containers that it still knows, running or exited, and not removed."""
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
            everyone: True to send it to all processes, as a terminal does. A first process that does nothing about it
                ends by it as soon as the others have ended, although the kernel spares the first of a namespace.
        """
        ...

    async def kill(self, id: str) -> None:
        """End all processes of a container at once, also those that left its process group."""
        ...

    async def resize(self, id: str, limits: Limits) -> None:
        """Change the limits of a container that runs."""
        ...

    async def remove(self, id: str) -> None:
        """Forget a container that has exited, and free what it occupied, except its log."""
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
        """Return what running containers use; those that do not run are left out."""
        ...

    async def folders(self, ids: Sequence[str]) -> Mapping[str, Path]:
        """Return the folders of containers in which all is that they have written to their root and to /tmp.

        Containers are left out that do not run, or have no such folder.
        """
        ...
