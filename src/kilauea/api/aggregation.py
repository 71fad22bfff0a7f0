"""Cluster roles that combine others: those with the labels of their `aggregationRule`.

With them, the author of a definition adds permissions for its objects to `admin`, `edit` and `view`, by a role with the
label `rbac.authorization.k8s.io/aggregate-to-edit`, for example.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from kilauea.api.meta import LabelSelector
from kilauea.api.selectors import matches, selector_of

Role = Mapping[str, Any]


def aggregated_rules(role: Role, roles: Iterable[Role]) -> list[Any] | None:
    """Return the rules of an aggregated role, in the order of role names; None for a role that is not aggregated.

    Args:
        role: the role.
        roles: all cluster roles.
    """
    given = (role.get("aggregationRule") or {}).get("clusterRoleSelectors")
    if not given:
        return None
    selectors = [selector_of(each) for each in msgspec.convert(given, list[LabelSelector])]
    found: list[Any] = []
    for each in sorted(roles, key=_name):
        labels = each["metadata"].get("labels") or {}
        if _name(each) != _name(role) and any(matches(selector, labels) for selector in selectors):
            found += [rule for rule in each.get("rules") or () if rule not in found]
    return found


def _name(role: Role) -> str:
    return str(role["metadata"]["name"])
