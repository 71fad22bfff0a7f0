"""The initial objects of every cluster."""

from __future__ import annotations

import dataclasses
import logging
from ipaddress import IPv4Network
from typing import Any

import msgspec

from kilauea.apiserver.admission import Admission
from kilauea.apiserver.core import Answer, ApiServer
from kilauea.apiserver.flow_control.objects import LEVELS, SCHEMAS
from kilauea.apiserver.rbac.default_roles import AUTOMATIC, default_roles
from kilauea.apiserver.request import GROUP_MASTERS, ApiRequest, ApiResponse, User

log = logging.getLogger(__name__)

SELF = User("system:apiserver", groups=(GROUP_MASTERS,))
_NAMESPACES = ("default", "kube-system", "kube-public", "kube-node-lease")


def _first_objects(services: IPv4Network) -> list[tuple[str, dict[str, Any]]]:
    """Yield the path and the object for each, given the range of services."""
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
    kind = {"apiVersion": "networking.k8s.io/v1", "kind": "ServiceCIDR"}
    addresses = {**kind, "metadata": {"name": "kubernetes"}, "spec": {"cidrs": [str(services)]}}
    flow = "/apis/flowcontrol.apiserver.k8s.io/v1"
    levels = [(f"{flow}/prioritylevelconfigurations", each) for each in LEVELS]
    schemas = [(f"{flow}/flowschemas", each) for each in SCHEMAS]
    ranges = ("/apis/networking.k8s.io/v1/servicecidrs", addresses)
    return [*namespaces, *classes, ranges, *default_roles(), *levels, *schemas]


def message_of(answer: Answer) -> str:
    """Return the message of a refusal."""
    body = answer.body if isinstance(answer, ApiResponse) else b""
    return str(msgspec.json.decode(body)["message"]) if isinstance(body, bytes) and body else str(answer)


def check_own(answer: Answer, what: str, *good: int) -> bool:
    """Return True if the server accepted one of its own objects; rejections are logged, and the server continues.

    Users can create objects that conflict with the server's own. If the server did not start then, they could not be
    removed.

    Raises:
        RuntimeError: it cannot be stored.
    """
    if isinstance(answer, ApiResponse) and answer.status in good:
        return True
    if not isinstance(answer, ApiResponse) or answer.status >= 500:
        raise RuntimeError(f"{what} cannot be written: {message_of(answer)}")
    log.warning("%s is not as it should be: %s", what, message_of(answer))
    return False


def own_server(api: ApiServer) -> ApiServer:
    """Return the server for its own objects, which quotas, used addresses and webhooks do not affect."""
    return ApiServer(dataclasses.replace(api.backend, admission=Admission(), dynamic=None))


async def create_first_objects(api: ApiServer) -> None:
    """Create missing objects.

    Raises:
        RuntimeError: it cannot be stored.
    """
    for path, obj in _first_objects(api.backend.service_range):
        answer = await api.handle(ApiRequest("POST", path, body=msgspec.json.encode(obj), user=SELF))
        check_own(answer, f"{path}/{obj['metadata']['name']}", 201, 409)
        if "aggregationRule" in obj:
            await _renew(api, path, obj)


async def _renew(api: ApiServer, path: str, role: dict[str, Any]) -> None:
    """Convert a role of an older version to an aggregated one, unless its annotation forbids it."""
    where = f"{path}/{role['metadata']['name']}"
    answer = await api.handle(ApiRequest("GET", where, user=SELF))
    if not isinstance(answer, ApiResponse) or not isinstance(answer.body, bytes) or answer.status != 200:
        return
    found = msgspec.json.decode(answer.body)
    annotations = (found.get("metadata") or {}).get("annotations") or {}
    if annotations.get(AUTOMATIC) != "true" or found.get("aggregationRule"):
        return
    changed = {"aggregationRule": role["aggregationRule"], "metadata": {"labels": role["metadata"]["labels"]}}
    headers = {"content-type": "application/merge-patch+json"}
    patch = ApiRequest("PATCH", where, headers=headers, body=msgspec.json.encode(changed), user=SELF)
    check_own(await api.handle(patch), where, 200)
