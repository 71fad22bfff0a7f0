"""Volcano's jobs on `kilauea up`: from submission to the last pod that runs, and how soon one large job has its pods.

    python benchmarks/bench_vcjobs.py [--smoke] [--nodes 100] [--jobs 200] [--size 10] [--large 5000]

Jobs pass admission, get their group, are admitted by the scheduler, get their pods, and these are placed and started.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from bench_apiserver import CONNECTIONS, PODS, Client, cpu_seconds, resident
from bench_up import PATIENCE, SETTLE, all_running, running
from bystander import bystander

JOBS = "/apis/batch.volcano.sh/v1alpha1/namespaces/default/jobs"


def job(name: str, size: int, cpu: str) -> dict[str, Any]:
    """A job of one task, of which all pods start together."""
    amounts = {"cpu": cpu, "memory": "100Mi"}
    container = {"name": "main", "image": "demo", "resources": {"requests": amounts, "limits": amounts}}
    task = {"name": "worker", "replicas": size, "template": {"spec": {"containers": [container]}}}
    spec = {"schedulerName": "volcano", "minAvailable": size, "queue": "default", "tasks": [task]}
    return {"apiVersion": "batch.volcano.sh/v1alpha1", "kind": "Job", "metadata": {"name": name}, "spec": spec}


async def submit(clients: list[Client], jobs: int, size: int) -> None:
    """Create all jobs, many at a time."""
    left: Iterator[int] = iter(range(jobs))

    async def work(client: Client) -> None:
        for number in left:
            body = json.dumps(job(f"job-{number}", size, "100m")).encode()
            code, text = await client.ask("POST", JOBS, body)
            assert code == 201, text

    await asyncio.gather(*map(work, clients))


async def all_there(client: Client, count: int) -> None:
    """Watch until so many pods exist."""
    names: set[str] = set()
    left = b""
    async for chunk in client.chunks(f"{PODS}?watch=true"):
        *lines, left = (left + chunk).split(b"\n")
        names.update(json.loads(line)["object"]["metadata"]["name"] for line in lines)
        if len(names) >= count:
            return


async def many(kubeconfig: Path, pid: int, jobs: int, size: int, idle: float) -> None:
    """Submit many jobs, wait for all their pods to run, then leave them alone."""
    clients = [await Client(kubeconfig).open() for _ in range(min(CONNECTIONS, jobs))]
    watching = asyncio.create_task(all_running(await Client(kubeconfig).open(), jobs * size))
    begin, before = time.perf_counter(), cpu_seconds(pid)
    async with asyncio.timeout(PATIENCE):
        await submit(clients, jobs, size)
        created = time.perf_counter() - begin
        await watching
    seconds, cpu = time.perf_counter() - begin, cpu_seconds(pid) - before
    count = jobs * size
    print(f"{jobs} jobs of {size}: {count / seconds:.0f} pods a second from the first submission to the last Running")
    print(f"  submitted after {created:.1f} s of {seconds:.1f} s; {cpu / count * 1000:.2f} ms of CPU for each pod")
    await asyncio.sleep(min(SETTLE, idle))
    before = cpu_seconds(pid)
    await asyncio.sleep(idle)
    print(f"  idle with them: {(cpu_seconds(pid) - before) / idle:.1%} of a core over {idle:.0f} s")
    print(f"  memory: {resident(pid) / 1e6:.0f} MB")


async def one(kubeconfig: Path, pid: int, size: int) -> None:
    """Submit one large job, and wait for all its pods to exist, while another client asks for something small."""
    client = await Client(kubeconfig).open()
    watching = asyncio.create_task(all_there(await Client(kubeconfig).open(), size))
    with bystander(kubeconfig) as waits:
        begin, before = time.perf_counter(), cpu_seconds(pid)
        code, text = await client.ask("POST", JOBS, json.dumps(job("large", size, "10m")).encode())
        assert code == 201, text
        async with asyncio.timeout(PATIENCE):
            await watching
        seconds, cpu = time.perf_counter() - begin, cpu_seconds(pid) - before
    print(f"one job of {size} pods: all created after {seconds:.1f} s; {cpu / size * 1000:.2f} ms of CPU for each pod")
    print(f"  a client beside it that connects again each time: {waits}")


def main() -> None:
    """Two clusters: one for many jobs, one for the large job."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--smoke", action="store_true", help="few jobs and a small one")
    parser.add_argument("--nodes", type=int, default=100)
    parser.add_argument("--jobs", type=int, default=200)
    parser.add_argument("--size", type=int, default=10)
    parser.add_argument("--large", type=int, default=5000)
    options = parser.parse_args()
    nodes, jobs, large = (10, 10, 100) if options.smoke else (options.nodes, options.jobs, options.large)
    idle = 1.0 if options.smoke else 30.0
    with running(nodes) as (kubeconfig, pid):
        asyncio.run(many(kubeconfig, pid, jobs, options.size, idle))
    with running(nodes) as (kubeconfig, pid):
        asyncio.run(one(kubeconfig, pid, large))


if __name__ == "__main__":
    main()
