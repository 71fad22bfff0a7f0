"""Scheduler configurations whose clusters are watched over time: those that people use, and each action by itself."""

from __future__ import annotations

from support.builders import Data, conf, plugin

FIVE = "enqueue, allocate, preempt, reclaim, backfill"
JOBS = ("priority", "gang", "conformance")
NODES = ("predicates", "nodeorder")
LENIENT_GANG = plugin("gang", enableReclaimable=False)
TREE = plugin("capacity", enableHierarchy=True)
CARDS = plugin(
    "capacity-card",
    {
        "overCommitFactor": 2,
        "cardUnlimitedCpuMemory": True,
        "podOwnerReferenceToServiceType": {"ReplicaSet": "inference", "Job": "training"},
    },
)
NIGHT = plugin("tdm", {"tdm.revocable-zone.night": "20:00-23:30", "tdm.evict.period": "1s"})

CONFIGURATIONS: dict[str, Data] = {
    "default": conf(
        "enqueue, allocate, backfill", JOBS, ["overcommit", "drf", "predicates", "proportion", "nodeorder"]
    ),
    "five": conf(FIVE, JOBS, ["drf", "predicates", "proportion", "nodeorder"]),
    "five-overcommit": conf(FIVE, JOBS, ["overcommit", "drf", "predicates", "proportion", "nodeorder"]),
    "five-proportion": conf(FIVE, JOBS, ["predicates", "proportion", "nodeorder"]),
    "five-capacity": conf(FIVE, JOBS, ["predicates", "capacity", "nodeorder"]),
    "flat": conf("enqueue, allocate, reclaim, backfill, preempt", [LENIENT_GANG, "capacity", *NODES]),
    "tree": conf("enqueue, allocate, reclaim, backfill, preempt", [LENIENT_GANG, TREE, *NODES]),
    "tree-first-starving": conf(
        "enqueue, allocate, reclaim, backfill, preempt",
        [plugin("gang", enableReclaimable=False, enableJobStarving=False), "priority", TREE, *NODES],
    ),
    "full-tree": conf(
        "enqueue, allocate, backfill, reclaim, preempt",
        ["priority", LENIENT_GANG, "conformance", TREE],
        [*NODES, "binpack"],
    ),
    "voting-tree": conf("allocate, reclaim", JOBS, ["predicates", TREE, "nodeorder"]),
    "preempt": conf("allocate, preempt", JOBS, ["predicates", TREE, "nodeorder"]),
    "gangs": conf(
        "allocate, backfill, gangreclaim, gangpreempt",
        ["priority", plugin("gang", enablePreemptable=False), "conformance", "sla", "capacity"],
        ["overcommit", plugin("drf", enablePreemptable=False), *NODES, "binpack", "network-topology-aware"],
    ),
    "gangs-tree": conf("enqueue, allocate, gangpreempt, gangreclaim", JOBS, ["predicates", TREE, "nodeorder"]),
    "cards": conf(
        "enqueue, allocate, backfill, reclaim",
        ["priority", LENIENT_GANG, plugin("conformance", enableReclaimable=False)],
        ["predicates", CARDS, "nodeorder"],
    ),
    "hierarchical-drf": conf(FIVE, JOBS, [plugin("drf", enableHierarchy=True), *NODES]),
    "no-queue-plugin": conf(FIVE, JOBS, NODES),
    "shuffle": conf("enqueue, allocate, backfill, shuffle", JOBS, ["predicates", "proportion", "nodeorder"]),
    "tdm": conf("enqueue, allocate, preempt, shuffle", JOBS, ["predicates", "proportion", "nodeorder", NIGHT]),
}

NETWORK = ("overcommit", "drf", "predicates", "nodeorder", "binpack", "network-topology-aware")

MIXED: dict[str, Data] = {
    **{name: CONFIGURATIONS[name] for name in ("default", "five-capacity")},
    "network": conf(FIVE, JOBS, [*NETWORK, "capacity"]),
    "network-tree": conf(FIVE, JOBS, [*NETWORK[2:], TREE]),
    "network-gangs": conf("enqueue, allocate, backfill, gangpreempt, gangreclaim", JOBS, [*NETWORK[2:], "capacity"]),
}
"""Those whose clusters mix many rules."""

TREES = frozenset(
    name
    for name, found in {**CONFIGURATIONS, **MIXED}.items()
    if TREE in [p for t in found["tiers"] for p in t["plugins"]]
)
"""Those in which queues form a tree."""
