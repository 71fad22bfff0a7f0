"""The objects that every cluster has from its beginning."""

from __future__ import annotations

from typing import Any

import msgspec

from kilauea.apiserver.core import Answer, ApiServer
from kilauea.apiserver.rbac.default_roles import default_roles
from kilauea.apiserver.request import GROUP_MASTERS, ApiRequest, ApiResponse, User

SELF = User("system:apiserver", groups=(GROUP_MASTERS,))
OWN_ADDRESS = "10.96.0.1"
"""The first address of services, which is the server's own."""
_AGENT = {"user-agent": "kube-apiserver/kilauea"}
_NAMESPACES = ("default", "kube-system", "kube-public", "kube-node-lease")


def _first_objects() -> list[tuple[str, dict[str, Any]]]:
    """The path under which each is created, and the object."""
    namespaces = [
        ("/api/v1/namespaces", {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
        for name in _NAMESPACES
    ]
    classes = [
        (
            "/apis/scheduling.k8s.io/v1/priorityclasses",
            {
                "apiVersion": "scheduling.k8s.io/v1",
                "kind": "PriorityClass",
                "metadata": {"name": f"system-{scope}-critical"},
                "value": value,
                "description": f"For pods that the {scope} needs to work.",
            },
        )
        for scope, value in (("cluster", 2_000_000_000), ("node", 2_000_001_000))
    ]
    return [*namespaces, *classes, *default_roles()]


def message_of(answer: Answer) -> str:
    """Return the message of a refusal."""
    body = answer.body if isinstance(answer, ApiResponse) else b""
    return str(msgspec.json.decode(body)["message"]) if isinstance(body, bytes) and body else str(answer)


async def create_first_objects(api: ApiServer) -> None:
    """Create what is missing.

    Raises:
        RuntimeError: the server refuses its own objects.
    """
    for path, obj in _first_objects():
        answer = await api.handle(ApiRequest("POST", path, body=msgspec.json.encode(obj), user=SELF))
        if not isinstance(answer, ApiResponse) or answer.status not in (201, 409):
            raise RuntimeError(f"{path} cannot be written: {message_of(answer)}")


async def publish_address(api: ApiServer, port: int) -> None:
    """Tell by the service `kubernetes` where the server is, as in every cluster; nothing routes its address here.

    Raises:
        RuntimeError: the server refuses its own object.
    """
    path = "/api/v1/namespaces/default/services"
    ports = [{"name": "https", "port": 443, "protocol": "TCP", "targetPort": port}]
    labels = {"component": "apiserver", "provider": "kubernetes"}
    metadata = {"name": "kubernetes", "labels": labels}
    service = {"metadata": metadata, "spec": {"clusterIP": OWN_ADDRESS, "ports": ports}}
    answer = await api.handle(ApiRequest("POST", path, headers=_AGENT, body=msgspec.json.encode(service), user=SELF))
    if isinstance(answer, ApiResponse) and answer.status == 409:
        change = msgspec.json.encode({"spec": {"ports": ports}})
        headers = {**_AGENT, "content-type": "application/merge-patch+json"}
        answer = await api.handle(ApiRequest("PATCH", f"{path}/kubernetes", headers=headers, body=change, user=SELF))
    if not isinstance(answer, ApiResponse) or answer.status not in (200, 201):
        raise RuntimeError(f"{path} cannot be written: {message_of(answer)}")
