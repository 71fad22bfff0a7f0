"""Claims that wait for their first consumer get its node, if its scheduler has not set it.

kube-scheduler sets the node on the claim before it binds the pod, and waits. For schedulers that do not, this
controller writes the node of a pod to its claims.
"""

from __future__ import annotations

from collections.abc import Iterable

from kilauea.api.kinds import CLAIMS, PODS, STORAGE_CLASSES
from kilauea.api.ports import Interest, Key, Obj, Operation, Outcome, Patch, View, key_of, no_keys
from kilauea.api.wellknown import SELECTED_NODE
from kilauea.controllers.objects import NOTHING, annotations_of, is_going, spec_of
from kilauea.controllers.pods import is_active
from kilauea.controllers.volumes.claims import claims_of
from kilauea.controllers.volumes.matching import class_of, is_bound


def _placed_with_claims(pod: Obj) -> Iterable[Key]:
    """Yield the key of a pod with a node and claims."""
    return (key_of(pod),) if spec_of(pod).get("nodeName") and any(claims_of(pod)) else ()


class ConsumerController:
    """Writes the node of a pod to its claims that wait for it."""

    name = "first-consumer-controller"
    interests = (Interest(PODS, _placed_with_claims), Interest(CLAIMS, no_keys), Interest(STORAGE_CLASSES, no_keys))

    def reconcile(self, key: Key, view: View, now: int) -> Outcome:
        """Write the node of a pod to its claims."""
        pod = view.get(PODS, key)
        if pod is None or not is_active(pod) or not spec_of(pod).get("nodeName"):
            return NOTHING
        operations: list[Operation] = []
        for name in claims_of(pod):
            claim = view.get(CLAIMS, name)
            if claim is not None and _waits(view, claim):
                told = {"annotations": {SELECTED_NODE: spec_of(pod)["nodeName"]}}
                operations.append(Patch(CLAIMS, name, {"metadata": told}))
        return Outcome(operations)


def _waits(view: View, claim: Obj) -> bool:
    storage_class = view.get(STORAGE_CLASSES, Key("", class_of(claim)))
    late = storage_class is not None and storage_class.get("volumeBindingMode") == "WaitForFirstConsumer"
    return late and not is_bound(claim) and not is_going(claim) and SELECTED_NODE not in annotations_of(claim)
