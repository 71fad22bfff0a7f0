"""Additional commands in running containers, and attached clients. They end with their connections."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Sequence

from kilauea.kubelet.processes.supervisor import process_tree
from kilauea.kubelet.processes.supervisor.containers import Container
from kilauea.kubelet.processes.supervisor.launching import Descriptors, launch
from kilauea.kubelet.processes.supervisor.loop import Loop
from kilauea.kubelet.processes.supervisor.outputs import Subscriber
from kilauea.kubelet.processes.supervisor.plain import Plain
from kilauea.kubelet.processes.supervisor.server import Connection, Request
from kilauea.kubelet.processes.supervisor.specs import Failure, Spec

_PID = re.compile(rb"(\d+)\n")
_ANSWER = 0.5
"""Seconds for a container to respond to the last input of a client whose attachment ends with it."""


class Execution:
    """A command in a running container.

    Its process may differ from the forked one, which only enters the container: its id is read from the pipe.

    Args:
        loop: the event loop.
        mode: the isolation of processes.
        container: the container.
        connection: connection of the client; the command ends with it.
        request: the client's request.
    """

    def __init__(self, loop: Loop, mode: Plain, container: Container, connection: Connection, request: Request) -> None:
        self._loop, self._container, self._connection, self._request = loop, container, connection, request
        self._pid = 0
        self._code: int | None = None
        self._told = b""
        self._runs = False
        if container.spec is None:
            raise Failure("NotFound", f'container "{container.record.id}" is not running')
        spec, argv = container.spec, [str(word) for word in request["argv"]]
        descriptors = connection.take_descriptors(1 if request.get("tty") else 3)
        groups: list[int] = []
        try:
            plan = mode.prepare_exec(container.record, spec, argv, tty=len(descriptors) == 1)
            groups = mode.cgroups.open(container.record.id)
            pid, self._pipe = launch(plan, _standard(descriptors, spec), groups)
        finally:
            for descriptor in (*descriptors, *groups):
                os.close(descriptor)
        self._goes_on_elsewhere = plan.enter is not None
        if not self._goes_on_elsewhere:
            self._is(pid)
        loop.watch(self._pipe, self._read_pipe)
        connection.at_close.append(self._stop)

    def _is(self, pid: int) -> None:
        self._pid = pid
        self._container.exec_pids.add(pid)
        if self._container.spec is not None:
            process_tree.set_oom_score(pid, self._container.spec.oom_score)
        self._loop.at_exit_of_orphan(pid, self._exited)

    def _read_pipe(self) -> None:
        data = os.read(self._pipe, 65536)
        self._told += data
        if data:
            return
        self._loop.forget(self._pipe)
        os.close(self._pipe)
        pid, failure = told_by(self._told)
        if self._goes_on_elsewhere and pid:
            self._is(pid)
        if failure:
            self._connection.answer(self._request, Failure(**json.loads(failure)))
        elif not self._pid:
            self._connection.answer(self._request, Failure("NotFound", "the container has exited"))
        else:
            self._runs = True
            self._connection.answer(self._request, {"pid": self._pid})
            self._tell_exit()
        if self._connection.closed:
            self._stop()

    def _exited(self, status: int) -> None:
        code = os.waitstatus_to_exitcode(status)
        self._code = 128 - code if code < 0 else code
        self._container.exec_pids.discard(self._pid)
        self._tell_exit()

    def _tell_exit(self) -> None:
        if self._runs and self._code is not None:
            self._connection.send({"exit": {"exit_code": self._code}})

    def _stop(self) -> None:
        if self._pid in self._container.exec_pids:
            process_tree.kill_all([self._pid])


def told_by(text: bytes) -> tuple[int, bytes]:
    """Return the process id and the failure that a new process has reported; 0 and empty if none.

    The process in the container reports its failure, its creator reports its id in a line, in any order. JSON does not
    contain line breaks.
    """
    line = _PID.search(text)
    if line is None:
        return 0, text
    return int(line[1]), text[: line.start()] + text[line.end() :]


class Attachment:
    """A client that receives the output of a container from now on, and may write to its input.

    Args:
        loop: the event loop.
        container: the container.
        connection: connection of the client; the attachment ends with it.
        request: the client's request.
    """

    def __init__(self, loop: Loop, container: Container, connection: Connection, request: Request) -> None:
        outputs, spec = container.outputs, container.spec
        if outputs is None or spec is None:
            raise Failure("NotFound", f'container "{container.record.id}" is not running')
        self._loop, self._container, self._connection = loop, container, connection
        self._outputs = outputs
        self._ends_input = bool(request.get("stdin")) and spec.stdin_once and not spec.tty
        taken = dict(zip(("stdout", "stderr"), connection.take_descriptors(2), strict=True))
        if spec.tty:
            os.close(taken.pop("stderr"))
        self._subscriber = Subscriber(loop, taken)
        outputs.subscribers.append(self._subscriber)
        connection.at_close.append(self._stop)
        container.at_exit.append(self._tell_exit)
        has_input = bool(request.get("stdin")) and container.stdin >= 0
        descriptor = container.terminal if spec.tty else container.stdin if has_input else -1
        result = {"tty": spec.tty, "stdin": has_input}
        connection.answer(request, result, (descriptor,) if descriptor >= 0 else ())

    def end_input(self) -> None:
        """End the input of the container with that of the client, or else the attachment, like containerd."""
        if self._ends_input:
            self._close_input()
        else:
            self._loop.after(_ANSWER, self._leave)

    def _close_input(self) -> None:
        if self._container.stdin >= 0:
            os.close(self._container.stdin)
            self._container.stdin = -1

    def _leave(self) -> None:
        """End the attachment to a container, which continues to run."""
        self._forget()
        self._subscriber.end()
        self._connection.send({"exit": {"exit_code": 0}})

    def _tell_exit(self) -> None:
        self._connection.send({"exit": {"exit_code": self._container.record.exit_code}})

    def _stop(self) -> None:
        if self._ends_input:
            self._close_input()
        self._forget()
        self._subscriber.close()

    def _forget(self) -> None:
        if self._subscriber in self._outputs.subscribers:
            self._outputs.subscribers.remove(self._subscriber)
        if self._tell_exit in self._container.at_exit:
            self._container.at_exit.remove(self._tell_exit)


def _standard(descriptors: Sequence[int], spec: Spec) -> Descriptors:
    if len(descriptors) == 3:
        stdin, stdout, stderr = descriptors
        return Descriptors(stdin, stdout, stderr)
    terminal = descriptors[0]
    if spec.user is not None and os.geteuid() == 0:
        os.fchown(terminal, spec.user, -1)
    return Descriptors(terminal, terminal, terminal, tty=True)
