"""Requests that are proxied to pods and services (`proxy`), and the endpoints of nodes.

`pods/[SCHEME:]NAME[:PORT]/proxy/PATH` reaches a port of a pod, `services/[SCHEME:]NAME[:PORT]/proxy/PATH` a pod behind
a service, over HTTP or with the scheme `https` over TLS with any certificate. A WebSocket becomes a tunnel to the
container. Requests to nodes, whose kubelet has no port here, are answered by the server (`node_reports.py`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import NamedTuple
from urllib.parse import quote, urlencode

from kilauea.api.container_streams import PodConnections
from kilauea.api.ports import ApiError
from kilauea.apiserver import status
from kilauea.apiserver.dynamic.remote import slices_of
from kilauea.apiserver.request import ApiResponse, TextStream, Tunnel
from kilauea.apiserver.rest.call import Call, Object
from kilauea.apiserver.rest.get import read_stored
from kilauea.apiserver.rest.node_reports import of_node
from kilauea.apiserver.rest.objects import decode
from kilauea.apiserver.rest.streams import asks_for_websocket
from kilauea.apiserver.status import ApiFault
from kilauea.apiserver.streams.http_exchange import ExchangeError, Switched, exchange

_NOT_PASSED_ON = frozenset(
    "authorization connection content-length expect host keep-alive proxy-authenticate proxy-authorization "
    "te trailer transfer-encoding upgrade".split()
)
"""Headers that apply only to this connection, or that a container must not see."""
_IMPERSONATION = "impersonate-"
_TOKEN = "base64url.bearer.authorization.k8s.io."
"""The prefix of a subprotocol with which browsers send a token."""
_DEFAULT_PORTS = {"http": 80, "https": 443}
_UNSAFE = "/:@!$&'()*+,;=~"


class _Name(NamedTuple):
    """A name with a scheme and a port, which may be empty, in a path to `proxy`."""

    scheme: str
    name: str
    port: str


async def proxy(call: Call) -> ApiResponse | TextStream | Tunnel:
    """Answer a request that is proxied."""
    called = _name_of(call)
    named = replace(call, info=replace(call.info, name=called.name))
    stored = read_stored(named)
    if call.resource.plural == "nodes":
        return of_node(call, called.name, _rest(call)[1].strip("/"))
    if call.resource.plural == "pods":
        pod = decode(stored.value)
        port = _port_of_pod(pod, called)
    else:
        pod, port = _behind_service(call, decode(stored.value), called)
    return await _pass_on(call, pod, port, tls=called.scheme == "https")


def _name_of(call: Call) -> _Name:
    """Read `NAME`, `NAME:PORT` or `SCHEME:NAME:PORT`, whose port may be empty.

    Raises:
        ApiFault: it is none of these (400).
    """
    text = call.info.name
    parts, scheme = text.split(":"), "http"
    if len(parts) == 3 and parts[0] in ("http", "", "https"):
        scheme, parts = parts[0] or scheme, parts[1:]
    if len(parts) > 2 or not parts[0]:
        raise status.bad_request(f'invalid {call.resource.plural.removesuffix("s")} request "{text}": use NAME:PORT')
    return _Name(scheme, parts[0], parts[1] if len(parts) == 2 else "")


def _port_of_pod(pod: Object, called: _Name) -> int:
    """Return the port that a request names, or the first port of the pod's containers."""
    if called.port:
        return _number(called)
    ports = (port["containerPort"] for each in pod["spec"]["containers"] for port in each.get("ports") or ())
    return int(next(ports, _DEFAULT_PORTS[called.scheme]))


def _number(called: _Name) -> int:
    if not (called.port.isascii() and called.port.isdigit() and 0 < int(called.port[:6]) < 65536):
        raise status.bad_request(f'invalid port "{called.port}" of {called.name}: use a number from 1 to 65535')
    return int(called.port)


def _behind_service(call: Call, service: Object, called: _Name) -> tuple[Object, int]:
    """Return a ready pod behind a service, and its port.

    Raises:
        ApiFault: the service has no such port, or no pod is ready (503).
    """
    ports = (service.get("spec") or {}).get("ports") or ()
    wanted = [each for each in ports if called.port in (each.get("name") or "", str(each["port"]))]
    found = wanted or (ports if len(ports) == 1 and not called.port else ())
    if not found:
        raise _unavailable(f'no service port "{called.port}" found for service "{called.name}"')
    name = found[0].get("name") or ""
    store, namespace = call.backend.store, call.namespace
    for piece in slices_of(store, namespace, called.name):
        port = next((each.get("port") for each in piece.get("ports") or () if (each.get("name") or "") == name), None)
        for endpoint in piece.get("endpoints") or ():
            target, ready = endpoint.get("targetRef") or {}, (endpoint.get("conditions") or {}).get("ready")
            pod = store.get(f"/core/pods/{namespace}/{target.get('name')}") if target.get("kind") == "Pod" else None
            if port is not None and ready is not False and pod is not None:
                return decode(pod.value), int(port)
    raise _unavailable(f'no endpoints available for service "{called.name}"')


async def _pass_on(call: Call, pod: Object, port: int, *, tls: bool) -> TextStream | Tunnel:
    """Send the request to a port of a pod, and return the response.

    Raises:
        ApiFault: the pod does not respond (503), it is simulated (501), or too many connections are open (429).
    """
    connections: PodConnections | None = call.backend.connections
    if connections is None or not connections.runs(pod):
        raise status.no_proxy(call.resource.plural, call.info.name)
    upgrade = "websocket" if asks_for_websocket(call) else ""
    end = _session(call) if upgrade else _nothing
    try:
        connections.check_pod(pod)
        address = (pod.get("status") or {}).get("podIP") or ""
        connection = await call.backend.ports.counted(call.user, lambda: connections.connect(pod, port, tls=tls))
        request = call.request
        headers = {"host": f"{address}:{port}", **_headers(call)}
        answer = await exchange(connection, request.method, _target(call), headers.items(), request.body, upgrade)
    except BaseException as error:
        end()
        if not isinstance(error, ApiError | ExchangeError):
            raise
        words = error.message if isinstance(error, ApiError) else str(error)
        raise _unavailable(f"error trying to reach service: {words}") from error
    if isinstance(answer, Switched):
        return Tunnel(connection, answer.headers, answer.first, end)
    end()
    received = [(name, value) for name, value in answer.headers if _is_passed_on(name)]
    types = [value for name, value in received if name == "content-type"]
    others = [(name, _moved(call, value) if name == "location" else value) for name, value in received]
    others = [(name, value) for name, value in others if name != "content-type"]
    kind = types[0] if types else "application/octet-stream"
    return TextStream(answer.body, kind, others, answer.status)


def _session(call: Call) -> Callable[[], None]:
    """Count a tunnel; return a function that ends the count.

    Raises:
        ApiFault: too many are open (429).
    """
    sessions, user = call.backend.sessions, call.user
    sessions.begin(user)
    return lambda: sessions.end(user)


def _nothing() -> None:
    """Do nothing."""


def _headers(call: Call) -> dict[str, str]:
    """Return the headers of a request that a container may see."""
    found = {name: value for name, value in call.request.headers.items() if _is_passed_on(name)}
    protocols = [each.strip() for each in found.pop("sec-websocket-protocol", "").split(",")]
    shown = [each for each in protocols if each and not each.startswith(_TOKEN)]
    return found | ({"sec-websocket-protocol": ", ".join(shown)} if shown else {})


def _is_passed_on(name: str) -> bool:
    return name not in _NOT_PASSED_ON and not name.startswith(_IMPERSONATION)


def _rest(call: Call) -> tuple[str, str]:
    """Return the path of a request up to `proxy`, and the path after it."""
    before, _, after = call.request.path.partition(f"/{call.info.name}/proxy")
    return f"{before}/{call.info.name}/proxy", after


def _target(call: Call) -> str:
    """Return the path and query for the container."""
    path = quote(_rest(call)[1] or "/", safe=_UNSAFE)
    return f"{path}?{urlencode(call.request.query)}" if call.request.query else path


def _moved(call: Call, location: str) -> str:
    """Return the container's redirect path as a path of this server."""
    return f"{_rest(call)[0]}{location}" if location.startswith("/") and not location.startswith("//") else location


def _unavailable(message: str) -> ApiFault:
    return ApiFault(503, "ServiceUnavailable", message)
