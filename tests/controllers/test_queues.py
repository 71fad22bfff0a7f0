"""Queues open, close and count."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from kilauea.api.kinds import COMMANDS, POD_GROUPS, QUEUES
from kilauea.controllers.queues import QueueController
from support.controlled import Cluster

CASCADING = {"kilauea.dev/cascade": "true"}


@pytest.fixture
def cluster(cluster_of: Callable[..., Cluster]) -> Cluster:
    made = cluster_of(QueueController(), volcano=True)
    made.settle()
    return made


def queue(cluster: Cluster, name: str, parent: str = "root") -> None:
    cluster.create(QUEUES, {"metadata": {"name": name}, "spec": {"parent": parent}})


def group(cluster: Cluster, name: str, queue: str, phase: str = "Pending") -> None:
    manifest = {"metadata": {"name": name}, "spec": {"queue": queue, "minMember": 1}, "status": {"phase": phase}}
    cluster.create(POD_GROUPS, manifest)


def order(cluster: Cluster, action: str, name: str, annotations: dict[str, str] | None = None) -> None:
    target = {
        "apiVersion": QUEUES.api_version,
        "kind": "Queue",
        "name": name,
        "uid": cluster.get(QUEUES, name)["metadata"]["uid"],
    }
    metadata = {"generateName": f"{name}-", "annotations": annotations or {}}
    cluster.create(COMMANDS, {"metadata": metadata, "action": action, "target": target})
    cluster.settle()
    assert cluster.all(COMMANDS) == []


def states(cluster: Cluster, *names: str) -> list[str]:
    return [cluster.get(QUEUES, name)["status"]["state"] for name in names]


def test_root_and_default_are_there_from_the_start_and_open(cluster: Cluster) -> None:
    assert cluster.names(QUEUES) == ["default", "root"]
    assert states(cluster, "root", "default") == ["Open", "Open"]
    assert cluster.get(QUEUES, "root")["spec"]["reclaimable"] is False
    assert cluster.get(QUEUES, "default")["spec"]["parent"] == "root"


def test_a_default_queue_that_is_deleted_comes_back(cluster: Cluster) -> None:
    cluster.delete(QUEUES, "default")
    cluster.settle()
    assert cluster.names(QUEUES) == ["default", "root"]


def test_groups_are_counted_by_phase(cluster: Cluster) -> None:
    queue(cluster, "q")
    phases = ["Pending", "Running", "Running", "Inqueue", "Completed", "Unknown"]
    for number, phase in enumerate(phases):
        group(cluster, f"g{number}", "q", phase)
    cluster.settle()
    found: dict[str, Any] = cluster.get(QUEUES, "q")["status"]
    assert found == {"state": "Open", "pending": 1, "running": 2, "inqueue": 1, "completed": 1, "unknown": 1}
    cluster.delete(POD_GROUPS, "g1")
    cluster.settle()
    assert cluster.get(QUEUES, "q")["status"]["running"] == 1


def test_a_closed_queue_with_groups_is_closing_until_they_are_gone(cluster: Cluster) -> None:
    queue(cluster, "q")
    group(cluster, "g", "q", "Completed")
    cluster.settle()
    order(cluster, "CloseQueue", "q")
    assert states(cluster, "q") == ["Closing"]
    cluster.delete(POD_GROUPS, "g")
    cluster.settle()
    assert states(cluster, "q") == ["Closed"]
    order(cluster, "OpenQueue", "q")
    assert states(cluster, "q") == ["Open"]


@pytest.fixture
def tree(cluster: Cluster) -> Cluster:
    """A department with teams, of which `other` was closed by hand before all was closed."""
    for name, parent in (("dept", "root"), ("team", "dept"), ("other", "dept"), ("sub", "team")):
        queue(cluster, name, parent)
    cluster.settle()
    order(cluster, "CloseQueue", "other")
    cluster.told.clear()
    order(cluster, "CloseQueue", "dept")
    return cluster


def test_a_parent_is_closing_until_its_children_are_closed(cluster: Cluster) -> None:
    for name, parent in (("dept", "root"), ("team", "dept"), ("sub", "team")):
        queue(cluster, name, parent)
    group(cluster, "g", "sub", "Running")
    cluster.settle()
    order(cluster, "CloseQueue", "dept")
    assert states(cluster, "dept", "team", "sub") == ["Closing"] * 3
    cluster.delete(POD_GROUPS, "g")
    cluster.settle()
    assert states(cluster, "dept", "team", "sub") == ["Closed"] * 3


def test_a_child_that_is_deleted_while_it_closes_holds_its_parent_no_more(cluster: Cluster) -> None:
    for name, parent in (("dept", "root"), ("team", "dept")):
        queue(cluster, name, parent)
    group(cluster, "g", "team", "Running")
    cluster.settle()
    order(cluster, "CloseQueue", "dept")
    cluster.delete(QUEUES, "team")
    cluster.settle()
    assert states(cluster, "dept") == ["Closed"]


def test_a_closed_queue_that_gets_a_child_with_work_is_closing_again(cluster: Cluster) -> None:
    for name in ("dept", "team"):
        queue(cluster, name)
    group(cluster, "g", "team", "Running")
    cluster.settle()
    order(cluster, "CloseQueue", "dept")
    assert states(cluster, "dept", "team") == ["Closed", "Open"]
    cluster.patch(QUEUES, "team", {"spec": {"parent": "dept"}})
    cluster.settle()
    assert states(cluster, "dept", "team") == ["Closing", "Closing"]


def test_a_parent_of_root_is_taken_away(cluster: Cluster) -> None:
    queue(cluster, "dept")
    cluster.patch(QUEUES, "root", {"spec": {"parent": "dept"}})
    cluster.settle()
    assert "parent" not in cluster.get(QUEUES, "root")["spec"]
    assert ("root", "SyncQueue", "root has no parent: spec.parent dept is removed") in cluster.told


def test_closing_closes_what_is_below_first(tree: Cluster) -> None:
    assert states(tree, "dept", "team", "other", "sub") == ["Closed"] * 4
    assert [name for name, reason, _ in tree.told if reason == "CloseQueue"] == ["sub", "team", "dept"]


def test_opening_opens_one_queue(tree: Cluster) -> None:
    order(tree, "OpenQueue", "dept")
    assert states(tree, "dept", "team", "other", "sub") == ["Open", "Closed", "Closed", "Closed"]
    order(tree, "OpenQueue", "team")
    assert states(tree, "dept", "team", "other", "sub") == ["Open", "Open", "Closed", "Closed"]


def test_opening_with_what_was_closed_with_it_opens_that_too(tree: Cluster) -> None:
    order(tree, "OpenQueue", "dept", CASCADING)
    assert states(tree, "dept", "team", "other", "sub") == ["Open", "Open", "Closed", "Open"]


def test_what_was_closed_with_an_open_queue_can_be_opened_later(tree: Cluster) -> None:
    order(tree, "OpenQueue", "dept")
    order(tree, "OpenQueue", "dept", CASCADING)
    assert states(tree, "dept", "team", "other", "sub") == ["Open", "Open", "Closed", "Open"]


def test_a_queue_says_whether_its_parent_closed_it(tree: Cluster) -> None:
    def marks() -> list[str | None]:
        found = [tree.get(QUEUES, name)["metadata"].get("annotations") or {} for name in ("dept", "team", "other")]
        return [each.get("volcano.sh/closed-by-parent") for each in found]

    assert marks() == [None, "true", None]
    order(tree, "OpenQueue", "dept", CASCADING)
    assert marks() == ["false", "false", None]


def test_a_queue_does_not_open_below_a_closed_one(cluster: Cluster) -> None:
    queue(cluster, "dept")
    queue(cluster, "team", "dept")
    cluster.settle()
    order(cluster, "CloseQueue", "dept")
    order(cluster, "OpenQueue", "team")
    assert states(cluster, "team") == ["Closed"]
    assert cluster.told[-1] == (
        "team",
        "OpenQueue",
        "Failed to open queue team because its parent queue dept is closing or closed. Open the parent queue first.",
    )


def test_a_new_queue_below_a_closed_one_is_closed(cluster: Cluster) -> None:
    queue(cluster, "dept")
    cluster.settle()
    order(cluster, "CloseQueue", "dept")
    queue(cluster, "team", "dept")
    cluster.settle()
    assert states(cluster, "team") == ["Closed"]
    order(cluster, "OpenQueue", "dept", CASCADING)
    assert states(cluster, "team") == ["Open"]


def test_root_stays_open(cluster: Cluster) -> None:
    order(cluster, "CloseQueue", "root")
    assert states(cluster, "root") == ["Open"]


def test_queues_that_are_each_others_parents_close_and_stay_so(cluster: Cluster) -> None:
    queue(cluster, "a", "b")
    queue(cluster, "b", "a")
    cluster.settle()
    order(cluster, "CloseQueue", "a")
    order(cluster, "OpenQueue", "a", CASCADING)
    assert states(cluster, "a", "b") == ["Closed", "Closed"]


def test_a_queue_whose_parent_is_missing_says_so_and_is_looked_at_again(cluster: Cluster) -> None:
    queue(cluster, "team", "dept")
    cluster.settle()
    assert cluster.told[-1][:2] == ("team", "SyncQueue")
    assert cluster.next_due() == 5.0
    queue(cluster, "dept")
    cluster.wait(6)
    assert cluster.next_due() is None


def test_commands_to_a_queue_that_is_not_there_are_removed(cluster: Cluster) -> None:
    target = {"apiVersion": QUEUES.api_version, "kind": "Queue", "name": "none", "uid": "x"}
    cluster.create(COMMANDS, {"metadata": {"name": "c"}, "action": "CloseQueue", "target": target})
    cluster.settle()
    assert cluster.all(COMMANDS) == []
