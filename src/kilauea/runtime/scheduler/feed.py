"""What comes in: events of the watches, with what is assumed laid over them, go into the engine's state.

While a cycle works on the state in another thread nothing may touch it: events wait then, and are taken in afterwards
in order (`undisturbed`, `catch_up`). An event that could let something be placed stirs the loop; the echo of the
scheduler's own writes does not.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, NamedTuple, TypeVar

from kilauea.api.core import Node, Pod
from kilauea.api.errors import object_label
from kilauea.api.meta import Object
from kilauea.api.ports import Seen
from kilauea.api.scheduling import PodGroup, Queue
from kilauea.api.topology import HyperNode
from kilauea.engine.events import Advanced, Changed, Gone, Relisted
from kilauea.engine.model import status
from kilauea.engine.model.tasks import Task
from kilauea.engine.state import ClusterState
from kilauea.runtime.inputs.reading import (
    Unusable,
    check_usable,
    decoded,
    has_only_advanced,
    read,
)
from kilauea.runtime.inputs.resources import head_of
from kilauea.runtime.scheduler.assumed import Assumed, Placed

T = TypeVar("T")

_STIRRING = frozenset(
    "PriorityClass HyperNode PersistentVolume PersistentVolumeClaim StorageClass CSINode CSIStorageCapacity".split()
)
"""Kinds of which every change may let a pod be placed; for the kinds with a method of their own that says when."""


class Fault(NamedTuple):
    """An object that is left out, and why."""

    kind: str
    key: str
    uid: str
    message: str


class Standing(NamedTuple):
    """What of a pod matters to others."""

    status: int
    node: str
    gated: bool
    group: str


class Feed:
    """The engine's state as the watches and the assumptions make it.

    Args:
        state: takes the events.
        assumed: what was decided and is not seen yet.
    """

    def __init__(self, state: ClusterState, assumed: Assumed) -> None:
        self.state = state
        self.assumed = assumed
        self.pods: dict[str, bytes] = {}
        """Every pod that was read, as it came; bytes weigh less on the collector than objects."""
        self.groups: dict[str, PodGroup] = {}
        """As the API has them, without assumptions."""
        self.queues: dict[str, Queue] = {}
        self.domains: dict[str, str] = {}
        """The uids of HyperNodes."""
        self.changes = 0
        """Grows with everything that the state takes in."""
        self.touched: set[str] = set()
        """Pod groups of which a pod changed since somebody emptied this."""
        self.faults: dict[tuple[str, str], Fault] = {}
        """Objects that are left out now."""
        self.stir: Callable[[], None] = lambda: None
        """Called when something could be placed that could not before."""
        self.arrived: Callable[[int], None] = lambda created: None
        """Told of each new pod that waits when it was made, in microseconds since 1970."""
        self._nodes: dict[str, tuple[Any, ...]] = {}
        self._held = False
        self._free = asyncio.Event()
        self._free.set()
        self._late: list[Callable[[], None]] = []

    async def free(self) -> None:
        """Wait until what came is taken in."""
        await self._free.wait()

    async def undisturbed(self, work: Callable[[], Awaitable[T]]) -> T:
        """The result of work that nothing may disturb; what comes from its start on waits for `catch_up`."""
        self._held = True
        self._free.clear()
        return await work()

    def catch_up(self) -> None:
        """Take in what came meanwhile."""
        self._held = False
        late, self._late = self._late, []
        for take in late:
            take()
        self._free.set()

    def relisted(self, kind: str, items: Sequence[bytes]) -> None:
        """All objects of a kind."""
        if self._held:
            self._late.append(lambda: self.relisted(kind, items))
            return
        for place in [place for place in self.faults if place[0] == kind]:
            del self.faults[place]
        objects = {key: (obj, data) for data in items for key, obj in self._read(kind, data)}
        for key in [key for key in self._keys(kind) if key not in objects]:
            self._gone(kind, key)
        laid = [self._lay(obj, data) for obj, data in objects.values()]
        self.state.apply(Relisted(kind, laid))
        self.changes += 1
        self._note_problems(laid)
        self.touched.update(self.groups)
        self.stir()

    def seen(self, kind: str, batch: Sequence[Seen]) -> None:
        """What happened to objects of a kind."""
        if self._held:
            self._late.append(lambda: self.seen(kind, batch))
            return
        for event in batch:
            if event.type == "DELETED":
                self.gone(kind, head_of(event.object).key)
            elif event.type != "BOOKMARK":
                self.put(kind, event.object)

    def put(self, kind: str, data: bytes) -> None:
        """An object as it is now."""
        if self._held:
            self._late.append(lambda: self.put(kind, data))
            return
        if kind == "Pod":
            self._put_pod(data)
            return
        for key, obj in self._read(kind, data):
            if isinstance(obj, Node):
                self._put_node(key, obj)
            else:
                self._put_other(kind, key, obj)

    async def answered(self, kind: str, data: bytes) -> None:
        """An object in the answer to a request, which may come late: what the watch has shown meanwhile is newer."""
        await self.free()
        answer = head_of(data)
        uid, version = self._version(kind, answer.key)
        if uid == answer.metadata.uid and not _precedes(answer.metadata.resource_version, version):
            self.put(kind, data)

    def gone(self, kind: str, key: str) -> None:
        """An object is there no more."""
        if self._held:
            self._late.append(lambda: self.gone(kind, key))
            return
        task = self.state.tasks.get(key) if kind == "Pod" else None
        self._gone(kind, key)
        self.state.apply(Gone(kind, key))
        self.changes += 1
        if task is not None:
            self._notice(_standing(task), None)
        elif kind != "Node":
            self.stir()

    def reconsider(self, key: str) -> None:
        """Lay the assumptions over a pod anew; only between cycles, or by who asked to be undisturbed."""
        data = self.pods.get(key)
        if data is not None:
            self._take_pod(key, decoded("Pod", data), data, anew=True)

    def bind(self, key: str, placed: Placed) -> None:
        """Assume that a pod that waits is on a node; only between cycles, or by who asked to be undisturbed."""
        self.assumed.binds[key] = placed
        data = self.pods.get(key)
        if data is not None:
            self._take_pod(key, decoded("Pod", data), data, anew=False)

    def nominate(self, key: str, placed: Placed) -> None:
        """Assume that a pod is promised room on a node, or with an empty node that it is not; when as for `bind`."""
        self.assumed.nominations[key] = placed
        data = self.pods.get(key)
        if data is not None:
            self._take_pod(key, decoded("Pod", data), data, anew=False)

    def reconsider_group(self, key: str) -> None:
        """The same for a pod group."""
        group = self.groups.get(key)
        if group is not None:
            self._apply(Changed(self.assumed.over_group(group)))

    # --- one object

    def _read(self, kind: str, data: bytes) -> list[tuple[str, Object]]:
        """The object with its key; nothing if it cannot be used, which is noted."""
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
        self._gone(kind, head.key)
        self.state.apply(Gone(kind, head.key))
        self.faults[kind, head.key] = Fault(kind, head.key, head.metadata.uid, str(fault))

    def _lay(self, obj: Object, data: bytes) -> Object:
        """Keep an object as it is; returns it as it will be."""
        match obj:
            case Pod():
                return self._lay_pod(obj, data)
            case PodGroup():
                self.groups[obj.key] = obj
                return self.assumed.over_group(obj)
            case Queue():
                self.queues[obj.name] = obj
            case HyperNode():
                self.domains[obj.name] = obj.metadata.uid or ""
            case Node():
                self._nodes[obj.name] = _offer(obj)
        return obj

    def _lay_pod(self, pod: Pod, data: bytes) -> Pod:
        self.pods[pod.key] = data
        return self.assumed.over_pod(pod)

    def _put_pod(self, data: bytes) -> None:
        """A pod as it is now. Most of what is heard of pods is how far they have come; the rest is not read again."""
        try:
            pod = decoded("Pod", data)
            assert isinstance(pod, Pod)
            known = self.pods.get(pod.key)
            before = decoded("Pod", known) if known is not None else None
            anew = not isinstance(before, Pod) or not has_only_advanced(before, pod)
            if anew:
                check_usable(pod)
        except Unusable as fault:
            self._leave_out("Pod", data, fault)
            return
        if before is not None and _older(pod, before):
            return
        self.faults.pop(("Pod", pod.key), None)
        self._take_pod(pod.key, pod, data, anew=anew)

    def _take_pod(self, key: str, pod: Object, data: bytes, *, anew: bool) -> None:
        """A pod as it is now, with what is assumed; one that is not new has only advanced since it was taken last."""
        assert isinstance(pod, Pod)
        before = _standing(self.state.tasks.get(key))
        if anew or key in self.assumed.held:
            self._apply(Changed(self._lay_pod(pod, data)))
        else:
            self.pods[key] = data
            self._apply(Advanced(self.assumed.over_pod(pod)))
        self._notice(before, self.state.tasks.get(key))

    def _notice(self, before: Standing | None, after: Task | None) -> None:
        """A pod changed: its group's figures did, and perhaps there is something to place, or room for it."""
        if before == _standing(after):
            return
        self.touched.update(pod.group for pod in (before, after) if pod is not None and pod.group)
        waits = after is not None and after.status == status.PENDING
        if before is None and after is not None and waits:
            self.arrived(after.order[2])
        held_room = before is not None and bool(before.node)
        if waits or (held_room and (after is None or after.status in _LEAVING or not after.node)):
            self.stir()

    def _put_node(self, name: str, node: Node) -> None:
        """Heartbeats change nothing that scheduling reads, and come from every node."""
        if self._nodes.get(name) != _offer(node):
            self._apply(Changed(self._lay(node, b"")))
            self.stir()

    def _put_other(self, kind: str, key: str, obj: Object) -> None:
        known = self.groups.get(key) if kind == "PodGroup" else self.queues.get(key)
        if known is not None and known.kind == kind and _older(obj, known):
            return
        self._apply(Changed(self._lay(obj, b"")))
        if kind in _STIRRING or (kind in ("PodGroup", "Queue") and _wishes(known) != _wishes(obj)):
            self.stir()

    def _apply(self, event: Changed | Advanced) -> None:
        self.state.apply(event)
        self.changes += 1
        self._note_problems([event.obj])

    def _note_problems(self, objects: Sequence[Object]) -> None:
        """The state may refuse what the checks let pass."""
        if self.state.problems:
            for obj in objects:
                problem = self.state.problems.get((obj.kind, object_label(obj)))
                if problem is not None:
                    self.faults[obj.kind, problem.key] = Fault(
                        obj.kind, problem.key, obj.metadata.uid or "", problem.message
                    )

    def _version(self, kind: str, key: str) -> tuple[str, str]:
        """The uid and the version of the object that has a key now; empty if there is none."""
        if kind == "Pod":
            pod = head_of(self.pods.get(key, b"{}")).metadata
            return pod.uid, pod.resource_version
        known = self.groups.get(key) if kind == "PodGroup" else self.queues.get(key)
        return ("", "") if known is None else (known.metadata.uid or "", known.metadata.resource_version or "")

    def _keys(self, kind: str) -> list[str]:
        """Objects of a kind of which something is kept here."""
        kept: dict[str, dict[str, Any]] = {"Pod": self.pods, "PodGroup": self.groups, "Queue": self.queues}
        kept["HyperNode"] = self.domains
        return list(kept.get(kind, self._nodes if kind == "Node" else {}))

    def _gone(self, kind: str, key: str) -> None:
        """Forget an object."""
        self.assumed.gone(kind, key)
        self.faults.pop((kind, key), None)
        if kind == "Pod":
            self.pods.pop(key, None)
        elif kind == "PodGroup":
            self.groups.pop(key, None)
        elif kind == "Queue":
            self.queues.pop(key, None)
        elif kind == "HyperNode":
            self.domains.pop(key, None)
        elif kind == "Node":
            self._nodes.pop(key, None)


class KindFeed:
    """What a reflector of one kind tells."""

    def __init__(self, feed: Feed, kind: str) -> None:
        self._feed = feed
        self._kind = kind

    def on_relist(self, items: Sequence[bytes], version: str) -> None:
        """These are all objects."""
        self._feed.relisted(self._kind, items)

    def on_events(self, batch: Sequence[Seen]) -> None:
        """This happened."""
        self._feed.seen(self._kind, batch)


def _standing(task: Task | None) -> Standing | None:
    return None if task is None else Standing(task.status, task.node, task.gated, task.group)


_LEAVING = frozenset({status.RELEASING, *status.ENDED})


def _offer(node: Node) -> tuple[Any, ...]:
    """Everything of a node that scheduling reads."""
    return node.metadata.labels, node.metadata.annotations, node.spec, node.status


def _wishes(obj: Object | None) -> tuple[Any, ...] | None:
    """What of a pod group or queue is not the scheduler's own doing."""
    match obj:
        case PodGroup():
            return obj.spec, obj.metadata.annotations
        case Queue():
            return obj.spec, obj.metadata.annotations, obj.status.state if obj.status else None
    return None


def _older(obj: Object, known: Object) -> bool:
    """Whether an object is an earlier state of one that is known."""
    new, old = obj.metadata, known.metadata
    return new.uid == old.uid and _precedes(new.resource_version or "", old.resource_version or "")


def _precedes(one: str, other: str) -> bool:
    """Whether a version is older than another; they are numbers in every API server there is."""
    return one.isdigit() and other.isdigit() and int(one) < int(other)
