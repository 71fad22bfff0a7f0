"""A small world for pure controllers: objects, a time that goes on by hand, and operations carried out at once.

Nothing is remembered beside the objects, so every look is that of a process that has just been started.
"""

from __future__ import annotations

import builtins
import copy
from collections.abc import Sequence
from typing import Any

from kilauea.api.aggregates import Aggregates
from kilauea.api.kinds import NODES, PODS
from kilauea.api.ports import (
    Aggregate,
    Controller,
    Create,
    Delete,
    Key,
    Obj,
    Operation,
    Patch,
    Record,
    Resource,
    finished,
    key_of,
)
from kilauea.api.times import SECOND, format_time
from kilauea.client.index import by_text
from kilauea.nodes.machine import Machine, node_manifest
from kilauea.nodes.occupants import INDEXES

START = 1_767_225_600_000_000
"""2026-01-01T00:00:00Z."""


def merge(target: Any, patch: Any) -> Any:
    """A JSON merge patch (RFC 7386)."""
    if not isinstance(patch, dict):
        return copy.deepcopy(patch)
    base = dict(target) if isinstance(target, dict) else {}
    for key, value in patch.items():
        if value is None:
            base.pop(key, None)
        else:
            base[key] = merge(base.get(key), value)
    return base


class World:
    """Objects, and the controllers that look after them. It is their view."""

    def __init__(self, *controllers: Controller, now: int = START) -> None:
        self.controllers = controllers
        self.now = now
        self.written: list[Operation] = []
        self.records: list[str] = []
        self.phases: dict[str, list[str]] = {}
        self._objects: dict[Resource, dict[Key, Obj]] = {}
        self._version = 0
        self._foreseen: list[tuple[Controller, Key, float | None]] = []

    # --- the view

    def get(self, resource: Resource, key: Key) -> Obj | None:
        return self._objects.get(resource, {}).get(key)

    def head(self, resource: Resource, key: Key) -> Obj | None:
        return self.get(resource, key)

    def list(self, resource: Resource, namespace: str = "") -> Sequence[Obj]:
        found = sorted(self._objects.get(resource, {}).items())
        return [obj for key, obj in found if not namespace or key.namespace == namespace]

    def owned(self, resource: Resource, uid: str, namespace: str, most: int | None = None) -> Sequence[Obj]:
        raise NotImplementedError

    def labelled(self, resource: Resource, label: str, value: str) -> Sequence[Obj]:
        raise NotImplementedError

    def indexed(self, resource: Resource, index: str, value: str) -> Sequence[Obj]:
        values = by_text(self._declared("indexes", resource, index) or INDEXES[index])
        return [obj for obj in self.list(resource) if value in values(obj)]

    def count_indexed(self, resource: Resource, index: str, value: str) -> int:
        return len(self.indexed(resource, index, value))

    def aggregate(self, resource: Resource, name: str, value: str) -> Aggregate | None:
        made = Aggregates(self._declared("aggregates", resource, name))
        for obj in self.list(resource):
            made.move(key_of(obj), None, obj)
        return made.find(value)

    def _declared(self, part: str, resource: Resource, name: str) -> Any:
        """What an interest of a controller declares under this name."""
        declared = (
            getattr(each, part) for by in self.controllers for each in by.interests if each.resource == resource
        )
        return next((each[name] for each in declared if name in each), None)

    # --- what users do

    def put(self, resource: Resource, obj: Obj) -> None:
        """Create or replace an object."""
        self._version += 1
        metadata = {"uid": f"uid-{self._version}", **obj["metadata"], "resourceVersion": str(self._version)}
        self._objects.setdefault(resource, {})[key_of(obj)] = {**obj, "metadata": metadata}
        phase = (obj.get("status") or {}).get("phase")
        seen = self.phases.setdefault(f"{metadata['name']}", [])
        if resource == PODS and phase and seen[-1:] != [phase]:
            seen.append(phase)

    def change(self, resource: Resource, name: str, patch: Any, namespace: str = "") -> None:
        """Patch an object."""
        old = self.get(resource, Key(namespace, name))
        assert old is not None
        self.put(resource, merge(old, patch))

    def remove(self, resource: Resource, name: str, namespace: str = "") -> None:
        """Take an object away."""
        self._objects[resource].pop(Key(namespace, name), None)

    def begin_delete(self, name: str, grace: int = 30) -> None:
        """Delete a pod as users do."""
        pod = self.pod(name)
        if pod["status"].get("phase") in ("Succeeded", "Failed"):
            grace = 0
        end = format_time(self.now // SECOND * SECOND + grace * SECOND)
        self.change(
            PODS, name, {"metadata": {"deletionTimestamp": end, "deletionGracePeriodSeconds": grace}}, "default"
        )
        self._finish(Key("default", name))

    def _finish(self, key: Key) -> None:
        """A pod goes once nothing holds it up."""
        metadata = self._objects[PODS][key]["metadata"]
        if not metadata.get("deletionGracePeriodSeconds") and not metadata.get("finalizers"):
            del self._objects[PODS][key]

    def pod(self, name: str = "p") -> Any:
        found = self.get(PODS, Key("default", name))
        assert found is not None, f"there is no pod {name}"
        return found

    def node(self, name: str = "node-0") -> Any:
        found = self.get(NODES, Key("", name))
        assert found is not None, f"there is no node {name}"
        return found

    # --- time

    def run(self, seconds: float = 0.0) -> None:
        """Let the controllers work for a time."""
        end = self.now + int(seconds * SECOND)
        while True:
            due = self._settle()
            if due is None or due > end:
                self.now = end
                self._settle()
                return
            self.now = max(due, self.now + 1)

    def _settle(self) -> int | None:
        """Ask until nothing more is wanted now; returns when something is."""
        wanted, due = self._ask()
        for _ in range(200):
            if not wanted:
                return due
            for operation in wanted:
                self._carry_out(operation)
            self._check_foresight()
            wanted, due = self._ask()
        raise AssertionError(f"the controllers never come to rest: {wanted}")

    def _check_foresight(self) -> None:
        """What a controller has foreseen has come about: to ask again would bring nothing new."""
        for controller, key, again in self._foreseen:
            outcome = finished(controller.reconcile(key, self, self.now))
            assert (list(outcome.operations), outcome.again) == ([], again), f"{key} was not foreseen"

    def _ask(self) -> tuple[builtins.list[Operation], int | None]:
        wanted: list[Operation] = []
        due: list[int] = []
        self._foreseen = []
        for controller in self.controllers:
            for key in self._keys(controller):
                outcome = finished(controller.reconcile(key, self, self.now))
                assert outcome == finished(controller.reconcile(key, self, self.now)), "equal views give equal outcomes"
                wanted += outcome.operations
                if outcome.foreseen and outcome.operations and outcome.again != 0:
                    self._foreseen.append((controller, key, outcome.again))
                if outcome.again is not None:
                    due.append(self.now + int(outcome.again * SECOND))
        return wanted, min(due, default=None)

    def _keys(self, controller: Controller) -> Sequence[Key]:
        keys = {key: None for interest in controller.interests for key in interest.always}
        for interest in controller.interests:
            for obj in self.list(interest.resource):
                keys.update(dict.fromkeys(interest.keys(obj)))
        return list(keys)

    def _carry_out(self, operation: Operation) -> None:
        if isinstance(operation, Record):
            self.records.append(f"{operation.type} {operation.reason}: {operation.message}")
            return
        self.written.append(operation)
        if isinstance(operation, Create):
            if self.get(operation.resource, key_of(operation.body)) is None:
                self.put(operation.resource, operation.body)
        elif isinstance(operation, Patch):
            old = self.get(operation.resource, operation.key)
            if old is not None and operation.version in ("", old["metadata"]["resourceVersion"]):
                self.put(operation.resource, merge(old, operation.patch))
        elif isinstance(operation, Delete):
            self._delete(operation)

    def _delete(self, operation: Delete) -> None:
        old = self.get(operation.resource, operation.key)
        if old is None or old["metadata"]["uid"] != operation.uid:
            return
        grace = {"metadata": {"deletionGracePeriodSeconds": operation.grace}}
        self.put(operation.resource, merge(old, grace))
        self._finish(operation.key)


def node(name: str = "node-0", ready: bool = True, **annotations: str) -> dict[str, Any]:
    """A simulated node; annotations by the last part of their names, with `_` for `-`."""
    made = node_manifest(name, Machine())
    made["metadata"]["annotations"] = notes(annotations)
    if ready:
        made["status"]["conditions"] = [{"type": "Ready", "status": "True", "message": "said by another"}]
    return made


def pod(
    name: str = "p",
    *,
    node: str = "node-0",
    command: str | None = None,
    restart: str = "Always",
    metadata: dict[str, Any] | None = None,
    containers: Sequence[dict[str, Any]] = (),
    notes_: dict[str, str] | None = None,
    **spec: Any,
) -> dict[str, Any]:
    """A pod in namespace `default`, bound to a node, whose only container runs a shell command."""
    main = {"name": "c", "image": "busybox:1.36", **({"command": ["sh", "-c", command]} if command is not None else {})}
    scheduled = {"type": "PodScheduled", "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z"}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "default", "annotations": notes(notes_ or {}), **(metadata or {})},
        "spec": {"nodeName": node, "restartPolicy": restart, "containers": list(containers) or [main], **spec},
        "status": {"phase": "Pending", "qosClass": "BestEffort", "conditions": [scheduled]},
    }


def notes(short: dict[str, str]) -> dict[str, str]:
    """Annotations of Kilauea by their short names."""
    return {f"kilauea.dev/{name.replace('_', '-')}": text for name, text in short.items()}
