"""The strategies of rescheduling in the configuration, and their errors."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from kilauea.api.times import SECOND, parse_duration
from kilauea.engine.conf import Finding, nearest

RELIEVE, OFFLINE = "lowNodeUtilization", "offlineOnly"
ORDERS = ("lowPriorityFirst", "shortLifeTimeFirst", "bigObjectFirst", "moreReplicasFirst")
NAMES = (RELIEVE, OFFLINE, *ORDERS)
DIMENSIONS = {"cpu": 0, "memory": 1, "pods": 2, "pod": 2}
"""Rows of utilization, by the key of a threshold."""
PARAMS = ("thresholds", "targetThresholds", "thresholdPriorityClassName", "nodeFit", "numberOfNodes")
NESTED = "nodeResourceUtilizationThresholds"
"""A map that contains the thresholds in Volcano's design."""
INTERVAL = 300 * SECOND
UNBOUND = (100.0, 100.0, 100.0)


@dataclass(frozen=True)
class Relief:
    """One `lowNodeUtilization`; thresholds are percentages of cpu, memory and pods."""

    low: tuple[float, ...] = UNBOUND
    target: tuple[float, ...] = UNBOUND
    priority_class: str = "system-cluster-critical"
    node_fit: bool = True
    number_of_nodes: int = 0


@dataclass(frozen=True)
class Strategies:
    """All arguments of rescheduling."""

    interval: int = INTERVAL
    reliefs: tuple[Relief, ...] = ()
    offline_only: bool = False
    orders: tuple[str, ...] = ()
    queues: frozenset[str] = frozenset()
    labels: Mapping[str, str] = field(default_factory=dict)


def read_strategies(
    interval: str, given: Sequence[object], queues: Sequence[object], labels: Mapping[str, str]
) -> tuple[Strategies, list[Finding]]:
    """Read the arguments; returns them with findings about invalid ones."""
    reader = _Reader()
    every = reader.interval(interval)
    entries = [entry for entry in map(reader.entry, given) if entry is not None] if given else [(RELIEVE, {})]
    reliefs = [relief for name, params in entries if name == RELIEVE and (relief := reader.relief(params)) is not None]
    names = [name for name, _ in entries]
    if given and RELIEVE not in names:
        reader.find("strategies", f"none of them names nodes to relieve, so no pod is moved: add {RELIEVE}")
    known = frozenset(name for name in queues if isinstance(name, str))
    for name in queues:
        if not isinstance(name, str):
            reader.find("queueSelector", f"takes names of queues, not {name!r}; no pod is moved")
            reliefs = []
    orders = tuple(dict.fromkeys(name for name in names if name in ORDERS))
    return Strategies(every, tuple(reliefs), OFFLINE in names, orders, known, labels), reader.findings


class _Reader:
    def __init__(self) -> None:
        self.findings: list[Finding] = []

    def find(self, key: str, message: str) -> None:
        self.findings.append(Finding("plugin rescheduling", f"{key}: {message}", code="wrong-value", path=(key,)))

    def interval(self, text: str) -> int:
        try:
            interval = parse_duration(text)
        except ValueError as error:
            self.find("interval", f"{error}; 5m is kept")
            return INTERVAL
        if interval <= 0:
            self.find("interval", f"must be more than 0, but is {text!r}; 5m is kept")
            return INTERVAL
        return interval

    def entry(self, entry: object) -> tuple[str, Mapping[Any, Any]] | None:
        """Name and parameters of a strategy."""
        name = entry.get("name") if isinstance(entry, Mapping) else None
        if not isinstance(entry, Mapping) or not isinstance(name, str):
            self.find("strategies", f"takes maps with a name, not {entry!r}; it is ignored")
            return None
        known = next((known for known in NAMES if known.lower() == name.lower()), None)
        if known is None:
            self.find("strategies", f"unknown strategy {name!r}{nearest(name, NAMES)}; it is ignored")
            return None
        params = entry.get("params") or {}
        if not isinstance(params, Mapping):
            self.find("strategies", f"params of {known} is a map, not {params!r}; it is ignored")
            return None
        return known, params

    def relief(self, params: Mapping[Any, Any]) -> Relief | None:
        """The parameters of lowNodeUtilization; None if invalid."""
        nested = params.get(NESTED)
        params = {**params, **nested} if isinstance(nested, Mapping) else params
        for key in params:
            if key not in (*PARAMS, NESTED):
                self.find("strategies", f"{RELIEVE} has no param {key!r}{nearest(str(key), PARAMS)}; it is ignored")
        low, target = (self._percents(key, params.get(key)) for key in PARAMS[:2])
        if low is None or target is None:
            return None
        if "thresholds" not in params or "targetThresholds" not in params:
            message = f"{RELIEVE} moves no pod without thresholds and targetThresholds"
            self.find("strategies", message)
            return None
        above = [name for name, row in DIMENSIONS.items() if name != "pod" and low[row] > target[row]]
        if above:
            message = f"{RELIEVE}: the threshold of {above[0]} is above its target, so no pod is moved"
            self.find("strategies", message)
            return None
        return Relief(low, target, *self._others(params))

    def _percents(self, key: str, given: object) -> tuple[float, ...] | None:
        if given is None:
            return UNBOUND
        out = list(UNBOUND)
        for name, value in given.items() if isinstance(given, Mapping) else [(key, given)]:
            percent = float(value) if isinstance(value, (int, float)) and not isinstance(value, bool) else -1.0
            if name not in DIMENSIONS or not 0 <= percent <= 100:
                wanted = "takes a map of cpu, memory and pods to percents from 0 to 100"
                self.find("strategies", f"{RELIEVE}: {key} {wanted}, not {name}: {value!r}; no pod is moved")
                return None
            out[DIMENSIONS[name]] = percent
        return tuple(out)

    def _others(self, params: Mapping[Any, Any]) -> Iterator[Any]:
        for key, default in zip(
            PARAMS[2:], (Relief.priority_class, Relief.node_fit, Relief.number_of_nodes), strict=True
        ):
            value = params.get(key, default)
            if type(value) is not type(default):
                self.find("strategies", f"{RELIEVE}: {key} cannot be {value!r}; {default!r} is kept")
                value = default
            yield value
