"""Replica sets and replication controllers: the desired number of pods of a template.

Pods that end or are deleted are replaced; surplus pods are deleted in the order of their deletion rank. A thousand new
pods are created a few hundred at a time, so that other replica sets have their turn. While the server rejects a pod
(for example because of a quota), the condition ReplicaFailure has its message.
"""

from __future__ import annotations

from functools import partial
from itertools import islice
from typing import Any

from kilauea.api.kinds import PODS, REPLICA_SETS, REPLICATION_CONTROLLERS
from kilauea.api.ports import (
    Delete,
    Interest,
    Key,
    Obj,
    Operation,
    Outcome,
    Patch,
    Record,
    Resource,
    Steps,
    Together,
    View,
    key_of,
)
from kilauea.api.times import SECOND, format_time
from kilauea.controllers.objects import (
    NOTHING,
    condition_of,
    dependents,
    is_going,
    labels_of,
    name_of,
    own_key,
    spec_of,
    status_of,
    status_patch,
    uid_of,
)
from kilauea.controllers.pods import (
    claim,
    creation,
    deletion_rank,
    free_names,
    from_template,
    generate_name,
    is_active,
    is_finished,
    pods_by_node,
    seconds_until_available,
)

BURST = 500
"""Number of pods that are created or deleted in one go."""
REPLICA_FAILURE = "ReplicaFailure"
"""The condition of a replica set whose pods are rejected."""


class ReplicaSetController:
    """Maintains the number of pods of replica sets or replication controllers.

    Args:
        resource: the kind.
        name: name of the controller.
    """

    def __init__(self, resource: Resource = REPLICA_SETS, name: str = "replicaset-controller") -> None:
        self.name = name
        self.interests = (Interest(resource, own_key), dependents(PODS, resource))
        self._resource = resource

    def reconcile(self, key: Key, view: View, now: int) -> Steps:
        """Create or delete pods, and update the counts."""
        resource, replica_set = self._resource, view.get(self._resource, key)
        if replica_set is None:
            return NOTHING
        pods, operations = yield from claim(view, resource, _with_label_selector(resource, replica_set))
        active = list(filter(is_active, pods))
        missing = int(spec_of(replica_set).get("replicas", 1)) - len(active)
        if is_going(replica_set):
            missing = 0
        elif missing > 0:
            operations += _create(view, resource, replica_set, min(missing, BURST))
        elif missing < 0:
            operations += _delete(replica_set, active, min(-missing, BURST))
        status, again = _status(replica_set, active, now)
        gone = (pod for pod in pods if is_going(pod) and not is_finished(pod)) if len(active) < len(pods) else ()
        if resource == REPLICA_SETS:
            status["terminatingReplicas"] = sum(1 for _ in gone)
        operations += status_patch(resource, replica_set, status | _conditions(replica_set))
        refused = partial(_refused, resource, replica_set, status, now)
        return Outcome(operations, 0.0 if abs(missing) > BURST else again, refused=refused)


def _with_label_selector(resource: Resource, owner: Obj) -> Obj:
    """An owner with a label selector; that of a replication controller is a map of labels."""
    if resource != REPLICATION_CONTROLLERS:
        return owner
    return {**owner, "spec": {**spec_of(owner), "selector": {"matchLabels": spec_of(owner).get("selector") or {}}}}


def _create(view: View, resource: Resource, replica_set: Obj, count: int) -> list[Operation]:
    template = spec_of(replica_set)["template"]
    chains = []
    for name in islice(free_names(view, replica_set), count):
        pod = from_template(template, resource, replica_set, name)
        pod["metadata"]["generateName"] = generate_name(name_of(replica_set))
        chains.append(creation(resource, replica_set, pod))
    return [Together(chains)]


def _delete(replica_set: Obj, active: list[Obj], count: int) -> list[Operation]:
    beside = pods_by_node(active)
    ranked = sorted(active, key=lambda pod: deletion_rank(pod, beside))
    chains = []
    for pod in ranked[:count]:
        told = Record(replica_set, "Normal", "SuccessfulDelete", f"Deleted pod: {name_of(pod)}")
        chains.append((Delete(PODS, key_of(pod), uid_of(pod)), told))
    return [Together(chains)]


def _status(replica_set: Obj, active: list[Obj], now: int) -> tuple[dict[str, Any], float | None]:
    """The counts, and the seconds until the next ready pod counts as available."""
    spec = spec_of(replica_set)
    retry_delay = int(spec.get("minReadySeconds") or 0)
    wanted = ((spec["template"].get("metadata") or {}).get("labels") or {}).items()
    labelled = ready = available = 0
    again: float | None = None
    for pod in active:
        labelled += wanted <= labels_of(pod).items()
        wait = seconds_until_available(pod, retry_delay, now)
        if wait is None:
            continue
        ready += 1
        if not wait:
            available += 1
        elif again is None or wait < again:
            again = wait
    status = {
        "replicas": len(active),
        "fullyLabeledReplicas": labelled or None,
        "readyReplicas": ready or None,
        "availableReplicas": available or None,
        "observedGeneration": replica_set["metadata"].get("generation", 0),
    }
    return status, again


def _conditions(replica_set: Obj, *more: Obj) -> dict[str, Any]:
    """The conditions of the status, with those other than ReplicaFailure unchanged."""
    kept = [each for each in status_of(replica_set).get("conditions") or () if each["type"] != REPLICA_FAILURE]
    return {"conditions": [*kept, *more] or None}


def _refused(
    resource: Resource, replica_set: Obj, status: dict[str, Any], now: int, reason: str, message: str
) -> list[Patch]:
    """The status while the server rejects a pod; the first message stays until pods can be created."""
    failure = condition_of(replica_set, REPLICA_FAILURE) or {
        "type": REPLICA_FAILURE,
        "status": "True",
        "reason": reason,
        "message": message,
        "lastTransitionTime": format_time(now - now % SECOND),
    }
    return status_patch(resource, replica_set, status | _conditions(replica_set, failure))
