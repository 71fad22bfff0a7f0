"""Our components at a real Kubernetes API server: how fast they are, and what they cost it.

    python benchmarks/bench_kubernetes.py [--smoke] [--only equal | mixed | jobs] [--rounds 2]

`equal` and `mixed`: pods that wait, and a scheduler that starts; in turns with a loop that only binds, as fast as it
can, which shows what the server can do. `jobs`: Volcano's jobs with `kilauea controllers`, `scheduler`, `webhooks` and
`nodes`, from the first submission to the last pod that runs. All run on the cores of this machine, so CPU time is what
can be compared. Without the binaries (`make kubernetes-binaries`) nothing is measured.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import subprocess
import sys
import time
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from bench_apiserver import Client
from bench_up import group, named
from bench_vcjobs import JOBS, job
from kubernetes_load import (
    PATIENCE,
    Meter,
    Real,
    add_nodes,
    component,
    each_of,
    free_port,
    real_kubernetes,
    send,
    tell,
    until_all,
)

PODS = "/api/v1/namespaces/default/pods"
GROUPS = "/apis/scheduling.volcano.sh/v1beta1/namespaces/default/podgroups"
SIZES = ("500m", "1", "2", "3", "4", "6")
CAPACITY = {"cpu": "32", "memory": "256Gi", "pods": "110"}
BINDER = Path(__file__).resolve().parent / "binder.py"


def is_bound(pod: dict[str, Any]) -> bool:
    """True if a pod has a node."""
    return bool(pod["spec"].get("nodeName"))


def runs(pod: dict[str, Any]) -> bool:
    """True if a pod runs."""
    return bool(pod["status"].get("phase") == "Running")


async def add_gangs(clients: Sequence[Client], gangs: int, size: int, *, mixed: bool) -> None:
    """Pods of a gang each, of one size or of many, that wait for a scheduler."""
    rng = random.Random(7)
    sizes = [[rng.choice(SIZES) if mixed else "1" for _ in range(size)] for _ in range(gangs)]

    async def add(client: Client, number: int) -> None:
        name = f"gang-{number}"
        await send(client, "POST", GROUPS, group(number, size))
        for index, cpu in enumerate(sizes[number]):
            amounts = {"cpu": cpu, "memory": "1Gi"}
            container = {"name": "c", "image": "busybox", "resources": {"requests": amounts, "limits": amounts}}
            about = named(f"{name}-{index}", **{"scheduling.k8s.io/group-name": name})
            spec = {"schedulerName": "volcano", "automountServiceAccountToken": False, "containers": [container]}
            await send(client, "POST", PODS, {**about, "spec": spec})

    await each_of(range(gangs), clients, add)


async def remove_gangs(client: Client) -> None:
    """Delete all pods and groups, at once."""
    await send(client, "DELETE", PODS, {"gracePeriodSeconds": 0})
    await send(client, "DELETE", GROUPS, {})


async def binds(real: Real, gangs: int, size: int, *, mixed: bool, bare: bool) -> None:
    """Time one scheduler, or the loop that only binds."""
    clients = await real.clients()
    await add_gangs(clients, gangs, size, mixed=mixed)
    meter = Meter(real, clients[0])
    watching = asyncio.create_task(until_all(clients[1], PODS, gangs * size, is_bound))
    await asyncio.sleep(1)
    name = "binder" if bare else "scheduler"
    await meter.start(fresh=[name])
    loop = asyncio.get_running_loop()
    with ExitStack() as stack:
        begin = loop.time()
        if bare:
            command = [sys.executable, str(BINDER), str(real.kubeconfig)]
            process = stack.enter_context(subprocess.Popen(command))
            real.pids[name] = process.pid
            stack.callback(real.pids.pop, name)
        else:
            stack.enter_context(component(real, name, "--leader-elect=false", "--enable-metrics=false"))
        async with asyncio.timeout(PATIENCE):
            first = await watching
        end = loop.time()
        spent, requests = meter.spent(), await meter.requests()
        label = f"{'only binds' if bare else 'scheduler'}, {gangs * size} {'mixed' if mixed else 'equal'} pods"
        tell(f"{label}, from the first bind", gangs * size, end - first, spent, requests)
        print(f"  the first bind came {first - begin:.2f} s after the start")
        if not bare:
            await asyncio.sleep(6)
            later = meter.spent()
            tell("  with all that follows", gangs * size, end - begin, later, await meter.requests())
    await remove_gangs(clients[0])


async def measure_jobs(real: Real, count: int, size: int, nodes: int, rounds: int) -> None:
    """Submit jobs while all components work, and remove them after each round.

    The watches of a new server have little room, so that it ends many in the first round.
    """
    port = str(free_port())
    with ExitStack() as stack:
        stack.enter_context(component(real, "nodes", "--count", str(nodes)))
        options = ["--listen-address", "127.0.0.1", "--port", port, "--webhook-url", f"https://127.0.0.1:{port}"]
        stack.enter_context(component(real, "webhooks", *options, "--webhook-namespace", "default"))
        stack.enter_context(component(real, "controllers", "--leader-elect=false"))
        stack.enter_context(component(real, "scheduler", "--leader-elect=false", "--enable-metrics=false"))
        clients = await real.clients()
        await until_ready(clients[0], nodes)
        for number in range(rounds):
            await jobs(real, clients, count, size, f"round {number + 1}")


async def jobs(real: Real, clients: Sequence[Client], count: int, size: int, label: str) -> None:
    """Submit jobs, wait for all their pods to run, and for what follows; then delete them."""
    watcher = (await real.clients(1))[0]
    meter = Meter(real, clients[0])
    watching = asyncio.create_task(until_all(watcher, PODS, count * size, runs))
    await asyncio.sleep(3)
    await meter.start()
    begin = time.perf_counter()

    async def submit(client: Client, number: int) -> None:
        await send(client, "POST", JOBS, job(f"job-{number}", size, "100m"))

    async with asyncio.timeout(PATIENCE):
        await each_of(range(count), clients[1:], submit)
        submitted = time.perf_counter() - begin
        await watching
    seconds = time.perf_counter() - begin
    tell(f"{label}: {count} jobs of {size}", count * size, seconds, meter.spent(), await meter.requests())
    print(f"  all jobs were submitted after {submitted:.2f} s")
    await asyncio.sleep(8)
    tell("  with all that follows", count * size, seconds, meter.spent(), await meter.requests())
    await send(clients[0], "DELETE", JOBS, {})
    await send(clients[0], "DELETE", GROUPS, {})
    await send(clients[0], "DELETE", PODS, {"gracePeriodSeconds": 0})
    while json.loads((await clients[0].ask("GET", f"{PODS}?limit=1"))[1])["items"]:
        await asyncio.sleep(1)


async def until_ready(client: Client, nodes: int) -> None:
    """Wait until nodes, webhooks and the default queue are there, and take the taints off."""
    hooks = "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations"
    queue = "/apis/scheduling.volcano.sh/v1beta1/queues/default"
    async with asyncio.timeout(PATIENCE):
        while True:
            found = json.loads((await client.ask("GET", "/api/v1/nodes"))[1])["items"]
            hooked = json.loads((await client.ask("GET", hooks))[1])["items"]
            state = json.loads((await client.ask("GET", queue))[1]).get("status") or {}
            if len(found) == nodes and hooked and isinstance(state, dict) and state.get("state") == "Open":
                break
            await asyncio.sleep(0.2)
    for node in found:
        await send(
            client,
            "PATCH",
            f"/api/v1/nodes/{node['metadata']['name']}",
            {"spec": {"taints": None}},
            "application/merge-patch+json",
        )
    await send(client, "POST", "/api/v1/namespaces/default/serviceaccounts", {"metadata": {"name": "default"}})


async def measure_binds(real: Real, cases: Sequence[tuple[int, int, int, bool]], rounds: int) -> None:
    """All cases of `binds` at one server; each has so many nodes at least."""
    clients, there = await real.clients(), 0
    account = {"metadata": {"name": "default"}}
    await send(clients[0], "POST", "/api/v1/namespaces/default/serviceaccounts", account)
    for nodes, gangs, size, mixed in cases:
        assert nodes >= there
        print(f"{nodes} nodes")
        await add_nodes(clients, nodes, CAPACITY)
        for _ in range(rounds):
            for bare in (True, False):
                await binds(real, gangs, size, mixed=mixed, bare=bare)


def main() -> None:
    """Start servers, measure, stop them."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--smoke", action="store_true", help="few pods")
    parser.add_argument("--only", choices=("mixed", "equal", "jobs"))
    parser.add_argument("--rounds", type=int, default=2)
    options = parser.parse_args()
    smoke, rounds = options.smoke, 1 if options.smoke else options.rounds
    if options.only in (None, "equal"):
        with real_kubernetes() as real:
            asyncio.run(measure_binds(real, [(10, 3, 5, False) if smoke else (500, 300, 10, False)], rounds))
    if options.only in (None, "mixed"):
        with real_kubernetes() as real:
            asyncio.run(measure_binds(real, [(10, 3, 5, True) if smoke else (2000, 1000, 10, True)], rounds))
    if options.only in (None, "jobs"):
        with real_kubernetes() as real:
            asyncio.run(measure_jobs(real, *(5, 4, 5) if smoke else (200, 10, 100), rounds))


if __name__ == "__main__":
    main()
