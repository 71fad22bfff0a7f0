"""Cycles over clusters of unusual form, each against the headline scenario of the same size."""

from __future__ import annotations

from collections.abc import Iterator

import measure
import scenarios
from scenarios import Json


def cases(options: measure.Options) -> Iterator[tuple[str, Iterator[Json]]]:
    """Name and objects of every case; the first is the one to compare with."""
    nodes, gangs = options.size(5000, 24), options.size(1000, 10)
    many, few, large = options.size(500, 8), options.size(20, 2), options.size(500, 20)
    waiting = options.size(2000, 10)
    yield "six sizes of pods, four queues", scenarios.mixed(nodes, gangs, 10)
    yield "every pod different", scenarios.all_different(nodes, gangs, 10)
    yield "apart by node, spread over zones", scenarios.apart(nodes, gangs, 10)
    yield f"{many} queues", scenarios.mixed(nodes, gangs, 10, queues=many)
    yield f"{few} gangs of {large}", scenarios.mixed(nodes, few, large)
    yield f"full: {waiting:,} gangs of 10 wait", scenarios.full(nodes, waiting, 10)


def body(options: measure.Options) -> None:
    rows: list[list[str]] = []
    usual = 0.0
    for number, (name, objects) in enumerate(cases(options)):
        files = scenarios.write(options.folder, str(number), objects)
        found = measure.cycles([files.objects], files.conf, options.runs)
        per_pod = found.median / max(found.decided, 1)
        usual = usual or per_pod
        rows.append(
            [
                name,
                f"{found.bound:,}",
                f"{found.waiting:,}",
                measure.seconds(found.first),
                measure.seconds(found.best),
                measure.seconds(found.median),
                measure.per_second(found.decided, found.median),
                f"{per_pod / usual:.2f}",
                measure.memory(found.peak),
            ]
        )
    heading = ["case", "placed", "waiting", "first", "best", "median", "pods/s", "time per pod", "peak"]
    measure.show(f"cycles on {options.size(5000, 24):,} nodes (time per pod: first case is 1)", heading, rows)


if __name__ == "__main__":
    measure.benchmark(__doc__ or "", body)
