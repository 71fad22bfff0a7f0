"""The file system of a container: a layer over its root, its own /proc, /tmp and /dev/shm, and its volumes.

`build` creates the parts that containers with the same root share, and `complete` adds those of one container.
"""

from __future__ import annotations

import contextlib
import os
import select
import stat
from collections.abc import Sequence
from functools import lru_cache, partial
from typing import NamedTuple

from kilauea.kubelet.processes.supervisor import linux
from kilauea.kubelet.processes.supervisor.launching import SETUP_FAILED
from kilauea.kubelet.processes.supervisor.specs import Failure, Mount, Spec

_HIDDEN_DEVICE = linux.NO_SUID | linux.NO_DEVICES
_MADE = ("/proc", "/dev", "/sys", "/tmp")
"""Folders of every container, regardless of its root."""
_MACHINE = "/dev/.machine"
_SKIPPED_KINDS = frozenset(
    "autofs binfmt_misc bpf cgroup cgroup2 configfs debugfs devpts devtmpfs fusectl hugetlbfs mqueue nsfs proc "
    "pstore rpc_pipefs securityfs sysfs tracefs".split()
)


class Point(NamedTuple):
    """A path in a container for a mount, or its working directory."""

    path: str
    is_folder: bool = True


Tree = tuple[Mount, int | None]
"""A volume and the descriptor of its tree; None if the volume can be left out."""


def copy_sources(mounts: Sequence[Mount]) -> list[Tree]:
    """Return detached copies of the trees that a container mounts."""
    return [(mount, _copy_source(mount)) for mount in mounts if mount.source]


def points_of(spec: Spec, trees: Sequence[Tree]) -> tuple[Point, ...]:
    """Return the paths that a container needs, in the order of their creation."""
    volumes = [Point(mount.target, stat.S_ISDIR(os.fstat(tree).st_mode)) for mount, tree in trees if tree is not None]
    others = [Point(path) for path in (spec.working_dir, *(each.target for each in spec.mounts if not each.source))]
    return (*volumes, *(each for each in others if each.path))


def build(
    source: str,
    folder: str,
    below: Sequence[str],
    points: Sequence[Point],
    *,
    has_overlay: bool,
    has_users: bool,
    has_processes: bool,
) -> None:
    """Build a root in this mount namespace, and enter it.

    Args:
        source: the base folder.
        folder: folder for written files.
        below: the file systems mounted below its source.
        points: required paths.
        has_overlay: True if overlays can be mounted.
        has_users: True in a user namespace.
        has_processes: True if this process is in the container's PID namespace, whose /proc it can mount.
    """
    linux.mount("none", "/", "", linux.RECURSIVE | linux.PRIVATE)
    layered = has_overlay and not has_users
    devices = _copy_mounted_devices() if layered else _copy_devices()
    system = linux.copy_tree("/sys", read_only=True)
    temporary = linux.copy_tree(f"{folder}/tmp")
    root = f"{folder}/root"
    others = _mount_root(source, root, folder, below, has_overlay=has_overlay, has_users=has_users)
    if layered:
        os.makedirs(f"{root}/dev", exist_ok=True)
        _mount_overlay("/dev", f"{root}/dev", f"{folder}/dev", f"{folder}/dev-work", has_users=False)
    with contextlib.suppress(FileExistsError):
        os.mkdir(f"{root}/proc")
    # Users can mount it only as long as they see that of the machine.
    if has_processes:
        linux.mount("proc", f"{root}/proc", "proc", _HIDDEN_DEVICE | linux.NO_EXEC)
    linux.change_root(root)
    for path, tree in others:
        _attach(tree, path, None)
    if has_overlay:
        for path in _MADE:
            os.makedirs(path, exist_ok=True)
    if not layered:
        linux.mount("dev", "/dev", "tmpfs", _HIDDEN_DEVICE, "mode=755,size=64k")
    for path, device in devices:
        if isinstance(device, str):
            os.symlink(device, path)
        else:
            _attach(device, path, None)
    linux.attach_tree(system, "/sys")
    linux.attach_tree(temporary, "/tmp")
    os.chmod("/tmp", 0o1777)
    for point in points:
        with contextlib.suppress(OSError):
            _make_point(point)


def complete(spec: Spec, trees: Sequence[Tree], *, has_overlay: bool) -> None:
    """Add the parts of one container to the root of this process.

    Args:
        spec: the container.
        trees: its volumes.
        has_overlay: True if its root is writable.
    """
    if has_overlay and spec.read_only:
        linux.make_read_only("/")
        for path in ("/tmp", "/dev"):
            linux.make_writable(path)
    with contextlib.suppress(OSError):
        linux.mount("shm", "/dev/shm", "tmpfs", _HIDDEN_DEVICE, "mode=1777")
    for mount, tree in trees:
        if tree is not None:
            _attach(tree, mount.target, mount)
    for mount in spec.mounts:
        if not mount.source:
            _mount_memory(mount)


def _copy_devices() -> list[tuple[str, int | str]]:
    """Return copies of devices that this user can use and of folders next to them, or the targets of links.

    They are for a separate /dev of the container, where termination messages are by default: users cannot create files
    in that of the machine, and should not. Terminals are created by a device that looks for `pts` next to itself, so it
    stays in place and is linked.
    """
    found: list[tuple[str, int | str]] = [(_MACHINE, linux.copy_tree("/dev")), ("/dev/ptmx", f"{_MACHINE}/ptmx")]
    for name in sorted(os.listdir("/dev")):
        path = f"/dev/{name}"
        mode = os.lstat(path).st_mode
        if name == "ptmx":
            continue
        if stat.S_ISLNK(mode):
            found.append((path, os.readlink(path)))
        elif os.access(path, os.R_OK) and (stat.S_ISDIR(mode) or stat.S_ISCHR(mode) or stat.S_ISBLK(mode)):
            found.append((path, linux.copy_tree(path)))
    return found


def _copy_mounted_devices() -> list[tuple[str, int | str]]:
    """Return copies of mounts below /dev, which a layer over it would hide."""
    paths = [f"/dev/{name}" for name in sorted(os.listdir("/dev"))]
    return [(path, linux.copy_tree(path)) for path in paths if os.path.ismount(path)]


def _make_point(point: Point) -> None:
    path = point.path
    if os.path.exists(path):
        return
    os.makedirs(path if point.is_folder else os.path.dirname(path), 0o755, exist_ok=True)
    if not point.is_folder:
        os.close(os.open(path, os.O_CREAT | os.O_WRONLY, 0o644))


def _mount_root(
    source: str, root: str, folder: str, below: Sequence[str], *, has_overlay: bool, has_users: bool
) -> list[tuple[str, int]]:
    """Mount the root of a container; return copied trees to be mounted in it, with their paths."""
    if not has_overlay:
        linux.attach_tree(linux.copy_tree(source, read_only=True), root)
        return []
    others = [(path, linux.copy_tree(os.path.join(source, path[1:]), read_only=True)) for path in below]
    if not (has_users and below):
        _mount_overlay(source, root, f"{folder}/upper", f"{folder}/work", has_users=has_users)
        return others
    # Content hidden by mounts must stay hidden, so only folders without mounts below can be the base of an overlay.
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


def mounts_below(root: str) -> tuple[str, ...]:
    """Return the file systems mounted below a root, as relative paths, without those mounted below others."""
    with open("/proc/self/mountinfo") as file:
        return _below(root, file.read())


class Mounts:
    """The current mounts of this process. They are read again only after changes, as this is slow."""

    def __init__(self) -> None:
        self._file = os.open("/proc/self/mountinfo", os.O_RDONLY | os.O_CLOEXEC)
        self._changes = select.poll()
        self._changes.register(self._file, select.POLLPRI)
        self._text = ""

    def below(self, root: str) -> tuple[str, ...]:
        """Return the same as `mounts_below`."""
        if self._changes.poll(0) or not self._text:
            os.lseek(self._file, 0, os.SEEK_SET)
            self._text = b"".join(iter(partial(os.read, self._file, 1 << 16), b"")).decode()
        return _below(root, self._text)


@lru_cache(maxsize=16)
def _below(root: str, mounts: str) -> tuple[str, ...]:
    found: set[str] = set()
    start = root.rstrip("/") + "/"
    for line in mounts.splitlines():
        fields = line.split(" ")
        path = fields[4].encode().decode("unicode_escape") if "\\" in fields[4] else fields[4]
        if not path.startswith(start) or path == start:
            continue
        kind = fields[fields.index("-") + 1]
        inside = path[len(start) - 1 :]
        if kind not in _SKIPPED_KINDS and inside.split("/")[1] not in ("proc", "dev", "sys", "tmp"):
            found.add(inside)
    return tuple(sorted(path for path in found if not any(path.startswith(f"{other}/") for other in found)))


def _copy_source(mount: Mount) -> int | None:
    try:
        return linux.copy_tree(mount.source, read_only=mount.read_only, follow=not mount.real)
    except OSError as error:
        if mount.optional:
            return None
        message = f'cannot mount "{mount.source}" at "{mount.target}": {error.strerror}'
        raise Failure(SETUP_FAILED, message) from error


def _attach(tree: int, target: str, mount: Mount | None) -> None:
    """Mount a copied tree at a path of the container, which is created if missing."""
    is_folder = stat.S_ISDIR(os.fstat(tree).st_mode)
    try:
        _make_point(Point(target, is_folder))
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
