"""Takes the pictures of the dashboard in docs/_static: a busy morning on a cluster of `kilauea up`, in a browser.

    python docs/take_pictures.py                    (the pictures of the pages, needs Chromium)
    python docs/take_pictures.py --all FOLDER       (every page, wide and narrow, light and dark, to look at)

Training borrowed the cards of a service and of another project over night. In the morning both want them back, so pods
are evicted, and more is submitted than fits. It takes about a minute; the pictures differ between runs in their times.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import re
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT / "tests"))

from kilauea.api.kinds import HYPER_NODES, QUEUES, VC_JOBS  # noqa: E402
from kilauea.client.finding import find_access  # noqa: E402
from kilauea.client.http import HttpTransport  # noqa: E402
from kilauea.client.rest import Client  # noqa: E402
from kilauea.runtime.cluster.manifests import Manifest, apply_manifests  # noqa: E402
from support.browser import Page, browser  # noqa: E402 - of the tests, which stand beside

GPU = "nvidia.com/gpu"
SWEEPS, PATIENCE = 4, 180.0
"""Small jobs, and seconds for what the story waits for."""
CONF = """
actions: "enqueue, allocate, preempt, reclaim, backfill"
tiers:
- plugins:
  - name: priority
  - name: gang
  - name: conformance
- plugins:
  - name: predicates
  - name: capacity
    enableHierarchy: true
  - name: nodeorder
  - name: network-topology-aware
"""
LINK = re.compile(r"http://127\.0\.0\.1:\d+/login\?token=\S+")
PICTURES = {
    "overview": ("/", (1100, 1010)),
    "job": ("/jobs/Job/default/answer-pretraining", (1100, 860)),
    "nodes": ("/nodes?resource=nvidia.com/gpu", (1100, 820)),
}
EVERY = {
    "overview": "/",
    "queues": "/queues",
    "jobs": "/jobs",
    "waiting": "/jobs?state=waiting",
    "job-waits": "/jobs/Job/default/answer-pretraining",
    "job-runs": "/jobs/Job/default/segment-anything",
    "job-ended": "/jobs/Job/default/tokenize",
    "nodes": "/nodes",
    "node": "/nodes/node-3",
    "evictions": "/evictions",
    "history": "/history",
    "plan": "/plan",
    "none": "/jobs/Job/default/nothing",
}


def queue(name: str, parent: str = "root", cards: int = 0, guarantee: int = 0, limit: int = 0) -> dict[str, Any]:
    """A queue that deserves a number of cards, with 8 cpus and 32Gi for each."""
    spec: dict[str, Any] = {"parent": parent, "reclaimable": True}
    amounts = ((cards, "deserved"), (guarantee, "guarantee"), (limit, "capability"))
    for count, field in amounts:
        amount = {"cpu": str(8 * count), "memory": f"{32 * count}Gi", GPU: str(count)}
        if count:
            spec[field] = {"resource": amount} if field == "guarantee" else amount
    return {"apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "Queue", "metadata": {"name": name}, "spec": spec}


def job(
    name: str,
    queue: str,
    pods: int,
    cards: int,
    seconds: int,
    *,
    least: int | None = None,
    user: str = "ada",
    cpu: int = 4,
) -> dict[str, Any]:
    """A job of pods with a number of cards each."""
    requests = {"cpu": str(cpu), "memory": f"{4 * cpu}Gi", **({GPU: str(cards)} if cards else {})}
    container = {
        "name": "main",
        "image": "train:1",
        "command": ["sleep", str(seconds)],
        "resources": {"requests": requests, "limits": requests},
    }
    template = {"spec": {"restartPolicy": "Never", "containers": [container]}}
    task = {"name": "worker", "replicas": pods, "template": template}
    spec = {
        "schedulerName": "volcano",
        "queue": queue,
        "minAvailable": pods if least is None else least,
        "maxRetry": 100,
        "policies": [
            {"event": "PodEvicted", "action": "RestartTask"},
            {"event": "TaskCompleted", "action": "CompleteJob"},
        ],
        "tasks": [task],
    }
    meta = {"name": name, "namespace": "default", "annotations": {"kilauea.dev/user": user}}
    return {"apiVersion": "batch.volcano.sh/v1alpha1", "kind": "Job", "metadata": meta, "spec": spec}


def hypernode(name: str, tier: int, members: list[tuple[str, str]]) -> dict[str, Any]:
    """A HyperNode of nodes or of HyperNodes."""
    found = [{"type": kind, "selector": {"exactMatch": {"name": member}}} for kind, member in members]
    spec = {"tier": tier, "members": found}
    return {"apiVersion": "topology.volcano.sh/v1alpha1", "kind": "HyperNode", "metadata": {"name": name}, "spec": spec}


LEAVES = [hypernode(f"leaf-{n}", 1, [("Node", f"node-{6 * n + k}") for k in range(6)]) for n in range(4)]
SPINES = [hypernode(f"spine-{n}", 2, [("HyperNode", f"leaf-{2 * n + k}") for k in range(2)]) for n in range(2)]
QUEUES_OF_IT = [
    queue("ml", cards=144, guarantee=24),
    queue("language", "ml", cards=88, guarantee=16),
    queue("vision", "ml", cards=40, guarantee=8),
    queue("robotics", "ml", cards=16),
    queue("physics", cards=48, limit=64),
    queue("climate", "physics", cards=32),
    queue("lattice", "physics", cards=16, limit=24),
]
NIGHT = [
    job("tokenize", "language", 4, 0, 6, user="lin"),
    job("segment-anything", "vision", 16, 4, 3000, least=2, user="grace"),
    job("video-diffusion", "vision", 10, 8, 3000, least=1, user="grace"),
    job("grasping", "robotics", 8, 1, 3000, user="mo"),
    job("ocean-2050", "climate", 10, 1, 3000, user="edith", cpu=8),
    job("lattice-qcd", "lattice", 4, 2, 120, user="ken"),
]
MORNING = [
    job("chat-finetune", "language", 6, 8, 3000, user="lin"),
    job("evaluate-multilingual-reasoning-with-long-context", "language", 2, 4, 3000, user="lin"),
]
LATER = [
    job("answer-pretraining", "language", 16, 8, 3000, user="lin"),
    job("ice-sheets", "climate", 30, 2, 600, user="edith"),
    job("pick-and-place", "robotics", 12, 2, 900, user="mo"),
    job("lattice-fine", "lattice", 4, 8, 900, user="ken"),
    *(job(f"sweep-{n}", "vision", 1, 2, 400, user="grace") for n in range(SWEEPS)),
]
KINDS = {("batch.volcano.sh/v1alpha1", "Job"): VC_JOBS, ("scheduling.volcano.sh/v1beta1", "Queue"): QUEUES}
KINDS[("topology.volcano.sh/v1alpha1", "HyperNode")] = HYPER_NODES


@contextmanager
def cluster(folder: Path) -> Iterator[tuple[Path, Path]]:
    """A cluster for the length of a block: its kubeconfig, and what it prints."""
    (folder / "scheduler.conf").write_text(CONF)
    log, kubeconfig = folder / "log", folder / "kubeconfig"
    sizes = ("--nodes", "24", "--node-cpu", "64", "--node-memory", "256Gi", "--node-gpu", "8")
    place = ("--listen", "127.0.0.1:0", "--data-dir", "research", "--kubeconfig", str(kubeconfig))
    command = [
        sys.executable,
        "-m",
        "kilauea",
        "up",
        *sizes,
        *place,
        "--scheduler-conf",
        str(folder / "scheduler.conf"),
    ]
    with log.open("wb") as output, subprocess.Popen(command, stdout=output, stderr=output, cwd=folder) as process:
        try:
            yield kubeconfig, log
        finally:
            process.send_signal(signal.SIGTERM)


async def link(log: Path) -> str:
    """The newest link to the dashboard."""
    while not (found := LINK.findall(log.read_text())):
        await asyncio.sleep(0.1)
    return str(found[-1])


def has_started(job: dict[str, Any]) -> bool:
    """Return True if a job runs with all its pods, or has ended."""
    status = job.get("status", {})
    wanted = sum(task["replicas"] for task in job["spec"]["tasks"])
    return status.get("running", 0) == wanted or status.get("state", {}).get("phase") == "Completed"


async def play(client: Client) -> None:
    """Submit what the pictures show."""

    async def submit(objects: list[dict[str, Any]]) -> None:
        manifests = [Manifest("story", each) for each in objects]
        await apply_manifests(client, manifests, lambda *kind: KINDS.get(kind), "docs")

    await submit([*LEAVES, *SPINES, *QUEUES_OF_IT])

    async def run(names: set[str]) -> None:
        """Wait until jobs run with all their pods, or have ended."""
        async with asyncio.timeout(PATIENCE):
            while True:
                listed = [json.loads(raw) for raw in (await client.list(VC_JOBS)).items]
                if names <= {each["metadata"]["name"] for each in listed if has_started(each)}:
                    return
                await asyncio.sleep(0.3)

    for jobs, wait_for in ((NIGHT, NIGHT), (MORNING, MORNING), (LATER, LATER[-SWEEPS:])):
        await submit(jobs)
        await run({each["metadata"]["name"] for each in wait_for})
    await asyncio.sleep(15)  # those that wait get their reasons


async def settled(page: Page) -> None:
    """Wait until what a page loads later is there."""
    await page.until("document.fonts.ready.then(() => true)")
    await page.until("!document.querySelector('.htmx-request')")
    await asyncio.sleep(2.5)


async def take(page: Page, address: str, folder: Path, *, every: bool) -> None:
    """Log in and take the pictures."""
    base = address.partition("/login")[0]
    await page.look(1100, 900)
    await page.open(address)
    await settled(page)
    if not every:
        for name, (path, size) in PICTURES.items():
            await page.look(*size)
            await page.open(base + path)
            await settled(page)
            await page.picture(folder / f"dashboard-{name}.png")
        return
    for scheme, width in (("light", 1280), ("dark", 1280), ("light", 390)):
        for name, path in EVERY.items():
            await page.look(width, 900, scheme)
            await page.open(base + path)
            await settled(page)
            height = await page.value("document.documentElement.scrollHeight")
            await page.look(width, min(2600, max(900, height)), scheme)
            await asyncio.sleep(0.3)
            await page.picture(folder / f"{name}-{scheme}-{width}.png")


async def main() -> None:
    """Start the cluster, play, and take the pictures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--all", type=Path, metavar="FOLDER")
    options = parser.parse_args()
    folder = options.all or ROOT / "docs" / "_static"
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as place, cluster(Path(place)) as (kubeconfig, log):
        address = await link(log)
        async with HttpTransport(find_access(kubeconfig, {})) as transport:
            await play(Client(transport, "docs"))
        async with browser(Path(place) / "browser") as page:
            await take(page, address, folder, every=options.all is not None)


if __name__ == "__main__":
    asyncio.run(main())
