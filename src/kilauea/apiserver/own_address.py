"""The service `kubernetes` and its endpoints, with which clients in a cluster find the API server."""

from __future__ import annotations

from typing import Any

import msgspec

from kilauea.apiserver.bootstrap import SELF, check_own, own_server
from kilauea.apiserver.core import ApiServer
from kilauea.apiserver.request import ApiRequest, ApiResponse

Object = dict[str, Any]

NAME = "kubernetes"
HTTPS = 443
_AGENT = {"user-agent": "kube-apiserver/kilauea"}
_MERGE = {**_AGENT, "content-type": "application/merge-patch+json"}
_CORE = "/api/v1/namespaces/default"
_SLICES = "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices"


async def publish_address(api: ApiServer, address: str | None, port: int, service_port: int = HTTPS) -> None:
    """Publish the address of the server, as in every cluster; the default service IP is not routed here.

    Args:
        api: the server.
        address: the address for other hosts; None for a server without one, whose service has no endpoints.
        port: the port that the server listens on.
        service_port: the port of the service.

    Raises:
        RuntimeError: it cannot be stored.
    """
    own = own_server(api)
    await _publish_service(own, _service(str(api.backend.service_range[1]), service_port, port))
    for path, endpoints in _endpoints(address or "", port).items():
        if address is None:
            await own.handle(ApiRequest("DELETE", f"{path}/{NAME}", headers=_AGENT, user=SELF))
        else:
            await _publish(own, path, endpoints)


async def _publish_service(own: ApiServer, service: Object) -> None:
    """Create or update the service; one with an address of another range is replaced."""
    path = f"{_CORE}/services/{NAME}"
    found = await own.handle(ApiRequest("GET", path, headers=_AGENT, user=SELF))
    if isinstance(found, ApiResponse) and found.status == 200 and isinstance(found.body, bytes):
        has = (msgspec.json.decode(found.body).get("spec") or {}).get("clusterIP")
        if has != service["spec"]["clusterIP"]:
            await own.handle(ApiRequest("DELETE", path, headers=_AGENT, user=SELF))
    await _publish(own, f"{_CORE}/services", service)


async def _publish(own: ApiServer, path: str, obj: Object) -> None:
    """Create or update an object; a slice with another address type is replaced."""
    request = ApiRequest("POST", path, headers=_AGENT, body=msgspec.json.encode(obj), user=SELF)
    answer = await own.handle(request)
    if isinstance(answer, ApiResponse) and answer.status == 409:
        changed = {**obj, "metadata": {"labels": obj["metadata"]["labels"]}}
        if "spec" in obj:
            changed["spec"] = {"ports": obj["spec"]["ports"]}
        change = msgspec.json.encode(changed)
        answer = await own.handle(ApiRequest("PATCH", f"{path}/{NAME}", headers=_MERGE, body=change, user=SELF))
        if isinstance(answer, ApiResponse) and answer.status == 422 and path == _SLICES:
            await own.handle(ApiRequest("DELETE", f"{path}/{NAME}", headers=_AGENT, user=SELF))
            answer = await own.handle(request)
    check_own(answer, f"{path}/{NAME}", 200, 201)


def _service(address: str, port: int, target: int) -> Object:
    labels = {"component": "apiserver", "provider": "kubernetes"}
    ports = [{"name": "https", "port": port, "protocol": "TCP", "targetPort": target}]
    addresses = {"clusterIP": address, "clusterIPs": [address]}
    families = {"ipFamilies": ["IPv4"], "ipFamilyPolicy": "SingleStack"}
    return {"metadata": {"name": NAME, "labels": labels}, "spec": {**addresses, **families, "ports": ports}}


def _endpoints(address: str, port: int) -> dict[str, Object]:
    """Return the Endpoints and the EndpointSlice, by the path of their kind."""
    ports = [{"name": "https", "port": port, "protocol": "TCP"}]
    own = {"endpointslice.kubernetes.io/skip-mirror": "true"}
    return {
        f"{_CORE}/endpoints": {
            "metadata": {"name": NAME, "labels": own},
            "subsets": [{"addresses": [{"ip": address}], "ports": ports}],
        },
        _SLICES: {
            "metadata": {"name": NAME, "labels": {"kubernetes.io/service-name": NAME}},
            "addressType": "IPv6" if ":" in address else "IPv4",
            "endpoints": [{"addresses": [address], "conditions": {"ready": True}}],
            "ports": ports,
        },
    }
