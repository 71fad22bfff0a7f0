"""Shared code of the benchmarks: options, runs in separate processes, tables.

Every measurement runs in a fresh process (`child.py`), so that no case pays for the garbage or the warm caches of the
one before, and peak memory is that of one case.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).resolve().parent
SHARED = HERE.parents[1] / "shared"
"""A folder beside the checkout with recorded clusters and traces; it need not be there."""


@dataclass(frozen=True)
class Options:
    """Options of the command line, and a temporary folder for files."""

    smoke: bool
    runs: int
    folder: Path

    def size(self, full: int, smoke: int) -> int:
        """A size of a case: the full one, or the tiny one of a smoke run."""
        return smoke if self.smoke else full


@dataclass(frozen=True)
class Run:
    """One run of a command. Memory is in bytes."""

    seconds: float
    peak: int
    output: str


@dataclass(frozen=True)
class Cycles:
    """Cycles of one cluster in one process. Memory is in bytes."""

    nodes: int
    pods: int
    bound: int
    waiting: int
    load: float
    """Seconds from the start of reading to the complete state."""
    times: list[float]
    growth: float
    """Peak memory after the last cycle, divided by that after the first."""
    peak: int

    @property
    def first(self) -> float:
        """Seconds of the first cycle after loading."""
        return self.times[0]

    @property
    def best(self) -> float:
        """Seconds of the quickest cycle."""
        return min(self.times)

    @property
    def median(self) -> float:
        """Seconds of the middle one."""
        return statistics.median(self.times)

    @property
    def decided(self) -> int:
        """Pods that the cycle had to decide about."""
        return self.bound + self.waiting


def benchmark(purpose: str, body: Callable[[Options], None]) -> None:
    """Read the command line and run a benchmark, between two lines that tell how busy the machine was."""
    parser = argparse.ArgumentParser(description=purpose)
    parser.add_argument("--smoke", action="store_true", help="tiny sizes: shows that it works, measures nothing")
    parser.add_argument("--runs", type=int, help="how often each cycle is run [default: 5; 2 with --smoke]")
    given = parser.parse_args()
    print(f"{purpose}\n{_machine()}; load before: {_load()}", flush=True)
    if given.smoke:
        print("smoke run: the sizes are tiny, the figures mean nothing", flush=True)
    with tempfile.TemporaryDirectory(prefix="kilauea-bench-") as folder:
        body(Options(given.smoke, given.runs or (2 if given.smoke else 5), Path(folder)))
    print(f"\nload after: {_load()}\n", flush=True)


def run(command: Sequence[str]) -> Run:
    """Run a command in a process of its own.

    Raises:
        SystemExit: the command failed.
    """
    launched = [sys.executable, str(HERE / "child.py"), *command]
    done = subprocess.run(launched, stdout=subprocess.PIPE, text=True, check=False)
    if done.returncode:
        sys.exit(f"{' '.join(command)} failed with exit status {done.returncode}")
    return Run(**json.loads(done.stdout))


def cycles(paths: Sequence[Path], conf: Path, runs: int) -> Cycles:
    """Load a cluster in a process of its own and run its next cycle several times."""
    options = ["--conf", str(conf), "--runs", str(runs)]
    child = run([sys.executable, str(HERE / "probe.py"), *options, *map(str, paths)])
    found = json.loads(child.output)
    for warning in found.pop("warnings"):
        print(f"warning: {warning}")
    if not found.pop("same"):
        sys.exit("two cycles of one state decided differently")
    return Cycles(**found, peak=child.peak)


# --- tables


def show(title: str, heading: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Print a table; all columns but the first stand to the right."""
    lines = [heading, *rows]
    widths = [max(len(line[i]) for line in lines) for i in range(len(heading))]
    print(f"\n{title}")
    for line in lines:
        first, *others = [cell.rjust(width) for cell, width in zip(line, widths, strict=True)]
        print("  ".join(["", line[0].ljust(len(first)), *others]), flush=True)


def seconds(value: float) -> str:
    """Seconds with three digits that count."""
    return f"{value:.1f} s" if value >= 100 else f"{value:.2f} s" if value >= 1 else f"{value * 1000:.1f} ms"


def per_second(count: int, value: float) -> str:
    """A rate."""
    return f"{count / value:,.0f}" if count else "-"


def memory(peak: int) -> str:
    """Bytes as MiB."""
    return f"{peak / 2**20:,.0f} MiB"


def times_as_fast(reference: float, value: float) -> str:
    """Ratio of a reference to a time: above 1x is faster than the reference."""
    return f"{reference / value:,.1f}x"


def _machine() -> str:
    return f"Python {platform.python_version()} on {platform.machine()}, {os.cpu_count()} cores"


def _load() -> str:
    return " ".join(f"{value:.2f}" for value in os.getloadavg())
