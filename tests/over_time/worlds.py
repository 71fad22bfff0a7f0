"""Random clusters, and what disturbs them before they may come to rest.

What is drawn is a sketch in small numbers, which shrinks well; objects are made of it afterwards.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import msgspec
from hypothesis import strategies as st

from kilauea.api.core import Node, NodeSpec
from kilauea.api.meta import Object, OwnerReference
from kilauea.api.scheduling import Queue
from over_time.configurations import TREES
from over_time.history import Change, complete
from support.builders import GPU, Data, group, node, pod, priority_class, queue

CARD = "NVIDIA-A100"
CLASSES = (("low", 10), ("mid", 100), ("high", 1000))
ZONE = "volcano.sh/revocable-zone"
Amount = tuple[int, int, int]
"""Cpus, Gi of memory, cards."""


def resources(amount: Amount) -> Data:
    """An amount as objects give it; zeros are left out."""
    cpu, memory, gpu = amount
    return {
        name: value
        for name, value, some in (("cpu", str(cpu), cpu), ("memory", f"{memory}Gi", memory), (GPU, gpu, gpu))
        if some
    }


@dataclass(frozen=True)
class Share:
    """A queue."""

    parent: int
    """Number of the queue above it; -1 for the root."""
    deserved: Amount
    guarantee: Amount
    capability: Amount
    priority: int
    weight: int
    reclaimable: bool


@dataclass(frozen=True)
class Work:
    """A job: its pods run as far as there is room when it comes, or wait."""

    queue: int
    size: int
    minimum: int
    asks: Amount
    others_ask: Amount
    """What every second pod asks for; all zeros for the same."""
    priority: str
    runs: bool
    grace: int
    controlled: bool
    preemptable: bool | None
    stuck: bool
    admitted: bool
    sized: bool
    """The group has minResources."""
    service: bool


@dataclass(frozen=True)
class Sketch:
    """A cluster."""

    nodes: tuple[Amount, ...]
    cordoned: int
    """Number of a node that takes no pods; -1 for none."""
    shares: tuple[Share, ...]
    works: tuple[Work, ...]
    foreign: tuple[tuple[int, int], ...]
    """Pods of another scheduler: node, cpus."""
    cards: bool
    zones: bool


@dataclass(frozen=True)
class Disturbance:
    """What happens between two cycles."""

    kind: str
    number: int
    work: Work | None = None
    amount: Amount = (0, 0, 0)


# --- objects


def objects_of(sketch: Sketch, *, tree: bool) -> list[Object]:
    """A cluster as it is sketched."""
    out: list[Object] = [priority_class(name, value) for name, value in CLASSES]
    out += [queue("root", reclaimable=False), queue("default")]
    out += [_queue(sketch, number, tree=tree) for number in range(len(sketch.shares))]
    out += [_node(sketch, number) for number in range(len(sketch.nodes))]
    free = {f"n{number}": list(amount) for number, amount in enumerate(sketch.nodes)}
    for number, (at, cpu) in enumerate(sketch.foreign):
        name = f"n{at % len(sketch.nodes)}"
        if free[name][0] >= cpu:
            free[name][0] -= cpu
            out.append(pod(f"other-{number}", "", cpu, None, node=name, created=0, schedulerName="default-scheduler"))
    for number, work in enumerate(sketch.works):
        out += work_objects(work, f"j{number}", number + 1, len(sketch.shares), free, cards=sketch.cards)
    return complete(out)


def _queue(sketch: Sketch, number: int, *, tree: bool) -> Object:
    share = sketch.shares[number]
    more: Data = {"priority": share.priority} if share.priority else {}
    if tree:
        more["parent"] = f"q{share.parent}" if share.parent >= 0 else "root"
    if any(share.deserved):
        more["deserved"] = resources(share.deserved)
    if not share.reclaimable:
        more["reclaimable"] = False
    made = queue(
        f"q{number}",
        share.weight,
        capability=resources(share.capability),
        guarantee=resources(share.guarantee),
        created=number,
        **more,
    )
    if sketch.cards:
        made.metadata.annotations = {"volcano.sh/card.quota": json.dumps({CARD: share.deserved[2]})}
    return made


def _node(sketch: Sketch, number: int) -> Object:
    cpu, memory, gpu = sketch.nodes[number]
    labels = (
        {f"{GPU}.product": CARD, f"{GPU}.count": str(gpu), f"{GPU}.memory": "81920"} if sketch.cards and gpu else {}
    )
    if sketch.zones and number % 2:
        labels[ZONE] = "night"
    return node(f"n{number}", cpu, f"{memory}Gi", gpu=gpu, labels=labels, unschedulable=number == sketch.cordoned)


def work_objects(
    work: Work, name: str, created: int, queues: int, free: dict[str, list[int]], *, cards: bool
) -> list[Object]:
    """A group and its pods; if it runs, those that have room on the nodes and no others."""
    pods: list[Object] = []
    for index in range(work.size):
        asks = work.others_ask if index % 2 and any(work.others_ask) else work.asks
        place = None
        if work.runs:
            place = next((n for n, left in free.items() if all(a >= b for a, b in zip(left, asks, strict=True))), None)
            if place is None:
                continue
            free[place] = [a - b for a, b in zip(free[place], asks, strict=True)]
        pods.append(_pod(work, f"{name}-w-{index}", name, asks, place, created, cards=cards))
    if not pods:
        return []
    minimum = min(work.minimum, len(pods))
    cpu, memory, cards_each = work.asks
    least = (cpu * minimum, memory * minimum, cards_each * minimum)
    phase = "Running" if work.runs else ("Inqueue" if work.admitted else "Pending")
    made = group(
        name,
        f"q{work.queue % queues}" if queues else "default",
        minimum,
        phase,
        resources=resources(least) if work.sized else None,
        priority=work.priority or None,
        created=created,
    )
    if cards:
        made.metadata.annotations = {"volcano.sh/card.request": json.dumps({CARD: least[2]})} if least[2] else {}
    return [made, *pods]


def _pod(work: Work, name: str, of: str, asks: Amount, place: str | None, created: int, *, cards: bool) -> Object:
    more: Data = {"terminationGracePeriodSeconds": work.grace} if work.grace else {}
    notes = {} if work.preemptable is None else {"volcano.sh/preemptable": str(work.preemptable).lower()}
    if cards and asks[2]:
        notes["volcano.sh/card.name"] = CARD
    if work.priority:
        more["priorityClassName"] = work.priority
    asked = resources(asks)
    made = pod(name, of, requests=asked, node=place, created=created, annotations=notes, uid=name, **more)
    if cards and GPU in asked:
        body: Any = made
        body.spec.containers[0].resources.limits = {GPU: asked[GPU]}
    if work.controlled:
        kind = "ReplicaSet" if work.service else "Job"
        made.metadata.owner_references = [OwnerReference(kind, of, f"{of}-uid", "batch.volcano.sh/v1alpha1", True)]
    if work.stuck:
        made.metadata.finalizers = ["example.com/wait"]
    return made


def changes_of(sketch: Sketch, disturbances: Sequence[Disturbance], objects: Sequence[Object]) -> list[Change]:
    """What happens between cycles, as objects that come and go."""
    out = []
    for number, disturbance in enumerate(disturbances):
        out.append(_change(sketch, disturbance, number, {(o.kind, o.name): o for o in objects}))
    return out


def _change(sketch: Sketch, d: Disturbance, number: int, objects: dict[tuple[str, str], Object]) -> Change:
    node_name, job = f"n{d.number % len(sketch.nodes)}", f"j{d.number % max(len(sketch.works), 1)}"
    if d.kind == "arrive" and d.work is not None:
        free = {f"n{i}": [0, 0, 0] for i in range(len(sketch.nodes))}
        classes = [priority_class(name, value) for name, value in CLASSES]
        made = work_objects(d.work, f"late{number}", 60 + number, len(sketch.shares), free, cards=sketch.cards)
        return Change(tuple(complete([*classes, *made])[len(classes) :]))
    if d.kind == "end":
        keys = [o.key for (kind, _), o in objects.items() if kind == "Pod" and o.name.startswith(f"{job}-")]
        return Change(go=tuple(("Pod", key) for key in sorted(keys)))
    if d.kind == "queue" and sketch.shares:
        old = objects["Queue", f"q{d.number % len(sketch.shares)}"]
        assert isinstance(old, Queue)
        assert old.spec is not None
        return Change(
            (msgspec.structs.replace(old, spec=msgspec.structs.replace(old.spec, deserved=resources(d.amount))),)
        )
    known = objects["Node", node_name]
    assert isinstance(known, Node)
    if d.kind == "lose" and len(sketch.nodes) > 1:
        return Change(go=(("Node", node_name),))
    if d.kind == "cordon":
        return Change((msgspec.structs.replace(known, spec=NodeSpec(unschedulable=True)),))
    if d.kind == "grow":
        return Change((node(f"m{number}", d.amount[0] + 2, f"{d.amount[1] + 4}Gi", gpu=d.amount[2]),))
    return Change(restart=True)


# --- what is drawn


def amounts(gpu: bool) -> st.SearchStrategy[Amount]:
    """Amounts for a queue; often without memory."""
    cards = st.sampled_from((0, 1, 2, 4)) if gpu else st.just(0)
    return st.tuples(st.sampled_from((0, 1, 2, 3, 4, 4, 6, 8)), st.sampled_from((0, 0, 0, 4, 8, 16)), cards)


@st.composite
def shares(draw: st.DrawFn, gpu: bool, tree: bool) -> tuple[Share, ...]:
    """Queues side by side, or a tree of up to four levels whose figures add up or do not."""
    count = draw(st.sampled_from((1, 2, 3, 4, 5, 6) if tree else (1, 2, 2, 3)))
    consistent = draw(st.booleans())
    parents: list[int] = []
    levels: list[int] = []
    for number in range(count):
        above = [-1, *(i for i in range(number) if levels[i] < 4)]
        parents.append(draw(st.sampled_from(above)) if tree else -1)
        levels.append(1 if parents[-1] < 0 else levels[parents[-1]] + 1)
    deserved = [(0, 0, 0)] * count
    guarantee = [(0, 0, 0)] * count
    for number in reversed(range(count)):
        inner = number in parents
        if not (inner and consistent):
            drawn = draw(amounts(gpu))
            deserved[number] = drawn if draw(st.integers(0, 3)) else (0, 0, 0)
            if draw(st.integers(0, 3)) == 3:
                cpu, memory, cards = (draw(st.integers(0, most)) for most in deserved[number])
                guarantee[number] = (cpu, memory, cards)
        if parents[number] >= 0 and consistent:
            for figure in (deserved, guarantee):
                cpu, memory, cards = map(sum, zip(figure[parents[number]], figure[number], strict=True))
                figure[parents[number]] = (cpu, memory, cards)
    out = []
    for number in range(count):
        capability: Amount = (0, 0, 0)
        if draw(st.integers(0, 4)) == 4:
            cpu, memory, cards = deserved[number]
            capability = (max(cpu + draw(st.integers(0, 3)), 1), memory + 4 if memory else 0, cards)
        out.append(
            Share(
                parents[number],
                deserved[number],
                guarantee[number],
                capability,
                draw(st.sampled_from((0, 0, 0, 10))),
                draw(st.sampled_from((1, 1, 3))),
                draw(st.integers(0, 7)) != 7,
            )
        )
    return tuple(out)


@st.composite
def works(draw: st.DrawFn, queues: Sequence[int], gpu: bool, runs: bool, priorities: Sequence[str]) -> Work:
    """A job; one that runs is large, so that little room is left."""
    size = draw(st.sampled_from((1, 2, 3, 6, 8, 6) if runs else (1, 2, 3, 4)))
    cards = st.sampled_from((0, 1, 1, 2)) if gpu else st.just(0)
    ask = st.tuples(st.sampled_from((1, 1, 2, 3, 4)), st.sampled_from((0, 1, 1, 2)), cards)
    odd = draw(st.integers(0, 15)) == 15
    return Work(
        queue=draw(st.sampled_from(queues)),
        size=size,
        minimum=draw(st.sampled_from((1, size, (size + 1) // 2))),
        asks=draw(ask),
        others_ask=draw(ask) if odd else (0, 0, 0),
        priority=draw(st.sampled_from(priorities)),
        runs=runs,
        grace=draw(st.sampled_from((0, 0, 1, 2, 5))),
        controlled=draw(st.integers(0, 7)) != 7,
        preemptable=draw(st.sampled_from((None, None, None, None, None, True, False))),
        stuck=draw(st.integers(0, 24)) == 24,
        admitted=draw(st.booleans()),
        sized=draw(st.booleans()),
        service=draw(st.booleans()),
    )


ANY_PRIORITY = ("", "low", "mid", "high")


@st.composite
def sketches(draw: st.DrawFn, *, tree: bool, cards: bool = False, zones: bool = False) -> Sketch:
    """A cluster of one to six nodes that is mostly full of a few jobs, and a few more that wait.

    What waits is mostly of queues that lack something, or of higher priority than what runs in its queue.
    """
    gpu = cards or draw(st.integers(0, 2)) == 2
    of_node = st.tuples(
        st.sampled_from((4, 2, 3, 8)), st.sampled_from((16, 8, 4)), st.sampled_from((4, 2, 0)) if gpu else st.just(0)
    )
    alike = draw(st.booleans())
    count = draw(st.sampled_from((1, 1, 2, 2, 3, 4, 6)))
    nodes = [draw(of_node)] * count if alike else [draw(of_node) for _ in range(count)]
    drawn = draw(shares(gpu, tree))
    leaves = leaves_of(drawn, tree=tree)
    rich = draw(st.lists(st.sampled_from(leaves), min_size=1, max_size=2, unique=True))
    poor = [number for number in leaves if number not in rich and any(drawn[number].deserved)] or leaves
    how = draw(st.sampled_from(("across", "within", "any")))
    low, high = (("low", ""), ("high", "mid")) if how == "within" else (ANY_PRIORITY, ANY_PRIORITY)
    preemptors = {"across": poor, "within": rich, "any": leaves}[how]
    held = [draw(works(rich, gpu, True, low)) for _ in range(draw(st.sampled_from((1, 2, 2, 3, 4))))]
    wanted = [draw(works(preemptors, gpu, False, high)) for _ in range(draw(st.sampled_from((1, 2, 3, 4))))]
    foreign = st.lists(st.tuples(st.integers(0, 5), st.integers(1, 2)), max_size=2)
    others = draw(foreign) if draw(st.integers(0, 5)) == 5 else []
    cordoned = 0 if draw(st.integers(0, 9)) == 9 else -1
    return Sketch(tuple(nodes), cordoned, drawn, (*held, *wanted), tuple(others), cards, zones)


def leaves_of(drawn: Sequence[Share], *, tree: bool) -> list[int]:
    """Numbers of the queues that may have jobs."""
    parents = {share.parent for share in drawn}
    return [number for number in range(len(drawn)) if not tree or number not in parents]


@st.composite
def disturbances(draw: st.DrawFn, sketch: Sketch, tree: bool) -> list[Disturbance]:
    """None, or a few."""
    leaves = leaves_of(sketch.shares, tree=tree)
    out = []
    for _ in range(draw(st.sampled_from((0, 0, 1, 2, 4)))):
        kind = draw(st.sampled_from(("arrive", "arrive", "end", "queue", "lose", "cordon", "grow", "restart")))
        gpu = any(amount[2] for amount in sketch.nodes)
        work = draw(works(leaves, gpu, False, ANY_PRIORITY)) if kind == "arrive" else None
        amount = draw(amounts(gpu)) if kind in ("queue", "grow") else (0, 0, 0)
        out.append(Disturbance(kind, draw(st.integers(0, 5)), work, amount))
    return out


@st.composite
def cases(draw: st.DrawFn, name: str) -> tuple[list[Object], list[Change]]:
    """Objects for one of the configurations, and what happens before they may come to rest."""
    tree = name in TREES
    sketch = draw(sketches(tree=tree, cards=name == "cards", zones=name == "tdm"))
    objects = objects_of(sketch, tree=tree)
    return objects, changes_of(sketch, draw(disturbances(sketch, tree)), objects)
