"""Runs the example: starts a cluster on this machine, lets two teams share it, and shows what happens as it happens.

    python examples/sharing/demo.py

The cluster is `kilauea up` in a process of its own with a folder that is thrown away afterwards.
"""

from __future__ import annotations

import asyncio
import json
import signal
import sys
import tempfile
import time
from collections import Counter
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

from kilauea.api.ports import Resource
from kilauea.client.finding import find_access
from kilauea.client.http import HttpTransport
from kilauea.client.rest import Client
from kilauea.runtime.manifests import apply_manifests, read_manifests

HERE = Path(__file__).parent
PODS = Resource("", "v1", "pods", "Pod")
EVENTS = Resource("", "v1", "events", "Event")
QUEUES = Resource("scheduling.volcano.sh", "v1beta1", "queues", "Queue", namespaced=False)
GROUPS = Resource("scheduling.volcano.sh", "v1beta1", "podgroups", "PodGroup")
JOBS = Resource("batch", "v1", "jobs", "Job")
KINDS = {each.kind: each for each in (PODS, QUEUES, GROUPS, JOBS)}
GROUP = "scheduling.k8s.io/group-name"

SCRIPT = (
    (0.0, "sweep", "Research starts a sweep of eight runs. Nobody else is there, so it borrows the whole cluster."),
    (3.0, "training", "Research adds a gang of four. It needs 16 cpus at once, so it waits."),
    (6.0, "serving", "Production wants its half. What it deserves is taken back from the sweep."),
)
LONGEST = 120.0
WIDTHS = (7, 10, 12, 11, 9, 9, 6)


HEADING = ("TIME", "JOB", "QUEUE", "GROUP", "RUNNING", "WAITING", "ENDED")


def line(*cells: object) -> str:
    """A line of the table."""
    return "".join(str(cell).ljust(width) for cell, width in zip(cells, WIDTHS, strict=True)).rstrip()


class Cluster:
    """What the API says, for the table."""

    def __init__(self, client: Client) -> None:
        self._client = client

    async def rows(self) -> list[tuple[object, ...]]:
        """For each job: its queue, the phase of its group, and how many of its pods run, wait and have ended."""
        groups = [json.loads(raw) for raw in (await self._client.list(GROUPS)).items]
        pods = [json.loads(raw) for raw in (await self._client.list(PODS)).items]
        phases: dict[str, Counter[str]] = {}
        for pod in pods:
            name = pod["metadata"].get("annotations", {}).get(GROUP, "")
            phases.setdefault(name, Counter())[pod["status"]["phase"]] += 1
        order = [name for _, name, _ in SCRIPT]
        found = {group["metadata"]["name"]: group for group in groups}
        return [self._row(found[name], phases.get(name, Counter())) for name in order if name in found]

    def _row(self, group: dict[str, Any], pods: Counter[str]) -> tuple[object, ...]:
        phase = group.get("status", {}).get("phase", "")
        name, queue = group["metadata"]["name"], group["spec"]["queue"]
        return (name, queue, phase, pods["Running"], pods["Pending"], pods["Succeeded"])

    async def finished(self) -> bool:
        """Whether all jobs are complete."""
        jobs = [json.loads(raw) for raw in (await self._client.list(JOBS)).items]
        done = [job for job in jobs if job.get("status", {}).get("completionTime")]
        return len(done) == len(SCRIPT)

    async def submit(self, name: str) -> None:
        """Apply the manifest of a job."""
        await apply_manifests(self._client, read_manifests([str(HERE / f"{name}.yaml")]), resource_of, "demo")

    async def evictions(self) -> list[str]:
        """The pods that had to go, as events tell it."""
        events = [json.loads(raw) for raw in (await self._client.list(EVENTS)).items]
        told = [event["involvedObject"] for event in events if event["reason"] == "Evict"]
        return sorted({about["name"] for about in told if about["kind"] == "Pod"})


def resource_of(api_version: str, kind: str) -> Resource | None:
    """The resource of a kind that the manifests have."""
    return KINDS.get(kind)


async def play(cluster: Cluster) -> None:
    """Submit the jobs when their time comes, and show every change until all have ended."""
    begun = time.monotonic()
    coming = list(SCRIPT)
    shown: list[tuple[object, ...]] = []
    while True:
        now = time.monotonic() - begun
        if coming and now >= coming[0][0]:
            _, name, words = coming.pop(0)
            print(f"\n{words}\n{line(*HEADING)}", flush=True)
            await cluster.submit(name)
        rows = await cluster.rows()
        for row in rows:
            if row not in shown:
                print(line(f"{now:.1f}s", *row), flush=True)
        shown = rows
        if not coming and await cluster.finished():
            print(f"\nAll three have ended after {now:.0f} seconds.")
            return
        if now > LONGEST:
            raise SystemExit("demo: the jobs have not ended in time")
        await asyncio.sleep(0.25)


async def main() -> None:
    """Start the cluster, play, and end it."""
    with tempfile.TemporaryDirectory(prefix="kilauea-demo-") as folder:
        kubeconfig = Path(folder) / "kubeconfig"
        command = ["-m", "kilauea", "up", "--listen", "127.0.0.1:0", "--nodes", "4", "--node-cpu", "8"]
        command += ["--node-memory", "32Gi", "--data-dir", folder, "--kubeconfig", str(kubeconfig)]
        command += ["--scheduler-conf", str(HERE / "scheduler.conf"), "-f", str(HERE / "queues.yaml")]
        print("demo: kilauea up --nodes 4 --node-cpu 8 -f examples/sharing/queues.yaml")
        process = await asyncio.create_subprocess_exec(sys.executable, *command, stdout=asyncio.subprocess.DEVNULL)
        try:
            while not kubeconfig.exists():
                if process.returncode is not None:
                    raise SystemExit("demo: the cluster did not start")
                await asyncio.sleep(0.05)
            async with AsyncExitStack() as stack:
                transport = await stack.enter_async_context(HttpTransport(find_access(kubeconfig, {})))
                cluster = Cluster(Client(transport, "demo"))
                await play(cluster)
                taken = await cluster.evictions()
                words = f"{len(taken)} pods of the sweep gave way to production and ran again later."
                print(words if taken else "Nobody had to give way.")
        finally:
            if process.returncode is None:
                process.send_signal(signal.SIGTERM)
            await process.wait()


if __name__ == "__main__":
    asyncio.run(main())
