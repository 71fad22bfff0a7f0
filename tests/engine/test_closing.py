"""What a closed session leaves behind: memory is free at once, without a garbage collection."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Iterator
from typing import Any

import pytest

from kilauea.engine.plugins import PLUGINS
from kilauea.engine.session import Session
from support.builders import Objects, conf, gang, node, plan_in, plan_of, plugin, queue, state_of
from support.probes import action_called, plugin_called

CLUSTER: list[Objects] = [node("n1"), node("n2"), queue("q"), gang("g", 2), gang("h", 9)]


@pytest.fixture(autouse=True)
def no_garbage_collection() -> Iterator[None]:
    gc.collect()
    gc.disable()
    yield
    gc.enable()


def kept_after_a_cycle(*tiers: Any, fails: bool = False) -> list[str]:
    """What is alive after a cycle of session, plugin, evaluation and statement."""
    alive: dict[str, weakref.ref[Any]] = {}

    def watch(session: Session) -> None:
        alive["session"] = weakref.ref(session)
        session.add_job_order("watch", lambda job: (len(session.nodes), job.key))
        if fails:
            session.add_job_ready("watch", lambda _: bool(1 // 0))

    def look(session: Session) -> None:
        job = session.state.jobs["ns/h"]
        alive["evaluation"] = weakref.ref(session.evaluation(next(job.pending())))
        alive["ledger"] = weakref.ref(session.ledger)

    plan_in(
        state_of(*CLUSTER),
        conf("enqueue, allocate, backfill, preempt, reclaim, look", *tiers, ["watch"]),
        plugins=[plugin_called("watch", watch)],
        actions=[action_called("look", look)],
    )
    assert set(alive) == {"session", "evaluation", "ledger"}
    return [name for name, thing in alive.items() if thing() is not None]


@pytest.mark.parametrize("name", sorted(PLUGINS))
def test_a_session_with_a_plugin_is_freed_when_it_closes(name: str) -> None:
    others = ["gang", "predicates"]
    assert kept_after_a_cycle([other for other in others if other != name], [name]) == []


def test_a_session_with_the_tree_of_drf_is_freed_when_it_closes() -> None:
    assert kept_after_a_cycle(["gang", plugin("drf", enableHierarchy=True)]) == []


def test_a_session_whose_plugin_failed_is_freed_when_it_closes() -> None:
    assert kept_after_a_cycle(["gang"], fails=True) == []


def test_a_session_that_somebody_keeps_holds_no_plugins_and_no_changes() -> None:
    kept: list[Session] = []
    plan = plan_of(*CLUSTER, conf=conf("allocate, keep", ["gang"]), actions=[action_called("keep", kept.append)])
    assert plan.binds
    (session,) = kept
    assert session.points.tiers_of("job_ready") == []
    assert session.ledger.touched == {}
    assert [task.node for task in session.state.tasks.values()] == [""] * 11
