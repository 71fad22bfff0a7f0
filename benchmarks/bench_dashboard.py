"""The dashboard at scale: 1,000 queues, 5,000 nodes, 50,000 pods in 5,000 jobs.

For each page: the time until it is made for the first time (the paint of a browser comes after that), its size, and
the processor time that a viewer of it takes while pods change, as a part of a core. Also the cost of an event.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time

import measure

from kilauea.api.ports import Seen
from kilauea.dashboard.pages import Cluster
from kilauea.dashboard.picture import Picture
from kilauea.dashboard.rendering import Renderer
from kilauea.dashboard.series import KEPT, Series
from kilauea.runtime.dashboard import streams

NOW = 1_800_000_000_000_000
PATHS = ("/", "/queues", "/jobs", "/jobs/Job/team-1/train-1", "/nodes", "/nodes/node-1", "/evictions")
TARGET_SECONDS, TARGET_SHARE = 1.0, 0.05
CHANGES = 200
"""Pods that change in each second."""


def listed(objects: list[dict[str, object]]) -> list[bytes]:
    return [json.dumps(each).encode() for each in objects]


def queues(count: int) -> list[dict[str, object]]:
    def spec(number: int) -> dict[str, object]:
        parent = "root" if number < 20 else f"queue-{number % 20}"
        return {"parent": parent, "weight": 1, "deserved": {"cpu": "64", "memory": "256Gi"}}

    status = {"state": "Open", "allocated": {"cpu": "70", "memory": "100Gi"}}
    return [{"metadata": {"name": "root"}, "status": status}] + [
        {"metadata": {"name": f"queue-{number}"}, "spec": spec(number), "status": status} for number in range(count)
    ]


def nodes(count: int) -> list[dict[str, object]]:
    status = {
        "allocatable": {"cpu": "64", "memory": "256Gi", "nvidia.com/gpu": "8", "pods": "110"},
        "conditions": [{"type": "Ready", "status": "True"}],
    }
    return [
        {
            "metadata": {"name": f"node-{number}", "labels": {"topology.kubernetes.io/zone": f"zone-{number % 16}"}},
            "status": status,
        }
        for number in range(count)
    ]


def pod(number: int, nodes: int, phase: str, version: int) -> dict[str, object]:
    job = number // 10
    metadata = {
        "name": f"train-{job}-worker-{number % 10}",
        "namespace": f"team-{job % 50}",
        "uid": f"pod-{number}",
        "resourceVersion": str(version),
        "creationTimestamp": "2026-11-23T10:00:00Z",
        "annotations": {"scheduling.k8s.io/group-name": f"train-{job}-group", "volcano.sh/task-spec": "worker"},
    }
    requests = {"cpu": "4", "memory": "8Gi", "nvidia.com/gpu": "1"}
    spec = {"nodeName": f"node-{number % nodes}", "containers": [{"name": "main", "resources": {"requests": requests}}]}
    return {"metadata": metadata, "spec": spec, "status": {"phase": phase, "startTime": "2026-11-23T10:00:01Z"}}


def jobs(count: int, queues: int) -> tuple[list[dict[str, object]], list[dict[str, object]]]:
    made, groups = [], []
    for number in range(count):
        waits = number % 5 == 0
        metadata = {"namespace": f"team-{number % 50}", "creationTimestamp": f"2026-11-{1 + number % 23:02}T10:00:00Z"}
        name, queue = f"train-{number}", f"queue-{number % queues}"
        spec = {"queue": queue, "minAvailable": 10, "tasks": [{"name": "worker", "replicas": 10}]}
        state = {"state": {"phase": "Pending" if waits else "Running"}, "running": 0 if waits else 10}
        made.append({"metadata": {**metadata, "name": name, "uid": name}, "spec": spec, "status": state})
        owner = {
            "apiVersion": "batch.volcano.sh/v1alpha1",
            "kind": "Job",
            "name": name,
            "uid": name,
            "controller": True,
        }
        reason = {"type": "Unschedulable", "status": "True", "reason": "NotEnoughResources", "message": "0/5000 nodes"}
        status = {"phase": "Inqueue", "conditions": [reason]} if waits else {"phase": "Running", "running": 10}
        of_group = {**metadata, "name": f"{name}-group", "uid": f"{name}-group", "ownerReferences": [owner]}
        groups.append({"metadata": of_group, "spec": {"queue": queue, "minMember": 10}, "status": status})
    return made, groups


async def viewer_share(pages: streams.Pages, path: str, change: object, seconds: float) -> tuple[float, float]:
    """The part of a core that a viewer takes, and bytes a second that it is sent, while pods change."""
    sent = 0

    async def send(data: bytes) -> None:
        nonlocal sent
        sent += len(data)

    viewer = asyncio.create_task(streams.stream(pages, path, {}, send))
    await asyncio.sleep(0.1)
    used, began, own, sent = time.process_time(), time.monotonic(), 0.0, 0
    while time.monotonic() - began < seconds:
        before = time.process_time()
        change()  # type: ignore[operator]  # a function
        own += time.process_time() - before
        await asyncio.sleep(0.2)
    lasted = time.monotonic() - began
    viewer.cancel()
    await asyncio.gather(viewer, return_exceptions=True)
    return (time.process_time() - used - own) / lasted, sent / lasted


def probe(smoke: bool) -> list[list[str]]:
    """The rows of the table."""
    many, machines, pods = (20, 20, 200) if smoke else (1000, 5000, 50_000)
    picture, series = Picture(), Series()
    cluster = Cluster(picture, series, now=NOW)
    made, groups = jobs(pods // 10, many)
    lists = {"queues": queues(many), "nodes": nodes(machines), "jobs": made, "groups": groups}
    lists["pods"] = [pod(number, machines, "Running", 1) for number in range(pods)]
    rows = []
    for name, objects in lists.items():
        texts, began = listed(objects), time.process_time()
        table = getattr(picture, name)
        table.on_relist([table.reduce(each) for each in texts], "1")
        took = time.process_time() - began
        rows.append([f"list of {len(texts):,} {name}", measure.seconds(took), "", "", ""])
    for _, table, _ in picture.watched:
        table.complete = True
    for at in range(KEPT):
        series.add(NOW + at, ["cpu", "memory", "nvidia.com/gpu"], cluster.forest.samples(cluster.sums[0]))
    version = 1

    def change() -> None:
        nonlocal version
        for _ in range(CHANGES // 5):
            version += 1
            phase = "Running" if version % 3 else "Succeeded"
            text = json.dumps(pod(version * 7919 % pods, machines, phase, version)).encode()
            picture.pods.on_events([Seen("MODIFIED", text, str(version))])

    began = time.process_time()
    change()
    rows.append(["an event of a pod", measure.seconds((time.process_time() - began) / (CHANGES // 5)), "", "", ""])
    pages = streams.Pages(cluster, Renderer(lambda: NOW, "server"), lambda: None)
    pages.whole("/login", {}, "")
    for path in PATHS:
        began = time.process_time()
        text = pages.whole(path, {}, "/live") or ""
        first = time.process_time() - began
        share, rate = asyncio.run(viewer_share(pages, path, change, 1.0 if smoke else 10.0))
        rows.append(
            [path, measure.seconds(first), f"{len(text) / 1024:.0f} KiB", f"{share:.1%}", f"{rate / 1024:.0f} KiB/s"]
        )
    return rows


def body(options: measure.Options) -> None:
    title = f"dashboard (targets: a page in {TARGET_SECONDS:g} s, a viewer {TARGET_SHARE:.0%} of a core); CPU time"
    measure.show(title, ["what", "time", "size", "of a core", "sent"], probe(options.smoke))


if __name__ == "__main__":
    sys.setrecursionlimit(10_000)
    measure.benchmark(__doc__ or "", body)
