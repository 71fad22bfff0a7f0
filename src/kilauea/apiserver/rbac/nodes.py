"""Objects that a node may read without a role: the secrets, config maps and claims of its pods."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from kilauea.apiserver.request import User
from kilauea.apiserver.storage import Store

NODES, _PREFIX = "system:nodes", "system:node:"
READABLE = frozenset({"configmaps", "persistentvolumeclaims", "secrets"})
"""Resources of the core group that pods reference."""
_Obj = Mapping[str, Any]
Named = tuple[str, str]
"""A resource and the name of an object in the namespace of a pod."""


def node_of(user: User) -> str:
    """Return the node name of a user; empty for other users."""
    return user.name.removeprefix(_PREFIX) if NODES in user.groups and user.name.startswith(_PREFIX) else ""


def is_needed(store: Store, node: str, resource: str, namespace: str, name: str) -> bool:
    """Return True if a pod on a node references an object."""
    here, wanted = msgspec.json.encode(node), msgspec.json.encode(name)[1:-1]
    for stored in store.list(f"/core/pods/{namespace}/").items:
        text = stored.value
        if here in text and wanted in text:
            pod = msgspec.json.decode(text)
            if pod["spec"].get("nodeName") == node and (resource, name) in set(named_by(pod)):
                return True
    return False


def named_by(pod: _Obj) -> Iterator[Named]:
    """Yield the objects that a pod references."""
    spec = pod["spec"]
    for secret in spec.get("imagePullSecrets") or ():
        yield "secrets", secret.get("name", "")
    for volume in spec.get("volumes") or ():
        yield from _of_volume(pod["metadata"]["name"], volume)
    for part in ("initContainers", "containers", "ephemeralContainers"):
        for container in spec.get(part) or ():
            yield from _of_container(container)


def _of_volume(pod: str, volume: _Obj) -> Iterator[Named]:
    for source in (volume, *((volume.get("projected") or {}).get("sources") or ())):
        secret, config = source.get("secret") or {}, source.get("configMap") or {}
        yield "secrets", secret.get("secretName") or secret.get("name") or ""
        yield "configmaps", config.get("name", "")
    yield "persistentvolumeclaims", (volume.get("persistentVolumeClaim") or {}).get("claimName", "")
    if "ephemeral" in volume:
        yield "persistentvolumeclaims", f"{pod}-{volume['name']}"
    yield "secrets", ((volume.get("csi") or {}).get("nodePublishSecretRef") or {}).get("name", "")


def _of_container(container: _Obj) -> Iterator[Named]:
    for each in container.get("envFrom") or ():
        yield "secrets", (each.get("secretRef") or {}).get("name", "")
        yield "configmaps", (each.get("configMapRef") or {}).get("name", "")
    for each in container.get("env") or ():
        source = each.get("valueFrom") or {}
        yield "secrets", (source.get("secretKeyRef") or {}).get("name", "")
        yield "configmaps", (source.get("configMapKeyRef") or {}).get("name", "")
