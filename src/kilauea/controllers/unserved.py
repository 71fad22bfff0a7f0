"""Pods that name a scheduler that does not run: an event and conditions report it, with the available names.

Only for a cluster with a single scheduler, as with `kilauea up`: elsewhere the available schedulers are unknown. A pod
with a condition `PodScheduled` has been processed by some scheduler, and is skipped.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

from kilauea.api.kinds import POD_GROUPS, PODS
from kilauea.api.ports import Interest, Key, Obj, Operation, Outcome, Patch, Record, View, key_of, no_keys
from kilauea.api.times import SECOND, format_time, parse_time
from kilauea.api.unserved import NO_SCHEDULER, left_to
from kilauea.api.wellknown import GROUP_NAME
from kilauea.controllers.objects import NOTHING, annotations_of, condition_of, is_going, spec_of, status_of, uid_of
from kilauea.controllers.pods import is_finished

PATIENCE_SECONDS = 2
"""Seconds for a user's scheduler to process a new pod."""


class UnservedPodController:
    """Reports on pods and their groups that their scheduler does not run.

    Args:
        served: names of the schedulers that run.
    """

    name = "unserved-pod-controller"

    def __init__(self, served: Collection[str]) -> None:
        self._served = frozenset(served)
        self.interests = (Interest(PODS, self._unserved), Interest(POD_GROUPS, no_keys))

    def _unserved(self, pod: Obj) -> Iterable[Key]:
        """Yield the key of a pod that waits for a scheduler that does not run."""
        spec = spec_of(pod)
        scheduler = spec.get("schedulerName")
        if not scheduler or scheduler in self._served or spec.get("nodeName"):
            return ()
        return (key_of(pod),)

    def reconcile(self, key: Key, view: View, now: int) -> Outcome:
        """Write an event and conditions, once a pod has waited for a while."""
        pod = view.get(PODS, key)
        if pod is None or not self._unserved(pod) or is_finished(pod) or is_going(pod):
            return NOTHING
        due = parse_time(pod["metadata"]["creationTimestamp"]) + PATIENCE_SECONDS * SECOND
        if now < due:
            return Outcome(again=(due - now) / SECOND)
        message, stamp = left_to(spec_of(pod)["schedulerName"], self._served), format_time(now - now % SECOND)
        operations: list[Operation] = []
        found = condition_of(pod, "PodScheduled")
        if found is None:
            operations += _about_pod(pod, message, stamp)
        elif found.get("reason") != NO_SCHEDULER:
            return NOTHING
        return Outcome([*operations, *_about_group(pod, view, message, stamp)])


def _about_pod(pod: Obj, message: str, stamp: str) -> list[Operation]:
    said = _condition("PodScheduled", "False", message, stamp)
    patch = {"metadata": {"uid": uid_of(pod)}, "status": {"conditions": [said]}}
    event = Record(pod, "Warning", "FailedScheduling", message)
    return [Patch(PODS, key_of(pod), patch, "strategic", subresource="status"), event]


def _about_group(pod: Obj, view: View, message: str, stamp: str) -> list[Operation]:
    """The event and the condition of the pod's group, if it does not have them yet."""
    group = view.get(POD_GROUPS, Key(pod["metadata"]["namespace"], annotations_of(pod).get(GROUP_NAME, "")))
    if group is None or (condition_of(group, NO_SCHEDULER) or {}).get("message") == message:
        return []
    others = [each for each in status_of(group).get("conditions") or () if each["type"] != NO_SCHEDULER]
    said = _condition(NO_SCHEDULER, "True", message, stamp)
    patch = {"metadata": {"uid": uid_of(group)}, "status": {"conditions": [*others, said]}}
    version = group["metadata"]["resourceVersion"]
    return [
        Patch(POD_GROUPS, key_of(group), patch, version=version),
        Record(group, "Warning", NO_SCHEDULER, message),
    ]


def _condition(type_: str, status: str, message: str, stamp: str) -> Mapping[str, str]:
    said = {"type": type_, "status": status, "reason": NO_SCHEDULER, "message": message}
    return {**said, "lastTransitionTime": stamp}
