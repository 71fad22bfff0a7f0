"""Pod groups for pods without one: a Volcano scheduler places gangs, so a single pod is a gang, too.

Pods of one owner share a group, which is named after the owner's UID; a pod without an owner has a separate one. The
group inherits annotations and labels of the owner and the pod that begin with `volcano.sh/`. Groups are deleted with
their owners; that of a workload that is scaled to zero is deleted, too.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Any

from kilauea.api.kinds import DAEMON_SETS, JOBS, POD_GROUPS, PODS, REPLICA_SETS, STATEFUL_SETS
from kilauea.api.numbers import whole_number
from kilauea.api.ports import (
    Create,
    Delete,
    Interest,
    Key,
    Obj,
    Operation,
    Outcome,
    Patch,
    Resource,
    View,
    key_of,
    no_keys,
)
from kilauea.api.wellknown import (
    COOLDOWN_TIME,
    GROUP_NAME,
    MAX_UNAVAILABLE,
    MIN_AVAILABLE,
    PREEMPTABLE,
    QUEUE_NAME,
    REVOCABLE_ZONE,
)
from kilauea.controllers.objects import (
    NOTHING,
    annotations_of,
    controller_of,
    is_going,
    labels_of,
    own_key,
    owner_reference,
    spec_of,
    status_of,
    uid_of,
)
from kilauea.controllers.pod_usage import pod_usage, times
from kilauea.controllers.pods import is_finished

MIN_MEMBER = "scheduling.volcano.sh/group-min-member"
TOPOLOGY_MODE, TOPOLOGY_TIER = "volcano.sh/network-topology-mode", "volcano.sh/network-topology-highest-tier"
INHERITED = "volcano.sh/"
"""Prefix of annotations of owners that are copied to the group."""
OWNERS = {(each.api_version, each.kind): each for each in (REPLICA_SETS, DAEMON_SETS, STATEFUL_SETS, JOBS)}


def group_name(pod: Obj) -> str:
    """The name of the group for a pod without one."""
    owner = controller_of(pod)
    return f"podgroup-{owner['uid'] if owner else uid_of(pod)}"


class PodGroupController:
    """Creates groups for pods.

    Args:
        schedulers: names of the schedulers whose pods get groups.
        inherit: True to inherit annotations of owners.
    """

    name = "pg-controller"

    def __init__(self, schedulers: Collection[str] = ("volcano",), *, inherit: bool = True) -> None:
        self._schedulers = frozenset(schedulers)
        self._inherit = inherit
        self.interests = (
            Interest(PODS, self._ungrouped),
            Interest(POD_GROUPS, no_keys),
            *(Interest(each, no_keys) for each in OWNERS.values()),
        )

    def _ungrouped(self, pod: Obj) -> Iterable[Key]:
        """Yield the key of a pod that needs a group."""
        if spec_of(pod).get("schedulerName") not in self._schedulers or GROUP_NAME in annotations_of(pod):
            return ()
        if (spec_of(pod).get("schedulingGroup") or {}).get("podGroupName"):
            return ()
        return (key_of(pod),)

    def reconcile(self, key: Key, view: View, now: int) -> Outcome:
        """Create the group if it is missing, and set it in the pod."""
        pod = view.get(PODS, key)
        if pod is None or not self._ungrouped(pod) or is_finished(pod) or is_going(pod):
            return NOTHING
        wanted = self._group(pod, self._owners(pod, view))
        name = wanted["metadata"]["name"]
        group = view.get(POD_GROUPS, Key(key.namespace, name))
        operations: list[Operation] = []
        if group is None:
            operations.append(Create(POD_GROUPS, wanted, about=pod))
        elif _leads(pod, view):
            operations += _merge(group, wanted)
        metadata = {"annotations": {GROUP_NAME: name}, "uid": uid_of(pod)}
        return Outcome([*operations, Patch(PODS, key, {"metadata": metadata})])

    def _owners(self, pod: Obj, view: View) -> list[Obj]:
        """The workloads that own a pod, if they are used."""
        found = []
        for reference in pod["metadata"].get("ownerReferences") or () if self._inherit else ():
            resource = OWNERS.get((reference["apiVersion"], reference["kind"]))
            owner = view.get(resource, Key(pod["metadata"]["namespace"], reference["name"])) if resource else None
            if owner is not None and uid_of(owner) == reference["uid"]:
                found.append(owner)
        return found

    def _group(self, pod: Obj, owners: list[Obj]) -> dict[str, Any]:
        """The group of a pod."""
        metadata: dict[str, Any] = {"name": group_name(pod), "namespace": pod["metadata"]["namespace"]}
        metadata["annotations"], metadata["labels"] = _annotations(pod, owners), _labels(pod)
        controlled = controller_of(pod) is not None
        owning = pod["metadata"]["ownerReferences"] if controlled else [owner_reference(PODS, pod)]
        metadata["ownerReferences"] = [_without_block(each) for each in owning]
        return {
            "apiVersion": POD_GROUPS.api_version,
            "kind": POD_GROUPS.kind,
            "metadata": {name: value for name, value in metadata.items() if value},
            "spec": _spec(pod, _min_member(owners)),
            "status": {"phase": "Pending"},
        }


def _without_block(reference: Obj) -> dict[str, Any]:
    """A reference to an owner whose deletion does not wait for the group.

    Setting `blockOwnerDeletion` may require permission to update the finalizers of the owner, of any kind.
    """
    return {name: value for name, value in reference.items() if name != "blockOwnerDeletion"}


def _annotations(pod: Obj, owners: list[Obj]) -> dict[str, str]:
    """Annotations of the owners, in their order, unless the pod has them."""
    found: dict[str, str] = {}
    for owner in owners:
        for name, value in annotations_of(owner).items():
            if name.startswith(INHERITED):
                found.setdefault(name, value)
    given = annotations_of(pod)
    budget = MIN_AVAILABLE if MIN_AVAILABLE in given else MAX_UNAVAILABLE
    found.update(_those(given, (PREEMPTABLE, COOLDOWN_TIME, REVOCABLE_ZONE, budget)))
    return found


def _labels(pod: Obj) -> dict[str, str]:
    return _those(labels_of(pod), (PREEMPTABLE, COOLDOWN_TIME))


def _those(given: Mapping[str, str], names: Iterable[str]) -> dict[str, str]:
    return {name: given[name] for name in names if name in given}


def _min_member(owners: list[Obj]) -> int:
    """The minimum of the group: that of the first owner with one, else one."""
    text = next((annotations_of(each)[MIN_MEMBER] for each in owners if MIN_MEMBER in annotations_of(each)), "1")
    number = whole_number(text)
    return number if number is not None and number < 2**31 else 1


def _spec(pod: Obj, min_member: int) -> dict[str, Any]:
    spec = spec_of(pod)
    group: dict[str, Any] = {"minMember": min_member, "minResources": times(pod_usage(spec), min_member)}
    if spec.get("priorityClassName"):
        group["priorityClassName"] = spec["priorityClassName"]
    annotations = annotations_of(pod)
    if annotations.get(QUEUE_NAME):
        group["queue"] = annotations[QUEUE_NAME]
    topology = _topology(annotations)
    if topology:
        group["networkTopology"] = topology
    return group


def _topology(annotations: Mapping[str, str]) -> dict[str, Any]:
    """The network topology of the pods; an invalid tier is left out."""
    if TOPOLOGY_MODE not in annotations and TOPOLOGY_TIER not in annotations:
        return {}
    topology: dict[str, Any] = {"mode": annotations.get(TOPOLOGY_MODE) or "hard"}
    tier = whole_number(annotations.get(TOPOLOGY_TIER, ""))
    if tier is not None:
        topology["highestTierAllowed"] = tier
    return topology


def _leads(pod: Obj, view: View) -> bool:
    """Return True if a pod sets the fields of its group; during an update, only new pods do."""
    owner = controller_of(pod)
    if owner is None or (owner["apiVersion"], owner["kind"]) != (STATEFUL_SETS.api_version, STATEFUL_SETS.kind):
        return True
    workload = view.get(STATEFUL_SETS, Key(pod["metadata"]["namespace"], owner["name"]))
    revision = status_of(workload).get("updateRevision") if workload else None
    return labels_of(pod).get("controller-revision-hash") == revision


def _merge(group: Obj, wanted: Mapping[str, Any]) -> list[Patch]:
    """Update a group; fields added by others stay."""
    patch: dict[str, Any] = {}
    for part in ("annotations", "labels"):
        has, needs = group["metadata"].get(part) or {}, wanted["metadata"].get(part) or {}
        changed = {name: value for name, value in needs.items() if has.get(name) != value}
        if changed:
            patch.setdefault("metadata", {})[part] = changed
    spec = spec_of(group)
    changed = {name: value for name, value in wanted["spec"].items() if spec.get(name) != value}
    if changed:
        patch["spec"] = changed
    return [Patch(POD_GROUPS, key_of(group), patch)] if patch else []


class IdleGroupController:
    """Deletes the group of a workload that is scaled to zero.

    Args:
        resource: the kind of the workloads.
    """

    name = "pg-controller"

    def __init__(self, resource: Resource) -> None:
        self._resource = resource
        self.interests = (Interest(resource, own_key), Interest(POD_GROUPS, no_keys))

    def reconcile(self, key: Key, view: View, now: int) -> Outcome:
        """Delete the group if the workload has zero replicas."""
        workload = view.get(self._resource, key)
        if workload is None or spec_of(workload).get("replicas") != 0:
            return NOTHING
        group = view.get(POD_GROUPS, Key(key.namespace, f"podgroup-{uid_of(workload)}"))
        return NOTHING if group is None else Outcome([Delete(POD_GROUPS, key_of(group), uid_of(group))])
