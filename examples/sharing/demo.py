"""Runs the example: starts a cluster on this machine, lets two teams share it, and shows live what happens.

    python examples/sharing/demo.py

`examples/stage.py` makes the cluster.
"""

from __future__ import annotations

import asyncio
import sys
from collections import Counter
from pathlib import Path
from typing import Any

from kilauea.api.ports import Resource
from kilauea.runtime.cluster.manifests import apply_manifests, read_manifests

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parent))

from stage import Stage, Table, cluster  # noqa: E402 - found beside the folder of this story

PODS = Resource("", "v1", "pods", "Pod")
EVENTS = Resource("", "v1", "events", "Event")
QUEUES = Resource("scheduling.volcano.sh", "v1beta1", "queues", "Queue", namespaced=False)
GROUPS = Resource("scheduling.volcano.sh", "v1beta1", "podgroups", "PodGroup")
JOBS = Resource("batch", "v1", "jobs", "Job")
KINDS = {each.kind: each for each in (PODS, QUEUES, GROUPS, JOBS)}
GROUP = "scheduling.k8s.io/group-name"

SCRIPT = (
    (0.0, "sweep", "Research starts a sweep of eight runs. The cluster is idle, so it borrows all of it."),
    (3.0, "training", "Research adds a gang of four. It needs 16 cpus at once, so it waits."),
    (6.0, "serving", "Production needs its half. It reclaims what it deserves from the sweep."),
)
LONGEST = 120.0
COLUMNS = (("JOB", 10), ("QUEUE", 12), ("GROUP", 11), ("RUNNING", 9), ("WAITING", 9), ("ENDED", 6))


async def rows(stage: Stage) -> list[tuple[object, ...]]:
    """The queue, the phase of the group, and the counts of running, pending and ended pods of each job."""
    phases: dict[str, Counter[str]] = {}
    for pod in await stage.objects(PODS):
        name = pod["metadata"].get("annotations", {}).get(GROUP, "")
        phases.setdefault(name, Counter())[pod["status"]["phase"]] += 1
    found = {group["metadata"]["name"]: group for group in await stage.objects(GROUPS)}
    order = [name for _, name, _ in SCRIPT]
    return [row(found[name], phases.get(name, Counter())) for name in order if name in found]


def row(group: dict[str, Any], pods: Counter[str]) -> tuple[object, ...]:
    """The row of a job in the table."""
    phase = group.get("status", {}).get("phase", "")
    name, queue = group["metadata"]["name"], group["spec"]["queue"]
    return (name, queue, phase, pods["Running"], pods["Pending"], pods["Succeeded"])


async def finished(stage: Stage) -> bool:
    """True if all jobs are complete."""
    done = [job for job in await stage.objects(JOBS) if job.get("status", {}).get("completionTime")]
    return len(done) == len(SCRIPT)


async def evictions(stage: Stage) -> list[str]:
    """The evicted pods, from events."""
    told = [event["involvedObject"] for event in await stage.objects(EVENTS) if event["reason"] == "Evict"]
    return sorted({about["name"] for about in told if about["kind"] == "Pod"})


def resource_of(api_version: str, kind: str) -> Resource | None:
    """The resource of a kind that the manifests have."""
    return KINDS.get(kind)


async def play(stage: Stage) -> None:
    """Submit each job at its time, and show every change until all have ended."""
    table = Table(*COLUMNS)
    coming = list(SCRIPT)
    while True:
        if coming and table.seconds >= coming[0][0]:
            _, name, words = coming.pop(0)
            print(f"\n{words}")
            table.heading()
            await apply_manifests(stage.client, read_manifests([str(HERE / f"{name}.yaml")]), resource_of, "demo")
        table.show(await rows(stage))
        if not coming and await finished(stage):
            print(f"\nAll three jobs finished after {table.seconds:.0f} seconds.")
            return
        if table.seconds > LONGEST:
            raise SystemExit("demo: timed out waiting for the jobs to finish")
        await asyncio.sleep(0.25)


async def main() -> None:
    """Start the cluster, play, and end it."""
    options = ("--nodes", "4", "--node-cpu", "8", "--node-memory", "32Gi")
    files = ("--scheduler-conf", str(HERE / "scheduler.conf"), "-f", str(HERE / "queues.yaml"))
    said = "demo: kilauea up --nodes 4 --node-cpu 8 -f examples/sharing/queues.yaml"
    print(f"{said} --scheduler-conf examples/sharing/scheduler.conf", flush=True)
    async with cluster(*options, *files) as stage:
        await play(stage)
        taken = await evictions(stage)
        if not taken:
            raise SystemExit("demo: no pod was evicted")
        print(f"{len(taken)} pods of the sweep made way for production and ran again later.")


if __name__ == "__main__":
    asyncio.run(main())
