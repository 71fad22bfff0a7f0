"""Random queue trees with running gangs and preemptors, and clusters of them that live through several cycles.

Everything is counted in units: one cpu with 1Gi of memory, and where a test asks for cards, gpus beside that. A queue
that has too much of one has too much of the other then, so what a queue deserves is one number.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from hypothesis import strategies as st

from kilauea.api.meta import Object
from kilauea.engine.plan import Plan
from kilauea.simulator.cluster import SimulatedCluster
from support.builders import (
    GPU,
    NOW,
    Data,
    build,
    conf,
    group,
    manifest,
    node,
    placements,
    plan_in,
    pod,
    priority_class,
    queue,
    state_of,
)

UNITS_OF_NODE = 4
DEEPEST = 4
"""Levels of queues below the root."""

CLASSES = [priority_class("low", 10), priority_class("mid", 100), priority_class("high", 1000)]


def units(count: int, gpus: int = 0) -> Data:
    """An amount as objects give it."""
    return {"cpu": str(count), "memory": f"{count}Gi"} | ({GPU: gpus} if gpus else {})


# --- what is drawn


@dataclass(frozen=True)
class Branch:
    """A queue: what it deserves, is guaranteed and may use, in units (`gpus` in cards)."""

    name: str
    parent: str
    deserved: int
    guarantee: int
    capability: int | None
    gpus: int = 0

    def obj(self) -> Object:
        """The queue's object."""
        more: dict[str, Any] = {} if self.capability is None else {"capability": units(self.capability)}
        return queue(
            self.name,
            parent=self.parent,
            deserved=units(self.deserved, self.gpus),
            guarantee=units(self.guarantee) if self.guarantee else None,
            **more,
        )


@dataclass(frozen=True)
class Gang:
    """Pods of one group; they run where `fill` found room, or wait."""

    queue: str
    size: int
    minimum: int
    cpu: int
    gpu: int
    priority: str
    roomy: bool = False
    """Placed on the emptiest node rather than on the first with room."""


def single_pods(of: str, count: int) -> Gang:
    """Pods of one unit that need no others."""
    return Gang(of, count, 1, 1, 0, "low")


@dataclass(frozen=True)
class Cluster:
    """A tree of queues over equal nodes, gangs that run or would, and gangs that claim."""

    branches: tuple[Branch, ...]
    nodes: int
    held: tuple[Gang, ...]
    claims: tuple[Gang, ...]

    @property
    def leaves(self) -> list[Branch]:
        """Queues without children."""
        parents = {branch.parent for branch in self.branches}
        return [branch for branch in self.branches if branch.name not in parents]

    def way_up(self, name: str) -> list[str]:
        """A queue and its ancestors, without the root."""
        parents = {branch.name: branch.parent for branch in self.branches}
        way = []
        while name != "root":
            way.append(name)
            name = parents[name]
        return way

    def held_units(self) -> Counter[str]:
        """Units that run in each leaf."""
        found: Counter[str] = Counter()
        free = self._free()
        for number, gang in enumerate(self.held):
            found[gang.queue] += gang.cpu * sum(o.kind == "Pod" for o in fill(f"r{number}", gang, free))
        return found

    def _free(self) -> dict[str, list[int]]:
        """Cpus and cards by node of the empty cluster."""
        return {f"n{i}": [UNITS_OF_NODE, UNITS_OF_NODE] for i in range(self.nodes)}

    def objects(self, phase: str = "Inqueue") -> list[Object]:
        """All objects; gangs `r0`, `r1`, ... run and `s0`, `s1`, ... wait in this phase."""
        out = [*CLASSES, queue("root"), *(branch.obj() for branch in self.branches)]
        gpus = any(b.gpus for b in self.branches) or any(g.gpu for g in (*self.held, *self.claims))
        free = self._free()
        out += [node(name, UNITS_OF_NODE, f"{UNITS_OF_NODE}Gi", gpu=UNITS_OF_NODE if gpus else 0) for name in free]
        for number, gang in enumerate(self.held):
            out += fill(f"r{number}", gang, free)
        for number, gang in enumerate(self.claims):
            out += waiting(f"s{number}", gang, phase)
        return out


def waiting(name: str, gang: Gang, phase: str = "Inqueue") -> list[Object]:
    """A gang that waits, with the resources of its minimum."""
    asked = units(gang.cpu * gang.minimum, gang.gpu * gang.minimum)
    made = group(name, gang.queue, gang.minimum, phase, resources=asked, priority=gang.priority)
    return [made, *(_pod(f"{name}-{i}", name, gang) for i in range(gang.size))]


def fill(name: str, gang: Gang, free: dict[str, list[int]]) -> list[Object]:
    """A gang that runs with as many pods as there is room for, at least one; nothing where there is none."""
    places = []
    for _ in range(gang.size):
        fits = [n for n, (cpu, gpu) in free.items() if cpu >= gang.cpu and gpu >= gang.gpu]
        if not fits:
            break
        place = max(fits, key=lambda n: free[n][0]) if gang.roomy else fits[0]
        free[place][0] -= gang.cpu
        free[place][1] -= gang.gpu
        places.append(place)
    if not places:
        return []
    minimum = min(gang.minimum, len(places))
    asked = units(gang.cpu * minimum, gang.gpu * minimum)
    made = group(name, gang.queue, minimum, "Running", resources=asked, priority=gang.priority)
    return [made, *(_pod(f"{name}-{i}", name, gang, place) for i, place in enumerate(places))]


def _pod(name: str, of: str, gang: Gang, place: str | None = None) -> Object:
    return pod(name, of, gang.cpu, f"{gang.cpu}Gi", gang.gpu, node=place)


@st.composite
def branches(draw: st.DrawFn, depth: int = DEEPEST, gpus: bool = False, limits: bool = True) -> tuple[Branch, ...]:
    """Two to seven queues; of each inner one deserved and guarantee are the sums over its children."""
    parents: list[int] = []
    levels: list[int] = []
    for number in range(draw(st.integers(2, 7))):
        above = [-1, *(i for i in range(number) if levels[i] < depth)]
        parents.append(draw(st.sampled_from(above)))
        levels.append(1 if parents[-1] < 0 else levels[parents[-1]] + 1)
    deserved, guarantee, cards = ([0] * len(parents) for _ in range(3))
    for number in reversed(range(len(parents))):
        if number not in parents:
            deserved[number] = draw(st.integers(0, 4))
            guarantee[number] = draw(st.integers(0, deserved[number])) if limits else 0
            cards[number] = draw(st.integers(0, 2)) if gpus else 0
        if parents[number] >= 0:
            for figure in (deserved, guarantee, cards):
                figure[parents[number]] += figure[number]
    spare = st.one_of(st.none(), st.none(), st.integers(0, 4)) if limits else st.none()
    room = [draw(spare) for _ in parents]
    return tuple(
        Branch(
            f"q{number}",
            "root" if parent < 0 else f"q{parent}",
            deserved[number],
            guarantee[number],
            None if (extra := room[number]) is None else deserved[number] + extra,
            cards[number],
        )
        for number, parent in enumerate(parents)
    )


@st.composite
def running_gangs(draw: st.DrawFn, leaves: list[str], priorities: tuple[str, ...], gpus: bool) -> list[Gang]:
    """Gangs that hold the better part of a cluster, of some of the leaves."""
    rich = draw(st.lists(st.sampled_from(leaves), min_size=1, max_size=3, unique=True))
    out = []
    for _ in range(draw(st.integers(2, 7))):
        size = draw(st.integers(1, 6))
        minimum = draw(st.integers(1, size)) if draw(st.booleans()) else 1
        cpu, gpu = draw(st.integers(1, 2)), draw(st.integers(0, 1)) if gpus else 0
        owner, priority = draw(st.sampled_from(rich)), draw(st.sampled_from(priorities))
        out.append(Gang(owner, size, minimum, cpu, gpu, priority, draw(st.booleans())))
    return out


@st.composite
def claiming_gangs(
    draw: st.DrawFn, leaves: list[Branch], held: Counter[str], gpus: bool, most: int, at_home: bool
) -> list[Gang]:
    """Gangs that want all their pods, mostly of queues that hold less than they deserve, and within that.

    `at_home` claims for queues that hold something, whose own jobs could give way.
    """
    if at_home:
        leaves = [leaf for leaf in leaves if held[leaf.name]]
    poor = [leaf for leaf in leaves if leaf.deserved > held[leaf.name] and not at_home]
    out = []
    for _ in range(draw(st.integers(1, most))):
        modest = bool(poor) and draw(st.integers(0, 3)) > 0
        leaf = draw(st.sampled_from(poor if modest else leaves))
        cpu = draw(st.integers(1, 2))
        room = max((leaf.deserved - held[leaf.name]) // cpu, 1) if modest else 4
        size, gpu = draw(st.integers(1, min(room, 4))), draw(st.integers(0, 1)) if gpus else 0
        out.append(Gang(leaf.name, size, size, cpu, gpu, "high"))
    return out


@st.composite
def clusters(
    draw: st.DrawFn,
    depth: int = DEEPEST,
    gpus: bool = False,
    most_claims: int = 3,
    priorities: tuple[str, ...] = ("low",),
    limits: bool = True,
    at_home: bool = False,
) -> Cluster:
    """A cluster that has at least what its queues deserve, mostly full of gangs, and one or more claims."""
    drawn = draw(branches(depth, gpus, limits))
    leaves = Cluster(drawn, 0, (), ()).leaves
    promised = sum(b.deserved for b in drawn if b.parent == "root")
    nodes = max(-(-promised // UNITS_OF_NODE), 1) + draw(st.integers(0, 3)) // 3
    held = draw(running_gangs([leaf.name for leaf in leaves], priorities, gpus))
    bare = Cluster(drawn, nodes, tuple(held), ())
    claims = draw(claiming_gangs(leaves, bare.held_units(), gpus, most_claims, at_home))
    return Cluster(drawn, nodes, tuple(held), tuple(claims))


# --- configurations


def tiers(plugin: str, *, tree: bool = False, gang: bool = True, first: bool = False, **arguments: Any) -> list[Any]:
    """Tiers with this queue plugin, with or without gangs; `first` puts the queue plugin before all others."""
    of_queues: Data = {"name": plugin} | ({"enableHierarchy": True} if tree else {})
    if arguments:
        of_queues["arguments"] = arguments
    jobs = ["priority", *(["gang"] if gang else []), "conformance"]
    return [[of_queues], jobs, ["predicates", "nodeorder"]] if first else [jobs, ["predicates", of_queues, "nodeorder"]]


def configured(action: str, plugin: str = "capacity", before: str = "allocate", **more: Any) -> Data:
    """A configuration with this action after allocate."""
    return conf(f"{before}, {action}", *tiers(plugin, **more))


# --- cases

FLAT, TREE = 1, 4
"""Depths of trees."""

SHAPES: tuple[Data, ...] = (
    {"tree": True},
    {},
    {"plugin": "proportion"},
    {"tree": True, "first": True},
    {"tree": True, "gang": False},
)
"""A tree of queues, queues side by side, shares by weight; capacity in the first tier; no one who votes on gangs."""

WITH_GANGS = SHAPES[:4]


class Case(NamedTuple):
    """What a property is asked about: a configuration, by its shape, and a cluster for it."""

    shape: Data
    cluster: Cluster

    def conf(self, action: str, **more: Any) -> Data:
        """The configuration with this action."""
        return configured(action, **{**self.shape, **more})


@st.composite
def cases(draw: st.DrawFn, /, shapes: tuple[Data, ...] = SHAPES, **more: Any) -> Case:
    """Clusters of which many give the action something to do."""
    shape = draw(st.sampled_from(shapes))
    return Case(shape, draw(clusters(TREE if "tree" in shape else FLAT, **more)))


def cases_of(action: str, data: st.DataObject, **more: Any) -> Case:
    """A case for an action: preempt takes from the preemptor's own queue, reclaim from others."""
    case: Case = data.draw(cases(at_home="preempt" in action, **more))
    return case


# --- what a plan does


def group_of(key: str) -> str:
    """The group of a pod, by the name that it has here."""
    return key.rsplit("-", 1)[0]


@dataclass(frozen=True)
class Effects:
    """What queues have before and after a plan, by resource, in units of the engine.

    Attributes:
        before: what runs in each queue and below it.
        after: what runs or is promised there once the plan is carried out.
        lost: what preemptors outside a queue take from it.
    """

    before: Mapping[str, Counter[str]]
    after: Mapping[str, Counter[str]]
    lost: Mapping[str, Counter[str]]


def effects(cluster: Cluster, objects: list[Object], plan: Plan) -> Effects:
    """What a plan does to the queues of a cluster."""
    state = state_of(objects)
    home = {key: cluster.way_up(job.queue) for key, job in state.jobs.items()}
    tables: tuple[dict[str, Counter[str]], ...] = tuple({b.name: Counter() for b in cluster.branches} for _ in range(3))
    before, after, lost = tables
    gone = {e.pod: e.by for e in plan.evictions}
    comes = {p.pod for p in placements(plan)}
    for key, task in state.tasks.items():
        requests = Counter({name: int(n) for name, n in task.spec.requests.items() if name != "pods"})
        for name in home[task.group]:
            if task.node:
                before[name].update(requests)
            if key in comes or (task.node and key not in gone):
                after[name].update(requests)
            if key in gone and name not in home[gone[key]]:
                lost[name].update(requests)
    return Effects(before, after, lost)


def sizes(objects: Iterable[Object], *, only_running: bool = True) -> Counter[str]:
    """Pods by group."""
    found: list[Any] = [o for o in objects if o.kind == "Pod"]
    return Counter(group_of(o.key) for o in found if o.spec.node_name or not only_running)


def minima(objects: Iterable[Object]) -> dict[str, int]:
    """The minimum of each group."""
    found: list[Any] = [o for o in objects if o.kind == "PodGroup"]
    return {o.key: o.spec.min_member for o in found}


# --- several cycles


@dataclass
class Life:
    """A cluster where every plan comes true at once and every evicted pod is submitted again, unchanged."""

    objects: list[Object]
    conf: Data
    plans: list[Plan] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._state = state_of(self.objects)
        self._cluster = SimulatedCluster(self.objects, NOW)

    def submit(self, objects: Iterable[Object]) -> None:
        """New pods and groups."""
        for event in self._cluster.put(*objects):
            self._state.apply(event)

    def step(self) -> Plan:
        """One cycle, and what comes of it."""
        plan = plan_in(self._state, self.conf)
        again = [manifest(pod) for e in plan.evictions if (pod := self._cluster.pod(e.pod))]
        for event in self._cluster.carry_out(plan):
            self._state.apply(event)
        for data in again:
            data["spec"].pop("nodeName", None)
            self.submit([build(data | {"status": {"phase": "Pending"}})])
        self.plans.append(plan)
        return plan

    def settle(self, most: int) -> bool:
        """Step until a plan changes nothing, at most so many times; whether that came."""
        for _ in range(most):
            groups = self._of_kind("PodGroup")
            plan = self.step()
            if not plan.binds and not plan.evictions and groups == self._of_kind("PodGroup"):
                return True
        return False

    def _of_kind(self, kind: str) -> list[Any]:
        return [obj for obj in self._cluster.objects if obj.kind == kind]

    def running(self, name: str) -> int:
        """Pods of a group that run."""
        return sum(1 for p in self._of_kind("Pod") if group_of(p.key) == f"ns/{name}" and p.spec.node_name)
