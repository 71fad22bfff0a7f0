"""Claims that are deleted with their stateful set or with surplus pods: `persistentVolumeClaimRetentionPolicy`.

Such a claim is owned by the object that it is deleted with, and the garbage collector deletes it afterwards. A claim
with another controller is not changed.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from kilauea.api.kinds import CLAIMS, PODS, STATEFUL_SETS
from kilauea.api.ports import Key, Obj, Operation, Patch, Record, Resource, View, key_of
from kilauea.controllers.objects import name_of, owner_reference, spec_of, status_of, uid_of
from kilauea.controllers.statefulsets.identity import claim_names, numbers

Owners = Sequence[Mapping[str, Any]]


def go_with(stateful_set: Obj, when: str) -> bool:
    """Return True if claims are deleted `whenDeleted` (with the set) or `whenScaled` (when the set is scaled down)."""
    return (spec_of(stateful_set).get("persistentVolumeClaimRetentionPolicy") or {}).get(when) == "Delete"


def is_stale(stateful_set: Obj, pod: str, claim: Obj) -> bool:
    """Return True if a claim is deleted with an earlier pod of this name, so that new pods must not use it.

    The garbage collector deletes it after that pod; until then it looks like any other claim.
    """
    if not go_with(stateful_set, "whenScaled"):
        return False
    owners: Owners = claim["metadata"].get("ownerReferences") or []
    return any(
        (each["apiVersion"], each["kind"], each["name"]) == (PODS.api_version, PODS.kind, pod) for each in owners
    )


def owners_given(view: View, stateful_set: Obj, pods: Mapping[int, Obj]) -> Iterator[Operation]:
    """Set the owners of the claims of pods by the policy, before a pod is deleted."""
    namespace = stateful_set["metadata"]["namespace"]
    for number, pod in sorted(pods.items()):
        for name in claim_names(stateful_set, name_of(pod)):
            claim = view.get(CLAIMS, Key(namespace, name))
            if claim is not None:
                yield from _given(stateful_set, number, pod, claim)


def _given(stateful_set: Obj, number: int, pod: Obj, claim: Obj) -> Iterator[Operation]:
    before: Owners = claim["metadata"].get("ownerReferences") or []
    ours = [(STATEFUL_SETS, stateful_set), (PODS, pod)]
    kept: list[Mapping[str, Any]] = [each for each in before if not any(_names(each, *owner) for owner in ours)]
    if not _is_foreign(before, ours):
        kept += _wanted(stateful_set, number, pod)
    elif _is_new(stateful_set) and (go_with(stateful_set, "whenDeleted") or go_with(stateful_set, "whenScaled")):
        name = name_of(claim)
        message = f"PersistentVolumeClaim {name} has another controller, so the retention policy does not apply to it"
        yield Record(stateful_set, "Warning", "ConflictingController", message)
    if sorted(map(_identity, kept)) != sorted(map(_identity, before)):
        version = claim["metadata"]["resourceVersion"]
        yield Patch(CLAIMS, key_of(claim), {"metadata": {"ownerReferences": kept or None}}, version=version)


def _wanted(stateful_set: Obj, number: int, pod: Obj) -> list[dict[str, Any]]:
    """The owner that a claim is deleted with: a pod beyond the replicas, or the set; empty if it stays."""
    if go_with(stateful_set, "whenScaled") and number not in numbers(stateful_set):
        return [owner_reference(PODS, pod)]
    return [owner_reference(STATEFUL_SETS, stateful_set)] if go_with(stateful_set, "whenDeleted") else []


def _is_foreign(owners: Owners, ours: Sequence[tuple[Resource, Obj]]) -> bool:
    """Return True if something else controls a claim, or an earlier set or pod with these names."""
    for each in owners:
        named = [owner for resource, owner in ours if _names(each, resource, owner)]
        if any(each["uid"] != uid_of(owner) for owner in named) or (not named and each.get("controller")):
            return True
    return False


def _names(reference: Mapping[str, Any], resource: Resource, obj: Obj) -> bool:
    return (reference["apiVersion"], reference["kind"], reference["name"]) == (
        resource.api_version,
        resource.kind,
        name_of(obj),
    )


def _identity(reference: Mapping[str, Any]) -> tuple[str, bool]:
    return str(reference["uid"]), bool(reference.get("controller"))


def _is_new(stateful_set: Obj) -> bool:
    """Return True if the specification has changed since the last reconciliation, to report something once."""
    return bool(stateful_set["metadata"].get("generation", 0) != status_of(stateful_set).get("observedGeneration"))
