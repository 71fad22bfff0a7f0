"""Clusters to measure with: plain objects as an API server would give them, written as one JSON List.

Every maker is a function of its arguments: no clock, and a random seed that is fixed. What a cluster has in common
with the others (queues `q0` to `q3`, nodes of 32 cores in eight zones) is in the small functions on top.
"""

from __future__ import annotations

import json
import random
import subprocess
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from measure import SHARED

Json = dict[str, Any]

HEADLINE_CONF = """\
actions: "allocate"
tiers:
- plugins:
  - name: priority
  - name: gang
    enablePreemptable: false
  - name: conformance
- plugins:
  - name: overcommit
  - name: drf
    enablePreemptable: false
  - name: predicates
  - name: proportion
  - name: nodeorder
  - name: binpack
"""
"""The configuration of the headline cases: what Volcano ships, and only the action that places pods."""

FULL_CONF = HEADLINE_CONF.replace('"allocate"', '"enqueue, allocate, backfill"')
"""The same with all actions of the default configuration."""

CPUS = ("500m", "1", "2", "3", "4", "6")
ZONES = 8


@dataclass(frozen=True)
class Files:
    """A cluster and a scheduler configuration on disk, and a remark on where they come from."""

    objects: Path
    conf: Path
    remark: str = ""


def write(folder: Path, name: str, objects: Iterable[Json], conf: str = HEADLINE_CONF) -> Files:
    """Write a cluster and its configuration."""
    target = folder / name
    target.mkdir()
    files = Files(target / "objects.json", target / "scheduler.conf")
    with files.objects.open("w") as file:
        json.dump({"apiVersion": "v1", "kind": "List", "items": list(objects)}, file)
    files.conf.write_text(conf)
    return files


# --- single objects


def node(number: int, cpu: int = 32, memory: int = 256, name: str = "") -> Json:
    """A node with so many cores and GiB, in one of the zones."""
    name = name or f"n{number:05d}"
    room = {"cpu": str(cpu), "memory": f"{memory}Gi", "pods": "110"}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name, "zone": f"z{number % ZONES}"}},
        "status": {"capacity": room, "allocatable": room},
    }


def queue(name: str, weight: int = 1) -> Json:
    """An open queue."""
    return {
        "apiVersion": "scheduling.volcano.sh/v1beta1",
        "kind": "Queue",
        "metadata": {"name": name},
        "spec": {"weight": weight, "reclaimable": True},
        "status": {"state": "Open"},
    }


def group(name: str, number: int, queue_name: str, minimum: int, phase: str = "Inqueue") -> Json:
    """A pod group; its number is its age in seconds."""
    minute, second = divmod(number % 3600, 60)
    return {
        "apiVersion": "scheduling.volcano.sh/v1beta1",
        "kind": "PodGroup",
        "metadata": {
            "name": name,
            "namespace": "ns",
            "creationTimestamp": f"2026-01-01T{number // 3600 % 24:02d}:{minute:02d}:{second:02d}Z",
        },
        "spec": {"minMember": minimum, "queue": queue_name},
        "status": {"phase": phase},
    }


def pod(name: str, group_name: str, cpu: str, memory: str = "1Gi", node_name: str = "", **spec: Any) -> Json:
    """A pod of a group, running if it has a node. Its label `app` is the name of its group."""
    requests = {"cpu": cpu, "memory": memory}
    container = {"name": "main", "image": "work", "resources": {"requests": requests}}
    made: Json = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": name,
            "namespace": "ns",
            "labels": {"app": group_name},
            "annotations": {"scheduling.k8s.io/group-name": group_name},
            "creationTimestamp": "2026-01-01T00:00:00Z",
        },
        "spec": {"schedulerName": "volcano", "containers": [container], **spec},
        "status": {"phase": "Running" if node_name else "Pending"},
    }
    if node_name:
        made["spec"]["nodeName"] = node_name
    return made


# --- whole clusters


def base(nodes: int, queues: int = 4) -> Iterator[Json]:
    """Nodes and queues; the weights of the queues are 1, 2, 3, 4 and again."""
    yield from (node(i) for i in range(nodes))
    yield from (queue(f"q{i}", 1 + i % 4) for i in range(queues))


def mixed(nodes: int, gangs: int, size: int, queues: int = 4) -> Iterator[Json]:
    """Gangs that wait, each pod with one of six sizes: the form of the headline scenario."""
    rng = random.Random(3)
    yield from base(nodes, queues)
    for j in range(gangs):
        name = f"g{j:05d}"
        yield group(name, j, f"q{j % queues}", size)
        yield from (pod(f"{name}-{k}", name, rng.choice(CPUS)) for k in range(size))


def running(nodes: int, pods: int, gang: int) -> Iterator[Json]:
    """Pods that all run, in gangs of a size, and nothing that waits."""
    yield from base(nodes)
    for j in range(pods // gang):
        name = f"g{j:06d}"
        yield group(name, j, f"q{j % 4}", gang, "Running")
        for k in range(gang):
            yield pod(f"{name}-{k}", name, "1", node_name=f"n{(j * gang + k) % nodes:05d}")


def all_different(nodes: int, gangs: int, size: int) -> Iterator[Json]:
    """Gangs that wait, no two pods with the same request."""
    yield from base(nodes)
    for j in range(gangs):
        name = f"g{j:05d}"
        yield group(name, j, f"q{j % 4}", size)
        for k in range(size):
            number = j * size + k
            yield pod(f"{name}-{k}", name, f"{500 + number * 7919 % 5500}m", f"{1024 + number}Mi")


def apart(nodes: int, gangs: int, size: int) -> Iterator[Json]:
    """Gangs that wait, whose pods must be on different nodes and spread evenly over the zones."""
    yield from base(nodes)
    for j in range(gangs):
        name = f"g{j:05d}"
        mates = {"matchLabels": {"app": name}}
        term = {"labelSelector": mates, "topologyKey": "kubernetes.io/hostname"}
        spread = {"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule", "labelSelector": mates}
        spec: Json = {
            "affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}},
            "topologySpreadConstraints": [spread],
        }
        yield group(name, j, f"q{j % 4}", size)
        yield from (pod(f"{name}-{k}", name, CPUS[j % len(CPUS)], **spec) for k in range(size))


def busy(nodes: int, pods: int, gangs: int, size: int) -> Iterator[Json]:
    """Pods that run, each a group of its own, and gangs as in `apart` that wait."""
    yield from running(nodes, pods, 1)
    for obj in apart(0, gangs, size):
        if obj["kind"] != "Queue":
            yield obj


def full(nodes: int, gangs: int, size: int) -> Iterator[Json]:
    """Nodes on which four pods take everything, and gangs that wait for room that is not there."""
    yield from base(nodes)
    for j in range(nodes):
        name = f"r{j:05d}"
        yield group(name, j, f"q{j % 4}", 4, "Running")
        yield from (pod(f"{name}-{k}", name, "8", "64Gi", node_name=f"n{j:05d}") for k in range(4))
    rng = random.Random(3)
    for j in range(gangs):
        name = f"g{j:05d}"
        yield group(name, nodes + j, f"q{j % 4}", size)
        yield from (pod(f"{name}-{k}", name, rng.choice(CPUS)) for k in range(size))


# --- the headline scenario


def headline(folder: Path, nodes: int, gangs: int, size: int) -> Files:
    """The scenario whose figures of the Go original are known: from its own script where that is at hand."""
    script = SHARED / "tools" / "big_scenario.py"
    name = f"headline-{nodes}-{gangs}"
    if not script.is_file():
        files = write(folder, name, mixed(nodes, gangs, size))
        return Files(files.objects, files.conf, "big_scenario.py is not at hand; an own equivalent is used")
    target = folder / name
    target.mkdir()
    command = [sys.executable, str(script), str(nodes), str(gangs), str(size), str(target)]
    subprocess.run(command, check=True)
    return Files(target / "objects.json", target / "scheduler.conf", f"{script.name} {nodes} {gangs} {size}")
