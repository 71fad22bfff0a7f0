"""`kilauea up` as a process: when it is ready, pods a second from the first create to the last Running, idle cost.

    python benchmarks/bench_up.py [--smoke] [--nodes 1000] [--gangs 500] [--size 10]

The load is gangs of equal pods in one queue, created over 32 connections by this process, which also watches. Clients
of a cluster have machines of their own, so this one takes as little time as it can (`sender.py`), and says how much.
The CPU time for a pod is that of the cluster alone, and less sensitive to what else runs.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from bench_apiserver import CONNECTIONS, PODS, Client, cpu_seconds, resident
from sender import RunningPods, Sender, Server, load

GROUPS = "/apis/scheduling.volcano.sh/v1beta1/namespaces/default/podgroups"
NODE_CPUS = 32
"""Of a simulated node, if nothing is said."""
PATIENCE = 900
"""Seconds after which the load is given up."""
SETTLE = 5
"""Seconds for what follows from the load, such as events, before the cluster is called idle."""


def group(gang: int, size: int) -> dict[str, Any]:
    """The PodGroup of a gang."""
    spec = {"minMember": size, "minResources": {"cpu": str(size), "memory": f"{size}Gi"}}
    return {"kind": "PodGroup", "apiVersion": "scheduling.volcano.sh/v1beta1", **named(f"gang-{gang}"), "spec": spec}


def pod(gang: int, number: int) -> dict[str, Any]:
    """A pod of a gang, with one CPU."""
    amounts = {"cpu": "1", "memory": "1Gi"}
    container = {"name": "main", "image": "demo", "resources": {"requests": amounts, "limits": amounts}}
    about = named(f"gang-{gang}-{number}", **{"scheduling.k8s.io/group-name": f"gang-{gang}"})
    spec = {"schedulerName": "volcano", "containers": [container]}
    return {"kind": "Pod", "apiVersion": "v1", **about, "spec": spec}


def named(name: str, **annotations: str) -> dict[str, Any]:
    """Metadata of an object."""
    return {"metadata": {"name": name, "annotations": annotations}}


async def create(clients: list[Client], gangs: int, size: int) -> None:
    """Create all gangs, each in order, many at a time."""
    left: Iterator[int] = iter(range(gangs))

    async def work(client: Client) -> None:
        for gang in left:
            bodies = [(GROUPS, group(gang, size)), *((PODS, pod(gang, number)) for number in range(size))]
            for path, body in bodies:
                code, text = await client.ask("POST", path, json.dumps(body).encode())
                assert code == 201, text

    await asyncio.gather(*map(work, clients))


async def all_running(client: Client, count: int) -> None:
    """Watch until so many pods are Running."""
    running: set[str] = set()
    left = b""
    async for chunk in client.chunks(f"{PODS}?watch=true"):
        *lines, left = (left + chunk).split(b"\n")
        for obj in (json.loads(line)["object"] for line in lines):
            if obj["status"].get("phase") == "Running":
                running.add(obj["metadata"]["name"])
        if len(running) >= count:
            return


def measure(kubeconfig: Path, pid: int, gangs: int, size: int, idle: float) -> None:
    """Load the cluster, then leave it alone."""
    server = Server(kubeconfig)
    encoded = iter([requests(server, gang, size) for gang in range(gangs)])
    senders = [Sender(server, encoded) for _ in range(CONNECTIONS)]
    watch = RunningPods(server, f"{PODS}?watch=true")
    before, own, count = cpu_seconds(pid), time.process_time(), gangs * size
    created, seconds = load(senders, watch, count, PATIENCE)
    cpu, own = cpu_seconds(pid) - before, time.process_time() - own
    print(f"{count} pods in gangs of {size}: {count / seconds:.0f} a second from first create to last Running")
    print(f"  created after {created:.1f} s of {seconds:.1f} s; {cpu / count * 1000:.2f} ms of CPU for each pod")
    print(f"  (the sender, which clients of a cluster run elsewhere, took {own / count * 1000:.2f} ms for each)")
    time.sleep(min(SETTLE, idle))
    before = cpu_seconds(pid)
    time.sleep(idle)
    print(f"idle with them: {(cpu_seconds(pid) - before) / idle:.1%} of a core over {idle:.0f} s")
    processes = [pid, *descendants(pid)]
    print(f"memory: {sum(map(resident, processes)) / 1e6:.0f} MB in {len(processes)} processes")


def descendants(pid: int) -> Iterator[int]:
    """The processes that a process has started, and those that they have started."""
    for thread in Path(f"/proc/{pid}/task").iterdir():
        for child in map(int, (thread / "children").read_text().split()):
            yield child
            yield from descendants(child)


def requests(server: Server, gang: int, size: int) -> list[bytes]:
    """The requests that create a gang, in order."""
    bodies = [(GROUPS, group(gang, size)), *((PODS, pod(gang, number)) for number in range(size))]
    return [server.request("POST", path, json.dumps(body).encode()) for path, body in bodies]


@contextmanager
def running(nodes: int, *options: str, **environment: str) -> Iterator[tuple[Path, int]]:
    """A cluster for the length of a block: its kubeconfig and the number of its process.

    Args:
        nodes: of the cluster.
        options: more of `kilauea up`.
        environment: variables of the cluster besides ours.
    """
    with tempfile.TemporaryDirectory() as folder:
        kubeconfig = Path(folder) / "kubeconfig"
        command = [sys.executable, "-m", "kilauea", "up", "--nodes", str(nodes), "--listen", "127.0.0.1:0"]
        command += ["--data-dir", f"{folder}/data", "--kubeconfig", str(kubeconfig), *options]
        begin = time.perf_counter()
        with subprocess.Popen(command, stdout=subprocess.PIPE, env=os.environ | environment) as cluster:
            assert cluster.stdout is not None
            while b"KUBECONFIG" not in cluster.stdout.readline():
                assert cluster.poll() is None, "the cluster has ended"
            print(f"ready with {nodes} nodes after {time.perf_counter() - begin:.2f} s")
            try:
                yield kubeconfig, cluster.pid
            finally:
                cluster.terminate()
                cluster.communicate()


def main() -> None:
    """Start a cluster, measure, stop it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--smoke", action="store_true", help="a small cluster and few pods")
    parser.add_argument("--nodes", type=int, default=1000)
    parser.add_argument("--gangs", type=int, default=500)
    parser.add_argument("--size", type=int, default=10)
    options = parser.parse_args()
    nodes, gangs, idle = (20, 10, 1.0) if options.smoke else (options.nodes, options.gangs, 30.0)
    if gangs * options.size > nodes * NODE_CPUS:
        parser.error(f"{gangs * options.size} pods of one CPU do not fit on {nodes} nodes of {NODE_CPUS}: add --nodes")
    with running(nodes) as (kubeconfig, pid):
        measure(kubeconfig, pid, gangs, options.size, idle)


if __name__ == "__main__":
    main()
