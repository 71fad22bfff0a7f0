"""Volumes of the kinds of Kubernetes itself: limits and zones by their CSI drivers, and disks that pods share."""

from __future__ import annotations

from typing import Any

import pytest

from kilauea.api.meta import Object
from kilauea.engine.session import Session
from support.builders import NAMESPACE, Data, Objects, binds, conf, group, node, pending, plan_of, plugin, pod
from support.probes import inside
from support.volume_objects import ZONE, attached, claim, csi_node, migrated, on, storage_class, user, volume

FILTERS = conf("allocate", ["gang"], ["predicates"])
FULL = "node(s) exceed max volume count"
CONFLICT = "node(s) had no available disk"
AFFINITY = "node(s) didn't match PersistentVolume's node affinity"

GCE, EBS = "pd.csi.storage.gke.io", "ebs.csi.aws.com"


def named(*sources: Data) -> list[Data]:
    """Volumes that a pod names itself."""
    return [{"name": f"disk-{number}", **source} for number, source in enumerate(sources)]


def verdict(*objects: Objects, conf: Data = FILTERS) -> str:
    """Where the pod `p` goes, or why it does not fit on the one node."""
    plan = plan_of(group(), *objects, conf=conf)
    if "p" in binds(plan):
        return binds(plan)["p"]
    return pending(plan)["p"].message.removeprefix("0/1 nodes are unavailable: 1 ").removesuffix(".")


# --- limits


@pytest.mark.parametrize(
    ("source", "driver", "counts"),
    [
        pytest.param({"gcePersistentDisk": {"pdName": "d"}}, GCE, True, id="Google Compute Engine"),
        pytest.param({"awsElasticBlockStore": {"volumeID": "vol-1"}}, EBS, True, id="Elastic Block Store"),
        pytest.param({"azureDisk": {"diskName": "d", "diskURI": "/d"}}, "disk.csi.azure.com", True, id="Azure disk"),
        pytest.param({"cinder": {"volumeID": "d"}}, "cinder.csi.openstack.org", True, id="Cinder"),
        pytest.param({"portworxVolume": {"volumeID": "d"}}, "pxd.portworx.com", True, id="Portworx"),
        pytest.param({"azureFile": {"shareName": "s"}}, "file.csi.azure.com", False, id="Azure file: not attached"),
        pytest.param({"vsphereVolume": {"volumePath": "p"}}, "csi.vsphere.vmware.com", False, id="vSphere"),
        pytest.param({"nfs": {"server": "s", "path": "/"}}, GCE, False, id="no driver serves it"),
    ],
)
def test_the_limit_of_its_driver_counts_a_volume(source: Data, driver: str, counts: bool) -> None:
    limit = csi_node("n1", **{driver: 0})
    behind_claim: list[Objects] = [node("n1"), user("p", "data"), claim(bound="v"), volume("v", **source)]
    assert verdict(*behind_claim, limit) == (FULL if counts else "n1")
    assert verdict(node("n1"), pod("p", volumes=named(source)), limit) == (FULL if counts else "n1")
    assert verdict(*behind_claim, csi_node("n1", **{driver: 1})) == "n1"


@pytest.mark.parametrize(
    ("provisioner", "fits"),
    [
        pytest.param("kubernetes.io/gce-pd", False, id="of the plugin"),
        pytest.param(GCE, False, id="of the driver"),
        pytest.param("kubernetes.io/azure-file", True, id="of a plugin whose volumes do not count"),
    ],
)
def test_a_claim_that_is_not_bound_yet_counts_for_the_driver_of_its_plugin(provisioner: str, fits: bool) -> None:
    objects: list[Objects] = [node("n1"), user("p", "data"), claim(), storage_class(provisioner=provisioner)]
    assert verdict(*objects, csi_node("n1", **{GCE: 0})) == ("n1" if fits else FULL)


@pytest.mark.parametrize(
    ("there", "fits"),
    [
        pytest.param([pod("r", node="n1", volumes=named({"gcePersistentDisk": {"pdName": "w"}}))], False, id="another"),
        pytest.param([attached("w", "n1", GCE)], False, id="attached"),
        pytest.param([user("r", "same", node="n1"), claim("same", bound="v")], True, id="the same volume"),
    ],
)
def test_volumes_on_the_node_count_whatever_names_them(there: list[Object], fits: bool) -> None:
    volumes = [volume(name, gcePersistentDisk={"pdName": name}) for name in "vw"]
    objects: list[Objects] = [node("n1"), user("p", "data"), claim(bound="v"), volumes, csi_node("n1", **{GCE: 1})]
    assert verdict(*objects, there) == ("n1" if fits else FULL)


def test_a_volume_that_a_driver_made_and_one_that_a_pod_names_are_the_same_by_the_name_of_the_driver() -> None:
    running = pod("r", node="n1", volumes=named({"awsElasticBlockStore": {"volumeID": "aws://zone-a/vol-1"}}))
    mine = volume("v", awsElasticBlockStore={"volumeID": "vol-1"})
    objects: list[Objects] = [node("n1"), user("p", "data"), claim(bound="v"), csi_node("n1", **{EBS: 1})]
    assert verdict(*objects, running, mine) == "n1"


@pytest.mark.parametrize(
    ("labels", "handle"),
    [
        pytest.param({}, "projects/UNSPECIFIED/zones/UNSPECIFIED/disks/d", id="nothing says where"),
        pytest.param({ZONE: "eu-a"}, "projects/UNSPECIFIED/zones/eu-a/disks/d", id="in a zone"),
        pytest.param({ZONE: "eu-a__eu-b"}, "projects/UNSPECIFIED/regions/eu/disks/d", id="in the region of its zones"),
        pytest.param({ZONE: "eu-a__us-b"}, "", id="in zones of two regions: not counted"),
    ],
)
def test_the_name_of_a_disk_of_google_says_where_it_is(labels: dict[str, str], handle: str) -> None:
    def look(session: Session) -> tuple[str, str]:
        found = session.state.storage.volumes["v"]
        return found.driver, found.handle

    found = inside(volume("v", labels=labels, gcePersistentDisk={"pdName": "d"}), do=look, conf=FILTERS)
    assert found == (GCE if handle else "", handle)


# --- zones


def zoned(**more: Any) -> Object:
    return volume("v", gcePersistentDisk={"pdName": "d"}, **more)


OF_DRIVER = "topology.gke.io/zone"


@pytest.mark.parametrize(
    ("wanted", "of_node", "served", "expected"),
    [
        pytest.param({"nodeAffinity": on(ZONE, "a")}, {OF_DRIVER: "a"}, True, "n1", id="zones of the driver"),
        pytest.param({"nodeAffinity": on(ZONE, "a")}, {OF_DRIVER: "b"}, True, AFFINITY, id="another of its zones"),
        pytest.param({"nodeAffinity": on(ZONE, "a")}, {ZONE: "a"}, True, AFFINITY, id="the driver is not there"),
        pytest.param({"nodeAffinity": on(ZONE, "a")}, {ZONE: "a"}, False, "n1", id="not migrated: zones of the node"),
        pytest.param({"labels": {ZONE: "a"}}, {OF_DRIVER: "a"}, True, "n1", id="a label of the volume"),
        pytest.param({"labels": {ZONE: "a"}}, {OF_DRIVER: "b"}, True, AFFINITY, id="a label with another zone"),
        pytest.param({"labels": {ZONE: "a__b"}}, {OF_DRIVER: "b"}, True, "n1", id="a label with two zones"),
        pytest.param({"labels": {ZONE: "a"}}, {OF_DRIVER: "b"}, False, "n1", id="not migrated: no node affinity"),
        pytest.param(
            {"labels": {"failure-domain.beta.kubernetes.io/zone": "a"}}, {OF_DRIVER: "b"}, True, AFFINITY, id="beta"
        ),
        pytest.param(
            {"labels": {ZONE: "b"}, "nodeAffinity": on(ZONE, "a")}, {OF_DRIVER: "a"}, True, "n1", id="affinity first"
        ),
        pytest.param(
            {"labels": {ZONE: "a"}, "nodeAffinity": on("disk", "ssd")}, {OF_DRIVER: "a"}, True, AFFINITY, id="and both"
        ),
    ],
)
def test_zones_of_a_volume_where_its_plugin_was_migrated(
    wanted: Data, of_node: dict[str, str], served: bool, expected: str
) -> None:
    of = "kubernetes.io/gce-pd" if served else "kubernetes.io/aws-ebs"
    objects: list[Objects] = [node("n1", labels=of_node), migrated("n1", of), user("p", "data")]
    assert verdict(*objects, claim(bound="v"), zoned(**wanted)) == expected


def test_each_node_is_judged_by_what_serves_the_volume_there() -> None:
    nodes = [
        node("n1", cpu=8, labels={ZONE: "b", OF_DRIVER: "a"}),
        node("n2", cpu=8, labels={ZONE: "a"}),
        node("n3", cpu=8),
    ]
    drivers = [migrated("n1", "kubernetes.io/gce-pd")]
    pods = [user(f"p{i}", "data", cpu=8, created=i) for i in range(3)]
    shared = [claim(bound="v"), zoned(nodeAffinity=on(ZONE, "a"))]
    plan = plan_of(nodes, drivers, pods, shared, group(minimum=1), conf=FILTERS)
    assert sorted(binds(plan).values()) == ["n1", "n2"]


def test_an_unbound_claim_gets_a_volume_that_the_driver_of_the_node_reaches() -> None:
    nodes = [node("n1", labels={ZONE: "a", OF_DRIVER: "b"}), node("n2", labels={ZONE: "b", OF_DRIVER: "a"})]
    drivers = [migrated(name, "kubernetes.io/aws-ebs", "kubernetes.io/gce-pd") for name in ("n1", "n2")]
    objects: list[Objects] = [nodes, drivers, user("p", "data"), storage_class(), claim()]
    assert verdict(*objects, zoned(nodeAffinity=on(ZONE, "a"))) == "n2"


# --- disks that pods name themselves


@pytest.mark.parametrize(
    ("mine", "theirs", "fits"),
    [
        pytest.param({"gcePersistentDisk": {"pdName": "d"}}, {"gcePersistentDisk": {"pdName": "d"}}, False, id="GCE"),
        pytest.param({"gcePersistentDisk": {"pdName": "d"}}, {"gcePersistentDisk": {"pdName": "e"}}, True, id="others"),
        pytest.param(
            {"gcePersistentDisk": {"pdName": "d", "readOnly": True}},
            {"gcePersistentDisk": {"pdName": "d", "readOnly": True}},
            True,
            id="both read",
        ),
        pytest.param(
            {"gcePersistentDisk": {"pdName": "d", "readOnly": True}},
            {"gcePersistentDisk": {"pdName": "d"}},
            False,
            id="the other one writes",
        ),
        pytest.param(
            {"gcePersistentDisk": {"pdName": "d"}},
            {"gcePersistentDisk": {"pdName": "d", "readOnly": True}},
            False,
            id="this one writes",
        ),
        pytest.param(
            {"awsElasticBlockStore": {"volumeID": "v", "readOnly": True}},
            {"awsElasticBlockStore": {"volumeID": "v", "readOnly": True}},
            False,
            id="EBS is for one pod, even to read",
        ),
        pytest.param(
            {"iscsi": {"iqn": "i", "lun": 1}}, {"iscsi": {"iqn": "i", "lun": 2}}, False, id="one iSCSI target"
        ),
        pytest.param(
            {"iscsi": {"iqn": "i", "readOnly": True}}, {"iscsi": {"iqn": "i", "readOnly": True}}, True, id="iSCSI, read"
        ),
        pytest.param(
            {"rbd": {"monitors": ["a", "b"], "image": "i"}},
            {"rbd": {"monitors": ["b", "c"], "image": "i", "pool": "rbd"}},
            False,
            id="an RBD image with a common monitor, in the pool rbd that is meant without one",
        ),
        pytest.param(
            {"rbd": {"monitors": ["a"], "image": "i"}}, {"rbd": {"monitors": ["b"], "image": "i"}}, True, id="RBD apart"
        ),
        pytest.param({"gcePersistentDisk": {"pdName": "d"}}, {"iscsi": {"iqn": "d"}}, True, id="of another kind"),
    ],
)
def test_a_disk_that_another_pod_on_the_node_has(mine: Data, theirs: Data, fits: bool) -> None:
    running = pod("r", node="n1", volumes=named(theirs))
    assert verdict(node("n1"), pod("p", volumes=named(mine)), running) == ("n1" if fits else CONFLICT)


def test_pods_with_one_disk_go_to_different_nodes_within_a_cycle() -> None:
    disk = named({"gcePersistentDisk": {"pdName": "d"}})
    pods = [pod(f"p{i}", created=i, volumes=disk) for i in range(3)]
    plan = plan_of(node("n1", cpu=9), node("n2", cpu=9), pods, group(minimum=1), conf=FILTERS)
    assert sorted(binds(plan).values()) == ["n1", "n2"]
    assert pending(plan)["p2"].message == f"0/2 nodes are unavailable: 2 {CONFLICT}."


def test_a_statement_that_is_taken_back_gives_the_disk_back() -> None:
    disk = named({"gcePersistentDisk": {"pdName": "d"}})

    def act(session: Session) -> None:
        first, second = (session.state.tasks[f"{NAMESPACE}/{name}"] for name in "pq")
        statement = session.statement()
        statement.allocate(first, 0)
        assert session.evaluation(second).choose() is None
        statement.discard()
        assert session.evaluation(second).choose() is not None

    pods = [pod("p", volumes=disk), pod("q", volumes=disk)]
    inside(node("n1"), group(), pods, do=act, conf=conf("", ["gang"], ["predicates"]))


def test_disks_are_switched_off_with_volume_binding() -> None:
    off = conf("allocate", ["gang"], [plugin("predicates", {"predicate.VolumeBindingEnable": False})])
    disk = named({"gcePersistentDisk": {"pdName": "d"}})
    assert verdict(node("n1"), pod("p", volumes=disk), pod("r", node="n1", volumes=disk), conf=off) == "n1"


def test_without_a_waiting_pod_with_disks_nothing_is_registered() -> None:
    def registered(session: Session) -> int:
        return len(session.points.predicates()) + len(session.points.on_allocate)

    disk = named({"gcePersistentDisk": {"pdName": "d"}})
    objects: list[Objects] = [node("n1"), group(), pod("p"), csi_node("n1", **{GCE: 1})]
    usual = inside(*objects, do=registered, conf=FILTERS)
    assert inside(*objects, pod("r", node="n1", volumes=disk), do=registered, conf=FILTERS) == usual
    assert inside(*objects, pod("q", volumes=disk), do=registered, conf=FILTERS) > usual
