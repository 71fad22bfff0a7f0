"""Very large clusters: a scheduler with up to a million running pods, alone and with a shard of the nodes."""

from __future__ import annotations

import json
import sys

import measure


def row(nodes: int, pods: int, more: int, shards: int) -> list[str]:
    """One cluster, in a process of its own."""
    numbers = [str(number) for number in (nodes, pods, more, shards)]
    found = json.loads(measure.run([sys.executable, str(measure.HERE / "scale_probe.py"), *numbers]).output)
    name = f"{nodes:,} nodes, {pods:,} pods"
    return [
        f"{name}, 1/{shards} of the nodes" if shards else name,
        measure.seconds(found["load"]),
        measure.seconds(found["first"]),
        measure.seconds(found["idle"]),
        measure.seconds(found["churn"]),
        f"{found['bound']:,}",
        measure.seconds(found["place"]),
        f"{found['kept']:,.0f} B",
        measure.memory(found["resident"]),
        measure.memory(found["peak"]),
    ]


def body(options: measure.Options) -> None:
    """One tenth, the whole, and the whole for a scheduler with a fifth of the nodes."""
    tenth = options.size(5000, 50), options.size(100_000, 500), options.size(1000, 20)
    whole = options.size(50_000, 100), options.size(1_000_000, 1000), options.size(10_000, 40)
    heading = ["cluster", "list", "first cycle", "idle", "50 changes", "placed", "in", "kept per pod", "memory", "peak"]
    rows = [row(*tenth, 0), row(*whole, 0), row(*whole, 5)]
    measure.show("CPU time and memory of one scheduler; the lists are from memory, not from a server", heading, rows)


if __name__ == "__main__":
    measure.benchmark(__doc__ or "", body)
