"""The tree of queues as its design (seed 004) tells it: its four user stories, the root, and what plugins are asked.

What concerns admission checks and commands is not the scheduler's and not here.
"""

from __future__ import annotations

from typing import Any

import pytest

from engine.documented.worked_example import CLUSTER, amounts, cores_of, flat_conf, holds, tree_conf, wants
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
    nominations,
    plan_of,
    plugin,
    pod,
    queue,
)
from support.probes import inside

RECLAIM = tree_conf("allocate, reclaim")


def losers(plan: Plan) -> list[str]:
    """Jobs that lose pods, one entry for each pod."""
    return sorted(e.pod.removeprefix("ns/").rsplit("-", 1)[0] for e in plan.evictions)


def held(plan: Plan) -> dict[str, float]:
    """Cores that queues hold after a cycle, of those that hold any."""
    return {name: cores_of(q.allocated) for name, q in plan.queues.items() if cores_of(q.allocated)}


def tree(**parents: str) -> list[Any]:
    """Queues that deserve 10 cores each, by the names of their parents; the root first."""
    return [queue("root"), *(queue(name, parent=at, deserved=amounts(10)) for name, at in parents.items())]


# --- story 1: limits between parents and children


BREACHES = [
    pytest.param("deserved", {"deserved": amounts(30)}, ("p", "DeservedOverPromised"), "cpu 60 of 50", id="deserved"),
    pytest.param(
        "guarantee", {"guarantee": amounts(30)}, ("p", "GuaranteeOverPromised"), "cpu 60 of 50", id="guarantee"
    ),
    pytest.param(
        "capability", {"capability": amounts(60)}, ("a", "CapabilityAboveParent"), "cpu 60 of 50", id="capability"
    ),
]
"""What each of two children has of which their parent has 50 cores; what is named; and its figures."""


@pytest.mark.parametrize(("limit", "of_child", "named", "figures"), BREACHES)
def test_a_tree_that_breaks_its_limits_is_named_and_scheduled_within_its_parent(
    limit: str, of_child: Data, named: tuple[str, str], figures: str
) -> None:
    """The design lets nothing be scheduled then; here the parent's limits hold, and no one else is held back."""
    at, reason = named
    limits: Data = {"capability": amounts(50), limit: amounts(50)}
    parent = queue("p", **limits)
    queues = [queue("root"), parent, *(queue(name, parent="p", **of_child) for name in ("a", "b")), queue("q")]
    jobs = [wants(f"{name}{i}", name, 10) for name in ("a", "b", "q") for i in range(4)]
    plan = plan_of(CLUSTER, queues, jobs, conf=tree_conf("enqueue, allocate"))
    found = {(f.where, f.code): f.message for f in plan.findings}
    assert figures in found[f"queue {at}", reason]
    assert [c.reason for c in plan.queues[at].conditions] == [reason]
    assert held(plan)["p"] <= 50
    assert held(plan)["q"] == 40


def test_a_tree_within_its_limits_has_nothing_to_be_named() -> None:
    limits: Data = {"deserved": amounts(25), "guarantee": amounts(25), "capability": amounts(50)}
    parent = queue("p", deserved=amounts(50), guarantee=amounts(50), capability=amounts(50))
    queues = [queue("root"), parent, *(queue(name, parent="p", **limits) for name in ("a", "b"))]
    assert plan_of(CLUSTER, queues, conf=tree_conf("enqueue, allocate")).findings == ()


# --- story 2: only leaves schedule


@pytest.mark.parametrize(
    ("of_queue", "starts"), [("leaf", True), ("team", False), ("root", False)], ids=["a leaf", "a parent", "the root"]
)
@pytest.mark.parametrize("phase", ["Inqueue", "Pending"])
def test_only_leaves_schedule(of_queue: str, starts: bool, phase: str) -> None:
    job = wants("g", of_queue, 10, least=10, phase=phase)
    plan = plan_of(CLUSTER, tree(team="root", leaf="team"), job, conf=tree_conf("enqueue, allocate"))
    assert (binds(plan), codes(plan)) == (({"g-0": "n"}, {}) if starts else ({}, {"g-0": "QueueNotLeaf"}))


def test_only_leaves_claim() -> None:
    running = [holds("r", "other", *[10] * 10)]
    queues = tree(team="root", leaf="team", other="root")
    for of_queue, expected in (("leaf", ["r"]), ("team", [])):
        assert losers(plan_of(CLUSTER, queues, running, wants("g", of_queue, 10), conf=RECLAIM)) == expected


def test_without_the_flag_parents_count_for_nothing() -> None:
    """A job of the parent starts, and the parent's limit binds no child."""
    queues = [queue("root"), queue("team", capability=amounts(10)), queue("leaf", parent="team")]
    jobs = [wants("g", "team", 10), wants("h", "leaf", 30)]
    plan = plan_of(CLUSTER, queues, jobs, conf=flat_conf("allocate"))
    assert (sorted(binds(plan)), held(plan)) == (["g-0", "h-0"], {"team": 10, "leaf": 30})


# --- story 3: parents follow their children, bottom up


DEEP = tree(a="root", b="a", c="b", d="b", e="a", f="root")


def test_what_starts_in_a_leaf_shows_in_all_its_ancestors_and_nowhere_else() -> None:
    plan = plan_of(CLUSTER, DEEP, wants("g", "c", 7), conf=tree_conf("allocate"))
    assert held(plan) == {"c": 7, "b": 7, "a": 7, "root": 7}
    assert {name: plan.queues[name].share for name in "abc"} == pytest.approx({"a": 0.7, "b": 0.7, "c": 0.7})


def test_what_a_leaf_loses_is_gone_from_all_its_ancestors() -> None:
    """`f` takes back 10 of the 30 cores of `c`; both hang on the root, which stays full."""
    small = node("n", 30, "120Gi")
    plan = plan_of(small, DEEP, holds("r", "c", 10, 10, 10), wants("g", "f", 10), conf=RECLAIM)
    assert held(plan) == {"c": 20, "b": 20, "a": 20, "f": 10, "root": 30}
    assert plan.queues["a"].share == 2


@pytest.mark.parametrize(("cores", "expected"), [(10, 20), (11, 10)])
def test_a_parent_counts_what_was_admitted_to_any_of_its_children(cores: int, expected: int) -> None:
    """`p` may use 20 cores; 10 of them are admitted to one child."""
    queues = [queue("root"), queue("p", capability=amounts(20)), queue("x", parent="p"), queue("y", parent="p")]
    new = wants("new", "y", cores, least=cores, phase="Pending")
    plan = plan_of(CLUSTER, queues, wants("first", "x", least=10), new, conf=tree_conf("enqueue"))
    assert cores_of(plan.queues["p"].inqueue) == expected


# --- story 4: who loses first


STORY = tree(a="root", queue_a="a", queue_b="a", queue_c="root")
"""Jobs A and B are in children of `a`, job C below the root."""


def test_job_b_of_the_same_parent_loses_before_job_c() -> None:
    """Both queues hold 10 cores more than they deserve."""
    small, running = node("n", 40, "160Gi"), [holds("B", "queue_b", 10, 10), holds("C", "queue_c", 10, 10)]
    plan = plan_of(small, STORY, running, wants("A", "queue_a", 10), conf=RECLAIM)
    assert (losers(plan), nominations(plan)) == (["B"], {"A-0": "n"})


def test_job_c_loses_when_job_b_has_nothing_to_spare() -> None:
    small, running = node("n", 40, "160Gi"), [holds("B", "queue_b", 10), holds("C", "queue_c", 10, 10, 10)]
    plan = plan_of(small, STORY, running, wants("A", "queue_a", 10), conf=RECLAIM)
    assert (losers(plan), nominations(plan)) == (["C"], {"A-0": "n"})


def test_victims_are_looked_for_from_the_bottom_up() -> None:
    """`c` deserves 30 cores: 10 come from its sister `d`, 10 from `e` one level up, 10 from `f` below the root."""
    queues = [q for q in DEEP if q.name != "c"]
    preemptor = queue("c", parent="b", deserved=amounts(30))
    running = [holds(name, name, 10, 10) for name in ("d", "e", "f")]
    small = node("n", 60, "240Gi")
    for pods, expected in ((1, "d"), (2, "de"), (3, "def")):
        jobs = [wants(f"g{i}", "c", 10, created=i) for i in range(pods)]
        plan = plan_of(small, queues, preemptor, running, jobs, conf=RECLAIM)
        assert "".join(losers(plan)) == expected


def test_inside_a_job_the_last_in_order_of_tasks_goes_first() -> None:
    """The design has an order of victims by task and one by job; here one by queue, then those of jobs and tasks."""
    small, pods = node("n", 20, "80Gi"), [pod(f"B-{i}", "B", requests=amounts(10), node="n") for i in (0, 1)]
    running: list[Objects] = [group("B", "queue_b", phase="Running"), pods]
    plan = plan_of(small, STORY, running, wants("A", "queue_a", 10), conf=RECLAIM)
    assert [e.pod for e in plan.evictions] == ["ns/B-1"]


# --- the root queue


def test_the_root_follows_the_cluster() -> None:
    for cores in (100, 60):
        found = plan_of(node("n", cores, "400Gi"), queue("root"), conf=tree_conf("allocate")).queues["root"]
        assert (cores_of(found.deserved), cores_of(found.real_capability)) == (cores, cores)


def test_without_a_root_queue_jobs_of_the_tree_wait() -> None:
    plan = plan_of(CLUSTER, queue("q"), wants("g", "q", 10), conf=tree_conf("enqueue, allocate, reclaim"))
    assert (codes(plan), [f.where for f in plan.findings]) == ({"g-0": "QueueFault"}, ["queue root"])


# --- order and plugins


def test_leaves_are_compared_layer_by_layer_from_the_root() -> None:
    """`a` has more than `f`, so `f` is first; below `a`, `b` has more than `e`; below `b`, `c` more than `d`."""

    def order(session: Session) -> str:
        return "".join(sorted("cdef", key=lambda name: session.queue_key(session.queues[name])))

    running = [holds("c", "c", 5), holds("e", "e", 4), holds("f", "f", 8)]
    assert inside(CLUSTER, DEEP, running, do=order, conf=tree_conf("")) == "fedc"


@pytest.mark.parametrize("spelling", ["EnabledHierarchy", "enabledHierarchy", "enableHierarchy"])
def test_the_option_in_any_of_its_spellings_brings_the_tree(spelling: str) -> None:
    by_tree = conf("allocate", ["gang", {"name": "capacity", spelling: True}, "predicates"])
    plan = plan_of(CLUSTER, STORY, wants("g", "a", 10), conf=by_tree)
    assert codes(plan) == {"g-0": "QueueNotLeaf"}


@pytest.mark.parametrize("other", ["proportion", "capacity-card"])
def test_no_other_queue_plugin_has_the_tree(other: str) -> None:
    """A job of a parent starts, whatever the flag says."""
    queues: Objects = [queue("root"), queue("team", capability=amounts(90)), queue("leaf", parent="team")]
    flagged = conf("allocate", ["gang", plugin(other, enableHierarchy=True), "predicates"])
    assert list(binds(plan_of(CLUSTER, queues, gang("g", 1, queue="team"), conf=flagged))) == ["g-w-0"]
