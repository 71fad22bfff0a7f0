"""The laws of the shared folder hold for the plans of random clusters: queue trees, and the generator's own themes."""

from __future__ import annotations

import importlib.util
import random
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from kilauea.api.meta import Object
from kilauea.engine.plan import Plan
from support.builders import Data, build, manifest, plan_in, state_of
from support.queue_trees import WITH_GANGS, cases_of

THEMES = ("hierarchy", "hierreclaim", "reclaimprop", "reclaimcap", "preempt")


@pytest.fixture(scope="module")
def tools(shared: Path) -> Any:
    """A function that loads a tool of the shared folder by its name."""

    def load(name: str) -> Any:
        path = shared / "tools" / f"{name}.py"
        if not path.is_file():
            pytest.skip(f"{path} is not there")
        spec = importlib.util.spec_from_file_location(name, path)
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        return module

    return load


@pytest.fixture(scope="module")
def laws(tools: Any) -> Any:
    return tools("laws")


@pytest.fixture(scope="module")
def themes(tools: Any) -> Any:
    return tools("gen_scenarios").THEMES


def as_printed(plan: Plan) -> Data:
    """The part of a plan that the laws look at, as `kilauea plan -o json` prints it."""
    return {
        "binds": {b.pod: b.node for b in plan.binds},
        "pipelined": {n.pod: n.node for n in plan.nominations},
        "evictions": [{"pod": e.pod, "node": e.node, "by": e.by, "action": e.action} for e in plan.evictions],
    }


def broken(laws: Any, objects: list[Object], chosen: Data) -> list[str]:
    """The laws that the plan for some objects breaks."""
    plan = plan_in(state_of(objects), chosen)
    found: list[str] = laws.broken([manifest(o) for o in objects], chosen, as_printed(plan))
    return found


@pytest.mark.slow
@pytest.mark.parametrize("action", ["reclaim", "gangreclaim", "preempt", "gangpreempt"])
@given(data=st.data())
def test_plans_for_queue_trees_keep_the_laws(laws: Any, action: str, data: st.DataObject) -> None:
    case = cases_of(action, data, gpus=data.draw(st.booleans()), priorities=("low", "mid"), shapes=WITH_GANGS)
    assert broken(laws, case.cluster.objects(), case.conf(action)) == []


@pytest.mark.slow
@pytest.mark.parametrize("theme", THEMES)
@given(seed=st.integers(0, 1 << 30))
def test_plans_for_generated_scenarios_keep_the_laws(laws: Any, themes: Any, theme: str, seed: int) -> None:
    scenario = themes[theme](random.Random(seed))
    listed = ("nodes", "pods", "podGroups", "queues", "priorityClasses")
    objects = [build(data) for kind in listed for data in scenario[kind]]
    assert broken(laws, objects, yaml.safe_load(scenario["conf"])) == []
