"""Plugins and actions that fail: they are named in the plan, and the cycle goes on without them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from kilauea.engine.action import Action
from kilauea.engine.extension import FLAGS, PERMIT, Rejection, Scope
from kilauea.engine.plan import Plan
from kilauea.engine.plugin import Plugin
from kilauea.engine.session import Session
from support.builders import (
    Data,
    Objects,
    best_effort,
    binds,
    conf,
    gang,
    group,
    node,
    plan_in,
    plan_of,
    plugin,
    pod,
    queue,
    state_of,
)
from support.probes import action_called, fingerprint, inside, plugin_called

TIERS = (["bad", "gang"], ["predicates", "proportion", "nodeorder"])
WITH_BAD = conf("enqueue, allocate, backfill", *TIERS)
WITHOUT = conf("enqueue, allocate, backfill", ["gang"], ["predicates", "proportion", "nodeorder"])


def cluster() -> list[Objects]:
    """Three nodes; jobs that wait at the door, that start, and that do not fit."""
    return [
        [node("n1"), node("n2"), node("n3", cpu=1)],
        queue("q"),
        gang("a", 2, phase="Pending", resources={"cpu": 1}, created=0),
        gang("b", 2, 1, created=1),
        gang("big", 1, cpu="99", created=2),
        [group("c", created=3), best_effort("c-w-0", "c")],
        [group("r", phase="Running"), pod("r-w-0", "r", node="n1"), pod("l", "r", node="n3", deleting=True)],
    ]


def boom(*_: Any) -> Any:
    raise RuntimeError("boom")


def raising(point: str) -> Callable[[Session], None]:
    """Register a function that raises at a point."""
    return lambda session: getattr(session, f"add_{point}")("bad", boom)


def outcome(open_session: Callable[[Session], None]) -> Plan:
    """The plan of a cycle with a plugin that registers so; nothing may be left in the state."""
    state = state_of(cluster())
    before = fingerprint(state)
    plan = plan_in(state, WITH_BAD, plugins=[plugin_called("bad", open_session)])
    assert fingerprint(state) == before
    return plan


def assert_left_out(plan: Plan, saying: str = "") -> None:
    """The plan names the plugin, and is otherwise that of the cluster without it."""
    assert [(f.where, f.error) for f in plan.findings] == [("plugin bad", True)]
    message = plan.findings[0].message
    assert message.endswith("the cycle continues without it")
    assert saying in message
    without = plan_of(cluster(), conf=WITHOUT)
    assert (plan.binds, plan.groups, plan.queues, plan.pending) == (
        without.binds,
        without.groups,
        without.queues,
        without.pending,
    )


# --- functions that raise


ASKED_BY_THESE_ACTIONS = [
    "job_order",
    "queue_order",
    "task_order",
    "job_ready",
    "job_valid",
    "allocatable",
    "pre_predicate",
    "overused",
    "job_enqueueable",
    "job_enqueued",
    "job_pipelined",
    "predicate",
    "node_score",
    "batch_node_score",
    "best_node",
    "bind_annotations",
    "bind_locks",
]


@pytest.mark.parametrize("point", ASKED_BY_THESE_ACTIONS)
def test_a_function_that_raises(point: str) -> None:
    assert_left_out(outcome(raising(point)), "RuntimeError: boom")


def test_a_node_map_that_raises() -> None:
    assert_left_out(outcome(lambda s: s.add_node_map("bad", boom, lambda _, scores: scores)), "RuntimeError: boom")
    ones = outcome(lambda s: s.add_node_map("bad", lambda _, nodes: np.ones(len(nodes)), boom))
    assert_left_out(ones, "RuntimeError: boom")


@pytest.mark.parametrize("scope", list(Scope))
def test_a_predicate_of_any_scope_that_raises(scope: Scope) -> None:
    assert_left_out(outcome(lambda s: s.add_predicate("bad", boom, scope=scope)), "RuntimeError: boom")


@pytest.mark.parametrize("which", [0, 1])
def test_an_event_handler_that_raises(which: int) -> None:
    handlers = [lambda *_: None, lambda *_: None]
    handlers[which] = boom
    objects = [*cluster(), gang("half", 9, cpu="1", created=0)]
    plan = plan_of(
        *objects, conf=WITH_BAD, plugins=[plugin_called("bad", lambda s: s.add_event_handler("bad", *handlers))]
    )
    assert [f.where for f in plan.findings] == ["plugin bad"]
    assert plan.binds == plan_of(*objects, conf=WITHOUT).binds


def test_a_plugin_that_fails_when_the_session_opens() -> None:
    assert_left_out(outcome(boom), "on_session_open")


def test_a_plugin_that_fails_when_the_session_closes() -> None:
    class Bad(Plugin):
        name = "bad"

        def on_session_close(self, session: Session) -> None:
            raise RuntimeError("boom")

    assert_left_out(plan_of(cluster(), conf=WITH_BAD, plugins=[Bad]), "on_session_close")


def test_a_plugin_that_cannot_be_made() -> None:
    class Bad(Plugin):
        name = "bad"

        def __init__(self, conf: Any, arguments: Any) -> None:
            raise RuntimeError("boom")

    assert_left_out(plan_of(cluster(), conf=WITH_BAD, plugins=[Bad]))


def asking(point: str, session: Session) -> Any:
    """Ask at a point that enqueue, allocate and backfill do not ask at."""
    job, queue_of_job, part = session.state.jobs["ns/a"], session.queues["q"], object()
    tasks = list(session.state.tasks.values())
    arguments: dict[str, tuple[Any, ...]] = {
        "sub_job_key": (part,),
        "cluster_key": ("here",),
        "victim_queue_key": (queue_of_job, queue_of_job),
        "sub_job_ready": (job, part),
        "sub_job_pipelined": (job, part),
        "job_starving": (job,),
        "preemptive": (queue_of_job, tasks),
        "victim_tasks": (tasks,),
        "hyper_node_scores": (part, []),
        "hyper_node_gradient": (point, job, 0, "Allocate"),
        "target_job": ([job],),
        "reserved_nodes": (),
    }
    names = {"hyper_node_order": "hyper_node_scores", "sub_job_order": "sub_job_key", "cluster_order": "cluster_key"}
    names |= {"victim_queue_order": "victim_queue_key"}
    name = "hyper_node_gradient" if "gradient" in point else names.get(point, point)
    if point in ("preemptable", "reclaimable", "unified_evictable"):
        return getattr(session, name)(tasks[0], tasks)
    return getattr(session, name)(*arguments.get(name, (tasks[0], 0, part)))


ASKED_BY_OTHERS = [
    "sub_job_order",
    "cluster_order",
    "victim_queue_order",
    "sub_job_ready",
    "sub_job_pipelined",
    "job_starving",
    "preemptive",
    "preemptable",
    "reclaimable",
    "unified_evictable",
    "victim_tasks",
    "hyper_node_order",
    "hyper_node_gradient_for_job",
    "hyper_node_gradient_for_sub_job",
    "target_job",
    "reserved_nodes",
]


@pytest.mark.parametrize("point", ASKED_BY_OTHERS)
def test_a_function_that_raises_at_a_point_that_other_actions_ask(point: str) -> None:
    bad = plugin_called("bad", raising(point))
    ask = action_called("asking", lambda session: asking(point, session))
    with_bad = conf("allocate, asking", [plugin("bad", enabledClusterOrder=True)])
    plan = plan_of(cluster(), conf=with_bad, plugins=[bad], actions=[ask])
    assert [f.where for f in plan.findings] == ["plugin bad"]
    assert plan.binds == plan_of(cluster(), conf=conf("allocate", [])).binds != ()


def test_every_point_is_among_those_that_are_tried() -> None:
    assert set(FLAGS) - {"node_map"} == {*ASKED_BY_THESE_ACTIONS, *ASKED_BY_OTHERS}


def test_a_queue_order_that_reports_moves_of_things_without_a_name() -> None:
    def order(session: Session) -> None:
        session.add_queue_order("bad", lambda queue: session.queues_moved([{queue.name}]))  # type: ignore[list-item]

    assert_left_out(outcome(order), "TypeError: unhashable type")


# --- answers that are nonsense


def answering(values: Callable[[int], Any]) -> dict[str, Callable[[Session], None]]:
    """Registrations of a function over nodes that answers so, by point."""
    return {
        "predicate": lambda s: s.add_predicate("bad", lambda _, nodes: values(len(nodes))),
        "node_score": lambda s: s.add_node_score("bad", lambda _, nodes: values(len(nodes))),
        "batch_node_score": lambda s: s.add_batch_node_score("bad", lambda _, nodes: values(len(nodes))),
        "node_map": lambda s: s.add_node_map(
            "bad", lambda _, nodes: np.ones(len(nodes)), lambda _, scores: values(len(scores))
        ),
    }


POINTS_OVER_NODES = ["predicate", "node_score", "batch_node_score", "node_map"]
SCORES = POINTS_OVER_NODES[1:]

WRONG_SHAPES = [
    pytest.param(lambda n: np.ones(n + 1), id="one value too many"),
    pytest.param(lambda n: np.ones((n, 1)), id="a column"),
    pytest.param(lambda n: np.float64(1), id="a scalar of numpy"),
    pytest.param(lambda n: 1.0, id="a number"),
    pytest.param(lambda n: [1.0] * n, id="a list"),
    pytest.param(lambda n: "no", id="a text"),
]

WRONG_TYPES = [
    pytest.param(lambda n: np.array(["x"] * n), id="texts"),
    pytest.param(lambda n: np.array([object()] * n), id="objects"),
    pytest.param(lambda n: np.array([None] * n), id="nothing for each node"),
    pytest.param(lambda n: np.ones(n, dtype=complex), id="complex numbers"),
]


@pytest.mark.parametrize("values", WRONG_SHAPES)
@pytest.mark.parametrize("point", POINTS_OVER_NODES)
def test_an_answer_over_nodes_that_has_the_wrong_shape(point: str, values: Callable[[int], Any]) -> None:
    assert_left_out(outcome(answering(values)[point]))


@pytest.mark.parametrize("values", WRONG_TYPES)
def test_a_predicate_that_has_the_wrong_type(values: Callable[[int], Any]) -> None:
    assert_left_out(outcome(answering(values)["predicate"]))


@pytest.mark.parametrize("values", WRONG_TYPES)
@pytest.mark.parametrize("point", SCORES)
def test_a_score_that_has_the_wrong_type(point: str, values: Callable[[int], Any]) -> None:
    assert_left_out(outcome(answering(values)[point]))


@pytest.mark.parametrize(
    "value",
    [
        pytest.param(np.nan, id="no number"),
        pytest.param(np.inf, id="infinite"),
        pytest.param(-np.inf, id="minus infinite"),
    ],
)
@pytest.mark.parametrize("point", ["node_score", "batch_node_score", "node_map"])
def test_a_score_that_is_no_finite_number(point: str, value: float) -> None:
    def one_bad(count: int) -> Any:
        scores = np.ones(count)
        scores[-1] = value
        return scores

    assert_left_out(outcome(answering(one_bad)[point]), "finite")


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_a_predicate_that_answers_with_fractions(dtype: Any) -> None:
    assert_left_out(outcome(answering(lambda n: np.zeros(n, dtype=dtype))["predicate"]), "float")


@pytest.mark.parametrize("code", [2, 99, -1])
def test_a_code_that_stands_for_no_rejection(code: int) -> None:
    def predicate(_: Any, nodes: Any) -> Any:
        return np.full(len(nodes), code)

    assert_left_out(outcome(lambda s: s.add_predicate("bad", predicate, [Rejection("No", "no")])))


@pytest.mark.parametrize(
    ("point", "answer"),
    [
        pytest.param("job_enqueueable", None, id="admission: nothing"),
        pytest.param("job_enqueueable", PERMIT, id="admission: a vote without a reason"),
        pytest.param("job_enqueueable", ("yes", None), id="admission: a text"),
        pytest.param("job_pipelined", None, id="promised: nothing"),
        pytest.param("job_pipelined", "yes", id="promised: a text"),
        pytest.param("allocatable", False, id="quota: a truth value"),
        pytest.param("allocatable", "no", id="quota: a text"),
        pytest.param("overused", True, id="overused: a truth value"),
        pytest.param("job_valid", False, id="validity: a truth value"),
        pytest.param("job_valid", (False, "no"), id="validity: a pair"),
        pytest.param("pre_predicate", False, id="before the filters: a truth value"),
        pytest.param("best_node", "n1", id="pick: a name"),
        pytest.param("best_node", None, id="pick: nothing"),
    ],
)
def test_an_answer_of_the_wrong_type(point: str, answer: Any) -> None:
    assert_left_out(outcome(lambda s: getattr(s, f"add_{point}")("bad", lambda *_: answer)))


@pytest.mark.parametrize("point", ["job_order", "queue_order", "task_order"])
def test_sort_keys_that_cannot_be_compared(point: str) -> None:
    def mixed(subject: Any) -> Any:
        return 1 if subject.name in ("a", "a-w-0", "q") else "one"

    objects = [*cluster(), queue("q0"), gang("z", 1, queue="q0")]
    bad = plugin_called("bad", lambda s: getattr(s, f"add_{point}")("bad", mixed))
    plan = plan_of(*objects, conf=WITH_BAD, plugins=[bad])
    assert [f.where for f in plan.findings] == ["plugin bad"]
    assert plan.binds == plan_of(*objects, conf=WITHOUT).binds


@pytest.mark.parametrize(
    "answer",
    [
        pytest.param(None, id="nothing"),
        pytest.param([], id="a list without a vote"),
        pytest.param((7, PERMIT), id="no list"),
        pytest.param((["r-w-0"], PERMIT), id="names"),
    ],
)
def test_an_answer_about_victims_of_the_wrong_type(answer: Any) -> None:
    def ask(session: Session) -> None:
        tasks = list(session.state.tasks.values())
        session.preemptable(tasks[0], tasks)

    first = plugin_called("first", lambda s: s.add_preemptable("first", lambda _, candidates: (candidates, PERMIT)))
    bad = plugin_called("bad", lambda s: s.add_preemptable("bad", lambda *_: answer))
    asking = conf("asking, allocate", ["first", "bad"])
    plan = plan_of(cluster(), conf=asking, plugins=[first, bad], actions=[action_called("asking", ask)])
    assert [f.where for f in plan.findings] == ["plugin bad"]


# --- several, and actions


def test_every_plugin_that_fails_is_named() -> None:
    plugins = [plugin_called("bad", raising("job_ready")), plugin_called("worse", raising("job_order"))]
    plugins[1] = plugin_called("worse", lambda session: session.add_job_order("worse", boom))
    both = conf("enqueue, allocate, backfill", ["gang", "bad", "worse"], TIERS[1])
    plan = plan_of(cluster(), conf=both, plugins=plugins)
    assert sorted(f.where for f in plan.findings) == ["plugin bad", "plugin worse"]
    assert plan.binds == plan_of(cluster(), conf=WITHOUT).binds


def test_what_a_plugin_said_before_it_failed_is_gone_with_it() -> None:
    def open_session(session: Session) -> None:
        session.add_predicate("bad", lambda _, nodes: np.zeros(len(nodes), dtype=bool))
        session.add_job_pipelined("bad", boom)

    assert_left_out(outcome(open_session))


@pytest.mark.parametrize("when", ["on_start", "execute", "on_end"])
def test_an_action_that_raises(when: str) -> None:
    class Bad(Action):
        name = "bad"

    setattr(Bad, when, boom)
    state = state_of(cluster())
    before = fingerprint(state)
    plan = plan_in(state, conf("enqueue, bad, allocate", ["gang"]), actions=[Bad])
    assert fingerprint(state) == before
    assert [(f.where, f.error) for f in plan.findings] == [("action bad", True)]
    assert "RuntimeError: boom" in plan.findings[0].message
    assert plan.binds == plan_of(cluster(), conf=conf("enqueue, allocate", ["gang"])).binds


def test_what_an_action_did_before_it_raised_is_undone() -> None:
    def act(session: Session) -> None:
        statement = session.statement()
        for job in session.waiting_jobs():
            session.admit(job)
        statement.allocate(session.state.tasks["ns/big-w-0"], 0)
        statement.commit()
        raise RuntimeError("boom")

    plan = plan_of(cluster(), conf=conf("bad, allocate", ["gang"]), actions=[action_called("bad", act)])
    assert plan.binds == plan_of(cluster(), conf=conf("allocate", ["gang"])).binds


def test_an_action_that_cannot_be_made() -> None:
    class Bad(Action):
        name = "bad"

        def __init__(self, arguments: Any) -> None:
            raise RuntimeError("boom")

    plan = plan_of(cluster(), conf=conf("bad, allocate", ["gang"]), actions=[Bad])
    assert [f.where for f in plan.findings] == ["action bad"]


def test_arguments_of_plugins_and_actions_that_are_wrong_are_warnings() -> None:
    wrong: Data = conf(
        "allocate", ["gang"], [("nodeorder", {"leastrequested.wait": 3})], allocate={"predicateErrorCacheEnable": 7}
    )
    plan = plan_of(cluster(), conf=wrong)
    assert sorted((f.where, f.error) for f in plan.findings) == [
        ("action allocate", False),
        ("plugin nodeorder", False),
    ]
    assert any("did you mean 'leastrequested.weight'" in f.message for f in plan.findings)


def test_a_plugin_whose_answers_are_good_is_left_in() -> None:
    def open_session(session: Session) -> None:
        fit = lambda _, nodes: np.array([name != "n1" for name in nodes.names])  # noqa: E731
        session.add_predicate("good", fit, [Rejection("NotOne", "node is number one")])

    good = plugin_called("good", open_session)
    plan = plan_of(node("n1"), node("n2", cpu=0), gang("g", 1), conf=conf("allocate", ["good"]), plugins=[good])
    assert (plan.binds, plan.findings) == ((), ())
    assert plan.pending[0].message == "0/2 nodes are unavailable: 1 Insufficient cpu, 1 node is number one."
    wider = plan_of(node("n1"), node("n2"), gang("g", 1), conf=conf("allocate", ["good"]), plugins=[good])
    assert binds(wider) == {"g-w-0": "n2"}


def test_answers_of_none_mean_that_nothing_is_said() -> None:
    def open_session(session: Session) -> None:
        session.add_predicate("quiet", lambda *_: None)
        session.add_node_score("quiet", lambda *_: None)
        session.add_batch_node_score("quiet", lambda *_: None)

    quiet = plugin_called("quiet", open_session)
    plan = plan_of(node("n1"), node("n2"), gang("g", 1), conf=conf("allocate", ["quiet"]), plugins=[quiet])
    assert (binds(plan), plan.findings) == ({"g-w-0": "n1"}, ())


def test_the_helper_that_runs_inside_a_session_lets_exceptions_through() -> None:
    with pytest.raises(RuntimeError, match="boom"):
        inside(do=boom)
