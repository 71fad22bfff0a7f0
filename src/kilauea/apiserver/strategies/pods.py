"""The rules of pods: they begin pending, end with a grace period, and most of their specification never changes."""

from __future__ import annotations

from collections.abc import Sequence
from difflib import unified_diff
from typing import Any

import msgspec

from kilauea.apiserver.fields import check_annotations, check_labels, forbidden_field
from kilauea.apiserver.status import Cause
from kilauea.apiserver.strategies.base import Object, Strategy, count_generation, keep, spec_of
from kilauea.apiserver.strategies.pod_parts import check_ephemeral, check_resize, keep_all_but
from kilauea.apiserver.strategies.pod_spec import DEFAULT_GRACE, check_pod_spec
from kilauea.apiserver.strategies.pod_warnings import pod_warnings

_ENDED = ("Succeeded", "Failed")
_FREE = ("activeDeadlineSeconds", "terminationGracePeriodSeconds", "tolerations", "schedulingGates")
_IMMUTABLE = (
    "pod updates may not change fields other than `spec.containers[*].image`,`spec.initContainers[*].image`,"
    "`spec.activeDeadlineSeconds`,`spec.tolerations` (only additions to existing tolerations),"
    "`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)"
)


class Pods(Strategy):
    """Pods."""

    answers_deleted_object = True
    is_graceful = True
    selectable = (
        "spec.nodeName", "spec.restartPolicy", "spec.schedulerName", "spec.serviceAccountName", "spec.hostNetwork",
        "status.phase", "status.podIP", "status.podIPs", "status.nominatedNodeName",
    )  # fmt: skip

    def default(self, obj: Object) -> None:
        """The account has an older name, which always says the same."""
        spec = obj.get("spec")
        account = spec and (spec.get("serviceAccountName") or spec.get("serviceAccount"))
        if spec and account:
            spec["serviceAccountName"] = spec["serviceAccount"] = account

    def prepare_create(self, obj: Object) -> None:
        _mend_grace(obj)
        obj["metadata"]["generation"] = 1
        obj["status"] = {"phase": "Pending", "qosClass": qos_class(spec_of(obj))}
        if spec_of(obj).get("schedulingGates"):
            obj["status"]["conditions"] = [{**_GATED, "lastTransitionTime": obj["metadata"]["creationTimestamp"]}]

    def prepare_update(self, obj: Object, old: Object) -> None:
        _mend_grace(obj)
        keep(obj, old, "status")
        count_generation(obj, old)

    def prepare_status(self, obj: Object, old: Object) -> None:
        super().prepare_status(obj, old)
        state, before = obj.get("status") or {}, old.get("status") or {}
        if isinstance(state, dict) and "qosClass" in before:
            obj["status"] = {**state, "qosClass": before["qosClass"]}

    def prepare_part(self, obj: Object, old: Object, subresource: str) -> None:
        keep_all_but(obj, old, subresource)
        keep(obj, old, "status")
        count_generation(obj, old)

    def validate(self, obj: Object) -> list[Cause]:
        causes = check_pod_spec("spec", spec_of(obj))
        if spec_of(obj).get("ephemeralContainers") and not obj["metadata"].get("resourceVersion"):
            causes.append(forbidden_field("spec.ephemeralContainers", "cannot be set on create"))
        return causes

    def validate_change(self, obj: Object, old: Object) -> list[Cause]:
        return check_pod_spec("spec", spec_of(obj))

    def validate_update(self, obj: Object, old: Object) -> list[Cause]:
        spec, before = spec_of(obj), spec_of(old)
        if spec == before:
            return []
        causes = _check_tolerations(spec.get("tolerations") or [], before.get("tolerations") or [])
        causes += _check_gates(spec.get("schedulingGates") or [], before.get("schedulingGates") or [])
        for part in ("containers", "initContainers"):
            if len(spec.get(part) or ()) != len(before.get(part) or ()):
                return [*causes, forbidden_field(f"spec.{part}", "pod updates may not add or remove containers")]
        fixed, kept = _fixed_part(spec, before), _fixed_part(before, before)
        if fixed != kept:
            causes.append(forbidden_field("spec", f"{_IMMUTABLE}\n{_differences(kept, fixed)}"))
        return causes

    def warnings(self, obj: Object) -> list[str]:
        return pod_warnings(obj)

    def validate_part(self, obj: Object, old: Object, subresource: str) -> list[Cause]:
        if subresource == "resize":
            return check_resize(obj, old, (qos_class(spec_of(obj)), qos_class(spec_of(old))))
        return check_ephemeral(obj, old)

    def grace_seconds(self, obj: Object, asked: int | None) -> int:
        spec = spec_of(obj)
        if not spec.get("nodeName") or (obj.get("status") or {}).get("phase") in _ENDED:
            return 0
        grace = spec.get("terminationGracePeriodSeconds", DEFAULT_GRACE) if asked is None else asked
        return max(int(grace), 0) if grace >= 0 else 1

    def fields(self, obj: Any) -> dict[str, str]:
        found = super().fields(obj)
        found["status.podIPs"] = found["status.podIP"]
        found["spec.hostNetwork"] = found["spec.hostNetwork"] or "false"
        return found


_GATED = {
    "type": "PodScheduled",
    "status": "False",
    "reason": "SchedulingGated",
    "message": "Scheduling is blocked due to non-empty scheduling gates",
    "lastProbeTime": None,
}


def qos_class(spec: Object) -> str:
    """The quality of service that a pod's requests and limits make: all equal, none at all, or in between."""
    containers = [*(spec.get("containers") or []), *(spec.get("initContainers") or [])]
    guaranteed, any_amount = bool(containers), False
    for container in containers:
        resources = container.get("resources") or {}
        requests, limits = resources.get("requests") or {}, resources.get("limits") or {}
        for name in ("cpu", "memory"):
            any_amount = any_amount or name in requests or name in limits
            guaranteed = guaranteed and name in limits and requests.get(name, limits[name]) == limits[name]
    if not any_amount:
        return "BestEffort"
    return "Guaranteed" if guaranteed else "Burstable"


def _fixed_part(spec: Object, before: Object) -> bytes:
    """The immutable part, as bytes to compare; the node selection of a gated pod can still change."""
    free = (*_FREE, "nodeSelector", "affinity") if before.get("schedulingGates") else _FREE
    fixed = {key: value for key, value in spec.items() if key not in free}
    for part in ("containers", "initContainers"):
        fixed[part] = [{**each, "image": ""} for each in spec.get(part) or []]
    return msgspec.json.encode(fixed, order="deterministic")


def _differences(before: bytes, after: bytes) -> str:
    """The lines that differ between two JSON texts, as `diff -u` shows them."""
    old, new = (msgspec.json.format(each, indent=1).decode().splitlines() for each in (before, after))
    return "\n".join([*unified_diff(old, new, lineterm="")][2:]) + "\n"


def _check_tolerations(now: list[Any], before: list[Any]) -> list[Cause]:
    """Tolerations may only be added; those that were there may last longer or shorter."""

    def key(toleration: Object) -> tuple[Any, ...]:
        return tuple(toleration.get(part) or "" for part in ("key", "operator", "value", "effect"))

    if {key(each) for each in before} - {key(each) for each in now}:
        return [
            forbidden_field("spec.tolerations", "existing toleration can not be modified except its tolerationSeconds")
        ]
    return []


def _check_gates(now: list[Any], before: list[Any]) -> list[Cause]:
    """Scheduling gates may only be taken away."""
    known = {each.get("name") for each in before}
    added = [str(each.get("name")) for each in now if each.get("name") not in known]
    if not added:
        return []
    return [forbidden_field("spec.schedulingGates", _NO_NEW_GATES.format(added[0]))]


_NO_NEW_GATES = "only deletion is allowed, but found new scheduling gate '{}'"


def check_template(
    path: str, template: Object | None, *, restart: Sequence[str] = ("Always",), claims: Sequence[str] = ()
) -> list[Cause]:
    """A pod template of a workload, which gives each pod volumes for these claims."""
    template = template or {}
    metadata = template.get("metadata") or {}
    found = check_labels(f"{path}.labels", metadata.get("labels") or {})
    found += check_annotations(f"{path}.annotations", metadata.get("annotations") or {})
    spec = spec_of(template)
    found += check_pod_spec(f"{path}.spec", spec, restart=restart, claims=claims, in_pod=False)
    if spec.get("ephemeralContainers"):
        message = "ephemeral containers not allowed in pod template"
        found.append(forbidden_field(f"{path}.spec.ephemeralContainers", message))
    return found


def _mend_grace(pod: Object) -> None:
    """A grace period below 0 is one second."""
    if (spec_of(pod).get("terminationGracePeriodSeconds") or 0) < 0:
        pod["spec"]["terminationGracePeriodSeconds"] = 1
