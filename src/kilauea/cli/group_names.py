"""Names of pod groups in messages: a group with a workload as owner is named after it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from kilauea.api.kinds import KUBERNETES_GROUP
from kilauea.api.meta import Object
from kilauea.engine.model.jobs import SERVICE
from kilauea.engine.model.kubernetes_groups import key_from


class Owner(NamedTuple):
    """The workload that owns a pod group."""

    kind: str
    key: str


Owners = Mapping[str, Owner]
"""Owners by pod group (`namespace/name`); groups that a user created have none."""


def owners_of(objects: Iterable[Object]) -> Owners:
    """The owners of the pod groups among some objects."""
    found = {}
    for obj in objects:
        if obj.kind == "PodGroup":
            for owner in obj.metadata.owner_references or ():
                found[obj.key] = Owner(owner.kind, f"{obj.namespace}/{owner.name}")
        elif obj.kind == KUBERNETES_GROUP:
            for owner in obj.metadata.owner_references or ():
                if owner.controller:
                    found[key_from(obj.key)] = Owner(owner.kind, f"{obj.namespace}/{owner.name}")
    return found


def short(group: str, owners: Owners) -> str:
    """The name of a group's owner, or else of the group itself."""
    return owners[group].key if group in owners else group.replace(SERVICE, "")


def long(group: str, owners: Owners) -> str:
    """The kind and name of a group's owner, or else of the group: `job default/train`."""
    if group in owners:
        return f"{owners[group].kind.lower()} {owners[group].key}"
    return f"pod {short(group, owners)}" if SERVICE in group else f"pod group {group}"


def title(group: str, owners: Owners) -> str:
    """The name of a group as the first words of a sentence."""
    if group not in owners:
        words = long(group, owners)
        return words[0].upper() + words[1:]
    return f"{owners[group].kind} {owners[group].key} (pod group {group.partition('/')[2]})"
