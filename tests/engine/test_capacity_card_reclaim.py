"""capacity-card and reclaim: inference takes cards back from training, and no one else from anybody.

The configuration, the queues and the training job are those of the design document "cross-queue reclaim"; what its
sample of a service leaves open is filled in.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest
import yaml

from kilauea.api.meta import Object
from kilauea.engine.plan import Plan
from kilauea.engine.session import Session
from support.builders import (
    GPU,
    GROUP_NAME,
    TASK_ROLE,
    Data,
    Objects,
    binds,
    build,
    codes,
    conf,
    group,
    nominations,
    pending,
    phases,
    plan_of,
    priority_class,
)
from support.card_objects import CARDS_RECLAIMED, A, B, C, annotated, card_group, card_node, card_pod, card_queue
from support.probes import inside

QUEUES = list(
    yaml.safe_load_all("""
apiVersion: scheduling.volcano.sh/v1beta1
kind: Queue
metadata:
  name: queue-inference
  annotations:
    volcano.sh/card.quota: '{"NVIDIA-GeForce-RTX-4090":8}'
spec:
  weight: 1
  priority: 80000
  reclaimable: false
  capability:
    cpu: 4
    memory: 4Gi
---
apiVersion: scheduling.volcano.sh/v1beta1
kind: Queue
metadata:
  name: queue-training
  annotations:
    volcano.sh/card.quota: '{"NVIDIA-GeForce-RTX-4090":8}'
spec:
  weight: 1
  priority: 20000
  reclaimable: true
  capability:
    cpu: 4
    memory: 4Gi
""")
)

HIGH = yaml.safe_load("""
apiVersion: scheduling.k8s.io/v1
description: High priority class for Volcano.
kind: PriorityClass
metadata:
  name: pc-high
globalDefault: false
preemptionPolicy: PreemptLowerPriority
value: 80000
""")

SERVICE = yaml.safe_load("""
apiVersion: apps/v1
kind: Deployment
metadata:
  name: inference-high
  annotations:
    volcano.sh/preemptable: "false"
spec:
  replicas: 1
  selector:
    matchLabels:
      app: nginx
  template:
    metadata:
      labels:
        app: nginx
      annotations:
        volcano.sh/card.name: NVIDIA-GeForce-RTX-4090
        scheduling.volcano.sh/queue-name: "queue-inference"
    spec:
      schedulerName: volcano
      priorityClassName: pc-high
      containers:
      - name: server
        image: nginx
        resources:
          requests: {cpu: "2", memory: 2Gi, nvidia.com/gpu: 4}
          limits: {cpu: "2", memory: 2Gi, nvidia.com/gpu: 4}
""")

TRAINING = yaml.safe_load("""
apiVersion: batch.volcano.sh/v1alpha1
kind: Job
metadata:
  name: training-low
  annotations:
    volcano.sh/preemptable: "true"
spec:
  minAvailable: 2
  priorityClassName: pc-low
  schedulerName: volcano
  queue: queue-training
  policies:
  - event: TaskCompleted
    action: CompleteJob
  - event: PodEvicted
    action: AbortJob
  tasks:
  - replicas: 1
    name: worker1
    template: &template
      metadata:
        annotations:
          volcano.sh/card.name: NVIDIA-GeForce-RTX-4090
      spec:
        affinity:
          nodeAffinity:
            requiredDuringSchedulingIgnoredDuringExecution:
              nodeSelectorTerms:
              - matchExpressions:
                - key: nvidia.com/gpu.product
                  operator: In
                  values:
                  - NVIDIA-GeForce-RTX-4090
        restartPolicy: Never
        containers:
        - image: alpine:latest
          imagePullPolicy: IfNotPresent
          name: worker
          command: ["sh", "-c", "sleep 1d"]
          resources:
            requests:
              cpu: 100m
              memory: 100Mi
              nvidia.com/gpu: 4
            limits:
              cpu: 100m
              memory: 100Mi
              nvidia.com/gpu: 4
  - replicas: 1
    name: worker2
    template: *template
""")

CARD = "NVIDIA-GeForce-RTX-4090"


def started(
    workload: Data, on: str | None = None, phase: str | None = None, gpu: int | None = None, least: int | None = None
) -> list[Object]:
    """The pod group and the pods that controllers make of a workload; they run on a node, or wait."""
    meta, spec = workload["metadata"], workload["spec"]
    job = workload["kind"] == "Job"
    tasks = spec["tasks"] if job else [{"name": "", **spec}]
    inherited = {k: v for k, v in meta["annotations"].items() if k.startswith("volcano.sh/")}
    marks = tasks[0]["template"]["metadata"]["annotations"]
    minimum = least or spec.get("minAvailable", 1)
    of_group = {
        "minMember": minimum,
        "minResources": {"cpu": "100m", GPU: 4},
        "queue": spec.get("queue") or marks["scheduling.volcano.sh/queue-name"],
        "priorityClassName": spec.get("priorityClassName") or tasks[0]["template"]["spec"]["priorityClassName"],
    }
    names = {"name": meta["name"], "namespace": "ns"}
    status = {"phase": phase or ("Running" if on else "Pending")}
    out = [
        build({"kind": "PodGroup", "metadata": names | {"annotations": inherited}, "spec": of_group, "status": status})
    ]
    for number, task in enumerate(tasks):
        template = task["template"]
        own = {"volcano.sh/preemptable": inherited["volcano.sh/preemptable"]} if job else {}
        own |= template["metadata"]["annotations"] | {GROUP_NAME: meta["name"], TASK_ROLE: task["name"]}
        body = {"schedulerName": "volcano"} | template["spec"] | ({"nodeName": on} if on else {})
        if gpu is not None:
            container = body["containers"][0]
            asked = container["resources"]["requests"] | {GPU: gpu}
            body["containers"] = [container | {"resources": {"requests": asked, "limits": asked}}]
        head = {
            "name": f"{meta['name']}-{task['name'] or 'x'}-{number}",
            "namespace": "ns",
            "annotations": own,
            "ownerReferences": [{"kind": "Job" if job else "ReplicaSet", "name": meta["name"]}],
        }
        pod = {"kind": "Pod", "metadata": head, "spec": body, "status": {"phase": "Running" if on else "Pending"}}
        out.append(build(pod))
    return out


def as_given(*more: Objects) -> list[Objects]:
    """A node with eight cards, the queues and the priority classes of the document, and more."""
    gpus = card_node("n", CARD, cpu=32, memory="64Gi")
    return [gpus, *map(build, QUEUES), build(HIGH), priority_class("pc-low", 20000), *more]


def evicted(plan: Plan) -> list[str]:
    """Names of the pods that are evicted, in order of name."""
    return sorted(e.pod.removeprefix("ns/") for e in plan.evictions)


# --- the story of the document


def test_a_service_takes_cards_back_from_training_as_the_document_tells() -> None:
    """The gang loses all its pods: half of it would only hold cards."""
    plan = plan_of(as_given(started(TRAINING, "n"), started(SERVICE)), conf=CARDS_RECLAIMED)
    assert evicted(plan) == ["training-low-worker1-0", "training-low-worker2-1"]
    assert {e.by for e in plan.evictions} == {"ns/inference-high"}
    assert (nominations(plan), binds(plan)) == ({"inference-high-x-0": "n"}, {})
    assert plan.queues["queue-inference"].allocated[CARD] == 4000
    assert CARD not in plan.queues["queue-training"].allocated


def test_a_training_job_that_can_do_with_less_loses_no_more_than_is_needed() -> None:
    plan = plan_of(as_given(started(TRAINING, "n", least=1), started(SERVICE)), conf=CARDS_RECLAIMED)
    assert (len(plan.evictions), nominations(plan)) == (1, {"inference-high-x-0": "n"})
    assert plan.queues["queue-training"].allocated[CARD] == 4000


def test_a_service_is_admitted_while_the_cluster_is_full() -> None:
    plan = plan_of(
        as_given(started(TRAINING, "n"), started(SERVICE)), conf={**CARDS_RECLAIMED, "actions": "enqueue, allocate"}
    )
    assert phases(plan)["inference-high"] == "Inqueue"
    assert codes(plan) == {"inference-high-x-0": "Unschedulable"}


def test_beyond_its_quota_a_service_takes_nothing_back() -> None:
    running = started(SERVICE, "n")
    second = {**SERVICE, "metadata": {**SERVICE["metadata"], "name": "second"}}
    plan = plan_of(as_given(started(TRAINING, "n", gpu=2), running, started(second, gpu=6)), conf=CARDS_RECLAIMED)
    assert evicted(plan) == []
    assert pending(plan)["second-x-0"].message == (
        f"Queue <queue-inference> has insufficient <{CARD}> quota: requested <6000>, total would be <10000>, "
        "but capability is <8000>"
    )


def test_training_takes_nothing_back_from_services() -> None:
    plan = plan_of(as_given(started(SERVICE, "n", gpu=8), started(TRAINING)), conf=CARDS_RECLAIMED)
    assert (evicted(plan), nominations(plan)) == ([], {})


def test_freed_cards_go_to_the_service_first() -> None:
    plan = plan_of(as_given(started(TRAINING), started(SERVICE, gpu=8)), conf=CARDS_RECLAIMED)
    assert binds(plan) == {"inference-high-x-0": "n"}


def test_what_the_group_says_counts_before_the_owner() -> None:
    """Both say so themselves, and the map is empty."""
    silent = {**CARDS_RECLAIMED, "tiers": [CARDS_RECLAIMED["tiers"][0], {"plugins": ["predicates", "capacity-card"]}]}
    silent["tiers"][1]["plugins"] = [{"name": name} for name in silent["tiers"][1]["plugins"]]
    for kinds, expected in ((("training", "inference"), 2), (("inference", "inference"), 0), ((None, "inference"), 0)):
        lower, upper = started(TRAINING, "n"), started(SERVICE)
        annotated(lower[0], service_type=kinds[0])
        annotated(upper[0], service_type=kinds[1])
        assert len(plan_of(as_given(lower, upper), conf=silent).evictions) == expected


# --- who takes from whom


TYPED = {"ReplicaSet": "inference", "Job": "training"}


def reclaim_conf(**arguments: Any) -> Data:
    gang = {"name": "gang", "enableReclaimable": False}
    typed = {"podOwnerReferenceToServiceType": TYPED, "cardUnlimitedCpuMemory": True} | arguments
    return conf("allocate, reclaim", ["priority", gang], ["predicates", ("capacity-card", typed)])


def chosen(session: Session, preemptor: str, names: Iterable[str]) -> list[str]:
    """Which of the pods may go for the preemptor."""
    tasks = session.state.tasks
    return [t.name for t in session.reclaimable(tasks[f"ns/{preemptor}"], [tasks[f"ns/{name}"] for name in names])]


def everyone(owner: str | None, said: str | None = None) -> list[Objects]:
    """A preemptor, and one pod of each sort that runs."""
    running = [
        [card_group("by-word", service="training", queue="r"), card_pod("by-word", "by-word", A, owner="ReplicaSet")],
        [card_group("by-owner", queue="r"), card_pod("by-owner", "by-owner", A, owner="Job")],
        [card_group("service", queue="r"), card_pod("service", "service", A, owner="ReplicaSet")],
        [card_group("other", queue="r"), card_pod("other", "other", A, owner="DaemonSet")],
        [card_group("missing", queue="r"), card_pod("missing", "missing", A)],
        [card_group("odd", service="batch", queue="r"), card_pod("odd", "odd", A, owner="Job")],
    ]
    queues = [card_queue("q", {A: 8}), card_queue("r", {A: 8})]
    mine = [card_group("mine", service=said), card_pod("mine", "mine", A, owner=owner or "")]
    return [card_node("n", A), *queues, *running, *mine]


ALL = ("by-word", "by-owner", "service", "other", "missing", "odd")


@pytest.mark.parametrize(
    ("owner", "said", "strict", "expected"),
    [
        pytest.param("ReplicaSet", None, True, ["by-word", "by-owner"], id="a service: training of every sort"),
        pytest.param("Job", "inference", True, ["by-word", "by-owner"], id="a job that says it is one"),
        pytest.param("Job", None, True, [], id="training: nothing"),
        pytest.param("ReplicaSet", "training", True, [], id="what says it is training: nothing"),
        pytest.param("Job", None, False, [], id="training: never"),
        pytest.param(None, None, True, [], id="what has no type: nothing"),
        pytest.param("DaemonSet", None, True, [], id="nor what has one that no one knows"),
        pytest.param(None, None, False, ["by-word", "by-owner"], id="unless that is allowed"),
        pytest.param("ReplicaSet", "batch", True, [], id="a word that means nothing is not a type"),
    ],
)
def test_who_may_take_back_from_whom(owner: str | None, said: str | None, strict: bool, expected: list[str]) -> None:
    typed = reclaim_conf(strictReclaimer=strict)
    assert inside(everyone(owner, said), do=lambda s: chosen(s, "mine", ALL), conf=typed) == expected


def test_the_old_switch_stands_for_a_map() -> None:
    old = conf("", [("capacity-card", {"allowServiceTypeByPodOwnerReferences": True})])
    assert inside(everyone("ReplicaSet"), do=lambda s: chosen(s, "mine", ALL), conf=old) == ["by-word", "by-owner"]


@pytest.mark.parametrize(
    ("asking", "expected"),
    [
        pytest.param({"card": A}, ["a"], id="a card: those that hold one of the model"),
        pytest.param({"card": f"{A}|{B}"}, ["a", "b"], id="any of several: of any of them"),
        pytest.param({"gpu": 0}, ["plain"], id="no card: those without one"),
        pytest.param({"gpu": 0, "cpu": None}, ["plain"], id="memory alone"),
        pytest.param({"gpu": 0, "cpu": None, "memory": None}, [], id="nothing"),
        pytest.param({"card": "X"}, [], id="a card that no one knows"),
    ],
)
def test_victims_may_have_to_hold_what_is_wanted(asking: Data, expected: list[str]) -> None:
    running = [
        [card_group("a", queue="r"), card_pod("a", "a", A, node="n", owner="Job")],
        [card_group("b", queue="r"), card_pod("b", "b", f"{B}|{A}", node="m", owner="Job")],
        [card_group("plain", queue="r"), card_pod("plain", "plain", gpu=0, node="n", owner="Job")],
        [card_group("odd", queue="r"), card_pod("odd", "odd", "X", node="n", owner="Job")],
    ]
    mine = [group("mine"), card_pod("mine", "mine", owner="ReplicaSet", **asking)]
    queues = [card_queue("q", {A: 8}), card_queue("r", {A: 8})]
    objects: list[Objects] = [card_node("n", A), card_node("m", B), *queues, *running, *mine]
    sharing = reclaim_conf(victimsShareResource=True)
    assert inside(objects, do=lambda s: chosen(s, "mine", ("a", "b", "plain", "odd")), conf=sharing) == expected


@pytest.mark.parametrize(
    ("quota", "asked", "state", "expected"),
    [
        pytest.param(4, [2, 2], "Open", True, id="as much as the capability has"),
        pytest.param(4, [2, 3], "Open", False, id="not more, all tasks together"),
        pytest.param(4, [2, 2], "Closed", False, id="a closed queue nothing"),
    ],
)
def test_a_queue_may_take_back_up_to_its_capability(quota: int, asked: list[int], state: str, expected: bool) -> None:
    def may(session: Session) -> bool:
        tasks = [session.state.tasks[f"ns/p{i}"] for i in range(len(asked))]
        return session.preemptive(session.queues["q"], tasks)

    waiting = [group("g"), *(card_pod(f"p{i}", card=A, gpu=gpu) for i, gpu in enumerate(asked))]
    objects: list[Objects] = [card_node("n", A), card_queue("q", {A: quota}, state=state), waiting]
    assert inside(objects, do=may, conf={**reclaim_conf(), "actions": ""}) is expected


# --- who loses first


def service(gpu: int) -> list[Object]:
    return [group("s", "online", priority="high"), card_pod("s-p", "s", C, gpu, owner="ReplicaSet")]


def trainer(name: str, priority: str, gpu: int = 2, queue: str = "offline", preemptable: str = "true") -> list[Object]:
    pod = card_pod(f"{name}-p", name, C, gpu, owner="Job", node="n")
    return [group(name, queue, priority=priority, phase="Running"), annotated(pod, preemptable=preemptable)]


CLASSES = [priority_class("low", 20000), priority_class("medium", 40000), priority_class("high", 80000)]
TWO_QUEUES = [
    card_queue("online", {C: 8}, priority=80000, reclaimable=False),
    card_queue("offline", {C: 8}, priority=20000),
]
FOUR = [trainer("low-1", "low"), trainer("low-2", "low"), trainer("medium-1", "medium"), trainer("medium-2", "medium")]


@pytest.mark.parametrize(
    ("asked", "expected"),
    [
        pytest.param(2, ["low-2-p"], id="one"),
        pytest.param(4, ["low-1-p", "low-2-p"], id="both of low priority"),
        pytest.param(6, ["low-1-p", "low-2-p", "medium-2-p"], id="and one of medium priority"),
        pytest.param(8, ["low-1-p", "low-2-p", "medium-1-p", "medium-2-p"], id="all"),
    ],
)
def test_jobs_of_lower_priority_lose_first(asked: int, expected: list[str]) -> None:
    plan = plan_of(card_node("n", C), CLASSES, TWO_QUEUES, FOUR, service(asked), conf=reclaim_conf())
    assert (evicted(plan), nominations(plan)) == (expected, {"s-p": "n"})


def test_it_works_without_priorities_too() -> None:
    plain = [[group(n, "offline", phase="Running"), card_pod(n, n, C, 4, owner="Job", node="n")] for n in ("a", "b")]
    asking = [group("s", "online"), card_pod("s-p", "s", C, 4, owner="ReplicaSet")]
    plan = plan_of(card_node("n", C), TWO_QUEUES, plain, asking, conf=reclaim_conf())
    assert (evicted(plan), nominations(plan)) == (["b"], {"s-p": "n"})


def test_only_training_of_queues_that_lend_is_taken_however_important_it_is() -> None:
    held = [
        [group("i", "online", phase="Running"), card_pod("i-p", "i", C, 2, owner="ReplicaSet", node="n")],
        trainer("kept", "low", 4, "closed-hand", "false"),
        trainer("taken", "high", 2),
    ]
    closed_hand = card_queue("closed-hand", {C: 8}, reclaimable=False)
    plan = plan_of(card_node("n", C), CLASSES, TWO_QUEUES, closed_hand, held, service(2), conf=reclaim_conf())
    assert (evicted(plan), nominations(plan)) == (["taken-p"], {"s-p": "n"})


def test_queues_of_lower_priority_lose_first() -> None:
    lower = card_queue("lower", {C: 8}, priority=1)
    held = [trainer("a", "low", 4), trainer("b", "low", 4, "lower")]
    plan = plan_of(card_node("n", C), CLASSES, TWO_QUEUES, lower, held, service(4), conf=reclaim_conf())
    assert evicted(plan) == ["b-p"]


def test_a_gang_goes_whole() -> None:
    """One pod of a gang of two is enough for the service; the other would be left alone."""
    pods = [annotated(card_pod(f"t-{i}", "t", C, 4, owner="Job", node="n"), preemptable="true") for i in range(2)]
    held = [group("t", "offline", minimum=2, phase="Running"), *pods]
    plan = plan_of(card_node("n", C), CLASSES, TWO_QUEUES, held, service(4), conf=reclaim_conf())
    assert (evicted(plan), nominations(plan)) == (["t-0", "t-1"], {"s-p": "n"})


def test_a_service_with_a_choice_takes_back_where_it_has_quota() -> None:
    nodes = [card_node("a", A, gpu=4), card_node("b", B, gpu=4)]
    queues = [card_queue("online", {B: 4}, priority=9), card_queue("offline", {A: 4, B: 4})]
    held = [
        [group(card, "offline", phase="Running"), card_pod(card, card, card, 4, owner="Job", node=name)]
        for card, name in ((A, "a"), (B, "b"))
    ]
    asking = [group("s", "online"), card_pod("s-p", "s", f"{A}|{B}", 4, owner="ReplicaSet")]
    plan = plan_of(nodes, queues, held, asking, conf=reclaim_conf())
    assert (evicted(plan), nominations(plan)) == ([B], {"s-p": "b"})
    assert plan.queues["online"].allocated[B] == 4000
