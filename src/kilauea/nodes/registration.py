"""Registers the requested nodes, as kubelets do when they start.

It runs once, at the start: a node that is deleted later is not created again until the next start.
"""

from __future__ import annotations

from collections.abc import Sequence

from kilauea.api.kinds import NODES
from kilauea.api.ports import Create, Interest, Key, Outcome, View, no_keys
from kilauea.nodes.machine import Machine, node_manifest
from kilauea.nodes.node_conditions import conditions_to_write


def node_name(number: int) -> str:
    """The name of a node by its number."""
    return f"node-{number}"


class Registration:
    """Creates missing nodes `node-0`, `node-1` and so on.

    Args:
        count: number of nodes.
        machine: size of each node.
    """

    name = "node-registration"

    def __init__(self, count: int, machine: Machine) -> None:
        self._machine = machine
        always = tuple(Key("", node_name(number)) for number in range(count))
        self.interests: Sequence[Interest] = (Interest(NODES, no_keys, always=always),)

    def reconcile(self, key: Key, view: View, now: int) -> Outcome:
        """Create a node if it is missing."""
        if view.get(NODES, key) is not None:
            return Outcome()
        node = node_manifest(key.name, self._machine)
        node["status"]["conditions"] = conditions_to_write(node, now)
        return Outcome((Create(NODES, node),))
