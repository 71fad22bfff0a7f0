"""Processes on this machine according to /proc: descendants, and detached ones that belong to a container."""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import Iterable, Iterator
from typing import NamedTuple

MARK = "KILAUEA_CONTAINER"
"""Variable in the environment of all processes of a container, see `mark`. Without PID namespaces, it identifies
processes that left their process group and their parents."""

_HARMLESS = frozenset(
    (
        signal.SIGCHLD, signal.SIGCONT, signal.SIGURG, signal.SIGWINCH,
        signal.SIGSTOP, signal.SIGTSTP, signal.SIGTTIN, signal.SIGTTOU,
    )
)  # fmt: skip
"""Signals by which no process ends."""
_TICK = 1_000_000 // os.sysconf("SC_CLK_TCK")
_PAGE = os.sysconf("SC_PAGE_SIZE")


class Stat(NamedTuple):
    """The state of a process at one time.

    Attributes:
        parent: its parent's id.
        session: id of its session.
        cpu: microseconds of processor time, including those of children that it has waited for.
        threads: number of its threads.
        started: clock ticks since the boot, to distinguish it from a later process with the same id.
    """

    parent: int
    session: int
    cpu: int
    threads: int
    started: int


def stat(pid: int) -> Stat | None:
    """Return the state of a process; None if it does not exist."""
    try:
        with open(f"/proc/{pid}/stat", "rb", buffering=0) as file:
            fields = file.read(4096).rpartition(b")")[2].split()
    except OSError:
        return None
    cpu = sum(map(int, fields[11:15])) * _TICK
    return Stat(int(fields[1]), int(fields[3]), cpu, int(fields[17]), int(fields[19]))


def runs(pid: int) -> bool:
    """Return True unless a process has ended, even if its parent has not waited for it yet."""
    try:
        with open(f"/proc/{pid}/stat", "rb", buffering=0) as file:
            return file.read(4096).rpartition(b")")[2].split()[0] not in (b"Z", b"X")
    except OSError:
        return False


def ends_by(pid: int, number: int) -> bool:
    """Return True if a process does not handle a signal, so that it ends unless the kernel protects it."""
    if number in _HARMLESS:
        return False
    try:
        with open(f"/proc/{pid}/status", "rb", buffering=0) as file:
            lines = dict(line.split(b":", 1) for line in file.read(16384).splitlines() if b":" in line)
        heeded = int(lines[b"SigCgt"], 16) | int(lines[b"SigIgn"], 16) | int(lines[b"SigBlk"], 16)
    except (OSError, KeyError, ValueError):
        return False
    return not heeded >> (number - 1) & 1


def memory(pid: int) -> tuple[int, int]:
    """Return the private and the shared resident bytes of a process."""
    try:
        with open(f"/proc/{pid}/statm", "rb", buffering=0) as file:
            resident, shared = file.read(256).split()[1:3]
    except OSError:
        return 0, 0
    return (int(resident) - int(shared)) * _PAGE, int(shared) * _PAGE


def set_oom_score(pid: int, score: int) -> None:
    """Set how early the kernel ends a process, and those that it starts, when the machine has no memory left.

    Without effect if it has ended, or the system does not know such scores.
    """
    with contextlib.suppress(OSError), open(f"/proc/{pid}/oom_score_adj", "w", encoding="ascii") as file:
        file.write(str(score))


def children(pid: int) -> list[int]:
    """Return the children of a process with one thread or more."""
    found = []
    with contextlib.suppress(OSError):
        for thread in os.listdir(f"/proc/{pid}/task"):
            with contextlib.suppress(OSError), open(f"/proc/{pid}/task/{thread}/children", "rb", buffering=0) as file:
                found += [int(child) for child in file.read(1 << 20).split()]
    return found


def with_descendants(pids: Iterable[int]) -> list[int]:
    """Return processes and their descendants, parents first."""
    found, seen = list(pids), set(pids)
    for pid in found:
        new = [child for child in children(pid) if child not in seen]
        seen.update(new)
        found += new
    return found


def mark(supervisor: int, id: str) -> str:
    """Return the mark of a container, which is unique even if another cluster on this machine uses the same id."""
    return f"{supervisor}/{id}"


def mark_of(pid: int) -> str:
    """Return the mark in the environment of a process; empty without one."""
    try:
        with open(f"/proc/{pid}/environ", "rb", buffering=0) as file:
            variables = file.read(1 << 21).split(b"\0")
    except OSError:
        return ""
    name = MARK.encode() + b"="
    return next((item[len(name) :].decode(errors="replace") for item in variables if item.startswith(name)), "")


def processes() -> Iterator[int]:
    """Yield all processes of this machine."""
    return (int(name) for name in os.listdir("/proc") if name.isdigit())


def kill_all(pids: Iterable[int]) -> None:
    """End processes and their descendants; twice, because some may have forked meanwhile."""
    for _ in range(2):
        for pid in with_descendants(pids):
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)
