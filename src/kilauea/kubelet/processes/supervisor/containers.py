"""Containers from start to end, and the table of all containers that were not removed."""

from __future__ import annotations

import contextlib
import json
import os
import re
import resource
import signal
import sys
import time
from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

from kilauea.kubelet.processes.supervisor import process_tree
from kilauea.kubelet.processes.supervisor.launching import Descriptors, launch
from kilauea.kubelet.processes.supervisor.log_files import LogFile
from kilauea.kubelet.processes.supervisor.loop import Loop
from kilauea.kubelet.processes.supervisor.outputs import Outputs
from kilauea.kubelet.processes.supervisor.plain import Plain
from kilauea.kubelet.processes.supervisor.records import CONTAINERS, Record, Records, boot_id
from kilauea.kubelet.processes.supervisor.specs import Failure, Limits, Spec

Reply = Callable[[Any], None]
"""Receives the result of a request, or a `Failure`."""

_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,127}")
_UNKNOWN = "The container ended while nothing watched it, with the supervisor or with the machine."
_SWEEP, _SWEEPS = 0.02, 250
"""Seconds between two checks for remaining processes of a container, and the number of checks."""
_RETRY = 5.0
"""Seconds until a record that could not be written is retried."""


class Container:
    """A container that runs, or has exited and was not removed.

    Args:
        record: its state, for files and replies.
        spec: the request that started it; None for a container of an earlier supervisor.
    """

    def __init__(self, record: Record, spec: Spec | None = None) -> None:
        self.record = record
        self.spec = spec
        self.outputs: Outputs | None = None
        self.stdin = -1
        """Descriptor for writing to its standard input: a pipe, or its terminal; -1 for none."""
        self.terminal = -1
        """Its terminal; -1 for none."""
        self.exec_pids: set[int] = set()
        """Process ids of additional commands in it."""
        self.at_exit: list[Callable[[], None]] = []
        self.out_of_memory = False
        self.asked = 0
        """The signal that it was about to end by when it was killed; 0 for none."""

    @property
    def runs(self) -> bool:
        """True until its end is known."""
        return self.record.state == "running"


class Containers:
    """All containers of a folder.

    Args:
        loop: the event loop.
        folder: folder of records and file systems of containers.
        mode: the isolation of processes.
        announce: called with the record of each container that exits.
    """

    def __init__(self, loop: Loop, folder: Path, mode: Plain, announce: Callable[[Record], None]) -> None:
        self._loop, self._mode, self._announce = loop, mode, announce
        self._records = Records(folder / CONTAINERS)
        self._unsaved: dict[str, Record] = {}
        self._boot = boot_id()
        self.at_idle: Callable[[], None] = lambda: None
        """Called when a container has exited and no other runs."""
        self._table = {record.id: Container(record) for record in self._records.load()}
        self._starting: dict[str, tuple[int, Reply]] = {}
        """Containers whose command does not run yet: the status pipe, and the function for the reply."""

    def clean_up(self) -> None:
        """End processes of an earlier supervisor, and record their containers as exited."""
        for container in self.running():
            self._mode.kill_leftovers(container.record, self._boot)
            self._end(container, 137, 0, "ContainerStatusUnknown", _UNKNOWN)
        self._mode.free_others()

    def records(self) -> list[Record]:
        """Return the states of all containers, in the order of their ids."""
        return [self._table[id].record for id in sorted(self._table)]

    def any_runs(self) -> bool:
        """Return True if a container runs."""
        return any(container.runs for container in reversed(self._table.values()))  # the newest most likely does

    def running(self) -> list[Container]:
        """Return the running containers."""
        return [container for container in self._table.values() if container.runs]

    def get(self, id: str) -> Container:
        """Return a container; raise Failure if it was never started, or removed."""
        container = self._table.get(id)
        if container is None:
            raise Failure("NotFound", f'container "{id}" does not exist')
        return container

    def get_running(self, id: str) -> Container:
        """Return a container; raise Failure if it does not run."""
        container = self.get(id)
        if not container.runs or container.spec is None or id in self._starting:
            raise Failure("NotFound", f'container "{id}" is not running')
        return container

    def start(self, spec: Spec, reply: Reply) -> None:
        """Run a container; reply with its record once its command runs."""
        if not _ID.fullmatch(spec.id):
            raise Failure(
                "CreateContainerError",
                f'container id "{spec.id}" contains characters that are not allowed in file names',
            )
        if spec.id in self._table:
            raise Failure("CreateContainerError", f'container "{spec.id}" already exists')
        self._mode.check(spec)
        record = Record(spec.id, spec.pod, spec.name, spec.attempt, boot=self._boot, supervisor=self._mode.own)
        container = Container(record, spec)
        try:
            log = LogFile(spec.log, spec.log_size, spec.log_files)
        except OSError as error:
            message = f"cannot write the log of the container at {spec.log}: {error.strerror}"
            raise Failure("CreateContainerError", message) from error
        ours, theirs = _make_streams(spec)
        groups: list[int] = []
        status = -1
        try:
            groups = self._mode.cgroups.create(spec.id, spec.limits)
            pid = self._mode.spawn(spec, theirs, groups)
            if pid is None:
                pid, status = launch(self._mode.prepare(spec), theirs, groups)
        except BaseException as error:
            log.close()
            for descriptor in {*ours.values()}:
                os.close(descriptor)
            self._mode.release(spec.id)
            self._mode.free(spec.id)
            if isinstance(error, Failure):
                self._table[spec.id] = container
                self._end(container, 128, 0, "StartError", error.message)
            raise
        finally:
            for descriptor in {theirs.stdin, theirs.stdout, theirs.stderr, *groups}:
                os.close(descriptor)
        record.pid, record.started = pid, time.time_ns() // 1000
        process_tree.set_oom_score(pid, spec.oom_score)
        seen = process_tree.stat(pid)
        # Process ids are reused: with its start time, it can be distinguished from a later process with the same id.
        record.ticks = seen.started if seen else 0
        self._table[spec.id] = container
        container.stdin = ours.pop("stdin", -1)
        container.terminal = ours["stdout"] if spec.tty else -1
        container.outputs = Outputs(self._loop, log, ours)
        self._loop.at_exit(pid, lambda status: self._exited(container, status))
        if status < 0:
            self._save(record)
            reply(record)
            return
        self._starting[spec.id] = status, reply
        self._loop.watch(status, lambda: self._started(container))

    def signal(self, id: str, number: int, *, everyone: bool = False) -> None:
        """Send a signal to the first process, or to all.

        A first process that does not handle it should end, but the kernel protects the first process of a namespace. It
        is stopped, so that it does not continue with its next command, and killed when the others have ended.
        """
        container = self.get(id)
        if not container.runs:
            return
        pid = container.record.pid
        if not everyone:
            _send([pid], number)
        elif process_tree.ends_by(pid, number):
            _send([pid], signal.SIGSTOP)
            _send(process_tree.with_descendants([pid])[1:], number)
            self._end_after_others(container, number)
        else:
            _send(process_tree.with_descendants([pid]), number)

    def _end_after_others(self, container: Container, number: int) -> None:
        """End the first process by a signal, as soon as none of its descendants runs."""
        pid = container.record.pid
        if not container.runs or not self._loop.knows(pid):
            return
        if any(process_tree.runs(each) for each in process_tree.with_descendants([pid])[1:]):
            self._loop.after(_SWEEP, lambda: self._end_after_others(container, number))
            return
        container.asked = number
        _send([pid], signal.SIGKILL)

    def kill(self, id: str) -> None:
        """End all processes."""
        container = self.get(id)
        if container.runs:
            self._mode.kill(container.record, container.exec_pids)

    def resize(self, id: str, limits: Limits) -> None:
        """Change the limits of a running container."""
        container = self.get_running(id)
        assert container.spec is not None

        def pids() -> list[int]:
            return process_tree.with_descendants([container.record.pid, *container.exec_pids])

        self._mode.cgroups.change(id, limits, pids)
        container.spec = replace(container.spec, limits=limits)
        if "memory" not in self._mode.cgroups.controllers:
            size = limits.memory if limits.memory is not None else resource.RLIM_INFINITY
            for pid in pids():
                resource.prlimit(pid, resource.RLIMIT_DATA, (size, size))

    def remove(self, id: str) -> None:
        """Remove a container that has exited."""
        container = self.get(id)
        if container.runs:
            raise Failure("CreateContainerError", f'container "{id}" runs; kill it before you remove it')
        del self._table[id]
        self._unsaved.pop(id, None)
        self._records.remove(id)
        self._mode.discard(id)

    def _started(self, container: Container) -> None:
        """Read the status pipe of a new process: its command runs, or it failed."""
        pipe, reply = self._starting.pop(container.record.id)
        with contextlib.suppress(BlockingIOError):
            told = os.read(pipe, 65536)
        self._loop.forget(pipe)
        os.close(pipe)
        if not told:
            self._save(container.record)
            reply(container.record)
            return
        failure = Failure(**json.loads(told))
        if self._loop.knows(container.record.pid):
            # Its exit is still collected to avoid a zombie; nothing else is recorded.
            self._loop.at_exit(container.record.pid, lambda status: None)
        self._end(container, 128, 0, "StartError", failure.message)
        self._loop.after(_SWEEP, lambda: self._mode.release(container.record.id))
        self._mode.free(container.record.id)
        reply(failure)

    def _exited(self, container: Container, status: int) -> None:
        """Handle the end of the first process."""
        # A command can end before the status pipe, which shows if it ran at all, was read.
        if container.record.id in self._starting:
            self._started(container)
            if not container.runs:
                return
        code = os.waitstatus_to_exitcode(status)
        number = -code if code < 0 else 0
        if number == signal.SIGKILL and container.asked:
            number = container.asked
        self._sweep(container, 128 + number if number else code, number, 0)

    def _sweep(self, container: Container, code: int, number: int, round: int) -> None:
        """End remaining processes; the container has exited when none is left."""
        if round < _SWEEPS and self._mode.sweep(container.record, container.exec_pids):
            self._loop.after(_SWEEP, lambda: self._sweep(container, code, number, round + 1))
            return
        out_of_memory = container.out_of_memory or self._mode.ran_out_of_memory(container.record.id)
        reason = "OOMKilled" if out_of_memory and code else "Error" if code else "Completed"
        self._end(container, code, number, reason)
        self._mode.release(container.record.id)
        self._announce(container.record)
        if not self.any_runs():
            self.at_idle()

    def _end(self, container: Container, code: int, number: int, reason: str, message: str = "") -> None:
        if container.outputs:
            container.outputs.finish()
        if container.stdin >= 0:
            os.close(container.stdin)
        container.stdin = container.terminal = -1
        record = container.record
        record.state, record.exit_code, record.signal = "exited", code, number
        record.reason, record.message = reason, message
        record.finished = time.time_ns() // 1000
        if reason == "StartError":
            record.started = record.pid = 0
        self._save(record)
        for call in container.at_exit:
            call()
        container.at_exit.clear()

    def _save(self, record: Record) -> None:
        try:
            self._records.save(record)
        except OSError as error:
            print(f"cannot record container {record.id}: {error.strerror}; trying again", file=sys.stderr, flush=True)
            if not self._unsaved:
                self._loop.after(_RETRY, self._save_again)
            self._unsaved[record.id] = record

    def _save_again(self) -> None:
        records, self._unsaved = self._unsaved, {}
        for record in records.values():
            self._save(record)


def _send(pids: Iterable[int], number: int) -> None:
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, number)


def _make_streams(spec: Spec) -> tuple[dict[str, int], Descriptors]:
    """Return our ends of a container's standard streams, and its own."""
    if spec.tty:
        master, slave = os.openpty()
        if spec.user is not None and os.geteuid() == 0:
            os.fchown(slave, spec.user, -1)
        ours = {"stdout": master}
        if spec.stdin:
            ours["stdin"] = os.dup(master)
        return ours, Descriptors(slave, slave, slave, tty=True)
    output, its_output = os.pipe()
    errors, its_errors = os.pipe()
    ours = {"stdout": output, "stderr": errors}
    if spec.stdin:
        its_input, ours["stdin"] = os.pipe()
    else:
        its_input = os.open(os.devnull, os.O_RDONLY)
    return ours, Descriptors(its_input, its_output, its_errors)
