"""Containers in namespaces of their own: files, processes, host name and shared memory.

The root of a container is that of this machine, or a folder, below a layer that takes what the container writes
(overlayfs). A user other than root gets a namespace of users, too, in which it may mount.
"""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import stat
import sys
from collections.abc import Collection, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import NoReturn

from kilauea.kubelet.processes.supervisor import linux, process_tree
from kilauea.kubelet.processes.supervisor.cgroups import Cgroups
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
    spawn,
)
from kilauea.kubelet.processes.supervisor.loop import Loop
from kilauea.kubelet.processes.supervisor.plain import Plain, Usage
from kilauea.kubelet.processes.supervisor.records import Record
from kilauea.kubelet.processes.supervisor.scratch import Scratch
from kilauea.kubelet.processes.supervisor.specs import Failure, Mount, Spec

_OWN = linux.NEW_MOUNTS | linux.NEW_HOSTNAME | linux.NEW_IPC | linux.NEW_PIDS
_HIDDEN_DEVICE = linux.NO_SUID | linux.NO_DEVICES
_MADE = ("/proc", "/dev", "/sys", "/tmp")
"""Folders that every container has, whatever its root has there."""
_SKIPPED_KINDS = frozenset(
    "autofs binfmt_misc bpf cgroup cgroup2 configfs debugfs devpts devtmpfs fusectl hugetlbfs mqueue nsfs proc "
    "pstore rpc_pipefs securityfs sysfs tracefs".split()
)


class Namespaces(Plain):
    """Runs each container in namespaces of its own.

    Args:
        loop: knows the processes that the supervisor has started itself.
        scratch: folder for what containers write to their roots.
        cgroups: limit containers.
    """

    name = "namespaces"

    def __init__(self, loop: Loop, scratch: Path, cgroups: Cgroups) -> None:
        super().__init__(loop, scratch, cgroups)
        self._has_users = os.geteuid() != 0
        self._kinds = _OWN | (linux.NEW_USERS if self._has_users else 0)
        self._ids = os.geteuid(), os.getegid()
        self._folders = Scratch(str(scratch), self.cleaner)
        self.has_overlay = True
        self._home: list[int] = []
        """Namespaces of the supervisor, for coming back."""
        self._spawns = False

    @property
    def limitations(self) -> list[str]:
        """Things that it cannot do."""
        found = []
        if not self.has_overlay:
            found.append(
                "this machine does not permit overlays: the root folder of containers is read-only, and volumes can "
                "only be mounted at paths that exist; keep the cluster's folder on a disk with ext4 or xfs"
            )
        if self._has_users:
            found.append(
                "each container has one user: runAsUser gives it that number, and files of others look strange"
            )
        return [*found, *self.missing_limits()]

    def check(self, spec: Spec) -> None:
        """Raise Failure if a container needs what this machine does not have."""
        for mount in spec.mounts:
            if mount.source and not os.path.lexists(mount.source) and not mount.optional:
                message = f'cannot mount "{mount.source}" at "{mount.target}": the source does not exist'
                raise Failure(SETUP_FAILED, message)

    def spawn(self, spec: Spec, descriptors: Descriptors) -> int | None:
        """Start the first process of a container from within its namespaces, which the supervisor enters for a moment.

        A child that sets up its namespaces itself costs twice as much, most of it for copies of pages that it touches.
        Only root can come back from namespaces.
        """
        if not self._spawns or not self.can_spawn(spec):
            return None
        folder, below = self._folders.take(spec.id), _mounts_below(spec.root or "/")
        with self._inside():
            self._set_up(spec, folder, below, has_processes=False)
            enter_folder(spec.working_dir, make=True)
            return spawn(spec.argv, environment_of(spec, tty=False), descriptors, is_first=True)

    @contextlib.contextmanager
    def _inside(self) -> Iterator[None]:
        """Be in new namespaces, and come back."""
        folder, mask = os.open(".", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC), os.umask(0o022)
        try:
            linux.leave_namespaces(self._kinds)
            yield
        except Failure:
            raise
        except OSError as error:
            raise Failure(SETUP_FAILED, f"cannot set up the container: {error.strerror or error}") from error
        finally:
            linux.close_trees()
            try:
                linux.return_to(self._home)
                os.fchdir(folder)
            except OSError as error:
                # Nothing would be where this program expects it. The next supervisor ends the containers of this one.
                print(f"cannot return from a container: {error}", file=sys.stderr, flush=True)
                os._exit(1)
            os.close(folder)
            os.umask(mask)

    def prepare(self, spec: Spec) -> Plan:
        """Return the steps of the first process of a container."""
        folder = self._folders.take(spec.id)
        below = _mounts_below(spec.root or "/")  # read here, as everything costs more in the child
        return Plan(partial(linux.clone, self._kinds, signal.SIGCHLD), partial(self._run, spec, folder, below))

    def prepare_exec(self, record: Record, spec: Spec, argv: Sequence[str], *, tty: bool) -> Plan:
        """Return the steps of another command in a container."""
        return Plan(os.fork, partial(_run_inside, spec, argv, tty), partial(self._enter, record.pid))

    def works(self) -> str:
        """Set up a container without a command; return what failed, empty for nothing."""
        reader, writer = os.pipe2(os.O_CLOEXEC)
        spec = Spec("probe", "", "", 0, [], "")
        try:
            folder = self._folders.take(spec.id)
            pid = linux.clone(self._kinds, signal.SIGCHLD)
            if not pid:
                self._probe(spec, folder, writer)
            os.close(writer)
            with os.fdopen(reader, "rb") as file:
                failure = file.read().decode(errors="replace")
            os.waitpid(pid, 0)
        except OSError as error:
            failure = str(error.strerror or error)
        self.free(spec.id)
        self._spawns = not failure and self._can_come_back(spec)
        return failure

    def _can_come_back(self, spec: Spec) -> bool:
        """Return True if the supervisor can set up a container itself."""
        if self._has_users:
            return False
        self._home = linux.own_namespaces(self._kinds)
        try:
            folder, below = self._folders.take(spec.id), _mounts_below("/")
            with self._inside():
                self._set_up(spec, folder, below, has_processes=False)
            return True
        except Failure:
            return False
        finally:
            self.free(spec.id)

    def _probe(self, spec: Spec, folder: str, writer: int) -> NoReturn:
        try:
            if self._has_users:
                _be_user(self._ids, spec)
            below = _mounts_below("/")
            _make_root(spec, folder, below, has_overlay=self.has_overlay, has_users=self._has_users)
        except BaseException as error:
            os.write(writer, str(error).encode())
        finally:
            os._exit(0)

    def sweep(self, record: Record, exec_pids: Collection[int]) -> bool:
        """Nothing is left behind: the kernel ends all processes of a namespace with its first."""
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
        """Return what the processes of a container use."""
        return self.usage_of([record.pid, *exec_pids])

    def release(self, id: str) -> None:
        """Free what a container needs while it runs."""
        super().release(id)
        self._folders.give_back(id)

    def discard(self, id: str) -> None:
        """Remove the files of a container that has exited, later."""
        self._folders.remove(id)

    def free(self, id: str) -> None:
        """Remove the files of a container that was not started."""
        self._folders.remove(id, later=False)

    def free_others(self) -> None:
        """Remove the files of containers of earlier supervisors."""
        self._folders.remove_others()

    def _run(self, spec: Spec, folder: str, below: Sequence[str]) -> NoReturn:
        """Set up the namespaces and run the command: the first process of a container."""
        os.umask(0o022)
        limit_resources(self.memory_of_process(spec))
        if self._has_users:
            _be_user(self._ids, spec)
        self._set_up(spec, folder, below)
        _finish(spec, spec.argv, tty=spec.tty, changes_user=not self._has_users)

    def _set_up(self, spec: Spec, folder: str, below: Sequence[str], *, has_processes: bool = True) -> None:
        _make_root(
            spec,
            folder,
            below,
            has_overlay=self.has_overlay,
            has_users=self._has_users,
            has_processes=has_processes,
        )
        if spec.hostname:
            socket.sethostname(spec.hostname)

    def _enter(self, pid: int, pipe: int) -> None:
        """Enter the namespaces of a container, and go on in a process that is in all of them."""
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
    _finish(spec, argv, tty=tty, changes_user=os.geteuid() == 0 and spec.user is not None)


def _finish(spec: Spec, argv: Sequence[str], *, tty: bool, changes_user: bool) -> NoReturn:
    os.umask(0o022)
    enter_folder(spec.working_dir, make=True)
    if changes_user:
        become(spec.user, spec.group)
    die_with(0)
    execute(argv, environment_of(spec, tty=tty))


def _be_user(outside: tuple[int, int], spec: Spec) -> None:
    """Map the one user of a namespace of users, whose number can be chosen."""
    user = outside[0] if spec.user is None else spec.user
    group = outside[1] if spec.group is None else spec.group
    lines = {"setgroups": "deny", "uid_map": f"{user} {outside[0]} 1", "gid_map": f"{group} {outside[1]} 1"}
    for name, line in lines.items():
        with open(f"/proc/self/{name}", "w") as file:
            file.write(line)


def _make_root(
    spec: Spec,
    folder: str,
    below: Sequence[str],
    *,
    has_overlay: bool,
    has_users: bool,
    has_processes: bool = True,
) -> None:
    """Build the file system of a container, and enter it.

    Args:
        spec: the container.
        folder: for what it writes.
        below: the file systems mounted below its root.
        has_overlay: True if overlays can be mounted.
        has_users: True in a namespace of users.
        has_processes: True if this process is in the container's namespace of processes, whose /proc it can mount.
    """
    linux.mount("none", "/", "", linux.RECURSIVE | linux.PRIVATE)
    trees = [(mount, _copy_source(mount)) for mount in spec.mounts if mount.source]
    devices, system = linux.copy_tree("/dev"), linux.copy_tree("/sys", read_only=True)
    temporary = linux.copy_tree(f"{folder}/tmp")
    root = f"{folder}/root"
    others = _mount_root(spec.root or "/", root, folder, below, has_overlay=has_overlay, has_users=has_users)
    with contextlib.suppress(FileExistsError):
        os.mkdir(f"{root}/proc")
    # Users may mount it only as long as they see that of the machine.
    if has_processes:
        linux.mount("proc", f"{root}/proc", "proc", _HIDDEN_DEVICE | linux.NO_EXEC)
    linux.change_root(root)
    for path, tree in others:
        _attach(tree, path, None)
    if has_overlay:
        _make_points(spec, trees)
        if spec.read_only:
            linux.make_read_only("/")
    linux.attach_tree(devices, "/dev")
    linux.attach_tree(system, "/sys")
    linux.attach_tree(temporary, "/tmp")
    os.chmod("/tmp", 0o1777)
    with contextlib.suppress(OSError):
        linux.mount("shm", "/dev/shm", "tmpfs", _HIDDEN_DEVICE, "mode=1777")
    for mount, source in trees:
        if source is not None:
            _attach(source, mount.target, mount)
    for mount in spec.mounts:
        if not mount.source:
            _mount_memory(mount)


def _make_points(spec: Spec, trees: Sequence[tuple[Mount, int | None]]) -> None:
    """Make the paths where something is mounted, and the working directory, as long as the root can be written."""
    for path in _MADE:
        os.makedirs(path, exist_ok=True)
    for mount, tree in trees:
        if tree is not None:
            with contextlib.suppress(OSError):
                _make_point(mount.target, is_folder=stat.S_ISDIR(os.fstat(tree).st_mode))
    for path in (spec.working_dir, *(mount.target for mount in spec.mounts if not mount.source)):
        with contextlib.suppress(OSError):
            os.makedirs(path or "/", 0o755, exist_ok=True)


def _make_point(target: str, *, is_folder: bool) -> None:
    if os.path.exists(target):
        return
    os.makedirs(target if is_folder else os.path.dirname(target), 0o755, exist_ok=True)
    if not is_folder:
        os.close(os.open(target, os.O_CREAT | os.O_WRONLY, 0o644))


def _mount_root(
    source: str, root: str, folder: str, below: Sequence[str], *, has_overlay: bool, has_users: bool
) -> list[tuple[str, int]]:
    """Mount the root of a container; return what is to be mounted in it as copied trees, with their paths."""
    if not has_overlay:
        linux.attach_tree(linux.copy_tree(source, read_only=True), root)
        return []
    others = [(path, linux.copy_tree(os.path.join(source, path[1:]), read_only=True)) for path in below]
    if not (has_users and below):
        _mount_overlay(source, root, f"{folder}/upper", f"{folder}/work", has_users=has_users)
        return others
    # What mounts hide must stay hidden from users, so only folders without mounts below can be the base of an overlay.
    linux.mount("root", root, "tmpfs", _HIDDEN_DEVICE, "mode=755,size=16m")
    covered = {"/" + path.split("/")[1] for path in below}
    for name in sorted(os.listdir(source)):
        path, target = os.path.join(source, name), os.path.join(root, name)
        if f"/{name}" in _MADE or f"/{name}" in below:
            os.mkdir(target)
        elif os.path.islink(path):
            os.symlink(os.readlink(path), target)
        elif os.path.isdir(path):
            os.mkdir(target)
            if f"/{name}" in covered:
                others.insert(0, (f"/{name}", linux.copy_tree(path, read_only=True)))
                others = [item for item in others if not item[0].startswith(f"/{name}/")]
                continue
            for kind in ("upper", "work"):
                os.mkdir(os.path.join(folder, kind, name))
            upper, work = (os.path.join(folder, kind, name) for kind in ("upper", "work"))
            with contextlib.suppress(OSError):
                _mount_overlay(path, target, upper, work, has_users=True)
    return others


def _mount_overlay(lower: str, target: str, upper: str, work: str, *, has_users: bool) -> None:
    options = f"lowerdir={_escaped(lower)},upperdir={_escaped(upper)},workdir={_escaped(work)}"
    if has_users:
        options += ",userxattr"
    linux.mount("overlay", target, "overlay", 0, options)


def _escaped(path: str) -> str:
    return path.replace("\\", "\\\\").replace(":", "\\:").replace(",", "\\,")


def _mounts_below(root: str) -> list[str]:
    """Return the file systems mounted below a root, as paths from it, without those that are mounted below others."""
    found: list[str] = []
    start = root.rstrip("/") + "/"
    with open("/proc/self/mountinfo") as file:
        for line in file:
            fields = line.split(" ")
            path = fields[4].encode().decode("unicode_escape") if "\\" in fields[4] else fields[4]
            if not path.startswith(start) or path == start:
                continue
            kind = fields[fields.index("-") + 1]
            inside = path[len(start) - 1 :]
            if kind in _SKIPPED_KINDS or inside.split("/")[1] in ("proc", "dev", "sys", "tmp"):
                continue
            found.append(inside)
    return sorted(path for path in set(found) if not any(path.startswith(f"{other}/") for other in found))


def _copy_source(mount: Mount) -> int | None:
    try:
        return linux.copy_tree(mount.source, read_only=mount.read_only)
    except OSError as error:
        if mount.optional:
            return None
        message = f'cannot mount "{mount.source}" at "{mount.target}": {error.strerror}'
        raise Failure(SETUP_FAILED, message) from error


def _attach(tree: int, target: str, mount: Mount | None) -> None:
    """Mount a copied tree at a path of the container, which is made if it does not exist."""
    is_folder = stat.S_ISDIR(os.fstat(tree).st_mode)
    try:
        _make_point(target, is_folder=is_folder)
        if os.path.isdir(target) != is_folder:
            raise OSError(0, "one is a folder and the other is not; mount a folder at a folder and a file at a file")
        linux.attach_tree(tree, target)
    except OSError as error:
        if mount is None or mount.optional:
            return
        message = f'cannot mount "{mount.source}" at "{target}": {error.strerror}'
        raise Failure(SETUP_FAILED, message) from error


def _mount_memory(mount: Mount) -> None:
    options = "mode=1777" if mount.size is None else f"mode=1777,size={mount.size}"
    try:
        os.makedirs(mount.target, 0o755, exist_ok=True)
        flags = _HIDDEN_DEVICE | (linux.READ_ONLY if mount.read_only else 0)
        linux.mount("tmpfs", mount.target, "tmpfs", flags, options)
    except OSError as error:
        message = f'cannot mount an empty folder in memory at "{mount.target}": {error.strerror}'
        raise Failure(SETUP_FAILED, message) from error
