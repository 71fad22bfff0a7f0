"""The rules of roles and their bindings."""

from __future__ import annotations

from collections.abc import Iterator

from kilauea.api.names import path_segment_problems, subdomain_problems
from kilauea.apiserver.fields import (
    check_label_selector,
    check_name,
    check_required_name,
    invalid_value,
    not_supported,
    required,
)
from kilauea.apiserver.status import Cause
from kilauea.apiserver.strategies.base import Object
from kilauea.apiserver.strategies.core import Plain

GROUP = "rbac.authorization.k8s.io"
_SUBJECTS = ("ServiceAccount", "User", "Group")


class Roles(Plain):
    """Roles."""

    name_problems = staticmethod(path_segment_problems)
    of_namespace = True
    """True if rules cannot have non-resource URLs."""

    def validate(self, obj: Object) -> list[Cause]:
        """Return the errors in the rules of a role."""
        rules = enumerate(obj.get("rules") or [])
        return [cause for number, rule in rules for cause in _check_rule(f"rules[{number}]", rule, self.of_namespace)]


class ClusterRoles(Roles):
    """Cluster roles, which may aggregate others."""

    of_namespace = False

    def validate(self, obj: Object) -> list[Cause]:
        """Return the errors in a cluster role."""
        causes = super().validate(obj)
        if obj.get("aggregationRule") is None:
            return causes
        selectors, path = (
            obj["aggregationRule"].get("clusterRoleSelectors") or [],
            "aggregationRule.clusterRoleSelectors",
        )
        if not selectors:
            message = "at least one clusterRoleSelector required if aggregationRule is non-nil"
            causes.append(required(path, message))
        for number, selector in enumerate(selectors):
            problems = check_label_selector(f"{path}[{number}]", selector)
            causes += problems
            if problems:
                causes.append(invalid_value(f"{path}[{number}]", None, "invalid label selector."))
        return causes


def _check_rule(path: str, rule: Object, of_namespace: bool) -> Iterator[Cause]:
    groups, resources, urls = (rule.get(field) or [] for field in ("apiGroups", "resources", "nonResourceURLs"))
    if not rule.get("verbs"):
        yield required(f"{path}.verbs", "verbs must contain at least one value")
    if urls:
        if of_namespace:
            message = "namespaced rules cannot apply to non-resource URLs"
            yield invalid_value(f"{path}.nonResourceURLs", urls, message)
        if groups or resources or rule.get("resourceNames"):
            message = "rules cannot apply to both regular resources and non-resource URLs"
            yield invalid_value(f"{path}.nonResourceURLs", urls, message)
        return
    if not groups:
        yield required(f"{path}.apiGroups", "resource rules must supply at least one api group")
    if not resources:
        yield required(f"{path}.resources", "resource rules must supply at least one resource")


class RoleBindings(Plain):
    """Role bindings: their subjects may change, but not their role."""

    name_problems = staticmethod(path_segment_problems)
    roles: tuple[str, ...] = ("Role", "ClusterRole")
    """Kinds of roles that can be bound."""

    def validate(self, obj: Object) -> list[Cause]:
        """Return the errors in a binding: its role and its subjects."""
        role = obj.get("roleRef") or {}
        causes: list[Cause] = []
        if role.get("apiGroup") != GROUP:
            causes.append(not_supported("roleRef.apiGroup", role.get("apiGroup", ""), (GROUP,)))
        if role.get("kind") not in self.roles:
            causes.append(not_supported("roleRef.kind", role.get("kind", ""), self.roles))
        causes += check_required_name("roleRef.name", role.get("name") or "", path_segment_problems)
        for number, subject in enumerate(obj.get("subjects") or []):
            causes += _check_subject(f"subjects[{number}]", subject, isinstance(self, ClusterRoleBindings))
        return causes

    def validate_update(self, obj: Object, old: Object) -> list[Cause]:
        if obj.get("roleRef") != old.get("roleRef"):
            role = obj.get("roleRef") or {}
            parts = (("APIGroup", "apiGroup"), ("Kind", "kind"), ("Name", "name"))
            told = {name: role.get(field, "") for name, field in parts}
            return [invalid_value("roleRef", told, "cannot change roleRef")]
        return []


class ClusterRoleBindings(RoleBindings):
    """Bindings of cluster roles in all namespaces."""

    roles = ("ClusterRole",)


def _check_subject(path: str, subject: Object, needs_namespace: bool) -> Iterator[Cause]:
    kind, name, group = (subject.get(field) or "" for field in ("kind", "name", "apiGroup"))
    if not name:
        yield required(f"{path}.name")
    if kind == "ServiceAccount":
        yield from check_name(f"{path}.name", name, subdomain_problems(name) if name else ())
        if group:
            yield not_supported(f"{path}.apiGroup", group, ("",))
        if needs_namespace and not subject.get("namespace"):
            yield required(f"{path}.namespace")
    elif kind in _SUBJECTS:
        if group != GROUP:
            yield not_supported(f"{path}.apiGroup", group, (GROUP,))
    else:
        yield not_supported(f"{path}.kind", kind, _SUBJECTS)
