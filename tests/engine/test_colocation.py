"""Online and offline pods on the same nodes, as agents on nodes describe these."""

from __future__ import annotations

import pytest

from kilauea.api.meta import Object
from kilauea.engine.events import Changed
from support.builders import PLAIN, binds, group, node, pending, plan_in, plan_of, pod, queue, state_of

LEVEL = "volcano.sh/qos-level"
EVICTING = {"volcano.sh/offline-job-evicting": "true"}


def leveled(level: str | None) -> Object:
    return pod("p", annotations={} if level is None else {LEVEL: level})


@pytest.mark.parametrize(
    ("level", "chosen"),
    [
        (None, "n1"),
        ("LC", "n1"),
        ("HLS", "n1"),
        ("LS", "n1"),
        ("2", "n1"),
        ("0", "n1"),
        ("-x", "n1"),
        ("BE", "n2"),
        ("-1", "n2"),
        ("-2", "n2"),
    ],
)
def test_offline_pods_keep_off_a_node_that_evicts_them(level: str | None, chosen: str) -> None:
    assert binds(plan_of(node("n1", annotations=EVICTING), node("n2"), group(), leveled(level))) == {"p": chosen}


def test_the_reason_is_named() -> None:
    plan = plan_of(node("n1", annotations=EVICTING), group(), leveled("BE"))
    assert "1 node(s) were evicting offline jobs" in pending(plan)["p"].message


@pytest.mark.parametrize("value", ["false", "", "True", "yes"])
def test_only_true_keeps_offline_pods_off(value: str) -> None:
    cluster = [node("n1", annotations={"volcano.sh/offline-job-evicting": value}), group(), leveled("BE")]
    assert binds(plan_of(*cluster)) == {"p": "n1"}


def test_offline_pods_come_back_when_the_agent_is_done() -> None:
    state = state_of(node("n1", annotations=EVICTING), group(), leveled("BE"))
    assert binds(plan_in(state)) == {}
    state.apply(Changed(node("n1")))
    assert binds(plan_in(state)) == {"p": "n1"}
    state.apply(Changed(node("n1", annotations=EVICTING)))
    assert binds(plan_in(state)) == {}


def test_pods_ask_for_what_the_agent_offers_to_batch_work() -> None:
    batch = {"kubernetes.io/batch-cpu": "2000", "kubernetes.io/batch-memory": "4Gi"}
    nodes = [node("n1"), node("n2", resources=batch)]
    half = {"kubernetes.io/batch-cpu": "1000", "kubernetes.io/batch-memory": "1Gi"}
    pods = [pod(name, cpu=None, memory=None, requests=half, annotations={LEVEL: "BE"}) for name in ("p", "q", "r")]
    plan = plan_of(*nodes, group(), *pods)
    assert binds(plan) == {"p": "n2", "q": "n2"}
    assert "Insufficient kubernetes.io/batch-cpu" in pending(plan)["r"].message


def test_a_queue_can_limit_what_is_offered_to_batch_work() -> None:
    batch = {"kubernetes.io/batch-cpu": "4000"}
    limited = queue("q", capability={"kubernetes.io/batch-cpu": "1000"})
    pods = [pod(name, cpu=None, memory=None, requests={"kubernetes.io/batch-cpu": "1000"}) for name in ("p", "q")]
    conf = {
        **PLAIN,
        "tiers": [{"plugins": [{"name": "gang"}]}, {"plugins": [{"name": "predicates"}, {"name": "capacity"}]}],
    }
    assert binds(plan_of(node("n1", resources=batch), limited, group(), *pods, conf=conf)) == {"p": "n1"}
