"""The machine behind a simulated node: its size, its labels, its address."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from zlib import crc32

from kilauea.api.wellknown import HOSTNAME
from kilauea.version import __version__

KUBELET_VERSION = f"v1.36.3-kilauea.{__version__}"
"""The Kubernetes version of the API server, with ours."""
INSTANCE_TYPE = "node.kubernetes.io/instance-type"
GPU = "nvidia.com/gpu"
NOTHING: Mapping[str, str] = {}
_NUMBER = re.compile(r"(?:.*[^0-9])?([0-9]{1,6})")


@dataclass(frozen=True, slots=True)
class Machine:
    """The size of a node, as quantities.

    Attributes:
        cpu: cores.
        memory: bytes.
        gpu: number of devices.
        pods: maximum number of pods.
        storage: ephemeral storage in bytes.
    """

    cpu: str = "16"
    memory: str = "64Gi"
    gpu: int = 0
    pods: int = 110
    storage: str = "200Gi"

    def capacity(self) -> dict[str, str]:
        """Its capacity, for the status of a node."""
        found = {"cpu": self.cpu, "ephemeral-storage": self.storage, "memory": self.memory, "pods": str(self.pods)}
        return {**found, GPU: str(self.gpu)} if self.gpu else found


def node_manifest(name: str, machine: Machine) -> dict[str, Any]:
    """A node at its registration, without conditions."""
    labels = {
        HOSTNAME: name,
        "kubernetes.io/os": "linux",
        "kubernetes.io/arch": "amd64",
        INSTANCE_TYPE: "simulated",
    }
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": labels},
        "status": machine_status({}, name, machine),
    }


KUBELET_PORT = 10250
"""The kubelet port of nodes. Nothing listens there: the API server answers requests to the kubelet."""


def machine_status(
    status: Mapping[str, Any], name: str, machine: Machine, offers: Mapping[str, str] = NOTHING
) -> dict[str, Any]:
    """Return the missing fields in the status of a node, except its conditions; fields that are set stay.

    `offers` are the resources of its cards. An extended resource that is added to its capacity becomes allocatable, as
    with kubelets.
    """
    missing: dict[str, Any] = {}
    capacity, allocatable = status.get("capacity") or {}, status.get("allocatable") or {}
    given = capacity or allocatable or machine.capacity()
    advertised = {key: amount for key, amount in capacity.items() if "/" in key} if allocatable else {}
    wanted = {"capacity": given, "allocatable": {**advertised, **allocatable} or given}
    for part, amounts in wanted.items():
        amounts = amounts if "pods" in amounts else {**amounts, "pods": str(machine.pods)}
        amounts = {**offers, **amounts}
        if amounts != status.get(part):
            missing[part] = amounts
    if not status.get("addresses"):
        missing["addresses"] = [
            {"type": "InternalIP", "address": _address(name)},
            {"type": "Hostname", "address": name},
        ]
    if not (status.get("nodeInfo") or {}).get("kubeletVersion"):
        missing["daemonEndpoints"] = {"kubeletEndpoint": {"Port": KUBELET_PORT}}
        missing["nodeInfo"] = _node_info()
    return missing


def _address(name: str) -> str:
    """An address in 172.16.0.0/12: by the number at the end of the name, or else derived from the name."""
    found = _NUMBER.fullmatch(name)
    number = (int(found[1]) if found else crc32(name.encode())) % (4096 * 254)
    block, host = divmod(number, 254)
    return f"172.{16 + (block >> 8)}.{block & 255}.{host + 1}"


def _node_info() -> dict[str, str]:
    return {
        "architecture": "amd64",
        "bootID": "",
        "containerRuntimeVersion": f"kilauea://{__version__}",
        "kernelVersion": "",
        "kubeProxyVersion": "",
        "kubeletVersion": KUBELET_VERSION,
        "machineID": "",
        "operatingSystem": "linux",
        "osImage": "simulated",
        "systemUUID": "",
    }
