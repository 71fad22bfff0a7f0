"""Services, endpoint slices and pods as the network of pods sees them, and a cache that has them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import msgspec

from kilauea.api.ports import Resource
from kilauea.client.view import Cache

Object = dict[str, Any]


def pod(name: str, namespace: str = "default", address: str = "", **spec: Any) -> Object:
    """A pod; its uid is `uid-NAME`."""
    status = {"podIP": address} if address else {}
    return {
        "metadata": {"name": name, "namespace": namespace, "uid": f"uid-{name}", "resourceVersion": "1"},
        "spec": spec,
        "status": status,
    }


def service(name: str, address: str, namespace: str = "default", ports: Sequence[Object] = (), **spec: Any) -> Object:
    """A service with an address, or `None` for a headless one."""
    return {
        "metadata": {"name": name, "namespace": namespace, "uid": f"uid-{name}", "resourceVersion": "1"},
        "spec": {"clusterIP": address, "ports": list(ports), **spec},
    }


def endpoint(address: str, hostname: str = "", *, ready: bool = True) -> Object:
    """An endpoint of a slice."""
    named = {"hostname": hostname} if hostname else {}
    return {"addresses": [address], "conditions": {"ready": ready}, **named}


def endpoint_slice(
    of: str, endpoints: Iterable[Object], ports: Sequence[Object] = (), namespace: str = "default", number: int = 0
) -> Object:
    """A slice of the endpoints of a service."""
    labels = {"kubernetes.io/service-name": of}
    metadata = {"name": f"{of}-{number}", "namespace": namespace, "labels": labels, "resourceVersion": "1"}
    return {
        "metadata": metadata, "addressType": "IPv4", "endpoints": list(endpoints), "ports": list(ports),
    }  # fmt: skip


class Objects:
    """Writes to a cache what a watch would; each write has a version of its own."""

    def __init__(self, cache: Cache) -> None:
        self._cache = cache
        self._version = 0

    def set(self, resource: Resource, *objects: Object) -> None:
        """These are all objects of a kind."""
        self._version += 1
        texts = []
        for each in objects:
            metadata = {**each["metadata"], "resourceVersion": str(self._version)}
            texts.append(msgspec.json.encode({**each, "metadata": metadata}))
        self._cache.declare(resource).on_relist(texts, str(self._version))
