"""The requests that the supervisor handles."""

from __future__ import annotations

from typing import Any

from kilauea.kubelet.processes.supervisor.containers import Containers
from kilauea.kubelet.processes.supervisor.executions import Attachment, Execution
from kilauea.kubelet.processes.supervisor.loop import Loop
from kilauea.kubelet.processes.supervisor.plain import Plain
from kilauea.kubelet.processes.supervisor.records import Record
from kilauea.kubelet.processes.supervisor.server import PROTOCOL, Call, Connection, Request
from kilauea.kubelet.processes.supervisor.specs import limits_of, spec_of


class Calls:
    """All requests, as methods.

    Args:
        loop: the event loop.
        containers: the containers.
        mode: the isolation of processes.
        version: of the program.
    """

    def __init__(self, loop: Loop, containers: Containers, mode: Plain, version: str) -> None:
        self._loop, self._containers, self._mode, self._version = loop, containers, mode, version
        self._attachments: dict[Connection, Attachment] = {}

    def table(self) -> dict[str, Call]:
        """Return all requests by their names."""
        calls = (
            self.open,
            self.start,
            self.signal,
            self.kill,
            self.resize,
            self.remove,
            self.usage,
            self.folders,
            self.exec,
            self.attach,
            self.end_input,
        )
        return {call.__name__: call for call in calls}

    def open(self, connection: Connection, request: Request) -> None:
        """Report this supervisor and all containers, and from now on each exit."""
        connection.is_told_exits = True
        result = {
            "protocol": PROTOCOL,
            "version": self._version,
            "pid": self._mode.own,
            "isolation": self._mode.name,
            "limitations": self._mode.limitations,
            "containers": [record.as_dict() for record in self._containers.records()],
        }
        connection.answer(request, result)

    def start(self, connection: Connection, request: Request) -> None:
        """Run a container."""

        def reply(result: Any) -> None:
            connection.answer(request, result.as_dict() if isinstance(result, Record) else result)

        self._containers.start(spec_of(request["container"]), reply)

    def signal(self, connection: Connection, request: Request) -> None:
        """Send a signal to the first process of a container, or to all of them."""
        number, everyone = int(request["signal"]), bool(request.get("everyone"))
        self._containers.signal(request["container"], number, everyone=everyone)
        connection.answer(request, None)

    def kill(self, connection: Connection, request: Request) -> None:
        """End all processes of a container."""
        self._containers.kill(request["container"])
        connection.answer(request, None)

    def resize(self, connection: Connection, request: Request) -> None:
        """Change the limits of a container."""
        self._containers.resize(request["container"], limits_of(request["limits"]))
        connection.answer(request, None)

    def remove(self, connection: Connection, request: Request) -> None:
        """Remove a container."""
        self._containers.remove(request["container"])
        connection.answer(request, None)

    def usage(self, connection: Connection, request: Request) -> None:
        """Return the usage of containers."""
        wanted = set(request["containers"])
        used = {
            container.record.id: self._mode.usage(container.record, container.exec_pids)
            for container in self._containers.running()
            if container.record.id in wanted
        }
        connection.answer(request, used)

    def folders(self, connection: Connection, request: Request) -> None:
        """Return the folders to which containers write outside of their volumes."""
        found = {id: self._mode.folder(id) for id in request["containers"]}
        connection.answer(request, {id: folder for id, folder in found.items() if folder is not None})

    def exec(self, connection: Connection, request: Request) -> None:
        """Run another command in a container, until the connection ends."""
        container = self._containers.get_running(request["container"])
        Execution(self._loop, self._mode, container, connection, request)

    def attach(self, connection: Connection, request: Request) -> None:
        """Connect to the output and the input of a container, until the connection ends."""
        container = self._containers.get_running(request["container"])
        self._attachments[connection] = Attachment(self._loop, container, connection, request)
        connection.at_close.append(lambda: self._attachments.pop(connection, None))

    def end_input(self, connection: Connection, request: Request) -> None:
        """End the input of a container that a client is attached to."""
        if connection in self._attachments:
            self._attachments[connection].end_input()
        connection.answer(request, None)
