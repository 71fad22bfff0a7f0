"""Statements, and what a session leaves behind: nothing."""

from __future__ import annotations

import re
from contextlib import suppress
from typing import Any

import numpy as np
import pytest

from kilauea.engine.model import status
from kilauea.engine.session import Session
from kilauea.engine.statement import Statement, StatementError
from support.builders import (
    GPU,
    Objects,
    away,
    best_effort,
    binds,
    conf,
    gang,
    group,
    labels_of,
    namespace,
    node,
    plan_in,
    plan_of,
    pod,
    priority_class,
    queue,
    rather,
    service,
    spread,
    state_of,
)
from support.probes import (
    action_called,
    columns,
    fingerprint,
    full,
    inside,
    job_figures,
    node_columns,
    plugin_called,
    queue_figures,
)

WEB = labels_of({"app": "web"})
EVERYTHING = conf(
    "enqueue, allocate, backfill",
    ["priority", "gang", "conformance"],
    ["overcommit", "drf", "predicates", "proportion", "nodeorder", "binpack"],
)


def busy_cluster() -> list[Objects]:
    """A bit of everything: running, leaving and waiting pods, ports, neighbours, roles, gates, two queues."""
    sociable = {
        "labels": {"app": "web"},
        "affinity": away(WEB) | {"podAffinity": rather(3, WEB, "zone")["podAffinity"]},
    }
    nodes = [node(f"n{i}", cpu=4, gpu=i % 2, labels={"zone": "ab"[i % 2]}) for i in range(1, 5)]
    running = [
        group("r", "q1", phase="Running"),
        pod("r-w-0", "r", node="n1", labels={"app": "web"}, ports=[{"hostPort": 80}]),
        pod("r-w-1", "r", node="n2", cpu="3", deleting=True),
        pod("r-w-2", "r", node="n3", affinity=away(WEB), labels={"app": "db"}),
    ]
    waiting: list[Objects] = [
        gang("a", 3, 2, queue="q1", **sociable),
        gang("b", 2, queue="q2", gpu=1, ports=[{"hostPort": 80}]),
        gang("c", 9, queue="q2", created=5),
        group("d", "q1", phase="Pending", roles={"x": 1}, resources={"cpu": 1}),
        pod("d-x-0", "d", role="x", topologySpreadConstraints=spread("zone", WEB)),
        best_effort("d-x-1", "d", role="x"),
        pod("d-x-2", "d", role="x", schedulingGates=[{"name": "example.com/wait"}]),
    ]
    others = [
        queue("q1", 2),
        queue("q2", capability={"cpu": 8}),
        service("s", {"app": "web"}),
        namespace("ns", {"a": "b"}),
    ]
    return [nodes, running, waiting, others, priority_class("high", 9)]


# --- statements


def snapshot(session: Session) -> dict[str, Any]:
    """Everything in a session that placing and evicting changes."""
    return {
        "nodes": node_columns(session.nodes),
        "placements": columns(session.state.placements),
        "jobs": {key: job_figures(job) for key, job in session.state.jobs.items()},
        "queues": queue_figures(session),
        "tasks": {key: (task.status, task.node) for key, task in session.state.tasks.items()},
    }


def task_of(session: Session, name: str) -> Any:
    return session.state.tasks[full(name)]


def test_rolling_back_restores_everything_at_every_checkpoint() -> None:
    def act(session: Session) -> None:
        statement = session.statement()
        stages = [(statement.checkpoint(), snapshot(session))]
        for kind, name, row in (
            ("allocate", "a-w-0", 0),
            ("pipeline", "a-w-1", 1),
            ("evict", "r-w-0", 0),
            ("allocate", "b-w-0", 2),
            ("evict", "r-w-2", 2),
            ("pipeline", "b-w-1", 0),
        ):
            if kind == "evict":
                statement.evict(task_of(session, name), "probe")
            else:
                getattr(statement, kind)(task_of(session, name), row)
            stages.append((statement.checkpoint(), snapshot(session)))
        assert len({repr(stage) for _, stage in stages}) == len(stages)
        for checkpoint, stage in reversed(stages):
            statement.roll_back(checkpoint)
            assert snapshot(session) == stage
        assert statement.operations == []

    inside(busy_cluster(), do=act, conf=conf("enqueue", ["gang"], ["predicates", "proportion"]))


def test_after_rolling_back_the_same_may_be_done_again() -> None:
    def act(session: Session) -> None:
        statement = session.statement()
        statement.allocate(task_of(session, "a-w-0"), 0)
        first = snapshot(session)
        statement.roll_back()
        statement.allocate(task_of(session, "a-w-0"), 0)
        assert snapshot(session) == first

    inside(busy_cluster(), do=act, conf=conf("enqueue", ["gang"]))


def test_what_placing_does_to_a_node_and_its_job() -> None:
    def act(session: Session) -> None:
        statement, nodes = session.statement(), session.nodes.all()
        task = task_of(session, "g-w-0")
        statement.allocate(task, 0)
        assert (task.status, task.node) == (status.ALLOCATED, "n1")
        assert session.nodes.all().idle[:, 0].tolist()[:3] == [3000, 15 << 30, 109]
        assert session.queues["q"].allocated["cpu"] == 1000
        assert session.state.jobs[full("g")].ready_count == 1
        statement.roll_back()
        statement.pipeline(task, 0)
        assert session.nodes.all().idle[0, 0] == 4000
        assert nodes.future_idle[0, 0] == 3000 or session.nodes.all().future_idle[0, 0] == 3000
        assert session.nodes.all().pod_count[0] == 1
        assert session.queues["q"].allocated["cpu"] == 1000
        assert (session.state.jobs[full("g")].ready_count, session.state.jobs[full("g")].is_pipelined) == (0, True)
        statement.discard()

    inside(node("n1"), gang("g", 1, phase="Pending"), do=act, conf=conf("enqueue", ["proportion"]))


def test_what_evicting_does_to_a_node_and_its_queue() -> None:
    def act(session: Session) -> None:
        statement = session.statement()
        task = task_of(session, "g-w-0")
        statement.evict(task, "probe")
        nodes = session.nodes.all()
        assert (task.status, task.node) == (status.RELEASING, "n1")
        assert (nodes.idle[0, 0], nodes.future_idle[0, 0], nodes.pod_count[0]) == (3000, 4000, 0)
        assert session.queues["q"].allocated["cpu"] == 0
        statement.discard()
        assert (task.status, nodes.pod_count[0]) == (status.RUNNING, 1)

    inside(node("n1"), gang("g", 1, node="n1"), do=act)


def test_evictions_and_binds_of_a_statement_reach_the_plan_when_it_is_committed() -> None:
    def act(session: Session) -> None:
        statement = session.statement()
        statement.evict(task_of(session, "old-w-0"), "probe")
        statement.allocate(task_of(session, "g-w-0"), 0)
        statement.pipeline(task_of(session, "g-w-1"), 0)
        statement.commit()
        assert statement.operations == []

    objects: list[Objects] = [node("n1", cpu=2), gang("old", 1, node="n1"), gang("g", 2, phase="Pending", cpu="1")]
    plan = _plan_with(act, *objects)
    assert [(e.pod, e.node, e.action) for e in plan.evictions] == [(full("old-w-0"), "n1", "probe")]
    assert binds(plan) == {"g-w-0": "n1"}
    assert [n.pod for n in plan.nominations] == [full("g-w-1")]


@pytest.mark.parametrize("end", ["discard", "nothing"])
def test_nothing_of_a_statement_that_is_not_committed_reaches_the_plan(end: str) -> None:
    def act(session: Session) -> None:
        statement = session.statement()
        statement.evict(task_of(session, "old-w-0"), "probe")
        statement.allocate(task_of(session, "g-w-0"), 0)
        if end == "discard":
            statement.discard()

    plan = _plan_with(act, node("n1", cpu=2), gang("old", 1, node="n1"), gang("g", 1, phase="Pending"))
    assert (plan.binds, plan.evictions) == ((), ())


def _plan_with(act: Any, *objects: Objects) -> Any:
    """The plan of a cycle whose only action does so; what it raises comes through."""
    failed: list[Exception] = []

    def execute(session: Session) -> None:
        try:
            act(session)
        except Exception as error:
            failed.append(error)

    plan = plan_of(*objects, conf=conf("probe", ["gang"]), actions=[action_called("probe", execute)])
    assert failed == []
    return plan


# --- what cannot be


@pytest.mark.parametrize(
    ("first", "refused", "message"),
    [
        pytest.param(
            [("allocate", "a", 0)],
            ("allocate", "b", 0),
            "task ns/b cannot be placed: node n1 lacks cpu now",
            id="room that another task of the statement has taken",
        ),
        pytest.param(
            [],
            ("allocate", "a", 1),
            "task ns/a cannot be placed: node n2 lacks cpu now",
            id="room that a running pod has",
        ),
        pytest.param(
            [],
            ("pipeline", "a", 1),
            "task ns/a cannot be placed: node n2 lacks cpu even after the pods that are terminating",
            id="room that nothing is freeing",
        ),
        pytest.param(
            [("evict", "r", 1), ("pipeline", "a", 1)],
            ("pipeline", "b", 1),
            "task ns/b cannot be placed: node n2 lacks cpu even after the pods that are terminating",
            id="room that is promised to another",
        ),
        pytest.param(
            [("pipeline", "a", 0)],
            ("allocate", "b", 0),
            "task ns/b cannot be placed: node n1 lacks cpu beside what is promised to others",
            id="room that is free and promised to another",
        ),
        pytest.param(
            [("evict", "r", 1)],
            ("allocate", "a", 1),
            "task ns/a cannot be placed: node n2 lacks cpu now",
            id="room that is still being freed, as if it were free",
        ),
        pytest.param(
            [("allocate", "a", 0)],
            ("allocate", "a", 0),
            "task ns/a cannot be placed: it is Allocated on node n1",
            id="a task that is placed",
        ),
        pytest.param(
            [("allocate", "a", 0)],
            ("pipeline", "a", 1),
            "task ns/a cannot be placed: it is Allocated on node n1",
            id="a promise to a task that is placed",
        ),
        pytest.param(
            [],
            ("allocate", "r", 0),
            "task ns/r cannot be placed: it is Running on node n2",
            id="a second place for a task that runs",
        ),
        pytest.param(
            [("evict", "r", 1)],
            ("evict", "r", 1),
            "task ns/r cannot be evicted: it is Releasing",
            id="a second eviction",
        ),
        pytest.param([], ("evict", "a", 0), "task ns/a cannot be evicted: it is Pending", id="evicting what waits"),
        pytest.param(
            [("allocate", "a", 0)],
            ("evict", "a", 0),
            "task ns/a cannot be evicted: it is Allocated",
            id="evicting what only a statement has placed",
        ),
        pytest.param(
            [], ("allocate", "a", 2), "task ns/a cannot be placed: row 2 is not one of 2 nodes", id="a node too far"
        ),
        pytest.param(
            [], ("allocate", "a", -1), "task ns/a cannot be placed: row -1 is not one of 2 nodes", id="no node"
        ),
        pytest.param([], ("allocate", "lost", 0), "task ns/lost has no pod group in a queue", id="a task of no group"),
    ],
)
def test_what_cannot_be_is_refused_and_changes_nothing(
    first: list[tuple[str, str, int]], refused: tuple[str, str, int], message: str
) -> None:
    def do_one(session: Session, statement: Statement, kind: str, name: str, row: int) -> None:
        if kind == "evict":
            statement.evict(task_of(session, name), "probe")
        else:
            getattr(statement, kind)(task_of(session, name), row)

    def act(session: Session) -> None:
        statement = session.statement()
        for one in first:
            do_one(session, statement, *one)
        before, done = snapshot(session), list(statement.operations)
        with pytest.raises(StatementError, match=f"^{re.escape(message)}$"):
            do_one(session, statement, *refused)
        assert (snapshot(session), statement.operations) == (before, done)

    objects = [
        [node("n1", cpu=1), node("n2", cpu=1)],
        [group("g", phase="Inqueue"), pod("a", "g"), pod("b", "g"), pod("lost", "nowhere")],
        [group("old", phase="Running"), pod("r", "old", node="n2")],
    ]
    inside(*objects, do=act, conf=conf("enqueue", ["gang"]))


def test_a_task_of_another_session_is_refused() -> None:
    objects = [node("n1"), group("g", phase="Inqueue"), pod("a", "g")]
    stranger = state_of(objects).tasks[full("a")]

    def act(session: Session) -> None:
        with pytest.raises(StatementError, match=r"^task ns/a is not a task of this session$"):
            session.statement().allocate(stranger, 0)

    inside(*objects, do=act, conf=conf("enqueue", ["gang"]))


def test_a_task_that_asks_for_nothing_goes_to_a_full_node_and_placing_it_at_once_is_checked_too() -> None:
    def act(session: Session) -> None:
        session.statement().allocate(task_of(session, "none"), 0)
        with pytest.raises(StatementError, match="n1 lacks cpu now"):
            session.allocate_at_once(task_of(session, "a"), 0)

    objects = [node("n1", cpu=1), group("g", phase="Inqueue"), pod("r", "g", node="n1"), pod("a", "g")]
    inside(*objects, best_effort("none", "g"), do=act, conf=conf("enqueue", ["gang"]))


def emptiest_node_for_each(catch: bool) -> Any:
    """The body of an action that gives each task to the node with the fewest, and may go on where that is refused."""

    def execute(session: Session) -> None:
        statement = session.statement()
        for job in session.waiting_jobs():
            for task in session.in_order(job.pending()):
                try:
                    statement.allocate(task, int(session.nodes.all().task_count.argmin()))
                except StatementError:
                    if not catch:
                        raise
            statement.commit()

    return execute


def overfull() -> list[Objects]:
    """Three pods of one cpu, and a node for one of them."""
    return [node("n1", cpu=1), gang("g", 3, 1, phase="Pending", cpu=1)]


def test_an_action_that_catches_the_refusal_binds_what_there_is_room_for() -> None:
    launch = action_called("launch", emptiest_node_for_each(catch=True))
    plan = plan_of(overfull(), conf=conf("enqueue, launch", ["proportion"]), actions=[launch])
    assert (binds(plan), plan.findings) == ({"g-w-0": "n1"}, ())


def test_an_action_that_does_not_is_left_out_of_the_cycle_by_name() -> None:
    launch = action_called("launch", emptiest_node_for_each(catch=False))
    plan = plan_of(overfull(), conf=conf("enqueue, launch, allocate", ["proportion"]), actions=[launch])
    assert [finding.where for finding in plan.findings] == ["action launch"]
    assert "StatementError: task ns/g-w-1 cannot be placed: node n1 lacks cpu now" in plan.findings[0].message
    assert binds(plan) == {"g-w-0": "n1"}


# --- what others see of it


def test_plugins_hear_of_all_that_comes_and_goes() -> None:
    heard: list[str] = []

    def listen(session: Session) -> None:
        session.add_event_handler(
            "ear",
            lambda task, row: heard.append(f"+{task.name}@{row}"),
            lambda task, row: heard.append(f"-{task.name}@{row}"),
        )

    def act(session: Session) -> None:
        statement = session.statement()
        statement.allocate(task_of(session, "g-w-0"), 1)
        statement.evict(task_of(session, "r-w-0"), "probe")
        statement.pipeline(task_of(session, "g-w-1"), 0)
        statement.roll_back(1)
        statement.discard()

    objects: list[Objects] = [node("n1"), node("n2"), gang("g", 2, phase="Pending"), gang("r", 1, node="n1")]
    inside(*objects, do=act, conf=conf("enqueue", ["ear"]), plugins=(plugin_called("ear", listen),))
    assert heard == ["+g-w-0@1", "-r-w-0@0", "+g-w-1@0", "-g-w-1@0", "+r-w-0@0", "-g-w-0@1"]


# --- sessions leave no trace


CLUSTERS = [
    pytest.param(busy_cluster(), id="a bit of everything"),
    pytest.param([node("n1"), gang("g", 3)], id="a gang that starts"),
    pytest.param([node("n1"), gang("g", 9)], id="a gang that does not"),
    pytest.param([], id="nothing at all"),
    pytest.param(
        [node("n1", cpu=2), gang("old", 2, node="n1", deleting=True), gang("g", 2)], id="room that is being freed"
    ),
    pytest.param([node("n1"), group(), best_effort("a"), pod("b", gpu=1)], id="pods that ask for nothing"),
]


@pytest.mark.parametrize("objects", CLUSTERS)
@pytest.mark.parametrize("seed", [None, 7])
def test_a_cycle_leaves_the_state_as_it_was(objects: list[Objects], seed: int | None) -> None:
    state = state_of(objects)
    before = (fingerprint(state), node_columns(state.nodes), columns(state.job_table), columns(state.placements))
    first = plan_in(state, EVERYTHING, seed)
    after = (fingerprint(state), node_columns(state.nodes), columns(state.job_table), columns(state.placements))
    assert after == before
    assert plan_in(state, EVERYTHING, seed) == first


def test_a_cycle_in_which_a_plugin_fails_leaves_the_state_as_it_was() -> None:
    def fail(session: Session) -> None:
        calls: list[str] = []

        def third_time(task: Any, _: int) -> None:
            calls.append(task.name)
            if len(calls) == 3:
                raise RuntimeError("boom")

        session.add_event_handler("bad", third_time, lambda *_: None)

    state = state_of(busy_cluster())
    before = fingerprint(state)
    with_bad = {**EVERYTHING, "tiers": [*EVERYTHING["tiers"], {"plugins": [{"name": "bad"}]}]}
    plan = plan_in(state, with_bad, plugins=[plugin_called("bad", fail)])
    assert [f.where for f in plan.findings] == ["plugin bad"]
    assert fingerprint(state) == before
    assert plan.binds == plan_in(state, EVERYTHING).binds


def test_a_statement_that_is_left_open_is_undone_when_the_session_closes() -> None:
    def act(session: Session) -> None:
        statement = session.statement()
        statement.evict(task_of(session, "r-w-0"), "probe")
        statement.allocate(task_of(session, "a-w-0"), 0)
        statement.pipeline(task_of(session, "a-w-1"), 1)

    state = state_of(busy_cluster())
    before = fingerprint(state)
    inside(do=act, state=state, conf=conf("enqueue", ["predicates"]))
    assert fingerprint(state) == before


def test_events_after_a_cycle_find_the_state_as_events_left_it() -> None:
    state, untouched = state_of(busy_cluster()), state_of(busy_cluster())
    plan_in(state, EVERYTHING)
    for one in (state, untouched):
        one.apply(_starts("a-w-0", "n1"))
    assert fingerprint(state) == fingerprint(untouched)
    assert plan_in(state, EVERYTHING) == plan_in(untouched, EVERYTHING)


def _starts(name: str, on: str) -> Any:
    from kilauea.engine.events import Changed  # noqa: PLC0415

    return Changed(pod(name, "a", node=on, gpu=0))


def test_figures_of_a_node_are_exact_after_many_changes_of_mind() -> None:
    def act(session: Session) -> None:
        before = node_columns(session.nodes)
        draw = np.random.default_rng(1)
        names = ["a-w-0", "a-w-1", "b-w-0", "b-w-1", "d-x-0"]
        for _ in range(40):
            statement = session.statement()
            for name in draw.permutation(names)[: draw.integers(1, 5)]:
                placing = statement.allocate if draw.random() < 0.5 else statement.pipeline
                with suppress(StatementError):
                    placing(task_of(session, str(name)), int(draw.integers(0, 4)))
            statement.discard()
        assert node_columns(session.nodes) == before

    assert GPU in state_of(busy_cluster()).axis.rows
    inside(busy_cluster(), do=act, conf=conf("enqueue", ["gang"], ["predicates", "nodeorder"]))
