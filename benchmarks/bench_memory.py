"""Memory over many cycles: what one cycle took must be free for the next."""

from __future__ import annotations

import measure
import scenarios


def row(options: measure.Options, runs: int) -> list[str]:
    nodes, pods, gangs = options.size(5000, 20), options.size(100_000, 200), options.size(200, 2)
    files = scenarios.write(options.folder, f"busy-{runs}", scenarios.busy(nodes, pods, gangs, 10))
    found = measure.cycles([files.objects], files.conf, runs)
    return [
        f"{runs}",
        f"{found.pods:,}",
        f"{found.bound:,}",
        measure.seconds(found.first),
        measure.seconds(found.best),
        measure.seconds(found.median),
        measure.memory(found.peak),
        f"{found.growth:.2f}",
    ]


def body(options: measure.Options) -> None:
    heading = ["cycles", "pods", "placed", "first", "best", "median", "peak", "growth"]
    rows = [row(options, runs) for runs in (1, options.size(10, 2), options.size(40, 3))]
    measure.show(f"several cycles of one process on {options.size(5000, 20):,} nodes", heading, rows)


if __name__ == "__main__":
    measure.benchmark(__doc__ or "", body)
