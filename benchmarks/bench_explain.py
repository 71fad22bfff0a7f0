"""The cost of an explanation beyond its cycle: `kilauea plan --explain` of a group that waits among many others.

    python benchmarks/bench_explain.py [--smoke] [--runs N]
    python benchmarks/bench_explain.py probe CONF RUNS PATH

The second form is what the first starts for each line: it prints what it found as JSON. The group is the one in the
middle of those that wait.
"""

from __future__ import annotations

import json
import statistics
import sys
import time
from collections.abc import Iterator

import bench_evictions as evictions
import measure
import scenarios
from scenarios import Json

from kilauea.runtime.inputs.conf_file import read_conf
from kilauea.runtime.inputs.objects import read_cluster
from kilauea.simulator.planning import plan_cycles

TARGET = 0.5


def cases(options: measure.Options) -> Iterator[tuple[str, Iterator[Json], str]]:
    """Name, objects and configuration of each case."""
    nodes, pods = options.size(5000, 20), options.size(2000, 20)
    yield f"{pods:,} pods wait for {nodes:,} full nodes", scenarios.full(nodes, pods, 1), scenarios.FULL_CONF
    yield "as gangs of ten", scenarios.full(nodes, pods // 10, 10), scenarios.FULL_CONF
    nodes, preemptors = options.size(2000, 20), options.size(500, 10)
    idle = next(case for case in evictions.CASES if case.action == "reclaim" and not case.to_spare)
    name = f"{preemptors:,} pods may take nothing back on {nodes:,} nodes"
    yield name, evictions.cluster(idle, nodes, preemptors), evictions.conf_of(idle)


def probe(conf_path: str, runs: str, path: str) -> None:
    """Print what explaining took and found."""
    cluster, conf = read_cluster([path]), read_conf(conf_path)
    result = plan_cycles(cluster.scenario(conf), timer=time.perf_counter)
    groups = list(dict.fromkeys(p.group for p in result.plan.pending))
    key = groups[len(groups) // 2]
    found = []
    for _ in range(int(runs)):
        started = time.perf_counter()
        explanation = result.explain(key)
        found.append((explanation, time.perf_counter() - started))
    explanation = found[0][0]
    out = {
        "cycle": result.cycle_seconds,
        "times": [seconds for _, seconds in found],
        "change": explanation.change.what if explanation.change else "none",
        "considered": sum(attempt.considered for attempt in explanation.attempts),
        "same": all(again == explanation for again, _ in found),
    }
    json.dump(out, sys.stdout)


def row(options: measure.Options, number: int, name: str, objects: Iterator[Json], conf: str) -> list[str]:
    files = scenarios.write(options.folder, f"explain-{number}", objects, conf)
    command = [sys.executable, __file__, "probe", str(files.conf), str(options.runs), str(files.objects)]
    found = json.loads(measure.run(command).output)
    if not found["same"]:
        sys.exit("two explanations of one plan differ")
    median = statistics.median(found["times"])
    figures = [found["cycle"], found["times"][0], min(found["times"]), median]
    counted = [found["change"], f"{found['considered']:,}"]
    return [name, *map(measure.seconds, figures), f"{median / TARGET:.2f}", *counted]


def body(options: measure.Options) -> None:
    measure.show(
        f"explaining one group (target beyond the cycle: {measure.seconds(TARGET)})",
        ["cluster", "cycle", "first", "best", "median", "of target", "change", "victims asked about"],
        [row(options, number, *case) for number, case in enumerate(cases(options))],
    )


if __name__ == "__main__":
    if sys.argv[1:2] == ["probe"]:
        probe(*sys.argv[2:])
    else:
        measure.benchmark(__doc__ or "", body)
