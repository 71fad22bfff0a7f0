"""What becomes of a cluster when plans are carried out and seconds pass."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from kilauea.api.dynamic import ResourceClaim
from kilauea.api.meta import Object, OwnerReference
from kilauea.api.times import SECOND, parse_time
from kilauea.engine.events import Changed, Gone
from kilauea.engine.plan import Bind, Eviction, GroupOutcome, Nomination, Plan
from kilauea.simulator.cluster import SimulatedCluster
from support.builders import (
    GROUP_NAME,
    HOSTNAME,
    NAMESPACE,
    NOW,
    PLAIN,
    at,
    group,
    node,
    plan_in,
    plan_of,
    pod,
    queue,
    state_of,
    with_queue,
)
from support.device_objects import device_class, given, slice_, special_claim
from support.volume_objects import ZONE, build, claim, storage_class, topologies, user, volume

NOTHING = Plan()
CONTROLLED = [OwnerReference("Job", "j", "j-uid", "batch.volcano.sh/v1alpha1", controller=True)]


def evicted(*names: str) -> Plan:
    return Plan(evictions=tuple(Eviction(f"ns/{name}", "n1", "ns/g", "preempt") for name in names))


def running(name: str = "p", *, controlled: bool = False, finalizers: list[str] | None = None, **more: Any) -> Object:
    made = pod(name, node="n1", uid=f"{name}-uid", **more)
    made.metadata.owner_references = CONTROLLED if controlled else None
    made.metadata.finalizers = finalizers
    return made


def there(cluster: SimulatedCluster, name: str = "p") -> Any:
    found = cluster.pod(f"ns/{name}")
    assert found is not None, f"pod {name} is not there"
    return found


def test_a_pod_that_is_bound_runs_on_its_node_from_the_next_cycle_on() -> None:
    cluster = SimulatedCluster([pod("p", nominated="n1")], NOW)
    events = cluster.carry_out(Plan(binds=(Bind("ns/p", "n1"),)))
    assert events == [Changed(there(cluster))]
    assert (there(cluster).spec.node_name, there(cluster).status.phase) == ("n1", "Running")
    assert there(cluster).status.nominated_node_name is None


def test_an_evicted_pod_without_a_grace_period_is_gone_in_the_next_cycle() -> None:
    cluster = SimulatedCluster([running()], NOW)
    assert cluster.carry_out(evicted("p"))[-1] == Gone("Pod", "ns/p")
    assert cluster.pod("ns/p") is None
    assert cluster.settled


@pytest.mark.parametrize("grace", [1, 2, 5])
def test_an_evicted_pod_holds_its_room_for_one_cycle_for_each_second_of_its_grace_period(grace: int) -> None:
    cluster = SimulatedCluster([running(terminationGracePeriodSeconds=grace)], NOW)
    cluster.carry_out(evicted("p"))
    for _ in range(grace):
        assert parse_time(there(cluster).metadata.deletion_timestamp) == NOW + grace * SECOND
        assert there(cluster).spec.node_name == "n1"
        assert not cluster.settled
        cluster.carry_out(NOTHING)
    assert cluster.pod("ns/p") is None
    assert cluster.settled


def test_a_pod_that_is_evicted_again_while_it_terminates_keeps_its_time() -> None:
    cluster = SimulatedCluster([running(terminationGracePeriodSeconds=3)], NOW)
    cluster.carry_out(evicted("p"))
    assert cluster.carry_out(evicted("p")) == []
    assert parse_time(there(cluster).metadata.deletion_timestamp) == NOW + 3 * SECOND


def test_a_pod_that_was_terminating_at_the_beginning_goes_at_its_deletion_timestamp() -> None:
    made = running()
    made.metadata.deletion_timestamp = at(2)
    cluster = SimulatedCluster([made], parse_time(at(0)))
    cluster.carry_out(NOTHING)
    cluster.carry_out(NOTHING)
    assert there(cluster)
    cluster.carry_out(NOTHING)
    assert cluster.pod("ns/p") is None


def test_a_pod_with_finalizers_never_goes_and_is_nothing_to_wait_for() -> None:
    cluster = SimulatedCluster([running(finalizers=["example.com/wait"])], NOW)
    cluster.carry_out(evicted("p"))
    for _ in range(5):
        assert cluster.carry_out(NOTHING) == []
    assert there(cluster).metadata.deletion_timestamp
    assert cluster.settled


def test_a_pod_with_a_controller_comes_back_pending_with_the_same_name_and_a_new_uid() -> None:
    cluster = SimulatedCluster([running(controlled=True, priority=7)], NOW)
    events = cluster.carry_out(evicted("p"))
    back = there(cluster)
    assert events[-2:] == [Gone("Pod", "ns/p"), Changed(back)]
    assert (back.spec.node_name, back.status.phase, back.spec.priority) == (None, "Pending", 7)
    assert back.metadata.deletion_timestamp is None
    assert back.annotations == {GROUP_NAME: "g"}
    assert parse_time(back.metadata.creation_timestamp) == NOW + SECOND


def test_every_life_of_a_pod_has_a_uid_of_its_own() -> None:
    cluster, uids = SimulatedCluster([running(controlled=True)], NOW), []
    for _ in range(3):
        uids.append(there(cluster).metadata.uid)
        cluster.carry_out(Plan(binds=(Bind("ns/p", "n1"),)))
        cluster.carry_out(evicted("p"))
    assert uids == ["p-uid", "p-uid~2", "p-uid~3"]


def test_an_owner_that_is_no_controller_brings_no_pod_back() -> None:
    made = running()
    made.metadata.owner_references = [OwnerReference("Queue", "q", "q-uid", "v1", controller=False)]
    cluster = SimulatedCluster([made], NOW)
    cluster.carry_out(evicted("p"))
    assert cluster.pod("ns/p") is None


def test_a_nomination_stands_in_the_pod_until_a_plan_leaves_it_out() -> None:
    cluster = SimulatedCluster([pod("p")], NOW)
    promised = Plan(nominations=(Nomination("ns/p", "n1"),))
    assert cluster.carry_out(promised) == [Changed(there(cluster))]
    assert there(cluster).status.nominated_node_name == "n1"
    assert cluster.carry_out(promised) == []
    cluster.carry_out(Plan(nominations=(Nomination("ns/p", "n2"),)))
    assert there(cluster).status.nominated_node_name == "n2"
    cluster.carry_out(NOTHING)
    assert there(cluster).status.nominated_node_name is None


def test_a_nomination_that_was_there_at_the_beginning_is_cleared_if_the_plan_has_none() -> None:
    cluster = SimulatedCluster([pod("p", nominated="n1")], NOW)
    cluster.carry_out(NOTHING)
    assert there(cluster).status.nominated_node_name is None


def test_a_pod_group_gets_the_phase_of_the_plan_and_keeps_the_rest_of_its_status() -> None:
    made: Any = group(phase="Pending")
    made.status = msgspec.structs.replace(made.status, running=3)
    cluster = SimulatedCluster([made], NOW)
    cluster.carry_out(Plan(groups={"ns/g": GroupOutcome("Inqueue", {})}))
    found: Any = next(obj for obj in cluster.objects if obj.kind == "PodGroup")
    assert (found.status.phase, found.status.running) == ("Inqueue", 3)


def test_objects_given_are_never_changed() -> None:
    made = [running(controlled=True, terminationGracePeriodSeconds=1), pod("q"), group()]
    before = [msgspec.json.encode(obj) for obj in made]
    cluster = SimulatedCluster(made, NOW)
    cluster.carry_out(evicted("p"))
    cluster.carry_out(Plan(binds=(Bind("ns/q", "n1"),), groups={"ns/g": GroupOutcome("Running", {})}))
    cluster.carry_out(NOTHING)
    assert [msgspec.json.encode(obj) for obj in made] == before


def test_a_simulation_continues_from_its_own_objects_as_if_it_had_not_stopped() -> None:
    objects = [running("a", controlled=True, terminationGracePeriodSeconds=2), running("b", controlled=True), pod("c")]
    steps = [evicted("a", "b"), Plan(nominations=(Nomination("ns/c", "n1"),)), NOTHING, NOTHING, evicted("b")]
    whole = SimulatedCluster(objects, NOW)
    parts = SimulatedCluster(objects, NOW)
    for step in steps:
        whole.carry_out(step)
        parts.carry_out(step)
        parts = SimulatedCluster(parts.objects, parts.now)
    assert whole.objects == parts.objects


def test_events_keep_a_state_as_the_objects_have_it() -> None:
    objects = [queue("q"), node("n1", 1), group(), running(controlled=True), pod("late", created=0)]
    cluster, state = SimulatedCluster(objects, NOW), state_of(objects)
    for step in (evicted("p"), NOTHING):
        for event in cluster.carry_out(step):
            state.apply(event)
    plan = plan_in(state, PLAIN)
    assert plan == plan_in(state_of(cluster.objects), PLAIN)
    assert [b.pod for b in plan.binds] == ["ns/late"]


# --- volume claims


def test_claims_are_bound_as_their_pod_starts_and_stay_so() -> None:
    objects = [node("n1"), group(), storage_class(), claim(uid="u"), claim("made", of="csi"), volume("v")]
    objects += [storage_class("csi", "csi.example.com"), user("p", "data", "made")]
    cluster = SimulatedCluster(objects, NOW)
    state = state_of(*cluster.objects)
    for event in cluster.carry_out(plan_in(state, PLAIN)):
        state.apply(event)
    claims = {key.partition("/")[2]: found for key, found in state.storage.claims.items()}
    assert {name: (found.volume, found.bound) for name, found in claims.items()} == {
        "data": ("v", True),
        "made": ("pvc-ns-made", True),
    }
    assert state.storage.volumes["v"].claim == ("ns/data", "u")
    state.apply(Changed(claim("other")))
    state.apply(Changed(user("q", "other")))
    assert plan_in(state, PLAIN).pending[0].message.endswith("didn't find available persistent volumes to bind.")


@pytest.mark.parametrize(
    ("keys", "allowed", "reach"),
    [
        ([], [], ["n1", "n2", "n3"]),
        ([ZONE], [], ["n1", "n2"]),
        ([ZONE, HOSTNAME], [], ["n1"]),
        (["other"], [], ["n1", "n2", "n3"]),
        ([], topologies({ZONE: ["a", "b"]}), ["n1", "n2"]),
        ([HOSTNAME], topologies({ZONE: ["a", "b"]}), ["n1"]),
    ],
)
def test_a_volume_that_is_made_is_reached_from_the_topology_of_its_node(
    keys: list[str], allowed: list[Any], reach: list[str]
) -> None:
    zones = {"n1": "a", "n2": "a", "n3": "b"}
    objects: list[Object] = [node(name, labels={HOSTNAME: name, ZONE: zone}) for name, zone in zones.items()]
    driver = {"name": "csi.example.com", "topologyKeys": keys}
    objects.append(build({"kind": "CSINode", "metadata": {"name": "n1"}, "spec": {"drivers": [driver]}}))
    objects += [group(), storage_class("csi", "csi.example.com", allowedTopologies=allowed), claim("data", of="csi")]
    cluster = SimulatedCluster([*objects, user("p", "data", nodeSelector={HOSTNAME: "n1"})], NOW)
    cluster.carry_out(plan_in(state_of(*cluster.objects), PLAIN))
    made: Any = next(obj for obj in cluster.objects if obj.kind == "PersistentVolume")
    assert made.spec.csi.driver == "csi.example.com"
    cluster.carry_out(evicted("p"))
    found = []
    for name in zones:
        late = user("late", "data", nodeSelector={HOSTNAME: name})
        found += [b.node for b in plan_in(state_of(*cluster.objects, late), PLAIN).binds if b.pod == "ns/late"]
    assert found == reach


def test_a_pod_that_comes_back_gets_new_claims_for_its_ephemeral_volumes() -> None:
    template = {"spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}}
    made = running(controlled=True, volumes=[{"name": "scratch", "ephemeral": {"volumeClaimTemplate": template}}])
    cluster = SimulatedCluster([made, claim("p-scratch", bound="v", owner="p-uid")], NOW)
    cluster.carry_out(evicted("p"))
    found = next(obj for obj in cluster.objects if obj.kind == "PersistentVolumeClaim")
    owners = [owner.uid for owner in found.metadata.owner_references or ()]
    assert (found.name, owners, found.annotations) == ("p-scratch", [there(cluster).metadata.uid], {})


# --- extended resources that devices serve


def test_a_pod_that_comes_back_gets_a_new_claim_for_its_extended_resources() -> None:
    served = device_class(extendedResourceName="example.com/gpu")
    one = pod("p", uid="p-uid", requests={"example.com/gpu": 1}, terminationGracePeriodSeconds=0)
    one.metadata.owner_references = CONTROLLED
    cluster = SimulatedCluster(with_queue([node("n1"), group(minimum=0), served, slice_("n1", "a"), one]), NOW)
    names = []
    for _ in range(2):
        plan = plan_of(cluster.objects)
        assert given(plan)
        assert plan.binds[0].node == "n1"
        cluster.carry_out(plan)
        (claim,) = (obj for obj in cluster.objects if isinstance(obj, ResourceClaim))
        assert claim.status is not None
        assert claim.status.allocation is not None
        names.append(claim.name)
        assert plan_of(cluster.objects).binds == ()
        cluster.carry_out(evicted("p"))
        assert not [obj for obj in cluster.objects if isinstance(obj, ResourceClaim)]
    assert names[0] != names[1]


def test_a_claim_for_extended_resources_that_a_plan_gives_up_is_deleted_and_made_again() -> None:
    served = device_class(extendedResourceName="example.com/gpu")
    one = pod("p", uid=f"{NAMESPACE}/p", requests={"example.com/gpu": 1})
    stale = special_claim("p", "n1/a", node="n1", count=2)
    cluster = SimulatedCluster(with_queue([node("n1"), group(), served, slice_("n1", "a", "b"), one, stale]), NOW)
    plan = plan_of(cluster.objects)
    assert (plan.binds, len(plan.released)) == ((), 1)
    cluster.carry_out(plan)
    assert not [obj for obj in cluster.objects if isinstance(obj, ResourceClaim)]
    (devices,) = given(plan_of(cluster.objects)).values()
    assert devices == ["container-0-request-0=n1/a"]
