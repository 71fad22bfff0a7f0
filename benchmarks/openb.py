"""The GPU trace openb as Kubernetes objects: a node for each row of the node list, a pod group of one for each pod.

    python benchmarks/openb.py NODES.csv.gz PODS.csv.gz OUT.json [--first 3000]

The objects can be planned like any others: `kilauea plan -f OUT.json`. Nodes carry their card model as the label that
NVIDIA's tools set, `gpu_spec` of a pod becomes a required node affinity on it. A pod that asks for a part of a card
gets a WHOLE one here; `openb_shares.py` lets pods share cards. LS pods are in queue `online`, all others in
`offline`, whose guarantee is what its Burstable and Guaranteed pods ask for.
"""

from __future__ import annotations

import argparse
import csv
import gzip
import json
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from itertools import islice
from pathlib import Path
from typing import Any

Json = dict[str, Any]
Row = dict[str, str]

CARD = "nvidia.com/gpu"
MODEL = "nvidia.com/gpu.product"
START = datetime(2023, 1, 1, tzinfo=UTC)
"""Second 0 of the trace; it gives none."""


def rows(path: Path) -> list[Row]:
    """The lines of a gzipped table."""
    with gzip.open(path, "rt", newline="") as file:
        return list(csv.DictReader(file))


def room(row: Row, cards: str) -> dict[str, str]:
    """Cores, memory and cards of a node or a pod."""
    amounts = {"cpu": f"{row['cpu_milli']}m", "memory": f"{row['memory_mib']}Mi"}
    return amounts | ({CARD: cards} if int(cards) else {})


def node(row: Row) -> Json:
    """A machine."""
    labels = {"kubernetes.io/hostname": row["sn"]} | ({MODEL: row["model"]} if row["model"] else {})
    offers = room(row, row["gpu"]) | {"pods": "110"}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": row["sn"], "labels": labels},
        "status": {"capacity": offers, "allocatable": offers},
    }


def shares_a_card(row: Row) -> bool:
    """True if a pod requests a part of a card."""
    return row["num_gpu"] == "1" and int(row["gpu_milli"]) < 1000


def queue_of(row: Row) -> str:
    """The queue of a pod; priority classes have the same names."""
    return "online" if row["qos"] == "LS" else "offline"


def pod(row: Row) -> Iterator[Json]:
    """A pod and its group of one."""
    name, queue = row["name"], queue_of(row)
    created = (START + timedelta(seconds=int(row["creation_time"]))).strftime("%Y-%m-%dT%H:%M:%SZ")
    metadata = {"name": name, "namespace": "openb", "creationTimestamp": created}
    yield {
        "apiVersion": "scheduling.volcano.sh/v1beta1",
        "kind": "PodGroup",
        "metadata": metadata,
        "spec": {"minMember": 1, "queue": queue, "priorityClassName": queue},
        "status": {"phase": "Inqueue"},
    }
    container = {"name": "main", "image": "work", "resources": {"requests": room(row, row["num_gpu"])}}
    spec: Json = {"schedulerName": "volcano", "priorityClassName": queue, "containers": [container]}
    if row["gpu_spec"]:
        wanted = {"key": MODEL, "operator": "In", "values": row["gpu_spec"].split("|")}
        terms = {"nodeSelectorTerms": [{"matchExpressions": [wanted]}]}
        spec["affinity"] = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}}
    yield {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {**metadata, "annotations": {"scheduling.k8s.io/group-name": name}},
        "spec": spec,
        "status": {"phase": "Pending"},
    }


def queues(pods: list[Row]) -> Iterator[Json]:
    """The two queues and their priority classes."""
    steady = [row for row in pods if row["qos"] in ("Burstable", "Guaranteed")]
    sums = {column: sum(int(row[column]) for row in steady) for column in ("cpu_milli", "memory_mib", "num_gpu")}
    guarantee = {"cpu": f"{sums['cpu_milli']}m", "memory": f"{sums['memory_mib']}Mi", CARD: str(sums["num_gpu"])}
    for name, priority in (("online", 1000), ("offline", 100)):
        spec: Json = {"weight": 1, "reclaimable": name == "offline"}
        if name == "offline":
            spec["guarantee"] = {"resource": guarantee}
        yield {
            "apiVersion": "scheduling.volcano.sh/v1beta1",
            "kind": "Queue",
            "metadata": {"name": name},
            "spec": spec,
            "status": {"state": "Open"},
        }
        yield {
            "apiVersion": "scheduling.k8s.io/v1",
            "kind": "PriorityClass",
            "metadata": {"name": name},
            "value": priority,
        }


def objects(nodes: list[Row], pods: list[Row]) -> Iterator[Json]:
    """The whole cluster."""
    yield from map(node, nodes)
    yield from queues(pods)
    for row in pods:
        yield from pod(row)


def main() -> None:
    """Write the cluster as one List."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("nodes", type=Path)
    parser.add_argument("pods", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--first", type=int, help="take only so many pods")
    given = parser.parse_args()
    pods = list(islice(rows(given.pods), given.first))
    items = list(objects(rows(given.nodes), pods))
    given.out.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": items}))


if __name__ == "__main__":
    main()
