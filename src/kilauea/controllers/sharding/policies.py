"""The choice of nodes for each scheduler: filters, then scores, then limits; earlier schedulers choose first."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from kilauea.api.ports import Obj
from kilauea.api.quantity import QuantityError, parse_milli
from kilauea.controllers.objects import annotations_of, is_going, labels_of, name_of, spec_of, status_of
from kilauea.controllers.sharding.configuration import LIMIT, RATE, Policy, SchedulerShare

MIRROR = "kubernetes.io/config.mirror"
"""Annotation of static pods, which the kubelet creates itself."""
ENDED = ("Succeeded", "Failed")


class Candidate(NamedTuple):
    """A node that can be given to a scheduler.

    Attributes:
        name: its name.
        utilisation: the fraction of its cpu that pods request, from 0 to 1.
        labels: its labels.
    """

    name: str
    utilisation: float
    labels: Mapping[str, str]


def candidates_of(nodes: Iterable[Obj], pods: Iterable[Obj]) -> list[Candidate]:
    """The nodes that are not being deleted, in the natural order of their names, with the utilization by these pods."""
    requested: dict[str, int] = {}
    for pod in pods:
        node = spec_of(pod).get("nodeName")
        if node and status_of(pod).get("phase") not in ENDED and MIRROR not in annotations_of(pod):
            requested[node] = requested.get(node, 0) + _requested(pod)
    staying = [node for node in nodes if not is_going(node)]
    found = [Candidate(name_of(node), _utilisation(node, requested), labels_of(node)) for node in staying]
    return sorted(found, key=lambda each: natural(each.name))


def natural(name: str) -> tuple[Any, ...]:
    """Sort key that orders numbers inside names by value."""
    parts = re.split(r"([0-9]+)", name)
    return tuple((0, int(part), part) if part.isdecimal() else (1, 0, part) for part in parts if part)


def shared_out(schedulers: Sequence[SchedulerShare], nodes: Sequence[Candidate]) -> dict[str, list[str]]:
    """Return the nodes of each scheduler, by its name; each node is in at most one share."""
    left, shares = list(nodes), {}
    for scheduler in schedulers:
        chosen = _chosen(scheduler.policies, left)
        taken = {node.name for node in chosen}
        left = [node for node in left if node.name not in taken]
        shares[scheduler.name] = sorted(taken, key=natural)
    return shares


def _chosen(policies: Sequence[Policy], nodes: Iterable[Candidate]) -> list[Candidate]:
    passed = [node for node in nodes if all(_passes(policy, node) for policy in policies)]
    passed.sort(key=lambda node: -sum(policy.weight * _score(policy, node) for policy in policies))
    for policy in policies:
        if policy.name == LIMIT:
            passed = passed[: policy.arguments["most"]]
    return passed


def _passes(policy: Policy, node: Candidate) -> bool:
    if policy.name != RATE:
        return True
    return bool(policy.arguments["low"] <= round(node.utilisation, 2) <= policy.arguments["high"])


def _score(policy: Policy, node: Candidate) -> float:
    """A score from 0 to 1."""
    if policy.name == RATE:
        low, high = policy.arguments["low"], policy.arguments["high"]
        return 1.0 if high == low else (round(node.utilisation, 2) - low) / (high - low)
    if policy.name == LIMIT:
        return 0.0
    return float(node.labels.get(policy.arguments["label"]) == policy.arguments["value"])


def _requested(pod: Obj) -> int:
    """The cpu requests of the containers of a pod, in thousandths."""
    return sum(_cpu((each.get("resources") or {}).get("requests")) for each in spec_of(pod).get("containers") or ())


def _utilisation(node: Obj, requested: Mapping[str, int]) -> float:
    capacity = _cpu(status_of(node).get("capacity"))
    return min(requested.get(name_of(node), 0) / capacity, 1.0) if capacity else 0.0


def _cpu(amounts: Mapping[str, Any] | None) -> int:
    try:
        return max(parse_milli((amounts or {}).get("cpu") or 0), 0)
    except QuantityError:
        return 0
