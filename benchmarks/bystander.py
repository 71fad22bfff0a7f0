"""A client that asks for one small object again and again beside a load, over a new TLS connection each time."""

from __future__ import annotations

import multiprocessing
import statistics
import time
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing.connection import Connection
from pathlib import Path

from sender import Server

NAMESPACE = "/api/v1/namespaces/default"
EVERY = 0.02
"""Seconds from one request to the next, if it is answered by then."""


class Waits:
    """Seconds that each answer took, the connection included."""

    def __init__(self) -> None:
        self.seconds: list[float] = []

    def __str__(self) -> str:
        found = self.seconds
        return f"{len(found)} answers, median {statistics.median(found):.3f} s, slowest {max(found):.3f} s"


@contextmanager
def bystander(kubeconfig: Path) -> Iterator[Waits]:
    """A client in a process of its own for the length of a block, after which its waits are there."""
    waits = Waits()
    ours, its = multiprocessing.Pipe()
    process = multiprocessing.get_context("spawn").Process(target=_ask, args=(kubeconfig, its))
    process.start()
    ours.recv()
    try:
        yield waits
    finally:
        ours.send(None)
        waits.seconds = ours.recv()
        process.join()


def _ask(kubeconfig: Path, told: Connection) -> None:
    server = Server(kubeconfig)
    request = server.request("GET", NAMESPACE)
    seconds: list[float] = []
    told.send(None)
    while not told.poll() or not seconds:
        begin = time.perf_counter()
        with server.connect() as connection:
            connection.setblocking(True)
            connection.sendall(request)
            answer = connection.recv(1 << 16)
        assert answer.startswith(b"HTTP/1.1 200"), answer
        seconds.append(time.perf_counter() - begin)
        time.sleep(max(0.0, EVERY - seconds[-1]))
    told.send(seconds)
