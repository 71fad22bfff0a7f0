"""Keeps simulated nodes alive: renews Leases often, and writes statuses rarely, spread over time.

Existing fields of a Node stay: only missing ones are set, and `Ready` only if it is not set by others.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from zlib import crc32

from kilauea.api.kinds import LEASES, NODES
from kilauea.api.ports import Create, Interest, Key, Obj, Operation, Outcome, Patch, View, key_of, no_keys
from kilauea.api.times import SECOND
from kilauea.nodes.annotations import SILENT, is_simulated, node_state
from kilauea.nodes.devices import offered
from kilauea.nodes.machine import Machine, machine_status
from kilauea.nodes.node_conditions import conditions_to_write, turn_of
from kilauea.nodes.timestamps import micro_text, moment_of

LEASE_NAMESPACE = "kube-node-lease"
LEASE_PERIODS = 4
"""Periods without renewal after which a Lease expires."""
RENEW_SECONDS = 10
"""Seconds between two renewals of a Lease."""
SLOTS = 64
"""Slots of the time between two renewals. Nodes in the same slot renew together, so that many need few commits.

Each commit and each turn of the loop costs as much as several heartbeats. 64 divides a second into whole microseconds.
"""


class Heartbeat:
    """The Leases of nodes.

    Args:
        renew_seconds: seconds between two renewals.
    """

    def __init__(self, renew_seconds: int) -> None:
        self._renew = renew_seconds * SECOND
        self._slot = self._renew // SLOTS

    def pause(self, name: str, now: int) -> float:
        """Return the seconds until the Lease of a node is due."""
        turn = crc32(name.encode()) % SLOTS * self._slot
        return (self._renew - (now - turn) % self._renew) / SECOND

    def lease(self, node: Obj, view: View, now: int) -> Operation | None:
        """Renew the Lease, once in each period, at the node's own time in it."""
        name = node["metadata"]["name"]
        lease = view.get(LEASES, Key(LEASE_NAMESPACE, name))
        if lease is None:
            return Create(LEASES, _new_lease(node, self._renew // SECOND * LEASE_PERIODS, now))
        renewed = moment_of((lease.get("spec") or {}).get("renewTime"))
        if renewed is not None and self._turn(name, renewed) == self._turn(name, now):
            return None
        patch: dict[str, Any] = {"spec": {"renewTime": micro_text(now)}}
        if lease["metadata"].get("ownerReferences") != _owner(node):
            patch["metadata"] = {"ownerReferences": _owner(node)}  # the node has been created again
        return Patch(LEASES, key_of(lease), patch)

    def _turn(self, name: str, moment: int) -> int:
        """The period of a node at a time."""
        return turn_of(name, moment // self._slot, SLOTS)


class Heartbeats:
    """The part of a kubelet that maintains its node.

    Args:
        machine: the size of nodes that do not state one.
        renew_seconds: seconds between two renewals of a Lease.
    """

    name = "node-heartbeats"

    def __init__(self, machine: Machine, renew_seconds: int = RENEW_SECONDS) -> None:
        self._machine = machine
        self._heartbeat = Heartbeat(renew_seconds)
        self.interests: Sequence[Interest] = (
            Interest(NODES, lambda node: (key_of(node),)),
            Interest(LEASES, no_keys),  # no other process renews them; a missing one is created with the next heartbeat
        )

    def reconcile(self, key: Key, view: View, now: int) -> Outcome:
        """Write what is due; reconciled again when the Lease is due."""
        node = view.get(NODES, key)
        if node is None or not speaks_for(node):
            return Outcome()
        wanted = (self._status(node, now), self._heartbeat.lease(node, view, now))
        return Outcome([each for each in wanted if each], self._heartbeat.pause(key.name, now))

    def _status(self, node: Obj, now: int) -> Operation | None:
        """Write the status, if something is missing, has changed, or is old."""
        before = node.get("status") or {}
        name = node["metadata"]["name"]
        missing = machine_status(before, name, self._machine, offered(node))
        conditions = conditions_to_write(node, now)
        if conditions is not None:
            missing["conditions"] = conditions
        if not missing:
            return None
        version = node["metadata"].get("resourceVersion", "")
        return Patch(NODES, key_of(node), {"status": missing}, subresource="status", version=version)


def speaks_for(node: Obj) -> bool:
    """Return True for a node that is kept alive here: it is simulated, and not set to silent."""
    return is_simulated(node) and node_state(node) != SILENT


def _owner(node: Obj) -> list[dict[str, str]]:
    metadata = node["metadata"]
    return [{"apiVersion": "v1", "kind": "Node", "name": metadata["name"], "uid": metadata["uid"]}]


def _new_lease(node: Obj, seconds: int, now: int) -> dict[str, Any]:
    name = node["metadata"]["name"]
    return {
        "apiVersion": LEASES.api_version,
        "kind": LEASES.kind,
        "metadata": {"name": name, "namespace": LEASE_NAMESPACE, "ownerReferences": _owner(node)},
        "spec": {"holderIdentity": name, "leaseDurationSeconds": seconds, "renewTime": micro_text(now)},
    }
