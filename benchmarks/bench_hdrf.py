"""Hierarchical drf: cycles over a thousand queues in trees of several forms, against the same queues with plain drf."""

from __future__ import annotations

import random
from collections.abc import Iterator

import measure
import scenarios
from scenarios import Json

CONF = """\
actions: "enqueue, allocate, backfill"
tiers:
- plugins:
  - name: priority
  - name: gang
  - name: drf
    enableHierarchy: {tree}
  - name: predicates
  - name: nodeorder
"""


def queues(count: int, departments: int) -> Iterator[Json]:
    """Queues as teams of so many departments; without departments they stand beside each other below the root."""
    for i in range(count):
        queue = scenarios.queue(f"q{i}")
        way = f"root/d{i % departments}/t{i}" if departments else f"root/t{i}"
        weights = "/".join(["1"] * way.count("/") + [str(1 + i % 4)])
        marks = {"volcano.sh/hierarchy": way, "volcano.sh/hierarchy-weights": weights}
        queue["metadata"]["annotations"] = marks
        yield queue


def cluster(nodes: int, count: int, departments: int, waiting: int) -> Iterator[Json]:
    """Nodes that are half full, every queue with a running gang of four, and gangs of four that wait."""
    rng = random.Random(3)
    yield from (scenarios.node(i) for i in range(nodes))
    yield from queues(count, departments)
    for i in range(count):
        name = f"r{i:05d}"
        yield scenarios.group(name, i, f"q{i}", 4, "Running")
        for k in range(4):
            yield scenarios.pod(f"{name}-{k}", name, rng.choice(scenarios.CPUS), node_name=f"n{(i + k) % nodes:05d}")
    for j in range(waiting):
        name = f"g{j:05d}"
        yield scenarios.group(name, count + j, f"q{j % count}", 4)
        yield from (scenarios.pod(f"{name}-{k}", name, rng.choice(scenarios.CPUS)) for k in range(4))


def body(options: measure.Options) -> None:
    nodes, count, jobs = options.size(2000, 12), options.size(1000, 12), options.size(2000, 24)
    few = options.size(20, 3)
    forms = [("plain drf", few, "false"), ("flat tree", 0, "true")]
    forms += [(f"{few} departments", few, "true"), ("one department", 1, "true")]
    rows = []
    for waiting in (0, jobs):
        for number, (name, departments, tree) in enumerate(forms):
            objects = cluster(nodes, count, departments, waiting)
            files = scenarios.write(options.folder, f"{waiting}-{number}", objects, CONF.format(tree=tree))
            found = measure.cycles([files.objects], files.conf, options.runs)
            times = [measure.seconds(value) for value in (found.first, found.best, found.median)]
            rows.append([f"{name}, {waiting:,} jobs wait", f"{found.bound:,}", f"{found.waiting:,}", *times])
    heading = ["case", "placed", "waiting", "first", "best", "median"]
    measure.show(f"cycles with {count:,} queues on {nodes:,} nodes", heading, rows)


if __name__ == "__main__":
    measure.benchmark(__doc__ or "", body)
