"""Ports on `localhost` on which processes of a container listen, according to /proc.

Many servers listen on localhost only, which pods of this machine share. A connection to a pod must not end at a process
of another one, so the socket has to belong to a process of the pod.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator
from contextlib import suppress
from pathlib import Path

PROC = Path("/proc")
_LISTENS = "0A"
_ADDRESSES = {
    "tcp": {"0100007F": "127.0.0.1", "00000000": "127.0.0.1"},
    "tcp6": {"0" * 24 + "01000000": "::1", "0" * 32: "::1"},
}
"""Files of the kernel, and the addresses in them that localhost reaches."""


def localhost_of(port: int, roots: Collection[int], proc: Path = PROC) -> str | None:
    """Return the localhost address on which these processes, or their descendants, listen; None without one.

    Args:
        port: the port.
        roots: process ids.
        proc: the mount point of procfs.
    """
    sockets = dict(_sockets(port, proc))
    if not sockets:
        return None
    for process in _family(roots, proc):
        with suppress(OSError):
            folder = proc / str(process) / "fd"
            for descriptor in os.listdir(folder):
                with suppress(OSError):
                    found = sockets.get(os.readlink(folder / descriptor))
                    if found is not None:
                        return found
    return None


def _sockets(port: int, proc: Path) -> Iterator[tuple[str, str]]:
    """Yield the sockets that listen on a port of localhost, as descriptors name them, with the address."""
    for name, addresses in _ADDRESSES.items():
        try:
            lines = (proc / "net" / name).read_text().splitlines()[1:]
        except OSError:
            continue
        for fields in map(str.split, lines):
            local, _, number = fields[1].partition(":")
            if fields[3] == _LISTENS and int(number, 16) == port and local in addresses:
                yield f"socket:[{fields[9]}]", addresses[local]


def _family(roots: Collection[int], proc: Path) -> Iterator[int]:
    """Yield processes and all of their descendants."""
    children: dict[int, list[int]] = {}
    for name in os.listdir(proc):
        if name.isdecimal():
            with suppress(OSError, ValueError, IndexError):
                stat = (proc / name / "stat").read_text()
                parent = int(stat[stat.rindex(")") :].split()[2])
                children.setdefault(parent, []).append(int(name))
    waiting = sorted(roots)
    while waiting:
        process = waiting.pop()
        yield process
        waiting += children.get(process, ())
