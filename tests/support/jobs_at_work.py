"""A small world for the controller of Volcano's jobs: objects in memory, and what all others do to them.

    world = JobWorld(job(task("a", 2), policies=[policy("RestartJob", "PodFailed")]))
    world.settle()
    world.admit()
    world.settle()

Operations are carried out at once, or only some of them, as if the controller had died on the way.
"""

from __future__ import annotations

import builtins
import copy
from collections.abc import Iterator, Sequence
from typing import Any

from kilauea.api.aggregates import Aggregates
from kilauea.api.kinds import COMMANDS, POD_GROUPS, PODS, QUEUES, SECRETS, VC_JOBS
from kilauea.api.ports import Aggregate, Create, Delete, Key, Obj, Operation, Patch, Record, Resource, Together, key_of
from kilauea.api.times import SECOND, format_time
from kilauea.controllers.vcjobs.controller import VcJobController, commanded_job
from kilauea.controllers.vcjobs.roster import ROSTER, ROSTERS
from support.simulated import START, merge

NAMESPACE = "default"


def task(name: str, replicas: int, **more: Any) -> dict[str, Any]:
    """A task as admission leaves it."""
    spec = {"restartPolicy": "Never", "containers": [{"name": "c", "image": "busybox:1.36"}]}
    return {"name": name, "replicas": replicas, "minAvailable": replicas, "template": {"spec": spec}, **more}


def policy(action: str, *events: str, **more: Any) -> dict[str, Any]:
    """A policy for events."""
    return {"action": action, **({"events": list(events)} if events else {}), **more}


def job(*tasks: dict[str, Any], name: str = "m", **spec: Any) -> dict[str, Any]:
    """A job as admission leaves it: all of its pods are needed, unless it says another number."""
    wanted = sum(each["minAvailable"] for each in tasks)
    return {
        "apiVersion": VC_JOBS.api_version,
        "kind": VC_JOBS.kind,
        "metadata": {"name": name, "namespace": NAMESPACE},
        "spec": {"minAvailable": wanted, "maxRetry": 3, "queue": "default", "tasks": list(tasks), **spec},
    }


class JobWorld:
    """One job and its controller. It is the controller's view."""

    def __init__(self, manifest: dict[str, Any]) -> None:
        self.controller = VcJobController()
        self.now = START
        self.told: list[str] = []
        self.history: list[str] = []
        self.again: float | None = None
        self._objects: dict[Resource, dict[Key, Obj]] = {}
        self._rosters = Aggregates(ROSTERS)
        self._numbers = 0
        self.put(QUEUES, {"metadata": {"name": "default"}, "spec": {}})
        self.put(VC_JOBS, manifest)
        self.key = key_of(manifest)

    # --- the view

    def get(self, resource: Resource, key: Key) -> Obj | None:
        return self._objects.get(resource, {}).get(key)

    def head(self, resource: Resource, key: Key) -> Obj | None:
        return self.get(resource, key)

    def list(self, resource: Resource, namespace: str = "") -> Sequence[Obj]:
        found = sorted(self._objects.get(resource, {}).items())
        return [obj for key, obj in found if not namespace or key.namespace == namespace]

    def owned(self, resource: Resource, uid: str, namespace: str, most: int | None = None) -> Sequence[Obj]:
        assert resource != PODS, "a job may have thousands of pods, which are not all read at each look"

        def is_owned(obj: Obj) -> bool:
            return any(each["uid"] == uid for each in obj["metadata"].get("ownerReferences") or ())

        return [obj for obj in self.list(resource, namespace) if is_owned(obj)]

    def labelled(self, resource: Resource, label: str, value: str) -> Sequence[Obj]:
        raise NotImplementedError

    def indexed(self, resource: Resource, index: str, value: str) -> Sequence[Obj]:
        assert (resource, index) == (COMMANDS, "job")
        return [each for each in self.list(COMMANDS) if commanded_job(each) == value]

    def count_indexed(self, resource: Resource, index: str, value: str) -> int:
        return len(self.indexed(resource, index, value))

    def aggregate(self, resource: Resource, name: str, value: str) -> Aggregate | None:
        assert (resource, name) == (PODS, ROSTER)
        return self._rosters.find(value)

    # --- objects

    def put(self, resource: Resource, obj: Obj) -> None:
        """Create or replace an object."""
        self._numbers += 1
        given = {"uid": f"uid-{self._numbers}", "creationTimestamp": format_time(self.now), **obj["metadata"]}
        stored = copy.deepcopy({**obj, "metadata": {**given, "resourceVersion": str(self._numbers)}})
        if resource == PODS:
            self._rosters.move(key_of(stored), self.get(PODS, key_of(stored)), stored)
        self._objects.setdefault(resource, {})[key_of(stored)] = stored

    def change(self, resource: Resource, key: Key, patch: Any) -> None:
        """Merge a patch into an object that is there."""
        old = self.get(resource, key)
        if old is not None:
            self.put(resource, merge(old, patch))

    def remove(self, resource: Resource, key: Key) -> None:
        """Take an object away at once."""
        removed = self._objects.get(resource, {}).pop(key, None)
        if resource == PODS:
            self._rosters.move(key, removed, None)

    # --- the controller

    def look(self, until: int | None = None) -> builtins.list[Operation]:
        """Ask the controller and do what it wants, or only the first so many operations of it."""
        outcome = self.controller.reconcile(self.key, self, self.now)
        done = list(_flat(outcome.operations))
        # What followed all changes says the same as what sees the pods for the first time, in another order.
        followed, self._rosters = self._rosters, Aggregates(ROSTERS)
        for pod in reversed(self.list(PODS)):
            self._rosters.move(key_of(pod), None, pod)
        again = list(_flat(self.controller.reconcile(self.key, self, self.now).operations))
        self._rosters = followed
        assert _but_keys(done) == _but_keys(again), "equal views give equal outcomes"
        for operation in done[:until]:
            self.carry_out(operation)
        self.again = outcome.again
        return [each for each in done if not isinstance(each, Record)]

    def settle(self) -> None:
        """Ask until nothing more is wanted."""
        for _ in range(60):
            if not self.look() and self.again != 0.0:
                return
        raise AssertionError("the controller never comes to rest")

    def carry_out(self, operation: Operation) -> None:
        """Do what an operation says."""
        if isinstance(operation, Record):
            self.told.append(f"{operation.reason}: {operation.message}")
        elif isinstance(operation, Create):
            body = {**operation.body, **({"status": {"phase": "Pending"}} if operation.resource == PODS else {})}
            if self.get(operation.resource, key_of(body)) is None:
                self.put(operation.resource, body)
        elif isinstance(operation, Patch):
            self._patch(operation)
        elif isinstance(operation, Delete):
            self._delete(operation)

    def _patch(self, operation: Patch) -> None:
        if operation.type == "merge":
            self.change(operation.resource, operation.key, operation.patch)
            return
        *tests, add = operation.patch
        old = self.get(operation.resource, operation.key)
        expected = {each["path"]: each["value"] for each in tests}
        assert ("/metadata/uid" in expected, add["path"]) == (True, "/status")
        if old is not None and old["metadata"]["uid"] == expected["/metadata/uid"]:
            assert expected.get("/status") == (old.get("status") or None), "the status is written over what it was"
            before = self.phase
            self.put(operation.resource, {**old, "status": add["value"]})
            if self.phase != before:
                self.history.append(self.phase)

    def _delete(self, operation: Delete) -> None:
        old = self.get(operation.resource, operation.key)
        if old is None or old["metadata"]["uid"] != operation.uid:
            return
        if operation.resource == PODS:
            self.evict(operation.key.name)
        else:
            self.remove(operation.resource, operation.key)

    # --- what others do

    def admit(self, phase: str = "Inqueue") -> None:
        """The scheduler says a phase of the group."""
        for group in self.list(POD_GROUPS):
            self.change(POD_GROUPS, key_of(group), {"status": {"phase": phase}})

    def say(self, name: str, phase: str, exit_code: int = 1, restarts: int = 0) -> None:
        """A node says a phase of a pod."""
        ended = {"terminated": {"exitCode": exit_code}} if phase == "Failed" else {}
        container = {"name": "c", "ready": phase == "Running", "restartCount": restarts, "state": ended}
        self.change(PODS, Key(NAMESPACE, name), {"status": {"phase": phase, "containerStatuses": [container]}})

    def say_all(self, phase: str = "Running") -> None:
        """A node says a phase of all pods that have not ended and do not go."""
        for pod in self.pods():
            self.say(pod, phase)

    def evict(self, name: str) -> None:
        """The deletion of a pod begins."""
        self.change(PODS, Key(NAMESPACE, name), {"metadata": {"deletionTimestamp": format_time(self.now)}})

    def vanish(self, name: str) -> None:
        """A pod is deleted at once."""
        self.remove(PODS, Key(NAMESPACE, name))

    def end_going(self) -> None:
        """Nodes have ended all pods that are being deleted."""
        for pod in self.list(PODS):
            if "deletionTimestamp" in pod["metadata"]:
                self.remove(PODS, key_of(pod))

    def order(self, action: str, name: str = "c") -> None:
        """A user orders something by a command."""
        target = {"apiVersion": VC_JOBS.api_version, "kind": "Job", "name": self.key.name, "uid": "u"}
        self.put(COMMANDS, {"metadata": {"name": name, "namespace": NAMESPACE}, "action": action, "target": target})

    def wait(self, seconds: float) -> None:
        """Let time pass."""
        self.now += round(seconds * SECOND)

    def start(self) -> None:
        """Bring a new job, or one that was restarted, to where all of its pods run."""
        for step in (self.end_going, self.admit, self.say_all):
            self.settle()
            step()
        self.settle()

    # --- what is seen

    @property
    def job(self) -> Any:
        """The job."""
        return self.get(VC_JOBS, self.key)

    @property
    def status(self) -> dict[str, Any]:
        """Its status."""
        return dict(self.job.get("status") or {})

    @property
    def phase(self) -> str:
        """Its phase."""
        return str((self.status.get("state") or {}).get("phase", ""))

    @property
    def retries(self) -> int:
        """Tries that have counted."""
        return int(self.status.get("retryCount", 0))

    def pods(self, phase: str = "") -> builtins.list[str]:
        """Names of pods that do not go and have not ended, or that are in a phase."""
        found = []
        for pod in self.list(PODS):
            has = pod["status"]["phase"]
            if "deletionTimestamp" not in pod["metadata"] and (has == phase if phase else has not in ENDED):
                found.append(pod["metadata"]["name"])
        return found

    def going(self) -> builtins.list[str]:
        """Names of pods that are being deleted."""
        return [pod["metadata"]["name"] for pod in self.list(PODS) if "deletionTimestamp" in pod["metadata"]]

    def uids(self) -> dict[str, str]:
        """Uids of all pods by name."""
        return {pod["metadata"]["name"]: pod["metadata"]["uid"] for pod in self.list(PODS)}


ENDED = ("Succeeded", "Failed")


def _but_keys(operations: Sequence[Operation]) -> list[Operation]:
    """Without what is drawn at random: keys of ssh."""
    return [each for each in operations if not (isinstance(each, Create) and each.resource == SECRETS)]


def _flat(operations: Sequence[Operation]) -> Iterator[Operation]:
    for operation in operations:
        if isinstance(operation, Together):
            for chain in operation.chains:
                yield from chain
        else:
            yield operation
