"""Privilege escalation is prevented: a role or binding may only grant what its writer is allowed to do.

A user with the verb `escalate` on a role may write anything into it; one with `bind` may bind any subject.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from functools import reduce
from itertools import product
from operator import and_
from typing import Any

import msgspec

from kilauea.apiserver.admission import AdmissionStep, Attributes, forbidden
from kilauea.apiserver.rbac.authorizer import GROUP, Action, Authorizer, is_below
from kilauea.apiserver.rbac.records import PolicyRule, RoleRef
from kilauea.apiserver.request import GROUP_MASTERS

_ANY = "*"
_Words = tuple[Collection[str], ...]
"""Verbs, groups, resources, names and paths of a rule."""
_EVERYTHING = (
    PolicyRule(verbs=(_ANY,), api_groups=(_ANY,), resources=(_ANY,)),
    PolicyRule(verbs=(_ANY,), non_resource_urls=(_ANY,)),
)
_ROLES, _BINDINGS = ("roles", "clusterroles"), ("rolebindings", "clusterrolebindings")


class Escalation(AdmissionStep):
    """Refuses roles and bindings that give more than their writer has."""

    name = "RBACEscalation"

    def validate(self, attributes: Attributes) -> None:
        """Look at a role or binding that is written."""
        resource, obj = attributes.resource, attributes.obj
        if resource.group != GROUP or obj is None or GROUP_MASTERS in attributes.user.groups:
            return
        authorizer = Authorizer(attributes.backend.store)
        namespace = attributes.namespace
        if resource.plural in _ROLES:
            rules = msgspec.convert(obj.get("rules") or (), tuple[PolicyRule, ...])
            if any((each or {}).get("aggregationRule") for each in (obj, attributes.old)):
                rules = _EVERYTHING  # it gathers whatever others are given later
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
        held = Held(grant.rule for grant in authorizer.grants(attributes.user, namespace))
        missing = [rule for rule in rules if not held.covers(rule)]
        if missing:
            raise forbidden(attributes, _told(attributes, missing))


def _not_found(attributes: Attributes, reference: RoleRef) -> Exception:
    return forbidden(attributes, f'the {reference.kind} "{reference.name}" that is bound does not exist')


class Held:
    """The rules that a user holds, each as a bit of a number.

    A rule stands for each combination of its verbs, groups, resources and names: 300 of each are 27 million actions.
    So the words of one kind are reduced to the sets of held rules that have them, of which there are few.
    """

    def __init__(self, rules: Iterable[PolicyRule]) -> None:
        self._rules = [
            (
                *map(frozenset, (each.verbs, each.api_groups, each.resources, each.resource_names)),
                each.non_resource_urls,
            )
            for each in rules
        ]

    def covers(self, rule: PolicyRule) -> bool:
        """Return True if each action that a rule allows is allowed by a rule that is held."""
        verbs = self._sets(rule.verbs, lambda verb, held: verb in held[0] or _ANY in held[0])
        resources = (
            self._sets(rule.api_groups, lambda group, held: group in held[1] or _ANY in held[1]),
            self._sets(rule.resources, lambda resource, held: _has(resource, held[2])),
            self._sets(rule.resource_names or ("",), lambda name, held: not held[3] or name in held[3]),
        )
        paths = self._sets(rule.non_resource_urls, lambda path, held: any(is_below(path, each) for each in held[4]))
        return all(map(_common, product(verbs, *resources))) and all(map(_common, product(verbs, paths)))

    def _sets(self, words: Iterable[str], has: Callable[[str, _Words], bool]) -> list[int]:
        """The sets of held rules that have a word; of those that contain one another only the smallest decide."""
        found = {sum(1 << bit for bit, held in enumerate(self._rules) if has(word, held)) for word in set(words)}
        return [each for each in found if not any(other != each and other & each == other for other in found)]


def _has(resource: str, held: Collection[str]) -> bool:
    """Return True if one of the resources of a held rule is this one, which may have a subresource."""
    subresource = resource.partition("/")[2]
    return resource in held or _ANY in held or (bool(subresource) and f"{_ANY}/{subresource}" in held)


def _common(sets: Iterable[int]) -> bool:
    return reduce(and_, sets) != 0


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
