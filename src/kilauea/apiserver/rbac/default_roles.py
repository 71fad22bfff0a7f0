"""Default roles and bindings: read access to discovery for authenticated users, and user-facing roles."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from kilauea.api.aggregation import aggregated_rules
from kilauea.apiserver.rbac.authorizer import GROUP
from kilauea.apiserver.request import GROUP_AUTHENTICATED, GROUP_MASTERS

Object = dict[str, Any]

_READ = ("get", "list", "watch")
_WRITE = ("create", "delete", "deletecollection", "patch", "update")
_BOTH = ("create", "delete", "deletecollection", "get", "list", "patch", "update", "watch")
_PUBLIC = ("/healthz", "/livez", "/readyz", "/version", "/version/")
_DISCOVERY = ("/api", "/api/*", "/apis", "/apis/*", "/openapi", "/openapi/*", *_PUBLIC)
AUTOMATIC = "rbac.authorization.kubernetes.io/autoupdate"
"""Annotation: if `true`, newer versions may change the role."""
_AGGREGATE = "rbac.authorization.k8s.io/aggregate-to-"
_EXTENSIONS = (
    "daemonsets", "deployments", "deployments/scale", "ingresses", "networkpolicies", "replicasets",
    "replicasets/scale", "replicationcontrollers/scale",
)  # fmt: skip
_APPS = ("daemonsets", "deployments", "deployments/scale", "replicasets", "replicasets/scale", "statefulsets",
         "statefulsets/scale")  # fmt: skip
_VOLCANO = {
    "batch.volcano.sh": ("cronjobs", "jobs"),
    "bus.volcano.sh": ("commands",),
    "flow.volcano.sh": ("jobflows", "jobtemplates"),
    "scheduling.volcano.sh": ("podgroups",),
}


def _rule(verbs: Sequence[str], groups: str | Sequence[str], resources: Sequence[str]) -> Object:
    listed = [groups] if isinstance(groups, str) else list(groups)
    return {"verbs": list(verbs), "apiGroups": listed, "resources": sorted(resources)}


def _statuses(resources: Sequence[str]) -> list[str]:
    """Return resources and their statuses; subresources have no status."""
    return [*resources, *(f"{each}/status" for each in resources if "/" not in each)]


def _view() -> list[Object]:
    kept = ("configmaps", "endpoints", "persistentvolumeclaims", "persistentvolumeclaims/status", "pods",
            "replicationcontrollers", "replicationcontrollers/scale", "serviceaccounts", "services",
            "services/status")  # fmt: skip
    beside = ("bindings", "limitranges", "namespaces/status", "pods/log", "pods/status",
              "replicationcontrollers/status", "resourcequotas", "resourcequotas/status")  # fmt: skip
    extensions = [each for each in _statuses(_EXTENSIONS) if each != "networkpolicies/status"]
    return [
        _rule(_READ, "", kept),
        _rule(_READ, "", beside),
        _rule(_READ, "", ("namespaces",)),
        _rule(_READ, ("", "events.k8s.io"), ("events",)),
        _rule(_READ, "discovery.k8s.io", ("endpointslices",)),
        _rule(_READ, "apps", ("controllerrevisions", *_statuses(_APPS))),
        _rule(_READ, "autoscaling", _statuses(("horizontalpodautoscalers",))),
        _rule(_READ, "batch", _statuses(("cronjobs", "jobs"))),
        _rule(_READ, "extensions", extensions),
        _rule(_READ, "policy", _statuses(("poddisruptionbudgets",))),
        _rule(_READ, "networking.k8s.io", ("networkpolicies", *_statuses(("ingresses",)))),
        _rule(_READ, "resource.k8s.io", ("resourceclaims", "resourceclaims/status", "resourceclaimtemplates")),
        _rule(_READ, "scheduling.k8s.io", ("podgroups", "podgroups/status", "workloads")),
    ]


def _edit() -> list[Object]:
    reached = ("pods/attach", "pods/exec", "pods/portforward", "pods/proxy")
    kept = ("configmaps", "persistentvolumeclaims", "replicationcontrollers", "replicationcontrollers/scale", "secrets",
            "serviceaccounts", "services", "services/proxy")  # fmt: skip
    return [
        _rule(_READ, "", (*reached, "secrets", "services/proxy")),
        _rule(("impersonate",), "", ("serviceaccounts",)),
        _rule(_WRITE, "", ("pods", *reached)),
        _rule(("create",), "", ("pods/eviction",)),
        _rule(_WRITE, "", kept),
        _rule(("create",), "", ("serviceaccounts/token",)),
        _rule(_WRITE, ("", "events.k8s.io"), ("events",)),
        _rule(_WRITE, "apps", (*_APPS, "deployments/rollback")),
        _rule(_WRITE, "autoscaling", ("horizontalpodautoscalers",)),
        _rule(_WRITE, "batch", ("cronjobs", "jobs")),
        _rule(_WRITE, "extensions", (*_EXTENSIONS, "deployments/rollback")),
        _rule(_WRITE, "policy", ("poddisruptionbudgets",)),
        _rule(_WRITE, "networking.k8s.io", ("ingresses", "networkpolicies")),
        _rule(_BOTH, "coordination.k8s.io", ("leases",)),
        _rule(_WRITE, "resource.k8s.io", ("resourceclaims", "resourceclaimtemplates")),
        _rule(_WRITE, "scheduling.k8s.io", ("podgroups", "workloads")),
    ]


def _admin() -> list[Object]:
    return [
        _rule(("create",), "authorization.k8s.io", ("localsubjectaccessreviews",)),
        _rule(_BOTH, GROUP, ("rolebindings", "roles")),
    ]


_ISSUER = (
    "/.well-known/openid-configuration",
    "/.well-known/openid-configuration/",
    "/openid/v1/jwks",
    "/openid/v1/jwks/",
)


def _added() -> dict[str, list[Object]]:
    """Return rules of namespace roles beyond those of Kubernetes: the objects of Volcano, and usage of pods."""
    read = [_rule(_READ, group, _statuses(plurals)) for group, plurals in _VOLCANO.items()]
    write = [_rule(_WRITE, group, plurals) for group, plurals in _VOLCANO.items()]
    return {"view": [*read, _rule(_READ, "metrics.k8s.io", ("nodes", "pods"))], "edit": write}


def _roles() -> list[Object]:
    """Return the cluster roles; aggregated ones have their rules from the start."""
    everything = [_rule(("*",), "*", ("*",)), {"verbs": ["*"], "nonResourceURLs": ["*"]}]
    reviews = [
        _rule(("create",), "authorization.k8s.io", ("selfsubjectaccessreviews", "selfsubjectrulesreviews")),
        _rule(("create",), "authentication.k8s.io", ("selfsubjectreviews",)),
    ]
    delegated = [
        _rule(("create",), "authentication.k8s.io", ("tokenreviews",)),
        _rule(("create",), "authorization.k8s.io", ("subjectaccessreviews",)),
    ]
    found = [
        _role("cluster-admin", everything),
        _role("system:auth-delegator", delegated),
        _role("system:basic-user", reviews),
        _role("system:discovery", [{"verbs": ["get"], "nonResourceURLs": list(_DISCOVERY)}]),
        _role("system:public-info-viewer", [{"verbs": ["get"], "nonResourceURLs": list(_PUBLIC)}]),
        _role("system:service-account-issuer-discovery", [{"verbs": ["get"], "nonResourceURLs": list(_ISSUER)}]),
        *(_role(f"system:aggregate-to-{name}", rules, name) for name, rules in _NAMED.items()),
        *(_role(f"kilauea:aggregate-to-{name}", rules, name) for name, rules in _added().items()),
    ]
    for name, above in (("view", "edit"), ("edit", "admin"), ("admin", "")):
        role = _role(name, [], above)
        role["aggregationRule"] = {"clusterRoleSelectors": [{"matchLabels": {f"{_AGGREGATE}{name}": "true"}}]}
        role["rules"] = aggregated_rules(role, found)
        found.append(role)
    return found


_NAMED = {"view": _view(), "edit": _edit(), "admin": _admin()}


def _role(name: str, rules: Sequence[Object], aggregate_to: str = "") -> Object:
    metadata = _metadata(name)
    if aggregate_to:
        metadata["labels"][f"{_AGGREGATE}{aggregate_to}"] = "true"
    return {"apiVersion": f"{GROUP}/v1", "kind": "ClusterRole", "metadata": metadata, "rules": list(rules)}


_BOUND = {
    "cluster-admin": (GROUP_MASTERS,),
    "system:basic-user": (GROUP_AUTHENTICATED,),
    "system:discovery": (GROUP_AUTHENTICATED,),
    "system:public-info-viewer": (GROUP_AUTHENTICATED, "system:unauthenticated"),
    "system:service-account-issuer-discovery": ("system:serviceaccounts",),
}
"""The groups that a role is bound to."""


def default_roles() -> Iterator[tuple[str, Object]]:
    """Yield the path to create each role or binding, and the object."""
    version = f"{GROUP}/v1"
    for role in _roles():
        yield f"/apis/{version}/clusterroles", role
    yield _authentication_reader()
    for name, groups in _BOUND.items():
        yield f"/apis/{version}/clusterrolebindings", {
            "apiVersion": version, "kind": "ClusterRoleBinding", "metadata": _metadata(name),
            "roleRef": {"apiGroup": GROUP, "kind": "ClusterRole", "name": name},
            "subjects": [{"apiGroup": GROUP, "kind": "Group", "name": group} for group in groups],
        }  # fmt: skip


def _authentication_reader() -> tuple[str, Object]:
    """Return the path and the role for aggregated API servers to read the authentication ConfigMap."""
    rule = {**_rule(_READ, "", ("configmaps",)), "resourceNames": ["extension-apiserver-authentication"]}
    metadata = {**_metadata("extension-apiserver-authentication-reader"), "namespace": "kube-system"}
    version = f"{GROUP}/v1"
    role = {"apiVersion": version, "kind": "Role", "metadata": metadata, "rules": [rule]}
    return f"/apis/{version}/namespaces/kube-system/roles", role


def _metadata(name: str) -> Object:
    marks: Object = {"kubernetes.io/bootstrapping": "rbac-defaults"}
    return {"name": name, "labels": marks, "annotations": {AUTOMATIC: "true"}}
