"""The priorities of the groups and versions of this server, as in Kubernetes."""

from __future__ import annotations

_GROUPS = {
    "apiregistration.k8s.io": 20_000,  # always the first
    "": 18000,
    "apps": 17800,
    "events.k8s.io": 17750,
    "authentication.k8s.io": 17700,
    "authorization.k8s.io": 17600,
    "autoscaling": 17500,
    "batch": 17400,
    "certificates.k8s.io": 17300,
    "networking.k8s.io": 17200,
    "policy": 17100,
    "rbac.authorization.k8s.io": 17000,
    "storage.k8s.io": 16800,
    "admissionregistration.k8s.io": 16700,
    "apiextensions.k8s.io": 16700,
    "scheduling.k8s.io": 16600,
    "coordination.k8s.io": 16500,
    "node.k8s.io": 16300,
    "discovery.k8s.io": 16200,
    "resource.k8s.io": 16200,
    "flowcontrol.apiserver.k8s.io": 16100,
}
_VERSIONS = {
    ("", "v1"): 1,
    ("autoscaling", "v2"): 30,
    ("flowcontrol.apiserver.k8s.io", "v1"): 21,
    ("resource.k8s.io", "v1"): 21,
    ("resource.k8s.io", "v1beta2"): 15,
    ("resource.k8s.io", "v1beta1"): 9,
    ("scheduling.k8s.io", "v1alpha2"): 2,
}
_BUILT_IN, _CUSTOM = 15, 100
_CUSTOM_GROUP = 1000


def group_priority(group: str) -> int:
    """Return the priority of a group, `groupPriorityMinimum`; that of custom resources unless built in."""
    return _GROUPS.get(group, _CUSTOM_GROUP)


def version_priority(group: str, version: str) -> int:
    """Return the priority of a version in its group, `versionPriority`."""
    return _VERSIONS.get((group, version), _BUILT_IN if group in _GROUPS else _CUSTOM)
