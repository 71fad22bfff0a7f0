"""Extended resources that devices of a class serve: which pods get devices, on which nodes, and by what claim."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec
import pytest

from kilauea.api.core import Pod
from kilauea.api.meta import Object
from kilauea.engine.events import Changed, Gone
from kilauea.engine.model.claims.extended import IMPLICIT, container_asks, is_extended, special_demand, special_name
from kilauea.engine.plan import Plan
from support.builders import (
    NAMESPACE,
    Data,
    binds,
    codes,
    conf,
    gang,
    group,
    node,
    nominations,
    pending,
    plan_in,
    plan_of,
    pod,
    priority_class,
    queue,
    state_of,
)
from support.device_objects import (
    DEVICES,
    ask,
    claim,
    claiming,
    device,
    device_class,
    given,
    pods_with_own,
    slice_,
    special_claim,
)

GPU = "example.com/gpu"
CLASS = device_class(extendedResourceName=GPU)
ONE = [node("n1"), CLASS, group(minimum=1)]


def plan(*objects: Any, of: Data = DEVICES) -> Plan:
    return plan_of(*objects, conf=of)


def user(name: str, count: int = 1, resource: str = GPU, **more: Any) -> Object:
    """A pod that asks for an extended resource."""
    return pod(name, requests={resource: count}, **{"uid": f"{NAMESPACE}/{name}"} | more)


def special(name: str) -> str:
    return special_name(name, f"{NAMESPACE}/{name}")


def containers(*asked: Data, init: Sequence[Data] = ()) -> Data:
    """Containers `c0`, `c1`, ... with requests; those of init containers may name a `restartPolicy`."""

    def one(number: int, requests: Data, at: str) -> Data:
        policy = {"restartPolicy": "Always"} if requests.get("restartPolicy") else {}
        amounts = {name: amount for name, amount in requests.items() if name != "restartPolicy"}
        return {"name": f"{at}{number}", "resources": {"requests": amounts}} | policy

    return {
        "containers": [one(number, requests, "c") for number, requests in enumerate(asked)],
        "initContainers": [one(number, requests, "i") for number, requests in enumerate(init)],
    }


def asks_of(spec: Data) -> tuple[list[tuple[str, str, int]], list[tuple[int, str, str]]]:
    """The requests of the special claim of a pod, and which containers they serve."""
    found = pod("p", **spec)
    assert isinstance(found, Pod)
    content = special_demand(container_asks(found), ((GPU, "gpu"), ("example.com/nic", "nic")))
    requests = [(r.name, r.ways[0].class_name, r.ways[0].number) for r in content.demand.requests]
    return requests, [(each.container, each.resource, each.request) for each in content.served]


# --- what is claimed


def test_a_pod_gets_as_many_devices_of_the_class_as_it_asks_for() -> None:
    found = plan(ONE, slice_("n1", "a", "b", "c"), user("p", 2))
    assert binds(found) == {"p": "n1"}
    assert given(found) == {special("p"): ["container-0-request-0=n1/a", "container-0-request-0=n1/b"]}


def test_the_plan_says_what_the_claim_contains() -> None:
    (bind,) = plan(ONE, slice_("n1", "a"), user("p")).binds
    (claimed,) = bind.claims
    assert claimed.uid == ""
    assert claimed.special is not None
    exactly = {"deviceClassName": "gpu", "allocationMode": "ExactCount", "count": 1}
    requests = [{"name": "container-0-request-0", "exactly": exactly}]
    assert msgspec.to_builtins(claimed.special.spec) == {"devices": {"requests": requests}}
    assert claimed.special.served == ((0, GPU, "container-0-request-0"),)


def test_a_class_serves_the_resource_of_its_own_name() -> None:
    found = plan(node("n1"), device_class(), group(), slice_("n1", "a"), user("p", resource=f"{IMPLICIT}gpu"))
    assert given(found) == {special("p"): ["container-0-request-0=n1/a"]}


@pytest.mark.parametrize(
    ("spec", "requests", "served"),
    [
        (
            containers({"cpu": 1, GPU: 2}, {"cpu": 1}, {"example.com/nic": 1, GPU: 1}),
            [
                ("container-0-request-1", "gpu", 2),
                ("container-2-request-0", "gpu", 1),
                ("container-2-request-1", "nic", 1),
            ],
            [
                (0, GPU, "container-0-request-1"),
                (2, GPU, "container-2-request-0"),
                (2, "example.com/nic", "container-2-request-1"),
            ],
        ),
        (  # an init container uses what the container after it has
            containers({GPU: 2}, init=[{GPU: 2}]),
            [("container-1-request-0", "gpu", 2)],
            [(1, GPU, "container-1-request-0"), (0, GPU, "container-1-request-0")],
        ),
        (  # and what it asks for more, beside it; the largest of several decides
            containers({GPU: 1}, init=[{GPU: 2}, {GPU: 4}]),
            [("container-1-request-0", "gpu", 3), ("container-2-request-0", "gpu", 1)],
            [
                (2, GPU, "container-2-request-0"),
                (0, GPU, "container-2-request-0"),
                (0, GPU, "container-1-request-0"),
                (1, GPU, "container-2-request-0"),
                (1, GPU, "container-1-request-0"),
            ],
        ),
        (  # the devices of a sidecar that runs already are not for the init containers after it
            containers({}, init=[{GPU: 1, "restartPolicy": "Always"}, {GPU: 1}]),
            [("container-0-request-0", "gpu", 1), ("container-1-request-0", "gpu", 1)],
            [(0, GPU, "container-0-request-0"), (1, GPU, "container-1-request-0")],
        ),
        (containers({GPU: 0}), [], []),
    ],
)
def test_requests_of_containers_become_requests_of_the_claim(
    spec: Data, requests: list[tuple[str, str, int]], served: list[tuple[int, str, str]]
) -> None:
    assert asks_of(spec) == (requests, served)


def test_the_name_of_the_claim_follows_from_the_pod_and_is_not_too_long() -> None:
    assert special_name("p", "u").startswith("p-extended-resources-")
    assert special_name("p", "u") == special_name("p", "u") != special_name("p", "v")
    assert len(special_name("p" * 200, "u")) <= 63
    assert ".-" not in special_name("a" * 56 + "." + "b" * 9, "u")


# --- nodes that offer the resource themselves


def test_a_node_that_offers_the_resource_needs_no_devices() -> None:
    offering = node("n1", resources={GPU: 1})
    found = plan(offering, CLASS, group(minimum=1), user("p"))
    assert binds(found) == {"p": "n1"}
    assert found.binds[0].claims == ()


def test_devices_serve_only_nodes_that_do_not_offer_the_resource() -> None:
    """The node's own two are taken; that it has devices of the class, too, does not count."""
    offering = node("n1", resources={GPU: 2})
    found = plan(offering, node("n2"), CLASS, slice_("n1", "a"), slice_("n2", "b"), gang("g", 3, requests={GPU: 1}))
    nodes = sorted(binds(found).values())
    assert nodes == ["n1", "n1", "n2"]
    assert [each[0].partition("=")[2] for each in given(found).values()] == ["n2/b"]


@pytest.mark.parametrize(("offering", "other"), [("n1", "n2"), ("n2", "n1")])
def test_a_gang_may_use_both_kinds_of_nodes(offering: str, other: str) -> None:
    nodes = [node(offering, resources={GPU: 1}), node(other)]
    found = plan(nodes, CLASS, slice_(other, "a"), gang("g", 2, requests={GPU: 1}))
    assert sorted(binds(found).values()) == ["n1", "n2"]
    assert [each[0].partition("=")[2] for each in given(found).values()] == [f"{other}/a"]


def test_one_pod_may_get_one_resource_from_the_node_and_another_from_devices() -> None:
    nodes = [node("n1", resources={"example.com/nic": 1})]
    classes = [CLASS, device_class("nic", 'device.driver == "nic"', extendedResourceName="example.com/nic")]
    found = plan(nodes, classes, group(), slice_("n1", "a"), pod("p", requests={GPU: 1, "example.com/nic": 1}))
    assert list(given(found).values()) == [["container-0-request-0=n1/a"]]


def test_a_node_that_stops_to_offer_the_resource_serves_it_by_devices_then() -> None:
    state = state_of(node("n1", resources={GPU: 1}), CLASS, group(), slice_("n1", "a"), user("p"))
    assert plan_in(state, DEVICES).binds[0].claims == ()
    state.apply(Changed(node("n1")))
    assert list(given(plan_in(state, DEVICES)).values()) == [["container-0-request-0=n1/a"]]
    state.apply(Changed(node("n1", resources={GPU: 1})))
    assert plan_in(state, DEVICES).binds[0].claims == ()


def test_a_resource_that_no_class_serves_is_as_before() -> None:
    found = plan(node("n1"), device_class(), group(), slice_("n1", "a"), user("p"))
    assert pending(found)["p"].message.startswith(f"0/1 nodes are unavailable: 1 Insufficient {GPU}.")


# --- who waits, and why


def test_pods_get_no_more_devices_than_there_are() -> None:
    found = plan(ONE, slice_("n1", "a", "b"), [user(f"p-{i}") for i in range(3)])
    assert len(binds(found)) == 2
    assert len({each for devices in given(found).values() for each in devices}) == 2
    (reason,) = pending(found).values()
    assert f"Insufficient {GPU}" in reason.message


def test_devices_that_claims_have_are_not_served() -> None:
    held = [claim("c", held=["n1/a"], node="n1", by=["x"]), claiming("x", "c", node="n1", group="")]
    found = plan(ONE, slice_("n1", "a"), held, user("p"))
    assert pending(found)["p"].message.startswith("0/1 nodes are unavailable: 1 cannot allocate all claims")


def test_pods_by_resource_and_by_claim_share_the_devices_of_a_cycle() -> None:
    found = plan(ONE, slice_("n1", "a", "b"), user("p"), pods_with_own("q"))
    devices = [each.partition("=")[2] for held in given(found).values() for each in held]
    assert sorted(devices) == ["n1/a", "n1/b"]


def test_a_gang_is_bound_whole_or_not_at_all() -> None:
    objects = [node("n1"), CLASS, slice_("n1", "a", "b", "c")]
    assert binds(plan(objects, gang("g", 4, requests={GPU: 1}))) == {}
    assert len(binds(plan(objects, gang("g", 3, requests={GPU: 1})))) == 3


@pytest.mark.parametrize(
    ("expression", "count", "reason"),
    [("1 +", 1, "a selector of it or of device class gpu cannot be used"), ("true", 40, "count 40 is more than")],
)
def test_a_claim_that_can_never_be_satisfied_is_named(expression: str, count: int, reason: str) -> None:
    served = device_class("gpu", expression, extendedResourceName=GPU)
    objects = [node("n1"), served, group(), slice_("n1", *(f"d{i}" for i in range(40)))]
    found = plan(objects, user("p", count))
    assert codes(found) == {"p": "ResourceClaimsNotReady"}
    assert reason in pending(found)["p"].message


def test_devices_that_pods_share_count_for_each_share() -> None:
    shared = device("a", allowMultipleAllocations=True, capacity={"m": {"value": "4", "requestPolicy": {"default": 2}}})
    found = plan(ONE, slice_("n1", shared), [user(f"p-{i}") for i in range(3)])
    assert len(binds(found)) == 2


def test_a_device_that_pods_share_without_a_limit_serves_any_number_of_them() -> None:
    shared = device("a", allowMultipleAllocations=True)
    found = plan(node("n1", cpu=99), CLASS, group(), slice_("n1", shared), [user(f"p-{i}") for i in range(40)])
    assert len(binds(found)) == 40


def test_whole_and_shared_devices_of_a_node_count_together() -> None:
    halves = {"m": {"value": "4", "requestPolicy": {"default": 2}}}
    listed: list[Data | str] = ["a", device("b", allowMultipleAllocations=True, capacity=halves), "c"]
    state = state_of(node("n1"), node("n2"), CLASS, slice_("n1", *listed), slice_("n2", "d"), user("p"))
    state.settle()
    assert state.nodes.allocatable[state.axis.rows[GPU]].tolist() == [4000, 1000]


def test_devices_that_several_nodes_reach_are_part_of_the_cluster_once() -> None:
    nodes = [node("n1"), node("n2"), node("n3", resources={GPU: 3})]
    state = state_of(nodes, CLASS, slice_("", "a", "b"), slice_("n1", "c"), user("p"))
    state.settle()
    assert state.nodes.allocatable[state.axis.rows[GPU]].tolist() == [3000, 2000, 3000]
    assert state.nodes.total()[GPU] == 6000
    state.apply(Changed(node("n2", resources={GPU: 1})))
    state.settle()
    assert state.nodes.total()[GPU] == 7000


@pytest.mark.parametrize(("created", "serves"), [((5, 9), "b"), ((9, 5), "a"), ((5, 5), "a")])
def test_of_classes_for_one_resource_the_newest_serves_it(created: tuple[int, int], serves: str) -> None:
    """Of equally old ones the first by name."""
    one, other = (
        device_class(name, extendedResourceName=GPU, created=at) for name, at in zip("ab", created, strict=True)
    )
    for classes in ([one, other], [other, one]):
        found = plan(node("n1"), classes, group(), slice_("n1", "a"), user("p"))
        assert list(given(found).values()) == [["container-0-request-0=n1/a"]]
        assert found.binds[0].claims[0].special.demand.requests[0].ways[0].class_name == serves  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("name", "extended"),
    [
        (GPU, True),
        (f"{IMPLICIT}gpu", True),
        ("cpu", False),
        ("hugepages-2Mi", False),
        ("kubernetes.io/gpu", False),
        ("node.kubernetes.io/gpu", False),
        (f"requests.{GPU}", False),
    ],
)
def test_resources_of_kubernetes_itself_are_not_extended(name: str, extended: bool) -> None:
    assert is_extended(name) is extended


def test_without_resource_claims_no_pod_goes_where_only_devices_serve_it() -> None:
    off = conf("allocate", ["gang"], [("predicates", {"predicate.DynamicResourceAllocationEnable": False})])
    found = plan(ONE, node("n2", resources={GPU: 1}), slice_("n1", "a"), user("p"), of=off)
    assert binds(found) == {"p": "n2"}
    found = plan(ONE, slice_("n1", "a"), user("p"), of=off)
    assert "claims are off" in pending(found)["p"].message


def test_without_predicates_no_pod_goes_where_only_devices_serve_it() -> None:
    without = conf("allocate, backfill", ["gang"], ["binpack"])
    found = plan(ONE, node("n2", resources={GPU: 1}), slice_("n1", "a"), user("p"), of=without)
    assert binds(found) == {"p": "n2"}
    found = plan(ONE, slice_("n1", "a"), user("p"), of=without)
    assert not found.binds
    assert "claims are off" in pending(found)["p"].message


def test_no_pod_is_evicted_for_one_that_only_devices_could_serve_while_claims_are_off() -> None:
    without = conf("allocate, preempt", ["gang", "priority"], ["binpack"])
    low = [group("r", phase="Running", minimum=0), pod("r", requests={"cpu": "8"}, node="n1", group="r")]
    high = [priority_class("high", 10), group("p", priority="high")]
    waits = pod("p", requests={GPU: 1, "cpu": 4}, group="p", priority=10)
    found = plan(node("n1", cpu=8), CLASS, slice_("n1", "a"), low, high, waits, of=without)
    assert not found.evictions
    assert not found.nominations


# --- queues


def test_the_resource_counts_under_its_own_name() -> None:
    capacity = conf("enqueue, allocate", ["gang"], ["predicates", "capacity"])
    objects = [node("n1"), CLASS, slice_("n1", "a", "b", "c"), queue("q", capability={GPU: 2})]
    pods = [[group(f"p-{i}"), user(f"p-{i}", group=f"p-{i}")] for i in range(3)]
    found = plan(objects, pods, of=capacity)
    assert len(binds(found)) == 2
    (reason,) = pending(found).values()
    assert (reason.code, reason.resource) == ("QueueQuotaExceeded", GPU)
    assert found.queues["q"].allocated[GPU] == 2000


def test_the_devices_count_by_class_too() -> None:
    capacity = conf("enqueue, allocate", ["gang"], ["predicates", "capacity"])
    objects = [node("n1"), CLASS, slice_("n1", "a", "b", "c"), queue("q", capability={"deviceclass/gpu": 2})]
    held = [user("r", node="n1", group="r"), group("r", phase="Running"), special_claim("r", "n1/a", node="n1")]
    pods = [[group(f"p-{i}"), user(f"p-{i}", group=f"p-{i}")] for i in range(2)]
    found = plan(objects, held, pods, of=capacity)
    assert len(binds(found)) == 1
    assert found.queues["q"].allocated["deviceclass/gpu"] == 2000


def test_queues_deserve_devices_before_any_pod_asks_for_them() -> None:
    capacity = conf("enqueue, allocate", ["gang"], ["predicates", "capacity"])
    deserving = queue("q", deserved={GPU: 2}, guarantee={GPU: 1})
    found = plan(node("n1"), CLASS, slice_("n1", "a", "b"), deserving, of=capacity)
    assert found.findings == ()
    assert (found.queues["q"].deserved or {})[GPU] == 2000


@pytest.mark.parametrize(
    ("limit", "running", "expected"),
    [
        pytest.param(1, 0, ["n1", "n1", "n2"], id="pods on the node that offers the resource have no device"),
        pytest.param(1, 1, ["n1", "n1"], id="they start although their queue may have no more devices"),
        pytest.param(3, 1, ["n1", "n1", "n2", "n2"], id="and there is no limit for them"),
    ],
)
def test_only_pods_on_nodes_without_the_resource_count_by_class(limit: int, running: int, expected: list[str]) -> None:
    capacity = conf("enqueue, allocate", ["gang"], ["predicates", "capacity"])
    nodes = [node("n1", resources={GPU: 2}), node("n2"), CLASS, slice_("n2", "a", "b", "c")]
    held = [user("r", node="n2", group="r"), group("r", phase="Running"), special_claim("r", "n2/a", node="n2")]
    pods = [[group(f"p-{i}"), user(f"p-{i}", group=f"p-{i}")] for i in range(5)]
    limits = queue("q", capability={"deviceclass/gpu": limit})
    found = plan(nodes, limits, held if running else [], pods, of=capacity)
    assert sorted(binds(found).values()) == expected
    assert found.queues["q"].allocated["deviceclass/gpu"] == 1000 * (expected.count("n2") + running)
    assert all("the queue may not use" in each.message for each in pending(found).values()) or limit == 3


def test_devices_are_part_of_what_the_cluster_has() -> None:
    """A group without pods is admitted by the sum of what nodes offer."""
    capacity = conf("enqueue, allocate", ["gang"], ["predicates", "capacity"])
    objects = [node("n1"), CLASS, slice_("n1", "a", "b")]
    for number, phase in ((2, "Inqueue"), (3, "Pending")):
        found = plan(objects, group("g", minimum=2, phase="Pending", resources={GPU: number}), of=capacity)
        assert found.groups[f"{NAMESPACE}/g"].phase == phase


# --- claims that there are


def test_running_pods_hold_the_devices_of_their_special_claims() -> None:
    held = [user("r", node="n1"), special_claim("r", "n1/a", node="n1")]
    found = plan(ONE, slice_("n1", "a", "b"), held, user("p"), user("q"))
    assert list(given(found).values()) == [["container-0-request-0=n1/b"]]


def test_a_pod_whose_special_claim_has_devices_starts_with_them() -> None:
    """As after a crash between the claim and the bind."""
    found = plan(ONE, slice_("n1", "a", "b"), user("p"), special_claim("p", "n1/b", node="n1"), user("q"))
    assert binds(found) == {"p": "n1", "q": "n1"}
    assert given(found) == {special("q"): ["container-0-request-0=n1/a"]}
    claims = {bind.pod: bind.claims[0].claim for bind in found.binds}
    assert claims[f"{NAMESPACE}/p"] == f"{NAMESPACE}/p-extended-resources-x"


def test_a_special_claim_without_devices_is_found_again() -> None:
    found = plan(ONE, slice_("n1", "a"), user("p"), special_claim("p"))
    assert given(found) == {"p-extended-resources-x": ["container-0-request-0=n1/a"]}


def test_the_claim_of_an_earlier_pod_of_the_name_is_not_used() -> None:
    earlier = special_claim("p", "n1/a", node="n1", uid="other")
    found = plan(ONE, slice_("n1", "a", "b"), user("p"), earlier)
    assert given(found) == {special("p"): ["container-0-request-0=n1/b"]}


def test_a_pod_keeps_its_claim_while_that_of_an_earlier_pod_of_the_name_goes() -> None:
    """The earlier pod's claim changes, as its devices are taken back, after the pod's own has got devices."""
    state = state_of(ONE, slice_("n1", "a", "b", "c"), user("p"), special_claim("p", "n1/b", node="n1", name="own"))
    state.apply(Changed(special_claim("p", "n1/a", node="n1", uid="earlier", name="earlier")))
    found = plan_in(state, DEVICES)
    assert (binds(found), given(found)) == ({"p": "n1"}, {})
    assert [each.claim for each in found.binds[0].claims] == [f"{NAMESPACE}/own"]
    state.apply(Changed(user("q")))
    assert list(given(plan_in(state, DEVICES)).values()) == [["container-0-request-0=n1/c"]]


def test_of_two_claims_of_a_pod_the_one_with_devices_is_used_whichever_came_first() -> None:
    """Schedulers that choose names at random leave two behind if they stop between a write and its answer."""
    both = [special_claim("p", name="a"), special_claim("p", "n1/b", node="n1", name="z")]
    for claims in (both, both[::-1]):
        found = plan(ONE, slice_("n1", "a", "b"), user("p"), claims)
        assert (binds(found), given(found)) == ({"p": "n1"}, {})
        assert [each.claim for each in found.binds[0].claims] == [f"{NAMESPACE}/z"]


def test_a_claim_that_is_not_the_pods_is_left_alone_whatever_its_name() -> None:
    other = [claim(special("p"), held=["n1/a"], node="n1", by=["x"]), claiming("x", special("p"), node="n1", group="")]
    found = plan(ONE, slice_("n1", "a", "b"), user("p"), other)
    assert list(given(found).values()) == [["container-0-request-0=n1/b"]]
    assert given(found).keys() == {special_name("p", f"{NAMESPACE}/p", 1)}


def test_a_claim_whose_class_is_gone_is_forgotten_when_it_is_deleted() -> None:
    state = state_of(node("n1"), CLASS, group(), slice_("n1", "a"), user("p"), special_claim("p", "n1/a", node="n1"))
    for event in (Gone("DeviceClass", "gpu"), Gone("ResourceClaim", f"{NAMESPACE}/p-extended-resources-x")):
        state.apply(event)
        assert binds(plan_in(state, DEVICES)) == {}
    state.apply(Changed(node("n1", resources={GPU: 1})))
    assert binds(plan_in(state, DEVICES)) == {"p": "n1"}


def test_a_claim_that_does_not_say_what_the_pod_needs_is_given_up() -> None:
    """The class serves the resource under another count or not at all now."""
    stale = special_claim("p", "n1/a", node="n1", count=2)
    found = plan(ONE, slice_("n1", "a", "b"), user("p"), stale)
    assert binds(found) == {}
    assert [each.claim for each in found.released] == [f"{NAMESPACE}/p-extended-resources-x"]


def test_a_claim_for_a_node_that_offers_the_resource_by_now_is_given_up() -> None:
    offering = node("n1", resources={GPU: 1})
    found = plan(offering, CLASS, group(), slice_("n1", "a"), user("p"), special_claim("p", "n1/a", node="n1"))
    assert binds(found) == {}
    assert len(found.released) == 1


def test_a_state_follows_claims_classes_and_slices_as_they_come_and_go() -> None:
    state = state_of(node("n1"), group(), user("p"))
    assert codes(plan_in(state, DEVICES)) == {"p": "Unschedulable"}
    state.apply(Changed(slice_("n1", "a")))
    state.apply(Changed(CLASS))
    assert given(plan_in(state, DEVICES)) == {special("p"): ["container-0-request-0=n1/a"]}
    state.apply(Changed(special_claim("p", "n1/a", node="n1")))
    assert given(plan_in(state, DEVICES)) == {}
    assert binds(plan_in(state, DEVICES)) == {"p": "n1"}
    state.apply(Gone("ResourceClaim", f"{NAMESPACE}/p-extended-resources-x"))
    assert given(plan_in(state, DEVICES)) == {special("p"): ["container-0-request-0=n1/a"]}
    state.apply(Gone("DeviceClass", "gpu"))
    found = plan_in(state, DEVICES)
    assert (binds(found), state.resource_claims.claims) == ({}, {})
    state.apply(Changed(CLASS))
    plan_in(state, DEVICES)
    assert len(state.resource_claims.claims) == 1
    state.apply(Gone("Pod", f"{NAMESPACE}/p"))
    plan_in(state, DEVICES)
    assert (state.resource_claims.claims, state.resource_claims.special) == ({}, {})


# --- evictions


def test_a_pod_of_higher_priority_is_nominated_to_devices_that_an_eviction_frees() -> None:
    evicting = conf("allocate, preempt", ["priority", "gang"], ["predicates"])
    low = [user("r", node="n1", group="low", priority=1), group("low", minimum=0, phase="Running"),
           special_claim("r", "n1/a", node="n1")]  # fmt: skip
    high = [priority_class("high", 9), group("high", priority="high"), user("p", group="high", priority=9)]
    found = plan(node("n1"), CLASS, slice_("n1", "a"), low, high, of=evicting)
    assert [each.pod for each in found.evictions] == [f"{NAMESPACE}/r"]
    assert nominations(found) == {"p": "n1"}


def test_claims_beside_the_resource_are_judged_together() -> None:
    own = claim("p-c", ask("own"), owner="p")
    both = claiming("p", "p-c", requests={GPU: 1})
    assert binds(plan(ONE, slice_("n1", "a"), own, both)) == {}
    found = plan(ONE, slice_("n1", "a", "b"), own, both)
    assert sorted(each.partition("=")[2] for held in given(found).values() for each in held) == ["n1/a", "n1/b"]


@pytest.mark.parametrize(
    ("plugin", "arguments", "expected"),
    [
        ("binpack", {"binpack.resources": GPU, f"binpack.resources.{GPU}": 5}, "n1"),
        ("resource-strategy-fit", {"resources": {GPU: {"type": "LeastAllocated", "weight": 5}}}, "n2"),
        ("resource-strategy-fit", {"resources": {GPU: {"type": "MostAllocated", "weight": 5}}}, "n1"),
    ],
)
def test_nodes_are_scored_by_what_devices_serve(plugin: str, arguments: Data, expected: str) -> None:
    slices = [slice_("n1", "a", "b"), slice_("n2", *"cdefghij")]
    objects = [node("n1", cpu=8), node("n2", cpu=8), CLASS, group(minimum=1), *slices, user("p")]
    of = conf("allocate", ["gang"], ["predicates", (plugin, arguments)])
    assert binds(plan(*objects, of=of)) == {"p": expected}
