"""The supervisor as a program: locks its folder, goes to the background, runs until it is no longer needed."""

from __future__ import annotations

import argparse
import contextlib
import fcntl
import gc
import os
import resource
import signal
import socket
import sys
from pathlib import Path

from kilauea.kubelet.processes.supervisor import linux
from kilauea.kubelet.processes.supervisor.calls import Calls
from kilauea.kubelet.processes.supervisor.containers import Containers
from kilauea.kubelet.processes.supervisor.isolation import choose
from kilauea.kubelet.processes.supervisor.loop import Loop
from kilauea.kubelet.processes.supervisor.records import Record
from kilauea.kubelet.processes.supervisor.server import Server

SOCKET, LOCK, ERRORS = "supervisor.sock", "supervisor.lock", "supervisor.log"
_IDLE = 60.0
"""Seconds without a client or container after which it ends."""


def main(arguments: list[str]) -> None:
    """Run the supervisor of a folder in the background; return at once if it already has one."""
    parser = argparse.ArgumentParser(prog="supervisor", description="Run the containers of a cluster folder.")
    parser.add_argument("folder", type=Path)
    parser.add_argument("--isolation", choices=["auto", "namespaces", "plain"], default="auto")
    parser.add_argument("--idle", type=float, default=_IDLE, help="seconds without work after which it ends")
    parser.add_argument("--version", default="", help="of the program, which clients are told")
    options = parser.parse_args(arguments)
    os.chdir(options.folder)
    lock = _lock()
    if lock is None:
        return
    listener = _listen()
    if not _in_background():
        return
    _run(listener, options)


def _lock() -> int | None:
    """Return a descriptor that holds the lock of the folder; None if another supervisor has it."""
    descriptor = os.open(LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return None
    return descriptor


def _listen() -> socket.socket:
    with contextlib.suppress(FileNotFoundError):
        os.unlink(SOCKET)
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    # Relative to the folder: the address of a socket is limited to 108 characters.
    listener.bind(SOCKET)
    os.chmod(SOCKET, 0o600)
    listener.listen(64)
    return listener


def _in_background() -> bool:
    """Leave the session of the starter; return True in the process that continues."""
    # Opened here, as the starter does not see errors of that process.
    nothing = os.open(os.devnull, os.O_RDWR)
    errors = os.open(ERRORS, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
    if os.fork():
        return False
    os.setsid()
    if os.fork():
        os._exit(0)
    for target, source in enumerate((nothing, nothing, errors)):
        os.dup2(source, target)
    os.close(nothing)
    os.close(errors)
    # Handled, not ignored: commands of containers inherit ignored signals.
    for number in (signal.SIGHUP, signal.SIGINT, signal.SIGPIPE, signal.SIGXFSZ):
        signal.signal(number, lambda *_: None)
    signal.pthread_sigmask(signal.SIG_SETMASK, ())
    return True


def _run(listener: socket.socket, options: argparse.Namespace) -> None:
    os.umask(0o077)
    linux.adopt_orphans()
    _open_more_files()
    _dump_no_core()
    loop = Loop()

    def announce(record: Record) -> None:
        server.announce(record)

    scratch = Path("scratch").absolute()
    scratch.mkdir(exist_ok=True)
    mode = choose(options.isolation, loop, scratch)
    containers = Containers(loop, Path.cwd(), mode, announce)
    containers.clean_up()
    server = Server(loop, listener, Calls(loop, containers, mode, options.version).table())

    def check() -> None:
        if not server.connections and not containers.any_runs():
            loop.stop()

    def idle() -> None:
        loop.after(options.idle, check)

    server.at_idle = containers.at_idle = idle
    idle()
    mode.cleaner.start()
    # Freeze existing objects: the garbage collector must not touch the pages that children share.
    gc.freeze()
    signal.signal(signal.SIGTERM, lambda *_: loop.stop())
    loop.run()
    mode.cgroups.close()
    with contextlib.suppress(OSError):
        os.unlink(SOCKET)
    sys.exit(0)


def _open_more_files() -> None:
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))


def _dump_no_core() -> None:
    """Disable core dumps for this process and its children, as they would fill the disk."""
    resource.setrlimit(resource.RLIMIT_CORE, (0, resource.getrlimit(resource.RLIMIT_CORE)[1]))
