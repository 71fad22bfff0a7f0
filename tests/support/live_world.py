"""A live scheduler on an API in memory, under virtual time; tests say what goes wrong on the way between them.

with live_world() as live:
live.node("n1")
live.start()
live.pod("web")
live.wait(1)
assert live.node_of("web") == "n1"
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator, Mapping
from contextlib import aclosing, contextmanager
from random import Random
from typing import Any

from kilauea.api.ports import Key, Record, Resource
from kilauea.client.rest import Client
from kilauea.client.traced import Traced
from kilauea.client.transport import Answer, Transport
from kilauea.runtime.cluster.direct import DirectTransport
from kilauea.runtime.cluster.in_process import Definitions
from kilauea.runtime.inputs.resources import GROUPS_OF_PODS, PODS, QUEUES, RESOURCES, head_of
from kilauea.runtime.scheduler.conf_reload import ConfReload
from kilauea.runtime.scheduler.live import LiveOptions, LiveScheduler, at_once
from kilauea.telemetry.metrics import SchedulerMetrics
from kilauea.telemetry.tracing import UNTRACED
from support.virtual_api import World, virtual_api

NODES = RESOURCES["Node"]
GROUP_NAME = "scheduling.k8s.io/group-name"
NAMES = ("volcano", "default-scheduler")


class Intercepted:
    """A transport that lets a test look at each request first; what it raises is what the client gets."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport
        self.before: Callable[[str, str], Awaitable[None]] | None = None
        self.after: Callable[[str, str], None] | None = None
        self.watching: Callable[[str], None] | None = None
        """Looks at each watch as it begins."""
        self.sent: list[tuple[str, str]] = []
        """Method and path of all requests."""

    async def request(self, method: str, target: str, headers: Mapping[str, str], body: bytes) -> Answer:
        self.sent.append((method, target))
        if self.before is not None:
            await self.before(method, target)
        answer = await self._transport.request(method, target, headers, body)
        if self.after is not None:
            self.after(method, target)
        return answer

    async def stream(self, target: str, headers: Mapping[str, str]) -> AsyncGenerator[bytes, None]:
        if self.watching is not None:
            self.watching(target)
        async with aclosing(self._transport.stream(target, headers)) as pieces:
            async for piece in pieces:
                yield piece

    async def close(self) -> None:
        await self._transport.close()

    def count(self, method: str, ending: str) -> int:
        """Requests with this method whose path ends so."""
        return sum(1 for each, target in self.sent if each == method and target.endswith(ending))


class Live:
    """A scheduler and its cluster, a world with the Volcano kinds."""

    def __init__(
        self, world: World, conf: str | None, transport: Transport | None = None, names: tuple[str, ...] = NAMES
    ) -> None:
        self.world = world
        self.names = names
        self.calm = world.calm
        self._definitions = Definitions(world.server, world.clock)
        world.run(self._definitions.start())
        self.wire = Intercepted(transport or DirectTransport(world.server, "scheduler"))
        self.metrics = SchedulerMetrics()
        self.events: list[tuple[str, str, str, str]] = []
        """Kind and name of the object, reason, message."""
        self.reporters: dict[tuple[str, str], set[str]] = {}
        """Names of the components that told of an object, by its kind and name."""
        self.conf = conf
        self.tasks: list[asyncio.Task[None]] = []
        self.tracer = UNTRACED
        self.restart()

    def restart(self) -> None:
        """A new scheduler, which knows nothing; it begins with `start`."""
        self.scheduler = LiveScheduler(
            Client(Traced(self.wire, self.tracer), "scheduler", Random(5)),
            LiveOptions(names=self.names),
            ConfReload(self.conf),
            self.world.clock,
            Random(6),
            self._tell,
            self.metrics,
            run=at_once,
            tracer=self.tracer,
        )

    def _tell(self, component: str, event: Record) -> None:
        kind, name = event.about["kind"], event.about["metadata"]["name"]
        self.events.append((kind, name, event.reason, event.message))
        self.reporters.setdefault((kind, name), set()).add(component)

    def start(self) -> None:
        """Let the scheduler begin, and read everything."""
        self.tasks = self.world.start(self.scheduler.watch(), self.scheduler.schedule())
        self.wait(0.001)

    def stop(self) -> None:
        """End the scheduler as if its process had died."""
        for task in self.tasks:
            task.cancel()
        self.world.run(asyncio.wait(self.tasks))

    def wait(self, seconds: float) -> None:
        """Let time pass."""
        self.world.run(asyncio.sleep(seconds))
        for task in self.tasks:
            assert not task.done(), task

    # --- what users do

    def create(self, resource: Resource, name: str, namespace: str = "default", **fields: Any) -> dict[str, Any]:
        metadata = {"name": name, **fields.pop("metadata", {})}
        body = {"apiVersion": resource.api_version, "kind": resource.kind, "metadata": metadata, **fields}
        return self.world.run(self.calm.create(resource, namespace if resource.namespaced else "", body))

    def node(self, name: str, cpu: str = "4", **fields: Any) -> None:
        offer = {"cpu": cpu, "memory": "64Gi", "pods": "110"}
        ready = {"type": "Ready", "status": "True"}
        self.create(NODES, name, status={"capacity": offer, "allocatable": offer, "conditions": [ready]}, **fields)
        self.patch(NODES, name, {"spec": {"taints": None}})

    def queue(self, name: str, **spec: Any) -> None:
        self.create(QUEUES, name, spec={"weight": 1, "reclaimable": True, **spec})

    def group(self, name: str, size: int, *, pods: int | None = None, cpu: str = "1", **spec: Any) -> None:
        """A pod group, and as many pods as it needs."""
        self.create(GROUPS_OF_PODS, name, spec={"minMember": size, "queue": "default", **spec})
        for number in range(size if pods is None else pods):
            self.pod(f"{name}-{number}", group=name, cpu=cpu)

    def pod(self, name: str, group: str = "", cpu: str = "1", scheduler: str = "", **spec: Any) -> dict[str, Any]:
        annotations = {GROUP_NAME: group} if group else {}
        scheduler = scheduler or ("volcano" if group else "default-scheduler")
        container = {"name": "main", "image": "busybox", "resources": {"requests": {"cpu": cpu}}}
        spec = {"schedulerName": scheduler, "containers": [container], **spec}
        return self.create(PODS, name, metadata={"annotations": annotations}, spec=spec)

    def patch(self, resource: Resource, name: str, patch: Any, subresource: str = "") -> None:
        key = Key("default" if resource.namespaced else "", name)
        self.world.run(self.calm.patch(resource, key, patch, subresource=subresource))

    def phase(self, name: str, phase: str) -> None:
        """A pod runs, or has ended, as a kubelet would say."""
        self.patch(PODS, name, {"status": {"phase": phase}}, "status")

    def delete(self, resource: Resource, name: str) -> None:
        key = Key("default" if resource.namespaced else "", name)
        self.world.run(self.calm.delete(resource, key, grace=0))

    # --- what there is

    def get(self, resource: Resource, name: str) -> dict[str, Any]:
        key = Key("default" if resource.namespaced else "", name)
        return self.world.run(self.calm.get(resource, key))

    def is_there(self, resource: Resource, name: str) -> bool:
        return any(head_of(item).metadata.name == name for item in self.world.run(self.calm.list(resource)).items)

    def node_of(self, pod: str) -> str:
        return str(self.get(PODS, pod)["spec"].get("nodeName", ""))

    def condition(self, resource: Resource, name: str, type_: str) -> dict[str, Any]:
        """A condition of an object; empty if it has none of this type."""
        conditions = self.get(resource, name).get("status", {}).get("conditions") or ()
        return next((c for c in conditions if c["type"] == type_), {})

    def reasons(self, kind: str, name: str) -> list[str]:
        """Reasons of the events about an object."""
        return [reason for of, about, reason, _ in self.events if (of, about) == (kind, name)]

    def figure(self, name: str, **labels: str) -> float | None:
        """A metric."""
        return self.metrics.registry.get_sample_value(name, labels)


@contextmanager
def live_world(
    conf: str | None = None,
    seed: int = 1,
    transport: Callable[[World], Transport] | None = None,
    names: tuple[str, ...] = NAMES,
) -> Iterator[Live]:
    """A world for the length of a block."""
    with virtual_api(seed, volcano=True) as world:
        yield Live(world, conf, transport(world) if transport else None, names)
