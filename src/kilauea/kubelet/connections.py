"""Connections to the containers of this machine: exec, attach and port-forward."""

from __future__ import annotations

import asyncio
import os
import ssl
from collections.abc import Callable, Sequence
from functools import cache

from kilauea.api.container_streams import Process
from kilauea.api.ports import ApiError, Obj
from kilauea.kubelet.container_runtime import ContainerError, ContainerRuntime, ContainerState
from kilauea.kubelet.container_statuses import running_id
from kilauea.kubelet.listeners import localhost_of
from kilauea.tcp import TcpConnection

CONNECT_SECONDS = 5.0
ENDED = frozenset({"Succeeded", "Failed"})


class ContainerConnections:
    """Connects to the containers of a runtime.

    Args:
        runtime: runs the containers.
        find: returns the state of a container by its id; None for an unknown one.
        runs: True for the name of a node whose pods run here.
    """

    def __init__(
        self,
        runtime: ContainerRuntime,
        find: Callable[[str], ContainerState | None],
        runs: Callable[[str], bool],
    ) -> None:
        self._runtime = runtime
        self._find = find
        self._runs = runs

    def runs(self, pod: Obj) -> bool:
        """Return True if it runs this pod."""
        return self._runs((pod.get("spec") or {}).get("nodeName") or "")

    def check(self, pod: Obj, container: str) -> None:
        """Reject a container that does not run, before a connection to it is prepared."""
        self._running(pod, container)

    def check_pod(self, pod: Obj) -> None:
        """Reject a pod whose ports cannot be reached."""
        _address(pod)

    async def exec(
        self, pod: Obj, container: str, command: Sequence[str], *, stdin: bool = False, tty: bool = False
    ) -> Process:
        """Run a command in a running container."""
        id = self._running(pod, container)
        try:
            return await self._runtime.exec(id, command, stdin=stdin, tty=tty)
        except ContainerError as error:
            raise _failed(f"error executing command in container: {error.message}") from error

    async def attach(self, pod: Obj, container: str, *, stdin: bool = False, tty: bool = False) -> Process:
        """Connect to a running container, whose configuration determines if it has a terminal."""
        id = self._running(pod, container)
        try:
            return await self._runtime.attach(id, stdin=stdin)
        except ContainerError as error:
            raise _failed(f"error attaching to container: {error.message}") from error

    async def connect(self, pod: Obj, port: int, *, tls: bool = False) -> TcpConnection:
        """Open a connection to a port of a pod; if requested, by TLS with any certificate."""
        address = _address(pod)
        try:
            return await _connected(address, port, tls)
        except ConnectionRefusedError as refused:
            local = await asyncio.to_thread(localhost_of, port, self._processes(pod))
            if local is None:
                raise _unreachable(address, port, refused) from refused
            address = local
        except OSError as error:
            raise _unreachable(address, port, error) from error
        try:
            return await _connected(address, port, tls)
        except OSError as error:
            raise _unreachable(address, port, error) from error

    def _processes(self, pod: Obj) -> list[int]:
        """The main processes of the running containers of a pod."""
        ids = [running_id(pod, each["name"]) for each in pod["spec"].get("containers") or ()]
        states = [self._find(id) for id in ids if id]
        return [state.pid for state in states if state is not None and state.pid]

    def _running(self, pod: Obj, container: str) -> str:
        """The id of a running container.

        Raises:
            ApiError: it does not run.
        """
        id = running_id(pod, container)
        state = self._find(id) if id else None
        if state is None or state.state != "running":
            raise _failed(f'container not found ("{container}")')
        return id


async def _connected(address: str, port: int, tls: bool) -> TcpConnection:
    """Connect to a port. As with a kubelet, the certificate may have any name and issuer.

    Raises:
        OSError: it cannot be reached; also `TimeoutError`.
    """
    async with asyncio.timeout(CONNECT_SECONDS):
        secured = _any_certificate() if tls else None
        return await TcpConnection.connect(address, port, ssl=secured)


@cache
def _any_certificate() -> ssl.SSLContext:
    """TLS without a check of the certificate."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    return context


def _unreachable(address: str, port: int, error: OSError) -> ApiError:
    if isinstance(error, ssl.SSLError):
        reason = (error.reason or "handshake failure").replace("_", " ").lower()
        return _failed(f"port {port} of the pod at {address} does not answer with TLS: {reason}")
    why = os.strerror(error.errno) if error.errno else "Connection timed out"
    return _failed(f"failed to connect to {address}:{port} of the pod: {why}")


def _address(pod: Obj) -> str:
    """The address of a pod.

    Raises:
        ApiError: it has none yet, or has ended.
    """
    status, metadata = pod.get("status") or {}, pod["metadata"]
    address: str = status.get("podIP") or ""
    if not address or status.get("phase") in ENDED:
        raise _failed(f'pod not found ("{metadata["name"]}_{metadata["namespace"]}")')
    return address


def _failed(message: str) -> ApiError:
    """The response of a kubelet that cannot carry out a request."""
    return ApiError(500, "InternalError", message)
