"""Requests over many TLS connections at the least cost to the sender, and a watch beside them.

A benchmark and the server that it measures share one machine. Clients of a cluster have machines of their own, so what
they take there is not the cluster's: requests are encoded before the clock starts, sent over bare sockets in one
thread, and answers are looked at only for their code and their length.
"""

from __future__ import annotations

import base64
import re
import socket
import ssl
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from selectors import EVENT_READ, DefaultSelector

import yaml

PIECE = 1 << 18
"""Bytes that are read at once."""
_LENGTH = re.compile(rb"content-length: *([0-9]+)", re.IGNORECASE)
_CHUNK = re.compile(rb"\r\n[0-9a-f]+\r\n")
"""Between two parts of a response, which can be within a line. JSON has no line ends of its own."""
_NAME = re.compile(rb'"name": ?"([^"]+)"')
_RUNNING = re.compile(rb'"phase": ?"Running"')


class Server:
    """The server of a kubeconfig and its user, as requests need them."""

    def __init__(self, kubeconfig: Path) -> None:
        document = yaml.safe_load(kubeconfig.read_text())
        cluster, user = document["clusters"][0]["cluster"], document["users"][0]["user"]
        host, port = cluster["server"].removeprefix("https://").split(":")
        self._address = host, int(port)
        authority = base64.b64decode(cluster["certificate-authority-data"]).decode()
        self._tls = ssl.create_default_context(cadata=authority)
        self._head = f"Host: {host}\r\nAuthorization: Bearer {user['token']}\r\nUser-Agent: bench/1\r\n"

    def request(self, method: str, path: str, body: bytes = b"") -> bytes:
        """The bytes of a request."""
        about = f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n" if body else ""
        return f"{method} {path} HTTP/1.1\r\n{self._head}{about}\r\n".encode() + body

    def connect(self) -> ssl.SSLSocket:
        """A connection that does not block."""
        connection = self._tls.wrap_socket(socket.create_connection(self._address), server_hostname=self._address[0])
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        connection.setblocking(False)
        return connection


class Sender:
    """A connection with keep-alive that sends one request after another, lot by lot, each after the answer before."""

    def __init__(self, server: Server, lots: Iterator[Sequence[bytes]]) -> None:
        self.socket = server.connect()
        self._lots = lots
        self._lot: Iterator[bytes] = iter(())
        self._answer = b""
        self.done = False

    def go_on(self) -> None:
        """Send the next request, or be done."""
        request = next(self._lot, None)
        while request is None:
            lot = next(self._lots, None)
            if lot is None:
                self.done = True
                return
            self._lot = iter(lot)
            request = next(self._lot, None)
        sent = self.socket.send(request)
        assert sent == len(request), "a request did not fit into the buffers of its connection"

    def readable(self) -> None:
        """Read what there is; go on if the answer is complete."""
        for piece in _pieces(self.socket):
            self._answer += piece
            head, separator, body = self._answer.partition(b"\r\n\r\n")
            found = _LENGTH.search(head)
            if separator and found is not None and len(body) >= int(found[1]):
                assert head.startswith(b"HTTP/1.1 201"), self._answer
                self._answer = b""
                self.go_on()


class RunningPods:
    """The names of pods that a watch has shown as Running.

    The text is not decoded: each event is a line, a name is the first of its object.
    """

    def __init__(self, server: Server, path: str) -> None:
        self.socket = server.connect()
        self.socket.send(server.request("GET", path))
        self.names: set[bytes] = set()
        self._left = b""

    def readable(self) -> None:
        """Read what there is."""
        for piece in _pieces(self.socket):
            *lines, self._left = _CHUNK.sub(b"", self._left + piece).split(b"}\n")
            for line in lines:
                if _RUNNING.search(line) and (found := _NAME.search(line, line.find(b'"metadata"'))):
                    self.names.add(found[1])


def load(senders: Sequence[Sender], running: RunningPods, count: int, patience: float) -> tuple[float, float]:
    """Send everything, and wait until so many pods are Running.

    Returns:
        Seconds until everything was answered, and until all pods were seen to run.

    Raises:
        TimeoutError: that takes more than `patience` seconds.
    """
    selector = DefaultSelector()
    sources: list[RunningPods | Sender] = [running, *senders]
    for each in sources:
        selector.register(each.socket, EVENT_READ, each)
    begin, created = time.perf_counter(), 0.0
    for sender in senders:
        sender.go_on()
    while len(running.names) < count or not created:
        if time.perf_counter() - begin > patience:
            raise TimeoutError(f"{len(running.names)} of {count} pods run after {patience} seconds")
        for key, _ in selector.select(1.0):
            key.data.readable()
            if isinstance(key.data, Sender) and key.data.done:  # the server may close an idle connection
                selector.unregister(key.fileobj)
        if not created and all(sender.done for sender in senders):
            created = time.perf_counter() - begin
    ended = time.perf_counter() - begin
    selector.close()
    return created, ended


def _pieces(connection: ssl.SSLSocket) -> Iterator[bytes]:
    """Yield all that can be read now.

    Raises:
        ConnectionError: the server has ended the connection.
    """
    while True:
        try:
            piece = connection.recv(PIECE)
        except ssl.SSLWantReadError:
            return
        if not piece:
            raise ConnectionError("the server has ended a connection")
        yield piece
