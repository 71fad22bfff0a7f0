"""Guarantees that hold for every cluster, on random ones.

Gangs start whole; the same cluster gives the same plan, in whatever order it became known; no node gets more than it
has; a cycle changes nothing but its plan; and no object stops the scheduling of the others.
"""

from __future__ import annotations

import importlib.util
import random
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from kilauea.api.meta import Object
from kilauea.engine.cycle import cycle, default_conf
from kilauea.engine.events import Changed, Event, Gone, Measured, Relisted
from kilauea.engine.model import status
from kilauea.engine.model.jobs import Job
from kilauea.engine.model.tasks import Task
from kilauea.engine.plan import Plan
from kilauea.engine.state import ClusterState
from support.builders import NOW, Data, conf, key_of, manifest, parsed, plan_in, state_of
from support.clusters import CONFS, clusters, oddities, readable
from support.probes import fingerprint


def plan_by(state: ClusterState, chosen: tuple[Any, ...], seed: int | None = None) -> Plan:
    """The plan for one of `CONFS`."""
    actions, *tiers = chosen
    plan = plan_in(state, conf(actions, *tiers), seed)
    assert [f for f in plan.findings if not f.where.startswith("queue ")] == []
    return plan


# --- gangs


def placed(job: Job) -> list[Task]:
    """Pods of a job that count towards its minimum before the cycle."""
    return [task for task in job.tasks.values() if task.status in status.READY]


@pytest.mark.slow
@given(clusters(), CONFS)
def test_no_gang_starts_below_its_minimum(objects: list[Object], chosen: tuple[Any, ...]) -> None:
    state = state_of(objects)
    plan = plan_by(state, chosen)
    started = {b.pod for b in plan.binds}
    for job in state.jobs.values():
        starts = [task for key, task in job.tasks.items() if key in started]
        if not starts:
            continue
        waiting = [t for t in job.tasks.values() if t.status == status.PENDING and t.key not in started]
        free = [t for t in waiting if t.spec.best_effort]
        together = [*placed(job), *starts, *free]
        assert len(together) >= job.min_available
        if job.min_available >= job.role_minimum_total:
            roles = Counter(task.role for task in together)
            assert all(roles[role] >= minimum for role, minimum in job.role_minimum.items())


@pytest.mark.slow
@given(clusters(), CONFS)
def test_only_pods_that_wait_start_and_each_has_one_outcome(objects: list[Object], chosen: tuple[Any, ...]) -> None:
    state = state_of(objects)
    plan = plan_by(state, chosen)
    started, explained = [b.pod for b in plan.binds], [p.pod for p in plan.pending]
    waiting = [task.key for task in state.tasks.values() if task.status == status.PENDING]
    assert sorted(started + explained) == sorted(waiting)
    assert {n.pod for n in plan.nominations} <= set(explained)
    assert plan.evictions == ()
    assert not any(state.tasks[pod].gated for pod in started)


# --- determinism


@pytest.mark.slow
@given(clusters(), CONFS, st.randoms(use_true_random=False), st.sampled_from([None, 3]))
def test_the_same_cluster_gives_the_same_plan(
    objects: list[Object], chosen: tuple[Any, ...], rng: random.Random, seed: int | None
) -> None:
    state = state_of(objects)
    plan = plan_by(state, chosen, seed)
    assert plan_by(state, chosen, seed) == plan
    shuffled = [*objects, *objects[: len(objects) // 2]]
    rng.shuffle(shuffled)
    assert plan_by(state_of(shuffled), chosen, seed) == plan


# --- the state is a function of the objects


def history(past: list[Object], final: list[Object], rng: random.Random) -> list[Event]:
    """Events that lead by way of one cluster to another: changes, repeats, removals and lists, in any order."""
    early: list[Event] = [Changed(o) for o in past]
    rng.shuffle(early)
    there = {(o.kind, key_of(o)) for o in final}
    late: list[Event] = [Gone(o.kind, key_of(o)) for o in past if (o.kind, key_of(o)) not in there]
    late += [Changed(o) for o in [*final, *final[::3]]]
    rng.shuffle(late)
    for kind in sorted({o.kind for o in [*past, *final]}):
        if rng.random() < 0.5:
            lost = [e for e in late if kind_of(e) == kind and rng.random() < 0.5]
            late = [e for e in late if e not in lost]
            late.append(Relisted(kind, [o for o in final if o.kind == kind]))
    return early + late


def kind_of(event: Event) -> str:
    if isinstance(event, Measured):
        return "NodeMetrics"
    return event.kind if isinstance(event, Gone | Relisted) else event.obj.kind


@pytest.mark.slow
@given(clusters(), clusters(), CONFS, st.randoms(use_true_random=False))
def test_the_state_is_what_its_objects_say_whatever_happened_before(
    past: list[Object], final: list[Object], chosen: tuple[Any, ...], rng: random.Random
) -> None:
    state, fresh = ClusterState(), state_of(final)
    for event in history(past, final, rng):
        state.apply(event)
        if rng.random() < 0.05:
            plan_by(state, chosen)
    assert fingerprint(state) == fingerprint(fresh)
    assert plan_by(state, chosen) == plan_by(fresh, chosen)


@pytest.mark.slow
@given(clusters(), CONFS, st.sampled_from([None, 3]))
def test_a_cycle_leaves_the_state_as_it_was(objects: list[Object], chosen: tuple[Any, ...], seed: int | None) -> None:
    state = state_of(objects)
    before = fingerprint(state)
    plan_by(state, chosen, seed)
    assert fingerprint(state) == before


# --- nodes


@pytest.mark.slow
@given(clusters(), CONFS)
def test_no_node_gets_more_than_it_has(objects: list[Object], chosen: tuple[Any, ...]) -> None:
    state = state_of(objects)
    plan = plan_by(state, chosen)
    rows, axis = state.nodes.all(), state.axis
    now, later = rows.used.copy(), rows.used - rows.releasing
    gets: dict[str, set[str]] = {}
    for bind in plan.binds:
        asked = axis.vector(state.tasks[bind.pod].spec.requests)
        now[:, state.nodes.row_of[bind.node]] += asked
        later[:, state.nodes.row_of[bind.node]] += asked
        gets.setdefault(bind.node, set()).update(name for name, n in state.tasks[bind.pod].spec.requests.items() if n)
    for node, resources in gets.items():
        row = state.nodes.row_of[node]
        for name in resources:
            assert now[axis.rows[name], row] <= rows.allocatable[axis.rows[name], row], f"{name} of {node}"
    for promise in plan.nominations:
        row, requests = state.nodes.row_of[promise.node], state.tasks[promise.pod].spec.requests
        later[:, row] += axis.vector(requests)
        for name, amount in requests.items():
            assert not amount or later[axis.rows[name], row] <= rows.allocatable[axis.rows[name], row]


# --- laws of the shared folder


@pytest.fixture(scope="module")
def laws(shared: Path) -> Any:
    """The module with the laws that every plan keeps."""
    spec = importlib.util.spec_from_file_location("laws", shared / "tools" / "laws.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def as_printed(plan: Plan) -> Data:
    """The part of a plan that the laws look at, as `kilauea plan -o json` prints it."""
    evictions = [{"pod": e.pod, "node": e.node, "by": e.by, "action": e.action} for e in plan.evictions]
    return {
        "binds": {b.pod: b.node for b in plan.binds},
        "pipelined": {n.pod: n.node for n in plan.nominations},
        "evictions": evictions,
    }


@pytest.mark.slow
@given(objects=clusters(plain=True), chosen=CONFS)
def test_every_plan_keeps_the_laws(laws: Any, objects: list[Object], chosen: tuple[Any, ...]) -> None:
    actions, *tiers = chosen
    manifests = [manifest(o) for o in objects]
    before = laws.broken(manifests, conf(actions, *tiers), as_printed(Plan()))
    assume(not before)
    plan = plan_by(state_of(objects), chosen)
    assert laws.broken(manifests, conf(actions, *tiers), as_printed(plan)) == []


# --- odd objects


@pytest.mark.slow
@given(clusters(), st.data())
def test_no_object_stops_a_cycle(objects: list[Object], data: st.DataObject) -> None:
    odd = [readable(data.draw(oddities(manifest(o)))) for o in objects if data.draw(st.integers(0, 3)) == 3]
    assume(any(odd))
    state = state_of(objects, [o for o in odd if o is not None])
    before = fingerprint(state)
    plan = cycle(state, default_conf(), NOW)
    assert [str(f) for f in plan.findings if not f.where.startswith("queue")] == []
    assert fingerprint(state) == before


def test_the_configurations_of_these_tests_are_usable() -> None:
    for actions, *tiers in CONFS.elements:  # type: ignore[attr-defined]
        usable, _, _ = parsed(conf(actions, *tiers))
        assert usable.findings == ()
