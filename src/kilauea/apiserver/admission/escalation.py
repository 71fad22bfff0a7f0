"""Prevention of privilege escalation: a role or binding may only grant permissions that its author has.

A user with the verb `escalate` on a role may write anything into it; one with `bind` may bind any subject.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import msgspec

from kilauea.apiserver.admission import AdmissionStep, forbidden
from kilauea.apiserver.admission.attributes import Attributes
from kilauea.apiserver.rbac.authorizer import GROUP, Action
from kilauea.apiserver.rbac.coverage import missing_of
from kilauea.apiserver.rbac.records import PolicyRule, RoleRef
from kilauea.apiserver.request import GROUP_MASTERS

_ANY = "*"
_EVERYTHING = (
    PolicyRule(verbs=(_ANY,), api_groups=(_ANY,), resources=(_ANY,)),
    PolicyRule(verbs=(_ANY,), non_resource_urls=(_ANY,)),
)
_TOO_LONG = (
    "comparing its rules with those that the user has takes too long: use fewer rules, with more names in each of them"
)
_ROLES, _BINDINGS = ("roles", "clusterroles"), ("rolebindings", "clusterrolebindings")


class Escalation(AdmissionStep):
    """Rejects roles and bindings that grant more than their author has."""

    name = "RBACEscalation"

    def validate(self, attributes: Attributes) -> None:
        """Check a role or binding that is written."""
        resource, obj = attributes.resource, attributes.obj
        if resource.group != GROUP or obj is None or GROUP_MASTERS in attributes.user.groups:
            return
        authorizer = attributes.backend.authorizer
        namespace = attributes.namespace
        if resource.plural in _ROLES:
            rules = msgspec.convert(obj.get("rules") or (), tuple[PolicyRule, ...])
            if any((each or {}).get("aggregationRule") for each in (obj, attributes.old)):
                rules = _EVERYTHING  # it aggregates roles that may change later
            action = Action("escalate", GROUP, resource.plural, "", namespace, attributes.object_name())
        elif resource.plural in _BINDINGS:
            reference = msgspec.convert(obj.get("roleRef") or {}, RoleRef)
            role = authorizer.role(reference, namespace)
            if role is None:
                raise _not_found(attributes, reference)
            rules = role.rules or ()
            plural = "clusterroles" if reference.kind == "ClusterRole" else "roles"
            action = Action("bind", GROUP, plural, "", namespace, reference.name)
        else:
            return
        if authorizer.reason(attributes.user, action) is not None:
            return
        missing = missing_of(rules, [grant.rule for grant in authorizer.grants(attributes.user, namespace)])
        if missing is None:
            raise forbidden(attributes, _TOO_LONG)
        if missing:
            raise forbidden(attributes, _told(attributes, missing))


def _not_found(attributes: Attributes, reference: RoleRef) -> Exception:
    return forbidden(attributes, f'the {reference.kind} "{reference.name}" that is bound does not exist')


def _told(attributes: Attributes, missing: list[PolicyRule]) -> str:
    groups = " ".join(f'"{each}"' for each in attributes.user.groups)
    message = (
        f'user "{attributes.user.name}" (groups=[{groups}]) is attempting to grant RBAC permissions not currently held'
    )
    return "\n".join([f"{message}:", *map(_shown, missing)])


def _shown(rule: PolicyRule) -> str:
    parts: list[tuple[str, Any]] = [
        ("APIGroups", rule.api_groups),
        ("Resources", rule.resources),
        ("ResourceNames", rule.resource_names),
        ("NonResourceURLs", rule.non_resource_urls),
        ("Verbs", rule.verbs),
    ]
    listed = (f"{title}:[{_quoted(values)}]" for title, values in parts if values)
    return "{" + ", ".join(listed) + "}"


def _quoted(values: Iterable[str]) -> str:
    return " ".join(f'"{each}"' for each in values)
