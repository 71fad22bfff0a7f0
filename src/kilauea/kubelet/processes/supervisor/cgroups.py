"""Limits of containers by control groups, version 2 or 1, if this process may create them.

A group is created only for a container with limits: creating and removing it costs more than starting a short program.
"""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

from kilauea.kubelet.processes.supervisor.specs import Limits

_PERIOD = 100_000
"""Period of processor time limits in microseconds."""
_WANTED = ("cpu", "memory", "pids")
_FILES = {
    2: {"cpu": "cpu.max", "memory": "memory.max", "pids": "pids.max", "events": "memory.events"},
    1: {
        "cpu": "cpu.cfs_quota_us",
        "memory": "memory.limit_in_bytes",
        "pids": "pids.max",
        "events": "memory.oom_control",
    },
}
_NO_LIMIT = {
    2: {"cpu": f"max {_PERIOD}", "memory": "max", "pids": "max"},
    1: {"cpu": "-1", "memory": "-1", "pids": "max"},
}


@dataclass(frozen=True, slots=True)
class Hierarchy:
    """A location where groups can be created.

    Attributes:
        version: of control groups.
        folders: the folder for each available controller.
    """

    version: int
    folders: dict[str, str]


class Cgroups:
    """The groups of containers.

    Args:
        hierarchy: their location; None if groups cannot be created.
    """

    def __init__(self, hierarchy: Hierarchy | None) -> None:
        self._hierarchy = hierarchy
        self._groups: dict[str, tuple[str, ...]] = {}

    @property
    def controllers(self) -> frozenset[str]:
        """Controllers whose limits can be set."""
        return frozenset(self._hierarchy.folders if self._hierarchy else ())

    def create(self, id: str, limits: Limits) -> list[int]:
        """Create the groups of a container; return descriptors with which its first process enters them."""
        values = self._values(limits)
        if values:
            self._groups[id] = tuple(dict.fromkeys(self._limit(id, *each) for each in values.items()))
        return self.open(id)

    def open(self, id: str) -> list[int]:
        """Return descriptors with which another process enters the groups of a container."""
        groups = self._groups.get(id, ())
        return [os.open(f"{group}/cgroup.procs", os.O_WRONLY | os.O_CLOEXEC) for group in groups]

    def change(self, id: str, limits: Limits, pids: Callable[[], Iterable[int]]) -> None:
        """Change the limits of a running container.

        Args:
            id: id of the container.
            limits: the new limits.
            pids: returns its processes, which enter newly required groups.
        """
        if self._hierarchy is None:
            return
        values, known = self._values(limits), self._groups.get(id, ())
        found = []
        for controller in _WANTED:
            folder = self._hierarchy.folders.get(controller)
            if folder is not None and (controller in values or os.path.join(folder, id) in known):
                value = values.get(controller, _NO_LIMIT[self._hierarchy.version][controller])
                found.append(self._limit(id, controller, value))
        self._groups[id] = tuple(dict.fromkeys((*known, *found)))
        for group in dict.fromkeys(each for each in found if each not in known):
            _move(group, pids)

    def _limit(self, id: str, controller: str, value: str) -> str:
        """Set one limit of a container; return its group."""
        assert self._hierarchy is not None
        group = os.path.join(self._hierarchy.folders[controller], id)
        os.makedirs(group, exist_ok=True)
        _write(f"{group}/{_FILES[self._hierarchy.version][controller]}", value)
        if controller == "memory" and self._hierarchy.version == 2:
            for name, text in (("memory.swap.max", "0"), ("memory.oom.group", "1")):
                with contextlib.suppress(OSError):
                    _write(f"{group}/{name}", text)
        return group

    def ran_out_of_memory(self, id: str) -> bool:
        """Return True if the kernel killed a process of a container because its memory was used up."""
        if self._hierarchy is None:
            return False
        name = _FILES[self._hierarchy.version]["events"]
        for group in self._groups.get(id, ()):
            with contextlib.suppress(OSError):
                for line in Path(group, name).read_text().splitlines():
                    key, _, count = line.partition(" ")
                    if key == "oom_kill" and count != "0":
                        return True
        return False

    def remove(self, id: str) -> None:
        """Remove the groups of a container that has exited."""
        for group in self._groups.pop(id, ()):
            with contextlib.suppress(OSError):
                os.rmdir(group)

    def clean(self) -> None:
        """End processes in groups that an earlier supervisor left, and remove the groups."""
        for folder in self._folders():
            for group in sorted(Path(folder).iterdir()):
                if group.is_dir():
                    with contextlib.suppress(OSError):
                        for pid in (group / "cgroup.procs").read_text().split():
                            os.kill(int(pid), signal.SIGKILL)
                    with contextlib.suppress(OSError):
                        group.rmdir()

    def close(self) -> None:
        """Remove all empty groups."""
        self.clean()
        for folder in self._folders():
            with contextlib.suppress(OSError):
                os.rmdir(folder)

    def _folders(self) -> list[str]:
        return sorted(set(self._hierarchy.folders.values())) if self._hierarchy else []

    def _values(self, limits: Limits) -> dict[str, str]:
        if self._hierarchy is None:
            return {}
        values = {}
        if limits.cpu:
            quota = max(limits.cpu * _PERIOD // 1000, 1000)
            values["cpu"] = f"{quota} {_PERIOD}" if self._hierarchy.version == 2 else str(quota)
        if limits.memory:
            values["memory"] = str(limits.memory)
        if limits.processes:
            values["pids"] = str(limits.processes)
        return {key: value for key, value in values.items() if key in self._hierarchy.folders}


def find(name: str, root: str = "/sys/fs/cgroup") -> Cgroups:
    """Return the groups that this process may make, below those that it is in.

    Args:
        name: of the folder for the groups of this supervisor.
        root: where control groups are mounted.
    """
    with open("/proc/self/cgroup") as file:
        own = [line.strip().split(":", 2) for line in file]
    for number, controllers, path in own:
        if number == "0" and not controllers and os.path.exists(f"{root}/cgroup.controllers"):
            return Cgroups(_version_2(root, path, name))
    return Cgroups(_version_1(root, own, name))


def _version_2(root: str, path: str, name: str) -> Hierarchy | None:
    """The innermost group of this process below which groups with all controllers can be created."""
    parts = [part for part in path.split("/") if part]
    for length in range(len(parts), -1, -1):
        outer = os.path.join(root, *parts[:length])
        with contextlib.suppress(OSError):
            # Refused in a group that contains processes, unless it is the root.
            _enable(outer)
            group = os.path.join(outer, name)
            os.makedirs(group, exist_ok=True)
            _enable(group)
            _check_move(group)
            return Hierarchy(2, dict.fromkeys(_WANTED, group))
    return None


def _enable(group: str) -> None:
    wanted = [f"+{controller}" for controller in _WANTED]
    if not set(_WANTED) <= set(Path(group, "cgroup.subtree_control").read_text().split()):
        _write(f"{group}/cgroup.subtree_control", " ".join(wanted))


def _version_1(root: str, own: list[list[str]], name: str) -> Hierarchy | None:
    folders = {}
    for _, controllers, path in own:
        for controller in set(controllers.split(",")) & set(_WANTED):
            group = os.path.join(root, controllers, path.strip("/"), name)
            with contextlib.suppress(OSError):
                os.makedirs(group, exist_ok=True)
                _check_move(group)
                folders[controller] = group
    return Hierarchy(1, folders) if folders else None


def _move(group: str, pids: Callable[[], Iterable[int]]) -> None:
    """Move processes into a group, until none was started meanwhile by one that had not been moved."""
    moved: set[int] = set()
    while new := [pid for pid in pids() if pid not in moved]:
        for pid in new:
            with contextlib.suppress(ProcessLookupError):
                _write(f"{group}/cgroup.procs", str(pid))
        moved.update(new)


def _check_move(group: str) -> None:
    """Raise OSError if processes cannot be moved into groups there."""
    probe = os.path.join(group, "probe")
    os.makedirs(probe, exist_ok=True)
    try:
        pid = os.fork()
        if not pid:
            try:
                _write(f"{probe}/cgroup.procs", "0")
            except OSError:
                os._exit(1)
            os._exit(0)
        if os.waitpid(pid, 0)[1]:
            raise PermissionError(f"processes cannot enter {group}")
    finally:
        os.rmdir(probe)


def _write(path: str, text: str) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_CLOEXEC)
    try:
        os.write(descriptor, text.encode())
    finally:
        os.close(descriptor)
