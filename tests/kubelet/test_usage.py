"""What containers of this machine use, for `kubectl top`."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any

from kilauea.api.kinds import NODES, PODS
from kilauea.api.ports import Obj
from kilauea.api.times import SECOND
from kilauea.kubelet.container_runtime import ContainerState, Usage
from kilauea.kubelet.names import container_id, status_id
from kilauea.kubelet.usage import ContainerUsage
from kilauea.nodes.usage import SimulatedUsage
from support.simulated import START, World
from support.subprocess_runtime import SubprocessRuntime

HERE, ELSEWHERE = "here", "simulated-0"


class Measured(SubprocessRuntime):
    """A runtime that measures what the test says."""

    def __init__(self) -> None:
        super().__init__()
        self.used: dict[str, Usage] = {}

    async def usage(self, ids: Sequence[str]) -> Mapping[str, Usage]:
        return {id: self.used[id] for id in ids if id in self.used}


class At:
    """A clock that a test sets."""

    def __init__(self) -> None:
        self.time = START

    def now(self) -> int:
        return self.time

    def monotonic(self) -> int:
        return self.time

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)


def pod(name: str, node: str) -> Obj:
    """A pod with one running container."""
    id = status_id(container_id(name, "c", 0))
    state = {"name": "c", "state": {"running": {}}, "containerID": id, "restartCount": 0}
    requests = {"requests": {"cpu": "3", "memory": "1Mi"}}
    return {
        "metadata": {"name": name, "namespace": "default", "uid": name, "labels": {"a": name}},
        "spec": {"nodeName": node, "containers": [{"name": "c", "resources": requests}]},
        "status": {"phase": "Running", "containerStatuses": [state]},
    }


def test_usage_is_measured_of_own_pods_and_told_of_simulated_ones() -> None:
    world, runtime, clock = World(), Measured(), At()
    for name in (HERE, ELSEWHERE):
        world.put(NODES, {"metadata": {"name": name}})
    world.put(PODS, pod("a", HERE))
    world.put(PODS, pod("b", ELSEWHERE))
    id = container_id("a", "c", 0)
    state = ContainerState(id, "a", "c", 0, "running", 1, START - 10 * SECOND)
    usage = ContainerUsage(runtime, world, {id: state}.get, lambda node: node == HERE, SimulatedUsage(world), clock)

    def used() -> dict[str, Any]:
        found = [*usage.pods("default", "", clock.time), *usage.pods("default", "a", clock.time)]
        return {each["metadata"]["name"]: each["containers"][0]["usage"] for each in found}

    assert list(used()) == ["b"], "nothing is told of a container before it is measured"
    runtime.used = {id: Usage(5 * SECOND, 3 << 20, 4)}
    asyncio.run(usage.measure())
    assert used() == {"a": {"cpu": "500m", "memory": "3072Ki"}, "b": {"cpu": "3000m", "memory": "1024Ki"}}
    clock.time += 15 * SECOND
    runtime.used = {id: Usage(35 * SECOND, 1 << 20, 4)}
    asyncio.run(usage.measure())
    assert used()["a"] == {"cpu": "2000m", "memory": "1024Ki"}
    nodes = {each["metadata"]["name"]: each["usage"]["cpu"] for each in usage.nodes("", clock.time)}
    assert nodes == {HERE: "2000m", ELSEWHERE: "3000m"}
    runtime.used = {}
    asyncio.run(usage.measure())
    assert list(used()) == ["b"]
