"""Protection of the PodGroups of Kubernetes: a deleted one remains as long as it has running pods."""

from __future__ import annotations

from collections.abc import Iterable

from kilauea.api.kinds import KUBERNETES_POD_GROUPS, PODS
from kilauea.api.ports import Interest, Key, Obj, Outcome, View
from kilauea.controllers.objects import NOTHING, is_going, own_key, spec_of, without_finalizer
from kilauea.controllers.pods import is_finished

PROTECTION = "scheduling.k8s.io/podgroup-protection"
GROUP = "PodGroup of Kubernetes"
"""Name of the index of pods by the group that they name."""
FIELDS = ("spec.schedulingGroup", "status.phase")


def _group(pod: Obj) -> str:
    """The group that a pod names, as `namespace/name`; empty without one."""
    name = (spec_of(pod).get("schedulingGroup") or {}).get("podGroupName")
    return f"{pod['metadata']['namespace']}/{name}" if name else ""


def _its_group(pod: Obj) -> Iterable[Key]:
    group = _group(pod)
    return (Key(*group.split("/", 1)),) if group else ()


class PodGroupProtectionController:
    """Releases groups that are being deleted, once all pods that name them have ended."""

    name = "podgroup-protection-controller"
    interests = (
        Interest(KUBERNETES_POD_GROUPS, own_key),
        Interest(PODS, _its_group, indexes={GROUP: _group}, delay=0.1, fields=FIELDS, signs=("spec.schedulingGroup",)),
    )

    def reconcile(self, key: Key, view: View, now: int) -> Outcome:
        """Remove the finalizer from a group that is not in use."""
        group = view.get(KUBERNETES_POD_GROUPS, key)
        if group is None or not is_going(group):
            return NOTHING
        if any(not is_finished(pod) for pod in view.indexed(PODS, GROUP, f"{key.namespace}/{key.name}")):
            return NOTHING
        return Outcome(without_finalizer(KUBERNETES_POD_GROUPS, group, PROTECTION))
