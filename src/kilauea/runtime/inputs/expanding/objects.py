"""The objects around the planned workloads, as a view for admission and controllers."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from kilauea.api.core import Pod
from kilauea.api.decode import without_nulls
from kilauea.api.kinds import CLAIMS, POD_GROUPS, PODS, QUEUES, REPLICA_SETS
from kilauea.api.meta import Object
from kilauea.api.ports import Key, Obj, Resource, key_of
from kilauea.api.scheduling import PodGroup, PriorityClass
from kilauea.api.storage import PersistentVolumeClaim
from kilauea.api.times import format_time
from kilauea.api.wellknown import SYSTEM_CLASSES
from kilauea.controllers.deployments.revisions import HASH
from kilauea.controllers.pods import FINISHED


def stored(workload: Obj, now: int) -> dict[str, Any]:
    """A workload as a server would store it, as far as plans need it.

    Args:
        workload: the manifest.
        now: creation time if the manifest does not state one, in microseconds since 1970; 0 to leave it unset.
    """
    metadata = without_nulls(dict(workload["metadata"]))
    metadata["namespace"] = metadata.get("namespace") or "default"
    metadata.setdefault("uid", f"{metadata['namespace']}-{metadata['name']}")
    if now:
        metadata.setdefault("creationTimestamp", format_time(now))
    return {**without_nulls(dict(workload)), "metadata": metadata}


def made_pod(body: Mapping[str, Any], owner: Obj) -> Pod:
    """A pod of a workload, as old as the workload."""
    return msgspec.convert(_dated(body, owner, PODS), Pod)


def made_group(body: Mapping[str, Any], owner: Obj) -> PodGroup:
    """A pod group of a workload, as old as the workload."""
    return msgspec.convert(_dated(body, owner, POD_GROUPS), PodGroup)


def _dated(body: Mapping[str, Any], owner: Obj, resource: Resource) -> dict[str, Any]:
    metadata = dict(body["metadata"])
    if "creationTimestamp" in owner["metadata"]:
        metadata["creationTimestamp"] = owner["metadata"]["creationTimestamp"]
    return {**body, "apiVersion": resource.api_version, "kind": resource.kind, "metadata": metadata}


def _deployment_of(pod: Pod) -> str:
    """The name of the Deployment that a pod belongs to, by that of its ReplicaSet; empty if there is none."""
    digest = (pod.metadata.labels or {}).get(HASH)
    if not digest or pod.metadata.deletion_timestamp or (pod.status and pod.status.phase in FINISHED):
        return ""
    owners = (owner.name for owner in pod.metadata.owner_references or () if owner.kind == REPLICA_SETS.kind)
    return next((name.removesuffix(f"-{digest}") for name in owners if name.endswith(f"-{digest}")), "")


class Known:
    """Existing objects; a view of the queues and claims among them."""

    def __init__(self, objects: Sequence[Object]) -> None:
        self._pods = [obj for obj in objects if isinstance(obj, Pod)]
        self._replicas: defaultdict[str, list[Pod]] | None = None
        self._have = {(obj.kind, obj.key) for obj in objects if isinstance(obj, Pod | PodGroup)}
        self._values = dict(SYSTEM_CLASSES) | {obj.name: obj.value for obj in objects if isinstance(obj, PriorityClass)}
        self._claims = {obj.key: obj for obj in objects if isinstance(obj, PersistentVolumeClaim)}
        plain = (msgspec.to_builtins(obj) for obj in objects if obj.kind == QUEUES.kind)
        self._queues: Mapping[str, Obj] = {queue["metadata"]["name"]: queue for queue in plain}

    def replicas(self, deployment: Obj) -> Sequence[Pod]:
        """The existing pods of a Deployment."""
        if self._replicas is None:
            self._replicas = defaultdict(list)
            for pod in self._pods:
                name = _deployment_of(pod)
                if name:
                    self._replicas[f"{pod.namespace}/{name}"].append(pod)
        return self._replicas.get(str(key_of(deployment)), ())

    def has(self, obj: Object) -> bool:
        """Return True if such a pod or group exists."""
        return (obj.kind, obj.key) in self._have

    def has_pod(self, body: Mapping[str, Any]) -> bool:
        """Return True if a pod with this name exists."""
        metadata = body["metadata"]
        return (PODS.kind, f"{metadata['namespace']}/{metadata['name']}") in self._have

    def has_group(self, key: str) -> bool:
        """Return True if a pod group (`namespace/name`) exists."""
        return (POD_GROUPS.kind, key) in self._have

    def priority(self, name: str) -> int:
        """The value of a priority class; 0 if the class does not exist."""
        return self._values.get(name, 0)

    # --- kilauea.api.ports.View

    def get(self, resource: Resource, key: Key) -> Obj | None:
        """One queue or claim."""
        if resource == CLAIMS and str(key) in self._claims:
            found: Obj = msgspec.to_builtins(self._claims[str(key)])
            return found
        return self._queues.get(key.name) if resource == QUEUES else None

    def head(self, resource: Resource, key: Key) -> Obj | None:
        """One object, whole."""
        return self.get(resource, key)

    def list(self, resource: Resource, namespace: str = "") -> Sequence[Obj]:
        """All queues."""
        return [self._queues[name] for name in sorted(self._queues)] if resource == QUEUES else []

    def owned(self, resource: Resource, uid: str, namespace: str, most: int | None = None) -> Sequence[Obj]:
        """None: queues have no owners."""
        return []

    def labelled(self, resource: Resource, label: str, value: str) -> Sequence[Obj]:
        """None: queues are not found by labels."""
        return []

    def indexed(self, resource: Resource, index: str, value: str) -> Sequence[Obj]:
        """Queues by their parent, for any index."""
        return [queue for queue in self.list(resource) if (queue.get("spec") or {}).get("parent") == value]

    def count_indexed(self, resource: Resource, index: str, value: str) -> int:
        """Return the number of these objects."""
        return len(self.indexed(resource, index, value))

    def aggregate(self, resource: Resource, name: str, value: str) -> None:
        """None: nothing is aggregated."""
