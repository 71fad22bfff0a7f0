"""Every law can be broken: small histories made by hand, each with one fault, and the same without it."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import pytest

from kilauea.api.meta import Object
from kilauea.engine.plan import Bind, Eviction, Nomination, Plan
from over_time.configurations import CONFIGURATIONS
from over_time.history import START, Change, History, Moment, play
from over_time.laws import broken
from support.builders import Data, Objects, flat, group, node, pod, queue

FLAT, PREEMPT = CONFIGURATIONS["flat"], CONFIGURATIONS["preempt"]


def history(*moments: tuple[list[Object], Plan], conf: Data = PREEMPT, at_rest: bool = True) -> History:
    told = [Moment(START + number, objects, plan) for number, (objects, plan) in enumerate(moments)]
    return History(conf, told, 0, at_rest)


def bound(**places: str) -> tuple[Bind, ...]:
    return tuple(Bind(f"ns/{name}", at) for name, at in places.items())


def promised(**places: str) -> tuple[Nomination, ...]:
    return tuple(Nomination(f"ns/{name}", at) for name, at in places.items())


def evicted(*names: str, by: str = "c", at: str = "n1", action: str = "preempt") -> tuple[Eviction, ...]:
    return tuple(Eviction(f"ns/{name}", at, f"ns/{by}", action) for name in names)


def terminating(obj: Object) -> Object:
    obj.metadata.deletion_timestamp = "2026-01-01T12:00:09Z"
    return obj


def cluster(*victims: Object, preemptor: Any = None, **more: Any) -> list[Object]:
    """A node of two cpus, a group of victims, one pod that claims and one that would only like to run."""
    return flat(
        [
            [node("n1", 2), node("n2", 0), queue("root"), queue("q", **more)],
            [group("v", minimum=1, phase="Running"), *victims],
            [group("c", phase="Inqueue"), preemptor or pod("c-0", "c")],
            [group("o", phase="Inqueue"), pod("o-0", "o", cpu=2)],
        ]
    )


def runs(name: str) -> Object:
    return pod(name, "v", node="n1")


V0, V1 = "v-0", "v-1"
MADE = (cluster(runs(V0), runs(V1)), Plan(evictions=evicted(V0), nominations=promised(**{"c-0": "n1"})))


def promise() -> Object:
    return pod("c-0", "c", nominated="n1")


WAITS = cluster(terminating(runs(V0)), runs(V1), preemptor=promise())
FREE = cluster(runs(V1), preemptor=promise())
KEPT = Plan(nominations=promised(**{"c-0": "n1"}))
STARTS = Plan(binds=bound(**{"c-0": "n1"}))
FULL = (cluster(runs(V1), preemptor=pod("c-0", "c", node="n1")), Plan())


def test_a_promise_that_is_kept_breaks_no_law() -> None:
    assert broken(history(MADE, (WAITS, KEPT), (FREE, STARTS), FULL)) == []


@pytest.mark.parametrize(
    ("law", "moments"),
    [
        ("a promise is kept: cycle 1 forgets", [MADE, (WAITS, Plan())]),
        ("a promise is kept: cycle 1 evicts ns/v-1", [MADE, (WAITS, dataclasses.replace(KEPT, evictions=evicted(V1)))]),
        ("a promise is kept: n1 is free in cycle 1", [MADE, (FREE, KEPT)]),
        ("a promise is kept: cycle 1 gives ns/v-0 room", [MADE, ([*FREE, pod(V0, "v")], Plan(bound(**{V0: "n1"})))]),
        ("nothing in vain: cycle 0 evicts ns/v-0", [MADE, (cluster(runs(V1), pod(V0, "v")), Plan())]),
        ("no idle wait: ns/c-0 is promised", [(FREE, KEPT)]),
        ("no idle wait: 1 pods of ns/c", [(cluster(runs(V1)), Plan())]),
        ("rest: ns/v-0 is evicted 2 times", [MADE, MADE]),
        ("victims run", [(cluster(runs(V1), pod(V0, "v")), MADE[1])]),
        ("foreign pods stay", [(cluster(runs(V1), pod(V0, "v", node="n1", schedulerName="else")), MADE[1])]),
        (
            "victims are preemptable",
            [(cluster(runs(V1), pod(V0, "v", node="n1", annotations={"volcano.sh/preemptable": "false"})), MADE[1])],
        ),
        ("evictions have a preemptor", [(MADE[0], Plan(evictions=evicted(V0, by="missing")))]),
        ("evictions help", [(MADE[0], Plan(evictions=evicted(V0)))]),
        ("pods go to nodes", [(cluster(runs(V1)), Plan(bound(**{"c-0": "n9"})))]),
        ("nodes have room", [(cluster(runs(V1)), Plan(bound(**{"o-0": "n1"})))]),
        ("promised room exists", [(cluster(runs(V1)), Plan(nominations=promised(**{"o-0": "n1"})))]),
        ("queues stay within capability", [(cluster(runs(V1), capability={"cpu": "1"}), STARTS)]),
    ],
)
def test_a_history_with_a_fault_breaks_the_law(law: str, moments: list[tuple[list[Object], Plan]]) -> None:
    assert [sentence for sentence in broken(history(*moments)) if sentence.startswith(law)]


@pytest.mark.parametrize(("minimum", "fault"), [(2, False), (1, True)], ids=["gang", "single pods"])
def test_a_gang_may_wait_for_its_other_node_and_a_single_pod_may_not(minimum: int, fault: bool) -> None:
    both = promised(**{"c-0": "n1", "c-1": "n2"})
    objects: Objects = [
        node("n1", 1),
        node("n2", 1),
        queue("root"),
        queue("q"),
        group("v"),
        group("c", minimum=minimum),
    ]
    common = flat([objects, terminating(pod(V0, "v", node="n2"))])
    made = [*common, runs(V1), pod("c-0", "c"), pod("c-1", "c")], Plan((), both, evicted(V1))
    freed = [*common, promise(), pod("c-1", "c", nominated="n2")], Plan((), both)
    found = broken(history(made, freed, at_rest=False))
    assert any(sentence.startswith("a promise is kept: n1 is free") for sentence in found) == fault


def test_a_cluster_that_goes_on_for_ever_is_not_at_rest() -> None:
    assert broken(history(MADE, (WAITS, KEPT), at_rest=False))[0].startswith("rest: 2 cycles after the last change")


def gangs(minimum: int, bind: int) -> tuple[list[Object], Plan]:
    pods = [pod(f"g-{i}", "g") for i in range(2)]
    objects = flat([node("n1", 2), queue("q"), group("g", minimum=minimum), pods])
    return objects, Plan(bound(**{f"g-{i}": "n1" for i in range(bind)}))


@pytest.mark.parametrize(("minimum", "bind", "fault"), [(2, 1, True), (2, 2, False), (1, 1, False)])
def test_gangs_start_whole(minimum: int, bind: int, fault: bool) -> None:
    found = broken(history(gangs(minimum, bind), at_rest=False))
    assert any(sentence.startswith("gangs start whole") for sentence in found) == fault


@pytest.mark.parametrize(("action", "fault"), [("preempt", True), ("shuffle", False)])
def test_a_gang_starts_whole_though_a_pod_leaves_at_the_end_of_a_zone(action: str, fault: bool) -> None:
    objects = flat([node("n1", 4), queue("q"), group("g", minimum=2), pod("g-0", "g"), pod("g-1", "g", node="n1")])
    plan = Plan(bound(**{"g-0": "n1"}), (), evicted("g-1", by="", action=action))
    found = broken(history((objects, plan), at_rest=False))
    assert any(sentence.startswith("gangs start whole") for sentence in found) == fault


@pytest.mark.parametrize(("minimum", "gone", "fault"), [(2, [V0], True), (2, [V0, V1], False), (1, [V0], False)])
def test_gangs_stay_whole(minimum: int, gone: list[str], fault: bool) -> None:
    objects = flat([o for o in cluster(runs(V0), runs(V1)) if o.name != "v"] + [group("v", minimum=minimum)])
    found = broken(history((objects, Plan((), KEPT.nominations, evicted(*gone))), at_rest=False))
    assert any(sentence.startswith("gangs stay whole") for sentence in found) == fault


def lent(held: int, deserved: str = "2", *, minimum: int = 1, cpu: int = 1, **more: Any) -> list[Object]:
    """Queue `a` holds so many of four cpus; `b`, which deserves two, waits for as many as its pods ask."""
    pods = [pod(f"v-{i}", "v", memory=None, node="n1", **more) for i in range(held)]
    return flat(
        [
            [node("n1", held), queue("a", deserved={"cpu": deserved}), queue("b", deserved={"cpu": "2"})],
            [group("v", "a", minimum, "Running"), *pods],
            [group("c", "b"), pod("c-0", "c", cpu, None)],
        ]
    )


def promised_elsewhere(*others: Object) -> list[Object]:
    """As `lent`, and the pod that waits is promised room on a second node, where a pod never ends."""
    second = [node("n2", 1), terminating(pod("stuck", "", memory=None, node="n2"))]
    preemptor = pod("c-0", "c", memory=None, nominated="n2")
    return flat([[o for o in lent(4) if o.name != "c-0"], second, preemptor, *others])


@pytest.mark.parametrize(
    ("objects", "fault"),
    [
        (lent(4), True),
        (promised_elsewhere(), False),
        (promised_elsewhere(pod("c-1", "c", memory=None)), True),
        (lent(4, minimum=4), True),
        (lent(4, "4"), False),
        (lent(4, cpu=3), False),
        (lent(4, annotations={"volcano.sh/preemptable": "false"}), False),
        (lent(4, schedulerName="else"), False),
        ([*lent(4, minimum=5), pod("v-4", "v", memory=None, node="gone")], False),
    ],
    ids=[
        "above its share",
        "promised",
        "not all promised",
        "as a gang",
        "within its share",
        "more than deserved",
        "not preemptable",
        "foreign",
        "node is gone",
    ],
)
def test_a_share_that_others_hold_is_claimed(objects: list[Object], fault: bool) -> None:
    found = broken(history((objects, Plan()), conf=FLAT))
    assert any(sentence.startswith("a promise can be claimed") for sentence in found) == fault


@pytest.mark.parametrize(
    "change",
    [
        lambda objects: [*objects, group("late", phase="Pending"), pod("late-0", "late")],
        lambda objects: [o for o in objects if o.name != "c"] + [group("c", minimum=2)],
        lambda objects: [o for o in objects if o.name != "q"] + [queue("q", capability={"cpu": "1"})],
        lambda objects: [o for o in objects if o.name != "n1"] + [node("n1", 2, unschedulable=True)],
    ],
    ids=["not admitted", "too few pods", "no quota", "cordoned"],
)
def test_what_waits_for_a_reason_does_not_wait_idly(change: Callable[[list[Object]], list[Object]]) -> None:
    objects = [o for o in change(cluster(runs(V1))) if o.name not in ("o", "o-0")]
    if any(o.name == "late" for o in objects):
        objects = [o for o in objects if o.name not in ("c", "c-0")]
    assert broken(history((objects, Plan()))) == []


def test_a_restart_that_changes_a_decision_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    objects: Objects = [queue("q"), queue("root"), node("n1", 2), group("g"), pod("p", "g")]
    assert not play(PREEMPT, flat(objects), [Change(restart=True)]).restarts
    told = History(PREEMPT, play(PREEMPT, flat(objects)).moments, 0, True, [1])
    assert "restarts change nothing: cycle 1 differs after one" in broken(told)
