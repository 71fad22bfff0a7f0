"""Volume claims in the plugin predicates: bound and unbound, zones, limits, what is held for whom, and the messages."""

from __future__ import annotations

import pytest

from kilauea.api.meta import Object
from kilauea.engine.events import Changed, Gone, Relisted
from kilauea.engine.session import Session
from support.builders import (
    HOSTNAME,
    NAMESPACE,
    Data,
    Objects,
    binds,
    codes,
    conf,
    group,
    labels_of,
    need,
    node,
    nominations,
    pending,
    plan_in,
    plan_of,
    plugin,
    pod,
    priority_class,
    state_of,
)
from support.probes import inside
from support.volume_objects import (
    ZONE,
    attached,
    claim,
    csi_node,
    ephemeral,
    held,
    local,
    mounts,
    on,
    room,
    storage_class,
    topologies,
    tracking,
    user,
    volume,
)

FILTERS = conf("allocate", ["gang"], ["predicates"])
REGION = "topology.kubernetes.io/region"
BETA_ZONE = "failure-domain.beta.kubernetes.io/zone"

AFFINITY = "node(s) didn't match PersistentVolume's node affinity"
NO_VOLUME = "node(s) didn't find available persistent volumes to bind"
NO_SPACE = "node(s) did not have enough free storage"
NO_ZONE = "node(s) had no available volume zone"
FULL = "node(s) exceed max volume count"
IN_USE = (
    "node(s) unavailable due to PersistentVolumeClaim with ReadWriteOncePod access mode already in-use by another pod"
)
UNBOUND = "pod has unbound immediate PersistentVolumeClaims"


# --- what is found


def verdict(*objects: Objects, conf: Data = FILTERS) -> str:
    """Where a pod `p` with the claim `data` goes, or why it does not fit on the one node, or why it waits."""
    plan = plan_of(group(), user("p", "data"), *objects, conf=conf)
    if "p" in binds(plan):
        return binds(plan)["p"]
    return pending(plan)["p"].message.removeprefix("0/1 nodes are unavailable: 1 ").removesuffix(".")


def holds_after(*objects: Objects, conf: Data = FILTERS) -> dict[str, str]:
    return inside(*objects, do=held, conf=conf)


# --- bound claims


def test_a_bound_claim_is_where_its_volume_is() -> None:
    nodes = [node("n1"), node("n2")]
    assert verdict(nodes, claim(bound="v"), volume("v", nodeAffinity=local("n2"))) == "n2"
    assert verdict(nodes, claim(bound="v"), volume("v")) == "n1"


def test_a_node_that_does_not_reach_a_bound_volume_says_so() -> None:
    assert verdict(node("n1"), claim(bound="v"), volume("v", nodeAffinity=local("n2"))) == AFFINITY


@pytest.mark.parametrize(
    ("terms", "fits"),
    [
        pytest.param([{"matchExpressions": [need("disk", "In", "ssd")]}], True, id="the label has the value"),
        pytest.param([{"matchExpressions": [need("disk", "In", "hdd")]}], False, id="another value"),
        pytest.param(
            [{"matchExpressions": [need("disk", "In", "hdd")]}, {"matchExpressions": [need("disk", "Exists")]}],
            True,
            id="terms are ORed",
        ),
        pytest.param(
            [{"matchExpressions": [need("disk", "In", "ssd"), need("gone", "Exists")]}],
            False,
            id="expressions are ANDed",
        ),
        pytest.param([{"matchExpressions": [need("disk", "NotIn", "hdd")]}], True, id="not another value"),
        pytest.param([{}], False, id="an empty term matches nothing"),
        pytest.param([], False, id="no term matches nothing"),
        pytest.param([{"matchFields": [need("metadata.name", "In", "n1")]}], False, id="names of nodes are not seen"),
        pytest.param([{"matchFields": [need("metadata.name", "NotIn", "n1")]}], True, id="so all nodes are others"),
        pytest.param(
            [{"matchFields": [need("metadata.name", "NotIn", "n1")], "matchExpressions": [need("disk", "Exists")]}],
            True,
            id="fields and expressions are ANDed",
        ),
    ],
)
def test_node_affinity_of_a_volume(terms: list[Data], fits: bool) -> None:
    affinity = {"required": {"nodeSelectorTerms": terms}}
    found = verdict(node("n1", labels={"disk": "ssd"}), claim(bound="v"), volume("v", nodeAffinity=affinity))
    assert found == ("n1" if fits else AFFINITY)


def test_affinity_that_many_nodes_meet_is_judged_as_that_of_few() -> None:
    nodes = [node(f"n{i}", labels={"zone": "ab"[i % 2], "even": str(i % 2 == 0)}) for i in range(200)]
    narrow = {"matchExpressions": [need("zone", "In", "b"), need("even", "In", "False"), need("gone", "DoesNotExist")]}
    affinity = {"required": {"nodeSelectorTerms": [narrow]}}
    assert verdict(nodes, claim(bound="v"), volume("v", nodeAffinity=affinity)) == "n1"


def test_a_claim_counts_as_bound_by_its_phase_too() -> None:
    unmarked = claim(phase="Bound", volumeName="v")
    assert verdict(node("n1"), unmarked, volume("v", keep="data", phase="Bound")) == "n1"


def test_a_volume_that_does_not_exist_is_named() -> None:
    assert verdict(node("n1"), claim(bound="v")) == 'persistentvolume "v" not found'


def test_without_the_zone_filter_every_node_lacks_the_volume() -> None:
    off = conf("allocate", ["gang"], [plugin("predicates", {"predicate.VolumeZoneEnable": False})])
    missing = "node(s) unavailable due to one or more pvc(s) bound to non-existent pv(s)"
    assert verdict(node("n1"), claim(bound="v"), conf=off) == missing


def test_all_claims_of_a_pod_have_to_be_reached() -> None:
    nodes = [node("n1"), node("n2"), node("n3")]
    volumes = [volume("v", nodeAffinity=on(HOSTNAME, "n1", "n2")), volume("w", nodeAffinity=on(HOSTNAME, "n2", "n3"))]
    claims = [claim("a", bound="v"), claim("b", bound="w")]
    assert binds(plan_of(nodes, volumes, claims, group(), user("p", "a", "b"))) == {"p": "n2"}


# --- claims that are not ready


@pytest.mark.parametrize(
    ("objects", "message"),
    [
        pytest.param([], 'persistentvolumeclaim "data" not found', id="there is no claim"),
        pytest.param(
            [claim(bound="v", deleting=True), volume("v")],
            'persistentvolumeclaim "data" is being deleted',
            id="deleted",
        ),
        pytest.param(
            [claim(bound="v", phase="Lost"), volume("w")],
            'persistentvolumeclaim "data" bound to non-existent persistentvolume "v"',
            id="its volume is lost",
        ),
        pytest.param([claim(), storage_class(mode="Immediate"), volume("v")], UNBOUND, id="bound at once, but not yet"),
        pytest.param([claim(of=None), volume("v")], UNBOUND, id="no class"),
        pytest.param([claim(of="gone"), volume("v")], UNBOUND, id="a class that does not exist"),
        pytest.param([claim(volumeName="v"), storage_class(), volume("v")], UNBOUND, id="its owner chose a volume"),
    ],
)
def test_a_pod_waits_for_a_claim_that_is_not_ready(objects: list[Object], message: str) -> None:
    plan = plan_of(group(), user("p", "data"), node("n1"), *objects)
    assert (codes(plan), pending(plan)["p"].message) == ({"p": "VolumesNotReady"}, message)


@pytest.mark.parametrize(
    ("claims", "expected"),
    [
        pytest.param(
            [],
            'waiting for ephemeral volume controller to create the persistentvolumeclaim "p-scratch"',
            id="its claim is not there yet",
        ),
        pytest.param([claim("p-scratch", bound="v", owner="p")], "n1", id="its claim is named after pod and volume"),
        pytest.param(
            [claim("p-scratch", bound="v", owner="q")],
            "PVC ns/p-scratch was not created for pod ns/p (pod is not owner)",
            id="the claim of another pod",
        ),
    ],
)
def test_an_ephemeral_volume(claims: list[Object], expected: str) -> None:
    plan = plan_of(node("n1"), group(), ephemeral("p"), volume("v"), claims)
    assert (binds(plan).get("p") or pending(plan)["p"].message) == expected


@pytest.mark.parametrize(
    ("objects", "message"),
    [
        pytest.param([], 'persistentvolumeclaim "data" not found', id="there is no claim"),
        pytest.param([claim(of=None)], "PersistentVolumeClaim had no pv name and storageClass name", id="no class"),
        pytest.param([claim()], 'storageclass.storage.k8s.io "slow" not found', id="no such class"),
        pytest.param([claim(), storage_class(mode="Immediate")], "PersistentVolume had no name", id="not bound yet"),
        pytest.param([claim(), storage_class()], "n1", id="waits for its consumer"),
        pytest.param([claim(bound="v"), volume("v", nodeAffinity=local("n2"))], "n1", id="affinity is not looked at"),
    ],
)
def test_zones_alone_ask_for_less(objects: list[Object], message: str) -> None:
    off = conf("allocate", ["gang"], [plugin("predicates", {"predicate.VolumeBindingEnable": False})])
    assert verdict(node("n1"), *objects, conf=off) == message


def test_all_filters_can_be_switched_off() -> None:
    names = ("VolumeBinding", "VolumeZone", "NodeVolumeLimits")
    off = plugin("predicates", {f"predicate.{name}Enable": False for name in names})
    assert verdict(node("n1"), conf=conf("allocate", ["gang"], [off])) == "n1"


# --- zones


@pytest.mark.parametrize(
    ("of_volume", "of_node", "fits"),
    [
        pytest.param({ZONE: "a"}, {ZONE: "a"}, True, id="the same zone"),
        pytest.param({ZONE: "a"}, {ZONE: "b"}, False, id="another zone"),
        pytest.param({ZONE: "a__b"}, {ZONE: "b"}, True, id="one of several zones"),
        pytest.param({ZONE: "a__ b"}, {ZONE: "b"}, True, id="blanks around a zone do not count"),
        pytest.param({ZONE: "a__"}, {ZONE: "b"}, True, id="a label with an empty part says nothing"),
        pytest.param({ZONE: "a"}, {}, True, id="a node that is in no zone takes all"),
        pytest.param({ZONE: "a"}, {REGION: "r"}, False, id="a node that has only a region lacks the zone"),
        pytest.param({}, {ZONE: "b"}, True, id="a volume without zones"),
        pytest.param({ZONE: "a", REGION: "r"}, {ZONE: "a", REGION: "s"}, False, id="zone and region both count"),
        pytest.param({BETA_ZONE: "a"}, {ZONE: "a"}, True, id="the old label of the volume, the new one of the node"),
        pytest.param({BETA_ZONE: "a"}, {BETA_ZONE: "b", ZONE: "a"}, False, id="the same label goes first"),
        pytest.param({ZONE: "a"}, {BETA_ZONE: "a"}, False, id="the new label is not replaced by the old one"),
    ],
)
def test_zones_of_volumes(of_volume: dict[str, str], of_node: dict[str, str], fits: bool) -> None:
    found = verdict(node("n1", labels=of_node), claim(bound="v"), volume("v", labels=of_volume))
    assert found == ("n1" if fits else NO_ZONE)


def test_zones_can_be_switched_off() -> None:
    off = conf("allocate", ["gang"], [plugin("predicates", {"predicate.VolumeZoneEnable": False})])
    there = [claim(bound="v"), volume("v", labels={ZONE: "a"})]
    assert verdict(node("n1", labels={ZONE: "b"}), there, conf=off) == "n1"


# --- claims that wait for a consumer


@pytest.mark.parametrize(
    ("wants", "offers", "fits"),
    [
        pytest.param({}, {}, True, id="all alike"),
        pytest.param({"size": "2Gi"}, {"size": "1Gi"}, False, id="too small"),
        pytest.param({"size": "1Gi"}, {"size": "8Ei"}, True, id="larger, however large"),
        pytest.param({"size": None}, {"size": None}, True, id="no size"),
        pytest.param({"modes": ["ReadWriteMany"]}, {}, False, id="an access mode that it lacks"),
        pytest.param({}, {"modes": ["ReadWriteMany", "ReadWriteOnce"]}, True, id="more access modes"),
        pytest.param({"modes": []}, {}, True, id="no access mode"),
        pytest.param({"volumeMode": "Block"}, {}, False, id="a block device"),
        pytest.param({"volumeMode": "Block"}, {"volumeMode": "Block"}, True, id="both block devices"),
        pytest.param({"volumeMode": "Filesystem"}, {}, True, id="a file system is what is meant without a mode"),
        pytest.param({}, {"of": "fast"}, False, id="another class"),
        pytest.param({"selector": labels_of({"tier": "x"})}, {"labels": {"tier": "x"}}, True, id="selected"),
        pytest.param({"selector": labels_of({"tier": "x"})}, {}, False, id="not selected"),
        pytest.param({"selector": {}}, {}, True, id="the empty selector selects all"),
        pytest.param({}, {"phase": "Released"}, False, id="released, not available"),
        pytest.param({}, {"phase": None}, True, id="no phase"),
        pytest.param({}, {"deleting": True}, False, id="being deleted"),
        pytest.param({}, {"nodeAffinity": local("n1")}, True, id="on this node"),
        pytest.param({}, {"nodeAffinity": local("n2")}, False, id="on another node"),
        pytest.param({}, {"keep": "other"}, False, id="kept for another claim"),
        pytest.param({}, {"keep": "data"}, True, id="kept for this claim"),
        pytest.param(
            {"selector": labels_of({"tier": "x"}), "modes": ["ReadWriteMany"]},
            {"keep": "data", "phase": "Pending"},
            True,
            id="kept for this claim, and nothing but size and mode counts",
        ),
        pytest.param({"size": "2Gi"}, {"keep": "data"}, False, id="kept for this claim, but too small"),
        pytest.param({}, {"keep": "data", "nodeAffinity": local("n2")}, False, id="kept for this claim elsewhere"),
        pytest.param(
            {"uid": "new"},
            {"keep": {"namespace": NAMESPACE, "name": "data", "uid": "old"}},
            False,
            id="kept for an earlier claim of that name",
        ),
        pytest.param(
            {}, {"keep": {"namespace": "elsewhere", "name": "data"}}, False, id="kept for a claim of another namespace"
        ),
    ],
)
def test_an_unbound_claim_gets_a_volume_that_will_do(wants: Data, offers: Data, fits: bool) -> None:
    found = verdict(node("n1"), storage_class(), claim(**wants), volume("v", **offers))
    assert found == ("n1" if fits else NO_VOLUME)


def test_the_class_of_the_old_annotation_goes_first() -> None:
    annotated = {"volume.beta.kubernetes.io/storage-class": "slow"}
    assert verdict(node("n1"), storage_class(), claim(of="gone", annotations=annotated), volume("v")) == "n1"


def test_the_smallest_volume_that_will_do_is_taken_and_of_equals_the_first_by_name() -> None:
    volumes = [volume("a", "4Gi"), volume("v10", "2Gi"), volume("v2", "2Gi"), volume("b", "1Gi")]
    found = holds_after(node("n1"), storage_class(), claim(size="2Gi"), volumes, group(), user("p", "data"))
    assert found == {"data": "v2"}


def test_a_volume_that_is_kept_for_the_claim_goes_first() -> None:
    volumes = [volume("small", "1Gi"), volume("kept", "4Gi", keep="data")]
    assert holds_after(node("n1"), storage_class(), claim(), volumes, group(), user("p", "data")) == {"data": "kept"}


def test_a_volume_that_a_claim_names_is_not_given_to_others() -> None:
    named = [claim("other", bound="v"), volume("v")]
    assert verdict(node("n1"), storage_class(), claim(), named) == NO_VOLUME


def test_each_claim_of_a_pod_gets_its_own_volume_the_smallest_claim_first() -> None:
    claims = [claim("big", "3Gi"), claim("small", "1Gi"), claim("middle", "2Gi")]
    volumes = [volume("v1", "2Gi"), volume("v2", "3Gi"), volume("v3", "4Gi")]
    objects: list[Objects] = [node("n1"), storage_class(), claims, group(), user("p", "big", "small", "middle")]
    assert holds_after(*objects, volumes) == {"small": "v1", "middle": "v2", "big": "v3"}
    assert pending(plan_of(*objects, volumes[:2]))["p"].message == f"0/1 nodes are unavailable: 1 {NO_VOLUME}."


def test_a_claim_that_is_mounted_twice_is_one_claim() -> None:
    assert binds(plan_of(node("n1"), storage_class(), claim(), volume("v"), group(), user("p", "data", "data")))


def test_a_pod_goes_where_there_are_volumes() -> None:
    nodes = [node("n1"), node("n2"), node("n3")]
    volumes = [volume("v", nodeAffinity=local("n3")), volume("w", nodeAffinity=local("n2"), of="fast")]
    assert verdict(nodes, storage_class(), claim(), volumes) == "n3"


def test_pods_take_the_local_volumes_one_after_the_other() -> None:
    nodes = [node(f"n{i}") for i in range(1, 4)]
    volumes = [volume(f"v{i}", nodeAffinity=local(f"n{i}")) for i in (1, 2, 3)]
    claims = [claim(f"c{i}") for i in range(4)]
    pods = [user(f"p{i}", f"c{i}", created=i) for i in range(4)]
    plan = plan_of(nodes, volumes, claims, storage_class(), group(minimum=1), pods)
    assert binds(plan) == {"p0": "n1", "p1": "n2", "p2": "n3"}
    assert pending(plan)["p3"].message == f"0/3 nodes are unavailable: 3 {NO_VOLUME}."


def test_volumes_of_a_zone_are_for_all_its_nodes() -> None:
    nodes = [node(f"n{i}", cpu=1, labels={ZONE: "ab"[i % 2]}) for i in range(140)]
    volumes = [volume(f"v{i}", nodeAffinity=on(ZONE, "b")) for i in range(2)]
    claims = [claim(f"c{i}") for i in range(3)]
    pods = [user(f"p{i}", f"c{i}", created=i) for i in range(3)]
    plan = plan_of(nodes, volumes, claims, storage_class(), group(minimum=1), pods)
    assert binds(plan) == {"p0": "n1", "p1": "n3"}


def test_running_pods_keep_what_their_claims_would_get() -> None:
    running = user("r", "first", node="n1")
    claims = [claim("first"), claim("data")]
    assert verdict(node("n1"), storage_class(), claims, volume("v"), running) == NO_VOLUME
    assert verdict(node("n1"), storage_class(), claims, volume("v"), volume("w"), running) == "n1"


# --- claims that are shared


def test_pods_with_the_same_claim_follow_each_other() -> None:
    nodes = [node("n1", cpu=1, labels={"z": "a"}), node("n2", cpu=9, labels={"z": "b"}), node("n3", labels={"z": "a"})]
    volumes = [volume("v", nodeAffinity=on("z", "a")), volume("w", "2Gi", nodeAffinity=on("z", "b"))]
    pods = [user(f"p{i}", "data", created=i) for i in range(2)]
    objects: list[Objects] = [nodes, volumes, claim(), storage_class(), group(minimum=2), pods]
    assert binds(plan_of(*objects)) == {"p0": "n1", "p1": "n3"}
    assert holds_after(*objects) == {"data": "v"}


def test_pods_with_the_same_claim_follow_each_other_to_the_node_that_a_volume_is_made_for() -> None:
    pods = [user(f"p{i}", "data", created=i) for i in range(3)]
    objects: list[Objects] = [
        node("n1", cpu=2),
        node("n2"),
        claim(),
        storage_class(provisioner="csi"),
        group(minimum=1),
        pods,
    ]
    plan = plan_of(*objects)
    assert binds(plan) == {"p0": "n1", "p1": "n1"}
    assert pending(plan)["p2"].message == f"0/2 nodes are unavailable: 1 Insufficient cpu, 1 {NO_VOLUME}."
    assert holds_after(*objects) == {"data": "(n1)"}


def test_a_claim_for_one_pod_is_for_one_pod() -> None:
    single = claim(bound="v", modes=["ReadWriteOncePod"])
    assert verdict(node("n1"), single, volume("v"), user("r", "data", node="n1")) == IN_USE
    assert verdict(node("n1"), single, volume("v"), user("r", "data", node="n1", phase="Succeeded")) == "n1"
    pods = [user(f"p{i}", "data", created=i) for i in range(2)]
    plan = plan_of(node("n1"), node("n2"), single, volume("v"), group(minimum=1), pods)
    assert binds(plan) == {"p0": "n1"}
    assert pending(plan)["p1"].message == f"0/2 nodes are unavailable: 2 {IN_USE}."


def test_a_claim_for_many_pods_is_for_many_pods() -> None:
    assert verdict(node("n1"), claim(bound="v"), volume("v"), user("r", "data", node="n1")) == "n1"


# --- volumes that are made on demand


@pytest.mark.parametrize(
    ("of", "fits"),
    [
        pytest.param({"provisioner": "csi"}, True, id="anywhere"),
        pytest.param({"provisioner": "kubernetes.io/no-provisioner"}, False, id="nowhere"),
        pytest.param({"allowedTopologies": topologies({ZONE: ["a", "b"]})}, True, id="in this zone"),
        pytest.param({"allowedTopologies": topologies({ZONE: ["b"]})}, False, id="in another zone"),
        pytest.param({"allowedTopologies": topologies({ZONE: ["b"]}, {ZONE: ["a"]})}, True, id="terms are ORed"),
        pytest.param({"allowedTopologies": topologies({ZONE: ["a"], "x": ["y"]})}, False, id="labels are ANDed"),
        pytest.param({"allowedTopologies": topologies({})}, False, id="an empty term matches nothing"),
        pytest.param({"allowedTopologies": []}, True, id="no terms match everything"),
    ],
)
def test_a_volume_is_made_where_the_class_allows(of: Data, fits: bool) -> None:
    found = verdict(node("n1", labels={ZONE: "a"}), claim(), storage_class(**{"provisioner": "csi", **of}))
    assert found == ("n1" if fits else NO_VOLUME)


def test_a_volume_that_there_is_goes_before_one_that_is_made() -> None:
    objects = [node("n1"), storage_class(provisioner="csi"), group(minimum=1)]
    claims = [claim("a"), claim("b")]
    pods = [user("p", "a", created=1), user("q", "b", created=2)]
    assert holds_after(*objects, claims, pods, volume("v")) == {"a": "v", "b": "(n1)"}


def test_a_node_that_was_selected_for_a_claim_is_the_only_one() -> None:
    nodes = [node("n1"), node("n2")]
    selected = claim(annotations={"volume.kubernetes.io/selected-node": "n2"})
    assert verdict(nodes, selected, storage_class(provisioner="csi"), volume("v", nodeAffinity=local("n1"))) == "n2"
    assert verdict(nodes[0], selected, storage_class(provisioner="csi")) == NO_VOLUME


def test_a_selected_node_does_not_help_where_no_volume_can_be_made() -> None:
    selected = claim(annotations={"volume.kubernetes.io/selected-node": "n1"})
    assert verdict(node("n1"), selected, storage_class(), volume("v")) == NO_VOLUME
    elsewhere = storage_class(provisioner="csi", allowedTopologies=topologies({ZONE: ["b"]}))
    assert verdict(node("n1", labels={ZONE: "a"}), selected, elsewhere) == NO_VOLUME


@pytest.mark.parametrize(
    ("capacities", "expected"),
    [
        pytest.param([room("r", "slow", "10Gi", labels_of({ZONE: "a"}))], "n1", id="room"),
        pytest.param([], NO_SPACE, id="no word of any room"),
        pytest.param([room("r", "slow", "10Gi", labels_of({ZONE: "b"}))], NO_SPACE, id="room elsewhere"),
        pytest.param([room("r", "slow", "10Gi")], NO_SPACE, id="room for no node"),
        pytest.param([room("r", "fast", "10Gi", {})], NO_SPACE, id="room for another class"),
        pytest.param([room("r", "slow", "1Gi", {})], NO_SPACE, id="too little room"),
        pytest.param([room("r", "slow", None, {})], NO_SPACE, id="room without a size"),
        pytest.param(
            [room("r", "slow", "10Gi", {}, most="1Gi")], NO_SPACE, id="a volume can be no larger than the most"
        ),
        pytest.param([room("r", "slow", "1Gi", {}, most="2Gi")], "n1", id="the most is what counts"),
    ],
)
def test_a_driver_that_tells_its_room_needs_room(capacities: list[Object], expected: str) -> None:
    objects: list[Objects] = [
        node("n1", labels={ZONE: "a"}),
        claim(size="2Gi"),
        storage_class(provisioner="csi"),
        capacities,
    ]
    assert verdict(*objects, tracking("csi")) == expected
    assert verdict(*objects) == "n1"


# --- limits


def test_a_node_takes_so_many_volumes_of_a_driver() -> None:
    claims = [claim(f"c{i}", bound=f"v{i}") for i in range(4)]
    volumes = [volume(f"v{i}", driver="csi") for i in range(4)]
    pods = [user(f"p{i}", f"c{i}", created=i) for i in range(4)]
    nodes = [node("n1"), node("n2"), csi_node("n1", csi=2), csi_node("n2", csi=1)]
    plan = plan_of(nodes, claims, volumes, group(minimum=1), pods)
    assert binds(plan) == {"p0": "n1", "p1": "n1", "p2": "n2"}
    assert pending(plan)["p3"].message == f"0/2 nodes are unavailable: 2 {FULL}."


@pytest.mark.parametrize(
    ("objects", "expected"),
    [
        pytest.param([csi_node("n1", csi=1)], "n1", id="room for one"),
        pytest.param([csi_node("n1", csi=0)], FULL, id="room for none"),
        pytest.param([csi_node("n1", other=0)], "n1", id="a limit of another driver"),
        pytest.param([csi_node("n1", csi=None)], "n1", id="no limit"),
        pytest.param([csi_node("n2", csi=0)], "n1", id="a limit of another node"),
        pytest.param(
            [csi_node("n1", csi=1), claim("c", bound="w"), volume("w", driver="csi"), user("r", "c", node="n1")],
            FULL,
            id="another volume is there",
        ),
        pytest.param([csi_node("n1", csi=1), user("r", "data", node="n1")], "n1", id="the same volume is there"),
        pytest.param(
            [csi_node("n1", csi=1), user("r", "data", node="n1"), user("s", "data", node="n1")],
            "n1",
            id="the same volume is there twice",
        ),
        pytest.param(
            [csi_node("n1", csi=1), volume("w", driver="csi"), attached("w", "n1", "csi")],
            FULL,
            id="another volume is attached",
        ),
        pytest.param([csi_node("n1", csi=1), attached("v", "n1", "csi")], "n1", id="the same volume is attached"),
        pytest.param([csi_node("n1", csi=1), attached("gone", "n1", "csi")], "n1", id="an unknown volume is attached"),
        pytest.param(
            [csi_node("n1", csi=1), claim("c", of="made"), storage_class("made", "csi"), user("r", "c", node="n1")],
            FULL,
            id="a claim that is not bound yet counts for its class",
        ),
        pytest.param(
            [csi_node("n1", csi=1), claim("c", bound="w"), volume("w"), user("r", "c", node="n1")],
            "n1",
            id="a volume of another sort does not count",
        ),
        pytest.param([csi_node("n1", csi=1), user("r", "lost", node="n1")], "n1", id="an unknown claim does not count"),
    ],
)
def test_volumes_of_a_driver(objects: list[Object], expected: str) -> None:
    assert verdict(node("n1"), claim(bound="v"), volume("v", driver="csi"), *objects) == expected


def test_claims_of_one_pod_count_together() -> None:
    claims = [claim("a", bound="v"), claim("b", bound="w"), claim("c", bound="x")]
    volumes = [volume("v", driver="csi"), volume("w", driver="csi"), volume("x", driver="nfs")]
    objects: list[Objects] = [node("n1"), claims, volumes, group(), user("p", "a", "b", "c")]
    assert binds(plan_of(*objects, csi_node("n1", csi=2, nfs=1))) == {"p": "n1"}
    assert (
        pending(plan_of(*objects, csi_node("n1", csi=1, nfs=1)))["p"].message == f"0/1 nodes are unavailable: 1 {FULL}."
    )
    assert (
        pending(plan_of(*objects, csi_node("n1", csi=2, nfs=0)))["p"].message == f"0/1 nodes are unavailable: 1 {FULL}."
    )


ATTACHED = [node("n1"), csi_node("n1", csi=1), volume("v", driver="csi"), volume("w", driver="csi")]
ATTACHED += [claim(bound="v"), claim("c", bound="w"), attached("w", "n1", "csi")]


@pytest.mark.parametrize(
    ("user_of_w", "expected"),
    [
        pytest.param([user("r", "c", node="n1", deleting=True)], {"p": "n1"}, id="its pod terminates"),
        pytest.param([], {"p": "n1"}, id="its pod is gone"),
        pytest.param([user("r", "c", node="n1")], {}, id="its pod runs"),
    ],
)
def test_a_pod_keeps_its_promise_until_the_volume_of_its_victim_is_detached(
    user_of_w: list[Object], expected: dict[str, str]
) -> None:
    plan = plan_of(ATTACHED, group(), user("p", "data", nominated="n1"), user_of_w)
    assert binds(plan) == {}
    assert nominations(plan) == expected


def test_a_volume_that_only_a_victim_uses_is_room_for_the_pod_that_preempts_it() -> None:
    classes = [priority_class("low", 1), priority_class("high", 9)]
    low = [group("low", minimum=0, priority="low"), user("r", "c", group="low", node="n1", priority=1)]
    high = [group("high", priority="high"), user("p", "data", group="high", priority=9)]
    preempting = conf("allocate, preempt", ["priority", "gang"], ["predicates"])
    plan = plan_of(ATTACHED, classes, low, high, conf=preempting)
    assert [each.pod for each in plan.evictions] == ["ns/r"]


def test_limits_can_be_switched_off() -> None:
    off = conf("allocate", ["gang"], [plugin("predicates", {"predicate.NodeVolumeLimitsEnable": False})])
    objects = [node("n1"), claim(bound="v"), volume("v", driver="csi"), csi_node("n1", csi=0)]
    assert verdict(*objects, conf=off) == "n1"


# --- gangs, and taking back


def test_a_gang_that_competes_for_one_volume_gets_none_and_the_volume_is_free_again() -> None:
    gang = [group("a", minimum=2, created=1), user("a-0", "a0", group="a"), user("a-1", "a1", group="a")]
    later = [group("b", created=2), user("b-0", "b0", group="b")]
    claims = [claim(name) for name in ("a0", "a1", "b0")]
    plan = plan_of(node("n1"), storage_class(), claims, volume("v"), gang, later)
    assert binds(plan) == {"b-0": "n1"}
    assert pending(plan)["a-1"].message == f"0/1 nodes are unavailable: 1 {NO_VOLUME}."
    assert codes(plan)["a-0"] == "GangWaiting"


def test_statements_undo_what_is_held() -> None:
    claims = [claim("a"), claim("b", "2Gi"), claim("c")]
    volumes = [volume("v"), volume("w", "2Gi"), volume("x", "3Gi")]
    pods = [user("p", "a", "b"), user("q", "a"), user("r", "c")]

    def act(session: Session) -> None:
        tasks = session.state.tasks
        statement = session.statement()
        seen = [held(session)]
        for name in ("p", "q", "r"):
            (statement.pipeline if name == "q" else statement.allocate)(tasks[f"{NAMESPACE}/{name}"], 0)
            seen.append(held(session))
        assert seen[1:] == [{"a": "v", "b": "w"}, {"a": "v", "b": "w"}, {"a": "v", "b": "w", "c": "x"}]
        for checkpoint in (2, 1, 0):
            statement.roll_back(checkpoint)
            assert held(session) == seen[checkpoint]

    inside(node("n1"), storage_class(), claims, volumes, group(), pods, do=act, conf=conf("", ["gang"], ["predicates"]))


def test_an_eviction_that_is_taken_back_gives_the_same_volume() -> None:
    claims = [claim("a"), claim("b")]

    def act(session: Session) -> None:
        p, q = (session.state.tasks[f"{NAMESPACE}/{name}"] for name in "pq")
        first, second = session.statement(), session.statement()
        first.allocate(p, 0)
        second.allocate(q, 0)
        assert held(session) == {"a": "v", "b": "w"}
        second.commit()
        first.discard()
        second.evict(q, "probe")
        assert held(session) == {}
        second.roll_back()
        assert held(session) == {"b": "w"}

    volumes = [volume("v"), volume("w", "2Gi")]
    pods = [user("p", "a"), user("q", "b")]
    inside(node("n1"), storage_class(), claims, volumes, group(), pods, do=act, conf=conf("", ["gang"], ["predicates"]))


def test_evicting_the_user_of_a_private_claim_makes_it_free() -> None:
    def act(session: Session) -> None:
        task, running = (session.state.tasks[f"{NAMESPACE}/{name}"] for name in "pr")
        assert session.evaluation(task).choose() is None
        statement = session.statement()
        statement.evict(running, "probe")
        assert session.evaluation(task).choose() is not None
        statement.discard()
        assert session.evaluation(task).choose() is None

    single = claim(bound="v", modes=["ReadWriteOncePod"])
    pods = [user("p", "data"), user("r", "data", node="n1")]
    inside(node("n1"), single, volume("v"), group(), pods, do=act, conf=conf("", ["gang"], ["predicates"]))


# --- who pays


def test_a_cluster_where_no_waiting_pod_has_claims_registers_nothing() -> None:
    def registered(session: Session) -> int:
        return len(session.points.predicates()) + len(session.points.on_allocate)

    plain = [node("n1"), csi_node("n1", csi=1), group(), pod("p")]
    running = [claim(bound="v"), volume("v", driver="csi"), user("r", "data", node="n1")]
    usual = inside(node("n1"), group(), pod("p"), do=registered, conf=FILTERS)
    assert inside(*plain, *running, do=registered, conf=FILTERS) == usual
    assert inside(*plain, *running, user("q", "data"), do=registered, conf=FILTERS) > usual


def test_pods_with_different_claims_are_not_of_one_shape() -> None:
    def shapes(session: Session) -> int:
        return len({id(session.shape_of(task)) for task in session.state.tasks.values()})

    pods = [user("p", "a"), user("q", "b"), user("r", "a"), pod("s")]
    assert inside(group(), pods, do=shapes) == 3
    elsewhere = pod("t", namespace="other", volumes=mounts("a"))
    assert inside(group(), pods, elsewhere, do=shapes) == 4


def test_objects_may_come_and_go_in_any_order() -> None:
    objects = [storage_class(), claim(), volume("v"), node("n1"), group(), user("p", "data")]
    for turned in (objects, objects[::-1]):
        assert binds(plan_in(state_of(*turned), FILTERS)) == {"p": "n1"}


def test_objects_that_are_gone_are_forgotten_and_broken_ones_are_named() -> None:
    state = state_of(storage_class(), claim(), volume("v"), node("n1"), group(), user("p", "data"))
    state.apply(Gone("PersistentVolume", "v"))
    assert pending(plan_in(state, FILTERS))["p"].message == f"0/1 nodes are unavailable: 1 {NO_VOLUME}."
    state.apply(Changed(volume("v", "much")))
    assert [(p.kind, p.key) for p in state.problems.values()] == [("PersistentVolume", "v")]
    state.apply(Relisted("PersistentVolume", [volume("w")]))
    assert (list(state.problems), binds(plan_in(state, FILTERS))) == ([], {"p": "n1"})
    state.apply(Relisted("PersistentVolumeClaim", []))
    assert codes(plan_in(state, FILTERS)) == {"p": "VolumesNotReady"}
