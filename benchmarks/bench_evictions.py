"""Making room by evictions: reclaim and preempt on a full cluster, what is hardest on them, and a large tree of queues.

    python benchmarks/bench_evictions.py [--smoke] [--runs N]
    python benchmarks/bench_evictions.py probe CONF RUNS PATH [TASK]

The second form is what the first starts for each line: it prints what it found as JSON. With a task, that task changes
before every cycle, and the time of the plugins' opening is measured beside that of the cycle.
"""

from __future__ import annotations

import json
import statistics
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import measure
import scenarios
from scenarios import Json

from kilauea.engine import cycle as engine
from kilauea.engine.events import Changed
from kilauea.runtime.inputs.conf_file import read_conf
from kilauea.runtime.inputs.objects import read_cluster
from kilauea.simulator.scenario import build_state

TARGET_CYCLE, TARGET_FIGURES = 1.0, 0.005

CONF = """\
actions: "enqueue, allocate, {action}"
tiers:
- plugins:
  - name: priority
  - name: gang
    enablePreemptable: {gangs}
    enableReclaimable: {gangs}
  - name: conformance
- plugins:
  - name: predicates
{queues}  - name: nodeorder
"""


FLAT = "  - name: capacity\n"
TREE = FLAT + "    enableHierarchy: true\n"


@dataclass(frozen=True)
class Case:
    """A full cluster: ten pods of `held` cores on every node, in gangs; and gangs that claim room."""

    name: str
    action: str
    held: int = 3
    gang: int = 10
    minimum: int = 5
    asked: tuple[int, ...] = (3, 3, 3, 6, 6)
    """Cores that each pod of a claiming gang asks for, by number of the gang."""
    to_spare: bool = True
    """True if some pods are borrowed or less important."""
    one_in: int = 1
    """One in so many of the preemptors claims room."""


RECLAIM = Case("reclaim", "reclaim")
PREEMPT = Case("preempt", "preempt")
CASES = (
    RECLAIM,
    PREEMPT,
    *(
        replace(case, name=f"{case.name}, {name}", **change)
        for case in (RECLAIM, PREEMPT)
        for name, change in (
            ("large gangs go whole", {"gang": 50, "minimum": 50}),
            ("victims are tiny", {"held": 1, "minimum": 1, "asked": (8,)}),
            ("no victims", {"to_spare": False}),
            ("no victims, 28 sizes", {"to_spare": False, "asked": tuple(range(3, 31))}),
        )
    ),
    *(
        Case(f"{action}, 28 sizes", action, asked=tuple(range(3, 31)), one_in=10)
        for action in ("gangreclaim", "gangpreempt")
    ),
)


def cluster(case: Case, nodes: int, preemptors: int) -> Iterator[Json]:
    """The objects of a case; a claiming gang has five pods, and its queue deserves more than they ask for."""
    reclaim = case.action.endswith("reclaim")
    cores = nodes * 10 * case.held
    shares = {"claims": cores, **dict.fromkeys(("q0", "q1", "q2"), cores // 4 if case.to_spare else cores)}
    yield from (scenarios.node(i, 10 * case.held, 256) for i in range(nodes))
    for name, share in shares.items():
        queue = scenarios.queue(name)
        queue["spec"]["deserved"] = {"cpu": str(share), "memory": f"{share}Gi"}
        yield queue
    for name, value in (("low", 10), ("high", 1000 if case.to_spare else 10)):
        yield {
            "apiVersion": "scheduling.k8s.io/v1",
            "kind": "PriorityClass",
            "metadata": {"name": name},
            "value": value,
        }
    for j in range(nodes * 10 // case.gang):
        name = f"r{j:05d}"
        made = scenarios.group(name, j, f"q{j % 3}" if reclaim else "claims", case.minimum, "Running")
        made["spec"]["priorityClassName"] = "low"
        yield made
        for k in range(case.gang):
            row = (j * case.gang + k) % nodes
            yield scenarios.pod(f"{name}-{k}", name, str(case.held), node_name=f"n{row:05d}")
    for j in range(preemptors // 5):
        name = f"c{j:05d}"
        made = scenarios.group(name, nodes * 10 + j, "claims", 5)
        made["spec"]["priorityClassName"] = "high"
        yield made
        cpu = str(case.asked[j % len(case.asked)])
        yield from (scenarios.pod(f"{name}-{k}", name, cpu) for k in range(5))


def conf_of(case: Case) -> str:
    """The configuration of a case: votes of the gang plugin would spare gangs at their minimum."""
    return CONF.format(
        action=case.action,
        queues=FLAT if case.action.endswith("reclaim") else "",
        gangs=str(case.minimum < case.gang).lower(),
    )


def tree(count: int, depth: int, nodes: int) -> Iterator[Json]:
    """Queues in a tree of so many levels below the root, every leaf with a gang of four that runs."""
    width = round(count ** (1 / depth))
    while sum(width**level for level in range(1, depth + 1)) < count:
        width += 1
    yield from (scenarios.node(i) for i in range(nodes))
    yield scenarios.queue("root")
    level, made, leaves = ["root"], 0, list[str]()
    for below in range(depth):
        children = [
            (f"{parent if parent != 'root' else 'q'}-{k}", parent)
            for k in range(width)
            for parent in level
            if below < depth - 1 or k < width
        ]
        # The lowest level takes what is left, so that the whole tree has the number of queues that was asked for.
        children = children[: count - made]
        for name, parent in children:
            queue = scenarios.queue(name)
            queue["spec"].update(parent=parent, deserved={"cpu": "8", "memory": "8Gi"})
            yield queue
        made += len(children)
        parents = {parent for _, parent in children}
        leaves += [name for name in level if name not in parents and name != "root"]
        level = [name for name, _ in children]
    for j, leaf in enumerate(leaves + level):
        name = f"r{j:05d}"
        yield scenarios.group(name, j, leaf, 4, "Running")
        yield from (scenarios.pod(f"{name}-{k}", name, "1", node_name=f"n{(j + k) % nodes:05d}") for k in range(4))


# --- measuring


def probe(conf_path: str, runs: str, path: str, task: str = "") -> None:
    """Print what cycles over a cluster took and decided."""
    loaded = read_cluster([path])
    conf, state = read_conf(conf_path), build_state(loaded.objects)
    pods = {obj.key: obj for obj in loaded.objects if obj.kind == "Pod"}
    opening, whole = 0.0, vars(engine)["open_plugins"]

    def timed(*arguments: Any) -> Any:
        nonlocal opening
        started = time.perf_counter()
        opened = whole(*arguments)
        opening = time.perf_counter() - started
        return opened

    vars(engine)["open_plugins"] = timed
    times, openings, plans = [], [], []
    for _ in range(int(runs)):
        if task:
            state.apply(Changed(pods[task]))
        started = time.perf_counter()
        plans.append(engine.cycle(state, conf, loaded.newest))
        times.append(time.perf_counter() - started)
        openings.append(opening)
    plan = plans[-1]
    found = {
        "times": times,
        "openings": openings,
        "evictions": len(plan.evictions),
        "nominations": len(plan.nominations),
        "same": plans[0] == plan,
    }
    json.dump(found, sys.stdout)


def found_in(options: measure.Options, files: scenarios.Files, *task: str) -> dict[str, Any]:
    """The output of the probe."""
    command = [sys.executable, __file__, "probe", str(files.conf), str(options.runs), str(files.objects), *task]
    found: dict[str, Any] = json.loads(measure.run(command).output)
    if not found["same"]:
        sys.exit("two cycles of one state decided differently")
    return found


def row(options: measure.Options, number: int, case: Case) -> list[str]:
    """One line: a case of evictions."""
    nodes, preemptors = options.size(2000, 20), options.size(500, 10)
    conf = conf_of(case)
    files = scenarios.write(
        options.folder, f"evictions-{number}", cluster(case, nodes, max(preemptors // case.one_in, 5)), conf
    )
    found = found_in(options, files)
    best, median = min(found["times"]), statistics.median(found["times"])
    figures = [measure.seconds(value) for value in (found["times"][0], best, median)]
    return [
        case.name,
        f"{found['nominations']:,}",
        f"{found['evictions']:,}",
        *figures,
        f"{median / TARGET_CYCLE:.2f}",
    ]


def figures_of_queues(options: measure.Options) -> list[list[str]]:
    """The lines about trees of queues."""
    count, nodes = options.size(1000, 20), options.size(500, 20)
    out = []
    for depth in (1, 5):
        conf = CONF.format(action="reclaim", queues=TREE, gangs="true")
        files = scenarios.write(options.folder, f"tree-{depth}", tree(count, depth, nodes), conf)
        found = found_in(options, files, "ns/r00000-0")
        opening = statistics.median(found["openings"][1:])
        figures = [found["openings"][0], min(found["openings"]), opening, statistics.median(found["times"])]
        name = f"{count:,} queues, levels: {depth}"
        out.append([name, *map(measure.seconds, figures), f"{opening / TARGET_FIGURES:.2f}"])
    return out


def body(options: measure.Options) -> None:
    nodes, preemptors = options.size(2000, 20), options.size(500, 10)
    measure.show(
        f"{nodes:,} nodes full with {nodes * 10:,} pods, {preemptors} claim (target: {measure.seconds(TARGET_CYCLE)})",
        ["case", "nominated", "evicted", "first", "best", "median", "of target"],
        [row(options, number, case) for number, case in enumerate(CASES)],
    )
    measure.show(
        f"figures of queues after one task changed (target: {measure.seconds(TARGET_FIGURES)})",
        ["tree", "first", "best", "median", "whole cycle", "of target"],
        figures_of_queues(options),
    )


if __name__ == "__main__":
    if sys.argv[1:2] == ["probe"]:
        probe(*sys.argv[2:])
    else:
        measure.benchmark(__doc__ or "", body)
