"""HyperNodes are counted and discovered."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from random import Random
from typing import Any

import pytest
import yaml

from kilauea.api.kinds import CONFIG_MAPS, HYPER_NODES, NODES
from kilauea.api.ports import Key
from kilauea.api.times import SECOND
from kilauea.controllers.hypernodes.configuration import FILE, Configuration, UfmSource, read_configuration
from kilauea.controllers.hypernodes.counting import HyperNodeController
from kilauea.controllers.hypernodes.discovery import DiscoveryController
from kilauea.controllers.hypernodes.ufm import Fabric, Port, fabric_of, hypernodes_of_fabric
from support.controlled import Cluster

SETTINGS = """
networkTopologyDiscovery:
- source: label
  enabled: {enabled}
  config:
    networkTopologyTypes:
      Fat Tree:
      - nodeLabel: spine
      - nodeLabel: leaf
      - nodeLabel: kubernetes.io/hostname
"""


def ufm_settings(
    endpoint: str = "u", insecure: str = "true", interval: str = "10m", secret: str = "{name: s, namespace: n}"
) -> str:
    config = f"config: {{endpoint: '{endpoint}', insecureSkipVerify: {insecure}}}"
    source = f"source: ufm, enabled: true, interval: {interval}, credentials: {{secretRef: {secret}}}, {config}"
    return f"networkTopologyDiscovery: [{{{source}}}]"


@pytest.fixture
def cluster(cluster_of: Callable[..., Cluster]) -> Cluster:
    return cluster_of(HyperNodeController(), DiscoveryController(Key("default", "settings")), volcano=True)


def node(cluster: Cluster, name: str, **labels: str) -> None:
    cluster.create(NODES, {"metadata": {"name": name, "labels": labels}})


def hypernode(cluster: Cluster, name: str, *members: Mapping[str, Any], tier: int = 1) -> None:
    cluster.create(HYPER_NODES, {"metadata": {"name": name}, "spec": {"tier": tier, "members": list(members)}})
    cluster.wait(1)


def member(kind: str = "Node", **selector: Any) -> dict[str, Any]:
    return {"type": kind, "selector": selector}


def settings(cluster: Cluster, text: str = SETTINGS, enabled: bool = True) -> None:
    data = {FILE: text.format(enabled=str(enabled).lower())}
    if "settings" in cluster.names(CONFIG_MAPS):
        cluster.patch(CONFIG_MAPS, "settings", {"data": data})
    else:
        cluster.create(CONFIG_MAPS, {"metadata": {"name": "settings"}, "data": data})
    cluster.wait(2)


def discovered(cluster: Cluster) -> dict[str, list[str]]:
    """Members by the value of the label that each discovered HyperNode is about."""
    found: dict[str, list[str]] = {}
    names: dict[str, str] = {}
    for each in cluster.all(HYPER_NODES):
        value = each["metadata"]["labels"][each["spec"]["tierName"]]
        names[each["metadata"]["name"]] = value
        found[value] = [m["selector"]["exactMatch"]["name"] for m in each["spec"]["members"]]
    return {value: [names.get(name, name) for name in members] for value, members in found.items()}


@pytest.mark.parametrize(
    ("selectors", "count"),
    [
        ([{"exactMatch": {"name": "n1"}}, {"exactMatch": {"name": "n2"}}], 2),
        ([{"exactMatch": {"name": "n1"}}, {"regexMatch": {"pattern": "^n"}}], 3),
        ([{"labelMatch": {"matchLabels": {"rack": "a"}}}], 2),
        ([{"labelMatch": {"matchExpressions": [{"key": "rack", "operator": "Exists"}]}}], 3),
        ([{"labelMatch": {}}], None),
        ([{"regexMatch": {"pattern": "("}}], None),
    ],
)
def test_members_are_counted_once_each(cluster: Cluster, selectors: list[dict[str, Any]], count: int | None) -> None:
    for name, rack in (("n1", "a"), ("n2", "a"), ("n3", "b")):
        node(cluster, name, rack=rack)
    cluster.wait(2)
    hypernode(cluster, "h", *(member(**each) for each in selectors))
    assert (cluster.get(HYPER_NODES, "h").get("status") or {}).get("nodeCount") == count


def test_a_hypernode_without_members_has_no_count(cluster: Cluster) -> None:
    cluster.create(HYPER_NODES, {"metadata": {"name": "h"}, "spec": {"tier": 1}})
    cluster.wait(1)
    assert "status" not in cluster.get(HYPER_NODES, "h")


def test_a_domain_of_domains_counts_those(cluster: Cluster) -> None:
    hypernode(cluster, "h", *(member("HyperNode", exactMatch={"name": name}) for name in "ab"), tier=2)
    assert cluster.get(HYPER_NODES, "h")["status"]["nodeCount"] == 2


def test_the_count_follows_the_nodes(cluster: Cluster) -> None:
    hypernode(cluster, "h", member(regexMatch={"pattern": "^n"}))
    for name in ("n1", "n2", "other"):
        node(cluster, name)
    cluster.wait(2)
    assert cluster.get(HYPER_NODES, "h")["status"]["nodeCount"] == 2
    for name in ("n1", "n2"):
        cluster.delete(NODES, name)
    cluster.wait(2)
    assert cluster.get(HYPER_NODES, "h")["status"]["nodeCount"] == 0


def test_labels_of_nodes_become_a_tree(cluster: Cluster) -> None:
    for name, leaf, spine in (("n1", "l1", "s1"), ("n2", "l1", "s1"), ("n3", "l2", "s1")):
        node(cluster, name, leaf=leaf, spine=spine)
    node(cluster, "alone", leaf="l3")
    node(cluster, "none", spine="s1")
    settings(cluster)
    assert discovered(cluster) == {"l1": ["n1", "n2"], "l2": ["n3"], "l3": ["alone"], "s1": discovered(cluster)["s1"]}
    assert sorted(discovered(cluster)["s1"]) == ["l1", "l2"]
    (top,) = [each for each in cluster.all(HYPER_NODES) if each["spec"]["tier"] == 2]
    assert top["metadata"]["name"].startswith("hypernode-fat-tree-tier2-")
    assert top["metadata"]["labels"] == {"spine": "s1", "volcano.sh/network-topology-source": "label"}
    assert {each["type"] for each in top["spec"]["members"]} == {"HyperNode"}


def test_discovered_hypernodes_follow_the_labels_and_keep_their_names(cluster: Cluster) -> None:
    node(cluster, "n1", leaf="l1", spine="s1")
    node(cluster, "n2", leaf="l2", spine="s1")
    settings(cluster)
    before = cluster.names(HYPER_NODES)
    cluster.patch(NODES, "n2", {"metadata": {"labels": {"leaf": "l1"}}})
    cluster.wait(2)
    assert discovered(cluster) == {"l1": ["n1", "n2"], "s1": ["l1"]}
    assert set(cluster.names(HYPER_NODES)) < set(before)
    cluster.delete(NODES, "n1")
    cluster.delete(NODES, "n2")
    cluster.wait(2)
    assert discovered(cluster) == {}


def test_a_name_that_was_given_otherwise_is_kept(cluster: Cluster) -> None:
    labels = {"leaf": "l1", "volcano.sh/network-topology-source": "label"}
    name = "hypernode-fat-tree-tier1-abcde"
    wrong = {"tier": 1, "members": [member(exactMatch={"name": "gone"})]}
    cluster.create(HYPER_NODES, {"metadata": {"name": name, "labels": labels}, "spec": wrong})
    node(cluster, "n1", leaf="l1")
    settings(cluster)
    assert cluster.names(HYPER_NODES) == [name]
    assert discovered(cluster) == {"l1": ["n1"]}


def test_a_discovered_hypernode_that_was_deleted_or_changed_is_mended(cluster: Cluster) -> None:
    node(cluster, "n1", leaf="l1")
    settings(cluster)
    (name,) = cluster.names(HYPER_NODES)
    cluster.patch(HYPER_NODES, name, {"spec": {"tier": 7}})
    cluster.wait(2)
    assert cluster.get(HYPER_NODES, name)["spec"]["tier"] == 1
    cluster.delete(HYPER_NODES, name)
    cluster.wait(2)
    assert cluster.names(HYPER_NODES) == [name]


def test_what_people_made_is_not_touched_and_what_is_switched_off_stays(cluster: Cluster) -> None:
    hypernode(cluster, "mine", member(exactMatch={"name": "n1"}))
    node(cluster, "n1", leaf="l1")
    settings(cluster)
    assert len(cluster.names(HYPER_NODES)) == 2
    settings(cluster, enabled=False)
    cluster.delete(NODES, "n1")
    cluster.wait(2)
    assert len(cluster.names(HYPER_NODES)) == 2
    settings(cluster)
    assert cluster.names(HYPER_NODES) == ["mine"]


@pytest.mark.parametrize(("type", "prefix"), [("A_B", "a-b"), ("a.", "a"), (".-x.-y", "x.y"), ("--", ""), ("ä", "")])
def test_names_are_names_whatever_the_type_is_called(cluster: Cluster, type: str, prefix: str) -> None:
    node(cluster, "n1", leaf="l1")
    settings(cluster, SETTINGS.replace("Fat Tree", f'"{type}"'))
    (name,) = cluster.names(HYPER_NODES)
    assert name.startswith(f"hypernode-{prefix}-tier1-")


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("a: [", "volcano-controller.conf: line"),
        ("networkTopologyDiscovery: [{source: ufm, enabled: true}]", "config.endpoint is missing: set the URL of UFM"),
        (ufm_settings(endpoint="http://u"), "http://u: use https"),
        (ufm_settings(endpoint="https://me:secret@u"), "has credentials: put them into the Secret"),
        (ufm_settings(endpoint="https://u:port"), "use https"),
        (ufm_settings(endpoint="https://"), "not a URL such as https://ufm.example.com"),
        (ufm_settings(insecure="maybe"), "config.insecureSkipVerify: maybe: use true or false"),
        (ufm_settings(interval="soon"), "networkTopologyDiscovery[0].interval"),
        (ufm_settings(interval="1ms"), "1ms is too short: use at least 1s"),
        (ufm_settings(secret="{name: s}"), "credentials.secretRef: set the name and namespace"),
        ("networkTopologyDiscovery: [{source: roce, enabled: true}]", "unknown source roce: use label or ufm"),
        ("networkTopologyDiscovery: [{source: [], enabled: true}, 7]", "unknown source"),
        ("networkTopologyDiscovery: [{source: label, enabled: true}]", "networkTopologyTypes is missing"),
        (
            "networkTopologyDiscovery: [{source: label, enabled: true, config: {networkTopologyTypes: "
            "{abcdefghijklmnopqrstu: [{nodeLabel: a}, {nodeLabel: b}]}}}]",
            "too long",
        ),
        (
            "networkTopologyDiscovery: [{source: label, enabled: true, config: {networkTopologyTypes: "
            "{t: [{nodeLabel: a}, {nodeLabel: a}]}}}]",
            "twice",
        ),
        (
            "networkTopologyDiscovery: [{source: label, enabled: true, config: {networkTopologyTypes: {t: [{}, 3]}}}]",
            "needs a nodeLabel",
        ),
        (
            "networkTopologyDiscovery: [{source: label, enabled: true, config: {networkTopologyTypes: {t: 3}}}]",
            "at least one label above",
        ),
    ],
)
def test_what_cannot_be_used_of_the_settings_is_said(text: str, fault: str) -> None:
    assert fault in read_configuration({"data": {FILE: text}}).errors[0]


@pytest.mark.parametrize("text", ["", "7", "networkTopologyDiscovery: 7", "networkTopologyDiscovery: []"])
def test_settings_that_say_nothing_discover_nothing(text: str) -> None:
    assert read_configuration({"data": {FILE: text}}) == Configuration(None, ())


@pytest.mark.parametrize(("interval", "seconds"), [("10m", 600), ("0s", 3600), ("-1s", 3600), ("''", 3600)])
def test_a_ufm_is_asked_at_its_interval_or_hourly(interval: str, seconds: int) -> None:
    read = read_configuration({"data": {FILE: ufm_settings("ufm.example.com:8443/", interval=interval)}})
    assert read.ufm == UfmSource("https://ufm.example.com:8443", True, seconds * SECOND, Key("n", "s"))
    assert not read.errors


def test_of_two_ufms_the_first_is_asked_and_the_second_named() -> None:
    text = (
        ufm_settings("first")[:-1] + ", {source: ufm, enabled: true, config: {endpoint: second}, "
        "credentials: {secretRef: {name: s, namespace: n}}}]"
    )
    read = read_configuration({"data": {FILE: text}})
    assert read.ufm is not None
    assert read.ufm.endpoint == "https://first"
    assert read.errors == ("networkTopologyDiscovery[1]: ufm is listed twice: enable one of them",)


def fabric(*links: tuple[str, str]) -> Fabric:
    return fabric_of(Port("Computer", node, leaf) for node, leaf in links)


def test_leaves_that_share_a_node_are_one_group_however_long_the_chain() -> None:
    chain = [("n2", "l2"), ("n1", "l1"), ("n2", "l3"), ("n1", "l2"), ("n9", "l0"), ("n3", "l9")]
    assert fabric(*chain).groups == (("n9",), ("n1", "n2"), ("n3",))


def test_the_order_of_ports_does_not_matter() -> None:
    rng = Random(4)
    links = [(f"n{rng.randrange(40)}", f"l{rng.randrange(30)}") for _ in range(60)]
    expected = fabric(*links)
    for _ in range(5):
        rng.shuffle(links)
        assert fabric(*links) == expected


def test_ports_of_switches_and_odd_ones_are_passed_over() -> None:
    ports = [
        Port("Switch", "n1", "l1"),
        Port("Computer", "n2", ""),
        Port("Computer", None, "l1"),
        Port(7, "n3", "l1"),
        Port("Computer", "N4", "l1"),
        Port("Computer", "n" * 254, "l1"),
        Port("a Computer", " n5 ", "l1"),
    ]
    assert fabric_of(ports) == Fabric((("n5",),), ("N4", "n" * 254))


def test_a_fabric_without_computers_has_no_hypernodes() -> None:
    assert hypernodes_of_fabric(fabric()) == []


def test_the_example_is_understood_and_its_secret_has_what_ufm_wants() -> None:
    path = Path(__file__).parents[2] / "examples" / "placement" / "discovery.yaml"
    secret, config_map = yaml.safe_load_all(path.read_text())
    found = read_configuration(config_map)
    assert found.errors == ()
    assert found.ufm is not None
    assert found.ufm.endpoint == "https://ufm.example.com"
    assert (secret["metadata"]["name"], secret["metadata"]["namespace"]) == ("ufm", "volcano-system")
    assert secret["stringData"].keys() == {"username", "password"}
