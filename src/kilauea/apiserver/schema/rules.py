"""Defaults of built-in kinds that depend on other fields, as the real API server sets them in code.

A rule changes an object of its definition in place. It runs after the single-field defaults of the object
(`kilauea.apiserver.schema.coded`), and before the defaults of nested objects.
"""

from __future__ import annotations

import base64
import copy
import re
from collections.abc import Callable, Mapping
from fractions import Fraction
from typing import Any

from kilauea.api.remembered import remembered
from kilauea.apiserver.schema.scalars import amount_of, exact_text

Object = dict[str, Any]
Rule = Callable[[Object], None]

_RBAC_GROUP = "rbac.authorization.k8s.io"
_LARGEST_INT32 = 2**31 - 1
_NO_LIMIT: Mapping[str, Any] = {}


_COMPONENT = r"[a-z0-9]+(?:(?:\.|_|__|-+)[a-z0-9]+)*"
_LABEL = r"[A-Za-z0-9](?:[-A-Za-z0-9]*[A-Za-z0-9])?"
_DOMAIN = rf"(?:{_LABEL}(?:\.{_LABEL})*|\[[0-9a-fA-F:]+\])(?::[0-9]+)?"
_TAG, _DIGEST = r":\w[-.\w]{0,127}", r"@[A-Za-z][-A-Za-z0-9+._]*:[0-9a-fA-F]{32,}"
_IMAGE = re.compile(rf"(?:{_DOMAIN}/)?{_COMPONENT}(?:/{_COMPONENT})*(?:{_TAG})?(?:{_DIGEST})?", re.ASCII)
"""The format of image names, with a registry, a tag and a digest."""
_LONGEST_IMAGE = 1024


@remembered(4096, 256)
def pull_policy(image: str) -> str:
    """Return the default pull policy of an image: the tag `latest` is always pulled."""
    if len(image) > _LONGEST_IMAGE or not _IMAGE.fullmatch(image):
        return "IfNotPresent"
    name, _, digest = image.partition("@")
    tag = name.rpartition("/")[2].partition(":")[2] or ("" if digest else "latest")
    return "Always" if image and tag == "latest" else "IfNotPresent"


def _container(obj: Object) -> None:
    obj.setdefault("imagePullPolicy", pull_policy(obj.get("image", "")))
    if "lifecycle" in obj:
        _drop_stop_signal(obj)


def _drop_stop_signal(container: Object) -> None:
    """Drop the stop signal, which the real server has behind a feature gate that is off by default."""
    lifecycle = container["lifecycle"]
    if lifecycle and lifecycle.pop("stopSignal", None) is not None and not lifecycle:
        del container["lifecycle"]


def _image_volume(obj: Object) -> None:
    obj.setdefault("pullPolicy", pull_policy(obj.get("reference", "")))


def _projection(obj: Object) -> None:
    """Drop fields that the real server has behind feature gates that are off by default."""
    obj.pop("clusterTrustBundle", None)
    obj.pop("podCertificate", None)


def _volume(obj: Object) -> None:
    if obj.keys() <= {"name"}:
        obj["emptyDir"] = {}


def _pod(obj: Object) -> None:
    """Set defaults that pods have and templates lack."""
    if obj.get("spec", {}).get("resources"):
        _requests_of_pod(obj["spec"])
    spec = obj.setdefault("spec", {})
    spec.setdefault("enableServiceLinks", True)
    for container in [*(spec.get("containers") or []), *(spec.get("initContainers") or [])]:
        _request_limits(container.get("resources") or {})
        if spec.get("hostNetwork"):
            for port in container.get("ports", ()):
                port.setdefault("hostPort", port.get("containerPort", 0))


def _requests_of_pod(spec: Object) -> None:
    """Set missing pod-level requests to the sum of the containers' requests, or to the limits."""
    resources = spec["resources"]
    limits, requests = resources.get("limits") or {}, dict(resources.get("requests") or {})
    for container in spec.get("containers") or []:
        _request_limits(container.get("resources") or {})
    sums: dict[str, Fraction] = {}
    texts: dict[str, str] = {}
    for container in spec.get("containers") or []:
        for name, text in ((container.get("resources") or {}).get("requests") or {}).items():
            if name in ("cpu", "memory"):
                sums[name] = sums.get(name, Fraction(0)) + (amount_of(text) or 0)
                texts[name] = text if name not in texts else exact_text(sums[name])
    usual = {**limits, **texts}
    missing = {name: usual[name] for name in usual if name not in requests and _is_of_pods(name)}
    if missing:
        resources["requests"] = {**requests, **missing}


def _is_of_pods(name: str) -> bool:
    return name in ("cpu", "memory") or name.startswith("hugepages-")


def _request_limits(resources: Object) -> None:
    """Set missing requests to the limits."""
    limits = resources.get("limits")
    if limits:
        resources["requests"] = {**limits, **resources.get("requests", {})}


def _node_status(obj: Object) -> None:
    if obj.get("capacity"):
        obj.setdefault("allocatable", dict(obj["capacity"]))


def _secret(obj: Object) -> None:
    texts = obj.pop("stringData", None)
    if texts:
        coded = {key: base64.b64encode(text.encode()).decode() for key, text in texts.items()}
        obj["data"] = {**obj.get("data", {}), **coded}


def _service_spec(obj: Object) -> None:
    kind = obj["type"]
    if obj["sessionAffinity"] == "None":
        obj.pop("sessionAffinityConfig", None)
    if obj["sessionAffinity"] == "ClientIP":
        client = obj.setdefault("sessionAffinityConfig", {}).setdefault("clientIP", {})
        client.setdefault("timeoutSeconds", 10800)
    if kind in ("NodePort", "LoadBalancer") or (kind == "ClusterIP" and obj.get("externalIPs")):
        obj.setdefault("externalTrafficPolicy", "Cluster")
    if kind in ("ClusterIP", "NodePort", "LoadBalancer"):
        obj.setdefault("internalTrafficPolicy", "Cluster")
    if kind == "LoadBalancer":
        obj.setdefault("allocateLoadBalancerNodePorts", True)


def _service_port(obj: Object) -> None:
    if not obj.get("targetPort"):
        obj["targetPort"] = obj.get("port", 0)


def _limit(obj: Object) -> None:
    """Set defaults for containers: the default limit is the maximum; the default request is that, then the minimum."""
    if obj.get("type") != "Container":
        return
    default = {**obj.get("max", _NO_LIMIT), **obj.get("default", _NO_LIMIT)}
    request = {**obj.get("min", _NO_LIMIT), **default, **obj.get("defaultRequest", _NO_LIMIT)}
    if default:
        obj["default"] = default
    if request:
        obj["defaultRequest"] = request


def _rolling(obj: Object) -> None:
    if obj["type"] == "RollingUpdate":
        obj.setdefault("rollingUpdate", {})


def _stateful_set_spec(obj: Object) -> None:
    for claim in obj.get("volumeClaimTemplates", ()):
        claim.update(kind="PersistentVolumeClaim", apiVersion="v1")


def _job(obj: Object) -> None:
    spec = obj.setdefault("spec", {})
    if "completions" not in spec and "parallelism" not in spec:
        spec["completions"] = 1
    spec.setdefault("parallelism", 1)
    spec.setdefault("backoffLimit", _LARGEST_INT32 if "backoffLimitPerIndex" in spec else 6)
    spec.setdefault("completionMode", "NonIndexed")
    spec.setdefault("suspend", False)
    spec.setdefault("manualSelector", False)
    spec.setdefault("podReplacementPolicy", "Failed" if "podFailurePolicy" in spec else "TerminatingOrFailed")
    labels = (spec.get("template", {}).get("metadata") or {}).get("labels")
    if labels and not obj["metadata"].get("labels"):
        obj["metadata"]["labels"] = dict(labels)


def _subject(obj: Object) -> None:
    if obj.get("kind") in ("User", "Group"):
        obj.setdefault("apiGroup", _RBAC_GROUP)


def _role_reference(obj: Object) -> None:
    if not obj.get("apiGroup"):
        obj["apiGroup"] = _RBAC_GROUP


def _pod_spec(obj: Object) -> None:
    """Set the deprecated field of the service account to the same name."""
    account = obj.get("serviceAccountName") or obj.get("serviceAccount")
    if account:
        obj["serviceAccountName"] = obj["serviceAccount"] = account


def _network_policy_spec(obj: Object) -> None:
    if not obj.get("policyTypes"):
        obj["policyTypes"] = ["Ingress", "Egress"] if obj.get("egress") else ["Ingress"]


def _resource_names(obj: Object) -> None:
    """Set the singular and list names of a custom resource from its kind."""
    kind = obj.get("kind", "")
    if kind:
        obj.setdefault("singular", kind.lower())
        obj.setdefault("listKind", f"{kind}List")


def _custom_resource_definition(obj: Object) -> None:
    names = obj.get("spec", {}).get("names")
    if names:
        _resource_names(names)


def _device_request(obj: Object) -> None:
    if not obj.get("allocationMode"):
        obj["allocationMode"] = "ExactCount"
    if obj["allocationMode"] == "ExactCount" and not obj.get("count"):
        obj["count"] = 1


def _flat_device_request(obj: Object) -> None:
    """Set defaults of a `v1beta1` request; one without a class has alternatives."""
    if obj.get("deviceClassName"):
        _device_request(obj)


_SCALING: Mapping[str, Object] = {
    "scaleUp": {
        "stabilizationWindowSeconds": 0,
        "selectPolicy": "Max",
        "policies": [
            {"type": "Pods", "value": 4, "periodSeconds": 15},
            {"type": "Percent", "value": 100, "periodSeconds": 15},
        ],
    },
    "scaleDown": {"selectPolicy": "Max", "policies": [{"type": "Percent", "value": 100, "periodSeconds": 15}]},
}


def _scaling_behavior(obj: Object) -> None:
    for part, usual in _SCALING.items():
        obj[part] = {**copy.deepcopy(usual), **(obj.get(part) or {})}


CODED_RULES: Mapping[str, Rule] = {
    "io.k8s.api.apps.v1.DaemonSetUpdateStrategy": _rolling,
    "io.k8s.api.autoscaling.v2.HorizontalPodAutoscalerBehavior": _scaling_behavior,
    "io.k8s.api.apps.v1.DeploymentStrategy": _rolling,
    "io.k8s.api.apps.v1.StatefulSetSpec": _stateful_set_spec,
    "io.k8s.api.apps.v1.StatefulSetUpdateStrategy": _rolling,
    "io.k8s.api.batch.v1.Job": _job,
    "io.k8s.api.core.v1.Container": _container,
    "io.k8s.api.core.v1.EphemeralContainer": _container,
    "io.k8s.api.core.v1.ImageVolumeSource": _image_volume,
    "io.k8s.api.core.v1.LimitRangeItem": _limit,
    "io.k8s.api.core.v1.NodeStatus": _node_status,
    "io.k8s.api.core.v1.Pod": _pod,
    "io.k8s.api.core.v1.PodSpec": _pod_spec,
    "io.k8s.api.core.v1.Secret": _secret,
    "io.k8s.api.core.v1.ServicePort": _service_port,
    "io.k8s.api.core.v1.ServiceSpec": _service_spec,
    "io.k8s.api.core.v1.Volume": _volume,
    "io.k8s.api.core.v1.VolumeProjection": _projection,
    "io.k8s.api.networking.v1.NetworkPolicySpec": _network_policy_spec,
    "io.k8s.api.rbac.v1.RoleRef": _role_reference,
    "io.k8s.api.rbac.v1.Subject": _subject,
    "io.k8s.api.resource.v1.DeviceSubRequest": _device_request,
    "io.k8s.api.resource.v1beta1.DeviceRequest": _flat_device_request,
    "io.k8s.api.resource.v1beta1.DeviceSubRequest": _device_request,
    "io.k8s.api.resource.v1beta2.DeviceSubRequest": _device_request,
    "io.k8s.api.resource.v1beta2.ExactDeviceRequest": _device_request,
    "io.k8s.api.resource.v1.ExactDeviceRequest": _device_request,
    "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.CustomResourceDefinition": _custom_resource_definition,
}
"""The rules, by definition."""
