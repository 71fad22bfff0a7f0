"""Resource claims: which devices pods get, on which nodes, and why others wait."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from kilauea.api.core import PodClaimStatus
from kilauea.api.meta import Object
from kilauea.engine.events import Changed, Gone
from kilauea.engine.plan import Plan
from kilauea.engine.session import Session
from kilauea.engine.state import ClusterState
from support.builders import (
    NAMESPACE,
    Data,
    Objects,
    binds,
    codes,
    conf,
    flat,
    gang,
    group,
    node,
    nominations,
    pending,
    plan_in,
    plan_of,
    pod,
    priority_class,
    state_of,
)
from support.device_objects import (
    DEVICES,
    DRIVER,
    ask,
    claim,
    claiming,
    device,
    device_class,
    given,
    pods_with_own,
    slice_,
    taint_rule,
    way,
)
from support.probes import inside

ONE = [node("n1"), device_class(), group(minimum=1)]
MODEL = f'device.attributes["{DRIVER}"].model'


def plan(*objects: Any) -> Plan:
    return plan_of(*objects, conf=DEVICES)


def one(listed: Sequence[Any] | None) -> Any:
    """The only element."""
    (found,) = listed or [None]
    return found


def message(of: Plan, name: str = "p") -> str:
    return pending(of)[name].message


# --- what is given


def test_a_claim_gets_a_device_on_the_node_that_has_one() -> None:
    found = plan(node("n1"), node("n2"), device_class(), group(), slice_("n2", "a", "b"), pods_with_own("p"))
    assert binds(found) == {"p": "n2"}
    assert given(found) == {"p-c": ["g=n2/a"]}


def test_an_allocation_names_the_node_the_parameters_and_the_tolerations() -> None:
    opaque = {"driver": DRIVER, "parameters": {"mode": "fast"}}
    own = {"driver": DRIVER, "parameters": {"mode": "mine"}}
    tolerated = {"key": "old", "operator": "Exists", "effect": "NoSchedule"}
    found = plan(
        node("n1"), group(), slice_("n1", device("a", taints=[{"key": "old", "effect": "NoSchedule"}])),
        device_class(config=[{"opaque": opaque}]), claiming("p", "c"),
        claim("c", ask(tolerations=[tolerated]), config=[{"requests": ["g"], "opaque": own}]),
    )  # fmt: skip
    (allocation,) = (each.allocation for bind in found.binds for each in bind.claims)
    assert allocation is not None
    assert allocation.node_selector is not None
    term = one(allocation.node_selector.node_selector_terms)
    assert [(f.key, f.operator, f.values) for f in term.match_fields or ()] == [("metadata.name", "In", ["n1"])]
    result = one(allocation.devices.results)
    assert [t.key for t in result.tolerations or ()] == ["old"]
    assert [(c.source, c.requests, c.opaque) for c in allocation.devices.config or ()] == [
        ("FromClass", ["g"], opaque),
        ("FromClaim", ["g"], own),
    ]


CASES: list[tuple[str, list[Any], list[Data], list[Data], list[str] | None]] = [
    # what, devices of n1, requests of one claim, constraints, what the claim gets (None: it waits)
    ("a count", ["a", "b", "c"], [ask(count=2)], [], ["g=n1/a", "g=n1/b"]),
    ("more than there are", ["a"], [ask(count=2)], [], None),
    ("all devices", ["a", "b"], [ask(allocationMode="All")], [], ["g=n1/a", "g=n1/b"]),
    ("all of none", [], [ask(allocationMode="All")], [], None),
    ("a selector of the request", [device("a", model="x"), device("b", model="y")],
     [ask("g", "gpu", f'{MODEL} == "y"')], [], ["g=n1/b"]),
    ("a capacity in a selector", [device("a", capacity={"memory": "40Gi"}), device("b", capacity={"memory": "80Gi"})],
     [ask("g", "gpu", f'device.capacity["{DRIVER}"].memory.compareTo(quantity("64Gi")) >= 0')], [], ["g=n1/b"]),
    ("a capacity that is requested",
     [device("a", capacity={"memory": "40Gi"}), device("b", capacity={"memory": "80Gi"})],
     [ask(capacity={"requests": {"memory": "80Gi"}})], [], ["g=n1/b"]),
    ("a version", [device("a", v={"version": "1.9.0"}), device("b", v={"version": "1.10.0"})],
     [ask("g", "gpu", f'device.attributes["{DRIVER}"].v.isGreaterThan(semver("1.9.5"))')], [], ["g=n1/b"]),
    ("two requests, the first of which would take the only device of the second",
     [device("a", model="x"), device("b", model="y")],
     [ask("any"), ask("g", "gpu", f'{MODEL} == "x"')], [], ["any=n1/b", "g=n1/a"]),
    ("the first alternative", [device("a", model="x"), device("b", model="y")],
     [{"name": "g", "firstAvailable": [way("one", "gpu", f'{MODEL} == "y"'), way("two")]}], [], ["g/one=n1/b"]),
    ("the second alternative", [device("a", model="x")],
     [{"name": "g", "firstAvailable": [way("one", "gpu", f'{MODEL} == "y"'), way("two")]}], [], ["g/two=n1/a"]),
    ("an alternative whose class does not exist", [device("a")],
     [{"name": "g", "firstAvailable": [way("one", "none"), way("two")]}], [], ["g/two=n1/a"]),
    ("a common attribute", [device("a", numa=0), device("b", numa=1), device("c", numa=1)],
     [ask(count=2)], [{"matchAttribute": f"{DRIVER}/numa"}], ["g=n1/b", "g=n1/c"]),
    ("a common attribute that no two devices have", [device("a", numa=0), device("b", numa=1)],
     [ask(count=2)], [{"matchAttribute": f"{DRIVER}/numa"}], None),
    ("a common attribute of some requests", [device("a", numa=0), device("b", numa=1), device("c", numa=1)],
     [ask("x"), ask("y"), ask("z")], [{"requests": ["y", "z"], "matchAttribute": f"{DRIVER}/numa"}],
     ["x=n1/a", "y=n1/b", "z=n1/c"]),
    ("a distinct attribute", [device("a", numa=0), device("b", numa=0), device("c", numa=1)],
     [ask(count=2)], [{"distinctAttribute": f"{DRIVER}/numa"}], ["g=n1/a", "g=n1/c"]),
    ("a device without the common attribute", [device("a"), device("b", numa=1)],
     [ask()], [{"matchAttribute": f"{DRIVER}/numa"}], ["g=n1/b"]),
    ("a device that is tainted", [device("a", taints=[{"key": "k", "effect": "NoSchedule"}]), device("b")],
     [ask()], [], ["g=n1/b"]),
    ("more than a claim may get", [f"d{i}" for i in range(40)], [ask(count=33)], [], None),
    ("administrators' access beside a request for the device", ["a"],
     [ask(), ask("admin", adminAccess=True)], [], ["g=n1/a", "admin=n1/a"]),
]  # fmt: skip


@pytest.mark.parametrize(("what", "devices", "requests", "constraints", "gets"), CASES, ids=[c[0] for c in CASES])
def test_a_claim_gets_what_it_asks(
    what: str, devices: list[Any], requests: list[Data], constraints: list[Data], gets: list[str] | None
) -> None:
    asked = claim("c", *requests, constraints=constraints)
    found = plan(*ONE, slice_("n1", *devices), claiming("p", "c"), asked)
    assert given(found).get("c") == gets
    assert binds(found) == ({} if gets is None else {"p": "n1"})


def test_a_claim_of_the_older_versions_is_read() -> None:
    """`v1beta1` has the fields of a request beside its name, and those of a device under `basic`."""
    old = {"name": "a", "basic": {"attributes": {"model": {"string": "x"}}}}
    request = {"name": "g", "deviceClassName": "gpu", "selectors": [{"cel": {"expression": f'{MODEL} == "x"'}}]}
    found = plan(*ONE, slice_("n1", old), claiming("p", "c"), claim("c", request))
    assert given(found) == {"c": ["g=n1/a"]}


def test_two_claims_of_a_pod_get_different_devices() -> None:
    found = plan(*ONE, slice_("n1", "a", "b"), claiming("p", "c", "d"), claim("c"), claim("d"))
    assert given(found) == {"c": ["g=n1/a"], "d": ["g=n1/b"]}


def test_pods_share_a_claim_on_the_node_that_the_first_got() -> None:
    nodes = [node("n1", cpu=1), node("n2")]
    found = plan(
        nodes, device_class(), group(minimum=2), slice_("n1", "a"), slice_("n2", "b"),
        claiming("p-w-0", "c"), claiming("p-w-1", "c"), claim("c"),
    )  # fmt: skip
    assert given(found) in ({}, {"c": ["g=n2/b"]})  # n1 has room for one of them only
    assert len(set(binds(found).values())) <= 1


# --- what is taken


def test_devices_in_use_are_passed_over() -> None:
    held = claim("used", held=["n1/a"], node="n1", by=["r"])
    found = plan(*ONE, slice_("n1", "a", "b"), held, claiming("r", "used", node="n1"), pods_with_own("p"))
    assert given(found) == {"p-c": ["g=n1/b"]}


def test_pods_of_one_cycle_get_different_devices() -> None:
    found = plan(*ONE, slice_("n1", "a", "b"), pods_with_own("p", "q", "r"))
    assert sorted(given(found).values()) == [["g=n1/a"], ["g=n1/b"]]
    assert len(codes(found)) == 1


def test_a_gang_that_does_not_fit_leaves_its_devices_to_others() -> None:
    big = [pod_ for name in ("x-w-0", "x-w-1", "x-w-2") for pod_ in pods_with_own(name, group="x", created=1)]
    small = pods_with_own("y-w-0", group="y", created=2)
    groups = [group("x", minimum=3, created=1), group("y", minimum=1, created=2)]
    found = plan(node("n1", cpu=9), device_class(), groups, slice_("n1", "a", "b"), big, small)
    assert binds(found) == {"y-w-0": "n1"}
    assert given(found) == {"y-w-0-c": ["g=n1/a"]}


def test_a_claim_for_administration_takes_no_device_from_others() -> None:
    used = claim("used", held=["n1/a"], node="n1", by=["r"])
    running = claiming("r", "used", node="n1")
    found = plan(*ONE, slice_("n1", "a"), used, running, claiming("p", "c"), claim("c", ask(adminAccess=True)))
    assert given(found) == {"c": ["g=n1/a"]}


def test_all_devices_waits_while_one_is_in_use() -> None:
    used = claim("used", held=["n1/a"], node="n1", by=["r"])
    running = claiming("r", "used", node="n1")
    found = plan(*ONE, slice_("n1", "a", "b"), used, running, pods_with_own("p", requests=[ask(allocationMode="All")]))
    assert binds(found) == {}


def test_a_pod_is_nominated_to_devices_of_pods_that_are_terminating() -> None:
    held = claim("used", held=["n1/a"], node="n1", by=["r"])
    going = claiming("r", "used", node="n1", deleting=True)
    found = plan(*ONE, slice_("n1", "a"), held, going, pods_with_own("p"))
    assert (binds(found), nominations(found)) == ({}, {"p": "n1"})


def test_a_pod_follows_the_devices_that_its_claim_has() -> None:
    held = claim("c", held=["n2/a"], node="n2")
    found = plan(node("n1"), node("n2"), device_class(), group(), slice_("n2", "a"), held, claiming("p", "c"))
    assert binds(found) == {"p": "n2"}
    (bind,) = found.binds
    assert [(each.claim, each.allocation) for each in bind.claims] == [(f"{NAMESPACE}/c", None)]


def test_a_claim_whose_devices_are_elsewhere_says_so() -> None:
    held = claim("c", held=["n2/a"], node="n2")
    found = plan(*ONE, slice_("n1", "a"), held, claiming("p", "c"))
    assert message(found) == "0/1 nodes are unavailable: 1 resourceclaim not available on the node."


# --- shared and partitionable devices

PARTS = [
    device("whole", consumesCounters=[{"counterSet": "card", "counters": {"memory": {"value": "40Gi"}}}]),
    device("half-0", consumesCounters=[{"counterSet": "card", "counters": {"memory": {"value": "20Gi"}}}]),
    device("half-1", consumesCounters=[{"counterSet": "card", "counters": {"memory": {"value": "20Gi"}}}]),
]
CARD: Data = {"sharedCounters": [{"name": "card", "counters": {"memory": {"value": "40Gi"}}}]}


def part(name: str) -> Object:
    return device_class(name, f'device.attributes["{DRIVER}"].kind == "{name}"')


def parts() -> list[Data]:
    return [each | {"attributes": {"kind": {"string": each["name"].split("-")[0]}}} for each in PARTS]


def test_partitions_share_the_counters_of_their_card() -> None:
    slices = slice_("n1", *parts(), **CARD)
    halves = [pods_with_own(name, requests=[ask("g", "half")]) for name in ("p", "q")]
    found = plan(*ONE, part("half"), part("whole"), slices, halves)
    assert sorted(given(found).values()) == [["g=n1/half-0"], ["g=n1/half-1"]]


def test_a_whole_card_waits_while_a_part_of_it_is_in_use() -> None:
    slices = slice_("n1", *parts(), **CARD)
    used = [claim("used", held=["n1/half-0"], node="n1", by=["r"]), claiming("r", "used", node="n1")]
    want = pods_with_own("p", requests=[ask("g", "whole")])
    found = plan(*ONE, part("half"), part("whole"), slices, used, want)
    assert message(found) == "0/1 nodes are unavailable: 1 cannot allocate all claims."


def test_counters_may_stand_in_another_slice_of_the_pool() -> None:
    slices = [slice_("n1", *parts(), name="s1", slices=2), slice_("n1", name="s2", slices=2, **CARD)]
    found = plan(*ONE, part("whole"), slices, pods_with_own("p", requests=[ask("g", "whole")]))
    assert given(found) == {"p-c": ["g=n1/whole"]}


def test_a_device_that_several_nodes_reach_is_given_once() -> None:
    nodes = [node("n1", cpu=1), node("n2", cpu=1)]
    found = plan(nodes, device_class(), group(), slice_("", "a"), pods_with_own("p", "q"))
    assert len(binds(found)) == 1
    assert list(given(found).values()) == [["g=shared/a"]]


def test_devices_of_a_node_selector_are_given_on_those_nodes() -> None:
    zone = {"nodeSelectorTerms": [{"matchExpressions": [{"key": "zone", "operator": "In", "values": ["b"]}]}]}
    nodes = [node("n1", labels={"zone": "a"}), node("n2", labels={"zone": "b"})]
    found = plan(nodes, device_class(), group(), slice_("", "a", nodeSelector=zone), pods_with_own("p"))
    assert binds(found) == {"p": "n2"}
    (allocation,) = (each.allocation for bind in found.binds for each in bind.claims)
    assert allocation is not None
    assert allocation.node_selector is not None
    term = one(allocation.node_selector.node_selector_terms)
    assert [e.key for e in term.match_expressions or ()] == ["zone"]


def test_devices_may_say_each_for_itself_which_nodes_reach_them() -> None:
    listed = [device("a", nodeName="n2"), device("b", allNodes=True)]
    nodes = [node("n1"), node("n2")]
    found = plan(
        nodes, device_class(), group(), slice_("", *listed, perDeviceNodeSelection=True),
        pods_with_own("p", "q", nodeSelector={"kubernetes.io/hostname": "n1"}),
    )  # fmt: skip
    assert list(given(found).values()) == [["g=shared/b"]]


# --- what waits, and why

WAITING: list[tuple[str, Objects, Objects, str]] = [
    ("a claim that does not exist", [], [claiming("p", "c")], 'resourceclaim "c" not found'),
    ("a claim that is being deleted", [], [claiming("p", "c"), claim("c", deleting=True)],
     'resourceclaim "c" is being deleted'),
    ("a class that does not exist", [], [claiming("p", "c"), claim("c", ask("g", "none"))],
     "request g: device class none does not exist"),
    ("a mode that is not known", [], [claiming("p", "c"), claim("c", ask(allocationMode="Some"))],
     'request g: allocationMode "Some" is not known: use ExactCount or All'),
    ("too many devices", [], [claiming("p", "c"), claim("c", ask(count=33))],
     "request g: count 33 is more than the 32 devices that a claim may get"),
    ("a claim of all its consumers", [], [claiming("p", "c"),
      claim("c", held=["n1/a"], node="n1", by=[f"x{i}" for i in range(256)])], "resourceclaim in use"),
    ("a template that does not exist", [],
     [pod("p", resourceClaims=[{"name": "c", "resourceClaimTemplateName": "t"}])],
     'resourceclaimtemplate "t" not found'),
]  # fmt: skip


@pytest.mark.parametrize(("what", "devices", "objects", "words"), WAITING, ids=[c[0] for c in WAITING])
def test_a_pod_waits_for_claims_that_are_not_ready(
    what: str, devices: list[Any], objects: list[Any], words: str
) -> None:
    found = plan(*ONE, slice_("n1", "a", *devices), objects)
    assert (binds(found), codes(found)) == ({}, {"p": "ResourceClaimsNotReady"})
    assert message(found) == words


def test_a_claim_that_was_made_for_another_pod_is_not_used() -> None:
    made = claim("c", owner="other")
    one = pod(
        "p", resourceClaims=[{"name": "x", "resourceClaimTemplateName": "t"}],
    )  # fmt: skip
    one.status.resource_claim_statuses = []  # type: ignore[attr-defined]
    one.status.resource_claim_statuses = [PodClaimStatus("x", "c")]  # type: ignore[attr-defined]
    found = plan(*ONE, slice_("n1", "a"), made, one)
    assert message(found) == "ResourceClaim ns/c was not created for pod ns/p (pod is not owner)"


def test_a_claim_that_turned_out_not_to_be_needed_is_not_waited_for() -> None:
    one = pod("p", resourceClaims=[{"name": "x", "resourceClaimTemplateName": "t"}])
    one.status.resource_claim_statuses = [PodClaimStatus("x", None)]  # type: ignore[attr-defined]
    assert binds(plan(*ONE, one)) == {"p": "n1"}


# --- bad input


def findings(of: Plan) -> list[str]:
    return [str(each) for each in of.findings]


def test_a_selector_that_cannot_be_compiled_holds_back_only_its_pods() -> None:
    bad = pods_with_own("p", requests=[ask("g", "gpu", "device.driver ==")])
    found = plan(*ONE, slice_("n1", "a", "b"), bad, pods_with_own("q"))
    assert binds(found) == {"q": "n1"}
    assert message(found).startswith(
        "request g: a selector of it or of device class gpu cannot be used: compilation failed"
    )


def test_a_selector_that_takes_too_long_is_refused() -> None:
    many = f"[{', '.join(['1'] * 100)}]"
    nested = f"{many}.all(a, {many}.all(b, {many}.all(c, true)))"
    found = plan(*ONE, slice_("n1", "a"), pods_with_own("p", requests=[ask("g", "gpu", nested)]))
    assert message(found).endswith("actual cost limit exceeded: use fewer all, exists, map and filter")


def test_costly_selectors_are_evaluated_over_several_cycles_and_hold_up_no_other_namespace() -> None:
    devices = [device(f"d{number}", model=f"m{number}") for number in range(40)]
    costly = f'[1, 2, 3, 4, 5].all(x, [1, 2, 3, 4, 5].all(y, {MODEL} != "none"))'
    other = claim("d", ask("g", "gpu", f'{MODEL} == "m39"'))
    other.metadata.namespace = "other"
    state = state_of(
        *ONE, group("o", namespace="other"), slice_("n1", *devices), claim("c", ask("g", "gpu", costly)),
        claiming("p", "c"), other, claiming("q", "d", group="o", namespace="other", uid="other/q"),
    )  # fmt: skip
    costs = state.resource_claims.selector_costs
    costs.most = 1000
    found = plan_in(state, DEVICES)
    assert binds(found) == {"other/q": "n1"}
    assert message(found).startswith("request g: the device selectors of this namespace cost much: evaluating them")
    again = plan_in(state, DEVICES)
    assert not {"p"} & binds(again).keys(), "the cycle has not ended"
    for _ in range(20):
        costs.renew()
        found = plan_in(state, DEVICES)
        if "p" in binds(found):
            break
    assert given(found)["c"] == ["g=n1/d0"]


def test_without_a_limit_costly_selectors_are_evaluated_in_one_cycle() -> None:
    costly = f'[1, 2, 3].all(x, [1, 2, 3].all(y, {MODEL} != "none"))'
    devices = [device(f"d{number}", model=f"m{number}") for number in range(40)]
    found = plan(*ONE, slice_("n1", *devices), pods_with_own("p", requests=[ask("g", "gpu", costly)]))
    assert binds(found) == {"p": "n1"}


def test_a_device_for_which_a_selector_fails_is_passed_over_with_a_finding() -> None:
    asked = pods_with_own("p", requests=[ask("g", "gpu", f'{MODEL} == "x"')])
    found = plan(*ONE, slice_("n1", "a", device("b", model="x")), asked)
    assert given(found) == {"p-c": ["g=n1/b"]}
    assert any("no such key: model" in each and "are passed over" in each for each in findings(found))


BROKEN = [
    ("a pool of which slices are missing",
     {"generation": 2, "slices": 3}, "1 of its 3 slices of generation 2 exist"),
    ("a device that is listed twice", {"devices": [{"name": "a"}, {"name": "a"}]}, "device a is listed more than once"),
    ("a counter that the pool does not have",
     {"devices": [device("a", consumesCounters=[{"counterSet": "s", "counters": {"c": {"value": 1}}}])]},
     "it takes of counter s/c, which its pool does not have"),
    ("a version that is invalid", {"devices": [device("a", v={"version": "one"})]}, '"one" is not a semantic version'),
    ("a quantity that is invalid", {"devices": [device("a", capacity={"memory": "much"})]}, '"much" is not a quantity'),
    ("an attribute without a value", {"devices": [device("a", v={})]}, "an attribute has no value"),
]  # fmt: skip


@pytest.mark.parametrize(("what", "fields", "words"), BROKEN, ids=[c[0] for c in BROKEN])
def test_devices_that_cannot_be_used_are_passed_over_with_a_finding(what: str, fields: Data, words: str) -> None:
    good = slice_("n2", "z")
    found = plan(node("n2"), *ONE, slice_("n1", "a", **fields), good, pods_with_own("p"))
    assert given(found) == {"p-c": ["g=n2/z"]}
    assert any(words in each for each in findings(found))


def test_an_older_generation_of_a_pool_is_not_used() -> None:
    older, newer = slice_("n1", "old", name="s1"), slice_("n1", "new", name="s2", generation=2)
    found = plan(*ONE, older, newer, pods_with_own("p"))
    assert given(found) == {"p-c": ["g=n1/new"]}


def test_claims_are_not_looked_at_when_they_are_switched_off() -> None:
    off = {**DEVICES, "tiers": [{"plugins": [{"name": "gang"}, {
        "name": "predicates", "arguments": {"predicate.DynamicResourceAllocationEnable": False}}]}]}  # fmt: skip
    found = plan_of(*ONE, pods_with_own("p"), conf=off)
    assert (binds(found), given(found)) == ({"p": "n1"}, {})


def test_equal_pods_with_claims_of_their_own_are_judged_once() -> None:
    """A gang of a thousand pods is one shape, so its cost does not grow with the pods times the nodes."""

    def shapes(session: Session) -> int:
        return len({id(session.shape_of(task)) for task in session.state.unplaced.values()})

    blocked = {**DEVICES, "actions": "enqueue"}
    assert inside(*ONE, slice_("n1", "a"), pods_with_own("p", "q", "r"), do=shapes, conf=blocked) == 1


def test_other_pods_are_placed_as_if_there_were_no_claims() -> None:
    plain = [node("n1"), node("n2"), gang("g", 3)]
    with_devices = [*plain, device_class(), slice_("n1", "a"), claim("c")]
    assert binds(plan(*plain)) == binds(plan(*with_devices))


# --- evictions

PREEMPT = conf("allocate, preempt", ["priority", "gang", "conformance"], ["predicates", "nodeorder"])
LEVELS = [priority_class("low", 1), priority_class("high", 100)]


def test_a_pod_of_higher_priority_gets_the_device_of_a_lower_one() -> None:
    low = [
        group("low", minimum=0, phase="Running", priority="low"),
        claiming("l", "used", group="low", node="n1", priority=1),
    ]
    used = claim("used", held=["n1/a"], node="n1", by=["l"])
    high: list[Objects] = [group("high", priority="high"), pods_with_own("h", group="high", priority=100)]
    objects: list[Objects] = [*LEVELS, node("n1", cpu=99), device_class(), slice_("n1", "a"), low, used, high]
    found = plan_of(*objects, conf=PREEMPT)
    assert ([each.pod for each in found.evictions], nominations(found)) == (["ns/l"], {"h": "n1"})


def test_no_pod_is_evicted_for_a_device_that_no_node_has() -> None:
    low = [
        group("low", minimum=0, phase="Running", priority="low"),
        claiming("l", "used", group="low", node="n1", priority=1),
    ]
    used = claim("used", held=["n1/a"], node="n1", by=["l"])
    wants = pods_with_own("h", group="high", priority=100, requests=[ask("g", "gpu", f'{MODEL} == "x"')])
    objects: list[Objects] = [
        *LEVELS,
        node("n1", cpu=99),
        device_class(),
        slice_("n1", device("a", model="y")),
        low,
        used,
        group("high", priority="high"),
        wants,
    ]
    found = plan_of(*objects, conf=PREEMPT)
    assert (found.evictions, nominations(found)) == ((), {})


def test_an_evicted_device_is_not_given_to_a_third_pod_at_once() -> None:
    """The pod that it was evicted for is nominated; a pod that comes later in the cycle finds no device."""
    low = [
        group("low", minimum=0, phase="Running", priority="low"),
        claiming("l", "used", group="low", node="n1", priority=1),
    ]
    used = claim("used", held=["n1/a"], node="n1", by=["l"])
    high = [group(name, created=n, priority="high") for n, name in enumerate(("h1", "h2"))]
    wants = [pods_with_own(name, group=name, priority=100, created=n) for n, name in enumerate(("h1", "h2"))]
    objects: list[Objects] = [*LEVELS, node("n1", cpu=99), device_class(), slice_("n1", "a"), low, used, high, wants]
    found = plan_of(*objects, conf={**PREEMPT, "actions": "allocate, preempt, backfill, allocate"})
    assert (binds(found), nominations(found)) == ({}, {"h1": "n1"})


# --- claims whose devices are where their pod cannot start


def freed(found: Plan) -> list[str]:
    return [each.claim.partition("/")[2] for each in found.released]


def test_a_claim_gives_its_devices_back_if_its_pod_cannot_start_where_they_are() -> None:
    held = claim("c", held=["n1/a"], node="n1", by=["p"])
    full = [node("n1", cpu=1), pod("r", node="n1", cpu=1, uid="r")]
    there = [full, node("n2"), device_class(), group(), slice_("n1", "a"), slice_("n2", "b")]
    found = plan(*there, held, claiming("p", "c", cpu=1))
    assert (binds(found), freed(found)) == ({}, ["c"])
    assert [(each.pod, len(each.devices)) for each in found.released] == [(f"{NAMESPACE}/p", 1)]
    again = plan(*there, claim("c"), claiming("p", "c", cpu=1))
    assert (binds(again), given(again)) == ({"p": "n2"}, {"c": ["g=n2/b"]})


@pytest.mark.parametrize(
    ("what", "held", "more"),
    [
        ("another pod may use", claim("c", held=["n1/a"], node="n1", by=["p", "q"]), []),
        ("a pod runs with", claim("c", held=["n1/a"], node="n1", by=["r"]), [claiming("r", "c", node="n1")]),
        ("is being deleted", claim("c", held=["n1/a"], node="n1", deleting=True), []),
        ("every node reaches", claim("c", held=["shared/a"]), []),
    ],
)
def test_a_claim_keeps_devices_that(what: str, held: Object, more: list[Object]) -> None:
    full = [node("n1", cpu=1), pod("full", node="n1", cpu=1, uid="full")]
    found = plan(
        full, node("n2", cpu=1, unschedulable=True), device_class(), group(), slice_("n1", "a"), slice_("", "a"),
        held, more, claiming("p", "c", cpu=1),
    )  # fmt: skip
    assert (binds(found), freed(found)) == ({}, [])


def test_a_claim_keeps_its_devices_while_its_pod_waits_for_its_gang() -> None:
    held = claim("c", held=["n1/a"], node="n1", by=["p-w-0"])
    found = plan(
        node("n1"), node("n2", cpu=1), device_class(), group(minimum=2), slice_("n1", "a"), held,
        claiming("p-w-0", "c", cpu=1), pod("p-w-1", cpu=64),
    )  # fmt: skip
    assert (binds(found), freed(found)) == ({}, [])


# --- binding conditions

PREPARED: Data = {"bindingConditions": ["Attached"], "bindingFailureConditions": ["Failed"]}


def test_an_allocation_names_the_conditions_on_which_its_pod_is_bound() -> None:
    got = plan(ONE, slice_("n1", device("a", **PREPARED)), pods_with_own("p"))
    (allocation,) = [each.allocation for bind in got.binds for each in bind.claims]
    assert allocation is not None
    (result,) = allocation.devices.results or []
    assert (result.binding_conditions, result.binding_failure_conditions) == (["Attached"], ["Failed"])


def test_devices_that_need_no_preparation_are_preferred() -> None:
    local, shared = slice_("n1", device("a", **PREPARED), device("b")), slice_("", "c")
    assert given(plan(ONE, local, pods_with_own("p"))) == {"p-c": ["g=n1/b"]}
    mixed = plan(ONE, slice_("n1", device("a", **PREPARED)), shared, pods_with_own("p", "q"))
    assert given(mixed) == {"p-c": ["g=shared/c"], "q-c": ["g=n1/a"]}


@pytest.mark.parametrize("binds_to_node", [True, False])
def test_a_device_that_binds_to_its_node_makes_the_claim_available_there_only(binds_to_node: bool) -> None:
    fabric = slice_("", device("a", bindsToNode=binds_to_node, **PREPARED))
    nodes = [node("n1", cpu="1"), node("n2", cpu="4")]
    shared = [claim("c"), claiming("p", "c"), claiming("q", "c")]
    got = plan(nodes, device_class(), group(minimum=1), fabric, shared)
    places = binds(got)
    allocation = got.binds[0].claims[0].allocation
    assert allocation is not None
    assert (allocation.node_selector is not None) == binds_to_node
    if allocation.node_selector is not None:
        (term,) = allocation.node_selector.node_selector_terms or []
        (field,) = term.match_fields or []
        assert [field.values] == [[place] for place in dict.fromkeys(places.values())]


# --- rules for taints


@pytest.mark.parametrize(
    ("selector", "expected"),
    [
        (None, {"p-c": ["g=n1/a"], "q-c": ["g=n1/b"]}),
        ({}, {}),
        ({"device": "a"}, {"p-c": ["g=n1/b"]}),
        ({"driver": DRIVER, "pool": "n1", "device": "b"}, {"p-c": ["g=n1/a"]}),
        ({"pool": "n1"}, {}),
        ({"driver": "other.example.com"}, {"p-c": ["g=n1/a"], "q-c": ["g=n1/b"]}),
        ({"deviceClassName": "gpu", "device": "a"}, {"p-c": ["g=n1/b"]}),
        ({"deviceClassName": "missing"}, {"p-c": ["g=n1/a"], "q-c": ["g=n1/b"]}),
        ({"selectors": [{"cel": {"expression": f'device.driver == "{DRIVER}"'}}], "device": "b"}, {"p-c": ["g=n1/a"]}),
        ({"selectors": [{"cel": {"expression": 'device.driver == "other"'}}]}, {"p-c": ["g=n1/a"], "q-c": ["g=n1/b"]}),
    ],
)
def test_a_rule_taints_the_devices_that_it_selects(selector: Data | None, expected: dict[str, list[str]]) -> None:
    got = plan(ONE, slice_("n1", "a", "b"), taint_rule("r", selector), pods_with_own("p", "q"))
    assert given(got) == expected


def test_a_claim_that_tolerates_the_taint_of_a_rule_gets_the_device() -> None:
    tolerant = ask(tolerations=[{"key": "broken", "operator": "Exists"}])
    got = plan(ONE, slice_("n1", "a"), taint_rule("r", {}, "NoExecute"), pods_with_own("p", requests=[tolerant]))
    assert given(got) == {"p-c": ["g=n1/a"]}


def test_a_rule_with_a_selector_that_cannot_be_compiled_taints_no_device_and_says_so() -> None:
    bad = taint_rule("r", {"selectors": [{"cel": {"expression": "device.("}}]})
    got = plan(ONE, slice_("n1", "a"), bad, pods_with_own("p"))
    assert given(got) == {"p-c": ["g=n1/a"]}
    assert [each for each in findings(got) if "DeviceTaintRule r" in each and "do not get its taint" in each]


def test_a_rule_without_effect_on_scheduling_excludes_no_device() -> None:
    got = plan(ONE, slice_("n1", "a"), taint_rule("r", {}, "None"), pods_with_own("p"))
    assert given(got) == {"p-c": ["g=n1/a"]}


def test_a_rule_that_is_deleted_excludes_no_device_any_more() -> None:
    state = ClusterState()
    for obj in flat([node("n1"), slice_("n1", "a"), taint_rule("r", {})]):
        state.apply(Changed(obj))
    assert state.resource_claims.inventory(state.nodes).devices[0].taints
    state.apply(Gone("DeviceTaintRule", "r"))
    assert not state.resource_claims.inventory(state.nodes).devices[0].taints
