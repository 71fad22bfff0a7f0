"""The plugin tdm: nodes that are lent for some hours of the day."""

from __future__ import annotations

from typing import Any

import pytest

from kilauea.api.meta import Object
from kilauea.engine.cycle import cycle
from kilauea.engine.plan import Plan
from kilauea.engine.plugins.tdm import DAY, MINUTE, Hours, hours_of, offset_of, part_of, victims_of
from kilauea.engine.session import Session
from support.builders import (
    NOW,
    Data,
    Objects,
    best_effort,
    binds,
    conf,
    group,
    node,
    parsed,
    pending,
    plan_of,
    plugin,
    pod,
    state_of,
)
from support.probes import inside, scores_of

ZONE = "volcano.sh/revocable-zone"
PREEMPTABLE = "volcano.sh/preemptable"
LEAST, MOST = "volcano.sh/jdb-min-available", "volcano.sh/jdb-max-unavailable"
HOUR = 60 * MINUTE


def tdm_conf(actions: str = "allocate", **more: Any) -> Data:
    """Zone `open` is lent around midnight, when cycles of tests are, and `shut` at noon."""
    zones = {"tdm.revocable-zone.open": "00:00-06:00", "tdm.revocable-zone.shut": "12:00-13:00"}
    arguments = zones | {f"tdm.{key.replace('_', '.')}": value for key, value in more.items()}
    return conf(actions, ["gang"], ["predicates", ("tdm", arguments)])


def lent(name: str, zone: str, **more: Any) -> Object:
    return node(name, labels={ZONE: zone}, **more)


def marked(obj: Object, **annotations: str) -> Object:
    """The object with annotations `zone`, `preemptable`, `least` and `most`."""
    keys = {"zone": ZONE, "preemptable": PREEMPTABLE, "least": LEAST, "most": MOST}
    obj.metadata.annotations = {**obj.annotations, **{keys[key]: text for key, text in annotations.items()}}
    return obj


# --- hours


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("10:00-12:00", Hours(10 * HOUR, 12 * HOUR)),
        ("1:05-9:30", Hours(65 * MINUTE, 570 * MINUTE)),
        (" 00:00-23:59 ", Hours(0, 1439 * MINUTE)),
        ("22:00-04:00", Hours(22 * HOUR, 28 * HOUR)),
        ("10:00-10:00", Hours(10 * HOUR, 34 * HOUR)),
        ("10:00", None),
        ("10:00-12:00-14:00", None),
        ("10:00 - 12:00", None),
        ("10-12", None),
        ("24:00-25:00", None),
        ("10:60-12:00", None),
        ("10:5-12:00", None),
        ("", None),
    ],
)
def test_hours_are_written_from_and_to(text: str, expected: Hours | None) -> None:
    assert hours_of(text) == expected


@pytest.mark.parametrize(
    ("text", "at", "plain", "overnight"),
    [
        ("10:00-12:00", 10 * HOUR - 1, False, False),
        ("10:00-12:00", 10 * HOUR, True, True),
        ("10:00-12:00", 12 * HOUR, True, True),
        ("10:00-12:00", 12 * HOUR + 1, False, False),
        ("22:00-04:00", 23 * HOUR, True, True),
        ("22:00-04:00", 0, False, True),
        ("22:00-04:00", 4 * HOUR, False, True),
        ("22:00-04:00", 4 * HOUR + 1, False, False),
        ("10:00-10:00", 9 * HOUR, False, True),
        ("10:00-10:00", 11 * HOUR, True, True),
    ],
)
def test_both_ends_count_and_midnight_is_the_end_unless_told_otherwise(
    text: str, at: int, plain: bool, overnight: bool
) -> None:
    hours = hours_of(text)
    assert hours is not None
    assert (hours.hold(at, overnight=False), hours.hold(at, overnight=True)) == (plain, overnight)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Z", 0),
        ("+00:00", 0),
        ("+08:00", 8 * HOUR),
        ("-05:30", -330 * MINUTE),
        ("08:00", None),
        ("+8:00", None),
        ("+24:00", None),
        ("Asia/Shanghai", None),
    ],
)
def test_distances_from_utc(text: str, expected: int | None) -> None:
    assert offset_of(text) == expected


@pytest.mark.parametrize(
    ("text", "total", "expected"),
    [("3", 10, 3), ("30%", 10, 3), ("25%", 10, 3), ("0%", 10, 0), ("100%", 7, 7), ("-1", 10, None), ("a", 10, None)],
)
def test_parts_of_a_job_are_numbers_or_percentages_rounded_up(text: str, total: int, expected: int | None) -> None:
    assert part_of(text, total) == expected


# --- where pods may run


@pytest.mark.parametrize(
    ("annotations", "nodes", "expected"),
    [
        pytest.param({}, ["plain"], None, id="a node that is not lent takes all"),
        pytest.param({}, ["open"], "not allow to dispatch to revocable node", id="one that is not the others"),
        pytest.param({"zone": "*"}, ["open"], None, id="only pods that say so"),
        pytest.param({"preemptable": "true"}, ["open"], None, id="or that they are preemptable"),
        pytest.param({"preemptable": "maybe"}, ["open"], "not allow to dispatch to revocable node", id="clearly"),
        pytest.param(
            {"zone": "open", "preemptable": "true"},
            ["open"],
            "not allow to dispatch to revocable node",
            id="the zone counts first, and no single one can be named",
        ),
        pytest.param(
            {"zone": "*"},
            ["shut"],
            "current time beyond revocable zone shut:12:00-13:00",
            id="not when its time is over",
        ),
        pytest.param({}, ["shut"], "current time beyond revocable zone shut:12:00-13:00", id="that is told first"),
        pytest.param({"zone": "*"}, ["odd"], "revocable zone odd not support", id="not in a zone that has no hours"),
        pytest.param({"zone": "*"}, ["bad"], "revocable zone noon format error", id="nor with hours that are invalid"),
        pytest.param({}, [""], None, id="an empty zone is none"),
    ],
)
def test_where_pods_may_run(annotations: dict[str, str], nodes: list[str], expected: str | None) -> None:
    objects = [node(name) if name == "plain" else lent(name or "empty", name) for name in nodes]
    usable = tdm_conf(**{"revocable-zone.bad": "noon"})
    plan = plan_of(objects, group(), marked(pod("p"), **annotations), conf=usable)
    if expected is None:
        assert len(binds(plan)) == 1
    else:
        assert pending(plan)["p"].message == f"0/1 nodes are unavailable: 1 {expected}."


def test_each_reason_is_counted() -> None:
    nodes = [lent("n1", "shut"), lent("n2", "shut"), lent("n3", "odd"), lent("n4", "open")]
    plan = plan_of(nodes, group(), pod("p"), conf=tdm_conf())
    assert pending(plan)["p"].message == (
        "0/4 nodes are unavailable: 1 not allow to dispatch to revocable node, 1 revocable zone odd not support, "
        "2 current time beyond revocable zone shut:12:00-13:00."
    )


def test_lent_nodes_are_better_for_pods_that_may_run_there() -> None:
    nodes = [node("plain"), lent("open", "open"), lent("shut", "shut")]
    assert scores_of(nodes, group(), marked(pod("p"), zone="*"), conf=tdm_conf()) == {"plain": 0, "open": 100}
    off = conf("allocate", ["gang"], [plugin("tdm", {"tdm.revocable-zone.open": "00:00-06:00"}, enablePredicate=False)])
    assert scores_of(nodes, group(), pod("p"), conf=off) == {"plain": 0, "open": 0, "shut": 0}


def test_pods_with_and_without_leave_are_told_apart_though_they_ask_for_the_same() -> None:
    both = [pod("a"), marked(pod("b"), zone="*")]
    assert binds(plan_of(lent("o", "open", cpu=2), group(), both, conf=tdm_conf())) == {"b": "o"}


def plan_at(now: int, *objects: Objects, **arguments: Any) -> Plan:
    usable, plugins, actions = parsed(tdm_conf(**arguments))
    return cycle(state_of(*objects), usable, now, plugins=plugins, actions=actions)


@pytest.mark.parametrize(
    ("arguments", "hour", "expected"),
    [
        pytest.param({}, 0, True, id="midnight"),
        pytest.param({}, 6, True, id="the end"),
        pytest.param({}, 7, False, id="after it"),
        pytest.param({"utc-offset": "+08:00"}, 7, False, id="in the east it is later"),
        pytest.param({"utc-offset": "+08:00"}, 16, True, id="and midnight earlier"),
        pytest.param({"utc-offset": "-05:00"}, 7, True, id="in the west it is earlier"),
        pytest.param({"revocable-zone.open": "22:00-04:00"}, 23, True, id="before midnight"),
        pytest.param({"revocable-zone.open": "22:00-04:00"}, 1, False, id="after midnight"),
        pytest.param({"revocable-zone.open": "22:00-04:00", "overnight": True}, 1, True, id="if it goes on"),
    ],
)
def test_the_time_of_the_day_decides(arguments: Data, hour: int, expected: bool) -> None:
    assert NOW % DAY == 0
    objects = lent("n", "open"), group(), marked(pod("p"), zone="*")
    assert bool(binds(plan_at(NOW + hour * HOUR, *objects, **arguments))) is expected


# --- jobs


def job_with(**annotations: str) -> Object:
    return marked(group(), **annotations)


@pytest.mark.parametrize(
    ("annotations", "states", "expected"),
    [
        pytest.param({"most": "30%"}, {"Running": 8, "Pending": 2}, 1, id="three may be missing and two are"),
        pytest.param({"most": "3"}, {"Running": 8, "Pending": 2}, 1, id="as a number"),
        pytest.param({"most": "2"}, {"Running": 8, "Pending": 2}, 0, id="no more"),
        pytest.param({"most": "1"}, {"Running": 8, "Pending": 2}, 0, id="more are missing than may be"),
        pytest.param({"most": "3"}, {"Running": 5, "Succeeded": 4, "Failed": 1}, 3, id="what is done is not missing"),
        pytest.param({"least": "50%"}, {"Running": 8, "Pending": 2}, 3, id="five have to be there and eight are"),
        pytest.param({"least": "8"}, {"Running": 8, "Pending": 2}, 0, id="all have to be there"),
        pytest.param({"least": "9"}, {"Running": 8, "Pending": 2}, 1, id="fewer are there: one, all the same"),
        pytest.param({}, {"Running": 8, "Pending": 2}, 1, id="without a budget: one"),
        pytest.param({"least": "5", "most": "0"}, {"Running": 8, "Pending": 2}, 3, id="the first budget counts"),
        pytest.param({"least": "a"}, {"Running": 8}, 1, id="a budget that is invalid: one"),
        pytest.param({"most": "a"}, {"Running": 8}, 1, id="likewise"),
    ],
)
def test_how_many_pods_of_a_job_may_go(annotations: dict[str, str], states: dict[str, int], expected: int) -> None:
    pods = [
        pod(f"{phase}-{i}".lower(), node=None if phase == "Pending" else "n", phase=phase)
        for phase, count in states.items()
        for i in range(count)
    ]
    state = state_of(node("n", cpu=64, memory="64Gi"), job_with(**annotations), pods)
    assert victims_of(state.jobs["ns/g"]) == expected


@pytest.mark.parametrize(
    ("annotations", "pods", "expected"),
    [
        pytest.param({}, ["p"], True, id="with a pod that waits"),
        pytest.param({}, [], False, id="without"),
        pytest.param({"preemptable": "true"}, ["p"], False, id="a preemptable job never"),
    ],
)
def test_which_jobs_starve(annotations: dict[str, str], pods: list[str], expected: bool) -> None:
    objects = node("n"), job_with(**annotations), [pod(name) for name in pods], pod("r", node="n")
    only = conf("", ["tdm"])
    assert inside(objects, do=lambda s: s.job_starving(s.state.jobs["ns/g"]), conf=only) is expected


@pytest.mark.parametrize(("minimum", "expected"), [(1, True), (2, True), (3, False)])
def test_a_job_holds_on_to_promised_room_if_it_is_enough(minimum: int, expected: bool) -> None:
    objects = node("n"), group(minimum=minimum), best_effort("a"), pod("r", node="n")
    assert inside(objects, do=lambda s: s.job_pipelined(s.state.jobs["ns/g"]), conf=conf("", ["tdm"])) is expected


def test_jobs_that_are_not_preemptable_go_first() -> None:
    jobs = [marked(group("a", created=0), preemptable="true"), group("b", created=1)]
    pods = [pod("a-p", "a", cpu=3), pod("b-p", "b", cpu=3)]
    assert binds(plan_of(node("n"), jobs, pods, conf=tdm_conf())) == {"b-p": "n"}


# --- preemption


def running(*, on: str = "plain", job: str = "low", count: int = 4, **more: Any) -> list[Object]:
    """A job with pods that run on a node."""
    pods = [pod(f"{job}-{i}", job, node=on, cpu="100m", **more) for i in range(count)]
    return [group(job, phase="Running"), *pods]


def preempted(*objects: Objects, preemptor: dict[str, str], names: list[str], budget: dict[str, str]) -> list[str]:
    """Which pods may go for a pod with these annotations, of a job `low` with this budget."""
    fleet = [node("plain"), lent("lent", "open")]
    mine = [group("mine"), marked(pod("mine", "mine"), **preemptor)]

    def vote(session: Session) -> list[str]:
        tasks = session.state.tasks
        return [t.name for t in session.preemptable(tasks["ns/mine"], [tasks[f"ns/{n}"] for n in names])]

    listed = [marked(o, **budget) if o.kind == "PodGroup" else o for o in running()]
    return inside(fleet, mine, listed, *objects, do=vote, conf=conf("", ["tdm"]))


FIRM = {"preemptable": "false"}


@pytest.mark.parametrize(
    ("preemptor", "budget", "expected"),
    [
        pytest.param(FIRM, {}, ["low-0"], id="one of each job"),
        pytest.param(FIRM, {"least": "1"}, ["low-0", "low-1", "low-2"], id="or as its budget says, in the order given"),
        pytest.param(FIRM, {"most": "0"}, [], id="none"),
        pytest.param({}, {"least": "1"}, [], id="a pod that says nothing is preemptable, and takes nothing"),
        pytest.param(FIRM | {"zone": "*"}, {"least": "1"}, [], id="nor does one that may run on lent nodes"),
    ],
)
def test_who_makes_room_for_whom(preemptor: dict[str, str], budget: dict[str, str], expected: list[str]) -> None:
    assert preempted(preemptor=preemptor, names=[f"low-{i}" for i in range(4)], budget=budget) == expected


def test_only_preemptable_pods_that_run_on_nodes_that_are_not_lent_make_room() -> None:
    others = [
        running(job="a", on="lent"),
        [group("b"), marked(pod("b-0", "b", node="plain"), preemptable="false")],
        [group("c"), pod("c-0", "c", node="plain", phase="Pending")],
        [group("d"), pod("d-0", "d", node="gone")],
        [marked(group("e"), preemptable="false"), pod("e-0", "e", node="plain")],
    ]
    names = ["a-0", "b-0", "c-0", "d-0", "e-0", "low-1"]
    assert preempted(others, preemptor=FIRM, names=names, budget={}) == ["low-1"]


# --- when the hours are over


def leaving(*objects: Objects, **arguments: Any) -> list[str]:
    """Pods that have to go."""
    fleet = [node("plain"), lent("n-open", "open"), lent("n-shut", "shut"), lent("n-odd", "odd")]
    usable = {**tdm_conf(**arguments), "actions": ""}
    return inside(fleet, *objects, do=lambda s: [t.name for t in s.victim_tasks([])], conf=usable)


@pytest.mark.parametrize(
    ("on", "expected"),
    [
        pytest.param("n-shut", ["low-3"], id="the hours are over"),
        pytest.param("n-open", [], id="they are not"),
        pytest.param("n-odd", [], id="a zone that is not configured is left alone"),
        pytest.param("plain", [], id="the node is not lent"),
        pytest.param("gone", [], id="the node does not exist"),
    ],
)
def test_pods_leave_when_the_hours_are_over(on: str, expected: list[str]) -> None:
    assert leaving(running(on=on)) == expected


def test_hours_that_cannot_be_read_are_over() -> None:
    assert leaving(running(on="n-shut"), **{"revocable-zone.shut": "noon"}) == ["low-3"]


def test_as_many_pods_of_each_job_leave_as_its_budget_allows() -> None:
    jobs = [running(on="n-shut", job=name) for name in ("a", "b", "c")]
    marked(jobs[0][0], least="1")
    marked(jobs[1][0], most="0")
    assert leaving(jobs) == ["a-3", "a-2", "a-1", "c-3"]


def test_pods_that_are_not_preemptable_stay() -> None:
    low = running(on="n-shut")
    for one in low[1:]:
        marked(one, preemptable="false")
    assert leaving(low) == []
    inherited = running(on="n-shut", job="x")
    marked(inherited[0], preemptable="false")
    assert leaving(inherited) == []


@pytest.mark.parametrize(
    ("second", "arguments", "expected"),
    [
        pytest.param(30, {}, [], id="half a minute ago"),
        pytest.param(0, {}, ["low-3"], id="a minute ago"),
        pytest.param(0, {"evict.period": "2m"}, [], id="the period is longer"),
        pytest.param(30, {"evict.period": "10s"}, ["low-3"], id="or shorter"),
        pytest.param(30, {"evict.period": "0s"}, ["low-3"], id="or nothing"),
        pytest.param(30, {"evict.period": "often"}, [], id="an invalid period counts as a minute"),
    ],
)
def test_a_job_has_peace_for_a_period_after_it_made_a_pod(second: int, arguments: Data, expected: list[str]) -> None:
    """The pod that takes the place of one that was evicted is as old as the eviction."""
    low = running(on="n-shut")
    replacement = pod("new", "low")
    replacement.metadata.creation_timestamp = f"2025-12-31T23:59:{second:02d}Z"
    assert leaving(low, replacement, **arguments) == expected


def test_a_job_has_peace_while_one_of_its_pods_is_being_removed() -> None:
    assert leaving(running(on="n-shut"), pod("going", "low", node="plain", deleting=True)) == []


def test_the_same_cycle_asks_once() -> None:
    def twice(session: Session) -> list[list[str]]:
        statement, out = session.statement(), []
        for _ in range(2):
            found = session.victim_tasks([])
            out.append([task.name for task in found])
            for task in found:
                statement.evict(task, "probe")
        return out

    objects = lent("n", "shut"), running(on="n")
    assert inside(objects, do=twice, conf={**tdm_conf(), "actions": ""}) == [["low-3"], []]


# --- arguments


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ({"revocable-zone.a": "10:00-12:00"}, None),
        (
            {"revocable-zone.a": "noon"},
            "tdm.revocable-zone.a: takes HH:MM-HH:MM, not 'noon'; the zone is never lent",
        ),
        ({"revocable-zone.a": 10}, "tdm.revocable-zone.a takes text, not 10; its default is kept"),
        (
            {"revocable-zone.a": "22:00-04:00"},
            "tdm.revocable-zone.a: 22:00-04:00 ends at midnight unless tdm.overnight is true",
        ),
        ({"revocable-zone.a": "22:00-04:00", "overnight": True}, None),
        (
            {"utc-offset": "CET"},
            "tdm.utc-offset: takes +HH:MM, -HH:MM or Z, not 'CET'; the hours are taken as UTC",
        ),
    ],
)
def test_arguments_that_are_wrong_are_named(arguments: Data, expected: str | None) -> None:
    plan = plan_of(node("n"), conf=tdm_conf(**arguments))
    assert [f.message for f in plan.findings] == ([] if expected is None else [expected])


def test_a_period_that_is_none_is_named() -> None:
    (found,) = plan_of(node("n"), conf=tdm_conf(**{"evict.period": "often"})).findings
    assert found.message.startswith('tdm.evict.period: "often" is not a duration')
    assert found.message.endswith("; 1m is kept")
