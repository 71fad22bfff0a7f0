"""Claims of generic ephemeral volumes: created for a pod from the template in its spec, and deleted with it."""

from __future__ import annotations

from collections.abc import Iterable

from kilauea.api.kinds import CLAIMS, PODS
from kilauea.api.ports import Create, Interest, Key, Obj, Operation, Outcome, Record, View
from kilauea.controllers.objects import (
    NOTHING,
    controller_of,
    is_going,
    name_of,
    owner_reference,
    spec_of,
    uid_of,
)
from kilauea.controllers.pods import is_finished


def _with_templates(pod: Obj) -> Iterable[Key]:
    """Yield the key of a pod with ephemeral volumes."""
    if any("ephemeral" in volume for volume in spec_of(pod).get("volumes") or ()):
        yield Key(pod["metadata"]["namespace"], name_of(pod))


def _owner(claim: Obj) -> Iterable[Key]:
    owner = controller_of(claim)
    return (Key(claim["metadata"]["namespace"], owner["name"]),) if owner and owner["kind"] == PODS.kind else ()


class EphemeralVolumeController:
    """Creates the claims of ephemeral volumes, each named after its pod and volume."""

    name = "ephemeral-volume-controller"
    interests = (Interest(PODS, _with_templates), Interest(CLAIMS, _owner))

    def reconcile(self, key: Key, view: View, now: int) -> Outcome:
        """Create the claims that a pod needs."""
        pod = view.get(PODS, key)
        if pod is None or is_going(pod) or is_finished(pod):
            return NOTHING
        operations: list[Operation] = []
        for volume in spec_of(pod).get("volumes") or ():
            if "ephemeral" not in volume:
                continue
            name = f"{key.name}-{volume['name']}"
            known = view.get(CLAIMS, Key(key.namespace, name))
            if known is None:
                operations.append(Create(CLAIMS, _claim(pod, name, volume["ephemeral"]), pod))
            elif (controller_of(known) or {}).get("uid") != uid_of(pod):
                refusal = f"PVC {key.namespace}/{name} was not created for pod {key.namespace}/{key.name}"
                message = f"ephemeral volume {volume['name']}: {refusal} (pod is not owner)"
                about = {"apiVersion": "v1", "kind": PODS.kind, "metadata": pod["metadata"]}
                operations.append(Record(about, "Warning", "FailedBinding", message))
        return Outcome(operations)


def _claim(pod: Obj, name: str, source: Obj) -> Obj:
    template = source.get("volumeClaimTemplate") or {}
    metadata = template.get("metadata") or {}
    return {
        "apiVersion": CLAIMS.api_version,
        "kind": CLAIMS.kind,
        "metadata": {
            "name": name,
            "namespace": pod["metadata"]["namespace"],
            "labels": dict(metadata.get("labels") or {}),
            "annotations": dict(metadata.get("annotations") or {}),
            "ownerReferences": [owner_reference(PODS, pod)],
        },
        "spec": template.get("spec") or {},
    }
