"""Very large clusters: a scheduler with up to a million running pods, alone and with a shard of the nodes."""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass

import measure


@dataclass(frozen=True)
class Case:
    """A cluster: its size, the pods that come later, and of how many shards the scheduler has one."""

    nodes: int
    pods: int
    more: int
    shards: int = 0
    stored: bool = False
    """Pods with all that the components of a cluster add to them."""

    @property
    def title(self) -> str:
        """The cluster in words."""
        parts = [f"{self.nodes:,} nodes, {self.pods:,} pods"]
        parts += [f"1/{self.shards} of the nodes"] if self.shards else []
        return ", ".join([*parts, "as stored"] if self.stored else parts)


def row(case: Case) -> list[str]:
    """One cluster, in a process of its own."""
    numbers = [str(number) for number in (case.nodes, case.pods, case.more, case.shards)]
    command = [sys.executable, str(measure.HERE / "scale_probe.py"), *numbers, *(["--stored"] if case.stored else [])]
    found = json.loads(measure.run(command).output)
    return [
        case.title,
        f"{found['size']:,.0f} B",
        f"{found['kept']:,.0f} B",
        measure.memory(found["resident"]),
        measure.memory(found["peak"]),
        measure.seconds(found["load"]),
        measure.seconds(found["first"]),
        measure.seconds(found["idle"]),
        measure.seconds(found["churn"]),
        f"{found['bound']:,}",
        measure.seconds(found["place"]),
    ]


def body(options: measure.Options) -> None:
    """A tenth of the cluster, as small pods, as stored ones and with a shard; then the whole, small and stored."""
    tenth = options.size(5000, 50), options.size(100_000, 500), options.size(1000, 20)
    whole = options.size(50_000, 100), options.size(1_000_000, 1000), options.size(10_000, 40)
    heading = ["cluster", "pod", "kept", "memory", "peak", "list", "first", "idle", "50 changes", "placed", "in"]
    cases = [Case(*tenth), Case(*tenth, stored=True), Case(*tenth, shards=5), Case(*whole), Case(*whole, stored=True)]
    measure.show("CPU time and memory of one scheduler, from lists page by page", heading, list(map(row, cases)))


if __name__ == "__main__":
    measure.benchmark(__doc__ or "", body)
