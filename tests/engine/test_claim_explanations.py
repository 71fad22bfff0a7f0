"""Reasons of pods that wait for devices: how many match what they ask, and why they cannot have them."""

from __future__ import annotations

from typing import Any

import pytest

from kilauea.engine.events import Changed, Gone
from kilauea.engine.explain.group import with_hint
from support.builders import (
    NAMESPACE,
    Data,
    Objects,
    binds,
    conf,
    group,
    node,
    nominations,
    pending,
    plan_in,
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
    pods_with_own,
    slice_,
    special_claim,
)

GPU = "example.com/gpu"
BASE = [node("n1"), node("n2"), device_class(), group(minimum=1)]
MODEL = f'device.attributes["{DRIVER}"].model'
HELD = [claim("r", held=["n1/a"], node="n1", by=["r"]), claiming("r", "r", node="n1", group="")]


def reason(name: str, *objects: Any) -> str:
    """Why a pod waits, with all details."""
    state = state_of(*objects)
    plan = plan_in(state, DEVICES)
    return with_hint(pending(plan)[name], state, plan).message


def counted(name: str, *objects: Any) -> str:
    """What the reason says of the devices, in parentheses."""
    return reason(name, *objects).rpartition("(")[2].removesuffix(")")


@pytest.mark.parametrize(
    ("request_", "devices", "says"),
    [
        ({"count": 2}, ["a"], "1 device matches, in use"),
        ({"count": 2}, ["a", "b"], "2 devices match: 1 in use, 1 free"),
        ({"count": 4}, ["a", "b", "c"], "3 devices match: 1 in use, 2 free"),
        (
            {"capacity": {"requests": {"memory": "2"}}},
            ["a", device("b", capacity={"memory": 1}), device("c", capacity={"memory": 1})],
            "3 devices match, all without enough capacity",
        ),
        (
            {"capacity": {"requests": {"memory": "2"}}},
            [device("a", capacity={"memory": 2}), device("b", capacity={"memory": 1})],
            "2 devices match: 1 in use, 1 without enough capacity",
        ),
        (
            {},
            ["a", device("b", taints=[{"key": "broken", "effect": "NoSchedule"}])],
            "2 devices match: 1 in use, 1 with a taint that the request does not tolerate",
        ),
        ({"count": 2, "allocationMode": "All"}, ["a", "b"], "2 devices match: 1 in use, 1 free"),
    ],
)
def test_devices_that_match_are_counted_by_what_is_the_matter_with_them(
    request_: Data, devices: list[Any], says: str
) -> None:
    wanted = pods_with_own("p", requests=[ask(**request_)])
    assert counted("p", BASE, slice_("n1", *devices), HELD, wanted) == says


def test_nothing_matches() -> None:
    wanted = pods_with_own("p", requests=[ask("g", "gpu", f'{MODEL} == "b"')])
    assert counted("p", BASE, slice_("n1", device("a", model="a")), wanted) == "no device matches"


def test_devices_that_the_plan_gives_to_other_pods_are_in_use() -> None:
    first = pods_with_own("a", requests=[ask(count=2)])
    assert counted("p", BASE, slice_("n1", "a", "b"), first, pods_with_own("p")) == "2 devices match, both in use"


def test_devices_are_free_but_on_different_nodes() -> None:
    objects = [BASE, slice_("n1", "a"), slice_("n2", "b"), pods_with_own("p", requests=[ask(count=2)])]
    assert counted("p", *objects) == "2 devices match, both free; at most 1 is free for one node"


def test_capacity_and_counters_that_are_used_up_are_named() -> None:
    share: Data = {"allowMultipleAllocations": True, "capacity": {"memory": {"value": 3}}}
    half = [ask(capacity={"requests": {"memory": "2"}})]
    wanted = pods_with_own("a", "p", requests=half)
    policy = {"value": 3, "requestPolicy": {"default": 1, "validRange": {"min": 1}}}
    share["capacity"]["memory"] = policy
    assert counted("p", BASE, slice_("n1", device("d", **share)), wanted) == (
        "1 device matches, without enough capacity left"
    )
    counters: Data = {"sharedCounters": [{"name": "card", "counters": {"memory": {"value": 3}}}]}
    takes: Data = {"consumesCounters": [{"counterSet": "card", "counters": {"memory": {"value": 2}}}]}
    parts = slice_("n1", device("x", **takes), device("y", **takes), **counters)
    assert counted("p", BASE, parts, pods_with_own("a", "p")) == (
        "2 devices match: 1 in use, 1 without enough capacity left"
    )


def test_devices_that_are_kept_for_a_nominated_pod_are_not_free() -> None:
    """Pod p waits for the device of a pod that ends; the other two are its own already."""
    ending = [claim("r", owner="r", held=["n1/a"], node="n1", by=["r"]),
              claiming("r", "r", node="n1", group="low", deleting=True), group("low", phase="Running")]  # fmt: skip
    first: list[Objects] = [priority_class("high", 9), group("high", priority="high"),
             pods_with_own("p", requests=[ask(count=3)], group="high", priority=9, nominated="n1")]  # fmt: skip
    objects: list[Objects] = [
        BASE,
        slice_("n1", "a", "b", "c"),
        ending,
        first,
        pods_with_own("q", requests=[ask(count=2)]),
    ]
    state = state_of(*objects)
    plan = plan_in(state, conf("allocate", ["priority", "gang"], ["predicates"]))
    assert nominations(plan) == {"p": "n1"}
    message = with_hint(pending(plan)["q"], state, plan).message
    assert message.endswith("(3 devices match: 1 in use, 2 kept for nominated pods)")


@pytest.mark.parametrize("remedy", ["a device is added", "the pod that has one ends"])
def test_once_as_many_devices_are_free_as_the_reason_asks_for_the_pod_starts(remedy: str) -> None:
    objects: list[Objects] = [BASE, slice_("n1", "a", "b"), HELD, pods_with_own("p", requests=[ask(count=2)])]
    assert counted("p", *objects) == "2 devices match: 1 in use, 1 free"
    state = state_of(*objects)
    if remedy == "a device is added":
        state.apply(Changed(slice_("n1", "a", "b", "c")))
    else:
        state.apply(Gone("Pod", f"{NAMESPACE}/r"))
        state.apply(Gone("ResourceClaim", f"{NAMESPACE}/r"))
    assert binds(plan_in(state, DEVICES)) == {"p": "n1"}


# --- extended resources


def test_devices_of_nodes_that_offer_the_resource_themselves_are_not_free_for_it() -> None:
    served = device_class(extendedResourceName=GPU)
    full = [node("n1", resources={GPU: 1}), pod("x", node="n1", uid="ns/x", requests={GPU: 1})]
    held = [pod("r", node="n2", uid="ns/r", requests={GPU: 1}), special_claim("r", "n2/b", node="n2")]
    objects = [full, node("n2"), served, group(), slice_("n1", "a"), slice_("n2", "b"), held]
    assert counted("p", *objects, pod("p", requests={GPU: 1})) == (
        "2 devices match: 1 in use, 1 on nodes that offer the resource themselves"
    )


def test_the_devices_that_serve_an_extended_resource_are_named() -> None:
    served = device_class(extendedResourceName=GPU)
    held = [pod("r", node="n1", uid="ns/r", requests={GPU: 1}), special_claim("r", "n1/a", node="n1")]
    objects = [node("n1"), served, group(), slice_("n1", "a", "b"), held, pod("p", requests={GPU: 2})]
    assert reason("p", *objects) == (
        f"0/1 nodes are unavailable: 1 Insufficient {GPU}; {GPU} needs 2 devices of class gpu "
        "(2 devices match: 1 in use, 1 free)"
    )
    assert reason("p", node("n1"), served, group(), slice_("n1", "a"), pod("p", requests={GPU: 2})) == (
        f"0/1 nodes are unavailable: 1 Insufficient {GPU}; {GPU} needs 2 devices of class gpu (1 device matches, free)"
    )
