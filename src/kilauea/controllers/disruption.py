"""Disruption budgets: the number of pods of a set that may currently be evicted.

The API server counts evictions against a budget when it allows them; the controller updates the budget from the pods.
It reconciles all budgets of a namespace together, by the namespace's name, as a pod does not contain the budgets that
select it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from kilauea.api.kinds import BUDGETS, DEPLOYMENTS, PODS, REPLICA_SETS, STATEFUL_SETS
from kilauea.api.ports import Interest, Key, Obj, Operation, Outcome, Record, Steps, View, no_keys
from kilauea.api.times import SECOND, format_time, parse_time
from kilauea.controllers.deployments.scaling import scaled, wanted_replicas
from kilauea.controllers.objects import (
    NOTHING,
    condition_of,
    controller_of,
    is_going,
    labels_of,
    matcher,
    name_of,
    spec_of,
    status_of,
    status_patch,
)
from kilauea.controllers.pods import READ_PER_STEP, is_ready

FORGET_SECONDS = 120
"""Seconds for which a budget counts a pod as evicted although it is not being deleted."""
DEBOUNCE_SECONDS = 0.2
MATCHES_PER_STEP = 10_000
"""Number of pods to compare with budgets in a step."""
SCALED = {each.kind: each for each in (REPLICA_SETS, STATEFUL_SETS, DEPLOYMENTS)}


def _namespace(obj: Obj) -> Iterable[Key]:
    return (Key(obj["metadata"]["namespace"], ""),)


class DisruptionController:
    """Updates the status of disruption budgets."""

    name = "disruption-controller"
    interests = (
        Interest(BUDGETS, _namespace),
        Interest(PODS, _namespace, delay=DEBOUNCE_SECONDS),
        *(Interest(each, no_keys) for each in SCALED.values()),
    )

    def reconcile(self, key: Key, view: View, now: int) -> Outcome | Steps:
        """Update all budgets of a namespace from its pods."""
        budgets = view.list(BUDGETS, key.namespace)
        return _in_steps(key.namespace, budgets, view, now) if budgets else NOTHING


class _Pod(NamedTuple):
    """The fields of a pod that budgets need."""

    name: str
    labels: Mapping[str, str]
    is_going: bool
    is_ready: bool
    controller: Mapping[str, Any] | None


def _in_steps(namespace: str, budgets: Sequence[Obj], view: View, now: int) -> Steps:
    pods: list[_Pod] = []
    for pod in view.list(PODS, namespace):
        pods.append(_Pod(name_of(pod), labels_of(pod), is_going(pod), is_ready(pod), controller_of(pod)))
        if len(pods) % READ_PER_STEP == 0:
            yield ()
    operations: list[Operation] = []
    again: float | None = None
    matches = 0
    for budget in budgets:
        selected = matcher(spec_of(budget).get("selector"))
        chosen = [pod for pod in pods if selected(pod.labels)]
        disrupted, wait = _disrupted(budget, chosen, now)
        if wait is not None:
            again = wait if again is None else min(again, wait)
        operations += _update_status(view, budget, chosen, disrupted, now)
        matches += len(pods) + 1
        if matches >= MATCHES_PER_STEP:
            yield operations
            operations, matches = [], 0
    return Outcome(operations, again)


def _disrupted(budget: Obj, pods: Sequence[_Pod], now: int) -> tuple[dict[str, str], float | None]:
    """Pods that count as evicted although they still exist, and the seconds until the first of them expires."""
    counted = status_of(budget).get("disruptedPods")
    if not counted:
        return {}, None
    there = {pod.name for pod in pods if not pod.is_going}
    found, waits = {}, []
    for name, when in counted.items():
        left = (parse_time(when) - now) / SECOND + FORGET_SECONDS if when else 0
        if name in there and left > 0:
            found[name] = when
            waits.append(left)
    return found, min(waits, default=None)


def _update_status(
    view: View, budget: Obj, pods: Sequence[_Pod], disrupted: Mapping[str, str], now: int
) -> Sequence[Operation]:
    expected, desired = _expectation(view, budget, pods)
    generation, known = budget["metadata"].get("generation", 0), status_of(budget)
    told: list[Operation] = []
    if not pods and (known.get("expectedPods") or known.get("observedGeneration") != generation):
        told.append(Record(budget, "Normal", "NoPods", "No matching pods found"))
    healthy = sum(pod.is_ready and not pod.is_going and pod.name not in disrupted for pod in pods)
    allowed = max(0, healthy - desired) if expected else 0
    before = known.get("disruptedPods") or {}
    wanted: dict[str, Any] = {
        "expectedPods": expected,
        "desiredHealthy": desired,
        "currentHealthy": healthy,
        "disruptionsAllowed": allowed,
        "observedGeneration": generation,
        "conditions": _conditions(budget, allowed, now),
    }
    if before != disrupted:
        wanted["disruptedPods"] = {name: disrupted.get(name) for name in before}
    return [*told, *status_patch(BUDGETS, budget, wanted, safe=True)]


def _expectation(view: View, budget: Obj, pods: Sequence[_Pod]) -> tuple[int, int]:
    """Return the expected number of pods, and the number of them that must be healthy."""
    spec = spec_of(budget)
    most_missing, least = spec.get("maxUnavailable"), spec.get("minAvailable")
    if most_missing is not None:
        expected = _scale(view, budget, pods)
        return expected, max(0, expected - scaled(most_missing, expected, up=True))
    if isinstance(least, str):
        expected = _scale(view, budget, pods)
        return expected, scaled(least, expected, up=True)
    return len(pods), int(least if least is not None else 1)


def _scale(view: View, budget: Obj, pods: Sequence[_Pod]) -> int:
    """Return the sum of the desired sizes of the pods' owners; pods of owners without a size count one each."""
    wanted: dict[str, int] = {}
    scaled_owners: dict[tuple[str, ...], Obj | None] = {}
    for pod in pods:
        owner = pod.controller
        if owner is None:
            continue
        key = (owner["kind"], owner["name"], owner["uid"])
        if key not in scaled_owners:
            scaled_owners[key] = _scaled_owner(view, budget["metadata"]["namespace"], owner)
        found = scaled_owners[key]
        if found is None:
            wanted[owner["uid"]] = wanted.get(owner["uid"], 0) + 1
        else:
            wanted[found["metadata"]["uid"]] = wanted_replicas(found)
    return sum(wanted.values())


def _scaled_owner(view: View, namespace: str, owner: Mapping[str, Any]) -> Obj | None:
    """The topmost owner that has a number of replicas."""
    resource = SCALED.get(owner["kind"])
    found = view.get(resource, Key(namespace, owner["name"])) if resource else None
    if found is None or found["metadata"]["uid"] != owner["uid"]:
        return None
    above = controller_of(found)
    return (_scaled_owner(view, namespace, above) if above else None) or found


def _conditions(budget: Obj, allowed: int, now: int) -> list[Any]:
    before = condition_of(budget, "DisruptionAllowed")
    status, reason = ("True", "SufficientPods") if allowed else ("False", "InsufficientPods")
    since = before["lastTransitionTime"] if before and before["status"] == status else format_time(now - now % SECOND)
    new = {
        "type": "DisruptionAllowed",
        "status": status,
        "reason": reason,
        "message": "",
        "lastTransitionTime": since,
        "observedGeneration": budget["metadata"].get("generation", 0),
    }
    others = [each for each in status_of(budget).get("conditions") or () if each["type"] != "DisruptionAllowed"]
    return [*others, new]
