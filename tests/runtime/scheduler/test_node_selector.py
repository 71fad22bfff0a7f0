"""`--node-selector`: a scheduler that knows only nodes with one of several labels."""

from __future__ import annotations

import json
from typing import Any

import pytest

from kilauea.api.ports import Seen
from kilauea.engine.state import ClusterState
from kilauea.runtime.scheduler.assumed import Assumed
from kilauea.runtime.scheduler.feed import Feed
from kilauea.runtime.scheduler.node_selector import SelectedNodes, labels_of


def node(name: str, **labels: str) -> bytes:
    """A node as the server sends it."""
    status: dict[str, Any] = {"allocatable": {"cpu": "4", "memory": "8Gi", "pods": "10"}}
    return json.dumps(
        {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": labels}, "status": status}
    ).encode()


def selected() -> tuple[SelectedNodes, Feed]:
    """Nodes for training or serving."""
    feed = Feed(ClusterState(), Assumed())
    return SelectedNodes(feed, labels_of(["role:train, role:serve"])), feed


def test_only_nodes_with_one_of_the_labels_are_there() -> None:
    nodes, feed = selected()
    nodes.on_relist([node("a", role="train"), node("b", role="web"), node("c"), node("d", role="serve")], "1")
    assert sorted(feed.node_names) == ["a", "d"]


def test_a_node_comes_and_goes_with_its_label() -> None:
    nodes, feed = selected()
    nodes.on_relist([node("a", role="web")], "1")
    nodes.on_events([Seen("MODIFIED", node("a", role="train"), "2"), Seen("ADDED", node("b", role="serve"), "3")])
    assert sorted(feed.node_names) == ["a", "b"]
    nodes.on_events([Seen("MODIFIED", node("a", role="web"), "4"), Seen("DELETED", node("b", role="serve"), "5")])
    assert list(feed.node_names) == []


def test_events_of_other_nodes_are_not_passed_on() -> None:
    nodes, feed = selected()
    nodes.on_relist([node("a", role="train")], "1")
    before = feed.changes
    nodes.on_events([Seen("MODIFIED", node("web", role="web"), "2"), Seen("DELETED", node("web", role="web"), "3")])
    assert feed.changes == before


@pytest.mark.parametrize("text", ["train", "role:", ":train"])
def test_a_label_needs_key_and_value(text: str) -> None:
    with pytest.raises(ValueError, match="use KEY:VALUE"):
        labels_of([text])
