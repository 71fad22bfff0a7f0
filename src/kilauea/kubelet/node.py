"""The nodes that represent this machine or equal parts of it: registration at the start, and heartbeats."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from kilauea.api.kinds import LEASES, NODES
from kilauea.api.ports import Create, Interest, Key, Obj, Operation, Outcome, Patch, View, key_of, no_keys
from kilauea.api.wellknown import HOSTNAME
from kilauea.nodes.annotations import NODE_RUNTIME, PROCESS
from kilauea.nodes.heartbeats import Heartbeat
from kilauea.nodes.node_conditions import conditions_to_write, with_disk_pressure

_READY = ("True", "KubeletReady", "kubelet is posting ready status")


@dataclass(frozen=True, slots=True)
class MachineNode:
    """A node that represents this machine, or a part of it.

    Attributes:
        name: of the node.
        capacity: its resources, as quantities.
        allocatable: the part of them available to pods.
        address: its address.
        info: facts about the machine, for `status.nodeInfo`.
    """

    name: str
    capacity: Mapping[str, str]
    allocatable: Mapping[str, str]
    address: str
    info: Mapping[str, str]


class MachineNodes:
    """The part of a kubelet that maintains its nodes.

    Args:
        nodes: the nodes of this machine.
        renew_seconds: seconds between two renewals of a Lease.
        disk_pressure: returns True if the disk of this machine is nearly full.
    """

    name = "machine-nodes"

    def __init__(
        self, nodes: Sequence[MachineNode], renew_seconds: int, disk_pressure: Callable[[], bool] = lambda: False
    ) -> None:
        self._nodes = {each.name: each for each in nodes}
        self._heartbeat = Heartbeat(renew_seconds)
        self._disk_pressure = disk_pressure
        always = tuple(Key("", each.name) for each in nodes)
        self.interests: Sequence[Interest] = (
            Interest(
                NODES, lambda node: (key_of(node),) if node["metadata"]["name"] in self._nodes else (), always=always
            ),
            Interest(LEASES, no_keys),
        )

    def reconcile(self, key: Key, view: View, now: int) -> Outcome:
        """Register a node, or write what is due; reconciled again when the Lease is due."""
        part = self._nodes[key.name]
        node = view.get(NODES, key)
        if node is None:
            return Outcome((Create(NODES, _manifest(part, now)),))
        wanted = (self._metadata(part, node), self._status(part, node, now), self._heartbeat.lease(node, view, now))
        return Outcome([each for each in wanted if each], self._heartbeat.pause(key.name, now))

    @staticmethod
    def _metadata(part: MachineNode, node: Obj) -> Operation | None:
        """Correct its labels and annotations, if it was registered by another program."""
        metadata = node["metadata"]
        missing = {}
        for field_name, wanted in (("labels", _labels(part)), ("annotations", _annotations())):
            given = metadata.get(field_name) or {}
            lacking = {name: value for name, value in wanted.items() if given.get(name) != value}
            if lacking:
                missing[field_name] = lacking
        return Patch(NODES, key_of(node), {"metadata": missing}) if missing else None

    def _status(self, part: MachineNode, node: Obj, now: int) -> Operation | None:
        before = node.get("status") or {}
        extended = {name: value for name, value in (before.get("capacity") or {}).items() if "/" in name}
        wanted = _status(part)
        for amounts in ("capacity", "allocatable"):
            wanted[amounts] = {**extended, **wanted[amounts]}
        changes = {name: value for name, value in wanted.items() if before.get(name) != value}
        known: Sequence[Obj] = before.get("conditions") or ()
        conditions = with_disk_pressure(conditions_to_write(node, now, _READY) or known, self._disk_pressure(), now)
        if conditions != list(known):
            changes["conditions"] = conditions
        if not changes:
            return None
        version = node["metadata"].get("resourceVersion", "")
        return Patch(NODES, key_of(node), {"status": changes}, subresource="status", version=version)


def _labels(part: MachineNode) -> dict[str, str]:
    info = part.info
    return {
        HOSTNAME: part.name,
        NODE_RUNTIME: PROCESS,
        "kubernetes.io/os": info["operatingSystem"],
        "kubernetes.io/arch": info["architecture"],
    }


def _annotations() -> dict[str, str]:
    return {NODE_RUNTIME: PROCESS}


def _status(part: MachineNode) -> dict[str, Any]:
    addresses = [{"type": "InternalIP", "address": part.address}, {"type": "Hostname", "address": part.name}]
    return {
        "capacity": dict(part.capacity),
        "allocatable": dict(part.allocatable),
        "addresses": addresses,
        "nodeInfo": dict(part.info),
    }


def _manifest(part: MachineNode, now: int) -> dict[str, Any]:
    node: dict[str, Any] = {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": part.name, "labels": _labels(part), "annotations": _annotations()},
        "status": _status(part),
    }
    node["status"]["conditions"] = conditions_to_write(node, now, _READY)
    return node
