"""Plugins and actions as users write them: those in `examples/plugins`, and one with a filter and a quota."""

from __future__ import annotations

import runpy
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from kilauea.api.decode import decode
from kilauea.api.defaults import fill_in
from kilauea.api.meta import Object
from kilauea.engine.action import Action
from kilauea.engine.actions import ACTIONS
from kilauea.engine.extension import Refusal, Rejection
from kilauea.engine.plugin import Plugin
from kilauea.engine.plugins import PLUGINS
from kilauea.engine.session import Session
from support.builders import Objects, binds, codes, conf, gang, group, node, plan_of, pod, queue

EXAMPLES = Path(__file__).resolve().parents[2] / "examples" / "plugins"


def example(file: str, name: str) -> Any:
    """A class in one of the example files."""
    return runpy.run_path(str(EXAMPLES / f"{file}.py"))[name]


def manifests(*files: str) -> list[Object]:
    """The objects of example files, filled in as an API server would."""
    out = []
    for file in files:
        decoded = decode((EXAMPLES / f"{file}.yaml").read_bytes(), file)
        assert decoded.errors == []
        out += decoded.objects
    fill_in(out)
    return out


@pytest.fixture
def launch() -> type[Action]:
    action: type[Action] = example("launch", "Launch")
    return action


class OnlyEven(Plugin):
    """Nodes with an even number in their name, and no pod with the letter x."""

    name = "only-even"

    def on_session_open(self, session: Session) -> None:
        session.add_predicate(self.name, self._even, [Rejection("Odd", "node(s) were odd")])
        session.add_allocatable(self.name, lambda _, task: Refusal("X", "no x") if "x" in task.name else None)

    def _even(self, shape: Any, nodes: Any) -> Any:
        return np.array([int(name[1:]) % 2 == 0 for name in nodes.names])


def busy(**pods: int) -> list[Objects]:
    """Nodes that run so many pods."""
    held = [
        pod(f"r-{on}-{i}", "r", cpu="1m", memory="1Mi", node=on) for on, count in pods.items() for i in range(count)
    ]
    return [*(node(name) for name in pods), group("r", phase="Running"), held]


def test_a_score_of_a_user_decides() -> None:
    by_pods = conf("allocate", ["gang"], ["fewest-pods"])
    fewest: type[Plugin] = example("fewest_pods", "FewestPods")
    plan = plan_of(busy(n1=2, n2=1, n3=3), gang("g", 3), conf=by_pods, plugins=[fewest])
    assert binds(plan) == {"g-w-0": "n2", "g-w-1": "n1", "g-w-2": "n2"}


def test_a_filter_and_a_quota_of_a_user_decide() -> None:
    even = conf("allocate", ["gang"], ["only-even"])
    pods = [group(), pod("a"), pod("x")]
    plan = plan_of(node("n1"), node("n2"), pods, conf=even, plugins=[OnlyEven])
    assert (binds(plan), codes(plan)) == ({"a": "n2"}, {"x": "X"})
    alone = plan_of(node("n1"), gang("g", 1), conf=even, plugins=[OnlyEven])
    assert alone.pending[0].message == "0/1 nodes are unavailable: 1 node(s) were odd."


@pytest.mark.parametrize(
    ("files", "expected"),
    [
        pytest.param(["nginx-1"], {"nginx-1": "node-2"}, id="the first pod: the first of the emptiest nodes"),
        pytest.param(["nginx-1", "nginx-2"], {"nginx-1": "node-2", "nginx-2": "node-3"}, id="the second: what is left"),
    ],
)
def test_the_action_of_the_tutorial(launch: type[Action], files: list[str], expected: dict[str, str]) -> None:
    objects = [queue("default"), *manifests("nodes", *files)]
    plan = plan_of(objects, conf=conf("enqueue, launch", ["proportion"]), actions=[launch])
    assert {b.pod.split("/")[1].rsplit("-", 2)[0]: b.node for b in plan.binds} == expected


@pytest.mark.parametrize(
    ("pods", "expected"),
    [
        pytest.param({"n1": 0, "n2": 0}, {"a": "n1", "b": "n2"}, id="two empty nodes: one each, in order"),
        pytest.param({"n1": 3, "n2": 1}, {"a": "n2", "b": "n2"}, id="the emptiest node, as it stands"),
        pytest.param({"n1": 2, "n2": 1}, {"a": "n2", "b": "n1"}, id="a tie falls to the first"),
    ],
)
def test_the_action_of_the_tutorial_counts_as_it_goes(
    launch: type[Action], pods: dict[str, int], expected: dict[str, str]
) -> None:
    waiting = [group(minimum=2), pod("a"), pod("b")]
    assert binds(plan_of(busy(**pods), waiting, conf=conf("enqueue, launch", ["gang"]), actions=[launch])) == expected


def test_the_action_of_the_tutorial_overbooks_no_node(launch: type[Action]) -> None:
    plan = plan_of(
        node("n1", cpu=1), group(minimum=1), pod("a"), pod("b"), conf=conf("launch", ["gang"]), actions=[launch]
    )
    assert (binds(plan), codes(plan)) == ({"a": "n1"}, {"b": "NoRoom"})


def test_the_action_of_the_tutorial_passes_over_jobs_that_are_not_valid(launch: type[Action]) -> None:
    plan = plan_of(node("n1"), group(minimum=3), pod("a"), conf=conf("launch", ["gang"]), actions=[launch])
    assert (binds(plan), codes(plan)) == ({}, {"a": "NotEnoughTasks"})


def test_built_in_plugins_and_actions_say_what_they_may_want_in_a_cluster_at_rest() -> None:
    assert [name for name, plugin in sorted(PLUGINS.items()) if plugin.depends_on_time] == ["rescheduling", "tdm"]
    assert [name for name, action in sorted(ACTIONS.items()) if action.acts_unprompted] == ["shuffle"]


def test_a_plugin_or_action_of_the_user_that_says_nothing_is_asked_at_rest_too() -> None:
    assert Plugin.depends_on_time
    assert Action.acts_unprompted
