"""`kilauea queues`: the tree of queues with the figures of an opened session; and the numbers of the page about them.

KILAUEA_UPDATE_GOLDEN=1 rewrites the golden files; the difference is then for review.
"""

from __future__ import annotations

import json
import os
import re
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner, Result

from kilauea.cli.main import main
from kilauea.cli.queues_output import in_tree
from kilauea.engine.plan import QueueOutcome
from support.waiting_objects import nodes, running
from support.waiting_objects import queue as made_queue

ROOT = Path(__file__).resolve().parents[2]
QUEUES = ROOT / "examples" / "queues"
GOLDEN = ROOT / "tests" / "golden"
PAGE = ROOT / "docs" / "concepts" / "queues.md"

EXAMPLES = {"cards": "cards", "floor": "flat", "lending": "flat", "levels": "tree", "nearest": "tree", "tree": "tree"}
EXAMPLES |= {"projects": "cards"}
"""Manifests with the configuration that they are for; weights is for the built-in one."""


def run(*arguments: str) -> Result:
    return CliRunner().invoke(main, arguments)


def on(command: str, example: str, *options: str) -> str:
    """What a command prints about an example; nothing may be written to standard error."""
    conf = EXAMPLES.get(example)
    of_conf = ["--scheduler-conf", str(QUEUES / f"{conf}.conf")] if conf else []
    result = run(command, "-f", str(QUEUES / f"{example}.yaml"), *of_conf, *options)
    assert (result.exit_code, result.stderr) == (0, "")
    return result.stdout


def figures(example: str) -> dict[str, Any]:
    queues: dict[str, Any] = json.loads(on("queues", example, "-o", "json"))["queues"]
    return queues


def cpu(example: str, figure: str) -> dict[str, str]:
    """A figure of all queues that have any of it, in cpus."""
    return {name: queue[figure]["cpu"] for name, queue in figures(example).items() if "cpu" in queue[figure]}


def planned(example: str, *options: str) -> dict[str, Any]:
    plan: dict[str, Any] = json.loads(on("plan", example, "-o", "json", *options))
    return plan


def evicted(plan: dict[str, Any]) -> list[tuple[str, str]]:
    return [(e["pod"].removeprefix("default/"), e["by"].removeprefix("default/")) for e in plan["evictions"]]


def shares(plan: dict[str, Any], *names: str) -> list[float]:
    return [plan["queues"][name]["share"] for name in names]


def compare(name: str, text: str) -> None:
    """The text is that of the golden file, byte for byte."""
    file = GOLDEN / name
    if os.environ.get("KILAUEA_UPDATE_GOLDEN"):
        file.write_text(text)
    assert text == file.read_text()


# --- the command


@pytest.mark.parametrize("example", [*EXAMPLES, "weights"])
@pytest.mark.parametrize("output", ["table", "wide"])
def test_what_is_printed_is_the_golden_one(example: str, output: str) -> None:
    compare(f"queues-{example}{'-wide' * (output == 'wide')}.txt", on("queues", example, "-o", output))


def test_json_has_the_figures_as_plan_does_and_what_is_borrowed() -> None:
    blue = figures("lending")["blue"]
    assert blue == {
        "parent": "",
        "deserved": {"cpu": "40", "memory": "160Gi"},
        "guarantee": {"cpu": "10", "memory": "40Gi"},
        "capability": {"cpu": "90", "memory": "360Gi"},
        "realCapacity": {"cpu": "80", "memory": "320Gi", "pods": "1100"},
        "allocated": {"cpu": "80", "memory": "320Gi", "pods": "8"},
        "borrowed": {"cpu": "40", "memory": "160Gi"},
        "request": {"cpu": "80", "memory": "320Gi", "pods": "8"},
        "inqueue": {},
        "elastic": {"cpu": "70", "memory": "280Gi", "pods": "8"},
        "share": 2.0,
        "conditions": [],
    }


def test_yaml_says_the_same_as_json() -> None:
    assert yaml.safe_load(on("queues", "tree", "-o", "yaml")) == {"queues": figures("tree")}


def test_paused_queues_and_those_below_them_are_marked(tmp_path: Path) -> None:
    file = tmp_path / "tree.yaml"
    name = "metadata: {name: team-a, "
    file.write_text(
        (QUEUES / "tree.yaml").read_text().replace(name, f'{name}annotations: {{kilauea.dev/paused: "true"}}, ', 1)
    )
    options = ("queues", "-f", str(file), "--scheduler-conf", str(QUEUES / "tree.conf"))
    marked = re.findall(r"^ *(\S+) \(paused\)", run(*options).stdout, re.MULTILINE)
    assert marked == ["team-a", "inference", "training"]
    queues = json.loads(run(*options, "-o", "json").stdout)["queues"]
    assert {name: queue["pausedBy"] for name, queue in queues.items() if "pausedBy" in queue} == dict.fromkeys(
        ("inference", "team-a", "training"), "team-a"
    )


def test_nothing_is_decided_before_the_figures_are_taken() -> None:
    assert figures("tree")["training"]["allocated"]["cpu"] == "30"
    assert planned("tree")["queues"]["training"]["allocated"]["cpu"] == "40"


@pytest.mark.parametrize(("plugins", "warned"), [("gang", True), ("capacity", False), ("proportion", False)])
def test_a_configuration_without_a_queue_plugin_is_warned_of(tmp_path: Path, plugins: str, warned: bool) -> None:
    file = tmp_path / "scheduler.conf"
    file.write_text(f'actions: "allocate"\ntiers:\n- plugins:\n  - name: {plugins}\n')
    result = run("queues", "-f", str(QUEUES / "lending.yaml"), "--scheduler-conf", str(file))
    assert result.exit_code == 0
    assert ("none of the queue plugins (capacity, capacity-card, proportion)" in result.stderr) is warned
    assert "  blue " in result.stdout


def test_faults_of_queues_are_warned_of_and_are_conditions_in_json_and_yaml(tmp_path: Path) -> None:
    file = tmp_path / "tree.yaml"
    file.write_text((QUEUES / "tree.yaml").read_text().replace("parent: team-a", "parent: team-x", 1))
    options = ("-f", str(file), "--scheduler-conf", str(QUEUES / "tree.conf"))
    message = "the queue training has invalid parent queue team-x; it and its jobs wait"
    expected = [{"type": "Detached", "reason": "ParentNotFound", "message": message}]
    for command in ("queues", "plan"):
        in_json, in_yaml = (run(command, *options, "-o", output) for output in ("json", "yaml"))
        assert in_json.stderr == in_yaml.stderr == f"warning: queue training: {message}\n"
        assert json.loads(in_json.stdout)["queues"]["training"]["conditions"] == expected
        assert yaml.safe_load(in_yaml.stdout)["queues"]["training"]["conditions"] == expected


def test_wrong_options_are_refused(tmp_path: Path) -> None:
    example = str(QUEUES / "tree.yaml")
    assert run("queues").exit_code == 2
    assert run("queues", "-f", str(tmp_path / "none.yaml")).exit_code == 2
    assert run("queues", "-f", example, "--now", "yesterday").exit_code == 2
    assert run("queues", "-f", example, "--scheduler-conf", str(tmp_path / "none.conf")).exit_code == 2
    assert run("queues", "-f", example, "--now", "2026-03-01T09:00:00Z").exit_code == 0


def test_every_queue_is_shown_once_also_those_that_hang_on_nothing() -> None:
    parents = {"root": "", "b": "", "a": "b", "lost": "gone", "below": "lost", "p": "q", "q": "p", "own": "own"}
    queues = {
        name: QueueOutcome(parent, None, None, {}, None, {}, {}, {}, {}, None) for name, parent in parents.items()
    }
    shown = ["0 root", "1 b", "2 a", "0 lost", "1 below", "0 own", "0 p", "1 q"]
    assert [f"{depth} {name}" for depth, name in in_tree(queues)] == shown


# --- the page


def test_the_page_names_every_example() -> None:
    text = PAGE.read_text()
    assert {file.name for file in QUEUES.glob("*.yaml") if f"`{file.name}`" not in text} == set()


def test_lending_and_taking_back() -> None:
    assert cpu("lending", "realCapacity") == {"blue": "80", "default": "70", "red": "90", "root": "70"}
    assert cpu("lending", "borrowed") == {"blue": "40"}
    assert cpu("lending", "inqueue") == {"red": "70", "root": "70"}
    plan = planned("lending")
    assert evicted(plan) == [("simulation-0", "training"), ("simulation-1", "training")]
    assert sorted(plan["pipelined"]) == [f"default/training-{i}" for i in range(4)]
    assert (plan["queues"]["blue"]["allocated"]["cpu"], plan["queues"]["red"]["allocated"]["cpu"]) == ("60", "40")
    assert shares(plan, "blue") == [1.5]


def test_taking_back_stops_at_what_is_guaranteed() -> None:
    plan = planned("floor")
    assert evicted(plan) == [("simulation-0", "first")]
    assert plan["queues"]["blue"]["allocated"]["cpu"] == "50"
    assert [p["pod"] for p in plan["pending"] if p["code"] != "Nominated"] == ["default/second-0"]


def test_without_the_guarantee_one_pod_larger_than_the_excess_goes_too(tmp_path: Path) -> None:
    objects = yaml.safe_load((QUEUES / "floor.yaml").read_text())["items"]
    for obj in objects:
        obj.get("spec", {}).pop("guarantee", None)
    changed = tmp_path / "floor.json"
    text = json.dumps({"apiVersion": "v1", "kind": "List", "items": objects}, default=lambda time: time.isoformat())
    changed.write_text(text)
    result = run("plan", "-f", str(changed), "--scheduler-conf", str(QUEUES / "flat.conf"), "-o", "json")
    plan = json.loads(result.stdout)
    assert evicted(plan) == [("simulation-0", "first"), ("simulation-1", "second")]
    assert plan["queues"]["blue"]["allocated"]["cpu"] == "40"


def test_limits_come_down_the_tree() -> None:
    expected = {"team-a": "70", "team-b": "50", "training": "50", "inference": "30", "batch": "40", "interactive": "20"}
    assert cpu("tree", "realCapacity") == {**expected, "default": "60", "root": "100"}


def test_use_goes_up_the_tree(tmp_path: Path) -> None:
    text = (QUEUES / "tree.yaml").read_text()
    alone = tmp_path / "tree.yaml"
    alone.write_text(text[: text.rindex("- apiVersion: scheduling", 0, text.index("{name: model-3,"))])
    result = run("plan", "-f", str(alone), "--scheduler-conf", str(QUEUES / "tree.conf"), "-o", "json")
    plan = json.loads(result.stdout)
    queues = ("training", "team-a", "root")
    assert [figures("tree")[name]["allocated"]["cpu"] for name in queues] == ["30", "45", "75"]
    assert [plan["queues"][name]["allocated"]["cpu"] for name in queues] == ["40", "55", "85"]
    assert shares(plan, *queues, "team-b", "inference") == [1, 0.916667, 0.85, 0.75, 0.75]


def test_turns_in_the_tree() -> None:
    plan = planned("tree")
    assert sorted(plan["binds"]) == ["default/model-2-0", "default/report-2-0", "default/search-2-0"]
    assert [p["pod"] for p in plan["pending"]] == ["default/model-3-0"]


def test_the_nearest_queue_loses_first() -> None:
    assert cpu("nearest", "borrowed") == {"a2": "10", "c": "10"}
    assert evicted(planned("nearest")) == [("job-b-1", "job-a"), ("job-c-1", "job-a-2")]


@pytest.mark.parametrize(("level", "evictions"), [(0, 0), (1, 1), (2, 1)])
def test_a_leaf_claims_for_its_ancestors(level: int, evictions: int, tmp_path: Path) -> None:
    with_level = tmp_path / "tree.conf"
    flag = "    enableHierarchy: true\n"
    conf = (QUEUES / "tree.conf").read_text()
    with_level.write_text(conf.replace(flag, f"{flag}    arguments: {{ancestorReclaimLevel: {level}}}\n"))
    held = {name: figures("levels")[name]["allocated"]["cpu"] for name in ("queue-b", "parent-b", "grand-b")}
    assert held == dict.fromkeys(held, "3")
    assert figures("levels")["queue-a"]["allocated"]["cpu"] == "1"
    plan = planned("levels", "--scheduler-conf", str(with_level))
    assert len(plan["evictions"]) == evictions
    answer = "yes" if evictions else "no"
    assert re.search(rf"^\| {level} \|.*\| {answer} \|$", PAGE.read_text(), re.MULTILINE)


@pytest.mark.parametrize("figure", ["deserved", "guarantee"])
@pytest.mark.parametrize("ancestor", ["", "parent-b", "grand-b"])
def test_ancestors_keep_what_they_are_guaranteed_and_what_they_deserve_if_there_is_a_choice(
    ancestor: str, figure: str, tmp_path: Path
) -> None:
    objects = yaml.safe_load((QUEUES / "levels.yaml").read_text())["items"]
    for obj in objects:
        if obj["metadata"]["name"] in {"queue-a", ancestor} and obj["kind"] == "Queue":
            obj["spec"]["deserved"] = {"cpu": "3", "memory": "12Gi"}
        if obj["metadata"]["name"] == ancestor and figure == "guarantee":
            obj["spec"]["guarantee"] = {"resource": {"cpu": "3", "memory": "12Gi"}}
    changed = tmp_path / "levels.json"
    changed.write_text(
        json.dumps({"apiVersion": "v1", "kind": "List", "items": objects}, default=lambda time: time.isoformat())
    )
    result = run("plan", "-f", str(changed), "--scheduler-conf", str(QUEUES / "tree.conf"), "-o", "json")
    spared = ancestor and figure == "guarantee"
    assert len(json.loads(result.stdout)["evictions"]) == (0 if spared else 1)


def test_what_weights_give() -> None:
    assert cpu("weights", "deserved") == {"root": "100", "x": "20", "y": "40", "z": "40"}


def test_a_gang_gives_back_its_cards_whole() -> None:
    quotas = {name: queue["capability"].get("NVIDIA-GeForce-RTX-4090") for name, queue in figures("cards").items()}
    assert (quotas["queue-training"], quotas["queue-inference"]) == ("8", "8")
    assert evicted(planned("cards")) == [("training-low-0", "inference-high"), ("training-low-1", "inference-high")]


def test_projects_and_lines_of_business_have_quotas_of_their_own() -> None:
    card = "NVIDIA-GeForce-RTX-4090"
    plan = planned("projects")
    held = {name: plan["queues"][name]["allocated"][card] for name in ("acme-chat", "acme-search", "vision")}
    assert held == {"acme-chat": "2", "acme-search": "4", "vision": "2"}
    (pending,) = plan["pending"]
    assert (pending["pod"], pending["code"]) == ("default/chat-beta-0", "InsufficientScalarQuota")


@pytest.mark.parametrize("output", ["table", "json"])
def test_root_has_the_figures_of_all_queues_where_no_plugin_keeps_a_tree(output: str, tmp_path: Path) -> None:
    docs = [*nodes(1), made_queue("a"), *running("u0", 4, "n0", queue="a"), *running("u1", 2, "n0")]
    (tmp_path / "cluster.yaml").write_text(yaml.safe_dump_all(docs))
    (tmp_path / "flat.conf").write_text("actions: allocate\ntiers:\n- plugins:\n  - name: proportion\n")
    files = ["-f", str(tmp_path / "cluster.yaml"), "--scheduler-conf", str(tmp_path / "flat.conf")]
    shown = run("queues", *files, "-o", output).stdout
    if output == "json":
        root = json.loads(shown)["queues"]["root"]
        assert (root["allocated"]["cpu"], root["deserved"]["cpu"], root["share"]) == ("6", "6", 1.0)
    else:
        assert ["root", "cpu", "6", "-", "-", "6", "-", "1.00"] in [line.split() for line in shown.splitlines()]
