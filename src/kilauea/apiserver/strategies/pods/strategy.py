"""The rules for pods: they start pending, terminate gracefully, and most of their specification is immutable."""

from __future__ import annotations

import re
from collections.abc import Sequence
from types import MappingProxyType

import msgspec

from kilauea.apiserver.fields import check_annotations, check_labels, forbidden_field
from kilauea.apiserver.status import Cause
from kilauea.apiserver.strategies.alike import Remembered, masked
from kilauea.apiserver.strategies.base import Object, Strategy, count_generation, keep, spec_of
from kilauea.apiserver.strategies.pods.annotations import check_pod_annotations, check_profiles
from kilauea.apiserver.strategies.pods.changes import check_pod_change, check_pod_status
from kilauea.apiserver.strategies.pods.parts import check_ephemeral, check_resize, keep_all_but
from kilauea.apiserver.strategies.pods.spec import DEFAULT_GRACE, check_all_images, check_pod_spec
from kilauea.apiserver.strategies.pods.warnings import pod_warnings, template_warnings

_ENDED = ("Succeeded", "Failed")
_TOKEN_VOLUME = re.compile("kube-api-access-[a-z0-9]{5}")

LONGEST_GRACE = 2**32
"""The maximum grace period in seconds, 136 years, so that the deletion timestamp can be represented."""


class Pods(Strategy):
    """Pods."""

    answers_deleted_object = True
    is_graceful = True
    kept_in_status = ("ownerReferences",)
    are_alike = True
    selectable = (
        "spec.nodeName", "spec.restartPolicy", "spec.schedulerName", "spec.serviceAccountName", "spec.hostNetwork",
        "status.phase", "status.podIP", "status.podIPs", "status.nominatedNodeName",
    )  # fmt: skip
    sources = MappingProxyType({"status.podIPs": ("status.podIP",)})
    zero_values = MappingProxyType({"spec.hostNetwork": "false"})

    def __init__(self) -> None:
        self._sound: Remembered[bool] = Remembered()
        """Specifications without errors; True for those without warnings."""
        self._checked: tuple[Object | None, bool] = (None, False)
        """The last checked specification, if it has no errors; True if it has no warnings."""

    def default(self, obj: Object) -> None:
        state = obj.get("status")
        if state and state.get("podIP"):
            addresses = state.get("podIPs")
            if not addresses or addresses[0].get("ip") != state["podIP"]:  # older kubelets write only podIP
                state["podIPs"] = [{"ip": state["podIP"]}]

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
        spec, annotations = spec_of(obj), obj["metadata"].get("annotations") or {}
        causes = check_pod_annotations("metadata.annotations", annotations, spec) if annotations else []
        causes += self._check_spec(spec)
        if annotations:
            causes += check_profiles("spec", annotations, spec)
        if spec_of(obj).get("ephemeralContainers") and not obj["metadata"].get("resourceVersion"):
            causes.append(forbidden_field("spec.ephemeralContainers", "cannot be set on create"))
        return causes

    def _check_spec(self, spec: Object) -> list[Cause]:
        """Return the errors in the specification of a new pod; none if a similar one has none."""
        form = masked(spec)
        text = _without_token_name(form.text, spec) if form is not None else b""
        is_plain = self._sound.get(text)
        if is_plain is None:
            causes = check_pod_spec("spec", spec)
            if causes or form is None:
                self._checked = (None, False)
                return causes
            # Values can prevent warnings, so the masked form is checked.
            is_plain = not template_warnings("", {"spec": msgspec.json.decode(form.text)})
            self._sound.put(text, is_plain)
        self._checked = (spec, is_plain)
        return []

    def validate_change(self, obj: Object, old: Object) -> list[Cause]:
        spec, annotations = spec_of(obj), obj["metadata"].get("annotations") or {}
        causes = check_pod_annotations("metadata.annotations", annotations, spec) + check_pod_spec("spec", spec)
        return causes + check_all_images("spec", spec)  # the real server checks twice

    def validate_update(self, obj: Object, old: Object) -> list[Cause]:
        spec, before = spec_of(obj), spec_of(old)
        return [] if spec == before else check_pod_change(spec, before)

    def validate_status(self, obj: Object, old: Object) -> list[Cause]:
        return check_pod_status(obj, old)

    def warnings(self, obj: Object) -> list[str]:
        spec, is_plain = self._checked
        return pod_warnings({**obj, "spec": {}} if is_plain and spec is obj.get("spec") else obj)

    def validate_part(self, obj: Object, old: Object, subresource: str) -> list[Cause]:
        if subresource == "resize":
            return check_resize(obj, old, (qos_class(spec_of(obj)), qos_class(spec_of(old))))
        return check_ephemeral(obj, old)

    def grace_seconds(self, obj: Object, asked: int | None) -> int:
        spec = spec_of(obj)
        if not spec.get("nodeName") or (obj.get("status") or {}).get("phase") in _ENDED:
            return 0
        grace = spec.get("terminationGracePeriodSeconds", DEFAULT_GRACE) if asked is None else asked
        return min(int(grace), LONGEST_GRACE) if grace >= 0 else 1


_GATED = {
    "type": "PodScheduled",
    "status": "False",
    "reason": "SchedulingGated",
    "message": "Scheduling is blocked due to non-empty scheduling gates",
    "lastProbeTime": None,
}


def qos_class(spec: Object) -> str:
    """Return the QoS class of a pod by its requests and limits: all equal, none set, or in between."""
    containers = [*(spec.get("containers") or []), *(spec.get("initContainers") or [])]
    whole = spec.get("resources") or {}
    if whole.get("requests") or whole.get("limits"):
        containers = [spec]  # pod-level resources take precedence over those of containers
    guaranteed, any_amount = bool(containers), False
    for container in containers:
        resources = container.get("resources") or {}
        requests, limits = resources.get("requests") or {}, resources.get("limits") or {}
        for name in ("cpu", "memory"):
            any_amount = any_amount or _is_some(requests.get(name)) or _is_some(limits.get(name))
            some = _is_some(limits.get(name))
            guaranteed = guaranteed and some and requests.get(name, limits[name]) == limits[name]
    if not any_amount:
        return "BestEffort"
    return "Guaranteed" if guaranteed else "Burstable"


def _is_some(text: str | None) -> bool:
    """Return True if a request or limit is greater than zero."""
    return text is not None and text != "0" and text[0] != "-"


def check_template(
    path: str, template: Object | None, *, restart: Sequence[str] = ("Always",), claims: Sequence[str] = ()
) -> list[Cause]:
    """Return the errors in the pod template of a workload, which adds volumes for these claims."""
    template = template or {}
    metadata = template.get("metadata") or {}
    found = check_labels(f"{path}.labels", metadata.get("labels") or {})
    found += check_annotations(f"{path}.annotations", metadata.get("annotations") or {})
    spec, annotations = spec_of(template), metadata.get("annotations") or {}
    found += check_pod_annotations(f"{path}.annotations", annotations, spec)
    found += check_pod_spec(f"{path}.spec", spec, restart=restart, claims=claims, in_pod=False)
    if spec.get("ephemeralContainers"):
        message = "ephemeral containers not allowed in pod template"
        found.append(forbidden_field(f"{path}.spec.ephemeralContainers", message))
    return found + check_profiles(f"{path}.spec", annotations, spec)


def _without_token_name(text: bytes, spec: Object) -> bytes:
    """Return a specification as JSON without the random name of the token volume, which differs for each pod.

    The replacement cannot occur in JSON.
    """
    volumes = spec.get("volumes")
    name = volumes[-1].get("name", "") if volumes else ""
    return text.replace(name.encode(), b"\0") if _TOKEN_VOLUME.fullmatch(name) else text


def _mend_grace(pod: Object) -> None:
    """Set a negative grace period to one second."""
    if (spec_of(pod).get("terminationGracePeriodSeconds") or 0) < 0:
        pod["spec"]["terminationGracePeriodSeconds"] = 1
