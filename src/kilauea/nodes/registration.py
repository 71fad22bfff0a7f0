"""Registers the requested nodes, as kubelets do when they start.

It looks once, at the start: a node that is deleted later stays away until the next start, or until it is applied.
"""

from __future__ import annotations

from collections.abc import Sequence

from kilauea.api.kinds import NODES
from kilauea.api.ports import Create, Interest, Key, Outcome, View, no_keys
from kilauea.nodes.machine import Machine, node_manifest
from kilauea.nodes.node_conditions import conditions_to_write


def node_name(number: int) -> str:
    """The name of a node that was asked for by number only."""
    return f"node-{number}"


class Registration:
    """Creates `node-0`, `node-1` and so on where they are missing.

    Args:
        count: of nodes.
        machine: what each of them is.
    """

    name = "node-registration"

    def __init__(self, count: int, machine: Machine) -> None:
        self._machine = machine
        always = tuple(Key("", node_name(number)) for number in range(count))
        self.interests: Sequence[Interest] = (Interest(NODES, no_keys, always=always),)

    def reconcile(self, key: Key, view: View, now: int) -> Outcome:
        """Create a node that is not there."""
        if view.get(NODES, key) is not None:
            return Outcome()
        node = node_manifest(key.name, self._machine)
        node["status"]["conditions"] = conditions_to_write(node, now)
        return Outcome((Create(NODES, node),))
