"""Devices that several claims share, and claims with alternatives on nodes that differ."""

from __future__ import annotations

from typing import Any

import pytest

from kilauea.api.meta import Object
from kilauea.engine.plan import Plan
from support.builders import Data, binds, group, node, nominations, plan_of
from support.device_objects import (
    DEVICES,
    DRIVER,
    ask,
    build,
    claim,
    claiming,
    device,
    device_class,
    given,
    pods_with_own,
    slice_,
    way,
)

STEPS = {
    "value": "40Gi",
    "requestPolicy": {"default": "5Gi", "validRange": {"min": "5Gi", "max": "20Gi", "step": "5Gi"}},
}
SIZES = {"value": "40Gi", "requestPolicy": {"default": "10Gi", "validValues": ["10Gi", "20Gi"]}}


def plan(*objects: Any) -> Plan:
    return plan_of(group(), *objects, conf=DEVICES)


def shared(name: str, memory: Any = "40Gi", **more: Any) -> Data:
    return device(name, capacity={"memory": memory}, allowMultipleAllocations=True, **more)


def part(memory: str | None, **more: Any) -> Data:
    capacity: Data = {} if memory is None else {"capacity": {"requests": {"memory": memory}}}
    return ask(**capacity, **more)


def consumed(found: Plan) -> dict[str, list[str]]:
    """By claim the memory that it takes of each of its devices."""
    return {
        each.claim.partition("/")[2]: [
            str((result.consumed_capacity or {}).get("memory")) for result in each.allocation.devices.results or ()
        ]
        for bind in found.binds
        for each in bind.claims
        if each.allocation is not None
    }


@pytest.mark.parametrize(
    ("memory", "asked", "takes"),
    [
        ("40Gi", "10Gi", "10Gi"),
        ("40Gi", None, "40Gi"),
        ("40Gi", "1500m", "1500m"),
        (STEPS, None, "5Gi"),
        (STEPS, "1Gi", "5Gi"),
        (STEPS, "6Gi", "10Gi"),
        (STEPS, "10Gi", "10Gi"),
        (STEPS, "21Gi", None),
        (SIZES, None, "10Gi"),
        (SIZES, "11Gi", "20Gi"),
        (SIZES, "30Gi", None),
        ("40Gi", "41Gi", None),
    ],
)
def test_a_claim_takes_what_it_asks_rounded_up_as_the_device_says(memory: Any, asked: str, takes: str | None) -> None:
    found = plan(
        node("n1"), device_class(), slice_("n1", shared("a", memory)), claiming("p", "c"), claim("c", part(asked))
    )
    assert consumed(found) == ({} if takes is None else {"c": [takes]})
    assert binds(found) == ({} if takes is None else {"p": "n1"})


def test_claims_share_a_device_until_its_capacity_is_taken() -> None:
    pods = pods_with_own("p", "q", "r", requests=[part("15Gi")])
    found = plan(node("n1"), device_class(), slice_("n1", shared("a")), pods)
    assert given(found) == {"p-c": ["g=n1/a"], "q-c": ["g=n1/a"]}
    assert "cannot allocate all claims" in found.pending[0].message


def test_a_claim_may_get_two_shares_of_one_device_unless_an_attribute_must_differ() -> None:
    devices = slice_("n1", shared("a", id="a"), shared("b", id="b"))
    both = claim("c", part("10Gi", count=2))
    assert given(plan(node("n1"), device_class(), devices, claiming("p", "c"), both)) == {"c": ["g=n1/a", "g=n1/a"]}
    apart = claim("c", part("10Gi", count=2), constraints=[{"distinctAttribute": f"{DRIVER}/id"}])
    assert given(plan(node("n1"), device_class(), devices, claiming("p", "c"), apart)) == {"c": ["g=n1/a", "g=n1/b"]}


def used(name: str, memory: str, by: str) -> Object:
    """A claim that holds a share of the device a."""
    held: Any = claim(name, held=["n1/a"], node="n1", by=[by])
    held.status.allocation.devices.results[0].consumed_capacity = {"memory": memory}
    return held  # type: ignore[no-any-return]


def test_what_claims_hold_of_a_device_is_taken() -> None:
    there = [
        node("n1"),
        device_class(),
        slice_("n1", shared("a")),
        used("u", "30Gi", "r"),
        claiming("r", "u", node="n1"),
    ]
    assert given(plan(*there, claiming("p", "c"), claim("c", part("10Gi")))) == {"c": ["g=n1/a"]}
    assert given(plan(*there, claiming("p", "c"), claim("c", part("11Gi")))) == {}


def test_a_pod_is_nominated_to_a_share_of_a_pod_that_is_terminating() -> None:
    ending = claiming("r", "u", node="n1", deleting=True)
    there = [node("n1"), device_class(), slice_("n1", shared("a")), used("u", "30Gi", "r"), ending]
    found = plan(*there, claiming("p", "c"), claim("c", part("11Gi")))
    assert nominations(found) == {"p": "n1"}


def test_shares_have_names_of_their_own_in_the_form_of_a_uuid() -> None:
    pods = pods_with_own("p", "q", requests=[part("10Gi")])
    found = plan(node("n1"), device_class(), slice_("n1", shared("a")), pods)
    names = [
        result.share_id or ""
        for bind in found.binds
        for each in bind.claims
        for result in (each.allocation.devices.results if each.allocation else None) or ()
    ]
    assert len(set(names)) == 2
    assert [[len(part) for part in name.split("-")] for name in names] == [[8, 4, 4, 4, 12]] * 2


def test_shares_of_a_device_take_the_counters_of_its_pool_once() -> None:
    whole = build(
        {
            "kind": "ResourceSlice",
            "metadata": {"name": "counters"},
            "spec": {
                "driver": DRIVER,
                "nodeName": "n1",
                "pool": {"name": "n1", "generation": 1, "resourceSliceCount": 2},
                "sharedCounters": [{"name": "card", "counters": {"parts": {"value": "1"}}}],
            },
        }
    )
    takes = [{"counterSet": "card", "counters": {"parts": {"value": "1"}}}]
    devices = slice_("n1", shared("a", consumesCounters=takes), shared("b", consumesCounters=takes), slices=2)
    pods = pods_with_own("p", "q", requests=[part("15Gi")])
    assert given(plan(node("n1"), device_class(), whole, devices, pods)) == {"p-c": ["g=n1/a"], "q-c": ["g=n1/a"]}
    third = pods_with_own("r", requests=[part("30Gi")])  # b would do, but the counter of its pool is taken
    assert given(plan(node("n1"), device_class(), whole, devices, pods, third)).keys() == {"p-c", "q-c"}


def test_a_selector_sees_if_claims_share_a_device() -> None:
    alone = ask("g", "gpu", "!device.allowMultipleAllocations")
    found = plan(node("n1"), device_class(), slice_("n1", shared("a"), "b"), claiming("p", "c"), claim("c", alone))
    assert given(found) == {"c": ["g=n1/b"]}


def test_a_pod_goes_to_the_node_that_has_the_better_alternative() -> None:
    large = f'device.attributes["{DRIVER}"].model == "large"'
    request = {"name": "g", "firstAvailable": [way("large", "gpu", large), way("any")]}
    slices = [slice_("n1", device("a", model="small")), slice_("n2", device("b", model="large"))]
    found = plan(node("n1"), node("n2"), device_class(), slices, pods_with_own("p", "q", requests=[request]))
    assert given(found) == {"p-c": ["g/large=n2/b"], "q-c": ["g/any=n1/a"]}


def test_the_alternatives_of_a_claim_that_pods_share_count_too() -> None:
    large = f'device.attributes["{DRIVER}"].model == "large"'
    request = {"name": "g", "firstAvailable": [way("large", "gpu", large), way("any")]}
    slices = [slice_("n1", device("a", model="small")), slice_("n2", device("b", model="large"))]
    found = plan(node("n1"), node("n2"), device_class(), slices, claiming("p", "c"), claim("c", request))
    assert given(found) == {"c": ["g/large=n2/b"]}
