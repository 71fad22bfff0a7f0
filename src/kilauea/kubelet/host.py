"""`Host`: resources that the pods of this machine share."""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple, Protocol

from kilauea.api.kinds import NODES, SERVICES
from kilauea.api.ports import Api, Clock, Key, Obj, Record, View
from kilauea.kubelet.container_runtime import ContainerError, ContainerRuntime, ContainerState
from kilauea.kubelet.gpus import Gpus
from kilauea.kubelet.termination_logs import TerminationLogs
from kilauea.kubelet.volumes import Volumes
from kilauea.nodes.environment import cluster_ip, service_variables

COMPONENT = "kubelet"
_OWN_NAMESPACE, _OWN_NAME = "default", "kubernetes"


class Image(NamedTuple):
    """The file system of an image on this machine, and the defaults for its containers.

    Attributes:
        root: folder; None for the file system of this machine, or for one that only the runtime knows.
        environment: variables.
        command: the command; its entry point.
        arguments: of that command.
        working_dir: where the command runs; empty for the root folder.
        id: its id in statuses.
        name: its name in the runtime; empty for an image that the runtime does not have.
        user: user of its containers, a name or a number; empty for root, or for that of this process.
        part: the path on this machine that is the image; None for all, and for a root folder.
    """

    root: Path | None = None
    environment: Mapping[str, str] = {}
    command: Sequence[str] = ()
    arguments: Sequence[str] = ()
    working_dir: str = ""
    id: str = ""
    name: str = ""
    user: str = ""
    part: Path | None = None


class Images(Protocol):
    """The images of this machine."""

    async def pull(self, name: str, policy: str) -> None:
        """Make an image available according to an image pull policy; `find` raises the error if that failed."""
        ...

    def find(self, name: str) -> Image:
        """Return an image.

        Raises:
            ContainerError: there is none of this name.
        """
        ...


class Network(Protocol):
    """Addresses and names of pods."""

    def restore(self, pods: Iterable[Obj]) -> None:
        """Take over the pods that run already."""
        ...

    def address(self, pod: Obj) -> str:
        """Return the address of a pod, the same one until it is released."""
        ...

    def hosts_file(self, pod: Obj) -> Path:
        """Return the file for a pod to mount at /etc/hosts."""
        ...

    def release(self, uid: str) -> None:
        """Release the address of a pod."""
        ...


@dataclass
class Host:
    """A machine and everything that its pods use.

    Attributes:
        api: API client for writing statuses.
        view: shows the objects of the cluster.
        clock: the time.
        record: records events.
        runtime: the container runtime.
        images: their file systems.
        volumes: their volumes.
        gpus: the devices of this machine.
        data: folder of the cluster.
        server: address and port of the API server.
        network: addresses of pods; None if they use that of the node.
        hostname: the name of this machine.
        terminations: the termination message files.
        states: runs of containers that the runtime knows, by their ids.
    """

    api: Api
    view: View
    clock: Clock
    record: Callable[[str, Record], None]
    runtime: ContainerRuntime
    images: Images
    volumes: Volumes
    gpus: Gpus
    data: Path
    server: tuple[str, int]
    network: Network | None = None
    hostname: str = field(default_factory=socket.gethostname)
    states: dict[str, ContainerState] = field(default_factory=dict)
    terminations: TerminationLogs = field(init=False)

    def __post_init__(self) -> None:
        """Find the termination message files of earlier processes."""
        self.terminations = TerminationLogs(self.data / "kubelet" / "termination")

    def node(self, pod: Obj) -> Obj:
        """The node of a pod; empty if it has been deleted."""
        return self.view.get(NODES, Key("", pod["spec"].get("nodeName") or "")) or {}

    def node_address(self, pod: Obj) -> str:
        """The address of the node of a pod."""
        addresses = (self.node(pod).get("status") or {}).get("addresses") or ()
        return next((each["address"] for each in addresses if each.get("type") == "InternalIP"), "127.0.0.1")

    def pod_address(self, pod: Obj) -> str:
        """The address of a pod."""
        return self.network.address(pod) if self.network is not None else self.node_address(pod)

    def services(self, pod: Obj) -> dict[str, str]:
        """The service environment variables of a pod's containers, always including those of the API server."""
        host, port = self.server
        own = {"metadata": {"name": _OWN_NAME}, "spec": {"ports": [{"name": "https", "port": port}]}}
        found: dict[str, str] = {}
        if pod["spec"].get("enableServiceLinks", True):
            namespace = pod["metadata"]["namespace"]
            there = [each for each in self.view.list(SERVICES, namespace) if not _is_own(each)]
            found = service_variables(there, cluster_ip)
        return {**found, **service_variables([own], lambda service: host)}

    async def forget(self, id: str) -> None:
        """Remove a container that has exited from the runtime."""
        with suppress(ContainerError):
            await self.runtime.remove(id)
        self.states.pop(id, None)

    def event(self, pod: Obj, reason: str, message: str, *, warning: bool = False) -> None:
        """Record an event about a pod."""
        about = {"kind": "Pod", "apiVersion": "v1", **pod}
        self.record(COMPONENT, Record(about, "Warning" if warning else "Normal", reason, message))


def _is_own(service: Obj) -> bool:
    metadata = service["metadata"]
    return bool(metadata["name"] == _OWN_NAME and metadata["namespace"] == _OWN_NAMESPACE)
