"""Decides whether a user may do something: some rule of some role that is bound to the user must allow it.

Nodes may besides read what their pods name (`nodes.py`).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from kilauea.apiserver import status
from kilauea.apiserver.rbac.nodes import READABLE, is_needed, node_of
from kilauea.apiserver.rbac.records import Binding, PolicyRule, Role, RoleRef, Subject, binding_of, role_of
from kilauea.apiserver.request import GROUP_MASTERS, RequestInfo, User
from kilauea.apiserver.status import ApiFault
from kilauea.apiserver.storage import Store

HISTORY_GROUP = "history.kilauea.dev"
"""The group of the history of jobs: reading it is allowed where listing the Jobs of Volcano is."""
_LIST_JOBS = ("list", "batch.volcano.sh", "jobs")
GROUP = "rbac.authorization.k8s.io"
_ANY = "*"


class Action(NamedTuple):
    """An action to authorize: on a resource, or on a path where that is not empty."""

    verb: str
    group: str = ""
    resource: str = ""
    subresource: str = ""
    namespace: str = ""
    name: str = ""
    path: str = ""

    @property
    def whole_resource(self) -> str:
        """The resource with its subresource, as rules name it."""
        return f"{self.resource}/{self.subresource}" if self.subresource else self.resource


class Grant(NamedTuple):
    """A rule, the namespace that it is bound in (empty for all), and how the user came to it."""

    rule: PolicyRule
    namespace: str
    source: str


def action_of(method: str, path: str, info: RequestInfo | None) -> Action:
    """Return the action of a request."""
    if info is None:
        return Action(method.lower(), path=path)
    return Action(info.verb, info.group, info.resource, info.subresource, info.namespace, info.name)


class Authorizer:
    """Reads the roles and bindings of a store; who is of `system:masters` may do everything."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def reason(self, user: User, action: Action) -> str | None:
        """Return the reason why an action is allowed (empty for masters); None if it is not."""
        if GROUP_MASTERS in user.groups:
            return ""
        action = _meant(action)
        for grant in self.grants(user, action.namespace):
            if allows(grant.rule, action):
                return f"RBAC: allowed by {grant.source}"
        return self._reason_of_node(user, action)

    def _reason_of_node(self, user: User, action: Action) -> str | None:
        """Return the reason why a node may read what its pods name; None for others and other objects."""
        if (action.verb, action.group) != ("get", "") or action.resource not in READABLE or action.subresource:
            return None
        node = node_of(user)
        if not node or not is_needed(self._store, node, action.resource, action.namespace, action.name):
            return None
        return f"Node: a pod on {node} names it"

    def check(self, user: User, action: Action) -> None:
        """Refuse what a user may not do.

        Raises:
            ApiFault: it is not allowed (403).
        """
        if self.reason(user, action) is None:
            raise refusal(user, action)

    def grants(self, user: User, namespace: str) -> Iterator[Grant]:
        """Everything that a user may do in a namespace, or in the cluster if that is empty."""
        for stored in self._store.list(f"/{GROUP}/clusterrolebindings/").items:
            yield from self._granted(user, "ClusterRoleBinding", binding_of(stored.value), "")
        if namespace:
            for stored in self._store.list(f"/{GROUP}/rolebindings/{namespace}/").items:
                yield from self._granted(user, "RoleBinding", binding_of(stored.value), namespace)

    def _granted(self, user: User, kind: str, binding: Binding, namespace: str) -> Iterator[Grant]:
        subject = next((each for each in binding.subjects or () if _is_meant(each, user, namespace)), None)
        role = self.role(binding.role_ref, namespace) if subject is not None else None
        if subject is None or role is None:
            return
        name = f"{binding.metadata.name}/{namespace}" if namespace else binding.metadata.name
        source = (
            f'{kind} "{name}" of {binding.role_ref.kind} "{role.metadata.name}" to {_described(subject, namespace)}'
        )
        for rule in role.rules or ():
            yield Grant(rule, namespace, source)

    def role(self, reference: RoleRef, namespace: str) -> Role | None:
        """The role that a binding names."""
        where = (
            f"clusterroles/{reference.name}"
            if reference.kind == "ClusterRole"
            else f"roles/{namespace}/{reference.name}"
        )
        stored = self._store.get(f"/{GROUP}/{where}")
        return role_of(stored.value) if stored is not None else None


def _meant(action: Action) -> Action:
    """Return the action that has to be allowed for an action."""
    if action.group == HISTORY_GROUP and action.verb in ("get", "list"):
        return Action(*_LIST_JOBS, namespace=action.namespace)
    return action


def _is_meant(subject: Subject, user: User, namespace: str) -> bool:
    """Return True if a subject of a binding is the user or a group of the user."""
    if subject.kind == "Group":
        return subject.name in user.groups
    if subject.kind == "ServiceAccount":
        return user.name == f"system:serviceaccount:{subject.namespace or namespace}:{subject.name}"
    return subject.kind == "User" and subject.name == user.name


def _described(subject: Subject, namespace: str) -> str:
    if subject.kind == "ServiceAccount":
        return f'{subject.kind} "{subject.name}/{subject.namespace or namespace}"'
    return f'{subject.kind} "{subject.name}"'


def allows(rule: PolicyRule, action: Action) -> bool:
    """Return True if a rule allows an action."""
    if action.verb not in rule.verbs and _ANY not in rule.verbs:
        return False
    if action.path:
        return any(is_below(action.path, pattern) for pattern in rule.non_resource_urls)
    return (
        (action.group in rule.api_groups or _ANY in rule.api_groups)
        and _has_resource(rule, action)
        and (not rule.resource_names or action.name in rule.resource_names)
    )


def _has_resource(rule: PolicyRule, action: Action) -> bool:
    resources = rule.resources
    if action.whole_resource in resources or _ANY in resources:
        return True
    return bool(action.subresource) and f"{_ANY}/{action.subresource}" in resources


def is_below(path: str, pattern: str) -> bool:
    """Return True if a path is one that a rule names, which may end in a star."""
    if pattern.endswith(_ANY):
        return path.startswith(pattern[:-1])
    return path == pattern


def refusal(user: User, action: Action) -> ApiFault:
    """Return the error for an action that is not allowed."""
    if action.path:
        return ApiFault(
            403, "Forbidden", f'forbidden: User "{user.name}" cannot {action.verb} path "{action.path}"', {}
        )
    where = f'in the namespace "{action.namespace}"' if action.namespace else "at the cluster scope"
    why = f'cannot {action.verb} resource "{action.whole_resource}" in API group "{action.group}" {where}'
    return status.forbidden(action.resource, action.group, action.name, f'User "{user.name}" {why}')
