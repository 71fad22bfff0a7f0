"""The headline: one cycle that places everything, and the whole command `kilauea plan` around it."""

from __future__ import annotations

import statistics
import sys
from dataclasses import dataclass

import measure
import scenarios


@dataclass(frozen=True)
class Case:
    """A size of the headline scenario, and what the Go original takes for its cycle on a machine of this kind."""

    nodes: int
    gangs: int
    size: int
    original: float


CASES = (Case(1000, 500, 10, 13.4), Case(5000, 1000, 10, 34.7))
SMOKE = (Case(20, 10, 5, 13.4), Case(50, 20, 5, 34.7))


def compare(options: measure.Options, case: Case, files: scenarios.Files) -> list[str]:
    """One row: the cycle and its ratio to the original."""
    found = measure.cycles([files.objects], files.conf, options.runs)
    return [
        f"{case.nodes:,} nodes, {case.gangs:,} gangs of {case.size}",
        f"{found.bound:,}",
        measure.seconds(found.first),
        measure.seconds(found.best),
        measure.seconds(found.median),
        measure.per_second(found.bound, found.median),
        "-" if options.smoke else measure.seconds(case.original),
        "-" if options.smoke else measure.times_as_fast(case.original, found.median),
        measure.memory(found.peak),
    ]


def command(options: measure.Options, case: Case, files: scenarios.Files) -> list[str]:
    """One row: the command from its start to its last byte of output."""
    plan = [sys.executable, "-m", "kilauea", "plan", "-f", str(files.objects)]
    plan += ["--scheduler-conf", str(files.conf), "-o", "json"]
    runs = [measure.run(plan) for _ in range(options.runs)]
    times = [run.seconds for run in runs]
    return [
        f"{case.nodes:,} nodes, {case.gangs * case.size:,} pods",
        measure.seconds(min(times)),
        measure.seconds(statistics.median(times)),
        "-" if options.smoke else measure.times_as_fast(case.original, statistics.median(times)),
        measure.memory(max(run.peak for run in runs)),
    ]


def body(options: measure.Options) -> None:
    cases = SMOKE if options.smoke else CASES
    files = [scenarios.headline(options.folder, case.nodes, case.gangs, case.size) for case in cases]
    print("\n".join(f"scenario: {made.remark}" for made in files))
    measure.show(
        "cycle",
        ["cluster", "placed", "first", "best", "median", "pods/s", "original", "as fast", "peak"],
        [compare(options, case, made) for case, made in zip(cases, files, strict=True)],
    )
    measure.show(
        "kilauea plan -o json, start to end (against the cycle alone of the original)",
        ["cluster", "best", "median", "as fast", "peak"],
        [command(options, cases[-1], files[-1])],
    )


if __name__ == "__main__":
    measure.benchmark(__doc__ or "", body)
