"""`vcctl queue` and `vqueues` against a server without controllers: what is shown, and what is asked of the server."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
import yaml

from cluster.api_process import Server, running_server
from kilauea.api.kinds import COMMANDS, POD_GROUPS, QUEUES
from kilauea.cli.vcctl.queue_list import Entry
from kilauea.cli.vcctl.queue_tree import LINES, drawn, forest
from support.vcctl_runs import GOLDEN, Console, Objects, compare, data

Obj = dict[str, Any]
LONG = "team-2-with-quite-a-long-name"


def queue(name: str, parent: str = "root", **spec: Any) -> Obj:
    return {"metadata": {"name": name}, "spec": {"weight": 1, "parent": parent, **spec}}


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server with a tree of queues, one that hangs on nothing, a circle, and pod groups."""
    with running_server(tmp_path_factory.mktemp("tree") / "data") as running:
        objects = Objects(running.client())
        objects.put(QUEUES, {"metadata": {"name": "root"}, "spec": {"weight": 1}}, {"state": "Open"})
        objects.put(QUEUES, queue("default"), {"state": "Open"})
        amounts: dict[str, Any] = {"capability": {"memory": "8Gi", "cpu": "8"}, "guarantee": {"resource": {"cpu": "2"}}}
        objects.put(QUEUES, queue("dept-a", weight=3, **amounts), {"state": "Open", "allocated": {"cpu": "1"}})
        objects.put(QUEUES, queue("team-1", "dept-a", priority=5), {"state": "Closing"})
        objects.put(QUEUES, queue(LONG, "dept-a"), {"state": "Open"})
        objects.put(QUEUES, queue("lost", "gone"), {"state": "Open"})
        objects.put(QUEUES, queue("round", "about"), {"state": "Open"})
        objects.put(QUEUES, queue("about", "round"), {"state": "Open"})
        for number, (at, phase) in enumerate(
            [("default", "Pending"), ("team-1", "Running"), ("team-1", "Running"), ("dept-a", "Completed")]
        ):
            group = {"metadata": {"name": f"g{number}", "namespace": "default"}, "spec": {"minMember": 1, "queue": at}}
            objects.put(POD_GROUPS, group, {"phase": phase})
        yield running


@pytest.fixture
def shown(tree: Server) -> Console:
    return Console(tree.kubeconfig)


# --- what is shown


def test_a_list_counts_pod_groups_and_keeps_columns_apart(shown: Console) -> None:
    compare("queue-list.txt", shown.good("vcctl", "queue", "list"))
    compare("queue-list-wide.txt", shown.good("vcctl", "queue", "list", "-o", "wide"))
    compare("vqueues.txt", shown.good("vqueues"))


def test_get_shows_one_queue(shown: Console) -> None:
    lines = shown.good("vcctl", "queue", "list").splitlines()
    narrow = shown.good("vcctl", "queue", "get", "-n", "default").splitlines()
    assert [line.split() for line in narrow] == [lines[0].split(), lines[2].split()]
    assert shown.good("vcctl", "queue", "get", "team-1", "--no-headers").split()[:3] == ["team-1", "1", "Closing"]
    assert shown.good("vqueues", "team-1").splitlines()[1].split() == ["team-1", "1", "Closing", "0", "0", "2", "0"]
    said = shown.failed("vcctl", "queue", "get", "-n", "none")
    assert said == 'Failed to get queue: queues.scheduling.volcano.sh "none" not found\n'


def test_the_tree_adds_up_and_shows_what_hangs_on_nothing(shown: Console) -> None:
    compare("queue-tree.txt", shown.good("vcctl", "queue", "tree"))
    compare("queue-tree-resources.txt", shown.good("vcctl", "queue", "tree", "--resources", "--ascii", "--self"))


def test_a_tree_can_start_and_end_anywhere(shown: Console) -> None:
    whole = shown.good("vcctl", "queue", "tree", "dept-a").splitlines()
    assert [line.lstrip("├└─ ").split()[0] for line in whole] == ["NAME", "dept-a", "team-1", LONG]
    assert "team-1" not in shown.good("vcctl", "queue", "tree", "--depth", "2")
    top = shown.good("vcctl", "queue", "tree", "dept-a", "-d", "1").splitlines()
    assert top[1].split() == ["dept-a", "Open", "3", "0", "0", "0", "2", "0", "1"]
    assert shown.failed("vcctl", "queue", "tree", "-n", "none").endswith('"none" not found\n')


def test_the_tree_as_data_is_nested(shown: Console) -> None:
    found = data(shown.good("vcctl", "queue", "tree", "-o", "json"))
    assert yaml.safe_load(shown.good("vcctl", "queue", "tree", "-o", "yaml")) == found
    department = found["children"][1]
    assert (department["name"], department["parent"], department["weight"]) == ("dept-a", "root", 3)
    assert department["resources"]["capability"] == {"cpu": "8", "memory": "8Gi"}
    assert (department["counts"]["running"], department["counts"]["completed"]) == (2, 1)
    assert [child["name"] for child in department["children"]] == ["team-1", LONG]
    assert [each["name"] for each in found["orphaned"]] == ["lost"]
    assert [each["name"] for each in found["cycle"]] == ["about"]
    assert found["cycle"][0]["children"][0]["name"] == "round"


def test_children_are_those_right_below_or_all(shown: Console) -> None:
    names = shown.good("vcctl", "queue", "children", "root", "-o", "name").split()
    assert names == ["queue.scheduling.volcano.sh/default", "queue.scheduling.volcano.sh/dept-a"]
    compare("queue-children.txt", shown.good("vcctl", "queue", "children", "-n", "root", "-r"))
    assert shown.good("vcctl", "queue", "children", "default") == "No resources found\n"
    said = shown.failed("vcctl", "queue", "children", "none")
    assert said == 'Failed to children queue: queues.scheduling.volcano.sh "none" not found\n'
    listed = shown.good("vcctl", "queue", "list", "-p", "root", "--no-headers").splitlines()
    assert [line.split()[0] for line in listed] == ["default", "dept-a"]


def test_every_queue_stands_once_in_a_forest_whatever_its_parents() -> None:
    parents = {
        "a": "b",
        "b": "c",
        "c": "a",
        "d": "a",
        "e": "none",
        "f": "e",
        "g": "g",
        "root": "",
        "h": "root",
        "i": "",
    }
    entries = [Entry(queue(name, parent), {}) for name, parent in parents.items()]
    found = forest(entries)
    tops = {word: [node.entry.name for node in getattr(found, word)] for word in found._fields}
    assert tops == {"roots": ["root"], "orphaned": ["e"], "cycle": ["a", "g"]}
    nodes = [node.entry.name for top in (*found.roots, *found.orphaned, *found.cycle) for _, node in top.walk()]
    assert sorted(nodes) == sorted(parents)


# --- what is changed


def test_create_sends_what_a_queue_is(console: Console, objects: Objects) -> None:
    amounts = "--capability cpu=8,memory=16Gi --deserved cpu=4 --guarantee cpu=2"
    more = "--parent root --priority 7 --reclaimable false --dequeue-strategy fifo"
    words = ("-n", "made", "-w", "3", *amounts.split(), *more.split())
    assert console.done("vcctl", "queue", "create", *words) == "queue made created\n"
    assert objects.one(QUEUES, "", "made")["spec"] == {
        "weight": 3,
        "parent": "root",
        "capability": {"cpu": "8", "memory": "16Gi"},
        "deserved": {"cpu": "4"},
        "guarantee": {"resource": {"cpu": "2"}},
        "priority": 7,
        "reclaimable": False,
        "dequeueStrategy": "fifo",
    }
    assert console.done("vcctl", "queue", "create") == "queue test created\n"
    assert objects.one(QUEUES, "", "test")["spec"]["weight"] == 1
    said = console.failed("vcctl", "queue", "create", "bad", "--reclaimable", "maybe")
    assert said == 'Failed to create queue: --reclaimable: invalid value "maybe": use true or false\n'


def test_update_changes_only_what_is_given(console: Console, objects: Objects) -> None:
    objects.put(QUEUES, queue("changed", reclaimable=True, deserved={"cpu": "1"}))
    words = ("-n", "changed", "-a", "update", "-w", "5")
    assert console.done("vcctl", "queue", "operate", *words) == "queue changed updated\n"
    spec = objects.one(QUEUES, "", "changed")["spec"]
    assert (spec["weight"], spec["deserved"], spec["reclaimable"]) == (5, {"cpu": "1"}, True)
    console.good("vcctl", "queue", "operate", "changed", "-a", "update", "--deserved", "cpu=2", "--priority", "1")
    spec = objects.one(QUEUES, "", "changed")["spec"]
    assert (spec["weight"], spec["deserved"], spec["priority"]) == (5, {"cpu": "2"}, 1)


@pytest.mark.parametrize(("word", "action"), [("open", "OpenQueue"), ("close", "CloseQueue")])
def test_open_and_close_are_commands_that_the_queue_owns(
    console: Console, objects: Objects, word: str, action: str
) -> None:
    uid = objects.put(QUEUES, queue(f"ordered-{word}"))["metadata"]["uid"]
    said = console.done("vcctl", "queue", "operate", "-n", f"ordered-{word}", "-a", word)
    assert said == f"request to {word} queue ordered-{word} sent\n"
    (command,) = [each for each in objects.all(COMMANDS, "default") if each["target"]["uid"] == uid]
    assert command["metadata"]["name"].startswith(f"ordered-{word}-{action.lower()}-")
    assert command["action"] == action
    assert command["target"]["apiVersion"] == QUEUES.api_version
    assert command["metadata"]["ownerReferences"] == [command["target"]]


def test_a_queue_is_paused_and_resumed(console: Console, objects: Objects) -> None:
    objects.put(QUEUES, queue("held"))
    assert console.done("vcctl", "queue", "operate", "held", "-a", "pause") == "queue held paused\n"
    assert objects.one(QUEUES, "", "held")["metadata"]["annotations"]["kilauea.dev/paused"] == "true"
    shown = json.loads(console.good("vcctl", "queue", "get", "-n", "held", "-o", "json"))["queues"][0]
    assert shown["paused"] is True
    assert console.done("vcctl", "queue", "operate", "held", "-a", "resume") == "queue held resumed\n"
    assert "kilauea.dev/paused" not in objects.one(QUEUES, "", "held")["metadata"].get("annotations", {})


@pytest.mark.parametrize(("state", "shown"), [("Open", "Paused"), ("Closing", "Closing"), ("", "")])
def test_tables_show_that_an_open_queue_is_paused(state: str, shown: str) -> None:
    paused = {"metadata": {"name": "q", "annotations": {"kilauea.dev/paused": "true"}}, "status": {"state": state}}
    assert Entry(paused, {}).shown_state() == shown


def test_the_tree_shows_queues_below_a_paused_one_as_paused() -> None:
    up, low = queue("up"), queue("low", "up")
    up["metadata"]["annotations"] = {"kilauea.dev/paused": "true"}
    entries = [Entry({**each, "status": {"state": "Open"}}, {}) for each in (queue("root", ""), up, low)]
    lines = drawn({"": forest(entries).roots}, LINES, False)
    assert [line.split()[-8] for line in lines[1:]] == ["Open", "Paused", "Paused"]


def test_delete_with_cascade_deletes_leaves_first(console: Console, objects: Objects) -> None:
    for name, parent in (("top", "root"), ("mid-a", "top"), ("leaf", "mid-a"), ("mid-b", "top")):
        objects.put(QUEUES, queue(name, parent))
    order = ["leaf", "mid-a", "mid-b", "top"]
    would = console.good("vcctl", "queue", "delete", "-n", "top", "--cascade", "--dry-run")
    assert would == "".join(f"queue {name} would be deleted\n" for name in order)
    assert {each["metadata"]["name"] for each in objects.all(QUEUES)} >= set(order)
    done = console.good("vcctl", "queue", "delete", "-n", "top", "--cascade")
    assert done == "".join(f"queue {name} deleted\n" for name in order)
    assert not {each["metadata"]["name"] for each in objects.all(QUEUES)} & set(order)
    assert console.failed("vcctl", "queue", "delete", "top", "--cascade").endswith('"top" not found\n')


def test_the_page_shows_the_tree_as_it_is_printed() -> None:
    page = (GOLDEN.parents[2] / "docs" / "concepts" / "vcctl.md").read_text()
    lines = (line.rstrip() for line in (GOLDEN / "queue-tree.txt").read_text().splitlines())
    assert "\n".join(("```console", "$ vcctl queue tree", *lines, "```")) in page
