"""Pods that another scheduler has placed: they take room, and are never evicted, whichever action wants them to go."""

from __future__ import annotations

from typing import Any

import pytest

from engine.test_claims import running, starving, victims
from kilauea.api.meta import Object
from kilauea.engine.extension import PERMIT
from kilauea.engine.plan import Plan
from kilauea.engine.session import Session
from kilauea.engine.statement import StatementError
from support.builders import binds, conf, group, node, plan_of, pod, priority_class, queue
from support.probes import action_called, inside, plugin_called

CLASSES = [priority_class("low", 10), priority_class("high", 1000)]
QUEUES = [queue("a", deserved={"cpu": "1"}), queue("b", deserved={"cpu": "3"})]
ACTIONS = [
    pytest.param("preempt", {"priority": "low", "queue": "a"}, {"priority": "high", "queue": "a"}, id="preempt"),
    pytest.param(
        "gangpreempt", {"priority": "low", "queue": "a"}, {"priority": "high", "queue": "a"}, id="gangpreempt"
    ),
    pytest.param("reclaim", {"queue": "a"}, {"queue": "b"}, id="reclaim"),
    pytest.param("gangreclaim", {"queue": "a"}, {"queue": "b"}, id="gangreclaim"),
    pytest.param("shuffle", {"queue": "a"}, {"queue": "b"}, id="shuffle"),
]


def lets_all_go(session: Session) -> None:
    """A plugin that would have every pod evicted, by every action."""
    session.add_preemptable("lets-all-go", lambda preemptor, tasks: (tasks, PERMIT))
    session.add_reclaimable("lets-all-go", lambda preemptor, tasks: (tasks, PERMIT))
    session.add_unified_evictable("lets-all-go", lambda claim, tasks: (tasks, PERMIT))
    session.add_victim_tasks("lets-all-go", list)


def plan(action: str, held: dict[str, Any], wanted: dict[str, Any], scheduler: str) -> Plan:
    """A cycle in which a gang of two wants the room of four pods that run under a scheduler."""
    objects: list[Object] = [
        *CLASSES,
        *QUEUES,
        node("n1", cpu=4),
        *running("r", 4, "n1", schedulerName=scheduler, **held),
        *starving("s", 2, **wanted),
    ]
    tiers = (["lets-all-go", "priority", "gang"], ["predicates", "capacity"])
    return plan_of(*objects, conf=conf(action, *tiers), plugins=[plugin_called("lets-all-go", lets_all_go)])


@pytest.mark.parametrize(("action", "held", "wanted"), ACTIONS)
@pytest.mark.parametrize("scheduler", ["default-scheduler", "another"])
def test_no_action_evicts_a_pod_of_another_scheduler(
    action: str, held: dict[str, Any], wanted: dict[str, Any], scheduler: str
) -> None:
    assert victims(plan(action, held, wanted, "volcano"))
    assert not victims(plan(action, held, wanted, scheduler))


def test_a_gang_with_a_pod_of_another_scheduler_does_not_go_whole() -> None:
    objects: list[Object] = [
        *CLASSES,
        node("n1", cpu=2),
        group("r", minimum=2, phase="Running", priority="low"),
        pod("r-0", "r", node="n1"),
        pod("r-1", "r", node="n1", schedulerName="another"),
        *starving("s", 2, priority="high"),
    ]
    assert not plan_of(*objects, conf=conf("preempt", ["priority", "gang"], ["predicates"])).evictions


def test_the_room_that_a_pod_of_another_scheduler_takes_is_taken() -> None:
    foreign = pod("other", "", cpu=3, node="n1", schedulerName="another")
    placed = binds(plan_of(node("n1", cpu=4), foreign, group("g"), pod("p", cpu=1), pod("q", cpu=1)))
    assert placed == {"p": "n1"}


def test_an_action_of_the_user_that_evicts_such_a_pod_gets_an_error_that_it_can_catch() -> None:
    foreign = pod("other", "r", node="n1", schedulerName="another")

    def evict(session: Session) -> None:
        statement = session.statement()
        with pytest.raises(StatementError, match="task ns/other cannot be evicted: another scheduler has placed it"):
            statement.evict(session.state.tasks["ns/other"], "own")
        statement.commit()
        assert not session.report.evictions

    inside(node("n1"), group("r", phase="Running"), foreign, do=evict)


def test_an_action_of_the_user_that_does_not_catch_it_is_left_out_and_named() -> None:
    foreign = pod("other", "r", node="n1", schedulerName="another")

    def evict(session: Session) -> None:
        statement = session.statement()
        statement.evict(session.state.tasks["ns/other"], "own")
        statement.commit()

    found = plan_of(
        node("n1"),
        group("r", phase="Running"),
        foreign,
        conf=conf("own", ["gang"]),
        actions=[action_called("own", evict)],
    )
    assert not found.evictions
    assert [finding.where for finding in found.findings if finding.error] == ["action own"]
