"""The controller of daemon sets."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import islice
from typing import Any
from zlib import crc32

from kilauea.api.kinds import DAEMON_SETS, NODES, PODS, REVISIONS
from kilauea.api.ports import (
    Delete,
    Interest,
    Key,
    Obj,
    Operation,
    Outcome,
    Record,
    Single,
    Steps,
    Together,
    View,
    key_of,
)
from kilauea.controllers.daemonsets.node_fit import NodeFit, node_for, pod_for
from kilauea.controllers.deployments.scaling import scaled
from kilauea.controllers.objects import (
    NOTHING,
    dependents,
    is_going,
    labels_of,
    name_of,
    own_key,
    spec_of,
    status_patch,
    uid_of,
)
from kilauea.controllers.pods import claim, creation, free_names, is_finished, seconds_until_available
from kilauea.controllers.revisions import REVISION_LABEL, History, forgotten, history

PARTS = 32
"""Number of parts of all daemon sets, so that hundreds are not reconciled in one go."""
ALL = tuple(Key("", f"daemon sets of part {number}") for number in range(PARTS))
"""The keys for changes that concern all of them: those of nodes."""
PART = "part of all daemon sets"
"""Name of the index of daemon sets by their part."""
NODES_SECONDS = 1.0
"""Seconds for which changes of nodes are collected before daemon sets are reconciled."""


def _all(node: Obj) -> Iterable[Key]:
    return ALL


def _part(daemon_set: Obj) -> str:
    return ALL[crc32(uid_of(daemon_set).encode()) % PARTS].name


class DaemonSetController:
    """Maintains a pod on each suitable node."""

    name = "daemonset-controller"
    interests = (
        Interest(DAEMON_SETS, own_key, indexes={PART: _part}),
        dependents(PODS, DAEMON_SETS),
        dependents(REVISIONS, DAEMON_SETS, delay=0.0),
        Interest(NODES, _all, delay=NODES_SECONDS),
    )

    def reconcile(self, key: Key, view: View, now: int) -> Steps:
        """Create missing pods, delete misplaced ones, replace old ones, and update the counts."""
        if key in ALL:
            outcomes = []
            for each in view.indexed(DAEMON_SETS, PART, key.name):
                found = yield from _outcome(view, each, now)
                outcomes.append(found)
            waits = [each.again for each in outcomes if each.again is not None]
            return Outcome([each for outcome in outcomes for each in outcome.operations], min(waits, default=None))
        daemon_set = view.get(DAEMON_SETS, key)
        if daemon_set is None:
            return NOTHING
        return (yield from _outcome(view, daemon_set, now))


def _outcome(view: View, daemon_set: Obj, now: int) -> Steps:
    pods, claims = yield from claim(view, DAEMON_SETS, daemon_set)
    return Reconciliation(view, daemon_set, pods, claims, now).outcome()


class Reconciliation:
    """One reconciliation of a daemon set."""

    def __init__(self, view: View, daemon_set: Obj, pods: Sequence[Obj], claims: Sequence[Operation], now: int) -> None:
        self._view, self._set = view, daemon_set
        self._pods, self._claims = pods, claims
        self._history: History = history(view, DAEMON_SETS, daemon_set)
        suiting, self._nodes = NodeFit(spec_of(daemon_set)["template"]), view.list(NODES)
        self._on: dict[str, list[Obj]] = {}
        for pod in self._pods:
            self._on.setdefault(node_for(pod), []).append(pod)
        self._wanted = [name_of(node) for node in self._nodes if suiting.should_run(node)]
        self._stays = {name_of(node) for node in self._nodes if name_of(node) in self._on and suiting.may_stay(node)}
        self._patience = int(spec_of(daemon_set).get("minReadySeconds") or 0)
        self._now = now
        self.again: float | None = None

    def outcome(self) -> Outcome:
        """The operations that bring the daemon set up to date."""
        operations: list[Operation] = [*self._claims]
        if not is_going(self._set):
            operations += self._history.operations
            operations += self._steps()
            operations += forgotten(self._set, self._history, self._pods, [])
        operations += status_patch(DAEMON_SETS, self._set, self._status())
        return Outcome(operations, self.again)

    def _steps(self) -> list[Operation]:
        gone = list(self._misplaced())
        missing = [node for node in self._wanted if not self._on.get(node)]
        chains: list[Sequence[Single]] = [self._deletion(pod) for pod in gone]
        for node, name in zip(missing, islice(free_names(self._view, self._set), len(missing)), strict=True):
            chains.append(creation(DAEMON_SETS, self._set, pod_for(self._set, node, name, self._history.digest)))
        if not chains:
            chains = [self._deletion(pod) for pod in self._outdated()]
        return [Together(chains)] if chains else []

    def _misplaced(self) -> Iterable[Obj]:
        """Pods that have ended, are on an unsuitable node, or are surplus there."""
        there = {name_of(node) for node in self._nodes}
        for node, pods in self._on.items():
            live = sorted(
                (pod for pod in pods if not is_going(pod)), key=lambda pod: pod["metadata"]["creationTimestamp"]
            )
            kept = next((pod for pod in live if not is_finished(pod)), None)
            may_stay = node in self._stays or node not in there
            yield from (pod for pod in live if pod is not kept or not may_stay)

    def _deletion(self, pod: Obj) -> list[Single]:
        told = Record(self._set, "Normal", "SuccessfulDelete", f"Deleted pod: {name_of(pod)}")
        return [Delete(PODS, key_of(pod), uid_of(pod)), told]

    def _outdated(self) -> list[Obj]:
        """Pods of old templates that may be deleted now: unavailable ones, and others while enough are available."""
        strategy = spec_of(self._set).get("updateStrategy") or {}
        if strategy.get("type", "RollingUpdate") != "RollingUpdate":
            return []
        allowed = (strategy.get("rollingUpdate") or {}).get("maxUnavailable", 1)
        room = max(1, scaled(allowed, len(self._wanted), up=True))
        idle: list[Obj] = []
        serving: list[Obj] = []
        unavailable = 0
        for node in self._wanted:
            pod = self._on[node][0]
            available = self._is_available(pod)
            unavailable += not available
            if self._is_new(pod) or is_going(pod):
                continue
            (serving if available else idle).append(pod)
        return [*idle, *serving[: max(0, room - unavailable)]]

    def _is_new(self, pod: Obj) -> bool:
        return labels_of(pod).get(REVISION_LABEL) == self._history.digest

    def _is_available(self, pod: Obj) -> bool:
        wait = None if is_going(pod) else seconds_until_available(pod, self._patience, self._now)
        if wait:
            self.again = wait if self.again is None else min(self.again, wait)
        return wait == 0

    def _status(self) -> dict[str, Any]:
        pods = [self._on[node][0] for node in self._wanted if self._on.get(node)]
        ready = sum(seconds_until_available(pod, 0, self._now) is not None for pod in pods)
        available = sum(map(self._is_available, pods))
        wanted = set(self._wanted)
        return {
            "desiredNumberScheduled": len(self._wanted),
            "currentNumberScheduled": len(pods),
            "numberMisscheduled": sum(node not in wanted for node in self._stays),
            "numberReady": ready,
            "updatedNumberScheduled": sum(map(self._is_new, pods)) or None,
            "numberAvailable": available or None,
            "numberUnavailable": (len(self._wanted) - available) or None,
            "observedGeneration": self._set["metadata"].get("generation", 0),
            "collisionCount": self._history.collisions or None,
        }
