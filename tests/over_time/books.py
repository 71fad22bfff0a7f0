"""What a cluster holds and what queues may use, read from the objects alone, without the engine.

The second opinion of the laws. It is simple rather than quick, and careful: where the rules are involved it takes the
bound that cannot accuse the scheduler wrongly.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

from kilauea.api.core import Node, Pod
from kilauea.api.meta import Object
from kilauea.api.scheduling import PodGroup, PriorityClass, Queue
from support.builders import GROUP_NAME, Data

Amounts = dict[str, Fraction]
COUNTED = ("cpu", "memory", "nvidia.com/gpu")
SUFFIXES = {
    "Ki": Fraction(2**10),
    "Mi": Fraction(2**20),
    "Gi": Fraction(2**30),
    "Ti": Fraction(2**40),
    "m": Fraction(1, 1000),
    "k": Fraction(10**3),
    "M": Fraction(10**6),
    "G": Fraction(10**9),
}
PREEMPTABLE = "volcano.sh/preemptable"
NOTHING: Mapping[str, Fraction] = {}
UNBOUND = Fraction(10**30)


def quantity(text: Any) -> Fraction:
    """The value of a Kubernetes quantity."""
    written = str(text)
    for suffix, factor in SUFFIXES.items():
        if written.endswith(suffix):
            return Fraction(written[: -len(suffix)]) * factor
    return Fraction(written)


def amounts(resources: Mapping[str, Any] | None) -> Amounts:
    """A resource list as numbers."""
    return {name: quantity(value) for name, value in (resources or {}).items()}


def plus(a: Mapping[str, Fraction], b: Mapping[str, Fraction], times: int = 1) -> Amounts:
    """The sum, with the second taken so many times."""
    return {name: a.get(name, Fraction(0)) + times * b.get(name, Fraction(0)) for name in {**a, **b}}


def within(a: Mapping[str, Fraction], b: Mapping[str, Fraction], of: Iterable[str]) -> bool:
    """Whether the first is at most the second in some resources."""
    return all(a.get(name, Fraction(0)) <= b.get(name, Fraction(0)) for name in of)


def requests_of(pod: Pod) -> Amounts:
    """What a pod asks for."""
    total: Amounts = {"pods": Fraction(1)}
    for container in pod.spec.containers or ():
        resources = container.resources
        if resources is not None:
            total = plus(total, amounts({**(resources.limits or {}), **(resources.requests or {})}))
    return {name: value for name, value in total.items() if value}


@dataclass
class Group:
    """A pod group and its pods."""

    obj: PodGroup
    pods: list[Pod] = field(default_factory=list)

    @property
    def key(self) -> str:
        """`namespace/name`."""
        return self.obj.key

    @property
    def minimum(self) -> int:
        """How many of its pods have to run."""
        return max(self.obj.spec.min_member, 0)

    @property
    def queue(self) -> str:
        """Name of its queue."""
        return self.obj.spec.queue or "default"

    @property
    def running(self) -> list[Pod]:
        """Pods that are on a node and not about to go."""
        return [pod for pod in self.pods if is_placed(pod) and not is_terminating(pod)]

    @property
    def waiting(self) -> list[Pod]:
        """Pods that could be placed."""
        return [pod for pod in self.pods if is_waiting(pod)]


def is_placed(pod: Pod) -> bool:
    """On a node, and not ended."""
    return bool(pod.spec.node_name) and (pod.status is None or pod.status.phase not in ("Succeeded", "Failed"))


def is_terminating(pod: Pod) -> bool:
    """About to go."""
    return bool(pod.metadata.deletion_timestamp)


def is_waiting(pod: Pod) -> bool:
    """Waits for a node."""
    return not pod.spec.node_name and not is_terminating(pod) and not pod.spec.scheduling_gates and is_own(pod)


def is_own(pod: Pod) -> bool:
    """Of this scheduler."""
    return (pod.spec.scheduler_name or "volcano") == "volcano"


def nominated(pod: Pod) -> str:
    """The node that a waiting pod is promised."""
    return (pod.status and is_waiting(pod) and pod.status.nominated_node_name) or ""


class Books:
    """A cluster at one moment."""

    def __init__(self, objects: Sequence[Object]) -> None:
        self.nodes = {o.name: o for o in objects if isinstance(o, Node)}
        self.pods = {o.key: o for o in objects if isinstance(o, Pod)}
        self.groups = {o.key: Group(o) for o in objects if isinstance(o, PodGroup)}
        self.queues = {o.name: o for o in objects if isinstance(o, Queue)}
        self.classes = {o.name: o.value for o in objects if isinstance(o, PriorityClass)}
        self.requests = {key: requests_of(pod) for key, pod in self.pods.items()}
        for pod in self.pods.values():
            if (found := self.group_of(pod)) is not None:
                found.pods.append(pod)

    # --- who

    def group_of(self, pod: Pod) -> Group | None:
        """The group of a pod."""
        return self.groups.get(f"{pod.namespace}/{pod.annotations.get(GROUP_NAME)}")

    def group_key(self, key: str) -> str:
        """The key of the group of a pod by its key; empty without one."""
        pod = self.pods.get(key)
        found = self.group_of(pod) if pod is not None else None
        return found.key if found is not None else ""

    def queue_of(self, pod: Pod) -> str:
        """The queue of a pod; empty without one."""
        found = self.group_of(pod)
        return found.queue if found is not None else ""

    def rank(self, group: Group) -> tuple[int, int]:
        """Priority of the queue, and of the job."""
        queue = self.queues.get(group.queue)
        return (
            (queue.spec.priority or 0) if queue is not None and queue.spec is not None else 0,
            self.classes.get(group.obj.spec.priority_class_name or "", 0),
        )

    def preemptable(self, pod: Pod) -> bool:
        """Whether a pod lets itself be evicted; what it does not say, its group says."""
        of_group = self.group_of(pod)
        own = pod.annotations.get(PREEMPTABLE, pod.labels.get(PREEMPTABLE))
        inherited = of_group.obj.annotations.get(PREEMPTABLE) if of_group is not None else None
        said = own if own is not None else inherited
        return said is None or said.lower() in ("true", "t", "1")

    def reclaimable(self, queue: str) -> bool:
        """Whether others may take from a queue."""
        found = self.queues.get(queue)
        return found is not None and (found.spec is None or found.spec.reclaimable is not False)

    # --- nodes

    def offers(self, node: str) -> Amounts:
        """What a node has."""
        status = self.nodes[node].status
        return {"pods": Fraction(110), **amounts(status.allocatable if status is not None else None)}

    def open(self, node: str) -> bool:
        """Whether a node takes pods that tolerate nothing."""
        spec = self.nodes[node].spec
        return spec is None or not (spec.unschedulable or spec.taints)

    def on(self, node: str) -> list[Pod]:
        """Pods that hold room on a node, those about to go among them."""
        return [pod for pod in self.pods.values() if pod.spec.node_name == node and is_placed(pod)]

    def idle(self, node: str, without: Iterable[str] = ()) -> Amounts:
        """What nothing holds, not counting some pods."""
        left, out = self.offers(node), set(without)
        for pod in self.on(node):
            if pod.key not in out:
                left = plus(left, self.requests[pod.key], -1)
        return left

    def promised(self, node: str) -> list[Pod]:
        """Waiting pods that are nominated to a node."""
        return [pod for pod in self.pods.values() if nominated(pod) == node]

    # --- queues

    def path(self, queue: str, *, tree: bool) -> list[str]:
        """A queue and, in a tree, its ancestors up to the root."""
        way = [queue]
        while tree and way[-1] != "root" and way[-1] in self.queues:
            spec = self.queues[way[-1]].spec
            parent = (spec.parent if spec is not None else None) or "root"
            if parent in way:
                break
            way.append(parent)
        return way

    def held(self, queue: str, *, tree: bool, promised: bool = True) -> Amounts:
        """What runs in a queue and below it, with what is promised."""
        total: Amounts = {}
        for pod in self.pods.values():
            runs = is_placed(pod) and not is_terminating(pod)
            if not (runs or (promised and nominated(pod))):
                continue
            of = self.queue_of(pod)
            if of and queue in self.path(of, tree=tree):
                total = plus(total, self.requests[pod.key])
        return total

    def figure(self, queue: str, name: str) -> Amounts:
        """`deserved`, `guarantee` or `capability` of a queue, as it is written."""
        found = self.queues.get(queue)
        spec = found.spec if found is not None else None
        if spec is None:
            return {}
        if name == "guarantee":
            return amounts(spec.guarantee.resource if spec.guarantee is not None else None)
        return amounts(getattr(spec, name))

    def deserved(self, queue: str) -> Amounts:
        """What a queue deserves; not less than its guarantee."""
        written, floor = self.figure(queue, "deserved"), self.figure(queue, "guarantee")
        return {
            name: max(written.get(name, Fraction(0)), floor.get(name, Fraction(0))) for name in {**written, **floor}
        }

    def total(self) -> Amounts:
        """What the open nodes have."""
        total: Amounts = {}
        for node in self.nodes:
            if self.open(node):
                total = plus(total, self.offers(node))
        return total

    def limit(self, queue: str, *, tree: bool) -> Amounts:
        """What a queue may use at most; resources that are absent are none of it."""
        if not tree:
            whole, beside = self.total(), list(self.queues)
        else:
            if queue == "root":
                return self.total()
            parent = self.path(queue, tree=True)[1]
            whole = self.limit(parent, tree=True)
            beside = [name for name in self.queues if name != "root" and self.path(name, tree=True)[1] == parent]
        guaranteed: Amounts = {}
        for name in beside:
            guaranteed = plus(guaranteed, self.figure(name, "guarantee"))
        rest = {name: max(value, Fraction(0)) for name, value in plus(whole, guaranteed, -1).items()}
        rest = plus(rest, self.figure(queue, "guarantee"))
        capability = self.figure(queue, "capability")
        return {name: min(value, capability.get(name) or UNBOUND) for name, value in rest.items()}


@dataclass(frozen=True)
class Rules:
    """What of a configuration the laws have to know."""

    actions: tuple[str, ...]
    queue_plugin: str
    tree: bool
    plugins: Mapping[str, Data]

    @classmethod
    def of(cls, conf: Data) -> Rules:
        """The rules of a configuration as its file has it."""
        plugins: dict[str, Data] = {}
        for tier in conf.get("tiers") or ():
            for entry in tier.get("plugins") or ():
                plugins[entry["name"]] = entry
        kinds = [name for name in ("capacity", "capacity-card", "proportion") if name in plugins]
        entry = plugins.get("capacity", {})
        return cls(
            tuple(name.strip() for name in str(conf.get("actions", "")).split(",")),
            kinds[0] if len(kinds) == 1 else "",
            bool(entry.get("enableHierarchy", entry.get("enabledHierarchy", False))),
            plugins,
        )

    def gang_votes(self, action: str) -> bool:
        """Whether gang has a say about victims of an action."""
        entry = self.plugins.get("gang")
        flag = "Reclaimable" if "reclaim" in action else "Preemptable"
        return entry is not None and entry.get(f"enable{flag}", True) is not False

    @property
    def reclaims(self) -> bool:
        """Whether queues take back what they deserve."""
        return "reclaim" in self.actions or "gangreclaim" in self.actions


def count_by_group(books: Books, keys: Iterable[str]) -> Counter[str]:
    """Pods by group."""
    return Counter(books.group_key(key) for key in keys if key in books.pods)
