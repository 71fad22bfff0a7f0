"""The examples of a plugin and an action of one's own: examples/plugins."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from kilauea.cli.main import main
from kilauea.engine.action import Action
from kilauea.engine.plan import Plan
from kilauea.runtime.inputs.extensions import load_extensions
from support.builders import binds, codes, conf, gang, group, node, pending, plan_of, pod, queue

FOLDER = Path(__file__).resolve().parents[1] / "examples" / "plugins"
LAUNCH = load_extensions([str(FOLDER)], installed=False).actions["launch"]
ACTIONS = conf("enqueue, launch", ["proportion"])
NGINX = "default/nginx-{}-7c5ddbdf54-x2wql"


def planned(configuration: str, *files: str, options: tuple[str, ...] = ()) -> dict[str, Any]:
    """The plan of files of the example, as data."""
    paths = [option for file in files for option in ("-f", str(FOLDER / file))]
    loaded = ["--plugins-dir", str(FOLDER), "--scheduler-conf", str(FOLDER / configuration)]
    result = CliRunner().invoke(main, ["plan", *paths, *loaded, *options, "-o", "json"])
    assert (result.exit_code, result.stderr) == (0, "")
    data: dict[str, Any] = json.loads(result.stdout)
    return data


def launched(*objects: Any, configuration: Any = ACTIONS, more: tuple[type[Action], ...] = ()) -> Plan:
    return plan_of(*objects, conf=configuration, actions=[LAUNCH, *more])


def test_the_first_pod_goes_to_the_first_of_the_nodes_with_the_fewest_pods() -> None:
    assert planned("scheduler.conf", "nodes.yaml", "nginx-1.yaml")["binds"] == {NGINX.format(1): "node-2"}


def test_the_second_pod_goes_to_the_node_that_has_the_fewest_then() -> None:
    both = planned("scheduler.conf", "nodes.yaml", "nginx-1.yaml", "nginx-2.yaml")
    assert both["binds"] == {NGINX.format(1): "node-2", NGINX.format(2): "node-3"}


def test_the_second_pod_counts_the_first_when_it_runs() -> None:
    first = group("nginx-1", phase="Running"), pod("nginx-1-a", "nginx-1", node="n1")
    plan = launched(node("n1"), node("n2"), *first, group("nginx-2", phase="Pending"), pod("nginx-2-a", "nginx-2"))
    assert binds(plan) == {"nginx-2-a": "n2"}


def test_the_plugin_prefers_the_same_nodes() -> None:
    both = planned("fewest-pods.conf", ".")
    assert both["binds"] == {NGINX.format(1): "node-2", NGINX.format(2): "node-3"}


def test_pods_that_are_removed_still_count() -> None:
    old = group("r", phase="Running"), pod("r-1", "r", node="n1", deleting=True)
    assert binds(launched(node("n1"), node("n2"), *old, gang("g", 1))) == {"g-w-0": "n2"}


def test_a_pod_that_finds_no_room_on_the_emptiest_node_waits_alone() -> None:
    plan = launched(node("n1", cpu=1), group(), pod("g-w-0", cpu="2"), pod("g-w-1", cpu="1"))
    assert binds(plan) == {"g-w-1": "n1"}
    assert codes(plan) == {"g-w-0": "NoRoom"}
    assert pending(plan)["g-w-0"].message == "node n1 has the fewest pods, but no room for this one"


def test_a_job_that_is_not_valid_is_passed_over() -> None:
    with_gang = conf("enqueue, launch", ["gang", "proportion"])
    plan = launched(node("n1"), gang("g", 1, 2), gang("h", 1), configuration=with_gang)
    assert binds(plan) == {"h-w-0": "n1"}
    assert codes(plan) == {"g-w-0": "NotEnoughTasks"}


def test_a_job_that_is_not_ready_starts_nothing_by_itself() -> None:
    with_gang = conf("enqueue, launch", ["gang", "proportion"])
    plan = launched(node("n1", cpu=1), gang("g", 2), configuration=with_gang)
    assert binds(plan) == {}


def test_a_pod_with_a_gate_is_left_alone() -> None:
    plan = launched(node("n1"), group(), pod("g-w-0", schedulingGates=[{"name": "wait"}]))
    assert codes(plan) == {"g-w-0": "SchedulingGated"}


@pytest.mark.parametrize("objects", [[], [queue("q"), gang("g", 2)]])
def test_a_cluster_without_nodes(objects: list[Any]) -> None:
    plan = launched(*objects)
    assert (plan.binds, plan.findings) == ((), ())


@pytest.mark.parametrize("configuration", ["scheduler.conf", "fewest-pods.conf"])
def test_the_configurations_have_no_findings(configuration: str) -> None:
    checked = CliRunner().invoke(
        main, ["config", "check", str(FOLDER / configuration), "--plugins-dir", str(FOLDER), "-o", "json"]
    )
    assert (checked.exit_code, json.loads(checked.stdout)["findings"]) == (0, [])
