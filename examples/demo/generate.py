"""Writes nodes.yaml and running.yaml of this folder: 200 nodes, and the pods that run on them.

    python examples/demo/generate.py

The other files are written by hand. Only fields that matter for scheduling are here; what `kubectl get -o yaml` prints
beside them is skipped when it is read.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import cycle, islice
from pathlib import Path

HEAD = "# Made by generate.py: {what}.\napiVersion: v1\nkind: List\nitems:\n"
ZONES = "abc"


@dataclass(frozen=True)
class Pool:
    """Nodes of one kind, dealt out to the zones in turn."""

    name: str
    count: int
    cpu: int
    memory: int
    cards: int = 0
    product: str = ""

    def nodes(self) -> Iterator[tuple[str, str]]:
        """Names and zones."""
        for number in range(self.count):
            yield f"{self.name}-{number + 1:03d}", f"zone-{ZONES[number % len(ZONES)]}"


CPU = Pool("cpu", 120, 32, 128)
A100 = Pool("a100", 64, 96, 768, 8, "NVIDIA-A100-SXM4-80GB")
T4 = Pool("t4", 16, 32, 128, 4, "Tesla-T4")


@dataclass(frozen=True)
class Work:
    """A gang that runs, on nodes of one pool."""

    namespace: str
    name: str
    queue: str
    priority: str
    pods: int
    pool: Pool
    first: int
    """Position in the pool of the first node that it uses."""
    nodes: int
    """Number of nodes that it uses, in turn."""
    requests: str


def limits(requests: str) -> str:
    """Cards, which have limits as well as requests."""
    card = requests.partition("nvidia.com/gpu: ")[2]
    return f", limits: {{nvidia.com/gpu: {card}}}" if card else ""


def running() -> Iterator[Work]:
    """Running work of the cluster."""
    whole = 'cpu: "24", memory: 100Gi, nvidia.com/gpu: "8"'
    one = 'cpu: "4", memory: 14Gi, nvidia.com/gpu: "1"'
    yield Work("research", "llm-pretrain", "training", "normal", 32, A100, 0, 32, whole)
    yield Work("research", "diffusion", "training", "normal", 16, A100, 32, 16, whole)
    yield Work("research", "notebooks", "training", "normal", 3, A100, 48, 1, one)
    yield Work("online", "ranker", "inference", "production", 24, T4, 0, 12, one)
    yield Work("online", "web", "inference", "production", 36, CPU, 0, 36, 'cpu: "4", memory: 16Gi')
    yield Work("batch", "etl-hourly", "batch", "scavenge", 60, CPU, 40, 60, 'cpu: "8", memory: 16Gi')


def node_lines(pool: Pool) -> Iterator[str]:
    """The nodes of a pool. Nodes with cards are tainted, so that only pods that ask for cards go there."""
    room = f'cpu: "{pool.cpu}", memory: {pool.memory}Gi, pods: "110"'
    if pool.cards:
        room += f', nvidia.com/gpu: "{pool.cards}"'
    for name, zone in pool.nodes():
        yield "- apiVersion: v1\n  kind: Node\n  metadata:\n"
        yield f"    name: {name}\n    labels:\n      kubernetes.io/hostname: {name}\n      kubernetes.io/arch: amd64\n"
        yield f"      topology.kubernetes.io/zone: {zone}\n"
        if pool.cards:
            yield f"      nvidia.com/gpu.product: {pool.product}\n"
            yield '  spec:\n    taints: [{key: nvidia.com/gpu, value: "present", effect: NoSchedule}]\n'
        yield f"  status:\n    allocatable: {{{room}}}\n"


def work_lines(work: Work) -> Iterator[str]:
    """A pod group and its pods."""
    yield "- apiVersion: scheduling.volcano.sh/v1beta1\n  kind: PodGroup\n"
    yield f"  metadata: {{name: {work.name}, namespace: {work.namespace}, creationTimestamp: 2026-03-01T06:00:00Z}}\n"
    yield f"  spec: {{minMember: {work.pods}, queue: {work.queue}, priorityClassName: {work.priority}}}\n"
    yield "  status: {phase: Running}\n"
    nodes = [name for name, _ in work.pool.nodes()][work.first : work.first + work.nodes]
    for number, node in enumerate(islice(cycle(nodes), work.pods)):
        yield "- apiVersion: v1\n  kind: Pod\n  metadata:\n"
        yield f"    name: {work.name}-{number}\n    namespace: {work.namespace}\n    labels: {{app: {work.name}}}\n"
        yield f"    annotations: {{scheduling.k8s.io/group-name: {work.name}}}\n"
        yield f"  spec:\n    schedulerName: volcano\n    nodeName: {node}\n    priorityClassName: {work.priority}\n"
        yield "    containers:\n"
        yield "    - name: main\n"
        yield "      image: registry.example/tools:2\n"
        yield f"      resources: {{requests: {{{work.requests}}}{limits(work.requests)}}}\n"
        yield "  status: {phase: Running}\n"


def files() -> dict[str, str]:
    """Texts by name of the file."""
    nodes = "".join(line for pool in (CPU, A100, T4) for line in node_lines(pool))
    pods = "".join(line for work in running() for line in work_lines(work))
    return {
        "nodes.yaml": HEAD.format(what="the nodes, by pool") + nodes,
        "running.yaml": HEAD.format(what="pod groups that run, and their pods") + pods,
    }


if __name__ == "__main__":
    for name, text in files().items():
        (Path(__file__).resolve().parent / name).write_text(text)
