"""Connections to ports of pods that share the network of the machine."""

from __future__ import annotations

import asyncio
import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from kilauea.api.ports import ApiError, Obj
from kilauea.kubelet.connections import ContainerConnections
from kilauea.kubelet.container_runtime import ContainerState
from kilauea.kubelet.listeners import localhost_of
from kilauea.kubelet.names import container_id, status_id
from support.subprocess_runtime import SubprocessRuntime

SERVER = """if True:
    import socket, sys
    server = socket.create_server((sys.argv[1], int(sys.argv[2])), family=int(sys.argv[3]))
    print(server.getsockname()[1], flush=True)
    while True:
        server.accept()[0].sendall(b"from " + sys.argv[1].encode())
"""


@contextmanager
def listening(address: str, port: int = 0) -> Iterator[tuple[int, int]]:
    """The child of a process that listens; its port, and the id of its parent."""
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    words = [sys.executable, "-c", SERVER, address, str(port), str(int(family))]
    shell = ["sh", "-c", '"$@"; true', "sh", *words]
    process = subprocess.Popen(shell, stdout=subprocess.PIPE, start_new_session=True)
    try:
        assert process.stdout is not None
        yield int(process.stdout.readline()), process.pid
    finally:
        os.killpg(process.pid, 9)
        process.communicate()


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
@pytest.mark.parametrize("address", ["127.0.0.1", "0.0.0.0"])
def test_a_listener_is_found_by_the_process_that_started_it(address: str) -> None:
    with listening(address) as (port, parent):
        assert localhost_of(port, [parent]) == "127.0.0.1"
        assert localhost_of(port, [os.getpid() + 1_000_000]) is None
        assert localhost_of(1, [parent]) is None


def pod(address: str, phase: str = "Running") -> Obj:
    """A pod with one running container."""
    id = status_id(container_id("u", "c", 0))
    state = {"name": "c", "state": {"running": {}}, "containerID": id, "restartCount": 0}
    return {
        "metadata": {"name": "p", "namespace": "default", "uid": "u"},
        "spec": {"nodeName": "here", "containers": [{"name": "c"}]},
        "status": {"phase": phase, "podIP": address, "containerStatuses": [state]},
    }


def ask(port: int, root: int, address: str = "127.77.0.9", phase: str = "Running") -> bytes:
    """What a port of a pod says."""
    id = container_id("u", "c", 0)
    known = {id: ContainerState(id, "u", "c", 0, "running", root)}
    connections = ContainerConnections(SubprocessRuntime(), known.get, lambda _: True)

    async def conversation() -> bytes:
        connection = await connections.connect(pod(address, phase), port)
        try:
            return await connection.read()
        finally:
            await connection.close()

    return asyncio.run(asyncio.wait_for(conversation(), 60))


@pytest.mark.skipif(sys.platform != "linux", reason="has 127.0.0.1 alone")
def test_a_port_is_that_of_the_address_of_the_pod_or_else_its_own_at_localhost() -> None:
    with listening("127.0.0.1") as (port, owner):
        assert ask(port, owner) == b"from 127.0.0.1"
        with listening("127.77.0.9", port) as (_, _):
            assert ask(port, owner) == b"from 127.77.0.9"
        with pytest.raises(ApiError, match=f"failed to connect to 127.77.0.9:{port} of the pod: Connection refused"):
            ask(port, os.getpid() + 1_000_000)


def test_a_pod_that_has_ended_or_has_no_address_cannot_be_reached() -> None:
    for address, phase in (("", "Pending"), ("127.0.0.1", "Succeeded")):
        with pytest.raises(ApiError, match='pod not found \\("p_default"\\)'):
            ask(1, 1, address, phase)
