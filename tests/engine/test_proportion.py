"""The plugin proportion: who deserves what, who waits, and who is refused."""

from __future__ import annotations

from typing import Any

import pytest

from kilauea.engine.extension import ABSTAIN
from kilauea.engine.plan import QueueOutcome
from kilauea.engine.session import Session
from kilauea.simulator.planning import plan_cycles
from kilauea.simulator.scenario import Scenario
from support.builders import (
    GI,
    GPU,
    NOW,
    Objects,
    best_effort,
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
    plugin,
    pod,
    queue,
)
from support.probes import inside

SHARING = conf("allocate", ["gang"], ["proportion"])
ENTERING = conf("enqueue, allocate", ["gang"], ["proportion"])


def asks(of: str, cpu: int | str | None, memory: int | str | None = None, gpu: int = 0, **more: Any) -> Objects:
    """A group in a queue, with one pod that asks for so much."""
    return [group(of + "-g", of), pod(of + "-p", of + "-g", cpu=cpu, memory=memory, gpu=gpu, **more)]


def figures(*objects: Objects) -> dict[str, QueueOutcome]:
    """The figures of all queues when nothing is placed."""
    return dict(plan_of(*objects, conf=conf("enqueue", ["gang"], ["proportion"])).queues)


# --- what a queue deserves


def total_100(*more: Objects) -> list[Objects]:
    return [node("n1", cpu=100, memory=None), *more]


WORKED_EXAMPLES = [
    pytest.param(
        total_100(
            [queue("a"), asks("a", 20)],
            [queue("b", 2), asks("b", 80)],
            [queue("c"), asks("c", 60)],
        ),
        {"a": 20000, "b": 53333.33, "c": 26666.67},
        id="what a small queue leaves is poured out again by weight",
    ),
    pytest.param(
        [
            node("n1", cpu=20, memory=None),
            [queue("q1"), asks("q1", 20)],
            [queue("q2", capability={"cpu": 4}), asks("q2", 20)],
        ],
        {"q1": 16000, "q2": 4000},
        id="a capability is a lid",
    ),
    pytest.param(
        total_100(
            [queue("a", guarantee={"cpu": 30}), asks("a", 10)],
            [queue("b"), asks("b", 100)],
            [queue("c"), asks("c", 100)],
        ),
        {"a": 30000, "b": 35000, "c": 35000},
        id="a guarantee holds even beyond what is asked for",
    ),
    pytest.param(
        total_100([queue("a", 3), asks("a", 1)], [queue("b"), asks("b", 200)]),
        {"a": 1000, "b": 99000},
        id="no one deserves more than it asks for",
    ),
    pytest.param(
        total_100([queue("a", 3), asks("a", 100)], [queue("b"), asks("b", 100)], queue("c", 96)),
        {"a": 75000, "b": 25000, "c": 0},
        id="a queue without jobs takes no part",
    ),
    pytest.param(
        total_100([queue("a", 0), asks("a", 100)], [queue("b", None), asks("b", 100)]),
        {"a": 50000, "b": 50000},
        id="a weight of zero or none counts as one",
    ),
    pytest.param(
        total_100([queue("a", guarantee={"cpu": 80}), asks("a", 100)], [queue("b", 9), asks("b", 100)]),
        {"a": 80000, "b": 20000},
        id="what is guaranteed to one is out of reach for the others",
    ),
    pytest.param([queue("a"), asks("a", 1)], {"a": 0}, id="of a cluster without nodes no one deserves anything"),
]


@pytest.mark.parametrize(("objects", "deserved"), WORKED_EXAMPLES)
def test_cores_that_queues_deserve(objects: list[Objects], deserved: dict[str, float]) -> None:
    found = {name: (figures.deserved or {}).get("cpu", 0) for name, figures in figures(*objects).items()}
    assert found == pytest.approx(deserved, abs=1)


def test_two_resources_are_poured_out_beside_each_other() -> None:
    objects: list[Objects] = [
        node("n1", cpu=8, memory="32Gi"),
        [queue("q1"), asks("q1", 8, "8Gi")],
        [queue("q2", 3), asks("q2", 8, "32Gi")],
    ]
    found = figures(*objects)
    one, two = (found[name].deserved or {} for name in ("q1", "q2"))
    assert (one["cpu"], one["memory"], two["cpu"], two["memory"]) == pytest.approx((2000, 8 * GI, 6000, 24 * GI), abs=1)


def test_a_scalar_that_no_one_in_a_queue_asks_for_is_left_to_the_others() -> None:
    objects: list[Objects] = [node("n1", gpu=8), [queue("a"), asks("a", 1)], [queue("b"), asks("b", 1, gpu=8)]]
    found = figures(*objects)
    assert [(found[name].deserved or {}).get(GPU, 0) for name in "ab"] == [0, 8000]


def test_running_pods_count_as_asked_for() -> None:
    objects = total_100(
        [queue("a"), asks("a", 30), pod("r", "a-g", cpu=20, node="n1")],
        [queue("b"), asks("b", 100)],
    )
    assert [(q.deserved or {})["cpu"] for q in figures(*objects).values()] == pytest.approx([50000, 50000])
    assert figures(*objects)["a"].request["cpu"] == 50000
    assert figures(*objects)["a"].allocated["cpu"] == 20000


@pytest.mark.parametrize(
    ("more", "expected"),
    [
        pytest.param({}, {"cpu": 70000, "memory": 60 * GI}, id="without a capability what others are not promised"),
        pytest.param(
            {"capability": {"cpu": 40}}, {"cpu": 40000, "memory": 60 * GI}, id="an unset resource is not a limit"
        ),
        pytest.param(
            {"capability": {"cpu": 90}}, {"cpu": 70000, "memory": 60 * GI}, id="no one has more than there is"
        ),
        pytest.param(
            {"capability": {"cpu": 90}, "guarantee": {"cpu": 10}},
            {"cpu": 70000, "memory": 60 * GI},
            id="what is promised to the queue itself is its own",
        ),
    ],
)
def test_what_a_queue_may_use_at_most(more: dict[str, Any], expected: dict[str, float]) -> None:
    other = queue("other", guarantee={"cpu": 30, "memory": "4Gi"})
    found = figures(node("n1", cpu=100, memory="64Gi"), other, queue("a", **more))["a"].real_capability or {}
    assert {name: found.get(name) for name in ("cpu", "memory")} == expected


def test_a_capability_that_names_no_gpus_is_no_limit_on_gpus() -> None:
    objects = [node("n1", cpu=100, gpu=8), queue("q", capability={"cpu": 40})]
    assert (figures(*objects)["q"].real_capability or {}).get(GPU) == 8000
    plan = plan_of(*objects, group(phase="Pending", resources={GPU: 1}), conf=ENTERING)
    assert phases(plan)["g"] == "Inqueue"


def test_a_capability_of_gpus_that_no_node_offers_admits_no_one() -> None:
    objects = [node("n1"), queue("q", capability={GPU: 4}), group(phase="Pending", resources={GPU: 1})]
    assert phases(plan_of(*objects, conf=ENTERING)).get("g", "Pending") == "Pending"


# --- who goes first


def test_the_queue_with_the_smaller_share_goes_first() -> None:
    running = [group("r", "a", phase="Running"), pod("r-0", "r", cpu=1, node="n1")]
    objects: list[Objects] = [
        node("n1", cpu=6),
        queue("a"),
        queue("b"),
        running,
        gang("x", 2, 1, queue="a"),
        gang("y", 2, 1, queue="b"),
    ]
    plan = plan_of(*objects, conf=SHARING)
    assert [b.pod for b in plan.binds] == ["ns/y-w-0", "ns/x-w-0", "ns/y-w-1", "ns/x-w-1"]


def test_the_queue_with_the_higher_priority_goes_first_whatever_its_share() -> None:
    objects: list[Objects] = [
        node("n1", cpu=6),
        queue("a"),
        queue("b", priority=5),
        gang("x", 1, queue="a"),
        gang("y", 2, 1, queue="b"),
    ]
    plan = plan_of(*objects, conf=SHARING)
    assert [b.pod for b in plan.binds] == ["ns/y-w-0", "ns/y-w-1", "ns/x-w-0"]


def test_share_of_a_queue_after_the_cycle() -> None:
    plan = plan_of(node("n1"), queue("a"), queue("b"), gang("x", 2, queue="a"), gang("y", 3, queue="b"), conf=SHARING)
    assert plan.queues["a"].share == pytest.approx(1)
    assert plan.queues["b"].share == 0
    assert plan.queues["a"].allocated["cpu"] == 2000


# --- who waits


def even(*more: Objects, **of_a: Any) -> list[Objects]:
    """A node of four slots, cores and Gi for queues `a` and `b`; `b` asks for all of it."""
    return [node("n1", 4, "4Gi", 4), queue("a", **of_a), queue("b"), gang("y", 4, 1, queue="b"), *more]


def test_a_queue_that_has_all_it_deserves_waits() -> None:
    running = [group("r", "a", phase="Running"), pod("r-0", "r", node="n1"), pod("r-1", "r", node="n1")]
    plan = plan_of(*even(running, gang("x", 1, queue="a")), conf=SHARING)
    assert sorted(binds(plan)) == ["y-w-0", "y-w-1"]
    assert (codes(plan)["x-w-0"], pending(plan)["x-w-0"].queue) == ("QueueOverused", "a")


def test_a_queue_that_has_all_of_one_resource_learns_which() -> None:
    running = [group("r", "a", phase="Running"), pod("r-0", "r", cpu=2, memory=None, node="n1")]
    plan = plan_of(*even(running, gang("x", 1, queue="a", cpu="500m")), conf=SHARING)
    why = pending(plan)["x-w-0"]
    assert (why.code, why.queue, why.resource, why.asked, why.left) == ("QueueQuotaExceeded", "a", "cpu", 500, 0)


def test_what_is_left_of_a_quota_is_named() -> None:
    running = [group("r", "a", phase="Running"), pod("r-0", "r", cpu="1500m", memory=None, node="n1")]
    plan = plan_of(*even(running, gang("x", 1, queue="a", cpu=1)), conf=SHARING)
    why = pending(plan)["x-w-0"]
    assert (why.code, why.resource, why.asked, why.left) == ("QueueQuotaExceeded", "cpu", 1000, 500)


def test_pod_slots_are_no_quota() -> None:
    pods = [pod(f"x-w-{i}", "x", cpu="10m", memory="1Mi") for i in range(3)]
    objects: list[Objects] = [
        node("n1", 4, "4Gi", 4),
        queue("a"),
        queue("b"),
        group("x", "a", minimum=3),
        pods,
        gang("y", 1, queue="b"),
    ]
    assert len(binds(plan_of(*objects, conf=SHARING))) == 4


def test_a_gang_beyond_its_quota_is_not_started_in_part() -> None:
    plan = plan_of(*even(gang("x", 3, queue="a")), conf=SHARING)
    assert sorted(binds(plan)) == ["y-w-0", "y-w-1"]
    assert codes(plan)["x-w-2"] == "QueueQuotaExceeded"
    assert codes(plan)["x-w-0"] == "GangWaiting"


@pytest.mark.parametrize("state", ["Closed", "Closing", "Unknown"])
def test_a_queue_that_is_not_open_starts_and_admits_nothing(state: str) -> None:
    objects: list[Objects] = [
        node("n1"),
        queue("q", state=state),
        gang("g", 1),
        gang("h", 1, phase="Pending", resources={"cpu": 1}),
    ]
    plan = plan_of(*objects, conf=ENTERING)
    assert binds(plan) == {}
    assert codes(plan) == {"g-w-0": "QueueClosed", "h-w-0": "QueueClosed"}
    assert pending(plan)["g-w-0"].message == f"queue q is {state}"


@pytest.mark.parametrize(
    ("flags", "bound"),
    [
        pytest.param({}, 2, id="on"),
        pytest.param({"enabledAllocatable": False}, 4, id="off it fills the node"),
    ],
)
def test_switch_of_the_quota(flags: dict[str, bool], bound: int) -> None:
    sharing = conf("allocate", ["gang"], [plugin("proportion", **flags)])
    plan = plan_of(node("n1"), queue("q", capability={"cpu": 2}), gang("g", 4, 1), conf=sharing)
    assert len(binds(plan)) == bound


# --- who is admitted


def enters(minimum: dict[str, Any], *more: Objects, capability: dict[str, Any] | None = None) -> Any:
    """What becomes of a group with this minimum in a queue of four cores: its phase, or why its pod waits."""
    limits = {"cpu": 4} if capability is None else capability
    objects = [node("n1", cpu=100), queue("q", capability=limits), group("w", phase="Pending", resources=minimum)]
    plan = plan_of(*objects, pod("w-0", "w", cpu=99), *more, conf=conf("enqueue", ["gang"], ["proportion"]))
    return pending(plan)["w-0"] if phases(plan)["w"] == "Pending" else phases(plan)["w"]


RUNS = pod("r-0", "r", cpu=2, memory=None, node="n1")


@pytest.mark.parametrize(
    ("more", "cpu"),
    [
        pytest.param([], 4, id="an empty queue admits as much as it may use"),
        pytest.param([group("r", phase="Running"), RUNS], 4, id="what runs beyond a minimum counts as free"),
        pytest.param(
            [group("r", phase="Running", resources={"cpu": 2}), RUNS], 2, id="what runs as a minimum is taken"
        ),
        pytest.param([group("r", phase="Running", resources={"cpu": 1}), RUNS], 3, id="a part of it may be a minimum"),
        pytest.param([group("r", resources={"cpu": 3})], 1, id="who is admitted has its minimum reserved"),
        pytest.param(
            [group("r", minimum=9, resources={"cpu": 3}), RUNS],
            1,
            id="of which what it already holds is not counted twice",
        ),
        pytest.param(
            [group("r", phase="Running", resources={"cpu": 3}), RUNS],
            1,
            id="a running gang has reserved what it lacks of its minimum",
        ),
        pytest.param(
            [group("r", phase="Running", minimum=2, resources={"cpu": 3}), RUNS],
            2,
            id="unless it is below its minimum number",
        ),
    ],
)
def test_how_much_is_admitted(more: list[Objects], cpu: int) -> None:
    assert enters({"cpu": cpu}, *more) == "Inqueue"
    why = enters({"cpu": f"{cpu * 1000 + 1}m"}, *more)
    assert (why.code, why.resource, why.asked, why.left) == (
        "QueueQuotaInsufficient",
        "cpu",
        cpu * 1000 + 1,
        cpu * 1000,
    )
    assert why.message == "queue resource quota insufficient: insufficient cpu"


def test_all_short_resources_are_named() -> None:
    why = enters({"memory": "9Gi", "cpu": 9, GPU: 1}, capability={"cpu": 1, "memory": "1Gi"})
    assert why.message == (
        f"queue resource quota insufficient: insufficient cpu, insufficient memory, insufficient {GPU}"
    )


def test_admissions_of_one_cycle_add_up() -> None:
    groups = [group(name, phase="Pending", resources={"cpu": 3}, created=i) for i, name in enumerate("ab")]
    plan = plan_of(node("n1", cpu=100), queue("q", capability={"cpu": 4}), groups, conf=ENTERING)
    assert (phases(plan)["a"], phases(plan).get("b", "Pending")) == ("Inqueue", "Pending")


def test_a_queue_without_a_limit_admits_what_the_cluster_has() -> None:
    assert enters({"cpu": 100}, capability={}) == "Inqueue"
    assert enters({"cpu": 101}, capability={}).code == "QueueQuotaInsufficient"


# --- who may be evicted, and for whom


def test_tasks_of_queues_beyond_what_they_deserve_may_be_reclaimed() -> None:
    held = [pod(f"r-{i}", "r", node="n1") for i in range(4)]
    objects: list[Objects] = [node("n1", 4, "4Gi", 4), queue("a"), queue("b"), group("r", "a", phase="Running"), held]

    def victims(session: Session) -> list[str]:
        tasks = sorted((t for t in session.state.tasks.values() if t.group == "ns/r"), key=lambda t: t.name)
        return [task.name for task in session.reclaimable(session.state.tasks["ns/y-w-0"], tasks)]

    only = conf("", ["proportion"])
    assert inside(*objects, gang("y", 4, queue="b"), do=victims, conf=only) == ["r-0", "r-1"]


@pytest.mark.parametrize(
    ("cpu", "state", "may"),
    [
        pytest.param("2", "Open", True, id="up to what it deserves"),
        pytest.param("2001m", "Open", False, id="not beyond"),
        pytest.param("1", "Closed", False, id="not when it is closed"),
    ],
)
def test_a_queue_may_reclaim(cpu: str, state: str, may: bool) -> None:
    objects: list[Objects] = [
        node("n1"),
        queue("a", state=state),
        queue("b"),
        gang("x", 1, queue="a", cpu=cpu),
        asks("b", 4),
    ]
    more = pod("x-w-9", "x", cpu="4")

    def ask(session: Session) -> bool:
        return session.preemptive(session.queues["a"], [session.state.tasks["ns/x-w-0"]])

    assert inside(*objects, more, do=ask, conf=conf("", ["proportion"])) is may


def test_proportion_never_abstains_from_a_vote_on_victims() -> None:
    def vote(session: Session) -> int:
        (_, function), *_ = session.points.walk("reclaimable")
        return int(function(session.state.tasks["ns/a"], [])[1])

    assert inside(group(), best_effort("a"), do=vote, conf=conf("", ["proportion"])) != ABSTAIN


# --- gangs that no queue deserves


def rivals(*sizes: int, weight: int = 1, **more: Any) -> list[Objects]:
    """Two nodes of 8 cores, and queues a, b, ... that each want so many; `weight` is that of the first."""
    out: list[Objects] = [node(f"n{number}", cpu=8) for number in range(2)]
    for number, (name, size) in enumerate(zip("abc", sizes, strict=False)):
        out.append(queue(name, 1 if number else weight))
        out += gang(f"{name}-g", size, queue=name, cpu=1, phase="Pending", **more)
    return out


def test_gangs_beyond_what_their_queues_deserve_wait_and_hear_why() -> None:
    plan = plan_of(*rivals(10, 10), conf=ENTERING)
    assert not plan.binds
    why = "queue a would exceed its deserved cpu: its gang needs 10, and the queue deserves 8 while others ask too"
    assert why in {p.message for p in plan.pending}


def test_a_gang_that_would_fit_into_what_its_queue_deserves_hears_nothing_of_that() -> None:
    held = gang("a-h", 4, queue="a", cpu=1, node="n1", phase="Running")
    plan = plan_of(*rivals(8, 8), *held, conf=ENTERING)
    assert {p.code for p in plan.pending} >= {"QueueQuotaExceeded"}
    assert not any("its gang needs" in p.message for p in plan.pending)


@pytest.mark.parametrize("sizes", [(9, 9), (12, 12), (15, 6, 6), (9, 9, 9)])
def test_the_change_that_explain_names_for_such_a_gang_starts_it_and_no_smaller_one_does(
    sizes: tuple[int, ...],
) -> None:
    result = plan_cycles(Scenario(flat(rivals(*sizes)), parsed(ENTERING)[0], NOW))
    change = result.explain("ns/a-g").change
    assert change is not None
    assert (change.what, change.object) == ("weight", "a")

    def started(weight: int) -> int:
        bound = binds(plan_of(*rivals(*sizes, weight=weight), conf=ENTERING))
        return sum(pod_name.startswith("a-g") for pod_name in bound)

    assert started(1 + int(change.by)) == sizes[0]
    assert started(int(change.by)) == 0
