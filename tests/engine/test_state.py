"""The cluster state: events in any order, twice, late or lost, and objects that cannot be read."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any, cast

import pytest

from kilauea.api.core import Pod
from kilauea.api.meta import Object
from kilauea.engine.events import Advanced, Changed, Event, Gone, Listed, Relisted
from kilauea.engine.model.status import RUNNING
from kilauea.engine.state import ClusterState
from support.builders import (
    Objects,
    binds,
    codes,
    conf,
    flat,
    gang,
    group,
    key_of,
    namespace,
    node,
    plan_in,
    pod,
    priority_class,
    queue,
    service,
    state_of,
)
from support.probes import fingerprint

ALLOCATE = conf("allocate", ["gang"], ["predicates", "proportion", "nodeorder"])


def after(*events: Event) -> ClusterState:
    state = ClusterState()
    for event in events:
        state.apply(event)
    return state


def same(one: ClusterState, other: ClusterState) -> bool:
    return fingerprint(one) == fingerprint(other) and plan_in(one, ALLOCATE) == plan_in(other, ALLOCATE)


def cluster() -> list[Object]:
    return flat(
        [
            queue("q"),
            node("n1", labels={"zone": "a"}),
            node("n2", gpu=2),
            priority_class("high", 5),
            namespace("ns", {"team": "red"}),
            service("s", {"app": "web"}),
            gang("g", 2, labels={"app": "web"}),
            [
                group("r", priority="high", phase="Running"),
                pod("r-w-0", "r", node="n1"),
                pod("r-w-1", "r", node="gone"),
            ],
        ]
    )


# --- order, repetition, loss


@pytest.mark.parametrize(
    "reorder",
    [
        pytest.param(lambda objects: objects, id="as they are"),
        pytest.param(lambda objects: objects[::-1], id="backwards"),
        pytest.param(lambda objects: objects * 2, id="twice"),
        pytest.param(lambda objects: sorted(objects, key=lambda o: o.kind), id="by kind"),
    ],
)
def test_events_in_any_order(reorder: Callable[[list[Object]], list[Object]]) -> None:
    assert same(after(*map(Changed, reorder(cluster()))), after(*map(Changed, cluster())))


@pytest.mark.parametrize("kind", sorted({o.kind for o in cluster()}))
def test_objects_that_come_and_go_leave_nothing(kind: str) -> None:
    kept = [o for o in cluster() if o.kind != kind]
    passing = [o for o in cluster() if o.kind == kind]
    came_and_went: list[Event] = [*map(Changed, cluster()), *(Gone(kind, key_of(o)) for o in passing)]
    assert same(after(*came_and_went), after(*map(Changed, kept)))


@pytest.mark.parametrize("kind", sorted({o.kind for o in cluster()}))
def test_a_list_of_a_kind_replaces_what_was_known_of_it(kind: str) -> None:
    stale = [*map(Changed, cluster()), *map(Changed, [node("n9"), pod("old", node="n9"), group("old"), queue("old")])]
    stale += [Changed(namespace("old")), Changed(priority_class("old", 1)), Changed(service("old", {"a": "b"}))]
    kinds = sorted({o.kind for o in cluster()})
    lists = [Relisted(k, [o for o in cluster() if o.kind == k]) for k in [*kinds, kind]]
    assert same(after(*stale, *lists), after(*map(Changed, cluster())))


def test_an_empty_list_removes_everything_of_a_kind() -> None:
    state = after(*map(Changed, cluster()), Relisted("Pod", []))
    assert same(state, after(*(Changed(o) for o in cluster() if o.kind != "Pod")))


@pytest.mark.parametrize(
    "gone",
    [
        Gone("Pod", "ns/none"),
        Gone("Node", "none"),
        Gone("PodGroup", "ns/none"),
        Gone("Queue", "none"),
        Gone("Odd", "x"),
    ],
)
def test_what_was_never_there_may_go(gone: Gone) -> None:
    assert same(after(*map(Changed, cluster()), gone), after(*map(Changed, cluster())))


def test_kinds_that_no_one_knows_are_ignored() -> None:
    odd = Object(kind="Elephant")
    assert same(
        after(*map(Changed, cluster()), Changed(odd), Relisted("Elephant", [odd])), after(*map(Changed, cluster()))
    )


# --- changes of one object


def pods_of(*, first: Objects, then: Objects) -> tuple[ClusterState, ClusterState]:
    """A state that saw a pod change, and one that saw the last form only."""
    base = cluster()
    return after(*map(Changed, [*base, *flat([first, then])])), after(*map(Changed, [*base, *flat([then])]))


@pytest.mark.parametrize(
    ("first", "then"),
    [
        pytest.param(pod("p"), pod("p", node="n1"), id="it starts"),
        pytest.param(pod("p", node="n1"), pod("p", node="n1", deleting=True), id="it is being deleted"),
        pytest.param(pod("p", node="n1"), pod("p", node="n1", phase="Succeeded"), id="it ends"),
        pytest.param(pod("p", node="n1"), pod("p", node="n2"), id="it is elsewhere"),
        pytest.param(pod("p", cpu="2", node="n1"), pod("p", cpu="1", node="n1"), id="it asks for less"),
        pytest.param(pod("p", "g"), pod("p", "r"), id="it changes its group"),
        pytest.param(pod("p", "g"), pod("p", ""), id="it leaves its group"),
        pytest.param(pod("p", labels={"a": "b"}), pod("p", labels={"a": "c"}), id="it changes its labels"),
        pytest.param(pod("p"), pod("p", schedulerName="other"), id="it changes its scheduler"),
        pytest.param(
            pod("p", requests={"x.io/y": 1}),
            pod("p", role="a"),
            id="it asks for something else",
        ),
        pytest.param(pod("p", ports=[{"hostPort": 80}], node="n1"), pod("p", node="n1"), id="it gives up a port"),
        pytest.param(node("n1"), node("n1", cpu=9, taints=["a=b:NoSchedule"]), id="a node changes"),
        pytest.param(node("n1"), node("n1", resources={"x.io/y": 3}), id="a node offers something new"),
        pytest.param(queue("q"), queue("q", 5, capability={"cpu": 1}), id="a queue changes"),
        pytest.param(group(), group(minimum=2, roles={"a": 1}, phase="Pending"), id="a group changes"),
        pytest.param(group(), group(queue="other"), id="a group changes its queue"),
        pytest.param(priority_class("high", 9), priority_class("high", 1), id="a class changes"),
        pytest.param(namespace("ns", {"a": "b"}), namespace("ns"), id="a namespace changes"),
    ],
)
def test_only_the_last_form_of_an_object_counts(first: Objects, then: Objects) -> None:
    changed, fresh = pods_of(first=first, then=then)
    assert same(changed, fresh)
    with_cycle, _ = pods_of(first=first, then=[])
    plan_in(with_cycle, ALLOCATE)
    for obj in flat([then]):
        with_cycle.apply(Changed(obj))
    assert same(with_cycle, fresh)


STAGES: list[dict[str, Any]] = [
    {},
    {"nominated": "n2"},
    {"node": "n1", "phase": "Pending"},
    {"node": "n2", "phase": "Pending"},
    {"node": "n1", "phase": "Running"},
    {"node": "unknown", "phase": "Running"},
    {"node": "n1", "phase": "Failed"},
    {"phase": "Failed"},
]


@pytest.mark.parametrize("fields", [{}, {"cpu": 0, "role": "a"}, {"deleting": True}, {"ports": [{"hostPort": 80}]}])
@pytest.mark.parametrize("stale", [False, True])
def test_a_pod_that_advances_is_as_one_that_is_seen_again(fields: dict[str, Any], stale: bool) -> None:
    base = [*cluster(), group("roles", minimum=1, roles={"a": 1})]
    for first in STAGES:
        for then in STAGES:
            made = [pod("p", "roles", **fields, **stage) for stage in (first, then)]
            state = after(*map(Changed, flat([*base, made[0]])))
            if not stale:
                state.settle()
            state.apply(Advanced(cast(Pod, made[1])))
            assert same(state, after(*map(Changed, flat([*base, made[1]])))), (first, then)


def test_an_older_form_of_a_pod_that_advances_is_passed_over() -> None:
    first, late = flat([pod("p", node="n1", version=7), pod("p", version=6)])
    state = after(*map(Changed, cluster()), Changed(first), Advanced(cast(Pod, late)))
    assert state.tasks["ns/p"].status == RUNNING


@pytest.mark.parametrize(
    ("first", "late", "counts"),
    [
        pytest.param(7, 6, "n1", id="an older form that comes late is passed over"),
        pytest.param(7, 7, "n2", id="the same version again is taken"),
        pytest.param(7, 10, "n2", id="a newer form is taken, by number"),
        pytest.param(7, None, "n2", id="a form without a version is taken"),
    ],
)
def test_versions_of_an_object(first: int, late: int | None, counts: str) -> None:
    state = after(Changed(pod("p", node="n1", version=first)), Changed(pod("p", node="n2", version=late)))
    assert state.tasks["ns/p"].node == counts


def test_a_list_is_taken_whatever_versions_were_seen() -> None:
    state = after(Changed(pod("p", node="n1", version=9)), Relisted("Pod", [pod("p", node="n2", version=3)]))
    assert state.tasks["ns/p"].node == "n2"


def test_a_list_that_is_told_one_by_one_is_taken_whatever_versions_were_seen() -> None:
    state = after(Changed(pod("p", node="n1", version=9)), Listed(pod("p", node="n2", version=3)))
    assert state.tasks["ns/p"].node == "n2"
    state.apply(Changed(pod("p", node="n1", version=2)))
    assert state.tasks["ns/p"].node == "n2"


def test_a_list_that_is_told_one_by_one_is_the_same_as_the_whole() -> None:
    base, left, new = cluster(), pod("left", node="n1"), pod("new", node="n2")
    whole = after(
        *map(Changed, flat([base, left])), Relisted("Pod", flat([*(o for o in base if o.kind == "Pod"), new]))
    )
    pods = [o for o in base if o.kind == "Pod"]
    told = after(*map(Changed, flat([base, left])), *map(Listed, flat([*pods, new])), Gone("Pod", "ns/left"))
    assert same(told, whole)


def test_the_version_of_a_pod_holds_while_the_pod_is_not_scheduled_here() -> None:
    foreign = pod("p", schedulerName="other", version=9)
    state = after(Changed(pod("p", node="n1", version=7)), Changed(foreign), Changed(pod("p", node="n1", version=8)))
    assert "ns/p" not in state.tasks
    state.apply(Changed(pod("p", node="n1", version=10)))
    state.apply(Changed(pod("p", node="n2", version=9)))
    assert state.tasks["ns/p"].node == "n1"


def test_an_object_that_is_gone_may_come_back_with_any_version() -> None:
    state = after(Changed(pod("p", node="n1", version=9)), Gone("Pod", "ns/p"), Changed(pod("p", node="n2", version=3)))
    assert state.tasks["ns/p"].node == "n2"


# --- objects that cannot be read


BAD = [
    pytest.param(pod("bad", cpu="much"), "Pod", "ns/bad", id="a request that is not a quantity"),
    pytest.param(pod("bad", cpu="-1"), "Pod", "ns/bad", id="a request below zero"),
    pytest.param(pod("bad", cpu=10**30), "Pod", "ns/bad", id="a request beyond all bounds"),
    pytest.param(node("bad", memory="big"), "Node", "bad", id="an offer that is not a quantity"),
    pytest.param(node("bad", cpu="-4"), "Node", "bad", id="an offer below zero"),
    pytest.param(queue("bad", capability={"cpu": "lots"}), "Queue", "bad", id="a capability that is not a quantity"),
    pytest.param(group("bad", resources={"cpu": "x"}), "PodGroup", "ns/bad", id="a minimum that is not a quantity"),
]


@pytest.mark.parametrize(("bad", "kind", "key"), BAD)
def test_an_object_that_cannot_be_read_is_left_out_and_named(bad: Any, kind: str, key: str) -> None:
    good = state_of(cluster())
    state = state_of(cluster(), bad)
    assert list(state.problems) == [(kind, key)]
    assert (state.problems[kind, key].kind, state.problems[kind, key].key) == (kind, key)
    assert state.problems[kind, key].message
    assert plan_in(state, ALLOCATE) == plan_in(good, ALLOCATE)


@pytest.mark.parametrize(("bad", "kind", "key"), BAD)
@pytest.mark.parametrize("how", ["gone", "listed"])
def test_a_problem_ends_with_its_object(bad: Any, kind: str, key: str, how: str) -> None:
    state = state_of(cluster(), bad)
    of_kind = [o for o in cluster() if o.kind == kind]
    state.apply(Gone(kind, key) if how == "gone" else Relisted(kind, of_kind))
    assert state.problems == {}
    assert same(state, state_of(cluster()))


def test_an_object_that_becomes_bad_is_out_and_one_that_becomes_good_is_in() -> None:
    state = state_of(node("n1"), gang("g", 1))
    state.apply(Changed(node("n1", cpu="x")))
    assert binds(plan_in(state, ALLOCATE)) == {}
    state.apply(Changed(node("n1")))
    assert (binds(plan_in(state, ALLOCATE)), state.problems) == ({"g-w-0": "n1"}, {})


def test_a_time_that_cannot_be_read_is_a_problem_of_its_object() -> None:
    bad = pod("bad")
    bad.metadata.creation_timestamp = "yesterday"
    assert list(state_of(cluster(), bad).problems) == [("Pod", "ns/bad")]


# --- nodes that come late, and groups


def test_pods_wait_for_their_node_to_be_known() -> None:
    state = state_of(node("n1"), pod("r", "", node="n2", cpu="3"), gang("g", 2, 1))
    assert set(binds(plan_in(state, ALLOCATE)).values()) == {"n1"}
    state.apply(Changed(node("n2")))
    state.apply(Gone("Node", "n1"))
    assert binds(plan_in(state, ALLOCATE)) == {"g-w-0": "n2"}


def test_groups_may_come_after_their_pods() -> None:
    state = state_of(node("n1"), pod("g-w-0"))
    assert codes(plan_in(state, ALLOCATE)) == {"g-w-0": "PodGroupNotFound"}
    state.apply(Changed(group()))
    assert binds(plan_in(state, ALLOCATE)) == {"g-w-0": "n1"}
    state.apply(Gone("PodGroup", "ns/g"))
    assert codes(plan_in(state, ALLOCATE)) == {"g-w-0": "PodGroupNotFound"}


class NotLookedThrough(dict[Any, Any]):
    """The tasks of a job, of which there may be thousands."""

    def values(self) -> Any:
        raise AssertionError("all tasks are looked at")


def test_a_group_whose_status_changes_does_not_look_at_all_its_tasks() -> None:
    roles = {"w": 1}
    state = after(*map(Changed, flat([queue("q"), node("n1"), group("g", roles=roles), pod("g-w-0", "g")])))
    (job,) = (each for each in state.jobs.values() if each.tasks)
    counts = job.role_counts
    job.tasks = NotLookedThrough(job.tasks)
    state.apply(Changed(group("g", roles=roles, phase="Running")))
    assert (job.phase, job.role_counts) == ("Running", counts)


def test_queues_may_come_after_their_groups() -> None:
    state = after(*map(Changed, flat([node("n1"), gang("g", 1)])))
    assert codes(plan_in(state, ALLOCATE)) == {"g-w-0": "QueueNotFound"}
    state.apply(Changed(queue("q")))
    assert binds(plan_in(state, ALLOCATE)) == {"g-w-0": "n1"}


def test_pods_that_end_give_back_what_they_held() -> None:
    state = state_of(node("n1", cpu=1), group("r"), pod("r-w-0", "r", node="n1"), gang("g", 1))
    assert binds(plan_in(state, ALLOCATE)) == {}
    state.apply(Changed(pod("r-w-0", "r", node="n1", phase="Succeeded")))
    assert binds(plan_in(state, ALLOCATE)) == {"g-w-0": "n1"}


def test_oversubscription_adds_to_what_a_node_offers() -> None:
    more = {"volcano.sh/oversubscription-cpu": "500", "volcano.sh/oversubscription-memory": str(1 << 30)}
    state = state_of(node("n1", cpu=1, memory="1Gi", annotations=more), gang("g", 1, cpu="1500m", memory="2Gi"))
    assert binds(plan_in(state, ALLOCATE)) == {"g-w-0": "n1"}


def test_a_node_without_allocatable_offers_its_capacity() -> None:
    bare: Any = node("n1")
    bare.status.capacity, bare.status.allocatable = bare.status.allocatable, None
    assert binds(plan_in(state_of(bare, gang("g", 1)), ALLOCATE)) == {"g-w-0": "n1"}


def test_an_ordinary_task_is_small_and_shares_what_others_have_too() -> None:
    state = after(*(Changed(pod(f"p-{number}")) for number in range(3)))
    one, *others = state.tasks.values()
    assert all(task.template is one.template and task.details is one.details for task in others)
    assert sys.getsizeof(one) <= 160
