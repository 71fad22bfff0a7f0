"""A whole cluster in one process under virtual time: server, scheduler, controllers, nodes, each with its own faults.

with cluster(seed=7) as system:
    system.wait(1)
    system.gang("g", 3, queue="default")
    system.scheduler.kill()
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random
from typing import Any

import msgspec

from kilauea.api.ports import ApiError, Controller, Key, Resource
from kilauea.apiserver.crd.bundled import install_bundled
from kilauea.apiserver.crd.controller import DefinitionController
from kilauea.apiserver.storage import Retention
from kilauea.apiserver.upkeep.garbage import collect_garbage
from kilauea.apiserver.upkeep.namespaces import empty_namespaces
from kilauea.controllers.kinds import JOBS, NODES, POD_GROUPS, PODS, QUEUES, REPLICA_SETS
from kilauea.controllers.registry import kubernetes_controllers, volcano_controllers
from kilauea.nodes.heartbeats import Heartbeats
from kilauea.nodes.machine import Machine
from kilauea.nodes.pods import Pods
from kilauea.nodes.registration import Registration
from kilauea.runtime.direct import DirectTransport
from system.laws import CORES, GROUP_NAME, Laws
from system.process import Controllers, Process, SchedulerProcess
from virtual_api import World, virtual_api

CONF = str(Path(__file__).with_name("scheduler.yaml"))
NODE_COUNT = 4
QUEUE_NAME, MIN_MEMBER = "scheduling.volcano.sh/queue-name", "scheduling.volcano.sh/group-min-member"
RUN_TIME, NODE_STATE = "kilauea.dev/run-time", "kilauea.dev/node-state"


class Complaints(logging.Handler):
    """Keeps what is logged as an error."""

    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self.texts: list[str] = []
        self.setFormatter(logging.Formatter("%(name)s: %(message)s"))

    def emit(self, record: logging.LogRecord) -> None:
        """Keep it, if it is news; of a fault its last line tells what, and where is in the log."""
        lines = self.format(record).splitlines()
        text = " ... ".join(dict.fromkeys((lines[0], *lines[-5:])))
        if text not in self.texts:
            self.texts.append(text)


class System:
    """The cluster, and what users do to it."""

    def __init__(self, world: World, seed: int) -> None:
        self.world = world
        self.laws = Laws()
        self.complaints = Complaints()
        world.run(install_bundled(world.server))
        world.run(DefinitionController(world.server).start())
        pods = DirectTransport(world.server, "laws").stream("/api/v1/pods?watch=true&resourceVersion=0", {})
        self._server = world.start(
            collect_garbage(world.server), empty_namespaces(world.server), self.laws.follow(pods)
        )
        self.scheduler = SchedulerProcess(
            world, str(seed), CONF, lambda *seen: self.laws.look(world.clock.now(), *seen)
        )
        self.processes: list[Process] = [
            self.scheduler,
            Controllers(world, "kilauea-controllers", str(seed), _controllers),
            Controllers(world, "kilauea-nodes", str(seed), _nodes),
        ]

    def start(self) -> None:
        """Start everything, and let it become ready."""
        for process in self.processes:
            process.start()
        self.wait(2)

    def wait(self, seconds: float) -> None:
        """Let time pass."""
        self.world.run(asyncio.sleep(seconds))

    def faults(self, rate: float) -> None:
        """From now on, so much goes wrong."""
        for process in self.processes:
            process.faults.rate = rate

    def ended(self) -> list[str]:
        """What has come to an end, which nothing should."""
        server = [f"server: {task}" for task in self._server if task.done()]
        return [*server, *(each for process in self.processes for each in process.ended())]

    # --- what users do

    def create(self, resource: Resource, name: str, **fields: Any) -> None:
        """Make an object."""
        metadata = {"name": name, **fields.pop("metadata", {})}
        body = {"apiVersion": resource.api_version, "kind": resource.kind, "metadata": metadata, **fields}
        self.world.run(self.world.calm.create(resource, "default" if resource.namespaced else "", body))

    def node(self, name: str) -> None:
        """Apply a node, which is simulated."""
        offer = {"cpu": str(CORES), "memory": "64Gi", "pods": "110"}
        self.create(NODES, name, status={"capacity": offer, "allocatable": offer})

    def gang(self, name: str, minimum: int, size: int, cpu: int, queue: str, notes: dict[str, str]) -> None:
        """A pod group with its pods."""
        room = {"cpu": str(cpu * minimum)}
        self.create(POD_GROUPS, name, spec={"minMember": minimum, "queue": queue, "minResources": room})
        for number in range(size):
            annotations = {GROUP_NAME: name, **notes}
            self.create(PODS, f"{name}-{number}", metadata={"annotations": annotations}, spec=pod_spec(cpu))

    def replicas(self, name: str, minimum: int, size: int, cpu: int, queue: str) -> None:
        """A replica set, for whose pods a controller makes a group."""
        labels = {"app": name}
        notes = {QUEUE_NAME: queue}
        template = {"metadata": {"labels": labels, "annotations": notes}, "spec": pod_spec(cpu)}
        self.create(
            REPLICA_SETS,
            name,
            metadata={"annotations": {MIN_MEMBER: str(minimum)}},
            spec={"replicas": size, "selector": {"matchLabels": labels}, "template": template},
        )

    def job(self, name: str, size: int, cpu: int, queue: str, notes: dict[str, str]) -> None:
        """A job of Kubernetes."""
        annotations = {QUEUE_NAME: queue, **notes}
        template = {"metadata": {"annotations": annotations}, "spec": {**pod_spec(cpu), "restartPolicy": "Never"}}
        spec = {"parallelism": size, "completions": size, "template": template}
        self.create(JOBS, name, metadata={"annotations": {MIN_MEMBER: str(size)}}, spec=spec)

    def pod(self, name: str, cpu: int, notes: dict[str, str]) -> None:
        """A pod that asks for no scheduler."""
        spec = {**pod_spec(cpu), "schedulerName": "default-scheduler"}
        self.create(PODS, name, metadata={"annotations": notes}, spec=spec)

    def queue(self, name: str, deserved: int) -> None:
        """A queue that deserves some cores."""
        self.create(QUEUES, name, spec={"weight": 1, "reclaimable": True, "deserved": {"cpu": str(deserved)}})

    def patch(self, resource: Resource, name: str, patch: Any) -> None:
        """Change an object, if it is still there."""
        key = Key("default" if resource.namespaced else "", name)
        self._if_there(self.world.calm.patch(resource, key, patch))

    def delete(self, resource: Resource, name: str, grace: int | None = None) -> None:
        """Delete an object, if it is still there."""
        key = Key("default" if resource.namespaced else "", name)
        self._if_there(self.world.calm.delete(resource, key, grace=grace))

    def _if_there(self, work: Any) -> None:
        try:
            self.world.run(work)
        except ApiError as error:
            if error.code != 404:
                raise

    # --- what there is

    def items(self, resource: Resource) -> list[bytes]:
        """All objects of a kind, as they are."""
        return list(self.world.run(self.world.calm.list(resource)).items)

    def all(self, resource: Resource) -> list[dict[str, Any]]:
        """All objects of a kind."""
        return [msgspec.json.decode(item) for item in self.items(resource)]


def pod_spec(cpu: int) -> dict[str, Any]:
    """A pod with one container."""
    container = {"name": "main", "image": "busybox", "resources": {"requests": {"cpu": str(cpu)}}}
    return {"schedulerName": "volcano", "containers": [container], "terminationGracePeriodSeconds": 5}


def _controllers(since: int) -> list[Controller]:
    return [*volcano_controllers(), *kubernetes_controllers(since)]


def _nodes(since: int) -> list[Controller]:
    return [Registration(NODE_COUNT, Machine(cpu=str(CORES))), Heartbeats(Machine()), Pods()]


@contextmanager
def cluster(seed: int) -> Iterator[System]:
    """A cluster for the length of a block; it begins with `start`."""
    retention = Retention(seconds=Random(seed).choice((5.0, 60.0)), revisions=50)
    root = logging.getLogger()
    with virtual_api(seed, retention=retention) as world:
        system = System(world, seed)
        root.addHandler(system.complaints)
        try:
            yield system
        finally:
            root.removeHandler(system.complaints)
