"""`kilauea plan --explain` about queues: what people read is the golden one, what programs read says the same.

KILAUEA_UPDATE_GOLDEN=1 writes the golden files again; the difference is then for review.
"""

from __future__ import annotations

import json
import os
import re
from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml
from click.testing import CliRunner

from kilauea.api.scheduling import PodDisruptionBudget
from kilauea.cli.explain_queues import BORROWERS_SHOWN, REASONS_SHOWN
from kilauea.cli.main import main
from support.builders import (
    Data,
    Objects,
    build,
    flat,
    gang,
    group,
    manifest,
    node,
    pod,
    priority_class,
    queue,
)

GOLDEN = Path(__file__).resolve().parents[1] / "golden"
CARD = "NVIDIA-H200"


def conf(*last: str, actions: str = "enqueue, allocate, backfill, reclaim", first: tuple[str, ...] = ()) -> str:
    """A configuration: who is asked about victims stands in the first tier with the queue plugin."""
    reclaiming: list[Data] = [{"name": "gang", "enableReclaimable": False}, {"name": "conformance"}]
    tier: list[Data] = [{"name": "priority"}, *reclaiming, *({"name": name} for name in first)]
    for name in last:
        plugin, _, flag = name.partition("+")
        tier.append({"name": plugin} | ({"enableHierarchy": True} if flag else {}))
    nodes = [{"name": "predicates"}, {"name": "nodeorder"}]
    return yaml.safe_dump({"actions": actions, "tiers": [{"plugins": tier}, {"plugins": nodes}]})


def running(name: str, of: str, node: str, *, pods: int = 1, minimum: int = 1, **more: Any) -> Objects:
    """A group with pods that run on a node."""
    marks = {k: more.pop(k) for k in ("created", "priority_class") if k in more}
    made = group(name, of, minimum, "Running", priority=marks.get("priority_class"), created=marks.get("created"))
    return [made, [pod(f"{name}-{i}", name, node=node, labels={"app": name}, **more) for i in range(pods)]]


# --- the clusters


def cousins() -> tuple[Objects, str]:
    """Team-a may use 60 cpu. Its leaf batch holds all of that, and deep below its sister branch a group waits."""
    queues = [
        queue("team-a", deserved={"cpu": "60"}, capability={"cpu": "60"}),
        queue("services", parent="team-a", deserved={"cpu": "40"}),
        queue("search", parent="services", deserved={"cpu": "30"}),
        queue("training", parent="team-a", deserved={"cpu": "20"}),
        queue("batch", parent="training", deserved={"cpu": "20"}, reclaimable=False),
        queue("team-b", deserved={"cpu": "40"}),
    ]
    nodes = [node(f"n{i}", cpu=20, memory="200Gi") for i in range(5)]
    held = [running(f"sweep-{i}", "batch", f"n{i}", cpu="20") for i in range(3)]
    claim: list[Objects] = [group("index", "search", 2), [pod(f"index-{i}", "index", cpu="10") for i in range(2)]]
    return [queues, nodes, held, claim], conf("capacity+tree")


def spared() -> tuple[Objects, str]:
    """Red deserves 24 cpu and holds nothing. Others run on all nodes, and each is spared for a reason of its own."""
    queues = [
        queue("red", deserved={"cpu": "24"}),
        queue("within", deserved={"cpu": "16"}),
        queue("beyond", deserved={"cpu": "9"}),
        queue("fixed", deserved={"cpu": "1"}, reclaimable=False),
    ]
    budget = {
        "kind": "PodDisruptionBudget",
        "metadata": {"name": "keep", "namespace": "ns"},
        "spec": {"minAvailable": 1, "selector": {"matchLabels": {"app": "guarded"}}},
        "status": {"disruptionsAllowed": 0},
    }
    marked = {"volcano.sh/preemptable": "false"}
    held: list[Objects] = [
        running("ours", "within", "n0", pods=4, cpu="4"),
        running("pinned", "fixed", "n1", pods=2, cpu="4"),
        running("marked", "beyond", "n1", cpu="4", annotations=marked),
        running("guarded", "beyond", "n1", cpu="4"),
        running("system", "beyond", "n2", cpu="4", priorityClassName="system-cluster-critical"),
        running("gpu", "beyond", "n3", cpu="4"),
        running("large", "beyond", "n2", cpu="10"),
        running("small", "beyond", "n2", pods=2, cpu="1"),
    ]
    nodes = [node(f"n{i}", cpu=16, memory="160Gi") for i in range(3)]
    nodes.append(node("n3", cpu=16, memory="160Gi", taints=["gpu=yes:NoSchedule"]))
    claim = [group("render", "red", 1), pod("render-0", "render", cpu="16")]
    return [queues, nodes, held, claim, msgspec.convert(budget, PodDisruptionBudget)], conf("capacity", first=("pdb",))


def shares() -> tuple[Objects, str]:
    """Two queues of equal weight under proportion; one of them has more because the other one was idle."""
    queues = [queue("blue"), queue("red")]
    nodes = [node(f"n{i}", cpu=8, memory="80Gi") for i in range(2)]
    gangs = [gang(f"sim-{i}", 2, queue="blue", phase="Running", cpu="4", node=f"n{i}") for i in range(2)]
    claim = [group("fit", "red", 1), pod("fit-0", "fit", cpu="4")]
    default = {
        "actions": "enqueue, allocate, backfill, reclaim",
        "tiers": [
            {"plugins": [{"name": "priority"}, {"name": "gang"}, {"name": "conformance"}]},
            {"plugins": [{"name": name} for name in ("drf", "predicates", "proportion", "nodeorder")]},
        ],
    }
    return [queues, nodes, gangs, claim], yaml.safe_dump(default)


def cards() -> tuple[Objects, str]:
    """A queue with a quota of 8 cards holds 6, and a pod of it asks for 4; another queue has cards left."""
    data = manifest(queue("train", capability={"cpu": "64", "memory": "64Gi"}))
    data["metadata"]["annotations"] = {"volcano.sh/card.quota": json.dumps({CARD: 8})}
    named = {"volcano.sh/card.name": CARD}
    labels = {"nvidia.com/gpu.product": CARD, "nvidia.com/gpu.count": "8", "nvidia.com/gpu.memory": "141000"}
    nodes = [node(f"n{i}", cpu=32, memory="64Gi", gpu=8, labels=labels) for i in range(2)]
    held = running("old", "train", "n0", pods=3, cpu="1", gpu=2, annotations=named)
    claim = [group("new", "train", 1), pod("new-0", "new", gpu=4, annotations=named)]
    return [build(data), queue("other"), nodes, held, claim], conf("capacity-card")


def priorities() -> tuple[Objects, str]:
    """In one queue a job of middle priority waits; those that run are as important, or hold too little."""
    classes = [priority_class("low", 1), priority_class("high", 10)]
    nodes = [node(f"n{i}", cpu=8, memory="80Gi") for i in range(3)]
    held = [
        running("equal", "q", "n0", pods=2, cpu="4", priority_class="high"),
        running("low", "q", "n1", cpu="2", priority_class="low"),
        running("rest", "q", "n1", cpu="6", priority_class="high"),
        running("pair", "q", "n2", pods=2, minimum=2, cpu="2", priority_class="low"),
        running("other", "side", "n2", cpu="4"),
    ]
    claim = [group("urgent", "q", 1, priority="high"), pod("urgent-0", "urgent", cpu="8")]
    tiers = [
        {"plugins": [{"name": "priority"}, {"name": "gang", "enablePreemptable": False}, {"name": "conformance"}]},
        {"plugins": [{"name": name} for name in ("predicates", "nodeorder")]},
    ]
    scheduler_conf = yaml.safe_dump({"actions": "enqueue, allocate, preempt", "tiers": tiers})
    return [classes, queue("q"), queue("side"), nodes, held, claim], scheduler_conf


CASES = {
    "priorities": (priorities, "ns/urgent"),
    "cousins": (cousins, "ns/index"),
    "spared": (spared, "ns/render"),
    "shares": (shares, "ns/fit"),
    "cards": (cards, "ns/new"),
}


def explained(case: str, folder: Path, *options: str) -> str:
    """What the command prints; nothing may be written to standard error."""
    make, key = CASES[case]
    objects, scheduler_conf = make()
    return printed(objects, scheduler_conf, key, folder, *options)


def printed(objects: Objects, scheduler_conf: str, key: str, folder: Path, *options: str) -> str:
    items = [manifest(obj) for obj in flat(objects)]
    file, of_conf = folder / "cluster.json", folder / "scheduler.conf"
    file.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": items}))
    of_conf.write_text(scheduler_conf)
    arguments = ["plan", "-f", str(file), "--scheduler-conf", str(of_conf), "--explain", key, *options]
    result = CliRunner().invoke(main, arguments)
    assert (result.exit_code, result.stderr) == (0, ""), result.output
    return result.stdout


def compare(name: str, text: str) -> None:
    """The text is that of the golden file, byte for byte."""
    file = GOLDEN / name
    if os.environ.get("KILAUEA_UPDATE_GOLDEN"):
        file.write_text(text)
    assert text == file.read_text()


@pytest.mark.parametrize("case", list(CASES))
def test_what_is_printed_is_the_golden_one(case: str, tmp_path: Path) -> None:
    compare(f"explain-{case}.txt", explained(case, tmp_path))


# --- what programs read


def data(case: str, folder: Path) -> Data:
    found: Data = json.loads(explained(case, folder, "-o", "json"))
    return found


def test_json_has_the_levels_with_their_figures(tmp_path: Path) -> None:
    levels = data("cousins", tmp_path)["queues"]
    assert [(level["queue"], level["depth"], level["blocks"]) for level in levels] == [
        ("root", 0, False),
        ("team-a", 1, True),
        ("services", 2, False),
        ("search", 3, False),
    ]
    assert levels[1] == {
        "queue": "team-a",
        "depth": 1,
        "resource": "cpu",
        "allocated": "60",
        "asked": "20",
        "inqueue": "0",
        "elastic": "60",
        "deserved": "60",
        "guarantee": "0",
        "mayUse": "60",
        "blocks": True,
    }


def test_json_has_the_borrowers_and_why_victims_are_spared(tmp_path: Path) -> None:
    found = data("cousins", tmp_path)
    assert found["borrowers"] == [
        {
            "queue": "batch",
            "resource": "cpu",
            "allocated": "60",
            "deserved": "20",
            "borrowed": "40",
            "distance": 2,
        }
    ]
    assert found["attempts"] == [
        {
            "action": "reclaim",
            "pod": "ns/index-0",
            "refusal": "",
            "considered": 3,
            "spared": [
                {
                    "code": "QueueNotReclaimable",
                    "why": "its queue is not reclaimable",
                    "plugin": "",
                    "queue": "batch",
                    "pods": 3,
                    "podGroups": 3,
                    "examples": ["ns/sweep-0-0", "ns/sweep-1-0"],
                }
            ],
        }
    ]


@pytest.mark.parametrize("case", list(CASES))
def test_yaml_says_the_same_as_json(case: str, tmp_path: Path) -> None:
    as_yaml, as_json = yaml.safe_load(explained(case, tmp_path, "-o", "yaml")), data(case, tmp_path)
    del as_yaml["timing"], as_json["timing"]
    assert as_yaml == as_json


# --- much of it


def test_long_lists_are_cut_and_say_how_much_is_missing(tmp_path: Path) -> None:
    """Twenty queues, each of which borrows and is spared by itself."""
    names = [f"lender-{i:02d}" for i in range(20)]
    queues: list[Objects] = [
        queue("red", deserved={"cpu": "4"}),
        [queue(n, deserved={"cpu": "1"}, reclaimable=False) for n in names],
    ]
    held = [running(f"r-{n}", n, "n0", cpu="2") for n in names]
    objects: list[Objects] = [queues, node("n0", cpu=40), held, group("g", "red", 1), pod("g-0", cpu="4")]
    text = printed(objects, conf("capacity"), "ns/g", tmp_path)
    assert f"... and {20 - BORROWERS_SHOWN} more; -o json has them all\n" in text
    assert f"... and {20 - REASONS_SHOWN} more reasons; -o json has them all\n" in text
    full = json.loads(printed(objects, conf("capacity"), "ns/g", tmp_path, "-o", "json"))
    assert (len(full["borrowers"]), len(full["attempts"][0]["spared"])) == (20, 20)


@pytest.mark.parametrize(
    ("action", "queue_of", "where"), [("gangreclaim", "blue", "other"), ("gangpreempt", "red", "the same")]
)
def test_actions_for_gangs_say_whom_they_spare(action: str, queue_of: str, where: str, tmp_path: Path) -> None:
    queues = [queue("red", deserved={"cpu": "3"}), queue("blue", deserved={"cpu": "1"})]
    held = running("r", queue_of, "n0", cpu="4", annotations={"volcano.sh/preemptable": "false"})
    claim: list[Objects] = [group("g", "red", 2), [pod(f"g-{i}", cpu="1") for i in range(2)]]
    objects: list[Objects] = [queues, node("n0"), held, claim]
    text = printed(objects, conf("capacity", actions=f"allocate, {action}"), "ns/g", tmp_path)
    assert f"The action {action} considers 1 pod of {where} queue" in text
    assert "marked as not preemptable" in text


def test_room_that_is_being_freed_needs_no_change(tmp_path: Path) -> None:
    queues = [queue("red", deserved={"cpu": "4"}), queue("blue")]
    objects: list[Objects] = [
        queues,
        node("n0"),
        running("r", "blue", "n0", cpu="4"),
        group("g", "red", 1),
        pod("g-0", cpu="4"),
    ]
    text = printed(objects, conf("capacity"), "ns/g", tmp_path)
    assert text.endswith("\nNothing has to change: it starts when those resources are free.\n")


def test_room_that_groups_behind_have_taken_is_that_of_its_turn(tmp_path: Path) -> None:
    """The queue has no room for the gang, so a smaller group gets it; the amounts of the queue are those after that."""
    gangs: Objects = [group("g", "red", 2, created=0), [pod(f"g-{i}", cpu="2") for i in range(2)]]
    behind: Objects = [group("h", "red", 1, created=1), pod("h-0", "h", cpu="3")]
    objects: list[Objects] = [queue("red", capability={"cpu": "3"}), node("n0", cpu=8), gangs, behind]
    text = printed(objects, conf("capacity", actions="allocate"), "ns/g", tmp_path)
    assert "  requested 4 cpu, available 3 cpu when its turn came\n" in text
    assert re.search("\nred +cpu +3 +", text)
    alone = printed(objects[:-1], conf("capacity", actions="allocate"), "ns/g", tmp_path)
    assert "when its turn came" not in alone


def test_amounts_of_a_queue_that_admits_no_more_add_up(tmp_path: Path) -> None:
    """Pods beyond the minimum of their gang count as available at admission, so their amount is shown."""
    pods = [pod(f"r-{i}", "r", node="n0", cpu="1") for i in range(3)]
    held: Objects = [group("r", "red", 1, "Running", resources={"cpu": "1"}), pods]
    claim = gang("g", 2, queue="red", phase="Pending", resources={"cpu": "5"}, cpu="2500m")
    objects: list[Objects] = [queue("red", capability={"cpu": "5"}), node("n0", cpu=8), held, claim]
    text = printed(objects, conf("capacity", actions="enqueue, allocate"), "ns/g", tmp_path)
    assert "  requested 5 cpu, available 4 cpu\n" in text
    ((heading, row),) = re.findall("(QUEUE .*BLOCKS)\n(red .*)\n", text)
    found = dict(zip(heading.replace("MAY USE", "MAY-USE").split(), row.split(), strict=True))
    assert (found["MAY-USE"], found["ALLOCATED"], found["ELASTIC"]) == ("5", "3", "2")
