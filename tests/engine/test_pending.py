"""Why a pod waits: a code, words and numbers for every reason, and which of several reasons is given."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from kilauea.api.wellknown import QUEUE_NAME
from kilauea.engine.cycle import cycle
from kilauea.engine.extension import REJECT, Refusal
from kilauea.engine.plan import Pending
from kilauea.engine.session import Session
from support.builders import (
    GI,
    GPU,
    NOW,
    Data,
    Objects,
    codes,
    conf,
    gang,
    group,
    node,
    parsed,
    pending,
    plan_of,
    plugin,
    pod,
    queue,
    state_of,
)
from support.probes import full, plugin_called

ALL = conf("enqueue, allocate, backfill", ["gang"], ["predicates", "overcommit", "proportion"])
GATE = [{"name": "example.com/wait"}]
RUNS = pod("r-w-0", "r", node="n1", cpu=3)


def waits(*objects: Objects, conf: Data = ALL) -> Pending:
    """Why pod `p` waits."""
    return pending(plan_of(*objects, conf=conf))["p"]


@pytest.mark.parametrize(
    ("objects", "code", "words"),
    [
        pytest.param([pod("p")], "PodGroupNotFound", "pod group ns/g does not exist", id="its group does not exist"),
        pytest.param([pod("p", "")], "NoPodGroup", "scheduling.k8s.io/group-name", id="it names no group"),
        pytest.param(
            [pod("p", "", annotations={QUEUE_NAME: "none"})],
            "QueueNotFound",
            "queue none of annotation scheduling.volcano.sh/queue-name does not exist",
            id="its controller cannot give it a group, since the queue does not exist",
        ),
        pytest.param(
            [queue("q", state="Closed"), pod("p", "", annotations={QUEUE_NAME: "q"})],
            "QueueClosed",
            "queue q is Closed, so the pod gets no pod group",
            id="its controller cannot give it a group, since the queue is closed",
        ),
        pytest.param(
            [group(queue="none"), pod("p")],
            "QueueNotFound",
            "queue none of pod group ns/g does not exist",
            id="its queue does not exist",
        ),
        pytest.param([group(), pod("p", schedulingGates=GATE)], "SchedulingGated", "gate", id="a gate holds it back"),
        pytest.param(
            [group(minimum=2), pod("p")], "NotEnoughTasks", "valid: 1, min: 2", id="its gang has too few pods"
        ),
        pytest.param(
            [group(minimum=1, roles={"a": 1}), pod("p", role="b")],
            "NotEnoughPodsOfTask",
            "of each task",
            id="a role of its gang has too few pods",
        ),
        pytest.param(
            [group(phase="Pending", resources={"cpu": 99}), pod("p")],
            "ClusterOvercommitted",
            "resource in cluster is overused: overused cpu",
            id="a voter does not admit its group",
        ),
        pytest.param(
            [queue("q", state="Closed"), group(), pod("p")],
            "QueueClosed",
            "queue q is Closed",
            id="its queue is closed",
        ),
        pytest.param(
            [queue("q", capability={"cpu": 1}), group(), pod("p", cpu=2)],
            "QueueQuotaExceeded",
            "queue q would exceed its deserved cpu",
            id="its queue has too little",
        ),
        pytest.param(
            [group("r"), pod("r-w-0", "r", node="n1", cpu=3), group(), pod("p", cpu=2)],
            "QueueQuotaExceeded",
            "queue q would exceed its deserved cpu; all nodes together have 4 cpu",
            id="the cluster is full, and its queue may have all of it",
        ),
        pytest.param(
            [group(), pod("p", nodeSelector={"none": "such"})],
            "Unschedulable",
            "0/1 nodes are unavailable: 1 node(s) didn't match Pod's node affinity/selector.",
            id="no node takes it",
        ),
        pytest.param(
            [group(minimum=2), pod("p"), pod("z", nodeSelector={"none": "such"})],
            "GangWaiting",
            "its gang of 2 waits for z: 0/1 nodes are unavailable",
            id="no node takes another pod of its gang",
        ),
        pytest.param(
            [group("r"), pod("r-w-0", "r", node="n1", cpu=4, deleting=True), group(), pod("p")],
            "Nominated",
            "nominated to node n1, where resources are being freed",
            id="room is being freed for it",
        ),
    ],
)
def test_reasons(objects: list[Objects], code: str, words: str) -> None:
    why = waits(node("n1"), *objects)
    assert why.code == code
    assert words in why.message


@pytest.mark.parametrize(
    ("actions", "phase", "code"),
    [
        pytest.param("backfill", "Inqueue", "NotReached", id="no action deals with such pods"),
        pytest.param("backfill", "Pending", "NotAdmitted", id="no action admits groups"),
        pytest.param("enqueue", "Pending", "NotReached", id="it is admitted, and no action deals with it"),
    ],
)
def test_reasons_that_lie_in_the_configuration(actions: str, phase: str, code: str) -> None:
    assert waits(node("n1"), group(phase=phase), pod("p"), conf=conf(actions, ["gang"])).code == code


def test_a_queue_that_has_all_it_deserves() -> None:
    objects: list[Objects] = [
        node("n1", 2, "2Gi", 2),
        queue("a"),
        queue("b"),
        gang("r", 1, queue="a", node="n1"),
        gang("y", 2, queue="b"),
    ]
    why = waits(*objects, group("g", "a"), pod("p"))
    assert (why.code, why.queue, why.message) == ("QueueOverused", "a", "queue a has all that it deserves")


# --- who it is about


def test_a_reason_names_the_pod_its_group_and_its_queue() -> None:
    why = waits(node("n1", cpu=0), group(), pod("p"))
    assert (why.pod, why.group, why.queue) == (full("p"), full("g"), "q")


def test_reasons_come_in_the_order_of_jobs_and_pods_and_homeless_pods_last() -> None:
    objects: list[Objects] = [gang("b", 2, created=0), gang("a", 1, created=1), pod("z", ""), pod("c", "")]
    plan = plan_of(node("n1", cpu=0), *objects, conf=ALL)
    assert list(codes(plan)) == ["b-w-0", "b-w-1", "a-w-0", "c", "z"]


def test_without_reasons_a_plan_gives_those_of_promised_pods_and_is_otherwise_the_same() -> None:
    leaving = gang("old", 1, node="n1", cpu=4, deleting=True)
    state = state_of(node("n1", cpu=4), leaving, gang("g", 1, cpu=3), gang("large", 2, cpu=9), pod("lost", ""))
    usable, plugins, actions = parsed(ALL)
    plan = cycle(state, usable, NOW, plugins=plugins, actions=actions)
    short = cycle(state, usable, NOW, plugins=plugins, actions=actions, reasons=False)
    promised = tuple(each for each in plan.pending if each.code == "Nominated")
    assert ([each.pod for each in promised], len(plan.pending)) == ([full("g-w-0")], 4)
    assert short == dataclasses.replace(plan, pending=promised)


@pytest.mark.parametrize(
    "running",
    [
        pytest.param(pod("p", node="n1"), id="it runs"),
        pytest.param(pod("p", node="n1", phase="Pending"), id="it is bound"),
        pytest.param(pod("p", node="n1", phase="Succeeded"), id="it has ended"),
        pytest.param(pod("p", deleting=True), id="it is being deleted"),
        pytest.param(pod("p"), id="it starts now"),
        pytest.param(pod("p", schedulerName="other"), id="it belongs to another scheduler"),
    ],
)
def test_pods_that_do_not_wait_have_no_reason(running: Objects) -> None:
    assert codes(plan_of(node("n1"), group(), running, conf=ALL)) == {}


# --- numbers


def numbers(why: Pending) -> tuple[str, float, float]:
    return why.resource, why.asked, why.left


@pytest.mark.parametrize(
    ("nodes", "asked", "expected"),
    [
        pytest.param(
            [node("n1"), node("n2", cpu=7)], {"cpu": "8"}, ("cpu", 8000, 7000), id="the node with the most left"
        ),
        pytest.param(
            [node("n1"), node("n2", cpu=64, taints=["a=b:NoSchedule"])],
            {"cpu": "8"},
            ("cpu", 8000, 4000),
            id="nodes that something else rules out do not count",
        ),
        pytest.param(
            [node("n1", memory="1Gi"), node("n2", memory="2Gi"), node("n3", cpu=1)],
            {"cpu": "2", "memory": "4Gi"},
            ("memory", 4 * GI, 2 * GI),
            id="the resource that most nodes lack",
        ),
        pytest.param([node("n1"), node("n2", gpu=1)], {GPU: 2}, (GPU, 2000, 1000), id="a scalar"),
        pytest.param(
            [node("n1", pods=0)],
            {"cpu": "1"},
            ("pods", 1, 0),
            id="pod slots",
        ),
        pytest.param([node("n1", taints=["a=b:NoSchedule"])], {"cpu": "1"}, ("", 0, 0), id="no amount is to blame"),
    ],
)
def test_numbers_of_a_pod_that_no_node_takes(
    nodes: list[Objects], asked: Data, expected: tuple[str, float, float]
) -> None:
    assert numbers(waits(nodes, group(), pod("p", requests=asked), conf=conf("allocate", ["predicates"]))) == expected


def test_numbers_count_what_is_used() -> None:
    assert numbers(waits(node("n1"), group("r"), RUNS, group(), pod("p", cpu=2), conf=conf("allocate", ["gang"]))) == (
        "cpu",
        2000,
        1000,
    )


def test_numbers_of_a_node_that_carries_too_much_are_not_below_zero() -> None:
    over = pod("r-w-0", "r", node="n1", cpu=9)
    assert numbers(waits(node("n1"), group("r"), over, group(), pod("p"), conf=conf("allocate", ["gang"]))) == (
        "cpu",
        1000,
        0,
    )


def test_a_gang_that_waits_has_the_numbers_of_the_pod_that_it_waits_for() -> None:
    why = waits(node("n1"), group(minimum=2), pod("p"), pod("z", cpu=9), conf=conf("allocate", ["gang"]))
    assert why.code == "GangWaiting"
    assert numbers(why) == ("cpu", 9000, 3000)
    assert why.message == "its gang of 2 waits for z: 0/1 nodes are unavailable: 1 Insufficient cpu."


def test_a_gang_that_waits_for_its_queue_has_the_numbers_of_the_queue() -> None:
    why = waits(node("n1"), queue("q", capability={"cpu": 2}), group(minimum=3), [pod(n) for n in ("p", "x", "z")])
    assert (why.code, numbers(why)) == ("GangWaiting", ("cpu", 3000, 2000))
    assert why.message.startswith("its gang of 3 waits for z: queue q would exceed its deserved cpu")


def test_of_equally_scarce_resources_the_same_is_named_whatever_came_first() -> None:
    scarce = [node("n1"), group(), pod("p", requests={"a.io/x": 1, "b.io/y": 1})]
    early = [pod("early", "", requests={name: 1}, node="n9") for name in ("a.io/x", "b.io/y")]
    found = [numbers(waits(order, scarce, conf=conf("allocate", ["gang"]))) for order in (early, early[::-1])]
    assert found[0] == found[1]


# --- which of several reasons


def refusing(point: str) -> Any:
    def open_session(session: Session) -> None:
        refusal = Refusal("Mine", "so I say")
        answer = (REJECT, refusal) if point == "job_enqueueable" else refusal
        getattr(session, f"add_{point}")("mine", lambda *_: answer)

    return plugin_called("mine", open_session)


@pytest.mark.parametrize("point", ["job_enqueueable", "allocatable", "overused", "pre_predicate"])
def test_a_plugin_gives_its_own_code_and_words(point: str) -> None:
    objects = [node("n1"), group(phase="Pending", resources={"cpu": 1}), pod("p")]
    plan = plan_of(*objects, conf=conf("enqueue, allocate", ["mine"]), plugins=[refusing(point)])
    assert (pending(plan)["p"].code, pending(plan)["p"].message) == ("Mine", "so I say")


def test_too_few_pods_before_room() -> None:
    assert waits(node("n1", cpu=0), group(minimum=2), pod("p")).code == "NotEnoughTasks"


def test_the_queue_before_the_nodes() -> None:
    assert waits(node("n1", cpu=0), queue("q", state="Closed"), group(), pod("p")).code == "QueueClosed"


def test_a_gate_before_everything() -> None:
    assert waits(group(minimum=2), pod("p", schedulingGates=GATE)).code == "SchedulingGated"


def test_a_pod_that_grows_a_running_gang_says_why_it_does_not_fit() -> None:
    objects = [node("n1", cpu=4), group(minimum=1), pod("r", node="n1", cpu=4), pod("p")]
    assert waits(*objects, conf=conf("allocate", ["gang"])).code == "Unschedulable"


def test_a_pod_that_would_have_fitted_waits_for_the_one_that_did_not() -> None:
    plan = plan_of(node("n1", cpu=2), gang("g", 3), conf=conf("allocate", ["gang"]))
    assert codes(plan) == {"g-w-0": "GangWaiting", "g-w-1": "GangWaiting", "g-w-2": "Unschedulable"}


def test_a_pod_with_the_name_of_another_group_does_not_take_over_its_reason() -> None:
    other = [group("p", minimum=5), pod("x", "p")]
    plan = plan_of(node("n1", cpu=0), other, group(), pod("p"), conf=conf("allocate", ["gang"]))
    assert codes(plan) == {"x": "NotEnoughTasks", "p": "Unschedulable"}


def test_a_group_with_the_name_of_another_pod_does_not_take_over_its_reason() -> None:
    def open_session(session: Session) -> None:
        session.add_allocatable("mine", lambda _, task: Refusal("Mine", "so I say") if task.name == "p" else None)

    other = [group("p", minimum=2), pod("y", "p"), pod("z", "p", cpu=99)]
    only_p = conf("allocate", ["gang", "mine"])
    plan = plan_of(node("n1"), other, group(), pod("p"), conf=only_p, plugins=[plugin_called("mine", open_session)])
    assert codes(plan) == {"p": "Mine", "y": "GangWaiting", "z": "Unschedulable"}


def test_switched_off_plugins_give_no_reasons() -> None:
    off = conf("allocate", [plugin("gang")], [plugin("proportion", enabledAllocatable=False, enabledOverused=False)])
    assert codes(plan_of(node("n1"), queue("q", state="Closed"), group(), pod("p"), conf=off)) == {}


# --- phases of groups whose pods terminate


@pytest.mark.parametrize("size", [1, 3])
@pytest.mark.parametrize("leaving", [1, 3])
@pytest.mark.parametrize("replaced", [False, True], ids=["alone", "replacement"])
@pytest.mark.parametrize("phase", ["Running", "Pending", "Unknown"])
def test_a_group_is_running_while_its_pods_terminate(size: int, leaving: int, replaced: bool, phase: str) -> None:
    pods = [pod(f"g-{i}", "g", cpu=1, node="n1", deleting=i < leaving) for i in range(size)]
    late = [pod("g-late", "g", cpu=1)] if replaced else []
    document = conf("enqueue, allocate, backfill", ["priority", "gang"], ["predicates", "proportion"])
    plan = plan_of(node("n1", cpu=size), group("g", minimum=size, phase=phase), pods, late, conf=document)
    told = plan.groups.get("ns/g")
    assert (told.phase if told else phase) == "Running"


def test_a_group_whose_pods_have_gone_below_its_minimum_is_unknown_while_others_run() -> None:
    pods = [pod(f"g-{i}", "g", cpu=1, node="n1") for i in range(2)]
    plan = plan_of(node("n1", cpu=2), group("g", minimum=3, phase="Running"), pods, pod("g-2", "g", cpu=1))
    assert plan.groups["ns/g"].phase == "Unknown"


def test_pods_of_a_gang_whose_mate_is_nominated_say_for_which_pod_they_wait() -> None:
    leaves = [group("o", phase="Running"), pod("o-0", "o", node="n1", deleting=True)]
    plan = plan_of(node("n1", cpu=3), leaves, gang("g", 3), conf=conf("allocate", ["gang"], ["predicates"]))
    (nominated,) = [name for name, why in pending(plan).items() if why.code == "Nominated"]
    words = f"its gang of 3 waits for {nominated}: nominated to node n1, where resources are being freed"
    assert [why.message for why in pending(plan).values() if why.code == "GangWaiting"] == [words, words]
