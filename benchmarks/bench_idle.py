"""An idle cycle: every pod runs and nothing waits. A scheduler does this every second of its life."""

from __future__ import annotations

import measure
import scenarios

TARGET_SECONDS = 0.05
TARGET_BYTES = 2**30


def row(options: measure.Options, gang: int) -> list[str]:
    nodes, pods = options.size(5000, 20), options.size(100_000, 200)
    objects = scenarios.running(nodes, pods, gang)
    files = scenarios.write(options.folder, f"idle-{gang}", objects, scenarios.FULL_CONF)
    found = measure.cycles([files.objects], files.conf, options.runs)
    return [
        f"{nodes:,} nodes, {pods // gang:,} groups of {gang}",
        f"{found.pods:,}",
        measure.seconds(found.load),
        measure.seconds(found.first),
        measure.seconds(found.best),
        measure.seconds(found.median),
        f"{found.median / TARGET_SECONDS:.2f}",
        measure.memory(found.peak),
        f"{found.peak / TARGET_BYTES:.2f}",
    ]


def body(options: measure.Options) -> None:
    measure.show(
        f"idle cycle (targets: {measure.seconds(TARGET_SECONDS)} and {measure.memory(TARGET_BYTES)})",
        ["cluster", "pods", "load", "first", "best", "median", "of target", "peak", "of target"],
        [row(options, gang) for gang in (10, 1)],
    )


if __name__ == "__main__":
    measure.benchmark(__doc__ or "", body)
