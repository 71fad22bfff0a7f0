"""The typical pods of a cluster: the requests of pods with cards, and the number of pods with the same request."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from kilauea.engine.evaluation import matching
from kilauea.engine.model.devices import UNIT, DeviceWish
from kilauea.engine.model.nodes import NodeTable
from kilauea.engine.model.resources import CPU, MEMORY
from kilauea.engine.model.task_specs import TaskSpec
from kilauea.engine.model.tasks import Task

MOST = 128
"""Kinds of pods that count, the most frequent ones; the others have little weight."""


class Typical(NamedTuple):
    """Pods with the same request, as far as it decides where they can use cards."""

    cpu: int
    memory: int
    cards: int
    """Number of cards."""
    card_memory: int
    """MiB of each card; 0 for a percentage."""
    percent: int
    cores: int
    """Hundredths of each card."""
    where: tuple[object, ...]
    """Its node selector, node affinity and tolerations."""


@dataclass
class Mix:
    """Typical pods with cards of one kind."""

    pods: list[Typical] = field(default_factory=list)
    numbers: list[int] = field(default_factory=list)
    """The number of pods of each kind."""
    specs: list[TaskSpec] = field(default_factory=list)
    """One spec of each."""
    total: int = 0
    """Pods with cards of any kind."""

    def allowed(self, nodes: NodeTable) -> NDArray[np.bool_]:
        """(N, M) nodes that each kind of pod may use, by selectors and taints."""
        out = np.ones((len(nodes), len(self.pods)), dtype=bool)
        for number, spec in enumerate(self.specs):
            for mask in (matching.selects(nodes, spec), matching.tolerates(nodes, spec.tolerations)):
                if mask is not None:
                    out[:, number] &= mask
        return out


class Mixes(NamedTuple):
    """Mixes by resource of whole cards, and by kind of shared cards."""

    whole: dict[str, Mix]
    shared: dict[str, Mix]


Adapt = Callable[[DeviceWish], DeviceWish]
"""Reads the parts of cards that a pod requests."""


def as_written(wish: DeviceWish) -> DeviceWish:
    """The parts of cards that a pod requests, without a configuration."""
    return wish


def mix_of(
    tasks: Iterable[Task],
    resources: Sequence[str],
    nodes: NodeTable,
    adapt: Adapt = as_written,
) -> Mixes:
    """The typical pods among some tasks.

    Args:
        tasks: the tasks.
        resources: those that count whole cards.
        nodes: the nodes.
        adapt: reads the parts of cards that a pod requests as the configuration of the devices says.
    """
    whole: dict[str, Counter[Typical]] = {}
    shared: dict[str, Counter[Typical]] = {}
    specs: dict[Typical, TaskSpec] = {}
    total = 0
    for spec, number in Counter(task.spec for task in tasks).items():
        found = [(whole, *pair) for pair in _whole(spec, resources)] + [
            (shared, *pair) for pair in _shared(spec, adapt)
        ]
        total += number if found else 0
        for table, name, typical in found:
            specs.setdefault(typical, spec)
            table.setdefault(name, Counter())[typical] += number
    return Mixes(_most(whole, specs, total), _most(shared, specs, total))


def _whole(spec: TaskSpec, resources: Sequence[str]) -> list[tuple[str, Typical]]:
    counts = {name: spec.requests.get(name, 0) // UNIT for name in resources}
    return [(name, _typical(spec, count, 0, 100, 100)) for name, count in counts.items() if count > 0]


def _shared(spec: TaskSpec, adapt: Adapt) -> list[tuple[str, Typical]]:
    """Cards that a pod requests, by kind: the number for all its containers, and the largest part for one of them."""
    out = []
    wish = adapt(spec.devices) if spec.devices is not None else None
    for kind in sorted(wish.kinds) if wish is not None else ():
        of_kind = [r for r in wish.requests if r.kind == kind] if wish is not None else []
        most = max(of_kind, key=lambda r: (r.cores, r.percent, r.memory))
        count = sum(r.number for r in of_kind)
        out.append((kind, _typical(spec, count, most.memory, most.percent, most.cores)))
    return out


def _typical(spec: TaskSpec, count: int, memory: int, percent: int, cores: int) -> Typical:
    where = (spec.node_selector, spec.node_terms, spec.tolerations)
    return Typical(spec.requests.get(CPU, 0), spec.requests.get(MEMORY, 0), count, memory, percent, cores, where)


def _most(tables: dict[str, Counter[Typical]], specs: dict[Typical, TaskSpec], total: int) -> dict[str, Mix]:
    out = {}
    for name in sorted(tables):
        # Equal numbers are sorted explicitly: the order of the dict would be the order in which pods arrived.
        ranked = sorted(tables[name].items(), key=lambda entry: (-entry[1], repr(entry[0])))[:MOST]
        pods = [typical for typical, _ in ranked]
        out[name] = Mix(pods, [number for _, number in ranked], [specs[typical] for typical in pods], total)
    return out
