"""The replica sets of a deployment: the one with its template, the next name, and those old enough to delete."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from kilauea.api.kinds import DEPLOYMENTS, REPLICA_SETS
from kilauea.api.numbers import whole_number
from kilauea.api.ports import Create, Delete, Key, Obj, Operation, Patch, View, key_of
from kilauea.controllers.deployments.scaling import DESIRED, MAXIMUM, figures
from kilauea.controllers.hashes import template_hash
from kilauea.controllers.objects import (
    adoption,
    annotations_of,
    is_going,
    labels_of,
    matcher,
    name_of,
    orphans,
    owned_by,
    owner_reference,
    release,
    spec_of,
    status_of,
    uid_of,
)

HASH = "pod-template-hash"
REVISION = "deployment.kubernetes.io/revision"
HISTORY = "deployment.kubernetes.io/revision-history"
_OWN = frozenset(
    {
        "kubectl.kubernetes.io/last-applied-configuration",
        "deprecated.deployment.rollback.to",
        REVISION,
        HISTORY,
        DESIRED,
        MAXIMUM,
    }
)
"""Annotations of a deployment that its replica sets do not inherit."""


def replicas_of(workload: Obj) -> int:
    """Return the desired number of replicas."""
    return int(spec_of(workload).get("replicas", 1))


def revision_of(obj: Obj) -> int:
    """The number of a revision; 0 if missing or invalid."""
    return whole_number(annotations_of(obj).get(REVISION, "")) or 0


def age_rank(obj: Obj) -> tuple[str, str]:
    """Sort key: the oldest first."""
    return obj["metadata"]["creationTimestamp"], name_of(obj)


def claim(view: View, deployment: Obj) -> tuple[list[Obj], list[Operation]]:
    """The replica sets of a deployment, the oldest first, and the operations that adopt or release them."""
    selected = matcher(spec_of(deployment).get("selector"))
    mine, operations = [], list[Operation]()
    for each in owned_by(view, REPLICA_SETS, deployment):
        if selected(labels_of(each)):
            mine.append(each)
        elif not is_going(each):
            operations.append(release(REPLICA_SETS, each, deployment))
    if not is_going(deployment):
        for each in orphans(view, REPLICA_SETS, deployment, selected):
            mine.append(each)
            operations.append(adoption(REPLICA_SETS, each, DEPLOYMENTS, deployment))
    return sorted(mine, key=age_rank), operations


def _without_hash(template: Mapping[str, Any]) -> Mapping[str, Any]:
    """A template without the hash label, as in its deployment."""
    metadata = template.get("metadata") or {}
    labels = {name: value for name, value in (metadata.get("labels") or {}).items() if name != HASH}
    return {**template, "metadata": {**metadata, "labels": labels}}


def current(deployment: Obj, owned: Sequence[Obj]) -> Obj | None:
    """The replica set with the deployment's template; the oldest of several."""
    template = _without_hash(spec_of(deployment)["template"])
    return next((each for each in owned if _without_hash(spec_of(each)["template"]) == template), None)


def new_replica_set(view: View, deployment: Obj, owned: Sequence[Obj], replicas: int) -> tuple[Create, int]:
    """The replica set for a new template, and the number of times that its name was taken by others."""
    template = spec_of(deployment)["template"]
    collisions = int(status_of(deployment).get("collisionCount") or 0)
    while True:
        digest = template_hash(template, collisions)
        key = Key(deployment["metadata"]["namespace"], f"{name_of(deployment)}-{digest}")
        if view.get(REPLICA_SETS, key) is None:
            break
        collisions += 1
    made = _replica_set(deployment, key, digest, replicas)
    made["metadata"]["annotations"] = wanted_annotations(deployment, owned, None)
    return Create(REPLICA_SETS, made, about=deployment), collisions


def _replica_set(deployment: Obj, key: Key, digest: str, replicas: int) -> dict[str, Any]:
    spec = spec_of(deployment)
    template, selector = spec["template"], spec["selector"]
    metadata = template.get("metadata") or {}
    labels = {**(metadata.get("labels") or {}), HASH: digest}
    made: dict[str, Any] = {
        "replicas": replicas,
        "selector": {**selector, "matchLabels": {**(selector.get("matchLabels") or {}), HASH: digest}},
        "template": {**template, "metadata": {**metadata, "labels": labels}},
    }
    if spec.get("minReadySeconds"):
        made["minReadySeconds"] = spec["minReadySeconds"]
    return {
        "apiVersion": REPLICA_SETS.api_version,
        "kind": REPLICA_SETS.kind,
        "metadata": {
            "name": key.name,
            "namespace": key.namespace,
            "labels": labels,
            "ownerReferences": [owner_reference(DEPLOYMENTS, deployment)],
        },
        "spec": made,
    }


def wanted_annotations(deployment: Obj, owned: Sequence[Obj], mine: Obj | None) -> dict[str, str]:
    """The annotations of the current replica set: the deployment's, its figures, and the highest revision."""
    kept = {name: value for name, value in annotations_of(deployment).items() if name not in _OWN}
    highest = max((revision_of(each) for each in owned if each is not mine), default=0)
    before = revision_of(mine) if mine is not None else 0
    kept[REVISION] = str(max(before, highest + 1))
    if mine is not None and 0 < before < highest + 1:
        past = annotations_of(mine).get(HISTORY)
        kept[HISTORY] = f"{past},{before}" if past else str(before)
    desired, maximum = figures(deployment)
    return {**kept, DESIRED: str(desired), MAXIMUM: str(maximum)}


def refreshed(deployment: Obj, owned: Sequence[Obj], mine: Obj) -> list[Operation]:
    """Operations that update the annotations and the revision of the current replica set."""
    wanted = wanted_annotations(deployment, owned, mine)
    has = annotations_of(mine)
    changed = {name: value for name, value in wanted.items() if has.get(name) != value}
    patch: dict[str, Any] = {"metadata": {"annotations": changed}} if changed else {}
    retry_delay = spec_of(deployment).get("minReadySeconds", 0)
    if spec_of(mine).get("minReadySeconds", 0) != retry_delay:
        patch["spec"] = {"minReadySeconds": retry_delay}
    return [Patch(REPLICA_SETS, key_of(mine), patch)] if patch else []


def set_revision(deployment: Obj, revision: str) -> list[Operation]:
    """Operations that write the revision number to the deployment, through the status, which keeps its generation."""
    if annotations_of(deployment).get(REVISION) == revision:
        return []
    patch = {"metadata": {"annotations": {REVISION: revision}}}
    return [Patch(DEPLOYMENTS, key_of(deployment), patch, subresource="status")]


def forgotten(deployment: Obj, old: Sequence[Obj]) -> list[Operation]:
    """Delete the oldest revisions beyond the limit, among those without pods."""
    limit = spec_of(deployment).get("revisionHistoryLimit")
    if limit is None:
        return []
    kept = [each for each in old if not is_going(each)]
    spare = max(0, len(kept) - int(limit))
    oldest = sorted(kept, key=lambda each: (revision_of(each), age_rank(each)))[:spare]
    return [Delete(REPLICA_SETS, key_of(each), uid_of(each)) for each in oldest if _is_idle(each)]


def _is_idle(replica_set: Obj) -> bool:
    status = status_of(replica_set)
    seen = status.get("observedGeneration", 0) >= replica_set["metadata"].get("generation", 0)
    return bool(seen and not status.get("replicas") and replicas_of(replica_set) == 0)
