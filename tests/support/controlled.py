"""A cluster for controllers, step by step: the real API server, client and cache, and a driver without concurrency.

    cluster = Cluster(ReplicaSetController())
    cluster.create(REPLICA_SETS, manifest)
    cluster.settle()

Time stands still until it is moved. What a kubelet would say of pods is said by the test.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from typing import Any

from kilauea.api.kinds import PODS
from kilauea.api.ports import (
    CREATION_REFUSED,
    ApiError,
    Controller,
    Interest,
    Key,
    Obj,
    Operation,
    Record,
    Resource,
    Together,
    finished,
    key_of,
)
from kilauea.api.times import SECOND, format_time
from kilauea.client.rest import Client
from kilauea.client.view import Cache
from kilauea.runtime.cluster.direct import DirectTransport
from kilauea.runtime.cluster.in_process import Definitions
from kilauea.runtime.manager.operations import carry_out
from support.api_core import Api

ROUNDS = 300
"""Looks at keys after which a test takes controllers to be restless."""


class Cluster:
    """Controllers at work on an API in memory."""

    def __init__(self, *controllers: Controller, volcano: bool = False) -> None:
        self.api = Api(volcano=volcano)
        self._definitions = Definitions(self.api.server)
        if volcano:
            self.api.run(self._definitions.start())
        self.client = Client(DirectTransport(self.api.server, "kube-controller-manager"))
        self.cache = Cache()
        self.told: list[tuple[str, str, str]] = []
        self.looks = 0
        self._due: dict[tuple[Controller, Key], int] = {}
        for controller in controllers:
            for interest in controller.interests:
                declared = partial(self.cache.declare, interest.resource, interest.labels, interest.indexes)
                indexer = declared(fields=interest.fields, aggregates=interest.aggregates)
                indexer.listeners.append(partial(self._changed, controller, interest))
                self._due.update({(controller, key): 0 for key in interest.always})

    def _changed(self, controller: Controller, interest: Interest, old: Obj | None, new: Obj | None) -> None:
        for obj in (old, new):
            for key in interest.keys(obj) if obj is not None else ():
                if interest.unless is not None and interest.unless(key, self.cache):
                    continue
                self._due[controller, key] = 0

    def refresh(self) -> None:
        """Let the cache see everything."""
        for indexer in self.cache:
            listed = self.api.run(self.client.list(indexer.resource))
            indexer.on_relist(listed.items, listed.version)

    def settle(self) -> None:
        """Let the controllers do all that is to be done now."""
        self.refresh()
        ready: list[tuple[Controller, Key]] = []
        for _ in range(ROUNDS):
            ready = [each for each, when in self._due.items() if when <= self.api.now]
            if not ready:
                return
            for controller, key in ready:
                self.look(controller, key)
            self.refresh()
        raise AssertionError(f"no rest: {ready}")

    def look(self, controller: Controller, key: Key) -> None:
        """Ask a controller about a key and do what it wants."""
        self.looks += 1
        self._due.pop((controller, key), None)
        outcome = finished(controller.reconcile(key, self.cache, self.api.now))
        try:
            self.carry_out(controller.name, outcome.operations)
        except ApiError as error:
            if error.reason == "Conflict":
                self._due[controller, key] = 0
            elif outcome.refused is not None and error.reason == "Forbidden":
                self.carry_out(controller.name, outcome.refused(CREATION_REFUSED.reason, error.message))
                self._due[controller, key] = self.api.now + SECOND
            else:
                raise
            return
        if outcome.again is not None:
            self._due[controller, key] = self.api.now + round(outcome.again * SECOND)

    def carry_out(self, name: str, operations: Iterable[Operation]) -> None:
        """Do what a controller wants, up to the first failure."""
        for operation in operations:
            if isinstance(operation, Together):
                for chain in operation.chains:
                    self.carry_out(name, chain)
            elif isinstance(operation, Record):
                self.told.append((operation.about["metadata"]["name"], operation.reason, operation.message))
            else:
                self.api.run(carry_out(self.client, operation, name))

    def next_due(self) -> float | None:
        """Seconds until a controller wants to be asked again."""
        return min(((when - self.api.now) / SECOND for when in self._due.values()), default=None)

    def wait(self, seconds: float) -> None:
        """Let time pass, stopping whenever a controller wants to be asked."""
        end = self.api.now + round(seconds * SECOND)
        self.settle()
        while (due := self.next_due()) is not None and self.api.now + round(due * SECOND) <= end:
            self.api.now += max(1, round(due * SECOND))
            self.settle()
        self.api.now = max(self.api.now, end)
        self.settle()

    # --- what users do

    def create(self, resource: Resource, manifest: Mapping[str, Any], namespace: str = "default") -> dict[str, Any]:
        """Create an object."""
        body = {"apiVersion": resource.api_version, "kind": resource.kind, **manifest}
        return self.api.run(self.client.create(resource, namespace if resource.namespaced else "", body))

    def get(self, resource: Resource, name: str, namespace: str = "default") -> dict[str, Any]:
        """An object."""
        return self.api.run(self.client.get(resource, Key(namespace if resource.namespaced else "", name)))

    def all(self, resource: Resource) -> list[Obj]:
        """All objects of a kind, in order of their keys."""
        self.refresh()
        return list(self.cache.list(resource))

    def names(self, resource: Resource) -> list[str]:
        """Their names."""
        return [each["metadata"]["name"] for each in self.all(resource)]

    def patch(self, resource: Resource, name: str, patch: Mapping[str, Any], subresource: str = "") -> None:
        """Change an object."""
        key = Key("default" if resource.namespaced else "", name)
        self.api.run(self.client.patch(resource, key, patch, subresource=subresource))

    def delete(self, resource: Resource, name: str, grace: int | None = None) -> None:
        """Delete an object."""
        key = Key("default" if resource.namespaced else "", name)
        self.api.run(self.client.delete(resource, key, grace=grace))

    # --- what nodes do

    def say(
        self, pod: Obj, phase: str, *, ready: bool | None = None, exit_code: int | None = None, **more: Any
    ) -> None:
        """Say a phase of a pod, ready if it runs."""
        stamp = format_time(self.api.now)
        is_ready = phase == "Running" if ready is None else ready
        conditions = [{"type": "Ready", "status": str(is_ready), "lastTransitionTime": stamp}]
        status: dict[str, Any] = {"phase": phase, "conditions": conditions, "startTime": stamp, **more}
        if phase in ("Succeeded", "Failed"):
            code = exit_code if exit_code is not None else int(phase == "Failed")
            ended = {"terminated": {"exitCode": code, "finishedAt": stamp}}
            names = [each["name"] for each in pod["spec"]["containers"]]
            status["containerStatuses"] = [
                {"name": name, "image": "i", "imageID": "", "ready": False, "restartCount": 0, "state": ended}
                for name in names
            ]
        self.api.run(self.client.patch(PODS, key_of(pod), {"status": status}, subresource="status"))

    def say_all(self, phase: str) -> None:
        """Say a phase of all pods that have another; those that are being deleted end."""
        for pod in self.all(PODS):
            if pod["metadata"].get("deletionTimestamp"):
                self.api.run(self.client.delete(PODS, key_of(pod), grace=0))
            elif (pod.get("status") or {}).get("phase") != phase:
                self.say(pod, phase)

    def close(self) -> None:
        """End everything."""
        self.api.run(self._definitions.stop())
        self.api.close()


def template(labels: Mapping[str, str], image: str = "busybox:1", **spec: Any) -> dict[str, Any]:
    """A pod template."""
    return {"metadata": {"labels": dict(labels)}, "spec": {"containers": [{"name": "main", "image": image}], **spec}}


def phases(pods: Sequence[Obj]) -> list[str]:
    """The phases of pods, empty for those that go."""
    return ["" if pod["metadata"].get("deletionTimestamp") else pod["status"]["phase"] for pod in pods]
