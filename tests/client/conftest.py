"""Where the client is tried: in the process, at the command over HTTPS in two ways, and at the real Kubernetes.

A test says what it does as a coroutine of a `Scene`; it is run at each.
"""

from __future__ import annotations

import asyncio
import itertools
import os
import sys
from collections.abc import Callable, Coroutine, Iterator
from contextlib import ExitStack
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

import pytest

from cluster.api_process import running_server
from kilauea.api.ports import Resource
from kilauea.client.blocking import BlockingTransport
from kilauea.client.finding import find_access
from kilauea.client.http import HttpTransport
from kilauea.client.rest import Client
from kilauea.client.transport import Transport
from kilauea.runtime.clock import SystemClock
from kilauea.runtime.cluster.direct import DirectTransport
from support.api_core import Api as Core

MAPS = Resource("", "v1", "configmaps", "ConfigMap")
NAMESPACES = Resource("", "v1", "namespaces", "Namespace", namespaced=False)
PATIENCE = 60.0
"""Seconds that a test may take at a server."""

_numbers = itertools.count(1)


class Scene(NamedTuple):
    """A client, the transport below it, a namespace of its own, and the time of the machine."""

    client: Client
    transport: Transport
    namespace: str
    clock: SystemClock
    rng: Random


Play = Callable[[Callable[[Scene], Coroutine[Any, Any, None]]], None]
"""Runs a test's coroutine."""


def _in_process(stack: ExitStack) -> Play:
    core = Core()
    stack.callback(core.close)

    def play(test: Callable[[Scene], Coroutine[Any, Any, None]]) -> None:
        core.run(asyncio.wait_for(_played(DirectTransport(core.server, "tester"), test), PATIENCE))

    return play


def _over_https(kubeconfig: Path, way: type[HttpTransport | BlockingTransport] = HttpTransport) -> Play:
    def play(test: Callable[[Scene], Coroutine[Any, Any, None]]) -> None:
        async def main() -> None:
            async with way(find_access(kubeconfig, os.environ)) as transport:
                await _played(transport, test)

        asyncio.run(asyncio.wait_for(main(), PATIENCE))

    return play


async def _played(transport: Transport, test: Callable[[Scene], Coroutine[Any, Any, None]]) -> None:
    client = Client(transport, "tester/1", Random(1), page=3)
    name = f"client-{os.getpid()}-{next(_numbers)}"
    await client.create(NAMESPACES, "", {"metadata": {"name": name}})
    await test(Scene(client, transport, name, SystemClock(), Random(2)))


def _real(stack: ExitStack) -> Play:
    folder = str(Path(__file__).parents[1] / "kubernetes")
    sys.path.insert(0, folder)
    try:
        from real_binaries import missing  # noqa: PLC0415 - only this server needs them
        from real_server import real_server  # noqa: PLC0415
    finally:
        sys.path.remove(folder)
    if missing():
        pytest.skip(f"no {', '.join(missing())}: run `make kubernetes-binaries`")
    return _over_https(stack.enter_context(real_server()).kubeconfig)


@pytest.fixture(scope="session", params=["in the process", "over HTTPS", "over plain HTTPS", "real Kubernetes"])
def play(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Play]:
    """Each of the servers."""
    with ExitStack() as stack:
        if request.param == "in the process":
            yield _in_process(stack)
        elif request.param.startswith("over"):
            server = stack.enter_context(running_server(tmp_path_factory.mktemp("server") / "data"))
            yield _over_https(server.kubeconfig, BlockingTransport if "plain" in request.param else HttpTransport)
        else:
            yield _real(stack)
