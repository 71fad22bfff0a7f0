"""How the answers of plugins are combined: votes, agreement, orders, victims, and the flags that switch plugins off."""

from __future__ import annotations

from functools import partial
from typing import Any, TypeVar

import pytest

from kilauea.engine.extension import ABSTAIN, PERMIT, REJECT, Refusal
from kilauea.engine.model.jobs import Job
from kilauea.engine.model.tasks import Task
from kilauea.engine.session import Session
from support.builders import Data, Objects, best_effort, gang, group, node, plugin, pod, queue, state_of
from support.probes import full, inside, open_points

VOTES = {"+": PERMIT, "0": ABSTAIN, "-": REJECT}
NO = Refusal("No", "no")


def ballot(tiers: str) -> tuple[Session, list[tuple[str, int]]]:
    """A session for a row of the table of votes, and the plugins with their votes: `0 / + -` is two tiers."""
    names = iter("abcdef")
    cast = [[(next(names), VOTES[sign]) for sign in tier.split()] for tier in tiers.split("/")]
    session = open_points(*(tuple(name for name, _ in tier) for tier in cast))
    return session, [vote for tier in cast for vote in tier]


TABLE = pytest.mark.parametrize(
    ("tiers", "expected"),
    [
        pytest.param("0 0", True, id="if all abstain it is a yes"),
        pytest.param("0 / +", True, id="after a tier that abstains the next is asked"),
        pytest.param("0 / + -", False, id="a rejection wins over a permit in its tier"),
        pytest.param("+ / -", True, id="a permit in a tier ends it before the next"),
        pytest.param("+ -", False, id="a rejection after a permit still wins"),
        pytest.param("- / +", False, id="a rejection ends it before the next tier"),
        pytest.param("", True, id="if no one is asked it is a yes"),
    ],
)


T = TypeVar("T")


def admits(vote: int, _: Job) -> tuple[int, Refusal | None]:
    return vote, NO if vote < 0 else None


def answers_with(vote: T, _: Job) -> T:
    return vote


@TABLE
def test_votes_on_admission(tiers: str, expected: bool) -> None:
    session, cast = ballot(tiers)
    for name, vote in cast:
        session.add_job_enqueueable(name, partial(admits, vote))
    refusal = session.job_enqueueable(Job("ns/g"))
    assert (refusal is None) is expected


@TABLE
def test_votes_on_a_promised_gang(tiers: str, expected: bool) -> None:
    session, cast = ballot(tiers)
    for name, vote in cast:
        session.add_job_pipelined(name, partial(answers_with, vote))
    assert session.job_pipelined(Job("ns/g")) is expected
    assert session.sub_job_pipelined(Job("ns/g")) is expected


def test_the_refusal_of_admission_is_that_of_the_first_who_rejects() -> None:
    session = open_points(("a", "b"))
    session.add_job_enqueueable("a", lambda _: (ABSTAIN, None))
    session.add_job_enqueueable("b", lambda _: (REJECT, NO))
    assert session.job_enqueueable(Job("ns/g")) == NO


def test_a_rejection_without_a_reason_names_the_plugin() -> None:
    session = open_points(("a",))
    session.add_job_enqueueable("a", lambda _: (REJECT, None))
    refusal = session.job_enqueueable(Job("ns/g"))
    assert refusal is not None
    assert "plugin a" in refusal.message


# --- starving: the first tier that has a plugin decides


@pytest.mark.parametrize(
    ("answers", "expected"),
    [
        pytest.param([], False, id="if no one is asked the job is not starving"),
        pytest.param([[True, True]], True, id="all of the tier agree"),
        pytest.param([[True, False]], False, id="one of the tier does not"),
        pytest.param([[False], [True]], False, id="the second tier is not asked"),
        pytest.param([[True], [False]], True, id="the second tier is not asked after a yes either"),
    ],
)
def test_starving(answers: list[list[bool]], expected: bool) -> None:
    names = iter("abcdef")
    tiers = [[(next(names), answer) for answer in tier] for tier in answers]
    session = open_points(*(tuple(name for name, _ in tier) for tier in tiers))
    for name, answer in [pair for tier in tiers for pair in tier]:
        session.add_job_starving(name, partial(answers_with, answer))
    assert session.job_starving(Job("ns/g")) is expected


# --- agreement


def test_ready_needs_all_plugins_of_all_tiers() -> None:
    session = open_points(("a",), ("b",))
    session.add_job_ready("a", lambda _: True)
    assert session.job_ready(Job("ns/g"))
    session.add_job_ready("b", lambda _: False)
    assert not session.job_ready(Job("ns/g"))


def test_ready_is_true_if_no_one_is_asked() -> None:
    assert open_points(("a",)).job_ready(Job("ns/g"))


@pytest.mark.parametrize("point", ["job_valid", "allocatable", "pre_predicate", "overused"])
def test_the_first_refusal_counts(point: str) -> None:
    session = open_points(("a", "b"), ("c",))
    add, ask = getattr(session, f"add_{point}"), getattr(session, point)
    subject = [state_of(group()).jobs["ns/g"]] * (2 if point == "allocatable" else 1)
    assert ask(*subject) is None
    add("c", lambda *_: Refusal("Third", "c"))
    assert ask(*subject).code == "Third"
    add("b", lambda *_: Refusal("Second", "b"))
    add("a", lambda *_: None)
    assert ask(*subject).code == "Second"


def test_a_queue_may_reclaim_only_if_all_plugins_let_it() -> None:
    session = open_points(("a",), ("b",))
    asker: Any = object()
    assert session.preemptive(asker, [])
    session.add_preemptive("a", lambda *_: True)
    session.add_preemptive("b", lambda *_: False)
    assert not session.preemptive(asker, [])


def test_everybody_hears_of_an_admission() -> None:
    heard: list[str] = []

    def hear(name: str, job: Job) -> None:
        heard.append(name + job.key)

    session = open_points(("a",), ("b",))
    for name in ("a", "b"):
        session.add_job_enqueued(name, partial(hear, name))
    session.job_enqueued(Job("ns/g"))
    assert heard == ["ans/g", "bns/g"]


# --- orders


def test_the_first_plugin_that_tells_two_jobs_apart_decides() -> None:
    session = open_points(("a",), ("b",))
    first, second, third = Job("ns/1"), Job("ns/2"), Job("ns/3")
    session.add_job_order("a", lambda job: job is third)
    session.add_job_order("b", lambda job: job is first)
    assert sorted([first, second, third], key=session.job_key) == [second, first, third]


def test_jobs_that_no_one_tells_apart_go_by_creation_and_name() -> None:
    def order(session: Session) -> list[str]:
        return [job.name for job in sorted(session.state.jobs.values(), key=session.job_key)]

    assert inside(group("b", created=1), group("c", created=0), group("a", created=1), do=order) == ["c", "a", "b"]


def test_queues_that_no_one_tells_apart_go_by_creation_and_name() -> None:
    def order(session: Session) -> list[str]:
        return [q.name for q in sorted(session.queues.values(), key=session.queue_key)]

    assert inside(queue("b", created=1), queue("c", created=0), queue("a", created=1), do=order) == ["c", "a", "b"]


@pytest.mark.parametrize(
    ("pods", "expected"),
    [
        pytest.param([("x-w-10", 0), ("x-w-9", 1)], ["x-w-9", "x-w-10"], id="the number in the name is first"),
        pytest.param([("b", 1), ("a", 2)], ["b", "a"], id="then creation"),
        pytest.param([("b", 1), ("a", 1)], ["a", "b"], id="then the UID"),
        pytest.param([("w-2", 1), ("w-1", 2)], ["w-2", "w-1"], id="a name of two parts has no number"),
        pytest.param([("a", 0), ("x-w-7", 1)], ["x-w-7", "a"], id="names with a number come before those without"),
    ],
)
def test_tasks_that_no_one_tells_apart(pods: list[tuple[str, int]], expected: list[str]) -> None:
    def order(session: Session) -> list[str]:
        return [task.name for task in sorted(session.state.tasks.values(), key=session.task_key)]

    assert inside(group(), [pod(name, created=at) for name, at in pods], do=order) == expected


def test_the_order_of_victim_queues_knows_the_preemptor() -> None:
    session = open_points(("a",))
    session.add_victim_queue_order("a", lambda queue, preemptor: (queue, preemptor))
    left: Any = "left"
    right: Any = "right"
    assert session.victim_queue_key(left, right) == (("left", "right"),)


# --- victims


@pytest.mark.parametrize(
    ("tiers", "expected"),
    [
        pytest.param([[("xy", PERMIT), ("yz", PERMIT)]], "y", id="the intersection within a tier"),
        pytest.param([[("xyz", PERMIT), ("zyx", PERMIT)]], "xyz", id="in the order of the first answer"),
        pytest.param([[("x", PERMIT), ("y", PERMIT), ("y", PERMIT)]], "y", id="an empty intersection is seeded again"),
        pytest.param([[("xy", PERMIT), ("", PERMIT)], [("x", PERMIT)]], "x", id="an empty answer ends its tier"),
        pytest.param([[("x", PERMIT), ("y", PERMIT)], [("z", PERMIT)]], "z", id="an empty tier leaves it to the next"),
        pytest.param([[("x", ABSTAIN)], [("y", PERMIT)]], "y", id="who abstains is passed over"),
        pytest.param([[("x", REJECT), ("xy", PERMIT)]], "x", id="a rejecting vote is an answer like any other"),
        pytest.param([[("x", PERMIT)], [("", PERMIT)]], "x", id="the first tier with victims decides"),
        pytest.param([], "", id="without plugins there are no victims"),
    ],
)
def test_victims(tiers: list[list[tuple[str, int]]], expected: str) -> None:
    names = iter("abcdef")
    session = open_points(*(tuple(next(names) for _ in tier) for tier in tiers))
    tasks = {name: _task(name) for name in "xyz"}
    names = iter("abcdef")
    for answer, vote in (pair for tier in tiers for pair in tier):
        chosen = [tasks[name] for name in answer]
        session.add_preemptable(next(names), lambda *_, chosen=chosen, vote=vote: (chosen, vote))
    found = session.preemptable(tasks["x"], list(tasks.values()))
    assert "".join(task.name for task in found) == expected


@pytest.mark.parametrize(
    ("tiers", "expected"),
    [
        pytest.param([["yz", "xy"]], "y", id="what it lets go is voted on like any other answer"),
        pytest.param([["y", "x"]], "", id="a vote that starts the tier again does not bring back whom it spared"),
        pytest.param([["y", "x"], ["xyz"]], "y", id="nor does a later tier"),
        pytest.param([[""], ["xyz"]], "", id="it may spare them all"),
    ],
)
def test_a_veto_holds_against_all_later_votes(tiers: list[list[str]], expected: str) -> None:
    """The first plugin of the first tier has a veto."""
    names = iter("abcdef")
    session = open_points(*(tuple(next(names) for _ in tier) for tier in tiers))
    tasks = {name: _task(name) for name in "xyz"}
    for plugin_name, answer in zip("abcdef", (names for tier in tiers for names in tier), strict=False):
        chosen = [tasks[name] for name in answer]
        session.add_preemptable(plugin_name, lambda *_, chosen=chosen: (chosen, PERMIT), veto=plugin_name == "a")
    found = session.preemptable(tasks["x"], list(tasks.values()))
    assert "".join(task.name for task in found) == expected


def _task(name: str) -> Task:
    return state_of(pod(name, uid=name)).tasks[full(name)]


@pytest.mark.parametrize(
    ("running", "minimum", "expected"),
    [
        pytest.param(4, 3, ["t-w-0"], id="one beyond the minimum"),
        pytest.param(5, 3, ["t-w-0", "t-w-1"], id="two beyond it, in the order given"),
        pytest.param(3, 3, [], id="none of a gang at its minimum"),
        pytest.param(2, 3, [], id="none of a gang below its minimum"),
    ],
)
@pytest.mark.parametrize("point", ["preemptable", "reclaimable"])
def test_gang_gives_up_what_is_beyond_its_minimum(point: str, running: int, minimum: int, expected: list[str]) -> None:
    def victims(session: Session) -> list[str]:
        tasks = sorted((t for t in session.state.tasks.values() if t.group == "ns/t"), key=lambda t: t.name)
        preemptor = session.state.tasks["ns/g-w-0"]
        return [task.name for task in getattr(session, point)(preemptor, tasks)]

    held = gang("t", running, minimum, node="n1", cpu="0")
    objects: list[Objects] = [node("n1", cpu=8), held, gang("g", 1, cpu="9")]
    assert inside(objects, do=victims) == expected


def test_victims_without_a_preemptor_are_the_union_of_the_first_tier_that_names_any() -> None:
    session = open_points(("a",), ("b", "c"), ("d",))
    x, y, z = _task("x"), _task("y"), _task("z")
    session.add_victim_tasks("a", lambda _: [])
    session.add_victim_tasks("b", lambda _: [x, y])
    session.add_victim_tasks("c", lambda _: [y])
    session.add_victim_tasks("d", lambda _: [z])
    assert session.victim_tasks([x, y, z]) == [x, y]


# --- flags


@pytest.mark.parametrize(
    ("flags", "asked"),
    [
        pytest.param({}, True, id="a flag that is not set is on"),
        pytest.param({"enableJobReady": False}, False, id="the flag as the original spells it"),
        pytest.param({"enabledJobReady": False}, False, id="with enabled in place of enable"),
        pytest.param({"ENABLEJOBREADY": False}, False, id="in upper case"),
        pytest.param({"enableJobOrder": False}, True, id="the flag of another point"),
    ],
)
def test_flag_of_a_point(flags: dict[str, bool], asked: bool) -> None:
    session = open_points((plugin("a", **flags),))
    session.add_job_ready("a", lambda _: False)
    assert session.job_ready(Job("ns/g")) is not asked


@pytest.mark.parametrize(
    ("point", "flag"),
    [
        ("job_enqueueable", "enableJobEnqueued"),
        ("job_enqueued", "enableJobEnqueued"),
        ("overused", "enabledOverused"),
        ("allocatable", "enabledAllocatable"),
        ("preemptable", "enablePreemptable"),
        ("reclaimable", "enableReclaimable"),
        ("predicate", "enablePredicate"),
        ("pre_predicate", "enablePredicate"),
        ("node_score", "enableNodeOrder"),
        ("batch_node_score", "enableNodeOrder"),
        ("node_map", "enableNodeOrder"),
        ("task_order", "enableTaskOrder"),
        ("queue_order", "enableQueueOrder"),
        ("job_order", "enableJobOrder"),
        ("job_pipelined", "enableJobPipelined"),
        ("job_starving", "enableJobStarving"),
        ("best_node", "enableBestNode"),
        ("victim_tasks", "enabledVictim"),
    ],
)
def test_every_point_has_its_flag(point: str, flag: str) -> None:
    def asked(entry: Data) -> bool:
        session = open_points((entry,))
        session.points.add(point, "a", lambda *_: None)
        return bool(session.points.tiers_of(point))

    assert asked(plugin("a"))
    assert not asked(plugin("a", **{flag: False}))


@pytest.mark.parametrize("point", ["job_valid", "victim_queue_order", "unified_evictable"])
def test_three_points_have_no_flag(point: str) -> None:
    off = {f"enable{name}": False for name in ("JobReady", "Preemptable", "Reclaimable", "JobOrder", "QueueOrder")}
    session = open_points((plugin("a", **off),))
    session.points.add(point, "a", lambda *_: None)
    assert session.points.tiers_of(point)


def test_cluster_order_is_off_unless_asked_for() -> None:
    for entry, asked in ((plugin("a"), False), (plugin("a", enabledClusterOrder=True), True)):
        session = open_points((entry,))
        session.add_cluster_order("a", lambda name: name)
        assert bool(session.points.tiers_of("cluster_order")) is asked


def test_best_effort_pods_have_their_place_in_the_order_too() -> None:
    def order(session: Session) -> list[str]:
        return [t.name for t in sorted(session.state.tasks.values(), key=session.task_key)]

    assert inside(group(), best_effort("g-w-1"), pod("g-w-0"), do=order) == ["g-w-0", "g-w-1"]
