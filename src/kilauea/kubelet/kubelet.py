"""`Kubelet`: runs the pods of the nodes that represent parts of this machine.

It watches the pods of its nodes and starts a worker for each, which ends with the pod. Containers keep running when it
ends: the next kubelet finds them again through the runtime.
"""

from __future__ import annotations

import asyncio
import logging
import shutil
from collections import defaultdict
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from pathlib import Path

from kilauea.api.kinds import CLAIMS, CONFIG_MAPS, NODES, PODS, SECRETS, SERVICES, VOLUMES
from kilauea.api.ports import Key, Obj, key_of
from kilauea.client.view import Cache
from kilauea.kubelet.container_config import logs_of
from kilauea.kubelet.container_runtime import ContainerError, ContainerState
from kilauea.kubelet.disk_pressure import DiskPressure, Space
from kilauea.kubelet.host import Host
from kilauea.kubelet.node_admission import refusal_of
from kilauea.kubelet.pod_worker import PodWorker
from kilauea.kubelet.removal import remove_later
from kilauea.kubelet.volumes.manager import objects_of
from kilauea.nodes.occupants import NODE_NAME
from kilauea.nodes.pod_status import ENDED

AGAIN_SECONDS = 10
"""Seconds after which a pod whose worker failed gets a new one."""
log = logging.getLogger(__name__)


def declare(cache: Cache) -> None:
    """Declare everything that a kubelet reads in a cache; called before the cache runs."""
    cache.declare(PODS, indexes={NODE_NAME: lambda pod: str(pod["spec"].get("nodeName") or "")})
    for resource in (NODES, CONFIG_MAPS, SECRETS, SERVICES, CLAIMS, VOLUMES):
        cache.declare(resource)


class Kubelet:
    """The pods of this machine.

    Args:
        host: the machine.
        cache: the objects of the cluster, with the interests of `declare`.
        nodes: names of the nodes that are parts of this machine.
        space: returns the size of the disk of a folder.
    """

    def __init__(
        self, host: Host, cache: Cache, nodes: Collection[str], space: Callable[[Path], Space] = shutil.disk_usage
    ) -> None:
        self._host = host
        self._cache = cache
        self._nodes = frozenset(nodes)
        self._workers: dict[str, PodWorker] = {}
        self._admitted: dict[str, dict[str, PodWorker]] = {node: {} for node in sorted(self._nodes)}
        """The workers of unfinished pods of each node, by uid; finished pods may be many."""
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self.disk_pressure = DiskPressure(host.data, lambda: list(self._workers.values()), host.clock, space)

    def runs(self, node: str) -> bool:
        """Return True if the pods of a node run here."""
        return node in self._nodes

    async def run(self, found: Mapping[str, list[ContainerState]]) -> None:
        """Run pods until cancelled.

        Args:
            found: runs of containers in the runtime, by the uids of their pods.
        """
        await self._cache.complete()
        self._host.states.update({state.id: state for states in found.values() for state in states})
        pods = self._own_pods()
        self._host.gpus.restore([pod["metadata"]["uid"] for pod in pods])
        await self._clear(found, {pod["metadata"]["uid"] for pod in pods})
        if self._host.network is not None:
            self._host.network.restore([pod for pod in pods if not _has_ended(pod)])
        for pod in pods:
            self._begin(pod, found.get(pod["metadata"]["uid"], []))
        self._cache.declare(PODS).listeners.append(self._pod_changed)
        for resource in (CONFIG_MAPS, SECRETS):
            self._cache.declare(resource).listeners.append(self._object_changed)
        own = [asyncio.ensure_future(self._take_exits()), asyncio.ensure_future(self.disk_pressure.run())]
        try:
            await asyncio.gather(*own)
        finally:
            for task in (*own, *self._tasks.values()):
                task.cancel()
            await asyncio.gather(*own, *self._tasks.values(), return_exceptions=True)

    def _own_pods(self) -> list[Obj]:
        """Pods of this machine that have not ended, or are being deleted: running ones first, then by age."""
        found = [pod for node in sorted(self._nodes) for pod in self._cache.indexed(PODS, NODE_NAME, node)]
        concerned = [pod for pod in found if _concerned(pod)]
        return sorted(concerned, key=_turn)

    async def _clear(self, found: Mapping[str, list[ContainerState]], uids: Collection[str]) -> None:
        """Remove the remains of deleted pods."""
        for uid, states in found.items():
            for state in states if uid not in uids else ():
                with suppress(ContainerError):
                    if state.state == "running":
                        await self._host.runtime.kill(state.id)
                await self._host.forget(state.id)
        for uid in self._host.volumes.pods():
            if uid not in uids:
                self._host.volumes.remove(uid)
        for uid in self._host.terminations.pods():
            if uid not in uids:
                self._host.terminations.release(uid)
        every = {pod["metadata"]["uid"] for node in self._nodes for pod in self._cache.indexed(PODS, NODE_NAME, node)}
        for folder in (self._host.data / "pods").glob("*_*_*"):
            if folder.name.rpartition("_")[2] not in every:
                remove_later(folder)

    def _pod_changed(self, old: Obj | None, new: Obj | None) -> None:
        """Update the worker of a pod, or start one."""
        pod = new or old or {}
        if pod["spec"].get("nodeName") not in self._nodes:
            return
        if old is not None and (new is None or new["metadata"]["uid"] != old["metadata"]["uid"]):
            self._pod_gone(old)
        if new is None:
            return
        worker = self._workers.get(new["metadata"]["uid"])
        if worker is not None:
            worker.update(new)
            if _has_ended(new):
                self._admitted[new["spec"]["nodeName"]].pop(new["metadata"]["uid"], None)
        elif _concerned(new):
            self._begin(new, [])

    def _pod_gone(self, pod: Obj) -> None:
        uid = pod["metadata"]["uid"]
        worker = self._workers.get(uid)
        if worker is not None:
            worker.vanish()
        else:
            self._remove_logs(pod)

    def _remove_logs(self, pod: Obj) -> None:
        folder = logs_of(self._host.data, pod)
        if folder.exists():  # a container without output has none
            remove_later(folder)

    def _begin(self, pod: Obj, found: list[ContainerState]) -> None:
        """Start a worker for a pod."""
        uid = pod["metadata"]["uid"]
        node = pod["spec"]["nodeName"]
        refusal = None
        if not found and not (pod.get("status") or {}).get("startTime") and "deletionTimestamp" not in pod["metadata"]:
            refusal = refusal_of(pod, self._cache.get(NODES, Key("", node)) or {}, self._admitted[node].values())
        worker = self._workers[uid] = PodWorker(self._host, pod, found, refusal)
        if not _has_ended(pod):
            self._admitted[node][uid] = worker
        task = self._tasks[uid] = asyncio.ensure_future(worker.run())
        task.add_done_callback(lambda task: self._ended(uid, task))

    def _ended(self, uid: str, task: asyncio.Task[None]) -> None:
        """Handle the end of a worker."""
        worker = self._workers.pop(uid)
        self._admitted[worker.pod["spec"]["nodeName"]].pop(uid, None)
        self._tasks.pop(uid, None)
        if task.cancelled():
            return
        if error := task.exception():
            log.error("pod %s: retrying in %d s", key_of(worker.pod), AGAIN_SECONDS, exc_info=error)
            self._host.event(worker.pod, "FailedSync", f"Error syncing pod, skipping: {error}", warning=True)
            asyncio.get_running_loop().call_later(AGAIN_SECONDS, self._again, worker.pod)
            return
        now = self._cache.get(PODS, key_of(worker.pod))
        if now is None or now["metadata"]["uid"] != uid:
            self._remove_logs(worker.pod)
        elif "deletionTimestamp" in now["metadata"] and "deletionTimestamp" not in worker.pod["metadata"]:
            self._begin(now, [])

    def _again(self, pod: Obj) -> None:
        """Start a new worker for a pod whose worker has failed, if the pod still exists."""
        uid = pod["metadata"]["uid"]
        now = self._cache.get(PODS, key_of(pod))
        if uid in self._workers:
            return
        states = [state for state in self._host.states.values() if state.pod == uid]
        if now is not None and now["metadata"]["uid"] == uid:
            self._begin(now, states)
        elif states:
            self._begin(pod, states)
            self._workers[uid].vanish()

    def _object_changed(self, old: Obj | None, new: Obj | None) -> None:
        """Notify the pods that use a ConfigMap or a Secret."""
        changed = new or old or {}
        metadata = changed["metadata"]
        for worker in list(self._workers.values()):
            if worker.pod["metadata"].get("namespace") == metadata.get("namespace"):
                about = (changed.get("kind") or "", metadata["name"])
                if about in objects_of(worker.pod) or worker.waits:
                    worker.refresh()

    async def _take_exits(self) -> None:
        async for state in self._host.runtime.exits():
            self._host.states[state.id] = state
            worker = self._workers.get(state.pod)
            if worker is not None:
                worker.exited(state)
            else:
                await self._host.forget(state.id)


def by_pod(states: Collection[ContainerState]) -> dict[str, list[ContainerState]]:
    """Return runs of containers by the uids of their pods."""
    found: dict[str, list[ContainerState]] = defaultdict(list)
    for state in states:
        found[state.pod].append(state)
    return found


def _turn(pod: Obj) -> tuple[bool, str, Key]:
    waits = not (pod.get("status") or {}).get("startTime")
    return waits, pod["metadata"].get("creationTimestamp") or "", key_of(pod)


def _concerned(pod: Obj) -> bool:
    """Return True if a kubelet must handle a pod."""
    return not _has_ended(pod) or "deletionTimestamp" in pod["metadata"]


def _has_ended(pod: Obj) -> bool:
    return (pod.get("status") or {}).get("phase") in ENDED
