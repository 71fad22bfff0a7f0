"""Exec, attach and port-forward: upgrade a request to a connection to a container.

Errors are reported before the upgrade if possible, as a status that clients can read. Simulated pods have no processes
to connect to, and the response says so.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace

from kilauea.api.container_streams import Connection, PodConnections, Process
from kilauea.api.ports import ApiError
from kilauea.apiserver import status
from kilauea.apiserver.rbac.authorizer import Action
from kilauea.apiserver.request import Socket, Upgrade
from kilauea.apiserver.rest.call import Call, Object
from kilauea.apiserver.rest.containers import container_of
from kilauea.apiserver.rest.dynamic import ask_dynamically
from kilauea.apiserver.rest.get import read_stored
from kilauea.apiserver.rest.objects import decode
from kilauea.apiserver.status import ApiFault
from kilauea.apiserver.streams.channels import COMMANDS
from kilauea.apiserver.streams.port_forward import PROTOCOLS, TUNNEL, Target, forward, ports_of
from kilauea.apiserver.streams.remote_command import Streams, serve_process

MOST_PORTS = 100
"""The maximum number of ports of one request; each needs two of 256 channels."""
_NAMES = {"exec": "exec and cp are", "attach": "attach is", "portforward": "port-forward is"}


async def exec_command(call: Call) -> Upgrade:
    """Answer a request to run a command in a container."""
    pod, connections = await _admitted(call)
    container, streams = container_of(pod, call.request.first("container")), _streams(call)
    command = [value for key, value in call.request.query if key == "command"]
    if not command:
        raise status.bad_request("you must specify at least one command for the container")

    async def connect() -> Process:
        return await connections.exec(pod, container, command, stdin=streams.stdin, tty=streams.tty)

    _check(lambda: connections.check(pod, container))
    return _process(call, streams, connect)


async def attach(call: Call) -> Upgrade:
    """Answer a request to connect to the process of a container."""
    pod, connections = await _admitted(call)
    container, streams = container_of(pod, call.request.first("container")), replace(_streams(call), has_code=False)

    async def connect() -> Process:
        return await connections.attach(pod, container, stdin=streams.stdin, tty=streams.tty)

    _check(lambda: connections.check(pod, container))
    return _process(call, streams, connect)


async def forward_ports(call: Call) -> Upgrade:
    """Answer a request to connect to ports of a pod."""
    pod, connections = await _admitted(call)
    _check(lambda: connections.check_pod(pod))
    protocol = check_upgrade(call, PROTOCOLS)
    ports = [] if protocol == TUNNEL else _ports(call)

    async def connect(port: int) -> Connection:
        try:
            return await call.backend.ports.counted(call.user, lambda: connections.connect(pod, port))
        except ApiFault as fault:
            raise ApiError(fault.code, fault.reason, str(fault)) from fault

    async def serve(socket: Socket) -> None:
        await forward(socket, ports, Target(call.info.name, pod["metadata"]["uid"], connect))

    return conversation(call, PROTOCOLS, serve)


def _ports(call: Call) -> list[int]:
    """Return the ports that a request names.

    Raises:
        ApiFault: none is given, one is invalid, or there are too many for the channels (400).
    """
    try:
        ports = ports_of([value for key, value in call.request.query if key == "ports"])
    except ValueError as error:
        raise status.bad_request(str(error)) from None
    if len(ports) > MOST_PORTS:
        raise status.bad_request(f"{len(ports)} ports in one request; {MOST_PORTS} is the limit")
    return ports


async def _admitted(call: Call) -> tuple[Object, PodConnections]:
    """Return the pod and the connections to it, if the caller may connect and webhooks allow it.

    Raises:
        ApiFault: the pod does not exist (404), is simulated or unassigned (400), or the caller may not connect (403).
    """
    pod = decode(read_stored(call).value)
    await ask_dynamically(call, call.attributes("CONNECT", _options(call), None))
    _check_may_create(call)
    connections = call.backend.connections
    if connections is not None and not pod["spec"].get("nodeName"):
        raise status.bad_request(f"pod {call.info.name} does not have a host assigned")
    if connections is None or not connections.runs(pod):
        raise _simulated(call)
    return pod, connections


def _check_may_create(call: Call) -> None:
    """Reject a caller who may only read the subresource: WebSockets begin with a GET. Kubernetes 1.35 does so, too."""
    info = call.info
    if info.verb != "create":
        action = Action("create", info.group, info.resource, info.subresource, info.namespace, info.name)
        call.backend.authorizer.check(call.user, action)


def _simulated(call: Call) -> ApiFault:
    assert call.subresource is not None
    return status.bad_request(
        f"pod {call.namespace}/{call.info.name} is simulated: it has a status and logs, but no process, files or "
        f"network, so {_NAMES[call.subresource.name]} not available; kubectl logs shows what its command would print"
    )


def _streams(call: Call) -> Streams:
    """Return the requested streams.

    Raises:
        ApiFault: none is requested (400).
    """
    stdin, stdout, stderr, tty = (call.request.flag(name) is True for name in ("stdin", "stdout", "stderr", "tty"))
    if not (stdin or stdout or (stderr and not tty)):
        raise status.bad_request("you must specify at least 1 of stdin, stdout, stderr")
    return Streams(stdin, stdout, stderr and not tty, tty)


def asks_for_websocket(call: Call) -> bool:
    """Return True if a request opens a WebSocket."""
    headers = call.request.headers
    tokens = {each.strip().lower() for each in headers.get("connection", "").split(",")}
    return "upgrade" in tokens and headers.get("upgrade", "").strip().lower() == "websocket"


def check_upgrade(call: Call, supported: tuple[str, ...]) -> str:
    """Return the protocol to use: the first supported one that the client names.

    Raises:
        ApiFault: the request does not open a WebSocket (400), or its protocols are unsupported (403).
    """
    if not asks_for_websocket(call):
        raise status.bad_request("Upgrade request required")
    asked = [each.strip() for each in call.request.headers.get("sec-websocket-protocol", "").split(",")]
    protocol = next((each for each in asked if each in supported), None)
    if protocol is None:
        known = " ".join(each for each in supported if each)
        message = f"requested protocol(s) are not supported: [{' '.join(asked)}]; supports [{known}]"
        raise ApiFault(403, "Forbidden", f"unable to upgrade: {message}")
    return protocol


def _check(ask: Callable[[], None]) -> None:
    """Check with the kubelet that it can connect.

    Raises:
        ApiFault: it cannot, with the kubelet's message.
    """
    try:
        ask()
    except ApiError as error:
        raise ApiFault(error.code, error.reason, error.message, dict(error.details) or None) from error


def _process(call: Call, streams: Streams, connect: Callable[[], Awaitable[Process]]) -> Upgrade:
    """Return the upgrade to a connection to a process."""
    check_upgrade(call, COMMANDS)

    async def serve(socket: Socket) -> None:
        await serve_process(socket, connect, streams)

    return conversation(call, COMMANDS, serve)


def conversation(call: Call, protocols: Sequence[str], serve: Callable[[Socket], Awaitable[None]]) -> Upgrade:
    """Return an upgrade to a connection, within the limits.

    Raises:
        ApiFault: too many are open (429).
    """
    sessions, user = call.backend.sessions, call.user
    largest = sessions.begin(user)
    return Upgrade(protocols, serve, lambda: sessions.end(user), largest)


def _options(call: Call) -> Object:
    """Return the options of a connection as webhooks see them."""
    assert call.subresource is not None
    found: Object = {"kind": call.subresource.kind, "apiVersion": "v1"}
    for key, value in call.request.query:
        if key == "command":
            found.setdefault(key, []).append(value)
        elif key != "ports":
            found[key] = value == "true" if value in ("true", "false") else value
    return found
