"""A kubelet at an API server in memory, under virtual time, above a runtime that runs nothing.

with kubelet_world(tmp_path) as kubelet:
    kubelet.create(pod("a", ["run", "5", "0"]))
    kubelet.wait(6)
    assert kubelet.pod("a")["status"]["phase"] == "Succeeded"
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from kilauea.api.kinds import CONFIG_MAPS, NODES, PODS, SECRETS
from kilauea.api.ports import ApiError, Key, Obj, Record, Resource
from kilauea.client.view import Cache
from kilauea.kubelet import removal
from kilauea.kubelet.gpus import Gpus
from kilauea.kubelet.host import Host, Image
from kilauea.kubelet.kubelet import Kubelet, by_pod, declare
from kilauea.kubelet.volumes import Volumes
from kilauea.kubelet.volumes.tokens import Tokens
from support.scripted_runtime import ScriptedRuntime
from support.virtual_api import World, virtual_api

NODE = "machine"
_RESOURCES = {resource.kind: resource for resource in (PODS, CONFIG_MAPS, SECRETS)}


class AnyImage:
    """Every image is the file system of this machine; a path names the part of it that is meant.

    An image `of-user-NAME` is one that the runtime knows, with a user of its own.
    """

    async def pull(self, name: str, policy: str) -> None:
        pass

    def find(self, name: str) -> Image:
        part = Path(name) if name.startswith("/") else None
        user = name.removeprefix("of-user-") if name.startswith("of-user-") else ""
        return Image(None, {"PATH": "/bin"}, part=part, name=name if name.startswith("of-") else "", user=user)


class Space(NamedTuple):
    """The size of a disk, in bytes."""

    total: int
    free: int


class KubeletWorld:
    """A kubelet and its surroundings."""

    def __init__(self, world: World, folder: Path, gpus: Sequence[str]) -> None:
        self.world = world
        self.folder = folder
        self.gpus = gpus
        self.runtime = ScriptedRuntime(world.clock)
        self.records: list[Record] = []
        self.patches = 0
        self.space = Space(total=1 << 40, free=1 << 39)
        """The size of the disk without volumes."""
        self._tasks: list[asyncio.Task[None]] = []

    def start(self) -> None:
        """Start a kubelet: the first one, or another after `stop`."""
        cache = Cache()
        declare(cache)
        clock, folder = self.world.clock, self.folder / "kubelet" / "pods"
        volumes = Volumes(folder, cache.get, Tokens(self.world.calm, clock), self.folder / "shm")
        gpus = Gpus({NODE: self.gpus}, folder)
        record = self._record
        host = Host(
            self.world.calm,
            cache,
            clock,
            record,
            self.runtime,
            AnyImage(),
            volumes,
            gpus,
            self.folder,
            ("127.0.0.1", 6443),
        )
        kubelet = Kubelet(host, cache, [NODE], self._space)

        self._pressure = kubelet.disk_pressure

        async def run() -> None:
            await kubelet.run(by_pod(await self.runtime.open()))

        self._tasks = self.world.start(cache.run(self.world.calm, clock, self.world.rng), run())

    def stop(self) -> None:
        """End the kubelet, as `kill -9` does; its containers go on."""

        async def end() -> None:
            for task in self._tasks:
                task.cancel()
            await asyncio.gather(*self._tasks, return_exceptions=True)

        self.world.run(end())
        self._tasks = []

    def _space(self, folder: Path) -> Space:
        """The size of the disk, less the files of volumes."""
        files = [each for each in (folder / "kubelet" / "pods").rglob("*") if each.is_file()]
        return self.space._replace(free=self.space.free - sum(each.stat().st_size for each in files))

    def _record(self, component: str, record: Record) -> None:
        self.records.append(record)

    def wait(self, seconds: float = 0.5) -> None:
        """Let time pass."""
        self.world.run(asyncio.sleep(seconds))
        for task in self._tasks:
            if task.done():
                task.result()

    def create(self, *objects: Obj) -> None:
        """Create objects, and let them be seen."""
        for each in objects:
            self.world.run(self.world.calm.create(_RESOURCES[each["kind"]], "default", each))
        self.wait()

    def patch(self, resource: Resource, name: str, patch: Obj, subresource: str = "") -> None:
        """Change an object."""
        self.world.run(self.world.calm.patch(resource, Key("default", name), patch, subresource=subresource))
        self.wait()

    def delete(self, name: str, grace: int | None = None) -> None:
        """Delete a pod."""
        self.world.run(self.world.calm.delete(PODS, Key("default", name), grace=grace))
        self.wait()

    def find(self, name: str) -> dict[str, Any] | None:
        """A pod, if it is there."""
        try:
            return self.world.run(self.world.calm.get(PODS, Key("default", name)))
        except ApiError as error:
            if error.code == 404:
                return None
            raise

    def pod(self, name: str) -> dict[str, Any]:
        """A pod."""
        found = self.find(name)
        assert found is not None
        return found

    def phase(self, name: str) -> str:
        """The phase of a pod."""
        return str(self.pod(name)["status"]["phase"])

    def container(self, pod: str, name: str = "main") -> dict[str, Any]:
        """The status of a container."""
        status = self.pod(pod)["status"]
        every = (*status.get("containerStatuses", ()), *status.get("initContainerStatuses", ()))
        return next(each for each in every if each["name"] == name)

    def condition(self, pod: str, type: str) -> dict[str, Any]:
        """A condition of a pod."""
        return next(each for each in self.pod(pod)["status"]["conditions"] if each["type"] == type)

    def events(self, name: str) -> list[str]:
        """Reason and message of the events about a pod."""
        return [f"{each.reason}: {each.message}" for each in self.records if each.about["metadata"]["name"] == name]

    def has_disk_pressure(self) -> bool:
        """True if the node reports that its disk is nearly full."""
        return self._pressure.is_reported

    def started(self) -> list[str]:
        """Names of the containers in the order of their starts."""
        return [each.name for each in self.runtime.started]


@contextmanager
def kubelet_world(folder: Path, gpus: Sequence[str] = ()) -> Iterator[KubeletWorld]:
    """A kubelet for the length of a block."""
    with virtual_api(1) as world:
        amounts = {"cpu": "4", "memory": "8Gi", "pods": "10", "nvidia.com/gpu": "4", "ephemeral-storage": "1Gi"}
        address = [{"type": "InternalIP", "address": "10.0.0.1"}]
        status = {"capacity": amounts, "allocatable": amounts, "addresses": address}
        node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": NODE}, "status": status}
        world.run(world.calm.create(NODES, "", node))
        kubelet = KubeletWorld(world, folder, gpus)
        kubelet.start()
        yield kubelet
        kubelet.stop()


def until_removed() -> None:
    """Wait until all folders are removed that were to be removed."""
    removal._remover.submit(bool).result()


def container(name: str, argv: Sequence[str], **fields: Any) -> dict[str, Any]:
    """A container."""
    return {"name": name, "image": "demo", "command": list(argv), **fields}


def pod(
    name: str, argv: Sequence[str] = ("run", "forever"), *, restart: str = "Never", **fields: Any
) -> dict[str, Any]:
    """A pod with a container `main`; `main` are fields of that, the others those of the pod's specification."""
    main = container("main", argv, **fields.pop("main", {}))
    metadata = {"name": name, **fields.pop("metadata", {})}
    spec = {"nodeName": NODE, "restartPolicy": restart, "automountServiceAccountToken": False}
    spec |= {"containers": [main, *fields.pop("beside", [])], **fields}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}
