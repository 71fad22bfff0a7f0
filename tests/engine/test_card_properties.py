"""What holds for capacity-card on any cluster: quotas are kept, the figures are true, and nothing depends on order."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kilauea.api.meta import Object
from kilauea.engine.events import Changed, Event, Gone
from kilauea.engine.plan import Plan
from support.builders import Data, Entry, Objects, conf, flat, key_of, placements, plan_in, state_of
from support.card_objects import A, B, annotated, card_group, card_node, card_pod, card_queue
from support.probes import fingerprint

NAMES = (A, B, f"{A}|{B}", f"{B}|{A}", None)
OWNERS = ("Job", "ReplicaSet", "")
MODEL = {"a1": A, "a2": A, "b1": B, "b2": B}


def conf_of(check: str, unlimited: bool) -> Data:
    arguments = {
        "cardNodeCheck": check,
        "cardUnlimitedCpuMemory": unlimited,
        "podOwnerReferenceToServiceType": {"Job": "training", "ReplicaSet": "inference"},
    }
    tiers: list[list[Entry]] = [
        ["priority", {"name": "gang", "enableReclaimable": False}],
        ["predicates", ("capacity-card", arguments)],
    ]
    return conf("enqueue, allocate, backfill, reclaim", *tiers)


@st.composite
def jobs(draw: st.DrawFn, name: str) -> list[Object]:
    """A group whose pods run, wait or are done."""
    size = draw(st.integers(0, 4))
    phase = draw(st.sampled_from(("Pending", "Inqueue", "Running")))
    request: Any = draw(st.sampled_from((None, {A: 2}, {f"{A}|{B}": 3}, {})))
    out = [
        card_group(
            name,
            request,
            draw(st.sampled_from((None, "inference", "training"))),
            draw(st.sampled_from((None, 1))),
            queue=draw(st.sampled_from(("q", "r"))),
            minimum=draw(st.integers(0, max(size, 1))),
            phase=phase,
        )
    ]
    card, owner = draw(st.sampled_from(NAMES)), draw(st.sampled_from(OWNERS))
    for i in range(size):
        gpu = draw(st.integers(0, 3))
        state = draw(st.sampled_from(("Running", "Running", "Succeeded"))) if phase == "Running" else "Pending"
        choices = [n for n, model in MODEL.items() if card is None or model in card]
        on = None if state == "Pending" else draw(st.sampled_from(choices))
        made = card_pod(f"{name}-{i}", name, card, gpu, node=on, phase=state, owner=owner)
        out.append(annotated(made, preemptable=draw(st.sampled_from((None, "true", "false")))))
    return out


@st.composite
def clusters(draw: st.DrawFn) -> list[Object]:
    """Four nodes of two models, two queues, and some jobs."""
    nodes = [card_node(name, model, draw(st.integers(0, 6)), cpu=12) for name, model in MODEL.items()]
    quotas = [{A: draw(st.integers(0, 6)), B: draw(st.integers(0, 6))} for _ in "qr"]
    queues = [
        card_queue(name, quota, cpu=draw(st.sampled_from((100, 4))), priority=draw(st.integers(0, 1)))
        for name, quota in zip("qr", quotas, strict=True)
    ]
    return flat([nodes, queues, [draw(jobs(f"j{i}")) for i in range(draw(st.integers(0, 5)))]])


def held(objects: list[Object], plan: Plan | None = None) -> dict[str, Counter[str]]:
    """Cards of each queue by model that pods hold on nodes, or are promised, once the plan is carried out."""
    of_group = {o.name: o.spec.queue for o in objects if o.kind == "PodGroup"}  # type: ignore[attr-defined]
    out: dict[str, Counter[str]] = {"q": Counter(), "r": Counter()}
    gone = {e.pod for e in plan.evictions} if plan else set()
    where = {p.pod: p.node for p in placements(plan)} if plan else {}
    for pod in (o for o in objects if o.kind == "Pod"):
        body: Any = pod
        node = where.get(pod.key) or (body.spec.node_name if body.status.phase == "Running" else None)
        card = pod.annotations.get("volcano.sh/card.name")
        asked = body.spec.containers[0].resources.requests.get("nvidia.com/gpu", 0)
        if node and card and asked and pod.key not in gone:
            model = card if "|" not in card else MODEL[node]
            out[of_group[body.metadata.annotations["scheduling.k8s.io/group-name"]]][model] += asked
    return out


def offered(objects: list[Object]) -> set[str]:
    """Models of which there are any cards."""
    nodes: list[Any] = [o for o in objects if o.kind == "Node"]
    return {MODEL[n.name] for n in nodes if n.status.allocatable.get("nvidia.com/gpu")}


def quota(objects: list[Object], queue: str, model: str) -> int:
    of_queue = next(o for o in objects if o.kind == "Queue" and o.name == queue)
    return int(state_of(of_queue).queues[queue].cards.amounts[model]) // 1000


@given(clusters(), st.sampled_from(("multi", "all")), st.booleans())
def test_no_queue_gets_more_cards_than_its_quota(objects: list[Object], check: str, unlimited: bool) -> None:
    before, after = held(objects), held(objects, plan_in(state_of(objects), conf_of(check, unlimited)))
    for queue, cards in after.items():
        for model, amount in cards.items():
            assert amount <= max(quota(objects, queue, model), before[queue][model])


@given(clusters(), st.sampled_from(("none", "multi", "all")), st.booleans())
def test_the_figures_are_what_the_plan_leads_to(objects: list[Object], check: str, unlimited: bool) -> None:
    plan = plan_in(state_of(objects), conf_of(check, unlimited))
    if offered(objects) != {A, B}:
        return  # cards that no node has are not counted
    for queue, cards in held(objects, plan).items():
        allocated = plan.queues[queue].allocated
        counted = {n: v // 1000 for n, v in allocated.items() if n not in ("cpu", "memory") and v}
        assert counted == {model: amount for model, amount in cards.items() if amount}
        assert all(amount >= 0 for amount in allocated.values())


@pytest.mark.slow
@given(clusters(), st.randoms(use_true_random=False))
def test_neither_the_order_of_objects_nor_a_cycle_before_matters(objects: list[Object], rng: Any) -> None:
    usable = conf_of("multi", True)
    state = state_of(objects)
    before = fingerprint(state)
    plan = plan_in(state, usable)
    assert fingerprint(state) == before
    shuffled: Objects = rng.sample(objects, len(objects))
    assert plan_in(state, usable) == plan == plan_in(state_of(shuffled), usable)


@pytest.mark.slow
@given(clusters(), clusters())
def test_what_is_kept_from_cycle_to_cycle_changes_nothing(before: list[Object], after: list[Object]) -> None:
    """A cluster that became another one is planned like one that always was that."""
    usable = conf_of("multi", True)
    state = state_of(before)
    plan_in(state, usable)
    present = {(o.kind, key_of(o)) for o in after}
    for obj in before:
        if (obj.kind, key_of(obj)) not in present:
            state.apply(Gone(obj.kind, key_of(obj)))
    for obj in after:
        state.apply(Changed(obj))
    assert plan_in(state, usable) == plan_in(state_of(after), usable)


def test_a_job_that_changes_is_counted_again() -> None:
    usable = conf_of("multi", True)
    first = [card_group("g", queue="q", phase="Running"), card_pod("p", "g", A, 2, node="a1")]
    state = state_of(card_node("a1", A), card_queue("q", {A: 8}), first)
    allocated = [plan_in(state, usable).queues["q"].allocated.get(A)]
    steps: list[Event] = [
        Changed(card_pod("p", "g", A, 3, node="a1")),
        Changed(card_pod("o", "g", A, 1, node="a1")),
        Gone("Pod", "ns/o"),
        Changed(card_node("b1", B)),
        Changed(card_pod("p", "g", f"{B}|{A}", 3, node="a1")),
        Gone("PodGroup", "ns/g"),
        Changed(first[0]),
    ]
    for event in steps:
        state.apply(event)
        allocated.append(plan_in(state, usable).queues["q"].allocated.get(A, 0))
    assert allocated == [2000, 3000, 4000, 3000, 3000, 3000, 0, 3000]
