"""Growth of the time of a cycle with the number of nodes and with the number of pods."""

from __future__ import annotations

import math
from collections.abc import Sequence

import measure
import scenarios

HEADING = ["", "first", "best", "median", "per pod", "exponent"]


def grow(options: measure.Options, what: str, sizes: Sequence[tuple[int, int]]) -> None:
    """Measure clusters of several sizes (nodes, pods) and show the exponent between neighbours."""
    rows: list[list[str]] = []
    before: tuple[int, float] | None = None
    for nodes, pods in sizes:
        files = scenarios.write(options.folder, f"{what}-{nodes}-{pods}", scenarios.mixed(nodes, pods // 10, 10))
        found = measure.cycles([files.objects], files.conf, options.runs)
        size = nodes if what == "nodes" else pods
        exponent = math.log(found.best / before[1]) / math.log(size / before[0]) if before else None
        before = size, found.best
        rows.append(
            [
                f"{size:,} {what}",
                measure.seconds(found.first),
                measure.seconds(found.best),
                measure.seconds(found.median),
                f"{found.best / pods * 1e6:.0f} us",
                "-" if exponent is None else f"{exponent:.2f}",
            ]
        )
    fixed = f"{sizes[0][1]:,} pods" if what == "nodes" else f"{sizes[0][0]:,} nodes"
    measure.show(f"growing number of {what}, {fixed}", HEADING, rows)


def body(options: measure.Options) -> None:
    if options.smoke:
        grow(options, "nodes", [(20, 50), (40, 50)])
        grow(options, "pods", [(20, 20), (20, 40)])
        return
    grow(options, "nodes", [(nodes, 4000) for nodes in (500, 1000, 2000, 4000, 8000)])
    grow(options, "pods", [(2000, pods) for pods in (1000, 2000, 4000, 8000, 16000)])


if __name__ == "__main__":
    measure.benchmark(__doc__ or "", body)
