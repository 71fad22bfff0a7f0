"""The plugin usage: nodes judged by their real load."""

from __future__ import annotations

import math
from typing import Any

import pytest

from kilauea.api.meta import Object
from kilauea.api.times import SECOND, format_time
from kilauea.engine.actions import ACTIONS
from kilauea.engine.events import Changed, Measured
from kilauea.engine.explain.conf_check import check_conf
from kilauea.engine.model.loads import NodeLoad
from kilauea.engine.plan import Plan
from kilauea.engine.plugins import PLUGINS
from kilauea.engine.session import Session
from kilauea.engine.state import ClusterState
from support.builders import (
    NOW,
    Data,
    Objects,
    best_effort,
    binds,
    conf,
    group,
    node,
    pending,
    plan_in,
    plugin,
    pod,
    queue,
    state_of,
)
from support.loads import node_metrics
from support.probes import inside

MINUTE = 60 * SECOND
HOT_CPU = "the CPU load of the node exceeds the upper limit."
HOT_MEMORY = "the memory load of the node exceeds the upper limit."


def usage_conf(arguments: Data | None = None, **flags: bool) -> Data:
    return conf("allocate, backfill", ["gang"], ["predicates", plugin("usage", arguments, **flags)])


USAGE = usage_conf()


def measured(*objects: Objects, **loads: tuple[float, float] | NodeLoad) -> ClusterState:
    """A cluster in which nodes have loads: cpu and memory in percent, measured now."""
    state = state_of(*objects)
    full = {n: load if isinstance(load, NodeLoad) else NodeLoad(*load, NOW) for n, load in loads.items()}
    state.apply(Measured(full))
    return state


def findings(plan: Plan) -> list[str]:
    return [str(finding) for finding in plan.findings]


# --- hot nodes


@pytest.mark.parametrize(
    ("load", "arguments", "reason"),
    [
        pytest.param((80, 80), {}, "", id="a load at the threshold is not above it"),
        pytest.param((80.1, 0), {}, HOT_CPU, id="cpu"),
        pytest.param((0, 80.1), {}, HOT_MEMORY, id="memory"),
        pytest.param((90, 90), {}, HOT_CPU, id="cpu is told first"),
        pytest.param((50, 0), {"thresholds.cpu": 40}, HOT_CPU, id="a threshold of its own"),
        pytest.param((50, 0), {"thresholds": {"cpu": 40}}, HOT_CPU, id="in a map"),
        pytest.param((0, 50), {"thresholds": {"mem": 40}}, HOT_MEMORY, id="memory in a map"),
        pytest.param((0, 50), {"thresholds": {"memory": 40}}, HOT_MEMORY, id="by its full name"),
        pytest.param((90, 90), {"thresholds": {"cpu": 95, "mem": 95}}, "", id="thresholds that are not reached"),
        pytest.param((0.5, 0), {"thresholds.cpu": 0}, HOT_CPU, id="a threshold of nothing"),
        pytest.param((100, 100), {"thresholds.cpu": 100, "thresholds.mem": 100}, "", id="a threshold of everything"),
    ],
)
def test_a_hot_node_takes_no_pod_and_says_why(load: tuple[float, float], arguments: Data, reason: str) -> None:
    plan = plan_in(measured(node("n1"), group(), pod("p"), n1=load), usage_conf(arguments))
    if reason:
        assert pending(plan)["p"].message == f"0/1 nodes are unavailable: 1 {reason}."
    else:
        assert binds(plan) == {"p": "n1"}


def test_a_hot_node_is_passed_over_for_another() -> None:
    state = measured(node("n1"), node("n2"), group(), pod("p"), n1=(95, 10), n2=(50, 50))
    assert binds(plan_in(state, USAGE)) == {"p": "n2"}


def test_without_the_predicate_nodes_are_only_scored() -> None:
    state = measured(node("n1"), node("n2"), group(), pod("p"), pod("q"), n1=(95, 10), n2=(96, 11))
    assert binds(plan_in(state, usage_conf(enablePredicate=False)))["p"] == "n1"


def test_evictions_do_not_cool_a_node_so_none_is_made() -> None:
    document = conf("allocate, preempt", ["priority", "gang"], ["predicates", "usage"])
    state = measured(
        node("n1", cpu=1),
        group("low", phase="Running"),
        pod("old", "low", node="n1", priority=1),
        group("high"),
        pod("new", "high", priority=9),
        n1=(95, 10),
    )
    assert plan_in(state, document).evictions == ()


# --- loads that say nothing


@pytest.mark.parametrize(
    ("load", "told"),
    [
        pytest.param(NodeLoad(99, 99, NOW - 5 * MINUTE), None, id="five minutes old: still believed"),
        pytest.param(
            NodeLoad(99, 99, NOW - 5 * MINUTE - 1), "the load of node n1 is not of the last five minutes", id="older"
        ),
        pytest.param(NodeLoad(99, 99, NOW + 6 * MINUTE), "the load of node n1 is not of the last five", id="to come"),
        pytest.param(NodeLoad(math.nan, 99, NOW), "the load of node n1 is unknown", id="no number"),
        pytest.param(NodeLoad(math.inf, 99, NOW), "the load of node n1 is unknown", id="infinite"),
        pytest.param(NodeLoad(-1, 99, NOW), "the load of node n1 is unknown", id="negative"),
        pytest.param(NodeLoad(1e300, 99, NOW), "the load of node n1 is unknown", id="huge"),
        pytest.param(NodeLoad(99, 99, 0), "the load of node n1 is unknown", id="without a time"),
    ],
)
def test_a_node_whose_load_says_nothing_is_not_judged_by_it_and_is_named(load: NodeLoad, told: str | None) -> None:
    plan = plan_in(measured(node("n1"), group(), pod("p"), n1=load), USAGE)
    assert binds(plan) == ({} if told is None else {"p": "n1"})
    assert [told is not None and told in text for text in findings(plan)] == [True] * (told is not None)


def test_many_nodes_without_a_load_are_one_finding() -> None:
    plan = plan_in(measured([node(f"n{i}") for i in range(1, 5)], n2=(10, 10)), USAGE)
    (text,) = findings(plan)
    assert text.startswith("plugin usage: the load of node n1 and 2 other nodes is unknown: usage does not judge by it")


def test_a_stale_finding_names_the_newest_time() -> None:
    old, older = NodeLoad(9, 9, NOW - 6 * MINUTE), NodeLoad(9, 9, NOW - 7 * MINUTE)
    (text,) = findings(plan_in(measured(node("n1"), node("n2"), n1=older, n2=old), USAGE))
    assert f"(newest: {format_time(NOW - 6 * MINUTE)})" in text


def test_a_node_without_a_load_gets_no_score_and_a_measured_one_goes_first() -> None:
    state = measured(node("n1"), node("n2"), group(), pod("p"), n2=(79, 79))
    assert binds(plan_in(state, USAGE)) == {"p": "n2"}


def test_loads_of_nodes_that_do_not_exist_are_passed_over() -> None:
    plan = plan_in(measured(node("n1"), group(), pod("p"), n1=(10, 10), gone=(99, 99)), USAGE)
    assert (binds(plan), findings(plan)) == ({"p": "n1"}, [])


# --- NodeMetrics


def test_node_metrics_are_loads_of_the_capacity() -> None:
    objects = [node("n1", cpu=4), node("n2", cpu=4), group(), pod("p"), node_metrics("n1", cpu="3300m")]
    plan = plan_in(state_of(objects, node_metrics("n2", cpu="3200m")), USAGE)
    assert (binds(plan), findings(plan)) == ({"p": "n2"}, [])


@pytest.mark.parametrize("order", [1, -1])
def test_the_newer_of_two_measurements_counts(order: int) -> None:
    state = measured(node("n1"), group(), pod("p"), n1=NodeLoad(99, 0, NOW - order * SECOND))
    state.apply(Changed(node_metrics("n1", cpu="0")))
    assert binds(plan_in(state, USAGE)) == ({"p": "n1"} if order == 1 else {})


@pytest.mark.parametrize(
    ("field", "value", "told"),
    [
        ("timestamp", "noon", "timestamp: "),
        ("timestamp", None, "timestamp: "),
        ("usage", {"cpu": "1"}, "usage[memory]: missing"),
        ("usage", {"cpu": "much", "memory": "1Gi"}, "usage[cpu]: "),
        ("usage", {"cpu": "-1", "memory": "1Gi"}, "usage[cpu]: '-1' is negative"),
        ("usage", None, "usage[cpu]: missing"),
    ],
)
def test_node_metrics_that_cannot_be_read_are_left_out_and_named(field: str, value: Any, told: str) -> None:
    odd = node_metrics("n1", cpu="4")
    setattr(odd, field, value)
    state = state_of(node("n1"), group(), pod("p"), odd)
    assert [p.message.startswith(told) for p in state.problems.values()] == [True]
    assert binds(plan_in(state, USAGE)) == {"p": "n1"}


def test_the_load_of_a_node_that_offers_nothing_is_unknown() -> None:
    plan = plan_in(state_of(node("n1", cpu=None), node_metrics("n1")), USAGE)
    assert [text.startswith("plugin usage: the load of node n1 is unknown") for text in findings(plan)] == [True]


# --- cool nodes


def score(state: ClusterState, arguments: Data | None = None) -> list[float]:
    """Scores of nodes for a pod, by usage alone."""
    return scored(state, conf("allocate", ["gang", plugin("usage", arguments)]))


def scored(state: ClusterState, document: Data) -> list[float]:
    return inside(do=scores, conf=document | {"actions": ""}, state=state)


def scores(session: Session) -> list[float]:
    """The score of each node for pod `p`; 0 if the plugin has none."""
    shape = session.shape_of(session.state.tasks["ns/p"])
    found = [s.function(shape, session.nodes.all()) for _, s in session.points.walk("node_score") if s.applies(shape)]
    return [float(x) for x in found[0]] if found else [0.0] * len(session.nodes)


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        pytest.param({}, 243.75, id="the example of the specification"),
        pytest.param({"usage.weight": 1}, 48.75, id="the weight"),
        pytest.param({"cpu.weight": 0}, 250.0, id="memory alone"),
        pytest.param({"memory.weight": 0}, 237.5, id="cpu alone"),
        pytest.param({"cpu.weight": 3}, 240.625, id="more of cpu"),
        pytest.param({"cpu.weight": 0, "memory.weight": 0}, 0.0, id="without weights"),
        pytest.param({"usage.weight": 0}, 0.0, id="without a weight"),
    ],
)
def test_the_score_is_what_is_unused(arguments: Data, expected: float) -> None:
    # 2000m of young pods: 2 cpus of requests of which 70 % count, and 600m.
    young = [pod("young", "r", cpu="2000m", memory="0", node="n1")]
    state = measured(
        [node("n1", cpu=16), node("n2", cpu=16)], group("r", phase="Running"), young, gang_of_one(), n1=(40, 50)
    )
    assert score(state, {"estimator.request_ratio": 1, **arguments})[0] == pytest.approx(expected, rel=1e-9)


def gang_of_one() -> list[Object]:
    return [group(), pod("p")]


def started(obj: Object, seconds: float) -> Object:
    """A pod that started so many seconds before the cycle."""
    obj.status.start_time = format_time(NOW - int(seconds * SECOND))  # type: ignore[attr-defined]
    return obj


HALF = 250.0
"""The score of a node of which half of everything is in use."""


@pytest.mark.parametrize(
    ("running", "section", "counts"),
    [
        pytest.param(started(pod("r", "r", node="n1"), 29), {}, True, id="started within the interval"),
        pytest.param(started(pod("r", "r", node="n1"), 30), {}, False, id="started before it"),
        pytest.param(started(pod("r", "r", node="n1"), 59), {"interval": "60s"}, True, id="a longer interval"),
        pytest.param(pod("r", "r", node="n1"), {}, True, id="without a start time"),
        pytest.param(pod("r", "r", node="n1", phase="Pending"), {}, True, id="bound, and not started"),
        pytest.param(pod("r", "r", node="n1", phase="Pending", deleting=True), {}, False, id="terminating"),
        pytest.param(pod("r", "r", node="n1", phase="Succeeded"), {}, False, id="ended"),
    ],
)
def test_pods_count_as_long_as_the_measurement_cannot_contain_them(
    running: Object, section: Data, counts: bool
) -> None:
    state = measured(node("n1"), node("n2"), group("r", phase="Running"), running, gang_of_one(), n1=(50, 50))
    document = conf("allocate", ["gang", "usage"]) | {"metrics": section}
    assert (scored(state, document)[0] < HALF) is counts


def limited(name: str, requests: Data, limits: Data) -> Object:
    resources = {"requests": requests, "limits": limits}
    return pod(name, "r", node="n1", containers=[{"name": "c", "resources": resources}])


@pytest.mark.parametrize(
    ("young", "arguments", "milli"),
    [
        pytest.param(pod("y", "r", cpu="1", node="n1"), {}, 700, id="a part of the request"),
        pytest.param(limited("y", {"cpu": "1"}, {"cpu": "2"}), {}, 700, id="what may be burst counts for nothing"),
        pytest.param(
            limited("y", {"cpu": "1"}, {"cpu": "2"}), {"estimator.burst_ratio": 0.5}, 1200, id="or for its part"
        ),
        pytest.param(
            limited("y", {"cpu": "1"}, {"cpu": "1100m"}),
            {"estimator.request_ratio": 1, "estimator.risk_threshold": 0},
            1100,
            id="never more than the limit",
        ),
        pytest.param(
            pod("y", "r", cpu="1", node="n1"), {"estimator.risk_threshold": 0.4}, 840, id="more on a node at risk"
        ),
        pytest.param(best_effort("y", "r", node="n1"), {}, 250, id="a pod that asks for nothing"),
        pytest.param(best_effort("y", "r", node="n1"), {"estimator.be_cpu": 100}, 100, id="of so many milli-cores"),
        pytest.param(
            best_effort("y", "r", node="n1"), {"estimator.be_cpu": "1"}, 1, id="a text of digits is not a quantity"
        ),
        pytest.param(best_effort("y", "r", node="n1"), {"estimator.be_cpu": "1.5"}, 1500, id="of a quantity"),
        pytest.param(
            best_effort("y", "r", node="n1"), {"estimator.risk_threshold": 0.5}, 300, id="which at risk is more, too"
        ),
        pytest.param(pod("y", "r", cpu=None, memory="1Gi", node="n1"), {}, 0, id="no cpu is asked"),
    ],
)
def test_what_a_young_pod_uses_is_estimated(young: Object, arguments: Data, milli: float) -> None:
    state = measured(
        [node("n1", cpu=16), node("n2", cpu=16)], group("r", phase="Running"), young, gang_of_one(), n1=(50, 50)
    )
    found = score(state, {"memory.weight": 0, **arguments})[0]
    assert found == pytest.approx((0.5 - milli / 16000) * 500, rel=1e-9)


def test_each_placement_makes_its_node_less_attractive_for_the_next() -> None:
    pods = [pod(f"p{i}", cpu="1") for i in range(4)]
    state = measured(node("n1", cpu=8), node("n2", cpu=8), group(), pods, n1=(50, 50), n2=(51, 50))
    assert list(binds(plan_in(state, USAGE)).values()) == ["n1", "n2", "n1", "n2"]


def test_what_is_undone_leaves_no_trace() -> None:
    def try_and_undo(session: Session) -> tuple[list[float], list[float]]:
        before, statement = scores(session), session.statement()
        statement.allocate(session.state.tasks["ns/p"], 0)
        assert scores(session) != before
        statement.discard()
        statement.evict(session.state.tasks["ns/old"], "probe")
        statement.discard()
        return before, scores(session)

    old = started(pod("old", "r", node="n1"), 600)
    state = measured(node("n1"), node("n2"), group("r", phase="Running"), old, gang_of_one(), n1=(50, 50), n2=(10, 10))
    before, after = inside(do=try_and_undo, conf=conf("", ["gang", "usage"]), state=state)
    assert before == after


# --- arguments, and a cluster that has no loads


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ({"usage.weight": -1}, "usage.weight cannot be less than 0, but is -1; 5 is kept"),
        ({"cpu.weight": 1.5}, "cpu.weight takes an integer"),
        ({"thresholds.cpu": 101}, "thresholds.cpu cannot be more than 100, but is 101; 80 is kept"),
        ({"thresholds": {"cpu": 101}}, "thresholds.cpu cannot be more than 100, but is 101; its default is kept"),
        ({"thresholds": {"disk": 10}}, "thresholds: takes cpu and mem, not 'disk'; it is ignored"),
        ({"thresholds": 80}, "thresholds takes a map"),
        ({"estimator.request_ratio": 2}, "estimator.request_ratio cannot be more than 1"),
        ({"estimator.risk_factor": 0.5}, "estimator.risk_factor cannot be less than 1"),
        ({"estimator.be_cpu": "much"}, "estimator.be_cpu: "),
        ({"estimator.be_mem": -5}, "estimator.be_mem: cannot be less than 0, but is '-5'; 200 is kept"),
        ({"threshold.cpu": 5}, "unknown argument 'threshold.cpu'; did you mean 'thresholds.cpu'?"),
    ],
)
def test_a_wrong_argument_is_named_and_its_default_kept(arguments: Data, told: str) -> None:
    plan = plan_in(measured(node("n1"), group(), pod("p"), n1=(10, 10)), usage_conf(arguments))
    assert [told in text for text in findings(plan)] == [True]
    assert binds(plan) == {"p": "n1"}


def test_without_any_load_pods_are_placed_as_without_the_plugin() -> None:
    objects: list[Objects] = [queue("q"), node("n1"), node("n2"), group(), [pod(f"p{i}") for i in range(5)]]
    plain = plan_in(state_of(objects), conf("allocate, backfill", ["gang"], ["predicates"]))
    assert plan_in(state_of(objects), USAGE).binds == plain.binds


def test_the_example_of_the_page_is_a_sound_configuration() -> None:
    document = usage_conf({"usage.weight": 5, "thresholds": {"cpu": 80, "mem": 70}})
    section = {"type": "prometheus", "address": "http://prometheus.monitoring:9090", "interval": "30s"}
    assert [
        i.message for i in check_conf(document | {"metrics": section}, PLUGINS, ACTIONS) if "usage" in i.where
    ] == []
