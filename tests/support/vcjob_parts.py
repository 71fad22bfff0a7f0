"""Volcano jobs for tests of what is made for them, and a view to make it by."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from kilauea.api.kinds import CLAIMS, CONFIG_MAPS, NETWORK_POLICIES, SECRETS, SERVICES
from kilauea.api.ports import Obj, Operation, Resource
from kilauea.client.view import Cache
from kilauea.controllers.vcjobs.plugins import active
from kilauea.controllers.vcjobs.pods import new_pod

UID = "5d0e"
BESIDE = (CONFIG_MAPS, SERVICES, NETWORK_POLICIES, SECRETS, CLAIMS)
"""Kinds of which a job may need objects beside pods and its group."""


def task(name: str = "a", replicas: int = 2, spec: Mapping[str, Any] | None = None, **more: Any) -> dict[str, Any]:
    """A task whose pods have one container `c` that asks for a cpu, unless the spec says otherwise."""
    container = {"name": "c", "image": "i", "resources": {"requests": {"cpu": "1"}}}
    return {
        "name": name,
        "replicas": replicas,
        "template": {"spec": {"containers": [container], **(spec or {})}},
        **more,
    }


def job(
    *tasks: Mapping[str, Any],
    plugins: Mapping[str, Sequence[str]] | None = None,
    metadata: Mapping[str, Any] | None = None,
    status: Mapping[str, Any] | None = None,
    **spec: Any,
) -> dict[str, Any]:
    """A job `m` in the namespace `ns`."""
    return {
        "apiVersion": "batch.volcano.sh/v1alpha1",
        "kind": "Job",
        "metadata": {"name": "m", "namespace": "ns", "uid": UID, **(metadata or {})},
        "spec": {"tasks": list(tasks or (task(),)), "plugins": dict(plugins or {}), **spec},
        "status": dict(status or {}),
    }


def view_of(*objects: tuple[Resource, Obj]) -> Cache:
    """A view in which there are these objects and no others."""
    cache = Cache()
    for resource in BESIDE:
        items = [msgspec.json.encode(obj) for kind, obj in objects if kind == resource]
        cache.declare(resource).on_relist(items, "1")
    return cache


def there(resource: Resource, name: str, uid: str = "u", **more: Any) -> tuple[Resource, dict[str, Any]]:
    """An object in the namespace `ns` for a view."""
    metadata = {"name": name, "namespace": "ns", "uid": uid, "resourceVersion": "1", **more.pop("metadata", {})}
    return resource, {"apiVersion": resource.api_version, "kind": resource.kind, "metadata": metadata, **more}


def of_the_job(uid: str = UID) -> dict[str, Any]:
    """Metadata of what was made for the job `m`, or for an earlier one with another uid."""
    owner = {"apiVersion": "batch.volcano.sh/v1alpha1", "kind": "Job", "name": "m", "uid": uid, "controller": True}
    return {"ownerReferences": [owner]}


def pod_of(made: Mapping[str, Any], name: str = "", index: int = 0) -> dict[str, Any]:
    """A pod of a job after all its plugins; of the first task unless one is named."""
    tasks = made["spec"]["tasks"]
    of = next(each for each in tasks if not name or each["name"] == name)
    pod = new_pod(made, of, index)
    for plugin in active(made):
        plugin.on_pod(pod, of, index)
    return pod


def variables(container: Mapping[str, Any]) -> dict[str, str]:
    """The environment variables with values of their own."""
    return {each["name"]: each["value"] for each in container.get("env") or () if "value" in each}


def kept(made: Mapping[str, Any], *objects: tuple[Resource, Obj]) -> list[Operation]:
    """What the plugins of a job want to be done where there are certain objects."""
    view = view_of(*objects)
    return [each for plugin in active(made) for each in plugin.objects(view)]
