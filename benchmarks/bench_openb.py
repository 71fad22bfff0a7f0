"""A real GPU cluster, the trace openb with 1,523 nodes: how fast it is filled, and how much of its cards is used.

First all pods wait at once, and pods with a part of a card take a whole one; one cycle places what fits. Then pods
come one at a time and share cards, until they ask for 130% of the cards, for each list of the trace, in ten orders: how
much of the cards is allocated in the end, beside the figures of the paper of the trace.
"""

from __future__ import annotations

import csv
import gzip
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

SHARES = """
actions: allocate
tiers:
- plugins:
  - name: priority
  - name: gang
  - name: predicates
  - name: deviceshare
    arguments: {deviceshare.VGPUEnable: true, SHARE}
PLUGINS"""
TUNED = """  - name: binpack
    arguments:
      binpack.cpu: 0
      binpack.memory: 0
      binpack.resources: volcano.sh/vgpu-cores, volcano.sh/vgpu-number
"""
POLICIES = {
    "nodeorder and binpack": SHARES.replace(", SHARE", "").replace(
        "PLUGINS", "  - name: nodeorder\n  - name: binpack\n"
    ),
    "binpack, tuned": SHARES.replace(
        "SHARE", "deviceshare.SchedulePolicy: binpack, deviceshare.ScheduleWeight: 10"
    ).replace("PLUGINS", TUNED),
    "fragmentation": SHARES.replace(", SHARE", "").replace("PLUGINS", "  - name: fragmentation\n"),
}
LISTS = ("default", "cpu050", "gpushare40", "gpuspec33", "multigpu20")
PAPER = {"random": "01-Random", "best fit": "05-BestFit", "FGD": "06-FGD"}


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


def published(variant: str) -> list[str]:
    """Figures of the paper, the means of ten orders."""
    with gzip.open(DATA / "ref_fgd_openb.csv.gz", "rt", newline="") as file:
        rows = [r for r in csv.DictReader(file) if r["metric"] == "alloc_pct" and r["variant"] == variant]
    return [
        f"{name} {statistics.mean(float(r['a130']) for r in rows if r['policy'] == key):.1f}%"
        for name, key in PAPER.items()
    ]


def filled(options: measure.Options, variant: str, name: str) -> list[str]:
    """One policy on one list of pods: the share of cards that is allocated, over all orders."""
    conf = options.folder / "shares.conf"
    conf.write_text(POLICIES[name])
    tables = [str(DATA / "openb_nodes.csv.gz"), str(DATA / f"openb_pods_{variant}.csv.gz")]
    first = ["--first", "50"] if options.smoke else []
    found = []
    for seed in range(42, 42 + options.size(10, 1)):
        command = [sys.executable, str(measure.HERE / "openb_shares.py"), *tables, "--conf", str(conf), *first]
        found.append(json.loads(measure.run([*command, "--seed", str(seed)]).output))
    allocated = [run["allocated"] for run in found]
    each = statistics.median(run["seconds"] / run["pods"] for run in found)
    spread = f"{min(allocated):.1f} to {max(allocated):.1f}%"
    return [variant, name, f"{statistics.mean(allocated):.2f}%", spread, f"{each * 1000:.2f} ms", *published(variant)]


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
    print(f"{parts:,} of them ask for a part of a card and get a whole one in this table")
    heading = ["nodes are filled by", "placed", "waiting", "cards", "best", "median", "pods/s", "whole command", "peak"]
    measure.show("one cycle", heading, [row(options, name, objects, pods) for name in CONFS])
    heading = ["list", "plugins", "allocated", "orders", "a pod", "paper", "paper", "paper"]
    lists = LISTS[: options.size(len(LISTS), 1)]
    measure.show("pods one at a time", heading, [filled(options, v, name) for v in lists for name in POLICIES])


if __name__ == "__main__":
    measure.benchmark(__doc__ or "", body)
