"""Containers in their own namespaces: files, processes, host name and shared memory.

The root of a container is that of this machine, or a folder, below a layer for the container's writes (overlayfs).
Users other than root also get a user namespace, in which they may mount.
"""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import sys
from collections.abc import Collection, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import NoReturn

from kilauea.kubelet.processes.supervisor import linux, process_tree
from kilauea.kubelet.processes.supervisor.cgroups import Cgroups
from kilauea.kubelet.processes.supervisor.filesystem import (
    Point,
    Tree,
    build,
    complete,
    copy_sources,
    mounts_below,
    points_of,
)
from kilauea.kubelet.processes.supervisor.launching import (
    SETUP_FAILED,
    Descriptors,
    Plan,
    become,
    die_with,
    enter_folder,
    environment_of,
    execute,
    limit_resources,
    spawn_first,
)
from kilauea.kubelet.processes.supervisor.loop import Loop
from kilauea.kubelet.processes.supervisor.plain import Plain, Usage
from kilauea.kubelet.processes.supervisor.records import Record
from kilauea.kubelet.processes.supervisor.roots import Roots
from kilauea.kubelet.processes.supervisor.scratch import Scratch
from kilauea.kubelet.processes.supervisor.specs import Failure, Spec

_OWN = linux.NEW_MOUNTS | linux.NEW_HOSTNAME | linux.NEW_IPC | linux.NEW_PIDS


class Namespaces(Plain):
    """Runs each container in separate namespaces.

    Args:
        loop: the event loop, which knows the supervisor's child processes.
        scratch: folder for the writes of containers to their roots.
        cgroups: control groups of containers.
    """

    name = "namespaces"

    def __init__(self, loop: Loop, scratch: Path, cgroups: Cgroups) -> None:
        super().__init__(loop, scratch, cgroups)
        self._has_users = os.geteuid() != 0
        self._kinds = _OWN | (linux.NEW_USERS if self._has_users else 0)
        self._ids = os.geteuid(), os.getegid()
        self._scratch = Scratch(str(scratch), self.cleaner)
        self._roots = Roots(loop, self._scratch, self._build_root)
        self._folders: dict[str, str] = {}
        """Folders of containers that build their root themselves."""
        self.has_overlay = True
        self._home: list[int] = []
        """Namespaces of the supervisor, to return to."""
        self._names = os.open("/proc/self/ns", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        """The namespaces of this process, also available without a mounted /proc."""
        self._spawns = False

    @property
    def limitations(self) -> list[str]:
        """Limitations on this machine."""
        found = []
        if not self.has_overlay:
            found.append(
                "this machine does not permit overlays: the root folder of containers is read-only, and volumes can "
                "only be mounted at paths that exist; keep the cluster's folder on a disk with ext4 or xfs"
            )
        if self._has_users:
            found.append(
                "each container has a single user: runAsUser sets its number, and files of others seem to have a "
                "different owner"
            )
        return [*found, *self.missing_limits()]

    def check(self, spec: Spec) -> None:
        """Raise Failure if a container needs something that this machine does not support."""
        for mount in spec.mounts:
            if mount.source and not os.path.lexists(mount.source) and not mount.optional:
                message = f'cannot mount "{mount.source}" at "{mount.target}": the source does not exist'
                raise Failure(SETUP_FAILED, message)

    def spawn(self, spec: Spec, descriptors: Descriptors, cgroups: Sequence[int]) -> int | None:
        """Start the first process of a container from within its namespaces, which the supervisor enters briefly.

        A child that sets up its namespaces itself costs twice as much, mostly for copies of pages that it touches. Only
        root can return from namespaces.
        """
        if not self._spawns or spec.tty or self.memory_of_process(spec) is not None:
            return None
        ids = (spec.user or 0, spec.group or 0, spec.groups) if spec.changes_ids else None
        with _said_as_failure():
            trees = copy_sources(spec.mounts)
            root = self._roots.take(spec.id, spec.root or "/", points_of(spec, trees))
            with self._elsewhere():
                linux.enter_namespaces([root.namespace])
                if root.stale and self.has_overlay:
                    linux.forget_lookups("/")
                linux.leave_namespaces(self._kinds)
                self._complete(spec, trees)
                enter_folder(spec.working_dir, make=True)
                environment = environment_of(spec, tty=False)
                return spawn_first(
                    spec.argv, environment, descriptors, cgroups, ids, no_new_privileges=spec.no_new_privileges
                )

    def _build_root(self, source: str, folder: str, below: Sequence[str], points: Sequence[Point]) -> int:
        """Build a root in a new namespace; return a descriptor of it."""
        with self._elsewhere():
            linux.leave_namespaces(linux.NEW_MOUNTS)
            self._build(source, folder, below, points, has_processes=False)
            return os.open("mnt", os.O_RDONLY | os.O_CLOEXEC, dir_fd=self._names)

    @contextlib.contextmanager
    def _elsewhere(self) -> Iterator[None]:
        """Enter other namespaces, and return at the end."""
        folder, mask = os.open(".", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC), os.umask(0o022)
        try:
            yield
        finally:
            try:
                linux.enter_namespaces(self._home)
                os.fchdir(folder)
            except OSError as error:
                # Nothing would be where this program expects it. The next supervisor ends its containers.
                print(f"cannot return from a container: {error}", file=sys.stderr, flush=True)
                os._exit(1)
            os.close(folder)
            os.umask(mask)

    def prepare(self, spec: Spec) -> Plan:
        """Return the steps of the first process of a container."""
        folder = self._folders[spec.id] = self._scratch.take()
        below = mounts_below(spec.root or "/")  # read here, as everything costs more in the child
        return Plan(partial(linux.clone, self._kinds, signal.SIGCHLD), partial(self._run, spec, folder, below))

    def prepare_exec(self, record: Record, spec: Spec, argv: Sequence[str], *, tty: bool) -> Plan:
        """Return the steps of another command in a container."""
        return Plan(os.fork, partial(_run_inside, spec, argv, tty), partial(self._enter, record.pid))

    def works(self) -> str:
        """Set up a container without a command; return the failure, or empty text."""
        reader, writer = os.pipe2(os.O_CLOEXEC)
        spec, folder = Spec("probe", "", "", 0, [], ""), self._scratch.take()
        try:
            pid = linux.clone(self._kinds, signal.SIGCHLD)
            if not pid:
                self._probe(spec, folder, writer)
            os.close(writer)
            with os.fdopen(reader, "rb") as file:
                failure = file.read().decode(errors="replace")
            os.waitpid(pid, 0)
        except OSError as error:
            failure = str(error.strerror or error)
        self._scratch.remove(folder, later=False)
        self._spawns = not failure and self._can_come_back()
        return failure

    def _can_come_back(self) -> bool:
        """Return True if the supervisor can set up a container itself."""
        if self._has_users:
            return False
        self._home = linux.own_namespaces(self._kinds)
        try:
            self._roots.take("probe", "/", ())
        except (OSError, Failure):
            return False
        self._roots.give_back("probe")
        return True

    def _probe(self, spec: Spec, folder: str, writer: int) -> NoReturn:
        try:
            if self._has_users:
                _be_user(self._ids, spec)
            self._build("/", folder, mounts_below("/"), (), has_processes=True)
            complete(spec, (), has_overlay=self.has_overlay)
        except BaseException as error:
            os.write(writer, str(error).encode())
        finally:
            os._exit(0)

    def sweep(self, record: Record, exec_pids: Collection[int]) -> bool:
        """Do nothing: the kernel ends all processes of a namespace with its first."""
        return False

    def kill(self, record: Record, exec_pids: Collection[int]) -> None:
        """End all processes of a container."""
        with contextlib.suppress(ProcessLookupError):
            os.kill(record.pid, signal.SIGKILL)

    def kill_leftovers(self, record: Record, boot: str) -> None:
        """End all processes of a container whose supervisor has ended."""
        first = process_tree.stat(record.pid) if record.pid and record.boot == boot else None
        if first is not None and first.started == record.ticks:
            self.kill(record, ())

    def usage(self, record: Record, exec_pids: Collection[int]) -> Usage:
        """Return the usage of the processes of a container."""
        return self.usage_of([record.pid, *exec_pids])

    def folder(self, id: str) -> str | None:
        """Return the folder with the writes of a container to its root and to /tmp; None without one."""
        return self._folders.get(id) or self._roots.folder(id)

    def release(self, id: str) -> None:
        """Free the resources that a container needs while it runs."""
        super().release(id)
        self._roots.give_back(id)

    def discard(self, id: str) -> None:
        """Remove the files of a container that has exited, asynchronously."""
        if id in self._folders:
            self._scratch.remove(self._folders.pop(id))

    def free(self, id: str) -> None:
        """Remove the files of a container that was not started."""
        if id in self._folders:
            self._scratch.remove(self._folders.pop(id), later=False)

    def free_others(self) -> None:
        """Remove the files of containers of earlier supervisors."""
        self._scratch.remove_others()

    def _run(self, spec: Spec, folder: str, below: Sequence[str]) -> NoReturn:
        """Set up the namespaces and run the command: the first process of a container."""
        os.umask(0o022)
        limit_resources(self.memory_of_process(spec))
        if self._has_users:
            _be_user(self._ids, spec)
        trees = copy_sources(spec.mounts)
        self._build(spec.root or "/", folder, below, points_of(spec, trees), has_processes=True)
        self._complete(spec, trees)
        _finish(spec, spec.argv, tty=spec.tty, changes_user=not self._has_users)

    def _build(
        self, source: str, folder: str, below: Sequence[str], points: Sequence[Point], *, has_processes: bool
    ) -> None:
        build(
            source,
            folder,
            below,
            points,
            has_overlay=self.has_overlay,
            has_users=self._has_users,
            has_processes=has_processes,
        )

    def _complete(self, spec: Spec, trees: Sequence[Tree]) -> None:
        complete(spec, trees, has_overlay=self.has_overlay)
        if spec.hostname:
            socket.sethostname(spec.hostname)

    def _enter(self, pid: int, pipe: int) -> None:
        """Enter the namespaces of a container, and continue in a process that is in all of them."""
        try:
            linux.join_namespaces(pid, self._kinds)
            child = linux.clone(linux.CLONE_PARENT, 0)
        except OSError as error:
            raise Failure("NotFound", f"the container has exited: {error.strerror}") from error
        if child:
            os.write(pipe, b"%d\n" % child)
            os._exit(0)


def _run_inside(spec: Spec, argv: Sequence[str], tty: bool) -> NoReturn:
    os.umask(0o022)
    _finish(spec, argv, tty=tty, changes_user=os.geteuid() == 0 and spec.changes_ids)


def _finish(spec: Spec, argv: Sequence[str], *, tty: bool, changes_user: bool) -> NoReturn:
    os.umask(0o022)
    enter_folder(spec.working_dir, make=True)
    if changes_user:
        become(spec)
    die_with(0)
    if spec.no_new_privileges:
        linux.gain_no_privileges()
    execute(argv, environment_of(spec, tty=tty))


def _be_user(outside: tuple[int, int], spec: Spec) -> None:
    """Map the single user of a user namespace to a chosen number."""
    user = outside[0] if spec.user is None else spec.user
    group = outside[1] if spec.group is None else spec.group
    lines = {"setgroups": "deny", "uid_map": f"{user} {outside[0]} 1", "gid_map": f"{group} {outside[1]} 1"}
    for name, line in lines.items():
        with open(f"/proc/self/{name}", "w") as file:
            file.write(line)


@contextlib.contextmanager
def _said_as_failure() -> Iterator[None]:
    """Convert system errors into failures to set up a container, and close detached trees."""
    try:
        yield
    except OSError as error:
        raise Failure(SETUP_FAILED, f"cannot set up the container: {error.strerror or error}") from error
    finally:
        linux.close_trees()
