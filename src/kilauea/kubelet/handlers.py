"""The handlers of probes and lifecycle hooks: run a command in the container, use HTTP, or open a connection."""

from __future__ import annotations

import asyncio
import errno
import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

from kilauea.api.container_streams import Process
from kilauea.api.ports import Obj
from kilauea.kubelet.container_runtime import ContainerError, ContainerRuntime
from kilauea.kubelet.grpc_health import SERVING, NoHealth, check_health
from kilauea.kubelet.http_get import TooManyRedirects, http_get

Verdict = Literal["success", "failure", "unknown"]
LONGEST_OUTPUT = 10 * 1024
"""Maximum bytes of output to keep, as in kubelets."""
_PROBE_AGENT = "kube-probe/1.36"
_CONNECTION_REFUSED = {errno.ECONNREFUSED: "connection refused", errno.EHOSTUNREACH: "no route to host"}


class Result(NamedTuple):
    """The result of a handler.

    Attributes:
        verdict: `unknown` if it could not run.
        output: in words.
        is_warning: True for a success that is reported anyway.
    """

    verdict: Verdict
    output: str = ""
    is_warning: bool = False


@dataclass(frozen=True, slots=True)
class Target:
    """The container of a handler.

    Attributes:
        runtime: its runtime.
        id: its id.
        spec: its specification, for the names of ports.
        host: address of its pod.
    """

    runtime: ContainerRuntime
    id: str
    spec: Obj
    host: str

    def port(self, given: int | str) -> int:
        """Return the number of a port, given by number or name.

        Raises:
            ValueError: the container has no such port.
        """
        if isinstance(given, int) or given.isdigit():
            return int(given)
        for each in self.spec.get("ports") or ():
            if each.get("name") == given:
                return int(each["containerPort"])
        raise ValueError(f"couldn't find port: {given!r} in the ports of container {self.spec['name']}")


async def handle(handler: Obj, target: Target, seconds: float | None) -> Result:
    """Run a handler.

    Args:
        handler: with `exec`, `httpGet`, `tcpSocket`, `sleep` or `grpc`.
        target: the container.
        seconds: time that it may take; None for no limit.
    """
    try:
        if "exec" in handler:
            return await _exec(handler["exec"].get("command") or (), target, seconds)
        if "httpGet" in handler:
            return await _http(handler["httpGet"], target, seconds)
        if "tcpSocket" in handler:
            return await _tcp(handler["tcpSocket"], target, seconds)
        if "sleep" in handler:
            await asyncio.sleep(handler["sleep"].get("seconds") or 0)
            return Result("success")
        if "grpc" in handler:
            return await _grpc(handler["grpc"], target, seconds)
    except ValueError as error:
        return Result("unknown", str(error))
    return Result("unknown", "the handler is empty: use exec, httpGet, tcpSocket or grpc")


async def _exec(command: Sequence[str], target: Target, seconds: float | None) -> Result:
    shown = " ".join(command)
    try:
        process = await target.runtime.exec(target.id, command)
    except ContainerError as error:
        return Result("unknown" if error.reason == "NotFound" else "failure", str(error))
    try:
        async with asyncio.timeout(seconds):
            code, output = await _finish(process)
    except TimeoutError:
        return Result("failure", f'command timed out: "{shown}" timed out after {seconds:g}s')
    finally:
        await process.close()
    text = output.decode(errors="replace")
    return Result("success", text) if code == 0 else Result("failure", text or f"command exited with {code}")


async def _finish(process: Process) -> tuple[int, bytes]:
    """Read all output; return the exit code and the beginning of the output."""
    output = b""
    while (part := await process.read()) is not None:
        output = (output + part.data)[:LONGEST_OUTPUT]
    return await process.wait(), output


async def _tcp(action: Obj, target: Target, seconds: float | None) -> Result:
    host, port = action.get("host") or target.host, target.port(action["port"])
    try:
        async with asyncio.timeout(seconds):
            _, writer = await asyncio.open_connection(host, port)
    except (OSError, TimeoutError) as error:
        return Result("failure", _dial(host, port, error))
    writer.close()
    return Result("success")


def _dial(host: str, port: int, error: Exception) -> str:
    """Describe a failed connection in the words of Go."""
    address = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
    if isinstance(error, TimeoutError):
        return f"dial tcp {address}: i/o timeout"
    number = error.errno if isinstance(error, OSError) else None
    word = _CONNECTION_REFUSED.get(number or 0) or (os.strerror(number).lower() if number else str(error))
    return f"dial tcp {address}: connect: {word}"


async def _grpc(action: Obj, target: Target, seconds: float | None) -> Result:
    host, port = target.host, target.port(action["port"])
    try:
        async with asyncio.timeout(seconds):
            status = await check_health(host, port, action.get("service") or "")
    except (OSError, TimeoutError) as error:
        return Result("failure", f'timeout: failed to connect service "{host}:{port}": {_dial(host, port, error)}')
    except NoHealth as error:
        return Result("failure", f"error: health rpc failed: {error}")
    if status == SERVING:
        return Result("success", "service healthy")
    return Result("failure", f'service unhealthy (responded with "{status}")')


async def _http(action: Obj, target: Target, seconds: float | None) -> Result:
    scheme = (action.get("scheme") or "HTTP").lower()
    host, port = action.get("host") or target.host, target.port(action["port"])
    path = action.get("path") or "/"
    path = path if path.startswith("/") else f"/{path}"
    shown = f"[{host}]" if ":" in host else host
    url = f"{scheme}://{shown}:{port}{path}"
    headers = {"Host": f"{shown}:{port}", "User-Agent": _PROBE_AGENT, "Accept": "*/*", "Connection": "close"}
    headers |= {each["name"]: each.get("value") or "" for each in action.get("httpHeaders") or ()}
    try:
        async with asyncio.timeout(seconds):
            answer = await http_get(url, headers)
    except TimeoutError:
        words = "context deadline exceeded (Client.Timeout exceeded while awaiting headers)"
        return Result("failure", f'Get "{url}": {words}')
    except TooManyRedirects as error:
        return Result("failure", f'Get "{url}": {error}')
    except (OSError, asyncio.IncompleteReadError) as error:
        words = "EOF" if isinstance(error, asyncio.IncompleteReadError) else _dial(host, port, error)
        return Result("failure", f'Get "{url}": {words}')
    if 300 <= answer.status < 400:
        return Result("success", f"Probe terminated redirects, Response body: {answer.body}", is_warning=True)
    if 200 <= answer.status < 300:
        return Result("success", str(answer.status))
    return Result("failure", f"HTTP probe failed with statuscode: {answer.status}")
