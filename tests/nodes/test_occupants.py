"""What comes before a pod on its node, without a look at all pods that name the node."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from kilauea.api.kinds import PODS
from kilauea.api.ports import Key
from kilauea.nodes.devices import comes_first
from kilauea.nodes.host_ports import host_ports
from kilauea.nodes.occupants import STARTED, WAITING, Occupants, Waiting
from kilauea.nodes.pods import Pods
from kilauea.nodes.requests import requests_of
from support.simulated import World, pod

CARDS = "example.com/card"


def made(name: str, created: int, phase: str, *, started: bool, cpu: int, card: bool, on: str) -> dict[str, Any]:
    found = pod(name)
    found["metadata"]["creationTimestamp"] = f"2026-01-01T00:00:{created:02d}Z"
    found["spec"]["nodeName"] = on
    resources = {"requests": {"cpu": str(cpu)}} | ({"limits": {CARDS: "1"}} if card else {})
    found["spec"]["containers"][0] |= {"resources": resources, "ports": [{"hostPort": 1000 + cpu}]}
    found["status"] = {"phase": phase} | ({"startTime": "2026-01-01T00:01:00Z"} if started else {})
    return found


@given(
    st.lists(
        st.builds(
            dict,
            created=st.integers(0, 3),
            phase=st.sampled_from(["Pending", "Running", "Succeeded", "Failed"]),
            started=st.booleans(),
            cpu=st.integers(1, 4),
            card=st.booleans(),
            on=st.sampled_from(["node-0", "node-1"]),
        ),
        max_size=8,
    ),
    st.integers(0, 3),
)
def test_it_is_the_same_as_a_look_at_all_pods(others: list[dict[str, Any]], created: int) -> None:
    world = World(Pods())
    for number, other in enumerate(others):
        world.put(PODS, made(f"p{number}", **other))
    world.put(PODS, made("p3x", created, "Pending", started=False, cpu=1, card=False, on="node-0"))
    own = world.get(PODS, Key("default", "p3x"))
    assert own is not None
    there = (each for each in world.list(PODS) if each["spec"]["nodeName"] == "node-0")
    before = [each for each in there if comes_first(each, own)]
    found = Occupants(world, own)
    assert len(found) == len(before)
    assert sorted(map(str, found)) == sorted(str(requests_of(each)) for each in before)
    assert sorted(found.ports) == sorted(port for each in before for port in host_ports(each))
    with_cards = {each["metadata"]["name"] for each in found.requesting([CARDS])}
    assert with_cards <= {each["metadata"]["name"] for each in before}
    assert with_cards >= {e["metadata"]["name"] for e in before if "limits" in e["spec"]["containers"][0]["resources"]}


def test_pods_that_the_node_has_rejected_are_not_looked_at() -> None:
    world = World(Pods())
    for number in range(50):
        world.put(PODS, made(f"p{number}", 0, "Failed", started=True, cpu=1, card=False, on="node-0"))
    assert len(world.indexed(PODS, STARTED, "node-0")) == 0
    assert world.aggregate(PODS, WAITING, "node-0") is None


def test_a_pod_that_is_updated_keeps_its_place_and_one_that_starts_leaves_the_line() -> None:
    line = Waiting()
    first, last = (made(name, 0, "Pending", started=False, cpu=1, card=False, on="node-0") for name in "ab")
    for key, each in ((Key("", "a"), first), (Key("", "b"), last), (Key("", "a"), first)):
        line.put(key, each)
    assert (line.count_before(first), line.count_before(last), len(line)) == (0, 1, 2)
    line.drop(Key("", "a"))
    line.drop(Key("", "a"))
    assert (line.count_before(last), len(line)) == (0, 1)
