"""Gangs that have to be close together: 200 gangs of 50 on a tree of three tiers."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import measure
import scenarios
from scenarios import Json

CONF = """actions: "allocate"
tiers:
- plugins:
  - name: priority
  - name: gang
- plugins:
  - name: predicates
  - name: network-topology-aware
    arguments:
      weight: 10
  - name: nodeorder
"""
SWITCH, MIDDLE = 20, 10
"""Nodes under a switch, and switches under a domain of the second tier."""


def hypernode(name: str, tier: int, kind: str, members: list[str]) -> Json:
    return {
        "apiVersion": "topology.volcano.sh/v1alpha1",
        "kind": "HyperNode",
        "metadata": {"name": name},
        "spec": {"tier": tier, "members": [{"type": kind, "selector": {"exactMatch": {"name": m}}} for m in members]},
    }


def cluster(nodes: int, gangs: int, size: int, cpu: str, wish: Json) -> Iterator[Json]:
    """Nodes in a tree, one queue, and gangs with a wish."""
    machines = list(scenarios.base(nodes, queues=1))
    yield from machines
    names = [m["metadata"]["name"] for m in machines if m["kind"] == "Node"]
    switches = [names[i : i + SWITCH] for i in range(0, len(names), SWITCH)]
    for number, held in enumerate(switches):
        yield hypernode(f"s{number}", 1, "Node", held)
    middle = [range(i, min(i + MIDDLE, len(switches))) for i in range(0, len(switches), MIDDLE)]
    for number, children in enumerate(middle):
        yield hypernode(f"m{number}", 2, "HyperNode", [f"s{i}" for i in children])
    yield hypernode("top", 3, "HyperNode", [f"m{i}" for i in range(len(middle))])
    for number in range(gangs):
        group = scenarios.group(f"g{number}", number, "q0", size)
        group["spec"]["networkTopology"] = wish
        yield group
        for rank in range(size):
            yield scenarios.pod(f"g{number}-w-{rank}", f"g{number}", cpu)


def body(options: measure.Options) -> None:
    nodes, gangs, size = options.size(5000, 40), options.size(200, 4), options.size(50, 5)
    hard: dict[str, Any] = {"mode": "hard"}
    cases: list[tuple[str, str, dict[str, Any]]] = [
        ("hard, one switch", "8", {**hard, "highestTierAllowed": 1}),
        ("hard, two switches and more", "16", {**hard, "highestTierAllowed": 2}),
        ("hard, anywhere", "16", {**hard, "highestTierAllowed": 3}),
        ("soft", "8", {"mode": "soft"}),
    ]
    rows = []
    for number, (name, cpu, wish) in enumerate(cases):
        files = scenarios.write(options.folder, str(number), cluster(nodes, gangs, size, cpu, wish), CONF)
        found = measure.cycles([files.objects], files.conf, options.runs)
        rows.append(
            [
                name,
                f"{found.bound:,}",
                f"{found.waiting:,}",
                measure.seconds(found.best),
                measure.seconds(found.median),
                measure.per_second(found.decided, found.median),
                measure.memory(found.peak),
            ]
        )
    heading = ["wish", "placed", "waiting", "best", "median", "pods/s", "peak"]
    measure.show(f"{gangs:,} gangs of {size} on {nodes:,} nodes", heading, rows)


if __name__ == "__main__":
    measure.benchmark(__doc__ or "", body)
