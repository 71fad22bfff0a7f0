"""The objects of a replayed cluster: a view for controllers, and events for the engine.

Objects are stored as JSON, as controllers read them. For the kinds that the engine reads, each change is also decoded
and kept as an event until the next cycle.
"""

from __future__ import annotations

from bisect import insort
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec

from kilauea.api.aggregates import Aggregates
from kilauea.api.core import Node, Pod
from kilauea.api.kinds import NODES, POD_GROUPS, PODS, PRIORITY_CLASSES, QUEUES
from kilauea.api.meta import Object
from kilauea.api.ports import (
    Aggregate,
    Aggregation,
    Key,
    Obj,
    Resource,
    Texts,
    key_of,
    says,
)
from kilauea.api.scheduling import PodGroup, Queue
from kilauea.engine.events import Advanced, Changed, Event, Gone

Listener = Callable[[Obj | None, Obj | None], None]
"""Called with an object before and after a change; None for no object."""

TYPES: Mapping[Resource, type[Object]] = {PODS: Pod, POD_GROUPS: PodGroup, QUEUES: Queue, NODES: Node}
"""Kinds whose changes are passed to the engine."""


class Objects:
    """All objects, by kind and key. It is the `View` of the controllers."""

    def __init__(self) -> None:
        self._kinds: dict[Resource, dict[Key, Obj]] = {}
        self._owned: dict[tuple[Resource, str], list[Key]] = {}
        self._listeners: dict[Resource, list[Listener]] = {}
        self._indexes: dict[tuple[Resource, str], Texts] = {}
        self._aggregates: dict[Resource, dict[str, Aggregates]] = {}
        self._uids = 0
        self._version = 0
        self._changed: dict[tuple[Resource, Key], None] = {}
        """Objects with changes for the engine, in the order of their first change."""
        self._told: dict[Key, str] = {}
        """Pods in the engine, with their uid."""

    def listen(self, resource: Resource, listener: Listener) -> None:
        """Notify a listener of each change of a kind."""
        self._listeners.setdefault(resource, []).append(listener)

    def index(self, resource: Resource, name: str, function: Texts) -> None:
        """Index objects of a kind by a function."""
        self._indexes[resource, name] = function

    def aggregate_by(self, resource: Resource, name: str, aggregation: Aggregation) -> None:
        """Aggregate the objects of a kind, which must not have any yet."""
        self._aggregates.setdefault(resource, {})[name] = Aggregates(aggregation)

    def take_events(self) -> list[Event]:
        """Return the events that were not passed to the engine yet, and mark them as passed."""
        changed, self._changed = self._changed, {}
        return [self._event(resource, key) for resource, key in changed]

    def _event(self, resource: Resource, key: Key) -> Event:
        """The current state of an object. For a known pod, only its node and status are new."""
        obj = self.get(resource, key)
        if obj is None:
            if resource == PODS:
                self._told.pop(key, None)
            return Gone(resource.kind, str(key))
        if resource != PODS:
            return Changed(msgspec.convert(obj, TYPES[resource]))
        uid = obj["metadata"]["uid"]
        known, self._told[key] = self._told.get(key), uid
        pod = msgspec.convert(obj, Pod)
        return Advanced(pod) if known == uid else Changed(pod)

    # --- writes

    def create(self, resource: Resource, body: Obj, created: str) -> Obj | None:
        """Create an object; return it, or None if the name exists."""
        key = key_of(body)
        if key in self._kinds.get(resource, ()):
            return None
        self._uids += 1
        if resource == PODS:
            body = self._with_priority(body)
        metadata = {"uid": f"{self._uids:09d}", "creationTimestamp": created, **body["metadata"]}
        obj = {"apiVersion": resource.api_version, "kind": resource.kind, **body, "metadata": metadata}
        self._put(resource, key, None, obj)
        return obj

    def _with_priority(self, pod: Obj) -> Obj:
        """A new pod with the value of its priority class, which an API server would set."""
        spec = pod["spec"]
        found = self.get(PRIORITY_CLASSES, Key("", spec.get("priorityClassName") or ""))
        if found is None or spec.get("priority") is not None:
            return pod
        policy = {"preemptionPolicy": found["preemptionPolicy"]} if found.get("preemptionPolicy") else {}
        return {**pod, "spec": {**spec, "priority": found.get("value") or 0, **policy}}

    def change(self, resource: Resource, key: Key, patch: Any) -> bool:
        """Change an object by a merge patch or a JSON patch; return False if nothing changes."""
        before = self.get(resource, key)
        if before is None:
            return False
        after = merged(before, patch) if isinstance(patch, Mapping) else patched(before, patch)
        if after is None or after == before:
            return False
        self._put(resource, key, before, after)
        return True

    def remove(self, resource: Resource, key: Key) -> bool:
        """Remove an object at once; return False if it does not exist."""
        before = self._kinds.get(resource, {}).pop(key, None)
        if before is None:
            return False
        for uid in _owners(before):
            owned = self._owned[resource, uid]
            owned.remove(key)
            if not owned:
                del self._owned[resource, uid]
        if resource in TYPES:
            self._changed[resource, key] = None
        self._tell(resource, key, before, None)
        return True

    def _put(self, resource: Resource, key: Key, before: Obj | None, after: dict[str, Any]) -> None:
        self._version += 1
        after["metadata"] = {**after["metadata"], "resourceVersion": str(self._version)}
        self._kinds.setdefault(resource, {})[key] = after
        if before is None:
            for uid in _owners(after):
                insort(self._owned.setdefault((resource, uid), []), key)
        if resource in TYPES:
            self._changed[resource, key] = None
        self._tell(resource, key, before, after)

    def _tell(self, resource: Resource, key: Key, before: Obj | None, after: Obj | None) -> None:
        for aggregates in self._aggregates.get(resource, {}).values():
            aggregates.move(key, before, after)
        for listener in self._listeners.get(resource, ()):
            listener(before, after)

    # --- kilauea.api.ports.View

    def get(self, resource: Resource, key: Key) -> Obj | None:
        """One object."""
        return self._kinds.get(resource, {}).get(key)

    def head(self, resource: Resource, key: Key) -> Obj | None:
        """One object, whole."""
        return self.get(resource, key)

    def list(self, resource: Resource, namespace: str = "") -> Sequence[Obj]:
        """All objects of a kind, or those of a namespace, in order of their keys."""
        known = self._kinds.get(resource, {})
        return [known[key] for key in sorted(known) if not namespace or key.namespace == namespace]

    def owned(self, resource: Resource, uid: str, namespace: str = "", most: int | None = None) -> Sequence[Obj]:
        """Objects of a kind with this owner, in order of their keys."""
        known = self._kinds.get(resource, {})
        keys = self._owned.get((resource, uid), ())
        return [known[key] for key in keys if not namespace or key.namespace == namespace][:most]

    def labelled(self, resource: Resource, label: str, value: str) -> Sequence[Obj]:
        """Objects of a kind with a label, in order of their keys."""
        return [obj for obj in self.list(resource) if (obj["metadata"].get("labels") or {}).get(label) == value]

    def indexed(self, resource: Resource, index: str, value: str) -> Sequence[Obj]:
        """Objects of a kind with this value in an index, in order of their keys."""
        if not self._kinds.get(resource):
            return []
        texts = self._indexes[resource, index]
        return [obj for obj in self.list(resource) if says(texts, obj, value)]

    def count_indexed(self, resource: Resource, index: str, value: str) -> int:
        """Return the number of these objects."""
        return len(self.indexed(resource, index, value))

    def aggregate(self, resource: Resource, name: str, value: str) -> Aggregate | None:
        """The aggregate of the objects of a kind with a value; None without any."""
        found = self._aggregates.get(resource, {}).get(name)
        return None if found is None else found.find(value)


def _owners(obj: Obj) -> list[str]:
    return [owner["uid"] for owner in obj["metadata"].get("ownerReferences") or ()]


def merged(document: Mapping[str, Any], patch: Mapping[str, Any]) -> dict[str, Any]:
    """Return a document after a merge patch (RFC 7386); unchanged parts are shared with the document."""
    out = dict(document)
    for name, value in patch.items():
        if value is None:
            out.pop(name, None)
        elif isinstance(value, Mapping):
            known = out.get(name)
            out[name] = merged(known if isinstance(known, Mapping) else {}, value)
        else:
            out[name] = value
    return out


def patched(document: Obj, operations: Sequence[Mapping[str, Any]]) -> dict[str, Any] | None:
    """Return a document after a JSON patch (RFC 6902) of fields of objects; None if a test fails."""
    out = dict(document)
    for each in operations:
        *above, last = each["path"].removeprefix("/").split("/")
        holder = out
        for step in above:
            holder[step] = dict(holder.get(step) or {})
            holder = holder[step]
        if each["op"] == "test":
            if holder.get(last) != each["value"]:
                return None
        elif each["op"] == "remove":
            holder.pop(last, None)
        else:
            holder[last] = each["value"]
    return out
