"""Runs the example: pods share cards in a cluster on this machine, whose simulated device plugins check each of them.

    python examples/cards/demo.py

Each act submits pods and waits until they are in the expected state; if they do not reach it, the story ends with exit
code 1. `examples/stage.py` starts the cluster.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from kilauea.api.ports import Resource

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parent))

from stage import Stage, Table, cluster  # noqa: E402 - found beside the folder of this story

PODS = Resource("", "v1", "pods", "Pod")
NODES = Resource("", "v1", "nodes", "Node", namespaced=False)
GROUPS = Resource("scheduling.volcano.sh", "v1beta1", "podgroups", "PodGroup")
RECORD = "volcano.sh/vgpu-ids-new"
CARDS = {
    "gpu-a": "a-0,10,40000,NVIDIA-A100,true,hami-core:a-1,10,40000,NVIDIA-A100,true,hami-core:",
    "gpu-b": "b-0,7,40960,NVIDIA-A100-SXM4-40GB,true,mig:",
}
"""By node: its cards, as its device plugin registers them."""
LONGEST = 60.0
"""Timeout in seconds for the pods to reach the state that an act needs."""
COLUMNS = (("POD", 12), ("PHASE", 10), ("NODE", 8), ("CARDS", 32))

Phases = dict[str, str]


class Act(NamedTuple):
    """A step of the story."""

    words: str
    pods: dict[str, dict[str, Any]]
    """By name: MiB of a card, the mode of the card, and the pod whose card it names itself, if any."""
    done: Callable[[Phases], bool]


def running(*names: str) -> Callable[[Phases], bool]:
    """A test that all of these pods run."""
    return lambda phases: all(phases.get(name) == "Running" for name in names)


SCRIPT = (
    Act(
        "Three notebooks each request a quarter of a card. They share cards.",
        {f"notebook-{i}": {"memory": 10000, "mode": "hami-core"} for i in range(3)},
        running("notebook-0", "notebook-1", "notebook-2"),
    ),
    Act(
        "Two services each request 5 GB on a card that is split: each gets a MIG instance.",
        {f"service-{i}": {"memory": 5000, "mode": "mig"} for i in range(2)},
        running("service-0", "service-1"),
    ),
    Act(
        "A pod is bound by hand to the card of a service. The device plugin rejects it.",
        {"thief": {"memory": 5000, "mode": "mig", "like": "service-0"}},
        lambda phases: phases.get("thief") == "Failed",
    ),
)


def card_node(name: str) -> dict[str, Any]:
    """A node that registers its cards."""
    metadata = {"name": name, "annotations": {"volcano.sh/node-vgpu-register": CARDS[name]}}
    return {"apiVersion": "v1", "kind": "Node", "metadata": metadata}


def pod(name: str, memory: int, mode: str) -> dict[str, Any]:
    """A pod of the scheduler that asks for memory of one card."""
    limits = {"volcano.sh/vgpu-number": "1", "volcano.sh/vgpu-memory": str(memory)}
    container = {"name": "main", "image": "demo", "command": ["sleep", "1d"]}
    resources = {"requests": {"cpu": "1", **limits}, "limits": limits}
    marks = {"scheduling.k8s.io/group-name": name, "volcano.sh/vgpu-mode": mode}
    spec = {"schedulerName": "volcano", "containers": [container | {"resources": resources}]}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "annotations": marks}, "spec": spec}


async def submit(stage: Stage, name: str, *, memory: int, mode: str, like: str = "") -> None:
    """Create a pod with its group; like another pod, it is bound to that pod's node and names its card."""
    made = pod(name, memory, mode)
    if like:
        (other,) = [each for each in await stage.objects(PODS) if each["metadata"]["name"] == like]
        marks = other["metadata"]["annotations"]
        made["spec"]["nodeName"] = other["spec"]["nodeName"]
        made["metadata"]["annotations"] |= {key: marks[key] for key in (RECORD, "volcano.sh/vgpu-node")}
    group = {"minMember": 1, "queue": "default"}
    body = {"apiVersion": GROUPS.api_version, "kind": "PodGroup", "metadata": {"name": name}, "spec": group}
    await stage.client.create(GROUPS, "default", body)
    await stage.client.create(PODS, "default", made)


def row(obj: dict[str, Any]) -> tuple[object, ...]:
    """The row of a pod in the table."""
    metadata, spec = obj["metadata"], obj["spec"]
    cards = metadata["annotations"].get(RECORD, "").rstrip(":")
    return (metadata["name"], obj["status"]["phase"], spec.get("nodeName", ""), cards)


async def play(stage: Stage) -> None:
    """Play the acts one after another, and show every change."""
    table = Table(*COLUMNS)
    pods: list[dict[str, Any]] = []
    for act in SCRIPT:
        print(f"\n{act.words}")
        table.heading()
        for name, asked in act.pods.items():
            await submit(stage, name, **asked)
        end = table.seconds + LONGEST
        while True:
            pods = await stage.objects(PODS)
            table.show(row(each) for each in pods)
            if act.done({each["metadata"]["name"]: each["status"]["phase"] for each in pods}):
                break
            if table.seconds > end:
                raise SystemExit("demo: timed out waiting for the pods")
            await asyncio.sleep(0.1)
    (thief,) = [each for each in pods if each["metadata"]["name"] == "thief"]
    print(f"\nThe message of the pod: {thief['status']['message']}")


async def main() -> None:
    """Start the cluster, register the nodes with cards, play, and end it."""
    print("demo: kilauea up --nodes 0 --scheduler-conf examples/cards/scheduler.conf", flush=True)
    async with cluster("--nodes", "0", "--scheduler-conf", str(HERE / "scheduler.conf")) as stage:
        for name in CARDS:
            await stage.client.create(NODES, "", card_node(name))
        await play(stage)


if __name__ == "__main__":
    asyncio.run(main())
