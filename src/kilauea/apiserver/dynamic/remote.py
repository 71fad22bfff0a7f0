"""Addresses of webhooks and services, from a client configuration or endpoint slices."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple, Protocol
from urllib.parse import urlsplit

import msgspec

from kilauea.api.container_streams import PodConnections
from kilauea.apiserver.decoding import decode
from kilauea.apiserver.storage import Store, Stored

Raw = Mapping[str, Any]
MOST_LOOKED_AT = 500
"""EndpointSlices and pods of a namespace to search for those of a service."""
SERVICE_NAME = "kubernetes.io/service-name"
"""The label of a slice with the name of its service."""
_OUTSIDE = "run the webhook outside of the cluster, and set clientConfig.url, or"


class CallError(Exception):
    """A webhook could not be called, or responded with an error; the message has the reason."""


class Target(NamedTuple):
    """A webhook's address.

    Attributes:
        url: the URL in messages, without the query.
        host: the host to connect to; the name in `url` unless that is a service.
        port: the port to connect to.
        name: the name that the certificate must have.
        authority: certificates of the authority as PEM; empty for those that the system trusts.
    """

    url: str
    host: str
    port: int
    name: str
    authority: str


class Remote(Protocol):
    """Calls webhooks."""

    async def post(self, target: Target, body: bytes, seconds: float) -> bytes:
        """Send a body and return that of the response; raises CallError."""
        ...


def target_of(config: Raw, store: Store, connections: PodConnections | None = None) -> Target:
    """Return the address of a client configuration; raises CallError if a service has no address.

    Args:
        config: the `clientConfig` of a webhook.
        store: the objects.
        connections: knows which pods are processes; None if all are simulated.
    """
    try:
        authority = base64.b64decode(config.get("caBundle") or "").decode()
    except (binascii.Error, ValueError) as error:
        raise CallError(f"could not get REST client: unable to load root certificates: {error}") from error
    if config.get("url"):
        parts = urlsplit(config["url"])
        host = parts.hostname or ""
        return Target(config["url"], host, parts.port or 443, host, authority)
    service = config.get("service") or {}
    namespace, name, port = service.get("namespace", ""), service.get("name", ""), service.get("port") or 443
    path = service.get("path") or "/"
    server = f"{name}.{namespace}.svc"
    url = f"https://{server}:{port}{path if path.startswith('/') else '/' + path}"
    try:
        host, target_port = service_address(store, namespace, name, port, connections, _OUTSIDE)
    except CallError as error:
        raise CallError(f'failed to call webhook: Post "{url}": {error}') from error
    return Target(url, host, target_port, server, authority)


def service_address(
    store: Store, namespace: str, name: str, port: int, connections: PodConnections | None, outside: str
) -> tuple[str, int]:
    """Return an address behind a service: its external name, or an endpoint that is not a simulated pod.

    Args:
        store: the objects.
        namespace: the namespace of the service.
        name: the name of the service.
        port: the port of the service.
        connections: knows which pods are processes; None if all are simulated.
        outside: the alternative for users to a service of type ExternalName if the pods are simulated.

    Raises:
        CallError: the service has no address.
    """
    stored = store.get(f"/core/services/{namespace}/{name}")
    if stored is None:
        raise CallError(f'service "{name}" not found')
    spec = decode(stored.value).get("spec") or {}
    if spec.get("type") == "ExternalName":
        return str(spec.get("externalName") or ""), port
    found = next((each for each in spec.get("ports") or () if each.get("port") == port), None)
    if found is None:
        raise CallError(f'no service port {port} found for service "{name}"')
    simulated = ""
    for address, target_port, pod in _endpoints(store, namespace, name, found):
        served_by = store.get(f"/core/pods/{namespace}/{pod}") if pod else None
        if not pod or (served_by is not None and not _is_simulated(decode(served_by.value), connections)):
            return address, target_port
        simulated = simulated or pod
    simulated = simulated or _selected_pod(store, namespace, spec.get("selector") or {}, connections)
    if simulated:
        raise CallError(
            f"pod {namespace}/{simulated} is simulated and serves nothing: {outside} "
            f'make service "{name}" one of type ExternalName'
        )
    raise CallError(f'no endpoints available for service "{name}"')


def _endpoints(store: Store, namespace: str, name: str, port: Raw) -> Iterator[tuple[str, int, str]]:
    """Yield address, port, and pod (empty if none) of each endpoint of a port of a service."""
    for piece in slices_of(store, namespace, name):
        number = _port_of(piece.get("ports") or (), port)
        for endpoint in piece.get("endpoints") or ():
            if number and (endpoint.get("conditions") or {}).get("ready") is not False:
                yield from ((address, number, _pod(endpoint)) for address in endpoint.get("addresses") or ())
    stored = store.get(f"/core/endpoints/{namespace}/{name}")
    for subset in (decode(stored.value).get("subsets") or ()) if stored is not None else ():
        number = _port_of(subset.get("ports") or (), port)
        if number:
            yield from ((each["ip"], number, _pod(each)) for each in subset.get("addresses") or ())


class _Labels(msgspec.Struct):
    labels: dict[str, str] | None = None


class _Labelled(msgspec.Struct):
    metadata: _Labels


_labelled = msgspec.json.Decoder(_Labelled).decode


def service_of_slice(value: bytes) -> str:
    """Return the name of the service of a stored EndpointSlice; empty for none."""
    return (_labelled(value).metadata.labels or {}).get(SERVICE_NAME, "")


def slices_of(store: Store, namespace: str, name: str) -> Iterator[Raw]:
    """Yield the EndpointSlices of a service, up to the limit of the search; others are not decoded."""
    for each in _candidates(store, namespace, name):
        value = each.value
        if service_of_slice(value) == name:
            yield decode(value)


def _candidates(store: Store, namespace: str, name: str) -> Iterator[Stored]:
    """Yield the slices that may belong to a service: first those with a matching name, then others."""
    prefix = f"/discovery.k8s.io/endpointslices/{namespace}/"
    named = f"{prefix}{name}-"
    for each in store.list(prefix, after_key=named, limit=MOST_LOOKED_AT).items:
        if not each.key.startswith(named):
            break
        yield each
    yield from (each for each in store.list(prefix, limit=MOST_LOOKED_AT).items if not each.key.startswith(named))


def _port_of(ports: Any, wanted: Raw) -> int:
    """Return the number of the endpoint's port for a port of the service; 0 if it has none."""
    name = wanted.get("name") or ""
    return next((int(each.get("port") or 0) for each in ports if (each.get("name") or "") == name), 0)


def _pod(endpoint: Raw) -> str:
    target = endpoint.get("targetRef") or {}
    return str(target.get("name") or "") if target.get("kind") == "Pod" else ""


def _is_simulated(pod: Raw, connections: PodConnections | None) -> bool:
    """Return True for a pod on a simulated node; if all nodes are, a pending pod counts as simulated, too."""
    if connections is None:
        return True
    return bool(pod["spec"].get("nodeName")) and not connections.runs(pod)


def _selected_pod(store: Store, namespace: str, selector: Mapping[str, str], connections: PodConnections | None) -> str:
    """Return a simulated pod that the selector of a service selects; empty if none."""
    if not selector:
        return ""
    for each in store.list(f"/core/pods/{namespace}/", limit=MOST_LOOKED_AT).items:
        pod = decode(each.value)
        if selector.items() <= (pod["metadata"].get("labels") or {}).items() and _is_simulated(pod, connections):
            return str(pod["metadata"]["name"])
    return ""
