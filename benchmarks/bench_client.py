"""The client in one process with the API server: events through a watch into the cache, operations of controllers."""

from __future__ import annotations

import json
import sys

import measure

PROBE = str(measure.HERE / "client_probe.py")


def probe(options: measure.Options, what: str, count: int) -> float:
    """Rate per second, the best of several processes."""
    runs = [measure.run([sys.executable, PROBE, what, str(count)]) for _ in range(min(options.runs, 3))]
    return max(float(json.loads(run.output)) for run in runs)


def body(options: measure.Options) -> None:
    count = options.size(20_000, 100)
    rows = [
        [words, f"{rate:,.0f}", f"{1e6 / rate:.0f} us"]
        for what, words in (
            ("relist", "pods listed, decoded and indexed"),
            ("events", "changes of pods from the watch to the cache"),
            ("operations", "looks of a controller, each with a patch, and its echo"),
        )
        for rate in [probe(options, what, count)]
    ]
    measure.show(f"{count:,} pods, processor time", ["what", "per second", "each"], rows)


if __name__ == "__main__":
    measure.benchmark(__doc__ or "", body)
