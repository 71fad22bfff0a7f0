"""Daemon sets at work."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from kilauea.api.kinds import DAEMON_SETS, NODES, PODS, REVISIONS
from kilauea.api.ports import Obj, Resource, View, finished
from kilauea.controllers.daemonsets import controller
from kilauea.controllers.daemonsets.controller import DaemonSetController
from kilauea.controllers.daemonsets.node_fit import node_for
from kilauea.controllers.pods import claim
from support.controlled import Cluster, template

LABELS = {"app": "agent"}


@pytest.fixture
def cluster(cluster_of: Callable[..., Cluster]) -> Cluster:
    made = cluster_of(DaemonSetController())
    for name, labels in (("a", {"disk": "ssd"}), ("b", {"disk": "ssd"}), ("c", {})):
        made.create(NODES, {"metadata": {"name": name, "labels": labels}})
    return made


def daemon_set(cluster: Cluster, image: str = "i:1", update: Any = None, **spec: Any) -> None:
    made = {"selector": {"matchLabels": LABELS}, "template": template(LABELS, image, **spec)}
    strategy = {"updateStrategy": update} if update else {}
    cluster.create(DAEMON_SETS, {"metadata": {"name": "agent"}, "spec": {**made, **strategy}})
    cluster.settle()


def nodes(cluster: Cluster) -> list[str]:
    return sorted(node_for(pod) for pod in cluster.all(PODS))


def images(cluster: Cluster) -> list[str]:
    return sorted(pod["spec"]["containers"][0]["image"] for pod in cluster.all(PODS))


def test_every_node_gets_a_pod_and_a_new_one_too(cluster: Cluster) -> None:
    daemon_set(cluster)
    assert nodes(cluster) == ["a", "b", "c"]
    cluster.say_all("Running")
    cluster.create(NODES, {"metadata": {"name": "d"}})
    cluster.settle()
    assert nodes(cluster) == ["a", "b", "c", "d"]
    status = cluster.get(DAEMON_SETS, "agent")["status"]
    assert status == {
        "currentNumberScheduled": 4,
        "desiredNumberScheduled": 4,
        "numberAvailable": 3,
        "numberMisscheduled": 0,
        "numberReady": 3,
        "numberUnavailable": 1,
        "observedGeneration": 1,
        "updatedNumberScheduled": 4,
    }


def test_only_nodes_that_suit_get_a_pod_and_those_that_suit_no_more_lose_it(cluster: Cluster) -> None:
    daemon_set(cluster, nodeSelector={"disk": "ssd"})
    assert nodes(cluster) == ["a", "b"]
    cluster.patch(NODES, "b", {"metadata": {"labels": {"disk": "slow"}}})
    cluster.settle()
    assert nodes(cluster) == ["a"]


@pytest.mark.parametrize(
    ("taint", "count"),
    [
        ({"key": "mine", "effect": "NoSchedule"}, 2),
        ({"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"}, 3),
        ({"key": "node.kubernetes.io/unreachable", "effect": "NoExecute"}, 3),
        ({"key": "mine", "effect": "PreferNoSchedule"}, 3),
    ],
)
def test_taints_keep_pods_away_unless_they_are_about_the_nodes_state(
    cluster: Cluster, taint: dict[str, str], count: int
) -> None:
    cluster.patch(NODES, "c", {"spec": {"taints": [taint]}})
    daemon_set(cluster)
    assert len(nodes(cluster)) == count


def test_an_update_replaces_one_pod_after_the_other(cluster: Cluster) -> None:
    daemon_set(cluster)
    cluster.say_all("Running")
    cluster.settle()
    containers = [{"name": "main", "image": "i:2"}]
    cluster.patch(DAEMON_SETS, "agent", {"spec": {"template": {"spec": {"containers": containers}}}})
    seen = []
    for _ in range(3):
        cluster.settle()
        seen.append(images(cluster).count("i:2"))
        cluster.say_all("Running")
    cluster.settle()
    assert seen == [1, 2, 3]
    assert cluster.get(DAEMON_SETS, "agent")["status"]["updatedNumberScheduled"] == 3


def test_on_delete_replaces_only_what_is_deleted(cluster: Cluster) -> None:
    daemon_set(cluster, update={"type": "OnDelete"})
    cluster.say_all("Running")
    containers = [{"name": "main", "image": "i:2"}]
    cluster.patch(DAEMON_SETS, "agent", {"spec": {"template": {"spec": {"containers": containers}}}})
    cluster.settle()
    assert images(cluster) == ["i:1"] * 3
    cluster.delete(PODS, cluster.names(PODS)[0], grace=0)
    cluster.settle()
    assert images(cluster) == ["i:1", "i:1", "i:2"]


def test_a_pod_that_has_failed_is_replaced(cluster: Cluster) -> None:
    daemon_set(cluster)
    cluster.say_all("Running")
    failed = cluster.all(PODS)[0]
    cluster.say(failed, "Failed")
    cluster.settle()
    assert failed["metadata"]["uid"] not in {pod["metadata"]["uid"] for pod in cluster.all(PODS)}
    assert nodes(cluster) == ["a", "b", "c"]


def test_a_look_at_a_set_that_serves_asks_for_nothing(cluster: Cluster) -> None:
    daemon_set(cluster)
    cluster.say_all("Running")
    cluster.settle()
    key = next(iter(DaemonSetController.interests[0].keys(cluster.get(DAEMON_SETS, "agent"))))
    assert not finished(DaemonSetController().reconcile(key, cluster.cache, cluster.api.now)).operations


def test_pods_and_revisions_tell_by_labels_which_template_they_have(cluster: Cluster) -> None:
    daemon_set(cluster, nodeSelector={"disk": "ssd"})
    cluster.say_all("Running")
    change = {"spec": {"template": {"spec": {"containers": [{"name": "main", "image": "i:2"}]}}}}
    cluster.patch(DAEMON_SETS, "agent", change)
    cluster.settle()
    told = {
        (pod["metadata"]["labels"]["pod-template-generation"], pod["metadata"]["labels"]["controller-revision-hash"])
        for pod in cluster.all(PODS)
    }
    revisions = {
        (str(each["revision"]), each["metadata"]["labels"]["controller-revision-hash"])
        for each in cluster.all(REVISIONS)
    }
    assert told == revisions
    assert all(
        each["metadata"]["name"].endswith(dict(revisions)[str(each["revision"])]) for each in cluster.all(REVISIONS)
    )


def test_the_data_of_a_revision_has_its_keys_in_order(cluster: Cluster) -> None:
    """Clients find the current revision by comparing its data, byte for byte, with what Go writes for the template."""
    daemon_set(cluster, nodeSelector={"disk": "ssd", "arch": "arm"}, hostNetwork=True)
    (revision,) = cluster.all(REVISIONS)

    def in_order(value: Any) -> bool:
        if isinstance(value, dict):
            return list(value) == sorted(value) and all(map(in_order, value.values()))
        return not isinstance(value, list) or all(map(in_order, value))

    assert revision["data"]["spec"]["template"]["$patch"] == "replace"
    assert in_order(revision["data"])


def test_of_many_daemon_sets_few_are_looked_at_in_one_go(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(64):
        labels = {"app": f"agent-{number}"}
        spec = {"selector": {"matchLabels": labels}, "template": template(labels, "i:1")}
        cluster.create(DAEMON_SETS, {"metadata": {"name": f"agent-{number}"}, "spec": spec})
    cluster.settle()
    assert len(cluster.all(PODS)) == 64 * 3
    looked: list[int] = []
    names: list[str] = []

    def claimed(view: View, resource: Resource, owner: Obj) -> Any:
        names.append(owner["metadata"]["name"])
        return claim(view, resource, owner)

    monkeypatch.setattr(controller, "claim", claimed)
    for key in controller.ALL:
        before = len(names)
        finished(DaemonSetController().reconcile(key, cluster.cache, 0))
        looked.append(len(names) - before)
    assert sorted(names) == sorted(f"agent-{number}" for number in range(64))
    assert max(looked) <= 8
