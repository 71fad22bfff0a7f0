"""The controller of stateful sets."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from kilauea.api.kinds import CLAIMS, PODS, REVISIONS, STATEFUL_SETS
from kilauea.api.ports import Delete, Interest, Key, Obj, Operation, Outcome, Record, Steps, View, key_of, no_keys
from kilauea.controllers.objects import (
    NOTHING,
    dependents,
    is_going,
    labels_of,
    name_of,
    own_key,
    owner_reference,
    spec_of,
    status_of,
    status_patch,
    uid_of,
)
from kilauea.controllers.pods import claim, is_finished, phase_of, seconds_until_available
from kilauea.controllers.revisions import REVISION_LABEL, History, forgotten, history, template_of
from kilauea.controllers.statefulsets.identity import claim_names, creation, missing_claims, numbers, ordinal_of
from kilauea.controllers.statefulsets.retention import go_with, is_stale, owners_given

CLAIM_SECONDS = 1.0
"""Seconds until a set checks again for claims that are or will be deleted: a new pod must not use them."""
BURST = 500
"""Number of missing pods to process at a time: a set may have two billion replicas."""


class StatefulSetController:
    """Maintains the pods of stateful sets."""

    name = "statefulset-controller"
    interests = (
        Interest(STATEFUL_SETS, own_key),
        dependents(PODS, STATEFUL_SETS, delay=0.0),
        dependents(REVISIONS, STATEFUL_SETS, delay=0.0),
        Interest(CLAIMS, no_keys),
    )

    def reconcile(self, key: Key, view: View, now: int) -> Steps:
        """Create, replace or delete pods, and update the counts."""
        stateful_set = view.get(STATEFUL_SETS, key)
        if stateful_set is None:
            return NOTHING
        pods, operations = yield from claim(view, STATEFUL_SETS, stateful_set)
        look = Reconciliation(view, stateful_set, pods, now)
        if not is_going(stateful_set):
            operations += look.history.operations
            operations += look.claims()
            operations += look.step()
            operations += forgotten(stateful_set, look.history, pods, [look.current])
        return Outcome([*operations, *look.tell()], look.again)


class Reconciliation:
    """One reconciliation of a stateful set.

    Attributes:
        history: its templates.
        current: name of the revision of pods that are not updated yet.
        again: seconds until a ready pod counts as available, or claims may be gone.
    """

    def __init__(self, view: View, stateful_set: Obj, pods: Sequence[Obj], now: int) -> None:
        self._view, self._set = view, stateful_set
        self._pods = {number: pod for pod in pods if (number := ordinal_of(stateful_set, pod)) is not None}
        self._numbers = numbers(stateful_set)
        self.history: History = history(view, STATEFUL_SETS, stateful_set)
        self.current: str = status_of(stateful_set).get("currentRevision") or self.history.newest
        retry_delay = int(spec_of(stateful_set).get("minReadySeconds") or 0)
        waits = {number: seconds_until_available(pod, retry_delay, now) for number, pod in self._pods.items()}
        self._ready = {number for number, wait in waits.items() if wait is not None}
        self._available = {number for number, wait in waits.items() if wait == 0}
        self.again = min((wait for wait in waits.values() if wait), default=None)
        spec = spec_of(stateful_set)
        self._one_by_one = spec.get("podManagementPolicy", "OrderedReady") == "OrderedReady"
        strategy = spec.get("updateStrategy") or {}
        self._rolls = strategy.get("type", "RollingUpdate") == "RollingUpdate"
        self._partition = int((strategy.get("rollingUpdate") or {}).get("partition") or 0)

    def step(self) -> list[Operation]:
        """Return the next operations; one pod at a time, if the pod management policy requires it."""
        operations: list[Operation] = []
        missing = 0
        for number in self._numbers:
            pod = self._pods.get(number)
            if pod is None:
                operations += self._make(number)
                missing += 1
                if missing == BURST:  # the new pods trigger another reconciliation
                    return operations
            elif is_finished(pod) and not is_going(pod):
                operations += self._end(pod)
            elif number in self._available and not is_going(pod):
                continue
            elif phase_of(pod) == "Pending" and not is_going(pod):
                operations += missing_claims(self._view, self._set, name_of(pod), self._owners_of_claims())
            if self._one_by_one:
                return operations
        surplus = sorted((number for number in self._pods if number not in self._numbers), reverse=True)
        for number in surplus:
            pod = self._pods[number]
            operations += [] if is_going(pod) else self._end(pod)
            if self._one_by_one:
                return operations
        return operations or self._update()

    def _revision_for(self, number: int) -> str:
        """The revision of a new pod with an ordinal: below the partition, pods keep the old one."""
        below = self._rolls and number < self._numbers.start + self._partition
        return self.current if below else self.history.newest

    def _revision(self, pod: Obj) -> str:
        return labels_of(pod).get(REVISION_LABEL, "")

    def claims(self) -> list[Operation]:
        """Set the owners with which claims are deleted."""
        return list(owners_given(self._view, self._set, self._pods))

    def _make(self, number: int) -> list[Operation]:
        namespace = self._set["metadata"]["namespace"]
        pod = f"{name_of(self._set)}-{number}"
        found = (self._view.get(CLAIMS, Key(namespace, name)) for name in claim_names(self._set, pod))
        if any(claim is not None and (is_going(claim) or is_stale(self._set, pod, claim)) for claim in found):
            self.again = min(self.again or CLAIM_SECONDS, CLAIM_SECONDS)
            return []
        revision = self._revision_for(number)
        template = template_of(self.history, revision, self._set)
        return list(creation(self._view, self._set, number, template, revision, self._owners_of_claims()))

    def _owners_of_claims(self) -> list[dict[str, Any]]:
        """The owners of new claims."""
        return [owner_reference(STATEFUL_SETS, self._set)] if go_with(self._set, "whenDeleted") else []

    def _end(self, pod: Obj) -> list[Operation]:
        message = f"delete Pod {name_of(pod)} in StatefulSet {name_of(self._set)} successful"
        return [Delete(PODS, key_of(pod), uid_of(pod)), Record(self._set, "Normal", "SuccessfulDelete", message)]

    def _update(self) -> list[Operation]:
        """Replace the last pod with an old template, once all pods after it are ready."""
        if not self._rolls:
            return []
        for number in reversed(self._numbers[self._partition :]):
            pod = self._pods.get(number)
            if pod is None:  # it waits for its claims
                return []
            if self._revision(pod) != self.history.newest:
                return [] if is_going(pod) else self._end(pod)
            if number not in self._available:
                return []
        return []

    def tell(self) -> list[Operation]:
        """Update the status, if it has changed."""
        pods = [pod for pod in self._pods.values() if not is_finished(pod)]
        newest, current = self.history.newest, self.current
        updated = [pod for pod in pods if self._revision(pod) == newest and not is_going(pod)]
        complete = len(updated) == len(self._numbers) == len(self._pods) == len(self._ready)
        if self._rolls and current != newest and complete and not self._partition:
            current = newest
        olds = [pod for pod in pods if self._revision(pod) == current and not is_going(pod)]
        status: dict[str, Any] = {
            "observedGeneration": self._set["metadata"].get("generation", 0),
            "replicas": len(pods),
            "readyReplicas": len(self._ready) or None,
            "availableReplicas": len(self._available),
            "currentReplicas": len(olds) or None,
            "updatedReplicas": len(updated) or None,
            "currentRevision": current,
            "updateRevision": newest,
            "collisionCount": self.history.collisions,
        }
        return [*status_patch(STATEFUL_SETS, self._set, status)]
