"""The cost of each plugin in a cycle, when no pod uses it and when all do, against the same cycle without it."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Sequence
from typing import Any

import measure
import scenarios
from plugin_cases import CASES, Case, same

UNUSED, USED = 1.2, 2.0
"""Targets: the most that a plugin may multiply the time of a cycle by."""


SMOKE_AT_ONCE = 100
"""Cases that a process of a smoke run measures; else each has a process of its own."""


def write(options: measure.Options, number: int, case: Case) -> list[str]:
    """The three cycles of a case, each as the paths of its objects and its configuration."""
    size = options.size(1000, 20), options.size(500, 6), options.size(10, 5)
    without = scenarios.write(options.folder, f"{number}-without", case.objects(*size, used=False), case.conf(on=False))
    used = scenarios.write(options.folder, f"{number}-used", case.objects(*size, used=True), case.conf(on=True))
    pairs = [without.objects, without.conf, without.objects, used.conf, used.objects, used.conf]
    return [str(path) for path in pairs]


def measured(options: measure.Options, cases: Sequence[Case]) -> Iterator[dict[str, Any]]:
    """Seconds, pods placed and warnings of each case."""
    written = [write(options, number, case) for number, case in enumerate(cases)]
    at_once = SMOKE_AT_ONCE if options.smoke else 1
    for start in range(0, len(cases), at_once):
        paths = [path for several in written[start : start + at_once] for path in several]
        command = [sys.executable, str(measure.HERE / "plugin_probe.py"), "--runs", str(options.runs), *paths]
        yield from json.loads(measure.run(command).output)


def row(options: measure.Options, case: Case, found: dict[str, Any]) -> list[str]:
    """One line of the table."""
    for finding in found["findings"]:
        print(f"warning: {case.name}: {finding}")
    base, unused, all_use = found["seconds"]
    times = [None if case.use is same else unused / base, None if case.use is None else all_use / base]
    within = all(time is None or time <= most for time, most in zip(times, (UNUSED, USED), strict=True))
    return [
        case.name,
        measure.seconds(base),
        *("-" if time is None else f"{time:.2f}" for time in times),
        *(f"{found['placed'][number]:,}" for number in (0, 2)),
        "-" if options.smoke else "yes" if within else "no",
    ]


def body(options: measure.Options) -> None:
    size = f"{options.size(5000, 30):,} pods, {options.size(1000, 20):,} nodes"
    rows = [row(options, case, found) for case, found in zip(CASES, measured(options, CASES), strict=True)]
    heading = ["plugin", "without", "unused", "used by all", "placed", "placed, used", "within targets"]
    print(f"unused, used by all: times the cycle without the plugin; targets {UNUSED} and {USED}")
    measure.show(f"CPU time of a cycle: {size}", heading, rows)


if __name__ == "__main__":
    measure.benchmark(__doc__ or "", body)
