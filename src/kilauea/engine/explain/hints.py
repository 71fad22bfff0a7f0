"""Names that Kubernetes' messages leave out: taints, nodes, claims, storage classes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

import numpy as np

from kilauea.api.selectors import NodeTerm, tolerates
from kilauea.engine.evaluation.matching import HARD_EFFECTS, selects
from kilauea.engine.explain.formatting import human
from kilauea.engine.model.in_tree import driver_of
from kilauea.engine.model.nodes import NodeTable
from kilauea.engine.model.resources import MEMORY
from kilauea.engine.model.task_specs import TaskSpec
from kilauea.engine.model.tasks import Task
from kilauea.engine.model.volumes import Storage, Volume, Wish
from kilauea.engine.plan import NodeReason

CORDONED = "node(s) were unschedulable"
TAINTED = "node(s) had untolerated taint(s)"

NOT_REACHED = "node(s) didn't match PersistentVolume's node affinity"

NO_VOLUMES = frozenset(
    {"node(s) didn't find available persistent volumes to bind", "node(s) did not have enough free storage"}
)
NO_DISK = "node(s) had no available disk"
TOO_MANY_VOLUMES = "node(s) exceed max volume count"
NO_DEVICES = "cannot allocate all claims"
NO_CARDS = "node(s) had no cards with enough free memory, cores and slots"

SHOWN = 3
"""Maximum number of names to list of each kind."""


def node_hints(reasons: Iterable[NodeReason], nodes: NodeTable, spec: TaskSpec) -> list[str]:
    """The cordoned nodes and the taints that a pod does not tolerate, if they ruled out nodes."""
    given = {reason.reason for reason in reasons}
    hints = []
    if CORDONED in given:
        names = [nodes.names[int(row)] for row in np.flatnonzero(nodes.unschedulable)]
        hints.append(f"cordoned: {some(names)}")
    if TAINTED in given:
        held = _taints(nodes, spec)
        listed = [f"{text} ({count} node{'s' * (count > 1)})" for text, count in held]
        hints.append(f"not tolerated: {some(listed)}")
    return hints


def _taints(nodes: NodeTable, spec: TaskSpec) -> list[tuple[str, int]]:
    """The taints on selected nodes that a pod does not tolerate, with the number of nodes, the most frequent first."""
    sets, ids = nodes.taint_sets
    mask = selects(nodes, spec)
    counts = Counter((ids if mask is None else ids[mask]).tolist())
    held: Counter[str] = Counter()
    for number, count in sorted(counts.items()):
        for taint in sets[number]:
            if taint.effect in HARD_EFFECTS and not any(tolerates(t, taint) for t in spec.tolerations):
                value = f"={taint.value}" if taint.value else ""
                held[f"{taint.key}{value}:{taint.effect}"] += count
    return sorted(held.items(), key=lambda item: (-item[1], item[0]))


def volume_hint(storage: Storage, task: Task) -> str:
    """The unbound claims of a pod, and the missing storage classes that they name."""
    parts = []
    for use in task.spec.claims:
        claim = storage.claims.get(use.key)
        if claim is None or claim.bound or storage.is_delayed(claim):
            continue
        name = use.key.partition("/")[2]
        if claim.class_name and claim.class_name not in storage.classes:
            parts.append(f'{name} names StorageClass "{claim.class_name}", which does not exist')
        elif not claim.class_name:
            parts.append(f"{name} names no StorageClass and has no volume")
        else:
            parts.append(name)
    return ", ".join(parts)


def bound_elsewhere(storage: Storage, task: Task) -> list[str]:
    """The volumes of a pod that only some nodes can use, with the required nodes."""
    hints = []
    for use in task.spec.claims:
        claim = storage.claims.get(use.key)
        volume = storage.volumes.get(claim.volume) if claim is not None else None
        if volume is not None and volume.terms:
            name = use.key.partition("/")[2]
            hints.append(f"claim {name} has volume {volume.name}, which needs a node with {terms_text(volume.terms)}")
    return hints


def unbound_claims(storage: Storage, task: Task) -> list[str]:
    """The requests of a pod's claims that are to be bound, with the volumes and the room that there are."""
    wanted = {claim.volume for claim in storage.claims.values() if claim.volume}
    hints = []
    for use in task.spec.claims:
        claim = storage.claims.get(use.key)
        if claim is None or not storage.is_delayed(claim):
            continue
        of, wish = storage.classes[claim.class_name], claim.wish
        free = [v for v in storage.volumes.values() if v.class_name == of.name and v.free and v.name not in wanted]
        hint = f"claim {claim.name} asks for {_size(wish.size)} of class {of.name} ({_free(free, wish)}"
        if claim.selected_node:
            hint += f"; its volume is being made for node {claim.selected_node}"
        elif not of.provisions:
            hint += "; the class makes none"
        elif of.topologies:
            hint += f"; new ones only on nodes with {terms_text(of.topologies)}"
        if of.provisions and storage.tracking.get(of.provisioner):
            rooms = [c.largest for c in storage.capacities.values() if c.class_name == of.name]
            most = _size(max(rooms)) if rooms and max(rooms) >= 0 else "none"
            hint += f"; the most room that driver {of.provisioner} reports for one volume is {most}"
        hints.append(f"{hint})")
    return hints


def _size(amount: int) -> str:
    """Bytes for people."""
    return human(MEMORY, amount).removesuffix(f" {MEMORY}")


def _free(volumes: Sequence[Volume], wish: Wish) -> str:
    """The number of free volumes, and of those that a claim could have."""
    able = [volume for volume in volumes if wish.accepts(volume)]
    there = f"{len(volumes)} free volume{'s' * (len(volumes) != 1)}"
    if not volumes or able:
        terms = sorted({terms_text(volume.terms) for volume in able if volume.terms})
        where = f", on nodes with {some(terms)}" if terms else ""
        return f"{there}, {len(able)} of them suitable{where}" if volumes else "no free volume"
    return f"{there}, the largest has {_size(max(volume.size for volume in volumes))}"


def full_drivers(storage: Storage, task: Task) -> list[str]:
    """The drivers of a pod's volumes that have a limit on nodes, with the largest limit."""
    drivers = [driver for driver, _ in task.spec.inline]
    for use in task.spec.claims:
        claim = storage.claims.get(use.key)
        volume = storage.volumes.get(claim.volume) if claim is not None else None
        of = storage.classes.get(claim.class_name) if claim is not None else None
        drivers.append(volume.driver if volume is not None else driver_of(of.provisioner) if of is not None else "")
    hints = []
    for driver, count in sorted(Counter(filter(None, drivers)).items()):
        limits = [of.limits[driver] for of in storage.drivers.values() if driver in of.limits]
        if limits:
            pod = f"the pod has {count} volume{'s' * (count > 1)} of driver {driver}"
            hints.append(f"{pod}, and a node takes at most {max(limits)}")
    return hints


def terms_text(terms: Iterable[NodeTerm]) -> str:
    """Terms of node affinity as text: `zone In a,b or disk In ssd`."""
    return " or ".join(
        " and ".join(f"{r.key} {r.operator} {','.join(r.values)}".strip() for r in (*term.expressions, *term.fields))
        for term in terms
    )


def nominated_to(nodes: Sequence[str]) -> str:
    """The reason of pods that wait for victims on these nodes."""
    return f"nominated to node{'s' * (len(nodes) > 1)} {some(nodes)}, where resources are being freed"


def some(names: Sequence[str]) -> str:
    """The first few names as text."""
    more = len(names) - SHOWN
    return ", ".join(names[:SHOWN]) + (f" and {more} more" if more > 0 else "")
