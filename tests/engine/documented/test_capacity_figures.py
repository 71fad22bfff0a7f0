"""Figures of queues, as the text on capacity (seed 000) works them out: limits, sums and shares, flat and as a tree."""

from __future__ import annotations

from typing import Any

import pytest

from engine.documented.worked_example import (
    CLUSTER,
    EXAMPLE,
    amounts,
    before,
    cores_of,
    flat_conf,
    gi_of,
    holds,
    manifests,
    seven_queues,
    tree_conf,
    wants,
)
from kilauea.engine.model.queue_tree import build_queue_tree
from kilauea.engine.plan import QueueOutcome
from kilauea.engine.session import Session
from support.builders import GI, GPU, Objects, binds, codes, conf, group, node, plan_of, plugin, pod, queue
from support.probes import inside


def figures(*objects: Objects, conf: Any) -> dict[str, QueueOutcome]:
    """Figures of the queues of a cycle."""
    return dict(plan_of(*objects, conf=conf).queues)


def opening_shares(*objects: Objects, conf: Any) -> dict[str, float | None]:
    """Shares before anything is decided."""
    return inside(*objects, do=lambda s: {q.name: q.figures.share for q in s.queues.values()}, conf=conf)


# --- sections 2.3 and 3.1: queues side by side


SIDE_BY_SIDE = [
    pytest.param({"a": (40, 60, 10), "b": (80, None, 30)}, {"a": (60, 40), "b": (90, 80)}, id="capability binds a"),
    pytest.param({"a": (40, 60, 10), "b": (0, None, 60)}, {"a": (40, 40), "b": (90, 60)}, id="guarantees bind a"),
    pytest.param({"a": (40, 60, 10), "b": (0, None, 70)}, {"a": (30, 30), "b": (90, 70)}, id="deserved is cut to that"),
    pytest.param({"a": (5, 60, 10)}, {"a": (60, 10)}, id="deserved is raised to the guarantee"),
    pytest.param({"a": (40, None, 10)}, {"a": (100, 40)}, id="without a capability only guarantees bind"),
]
"""By queue: cores that it deserves, its capability and guarantee; and its real capability and what it deserves then."""


@pytest.mark.parametrize(("given", "expected"), SIDE_BY_SIDE)
def test_limits_of_queues_side_by_side(given: dict[str, Any], expected: dict[str, Any]) -> None:
    queues = [
        queue(name, deserved=amounts(deserved), capability=most and amounts(most), guarantee=amounts(least))
        for name, (deserved, most, least) in given.items()
    ]
    found = figures(CLUSTER, queues, conf=flat_conf("allocate"))
    assert {n: (cores_of(q.real_capability), cores_of(q.deserved)) for n, q in found.items()} == expected
    assert {n: (gi_of(q.real_capability), gi_of(q.deserved)) for n, q in found.items()} == {
        name: (4 * most, 4 * deserved) for name, (most, deserved) in expected.items()
    }


SAMPLE = """
apiVersion: scheduling.volcano.sh/v1beta1
kind: Queue
metadata:
  name: training-queue
spec:
  weight: 1
  deserved:
    cpu: "40"
    memory: "160Gi"
  capability:
    cpu: "60"
    memory: "240Gi"
  guarantee:
    resource:
      cpu: "10"
      memory: "40Gi"
"""


def test_the_flat_sample_as_it_is_written() -> None:
    """Section 10.2; its weight counts for nothing beside a queue of ten times the weight."""
    plan = plan_of(CLUSTER, manifests(SAMPLE), queue("other", 10), conf=flat_conf("allocate"))
    found = plan.queues["training-queue"]
    listed = (found.deserved, found.capability, found.guarantee, found.real_capability)
    assert [cores_of(figure) for figure in listed] == [40, 60, 10, 60]
    assert [gi_of(figure) for figure in listed] == [160, 240, 40, 240]
    assert plan.findings == ()


def test_the_guarantee_of_a_queue_without_jobs_is_kept_free() -> None:
    queues = [queue("idle", guarantee=amounts(60)), *manifests(SAMPLE)]
    plan = plan_of(CLUSTER, queues, wants("g", "training-queue", 40), wants("h", "training-queue", 1), conf=ALLOCATE)
    assert sorted(binds(plan)) == ["g-0"]
    assert codes(plan) == {"h-0": "QueueQuotaExceeded"}


ALLOCATE = flat_conf("allocate")


def test_what_is_summed_up_for_a_queue() -> None:
    """`runs` holds 15 of a minimum of 10, `admitted` waits with a minimum of 10 and asks for 20 cores in pods."""
    jobs = [holds("runs", "a", 10, 5, least=10), wants("admitted", "a", 10, 10, least=10)]
    found = figures(CLUSTER, queue("a", capability=amounts(15)), jobs, conf=ALLOCATE)["a"]
    sums = (found.allocated, found.request, found.inqueue, found.elastic)
    assert [cores_of(figure) for figure in sums] == [15, 35, 10, 5]
    assert [gi_of(figure) for figure in sums] == [60, 140, 40, 20]


@pytest.mark.parametrize(
    ("phase", "minimum", "expected"),
    [
        pytest.param("Inqueue", 3, 10, id="an admitted group always counts"),
        pytest.param("Running", 2, 10, id="a running one whose minimum is placed"),
        pytest.param("Running", 3, 0, id="but not one whose minimum is not"),
        pytest.param("Pending", 2, 0, id="nor one that is not admitted"),
    ],
)
def test_which_groups_count_in_inqueue(phase: str, minimum: int, expected: int) -> None:
    """Two pods of 10 cores run, the minimum is 30 cores: what it still lacks is reserved."""
    pods = [pod(f"p{i}", requests=amounts(10), node="n") for i in range(2)]
    job = group("g", "a", minimum, phase, resources=amounts(30))
    found = figures(CLUSTER, queue("a"), job, pods, conf=flat_conf("backfill"))["a"]
    assert cores_of(found.inqueue) == expected


def test_flat_queues_have_no_ancestors_and_parents_count_for_nothing() -> None:
    queues = [queue("team"), queue("leaf", parent="team", deserved=amounts(10)), queue("root")]
    found = figures(CLUSTER, queues, holds("g", "leaf", 5), conf=ALLOCATE)
    assert {name: cores_of(q.allocated) for name, q in found.items()} == {"leaf": 5, "team": 0, "root": 0}


# --- sections 3.2 and 7.1: the tree


LIMITS = {
    "root": (100, 100),
    "team-a": (60, 70),
    "team-b": (40, 50),
    "training": (40, 50),
    "inference": (20, 30),
    "batch": (30, 40),
    "interactive": (10, 20),
}
"""What each queue deserves, and its real capability: with these guarantees every capability can be reached."""


@pytest.mark.parametrize("name", LIMITS)
def test_limits_of_the_seven_queues(name: str) -> None:
    found = figures(CLUSTER, seven_queues(), conf=tree_conf("allocate"))[name]
    assert (cores_of(found.deserved), cores_of(found.real_capability)) == LIMITS[name]
    memory = {"root": 400, "team-a": 300}.get(name, 4 * LIMITS[name][1])
    assert (gi_of(found.deserved), gi_of(found.real_capability)) == (4 * LIMITS[name][0], memory)
    if name in EXAMPLE:
        assert cores_of(found.guarantee) == EXAMPLE[name].guarantee
        assert found.parent == EXAMPLE[name].parent


def test_the_seven_queues_load_without_a_warning() -> None:
    assert plan_of(CLUSTER, seven_queues(), conf=tree_conf("enqueue, allocate, reclaim")).findings == ()


@pytest.mark.parametrize(
    ("queues", "expected"),
    [
        pytest.param({"a": (None, 20), "b": (None, 30)}, {"a": 70, "b": 80}, id="what guarantees leave"),
        pytest.param({"a": (40, 20), "b": (90, 30)}, {"a": 40, "b": 80}, id="and the capability"),
        pytest.param({"a": (None, 60), "b": (None, 60)}, {"a": 60, "b": 60}, id="nothing left but the guarantees"),
    ],
)
def test_real_capabilities_follow_from_the_parent_s(queues: dict[str, Any], expected: dict[str, int]) -> None:
    """The parent has 100 cores, of which its children are guaranteed some."""
    children = [
        queue(name, parent="p", capability=most and amounts(most), guarantee=amounts(least))
        for name, (most, least) in queues.items()
    ]
    found = figures(CLUSTER, queue("root"), queue("p"), children, conf=tree_conf("allocate"))
    assert {name: cores_of(found[name].real_capability) for name in queues} == expected


TEAMS = {
    "team-a": ("root", 60, 40, 20),
    "team-b": ("root", 60, 40, 20),
    "training": ("team-a", 40, 25, 10),
    "inference": ("team-a", 30, 15, 10),
    "batch": ("team-b", 40, 30, 15),
    "interactive": ("team-b", 30, 10, 5),
}
"""The tree of section 3.2: parent, and cores as capability, deserved and guarantee."""


def two_teams() -> list[Any]:
    return [
        queue("root"),
        *(
            queue(name, parent=parent, capability={"cpu": most}, deserved={"cpu": fair}, guarantee={"cpu": least})
            for name, (parent, most, fair, least) in TEAMS.items()
        ),
    ]


def test_the_tree_of_two_teams_loads_without_a_warning() -> None:
    plan = plan_of(CLUSTER, two_teams(), conf=tree_conf("enqueue, allocate, reclaim"))
    assert plan.findings == ()
    assert {name: cores_of(plan.queues[name].deserved) for name in TEAMS} == {n: row[2] for n, row in TEAMS.items()}
    assert {name: cores_of(plan.queues[name].real_capability) for name in TEAMS} == {
        name: row[1] for name, row in TEAMS.items()
    }
    assert {gi_of(plan.queues[name].real_capability) for name in TEAMS} == {400}


def test_what_training_gets_moves_its_ancestors_and_no_other_queue() -> None:
    def ancestors(session: Session) -> dict[str, list[str]]:
        tree = build_queue_tree(session.queues)
        return {name: [at.name for at in way] for name, way in tree.ancestors.items()}

    found = inside(CLUSTER, two_teams(), do=ancestors, conf=tree_conf(""))
    assert (found["training"], found["team-a"], found["root"]) == (["root", "team-a"], ["root"], [])
    after = figures(CLUSTER, two_teams(), wants("g", "training", 10), conf=tree_conf("allocate"))
    moved = {name: cores_of(q.allocated) for name, q in after.items() if q.allocated}
    assert moved == {"training": 10, "team-a": 10, "root": 10}


def test_the_four_sums_add_up_in_all_ancestors() -> None:
    jobs = [holds("runs", "training", 10, 5, least=10), wants("admitted", "training", 30, 30, least=20)]
    found = figures(CLUSTER, seven_queues(), jobs, conf=tree_conf("backfill"))
    for name in ("training", "team-a", "root"):
        sums = (found[name].allocated, found[name].request, found[name].inqueue, found[name].elastic)
        assert [cores_of(figure) for figure in sums] == [15, 75, 20, 5]
    assert not any((found["team-b"].request, found["inference"].request))


@pytest.mark.parametrize(
    ("capability", "expected"),
    [
        pytest.param({}, (50_000, 200 * GI, 4000), id="of nothing"),
        pytest.param({"cpu": 20}, (20_000, 200 * GI, 4000), id="of memory and gpus"),
        pytest.param({"memory": "80Gi", GPU: 2}, (50_000, 80 * GI, 2000), id="of cores"),
        pytest.param({"cpu": 0, "memory": 0, GPU: 1}, (50_000, 200 * GI, 1000), id="zeros of cores and memory"),
    ],
)
def test_what_a_capability_leaves_out_is_the_parent_s(capability: dict[str, Any], expected: tuple[int, ...]) -> None:
    team = queue("team", capability={"cpu": 50, "memory": "200Gi", GPU: 4})
    leaf = queue("leaf", parent="team", capability=capability)
    found = figures(node("n", 100, "400Gi", gpu=8), queue("root"), team, leaf, conf=tree_conf("allocate"))["leaf"]
    real = found.real_capability or {}
    assert (real["cpu"], real["memory"], real[GPU]) == expected


def test_the_root_has_what_the_cluster_has_in_each_cycle() -> None:
    small = queue("root", deserved=amounts(30), capability=amounts(30))
    for nodes in ([CLUSTER], [CLUSTER, node("m", 50, "200Gi")]):
        found = figures(nodes, small, conf=tree_conf("allocate"))["root"]
        cores = 100 + 50 * (len(nodes) - 1)
        assert (cores_of(found.deserved), cores_of(found.real_capability)) == (cores, cores)
        assert gi_of(found.real_capability) == 4 * cores


@pytest.mark.parametrize(("quota", "bound"), [("total", 80), ("open", 100)])
def test_guarantees_of_the_first_level_are_kept_free_below_a_root_that_has_the_total(quota: str, bound: int) -> None:
    """`team-b` is guaranteed 20 of 100 cores; with an open root, as in Volcano, that holds back no one."""
    queues = [queue("root"), queue("team-a"), queue("team-b", guarantee=amounts(20))]
    jobs = [wants(f"g{i}", "team-a", 10) for i in range(10)]
    plan = plan_of(CLUSTER, queues, jobs, conf=tree_conf("allocate", rootQuota=quota))
    assert 10 * len(plan.binds) == bound


def test_a_queue_without_a_parent_hangs_on_the_root() -> None:
    found = figures(CLUSTER, queue("root"), queue("q"), holds("g", "q", 5), conf=tree_conf("allocate"))
    assert cores_of(found["root"].allocated) == 5


@pytest.mark.parametrize(
    ("loop", "named"),
    [
        pytest.param({"x": "y", "y": "x"}, "x", id="two queues"),
        pytest.param({"x": "x"}, "x", id="one that is its own parent"),
        pytest.param({"x": "y", "y": "z", "z": "x"}, "x", id="three queues"),
    ],
)
def test_a_cycle_is_named_and_holds_back_no_one_else(loop: dict[str, str], named: str) -> None:
    queues = [queue("root"), queue("q"), *(queue(name, parent=parent) for name, parent in loop.items())]
    plan = plan_of(CLUSTER, queues, wants("g", "q", 5), wants("h", "x", 5), conf=tree_conf("enqueue, allocate"))
    assert binds(plan) == {"g-0": "n"}
    assert codes(plan) == {"h-0": "QueueFault"}
    found = {f.where: f.message for f in plan.findings}
    assert set(found) == {f"queue {name}" for name in loop}
    assert found[f"queue {named}"].startswith("cycle detected in queue hierarchy for queue ")


# --- sections 4.1 and 7.2: shares


@pytest.mark.parametrize(
    ("deserved", "held", "expected"),
    [
        pytest.param({"cpu": 40, "memory": "160Gi"}, [], 0, id="nothing held"),
        pytest.param({"cpu": 40, "memory": "160Gi"}, [(10, 40)] * 3, 0.75, id="a part of it"),
        pytest.param({"cpu": 40, "memory": "160Gi"}, [(10, 40)] * 4, 1, id="just that"),
        pytest.param({"cpu": 40, "memory": "160Gi"}, [(10, 40)] * 5, 1.25, id="more"),
        pytest.param({"cpu": 40, "memory": "160Gi"}, [(10, 80)], 0.5, id="the largest of both"),
        pytest.param({"cpu": 40}, [(10, 160)], 0.25, id="memory that is not deserved does not count"),
        pytest.param({}, [], 1, id="a queue that deserves nothing, idle"),
        pytest.param({}, [(10, 40)], 1, id="and busy"),
        pytest.param({"cpu": 0, "memory": 0}, [(10, 40)], 1, id="deserving zero is deserving nothing"),
    ],
)
@pytest.mark.parametrize("in_tree", [False, True])
def test_the_share_of_a_queue(deserved: Any, held: list[tuple[int, int]], expected: float, in_tree: bool) -> None:
    pods = [pod(f"p{i}", requests={"cpu": c, "memory": f"{m}Gi"}, node="n") for i, (c, m) in enumerate(held)]
    objects: list[Objects] = [CLUSTER, queue("root"), queue("q", deserved=deserved), group("g", phase="Running"), pods]
    found = opening_shares(objects, conf=tree_conf("") if in_tree else flat_conf(""))
    assert found["q"] == pytest.approx(expected)


@pytest.mark.parametrize(("by", "share"), [("capacity", 1), ("proportion", 0)])
def test_a_queue_without_a_deserved_amount_has_share_1_and_0_under_proportion(by: str, share: float) -> None:
    plan = plan_of(CLUSTER, queue("q"), conf=conf("allocate", [plugin("gang"), by, "predicates"]))
    assert plan.queues["q"].share == share


STEP = [("training", 30, 40, 1.0), ("team-a", 45, 55, 0.917), ("root", 75, 85, 0.85)]
"""The table of section 7.2: cores held before and after a pod of 10 starts in `training`, and the share then."""


@pytest.mark.parametrize(("name", "earlier", "later", "share"), STEP)
def test_a_pod_of_ten_cores_starts_in_training(name: str, earlier: int, later: int, share: float) -> None:
    opened = figures(before(), conf=tree_conf("backfill"))
    plan = plan_of(before(), wants("new", "training", 10), conf=tree_conf("allocate"))
    assert binds(plan) == {"new-0": "n"}
    assert (cores_of(opened[name].allocated), cores_of(plan.queues[name].allocated)) == (earlier, later)
    assert (gi_of(opened[name].allocated), gi_of(plan.queues[name].allocated)) == (4 * earlier, 4 * later)
    assert plan.queues[name].share == pytest.approx(share, abs=0.0005)


def test_shares_of_the_others_at_that_step() -> None:
    """The text takes 0.5 for `inference`; by its own figures it holds 45 - 30 = 15 of 20 cores."""
    plan = plan_of(before(), wants("new", "training", 10), conf=tree_conf("allocate"))
    assert {name: plan.queues[name].share for name in ("inference", "team-b")} == {"inference": 0.75, "team-b": 0.75}
