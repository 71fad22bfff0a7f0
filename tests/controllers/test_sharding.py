"""Nodes are shared out among schedulers."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import pytest

from kilauea.api.kinds import CONFIG_MAPS, NODE_SHARDS, NODES, PODS
from kilauea.api.ports import Key
from kilauea.controllers.sharding.configuration import (
    FILE,
    ShardingError,
    SharingPlan,
    of_config_map,
    of_flags,
)
from kilauea.controllers.sharding.controller import ShardingController
from support.controlled import Cluster

SETTINGS = Key("default", "shards")
TWO = """
schedulerConfigs:
- name: batch
  policies: [{name: allocation-rate, arguments: {maxCPUUtil: 0.5}}, {name: node-limit, arguments: {maxNodes: 2}}]
- name: rest
"""
FLAGS = of_flags(["volcano:volcano:0.0:0.6:false:2:100", "agent-scheduler:agent:0.7:1.0:true:2:100"])


@pytest.fixture
def cluster_with(cluster_of: Callable[..., Cluster]) -> Callable[..., Cluster]:
    def made(plan: SharingPlan | None = None) -> Cluster:
        return cluster_of(ShardingController(SETTINGS, plan), volcano=True)

    return made


def settings(cluster: Cluster, text: str) -> None:
    data = {FILE: text}
    if "shards" in cluster.names(CONFIG_MAPS):
        cluster.patch(CONFIG_MAPS, "shards", {"data": data})
    else:
        cluster.create(CONFIG_MAPS, {"metadata": {"name": "shards"}, "data": data})
    cluster.settle()


def node(cluster: Cluster, name: str, cpu: str = "10", **labels: str) -> None:
    status = {"capacity": {"cpu": cpu}, "allocatable": {"cpu": cpu}}
    cluster.create(NODES, {"metadata": {"name": name, "labels": labels}, "status": status})


def pod(cluster: Cluster, name: str, on: str, cpu: str, **metadata: Any) -> None:
    containers = [{"name": "c", "image": "i", "resources": {"requests": {"cpu": cpu}}}]
    spec = {"nodeName": on, "containers": containers}
    cluster.create(PODS, {"metadata": {"name": name, **metadata}, "spec": spec})


def shares(cluster: Cluster) -> dict[str, list[str]]:
    return {each["metadata"]["name"]: each["spec"]["nodesDesired"] for each in cluster.all(NODE_SHARDS)}


def test_each_scheduler_has_the_nodes_that_its_policies_choose(cluster_with: Callable[..., Cluster]) -> None:
    cluster = cluster_with()
    for name in ("n1", "n2", "n3", "n10"):
        node(cluster, name)
    pod(cluster, "p", "n1", "6")
    settings(cluster, TWO)
    assert shares(cluster) == {"batch": ["n2", "n3"], "rest": ["n1", "n10"]}


def test_pods_that_have_ended_and_those_of_the_kubelet_take_no_part(cluster_with: Callable[..., Cluster]) -> None:
    cluster = cluster_with()
    node(cluster, "n1")
    pod(cluster, "ended", "n1", "9")
    cluster.patch(PODS, "ended", {"status": {"phase": "Succeeded"}}, subresource="status")
    pod(cluster, "mirror", "n1", "9", annotations={"kubernetes.io/config.mirror": "x"})
    settings(cluster, TWO)
    assert shares(cluster)["batch"] == ["n1"]


def test_by_the_flags_nodes_between_the_ranges_are_in_no_share(cluster_with: Callable[..., Cluster]) -> None:
    cluster = cluster_with(FLAGS)
    for name, used in (("idle", "1"), ("between", "6500m"), ("busy", "8")):
        node(cluster, name)
        pod(cluster, f"on-{name}", name, used)
    cluster.settle()
    assert shares(cluster) == {"volcano": ["idle"], "agent-scheduler": ["busy"]}


def test_of_equal_nodes_warm_ones_are_chosen_first(cluster_with: Callable[..., Cluster]) -> None:
    cluster = cluster_with(of_flags(["volcano:volcano:0:1:true:0:1"]))
    node(cluster, "n1")
    node(cluster, "n2", **{"node.volcano.sh/warmup": "true"})
    cluster.settle()
    assert shares(cluster) == {"volcano": ["n2"]}


def test_a_share_follows_nodes_that_come_and_go(cluster_with: Callable[..., Cluster]) -> None:
    cluster = cluster_with(of_flags(["volcano:volcano:0:1:false:0:0"]))
    node(cluster, "n1")
    cluster.settle()
    assert shares(cluster) == {"volcano": ["n1"]}
    node(cluster, "n2")
    cluster.delete(NODES, "n1")
    cluster.wait(1)
    assert shares(cluster) == {"volcano": ["n2"]}


def test_utilisation_is_looked_at_once_a_period(cluster_with: Callable[..., Cluster]) -> None:
    cluster = cluster_with(FLAGS)
    node(cluster, "n1")
    cluster.settle()
    pod(cluster, "p", "n1", "9")
    cluster.wait(30)
    assert shares(cluster)["volcano"] == ["n1"]
    cluster.wait(31)
    assert shares(cluster) == {"volcano": [], "agent-scheduler": ["n1"]}


def test_a_node_event_is_ignored_if_the_configuration_says_so(cluster_with: Callable[..., Cluster]) -> None:
    cluster = cluster_with()
    settings(cluster, TWO + "enableNodeEventTrigger: false\nshardSyncPeriod: 2m\n")
    node(cluster, "n1")
    cluster.wait(100)
    assert shares(cluster)["batch"] == []
    cluster.wait(21)
    assert shares(cluster)["batch"] == ["n1"]


def test_a_shard_that_barely_changes_is_left_alone(cluster_with: Callable[..., Cluster]) -> None:
    cluster = cluster_with(of_flags(["volcano:volcano:0:0.5:false:0:30"]))
    for number in range(31):
        node(cluster, f"n{number}")
    cluster.settle()
    before = shares(cluster)
    pod(cluster, "p", "n0", "9")  # n30 would come in its place: one node of thirty
    cluster.wait(61)
    assert shares(cluster) == before
    for number in (1, 2):
        node(cluster, f"m{number}")
        pod(cluster, f"p{number}", f"n{number}", "9")
    cluster.wait(61)
    assert shares(cluster)["volcano"] == ["m1", "m2", *(f"n{number}" for number in range(3, 31))]


def test_shards_of_schedulers_that_are_not_listed_go(cluster_with: Callable[..., Cluster]) -> None:
    cluster = cluster_with()
    cluster.create(NODE_SHARDS, {"metadata": {"name": "old"}, "spec": {"nodesDesired": []}})
    cluster.settle()
    assert set(shares(cluster)) == {"old"}  # nothing is configured, so nothing is touched
    settings(cluster, TWO)
    assert set(shares(cluster)) == {"batch", "rest"}


def test_the_status_is_left_to_the_scheduler(cluster_with: Callable[..., Cluster]) -> None:
    cluster = cluster_with(of_flags(["volcano:volcano:0:1:false:0:0"]))
    node(cluster, "n1")
    cluster.settle()
    cluster.patch(NODE_SHARDS, "volcano", {"status": {"nodesInUse": ["n1"]}}, subresource="status")
    node(cluster, "n2")
    cluster.wait(1)
    assert cluster.get(NODE_SHARDS, "volcano")["status"] == {"nodesInUse": ["n1"]}


def test_an_invalid_configuration_changes_nothing_and_says_so(cluster_with: Callable[..., Cluster]) -> None:
    cluster = cluster_with()
    node(cluster, "n1")
    settings(cluster, TWO)
    before = shares(cluster)
    settings(cluster, "schedulerConfigs: []")
    assert shares(cluster) == before
    assert cluster.told[-1] == (
        "shards",
        "InvalidConfiguration",
        "schedulerConfigs: name at least one scheduler; NodeShards remain unchanged",
    )


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a: [", "sharding.yaml"),
        ("just text", "expected fields such as schedulerConfigs"),
        ("schedulerConfigs: [{type: x}]", "schedulerConfigs[0].name is missing"),
        ("schedulerConfigs: [{name: a}, {name: a}]", "scheduler a is listed twice"),
        ("schedulerConfigs: [7]", "schedulerConfigs[0]: expected fields"),
        ("schedulerConfigs: [{name: a, policies: [{name: best}]}]", "unknown policy best: use allocation-rate"),
        ("schedulerConfigs: [{name: a, policies: all}]", "schedulerConfigs[0].policies: expected a list"),
        ("schedulerConfigs: [{name: a, policies: [{name: warmup, arguments: {maxNodes: 1}}]}]", "arguments.maxNodes"),
        (
            "schedulerConfigs: [{name: a, cpuUtilizationMin: 0.9, cpuUtilizationMax: 0.1}]",
            "0.9 is above maxCPUUtil 0.1",
        ),
        ("schedulerConfigs: [{name: a, cpuUtilizationMax: 1.5}]", "1.5: use a number from 0 to 1"),
        ("schedulerConfigs: [{name: a, minNodes: 5, maxNodes: 2}]", "minNodes 5 is above maxNodes 2"),
        ("schedulerConfigs: [{name: a, policies: [{name: warmup, weight: -1}]}]", "use a number of at least 0"),
        ("schedulerConfigs: [{name: a, policies: [{name: warmup, arguments: [1]}]}]", "expected names and values"),
        ("schedulerConfigs: [{name: a}]\nshardSyncPeriod: soon", "shardSyncPeriod"),
        ("schedulerConfigs: [{name: a}]\nshardSyncPeriod: 1ms", "1ms is too short"),
        ("schedulerConfigs: [{name: a}]\nenableNodeEventTrigger: maybe", "use true or false"),
    ],
)
def test_a_configuration_that_cannot_be_used_names_the_field(text: str, message: str) -> None:
    with pytest.raises(ShardingError, match=r".") as caught:
        of_config_map({"data": {FILE: text}})
    assert message in str(caught.value)


def test_a_config_map_without_the_file_says_so() -> None:
    with pytest.raises(ShardingError, match=r"data has no sharding\.yaml"):
        of_config_map({"metadata": {}})


@pytest.mark.parametrize(
    ("flag", "message"),
    [
        ("volcano", "has 1 field instead of 7"),
        ("a:b:x:1:true:0:0", "use numbers"),
        ("a:b:0:1:yes:0:0", "prefer_warmup is yes"),
        ("a:b:0.7:0.6:true:0:0", "0.7 is above"),
        (":b:0:1:true:0:0", "name is missing"),
    ],
)
def test_a_flag_that_cannot_be_used_says_why(flag: str, message: str) -> None:
    with pytest.raises(ShardingError) as caught:
        of_flags([flag])
    assert message in str(caught.value)


def test_arguments_of_a_scheduler_hold_for_its_policies() -> None:
    text = "schedulerConfigs: [{name: a, arguments: {maxNodes: 3}, policies: [{name: node-limit}, {name: warmup}]}]"
    limit, warm = of_config_map({"data": {FILE: text}}).schedulers[0].policies
    assert limit.arguments == {"most": 3}
    assert warm.arguments == {"label": "node.volcano.sh/warmup", "value": "true"}


def test_a_weight_of_zero_counts_as_one() -> None:
    given: Mapping[str, Any] = {"data": {FILE: "schedulerConfigs: [{name: a, policies: [{name: warmup, weight: 0}]}]"}}
    assert of_config_map(given).schedulers[0].policies[0].weight == 1
