"""The action enqueue, and the plugin overcommit that votes in it."""

from __future__ import annotations

from typing import Any

import pytest

from kilauea.engine.extension import REJECT, Refusal
from kilauea.engine.plan import Plan
from kilauea.engine.session import Session
from support.builders import (
    Data,
    Objects,
    binds,
    codes,
    conf,
    gang,
    group,
    node,
    pending,
    phases,
    plan_of,
    plugin,
    pod,
    queue,
)
from support.probes import plugin_called

ENQUEUE = conf("enqueue", ["gang"])


def waits(name: str, cpu: int | str | None = None, **more: Any) -> Objects:
    """A group that waits to be admitted, with a minimum of so many cores if any."""
    return group(name, phase="Pending", resources=None if cpu is None else {"cpu": cpu}, **more)


def heard_of(*objects: Objects, conf: Data) -> list[str]:
    """Names of the groups that are admitted, in order, as a plugin hears of them."""
    heard: list[str] = []

    def listen(session: Session) -> None:
        session.add_job_enqueued("ear", lambda job: heard.append(job.name))

    heard_by = {**conf, "tiers": [*conf["tiers"], {"plugins": [{"name": "ear"}]}]}
    plan_of(*objects, conf=heard_by, plugins=[plugin_called("ear", listen)])
    return heard


def refuse_all(session: Session) -> None:
    session.add_job_enqueueable("no", lambda _: (REJECT, Refusal("No", "no one is admitted")))


# --- the action


def test_a_group_is_admitted_before_it_has_pods() -> None:
    assert phases(plan_of(waits("g"), conf=ENQUEUE))["g"] == "Inqueue"


def test_without_voters_everybody_is_admitted() -> None:
    assert phases(plan_of(waits("g", 99), conf=ENQUEUE))["g"] == "Inqueue"


@pytest.mark.parametrize(
    ("cpu", "phase"),
    [
        pytest.param(None, "Inqueue", id="without minResources no one votes"),
        pytest.param(1, "Pending", id="with minResources the vote counts"),
    ],
)
def test_who_is_voted_on(cpu: int | None, phase: str) -> None:
    plan = plan_of(waits("g", cpu), conf=conf("enqueue", ["no"]), plugins=[plugin_called("no", refuse_all)])
    assert phases(plan).get("g", "Pending") == phase


def test_a_group_that_is_refused_waits_with_the_reason_of_the_voter() -> None:
    both = conf("enqueue, allocate", ["gang", "no"])
    objects = [node("n1"), waits("g", 1), pod("p")]
    plan = plan_of(*objects, conf=both, plugins=[plugin_called("no", refuse_all)])
    assert (binds(plan), codes(plan)) == ({}, {"p": "No"})
    assert pending(plan)["p"].message == "no one is admitted"


def test_everybody_who_wants_to_hears_of_each_admission() -> None:
    assert heard_of(waits("a"), waits("b", 1), conf=ENQUEUE) == ["a", "b"]


def test_queues_take_turns_by_their_order() -> None:
    heard: list[str] = []
    taken: dict[str, int] = {}

    def count(session: Session) -> None:
        def admitted(job: Any) -> None:
            heard.append(job.name)
            taken[job.queue] = taken.get(job.queue, 0) + 1

        session.add_queue_order("turns", lambda q: taken.get(q.name, 0))
        session.add_job_enqueued("turns", admitted)

    groups = [waits("a1", queue="a"), waits("a2", queue="a"), waits("b1", queue="b"), waits("b2", queue="b")]
    turns = plugin_called("turns", count)
    plan_of(queue("a"), queue("b"), groups, conf=conf("enqueue", ["turns"]), plugins=[turns])
    assert heard == ["a1", "b1", "a2", "b2"]


def test_a_group_with_too_few_pods_is_admitted_all_the_same() -> None:
    assert phases(plan_of(waits("g", minimum=3), pod("p"), conf=ENQUEUE))["g"] == "Inqueue"


def test_a_group_that_is_admitted_now_starts_in_the_same_cycle() -> None:
    plan = plan_of(node("n1"), gang("g", 1, phase="Pending"), conf=conf("enqueue, allocate", ["gang"]))
    assert binds(plan) == {"g-w-0": "n1"}


@pytest.mark.parametrize("phase", ["Inqueue", "Running", "Unknown", "Completed"])
def test_only_groups_that_wait_are_admitted(phase: str) -> None:
    assert heard_of(node("n1"), gang("g", 1, phase=phase), conf=ENQUEUE) == []


def test_a_group_without_a_phase_is_one_that_waits() -> None:
    assert phases(plan_of(group(phase=None), conf=ENQUEUE))["g"] == "Inqueue"


# --- overcommit


def overcommit(factor: Any = None) -> Data:
    """A configuration with this factor."""
    arguments = {} if factor is None else {"overcommit-factor": factor}
    return conf("enqueue", ["gang"], [plugin("overcommit", arguments)])


def admitted(*objects: Objects, factor: Any = None) -> list[str]:
    """Names of the groups that are admitted, in order."""
    return heard_of(*objects, conf=overcommit(factor))


def worked_example() -> list[Objects]:
    """A cluster of 100 cores of which 90 are used, with 10 more admitted: 30 - 10 are left at the factor 1.2."""
    running = pod("r", "run", cpu="90", node="n1")
    return [
        node("n1", cpu=100),
        group("run", phase="Running"),
        running,
        group("in", resources={"cpu": 10}),
        pod("i", "in"),
    ]


@pytest.mark.parametrize(
    ("cpu", "expected"),
    [
        pytest.param(20, ["g"], id="the whole rest is admitted"),
        pytest.param("20001m", [], id="a milli-core more is not"),
    ],
)
def test_worked_example(cpu: int | str, expected: list[str]) -> None:
    assert admitted(worked_example(), waits("g", cpu, created=1)) == expected


def test_who_comes_after_the_rest_is_admitted_is_judged_on_what_it_asks_for_alone() -> None:
    groups = [
        waits("a", 20, created=1),
        waits("b", "1m", created=2),
        group("c", phase="Pending", resources={"memory": "1Gi"}, created=3),
    ]
    assert admitted(worked_example(), groups) == ["a", "c"]


@pytest.mark.parametrize(
    ("factor", "expected", "warned"),
    [
        pytest.param(None, ["a"], False, id="the default is 1.2"),
        pytest.param(1.2, ["a"], False, id="1.2 as given"),
        pytest.param(1.0, ["b"], False, id="exactly 1 is accepted"),
        pytest.param(2, ["a", "b"], False, id="an integer is a number"),
        pytest.param(0.9, ["a"], True, id="less than 1 is refused with a warning and 1.2 holds"),
        pytest.param("1.5", ["a"], True, id="text is refused with a warning and 1.2 holds"),
    ],
)
def test_factor(factor: Any, expected: list[str], warned: bool) -> None:
    groups = [waits("a", 12, created=0), waits("b", 8, created=1)]
    assert admitted(node("n1", cpu=10), groups, factor=factor) == expected
    plan = plan_of(node("n1", cpu=10), groups, conf=overcommit(factor))
    assert [f.where for f in plan.findings if "overcommit-factor" in f.message] == ["plugin overcommit"] * warned


def test_a_group_that_is_admitted_counts_with_its_whole_minimum_although_a_part_runs() -> None:
    half = [group("half", minimum=9, resources={"cpu": 6}), pod("h", "half", cpu="3", node="n1")]
    assert admitted(node("n1", cpu=11), half, waits("g", 3), factor=1.0) == []
    assert admitted(node("n1", cpu=12), half, waits("g", 3), factor=1.0) == ["g"]


def test_a_running_group_counts_with_what_it_still_lacks_of_its_minimum() -> None:
    runs = [group("run", phase="Running", resources={"cpu": 6}), pod("r", "run", cpu="4", node="n1")]
    assert admitted(node("n1", cpu=10), runs, waits("g", 4), factor=1.0) == ["g"]
    assert admitted(node("n1", cpu=10), runs, waits("g", "4001m"), factor=1.0) == []


def test_what_a_foreign_gate_holds_back_does_not_count() -> None:
    gates = [{"name": "example.com/wait"}]
    held = [group("held", resources={"cpu": 8}), pod("h", "held", cpu="8", schedulingGates=gates)]
    assert admitted(node("n1", cpu=10), held, waits("g", 10), factor=1.0) == ["g"]
    assert admitted(node("n1", cpu=10), held, waits("g", "10001m"), factor=1.0) == []


def test_a_group_that_is_refused_learns_how_much_is_left() -> None:
    objects: list[Objects] = [node("n1", cpu=10), gang("g", 1, phase="Pending", resources={"cpu": 13, "memory": "1Gi"})]
    waiting: Plan = plan_of(*objects, conf=overcommit())
    why = pending(waiting)["g-w-0"]
    assert (why.code, why.resource, why.asked, why.left) == ("ClusterOvercommitted", "cpu", 13000, 12000)
    assert why.message == "resource in cluster is overused: overused cpu"


# --- admission counts on what is lent

BORROWED: list[Objects] = [
    [group(f"r{i}", "b", phase="Running", resources={"cpu": 1}), pod(f"r{i}-0", f"r{i}", cpu=1, node="n1")]
    for i in range(4)
]
"""Four jobs of queue b that have no pod to spare."""


def lent(
    actions: str = "enqueue, allocate, reclaim", tree: bool = True, more: tuple[Any, ...] = (), wants: int = 2, **b: Any
) -> Plan:
    """Queue a asks for room while b, which deserves 2, holds all 4 cores; they are cousins in a tree, or stand flat."""
    parents = {"a": "team-a", "b": "team-b"} if tree else {"a": "", "b": ""}
    queues: list[Objects] = [
        queue("a", deserved={"cpu": "2", "memory": "8Gi"}, parent=parents["a"]),
        queue("b", deserved={"cpu": "2", "memory": "8Gi"}, parent=parents["b"], **b),
    ]
    if tree:
        top = [queue(f"team-{n}", deserved={"cpu": "2", "memory": "8Gi"}, parent="root") for n in "ab"]
        queues += [queue("root"), top]
    plugins = [{"name": "capacity", "enableHierarchy": tree}, "predicates", *more]
    configured = conf(actions, ["priority", plugin("gang", enableReclaimable=False)], plugins)
    claim = [waits("g", wants, queue="a", minimum=wants), *(pod(f"g-{i}", "g", cpu=1) for i in range(wants))]
    return plan_of(queues, node("n1"), BORROWED, claim, conf=configured)


@pytest.mark.parametrize("tree", [True, False])
@pytest.mark.parametrize("more", [(), (plugin("overcommit"),)])
def test_a_queue_within_its_promise_is_admitted_and_takes_back(tree: bool, more: tuple[Any, ...]) -> None:
    plan = lent(tree=tree, more=more)
    assert phases(plan)["g"] == "Inqueue"
    assert len(plan.evictions) == 2


@pytest.mark.parametrize(
    ("why", "changes"),
    [
        ("nothing takes back", {"actions": "enqueue, allocate"}),
        ("the job would take the queue beyond what it deserves", {"wants": 3}),
        ("the borrower may not be asked to give back", {"reclaimable": False}),
        ("the borrower is guaranteed what it holds", {"guarantee": {"cpu": "4", "memory": "16Gi"}}),
    ],
)
def test_a_job_is_not_admitted_where_nothing_would_come_back(why: str, changes: dict[str, Any]) -> None:
    assert phases(lent(**changes))["g"] == "Pending", why
    flat = lent(tree=False, more=(plugin("overcommit", {"overcommit-factor": 1.0}),), **changes)
    assert phases(flat)["g"] == "Pending", why


def test_a_job_is_admitted_once_on_what_is_lent_once() -> None:
    queues = [queue("root"), *(queue(n, deserved={"cpu": "2", "memory": "8Gi"}, parent="root") for n in "ab")]
    claims = [waits(f"g{i}", 1, queue="a") for i in range(3)]
    configured = conf("enqueue, reclaim", ["priority", "gang"], [{"name": "capacity", "enableHierarchy": True}])
    plan = plan_of(queues, node("n1"), BORROWED, claims, conf=configured)
    assert [phases(plan)[f"g{i}"] for i in range(3)] == ["Inqueue", "Inqueue", "Pending"]
