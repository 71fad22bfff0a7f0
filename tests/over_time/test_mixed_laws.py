"""Every law of mixed clusters can be broken: a pod is bound against one rule, and to another node without a fault."""

from __future__ import annotations

from typing import Any

import pytest

from kilauea.api.meta import Object
from kilauea.api.scheduling import NetworkTopology, PodGroup
from kilauea.engine.plan import Bind, Plan
from over_time.configurations import MIXED
from over_time.history import START, History, Moment
from over_time.mixed_laws import broken_when_mixed
from over_time.mixed_worlds import DISK, JOB, ZONE, hyper_node
from support.builders import Data, away, flat, group, labels_of, need, node, node_affinity, pod, queue

TWO = [hyper_node("s0", 1, ["n0"]), hyper_node("s1", 1, ["n1"]), hyper_node("top", 3, ["s0", "s1"])]
HARD = NetworkTopology(mode="hard", highest_tier_allowed=1)


def broken(
    at: str, *, node0: Data | None = None, wish: NetworkTopology | None = None, roles: Data | None = None, **more: Any
) -> set[str]:
    """The laws that are broken when pod `g-0` starts on a node, beside `g-1`, which runs on n1."""
    made = group("g", roles=roles)
    assert isinstance(made, PodGroup)
    made.spec.network_topology = wish
    first: Data = {"labels": {ZONE: "z1", DISK: "hdd"}} | (node0 or {})
    nodes = [node("n0", **first), node("n1", labels={ZONE: "z0", DISK: "ssd"})]
    pods = [pod(f"g-{i}", node="n1" if i else None, labels={JOB: "g"}, **more) for i in range(2)]
    objects: list[Object] = flat([nodes, queue("q"), queue("root"), TWO, made, pods])
    plan = Plan((Bind("ns/g-0", at),))
    history = History(MIXED["network"], [Moment(START, objects, plan)], 0, at_rest=True)
    return {sentence.partition(":")[0] for sentence in broken_when_mixed(history)}


@pytest.mark.parametrize(
    ("law", "cluster"),
    [
        pytest.param("nodes are asked", {"node0": {"unschedulable": True}}, id="cordoned"),
        pytest.param("nodes are asked", {"node0": {"taints": ["dedicated=a:NoExecute"]}}, id="tainted"),
        pytest.param("nodes are asked", {"nodeSelector": {DISK: "ssd"}}, id="another disk"),
        pytest.param("nodes are asked", {"affinity": node_affinity([need(ZONE, "NotIn", "z1")])}, id="another zone"),
        pytest.param("gangs stay in a domain", {"wish": HARD}, id="another switch"),
    ],
)
def test_a_pod_on_the_wrong_node_breaks_the_law_and_on_the_right_one_does_not(law: str, cluster: Data) -> None:
    assert broken("n0", **cluster) == {law}
    assert broken("n1", **cluster) == set()


def test_a_pod_beside_one_that_excludes_it_breaks_the_law() -> None:
    apart = away(labels_of({JOB: "g"}), ZONE)
    assert (broken("n1", affinity=apart), broken("n0", affinity=apart)) == ({"pods keep apart"}, set())


def test_a_role_below_its_minimum_breaks_the_law() -> None:
    assert (broken("n1", roles={"w": 3}, role="w"), broken("n1", roles={"w": 2}, role="w")) == (
        {"roles start whole"},
        set(),
    )


def test_a_pod_that_is_gated_breaks_the_law() -> None:
    assert broken("n1", schedulingGates=[{"name": "example.com/wait"}]) == {"only pods that wait start"}
    assert broken("n1") == set()


def test_a_wish_that_is_soft_or_allows_the_tier_of_both_is_kept() -> None:
    tainted: Data = {"taints": ["a=b:PreferNoSchedule"]}
    for wish in (NetworkTopology("soft", 1), NetworkTopology("hard", 3)):
        assert broken("n0", wish=wish, node0=tainted) == set()
