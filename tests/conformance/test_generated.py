"""Outcomes of the Go original, compared in process: generated clusters, and cases of the original's own tests.

The cases lie in the folder `shared` beside this checkout; without it every test here is skipped. What is compared is
what `expect` of a case names; `shared/conformance/README.md` says what each key means.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from kilauea.api.decode import decode
from kilauea.api.defaults import fill_in
from kilauea.engine.actions import ACTIONS
from kilauea.engine.conf import parse_conf
from kilauea.engine.cycle import cycle
from kilauea.engine.events import Changed
from kilauea.engine.plan import Plan
from kilauea.engine.plugins import PLUGINS
from kilauea.engine.state import ClusterState

THEMES = ("default", "proportion", "drf", "predicates", "score", "backfill")
GENERATED = [f"generated/{theme}-{number:02d}" for theme in THEMES for number in range(12)]
UPSTREAM = [
    f"upstream/{name}"
    for name in (
        "allocate-006",
        "allocate-008",
        "allocate-010",
        "allocate-039",
        "allocate-041",
        "allocate-042",
        "nodeorder-004",
        "predicates-001",
        "proportion-005",
    )
]
UNLIMITED = 1e300
FIGURES = {
    "deserved_milli_cpu": ("deserved", "cpu"),
    "deserved_memory_bytes": ("deserved", "memory"),
    "real_capacity_milli_cpu": ("real_capability", "cpu"),
    "real_capacity_memory_bytes": ("real_capability", "memory"),
}
"""Figures of queues that are compared, with our names for them."""

Facts = Iterator[tuple[str, Any, Any]]
"""What is compared: a name, what is expected, what was found."""


def planned(case: Mapping[str, Any]) -> tuple[Plan, ClusterState]:
    """The plan of one cycle over the objects of a case, filled in as an API server would."""
    decoded = decode(json.dumps({"apiVersion": "v1", "kind": "List", "items": case["objects"]}).encode(), "the case")
    assert [str(error) for error in decoded.errors] == []
    fill_in(decoded.objects)
    state = ClusterState()
    for obj in decoded.objects:
        state.apply(Changed(obj))
    assert state.problems == {}
    return cycle(state, parse_conf(yaml.safe_load(case["conf"]), PLUGINS, ACTIONS), now=0), state


def facts(expect: Mapping[str, Any], plan: Plan, state: ClusterState) -> Facts:
    """Every fact that a case names."""
    binds = {b.pod: b.node for b in plan.binds}
    promised = {n.pod: n.node for n in plan.nominations}
    if expect.get("binds") is not None:
        yield "binds", expect["binds"], binds
    if expect.get("bindCount") is not None:
        yield "number of binds", expect["bindCount"], len(binds)
    if "bindsPerJob" in expect:
        yield "binds of each group", expect["bindsPerJob"], per_job(binds)
    if "pipelinedPerJob" in expect:
        yield "promises to each group", expect["pipelinedPerJob"], per_job(promised)
    if "evicted" in expect:
        yield "evictions", sorted(expect["evicted"]), sorted(e.pod for e in plan.evictions)
    yield from group_facts(expect, plan, state, promised)
    yield from queue_facts(expect.get("queues", {}), plan)


def per_job(pods: Iterable[str]) -> dict[str, int]:
    """Number of pods by the name of their group, which is theirs without the last part."""
    return dict(Counter(pod.rsplit("-", 1)[0] for pod in pods))


def group_facts(expect: Mapping[str, Any], plan: Plan, state: ClusterState, promised: Mapping[str, str]) -> Facts:
    """Phases of groups, states of their pods, and the nodes that are promised to them."""
    for key, phase in expect.get("podGroupPhase", {}).items():
        yield f"phase of {key}", phase, plan.groups[key].phase if key in plan.groups else state.jobs[key].phase
    for key, counts in expect.get("taskStatusCounts", {}).items():
        found = plan.groups[key].counts
        yield f"pods of {key}", counts, {name: found.get(name, 0) for name in counts}
    for key, nodes in expect.get("pipelinedOn", {}).items():
        on = {promised[pod] for pod in state.jobs[key].tasks if pod in promised}
        yield f"nodes promised to {key}", True, bool(on) and on <= set(nodes)


def queue_facts(expect: Mapping[str, Mapping[str, float]], plan: Plan) -> Facts:
    """Figures of queues, equal within one unit."""
    for name, figures in expect.items():
        for label, (ours, resource) in FIGURES.items():
            wanted = figures.get(label)
            if not wanted:
                continue
            found = (getattr(plan.queues[name], ours) or {}).get(resource, 0)
            unlimited = wanted > UNLIMITED
            yield (
                f"{label} of {name}",
                "unlimited" if unlimited else pytest.approx(wanted, abs=1),
                ("unlimited" if unlimited and found == float("inf") else found),
            )


@pytest.mark.parametrize("name", [*GENERATED, *UPSTREAM])
def test_outcome_is_that_of_the_original(name: str, shared: Path) -> None:
    case = json.loads((shared / "conformance" / f"{name}.json").read_bytes())
    plan, state = planned(case)
    assert [str(f) for f in plan.findings if f.error] == []
    compared = list(facts(case["expect"], plan, state))
    assert compared
    assert {fact: found for fact, wanted, found in compared if wanted != found} == {}


def test_no_generated_case_of_these_themes_is_left_out(shared: Path) -> None:
    there = {f"generated/{path.stem}" for path in (shared / "conformance" / "generated").glob("*.json")}
    assert {case for case in there if case.split("/")[1].rsplit("-", 1)[0] in THEMES} == set(GENERATED)
