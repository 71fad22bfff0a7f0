"""HyperNodes from labels of nodes.

Nodes with the same value of a label form a HyperNode; these form larger ones by the next label, up to the top. The
chain of a node ends at the first label that it lacks. Network types with the same label share its HyperNodes.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from kilauea.api.kinds import HYPER_NODES
from kilauea.api.ports import Obj
from kilauea.controllers.hashes import suffixes
from kilauea.controllers.objects import labels_of, name_of

SOURCE = "volcano.sh/network-topology-source"


class Domain(NamedTuple):
    """A value of a label."""

    label: str
    value: str


@dataclass
class DomainMembers:
    """The members of a domain, collected from labels."""

    type: str
    tier: int
    members: set[Domain | str] = field(default_factory=set)
    """Names of nodes, or domains."""


def domains_of(nodes: Iterable[Obj], types: Mapping[str, Sequence[str]]) -> dict[Domain, DomainMembers]:
    """The domains of nodes, by the labels of each type from the node upwards."""
    found: dict[Domain, DomainMembers] = {}
    for type, labels in types.items():
        for node in nodes:
            member: Domain | str = name_of(node)
            for tier, label in enumerate(labels, 1):
                value = labels_of(node).get(label)
                if not value:
                    break
                domain = Domain(label, value)
                found.setdefault(domain, DomainMembers(type, tier)).members.add(member)
                member = domain
    return found


def hypernodes_of(found: Mapping[Domain, DomainMembers], existing: Iterable[Obj], taken: Collection[str]) -> list[Obj]:
    """Build the objects of domains.

    Args:
        found: the domains.
        existing: existing discovered objects, whose names are kept.
        taken: names of all existing objects.
    """
    there = sorted(existing, key=name_of)
    names: dict[Domain, str] = {}
    for domain, content in found.items():
        names[domain] = _name(domain, content, there, {*taken, *names.values()})
    return [_hypernode(domain, content, names) for domain, content in found.items()]


def _name(domain: Domain, content: DomainMembers, existing: Sequence[Obj], taken: Collection[str]) -> str:
    cleaned = re.sub(r"[^a-z0-9.-]", "-", content.type.lower())
    cleaned = re.sub(r"[.-]*[.][.-]*", ".", cleaned).strip(".-")  # no part of a name may begin or end with a hyphen
    prefix = f"hypernode-{cleaned}-tier{content.tier}-"
    for each in existing:
        if name_of(each).startswith(prefix) and labels_of(each).get(domain.label) == domain.value:
            return name_of(each)
    free = (prefix + suffix for suffix in suffixes(f"{content.type} {domain.label}={domain.value}"))
    return next(name for name in free if name not in taken)


def _hypernode(domain: Domain, content: DomainMembers, names: Mapping[Domain, str]) -> dict[str, Any]:
    members = sorted(names[each] if isinstance(each, Domain) else each for each in content.members)
    kind = "Node" if content.tier == 1 else "HyperNode"
    return {
        "apiVersion": HYPER_NODES.api_version,
        "kind": HYPER_NODES.kind,
        "metadata": {"name": names[domain], "labels": {SOURCE: "label", domain.label: domain.value}},
        "spec": {
            "tier": content.tier,
            "tierName": domain.label,
            "members": [{"type": kind, "selector": {"exactMatch": {"name": name}}} for name in members],
        },
    }
