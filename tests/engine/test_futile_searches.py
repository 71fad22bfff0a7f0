"""Searches for victims that cannot succeed: they are skipped, and skipping them changes no plan."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kilauea.api.meta import Object
from kilauea.engine.cycle import cycle
from kilauea.engine.eviction.bundles import Bundle, Gangs
from kilauea.engine.eviction.by_domain import DomainSearch
from kilauea.engine.eviction.policy import BetweenJobs, BetweenQueues, Policy
from kilauea.engine.extension.points.victims import VictimPoints
from kilauea.engine.model.tasks import Task
from kilauea.engine.plan import Plan
from kilauea.simulator.scenario import build_state
from support.builders import (
    NOW,
    Data,
    Entry,
    conf,
    flat,
    group,
    node,
    nominations,
    parsed,
    plugin,
    pod,
    priority_class,
    queue,
)
from support.queue_trees import SHAPES, WITH_GANGS, cases_of

NODES, WAITING = 4, 25
PRIORITY_FIRST = conf("allocate, preempt", ["priority", "gang", "conformance"], ["predicates", "nodeorder"])
SHARES: list[Entry] = [plugin("gang", enablePreemptable=False), "drf"]
BY_SHARES = conf("allocate, preempt", SHARES, ["predicates", "nodeorder"])
PRIORITIES = {"low": 1, "mid": 5, "high": 9}


def searched(chosen: Data, *objects: object) -> tuple[Plan, int]:
    """The plan for a cluster, and the number of times that plugins were asked about victims."""
    classes = [priority_class(name, value) for name, value in PRIORITIES.items()]
    state = build_state(flat([queue("q"), *classes, *objects]))  # type: ignore[list-item]
    asked, victims = 0, VictimPoints.victims

    def counted(*arguments: Any) -> list[Task]:
        nonlocal asked
        asked += 1
        return victims(*arguments)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(VictimPoints, "victims", counted)
        return cycle(state, parsed(chosen)[0], NOW), asked


def full(priority: str, minimum: int = 0) -> list[Object]:
    """Nodes whose CPUs are all in use, by groups of one pod."""
    made: list[Object] = []
    for number in range(NODES):
        made += [node(f"n{number}", cpu=2)]
        for half in range(2):
            name = f"runs-{number}-{half}"
            made += [group(name, minimum=minimum, phase="Running", priority=priority)]
            made += [pod(f"{name}-0", name, cpu=1, node=f"n{number}", priority=PRIORITIES[priority])]
    return made


def waiting(priority: str, count: int = WAITING) -> list[Object]:
    """Groups of one pod that wait."""
    names = [f"waits-{number}" for number in range(count)]
    groups = [group(name, minimum=1, phase="Inqueue", priority=priority) for name in names]
    return [*groups, *(pod(f"{name}-0", name, cpu=1, priority=PRIORITIES[priority]) for name in names)]


def services(count: int, priority: int, name: str, **more: object) -> list[Object]:
    """Pods of kube-scheduler without a group."""
    each: dict[str, object] = {"cpu": 1, "schedulerName": "default-scheduler", "priority": priority} | more
    return [pod(f"{name}-{number}", "", **each) for number in range(count)]  # type: ignore[arg-type]


@contextmanager
def searching_always() -> Iterator[None]:
    """Skip no search."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Policy, "possible", lambda *_: None)
        for policy in (BetweenJobs, BetweenQueues):
            patch.setattr(policy, "votes_by_kind", lambda *_: False)
        yield


def check_asked_about_none(chosen: Data, *objects: object) -> None:
    """Check that no plugin is asked about victims, although some would be if nothing was skipped."""
    plan, asked = searched(chosen, *objects)
    assert (len(plan.evictions), asked) == (0, 0)
    with searching_always():
        assert searched(chosen, *objects)[1] > 0


def test_pods_of_the_same_priority_are_not_examined() -> None:
    check_asked_about_none(PRIORITY_FIRST, full("mid"), waiting("mid"))


def test_services_of_the_same_priority_are_not_examined() -> None:
    nodes = [node(f"n{number}", cpu=5) for number in range(NODES)]
    run = [each for n in range(NODES) for each in services(5, 0, f"runs-{n}", node=f"n{n}")]
    check_asked_about_none(PRIORITY_FIRST, nodes, run, services(WAITING, 0, "waits"))


def test_one_pod_of_lower_priority_is_still_found_for_one_of_many() -> None:
    nodes = [node("n0", cpu=2), node("n1", cpu=2)]
    run = [*services(2, 0, "runs", node="n0"), *services(1, 0, "also", node="n1"), *services(1, -1, "low", node="n1")]
    plan, _ = searched(PRIORITY_FIRST, nodes, run, services(WAITING, 0, "waits"))
    assert [each.pod.rpartition("/")[2] for each in plan.evictions] == ["low-0"]
    assert list(nominations(plan).values()) == ["n1"]


def test_jobs_of_a_kind_are_searched_for_once_by_plugins_that_always_have_to_be_asked() -> None:
    _, once = searched(BY_SHARES, full("mid"), waiting("mid", 1))
    plan, asked = searched(BY_SHARES, full("mid"), waiting("mid"))
    assert (len(plan.evictions), asked) == (0, once)
    assert once > 0


def test_gangs_at_their_minimum_are_not_examined() -> None:
    check_asked_about_none(PRIORITY_FIRST, full("low", 1), waiting("mid"))


def test_a_gang_with_a_spare_pod_is_examined() -> None:
    spare = [group("spare", minimum=1, phase="Running", priority="low"), node("extra", cpu=2)]
    run = [pod(f"spare-{number}", "spare", cpu=1, node="extra", priority=1) for number in range(2)]
    plan, _ = searched(PRIORITY_FIRST, full("low", 1), spare, run, waiting("mid"))
    assert [each.pod.rpartition("/")[2] for each in plan.evictions] == ["spare-1"]


def test_jobs_of_a_kind_try_the_nodes_that_others_have_left() -> None:
    system = [group("system", minimum=0, phase="Running", priority="low"), *(node(f"n{n}", cpu=1) for n in range(90))]
    run = [
        pod(f"system-{n}", "system", cpu=1, node=f"n{n}", priority=1, priorityClassName="system-node-critical")
        for n in range(90)
    ]
    ordinary = [group("ordinary", minimum=0, phase="Running", priority="low"), node("other", cpu=1)]
    ordinary += [pod("ordinary-0", "ordinary", cpu=1, node="other", priority=1)]
    plan, _ = searched(PRIORITY_FIRST, system, run, ordinary, waiting("mid"))
    assert [each.pod.rpartition("/")[2] for each in plan.evictions] == ["ordinary-0"]


def test_another_priority_is_another_kind() -> None:
    high = [group("high", minimum=1, phase="Inqueue", priority="high"), pod("high-0", "high", cpu=1, priority=9)]
    plan, _ = searched(PRIORITY_FIRST, full("mid"), waiting("mid"), high)
    assert [each.by.rpartition("/")[2] for each in plan.evictions] == ["high"]


@pytest.mark.parametrize("plugins", [["priority", "gang"], ["gang", "priority"], SHARES, ["priority", "pdb", "drf"]])
@given(data=st.data())
def test_plans_are_the_same_as_with_all_searches(plugins: list[Entry], data: st.DataObject) -> None:
    case = cases_of("preempt", data, priorities=("low", "mid"), shapes=WITH_GANGS)
    objects = case.cluster.objects()
    rules = parsed(conf("enqueue, allocate, backfill, preempt", plugins, ["predicates", "nodeorder"]))[0]
    plan = cycle(build_state(objects), rules, NOW)
    with searching_always():
        assert cycle(build_state(objects), rules, NOW) == plan


@pytest.mark.parametrize("plugins", [["gang", "conformance"], ["priority", "gang"], ["pdb", "gang"]])
@given(data=st.data())
def test_reclaim_takes_the_same_as_with_all_searches(plugins: list[str], data: st.DataObject) -> None:
    case = cases_of("reclaim", data, priorities=("low", "mid"), shapes=WITH_GANGS)
    objects = case.cluster.objects()
    rules = parsed(conf("enqueue, allocate, backfill, reclaim", plugins, ["predicates", "capacity", "nodeorder"]))[0]
    plan = cycle(build_state(objects), rules, NOW)
    with searching_always():
        assert cycle(build_state(objects), rules, NOW) == plan


@pytest.mark.parametrize("action", ["gangreclaim", "gangpreempt"])
@given(data=st.data())
def test_gangs_get_the_same_rooms_as_if_no_two_bundles_were_of_a_kind(action: str, data: st.DataObject) -> None:
    case = cases_of(action, data, priorities=("low", "mid"), shapes=WITH_GANGS)
    objects, rules = case.cluster.objects(), parsed(case.conf(action))[0]
    plan = cycle(build_state(objects), rules, NOW)
    usual = DomainSearch._in_order

    def of_their_own_kinds(search: DomainSearch, bundles: Iterable[Bundle]) -> Iterator[Bundle]:
        for bundle in usual(search, bundles):
            yield bundle._replace(kind=(bundle.job.key, bundle.whole, bundle.tasks))  # type: ignore[arg-type]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(DomainSearch, "_in_order", of_their_own_kinds)
        assert cycle(build_state(objects), rules, NOW) == plan


@pytest.mark.parametrize("action", ["gangreclaim", "gangpreempt"])
@given(data=st.data())
def test_gangs_get_the_same_rooms_without_what_earlier_searches_found(action: str, data: st.DataObject) -> None:
    case = cases_of(action, data, priorities=("low", "mid"), shapes=SHAPES)
    objects, rules = case.cluster.objects(), parsed(case.conf(action))[0]
    plan = cycle(build_state(objects), rules, NOW)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Gangs, "parts", lambda gangs, job: gangs._parts_of(job, ()))
        patch.setattr(DomainSearch, "_slots", lambda search, rows: np.full(len(rows), len(rows) * WAITING))
        patch.setattr(Gangs, "key", lambda gangs, job: gangs._session.points.job_key(job))
        assert cycle(build_state(objects), rules, NOW) == plan


def test_a_job_that_has_lost_pods_to_one_gang_may_come_after_another_for_the_next() -> None:
    rules = conf("allocate, gangpreempt", ["gang"], ["drf", "predicates", "nodeorder"])
    running = [
        *(group(name, minimum=1, phase="Running", priority="low") for name in ("five", "four")),
        *(pod(f"five-{n}", "five", cpu=1, node="n", phase="Running", priority=1) for n in range(5)),
        *(pod(f"four-{n}", "four", cpu=1, node="n", phase="Running", priority=1) for n in range(4)),
    ]
    claims = [group(name, minimum=1, phase="Inqueue", priority="high") for name in ("first", "second")]
    pods = [pod(f"{name}-0", name, cpu=2, priority=9) for name in ("first", "second")]
    plan, _ = searched(rules, node("n", cpu=9), running, claims, pods)
    lost = [(each.by.rpartition("/")[2], each.pod.rpartition("/")[2][:4]) for each in plan.evictions]
    assert sorted(lost) == [("first", "five"), ("first", "five"), ("second", "four"), ("second", "four")]


def test_reclaim_does_not_examine_gangs_at_their_minimum() -> None:
    rules = conf("allocate, reclaim", ["gang", "conformance"], ["predicates", "proportion", "nodeorder"])
    claims = [group(f"waits-{n}", minimum=1, phase="Inqueue", queue="other") for n in range(WAITING)]
    pods = [pod(f"waits-{n}-0", f"waits-{n}", cpu=1) for n in range(WAITING)]
    check_asked_about_none(rules, queue("other"), full("low", 1), claims, pods)


@given(
    run=st.lists(st.tuples(st.integers(0, 2), st.integers(1, 2)), min_size=2, max_size=8),
    wait=st.lists(st.tuples(st.integers(0, 2), st.integers(1, 3)), max_size=6),
)
def test_services_get_the_same_rooms_as_with_all_searches(
    run: list[tuple[int, int]], wait: list[tuple[int, int]]
) -> None:
    objects = [node(f"n{number}", cpu=4) for number in range(3)]
    for number, (priority, cpu) in enumerate(run):
        objects += services(1, priority, f"runs-{number}", cpu=cpu, node=f"n{number % 3}")
    for number, (priority, cpu) in enumerate(wait):
        objects += services(1, priority, f"waits-{number}", cpu=cpu)
    plan, _ = searched(PRIORITY_FIRST, objects)
    with searching_always():
        assert searched(PRIORITY_FIRST, objects)[0] == plan
