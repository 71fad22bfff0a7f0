"""What the plugin capacity decides, as the text on it (seed 000) tells: who is admitted, placed and reclaimed.

Sections 5 to 8, the samples of section 10, and the questions of section 11.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from engine.documented.worked_example import (
    CLUSTER,
    EXAMPLE,
    amounts,
    cores_of,
    flat_conf,
    gi_of,
    holds,
    manifests,
    seven_queues,
    tree_conf,
    wants,
)
from kilauea.engine.extension import FLAGS
from kilauea.engine.plan import Plan
from kilauea.engine.session import Session
from support.builders import (
    GPU,
    Data,
    Objects,
    binds,
    codes,
    conf,
    group,
    node,
    nominations,
    pending,
    phases,
    plan_of,
    plugin,
    pod,
    priority_class,
    queue,
)
from support.probes import inside, queue_figures

LEAVES = [q for q in seven_queues() if q.name not in ("root", "team-a", "team-b")]
RECLAIM = tree_conf("allocate, reclaim")


def evicted(plan: Plan) -> list[str]:
    return sorted(e.pod.removeprefix("ns/") for e in plan.evictions)


def held(plan: Plan, *names: str) -> list[float]:
    """Cores that queues hold after a cycle."""
    return [cores_of(plan.queues[name].allocated) for name in names]


# --- section 5: where capacity has its say


@pytest.mark.parametrize("in_tree", [False, True])
def test_where_capacity_has_its_say(in_tree: bool) -> None:
    def points(session: Session) -> set[str]:
        return {point for point in FLAGS for name, _ in session.points.walk(point) if name == "capacity"}

    found = inside(CLUSTER, queue("root"), queue("q"), do=points, conf=tree_conf("") if in_tree else flat_conf(""))
    assert {"queue_order", "job_enqueueable", "job_enqueued", "allocatable", "preemptive", "reclaimable"} <= found
    assert ("victim_queue_order" in found) is in_tree


# --- section 5.1: who may be reclaimed


def votes(queues: Objects, victims: list[Data], asked: Data, conf: Data) -> str:
    """Letters of the pods of queue `v`, as `a`, `b`, ..., that may go for a pod of queue `q`."""
    running = [pod(chr(97 + i), "held", requests=asks, node="n") for i, asks in enumerate(victims)]

    def ask(session: Session) -> str:
        tasks = session.state.tasks
        candidates = [tasks[f"ns/{chr(97 + i)}"] for i in range(len(victims))]
        return "".join(task.name for task in session.reclaimable(tasks["ns/preemptor"], candidates))

    jobs: list[Objects] = [
        group("held", "v", phase="Running"),
        running,
        group("g", "q"),
        pod("preemptor", "g", requests=asked),
    ]
    return inside(node("n", 100, "400Gi", gpu=8), queues, jobs, do=ask, conf=conf)


FOUR = [{"cpu": 1}] * 4
RECLAIMABLE = [
    pytest.param({"deserved": {"cpu": 2}}, FOUR, {"cpu": 1}, "ab", id="those beyond deserved, one after another"),
    pytest.param({"deserved": {"cpu": 4}}, FOUR, {"cpu": 1}, "", id="none of a queue that has what it deserves"),
    pytest.param({"deserved": {"cpu": 2}}, FOUR, {"memory": "1Gi"}, "", id="none that hold nothing of what is asked"),
    pytest.param({"deserved": {"cpu": 2}}, FOUR, {"cpu": 1, GPU: 1}, "ab", id="one resource in common is enough"),
    pytest.param({}, FOUR, {"cpu": 1}, "abcd", id="all of a queue that deserves nothing"),
    pytest.param({"guarantee": {"cpu": 3}}, FOUR, {"cpu": 1}, "a", id="but for what it is guaranteed"),
    pytest.param({"deserved": {"cpu": 2}, "guarantee": {"cpu": 2}}, FOUR, {"cpu": 1}, "ab", id="down to the guarantee"),
    pytest.param(
        {"deserved": {"cpu": 2, "memory": "2Gi"}},
        [{"memory": "4Gi"}, {"cpu": 1}, {GPU: 1}],
        {"cpu": 1, GPU: 1},
        "c",
        id="at once who holds only what is not deserved; memory is not asked for, cores are within",
    ),
    pytest.param(
        {"deserved": {GPU: 1}}, [{"cpu": 4, "memory": "4Gi", GPU: 1}], {"cpu": 1}, "", id="the gpu is deserved"
    ),
    pytest.param(
        {"deserved": {"cpu": 4, GPU: 1}}, [{"cpu": 2, GPU: 1}] * 2, {"cpu": 1}, "a", id="one resource beyond is enough"
    ),
]


@pytest.mark.parametrize("in_tree", [False, True])
@pytest.mark.parametrize(("limits", "victims", "asked", "expected"), RECLAIMABLE)
def test_who_may_be_reclaimed(limits: Any, victims: list[Data], asked: Data, expected: str, in_tree: bool) -> None:
    queues = [queue("root"), queue("v", **limits), queue("q", deserved={"cpu": 50, "memory": "50Gi", GPU: 8})]
    assert votes(queues, victims, asked, tree_conf("") if in_tree else flat_conf("")) == expected


# --- sections 5.1 and 5.2 on the seven queues: step by step


def full(training: int, batch: int, inference: int = 20) -> list[Objects]:
    """The cluster full: so many pods of 10 cores in `training` and `batch`, one pod in each of the others."""
    leaves = [holds("t", "training", *[10] * training), holds("b", "batch", *[10] * batch)]
    return [CLUSTER, seven_queues(), leaves, holds("i", "inference", inference), holds("o", "interactive", 10)]


def test_batch_takes_back_ten_cores_and_training_is_left_with_what_it_deserves() -> None:
    plan = plan_of(full(5, 2), wants("new", "batch", 10), conf=RECLAIM)
    assert (len(plan.evictions), nominations(plan)) == (1, {"new-0": "n"})
    assert held(plan, "training", "team-a", "batch", "team-b", "root") == [40, 60, 30, 40, 100]
    assert [plan.queues[name].share for name in ("training", "team-a", "batch")] == [1, 1, 1]


def test_batch_takes_nothing_beyond_what_it_deserves() -> None:
    """With 30 of 30 cores there would be 40: no one is asked, though `training` has 10 too many."""
    plan = plan_of(full(5, 3, inference=10), wants("new", "batch", 10), conf=RECLAIM)
    assert evicted(plan) == []
    two = plan_of(full(5, 2), wants("one", "batch", 10), wants("two", "batch", 10), conf=RECLAIM)
    assert (len(two.evictions), nominations(two)) == (1, {"one-0": "n"})


def test_a_gang_gets_all_that_its_queue_deserves_or_nothing() -> None:
    """20 cores would bring `batch` to 40."""
    assert evicted(plan_of(full(5, 2), wants("new", "batch", 10, 10), conf=RECLAIM)) == []


def test_training_loses_no_more_once_it_has_what_it_deserves() -> None:
    """It holds 40 of 40; `inference` holds 30 of 20 in three pods."""
    held_by = [holds("t", "training", 40), holds("i", "inference", 10, 10, 10), holds("b", "batch", 20)]
    plan = plan_of(CLUSTER, seven_queues(), held_by, wants("new", "batch", 20), conf=RECLAIM)
    assert plan.evictions == ()
    plan = plan_of(
        CLUSTER, seven_queues(), held_by, wants("new", "batch", 10), holds("o", "interactive", 10), conf=RECLAIM
    )
    assert (len(plan.evictions), held(plan, "training", "inference", "batch")) == (1, [40, 20, 30])


PREEMPTIVE = [
    pytest.param({"cpu": 1, GPU: 1}, 12, True, id="a gpu is missing though there are too many cores"),
    pytest.param({"cpu": 1}, 12, False, id="cores alone are too many"),
    pytest.param({GPU: 3}, 12, False, id="more gpus than deserved"),
    pytest.param({GPU: 2}, 12, True, id="just as many"),
    pytest.param({"cpu": 1, GPU: 3}, 9, True, id="a core is missing though there would be too many gpus"),
]


@pytest.mark.parametrize("in_tree", [False, True])
@pytest.mark.parametrize(("asked", "cores", "expected"), PREEMPTIVE)
def test_a_queue_may_reclaim_if_one_resource_is_within_what_it_deserves(
    asked: Data, cores: int, expected: bool, in_tree: bool
) -> None:
    """It deserves 10 cores and 4 gpus, and holds more cores and 2 gpus."""

    def ask(session: Session) -> bool:
        return session.preemptive(session.queues["q"], [session.state.tasks["ns/p"]])

    deserves = [queue("root"), queue("q", deserved={"cpu": 10, GPU: 4})]
    running = [group("r", phase="Running"), pod("r-0", "r", requests={"cpu": cores, GPU: 2}, node="n")]
    objects: list[Objects] = [node("n", 100, "400Gi", gpu=8), deserves, running, group(), pod("p", requests=asked)]
    assert inside(*objects, do=ask, conf=tree_conf("") if in_tree else flat_conf("")) is expected


def test_nothing_is_reclaimed_for_what_the_queue_could_not_place() -> None:
    """Memory would be within the 100Gi that `q` deserves, but cores would be 9 of the 8 that it may use at most."""
    limits: Data = {"cpu": 8, "memory": "100Gi"}
    queues = [queue("q", capability=limits, deserved=limits), queue("lends")]
    own = [group("own", phase="Running"), pod("own-0", "own", requests={"cpu": 7, "memory": "90Gi"}, node="n")]
    lent = [
        group("lent", "lends", phase="Running"),
        pod("lent-0", "lent", requests={"cpu": 13, "memory": "10Gi"}, node="n"),
    ]
    asked = [group(), pod("p", requests={"cpu": 2, "memory": "5Gi"})]
    plan = plan_of(node("n", 20, "100Gi"), queues, own, lent, asked, conf=flat_conf("allocate, reclaim"))
    assert (evicted(plan), codes(plan)) == ([], {"p": "QueueQuotaExceeded"})


def test_a_queue_with_too_many_cores_takes_back_gpus() -> None:
    """Two nodes of 2 cores and 10 gpus; both queues deserve 2 cores and 10 gpus."""
    nodes = [node(name, 2, "4Gi", gpu=10) for name in ("n1", "n2")]
    queues = [queue(name, deserved={"cpu": 2, "memory": "4Gi", GPU: 10}) for name in ("a", "b")]
    gpus = [pod(f"a-{i}", "a", requests={GPU: 10}, node=f"n{i + 1}") for i in range(2)]
    cores = [pod(f"b-{i}", "b", requests={"cpu": 2, "memory": "4Gi"}, node=f"n{i + 1}") for i in range(2)]
    running: list[Objects] = [group("a", "a", phase="Running"), gpus, group("b", "b", phase="Running"), cores]
    plan = plan_of(nodes, queues, running, group("g", "b"), pod("p", requests={GPU: 10}), conf=flat_conf("reclaim"))
    assert (len(plan.evictions), list(nominations(plan))) == (1, ["p"])
    assert set(evicted(plan)) < {"a-0", "a-1"}


# --- section 5.3: who gets room


def test_a_pod_may_borrow_up_to_the_real_capability() -> None:
    jobs = [wants(f"t{i}", "training", 10) for i in range(6)]
    plan = plan_of(CLUSTER, seven_queues(), jobs, conf=tree_conf("allocate"))
    assert held(plan, "training", "team-a", "root") == [50, 50, 50]
    assert {p.message for p in pending(plan).values()} == {"queue training would exceed the cpu that it may use"}


def test_every_ancestor_needs_room() -> None:
    """`training` has 50 and `inference` 20 of the 70 of their team; alone `inference` might have 30."""
    held_by = [holds("t", "training", 50), holds("i", "inference", 20)]
    plan = plan_of(CLUSTER, seven_queues(), held_by, wants("new", "inference", 1), conf=tree_conf("allocate"))
    found = pending(plan)["new-0"]
    assert (found.code, found.message, found.queue) == (
        "QueueQuotaExceeded",
        "queue team-a would exceed the cpu that it may use",
        "team-a",
    )


@pytest.mark.parametrize("state", ["Closed", "Closing", "Unknown"])
@pytest.mark.parametrize("in_tree", [False, True])
def test_a_queue_that_is_not_open_gets_nothing(state: str, in_tree: bool) -> None:
    queues = [queue("root"), queue("q", state=state, deserved=amounts(50)), queue("v")]
    jobs = [holds("v", "v", *[10] * 10), wants("g", "q", 10), wants("h", "q", 10, least=10, phase="Pending")]
    actions = "enqueue, allocate, reclaim"
    plan = plan_of(CLUSTER, queues, jobs, conf=tree_conf(actions) if in_tree else flat_conf(actions))
    assert (binds(plan), evicted(plan)) == ({}, [])
    assert codes(plan) == {"g-0": "QueueClosed", "h-0": "QueueClosed"}


# --- section 5.4: who is admitted


@pytest.mark.parametrize(("least", "expected"), [(15, "Inqueue"), (16, "Pending")])
def test_admission_counts_minimum_held_and_admitted_less_elastic(least: int, expected: str) -> None:
    """`training` may use 50 cores: 30 are held, 5 of them elastic, and 10 admitted, so 15 are left."""
    running = [holds("t", "training", 10, 5, least=10), holds("u", "training", 15, least=15)]
    admitted = wants("admitted", "training", least=10)
    new = wants("new", "training", least, least=least, phase="Pending")
    plan = plan_of(CLUSTER, seven_queues(), running, admitted, new, conf=tree_conf("enqueue"))
    found = plan.queues["training"]
    shift = least if expected == "Inqueue" else 0
    assert [cores_of(f) for f in (found.allocated, found.inqueue, found.elastic)] == [30, 10 + shift, 5]
    assert phases(plan)["new"] == expected


@pytest.mark.parametrize(
    ("of_queue", "least", "refused_by"),
    [
        pytest.param("inference", 30, None, id="within the 30 of inference"),
        pytest.param("inference", 31, "inference", id="beyond them"),
        pytest.param("training", 50, None, id="within the 50 of training"),
        pytest.param("training", 51, "training", id="beyond them"),
    ],
)
def test_admission_into_an_empty_tree(of_queue: str, least: int, refused_by: str | None) -> None:
    new = wants("new", of_queue, least, least=least, phase="Pending")
    plan = plan_of(CLUSTER, seven_queues(), new, conf=tree_conf("enqueue"))
    refusal = plan.groups["ns/new"].refusal
    assert (refusal.queue if refusal else None) == refused_by


def test_an_admission_counts_at_once_in_the_queue_and_its_ancestors() -> None:
    """`team-a` may use 70 cores: after 50 for `training` there are 20 for `inference`, though that might have 30."""
    first = wants("first", "training", 50, least=50, phase="Pending", created=1)
    others = [wants(f"i{i}", "inference", 10, least=10, phase="Pending", created=2 + i) for i in range(3)]
    plan = plan_of(CLUSTER, seven_queues(), first, others, conf=tree_conf("enqueue"))
    assert {name: cores_of(plan.queues[name].inqueue) for name in ("training", "inference", "team-a", "root")} == {
        "training": 50,
        "inference": 20,
        "team-a": 70,
        "root": 70,
    }
    refused = {key: outcome.refusal for key, outcome in plan.groups.items() if outcome.refusal}
    assert [(key, why.queue) for key, why in refused.items()] == [("ns/i2", "team-a")]


def test_a_refused_admission_is_told() -> None:
    new = wants("new", "inference", 40, least=40, phase="Pending")
    plan = plan_of(CLUSTER, seven_queues(), new, conf=tree_conf("enqueue"))
    found = pending(plan)["new-0"]
    assert (found.code, found.message) == (
        "QueueQuotaInsufficient",
        "queue resource quota insufficient: insufficient cpu, insufficient memory",
    )


def test_a_job_without_a_minimum_is_admitted() -> None:
    new = wants("new", "inference", 40, phase="Pending")
    assert phases(plan_of(CLUSTER, seven_queues(), new, conf=tree_conf("enqueue")))["new"] == "Inqueue"


# --- sections 5.6 and 6: what is only tried


def test_what_was_tried_in_vain_leaves_all_figures_as_they_were() -> None:
    """A gang of `batch` that would need 40 cores, of which it deserves 30, is tried pod by pod."""
    objects = [*full(5, 2), wants("new", "batch", 10, 10)]
    opened = inside(*objects, do=queue_figures, conf=tree_conf(""))
    assert inside(*objects, do=queue_figures, conf=RECLAIM) == opened


@pytest.mark.parametrize("in_tree", [False, True])
def test_in_a_full_queue_the_more_important_job_gets_the_room_of_the_less_important(in_tree: bool) -> None:
    """`training` has 50 of 50 cores: without the victim there is room for the preemptor in the queue and above."""
    important = wants("new", "training", 10)
    important[0] = group("new", "training", priority="high", created=9)
    less = holds("t", "training", 10, 10, 10, 10, 10)
    less[0] = group("t", "training", phase="Running", priority="low")
    classes = [priority_class("low", 1), priority_class("high", 9)]
    how = tree_conf("allocate, preempt") if in_tree else flat_conf("allocate, preempt")
    how["tiers"][0]["plugins"].append(plugin("priority"))
    queues = seven_queues() if in_tree else LEAVES
    plan = plan_of(CLUSTER, queues, classes, less, important, conf=how)
    assert (len(plan.evictions), nominations(plan)) == (1, {"new-0": "n"})
    assert held(plan, "training") == [50]


# --- section 8: beside proportion


def test_only_proportion_calls_a_queue_overused() -> None:
    def overused(session: Session) -> bool:
        return session.overused(session.queues["q"]) is not None

    objects: list[Objects] = [CLUSTER, queue("q", deserved=amounts(10)), holds("g", "q", *[10] * 10)]
    found = {by: inside(*objects, do=overused, conf=conf("", [by])) for by in ("proportion", "capacity")}
    assert found == {"proportion": True, "capacity": False}


@pytest.mark.parametrize(("by", "expected"), [("proportion", True), ("capacity", False)])
def test_the_vote_of_proportion_protects_no_guarantee_and_that_of_capacity_does(by: str, expected: bool) -> None:
    """Two queues of 50 cores each; `v` holds 100 in two pods and is guaranteed 60."""
    queues = [queue("q", deserved=amounts(50)), queue("v", deserved=amounts(40), guarantee=amounts(60))]
    asked, half = amounts(50), {"cpu": 50, "memory": "200Gi"}
    assert bool(votes(queues, [half, half], asked, conf("", [by]))) is expected


@pytest.mark.parametrize("by", ["proportion", "capacity"])
def test_reclaim_leaves_a_guarantee_alone_under_either(by: str) -> None:
    queues = [queue("q", deserved=amounts(50)), queue("v", deserved=amounts(40), guarantee=amounts(60))]
    how = conf("allocate, reclaim", [plugin("gang", enableReclaimable=False), by, "predicates"])
    plan = plan_of(CLUSTER, queues, holds("held", "v", 50, 50), wants("new", "q", 40), conf=how)
    assert evicted(plan) == []


def test_a_guide_to_the_choice_of_the_plugin() -> None:
    """The page about queues answers what the text asks: weights, amounts in numbers, a tree, guarantees."""
    page = (Path(__file__).resolve().parents[3] / "docs" / "concepts" / "queues.md").read_text()
    rows = re.findall(r"^\| ([^|]+) \| ([^|]+) \|$", page.split("## Which plugin")[1], re.MULTILINE)
    use = {
        key: use
        for want, use in rows
        for key in ("by weight, without amounts", "fixed deserved", "departments")
        if key in want
    }
    assert use["by weight, without amounts"].startswith("`proportion`")
    assert use["fixed deserved"] == "`capacity`"
    assert use["departments"] == "`capacity` with `enableHierarchy: true`"
    assert "No queue falls below its guarantee in any resource." in page


# --- section 10: samples


SAMPLE_CONF = """
actions: "enqueue, allocate, reclaim, backfill, preempt"
tiers:
- plugins:
  - name: gang
  - name: capacity
    enabledHierarchy: true
  - name: predicates
  - name: nodeorder
"""

SAMPLE_TREE = """
apiVersion: scheduling.volcano.sh/v1beta1
kind: Queue
metadata:
  name: root
spec:
  deserved:
    cpu: "100"
    memory: "400Gi"
---
apiVersion: scheduling.volcano.sh/v1beta1
kind: Queue
metadata:
  name: team-a
spec:
  parent: root
  deserved:
    cpu: "60"
    memory: "240Gi"
  capability:
    cpu: "70"
    memory: "300Gi"
  guarantee:
    resource:
      cpu: "20"
      memory: "80Gi"
---
apiVersion: scheduling.volcano.sh/v1beta1
kind: Queue
metadata:
  name: training
spec:
  parent: team-a
  deserved:
    cpu: "40"
    memory: "160Gi"
  capability:
    cpu: "50"
    memory: "200Gi"
  guarantee:
    resource:
      cpu: "10"
      memory: "40Gi"
"""


def test_the_sample_of_a_tree_as_it_is_written() -> None:
    plan = plan_of(CLUSTER, manifests(SAMPLE_TREE), wants("g", "training", 10), conf=yaml.safe_load(SAMPLE_CONF))
    for name in ("team-a", "training"):
        found, row = plan.queues[name], EXAMPLE[name]
        listed = (found.deserved, found.capability, found.guarantee)
        assert [cores_of(f) for f in listed[::2]] == [row.deserved, row.guarantee]
        assert (cores_of(listed[1]), gi_of(listed[1])) == {"team-a": (70, 300), "training": (50, 200)}[name]
        assert found.parent == row.parent
    assert (binds(plan), held(plan, "training", "team-a", "root")) == ({"g-0": "n"}, [10, 10, 10])


def test_the_sample_of_a_configuration_runs_as_it_is_written() -> None:
    """Gang votes in the tier of capacity: it spares the pods that a gang needs, and lets go of the others."""
    sample = yaml.safe_load(SAMPLE_CONF)
    plan = plan_of(*full(5, 2), wants("new", "batch", 10, least=10, phase="Pending"), conf=sample)
    assert (plan.findings, phases(plan)["new"]) == ((), "Inqueue")
    assert (len(plan.evictions), nominations(plan)) == (1, {"new-0": "n"})
    assert held(plan, "training", "batch") == [40, 30]


# --- section 11: questions


def test_question_1_a_queue_that_deserves_nothing_is_served_last_and_loses_first() -> None:
    """Its share is 1: behind who has room, and behind who has just what it deserves."""
    queues = [*LEAVES, queue("spare", created=0)]
    spare = wants("s", "spare", 10, created=0)
    jobs = [holds("t", "training", 10, 10, 10), wants("new", "training", 10, created=1), spare]
    filled = [holds("b", "batch", 40), holds("o", "interactive", 20)]
    assert binds(plan_of(CLUSTER, queues, jobs, filled, conf=flat_conf("allocate"))) == {"new-0": "n"}
    running = [holds("s", "spare", 10, 10, 10), holds("b", "batch", 30), holds("t", "training", 40)]
    plan = plan_of(CLUSTER, queues, running, wants("new", "inference", 20), conf=flat_conf("allocate, reclaim"))
    assert [name[0] for name in evicted(plan)] == ["s", "s"]


def test_question_2_a_child_with_a_larger_capability_is_still_held_to_its_parent() -> None:
    queues = [queue("root"), queue("team", capability=amounts(60)), queue("a", parent="team", capability=amounts(90))]
    jobs = [wants(f"g{i}", "a", 10) for i in range(8)]
    plan = plan_of(CLUSTER, queues, jobs, conf=tree_conf("allocate"))
    assert held(plan, "a", "team") == [60, 60]
    assert [(f.where, f.code) for f in plan.findings] == [("queue a", "CapabilityAboveParent")]


def test_question_3_the_real_capability_can_be_far_below_the_capability() -> None:
    queues = [queue("mine", capability=amounts(90), guarantee=amounts(5)), queue("others", guarantee=amounts(70))]
    plan = plan_of(CLUSTER, queues, [wants(f"g{i}", "mine", 10) for i in range(5)], conf=flat_conf("allocate"))
    found = plan.queues["mine"]
    assert (cores_of(found.capability), cores_of(found.real_capability)) == (90, 30)
    assert held(plan, "mine") == [30]


def test_question_5_a_job_in_an_inner_queue_waits_and_the_others_are_scheduled() -> None:
    jobs = [wants("inner", "team-a", 10), wants("new", "batch", 10), wants("p", "team-a", 1, least=1, phase="Pending")]
    plan = plan_of(CLUSTER, seven_queues(), jobs, conf=tree_conf("enqueue, allocate"))
    assert binds(plan) == {"new-0": "n"}
    assert codes(plan) == {"inner-0": "QueueNotLeaf", "p-0": "QueueNotLeaf"}


def test_nothing_is_reclaimed_for_a_job_in_an_inner_queue() -> None:
    plan = plan_of(full(5, 2), wants("inner", "team-b", 10), conf=RECLAIM)
    assert (evicted(plan), codes(plan)) == ([], {"inner-0": "QueueNotLeaf"})
