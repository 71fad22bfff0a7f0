"""Load a cluster from files, run its next cycle several times, and print the times as JSON.

    python benchmarks/probe.py --conf FILE --runs 3 PATH [PATH...]

A cycle leaves the state as it was, so every run decides the same. The first run also does what a scheduler does once
after a change: it brings the node table and the job table up to date.
"""

from __future__ import annotations

import argparse
import json
import resource
import sys
import time

from kilauea.engine.cycle import cycle
from kilauea.engine.plan import Plan
from kilauea.runtime.inputs.conf_file import read_conf
from kilauea.runtime.inputs.objects import read_cluster
from kilauea.simulator.scenario import build_state


def main() -> None:
    """Print counts and seconds."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("paths", nargs="+", metavar="PATH")
    parser.add_argument("--conf")
    parser.add_argument("--runs", type=int, default=3)
    options = parser.parse_args()

    started = time.perf_counter()
    cluster = read_cluster(options.paths)
    conf = read_conf(options.conf)
    state = build_state(cluster.objects)
    load = time.perf_counter() - started
    times = []
    peaks = []
    plans: list[Plan] = []
    for _ in range(options.runs):
        started = time.perf_counter()
        plan = cycle(state, conf, cluster.newest)
        times.append(time.perf_counter() - started)
        peaks.append(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
        plans = [*plans[:1], plan]
    found = {
        "nodes": len(state.nodes),
        "pods": len(state.tasks),
        "bound": len(plans[0].binds),
        "waiting": len(plans[0].pending),
        "load": load,
        "times": times,
        "growth": peaks[-1] / peaks[0],
        "same": plans[0] == plans[-1],
        "warnings": cluster.warnings + [str(finding) for finding in (*conf.findings, *plans[0].findings)],
    }
    json.dump(found, sys.stdout)


if __name__ == "__main__":
    main()
