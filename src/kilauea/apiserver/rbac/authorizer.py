"""The authorizer: a user may perform an action if a rule of a role bound to the user allows it.

Nodes may also read the objects that their pods name (`nodes.py`).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from kilauea.apiserver import status
from kilauea.apiserver.rbac.bindings import Asker, Bindings, Bound
from kilauea.apiserver.rbac.nodes import READABLE, is_needed, node_of
from kilauea.apiserver.rbac.paths import is_below
from kilauea.apiserver.rbac.records import PolicyRule, Role, RoleRef, Subject
from kilauea.apiserver.rbac.roles import Roles, Sized
from kilauea.apiserver.request import GROUP_MASTERS, RequestInfo, User
from kilauea.apiserver.status import ApiFault
from kilauea.apiserver.storage import Store

HISTORY_GROUP = "history.kilauea.dev"
"""The group of the history of jobs: users who may list Volcano Jobs may read it."""
_LIST_JOBS = ("list", "batch.volcano.sh", "jobs")
GROUP = "rbac.authorization.k8s.io"
_ANY = "*"
MANY_BINDINGS = 128
"""Bindings of a namespace from which requests in it take turns: thousands of roles take 10 milliseconds and more."""
MOST_OF_ROLES = 1024 * 1024
"""Bytes in JSON of the roles bound to a user in one namespace; further ones are ignored."""


class Action(NamedTuple):
    """An action to authorize: on a resource, or on a path if that is not empty."""

    verb: str
    group: str = ""
    resource: str = ""
    subresource: str = ""
    namespace: str = ""
    name: str = ""
    path: str = ""

    @property
    def whole_resource(self) -> str:
        """The resource with its subresource, as in rules."""
        return f"{self.resource}/{self.subresource}" if self.subresource else self.resource


class Grant(NamedTuple):
    """A rule, the binding that grants it to the user, and the namespace of that (empty for all)."""

    rule: PolicyRule
    bound: Bound
    namespace: str

    @property
    def source(self) -> str:
        """The reason why the rule applies to the user."""
        kind, name = "ClusterRoleBinding", self.bound.name
        if self.namespace:
            kind, name = "RoleBinding", f"{name}/{self.namespace}"
        role, who = self.bound.role, _described(self.bound.subject, self.namespace)
        return f'{kind} "{name}" of {role.kind} "{role.name}" to {who}'


def action_of(method: str, path: str, info: RequestInfo | None) -> Action:
    """Return the action of a request."""
    if info is None:
        return Action(method.lower(), path=path)
    return Action(info.verb, info.group, info.resource, info.subresource, info.namespace, info.name)


class Authorizer:
    """Authorizes by the roles and bindings of a store; members of `system:masters` may do everything."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._bindings = Bindings(store)
        self._roles = Roles(store)

    def takes_long(self, namespace: str) -> bool:
        """Return True if decisions about a namespace can take milliseconds, so that they should be made in turns."""
        return self._bindings.count(_bindings_in(namespace)) > MANY_BINDINGS

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
        """Return the reason why a node may read an object that its pods name; None for other users and objects."""
        if (action.verb, action.group) != ("get", "") or action.resource not in READABLE or action.subresource:
            return None
        node = node_of(user)
        if not node or not is_needed(self._store, node, action.resource, action.namespace, action.name):
            return None
        return f"Node: a pod on {node} names it"

    def check(self, user: User, action: Action) -> None:
        """Reject an action that a user may not perform.

        Raises:
            ApiFault: it is not allowed (403).
        """
        if self.reason(user, action) is None:
            raise refusal(user, action)

    def grants(self, user: User, namespace: str) -> Iterator[Grant]:
        """Yield all rules of a user in a namespace, or in the cluster if that is empty.

        A role that is bound to the user several times in a namespace is read once.
        """
        asker = Asker.of(user)
        for bound in self._bindings.of(asker, f"/{GROUP}/clusterrolebindings/", ""):
            found = self._role(bound.role, "")
            if found is not None:
                yield from _granted(bound, found.role, "")
        if not namespace:
            return
        seen: set[RoleRef] = set()
        size = 0
        for bound in self._bindings.of(asker, _bindings_in(namespace), namespace, but=seen):
            seen.add(bound.role)
            found = self._role(bound.role, namespace)
            if found is None:
                continue
            size += found.size
            if size > MOST_OF_ROLES:
                return
            yield from _granted(bound, found.role, namespace)

    def role(self, reference: RoleRef, namespace: str) -> Role | None:
        """Return the role that a binding names."""
        found = self._role(reference, namespace)
        return found.role if found is not None else None

    def _role(self, reference: RoleRef, namespace: str) -> Sized | None:
        where = (
            f"clusterroles/{reference.name}"
            if reference.kind == "ClusterRole"
            else f"roles/{namespace}/{reference.name}"
        )
        return self._roles.get(f"/{GROUP}/{where}")


def _bindings_in(namespace: str) -> str:
    """Return the prefix of the role bindings of a namespace."""
    return f"/{GROUP}/rolebindings/{namespace}/"


def _granted(bound: Bound, role: Role, namespace: str) -> Iterator[Grant]:
    """Yield the rules that a binding grants."""
    for rule in role.rules or ():
        yield Grant(rule, bound, namespace)


def _meant(action: Action) -> Action:
    """Return the action whose permission an action requires."""
    if action.group == HISTORY_GROUP and action.verb in ("get", "list"):
        return Action(*_LIST_JOBS, namespace=action.namespace)
    return action


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


def refusal(user: User, action: Action) -> ApiFault:
    """Return the error for an action that is not allowed."""
    if action.path:
        return ApiFault(
            403, "Forbidden", f'forbidden: User "{user.name}" cannot {action.verb} path "{action.path}"', {}
        )
    where = f'in the namespace "{action.namespace}"' if action.namespace else "at the cluster scope"
    why = f'cannot {action.verb} resource "{action.whole_resource}" in API group "{action.group}" {where}'
    return status.forbidden(action.resource, action.group, action.name, f'User "{user.name}" {why}')
