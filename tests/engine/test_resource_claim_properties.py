"""Properties of resource claims: over any cluster, for its whole life, no two claims have the same device."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kilauea.api.core import PodResourceClaim
from kilauea.api.dynamic import ResourceClaim
from kilauea.api.meta import Object, OwnerReference
from kilauea.engine.cycle import cycle
from kilauea.engine.plan import Plan
from kilauea.simulator.claims import with_made_claims
from kilauea.simulator.cluster import SimulatedCluster
from kilauea.simulator.scenario import build_state
from support.builders import NOW, Data, conf, flat, group, node, parsed, priority_class, queue
from support.device_objects import (
    DRIVER,
    ask,
    claim,
    claiming,
    device,
    device_class,
    devices_held,
    slice_,
    template,
    way,
)

EVERYTHING = conf(
    "enqueue, allocate, backfill, preempt, reclaim",
    ["priority", "gang", "conformance"],
    ["predicates", "capacity", "nodeorder"],
)
CYCLES = 6
GPU = "example.com/gpu"
REQUESTS: list[list[Data]] = [
    [ask()],
    [ask(count=2)],
    [ask("g", "gpu", f'device.attributes["{DRIVER}"].kind == "x"')],
    [ask(), ask("h", "gpu", f'device.attributes["{DRIVER}"].kind == "y"')],
    [ask(allocationMode="All")],
    [{"name": "g", "firstAvailable": [way("two", count=2), way("one")]}],
    [ask("g", adminAccess=True)],
    [ask("g", capacity={"requests": {"memory": "1"}})],
    [ask("g", capacity={"requests": {"memory": "2"}}, count=2)],
]
COUNTERS: Data = {"sharedCounters": [{"name": "card", "counters": {"memory": {"value": 3}}}]}


@st.composite
def clusters(draw: st.DrawFn) -> list[Object]:
    """Nodes with devices of two kinds, some of which share counters; devices of all nodes; gangs that run and wait."""
    names = [f"n{i}" for i in range(draw(st.integers(1, 3)))]
    out: list[Any] = [node(name, cpu=4, resources={GPU: draw(st.sampled_from([0, 0, 1]))}) for name in names]
    out += [device_class(extendedResourceName=GPU), queue("q"), priority_class("low", 1), priority_class("high", 100)]
    for place in (*names, ""):
        counted, listed = draw(st.booleans()), []
        for number in range(draw(st.integers(0, 3))):
            takes = [{"counterSet": "card", "counters": {"memory": {"value": draw(st.integers(1, 2))}}}]
            more: dict[str, Any] = {"consumesCounters": takes} if counted else {}
            if draw(st.booleans()):
                more |= {"allowMultipleAllocations": True, "capacity": {"memory": "3"}}
            listed.append(device(f"d{number}", kind=draw(st.sampled_from("xy")), **more))
        if listed:
            out.append(slice_(place, *listed, **(COUNTERS if counted else {})))
    shared = claim("shared", *draw(st.sampled_from(REQUESTS[:3])))
    out.append(shared)
    for number in range(draw(st.integers(1, 5))):
        out += draw(gangs(f"j{number}", names))
    return flat(out)


@st.composite
def gangs(draw: st.DrawFn, name: str, nodes: Sequence[str]) -> list[Object]:
    """A gang; its pods have claims of their own, made by hand or by template, share one, or want an extended resource.

    Pods with a template come back when they are evicted, with new claims.
    """
    size = draw(st.integers(1, 3))
    level = draw(st.sampled_from(["low", "high"]))
    priority = {"low": 1, "high": 100}[level]
    requests = draw(st.sampled_from(REQUESTS))
    constraints = draw(st.sampled_from([[], [{"matchAttribute": f"{DRIVER}/kind"}]]))
    out: list[Object] = [group(name, minimum=draw(st.integers(0, size)), priority=level, phase="Inqueue")]
    out.append(template(f"{name}-t", *requests))
    for number in range(size):
        pod = f"{name}-w-{number}"
        kind = draw(st.sampled_from(["shared", "own", "own", "template", "template", "extended", "extended"]))
        named = {"shared": ["shared"], "own": [f"{pod}-c"], "template": [], "extended": []}[kind]
        asked = {GPU: draw(st.integers(1, 2))} if kind == "extended" else {"cpu": 1}
        one = claiming(pod, *named, group=name, priority=priority, requests=asked, terminationGracePeriodSeconds=1)
        out.append(one)
        if kind == "own":
            out.append(claim(f"{pod}-c", *requests, constraints=constraints, owner=pod))
        if kind in ("template", "extended"):
            one.metadata.owner_references = [OwnerReference("ReplicaSet", name, name, controller=True)]
        if kind == "template":
            one.spec.resource_claims = [PodResourceClaim("c", resource_claim_template_name=f"{name}-t")]  # type: ignore[attr-defined]
    return with_made_claims(out)


def check(objects: Sequence[Object]) -> None:
    """No device is held twice unless claims share it, and neither counters nor capacities are exceeded."""
    held = Counter(devices_held(objects))
    used: Counter[str] = Counter()
    by_name = {
        (obj.spec.driver, obj.spec.pool.name, each.name): each  # type: ignore[attr-defined]
        for obj in objects
        if obj.kind == "ResourceSlice"
        for each in obj.spec.devices or ()  # type: ignore[attr-defined]
    }
    several = {name for name, each in by_name.items() if each.allow_multiple_allocations}
    assert not [each for each, times in held.items() if times > 1 and each not in several], held
    parts: Counter[tuple[str, str, str]] = Counter()
    for one in (obj for obj in objects if isinstance(obj, ResourceClaim) and obj.status and obj.status.allocation):
        for result in one.status.allocation.devices.results or ():  # type: ignore[union-attr]
            name = (result.driver, result.pool, result.device)
            if name in several and not result.admin_access:
                parts[name] += int((result.consumed_capacity or {})["memory"])
    assert all(amount <= 3 for amount in parts.values()), parts
    for each in held:
        for taken in by_name[each].consumes_counters or ():
            for counter in (taken.counters or {}).values():
                used[each[1]] += int(counter.value)
    assert all(amount <= 3 for amount in used.values()), used


def check_plan(plan: Plan, objects: Sequence[Object]) -> None:
    """A pod starts only with all its claims, on a node that reaches their devices."""
    claims = {obj.key: obj for obj in objects if isinstance(obj, ResourceClaim)}
    offering = {obj.name for obj in objects if obj.kind == "Node" and int(obj.status.allocatable[GPU])}  # type: ignore[attr-defined]
    pods = {obj.key: obj for obj in objects if obj.kind == "Pod"}
    for bind in plan.binds:
        extended = GPU in pods[bind.pod].spec.containers[0].resources.requests  # type: ignore[attr-defined]
        assert bool(bind.claims) != (extended and bind.node in offering), bind
        for each in bind.claims:
            status = claims[each.claim].status if each.claim in claims else None
            allocation = each.allocation or (status.allocation if status else None)
            assert allocation is not None, bind
            pools = {result.pool for result in allocation.devices.results or ()}
            assert pools <= {bind.node, "shared"}, (bind, pools)


def decide(objects: Sequence[Object], now: int) -> Plan:
    known, plugins, actions = parsed(EVERYTHING)
    plan = cycle(build_state(objects), known, now, plugins=plugins, actions=actions)
    assert not [each for each in plan.findings if each.error], plan.findings
    return plan


@pytest.mark.slow
@given(clusters())
@settings(max_examples=60, deadline=None)
def test_no_device_is_given_twice_in_the_life_of_a_cluster(objects: list[Object]) -> None:
    """Each cycle begins with a new state, as after a restart: what is taken stands in the objects alone."""
    simulated = SimulatedCluster(objects, NOW)
    for _ in range(CYCLES):
        plan = decide(simulated.objects, simulated.now)
        check_plan(plan, simulated.objects)
        simulated.carry_out(plan)
        check(simulated.objects)


@pytest.mark.slow
@given(clusters())
@settings(max_examples=25, deadline=None)
def test_a_state_that_follows_events_decides_as_a_new_one_does(objects: list[Object]) -> None:
    known, plugins, actions = parsed(EVERYTHING)
    simulated = SimulatedCluster(objects, NOW)
    state = build_state(objects)
    for _ in range(CYCLES):
        plan = cycle(state, known, simulated.now, plugins=plugins, actions=actions)
        assert not state.resource_claims.decided  # a plan leaves the state as it was
        assert plan.binds == decide(simulated.objects, simulated.now).binds
        for event in simulated.carry_out(plan):
            state.apply(event)


@given(clusters())
@settings(max_examples=25, deadline=None)
def test_what_waits_at_rest_does_not_fit(objects: list[Object]) -> None:
    """A cluster comes to rest: no pod is nominated or evicted forever for the sake of devices."""
    simulated = SimulatedCluster(objects, NOW)
    for _ in range(30):
        plan = decide(simulated.objects, simulated.now)
        if not simulated.carry_out(plan) and simulated.settled:
            return
    plan = decide(simulated.objects, simulated.now)
    raise AssertionError([plan.binds, plan.nominations, plan.evictions])
