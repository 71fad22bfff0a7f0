"""The models of pages: bars, the tree of queues, lists, maps of nodes, outcomes of plans."""

from __future__ import annotations

from typing import Any

import pytest

from kilauea.api.ports import Key
from kilauea.dashboard.amounts import NONE, Bar, bar
from kilauea.dashboard.eviction_list import together
from kilauea.dashboard.job_list import Filter, causes, job_list
from kilauea.dashboard.listing import paging
from kilauea.dashboard.node_map import MOST_CELLS, maps, node_list
from kilauea.dashboard.picture import Eviction, Picture, QueueFigures
from kilauea.dashboard.plan_outcome import outcome, pasted_names
from kilauea.dashboard.queue_tree import Forest, spark, tree
from kilauea.dashboard.series import KEPT, Sample, Series
from support.dashboard_objects import group, job, node, pod, queue, tell, text

UNLIMITED = float("inf")


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        pytest.param((5, 10, 0, 100), Bar(30.0, 0, False, 60.0, None), id="within what is deserved"),
        pytest.param((10, 10, 2, 100), Bar(60.0, 0, False, 60.0, 12.0), id="all that is deserved, with a guarantee"),
        pytest.param((15, 10, 0, 100), Bar(60.0, 30.0, False, 60.0, None), id="a half borrowed"),
        pytest.param((50, 10, 0, 100), Bar(60.0, 40.0, True, 60.0, None), id="borrowed beyond the bar"),
        pytest.param((50, None, 0, 100), Bar(50.0, 0.0, False, None, None), id="no limit: of the cluster"),
        pytest.param((50, UNLIMITED, 0, 0), Bar(0.0, 0.0, False, None, None), id="no limit in a cluster without nodes"),
        pytest.param((50, 0, 0, 100), Bar(0.0, 50.0, False, 0.0, None), id="deserves nothing: all is borrowed"),
    ],
)
def test_the_bar_of_a_queue(given: tuple[Any, ...], expected: Bar) -> None:
    assert bar(*given) == expected


def a_tree() -> Picture:
    picture = Picture()
    tell(
        picture.queues,
        queue("root"),
        queue("ml", "root", allocated="12", deserved="10"),
        queue("vision", "ml", allocated="8", deserved="4", guarantee="2"),
        queue("language", "ml", allocated="4", deserved="6"),
        queue("stray", "missing"),
        queue("one", "other"),
        queue("other", "one"),
    )
    tell(picture.jobs, job("a", "vision"), job("b", "vision", "Running"), job("c", "ml"))
    return picture


def test_queues_below_a_paused_one_are_shown_as_paused() -> None:
    picture, paused = a_tree(), queue("ml", "root")
    paused["metadata"]["annotations"] = {"kilauea.dev/paused": "true"}
    tell(picture.queues, paused)
    lines = tree(Forest(picture, {}), {}, "cpu", Series()).lines
    assert {line.name for line in lines if line.state == "Paused"} == {"ml", "language", "vision"}


def test_lines_of_queues_stand_below_their_parents_with_sums_of_their_jobs() -> None:
    lines = tree(Forest(a_tree(), {}), {"cpu": 20_000}, "cpu", Series()).lines
    shown = [
        (line.name, line.depth, line.used, line.deserved, line.borrowed, line.waiting, line.running) for line in lines
    ]
    assert shown == [
        ("root", 0, "0", NONE, NONE, 2, 1),
        ("ml", 1, "12", "10", "2", 2, 1),
        ("language", 2, "4", "6", NONE, 0, 0),
        ("vision", 2, "8", "4", "4", 1, 1),
        ("stray", 0, "0", NONE, NONE, 0, 0),
        ("one", 0, "0", NONE, NONE, 0, 0),
        ("other", 1, "0", NONE, NONE, 0, 0),
    ]


def test_what_the_scheduler_says_a_queue_deserves_counts_before_its_object() -> None:
    figures = {"vision": QueueFigures({"cpu": 5000})}
    (line,) = tree(Forest(a_tree(), figures), {}, "cpu", Series(), search="VISION").lines
    assert (line.deserved, line.borrowed, line.words) == ("5", "3", "uses 8 of 5 deserved, 3 of it borrowed")


def test_deep_levels_are_folded_until_the_tree_fits() -> None:
    picture = Picture()
    tell(picture.queues, queue("root"), *(queue(f"team-{n}", "root") for n in range(5)))
    tell(picture.queues, *(queue(f"team-{n}-{m}", f"team-{n}") for n in range(5) for m in range(5)))
    found = tree(Forest(picture, {}), {}, "cpu", Series(), most=10)
    assert [(line.name, line.below, line.folded) for line in found.lines][:2] == [
        ("root", 30, False),
        ("team-0", 5, True),
    ]
    below = tree(Forest(picture, {}), {}, "cpu", Series(), top="team-3")
    assert [(line.name, line.depth) for line in below.lines] == [("team-3", 0), *((f"team-3-{m}", 1) for m in range(5))]


@pytest.mark.parametrize(
    ("wanted", "names"),
    [
        (Filter(), ["new", "old", "other"]),
        (Filter(state="waiting"), ["old", "other"]),
        (Filter(queue="vision"), ["other"]),
        (Filter(search="NO QUOTA"), ["old"]),
        (Filter(search="team/ol"), ["old"]),
        (Filter(reason="Quota"), ["old"]),
        (Filter(namespace="else"), []),
    ],
)
def test_jobs_are_found_by_state_queue_namespace_reason_and_text_newest_first(wanted: Filter, names: list[str]) -> None:
    picture = Picture()
    tell(
        picture.jobs,
        job("old", created="2026-11-20T00:00:00Z"),
        job("new", phase="Running", created="2026-11-22T00:00:00Z"),
        job("other", "vision", created="2026-11-19T00:00:00Z"),
    )
    tell(picture.groups, group("g", job="old", why="Quota: there is no quota left"))
    assert [entry.key.name for entry in job_list(picture, wanted).entries] == names


def test_the_most_common_reason_comes_first_with_the_job_that_waits_longest() -> None:
    picture = Picture()
    for number, why in enumerate(["Quota: full", "Quota: full", "NotEnoughResources: 0/2 nodes"]):
        tell(picture.jobs, job(f"j{number}", created=f"2026-11-2{3 - number}T00:00:00Z"))
        tell(picture.groups, group(f"g{number}", job=f"j{number}", why=why))
    found = [(cause.code, cause.jobs, cause.oldest.key.name) for cause in causes(picture.waiting.values())]
    assert found == [("Quota", 2, "j1"), ("NotEnoughResources", 1, "j2")]


@pytest.mark.parametrize(
    ("total", "page", "expected"),
    [
        (0, 1, (1, 1, 0, 0)),
        (50, 1, (1, 1, 1, 50)),
        (51, 2, (2, 2, 51, 51)),
        (51, 99, (2, 2, 51, 51)),
        (5, 0, (1, 1, 1, 5)),
    ],
)
def test_a_page_beyond_the_end_is_the_last_one(total: int, page: int, expected: tuple[int, ...]) -> None:
    place = paging(total, page)
    assert (place.page, place.pages, place.first, place.last) == expected


def test_nodes_are_in_their_lowest_domain_or_their_zone() -> None:
    picture = Picture()
    member = {"type": "Node", "selector": {"regexMatch": {"pattern": "^n[0-2]$"}}}
    tell(picture.hypernodes, {"metadata": {"name": "leaf"}, "spec": {"tier": 1, "members": [member]}})
    tell(picture.nodes, *(node(f"n{n}") for n in range(4)), node("z", topology_kubernetes_io_zone="east"))
    zoned = node("zoned")
    zoned["metadata"]["labels"] = {"topology.kubernetes.io/zone": "east"}
    tell(picture.nodes, zoned)
    tell(picture.pods, pod("p", on="n1", cpu="4", phase="Running"))
    drawn, _ = maps(picture, "cpu", ["cpu"])
    assert [(each.name, each.kind, each.nodes) for each in drawn] == [
        ("leaf", "hypernode", 3),
        ("east", "zone", 1),
        ("", "", 2),
    ]
    assert [(cell.title, cell.height) for cell in drawn[0].cells] == [
        ("n0: 0% used", 0),
        ("n1: 50% used", 7.0),
        ("n2: 0% used", 0),
    ]
    assert [line.node.name for line in node_list(picture, ["cpu"], domain="leaf")[0]] == ["n0", "n1", "n2"]


def test_a_domain_says_what_it_is_in_and_its_parent_leads_to_all_of_its_nodes() -> None:
    picture = Picture()

    def hypernode(name: str, tier: int, *members: tuple[str, str]) -> dict[str, object]:
        found = [{"type": kind, "selector": {"exactMatch": {"name": member}}} for kind, member in members]
        return {"metadata": {"name": name}, "spec": {"tier": tier, "members": found}}

    tell(picture.hypernodes, hypernode("leaf-0", 1, ("Node", "n0")), hypernode("leaf-1", 1, ("Node", "n1")))
    tell(picture.hypernodes, hypernode("leaf-2", 1, ("Node", "n2")), hypernode("zz", 2, ("HyperNode", "leaf-0")))
    tell(picture.hypernodes, hypernode("aa", 2, ("HyperNode", "leaf-1"), ("HyperNode", "leaf-2")))
    tell(picture.hypernodes, hypernode("top", 3, ("HyperNode", "zz"), ("HyperNode", "aa")))
    tell(picture.nodes, *(node(f"n{n}") for n in range(4)))
    drawn, _ = maps(picture, "cpu", ["cpu"])
    assert [(each.name, list(each.above)) for each in drawn] == [
        ("leaf-1", ["top", "aa"]),
        ("leaf-2", ["top", "aa"]),
        ("leaf-0", ["top", "zz"]),
        ("", []),
    ]
    assert [line.node.name for line in node_list(picture, ["cpu"], domain="aa")[0]] == ["n1", "n2"]
    assert [line.node.name for line in node_list(picture, ["cpu"], domain="top")[0]] == ["n0", "n1", "n2"]


def test_domains_that_contain_each_other_are_shown_once() -> None:
    picture = Picture()
    for name, child in (("a", "b"), ("b", "a")):
        members = [
            {"type": "HyperNode", "selector": {"exactMatch": {"name": child}}},
            {"type": "Node", "selector": {"exactMatch": {"name": f"n-{name}"}}},
        ]
        tell(picture.hypernodes, {"metadata": {"name": name}, "spec": {"tier": 1, "members": members}})
    tell(picture.nodes, node("n-a"), node("n-b"))
    drawn, _ = maps(picture, "cpu", ["cpu"])
    assert {each.name: each.nodes for each in drawn} == {"a": 1, "b": 1}
    assert all(len(each.above) <= 2 for each in drawn)


def test_a_square_stands_for_several_nodes_of_a_large_cluster_and_shows_the_worst_of_them() -> None:
    picture = Picture()
    texts = [text(node(f"n{n}", ready=n != 7)) for n in range(MOST_CELLS * 3)]
    picture.nodes.on_relist(texts, "1")
    (drawn,), _ = maps(picture, "cpu", ["cpu"])
    assert (drawn.per_cell, len(drawn.cells)) == (3, MOST_CELLS)
    assert [cell.state for cell in drawn.cells[:4]] == ["Ready", "Ready", "NotReady", "Ready"]


def test_evictions_of_a_job_for_another_are_one_line_if_they_follow_closely() -> None:
    by = ("Job", "team", "llm", "language")
    lost = ("Job", Key("team", "sweep"))
    second = 1_000_000
    found = [Eviction(second * at, Key("team", f"p{at}"), job=lost, by=by) for at in (10, 20, 30, 500)]
    assert [(line.last.pod.name, line.pods) for line in together(found)] == [("p500", 1), ("p30", 3)]


def test_a_series_keeps_an_hour_and_gaps_stay_gaps() -> None:
    series = Series()
    for at in range(KEPT + 5):
        samples = {"a": Sample({"cpu": at}, {})} | ({"b": Sample({"cpu": 1}, {"cpu": 2})} if at > KEPT else {})
        series.add(at * 1_000_000, ["cpu"], samples)
    used, deserved = series.of("a", "cpu")
    assert (len(used), used[0], used[-1], set(deserved)) == (KEPT, 5, KEPT + 4, {None})
    assert series.of("b", "cpu")[1] == [None] * (KEPT - 4) + [2] * 4
    assert series.times()[0] == 5
    assert series.of("c", "cpu") == ([None] * KEPT, [None] * KEPT)


def test_a_queue_that_comes_after_another_is_forgotten_has_a_series_of_its_own() -> None:
    series = Series()
    series.add(0, ["cpu"], {"a": Sample({"cpu": 1}, {})})
    for at in range(KEPT + 1):
        series.add(at, ["cpu"], {})
    series.add(KEPT, ["cpu"], {"b": Sample({"cpu": 2}, {})})
    assert series.of("b", "cpu")[0] == [None] * (KEPT - 1) + [2]
    assert series.of("a", "cpu")[0] == [None] * KEPT


@pytest.mark.parametrize(
    ("values", "points"),
    [([], ""), ([None, 3.0], ""), ([0.0, 0.0], "0.0,19.0 80.0,19.0"), ([0.0, 2.0, 1.0], "0.0,19.0 40.0,1.0 80.0,10.0")],
)
def test_the_small_line_is_drawn_to_its_own_highest_value(values: list[float | None], points: str) -> None:
    assert spark(values) == points


SUBMITTED = {
    "podGroup": "default/train-default-train",
    "queue": "q",
    "starting": 0,
    "waiting": 8,
    "nodes": [],
    "evicts": ["team/p"],
    "code": "Nominated",
    "reason": "nominated to node n",
}


@pytest.mark.parametrize(
    ("changed", "verdict", "words"),
    [
        (
            {},
            "would start once resources are freed for it",
            "no pod would start, 8 pods would wait, and 1 pod would be evicted for it",
        ),
        ({"code": "Quota", "evicts": []}, "would wait", "no pod would start, 8 pods would wait"),
        (
            {"starting": 8, "waiting": 0, "nodes": ["n"], "evicts": []},
            "would start now",
            "8 pods would start on 1 node",
        ),
        (
            {"starting": 1, "waiting": 7, "nodes": ["n"], "evicts": []},
            "would start partially",
            "1 pod would start on 1 node, 7 pods would wait",
        ),
    ],
)
def test_the_outcome_of_a_plan_in_words(changed: dict[str, Any], verdict: str, words: str) -> None:
    found = outcome({"submitted": [SUBMITTED | changed]}, "")["submitted"]
    assert [(each.verdict, each.words) for each in found] == [(verdict, f"{words}; queue q.")]


def test_only_pasted_objects_are_in_the_outcome() -> None:
    stored = SUBMITTED | {"podGroup": "default/other-1"}
    plan = {
        "submitted": [stored, SUBMITTED],
        "evictions": [{"pod": "p", "node": "n", "by": "default/other-1", "action": "a"}],
    }
    found = outcome(plan, "", pasted=pasted_names(b"kind: Job\nmetadata: {name: train}\n"))
    assert [each.name for each in found["submitted"]] == ["default/train-default-train"]
    assert found["evictions"] == []


def test_messages_of_the_command_are_errors_and_warnings() -> None:
    found = outcome(None, "warning: a\nError: -: bad field\n  spec.tasks: use a list\nwarning: b\n")
    assert found["errors"] == ["-: bad field\n  spec.tasks: use a list"]
    assert found["warnings"] == ["a", "b"]
    assert outcome(None, "", "it takes too long")["errors"] == ["it takes too long"]


@pytest.mark.parametrize("text", [b"a: [", b"\x00", b"- - -", b"metadata: 5", b"items: 3"])
def test_names_of_pasted_nonsense_select_nothing_or_everything(text: bytes) -> None:
    assert not pasted_names(text)
