"""A real GPU cluster: all pods of the trace openb wait at once for its 1,523 nodes; one cycle places what fits."""

from __future__ import annotations

import json
import statistics
import sys
from pathlib import Path

import measure
import openb
import scenarios

DATA = measure.SHARED / "data"
CONFS = {
    "nodeorder": scenarios.HEADLINE_CONF.replace("  - name: binpack\n", ""),
    "nodeorder and binpack": scenarios.HEADLINE_CONF,
}


def write(options: measure.Options, pods: list[openb.Row]) -> Path:
    """The cluster as a file."""
    target = options.folder / "objects.json"
    items = list(openb.objects(openb.rows(DATA / "openb_nodes.csv.gz"), pods))
    target.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": items}))
    return target


def row(options: measure.Options, name: str, objects: Path, pods: list[openb.Row]) -> list[str]:
    """One configuration: what is placed, how many cards that uses, how long it takes."""
    conf = options.folder / "scheduler.conf"
    conf.write_text(CONFS[name])
    command = [sys.executable, "-m", "kilauea", "plan", "-f", str(objects), "--scheduler-conf", str(conf), "-o", "json"]
    runs = [measure.run(command) for _ in range(options.runs)]
    plans = [json.loads(run.output) for run in runs]
    cycle = statistics.median(plan["timing"]["cycle"] for plan in plans)
    binds = plans[0]["binds"]
    cards = sum(int(pod["num_gpu"]) for pod in pods if f"openb/{pod['name']}" in binds)
    return [
        name,
        f"{len(binds):,}",
        f"{len(plans[0]['pending']):,}",
        f"{cards:,}",
        measure.seconds(min(plan["timing"]["cycle"] for plan in plans)),
        measure.seconds(cycle),
        measure.per_second(len(pods), cycle),
        measure.seconds(statistics.median(run.seconds for run in runs)),
        measure.memory(max(run.peak for run in runs)),
    ]


def body(options: measure.Options) -> None:
    if not DATA.is_dir():
        print("\nskipped: the trace is not part of the repository, and no folder shared/data is beside this checkout")
        return
    pods = openb.rows(DATA / "openb_pods_default.csv.gz")[: options.size(100_000, 100)]
    objects = write(options, pods)
    asked = sum(int(pod["num_gpu"]) for pod in pods)
    offered = sum(int(node["gpu"]) for node in openb.rows(DATA / "openb_nodes.csv.gz"))
    parts = sum(1 for pod in pods if openb.shares_a_card(pod))
    print(f"{len(pods):,} pods ask for {asked:,} of {offered:,} cards")
    print(f"{parts:,} of them ask for a part of a card and get a WHOLE one here: shared cards are not built yet")
    heading = ["nodes are filled by", "placed", "waiting", "cards", "best", "median", "pods/s", "whole command", "peak"]
    measure.show("one cycle", heading, [row(options, name, objects, pods) for name in CONFS])


if __name__ == "__main__":
    measure.benchmark(__doc__ or "", body)
