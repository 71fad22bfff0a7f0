"""Cycles over a full cluster until it rests: pods claim room, others are evicted for them, terminate and come back.

    python benchmarks/bench_over_time.py [--smoke]
    python benchmarks/bench_over_time.py probe CONF CYCLES PATH

The second form is what the first starts for each line: it prints what it found as JSON. Every case runs once, whatever
`--runs` says: most of its cycles are alike. Between two cycles a second passes, in which the plan comes true
(`kilauea.simulator.cluster`): what is bound runs, what is evicted terminates for its grace period and then waits again,
because a controller makes it once more.

The least number of evictions is exact in these clusters, as nothing is free and all pods that run are of one size:
what the preemptors ask for beyond the free room, divided by that size.
"""

from __future__ import annotations

import json
import math
import statistics
import sys
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import bench_evictions as evictions
import measure
import scenarios
from scenarios import Json

from kilauea.engine import cycle as engine
from kilauea.engine.model.attempts import NO_BACKOFF
from kilauea.runtime.inputs.conf_file import read_conf
from kilauea.runtime.inputs.objects import read_cluster
from kilauea.simulator.cluster import SimulatedCluster
from kilauea.simulator.scenario import build_state

CORE = 1000
"""In millicores."""


@dataclass(frozen=True)
class Case:
    """A full cluster where pods claim room, and how long evicted pods take to terminate."""

    name: str
    of: evictions.Case
    grace: int
    tree: bool = False

    @property
    def conf(self) -> str:
        """Flat queues, or a tree of them."""
        conf = evictions.conf_of(self.of)
        return conf.replace(evictions.FLAT, evictions.TREE) if self.tree else conf


CASES = tuple(
    Case(name, of, grace, tree)
    for name, of, tree in (
        ("reclaim, flat queues", evictions.RECLAIM, False),
        ("reclaim, tree of queues", evictions.RECLAIM, True),
        ("preempt", evictions.PREEMPT, False),
    )
    for grace in (0, 5)
)


def cluster(case: Case, nodes: int, preemptors: int) -> Iterator[Json]:
    """The objects of a case: those of `bench_evictions.py`, with grace periods and controllers."""
    if case.tree:
        yield from departments(nodes * 10 * case.of.held)
    for obj in evictions.cluster(case.of, nodes, preemptors):
        if obj["kind"] == "Pod":
            owner = {"apiVersion": "batch/v1", "kind": "Job", "name": "work", "uid": "work", "controller": True}
            obj["metadata"]["ownerReferences"] = [owner]
            obj["spec"]["terminationGracePeriodSeconds"] = case.grace
        elif obj["kind"] == "Queue" and case.tree:
            quarter = nodes * 10 * case.of.held // 4
            obj["spec"].update(
                parent="wants" if obj["metadata"]["name"] == "claims" else "has", deserved=cores(quarter)
            )
        yield obj


def departments(total: int) -> Iterator[Json]:
    """The root, and two queues below it that share the cluster: one whose teams run, one whose team claims."""
    yield scenarios.queue("root")
    for name, share in (("wants", total // 4), ("has", total * 3 // 4)):
        queue = scenarios.queue(name)
        queue["spec"].update(parent="root", deserved=cores(share))
        yield queue


def cores(count: int) -> Json:
    """So many cores, and a GiB for each."""
    return {"cpu": str(count), "memory": f"{count}Gi"}


# --- measuring


def probe(conf_path: str, cycles: str, path: str) -> None:
    """Print what so many cycles took and brought about."""
    loaded = read_cluster([path])
    conf, state = read_conf(conf_path), build_state(loaded.objects)
    simulated, backoff = SimulatedCluster(loaded.objects, loaded.newest), NO_BACKOFF
    times, evicted, started = [], Counter[str](), Counter[str]()
    rest = 0
    for number in range(1, int(cycles) + 1):
        before = time.perf_counter()
        plan = engine.cycle(state, conf, simulated.now, backoff=backoff.at(simulated.now - loaded.newest))
        times.append(time.perf_counter() - before)
        backoff = plan.backoff or backoff
        evicted.update(eviction.pod for eviction in plan.evictions)
        started.update(bind.pod for bind in plan.binds)
        events = simulated.carry_out(plan)
        if events or not simulated.settled:
            rest = number
        for event in events:
            state.apply(event)
    found = {
        "times": times,
        "rest": rest,
        "started": len(started),
        "evictions": evicted.total(),
        "again": sum(count > 1 for count in evicted.values()),
    }
    json.dump(found, sys.stdout)


def least(objects: Iterable[Json]) -> int:
    """Evictions that must be, for all pods that wait to run: pods that run are of one size, and so are the nodes."""
    room, asked, sizes = 0, 0, set[int]()
    for obj in objects:
        if obj["kind"] == "Node":
            room += int(obj["status"]["allocatable"]["cpu"]) * CORE
        elif obj["kind"] == "Pod":
            size = int(obj["spec"]["containers"][0]["resources"]["requests"]["cpu"]) * CORE
            if obj["spec"].get("nodeName"):
                room -= size
                sizes.add(size)
            else:
                asked += size
    return math.ceil(max(asked - room, 0) / max(sizes))


def found_in(files: scenarios.Files, cycles: int) -> dict[str, Any]:
    """The output of the probe."""
    command = [sys.executable, __file__, "probe", str(files.conf), str(cycles), str(files.objects)]
    found: dict[str, Any] = json.loads(measure.run(command).output)
    return found


def row(options: measure.Options, number: int, case: Case) -> list[str]:
    """One line: a case, until the last cycle."""
    nodes, preemptors, cycles = options.size(2000, 20), options.size(500, 10), options.size(100, 20)
    objects = list(cluster(case, nodes, preemptors))
    files = scenarios.write(options.folder, f"over-time-{number}", objects, case.conf)
    found = found_in(files, cycles)
    rest, times, fewest = found["rest"], found["times"], least(objects)
    busy, idle = times[:rest], times[rest:]
    return [
        f"{case.name}, grace {case.grace} s",
        f"{found['started']:,}",
        f"{rest}" if idle else f"not in {cycles}",
        *map(measure.seconds, (sum(times), times[0], statistics.median(busy))),
        measure.seconds(statistics.median(idle)) if idle else "-",
        f"{found['evictions']:,}",
        f"{fewest:,}",
        f"{found['evictions'] / fewest:.2f}",
        f"{found['again']:,}",
    ]


def body(options: measure.Options) -> None:
    nodes, preemptors, cycles = options.size(2000, 20), options.size(500, 10), options.size(100, 20)
    measure.show(
        f"{cycles} cycles: {nodes:,} nodes full with {nodes * 10:,} pods, {preemptors} pods claim room",
        ["case", "started", "rest after", "all", "first", "median", "idle", "evicted", "least", "ratio", "twice"],
        [row(options, number, case) for number, case in enumerate(CASES)],
    )


if __name__ == "__main__":
    if sys.argv[1:2] == ["probe"]:
        probe(*sys.argv[2:])
    else:
        measure.benchmark(__doc__ or "", body)
