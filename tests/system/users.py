"""What users do to a cluster. They try again when the server is not there, or has no space."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import msgspec

from kilauea.api.kinds import BUDGETS, COMMANDS, JOBS, NODES, POD_GROUPS, PODS, QUEUES, REPLICA_SETS
from kilauea.api.ports import ApiError, Key, Propagation, Resource
from system.laws import CORES, GROUP_NAME
from system.server import ServerProcess

QUEUE_NAME, MIN_MEMBER = "scheduling.volcano.sh/queue-name", "scheduling.volcano.sh/group-min-member"
PRIORITY_CLASSES = Resource("scheduling.k8s.io", "v1", "priorityclasses", "PriorityClass", False)
RUN_TIME, EXIT_CODE, NODE_STATE = "kilauea.dev/run-time", "kilauea.dev/exit-code", "kilauea.dev/node-state"
STOP_TIME = "kilauea.dev/stop-time"
FINALIZER = "example.com/never"
"""No one takes it off."""
HOOK = "admission webhook"
"""In the words with which Volcano's admission refuses."""
TRIES = 100
NO_NOTES: Mapping[str, str] = {}


class Users:
    """They have all rights.

    Args:
        server: what they speak to.
    """

    def __init__(self, server: ServerProcess) -> None:
        self._server = server

    def create(self, resource: Resource, name: str, **fields: Any) -> str:
        """Make an object; it may have been made by a try whose answer was lost. Says why if it is refused."""
        metadata = {"name": name, **fields.pop("metadata", {})}
        body = {"apiVersion": resource.api_version, "kind": resource.kind, "metadata": metadata, **fields}
        namespace = "default" if resource.namespaced else ""
        return self._insist(lambda: self._server.calm.create(resource, namespace, body), 409)

    def patch(self, resource: Resource, name: str, patch: Any) -> str:
        """Change an object, if it is still there. Says why if that is refused."""
        return self._insist(lambda: self._server.calm.patch(resource, _key(resource, name), patch), 404)

    def delete(
        self, resource: Resource, name: str, grace: int | None = None, propagation: Propagation = "Background"
    ) -> str:
        """Delete an object, if it is still there. Says why if that is refused."""
        key = _key(resource, name)
        return self._insist(lambda: self._server.calm.delete(resource, key, grace=grace, propagation=propagation), 404)

    def _insist(self, work: Callable[[], Awaitable[Any]], done: int) -> str:
        """Do it until it is done or Volcano's admission refuses it; the code says that it was done before."""

        async def insist() -> str:
            for _ in range(TRIES):
                try:
                    await work()
                    return ""
                except ApiError as error:
                    if error.code == done:
                        return ""
                    if HOOK in error.message:
                        return error.message
                    if 0 < error.code < 500:
                        raise
                    await asyncio.sleep(1)
            raise AssertionError("the server does not come back")

        return self._server.run(insist())

    # --- objects

    def node(self, name: str) -> None:
        """Apply a node, which is simulated."""
        offer = {"cpu": str(CORES), "memory": "64Gi", "pods": "110"}
        self.create(NODES, name, status={"capacity": offer, "allocatable": offer})

    def priority(self, name: str, value: int) -> None:
        """A class of priority."""
        self.create(PRIORITY_CLASSES, name, value=value)

    def queue(self, name: str, deserved: int, capability: int | None, parent: str, weight: int) -> None:
        """A queue that deserves some cores.

        Raises:
            AssertionError: admission refuses it.
        """
        spec: dict[str, Any] = {"weight": weight, "reclaimable": True, "deserved": {"cpu": str(deserved)}}
        if capability is not None:
            spec["capability"] = {"cpu": str(capability)}
        if parent:
            spec["parent"] = parent
        refused = self.create(QUEUES, name, spec=spec)
        assert not refused, refused

    def command(self, name: str, action: str, queue: str) -> None:
        """Order a queue to close or to open."""
        uid = next((each["metadata"]["uid"] for each in self.all(QUEUES) if each["metadata"]["name"] == queue), "")
        target = {"apiVersion": QUEUES.api_version, "kind": "Queue", "name": queue, "uid": uid}
        self.create(COMMANDS, name, target=target, action=action)

    def gang(
        self, name: str, minimum: int, size: int, cpu: int, queue: str, priority: str, notes: Mapping[str, str]
    ) -> None:
        """A pod group with its pods."""
        room = {"cpu": str(cpu * minimum)}
        spec = {"minMember": minimum, "queue": queue, "minResources": room, "priorityClassName": priority}
        if self.create(POD_GROUPS, name, spec=spec):
            return  # the queue is closed
        for number in range(size):
            metadata = {"labels": {"app": name}, "annotations": {GROUP_NAME: name, **notes}}
            self.create(PODS, f"{name}-{number}", metadata=metadata, spec=pod_spec(cpu, priority, notes))

    def replicas(self, name: str, minimum: int, size: int, cpu: int, queue: str, priority: str) -> None:
        """A replica set, for whose pods a controller makes a group."""
        labels = {"app": name}
        notes = {QUEUE_NAME: queue}
        template = {"metadata": {"labels": labels, "annotations": notes}, "spec": pod_spec(cpu, priority)}
        self.create(
            REPLICA_SETS,
            name,
            metadata={"annotations": {MIN_MEMBER: str(minimum)}},
            spec={"replicas": size, "selector": {"matchLabels": labels}, "template": template},
        )

    def job(self, name: str, size: int, cpu: int, queue: str, priority: str, notes: Mapping[str, str]) -> None:
        """A job of Kubernetes."""
        metadata = {"labels": {"app": name}, "annotations": {QUEUE_NAME: queue, **notes}}
        template = {"metadata": metadata, "spec": pod_spec(cpu, priority, notes)}
        spec = {"parallelism": size, "completions": size, "template": template}
        self.create(JOBS, name, metadata={"annotations": {MIN_MEMBER: str(size)}}, spec=spec)

    def pod(self, name: str, cpu: int, priority: str, notes: Mapping[str, str]) -> None:
        """A pod that asks for no scheduler."""
        spec = {**pod_spec(cpu, priority, notes), "schedulerName": "default-scheduler"}
        self.create(PODS, name, metadata={"labels": {"app": name}, "annotations": dict(notes)}, spec=spec)

    def budget(self, app: str, **allowed: int) -> None:
        """A disruption budget over what was made under a name."""
        self.create(BUDGETS, app, spec={"selector": {"matchLabels": {"app": app}}, **allowed})

    def keep(self, name: str) -> str:
        """Let a pod stay when it is deleted. Says why if that is refused."""
        patch = {"metadata": {"finalizers": [FINALIZER]}}
        try:
            return self.patch(PODS, name, patch)
        except ApiError as error:
            return error.message  # it is on its way out

    def release(self, name: str) -> None:
        """Let such a pod go."""
        self.patch(PODS, name, {"metadata": {"finalizers": None}})

    # --- what they see

    def items(self, resource: Resource) -> list[bytes]:
        """All objects of a kind, as they are."""
        return list(self._server.run(self._server.calm.list(resource)).items)

    def all(self, resource: Resource) -> list[dict[str, Any]]:
        """All objects of a kind."""
        return [msgspec.json.decode(item) for item in self.items(resource)]


def _key(resource: Resource, name: str) -> Key:
    return Key("default" if resource.namespaced else "", name)


def pod_spec(cpu: int, priority: str, notes: Mapping[str, str] = NO_NOTES) -> dict[str, Any]:
    """A pod with one container, which runs once if it does not run forever."""
    container = {"name": "main", "image": "busybox", "resources": {"requests": {"cpu": str(cpu)}}}
    return {
        "schedulerName": "volcano",
        "containers": [container],
        "restartPolicy": "Never" if RUN_TIME in notes else "Always",
        "terminationGracePeriodSeconds": 5,
        **({"priorityClassName": priority} if priority else {}),
    }
