"""The GPU trace openb with parts of cards, pods one at a time until the demand is 130% of the cards.

    python benchmarks/openb_shares.py NODES.csv.gz PODS.csv.gz --conf CONF --seed 42 [--first 300]

As in the paper of the trace (Weng et al., USENIX ATC 2023), the list of pods is shuffled, and pods drawn from it are
added until they ask for 130% of the cards; none ends. Prints as JSON the share of all cards that is allocated then, in
percent, and the seconds of the cycle that decides about all pods in this order.

The trace has no memory of cards: each offers 1000 MiB, and a share takes memory and cores in the same proportion.
"""

from __future__ import annotations

import argparse
import json
import random
import time
from collections.abc import Iterator
from pathlib import Path

import msgspec
import openb
import yaml

from kilauea.api.core import Node, Pod
from kilauea.api.meta import Object
from kilauea.api.scheduling import PodGroup, Queue
from kilauea.api.times import parse_time
from kilauea.engine.actions import ACTIONS
from kilauea.engine.conf import parse_conf
from kilauea.engine.cycle import cycle
from kilauea.engine.events import Changed
from kilauea.engine.plugins import PLUGINS
from kilauea.engine.state import ClusterState

DEMAND = 1.3
CARD = 1000
SLOTS = 100
NUMBER, MEMORY, CORES = (f"volcano.sh/vgpu-{what}" for what in ("number", "memory", "cores"))
QUEUE = {
    "apiVersion": "scheduling.volcano.sh/v1beta1",
    "kind": "Queue",
    "metadata": {"name": "online"},
    "spec": {"weight": 1},
    "status": {"state": "Open"},
}


def node(row: openb.Row) -> openb.Json:
    """A machine whose device plugin registers each card."""
    out, cards = openb.node({**row, "gpu": "0"}), int(row["gpu"])
    if cards:
        offers = {NUMBER: str(cards * SLOTS), MEMORY: str(cards * CARD), CORES: str(cards * 100)}
        for part in ("capacity", "allocatable"):
            out["status"][part] = {**out["status"][part], **offers}
        entry = "{0}-{1}," + f"{SLOTS},{CARD},NVIDIA-{row['model']},true,hami-core:"
        text = "".join(entry.format(row["sn"], number) for number in range(cards))
        out["metadata"]["annotations"] = {"volcano.sh/node-vgpu-register": text}
    return out


def milli(row: openb.Row) -> int:
    """Thousandths of cards that a pod asks for."""
    return int(row["num_gpu"]) * int(row["gpu_milli"])


def pod(row: openb.Row, name: str, second: int) -> Iterator[openb.Json]:
    """A pod that arrives at a second, and its group."""
    named = {**row, "name": name, "qos": "LS", "creation_time": str(second), "num_gpu": "0"}
    group, made = openb.pod({"gpu_spec": "", **named})
    if int(row["num_gpu"]):
        share = int(row["gpu_milli"])
        asked = {NUMBER: row["num_gpu"], MEMORY: str(share), CORES: str(share // 10)}
        made["spec"]["containers"][0]["resources"]["requests"] |= asked
        made["spec"]["containers"][0]["resources"]["limits"] = asked
    yield group
    yield made


def arrivals(pods: list[openb.Row], cards: int, seed: int) -> list[openb.Row]:
    """The pods in the order in which they arrive."""
    rng = random.Random(seed)
    out, asked = list(pods), sum(map(milli, pods))
    while asked < DEMAND * cards * CARD:
        out.append(rng.choice(pods))
        asked += milli(out[-1])
    rng.shuffle(out)
    return out


def filled(nodes: list[openb.Row], order: list[openb.Row], conf: Path) -> tuple[float, float]:
    """Percentage of the cards that is allocated in the end, and the seconds of the cycle."""
    state = ClusterState()

    def put(data: openb.Json, of: type[Object]) -> None:
        state.apply(Changed(msgspec.convert(data, of)))

    put(QUEUE, Queue)
    for row in nodes:
        put(node(row), Node)
    asked: dict[str, int] = {}
    for second, row in enumerate(order):
        group, made = pod(row, f"pod-{second:06d}", second)
        put(group, PodGroup)
        put(made, Pod)
        asked[f"openb/pod-{second:06d}"] = milli(row)
    usable = parse_conf(yaml.safe_load(conf.read_text()), PLUGINS, ACTIONS)
    started = time.perf_counter()
    plan = cycle(state, usable, parse_time("2026-01-01T00:00:00Z"), brief=True)
    seconds = time.perf_counter() - started
    taken = sum(asked[bind.pod] for bind in plan.binds)
    return 100 * taken / CARD / sum(int(row["gpu"]) for row in nodes), seconds


def main() -> None:
    """Fill the cluster once."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("nodes", type=Path)
    parser.add_argument("pods", type=Path)
    parser.add_argument("--conf", type=Path, required=True, help="configuration of the scheduler")
    parser.add_argument("--seed", type=int, default=42, help="of the order [default: 42]")
    parser.add_argument("--first", type=int, help="take only so many pods")
    given = parser.parse_args()
    nodes = openb.rows(given.nodes)
    order = arrivals(openb.rows(given.pods), sum(int(row["gpu"]) for row in nodes), given.seed)[: given.first]
    percent, seconds = filled(nodes, order, given.conf)
    print(json.dumps({"pods": len(order), "allocated": percent, "seconds": seconds}))


if __name__ == "__main__":
    main()
