"""Nodes that fall silent, and their pods."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from kilauea.api.kinds import LEASES, NODES, PODS
from kilauea.api.ports import ApiError, Key, Outcome, View
from kilauea.api.times import format_time
from kilauea.controllers.nodes.controller import EVERYWHERE, NodeLifecycleController
from kilauea.nodes.annotations import NODE_STATE, SILENT, SIMULATED
from kilauea.nodes.heartbeats import Heartbeats, speaks_for
from kilauea.nodes.machine import Machine
from support.controlled import Cluster


@pytest.fixture
def cluster(cluster_of: Callable[..., Cluster]) -> Cluster:
    made = cluster_of(NodeLifecycleController())
    node(made)
    made.settle()
    return made


def node(cluster: Cluster, name: str = "n") -> None:
    cluster.create(NODES, {"metadata": {"name": name}})
    report(cluster, name)


def report(cluster: Cluster, name: str = "n", status: str = "True") -> None:
    stamp = format_time(cluster.api.now)
    condition = {"type": "Ready", "status": status, "lastHeartbeatTime": stamp, "lastTransitionTime": stamp}
    cluster.patch(NODES, name, {"status": {"conditions": [condition]}}, "status")


def pod(cluster: Cluster, name: str = "p", on: str = "n", **spec: Any) -> dict[str, Any]:
    made = {"nodeName": on, "containers": [{"name": "c", "image": "i"}], **spec}
    return cluster.create(PODS, {"metadata": {"name": name}, "spec": made})


def taints(cluster: Cluster) -> list[tuple[str, str]]:
    return [
        (each["key"].removeprefix("node.kubernetes.io/"), each["effect"])
        for each in cluster.get(NODES, "n")["spec"].get("taints", ())
    ]


def test_a_ready_node_has_no_taints_and_keeps_those_of_others(cluster: Cluster) -> None:
    assert taints(cluster) == []
    mine = [{"key": "mine", "effect": "NoSchedule"}]
    cluster.patch(NODES, "n", {"spec": {"taints": mine, "unschedulable": True}})
    cluster.settle()
    assert taints(cluster) == [("mine", "NoSchedule"), ("unschedulable", "NoSchedule")]
    cluster.patch(NODES, "n", {"spec": {"unschedulable": False}})
    cluster.settle()
    assert taints(cluster) == [("mine", "NoSchedule")]


def test_a_node_that_is_not_ready_says_so_by_taints_and_its_pods_serve_no_more(cluster: Cluster) -> None:
    cluster.say(pod(cluster), "Running")
    report(cluster, status="False")
    cluster.settle()
    assert taints(cluster) == [("not-ready", "NoSchedule"), ("not-ready", "NoExecute")]
    (ready,) = [each for each in cluster.get(PODS, "p")["status"]["conditions"] if each["type"] == "Ready"]
    assert ready["status"] == "False"
    report(cluster)
    cluster.settle()
    assert taints(cluster) == []


def test_a_silent_node_is_unreachable_and_its_pods_go_when_their_patience_is_over(cluster: Cluster) -> None:
    for name, seconds in (("short", 20), ("long", None)):
        toleration = {"key": "node.kubernetes.io/unreachable", "operator": "Exists", "effect": "NoExecute"}
        cluster.say(
            pod(cluster, name, tolerations=[{**toleration, **({"tolerationSeconds": seconds} if seconds else {})}]),
            "Running",
        )
    cluster.say(pod(cluster, "usual"), "Running")
    cluster.wait(49)
    assert taints(cluster) == []
    cluster.wait(2)
    assert taints(cluster) == [("unreachable", "NoSchedule"), ("unreachable", "NoExecute")]
    (ready,) = [each for each in cluster.get(NODES, "n")["status"]["conditions"] if each["type"] == "Ready"]
    assert (ready["status"], ready["reason"]) == ("Unknown", "NodeStatusUnknown")
    assert ("n", "NodeNotReady", "Node n status is now: NodeNotReady") in cluster.told
    going = []
    for _ in range(2):
        cluster.wait(21)
        going.append(
            [each["metadata"]["name"] for each in cluster.all(PODS) if each["metadata"].get("deletionTimestamp")]
        )
    assert going == [["short"], ["short"]]
    assert ("short", "TaintManagerEviction", "Marking for deletion Pod default/short") in cluster.told
    cluster.wait(300)
    going_now = {each["metadata"]["name"] for each in cluster.all(PODS) if each["metadata"].get("deletionTimestamp")}
    assert going_now == {"short", "usual"}


@pytest.mark.parametrize("first", ["taint", "pod"])
def test_a_pod_goes_from_a_node_that_drives_it_away_whichever_comes_first(cluster: Cluster, first: str) -> None:
    if first == "pod":
        cluster.say(pod(cluster), "Running")
        cluster.settle()
    away = [{"key": "mine", "effect": "NoExecute"}]
    cluster.patch(NODES, "n", {"spec": {"taints": away}})
    cluster.settle()
    if first == "taint":
        cluster.say(pod(cluster), "Running")
        cluster.wait(2)
    assert cluster.get(PODS, "p")["metadata"]["deletionTimestamp"]


def test_pods_that_come_to_a_node_that_is_not_ready_serve_no_more(cluster: Cluster) -> None:
    report(cluster, status="False")
    cluster.settle()
    tolerations = [{"key": "node.kubernetes.io/not-ready", "operator": "Exists", "effect": "NoExecute"}]
    cluster.say(pod(cluster, tolerations=tolerations), "Running")
    cluster.wait(2)
    (ready,) = [each for each in cluster.get(PODS, "p")["status"]["conditions"] if each["type"] == "Ready"]
    assert ready["status"] == "False"


def test_pods_on_a_node_that_is_well_give_nothing_to_do(cluster_of: Callable[..., Cluster]) -> None:
    looked: list[str] = []

    class Counting(NodeLifecycleController):
        def reconcile(self, key: Key, view: View, now: int) -> Outcome:
            looked.append(key.name)
            return super().reconcile(key, view, now)

    cluster = cluster_of(Counting())
    node(cluster)
    cluster.settle()
    looked.clear()
    for number in range(5):
        cluster.say(pod(cluster, f"p{number}"), "Running")
    cluster.wait(2)
    assert looked == []
    pod(cluster, "lost", on="gone")
    cluster.wait(2)
    assert looked == ["gone"]


def test_a_lease_that_is_renewed_keeps_a_node(cluster: Cluster) -> None:
    spec = {"holderIdentity": "n", "leaseDurationSeconds": 40, "renewTime": "2020-01-01T00:00:00.000000Z"}
    cluster.create(LEASES, {"metadata": {"name": "n"}, "spec": spec}, "kube-node-lease")
    for _ in range(8):
        cluster.wait(20)
        stamp = format_time(cluster.api.now // 1_000_000 * 1_000_000 + 1)
        path = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases/n"
        cluster.api.good("PATCH", path, {"spec": {"renewTime": stamp}}, content_type="application/merge-patch+json")
    assert taints(cluster) == []


def test_a_node_whose_lease_was_just_renewed_is_not_read_and_is_still_missed_later(cluster: Cluster) -> None:
    spec = {"holderIdentity": "n", "leaseDurationSeconds": 40, "renewTime": format_time(cluster.api.now + 1)}
    cluster.create(LEASES, {"metadata": {"name": "n"}, "spec": spec}, "kube-node-lease")
    cluster.settle()
    key = next(iter(NodeLifecycleController.interests[0].keys(cluster.get(NODES, "n"))))

    class Unread:
        """A view that is asked for no node."""

        def __getattr__(self, name: str) -> Any:
            return getattr(cluster.cache, name)

        def get(self, resource: Any, key: Key) -> Any:
            assert resource != NODES
            return cluster.cache.get(resource, key)

    outcome = NodeLifecycleController().reconcile(key, Unread(), cluster.api.now + 20_000_000)
    assert (list(outcome.operations), outcome.again) == ([], 30.000001)
    cluster.wait(49)
    assert taints(cluster) == []
    cluster.wait(2)
    assert taints(cluster) == [("unreachable", "NoSchedule"), ("unreachable", "NoExecute")]


def test_nodes_are_not_blamed_for_silence_before_anybody_listened(cluster_of: Callable[..., Cluster]) -> None:
    cluster = cluster_of()
    node(cluster)
    cluster.api.now += 3_600_000_000
    late = NodeLifecycleController(lambda now: now)
    early = NodeLifecycleController()
    for interest in late.interests:
        cluster.cache.declare(interest.resource, interest.labels, interest.indexes)
    cluster.refresh()
    key = next(iter(late.interests[0].keys(cluster.get(NODES, "n"))))
    assert not late.reconcile(key, cluster.cache, cluster.api.now).operations
    assert early.reconcile(key, cluster.cache, cluster.api.now).operations


def test_a_process_without_processor_time_does_not_take_its_own_nodes_for_silent(
    cluster_of: Callable[..., Cluster],
) -> None:
    cluster = cluster_of(NodeLifecycleController(speaks_for=speaks_for), Heartbeats(Machine(), 30))
    cluster.create(NODES, {"metadata": {"name": "n", "annotations": {SIMULATED: "true"}}})
    cluster.settle()
    cluster.say(pod(cluster, tolerations=[]), "Running")
    cluster.settle()
    for asleep in (60, 120, 8 * 3600):
        cluster.api.now += asleep * 1_000_000  # nothing runs meanwhile; then the controller has its turn first
        cluster.settle()
        assert taints(cluster) == []
    assert cluster.told == []
    assert not cluster.get(PODS, "p")["metadata"].get("deletionTimestamp")
    cluster.patch(NODES, "n", {"metadata": {"annotations": {NODE_STATE: SILENT}}})
    cluster.wait(51)
    assert taints(cluster) == [("unreachable", "NoSchedule"), ("unreachable", "NoExecute")]


def test_silence_that_falls_into_a_gap_of_listening_is_no_silence(cluster_of: Callable[..., Cluster]) -> None:
    running_since = [0]
    cluster = cluster_of(NodeLifecycleController(lambda now: running_since[0]))
    node(cluster)
    cluster.settle()
    cluster.api.now += 3_600_000_000
    running_since[0] = cluster.api.now
    cluster.wait(49)
    assert taints(cluster) == []
    cluster.wait(2)
    assert taints(cluster) == [("unreachable", "NoSchedule"), ("unreachable", "NoExecute")]


def test_pods_stay_on_a_node_that_the_server_has_and_the_view_does_not_show(cluster: Cluster) -> None:
    cluster.say(pod(cluster), "Running")
    cluster.refresh()
    cluster.api.now += 60_000_000

    class Behind:
        """A view that has seen the pod and not yet the node."""

        def __getattr__(self, name: str) -> Any:
            return getattr(cluster.cache, name)

        def get(self, resource: Any, key: Key) -> Any:
            return None if resource == NODES else cluster.cache.get(resource, key)

        def list(self, resource: Any, namespace: str = "") -> Any:
            return () if resource == NODES else cluster.cache.list(resource, namespace)

    for key in (Key("", "n"), EVERYWHERE):
        outcome = NodeLifecycleController().reconcile(key, Behind(), cluster.api.now)
        with pytest.raises(ApiError, match="nodes n exists"):
            cluster.carry_out("node-lifecycle-controller", outcome.operations)
        assert cluster.names(PODS) == ["p"]


def test_pods_of_a_node_that_is_gone_go_too(cluster: Cluster) -> None:
    cluster.say(pod(cluster), "Running")
    cluster.delete(NODES, "n")
    cluster.wait(30)
    assert cluster.names(PODS) == ["p"]
    cluster.wait(20)
    assert cluster.names(PODS) == []


@pytest.mark.parametrize("phase", ["Running", "Failed"])
def test_pods_that_are_first_seen_when_they_run_on_a_node_that_is_gone_go_too(cluster: Cluster, phase: str) -> None:
    cluster.delete(NODES, "n")
    cluster.wait(5)
    cluster.say(pod(cluster), phase)
    cluster.wait(50)
    assert cluster.names(PODS) == []


def test_pods_of_a_node_that_went_while_no_one_watched_go_too(cluster_of: Callable[..., Cluster]) -> None:
    cluster = cluster_of(NodeLifecycleController())
    node(cluster)
    cluster.say(pod(cluster), "Running")
    cluster.say(pod(cluster, "q", on="gone"), "Running")
    cluster.wait(50)
    assert cluster.names(PODS) == ["p"]


def test_a_look_at_a_node_that_is_well_asks_for_nothing(cluster: Cluster) -> None:
    key = next(iter(NodeLifecycleController.interests[0].keys(cluster.get(NODES, "n"))))
    outcome = NodeLifecycleController().reconcile(key, cluster.cache, cluster.api.now)
    assert (list(outcome.operations), outcome.again) == ([], 50.0)
