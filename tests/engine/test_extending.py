"""Plugins and actions as users write them, with nothing but the public members of a session."""

from __future__ import annotations

from typing import Any

import pytest

from builders import Objects, binds, codes, conf, gang, group, node, plan_of, pod
from kilauea.engine.action import Action
from kilauea.engine.extension import Refusal, Rejection
from kilauea.engine.plugin import Plugin
from kilauea.engine.session import Session


class FewestPods(Plugin):
    """Prefer the node that runs the fewest pods."""

    name = "fewest-pods"

    def on_session_open(self, session: Session) -> None:
        session.add_node_score(self.name, lambda shape, nodes: -nodes.pod_count.astype(float))


class OnlyEven(Plugin):
    """Nodes with an even number in their name, and no queue with the letter x."""

    name = "only-even"

    def on_session_open(self, session: Session) -> None:
        session.add_predicate(self.name, self._even, [Rejection("Odd", "node(s) were odd")])
        session.add_allocatable(self.name, lambda queue, task: Refusal("X", "no x") if "x" in queue.name else None)

    def _even(self, shape: Any, nodes: Any) -> Any:
        import numpy as np  # noqa: PLC0415 - as a user would

        return np.array([int(name[1:]) % 2 == 0 for name in nodes.names])


class Launch(Action):
    """Each waiting pod goes to the node with the fewest pods now, the first in order on a tie."""

    name = "launch"

    def execute(self, session: Session) -> None:
        for job in session.waiting_jobs():
            if session.job_valid(job) is not None:
                continue
            statement = session.statement()
            for task in sorted(job.pending(), key=session.task_key):
                nodes = session.nodes.all()
                statement.allocate(task, int(nodes.pod_count.argmin()))
            if session.job_ready(job):
                statement.commit()
            else:
                statement.discard()


def busy(**pods: int) -> list[Objects]:
    """Nodes that run so many pods."""
    held = [
        pod(f"r-{on}-{i}", "r", cpu="1m", memory="1Mi", node=on) for on, count in pods.items() for i in range(count)
    ]
    return [*(node(name) for name in pods), group("r", phase="Running"), held]


def test_a_score_of_a_user_decides() -> None:
    by_pods = conf("allocate", ["gang"], ["fewest-pods"])
    plan = plan_of(busy(n1=2, n2=1, n3=3), gang("g", 3), conf=by_pods, plugins=[FewestPods])
    assert binds(plan) == {"g-w-0": "n2", "g-w-1": "n1", "g-w-2": "n2"}


def test_a_filter_and_a_quota_of_a_user_decide() -> None:
    even = conf("allocate", ["gang"], ["only-even"])
    assert binds(plan_of(node("n1"), node("n2"), gang("g", 1), conf=even, plugins=[OnlyEven])) == {"g-w-0": "n2"}
    alone = plan_of(node("n1"), gang("g", 1), conf=even, plugins=[OnlyEven])
    assert alone.pending[0].message == "0/1 nodes are unavailable: 1 node(s) were odd."


@pytest.mark.parametrize(
    ("pods", "expected"),
    [
        pytest.param({"n1": 0, "n2": 0}, {"nginx-1": "n1", "nginx-2": "n2"}, id="two empty nodes: one each, in order"),
        pytest.param({"n1": 3, "n2": 1}, {"nginx-1": "n2", "nginx-2": "n2"}, id="the emptiest node, as it stands"),
        pytest.param({"n1": 2, "n2": 1}, {"nginx-1": "n2", "nginx-2": "n1"}, id="a tie falls to the first"),
    ],
)
def test_an_action_of_a_user_places_pods(pods: dict[str, int], expected: dict[str, str]) -> None:
    nginx = [group(minimum=2), pod("nginx-1"), pod("nginx-2")]
    assert binds(plan_of(busy(**pods), nginx, conf=conf("launch", ["gang"]), actions=[Launch])) == expected


def test_an_action_of_a_user_keeps_gangs_whole_by_asking() -> None:
    plan = plan_of(node("n1"), group(minimum=3), pod("a"), pod("b"), conf=conf("launch", ["gang"]), actions=[Launch])
    assert (binds(plan), set(codes(plan).values())) == ({}, {"NotReached"})
