"""System calls of the Linux kernel that Python does not provide.

The numbers of newer calls are the same on all architectures; `pivot_root` is older, so it needs a table.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import os
import struct
from collections.abc import Mapping, Sequence

from kilauea.kubelet.processes.supervisor.steps import Step, Steps

CLONE_PARENT = 0x00008000
_CLONE_WAITING = 0x00004000  # CLONE_VFORK without CLONE_VM: the parent waits, but its memory is its own
NEW_MOUNTS, NEW_HOSTNAME, NEW_IPC, NEW_USERS, NEW_PIDS = 0x00020000, 0x04000000, 0x08000000, 0x10000000, 0x20000000

READ_ONLY, NO_SUID, NO_DEVICES, NO_EXEC, REMOUNT, BIND, RECURSIVE, PRIVATE = 1, 2, 4, 8, 32, 4096, 16384, 1 << 18

_CLONE3, _OPEN_TREE, _MOVE_MOUNT, _MOUNT_SETATTR = 435, 428, 429, 442
_PIVOT_ROOT = {"x86_64": 155, "aarch64": 41, "riscv64": 41, "ppc64le": 203, "s390x": 217}.get(os.uname().machine)
_HERE, _EMPTY_PATH, _SUBTREE = -100, 0x1000, 0x8000
_CLONE_TREE, _CLOSE_ON_EXEC, _MOVE_FROM_DESCRIPTOR, _SET_READ_ONLY = 1, os.O_CLOEXEC, 4, 1
_DETACH = 2
_SIGKILL, _SIGCHLD = 9, 17
_MOST_STEPS = 16
"""Maximum number of steps of `start_first`: version 1 has three control groups."""
_SET_PARENT_DEATH_SIGNAL, _SET_CHILD_SUBREAPER, _SET_NO_NEW_PRIVILEGES = 1, 36, 38

# Holds the interpreter's lock during calls: a child after `clone` has one thread, and nothing could return it.
_libc = ctypes.PyDLL(None, use_errno=True)

_trees: set[int] = set()
"""Descriptors of detached trees."""

_steps: Steps | None = None
with contextlib.suppress(AttributeError, OSError):
    _steps = Steps(_MOST_STEPS)

has_namespaces = _PIVOT_ROOT is not None
"""True if this module knows how to enter a new root on this architecture."""


def _call(result: int, what: str) -> int:
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{what}: {os.strerror(number)}")
    return result


def clone(flags: int, signal: int) -> int:
    """Like `os.fork`, with new namespaces.

    Args:
        flags: flags of the new namespaces.
        signal: sent to the parent at the end of the child.
    """
    arguments = struct.pack("8Q", flags, 0, 0, 0, signal, 0, 0, 0)
    buffer = ctypes.create_string_buffer(arguments, len(arguments))
    return _call(_libc.syscall(_CLONE3, buffer, ctypes.c_size_t(len(arguments))), "clone")


def start_first(
    path: str,
    argv: Sequence[str],
    environment: Mapping[str, str],
    descriptors: Sequence[int],
    *,
    cgroups: Sequence[int] = (),
    ids: tuple[int, int, Sequence[int]] | None = None,
    no_new_privileges: bool = False,
) -> int:
    """Start the first process of new namespaces, which mounts their /proc and runs a command; return its id.

    This process waits until the command runs. Signals that this process ignores stay ignored.

    Args:
        path: path of the command's file.
        argv: the command and its arguments.
        environment: all its variables.
        descriptors: its standard input, output and error; none of them is 0, 1 or 2.
        cgroups: open `cgroup.procs` files of the control groups that it enters.
        ids: the user, group and supplementary groups to set.
        no_new_privileges: True if it must not gain privileges by running other programs.

    Raises:
        OSError: one of the steps failed. `filename` is `exec` if that failed.
    """
    if any("\0" in word for word in (*argv, *environment, *environment.values())):
        raise ValueError("embedded null byte")
    words = _strings([os.fsencode(word) for word in argv])
    variables = _strings([os.fsencode(f"{name}={value}") for name, value in environment.items()])
    user, group, others = ids or (0, 0, ())
    groups = (ctypes.c_uint * len(others))(*others)
    change = (("setgroups", _libc.setgroups, (len(others), groups)), ("setgid", _libc.setgid, (group,)))
    steps: list[Step] = [
        *(("enter the control group", _libc.write, (each, b"0", 1)) for each in cgroups),
        ("mount /proc", _libc.mount, (b"proc", b"/proc", b"proc", NO_SUID | NO_DEVICES | NO_EXEC, None)),
        *((*change, ("setuid", _libc.setuid, (user,))) if ids else ()),
        *((("prctl", _libc.prctl, (_SET_NO_NEW_PRIVILEGES, 1, 0, 0, 0)),) if no_new_privileges else ()),
        # After changing the user, which would undo it.
        ("prctl", _libc.prctl, (_SET_PARENT_DEATH_SIGNAL, _SIGKILL)),
        ("setsid", _libc.setsid, ()),
        *(("dup2", _libc.dup2, (descriptor, number)) for number, descriptor in enumerate(descriptors)),
        ("exec", _libc.execve, (os.fsencode(path), words, variables)),
    ]
    # The command must not run with more privileges than intended, so that is not left to `Steps`.
    return _copied(steps) if _steps is None or ids or no_new_privileges else _steps.start(steps)


def _copied(steps: Sequence[Step]) -> int:
    """Do the same as `Steps.start` in a copy of this process, which stops at the first failed step."""
    arguments = struct.pack("8Q", _CLONE_WAITING, 0, 0, 0, _SIGCHLD, 0, 0, 0)
    buffer, size = ctypes.create_string_buffer(arguments, len(arguments)), ctypes.c_size_t(len(arguments))
    # Created here, as each page that the child writes to is copied.
    calls = [(call, [ctypes.c_long(each) if isinstance(each, int) else each for each in to]) for _, call, to in steps]
    reader, writer = os.pipe2(os.O_CLOEXEC)
    pid = _libc.syscall(_CLONE3, buffer, size)
    if pid == 0:
        try:
            for number, (call, values) in enumerate(calls):
                if call(*values) < 0:
                    os.write(writer, b"%d %d" % (number, ctypes.get_errno()))
                    break
        finally:
            os._exit(128)
    os.close(writer)
    try:
        _call(pid, "clone")
        failed, _, code = os.read(reader, 64).partition(b" ")
    finally:
        os.close(reader)
    if failed:
        raise OSError(int(code), os.strerror(int(code)), steps[int(failed)][0])
    return int(pid)


def _strings(items: Sequence[bytes]) -> ctypes.Array[ctypes.c_char_p]:
    """Return a NULL-terminated array of strings for C."""
    return (ctypes.c_char_p * (len(items) + 1))(*items, None)


def mount(source: str, target: str, kind: str, flags: int = 0, options: str = "") -> None:
    """Mount a file system."""
    arguments = (os.fsencode(source), os.fsencode(target), kind.encode(), ctypes.c_ulong(flags), os.fsencode(options))
    _call(_libc.mount(*arguments), f"mount {target}")


def copy_tree(path: str, *, read_only: bool = False, follow: bool = True) -> int:
    """Return a descriptor of a detached copy of the mounts at a path and below.

    Later mounts in the copy do not appear at the path, nor vice versa.

    Args:
        path: a file or folder.
        read_only: True to make it read-only.
        follow: False to raise an error if any part of the path is a link.
    """
    flags = ctypes.c_uint(_CLONE_TREE | _CLOSE_ON_EXEC | _SUBTREE | (0 if follow else _EMPTY_PATH))
    place = _HERE if follow else _opened(path)
    try:
        name = os.fsencode(path) if follow else b""
        tree = _call(_libc.syscall(_OPEN_TREE, place, name, flags), path)
    finally:
        if not follow:
            os.close(place)
    _trees.add(tree)
    # Mounts that are read-only in the source stay so.
    _set_attributes(tree, "", _EMPTY_PATH | _SUBTREE, read_only=True if read_only else None, propagation=PRIVATE)
    return tree


def _opened(path: str) -> int:
    """Open a path without links: a process that can write there may have created one since it was checked."""
    descriptor = os.open(path, os.O_PATH | os.O_CLOEXEC)
    found = os.readlink(f"/proc/self/fd/{descriptor}")
    if found != path:
        os.close(descriptor)
        raise OSError(errno.ELOOP, f"it is {found} now")
    return descriptor


def make_read_only(path: str) -> None:
    """Make the mounts at a path and below read-only."""
    _set_attributes(_HERE, path, _SUBTREE, read_only=True)


def make_writable(path: str) -> None:
    """Make the mounts at a path and below writable."""
    _set_attributes(_HERE, path, _SUBTREE, read_only=False)


def _set_attributes(folder: int, path: str, flags: int, *, read_only: bool | None = None, propagation: int = 0) -> None:
    on, off = {None: (0, 0), True: (_SET_READ_ONLY, 0), False: (0, _SET_READ_ONLY)}[read_only]
    attributes = struct.pack("4Q", on, off, propagation, 0)
    buffer = ctypes.create_string_buffer(attributes, len(attributes))
    size = ctypes.c_size_t(len(attributes))
    result = _libc.syscall(_MOUNT_SETATTR, folder, os.fsencode(path), ctypes.c_uint(flags), buffer, size)
    _call(result, f"change the mount {path}")


def attach_tree(tree: int, target: str) -> None:
    """Mount a copied tree at a path, and close its descriptor."""
    result = _libc.syscall(_MOVE_MOUNT, tree, b"", _HERE, os.fsencode(target), ctypes.c_uint(_MOVE_FROM_DESCRIPTOR))
    _call(result, f"mount {target}")
    _trees.discard(tree)
    os.close(tree)


def close_trees() -> None:
    """Close detached trees."""
    while _trees:
        os.close(_trees.pop())


def change_root(path: str) -> None:
    """Make a mounted folder the root of this mount namespace, and detach the old root."""
    os.chdir(path)
    _call(_libc.syscall(_PIVOT_ROOT, b".", b"."), "pivot_root")
    _call(_libc.umount2(b".", _DETACH), "detach the old root")
    os.chdir("/")


def own_namespaces(kinds: int) -> list[int]:
    """Return descriptors of the namespaces of this process, to return to with `enter_namespaces`."""
    names = {NEW_MOUNTS: "mnt", NEW_HOSTNAME: "uts", NEW_IPC: "ipc", NEW_PIDS: "pid"}
    return [os.open(f"/proc/self/ns/{name}", os.O_RDONLY | os.O_CLOEXEC) for bit, name in names.items() if kinds & bit]


def leave_namespaces(kinds: int) -> None:
    """Enter new namespaces; a new PID namespace applies to future children only."""
    _call(_libc.unshare(kinds), "unshare")


def enter_namespaces(namespaces: Sequence[int]) -> None:
    """Enter namespaces, by their descriptors."""
    for descriptor in namespaces:
        _call(_libc.setns(descriptor, 0), "setns")


def forget_lookups(path: str) -> None:
    """Make an overlay mounted at a path read its source again: it caches names that it did not find."""
    mount("", path, "", REMOUNT)


def join_namespaces(pid: int, kinds: int) -> None:
    """Enter namespaces of a process."""
    descriptor = os.pidfd_open(pid)
    try:
        _call(_libc.setns(descriptor, kinds), "setns")
    finally:
        os.close(descriptor)


def die_with_parent(signal: int) -> None:
    """Make the kernel send a signal to this process when its parent ends."""
    _call(_libc.prctl(_SET_PARENT_DEATH_SIGNAL, ctypes.c_ulong(signal)), "prctl")


def gain_no_privileges() -> None:
    """Never gain privileges again by running other programs."""
    arguments = [ctypes.c_ulong(each) for each in (1, 0, 0, 0)]
    _call(_libc.prctl(_SET_NO_NEW_PRIVILEGES, *arguments), "prctl")


def adopt_orphans() -> None:
    """Become the parent of all descendants whose parents end."""
    _call(_libc.prctl(_SET_CHILD_SUBREAPER, ctypes.c_ulong(1)), "prctl")
