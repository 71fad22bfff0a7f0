"""Objects that no one should write, each beside a gang that has to start all the same."""

from __future__ import annotations

from typing import Any

import pytest

from kilauea.engine.cycle import cycle, default_conf
from kilauea.engine.plan import Plan
from support.builders import (
    HOSTNAME,
    NOW,
    Objects,
    binds,
    gang,
    group,
    labels_of,
    need,
    node,
    node_affinity,
    pod,
    preferred_nodes,
    priority_class,
    queue,
    rather,
    spread,
    state_of,
)
from support.probes import fingerprint

HUGE = 10**30
LONG = "9" * 5000
RAISED_TWO = "\u00b2"
WEB = labels_of({"app": "web"})
ON_ONE = need(HOSTNAME, "In", "n1")
OVERSUBSCRIPTION = "volcano.sh/oversubscription-cpu"


def odd(in_queue: str = "q", **more: Any) -> Objects:
    """A group with one pod."""
    return [group("odd", in_queue), pod("odd-w-0", "odd", **more)]


def spread_by(skew: int = 1, **more: Any) -> dict[str, Any]:
    """Keywords of a pod with a constraint."""
    return {"labels": {"app": "web"}, "topologySpreadConstraints": spread(HOSTNAME, WEB, skew, **more)}


def plan_beside(*objects: Objects) -> Plan:
    """The plan for a cluster with these objects and a gang that fits; the state is afterwards as it was."""
    state = state_of(queue("q"), node("n1"), node("n2"), gang("good", 2, cpu="500m"), *objects)
    before = fingerprint(state)
    plan = cycle(state, default_conf(), NOW)
    assert fingerprint(state) == before
    return plan


CASES = [
    pytest.param(group("odd", minimum=HUGE), id="a huge minimum"),
    pytest.param(group("odd", minimum=-HUGE), id="a hugely negative minimum"),
    pytest.param(group("odd", minimum=-1), id="a negative minimum"),
    pytest.param([group("odd", roles={"a": HUGE}), pod("o", "odd", role="a")], id="a huge minimum of a role"),
    pytest.param([group("odd", roles={"a": -HUGE}), pod("o", "odd", role="a")], id="a negative minimum of a role"),
    pytest.param(group("odd", phase="Weird"), id="an unknown phase of a group"),
    pytest.param([priority_class("high", HUGE), odd()], id="a huge priority class"),
    pytest.param(odd(priority=HUGE), id="a huge priority"),
    pytest.param(odd(annotations={"volcano.sh/task-priority": LONG}), id="an endless priority"),
    pytest.param([queue("w", HUGE), odd("w")], id="a queue with a huge weight"),
    pytest.param([queue("w", -1), odd("w")], id="weights that add up to nothing"),
    pytest.param([queue("w", -HUGE), odd("w")], id="a hugely negative weight"),
    pytest.param([queue("w", priority=HUGE), odd("w")], id="a queue with a huge priority"),
    pytest.param([queue("w", state="Weird"), odd("w")], id="a queue in an unknown state"),
    pytest.param([queue(""), odd("")], id="a queue without a name"),
    pytest.param(odd(affinity=preferred_nodes((HUGE, ON_ONE))), id="a huge weight of a preferred node"),
    pytest.param(odd(affinity=preferred_nodes((-5, ON_ONE))), id="a negative weight of a preferred node"),
    pytest.param(odd(labels={"app": "web"}, affinity=rather(HUGE, WEB)), id="a huge weight of preferred neighbours"),
    pytest.param(
        pod("r", "", node="n1", cpu="1m", affinity=rather(HUGE, {})),
        id="a huge weight of preferred neighbours that run",
    ),
    pytest.param(odd(**spread_by(HUGE)), id="a huge skew"),
    pytest.param(odd(**spread_by(-HUGE)), id="a negative skew"),
    pytest.param(odd(**spread_by(HUGE, soft=True)), id="a huge skew that is wished for"),
    pytest.param(odd(**spread_by(minDomains=HUGE)), id="a huge number of domains"),
    pytest.param(odd(ports=[{"hostPort": HUGE}]), id="a huge port"),
    pytest.param(odd(ports=[{"hostPort": -1}]), id="a negative port"),
    pytest.param([node("n3", images={"a:1": HUGE}), odd(image="a:1")], id="an image of a huge size"),
    pytest.param(node("n3", annotations={OVERSUBSCRIPTION: "9" * 30}), id="a huge oversubscription"),
    pytest.param(node("n3", annotations={OVERSUBSCRIPTION: LONG}), id="an endless oversubscription"),
    pytest.param(node("n3", annotations={OVERSUBSCRIPTION: RAISED_TWO}), id="an oversubscription with odd digits"),
    pytest.param(node(RAISED_TWO), id="a node with odd digits in its name"),
    pytest.param(node("n" + LONG), id="a node with an endless number in its name"),
    pytest.param(node(""), id="a node without a name"),
    pytest.param(node("n3", cpu=None, memory=None, pods=None), id="a node that offers nothing"),
    pytest.param([group("odd"), pod("a-b-" + LONG, "odd")], id="a pod with an endless number in its name"),
    pytest.param([group("odd"), pod("a-b-" + RAISED_TWO, "odd")], id="a pod with odd digits in its name"),
    pytest.param([group("odd"), pod("", "odd")], id="a pod without a name"),
    pytest.param([group("odd"), pod("a", "odd", uid="u"), pod("b", "odd", uid="u")], id="two pods with one uid"),
    pytest.param([group("odd"), pod("a", "odd", namespace="")], id="a pod without a namespace"),
    pytest.param(pod("a", "b/c/d"), id="a group name with slashes"),
    pytest.param(odd(containers=[]), id="a pod without containers"),
    pytest.param(odd(phase="Weird"), id="a pod in an unknown phase"),
    pytest.param(pod("o", "", node="n1", phase="Weird"), id="a pod in an unknown phase on a node"),
    pytest.param(odd(phase="Running"), id="a pod that runs on no node"),
    pytest.param(odd(node="nowhere"), id="a pod on a node that does not exist"),
    pytest.param(odd(nominated=RAISED_TWO), id="a nominated node with an odd name"),
    pytest.param(odd("none"), id="a queue that does not exist"),
    pytest.param(odd(requests={"pods": 2**53}), id="a pod that asks for all slots there could be"),
    pytest.param(odd(cpu=2**53 // 1000), id="a pod that asks for all cores there could be"),
    pytest.param(gang("odd", 1025, memory="8Pi"), id="a gang that asks for more than 64 bits of bytes"),
    pytest.param(
        [node("n3", labels={"c": LONG}), odd(affinity=node_affinity([need("c", "Gt", LONG)]))],
        id="an endless number in a label",
    ),
    pytest.param(odd(affinity=node_affinity([need("", "", "")])), id="a requirement without a key and an operator"),
    pytest.param(
        odd(affinity=rather(1, {"matchExpressions": [need("a", "In")]}, "")), id="a term without a topology key"
    ),
]


@pytest.mark.parametrize("objects", CASES)
def test_an_odd_object_stops_no_one(objects: Objects) -> None:
    plan = plan_beside(objects)
    assert [str(f) for f in plan.findings if not f.where.startswith("queue ")] == []
    assert {"good-w-0", "good-w-1"} <= set(binds(plan))
