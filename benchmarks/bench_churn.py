"""A scheduler at a real Kubernetes API server with many running pods: its restart, and jobs while pods come and go.

    python benchmarks/bench_churn.py [--smoke] [--nodes 5000] [--pods 100000] [--rate 50] [--seconds 100]

The restart is timed from the start of the process to the first bind of a gang that waits for it. Then a gang of ten
comes every 0.2 s (at the usual rate), as many pods end, and each second one more job of one pod comes, whose way from
its creation to its node is timed. Pods that run here have a node from the start, and no status. Without the binaries
(`make kubernetes-binaries`) nothing is measured.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import time
from collections.abc import Sequence
from contextlib import ExitStack
from typing import Any

from bench_apiserver import Client
from bench_kubernetes import CAPACITY, GROUPS, PODS
from bench_up import group, named
from kubernetes_load import PATIENCE, Meter, Real, add_nodes, component, each_of, real_kubernetes, send

GANG = 10


class Bound:
    """Pods that have a node, and when each was seen to have it, by a watch."""

    def __init__(self) -> None:
        self.at: dict[str, float] = {}
        self._news = asyncio.Condition()

    async def follow(self, client: Client, version: str) -> None:
        """Watch from a version, again where the server ends it."""
        while True:
            left = b""
            async for chunk in client.chunks(f"{PODS}?watch=1&resourceVersion={version}"):
                *lines, left = (left + chunk).split(b"\n")
                for pod in (json.loads(line)["object"] for line in lines):
                    version = pod["metadata"]["resourceVersion"]
                    if pod["spec"].get("nodeName"):
                        self.at.setdefault(pod["metadata"]["name"], time.perf_counter())
                async with self._news:
                    self._news.notify_all()

    async def wait(self, name: str) -> float:
        """Wait for a pod to have a node; returns when."""
        async with asyncio.timeout(PATIENCE), self._news:
            await self._news.wait_for(lambda: name in self.at)
        return self.at[name]


def pod(gang: str, number: int, node: str = "") -> dict[str, Any]:
    """A pod of a gang with one CPU."""
    amounts = {"cpu": "1", "memory": "1Gi"}
    container = {"name": "c", "image": "busybox", "resources": {"requests": amounts, "limits": amounts}}
    spec: dict[str, Any] = {
        "schedulerName": "volcano",
        "automountServiceAccountToken": False,
        "containers": [container],
    }
    if node:
        spec["nodeName"] = node
    return {**named(f"{gang}-{number}", **{"scheduling.k8s.io/group-name": gang}), "spec": spec}


async def fill(clients: Sequence[Client], nodes: int, gangs: int) -> None:
    """Gangs that have nodes."""

    async def add(client: Client, gang: int) -> None:
        await send(client, "POST", GROUPS, group(gang, GANG))
        for number in range(GANG):
            node = f"load-{(gang * GANG + number) % nodes:05d}"
            await send(client, "POST", PODS, pod(f"gang-{gang}", number, node))

    await each_of(range(gangs), clients, add)


async def submit(client: Client, name: str, size: int) -> None:
    """A gang that waits."""
    await send(client, "POST", GROUPS, {**group(0, size), "metadata": {"name": name}})
    for number in range(size):
        await send(client, "POST", PODS, pod(name, number))


async def churn(clients: Sequence[Client], bound: Bound, rate: int, seconds: int) -> list[float]:
    """Pods come and go; returns the seconds that each more job has waited."""
    waited: list[float] = []
    start = time.perf_counter()

    async def pause(until: float) -> None:
        await asyncio.sleep(max(0.0, start + until - time.perf_counter()))

    async def come() -> None:
        for turn in range(seconds * rate // GANG):
            await pause(turn * GANG / rate)
            await submit(clients[0], f"new-{turn}", GANG)

    async def go() -> None:
        for turn in range(seconds * rate):
            await pause(turn / rate)
            name = f"gang-{turn // GANG}-{turn % GANG}"
            await send(clients[1], "DELETE", f"{PODS}/{name}", {"gracePeriodSeconds": 0})

    async def measure() -> None:
        for turn in range(seconds):
            await pause(turn + 0.5)
            begin = time.perf_counter()
            await submit(clients[2], f"one-{turn}", 1)
            waited.append(await bound.wait(f"one-{turn}-0") - begin)

    await asyncio.gather(come(), go(), measure())
    return sorted(waited)


async def measure(real: Real, nodes: int, pods: int, rate: int, seconds: int) -> None:
    """All figures."""
    clients = await real.clients()
    account = {"metadata": {"name": "default"}}
    await send(clients[0], "POST", "/api/v1/namespaces/default/serviceaccounts", account)
    await add_nodes(clients, nodes, CAPACITY)
    await fill(clients, nodes, pods // GANG)
    await submit(clients[0], "first", GANG)
    version = json.loads((await clients[0].ask("GET", f"{PODS}?limit=1"))[1])["metadata"]["resourceVersion"]
    bound, meter = Bound(), Meter(real, clients[0])
    following = asyncio.create_task(bound.follow(clients[3], version))
    await asyncio.sleep(1)
    with ExitStack() as stack:
        await meter.start(fresh=["scheduler"])
        begin = time.perf_counter()
        stack.enter_context(component(real, "scheduler", "--leader-elect=false", "--enable-metrics=false"))
        took = await bound.wait("first-0") - begin
        spent = ", ".join(f"{name} {value:.1f}" for name, value in meter.spent().items())
        print(
            f"restart with {nodes:,} nodes and {pods:,} pods: {took:.1f} s to the first bind; CPU in s: {spent}",
            flush=True,
        )
        await asyncio.sleep(min(60, pods / 1000))
        await meter.start()
        waited = await churn(clients, bound, rate, seconds)
        spent = ", ".join(f"{name} {value / seconds:.2f}" for name, value in meter.spent().items())
        late = waited[max(0, len(waited) * 99 // 100 - 1)]
        middle = waited[len(waited) // 2]
        print(f"{rate} pods/s come and go for {seconds} s: one more job has its node after {middle:.3f} s (p50),")
        print(f"  {late:.3f} s (p99), {waited[-1]:.3f} s (most); CPU in s each second: {spent}", flush=True)
    following.cancel()


def main() -> None:
    """Start a server, measure, stop it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--smoke", action="store_true", help="few pods")
    parser.add_argument("--nodes", type=int, default=5000)
    parser.add_argument("--pods", type=int, default=100_000)
    parser.add_argument("--rate", type=int, default=50)
    parser.add_argument("--seconds", type=int, default=100)
    options = parser.parse_args()
    nodes, pods, seconds = (20, 200, 4) if options.smoke else (options.nodes, options.pods, options.seconds)
    with real_kubernetes() as real:
        asyncio.run(measure(real, nodes, pods, options.rate, seconds))


if __name__ == "__main__":
    main()
