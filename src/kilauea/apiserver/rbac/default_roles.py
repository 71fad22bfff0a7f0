"""The roles and bindings that every cluster has: who is known may look around, and roles to give to people."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from kilauea.apiserver.rbac.authorizer import GROUP
from kilauea.apiserver.request import GROUP_AUTHENTICATED, GROUP_MASTERS

Object = dict[str, Any]

_READ = ("get", "list", "watch")
_WRITE = ("create", "delete", "deletecollection", "patch", "update")
_PUBLIC = ("/healthz", "/livez", "/readyz", "/version", "/version/")
_DISCOVERY = ("/api", "/api/*", "/apis", "/apis/*", "/openapi", "/openapi/*", *_PUBLIC)
_VOLCANO = {
    "batch.volcano.sh": ("cronjobs", "jobs"),
    "bus.volcano.sh": ("commands",),
    "flow.volcano.sh": ("jobflows", "jobtemplates"),
    "scheduling.volcano.sh": ("podgroups",),
}
_WORKED_WITH = {
    "": ("configmaps", "persistentvolumeclaims", "pods", "replicationcontrollers", "replicationcontrollers/scale",
         "serviceaccounts", "services"),
    "apps": ("daemonsets", "deployments", "deployments/scale", "replicasets", "replicasets/scale", "statefulsets",
             "statefulsets/scale"),
    "autoscaling": ("horizontalpodautoscalers",),
    "batch": ("cronjobs", "jobs"),
    "networking.k8s.io": ("ingresses", "networkpolicies"),
    "policy": ("poddisruptionbudgets",),
    **_VOLCANO,
}  # fmt: skip
"""Resources that the roles of a namespace allow to edit, by group."""
_LOOKED_AT = {
    "": ("endpoints", "events", "limitranges", "namespaces", "persistentvolumeclaims/status", "pods/log", "pods/status",
         "replicationcontrollers/status", "resourcequotas", "resourcequotas/status", "services/status"),
    "apps": ("controllerrevisions", "daemonsets/status", "deployments/status", "replicasets/status",
             "statefulsets/status"),
    "autoscaling": ("horizontalpodautoscalers/status",),
    "batch": ("cronjobs/status", "jobs/status"),
    "discovery.k8s.io": ("endpointslices",),
    "metrics.k8s.io": ("nodes", "pods"),
    "networking.k8s.io": ("ingresses/status",),
    "policy": ("poddisruptionbudgets/status",),
    **{group: tuple(f"{each}/status" for each in plurals) for group, plurals in _VOLCANO.items()},
}  # fmt: skip


def _rule(verbs: Sequence[str], group: str, resources: Sequence[str]) -> Object:
    return {"verbs": list(verbs), "apiGroups": [group], "resources": list(resources)}


def _view() -> list[Object]:
    tables = (_WORKED_WITH, _LOOKED_AT)
    return [_rule(_READ, group, resources) for table in tables for group, resources in table.items()]


def _edit() -> list[Object]:
    own = [
        _rule((*_READ, *_WRITE), "", ("secrets",)),
        _rule(_WRITE, "", ("events", "pods/binding", "pods/eviction")),
        _rule(("create",), "", ("serviceaccounts/token",)),
        _rule(("impersonate",), "", ("serviceaccounts",)),
    ]
    return _view() + [_rule(_WRITE, group, resources) for group, resources in _WORKED_WITH.items()] + own


def _admin() -> list[Object]:
    own = [
        _rule((*_READ, *_WRITE), GROUP, ("roles", "rolebindings")),
        _rule(("create",), "authorization.k8s.io", ("localsubjectaccessreviews",)),
    ]
    return _edit() + own


_ISSUER = (
    "/.well-known/openid-configuration",
    "/.well-known/openid-configuration/",
    "/openid/v1/jwks",
    "/openid/v1/jwks/",
)


def _roles() -> dict[str, list[Object]]:
    """Cluster roles by name."""
    everything = [_rule(("*",), "*", ("*",)), {"verbs": ["*"], "nonResourceURLs": ["*"]}]
    reviews = [
        _rule(("create",), "authorization.k8s.io", ("selfsubjectaccessreviews", "selfsubjectrulesreviews")),
        _rule(("create",), "authentication.k8s.io", ("selfsubjectreviews",)),
    ]
    return {
        "admin": _admin(),
        "cluster-admin": everything,
        "edit": _edit(),
        "system:basic-user": reviews,
        "system:discovery": [{"verbs": ["get"], "nonResourceURLs": list(_DISCOVERY)}],
        "system:public-info-viewer": [{"verbs": ["get"], "nonResourceURLs": list(_PUBLIC)}],
        "system:service-account-issuer-discovery": [{"verbs": ["get"], "nonResourceURLs": _ISSUER}],
        "view": _view(),
    }


_BOUND = {
    "cluster-admin": (GROUP_MASTERS,),
    "system:basic-user": (GROUP_AUTHENTICATED,),
    "system:discovery": (GROUP_AUTHENTICATED,),
    "system:public-info-viewer": (GROUP_AUTHENTICATED, "system:unauthenticated"),
    "system:service-account-issuer-discovery": ("system:serviceaccounts",),
}
"""The groups that a role is bound to."""


def default_roles() -> Iterator[tuple[str, Object]]:
    """Yield the path under which each of the roles and bindings is created, and the object."""
    version = f"{GROUP}/v1"
    for name, rules in _roles().items():
        yield f"/apis/{version}/clusterroles", {
            "apiVersion": version, "kind": "ClusterRole", "metadata": _metadata(name), "rules": rules,
        }  # fmt: skip
    for name, groups in _BOUND.items():
        yield f"/apis/{version}/clusterrolebindings", {
            "apiVersion": version, "kind": "ClusterRoleBinding", "metadata": _metadata(name),
            "roleRef": {"apiGroup": GROUP, "kind": "ClusterRole", "name": name},
            "subjects": [{"apiGroup": GROUP, "kind": "Group", "name": group} for group in groups],
        }  # fmt: skip


def _metadata(name: str) -> Object:
    marks = {"kubernetes.io/bootstrapping": "rbac-defaults"}
    return {"name": name, "labels": marks, "annotations": {"rbac.authorization.kubernetes.io/autoupdate": "true"}}
