"""Names of pod groups for people: a group that a workload owns goes by the workload's name."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from kilauea.api.meta import Object


class Owner(NamedTuple):
    """The workload that a pod group was made for."""

    kind: str
    key: str


Owners = Mapping[str, Owner]
"""Owners by pod group (`namespace/name`); groups that a user made have none."""


def owners_of(objects: Iterable[Object]) -> Owners:
    """The owners of the pod groups among some objects."""
    found = {}
    for obj in objects:
        if obj.kind == "PodGroup":
            for owner in obj.metadata.owner_references or ():
                found[obj.key] = Owner(owner.kind, f"{obj.namespace}/{owner.name}")
    return found


def short(group: str, owners: Owners) -> str:
    """The name of a group's owner, else its own."""
    return owners[group].key if group in owners else group


def long(group: str, owners: Owners) -> str:
    """The name of a group's owner with its kind, else that of the group: `job default/train`."""
    return f"{owners[group].kind.lower()} {owners[group].key}" if group in owners else f"pod group {group}"


def title(group: str, owners: Owners) -> str:
    """How a sentence about a group begins."""
    if group not in owners:
        return f"Pod group {group}"
    return f"{owners[group].kind} {owners[group].key} (pod group {group.partition('/')[2]})"
