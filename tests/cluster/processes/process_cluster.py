"""`kilauea up --runtime process` in tests; what its pods have started ends with the test.

with process_cluster(folder) as cluster:
    server = cluster.start()
"""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from cluster.api_process import Client, Server
from cluster.up_process import PODS, start_up, until
from kilauea.kubelet.container_runtime import ContainerError
from kilauea.kubelet.processes.runtime import ProcessRuntime
from kilauea.kubelet.volumes.manager import SHARED_MEMORY
from kilauea.kubelet.volumes.memory import MemoryFolders

Obj = dict[str, Any]


class ProcessCluster:
    """A cluster that is started, stopped and killed on one folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder / "data"
        self._servers: list[Server] = []

    def start(self, *options: str) -> Server:
        """Start the cluster."""
        server = start_up(self.folder, "--runtime", "process", *options)
        self._servers.append(server)
        return server

    def end(self) -> None:
        """End everything."""
        for server in self._servers:
            if server.process.poll() is None:
                server.kill()
        asyncio.run(self._end_containers())
        for folder in (self.folder / "kubelet" / "pods").glob("*"):  # of pods that were not deleted
            MemoryFolders(SHARED_MEMORY).remove(folder.name)

    async def _end_containers(self) -> None:
        runtime = ProcessRuntime(self.folder / "kubelet" / "processes")
        with suppress(ContainerError, OSError):
            for state in await runtime.open():
                with suppress(ContainerError):
                    await runtime.kill(state.id)
            supervisor = runtime.supervisor
            await runtime.close()
            os.kill(supervisor, signal.SIGKILL)


@contextmanager
def process_cluster(folder: Path) -> Iterator[ProcessCluster]:
    """A cluster for the length of a block."""
    cluster = ProcessCluster(folder)
    try:
        yield cluster
    finally:
        cluster.end()


def pod(name: str, script: str, *, restart: str = "Never", sees: Path | None = None, **fields: Any) -> Obj:
    """A pod that runs a shell script, and sees a folder of this machine."""
    if sees is not None:
        fields["volumes"] = [{"name": "seen", "hostPath": {"path": str(sees)}}]
        fields["main"] = {**fields.get("main", {}), "volumeMounts": [{"name": "seen", "mountPath": str(sees)}]}
    main = {"name": "main", "image": "host", "command": ["sh", "-c", script], **fields.pop("main", {})}
    spec = {"restartPolicy": restart, "terminationGracePeriodSeconds": 5, **fields, "containers": [main]}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec}


def status_of(client: Client, name: str) -> Obj:
    """The status of a pod."""
    return dict(client.get(f"{PODS}/{name}").get("status") or {})


def main_of(client: Client, name: str) -> Obj:
    """The status of a pod's container."""
    return dict((status_of(client, name).get("containerStatuses") or [{}])[0])


def until_phase(client: Client, name: str, phase: str) -> None:
    """Wait for a pod to be in a phase."""
    until(lambda: status_of(client, name).get("phase") == phase, f"pod {name} to be {phase}")


def processes(word: str) -> list[int]:
    """Ids of the processes of this machine with a word in their command line, zombies left out."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            if word.encode() in (folder / "cmdline").read_bytes().split(b"\0"):
                found.append(int(folder.name))
    return found
