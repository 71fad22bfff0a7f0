"""Prefer full or free nodes for each resource; scarce devices are reserved for pods that request them.

What:
    Combines three independent functions.

    The strategy scores a node by the resources that a pod requests: with `MostAllocated`, a resource scores (used +
    requested) / allocatable; with `LeastAllocated`, 1 minus that. The score of the node is the weighted mean, times
    100, times `resourceStrategyFitWeight`. A node where the pod does not fit gets 0.

    Scarce resource avoidance (`sra`) scores a node by the listed resources that it does not have: (1 - their part of
    the weights) x 100 x `sra.weight`. A node that lacks a resource that the pod requests gets 0.

    `proportional` keeps cpu and memory free for idle devices: a pod that requests none of the listed resources does not
    run on a node if fewer cores, or gigabytes (10^9 bytes), would be left for each idle device than its rate.

Why:
    It is worth packing devices and spreading cpus. If pods without devices take the cpus of a node, its devices cannot
    be used.

Arguments:
    resourceStrategyFitWeight (integer, 10): weight of the strategy; 0 disables it.

    `resources`, `sra` and `proportional` are maps, as in the example. Without `resources`, cpu and memory are
    `LeastAllocated` with weight 1. A name that ends with `*` matches all resources with that prefix; an exact name
    takes precedence, then the longest prefix. `sra` has no effect without a weight.

    A pod can override the strategy: annotation `volcano.sh/resource-strategy-scoring-type` (`LeastAllocated` or
    `MostAllocated`) together with `volcano.sh/resource-strategy-weight`, a JSON object of integers by resource.

    The arguments `predicate.ProportionalEnable`, `predicate.resources` and `predicate.resources.NAME.cpu` and `.memory`
    of the plugin predicates are read as `proportional`, with a warning.

Example:
    tiers:
    - plugins:
      - name: resource-strategy-fit
        arguments:
          resourceStrategyFitWeight: 10
          resources:
            nvidia.com/gpu: {type: MostAllocated, weight: 2}
            cpu: {type: LeastAllocated, weight: 1}
          sra:
            enable: true
            resources: nvidia.com/gpu
            weight: 10
          proportional:
            enable: true
            resources: nvidia.com/gpu
            resourceProportion: {nvidia.com/gpu.cpu: 4, nvidia.com/gpu.memory: 8}

Difference from the original:
    An argument of the wrong type causes a warning and keeps its default; Volcano exits. `proportional` counts resources
    that are being released as free and nominated ones as taken. A pod that it rejects only until those are released is
    nominated, and a pod that it rejects can preempt others.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from kilauea.api.wellknown import SCORING_WEIGHT
from kilauea.engine.conf import Finding, argument
from kilauea.engine.extension import Rejection, Scope
from kilauea.engine.model.nodes import NodeRows
from kilauea.engine.model.resources import CPU, MEMORY, names
from kilauea.engine.model.shapes import TaskShape
from kilauea.engine.plugin import Plugin
from kilauea.engine.session import Session

LEAST, MOST = TYPES = ("LeastAllocated", "MostAllocated")
A_GIGABYTE = 10**9 // 1000
"""Bytes per thousandth of a device at a rate of 1."""
SHOWN = 200

NO_WEIGHTS: dict[str, int] = {}
NO_RATES: dict[str, float] = {}


@dataclass(frozen=True)
class Strategy:
    """Arguments for one resource."""

    type: str = argument("type", LEAST, "Prefer free nodes or full ones.", choices=TYPES)
    weight: int = argument("weight", 1, "Weight of the resource.", minimum=1)


NO_STRATEGIES: dict[str, Strategy] = {}


@dataclass(frozen=True)
class ScarceArguments:
    """Arguments of scarce resource avoidance."""

    enable: bool = argument("enable", False, "Keep nodes with the listed resources for pods that request them.")
    resources: str = argument("resources", "", "The resources, separated by commas.")
    weight: int = argument("weight", 0, "Weight of this score; with 0 it has no effect.", minimum=0)
    weights: dict[str, int] = argument("resourceWeight", NO_WEIGHTS, "Weight of one of the resources; 1 by default.")


@dataclass(frozen=True)
class ProportionalArguments:
    """Arguments for resources that stay free for idle devices."""

    enable: bool = argument("enable", False, "Keep cpu and memory free for idle devices.")
    resources: str = argument("resources", "", "The resource names of the devices, separated by commas.")
    rates: dict[str, float] = argument(
        "resourceProportion",
        NO_RATES,
        "Cores (`RESOURCE.cpu`) or gigabytes (`RESOURCE.memory`) to keep free for each idle device; 1 by default.",
        values=float,
    )


@dataclass(frozen=True)
class FitArguments:
    """Arguments of resource-strategy-fit."""

    weight: int = argument("resourceStrategyFitWeight", 10, "Weight of the strategy; 0 disables it.", minimum=0)
    resources: dict[str, Strategy] = argument("resources", NO_STRATEGIES, "Strategies by resource.", values=Strategy)
    sra: ScarceArguments = argument("sra", ScarceArguments(), "Scarce resource avoidance.")
    proportional: ProportionalArguments = argument("proportional", ProportionalArguments(), "Resources that stay free.")


class Counted(NamedTuple):
    """The resources that count for a shape."""

    rows: NDArray[np.intp]
    asked: NDArray[np.int64]
    """(r, 1)"""
    weights: NDArray[np.float64]
    """(r, 1)"""
    most: NDArray[np.bool_]
    """(r, 1) True if full nodes are better."""
    factor: float
    """The factor of the weighted sum."""
    everywhere: bool
    """True if all nodes offer all of them."""


class Kept(NamedTuple):
    """Cpu and memory that stay free for each idle device."""

    row: int
    cpu: float
    memory: float


class ResourceStrategyFit(Plugin):
    """See the module."""

    name = "resource-strategy-fit"
    depends_on_time = False
    Arguments = FitArguments

    def on_session_open(self, session: Session) -> None:
        given: FitArguments = self.arguments
        self._session = session
        self._rows = session.axis.rows
        self._plans: dict[TaskShape, Counted | None] = {}
        self._scarcities: dict[TaskShape, NDArray[np.float64]] = {}
        self._scarcities_by_rows: dict[tuple[int, ...], NDArray[np.float64]] = {}
        """Scores of scarce resources, by request."""
        self._told: set[str] = set()
        self._strategies: Mapping[str, Strategy] = {}
        if given.weight:
            self._strategies = (
                self._usable(given.resources) if given.resources else {CPU: Strategy(), MEMORY: Strategy()}
            )
        self._scarce = self._scarce_weights(given.sra) if given.sra.enable else {}
        if given.weight or self._scarce:
            session.add_node_score(self.name, self._score, scope=Scope.FIGURES)
        if given.proportional.enable:
            self._open_proportional(given.proportional)

    def _find(self, path: tuple[str, ...], message: str) -> None:
        key = ".".join(path)
        self._session.findings.append(Finding(f"plugin {self.name}", f"{key} {message}", code="wrong-value", path=path))

    # --- the strategy

    def _usable(self, given: Mapping[str, Strategy]) -> dict[str, Strategy]:
        """Return the strategies whose names are resources or prefixes of resources."""
        out = {}
        for name, strategy in given.items():
            if "*" in name[:-1] or name == "*":
                self._find(("resources", name), "is not used: a * may only end a name, after a part of it")
            else:
                out[name] = strategy
        return out

    def _strategy(self, resource: str) -> Strategy | None:
        """Return the strategy of a resource, by its name or the longest matching prefix."""
        exact = self._strategies.get(resource)
        if exact is not None:
            return exact
        prefixes = [n for n in self._strategies if n.endswith("*") and resource.startswith(n[:-1])]
        return self._strategies[max(prefixes, key=len)] if prefixes else None

    def _plan(self, shape: TaskShape) -> Counted | None:
        """Return the resources that count for a shape; None without any."""
        if not self.arguments.weight:
            return None
        if shape not in self._plans:
            requests = shape.spec.requests
            if shape.spec.strategy is None:
                found = {name: self._strategy(name) for name in names(requests)}
            else:
                found = {**self._of_pod(*shape.spec.strategy)}
            counted = {n: s for n, s in found.items() if s is not None and requests.get(n, 0) > 0}
            total = sum(strategy.weight for strategy in counted.values())
            self._plans[shape] = self._counted(shape, counted, total) if total else None
        return self._plans[shape]

    def _counted(self, shape: TaskShape, strategies: Mapping[str, Strategy], total: int) -> Counted:
        chosen = [name for name, strategy in strategies.items() if strategy.weight]
        rows = np.array([self._rows[name] for name in chosen], dtype=np.intp)
        return Counted(
            rows,
            np.array([shape.spec.requests[name] for name in chosen], dtype=np.int64)[:, None],
            np.array([strategies[name].weight for name in chosen], dtype=np.float64)[:, None],
            np.array([strategies[name].type == MOST for name in chosen])[:, None],
            100.0 * self.arguments.weight / total,
            bool((self._session.nodes.allocatable[rows] > 0).all()),
        )

    def _of_pod(self, kind: str, text: str) -> dict[str, Strategy]:
        """Return the strategies in the annotations of a pod; empty if invalid."""
        weights = weights_of(text)
        if kind in TYPES and weights is not None:
            return {name: Strategy(kind, weight) for name, weight in weights.items()}
        if text not in self._told:
            self._told.add(text)
            wanted = f"{' or '.join(TYPES)} and weights such as {{'cpu': 1}}".replace("'", '"')
            message = f"annotations of pods for a strategy take {wanted}, not {kind[:SHOWN]!r} and {text[:SHOWN]!r} "
            message += f"({SCORING_WEIGHT}): such pods have no preference"
            self._session.findings.append(Finding("pods", message, code="InvalidStrategy"))
        return {}

    def _score(self, shape: TaskShape, nodes: NodeRows) -> NDArray[np.float64] | None:
        fit = self._fit(shape, nodes)
        if not self._scarce:
            return fit
        scarcity = self._scarcity(shape, nodes)
        return scarcity if fit is None else fit + scarcity

    def _fit(self, shape: TaskShape, nodes: NodeRows) -> NDArray[np.float64] | None:
        """(n,) the score of the strategy; None if it has none for the shape."""
        plan = self._plan(shape)
        if plan is None:
            return None
        allocatable = nodes.allocatable.take(plan.rows, axis=0)
        taken = nodes.used.take(plan.rows, axis=0) + plan.asked
        over = taken > allocatable
        if plan.everywhere:
            # The usual case, without masks: this runs once for each choice of a node.
            full = taken / allocatable
            parts = np.where(plan.most, full, 1 - full)
        else:
            there = allocatable > 0
            full = np.divide(taken, allocatable, out=np.zeros(taken.shape), where=there)
            parts = np.where(there, np.where(plan.most, full, 1 - full), 0.0)
            over &= there
        score: NDArray[np.float64] = np.add.reduce(plan.weights * parts, axis=0) * plan.factor
        score[np.logical_or.reduce(over, axis=0)] = 0
        return score

    # --- scarce resources

    def _scarce_weights(self, given: ScarceArguments) -> dict[str, int]:
        """Return the weights by resource; empty if they have no effect."""
        weights = {name: given.weights.get(name, 1) for name in listed(given.resources)}
        for name, weight in weights.items():
            if weight < 0:
                self._find(("sra", "resourceWeight", name), f"cannot be less than 0, but is {weight}; 1 is taken")
                weights[name] = 1
        if not given.weight:
            self._find(("sra", "weight"), "is 0, so sra has no effect: set a weight, or enable: false")
        return weights if given.weight and any(weights.values()) else {}

    def _scarcity(self, shape: TaskShape, nodes: NodeRows) -> NDArray[np.float64]:
        """(n,) the score of the resources that nodes do not have."""
        known = self._scarcities.get(shape)
        if known is None:
            known = self._scarcities[shape] = self._scarcity_of_all(shape)
        return nodes.take(known)

    def _scarcity_of_all(self, shape: TaskShape) -> NDArray[np.float64]:
        """(N,) the same for all nodes, whose resources do not change while pods are placed."""
        asked = tuple(self._rows[name] for name in names(shape.spec.requests) if name in self._rows)
        if asked not in self._scarcities_by_rows:
            allocatable = self._session.nodes.allocatable
            has = np.zeros(allocatable.shape[1])
            for name, weight in self._scarce.items():
                row = self._rows.get(name)
                if row is not None:
                    has += weight * (allocatable[row] > 0)
            score: NDArray[np.float64] = (1 - has / sum(self._scarce.values())) * (100.0 * self.arguments.sra.weight)
            score[(allocatable[list(asked)] <= 0).any(axis=0)] = 0
            self._scarcities_by_rows[asked] = score
        return self._scarcities_by_rows[asked]

    # --- resources that stay free for devices

    def _open_proportional(self, given: ProportionalArguments) -> None:
        rates = dict(given.rates)
        for key, rate in given.rates.items():
            if rate < 0:
                path = ("proportional", "resourceProportion", key)
                self._find(path, f"cannot be less than 0, but is {rate:g}; 1 is taken")
                rates[key] = 1.0
        devices = listed(given.resources)
        self._devices = frozenset(devices)
        self._kept = [
            Kept(self._rows[name], rates.get(f"{name}.cpu", 1.0), rates.get(f"{name}.memory", 1.0))
            for name in devices
            if name in self._rows
        ]
        reasons = [
            Rejection("Proportional", f"proportional of resource {name} check failed")
            for name in devices
            if name in self._rows
        ]
        if self._kept:
            self._session.add_predicate(
                self.name,
                lambda shape, nodes: self._codes(shape, nodes.future_idle),
                reasons,
                scope=Scope.FIGURES,
                applies=lambda shape: not self._uses_any(shape),
                room=lambda shape, nodes: self._codes(shape, nodes.idle) == 0,
            )

    def _uses_any(self, shape: TaskShape) -> bool:
        return any(shape.spec.requests.get(name, 0) > 0 for name in self._devices)

    def _codes(self, shape: TaskShape, idle: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return 0 where enough idle resources are left for devices; else the number of the first missing resource."""
        requests = shape.spec.requests
        cpu = idle[self._rows[CPU]] - requests.get(CPU, 0)
        memory = idle[self._rows[MEMORY]] - requests.get(MEMORY, 0)
        codes = np.zeros(idle.shape[1], dtype=np.int64)
        for number, (row, cores, gigabytes) in reversed(list(enumerate(self._kept, start=1))):
            free = np.maximum(idle[row], 0)
            # A device is 1000 in its unit and a core is 1000 thousandths, so the rate needs no factor.
            short = (cpu < free * cores) | (memory < free * gigabytes * A_GIGABYTE)
            codes[short & (free > 0)] = number
        return codes


def listed(text: str) -> list[str]:
    """Return the distinct names in a comma-separated list."""
    return list(dict.fromkeys(name.strip() for name in text.split(",") if name.strip()))


def weights_of(text: str) -> dict[str, int] | None:
    """Return the weights in a JSON object of integers by resource; None if invalid or empty."""
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        return None
    if not isinstance(found, dict) or not found:
        return None
    whole = all(isinstance(w, int) and not isinstance(w, bool) and 0 <= w < 1 << 31 for w in found.values())
    return found if whole else None
