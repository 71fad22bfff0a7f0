"""Requests of kubelets to the supervisor's socket, one JSON object per line, and their replies.

    {"id": 1, "call": "start", "container": {...}}    ->  {"id": 1, "result": {...}}
    {"id": 2, "call": "remove", "container": "..."}   ->  {"id": 2, "error": {"reason": "...", "message": "..."}}

Descriptors are sent with a byte of white space before the line. A connection that has sent `open` receives each exit:
`{"exit": {...}}`. Unknown fields are ignored, and an unknown call is an error, so that a kubelet and a supervisor of
different versions work together.
"""

from __future__ import annotations

import contextlib
import json
import os
import socket
import struct
import sys
from collections.abc import Callable
from typing import Any

from kilauea.kubelet.processes.supervisor.loop import Loop, would_block
from kilauea.kubelet.processes.supervisor.records import Record
from kilauea.kubelet.processes.supervisor.specs import Failure

PROTOCOL = 1
_AT_ONCE = 256 * 1024
_LONGEST = 16 * 1024 * 1024
"""Maximum bytes of a request, and of replies buffered for a client that does not read."""

Request = dict[str, Any]
Call = Callable[["Connection", Request], None]


class Connection:
    """A connected client.

    Args:
        server: handles its requests.
        loop: the event loop.
        link: the connected socket.
    """

    def __init__(self, server: Server, loop: Loop, link: socket.socket) -> None:
        self._server, self._loop, self._link = server, loop, link
        self._incoming = bytearray()
        self._outgoing = bytearray()
        self.descriptors: list[int] = []
        """Descriptors from the client that no request has used yet."""
        self.is_told_exits = False
        self.at_close: list[Callable[[], object]] = []
        self.closed = False
        self._stuck = False
        """True if the client does not read fast enough."""
        link.setblocking(False)
        loop.watch(link.fileno(), self._read)

    def send(self, message: dict[str, Any], descriptors: tuple[int, ...] = ()) -> None:
        """Send a message without waiting, together with others until the next wait, as each wakes the client."""
        if self.closed:
            return
        if descriptors:
            self._write()
        if descriptors and not self._outgoing:
            with contextlib.suppress(OSError):
                socket.send_fds(self._link, [b" "], list(descriptors))
        if not self._outgoing:
            self._loop.soon(self._write)
        self._outgoing += json.dumps(message).encode() + b"\n"

    def answer(self, request: Request, result: Any, descriptors: tuple[int, ...] = ()) -> None:
        """Send the result of a request, or a `Failure`."""
        if isinstance(result, Failure):
            error = {"reason": result.reason, "message": result.message}
            self.send({"id": request.get("id"), "error": error})
        else:
            self.send({"id": request.get("id"), "result": result}, descriptors)

    def take_descriptors(self, number: int) -> list[int]:
        """Return descriptors from the client; the caller closes them."""
        if len(self.descriptors) < number:
            raise Failure("InvalidRequest", f"{number} descriptors are needed, {len(self.descriptors)} were sent")
        taken, self.descriptors = self.descriptors[:number], self.descriptors[number:]
        return taken

    def close(self) -> None:
        """Disconnect."""
        if self.closed:
            return
        self.closed = True
        self._loop.forget(self._link.fileno())
        self._link.close()
        for descriptor in self.descriptors:
            os.close(descriptor)
        self._server.disconnected(self)
        for call in self.at_close:
            call()

    def _read(self) -> None:
        try:
            data, descriptors, _, _ = socket.recv_fds(self._link, _AT_ONCE, 8)
        except OSError as error:
            if not would_block(error):
                self.close()
            return
        self.descriptors += descriptors
        if not data:
            self.close()
            return
        self._incoming += data
        while not self.closed and (end := self._incoming.find(b"\n")) >= 0:
            line = bytes(self._incoming[:end])
            del self._incoming[: end + 1]
            self._server.handle(self, line)
            # A container that has ended leaves its root to the next one, which the next line may start.
            self._loop.reap()
        if len(self._incoming) > _LONGEST:
            self.close()

    def _write(self) -> None:
        if self.closed:
            return
        try:
            while self._outgoing:
                del self._outgoing[: self._link.send(self._outgoing)]
        except OSError as error:
            if not would_block(error) or len(self._outgoing) > _LONGEST:
                self.close()
                return
        if self._stuck != bool(self._outgoing):
            self._stuck = bool(self._outgoing)
            self._loop.watch_both(self._link.fileno(), self._read, self._write if self._stuck else None)


class Server:
    """Listens, and handles requests.

    Args:
        loop: the event loop.
        listener: the socket to which they connect.
        calls: each kind of request, by its name.
    """

    def __init__(self, loop: Loop, listener: socket.socket, calls: dict[str, Call]) -> None:
        self._loop, self._listener, self._calls = loop, listener, calls
        self.connections: set[Connection] = set()
        self.at_idle: Callable[[], None] = lambda: None
        listener.setblocking(False)
        loop.watch(listener.fileno(), self._accept)

    def announce(self, record: Record) -> None:
        """Send an exit to the clients that requested exits."""
        for connection in [connection for connection in self.connections if connection.is_told_exits]:
            connection.send({"exit": record.as_dict()})

    def disconnected(self, connection: Connection) -> None:
        """Remove a client."""
        self.connections.discard(connection)
        if not self.connections:
            self.at_idle()

    def handle(self, connection: Connection, line: bytes) -> None:
        """Handle a request."""
        try:
            request = json.loads(line)
            if not isinstance(request, dict):
                raise ValueError("not an object")
        except ValueError as error:
            connection.answer({}, Failure("InvalidRequest", f"the request cannot be read: {error}"))
            return
        name = str(request.get("call"))
        call = self._calls.get(name)
        try:
            if call is None:
                raise Failure("NotSupported", f'this supervisor has no call "{name}"')
            call(connection, request)
        except Failure as failure:
            connection.answer(request, failure)
        except (KeyError, TypeError, ValueError) as error:
            connection.answer(request, Failure("InvalidRequest", f"invalid request {name}: {error!r}"))
        except OSError as error:
            connection.answer(request, Failure("CreateContainerError", f"{name}: {error.strerror or error}"))

    def _accept(self) -> None:
        try:
            link, _ = self._listener.accept()
        except OSError as error:
            if not would_block(error):
                print(f"cannot accept a connection: {error.strerror}", file=sys.stderr, flush=True)
            return
        user = struct.unpack("3i", link.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))[1]
        if user not in (os.geteuid(), 0):
            link.close()
            return
        self.connections.add(Connection(self, self._loop, link))
