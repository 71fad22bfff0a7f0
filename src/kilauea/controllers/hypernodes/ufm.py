"""HyperNodes of an InfiniBand fabric, from the ports that its UFM lists.

A port of a computer links it to a leaf switch. Leaves that are linked to a common node form a HyperNode of tier 1 with
all of their nodes, and all of these form one HyperNode of tier 2.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import msgspec

from kilauea.api.kinds import HYPER_NODES
from kilauea.controllers.hypernodes.labels import SOURCE

UFM = "ufm"
COMPUTER = "Computer"
"""Text in the descriptions of ports of computers."""
SPINE = "spine-hn"
_NAME = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
LONGEST_NAME = 253


class Port(msgspec.Struct):
    """A port from UFM, with only the required fields."""

    description: Any = None
    system_name: Any = None
    peer_node_name: Any = None


class Fabric(NamedTuple):
    """The leaves of a fabric.

    Attributes:
        groups: nodes of each group of leaves, in the order of the groups' first leaves.
        odd: names of computers that are not valid names of nodes.
    """

    groups: tuple[tuple[str, ...], ...]
    odd: tuple[str, ...]


def fabric_of(ports: Iterable[Port]) -> Fabric:
    """Group the leaves by the ports of computers."""
    by_leaf: dict[str, set[str]] = {}
    odd: set[str] = set()
    for port in ports:
        texts = (port.description, port.system_name, port.peer_node_name)
        if not all(isinstance(text, str) and text for text in texts) or COMPUTER not in port.description:
            continue
        node = port.system_name.strip()
        if len(node) <= LONGEST_NAME and _NAME.fullmatch(node):
            by_leaf.setdefault(port.peer_node_name, set()).add(node)
        else:
            odd.add(node)
    return Fabric(tuple(_grouped(by_leaf)), tuple(sorted(odd)))


def _grouped(by_leaf: dict[str, set[str]]) -> Iterable[tuple[str, ...]]:
    """Nodes of leaves that are linked, directly or indirectly, in the order of the leaves."""
    leaves_of: dict[str, list[str]] = {}
    for leaf in sorted(by_leaf):
        for node in by_leaf[leaf]:
            leaves_of.setdefault(node, []).append(leaf)
    seen: set[str] = set()
    for first in sorted(by_leaf):
        if first in seen:
            continue
        seen.add(first)
        waiting, nodes = [first], set[str]()
        while waiting:
            fresh = by_leaf[waiting.pop()] - nodes
            nodes |= fresh
            linked = {leaf for node in fresh for leaf in leaves_of[node]} - seen
            seen |= linked
            waiting.extend(linked)
        yield tuple(sorted(nodes))


def hypernodes_of_fabric(fabric: Fabric) -> list[dict[str, Any]]:
    """Build the objects of a fabric."""
    leaves = [_hypernode(f"leaf-hn-{number}", 1, "Node", nodes) for number, nodes in enumerate(fabric.groups)]
    if not leaves:
        return []
    return [*leaves, _hypernode(SPINE, 2, "HyperNode", [leaf["metadata"]["name"] for leaf in leaves])]


def _hypernode(name: str, tier: int, kind: str, members: Sequence[str]) -> dict[str, Any]:
    return {
        "apiVersion": HYPER_NODES.api_version,
        "kind": HYPER_NODES.kind,
        "metadata": {"name": name, "labels": {SOURCE: UFM}},
        "spec": {
            "tier": tier,
            "members": [{"type": kind, "selector": {"exactMatch": {"name": member}}} for member in members],
        },
    }
