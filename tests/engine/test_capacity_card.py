"""The plugin capacity-card: what queues have and may have in cards, who is admitted, and who goes where."""

from __future__ import annotations

from typing import Any

import pytest

from kilauea.cli.remedy import sentence
from kilauea.engine.explain.group import Change
from kilauea.engine.plan import Plan
from kilauea.engine.plugins.capacity_card.holdings import beyond
from kilauea.simulator.planning import plan_cycles
from kilauea.simulator.scenario import Scenario
from support.builders import (
    GI,
    GPU,
    NOW,
    Data,
    Objects,
    binds,
    codes,
    conf,
    flat,
    gang,
    group,
    node,
    parsed,
    pending,
    phases,
    plan_of,
    pod,
    queue,
    state_of,
)
from support.card_objects import A, B, C, card_group, card_node, card_pod, card_queue, labelled, milli
from support.probes import scores_of

MIG = f"{C}/mig-1g.18gb-mixed"
SLICE = "nvidia.com/mig-1g.18gb"
EITHER = f"{A}|{B}"
FLEET = (
    card_node("a", A),
    card_node("b", B),
    node("slices", labels=labelled(C), resources={SLICE: 7, GPU: 4}),
    node("plain"),
)


def card_conf(actions: str = "enqueue, allocate", **arguments: Any) -> Data:
    """The plugin with gangs and nodes that fit."""
    return conf(actions, ["gang"], ["predicates", ("capacity-card", arguments)])


CARDS = card_conf()


def findings(plan: Plan) -> list[str]:
    return [str(f) for f in plan.findings]


# --- what is wrong with objects


def test_a_broken_quota_is_no_quota_and_is_named() -> None:
    plan = plan_of(
        card_node("n", C), card_queue("q", '{"NVIDIA-H200": "8"}'), group(), card_pod("p", card=C), conf=CARDS
    )
    assert codes(plan) == {"p": "InsufficientScalarQuota"}
    (found,) = plan.findings
    assert (found.where, found.code) == ("queue q", "InvalidCardAnnotation")
    assert found.message.startswith('failed to unmarshal card json: {"NVIDIA-H200": "8"}, key: volcano.sh/card.quota, ')
    assert "name: queue/q, " in found.message


def test_a_broken_request_is_no_request_and_is_named() -> None:
    plan = plan_of(card_node("n", C), card_queue("q", {C: 1}), card_group(request="8", phase="Pending"), conf=CARDS)
    assert phases(plan) == {"g": "Inqueue"}
    assert findings(plan)[0].startswith(
        "pod group ns/g: failed to unmarshal card json: 8, key: volcano.sh/card.request"
    )


def test_a_node_whose_labels_promise_more_than_it_offers_is_named() -> None:
    plan = plan_of(node("n", labels=labelled(C)), card_queue("q", {C: 1}), conf=CARDS)
    assert findings(plan) == [
        f"node n: Node <n> has card <{C}> but no card resource found.",
        f"queue q: no node has the card {C} of its quota",
    ]


def test_a_pod_that_has_to_name_its_card_and_does_not() -> None:
    plan = plan_of(FLEET, card_queue(), group(), card_pod("p"), conf=card_conf(requireCardName=True))
    message = f"Get request resource failed, Queue <q>, error: <no card name set for resource <{GPU}>>"
    assert (pending(plan)["p"].code, pending(plan)["p"].message) == ("GetTaskRequestResourceFailed", message)


# --- figures of queues


def figures(plan: Plan, field: str, name: str = "q") -> dict[str, float]:
    """Figures of a queue, without zeros."""
    return {resource: amount for resource, amount in getattr(plan.queues[name], field).items() if amount}


def test_figures_of_a_queue() -> None:
    one = [card_pod(f"a{i}", "one", C, cpu="3", memory="6Gi", node="n") for i in range(3)]
    two = [card_pod(f"b{i}", "two", C, cpu="3", memory="6Gi") for i in range(2)]
    plan = plan_of(
        card_node("n", C),
        card_queue("q", {C: 8}),
        card_group("one", {C: 4}, cpu=4, memory="8Gi", phase="Running"),
        card_group("two", {C: 2}, cpu=6, memory="12Gi", phase="Inqueue"),
        [*one, *two],
        conf=card_conf("enqueue"),
    )
    assert figures(plan, "allocated") == {"cpu": 9000, "memory": 18 * GI, C: 3000}
    assert figures(plan, "request") == {"cpu": 15000, "memory": 30 * GI, C: 5000}
    assert figures(plan, "elastic") == {"cpu": 5000, "memory": 10 * GI}
    assert figures(plan, "inqueue") == {"cpu": 6000, "memory": 12 * GI, C: 2000}
    assert plan.queues["q"].share == 3 / 8


@pytest.mark.parametrize(
    ("cpu", "expected"), [pytest.param(11, "Inqueue", id="just enough"), pytest.param("10999m", "Pending", id="not")]
)
def test_admission_counts_what_is_held_and_admitted_less_what_may_go(cpu: int | str, expected: str) -> None:
    one = [card_pod(f"a{i}", "one", C, cpu="3", memory="6Gi", node="n") for i in range(3)]
    two = [card_pod(f"b{i}", "two", C, cpu="3", memory="6Gi") for i in range(2)]
    plan = plan_of(
        card_node("n", C),
        card_queue("q", {C: 8}, cpu=cpu),
        card_group("one", {C: 4}, cpu=4, memory="8Gi", phase="Running"),
        card_group("two", {C: 2}, cpu=6, memory="12Gi", phase="Inqueue"),
        card_group("three", cpu=1, phase="Pending"),
        [*one, *two],
        conf=card_conf("enqueue"),
    )
    assert phases(plan).get("three") == expected
    if expected == "Pending":
        why = plan.groups["ns/three"].refusal
        assert why is not None
        assert "requested <1000>, total would be <11000>, but capability is <10999>" in why.message


@pytest.mark.parametrize(
    ("tasks", "request_", "expected"),
    [
        pytest.param([], {A: 4}, {A: 4}, id="without pods, what the group says"),
        pytest.param([("Pending", A, 2)] * 2, {A: 9}, {A: 4}, id="with pods, what they say"),
        pytest.param([("Pending", None, 2)] * 2, {A: 9}, {A: 9}, id="if they name cards"),
        pytest.param(
            [("Pending", A, 2)], {A: 9}, {A: 9}, id="while there are fewer than there have to be, what is more"
        ),
        pytest.param([("Pending", A, 2)], {B: 3}, {A: 2, B: 3}, id="of each model"),
        pytest.param([("Pending", EITHER, 1)], {EITHER: 4}, {EITHER: 4}, id="or of any"),
        pytest.param([("Running", EITHER, 1)], {EITHER: 4}, {EITHER: 3}, id="where those that run are of one of them"),
    ],
)
def test_cards_of_a_job_that_is_admitted(tasks: list[Any], request_: Data, expected: Data) -> None:
    pods = [
        card_pod(f"p{i}", card=card, gpu=gpu, node="a" if phase == "Running" else None)
        for i, (phase, card, gpu) in enumerate(tasks)
    ]
    found = plan_of(FLEET, card_queue(), card_group(request=request_, minimum=2), pods, conf=card_conf("enqueue"))
    assert figures(found, "inqueue") == milli(expected)


@pytest.mark.parametrize(
    ("named", "there", "expected"),
    [
        ({"A|B": 4}, {"A": 1, "A|B": 1}, {"A|B": 2}),
        ({"A|B": 4, "A": 2}, {"A": 3}, {"A|B": 3}),
        ({"A": 2}, {"A|B": 2}, {"A": 2}),
        ({"A|B": 2}, {"B": 5}, {}),
        ({"A|B|C": 3}, {"A|C": 1, "D": 9}, {"A|B|C": 2}),
    ],
)
def test_cards_that_are_named_and_not_there_yet(named: Data, there: Data, expected: Data) -> None:
    assert beyond(named, there) == expected


def test_finished_pods_are_not_waited_for() -> None:
    done = [card_pod(f"p{i}", "old", C, node="n", phase="Succeeded") for i in range(7)]
    plan = plan_of(
        card_node("n", C),
        card_queue("q", {C: 2}),
        card_group("old", minimum=1, cpu="1", phase="Running"),
        [*done, card_pod("p7", "old", C, node="n")],
        card_group("new", {C: 1}, phase="Pending"),
        conf=CARDS,
    )
    assert phases(plan)["new"] == "Inqueue"


def test_gated_pods_are_not_waited_for() -> None:
    gate: dict[str, Any] = {"schedulingGates": [{"name": "example.com/wait"}]}
    pods = [card_pod("p0", card=A), card_pod("p1", card=A, **gate)]
    plan = plan_of(FLEET, card_queue(), card_group(cpu=2), pods, conf=card_conf("enqueue"))
    assert figures(plan, "inqueue") == {"cpu": 1000, A: 1000}


@pytest.mark.parametrize(
    ("quotas", "real", "deserved", "share"),
    [
        pytest.param({"q": 5, "r": 6}, {C: 5000}, {C: 5000}, 0.4, id="more than there is: what the quota says"),
        pytest.param({"q": 4, "r": 2}, {C: 6000}, {C: 4000}, 0.5, id="less: what the others leave"),
        pytest.param({"q": 0, "r": 2}, {C: 6000}, {}, 0.0, id="nothing"),
    ],
)
def test_real_capability_and_what_a_queue_deserves(quotas: Data, real: Data, deserved: Data, share: float) -> None:
    queues = [card_queue(name, {C: quota}, cpu=None, memory=None) for name, quota in quotas.items()]
    running = [group(phase="Running"), card_pod("p", card=C, gpu=2, node="n")]
    plan = plan_of(card_node("n", C), queues, running, conf=card_conf("enqueue"))
    assert {n: v for n, v in figures(plan, "real_capability").items() if n == C} == real
    assert figures(plan, "deserved") == deserved
    assert plan.queues["q"].share == share
    assert figures(plan, "capability") == milli({C: quotas["q"]} if quotas["q"] else {})


@pytest.mark.parametrize(
    ("deserved", "quota", "cards", "share"),
    [
        pytest.param({"cpu": 10, "memory": "16Gi"}, {}, 0, 0.5, id="memory, one half"),
        pytest.param({"cpu": 10, "memory": "16Gi"}, {C: 4}, 3, 0.75, id="cards, three of four"),
        pytest.param({}, {}, 0, 0.0, id="nothing is deserved"),
    ],
)
def test_the_share_of_a_queue(deserved: Data, quota: Data, cards: int, share: float) -> None:
    running = [group(phase="Running"), card_pod("p", card=C if cards else None, gpu=cards, memory="8Gi", node="n")]
    q = card_queue("q", quota, deserved=deserved or None)
    assert plan_of(card_node("n", C), q, running, conf=card_conf("enqueue")).queues["q"].share == share


def test_guarantees_of_the_others_are_kept_from_a_queue() -> None:
    q, r = queue("q", capability={"cpu": 50}, guarantee={"cpu": 5}), queue("r", guarantee={"cpu": 20, GPU: 3})
    plan = plan_of(node("n", cpu=100), q, r, conf=card_conf("enqueue"))
    assert figures(plan, "real_capability")["cpu"] == 80_000
    assert GPU not in plan.queues["r"].real_capability  # type: ignore[operator]


# --- admission


@pytest.mark.parametrize(
    ("request_", "quota", "expected"),
    [
        pytest.param({A: 3}, {A: 3}, None, id="just enough"),
        pytest.param({C: 5}, {C: 3}, (C, 5000, 5000, 3000), id="too many"),
        pytest.param({EITHER: 6}, {A: 4, B: 4}, None, id="of two models together"),
        pytest.param({EITHER: 8}, {A: 3, B: 3}, (EITHER, 8000, 8000, 6000), id="too many of both"),
        pytest.param({A: 1, B: 1}, {A: 1}, (B, 1000, 1000, 0), id="each model by itself"),
    ],
)
def test_admission_by_cards(request_: Data, quota: Data, expected: tuple[Any, ...] | None) -> None:
    waiting = card_group(request=request_, cpu=1, phase="Pending")
    plan = plan_of(FLEET, card_queue("q", quota), waiting, conf=card_conf("enqueue"))
    why = plan.groups["ns/g"].refusal
    if expected is None:
        assert why is None
        assert phases(plan) == {"g": "Inqueue"}
    else:
        card, asked, total, limit = expected
        assert why is not None
        assert why.message == (
            f"Queue <q> has insufficient <{card}> quota: requested <{asked}>, total would be <{total}>, "
            f"but capability is <{limit}>"
        )
        assert (phases(plan), why.code, why.left) == ({"g": "Pending"}, "InsufficientScalarQuota", limit)


def test_jobs_that_take_any_of_several_models_are_counted_against_each_other() -> None:
    jobs = [card_group(name, {EITHER: 6}, created=i, phase="Pending") for i, name in enumerate(("one", "two"))]
    plan = plan_of(FLEET, card_queue("q", {A: 4, B: 4}), jobs, conf=CARDS)
    assert phases(plan) == {"one": "Inqueue", "two": "Pending"}
    why = plan.groups["ns/two"].refusal
    assert why is not None
    assert "requested <6000>, total would be <12000>, but capability is <8000>" in why.message


def test_cards_of_pods_count_before_what_the_group_says() -> None:
    waiting = card_group(request={A: 9}, cpu=1, phase="Pending")
    assert binds(plan_of(FLEET, card_queue("q", {A: 1}), waiting, card_pod("p", card=A), conf=CARDS)) == {"p": "a"}


@pytest.mark.parametrize(
    ("factor", "expected"),
    [
        pytest.param(1, {"low": "Inqueue", "high": "Pending", "third": "Pending"}, id="no more than there is"),
        pytest.param(2, {"low": "Inqueue", "high": "Inqueue", "third": "Pending"}, id="twice: 12 of 16, not 18"),
    ],
)
def test_more_may_be_admitted_than_may_run(factor: int, expected: dict[str, str]) -> None:
    jobs = [
        card_group("low", {C: 8}, cpu=1, phase="Inqueue"),
        card_group("high", {C: 4}, cpu=1, created=1, phase="Pending"),
        card_group("third", {C: 6}, cpu=1, created=2, phase="Pending"),
    ]
    plan = plan_of(card_node("n", C), card_queue("q", {C: 8}), jobs, conf=card_conf("enqueue", overCommitFactor=factor))
    assert {name: phases(plan).get(name, "Inqueue") for name in expected} == expected
    why = plan.groups["ns/third"].refusal
    assert why is not None
    total = {1: 14000, 2: 18000}[factor]
    assert f"total would be <{total}>, but capability is <{8000 * factor}>" in why.message


def test_more_cpu_may_be_admitted_too() -> None:
    jobs = [card_group(name, cpu=3, created=i, phase="Pending") for i, name in enumerate(("one", "two", "three"))]
    plan = plan_of(node("n"), card_queue("q", cpu=4), jobs, conf=card_conf("enqueue", overCommitFactor=1.5))
    assert phases(plan) == {"one": "Inqueue", "two": "Inqueue", "three": "Pending"}


def test_the_factor_lets_nothing_run_beyond_the_quota() -> None:
    plan = plan_of(
        card_node("n", C),
        card_queue("q", {C: 1}),
        gang_of_cards("g", 2, minimum=1),
        conf=card_conf(overCommitFactor=2),
    )
    assert (binds(plan), codes(plan)) == ({"g-0": "n"}, {"g-1": "InsufficientScalarQuota"})


def gang_of_cards(name: str, size: int, card: str = C, *, minimum: int | None = None, **more: Any) -> list[Any]:
    """A group with pods of one card each."""
    pods = [card_pod(f"{name}-{i}", name, card, **more) for i in range(size)]
    return [group(name, minimum=size if minimum is None else minimum), *pods]


def test_a_closed_queue_admits_nothing_and_takes_nothing() -> None:
    shut = card_queue("q", {C: 8}, state="Closed")
    waiting = [card_group("new", {C: 1}, phase="Pending"), *gang_of_cards("g", 1)]
    plan = plan_of(card_node("n", C), shut, waiting, conf=CARDS)
    assert (phases(plan)["new"], codes(plan)) == ("Pending", {"g-0": "QueueClosed"})


def test_a_group_without_minimum_is_admitted_without_a_look() -> None:
    plan = plan_of(card_node("n", C), card_queue("q"), group(phase="Pending"), card_pod("p", card=C), conf=CARDS)
    assert (phases(plan), codes(plan)) == ({"g": "Inqueue"}, {"p": "InsufficientScalarQuota"})


# --- allocation


@pytest.mark.parametrize(
    ("unlimited", "expected"),
    [
        pytest.param(True, {}, id="cards only"),
        pytest.param(False, {"p": "InsufficientCPUQuota"}, id="cpu and memory too"),
    ],
)
def test_work_with_cards_may_be_free_of_cpu_and_memory(unlimited: bool, expected: Data) -> None:
    full = [group("f", phase="Running"), card_pod("f", "f", cpu="16", memory="32Gi", gpu=0, node="n")]
    held = [group("h", phase="Running"), card_pod("h", "h", A, gpu=2, cpu=None, memory=None, node="n")]
    asking = [group(), card_pod("p", card=A, gpu=4, cpu="4", memory="8Gi")]
    q = card_queue("q", {A: 8}, cpu=16, memory="32Gi")
    plan = plan_of(card_node("n", A), q, full, held, asking, conf=card_conf(cardUnlimitedCpuMemory=unlimited))
    assert codes(plan) == expected
    if expected:
        text = "requested <4000>, total would be <20000>, but capability is <16000>"
        assert pending(plan)["p"].message == f"Queue <q> has insufficient CPU quota: {text}"


def test_cpu_of_work_with_cards_that_runs_already_is_free_too() -> None:
    running = [group("r", phase="Running"), card_pod("r", "r", A, cpu="16", node="n")]
    asking = [group(), pod("p", cpu=1)]
    q = card_queue("q", {A: 8}, cpu=16)
    free = plan_of(card_node("n", A), q, running, asking, conf=card_conf(cardUnlimitedCpuMemory=True))
    assert (binds(free), figures(free, "allocated")["cpu"]) == ({"p": "n"}, 1000)
    assert codes(plan_of(card_node("n", A), q, running, asking, conf=CARDS)) == {"p": "InsufficientCPUQuota"}


@pytest.mark.parametrize(
    ("room", "asking", "expected"),
    [
        pytest.param({}, pod("p", memory=None), "InsufficientCPUQuota", id="no cpu is named: there is none"),
        pytest.param({"cpu": 1}, pod("p"), "InsufficientMemoryQuota", id="no memory is named: there is none"),
        pytest.param({"cpu": 1}, pod("p", memory=None), None, id="what is not asked is not looked at"),
        pytest.param({"cpu": 1}, card_pod("p", card=C, memory=None), "InsufficientScalarQuota", id="no card either"),
        pytest.param({"cpu": 1}, card_pod("p", gpu=4, memory=None), None, id="cards without a name are not counted"),
        pytest.param(
            {"cpu": 1}, pod("p", requests={"cpu": 1, "example.com/nic": 1}), None, id="nor are other resources"
        ),
    ],
)
def test_what_a_queue_does_not_name_it_has_not(room: Data, asking: Any, expected: str | None) -> None:
    n = card_node("n", C, resources={"example.com/nic": 8})
    plan = plan_of(n, queue("q", capability=room or None), group(), asking, conf=CARDS)
    assert codes(plan) == ({} if expected is None else {"p": expected})


def test_a_queue_that_can_start_nothing_is_named_if_it_has_jobs() -> None:
    plan = plan_of(node("n"), queue("q"), queue("idle"), group(), pod("p"), conf=CARDS)
    assert findings(plan) == [
        "queue q: it has jobs, but no cpu in its capability and no card quota: only empty requests fit"
    ]


def test_a_pod_that_asks_for_nothing_is_always_taken() -> None:
    nothing = pod("p", cpu=None, memory=None)
    plan = plan_of(node("n"), queue("q", capability={"cpu": 0}), group(), nothing, conf=card_conf("allocate, backfill"))
    assert binds(plan) == {"p": "n"}


def test_a_card_that_no_node_has() -> None:
    plan = plan_of(card_node("n", A), card_queue("q", {C: 8}), group(), card_pod("p", card=C), conf=CARDS)
    message = f"Get request resource failed, Queue <q>, error: <no resource name found for card <{C}>>"
    assert (pending(plan)["p"].code, pending(plan)["p"].message) == ("GetTaskRequestResourceFailed", message)


def test_a_running_pod_of_which_it_cannot_be_told_is_left_out_and_named() -> None:
    running = [group("r", phase="Running"), card_pod("r", "r", C, node="n")]
    plan = plan_of(card_node("n", A), card_queue("q", {A: 8}), running, gang_of_cards("g", 1, A), conf=CARDS)
    assert figures(plan, "allocated") == {"cpu": 1000, "memory": GI, A: 1000}
    assert findings(plan) == [f"pod ns/r: no resource name found for card <{C}>; what it holds is not counted"]


def test_findings_do_not_flood() -> None:
    bare = [node(f"n{i}", labels=labelled(C)) for i in range(30)]
    found = findings(plan_of(bare, card_queue("q"), conf=CARDS))
    assert (len(found), found[-1]) == (21, "plugin capacity-card: 10 more findings of this kind")


def test_quota_comes_back_with_what_is_undone() -> None:
    """A gang that finds room for a part of it leaves the whole quota to the next."""
    big, small = gang_of_cards("big", 3), gang_of_cards("small", 2)
    small[0].metadata.creation_timestamp = "2026-01-01T00:00:09Z"
    plan = plan_of(card_node("n", C), card_queue("q", {C: 2}), big, small, conf=CARDS)
    assert binds(plan) == {"small-0": "n", "small-1": "n"}
    assert figures(plan, "allocated")[C] == 2000


def test_shares_and_slices_of_a_model_count_by_themselves() -> None:
    both = node("n", labels=labelled(C), resources={GPU: 4, SLICE: 7})
    pods = [card_pod("w", card=C), card_pod("s", card=MIG, resource=SLICE), card_pod("t", card=MIG, resource=SLICE)]
    plan = plan_of(both, card_queue("q", {C: 1, MIG: 1}), group(), pods, conf=CARDS)
    assert set(binds(plan)) == {"w", "s"}
    assert pending(plan)["t"].resource == MIG


def test_queues_with_higher_priority_go_first_then_those_with_the_smaller_share() -> None:
    def first(*queues: Any) -> str:
        jobs = [[group(q.name, q.name), card_pod(f"{q.name}-p", q.name, C)] for q in queues]
        held = [group("h", "a", phase="Running"), card_pod("h", "h", C, node="n")]
        plan = plan_of(card_node("n", C, gpu=2), queues, jobs, held, conf=CARDS)
        return next(iter(binds(plan)))

    assert first(card_queue("a", {C: 4}), card_queue("b", {C: 4})) == "b-p"
    assert first(card_queue("a", {C: 4}, priority=1), card_queue("b", {C: 4})) == "a-p"


# --- nodes


def seven(**arguments: Any) -> Plan:
    """Seven pods that take either model; quota for three of each, and eight of each are there."""
    pods = [card_pod(f"p-w-{i}", card=EITHER) for i in range(7)]
    objects = card_node("a", A), card_node("b", B), card_queue("q", {A: 3, B: 3}), group(), pods
    return plan_of(objects, conf=card_conf(**arguments))


def test_pods_with_a_choice_go_where_there_is_quota() -> None:
    plan = seven()
    assert [binds(plan)[f"p-w-{i}"] for i in range(6)] == ["a"] * 3 + ["b"] * 3
    assert figures(plan, "allocated") == {"cpu": 6000, "memory": 6 * GI, A: 3000, B: 3000}
    text = "requested <1000>, total would be <4000>, but capability is <3000>"
    assert pending(plan)["p-w-6"].message == f"Queue <q> has insufficient <{EITHER}> quota: {text}"


def test_without_the_check_a_model_may_be_used_beyond_its_quota() -> None:
    assert figures(seven(cardNodeCheck="none"), "allocated")[A] == 7000


def test_a_pod_waits_if_the_model_with_quota_has_no_room() -> None:
    objects = card_node("a", A), card_node("b", B, gpu=1), card_node("c", C), card_queue("q", {A: 1, B: 3})
    plan = plan_of(objects, gang_of_cards("g", 3, EITHER, minimum=1), conf=CARDS)
    assert binds(plan) == {"g-0": "a", "g-1": "b"}
    assert pending(plan)["g-2"].message == (
        "0/3 nodes are unavailable: 1 Insufficient nvidia.com/gpu, "
        "1 node(s) had no card of a model that the pod names, "
        "1 node(s) had only cards of models of which the queue has no quota left."
    )


def test_quota_is_that_of_the_pod_s_own_queue() -> None:
    """Equal pods of two queues go to different nodes."""
    queues = [card_queue("q", {A: 1}), card_queue("r", {B: 1})]
    jobs = [[group(q, q), card_pod(f"{q}-p", q, EITHER)] for q in ("q", "r")]
    assert binds(plan_of(card_node("a", A), card_node("b", B), queues, jobs, conf=CARDS)) == {"q-p": "a", "r-p": "b"}


def test_a_job_that_names_a_model_waits_for_it_and_starts_on_no_other_by_default() -> None:
    """A node of 4090s has free cards, under the same resource name as the H200s that the job names."""
    wrong = [card_node("n1", B, gpu=8), card_node("n2", A, gpu=1)]
    job = [card_queue("q", {A: 4}), group("g", minimum=2), card_pod("g-0", "g", card=A), card_pod("g-1", "g", card=A)]
    waiting = plan_of(wrong, job, conf=CARDS)
    assert binds(waiting) == {}
    assert {p.code for p in waiting.pending} <= {"Unschedulable", "GangWaiting"}
    right = card_node("n2", A, gpu=4)
    assert binds(plan_of(card_node("n1", B, gpu=8), right, job, conf=CARDS)) == {"g-0": "n2", "g-1": "n2"}


@pytest.mark.parametrize(
    ("check", "expected"),
    [("none", {"p": "other"}), ("multi", {"p": "other"}), ("all", {})],
)
def test_pods_with_one_model_may_be_kept_off_other_nodes(check: str, expected: Data) -> None:
    objects = card_node("own", A, gpu=1), card_node("other", B), card_queue("q", {A: 8})
    held = [group("h", phase="Running"), card_pod("h", "h", A, node="own")]
    plan = plan_of(objects, held, group(), card_pod("p", card=A), conf=card_conf(cardNodeCheck=check))
    assert binds(plan) == expected


THREE = [card_node("a", A), card_node("h", B), card_node("t", "T4"), node("x", gpu=8)]


@pytest.mark.parametrize(
    ("weight", "expected"),
    [(1, (100, 50, 25)), (2, (200, 100, 50)), (0.5, (50, 25, 12.5)), (-1, (100, 50, 25)), (0, (100, 50, 25))],
)
@pytest.mark.parametrize("check", ["none", "multi"])
def test_nodes_with_a_model_that_is_named_earlier_are_better(check: str, weight: float, expected: tuple[float]) -> None:
    arguments = {"nodeOrderWeight": weight, "cardNodeCheck": check}
    asking = card_queue("q", {A: 1, B: 1, "T4": 1}), group(), card_pod("p", card=f"{A}|{B}|T4")
    scores = scores_of(THREE, asking, conf=card_conf("allocate", **arguments))
    assert scores == dict(zip("aht", expected, strict=True)) | ({"x": 0} if check == "none" else {})


def test_the_tenth_name_is_worth_little() -> None:
    names = "|".join([*(f"X{i}" for i in range(9)), A])
    asking = card_queue("q", {A: 1}), group(), card_pod("p", card=names)
    scores = scores_of(THREE[:1], node("x", gpu=1), asking, conf=card_conf("allocate", cardNodeCheck="none"))
    assert scores == {"a": 100 / 512, "x": 0}


def test_a_model_without_quota_is_worth_nothing() -> None:
    asking = card_queue("q", {B: 1, "T4": 1}), group(), card_pod("p", card=f"{A}|{B}|T4")
    assert scores_of(THREE, asking, conf=card_conf("allocate")) == {"h": 50, "t": 25}


def test_pods_with_one_model_have_no_preference() -> None:
    asking = card_queue("q", {A: 1}), group(), card_pod("p", card=A)
    scores = scores_of(THREE, asking, conf=card_conf("allocate", cardNodeCheck="multi"))
    assert set(scores.values()) == {0}


def test_names_that_are_another_resource_are_named() -> None:
    asking = group(), card_pod("p", card=f"{A}|{MIG}")
    (found,) = findings(plan_of(FLEET, card_queue("q", {A: 1}), asking, conf=CARDS))
    assert found == f"card name {A}|{MIG}: {MIG} is another resource than the first card that is known, and is left out"


# --- arguments


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ({"nodeOrderWeight": 0}, "Invalid nodeOrderWeight value: 0.0, must be positive, using default: 1"),
        ({"nodeOrderWeight": "x"}, "nodeOrderWeight takes a number, not 'x'; 1.0 is kept"),
        ({"overCommitFactor": 0.5}, "overCommitFactor cannot be less than 1.0, but is 0.5; 1.0 is kept"),
        ({"overCommitFactor": "2"}, "overCommitFactor takes a number, not '2'; 1.0 is kept"),
        ({"overCommitFactor": float("inf")}, "overCommitFactor takes a number, not inf; 1.0 is kept"),
        ({"cardNodeCheck": "some"}, "cardNodeCheck takes none or multi or all, not 'some'; 'all' is kept"),
        ({"cardUnlimitedCpuMemory": 1}, "cardUnlimitedCpuMemory takes true or false, not 1; False is kept"),
        ({"cardUnlimitedCpuMemory": "true"}, None),
        ({"podOwnerReferenceToServiceType": {"Job": "training"}}, None),
        (
            {"podOwnerReferenceToServiceType": ["Job"]},
            "podOwnerReferenceToServiceType takes a map, not a list; its default is kept",
        ),
        (
            {"podOwnerReferenceToServiceType": {"Job": "trainig"}},
            "podOwnerReferenceToServiceType.Job takes inference or training, not 'trainig'; "
            "did you mean 'training'?; it is not used",
        ),
        (
            {"podOwnerReferenceToServiceType": {1: "training"}},
            "podOwnerReferenceToServiceType takes names as keys, not 1; write it in quotes",
        ),
        (
            {"allowServiceTypeByPodOwnerReferences": True},
            "allowServiceTypeByPodOwnerReferences is deprecated; use podOwnerReferenceToServiceType",
        ),
    ],
)
def test_arguments_that_are_wrong_are_named(arguments: Data, expected: str | None) -> None:
    plan = plan_of(card_node("n", C), card_queue("q", {C: 1}), conf=card_conf(**arguments))
    assert [f.message for f in plan.findings] == ([] if expected is None else [expected])


@pytest.mark.parametrize("rival", ["capacity", "proportion"])
def test_another_plugin_for_queues_beside_it_is_named(rival: str) -> None:
    usable, _, _ = parsed(conf("allocate", ["capacity-card"], [rival]))
    assert [f.code for f in usable.findings] == ["rival-plugins"]


def test_clusters_without_cards_are_scheduled_as_ever() -> None:
    objects: Objects = node("n"), card_queue("q"), gang("g", 2)
    assert set(binds(plan_of(objects, conf=CARDS))) == {"g-w-0", "g-w-1"}


def test_the_state_knows_which_pods_name_cards() -> None:
    state = state_of(group(), card_pod("p", card=A), pod("x"))
    assert set(state.with_cards) == {"ns/p"}


# --- what would help


@pytest.mark.parametrize(
    ("quota", "waiting", "expected"),
    [
        pytest.param({C: 3}, gang_of_cards("g", 5), (C, 2000), id="what the gang lacks"),
        pytest.param({}, gang_of_cards("g", 1), (C, 1000), id="all of it"),
        pytest.param({A: 1}, gang_of_cards("g", 3, EITHER), (A, 2000), id="of several models the first"),
        pytest.param({A: 8, B: 1}, gang_of_cards("g", 3, f"{B}|X"), (B, 2000), id="that is there"),
        pytest.param({C: 1}, [card_group(request={C: 4}, phase="Pending"), card_pod("g-0", card=C, gpu=3)], (C, 2000)),
    ],
)
def test_the_smallest_raise_of_the_card_quota_that_helps(quota: Data, waiting: Any, expected: tuple[str, int]) -> None:
    objects = flat([card_node("a", A), card_node("b", B), card_node("c", C), card_queue("q", quota), waiting])
    explanation = plan_cycles(Scenario(objects, parsed(CARDS)[0], NOW)).explain("ns/g")
    card, by = expected
    assert explanation.change == Change("cards", "q", card, by)
    assert sentence(explanation.change, {}) == f"raise the card quota of queue q by {by // 1000} {card}"
