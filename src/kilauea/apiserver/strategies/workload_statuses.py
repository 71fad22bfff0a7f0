"""The rules for the `status` that controllers write to workloads: counts, and their relations."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from kilauea.apiserver.fields import check_not_negative, invalid_value
from kilauea.apiserver.status import Cause
from kilauea.apiserver.strategies.base import Object


class Counts(NamedTuple):
    """The counts in the status of a kind.

    Attributes:
        fields: the fields that must not be negative, in the order of checks.
        parts: the fields that must not exceed `replicas`.
        ready: the name of `readyReplicas`, which `availableReplicas` must not exceed, in messages.
    """

    fields: Sequence[str]
    parts: Sequence[str] = ()
    ready: str = "readyReplicas"


DEPLOYMENTS = Counts(
    "observedGeneration replicas updatedReplicas readyReplicas availableReplicas unavailableReplicas "
    "terminatingReplicas collisionCount".split(),
    ("updatedReplicas", "readyReplicas", "availableReplicas"),
)
REPLICA_SETS = Counts(
    "replicas fullyLabeledReplicas readyReplicas availableReplicas observedGeneration terminatingReplicas".split(),
    ("fullyLabeledReplicas", "readyReplicas", "availableReplicas"),
)
REPLICATION_CONTROLLERS = Counts(
    "replicas fullyLabeledReplicas readyReplicas availableReplicas observedGeneration".split(), REPLICA_SETS.parts
)
STATEFUL_SETS = Counts(
    "replicas readyReplicas currentReplicas updatedReplicas availableReplicas observedGeneration "
    "collisionCount".split(),
    ("readyReplicas", "currentReplicas", "updatedReplicas", "availableReplicas"),
    "status.readyReplicas",
)
DAEMON_SETS = Counts(
    "currentNumberScheduled numberMisscheduled desiredNumberScheduled numberReady observedGeneration "
    "updatedNumberScheduled numberAvailable numberUnavailable collisionCount".split()
)


def check_counts(counts: Counts, obj: Object, old: Object) -> list[Cause]:
    """Return the errors in the status of an updated workload.

    Args:
        counts: the counts of its kind.
        obj: the workload.
        old: the previous workload.
    """
    status, before = obj.get("status") or {}, old.get("status") or {}
    causes = [cause for name in counts.fields for cause in check_not_negative(f"status.{name}", status.get(name))]
    for name in counts.parts:
        if status.get(name, 0) > status.get("replicas", 0):
            message = "cannot be greater than status.replicas"
            causes.append(invalid_value(f"status.{name}", status.get(name, 0), message))
    available = status.get("availableReplicas", 0)
    if counts.parts and available > status.get("readyReplicas", 0):
        causes.append(invalid_value("status.availableReplicas", available, f"cannot be greater than {counts.ready}"))
    collisions, earlier = status.get("collisionCount") or 0, before.get("collisionCount")
    if "collisionCount" in counts.fields and earlier is not None and collisions < earlier:
        causes.append(invalid_value("status.collisionCount", collisions, "cannot be decremented"))
    return causes
