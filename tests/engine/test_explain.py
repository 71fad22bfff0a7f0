"""Why a pod group waits, and the smallest change that admits it: what is promised holds on the cluster itself."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kilauea.api.meta import Object
from kilauea.api.quantity import amount, format_amount
from kilauea.engine.cycle import cycle
from kilauea.engine.explain.formatting import numbers
from kilauea.engine.explain.group import Change, Explanation, explain
from kilauea.engine.plan import Pending
from kilauea.simulator.planning import Result, plan_cycles
from kilauea.simulator.scenario import Scenario, build_state
from support.builders import (
    GPU,
    NOW,
    Data,
    build,
    conf,
    flat,
    gang,
    group,
    manifest,
    node,
    parsed,
    pod,
    priority_class,
    queue,
)

CONF = conf(
    "enqueue, allocate, backfill", ["priority", "gang"], ["overcommit", "predicates", "proportion", "nodeorder"]
)
PLAIN = conf("allocate", ["priority", "gang"], ["predicates", "nodeorder"])


def explained(objects: Sequence[Any], key: str, conf: Data) -> tuple[Explanation, Result]:
    result = plan_cycles(Scenario(flat(objects), parsed(conf)[0], NOW))
    return result.explain(key), result


def admitted(objects: Sequence[Object], key: str, conf: Data) -> bool:
    state = build_state(objects)
    plan = cycle(state, parsed(conf)[0], NOW)
    return explain(plan, state, key).verdict in ("starts", "starts in part")


def starting(objects: Sequence[Object], key: str, conf: Data) -> int:
    """Number of pods of a group that start."""
    state = build_state(objects)
    return sum(1 for bind in cycle(state, parsed(conf)[0], NOW).binds if state.tasks[bind.pod].group == key)


def applied(objects: Sequence[Object], change: Change, by: int) -> list[Object]:
    """The objects with a change of this size, done as a user would do it, and with what belongs to it."""
    if change.also is not None:
        objects = applied(objects, change.also, int(change.also.by))
    out = [manifest(obj) for obj in objects]
    if change.what == "node":
        like = next(o for o in out if o["kind"] == "Node" and o["metadata"]["name"] == change.object)
        offer = {**like["status"]["allocatable"], change.resource: format_amount(change.resource, by)}
        labels = {**like["metadata"].get("labels", {}), "kubernetes.io/hostname": "another"}
        meta = {"name": "another", "labels": labels}
        out.append({**like, "metadata": meta, "status": {"allocatable": offer}})
    if change.what == "nodes":
        like = next(o for o in out if o["kind"] == "Node" and o["metadata"]["name"] == change.object)
        for number in range(by):
            name = f"another-{number}"
            labels = {**like["metadata"].get("labels", {}), "kubernetes.io/hostname": name}
            out.append({**like, "metadata": {"name": name, "labels": labels}})
    for data in list(out):
        name = data["metadata"]["name"]
        key = f"{data['metadata'].get('namespace', 'default')}/{name}"
        if change.what == "quota" and data["kind"] == "Queue" and name == change.object:
            given_ = amount(change.resource, data["spec"]["capability"][change.resource])
            data["spec"]["capability"][change.resource] = format_amount(change.resource, given_ + by)
        if change.what == "weight" and data["kind"] == "Queue" and name == change.object:
            data["spec"]["weight"] = data["spec"].get("weight", 1) + by
        if change.what == "minimum" and data["kind"] == "PodGroup" and key == change.object:
            data["spec"]["minMember"] -= by
        annotations = data["metadata"].get("annotations", {})
        theirs = f"{data['metadata'].get('namespace', 'default')}/{annotations.get('scheduling.k8s.io/group-name')}"
        if change.what == "job" and by and change.object in (key if data["kind"] == "PodGroup" else "", theirs):
            out.remove(data)
    return [build(data) for data in out]


def test_a_gang_that_lacks_room_names_the_resource_and_the_nodes() -> None:
    objects = [node("n1", cpu=4), node("n2", cpu=4), queue("q"), gang("g", 3, cpu="3")]
    explanation, _ = explained(objects, "ns/g", PLAIN)
    assert explanation.verdict == "waits"
    first = explanation.blockers[0]
    assert (first.code, first.resource, first.asked, first.left) == ("Unschedulable", "cpu", 3000, 1000)
    assert [(n.reason, n.count, n.example) for n in explanation.nodes] == [("Insufficient cpu", 2, "n1")]


def test_a_lower_minimum_comes_before_a_new_node() -> None:
    objects = [node("n1", cpu=4), queue("q"), gang("g", 2, cpu="3")]
    explanation, _ = explained(objects, "ns/g", PLAIN)
    assert explanation.change == Change("minimum", "ns/g", "", 1)


def test_one_pod_that_is_too_large_needs_a_node_of_its_size() -> None:
    objects = [node("n1", cpu=4), queue("q"), group("g", minimum=1), pod("g-0", cpu="6500m")]
    explanation, _ = explained(objects, "ns/g", PLAIN)
    assert explanation.change == Change("node", "n1", "cpu", 6500)


def test_a_gang_that_wants_one_host_needs_a_node_that_is_larger_than_any() -> None:
    together = {
        "podAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": [
                {"labelSelector": {"matchLabels": {"job": "g"}}, "topologyKey": "kubernetes.io/hostname"}
            ]
        }
    }
    wanted = gang("g", 2, cpu="3", labels={"job": "g"}, affinity=together)
    service = pod("s-0", group="", cpu="4", node="n1", schedulerName="default-scheduler")
    objects = [node("n1", cpu=4), queue("q"), *wanted, service]
    explanation, result = explained(objects, "ns/g", PLAIN)
    assert explanation.change == Change("node", "n1", "cpu", 6000)
    assert admitted(applied(result.objects, explanation.change, 6000), "ns/g", PLAIN)
    assert not admitted(applied(result.objects, explanation.change, 5999), "ns/g", PLAIN)


def test_a_job_in_the_way_is_named_when_nothing_cheaper_helps() -> None:
    running = [group("r", minimum=1, phase="Running"), pod("r-0", group="r", cpu="4", node="n1")]
    objects = [node("n1", cpu=4), queue("q"), running, group("g", minimum=1), pod("g-0", cpu="4")]
    explanation, _ = explained(objects, "ns/g", PLAIN)
    assert explanation.change == Change("job", "ns/r", "", 1)


def test_a_quota_is_raised_by_what_is_missing() -> None:
    objects = [node("n1", cpu=8), queue("q", capability={"cpu": "3"}), group("g", minimum=1), pod("g-0", cpu="5")]
    explanation, _ = explained(objects, "ns/g", CONF)
    assert explanation.change == Change("quota", "q", "cpu", 2000)


def test_new_nodes_are_enough_for_the_groups_ahead_too() -> None:
    """Those ahead take the first new nodes, so as many as the group has pods would not help."""
    ahead = [[group(f"o{i}", created=i), pod(f"o{i}-0", f"o{i}", cpu="4")] for i in range(3)]
    objects = flat([node("n1", cpu=4), queue("q"), ahead, group("g", created=9), pod("g-0", cpu="4")])
    explanation, _ = explained(objects, "ns/g", PLAIN)
    assert explanation.change == Change("nodes", "n1", "", 3)


def test_a_capability_and_nodes_are_named_together_where_neither_helps_alone() -> None:
    service = pod("s-0", group="", cpu="2", node="n1", schedulerName="default-scheduler")
    objects = flat([node("n1", cpu=2), queue("q", capability={"cpu": "1"}), service, group("g"), pod("g-0", cpu="2")])
    explanation, _ = explained(objects, "ns/g", CONF)
    change = Change("quota", "q", "cpu", 1000, also=Change("nodes", "n1", "", 1))
    assert explanation.change == change
    assert admitted(applied(objects, change, 1000), "ns/g", CONF)
    assert not any(
        admitted(applied(objects, part, int(part.by)), "ns/g", CONF)
        for part in (dataclasses.replace(change, also=None), change.also)
        if part is not None
    )


def test_a_gang_with_its_minimum_is_told_what_starts_another_pod() -> None:
    objects = [node("n1", cpu=4), queue("q"), gang("g", 3, 1, cpu="3")]
    explanation, result = explained(objects, "ns/g", PLAIN)
    assert explanation.verdict == "starts in part"
    assert explanation.change == Change("nodes", "n1", "", 1)
    assert starting(applied(result.objects, explanation.change, 1), "ns/g", PLAIN) == 2


def test_nothing_has_to_change_once_the_minimum_is_nominated() -> None:
    """Pods beyond it wait for other reasons, which come after the one that ends by itself."""
    evicting = conf("allocate, preempt", ["priority", "gang"], ["predicates", "nodeorder"])
    low = [group("r", phase="Running"), *(pod(f"r-{i}", "r", cpu="2", node="n1") for i in range(2))]
    high = [group("g", priority="high"), *(pod(f"g-w-{i}", cpu="2") for i in range(2))]
    objects = [priority_class("high", 9), node("n1", cpu=4), queue("q"), low, high]
    explanation, result = explained(objects, "ns/g", evicting)
    assert [nomination.pod for nomination in result.plan.nominations] == ["ns/g-w-0"]
    assert explanation.verdict == "waits"
    assert explanation.nominated
    assert [blocker.code for blocker in explanation.blockers] == ["Nominated", "Unschedulable"]
    assert explanation.change is None


def test_nothing_has_to_change_if_all_pods_beyond_the_minimum_are_nominated() -> None:
    leaving = pod("r-0", "r", cpu="4", node="n1", deleting=True)
    running = pod("g-0", cpu="4", node="n0")
    objects = [node("n0", cpu=4), node("n1", cpu=4), queue("q"), group("r"), leaving, group("g"), running]
    explanation, _ = explained([*objects, pod("g-1", cpu="4")], "ns/g", PLAIN)
    assert explanation.verdict == "starts in part"
    assert [blocker.code for blocker in explanation.blockers] == ["Nominated"]
    assert (explanation.nominated, explanation.change) == (True, None)


def test_a_gang_that_is_nominated_to_several_nodes_has_one_reason() -> None:
    leaving = [pod(f"r-{i}", "r", cpu="4", node=f"n{i}", deleting=True) for i in range(2)]
    objects = [node("n0", cpu=4), node("n1", cpu=4), queue("q"), group("r"), leaving, gang("g", 2, cpu="4")]
    explanation, _ = explained(objects, "ns/g", PLAIN)
    assert explanation.nominated
    assert [(blocker.message, blocker.pods) for blocker in explanation.blockers] == [
        ("nominated to nodes n0, n1, where resources are being freed", 2)
    ]


@pytest.mark.parametrize(
    ("resource", "asked", "left", "said"),
    [
        ("cpu", 2000, 1500, "requested 2 cpu, available 1.5 cpu"),
        ("cpu", 1000, 980, "requested 1 cpu, available 980m cpu"),
        ("memory", 8 << 30, (8 << 30) - (16 << 20), "requested 8Gi memory, available 8176Mi memory"),
        ("cpu", 1333, 333, "requested 1.3 cpu, available 0.3 cpu"),
    ],
)
def test_amounts_that_differ_never_look_the_same(resource: str, asked: float, left: float, said: str) -> None:
    assert numbers(Pending("ns/p", "ns/g", "", "", "", resource=resource, asked=asked, left=left)) == said


@pytest.mark.parametrize(
    ("case", "objects", "verdict"),
    [
        ("a group that is not there is unknown", [node("n1")], "unknown"),
        ("a group that fits starts", [node("n1", cpu=4), queue("q"), gang("g", 2, cpu="1")], "starts"),
        (
            "a group whose pods run runs",
            [node("n1"), queue("q"), group("g", minimum=1), pod("g-0", cpu="1", node="n1")],
            "runs",
        ),
    ],
)
def test_verdicts(case: str, objects: list[Any], verdict: str) -> None:
    assert explained(objects, "ns/g", PLAIN)[0].verdict == verdict, case


sizes = st.integers(1, 12)


@pytest.mark.slow
@given(
    nodes=st.lists(sizes, min_size=1, max_size=4),
    others=st.lists(st.tuples(sizes, st.integers(1, 3)), max_size=3),
    pods=st.lists(sizes, min_size=1, max_size=4),
    beyond=st.integers(0, 3),
    capability=st.none() | sizes,
    full=st.booleans(),
)
def test_the_change_admits_the_group_and_one_unit_less_does_not(
    nodes: list[int], others: list[tuple[int, int]], pods: list[int], beyond: int, capability: int | None, full: bool
) -> None:
    """The promise of `change`: applied, the job is admitted, or another pod starts; one unit less, it is not."""
    limit: dict[str, Any] = {"capability": {"cpu": str(capability)}} if capability else {}
    objects = flat(
        [
            [node(f"n{i}", cpu=cpu) for i, cpu in enumerate(nodes)],
            queue("q", **limit),
            queue("other"),
            [
                [group(f"o{i}", queue="other", minimum=count, created=i), *waiting(f"o{i}", [cpu] * count)]
                for i, (cpu, count) in enumerate(others)
            ],
            [group("g", minimum=max(len(pods) - beyond, 1), created=50), *waiting("g", pods)],
        ]
    )
    chosen = CONF if full else PLAIN
    explanation = explained(objects, "ns/g", chosen)[0]
    change, before = explanation.change, starting(objects, "ns/g", chosen)
    if change is None:
        return

    def helps(by: int) -> bool:
        changed = applied(objects, change, by)
        return admitted(changed, "ns/g", chosen) and starting(changed, "ns/g", chosen) > before

    by = int(change.by)
    assert helps(by)
    if change.what == "node" or by > 1 or change.what in ("quota", "minimum", "weight", "nodes"):
        assert not helps(by - 1)


def waiting(name: str, cpus: list[int]) -> list[Object]:
    return [pod(f"{name}-{i}", group=name, cpu=str(cpu)) for i, cpu in enumerate(cpus)]


def test_trials_leave_the_cluster_as_it_was() -> None:
    objects = [node("n1", cpu=4), node("n2", cpu=4), queue("q"), gang("g", 3, cpu="3", gpu=1)]
    _, result = explained(objects, "ns/g", CONF)
    again = cycle(result.state, parsed(CONF)[0], NOW)
    assert again == result.plan
    assert GPU not in result.state.nodes.total() or result.state.nodes.total()[GPU] == 0


@pytest.mark.parametrize("phase", ["Pending", "Inqueue"])
def test_a_group_whose_pods_do_not_exist_says_so(phase: str) -> None:
    explanation, _ = explained([node("n1"), queue(), group("empty", phase=phase)], "ns/empty", CONF)
    assert explanation.verdict == "waits"
    assert [blocker.code for blocker in explanation.blockers] == ["NotEnoughTasks"]
    assert explanation.blockers[0].pods == 0
