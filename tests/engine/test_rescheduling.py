"""The plugin rescheduling: pods that leave overloaded nodes for idle ones."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import msgspec
import pytest

from kilauea.api import scheduling
from kilauea.api.meta import Object
from kilauea.api.times import SECOND, format_time
from kilauea.engine.actions import ACTIONS
from kilauea.engine.cycle import cycle
from kilauea.engine.events import Measured
from kilauea.engine.explain.conf_check import check_conf
from kilauea.engine.model.attempts import AdmissionBackoff
from kilauea.engine.model.loads import NodeLoad
from kilauea.engine.plan import Plan
from kilauea.engine.plugins import PLUGINS
from kilauea.engine.session import Session
from kilauea.engine.state import ClusterState
from kilauea.simulator.cluster import SimulatedCluster
from support.builders import (
    NOW,
    Data,
    Objects,
    binds,
    conf,
    flat,
    group,
    labels_of,
    node,
    parsed,
    plan_in,
    plugin,
    pod,
    priority_class,
    queue,
    short,
    state_of,
    with_queue,
)
from support.probes import action_called

OWNER = [{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web", "uid": "r", "controller": True}]
PREEMPTABLE = "volcano.sh/preemptable"
BOUNDS: Data = {"thresholds": {"cpu": 50, "memory": 50}, "targetThresholds": {"cpu": 70, "memory": 70}}


def relief(**params: Any) -> Data:
    return {"name": "lowNodeUtilization", "params": {**BOUNDS, **params}}


def document(*strategies: Data, actions: str = "allocate, shuffle", **arguments: Any) -> Data:
    given = {"strategies": list(strategies or [relief()]), **arguments}
    return conf(actions, ["priority", "gang"], ["predicates", plugin("rescheduling", given)])


def owned(obj: Object) -> Object:
    """A pod that its controller creates again."""
    data = msgspec.to_builtins(obj)
    data["metadata"]["ownerReferences"] = OWNER
    return msgspec.convert(data, type(obj))


def web(name: str, cpu: str = "2", of: str = "web", at: str = "hot", **more: Any) -> Object:
    """A pod of a replica set on the hot node."""
    more.setdefault("memory", "1Gi")
    return owned(pod(name, of, cpu=cpu, node=at, **more))


def webs(*names: str, **more: Any) -> list[Object]:
    return [group("web", phase="Running"), *(web(name, **more) for name in names)]


def cluster(*objects: Objects, **loads: tuple[float, float]) -> ClusterState:
    """Two nodes of 32 cores: `hot` at 85 % of cpu, `cool` at 10 %, unless told otherwise."""
    state = state_of(node("hot", cpu=32, memory="64Gi"), node("cool", cpu=32, memory="64Gi"), *objects)
    measured = {"hot": (85.0, 10.0), "cool": (10.0, 10.0), **loads}
    state.apply(Measured({name: NodeLoad(*load, NOW) for name, load in measured.items()}))
    return state


def moved(plan: Plan) -> list[str]:
    assert all(e.action == "shuffle" for e in plan.evictions)
    return [short(e.pod) for e in plan.evictions]


def findings(plan: Plan) -> list[str]:
    return [str(finding) for finding in plan.findings]


# --- how much


def test_pods_leave_until_the_node_is_below_its_target() -> None:
    plan = plan_in(cluster(webs("a", "b", "c", "d", "e")), document())
    assert moved(plan) == ["a", "b", "c"], "each is 6.25 % of the node: 85, 78.75, 72.5, 66.25"


def test_they_leave_only_as_long_as_idle_nodes_have_room_up_to_the_target() -> None:
    plan = plan_in(
        cluster(webs("a", "b", "c"), hot=(99, 10), cool=(49, 10)), document(relief(targetThresholds={"cpu": 52}))
    )
    assert moved(plan) == ["a"], "52 % less 49 % of 32 cores is not a whole core, which one pod uses up"


def test_the_most_loaded_node_is_relieved_first() -> None:
    hotter = [node("hotter", cpu=32, memory="64Gi"), web("x", at="hotter"), web("y", at="hotter")]
    narrow = document(relief(targetThresholds={"cpu": 60}))
    plan = plan_in(cluster(webs("a", "b"), hotter, hotter=(95, 10), cool=(49, 10)), narrow)
    assert moved(plan) == ["x", "y"], "11 % of 32 cores are three and a half"


@pytest.mark.parametrize(
    ("loads", "more"),
    [
        pytest.param({"hot": (70, 10)}, [], id="none is above the target"),
        pytest.param({"cool": (50, 10)}, [], id="none is idle: cpu"),
        pytest.param({"cool": (10, 50)}, [], id="none is idle: memory"),
        pytest.param({"hot": (10, 10)}, [], id="all are idle"),
    ],
)
def test_nothing_moves_without_both_kinds_of_nodes(loads: dict[str, tuple[float, float]], more: list[Object]) -> None:
    assert moved(plan_in(cluster(webs("a", "b"), more, **loads), document())) == []


def test_a_node_that_is_full_of_memory_is_relieved_of_pods_with_memory() -> None:
    objects = [*webs("a", memory="0"), web("b", memory="20Gi")]
    assert moved(plan_in(cluster(objects, hot=(10, 90)), document())) == ["b"]


def test_numbers_of_pods_count_too() -> None:
    crowded = [node("hot", cpu=32, memory="64Gi", pods=4)]
    strategy = relief(thresholds={"pods": 20}, targetThresholds={"pods": 50})
    plan = plan_in(cluster(webs("a", "b", "c"), crowded, hot=(1, 1)), document(strategy))
    assert moved(plan) == ["a", "b"], "three of four, then two of four, which is the target, then one"


def test_a_cordoned_node_is_not_idle() -> None:
    cordoned = [node("cool", cpu=32, memory="64Gi", unschedulable=True)]
    assert moved(plan_in(cluster(webs("a"), cordoned), document())) == []


@pytest.mark.parametrize(("number", "expected"), [(0, ["a", "b"]), (1, [])])
def test_so_many_nodes_must_be_idle(number: int, expected: list[str]) -> None:
    assert moved(plan_in(cluster(webs("a", "b", "c")), document(relief(numberOfNodes=number)))) == expected


# --- which pods


def running(name: str, seconds: int, **more: Any) -> Object:
    made = web(name, **more)
    made.status.start_time = format_time(NOW - seconds * SECOND)  # type: ignore[attr-defined]
    return made


def big(replicas: int, name: str) -> list[Object]:
    others = [web(f"{name}-{i}", of=name, at="cool", cpu="100m") for i in range(replicas)]
    return [group(name, phase="Running"), web(f"{name}-hot", of=name), *others]


@pytest.mark.parametrize(
    ("strategies", "pods", "first"),
    [
        pytest.param([], [web("a", priority=9), web("b", priority=3)], "b", id="low priority first"),
        pytest.param(
            [],
            [
                web("a", containers=[{"name": "c", "resources": {"limits": {"cpu": "2", "memory": "1Gi"}}}]),
                web("b"),
            ],
            "b",
            id="of equal priority the lower class of service",
        ),
        pytest.param(
            ["shortLifeTimeFirst"], [running("a", 900), running("b", 60, priority=9)], "b", id="short life time first"
        ),
        pytest.param(
            ["bigObjectFirst"], [web("a", cpu="2"), web("b", cpu="4", priority=9)], "b", id="big object first"
        ),
        pytest.param(
            ["lowPriorityFirst", "bigObjectFirst"],
            [web("a", cpu="4", priority=9), web("b", cpu="2", priority=3)],
            "b",
            id="the strategy named first decides",
        ),
    ],
)
def test_the_order_in_which_pods_leave(strategies: list[str], pods: list[Object], first: str) -> None:
    state = cluster(group("web", phase="Running"), pods)
    assert moved(plan_in(state, document(*({"name": n} for n in strategies), relief())))[0] == first


def test_jobs_with_more_replicas_go_first() -> None:
    state = cluster(big(1, "few"), big(3, "many"), hot=(72, 10))
    assert moved(plan_in(state, document({"name": "moreReplicasFirst"}, relief()))) == ["many-hot"]


def test_the_priority_of_the_group_counts_for_low_priority_first() -> None:
    classes = [priority_class("low", 1), priority_class("high", 100)]
    groups = [group("x", phase="Running", priority="high"), group("y", phase="Running", priority="low")]
    state = cluster(classes, groups, web("a", of="x", priority=1), web("b", of="y", priority=5), hot=(72, 10))
    assert moved(plan_in(state, document({"name": "lowPriorityFirst"}, relief()))) == ["b"]


@pytest.mark.parametrize(
    "kept",
    [
        pytest.param(pod("p", "web", cpu="2", node="hot"), id="a pod without a controller does not come back"),
        pytest.param(web("p", annotations={PREEMPTABLE: "false"}), id="a pod that may not be preempted"),
        pytest.param(web("p", priorityClassName="system-node-critical"), id="a pod of the system"),
        pytest.param(web("p", priority=2_000_000_000), id="a pod at the class of pods that stay"),
        pytest.param(web("p", phase="Pending"), id="a pod that does not run yet"),
        pytest.param(web("p", deleting=True), id="a pod that is ending"),
        pytest.param(web("p", schedulerName="other"), id="a pod of another scheduler"),
        pytest.param(web("p", cpu="0"), id="a pod that asks for none of what is too much"),
        pytest.param(web("p", nodeSelector={"disk": "ssd"}), id="a pod that no idle node takes"),
        pytest.param(web("p", cpu="33"), id="a pod that is larger than an idle node"),
    ],
)
def test_these_stay(kept: Object) -> None:
    assert moved(plan_in(cluster(group("web", phase="Running"), kept), document())) == []


def test_without_node_fit_a_pod_goes_that_no_idle_node_takes_now() -> None:
    state = cluster(group("web", phase="Running"), web("p", nodeSelector={"disk": "ssd"}))
    assert moved(plan_in(state, document(relief(nodeFit=False)))) == ["p"]


def test_a_priority_class_of_ones_own_keeps_pods() -> None:
    state = cluster(priority_class("mine", 50), webs("a", priority=50), web("b", priority=49))
    assert moved(plan_in(state, document(relief(thresholdPriorityClassName="mine")))) == ["b"]


def test_offline_only_takes_pods_that_say_that_they_may_be_preempted() -> None:
    state = cluster(webs("a"), web("b", annotations={PREEMPTABLE: "true"}))
    assert moved(plan_in(state, document({"name": "offlineOnly"}, relief()))) == ["b"]


def test_queues_and_labels_select_pods() -> None:
    groups = [queue("q"), queue("other"), group("o", "other", phase="Running")]
    pods = [web("a", labels={"tier": "x"}), web("b"), web("c", of="o", labels={"tier": "x"})]
    state = cluster(groups, group("web", phase="Running"), pods)
    assert moved(plan_in(state, document(queueSelector=["q"], labelSelector={"tier": "x"}))) == ["a"]


def test_pods_that_share_the_name_of_another_are_told_apart() -> None:
    elsewhere = [group("web", phase="Running", namespace="other"), web("a", namespace="other", at="cool")]
    assert [e.pod for e in plan_in(cluster(webs("a"), elsewhere), document()).evictions] == ["ns/a"]


# --- what is kept while pods move


@pytest.mark.parametrize(
    ("minimum", "expected"),
    [
        pytest.param(1, ["a", "b"], id="the rest of the gang is enough"),
        pytest.param(2, ["a"], id="one can be spared"),
        pytest.param(3, [], id="the gang needs all"),
    ],
)
def test_no_gang_falls_below_its_minimum(minimum: int, expected: list[str]) -> None:
    state = cluster(group("web", minimum=minimum, phase="Running"), [web(n) for n in "abc"], hot=(99, 10))
    assert moved(plan_in(state, document())) == expected


def test_a_gang_of_one_pod_moves_as_a_whole() -> None:
    assert moved(plan_in(cluster(webs("a")), document())) == ["a"]


def budget(selector: Mapping[str, str], allowed: int, name: str = "b") -> Object:
    data = {
        "kind": "PodDisruptionBudget",
        "metadata": {"name": name, "namespace": "ns"},
        "spec": {"selector": labels_of(selector)},
        "status": {"disruptionsAllowed": allowed},
    }
    return msgspec.convert(data, scheduling.PodDisruptionBudget)


@pytest.mark.parametrize(("allowed", "expected"), [(0, []), (1, ["a"]), (2, ["a", "b"]), (9, ["a", "b", "c"])])
def test_budgets_are_honoured_across_the_whole_move(allowed: int, expected: list[str]) -> None:
    state = cluster(webs("a", "b", "c", "d", labels={"app": "web"}), budget({"app": "web"}, allowed))
    assert moved(plan_in(state, document())) == expected


def test_every_budget_of_a_pod_has_to_allow_it() -> None:
    both = [budget({"app": "web"}, 9), budget({"tier": "x"}, 0, "c")]
    objects = [*webs("a", labels={"app": "web", "tier": "x"}), web("b", labels={"app": "web"})]
    assert moved(plan_in(cluster(objects, both), document())) == ["b"]


def test_evictions_of_other_actions_in_the_cycle_are_charged_to_the_budgets() -> None:
    def evict_one(session: Session) -> None:
        statement = session.statement()
        statement.evict(session.state.tasks["ns/a"], "first")
        statement.commit()

    state = cluster(webs("a", "b", "c", labels={"app": "web"}), budget({"app": "web"}, 1))
    plan = plan_in(state, document(actions="first, shuffle"), actions=[action_called("first", evict_one)])
    assert [(short(e.pod), e.action) for e in plan.evictions] == [("a", "first")]


def test_two_pods_are_not_sent_to_room_for_one() -> None:
    small = [node("cool", cpu=3, memory="64Gi")]
    wide = document(relief(targetThresholds={"cpu": 100, "memory": 70}, thresholds={"cpu": 90, "memory": 50}))
    plan = plan_in(cluster(webs("a", "b"), small, hot=(99, 80), cool=(1, 1)), wide)
    assert moved(plan) == ["a"]


# --- when


def turn(state: ClusterState, backoff: AdmissionBackoff, **arguments: Any) -> Plan:
    usable, plugins, actions = parsed(document(**arguments))
    return cycle(state, usable, NOW, plugins=plugins, actions=actions, backoff=backoff)


def test_pods_move_once_an_interval() -> None:
    state, minute = cluster(webs("a")), 60 * SECOND
    backoff, found = AdmissionBackoff(), []
    for number in range(12):
        plan = turn(state, replace(backoff, moment=number * minute))
        assert plan.backoff is not None
        backoff = plan.backoff
        found += [number] if plan.evictions else []
    assert found == [0, 5, 10]


@pytest.mark.parametrize(("ran", "expected"), [(0, []), (299, []), (300, ["a"])])
def test_a_process_waits_an_interval_after_its_start(ran: int, expected: list[str]) -> None:
    assert moved(turn(cluster(webs("a")), AdmissionBackoff(moment=7 + ran * SECOND, since=7))) == expected


def test_a_turn_without_any_known_load_is_not_used_up() -> None:
    state = cluster(webs("a"))
    state.apply(Measured({}))
    plan = turn(state, AdmissionBackoff())
    assert (plan.evictions, plan.backoff and plan.backoff.turns) == ((), {})
    assert ["is unknown: no pod is moved from or to there" in text for text in findings(plan)] == [True]


@pytest.mark.parametrize("stale", ["hot", "cool"])
def test_a_node_with_an_old_load_takes_no_part_and_is_named(stale: str) -> None:
    state = cluster(webs("a"))
    loads = {"hot": NodeLoad(85, 10, NOW), "cool": NodeLoad(10, 10, NOW)}
    state.apply(Measured({**loads, stale: loads[stale]._replace(at=NOW - 301 * SECOND)}))
    plan = plan_in(state, document())
    assert moved(plan) == []
    assert [f"load of node {stale} is older than five minutes" in text for text in findings(plan)] == [True]


def test_what_leaves_comes_to_an_idle_node_and_not_back() -> None:
    objects = with_queue(flat([node("hot", cpu=32), node("idle", cpu=32), webs("a", "b", "c", "d")]))
    state = state_of(objects)
    loads = Measured({"hot": NodeLoad(85, 10, NOW), "idle": NodeLoad(10, 10, NOW)})
    state.apply(loads)
    world, backoff = SimulatedCluster(objects, NOW), AdmissionBackoff()
    usable, plugins, actions = parsed(document())
    for _ in range(4):
        plan = cycle(state, usable, NOW, plugins=plugins, actions=actions, backoff=backoff)
        backoff = plan.backoff or backoff
        for event in world.carry_out(plan):
            state.apply(event)
    assert [(pod.node) for _, pod in sorted(state.tasks.items())] == ["idle", "idle", "idle", "hot"]


def test_new_pods_keep_away_from_nodes_above_the_target_while_others_take_them() -> None:
    objects: list[Objects] = [node("z", cpu=32), group("n"), [pod(f"p{i}", "n", cpu="20") for i in range(3)]]
    state = cluster(objects, cool=(90, 90), z=(10, 10), hot=(10, 10))
    assert binds(plan_in(state, document())) == {"p0": "hot", "p1": "z", "p2": "cool"}


# --- arguments


@pytest.mark.parametrize(
    ("strategies", "arguments", "told"),
    [
        ([{"name": "lowNodeUtilisation"}, relief()], {}, "unknown strategy 'lowNodeUtilisation'; did you mean"),
        (["offlineOnly", relief()], {}, "takes maps with a name, not 'offlineOnly'"),
        ([{"name": "offlineOnly"}], {}, "none of them names nodes to relieve, so no pod is moved: add lowNode"),
        ([{"name": "lowNodeUtilization"}], {}, "moves no pod without thresholds and targetThresholds"),
        ([relief(thresholds={"cpu": 101})], {}, "to percents from 0 to 100, not cpu: 101; no pod is moved"),
        ([relief(thresholds={"disk": 1})], {}, "not disk: 1"),
        ([relief(thresholds=[20])], {}, "not thresholds: [20]"),
        ([relief(thresholds={"cpu": "a"})], {}, "not cpu: 'a'"),
        ([relief(thresholds={"cpu": 90})], {}, "the threshold of cpu is above its target"),
        ([relief(numberOfNodes="many")], {}, "numberOfNodes cannot be 'many'; 0 is kept"),
        ([relief(nodefit=True)], {}, "has no param 'nodefit'; did you mean 'nodeFit'?"),
        ([relief(thresholdPriorityClassName="none")], {}, "priority class none does not exist"),
        ([relief()], {"interval": "soon"}, "interval: "),
        ([relief()], {"interval": "0s"}, "interval: must be more than 0"),
        ([relief()], {"interval": 5}, "interval takes text"),
        ([relief()], {"metricsPeriod": "5m"}, "metricsPeriod takes 10m, not '5m'"),
        ([relief()], {"queueSelector": [5]}, "queueSelector: takes names of queues, not 5"),
        ([relief()], {"queueSelector": "q"}, "queueSelector takes a list, not 'q'"),
        ([relief()], {"labelSelector": ["x"]}, "labelSelector takes a map"),
    ],
)
def test_a_wrong_argument_is_named(strategies: list[Any], arguments: Data, told: str) -> None:
    given = {"strategies": strategies, **arguments}
    plan = plan_in(cluster(webs("a")), conf("shuffle", ["gang", "predicates", plugin("rescheduling", given)]))
    assert [told in text for text in findings(plan)] == [True]


def test_thresholds_may_stand_where_volcanos_design_has_them() -> None:
    nested = {"name": "lowNodeUtilization", "params": {"nodeResourceUtilizationThresholds": BOUNDS}}
    assert moved(plan_in(cluster(webs("a")), document(nested))) == ["a"]


def test_without_arguments_nothing_moves_and_the_plan_says_what_is_missing() -> None:
    plan = plan_in(cluster(webs("a")), conf("shuffle", ["gang", "predicates", "rescheduling"]))
    assert moved(plan) == []
    assert ["moves no pod without thresholds" in text for text in findings(plan)] == [True]


def test_the_example_of_the_page_is_a_sound_configuration() -> None:
    percents = {"cpu": 20, "memory": 20, "pods": 20}
    params = {"thresholds": percents, "targetThresholds": dict.fromkeys(percents, 50)}
    strategies: list[Data] = [
        {"name": "offlineOnly"},
        {"name": "lowPriorityFirst"},
        {"name": "lowNodeUtilization", "params": params},
    ]
    made = document(*strategies, actions="enqueue, allocate, backfill, shuffle")
    assert [i for i in check_conf(made, PLUGINS, ACTIONS) if "rescheduling" in i.where] == []
