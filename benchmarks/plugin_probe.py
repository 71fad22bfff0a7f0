"""Compare cycles of one cluster in one process, and print the least CPU seconds of each as JSON.

    python benchmarks/plugin_probe.py --runs 3 OBJECTS CONF OBJECTS CONF OBJECTS CONF [...]

The cycles take turns, so a machine that slows down slows all of them. CPU time leaves out what other processes take.
"""

from __future__ import annotations

import argparse
import gc
import json
import sys
import time
from collections.abc import Sequence

from kilauea.engine.conf import SchedulerConf
from kilauea.engine.cycle import cycle
from kilauea.engine.extension.outside import Endpoint
from kilauea.engine.plan import Plan
from kilauea.engine.state import ClusterState
from kilauea.runtime.inputs.conf_file import read_conf
from kilauea.runtime.inputs.objects import read_cluster
from kilauea.runtime.tasks import collect_seldom
from kilauea.simulator.scenario import build_state

CYCLES = 3
"""Cycles of a case: without a plugin, with it, and with pods that use it."""


class NoServer:
    """An outside where every server can be asked, as in a live scheduler; no cycle here asks one."""

    def open(self, endpoint: Endpoint) -> NoServer:
        """Return a line to the server."""
        return self

    def ask(self, verb: str, bodies: object, *, read: bool = True) -> list[object]:
        """Refuse to answer."""
        raise RuntimeError(f"the extender is asked for {verb}")


def timed(state: ClusterState, conf: SchedulerConf, now: int) -> tuple[float, Plan]:
    """CPU seconds of one cycle, and its plan."""
    gc.collect()
    started = time.process_time()
    plan = cycle(state, conf, now, outside=NoServer())  # type: ignore[arg-type]
    return time.process_time() - started, plan


def compared(paths: Sequence[tuple[str, str]], runs: int) -> dict[str, object]:
    """The least seconds of each cycle, the pods that it places, and the warnings of the last one."""
    clusters = {path: read_cluster([path]) for path, _ in paths}
    states = {path: build_state(cluster.objects) for path, cluster in clusters.items()}
    confs = [read_conf(conf) for _, conf in paths]
    collect_seldom()  # as the scheduler does, once it has read the cluster
    best = [float("inf")] * len(paths)
    plans: list[Plan] = []
    for _ in range(runs):
        plans = []
        for number, (path, _) in enumerate(paths):
            seconds, plan = timed(states[path], confs[number], clusters[path].newest)
            best[number] = min(best[number], seconds)
            plans.append(plan)
    findings = [str(finding) for finding in (*confs[-1].findings, *plans[-1].findings)]
    return {"seconds": best, "placed": [len(plan.binds) for plan in plans], "findings": findings}


def main() -> None:
    """Print the answer for each case: three pairs of paths."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("paths", nargs="+", metavar="PATH")
    parser.add_argument("--runs", type=int, default=3)
    options = parser.parse_args()
    pairs = list(zip(options.paths[::2], options.paths[1::2], strict=True))
    cases = [pairs[i : i + CYCLES] for i in range(0, len(pairs), CYCLES)]
    json.dump([compared(case, options.runs) for case in cases], sys.stdout)


if __name__ == "__main__":
    main()
