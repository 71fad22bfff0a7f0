"""What is remembered of nodes with equal figures decides nothing: every node might as well be looked at by itself."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from kilauea.api.meta import Object
from kilauea.engine.extension import Scope
from kilauea.engine.model.nodes import NodeRows
from kilauea.engine.plan import Plan
from kilauea.engine.session import Session
from support.builders import Objects, conf, gang, group, node, plan_of, pod, queue
from support.probes import plugin_called

REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
ACTIONS = "enqueue, allocate, backfill, preempt"
ORDERS: list[list[Any]] = [
    ["nodeorder"],
    ["binpack"],
    ["nodeorder", "binpack"],
    [("nodeorder", {"leastrequested.weight": 0, "mostrequested.weight": 1})],
]
NODES = st.lists(
    st.fixed_dictionaries(
        {"cpu": st.sampled_from([4, 4, 4, 8])},
        optional={
            "unschedulable": st.just(True),
            "labels": st.just({"disk": "ssd"}),
            "taints": st.just(["a=b:NoSchedule"]),
            "images": st.just({"web:1": 500 << 20}),
            "pods": st.just(2),
        },
    ),
    min_size=1,
    max_size=8,
)
RUNNING = st.lists(
    st.fixed_dictionaries(
        {"on": st.integers(0, 7), "cpu": st.sampled_from([1, 2])}, optional={"deleting": st.just(True)}
    ),
    max_size=6,
)
GANGS = st.lists(
    st.fixed_dictionaries(
        {"size": st.integers(1, 6), "cpu": st.sampled_from(["1", "1", "2", "500m"])},
        optional={
            "nodeSelector": st.just({"disk": "ssd"}),
            "ports": st.just([{"hostPort": 80}]),
            "image": st.just("web:1"),
            "priority": st.just(9),
        },
    ),
    min_size=1,
    max_size=4,
)


IMAGES = ("nodeorder", {"leastrequested.weight": 3, "balancedresource.weight": 0, "imagelocality.weight": 1})


def look_at_every_node(session: Session) -> None:
    """A filter that lets all pass, and for all that is known of it goes by what runs on each node."""
    session.add_predicate("looks", lambda shape, nodes: None)


def plan(objects: list[Objects], order: list[Any], *, every: bool) -> Plan:
    tiers = [["gang", "priority"], ["predicates", "proportion", *order], ["looks"]]
    plugin = plugin_called("looks", look_at_every_node if every else lambda session: None)
    return plan_of(*objects, conf=conf(ACTIONS, *tiers), plugins=[plugin])


@pytest.mark.slow
@given(nodes=NODES, running=RUNNING, gangs=GANGS, order=st.sampled_from(ORDERS))
@settings(deadline=None, max_examples=300)
def test_plans_are_the_same_if_every_node_is_looked_at(
    nodes: list[dict[str, Any]], running: list[dict[str, Any]], gangs: list[dict[str, Any]], order: list[Any]
) -> None:
    objects: list[Objects] = [node(f"n{number}", **fields) for number, fields in enumerate(nodes)]
    objects.append(group("r", phase="Running"))
    for number, fields in enumerate(running):
        on = f"n{fields['on'] % len(nodes)}"
        objects.append(pod(f"r-{number}", "r", node=on, **{k: v for k, v in fields.items() if k != "on"}))
    objects += [gang(f"g{number}", **fields) for number, fields in enumerate(gangs)]
    assert plan(objects, order, every=False) == plan(objects, order, every=True)


def score_nothing(session: Session) -> None:
    """A score by figures that may look at anything, so that no shapes share their scores."""
    session.add_node_score("looks", lambda *_: None, scope=Scope.FIGURES)


@pytest.mark.slow
@given(
    nodes=st.lists(st.sampled_from([4, 4, 8]), min_size=1, max_size=6),
    gangs=st.lists(
        st.lists(
            st.tuples(st.sampled_from(["1", "2", "500m"]), st.sampled_from([{}, {"a/a": 1}, {"b/b": 2}])),
            min_size=1,
            max_size=8,
        ),
        min_size=1,
        max_size=4,
    ),
    order=st.sampled_from([*ORDERS, [("binpack", {"binpack.resources": "a/a"})]]),
)
@settings(deadline=None, max_examples=200)
def test_plans_are_the_same_if_shapes_share_their_scores(
    nodes: list[int], gangs: list[list[tuple[str, dict[str, int]]]], order: list[Any]
) -> None:
    objects: list[Objects] = [
        node(f"n{number}", cpu=cpu, resources={"a/a": 3, "b/b": 5}) for number, cpu in enumerate(nodes)
    ]
    for number, pods in enumerate(gangs):
        objects.append(group(f"g{number}", minimum=1))
        for rank, (cpu, more) in enumerate(pods):
            objects.append(pod(f"g{number}-{rank}", f"g{number}", requests={"cpu": cpu, **more}))
    tiers = conf(ACTIONS, ["gang", "priority"], ["predicates", "proportion", *order], ["looks"])
    sharing = plan_of(*objects, conf=tiers, plugins=[plugin_called("looks")])
    alone = plan_of(*objects, conf=tiers, plugins=[plugin_called("looks", score_nothing)])
    assert sharing == alone
    assert sharing.binds


@pytest.mark.slow
@given(held=st.lists(st.booleans(), min_size=2, max_size=6), cpu=st.integers(4, 12), size=st.integers(2, 12))
@settings(deadline=None, max_examples=200)
def test_nodes_with_equal_figures_differ_by_their_images(held: list[bool], cpu: int, size: int) -> None:
    images = {"web:1": 900 << 20}
    objects: list[Objects] = [node(f"n{i}", cpu=cpu, images=images if has else {}) for i, has in enumerate(held)]
    objects.append(gang("g", size, 1, image="web:1"))
    assert plan(objects, [IMAGES], every=False) == plan(objects, [IMAGES], every=True)


def test_a_filter_of_a_user_may_tell_nodes_with_equal_figures_apart() -> None:
    def by_name(session: Session) -> None:
        def many_on_second(shape: object, nodes: NodeRows) -> NDArray[np.bool_]:
            fits: NDArray[np.bool_] = (nodes.task_count == 0) | np.array([name == "n2" for name in nodes.names])
            return fits

        session.add_predicate("picky", many_on_second)

    tiers = [["gang"], ["predicates", "nodeorder"], ["picky"]]
    objects: list[Objects] = [node("n1"), node("n2"), gang("g", 4, 1)]
    found = plan_of(*objects, conf=conf("allocate", *tiers), plugins=[plugin_called("picky", by_name)])
    assert sorted(bind.node for bind in found.binds) == ["n1", "n2", "n2", "n2"]


AFFINITY, ANTI_AFFINITY = "volcano.sh/task-topology-affinity", "volcano.sh/task-topology-anti-affinity"
KEPT_APART: list[Any] = ["task-topology", "numa-aware", ("nodegroup", {"strict": False}), "nodeorder"]


def related(number: int, size: int, cpu: str, together: bool, queue: str) -> list[Object]:
    """A gang of `w` and `ps` in a queue; its tasks belong together, or apart."""
    made = group(f"g{number}", queue, minimum=size)
    made.metadata.annotations = {AFFINITY if together else ANTI_AFFINITY: "w,ps"}
    roles = ["ps" if rank % 3 == 0 else "w" for rank in range(size)]
    return [made, *(pod(f"g{number}-{i}", f"g{number}", role=r, cpu=cpu) for i, r in enumerate(roles))]


@pytest.mark.slow
@given(
    nodes=st.lists(st.sampled_from([None, "a", "b"]), min_size=1, max_size=6),
    gangs=st.lists(
        st.tuples(st.integers(1, 5), st.sampled_from(["1", "2"]), st.booleans(), st.sampled_from(["q", "of-a"])),
        min_size=1,
        max_size=4,
    ),
)
@settings(deadline=None, max_examples=100)
def test_gangs_that_a_plugin_tells_apart_are_placed_as_if_each_were_evaluated_alone(
    nodes: list[str | None], gangs: list[tuple[int, str, bool, str]]
) -> None:
    """A plugin of a user, whatever it does, has each shape evaluated alone."""
    objects: list[Objects] = [queue("q"), queue("of-a", affinity={"nodeGroupAffinity": {REQUIRED: ["a"]}})]
    for number, name in enumerate(nodes):
        objects.append(node(f"n{number}", labels={"volcano.sh/nodegroup-name": name} if name else {}))
    objects += [related(number, *fields) for number, fields in enumerate(gangs)]
    tiers = conf(ACTIONS, ["gang"], ["predicates", *KEPT_APART], ["looks"])
    alone = plan_of(*objects, conf=tiers, plugins=[plugin_called("looks")])
    assert plan_of(*objects, conf=conf(ACTIONS, ["gang"], ["predicates", *KEPT_APART])) == alone


def test_a_score_by_a_trait_holds_for_tasks_of_one_request() -> None:
    """The queue decides which nodes are better, although the pods ask for the same."""
    wishes = {name: {"nodeGroupAffinity": {REQUIRED: [name]}} for name in ("a", "b")}
    objects: list[Objects] = [queue(name, affinity=wish) for name, wish in wishes.items()]
    objects += [node(f"n-{name}", labels={"volcano.sh/nodegroup-name": name}) for name in ("b", "a")]
    objects += [related(number, 2, "1", True, name) for number, name in enumerate(("a", "b"))]
    found = plan_of(*objects, conf=conf("allocate", ["gang"], ["predicates", *KEPT_APART]))
    assert {bind.pod: bind.node for bind in found.binds} == {
        "ns/g0-0": "n-a", "ns/g0-1": "n-a", "ns/g1-0": "n-b", "ns/g1-1": "n-b",
    }  # fmt: skip
