"""Feeds watch events, overlaid with the scheduler's assumptions, into the engine's state.

    feed = Feed(state, Assumed(), wake=wake.set)
    feed.seen("Pod", events)
    async with feed.frozen():       # the state does not change; events are queued until the end
        plan = await asyncio.to_thread(decide, feed.state)

An event that could let a pod be placed wakes the loop. Events caused by the scheduler's own writes do not.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict, deque
from collections.abc import AsyncIterator, Callable, Collection, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from functools import partial
from typing import Any, NamedTuple

import msgspec

from kilauea.api.agents import NodeShard
from kilauea.api.core import ConfigMap, Node, NodeStatus, Pod
from kilauea.api.dynamic import ResourceClaim
from kilauea.api.errors import object_label
from kilauea.api.kinds import KUBERNETES_GROUP
from kilauea.api.kubernetes_groups import KubernetesPodGroup
from kilauea.api.meta import Object
from kilauea.api.ports import Holder, Seen, Text, bytes_of, is_kept_decoded
from kilauea.api.scheduling import PodGroup, Queue
from kilauea.api.storage import PersistentVolume, PersistentVolumeClaim
from kilauea.api.topology import HyperNode
from kilauea.engine.events import Advanced, Changed, Gone, Listed, Measured, Relisted
from kilauea.engine.model import status
from kilauea.engine.model.kubernetes_groups import key_from, object_key
from kilauea.engine.model.loads import NodeLoad
from kilauea.engine.model.tasks import Task
from kilauea.engine.state import ClusterState
from kilauea.runtime.inputs.reading import (
    Unusable,
    check_usable,
    decoded,
    has_only_advanced,
    kept,
    pod_in,
    read,
)
from kilauea.runtime.inputs.resources import DYNAMIC_KINDS, head_of
from kilauea.runtime.scheduler.assumed import Assumed, Placed
from kilauea.runtime.scheduler.assumed_volumes import Place
from kilauea.runtime.scheduler.kept_groups import KeptGroups
from kilauea.runtime.tasks import collection_paused

_encode = msgspec.json.Encoder().encode
_WAKING = DYNAMIC_KINDS | frozenset(
    "PriorityClass HyperNode Numatopology PersistentVolume PersistentVolumeClaim StorageClass CSINode "
    "CSIDriver CSIStorageCapacity NodeShard DeviceTaintRule".split()
)
"""Kinds of which every change may let a pod be placed. Pods, nodes, pod groups and queues are checked in detail."""
DECODED = 1000
"""Number of pods to keep decoded, too: those that changed last, which will soon change again."""
MOST_STATUSES = 256
"""Number of node statuses to cache, so that equal nodes share one."""
_READ_IN_PART = frozenset({"PodGroup", "Queue", KUBERNETES_GROUP})
"""Kinds whose statuses the scheduler writes itself."""


class Fault(NamedTuple):
    """An object that scheduling leaves out, and the reason."""

    kind: str
    key: str
    uid: str
    message: str


class PodSummary(NamedTuple):
    """The properties of a pod that other pods depend on."""

    status: int
    node: str
    gated: bool
    group: str


class Answered(NamedTuple):
    """A pod that a response has shown before the watch."""

    version: int
    listed: bytes | None = None


class Feed:
    """The engine's state, built from watch events and assumptions.

    Args:
        state: receives the events.
        assumed: decisions that the watches have not confirmed yet.
        wake: called when something could be placed that could not be placed before.
        arrived: called with the creation time (microseconds since 1970) of each new pending pod.
        bound: called with pod and node when a pod that waited here is bound by another process.
    """

    def __init__(
        self,
        state: ClusterState,
        assumed: Assumed,
        wake: Callable[[], None] = lambda: None,
        arrived: Callable[[int], None] = lambda created: None,
        bound: Callable[[str, str], None] = lambda pod, node: None,
    ) -> None:
        self.state = state
        self.assumed = assumed
        self.pods: dict[str, bytes | Holder] = {}
        """Every pod as JSON, reduced to fields that scheduling reads; in the process of a server, its stored form."""
        self._decoded: OrderedDict[str, Pod] = OrderedDict()
        """The pods of `pods` that changed last."""
        self.groups = KeptGroups()
        """As stored in the API, without assumptions."""
        self.kubernetes_groups: dict[str, KubernetesPodGroup] = {}
        """As stored in the API, by the key of their job."""
        self.queues: dict[str, Queue] = {}
        self.domains: dict[str, str] = {}
        """Uids of HyperNodes, by name."""
        self.claims: dict[str, ResourceClaim] = {}
        """As stored in the API, without assumptions."""
        self.storage: dict[Place, PersistentVolume | PersistentVolumeClaim] = {}
        """Volumes and volume claims as stored in the API, without assumptions, by kind and key."""
        self.shards: dict[str, NodeShard] = {}
        self.shards_changed = asyncio.Event()
        """Set at each change of a NodeShard."""
        self.changes = 0
        """Number of events applied to the state."""
        self.touched: set[str] = set()
        """Pod groups with changed pods; `Statuses` clears it once it has written them."""
        self.changed_specs: set[str] = set()
        """Pending pods with a new generation; `Statuses` clears it once it has processed them."""
        self.faults: dict[tuple[str, str], Fault] = {}
        """Objects that are currently left out."""
        self.wake = wake
        self._arrived = arrived
        self._bound = bound
        self._sent: dict[str, str] = {}
        """The last node to which each pod was bound, until the watch shows the bind."""
        self._nodes: dict[str, tuple[Any, ...]] = {}
        self._statuses: dict[bytes, NodeStatus | None] = {}
        """Statuses of nodes, as JSON and as objects."""
        self._answered: dict[str, Answered] = {}
        """Pods that responses have shown in versions that the watch has not reached."""
        self._thawed = asyncio.Event()
        self._thawed.set()
        self._applying = False
        self._queue: deque[Callable[[], None]] = deque()
        """Events that arrived while the feed is frozen, in order."""

    @asynccontextmanager
    async def frozen(self) -> AsyncIterator[None]:
        """Keep the state as it is: events wait in a queue, and are applied in order at the end.

        Others have their turn after each batch of them: thousands of pods may have changed during one cycle. Only the
        code inside may change the state meanwhile, by `bind`, `nominate` and `reconsider`.
        """
        await self._thawed.wait()
        self._thawed.clear()
        try:
            yield
        finally:
            try:
                # Events that arrive meanwhile are applied below, so that the loop ends.
                for _ in range(len(self._queue)):
                    self._apply_next()
                    await asyncio.sleep(0)
            finally:
                while self._queue:
                    self._apply_next()
                self._thawed.set()

    async def thawed(self) -> None:
        """Wait until the feed is not frozen and all queued events are applied."""
        await self._thawed.wait()

    def _apply_next(self) -> None:
        """Apply the first event of the queue, with all changes that it causes."""
        self._applying = True
        try:
            self._queue.popleft()()
        finally:
            self._applying = False

    def _apply_or_queue(self, change: Callable[[], None]) -> None:
        """Apply a change now, or when the feed is no longer frozen."""
        if self._applying or self._thawed.is_set():
            change()
        else:
            self._queue.append(change)

    def devices_configured(self, config: ConfigMap | None) -> None:
        """Set the configuration of shared devices; None without one."""

        def change() -> None:
            self.state.apply(Relisted("ConfigMap", [config] if config is not None else []))
            self.changes += 1
            self.wake()

        self._apply_or_queue(change)

    def relisted(self, kind: str, items: Sequence[Text], version: str = "") -> None:
        """Replace all objects of a kind.

        A list may be older than responses to requests that were sent meanwhile. Pods from these stay, if the list has a
        version: otherwise room of a placed pod would be assigned again.
        """
        self._apply_or_queue(partial(self._relist, kind, items, version))

    def unreadable(self, kind: str) -> None:
        """Treat a kind as empty, because it cannot be read."""
        self.relisted(kind, [])
        if kind == "ResourceClaim":
            self._apply_or_queue(partial(self.state.resource_claims.readable, False))

    def seen(self, kind: str, batch: Sequence[Seen]) -> None:
        """Apply watch events of a kind."""
        self._apply_or_queue(partial(self._take_events, kind, batch))

    def put(self, kind: str, data: bytes) -> None:
        """Add or update an object."""
        self._apply_or_queue(partial(self._put, kind, data))

    def gone(self, kind: str, key: str) -> None:
        """Remove an object that no longer exists."""
        self._apply_or_queue(partial(self._remove, kind, key))

    def measured(self, loads: Mapping[str, NodeLoad]) -> None:
        """Replace the loads of nodes. They alone do not allow placements, so no cycle starts."""
        self._apply_or_queue(partial(self.state.apply, Measured(loads)))

    @property
    def node_names(self) -> Collection[str]:
        """Names of all nodes."""
        return self._nodes.keys()

    async def answered(self, kind: str, data: bytes) -> None:
        """Update an object from the response to a request, unless the watch has shown a newer version of it."""
        await self.thawed()
        answer = head_of(data)
        uid, version = self._version(kind, answer.key)
        if uid == answer.metadata.uid and not _precedes(answer.metadata.resource_version, version):
            self.put(kind, data)
            if kind == "Pod" and answer.metadata.resource_version != version:
                self._answered[answer.key] = Answered(_number(answer.metadata.resource_version))

    def _relist(self, kind: str, items: Sequence[Text], version: str) -> None:
        with collection_paused():
            if kind == "Pod":
                self._relist_pods(items, version)
            else:
                self._relist_at_once(kind, [bytes_of(each) for each in items])
        self.changes += 1
        # A list does not show changes, so each group may have changed.
        self.touched.update(self.groups)
        self.touched.update(self.kubernetes_groups)
        self.wake()

    def _relist_pods(self, items: Sequence[Text], version: str) -> None:
        """Replace all pods, in steps: there may be a million of them."""
        newer = {key for key, each in self._answered.items() if version and each.version > _number(version)}
        self._answered = {key: each for key, each in self._answered.items() if key in newer}
        for place in [place for place in self.faults if place[0] == "Pod"]:
            del self.faults[place]
        listed = set()
        for text in items:
            data = bytes_of(text)
            for key, pod in self._read("Pod", data):
                listed.add(key)
                if key in newer and self._version("Pod", key)[0] == pod.metadata.uid:
                    self._answered[key] = self._answered[key]._replace(listed=data)
                    continue
                overlaid = self._overlay(pod)
                if text is not data or self.pods[key] == data:
                    self.pods[key] = text  # it is stored anyway, or was reduced when the list was read
                self.state.apply(Listed(overlaid))
                self._note_problems([overlaid])
        for key in [key for key in self.pods if key not in listed]:
            self._forget("Pod", key)
            self.state.apply(Gone("Pod", key))

    def _relist_at_once(self, kind: str, items: Sequence[bytes]) -> None:
        if kind == "ResourceClaim":
            self.state.resource_claims.readable(True)
        for place in [place for place in self.faults if place[0] == kind]:
            del self.faults[place]
        objects = {key: obj for data in items for key, obj in self._read(kind, data)}
        for key in [key for key in self._keys(kind) if key not in objects]:
            self._forget(kind, key)
        overlaid = [self._overlay(obj) for obj in objects.values()]
        overlaid += self.assumed.claims.made(objects) if kind == "ResourceClaim" else []
        self.state.apply(Relisted(kind, overlaid))
        self._note_problems(overlaid)

    def _take_events(self, kind: str, batch: Sequence[Seen]) -> None:
        for event in batch:
            if self._answered and kind == "Pod":
                self._catch_up(event)
            if event.type == "DELETED":
                self._remove(kind, head_of(event.object).key)
            elif event.type != "BOOKMARK":
                self._put(kind, event.object, event.holder)

    def _catch_up(self, event: Seen) -> None:
        """Drop responses that the watch has reached.

        If it has passed one without that version, the server has lost a write that it had acknowledged, as after a
        power failure. Then the list was right.
        """
        shown = head_of(event.object).key if event.type != "BOOKMARK" else ""
        for key in [
            key for key, each in self._answered.items() if key == shown or each.version < _number(event.version)
        ]:
            listed = self._answered.pop(key).listed
            if listed is not None and key != shown:
                before = _summary(self.state.tasks.get(key))
                self.state.apply(Listed(self._overlay(pod_in(listed))))
                self.changes += 1
                self._compare(before, self.state.tasks.get(key))

    def _put(self, kind: str, data: bytes, holder: Holder | None = None) -> None:
        if kind == "Pod":
            self._put_pod(data, holder)
            return
        for key, obj in self._read(kind, data):
            if isinstance(obj, Node):
                self._put_node(key, obj)
            else:
                self._put_other(kind, key, obj)
            if isinstance(obj, PodGroup) and holder is not None:
                self.groups.hold(key, obj, holder)

    def _remove(self, kind: str, key: str) -> None:
        task = self.state.tasks.get(key) if kind == "Pod" else None
        self._forget(kind, key)
        self.state.apply(Gone(kind, key))
        self.changes += 1
        if task is not None:
            self._compare(_summary(task), None)
        elif kind != "Node":
            self.wake()

    def reconsider(self, key: str) -> None:
        """Overlay a pod with the current assumptions. Call it between cycles, or inside `frozen`."""
        pod = self._pod(key)
        if pod is not None:
            self._take_pod(key, pod, self.pods[key], reread=True)

    def bind(self, key: str, placed: Placed) -> None:
        """Assume that a pending pod is on a node. Call it between cycles, or inside `frozen`."""
        self.assumed.binds[key] = placed
        self._sent[key] = placed.node
        pod = self._pod(key)
        if pod is not None:
            self._take_pod(key, pod, self.pods[key], reread=False)

    def nominate(self, key: str, placed: Placed) -> None:
        """Assume that a pod is nominated to a node, or with an empty node to none. Call it as `bind`."""
        self.assumed.nominations[key] = placed
        pod = self._pod(key)
        if pod is not None:
            self._take_pod(key, pod, self.pods[key], reread=False)

    def _pod(self, key: str) -> Pod | None:
        """Return the stored pod with this key."""
        pod = self._decoded.get(key)
        if pod is None and (data := self.pods.get(key)) is not None:
            pod = pod_in(data)
        return pod

    def reconsider_group(self, key: str) -> None:
        """Overlay a pod group with its assumed phase. Call it between cycles, or inside `frozen`."""
        group = self.groups.get(key)
        if group is not None:
            self._apply(Changed(self.assumed.over_group(group)))

    def reconsider_claims(self, keys: Iterable[str]) -> None:
        """Overlay resource claims with their assumptions. Call it as `reconsider`."""
        listed = list(keys)
        for key in listed:
            claim = self.claims.get(key)
            if claim is not None:
                self._apply(Changed(self.assumed.claims.over(claim)))
            else:
                self.state.apply(Gone("ResourceClaim", key))
                self.changes += 1
        for claim in self.assumed.claims.made(self.claims):
            if claim.key in listed:
                self._apply(Changed(claim))

    def reconsider_volumes(self, places: Iterable[Place]) -> None:
        """Overlay volumes and volume claims with their assumptions. Call it as `reconsider`."""
        for place in places:
            obj = self.storage.get(place)
            if obj is not None:
                self._apply(Changed(self._overlay_storage(obj)))

    def _overlay_storage(self, obj: PersistentVolume | PersistentVolumeClaim) -> Object:
        volumes = self.assumed.volumes
        return volumes.over_volume(obj) if isinstance(obj, PersistentVolume) else volumes.over_claim(obj)

    # --- one object

    def _read(self, kind: str, data: bytes) -> list[tuple[str, Object]]:
        """Return the object with its key; nothing if it is invalid, which is recorded as a fault."""
        try:
            obj = read(kind, data)
        except Unusable as fault:
            self._leave_out(kind, data, fault)
            return []
        key = object_label(obj)
        self.faults.pop((kind, key), None)
        return [(key, obj)]

    def _leave_out(self, kind: str, data: bytes, fault: Unusable) -> None:
        head = head_of(data)
        self._forget(kind, head.key)
        self.state.apply(Gone(kind, head.key))
        self.faults[kind, head.key] = Fault(kind, head.key, head.metadata.uid, str(fault))

    def _overlay(self, obj: Object) -> Object:
        """Store an object, and return it overlaid with the assumptions."""
        match obj:
            case Pod():
                self.pods[obj.key] = kept(obj)
                self._decoded.pop(obj.key, None)
                return self.assumed.over_pod(obj)
            case PodGroup():
                self.groups[obj.key] = obj
                return self.assumed.over_group(obj)
            case KubernetesPodGroup():
                self.kubernetes_groups[key_from(obj.key)] = obj
            case Queue():
                self.queues[obj.name] = obj
            case HyperNode():
                self.domains[obj.name] = obj.metadata.uid or ""
            case ResourceClaim():
                self.claims[obj.key] = obj
                return self.assumed.claims.over(obj)
            case PersistentVolume() | PersistentVolumeClaim():
                self.storage[obj.kind, object_label(obj)] = obj
                return self._overlay_storage(obj)
            case NodeShard():
                self.shards[obj.name] = obj
                self.shards_changed.set()
            case Node():
                self._share_status(obj)
                self._nodes[obj.name] = _read_by_scheduling(obj)
        return obj

    def _share_status(self, node: Node) -> None:
        """Share the status of an equal earlier node, as thousands of machines are equal."""
        if len(self._statuses) >= MOST_STATUSES:
            self._statuses.clear()
        node.status = self._statuses.setdefault(_encode(node.status), node.status)

    def _put_pod(self, data: bytes, holder: Holder | None) -> None:
        """Add or update a pod. Most events only advance its status; its spec is not read again then."""
        try:
            pod = decoded("Pod", data)
            assert isinstance(pod, Pod)
            before = self._pod(pod.key)
            reread = before is None or not has_only_advanced(before, pod)
            if reread:
                check_usable(pod)
        except Unusable as fault:
            self._leave_out("Pod", data, fault)
            return
        if before is not None and _older(pod, before):
            return
        if before is not None and not pod.spec.node_name and pod.metadata.generation != before.metadata.generation:
            self.changed_specs.add(pod.key)
        self.faults.pop(("Pod", pod.key), None)
        self._take_pod(pod.key, pod, holder or kept(pod), reread=reread)

    def _take_pod(self, key: str, pod: Pod, data: bytes | Holder, *, reread: bool) -> None:
        """Apply a pod with its assumptions; unless `reread`, only its status has advanced."""
        before = _summary(self.state.tasks.get(key))
        if pod.spec.node_name and before is not None and before.node == pod.spec.node_name:
            self._sent.pop(key, None)
        if is_kept_decoded(data):
            self._decoded[key] = pod
            if len(self._decoded) > DECODED:
                self._decoded.popitem(last=False)
        else:
            self._decoded.pop(key, None)
        overlaid = self.assumed.over_pod(pod)
        self._apply(Changed(overlaid) if reread or key in self.assumed.held else Advanced(overlaid))
        after = self.state.tasks.get(key)
        self.pods[key if after is None else after.key] = data  # the text of the key is in memory once
        if pod.spec.node_name and before is not None and before.node != pod.spec.node_name:
            self._placed_elsewhere(key, pod.spec.node_name, after)
        self._compare(before, after)

    def _placed_elsewhere(self, key: str, node: str, task: Task | None) -> None:
        """Report a pod of ours on another node than assumed, unless this is from a bind without a response."""
        if task is not None and not task.foreign and self._sent.pop(key, "") != node:
            self._bound(key, node)

    def _compare(self, before: PodSummary | None, after: Task | None) -> None:
        """Mark the pod's group as touched, and wake the loop if there is something to place or room was released."""
        if before == _summary(after):
            return
        self.touched.update(pod.group for pod in (before, after) if pod is not None and pod.group)
        waits = after is not None and after.status == status.PENDING
        if before is None and after is not None and waits:
            self._arrived(after.creation)
        had_node = before is not None and bool(before.node)
        if waits or (had_node and (after is None or after.status in _LEAVING or not after.node)):
            self.wake()

    def _put_node(self, name: str, node: Node) -> None:
        """Add or update a node, unless only fields changed that scheduling does not read, as in heartbeats."""
        if self._nodes.get(name) != _read_by_scheduling(node):
            self._apply(Changed(self._overlay(node)))
            self.wake()

    def _put_other(self, kind: str, key: str, obj: Object) -> None:
        known = self._known(kind, key)
        if known is not None and (_older(obj, known) or (_same(obj, known) and key not in self.assumed.phases)):
            return
        self._apply(Changed(self._overlay(obj)))
        if kind == KUBERNETES_GROUP:
            self.touched.add(key_from(key))
        if kind in _WAKING or (kind in _READ_IN_PART and _intent(known) != _intent(obj)):
            self.wake()

    def _known(self, kind: str, key: str) -> Object | None:
        """Return the stored pod group or queue with this key."""
        if kind == KUBERNETES_GROUP:
            return self.kubernetes_groups.get(key_from(key))
        return self.groups.get(key) if kind == "PodGroup" else self.queues.get(key) if kind == "Queue" else None

    def _apply(self, event: Changed | Advanced) -> None:
        self.state.apply(event)
        self.changes += 1
        self._note_problems([event.obj])

    def _note_problems(self, objects: Sequence[Object]) -> None:
        """Record objects that passed validation but that the state rejected."""
        if self.state.problems:
            for obj in objects:
                problem = self.state.problems.get((obj.kind, object_label(obj)))
                if problem is not None:
                    self.faults[obj.kind, problem.key] = Fault(
                        obj.kind, problem.key, obj.metadata.uid or "", problem.message
                    )

    def _version(self, kind: str, key: str) -> tuple[str, str]:
        """Return uid and version of the object with this key; empty strings if there is none."""
        if kind == "Pod":
            data = self.pods.get(key, b"{}")
            pod = head_of(data if isinstance(data, bytes) else data.value).metadata
            return pod.uid, pod.resource_version
        known = self._known(kind, key)
        return ("", "") if known is None else (known.metadata.uid or "", known.metadata.resource_version or "")

    def _keys(self, kind: str) -> list[str]:
        """Return the keys of all stored objects of a kind."""
        kept: dict[str, Mapping[str, Any]] = {"Pod": self.pods, "PodGroup": self.groups, "Queue": self.queues}
        if kind == KUBERNETES_GROUP:
            return [object_key(key) for key in self.kubernetes_groups]
        kept |= {"HyperNode": self.domains, "ResourceClaim": self.claims, "NodeShard": self.shards}
        if kind in ("PersistentVolume", "PersistentVolumeClaim"):
            return [key for of, key in self.storage if of == kind]
        return list(kept.get(kind, self._nodes if kind == "Node" else {}))

    def _forget(self, kind: str, key: str) -> None:
        """Drop everything stored about an object."""
        self.storage.pop((kind, key), None)
        self.reconsider_claims(self.assumed.gone(kind, key))
        if kind == "Pod":
            self.reconsider_volumes(self.assumed.volumes.drop_pod(key))
        self.faults.pop((kind, key), None)
        if kind == "Pod":
            self.pods.pop(key, None)
            self._decoded.pop(key, None)
            self._sent.pop(key, None)
            self._answered.pop(key, None)
        elif kind == "PodGroup":
            self.groups.pop(key, None)
        elif kind == KUBERNETES_GROUP:
            self.kubernetes_groups.pop(key_from(key), None)
        elif kind == "Queue":
            self.queues.pop(key, None)
        elif kind == "HyperNode":
            self.domains.pop(key, None)
        elif kind == "ResourceClaim":
            self.claims.pop(key, None)
        elif kind == "NodeShard":
            self.shards.pop(key, None)
            self.shards_changed.set()
        elif kind == "Node":
            self._nodes.pop(key, None)


class KindFeed:
    """Receives the events of a reflector of one kind."""

    def __init__(self, feed: Feed, kind: str) -> None:
        self._feed = feed
        self._kind = kind

    def on_relist(self, items: Sequence[Text], version: str) -> None:
        """Replace all objects of the kind."""
        self._feed.relisted(self._kind, items, version)

    def on_events(self, batch: Sequence[Seen]) -> None:
        """Apply events."""
        self._feed.seen(self._kind, batch)


def _summary(task: Task | None) -> PodSummary | None:
    return None if task is None else PodSummary(task.status, task.node, task.gated, task.group)


_LEAVING = frozenset({status.RELEASING, *status.ENDED})


def _read_by_scheduling(node: Node) -> tuple[Any, ...]:
    """Fields of a node that scheduling reads."""
    return node.metadata.labels, node.metadata.annotations, node.spec, node.status


def _intent(obj: Object | None) -> tuple[Any, ...] | None:
    """Fields of a pod group or queue that the scheduler does not write itself."""
    match obj:
        case PodGroup():
            return obj.spec, obj.metadata.annotations
        case KubernetesPodGroup():
            return obj.spec, obj.metadata.annotations, obj.metadata.labels
        case Queue():
            return obj.spec, obj.metadata.annotations, obj.status.state if obj.status else None
    return None


def _older(obj: Object, known: Object) -> bool:
    """True if an object is an earlier version of a stored one."""
    new, old = obj.metadata, known.metadata
    return new.uid == old.uid and _precedes(new.resource_version or "", old.resource_version or "")


def _same(obj: Object, known: Object) -> bool:
    """True if an object is a stored one in the same version, from a response that preceded the watch."""
    new, old = obj.metadata, known.metadata
    return bool(new.resource_version) and (new.uid, new.resource_version) == (old.uid, old.resource_version)


def _number(version: str) -> int:
    """A version as a number; 0 for an invalid one."""
    return int(version) if version.isdigit() else 0


def _precedes(one: str, other: str) -> bool:
    """True if a version is older than another one; every API server uses numbers."""
    return one.isdigit() and other.isdigit() and int(one) < int(other)
