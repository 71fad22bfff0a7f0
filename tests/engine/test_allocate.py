"""The action allocate: turns, promised room, nominated nodes, gates, roles that failed, and how ties fall."""

from __future__ import annotations

from typing import Any

import pytest

from kilauea.engine.session import Session
from support.builders import (
    PLAIN,
    Objects,
    binds,
    codes,
    conf,
    gang,
    group,
    node,
    nominations,
    pending,
    phases,
    plan_of,
    pod,
    queue,
)
from support.probes import crowd, full, inside

ALLOCATE = conf("allocate", ["gang"], ["predicates"])
LEAST = conf("allocate", ["gang"], ["predicates", ("nodeorder", {"balancedresource.weight": 0})])
MOST = conf(
    "allocate",
    ["gang"],
    [
        "predicates",
        ("nodeorder", {"leastrequested.weight": 0, "mostrequested.weight": 1, "balancedresource.weight": 0}),
    ],
)


def leaving(name: str, on: str, **more: Any) -> Objects:
    """A pod of group `old` that is being deleted."""
    return pod(name, "old", node=on, deleting=True, **more)


# --- turns


def test_a_gang_starts_in_one_turn_and_grows_by_one_pod_a_turn() -> None:
    queues = [queue("q1"), queue("q2")]
    jobs = [gang("g", 5, 3, queue="q1"), gang("h", 5, 1, queue="q2")]
    plan = plan_of(node("n1", cpu=10), queues, jobs, conf=conf("allocate", ["gang"], ["proportion"]))
    order = [b.pod.removeprefix("ns/").replace("-w-", "") for b in plan.binds]
    assert order == ["g0", "g1", "g2", "h0", "h1", "h2", "g3", "h3", "g4", "h4"]


def test_within_a_queue_a_job_that_is_ready_waits_for_those_that_are_not() -> None:
    plan = plan_of(node("n1"), gang("a", 3, 1, created=0), gang("b", 1, created=1), conf=ALLOCATE)
    assert [b.pod for b in plan.binds] == [full(n) for n in ("a-w-0", "b-w-0", "a-w-1", "a-w-2")]


def test_pods_of_a_job_go_by_the_number_in_their_name() -> None:
    pods = [pod(f"g-w-{i}") for i in (10, 9, 2)]
    plan = plan_of(node("n1", cpu=2), group(), pods, conf=ALLOCATE)
    assert [b.pod for b in plan.binds] == [full("g-w-2"), full("g-w-9")]


# --- room that is being freed


def test_a_gang_for_which_room_is_being_freed_holds_what_it_has_and_starts_nothing() -> None:
    objects: list[Objects] = [
        node("n1", cpu=3),
        [group("old", minimum=0, phase="Running"), leaving("old-0", "n1")],
        gang("g", 3, created=0),
        gang("late", 1, created=1),
    ]
    plan = plan_of(*objects, conf=ALLOCATE)
    assert binds(plan) == {}
    assert nominations(plan) == {"g-w-2": "n1"}
    assert plan.groups[full("g")].counts == {"Allocated": 2, "Pipelined": 1}
    assert codes(plan) == {
        "g-w-0": "GangWaiting",
        "g-w-1": "GangWaiting",
        "g-w-2": "Nominated",
        "late-w-0": "Unschedulable",
    }


def test_a_gang_that_fits_in_part_is_undone_and_leaves_its_room() -> None:
    plan = plan_of(node("n1", cpu=2), gang("g", 3, created=0), gang("late", 2, created=1), conf=ALLOCATE)
    assert binds(plan) == {"late-w-0": "n1", "late-w-1": "n1"}
    assert plan.groups[full("g")].counts == {"Pending": 3}


def test_a_pod_is_promised_a_node_that_is_being_freed() -> None:
    plan = plan_of(
        node("n1", cpu=2), group("old"), leaving("old-0", "n1", cpu="2"), gang("g", 1, cpu="2"), conf=ALLOCATE
    )
    assert (binds(plan), nominations(plan)) == ({}, {"g-w-0": "n1"})
    assert pending(plan)["g-w-0"].message == "nominated to node n1, where resources are being freed"


def test_room_is_promised_only_once() -> None:
    jobs = [gang("a", 1, created=0), gang("b", 1, created=1)]
    plan = plan_of(node("n1", cpu=1), group("old"), leaving("old-0", "n1"), jobs, conf=ALLOCATE)
    assert nominations(plan) == {"a-w-0": "n1"}
    assert codes(plan) == {"a-w-0": "Nominated", "b-w-0": "Unschedulable"}


def test_a_node_with_room_now_wins_over_a_better_one_that_is_being_freed() -> None:
    objects = [node("n1", cpu=2), node("n2", cpu=64), group("old"), leaving("old-0", "n1", cpu="2"), gang("g", 1)]
    assert binds(plan_of(*objects, conf=MOST)) == {"g-w-0": "n2"}


def test_among_nodes_that_are_being_freed_the_best_is_taken() -> None:
    old = [group("old"), leaving("old-0", "n1", cpu="1"), leaving("old-1", "n2", cpu="3")]
    objects: list[Objects] = [node("n1", cpu=1, memory="4Gi"), node("n2", cpu=3), old, gang("g", 1)]
    assert nominations(plan_of(*objects, conf=LEAST)) == {"g-w-0": "n2"}
    assert nominations(plan_of(*objects, conf=MOST)) == {"g-w-0": "n1"}


# --- nominated nodes


@pytest.mark.parametrize(
    ("nominated", "more", "placed"),
    [
        pytest.param("n2", [], {"g-w-0": "n2"}, id="it is taken although another is better"),
        pytest.param("n3", [], {"g-w-0": "n1"}, id="one that does not exist is passed over"),
        pytest.param(
            "n2", [pod("r", "old", cpu="4", node="n2")], {"g-w-0": "n1"}, id="one without room is passed over"
        ),
    ],
)
def test_nominated_node(nominated: str, more: list[Objects], placed: dict[str, str]) -> None:
    objects = [node("n1", cpu=8), node("n2", cpu=4), group("old"), gang("g", 1, nominated=nominated), *more]
    assert binds(plan_of(*objects, conf=LEAST)) == placed


def test_nominated_node_that_a_filter_rules_out_is_passed_over() -> None:
    objects: list[Objects] = [node("n1"), node("n2", taints=["a=b:NoSchedule"]), gang("g", 1, nominated="n2")]
    assert binds(plan_of(*objects, conf=ALLOCATE)) == {"g-w-0": "n1"}


def test_nominated_node_that_is_being_freed_is_waited_for() -> None:
    old = [group("old"), leaving("old-0", "n2", cpu="4")]
    plan = plan_of(node("n1", cpu="0"), node("n2"), old, gang("g", 1, nominated="n2"), conf=ALLOCATE)
    assert (binds(plan), nominations(plan)) == ({}, {"g-w-0": "n2"})


def test_a_pod_that_waits_for_its_nominated_node_starts_where_room_is_left() -> None:
    """What it was promised may be freed late, or never."""
    old = [group("old"), leaving("old-0", "n2", cpu="4")]
    plan = plan_of(node("n1"), node("n2"), old, gang("g", 1, nominated="n2"), conf=ALLOCATE)
    assert (binds(plan), nominations(plan)) == ({"g-w-0": "n1"}, {})


# --- gates


OWN_GATE = "scheduling.volcano.sh/queue-allocation-gate"


@pytest.mark.parametrize(
    "gates",
    [
        pytest.param(["example.com/wait"], id="a gate of another controller"),
        pytest.param([OWN_GATE], id="the gate of the queue"),
        pytest.param([OWN_GATE, "example.com/wait"], id="both"),
    ],
)
def test_a_gate_holds_a_pod_back(gates: list[str]) -> None:
    held = pod("g-w-0", schedulingGates=[{"name": name} for name in gates])
    plan = plan_of(node("n1"), group(), held, pod("g-w-1"), conf=PLAIN)
    assert binds(plan) == {"g-w-1": "n1"}
    assert codes(plan) == {"g-w-0": "SchedulingGated"}


def test_a_gated_pod_keeps_its_gang_waiting() -> None:
    held = pod("g-w-0", schedulingGates=[{"name": "example.com/wait"}])
    plan = plan_of(node("n1"), group(minimum=2), held, pod("g-w-1"), conf=PLAIN)
    assert binds(plan) == {}
    assert codes(plan) == {"g-w-0": "SchedulingGated", "g-w-1": "GangWaiting"}


def test_a_gated_pod_that_asks_for_nothing_is_held_back_too() -> None:
    held = pod("g-w-0", requests={}, schedulingGates=[{"name": "example.com/wait"}])
    plan = plan_of(node("n1"), group(), held, conf=PLAIN)
    assert (binds(plan), codes(plan)) == ({}, {"g-w-0": "SchedulingGated"})


# --- after a pod that did not fit


def test_pods_of_the_role_that_failed_are_not_tried_again() -> None:
    pods = [pod("g-a-0", role="a", cpu="9"), pod("g-a-1", role="a"), pod("g-b-2", role="b")]
    plan = plan_of(node("n1"), group(minimum=1), pods, conf=ALLOCATE)
    assert binds(plan) == {"g-b-2": "n1"}
    skipped = "Task g-a-1 with role spec a has already predicated failed, skip"
    assert (pending(plan)["g-a-1"].code, pending(plan)["g-a-1"].message) == ("Unschedulable", skipped)


def test_pods_without_a_role_are_tried_one_by_one() -> None:
    pods = [pod("g-a-0", cpu="9"), pod("g-a-1")]
    assert binds(plan_of(node("n1"), group(minimum=1), pods, conf=ALLOCATE)) == {"g-a-1": "n1"}


@pytest.mark.parametrize(
    ("minimum", "roles", "pods", "bound"),
    [
        pytest.param(
            2, {"a": 2, "b": 2}, {"a": 2, "b": 2}, 2, id="below the sum of roles the other roles may reach the minimum"
        ),
        pytest.param(3, {"a": 2, "b": 2}, {"a": 2, "b": 2}, 0, id="but not if they are too few"),
        pytest.param(2, {"a": 1, "b": 1}, {"a": 2, "b": 2}, 0, id="a role that failed below its minimum ends it"),
        pytest.param(2, {"b": 2}, {"a": 2, "b": 2}, 2, id="a role without a minimum does not"),
    ],
)
def test_going_on_after_the_first_role_failed(
    minimum: int, roles: dict[str, int], pods: dict[str, int], bound: int
) -> None:
    members = [
        pod(f"g-{role}-{i}", role=role, cpu="99" if role == "a" else "1", priority=2 if role == "a" else 1)
        for role, count in pods.items()
        for i in range(count)
    ]
    both = conf("allocate", ["gang", "priority"], ["predicates"])
    assert len(binds(plan_of(node("n1", cpu=8), group(minimum=minimum, roles=roles), members, conf=both))) == bound


# --- admission and queues


def test_without_enqueue_allocate_admits_what_waits() -> None:
    plan = plan_of(node("n1"), gang("g", 1, phase="Pending"), conf=ALLOCATE)
    assert (binds(plan), phases(plan)["g"]) == ({"g-w-0": "n1"}, "Inqueue")


def test_with_enqueue_after_it_allocate_passes_over_what_waits() -> None:
    plan = plan_of(node("n1"), gang("g", 1, phase="Pending"), conf=conf("allocate, enqueue", ["gang"]))
    assert (binds(plan), phases(plan)["g"]) == ({}, "Inqueue")


def test_a_group_without_a_queue_is_in_the_default_queue() -> None:
    objects = [node("n1"), queue("default"), queue("q"), group(queue=""), pod("p")]
    plan = plan_of(*objects, conf=ALLOCATE)
    assert binds(plan) == {"p": "n1"}
    assert {name: found.allocated["cpu"] for name, found in plan.queues.items() if found.allocated} == {"default": 1000}


def test_pods_of_another_scheduler_are_left_alone_but_take_room() -> None:
    theirs = [pod("a", schedulerName="default-scheduler", cpu="3", node="n1", group="")]
    waits = pod("b", schedulerName="default-scheduler")
    plan = plan_of(node("n1"), theirs, waits, gang("g", 2, 1), conf=ALLOCATE)
    assert binds(plan) == {"g-w-0": "n1"}
    assert "b" not in codes(plan)


def test_a_cluster_without_nodes_says_so() -> None:
    plan = plan_of(gang("g", 1), conf=ALLOCATE)
    assert pending(plan)["g-w-0"].message == "0/0 nodes are available"


@pytest.mark.parametrize(
    ("resource", "cluster"),
    [
        pytest.param("cpu", [node("n1", cpu="500m")], id="cpu"),
        pytest.param("memory", [node("n1", memory="1Mi")], id="memory"),
        pytest.param("pods", [node("n1", pods=0)], id="pod slots"),
    ],
)
def test_room_is_judged_in_every_resource(resource: str, cluster: list[Objects]) -> None:
    plan = plan_of(*cluster, gang("g", 1), conf=conf("allocate", ["gang"]))
    assert pending(plan)["g-w-0"].message == f"0/1 nodes are unavailable: 1 Insufficient {resource}."


def test_a_node_that_carries_more_than_it_has_takes_nothing_but_what_it_has_left() -> None:
    objects: list[Objects] = [
        node("n1", cpu=1, gpu=1),
        group("old"),
        pod("old-0", "old", cpu="2", node="n1"),
        gang("g", 1, cpu=None, gpu=1),
    ]
    assert binds(plan_of(*objects, conf=ALLOCATE)) == {}


# --- ties


def test_ties_fall_to_the_first_node_in_natural_order() -> None:
    objects = [node(f"n{i}", cpu=1) for i in (10, 2, 1)]
    plan = plan_of(*objects, gang("g", 3), conf=ALLOCATE)
    assert binds(plan) == {"g-w-0": "n1", "g-w-1": "n2", "g-w-2": "n10"}


def test_a_seed_chooses_among_equals_and_chooses_the_same_again() -> None:
    chosen = [binds(plan_of(*crowd(20), conf=LEAST, seed=seed))["g-w-0"] for seed in range(12)]
    assert chosen == [binds(plan_of(*crowd(20), conf=LEAST, seed=seed))["g-w-0"] for seed in range(12)]
    assert len(set(chosen)) > 3


@pytest.mark.parametrize("seed", range(6))
def test_a_seed_never_chooses_a_worse_node(seed: int) -> None:
    objects: list[Objects] = [node("n1"), node("n2", cpu=64), node("n3", cpu=64), node("n4"), gang("g", 1)]
    assert binds(plan_of(*objects, conf=LEAST, seed=seed))["g-w-0"] in ("n2", "n3")


def test_what_a_placed_pod_takes_is_counted_before_the_next_is_placed() -> None:
    plan = plan_of(node("n1"), node("n2"), gang("g", 4), conf=LEAST)
    assert sorted(binds(plan).values()) == ["n1", "n1", "n2", "n2"]


def test_an_action_finds_the_jobs_that_wait_in_order() -> None:
    def waiting(session: Session) -> list[str]:
        return [job.name for job in session.waiting_jobs()]

    jobs = [gang("b", 1, created=1), gang("a", 1, created=1), gang("c", 1, created=0), gang("r", 1, node="n1")]
    assert inside(node("n1"), jobs, do=waiting, conf=conf("", ["gang"])) == ["c", "a", "b"]
