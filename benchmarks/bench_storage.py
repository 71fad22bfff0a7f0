"""The store of the API server alone: durable writes, lists, watches, memory; values of 1.5 KB."""

from __future__ import annotations

import json
import sys

import measure

PROBE = str(measure.HERE / "storage_probe.py")
TARGET_MEMORY = 2 << 30


def probe(options: measure.Options, *words: object) -> tuple[dict[str, float], int]:
    """The result of a measurement in a separate process and folder, and the peak memory of the process in bytes."""
    what, *rest = [str(word) for word in words]
    folder = options.folder / "-".join([what, *rest])
    run = measure.run([sys.executable, PROBE, what, str(folder), *rest])
    found: dict[str, float] = json.loads(run.output)
    return found, run.peak


def writes(options: measure.Options, durability: str, writers: int) -> list[str]:
    count = options.size(6400 if writers == 1 else 25_600, 128)
    runs = [probe(options, "writes", durability, writers, count + run)[0] for run in range(min(options.runs, 3))]
    best = max(runs, key=lambda found: found["rate"])
    return [
        f"{durability}, {writers} at once",
        f"{best['rate']:,.0f}",
        microseconds(best["loop"]),
        measure.seconds(best["p50"]),
        measure.seconds(best["p99"]),
    ]


def fanout(options: measure.Options, watchers: int, others: int, rate: int) -> list[str]:
    count = options.size(3 * (rate or 3000), 100)
    found, _ = probe(options, "fanout", watchers, others, rate, count)
    return [
        f"{watchers} watchers, {others:,} elsewhere, {f'{rate:,} a second' if rate else 'as fast as it goes'}",
        f"{found['rate']:,.0f}",
        microseconds(found["loop"]),
        measure.seconds(found["p50"]),
        measure.seconds(found["p99"]),
    ]


def cluster(options: measure.Options) -> list[list[str]]:
    nodes, pods = options.size(5000, 20), options.size(100_000, 200)
    found, peak = probe(options, "cluster", nodes, pods)
    rows = [
        ("fill, durable, 256 at once", measure.seconds(found["fill"])),
        ("list of all pods", measure.seconds(found["list"])),
        ("list of a namespace, a fiftieth", measure.seconds(found["namespace"])),
        ("page of 500 from the middle", measure.seconds(found["page"])),
        ("list of all pods, 1,000 revisions ago", measure.seconds(found["earlier"])),
        ("page of 500, 1,000 revisions ago", measure.seconds(found["earlier_page"])),
        ("open again", measure.seconds(found["open"])),
        ("peak memory, with the second opening", measure.memory(peak)),
        ("of target (2 GiB, for the whole server)", f"{peak / TARGET_MEMORY:.2f}"),
    ]
    return [list(row) for row in rows]


def microseconds(value: float) -> str:
    return f"{value * 1e6:.0f} us"


def body(options: measure.Options) -> None:
    heading = ["writes", "per second", "loop each", "p50", "p99"]
    rows = [writes(options, durability, n) for durability in ("full", "normal", "memory") for n in (1, 8, 64)]
    measure.show("writes that return when they are durable; `loop` is processor time of the event loop", heading, rows)
    heading = ["watches", "writes/s", "loop each", "p50", "p99"]
    cases = [(1, 0, 1000), (100, 0, 1000), (100, 5000, 1000), (100, 0, 0)]
    rows = [fanout(options, *case) for case in cases]
    measure.show("from the call of write to the batch in the watcher's hands, durability full", heading, rows)
    title = f"{options.size(5000, 20):,} nodes, {options.size(100_000, 200):,} pods"
    measure.show(title, ["cluster", "best"], cluster(options))


if __name__ == "__main__":
    measure.benchmark(__doc__ or "", body)
