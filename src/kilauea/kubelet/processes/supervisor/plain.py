"""The processes of a container, started and kept together without namespaces.

All of them are descendants of the supervisor, which is their reaper: it adopts those whose parents ended, and the mark
in their environment identifies their container.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Sequence
from functools import partial
from pathlib import Path
from typing import NamedTuple

from kilauea.kubelet.processes.supervisor import process_tree
from kilauea.kubelet.processes.supervisor.cgroups import Cgroups
from kilauea.kubelet.processes.supervisor.cleaner import Cleaner
from kilauea.kubelet.processes.supervisor.launching import Descriptors, Plan, execute_plain, run_plain, spawn_plain
from kilauea.kubelet.processes.supervisor.loop import Loop
from kilauea.kubelet.processes.supervisor.records import CONTAINERS, STATES, Record, boot_id, read_records
from kilauea.kubelet.processes.supervisor.specs import Failure, Spec

WITHOUT_NAMESPACES = (
    "containers share the files, the process table and the host name of this machine: a volume can only be used at its "
    "own path, and readOnlyRootFilesystem has no effect"
)


class Usage(NamedTuple):
    """Resources that a container uses; the fields are those of `container_runtime.Usage`."""

    cpu: int
    memory: int
    processes: int


class Plain:
    """Runs processes without separating them from those of the machine.

    Args:
        loop: the event loop, which knows the supervisor's child processes.
        scratch: folder for temporary files of containers.
        cgroups: control groups of containers.
        cause: the reason why namespaces are not available; empty if they are disabled.
    """

    name = "plain"

    def __init__(self, loop: Loop, scratch: Path, cgroups: Cgroups, cause: str = "") -> None:
        self._cause = cause
        self.cgroups = cgroups
        self.loop = loop
        self.scratch = scratch
        self.own = os.getpid()
        self.cleaner = Cleaner(loop, self._end_all)

    @property
    def limitations(self) -> list[str]:
        """Limitations on this machine."""
        first = f"{WITHOUT_NAMESPACES} (no namespaces: {self._cause})" if self._cause else WITHOUT_NAMESPACES
        return [first, *self.missing_limits()]

    def missing_limits(self) -> list[str]:
        """Limits that are not enforced, or only for each process."""
        missing = {"cpu", "memory", "pids"} - self.cgroups.controllers
        how = "delegate a control group to it (systemd-run --user --scope -p Delegate=yes), or run kilauea as root"
        found = []
        if "memory" in missing:
            found.append(f"memory limits apply to each process of a container, not to all of them together; {how}")
        others = [name for name in ("cpu", "pids") if name in missing]
        if others:
            found.append(f"limits of {' and '.join(others)} have no effect; {how}")
        return found

    def memory_of_process(self, spec: Spec) -> int | None:
        """The memory limit of each process of a container, if no control group limits them together."""
        return None if "memory" in self.cgroups.controllers else spec.limits.memory

    def check(self, spec: Spec) -> None:
        """Raise Failure if a container needs something that this mode does not support."""
        if spec.root is not None and os.geteuid() != 0:
            message = (
                f"cannot make {spec.root} the root of the container without namespaces; run kilauea as root, or allow "
                "user namespaces (sysctl user.max_user_namespaces)"
            )
            raise Failure("CreateContainerError", message)
        for mount in spec.mounts:
            if not mount.optional and os.path.realpath(mount.source) != os.path.realpath(mount.target):
                message = (
                    f"cannot mount a volume at {mount.target}: this machine does not permit namespaces; mount a "
                    "hostPath volume at its own path, or allow user namespaces (sysctl user.max_user_namespaces)"
                )
                raise Failure("CreateContainerError", message)

    def spawn(self, spec: Spec, descriptors: Descriptors, cgroups: Sequence[int]) -> int | None:
        """Start the first process of a container directly; return its id, or None if steps of `prepare` are needed.

        The cleaner ends such a process when the supervisor ends, as it has no time to ask the kernel for that.
        """
        own = not spec.changes_ids and spec.root is None and not spec.no_new_privileges
        if not own or spec.tty or cgroups or self.memory_of_process(spec) is not None:
            return None  # steps are required between its start and its command
        return spawn_plain(spec, self.own, descriptors)

    def prepare(self, spec: Spec) -> Plan:
        """Return the steps of the first process of a container."""
        return Plan(os.fork, partial(run_plain, spec, self.own, self.memory_of_process(spec)))

    def prepare_exec(self, record: Record, spec: Spec, argv: Sequence[str], *, tty: bool) -> Plan:
        """Return the steps of another command in a container."""
        return Plan(os.fork, partial(execute_plain, spec, self.own, argv, tty=tty))

    def sweep(self, record: Record, exec_pids: Collection[int]) -> bool:
        """End remaining processes of a container; return True if there were any."""
        left = [*exec_pids, *self._strays(record)]
        process_tree.kill_all(left)
        return bool(left)

    def kill(self, record: Record, exec_pids: Collection[int]) -> None:
        """End all processes of a container."""
        process_tree.kill_all([record.pid, *exec_pids, *self._strays(record)])

    def kill_leftovers(self, record: Record, boot: str) -> None:
        """End all processes of a container whose supervisor has ended."""
        if record.boot != boot:
            return
        mark = process_tree.mark(record.supervisor, record.id)
        found = [pid for pid in process_tree.processes() if process_tree.mark_of(pid) == mark]
        first = process_tree.stat(record.pid) if record.pid else None
        if first is not None and first.started == record.ticks:
            found.append(record.pid)
        process_tree.kill_all(found)

    def usage(self, record: Record, exec_pids: Collection[int]) -> Usage:
        """Return the usage of the processes of a container."""
        return self.usage_of([record.pid, *exec_pids, *self._strays(record)])

    def usage_of(self, pids: Sequence[int]) -> Usage:
        """Return the usage of processes and their descendants."""
        cpu = own = shared = threads = 0
        for pid in process_tree.with_descendants(pids):
            seen = process_tree.stat(pid)
            if seen is not None:
                private, common = process_tree.memory(pid)
                cpu, own, shared, threads = cpu + seen.cpu, own + private, max(shared, common), threads + seen.threads
        return Usage(cpu, own + shared, threads)

    def folder(self, id: str) -> str | None:
        """Return the folder with the writes of a container to its root and to /tmp; None without one."""
        return None

    def ran_out_of_memory(self, id: str) -> bool:
        """Return True if a process of a container was killed because it used too much memory."""
        return self.cgroups.ran_out_of_memory(id)

    def release(self, id: str) -> None:
        """Free the resources that a container needs while it runs."""
        self.cgroups.remove(id)

    def discard(self, id: str) -> None:
        """Remove the files of a container that has exited, asynchronously."""

    def free(self, id: str) -> None:
        """Remove the files of a container that was not started."""

    def free_others(self) -> None:
        """Remove the files of containers of earlier supervisors."""
        names = sorted(os.listdir(self.scratch))
        self.cleaner.remove(*(f"{self.scratch}/{name}" for name in names))

    def _end_all(self) -> None:
        """End the containers of a supervisor that has ended; runs in the cleaner process."""
        for record in read_records(self.scratch.parent / CONTAINERS / STATES):
            if record.state == "running" and record.supervisor == self.own:
                self.kill_leftovers(record, boot_id())

    def _strays(self, record: Record) -> list[int]:
        """Processes of a container that left their parents."""
        orphans = [pid for pid in process_tree.children(self.own) if not self.loop.knows(pid)]
        mark = process_tree.mark(record.supervisor, record.id)
        return [pid for pid in orphans if process_tree.mark_of(pid) == mark]
