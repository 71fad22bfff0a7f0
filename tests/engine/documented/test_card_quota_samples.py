"""The samples of the text on inference and training (seed 003), and what it says of preemptors and victims.

`tests/engine/test_capacity_card_reclaim.py` has the story itself, with the configuration, the queues, the service and
the job of two tasks as the text gives them. Pod groups and pods are here what controllers make of such workloads.
"""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from kilauea.api.meta import Object
from kilauea.engine.plan import Plan
from support.builders import (
    Data,
    Objects,
    binds,
    build,
    codes,
    conf,
    flat,
    group,
    node,
    nominations,
    pending,
    phases,
    plan_of,
    plugin,
    priority_class,
)
from support.card_objects import CARDS_RECLAIMED, annotated, card_node, card_pod, card_queue, labelled

CARD, H200, MIG = "NVIDIA-GeForce-RTX-4090", "NVIDIA-H200", "NVIDIA-H200/mig-1g.18gb-mixed"
SLICE = "nvidia.com/mig-1g.18gb"
"""The resource that nodes offer for the slices."""

SERVICE, TRAINING = yaml.safe_load_all("""
apiVersion: apps/v1
kind: Deployment
metadata:
  name: ai-service
  annotations:
    volcano.sh/service.type: inference
    volcano.sh/card.request: '{"NVIDIA-H200/mig-1g.18gb-mixed":2}'
---
apiVersion: batch.volcano.sh/v1alpha1
kind: Job
metadata:
  name: ai-job
  annotations:
    volcano.sh/service.type: training
    volcano.sh/card.request: '{"NVIDIA-H200":2}'
""")

ONLINE = card_queue("online", {CARD: 8}, priority=80000, reclaimable=False)
OFFLINE = card_queue("offline", {CARD: 8}, priority=20000)


def group_of(workload: Data, name: str, phase: str = "Pending") -> Object:
    """The pod group of a sample: its annotations that begin with `volcano.sh` come along."""
    marks = {key: text for key, text in workload["metadata"]["annotations"].items() if key.startswith("volcano.sh")}
    names = {"name": name, "namespace": "ns", "annotations": marks}
    spec = {"minMember": 1, "queue": "q", "minResources": {"cpu": "1"}}
    return build({"kind": "PodGroup", "metadata": names, "spec": spec, "status": {"phase": phase}})


def evicted(plan: Plan) -> list[str]:
    return sorted(e.pod.removeprefix("ns/") for e in plan.evictions)


def test_the_sample_of_a_configuration_has_no_findings() -> None:
    assert plan_of(card_node("n", CARD), ONLINE, OFFLINE, conf=CARDS_RECLAIMED).findings == ()


def test_the_example_of_the_repository_uses_the_sample_of_a_configuration() -> None:
    path = Path(__file__).resolve().parents[3] / "examples" / "queues" / "cards.conf"
    ours = yaml.safe_load(path.read_text())
    assert [[e["name"] for e in tier["plugins"]] for tier in ours["tiers"]] == [
        [e["name"] for e in tier["plugins"]] for tier in CARDS_RECLAIMED["tiers"]
    ]


@pytest.mark.parametrize(("sample", "card"), [(SERVICE, MIG), (TRAINING, H200)], ids=["a service", "a job"])
def test_what_a_sample_requests_is_counted_before_it_has_pods(sample: Data, card: str) -> None:
    """A quota of 2 admits two requests of 2, as the factor is 2; the third one is told so."""
    nodes = node("n", 64, "512Gi", gpu=4, labels=labelled(H200, count=5), resources={SLICE: 7})
    groups = [group_of(sample, name) for name in ("first", "second", "third")]
    plan = plan_of(nodes, card_queue("q", {card: 2}), groups, conf=CARDS_RECLAIMED)
    assert phases(plan) == {"first": "Inqueue", "second": "Inqueue", "third": "Pending"}
    why = plan.groups["ns/third"].refusal
    assert why is not None
    assert why.message == (
        f"Queue <q> has insufficient <{card}> quota: requested <2000>, total would be <6000>, but capability is <4000>"
    )


def services(*cards: int, queue: str = "online", on: str | None = "n", name: str = "s") -> list[Objects]:
    """Services with so many cards, each with a pod of a ReplicaSet."""
    return [
        [
            group(f"{name}{i}", queue, priority="pc-high", phase="Running" if on else "Inqueue"),
            card_pod(f"{name}{i}-p", f"{name}{i}", CARD, gpu, owner="ReplicaSet", node=on),
        ]
        for i, gpu in enumerate(cards)
    ]


def trainings(*cards: int, queue: str = "offline", on: str | None = "n", name: str = "t") -> list[Objects]:
    """Training jobs with so many cards, each with a pod of a Job."""
    return [
        [
            group(f"{name}{i}", queue, priority="pc-low", phase="Running" if on else "Inqueue"),
            card_pod(f"{name}{i}-p", f"{name}{i}", CARD, gpu, owner="Job", node=on),
        ]
        for i, gpu in enumerate(cards)
    ]


CLASSES = [priority_class("pc-low", 20000), priority_class("pc-high", 80000)]
RULES = [
    pytest.param(trainings(4, 4), services(4, on=None, name="new"), ["t1-p"], id="inference takes from training"),
    pytest.param(services(4, 4), services(4, queue="web", on=None, name="new"), [], id="not from inference"),
    pytest.param(services(4, 4, queue="lends"), services(4, on=None, name="new"), [], id="wherever it is"),
    pytest.param(services(4, 4, queue="lends"), trainings(4, on=None, name="new"), [], id="training from no one"),
    pytest.param(trainings(4, 4), trainings(4, queue="lends", on=None, name="new"), [], id="not even from training"),
    pytest.param(trainings(4, 4, queue="web"), services(4, on=None, name="new"), [], id="nor from who does not lend"),
]


@pytest.mark.parametrize(("running", "claiming", "expected"), RULES)
def test_who_takes_from_whom(running: list[Objects], claiming: list[Objects], expected: list[str]) -> None:
    """`web` and `online` do not lend; `lends` and `offline` do. All have quota for eight cards, and so has the node."""
    more = [card_queue("web", {CARD: 8}, reclaimable=False), card_queue("lends", {CARD: 8})]
    plan = plan_of(card_node("n", CARD), CLASSES, ONLINE, OFFLINE, more, running, claiming, conf=CARDS_RECLAIMED)
    assert evicted(plan) == expected
    assert bool(nominations(plan)) is bool(expected)


def test_each_project_and_each_business_line_has_a_quota_of_its_own() -> None:
    """A tenant has two projects with 2 and 4 cards, a business line has 2; each asks for one card more than that."""
    quotas = {"tenant-chat": 2, "tenant-search": 4, "line-vision": 2}
    queues = [card_queue(name, {CARD: quota}) for name, quota in quotas.items()]
    jobs = [services(*[1] * (quota + 1), queue=name, on=None, name=f"{name}-") for name, quota in quotas.items()]
    plan = plan_of(card_node("n", CARD, gpu=16), CLASSES, queues, jobs, conf=CARDS_RECLAIMED)
    assert {name: plan.queues[name].allocated[CARD] for name in quotas} == {n: 1000 * q for n, q in quotas.items()}
    assert set(codes(plan).values()) == {"InsufficientScalarQuota"}


LEVELS = {"pc-low": 20000, "pc-medium": 40000, "pc-upper": 60000, "pc-high": 80000}
LEVEL = """
apiVersion: scheduling.k8s.io/v1
description: High priority class for Volcano.
kind: PriorityClass
metadata:
  name: {name}
globalDefault: false
preemptionPolicy: PreemptLowerPriority
value: {value}
"""


@pytest.mark.parametrize(("asked", "spared"), [(2, 3), (4, 2), (6, 1)])
def test_jobs_of_four_levels_of_priority_lose_from_the_lowest_up(asked: int, spared: int) -> None:
    classes = [build(yaml.safe_load(LEVEL.format(name=name, value=value))) for name, value in LEVELS.items()]
    running = [
        [
            group(name, "offline", priority=name, phase="Running"),
            card_pod(f"{name}-p", name, CARD, 2, owner="Job", node="n"),
        ]
        for name in LEVELS
    ]
    claiming = services(asked, on=None, name="new")
    plan = plan_of(card_node("n", CARD), classes, ONLINE, OFFLINE, running, claiming, conf=CARDS_RECLAIMED)
    assert evicted(plan) == sorted(f"{name}-p" for name in list(LEVELS)[: 4 - spared])


@pytest.mark.parametrize(
    ("of_group", "of_pod", "expected"),
    [
        pytest.param("false", None, [], id="the workload says no"),
        pytest.param("true", None, ["s0-p"], id="the workload says yes"),
        pytest.param(None, None, ["s0-p"], id="no one says anything"),
        pytest.param("false", "true", ["s0-p"], id="the pod itself says yes"),
        pytest.param("true", "false", [], id="the pod itself says no"),
    ],
)
def test_a_workload_that_may_not_be_preempted_is_not(
    of_group: str | None, of_pod: str | None, expected: list[str]
) -> None:
    """In its own queue, by a service of higher priority; the sample has the annotation on the Deployment."""
    running = flat(services(8))
    for obj, text in zip(running, (of_group, of_pod), strict=True):
        annotated(obj, preemptable=text)
    urgent = [group("u", "online", priority="urgent"), card_pod("u-p", "u", CARD, 8, owner="ReplicaSet")]
    wide = card_queue("online", {CARD: 16})
    gang = plugin("gang", enablePreemptable=False)
    preempt = conf("allocate, preempt", ["priority", gang], ["predicates", "capacity-card"])
    classes = [*CLASSES, priority_class("urgent", 90000)]
    assert evicted(plan_of(card_node("n", CARD), classes, wide, running, urgent, conf=preempt)) == expected


@pytest.mark.parametrize(
    ("queue", "asked", "code"),
    [
        pytest.param(card_queue("online", {CARD: 8}, state="Closing"), {}, "QueueClosed", id="a queue that is closing"),
        pytest.param(card_queue("online", {CARD: 3}), {}, "InsufficientScalarQuota", id="more than the capability"),
        pytest.param(ONLINE, {"card": "NVIDIA-X"}, "GetTaskRequestResourceFailed", id="a card that no node has"),
        pytest.param(card_queue("online"), {}, "InsufficientScalarQuota", id="a capability without cards"),
    ],
)
def test_who_may_not_claim_is_told_why(queue: Object, asked: Data, code: str) -> None:
    claiming = [group("new", "online"), card_pod("new-p", "new", asked.get("card", CARD), 4, owner="ReplicaSet")]
    plan = plan_of(card_node("n", CARD), CLASSES, queue, OFFLINE, trainings(4, 4), claiming, conf=CARDS_RECLAIMED)
    assert (evicted(plan), pending(plan)["new-p"].code, binds(plan)) == ([], code, {})
