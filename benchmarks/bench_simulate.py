"""Traces through `kilauea simulate`: time, memory, and figures beside published ones.

The targets: all of openb (8,152 pods, 1,523 nodes) in less than 30 s, the busiest week of Philly in less than 5 minutes
on one core, both in less than 1 GiB.
"""

from __future__ import annotations

import csv
import gzip
import json
import resource
import sys
from pathlib import Path
from typing import Any, NamedTuple

import measure

DATA = measure.SHARED / "data"
WEEK = ("--from", "360h", "--for", "168h")
"""The busiest week of Philly in October 2017: 14,185 jobs from the 16th day."""
MURI = "name,cpu,memory,gpu\n" + "".join(f"node-{number},96,1Ti,8\n" for number in range(8))
MADE_UP = "submit,duration,pods,cpu,queue\n"


class Case(NamedTuple):
    """A simulation, and its targets in seconds of processor time; None for no target."""

    name: str
    words: tuple[str, ...]
    target: float | None = None


def cpu() -> float:
    """Processor time of all processes that have ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def simulated(words: tuple[str, ...]) -> tuple[measure.Run, float, Any]:
    """Run a simulation: the run, its processor time, and its report."""
    before = cpu()
    run = measure.run([sys.executable, "-m", "kilauea", "simulate", *words, "-o", "json"])
    return run, cpu() - before, json.loads(run.output)


def row(case: Case) -> list[str]:
    """A line of the table."""
    run, used, report = simulated(case.words)
    found = report["configurations"][0]["runs"][0]
    jobs = found["jobs"]["submitted"]
    target = f"{used / case.target:.2f}" if case.target else "-"
    cells = [f"{jobs:,}", f"{found['pods_started']:,}", f"{found['cycles']:,}", measure.seconds(used), target]
    return [case.name, *cells, measure.seconds(run.seconds), measure.per_second(jobs, used), measure.memory(run.peak)]


def made_up(options: measure.Options) -> tuple[str, ...]:
    """A trace and nodes of our own, where the shared traces are not at hand."""
    count = options.size(5000, 50)
    lines = (f"{number * 20},{600 + number % 50 * 60},{1 + number % 4},4,q{number % 3}\n" for number in range(count))
    jobs, nodes = options.folder / "jobs.csv", options.folder / "nodes.csv"
    jobs.write_text(MADE_UP + "".join(lines))
    nodes.write_text("name,cpu,memory\n" + "".join(f"n{number},64,256Gi\n" for number in range(40)))
    return "--nodes", str(nodes), "--trace", str(jobs)


def quarter(options: measure.Options) -> str:
    """The table of Philly's nodes with a quarter of each virtual cluster, at least one node."""
    with gzip.open(DATA / "philly_vc_nodes.csv.gz", "rt", newline="") as file:
        rows = list(csv.DictReader(file))
    target = options.folder / "quarter.csv"
    lines = (f"{each['vc']},{max(1, int(each['nodes']) // 4)},{each['gpus_per_node']}\n" for each in rows)
    target.write_text("vc,nodes,gpus_per_node\n" + "".join(lines))
    return str(target)


def published(options: measure.Options) -> None:
    """Muri's 400 jobs on 64 cards, beside the figures of its authors."""
    nodes: Path = options.folder / "muri.csv"
    nodes.write_text(MURI)
    _, _, report = simulated(("--nodes", str(nodes), "--trace", str(DATA / "muri_400_jobs.csv.gz")))
    run = report["configurations"][0]["runs"][0]
    ours = ["ours: in order of submission", run["completion"]["mean"], run["makespan"], run["completion"]["p99"]]
    with gzip.open(DATA / "ref_muri_400.csv.gz", "rt", newline="") as file:
        others = [[r["policy"], r["avg_jct_s"], r["makespan_s"], r["p99_jct_s"]] for r in csv.DictReader(file)]
    rows = [[str(name), *(f"{float(value):,.0f} s" for value in values)] for name, *values in (ours, *others)]
    measure.show("Muri's 400 jobs on 64 cards", ["policy", "mean JCT", "makespan", "99th percentile"], rows)


def body(options: measure.Options) -> None:
    cases = [Case("made up, 40 nodes", made_up(options))]
    if DATA.is_dir():
        openb = ("--nodes", str(DATA / "openb_nodes.csv.gz"), "--trace", str(DATA / "openb_pods_default.csv.gz"))
        philly = ("--trace", str(DATA / "philly_jobs_2017-10.csv.gz"))
        short = ("--for", "1h") if options.smoke else ()
        cases += [
            Case("openb", (*openb, *short), None if options.smoke else 30),
            Case("Philly's week", (*philly, "--nodes", str(DATA / "philly_vc_nodes.csv.gz"), *(short or WEEK)), 300),
            Case("the same, a quarter of the nodes", (*philly, "--nodes", quarter(options), *(short or WEEK)), 300),
        ]
    else:
        print("\nthe traces are not part of the repository, and no folder shared/data is beside this checkout")
    heading = ["trace", "jobs", "pods", "cycles", "CPU", "of target", "time", "jobs/s of CPU", "peak"]
    measure.show("one simulation", heading, [row(case) for case in cases])
    if DATA.is_dir() and not options.smoke:
        published(options)


if __name__ == "__main__":
    measure.benchmark(__doc__ or "", body)
