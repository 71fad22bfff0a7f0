"""The kubelet of `kilauea up --runtime process` and `--runtime containers`: this machine as nodes, and their pods."""

from __future__ import annotations

import asyncio
import logging
import re
import socket
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from urllib.parse import urlsplit

from kilauea.api.container_logs import LogSource
from kilauea.api.container_streams import PodConnections
from kilauea.api.kinds import NODES
from kilauea.api.ports import Api, Clock, Controller, Key, Record
from kilauea.client.view import Cache
from kilauea.kubelet.connections import ContainerConnections
from kilauea.kubelet.container_runtime import ContainerError, ContainerState
from kilauea.kubelet.gpus import Gpus
from kilauea.kubelet.host import Host
from kilauea.kubelet.image_volumes import image_volumes
from kilauea.kubelet.images import Mapped, MappedImages
from kilauea.kubelet.kubelet import Kubelet, by_pod, declare
from kilauea.kubelet.logs import LogFiles
from kilauea.kubelet.machine import machine_nodes, node_gpus, read_machine
from kilauea.kubelet.network import NetworkRanges, PodNetwork, keep_ranges
from kilauea.kubelet.node import MachineNodes
from kilauea.kubelet.podman.images import PodmanImages
from kilauea.kubelet.podman.runtime import PodmanRuntime
from kilauea.kubelet.processes.runtime import ProcessRuntime
from kilauea.kubelet.usage import ContainerUsage, UsageOfOthers
from kilauea.kubelet.volumes import Volumes
from kilauea.kubelet.volumes.tokens import Tokens
from kilauea.runtime.daemon import StartError

_ANYWHERE = {"0.0.0.0": "127.0.0.1", "::": "::1"}
log = logging.getLogger(__name__)


@dataclass(frozen=True)
class MachineOptions:
    """Options of this machine for pods.

    Attributes:
        parts: number of nodes that it is divided into.
        images: replacements for images; without any, each means this machine or, with podman, itself.
        containers: True for podman containers, False for processes on this machine.
    """

    parts: int = 1
    images: Sequence[Mapped] = ()
    containers: bool = False


def _make_private(folder: Path) -> None:
    """Create the folder for Secrets, tokens and files of pods, without access for other users of the machine."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    folder.chmod(0o700)  # an older version left it open


class MachinePods:
    """Runs the pods of this machine beside the components of a cluster.

    Args:
        options: how this machine runs pods.
        ranges: addresses of the cluster.
        api: API client of the kubelet.
        cache: cache of the cluster's objects; must not run yet.
        clock: the time.
        record: records events.
        data: folder of the cluster.
        address: address of the API server, set once it listens.
    """

    def __init__(
        self,
        options: MachineOptions,
        ranges: NetworkRanges,
        api: Api,
        cache: Cache,
        clock: Clock,
        record: Callable[[str, Record], None],
        data: Path,
        address: asyncio.Future[str],
    ) -> None:
        declare(cache)
        self._cache = cache
        self._data = data
        self._address = address
        self._containers = options.containers
        self.runtime = PodmanRuntime(data) if options.containers else ProcessRuntime(data / "kubelet" / "processes")
        machine, names = read_machine(data), node_names(options.parts)
        runtime = {"containerRuntimeVersion": f"{self.runtime.name}://{self.runtime.version}"}
        nodes = [replace(each, info={**each.info, **runtime}) for each in machine_nodes(machine, names)]
        self._nodes = {each.name: each for each in nodes}
        folder = data / "kubelet" / "pods"
        images = PodmanImages(options.images) if options.containers else MappedImages(options.images)
        volumes = Volumes(folder, cache.get, Tokens(api, clock), hidden=data, image_volume=image_volumes(images))
        gpus = Gpus(node_gpus(machine, names), folder)
        self._ranges = ranges
        self.network = PodNetwork(cache, ranges, data / "kubelet", clock)
        self._host = Host(
            api, cache, clock, record, self.runtime, images, volumes, gpus, data, ("", 0), network=self.network
        )
        self.kubelet = Kubelet(self._host, cache, self._nodes)
        self._found: Sequence[ContainerState] = ()
        self._usage: ContainerUsage | None = None

    def controllers(self, renew_seconds: int) -> list[Controller]:
        """Return the controllers that keep the nodes of this machine ready."""
        pressure = self.kubelet.disk_pressure
        return [MachineNodes(tuple(self._nodes.values()), renew_seconds, lambda: pressure.is_reported)]

    @property
    def names(self) -> Sequence[str]:
        """Names of the nodes of this machine."""
        return tuple(self._nodes)

    async def open(self) -> None:
        """Find the containers of earlier processes.

        Raises:
            StartError: the runtime cannot be used.
        """
        try:
            _make_private(self._data / "kubelet")
            keep_ranges(self._data, self._ranges)
            self._found = await self.runtime.open()
        except (ContainerError, OSError) as error:
            kind = "containers" if self._containers else "processes"
            raise StartError(f"pods cannot run as {kind}: {error}") from error
        for each in (*self.runtime.limitations, *self.network.limitations):
            log.warning("pods on this machine: %s", each)

    def logs(self, otherwise: LogSource) -> LogSource:
        """Return the logs of containers: of this machine, or otherwise those of simulated ones."""
        return LogFiles(self._data, self._host.states.get, self.kubelet.runs, otherwise)

    def connections(self) -> PodConnections:
        """Return connections to the containers of this machine."""
        return ContainerConnections(self.runtime, self._host.states.get, self.kubelet.runs)

    def usage(self, otherwise: UsageOfOthers) -> ContainerUsage:
        """Return the usage of pods and nodes: measured on this machine, or otherwise that of simulated ones."""
        find, runs = self._host.states.get, self.kubelet.runs
        self._usage = ContainerUsage(self.runtime, self._cache, find, runs, otherwise, self._host.clock)
        return self._usage

    async def run(self) -> None:
        """Run pods until cancelled, once the API server listens."""
        found = urlsplit(await asyncio.shield(self._address))
        host = _ANYWHERE.get(found.hostname or "", found.hostname or "")
        self._host.server = (host, found.port or 443)
        while not all(self._cache.get(NODES, Key("", name)) for name in self._nodes):
            await asyncio.sleep(0.05)
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self.kubelet.run(by_pod(self._found)))
            tasks.create_task(self.network.run())
            if self._usage is not None:
                tasks.create_task(self._usage.run())

    async def close(self) -> None:
        """Disconnect from the containers, which keep running."""
        if running := len(self.runtime.running):
            log.warning("%d containers keep running on this machine; the next start finds them again", running)
        await self.runtime.close()


def node_names(parts: int) -> list[str]:
    """Return the names of the nodes of this machine: its host name, with a number if there are several."""
    name = re.sub(r"[^a-z0-9.-]", "-", socket.gethostname().lower()).strip("-.") or "machine"
    return [name] if parts == 1 else [f"{name}-{number}" for number in range(parts)]
