"""The device plugin of simulated nodes: pods get the cards in their annotations, or fail with the reason."""

from __future__ import annotations

from typing import Any

import pytest

from kilauea.api.kinds import NODES, PODS
from kilauea.nodes.heartbeats import Heartbeats
from kilauea.nodes.machine import Machine
from kilauea.nodes.pods import Pods
from support.simulated import World, node, pod

REGISTER = "volcano.sh/node-vgpu-register"
CARDS = "a,2,100,NVIDIA-A,true,hami-core:b,2,100,NVIDIA-A,true,hami-core:sick,2,100,NVIDIA-A,false,hami-core:"
SPLIT = "a,7,100,NVIDIA-A,true,mig:"
NPUS = '[{"id":"npu-0","count":2,"devmem":100,"type":"Ascend310P"}]'


def world(register: str = CARDS, **annotations: str) -> World:
    made = World(Pods())
    made.put(NODES, machine({REGISTER: register} | annotations))
    return made


def machine(annotations: dict[str, str]) -> dict[str, Any]:
    """A node with annotations."""
    made = node()
    made["metadata"]["annotations"] = annotations
    return made


def vgpu(name: str, record: str | None, *, on: str = "node-0", memory: int = 40, number: int = 1) -> dict[str, Any]:
    """A pod bound to the node with a record of its cards."""
    made = pod(name)
    limits = {"volcano.sh/vgpu-number": str(number), "volcano.sh/vgpu-memory": str(memory)}
    made["spec"]["containers"][0]["resources"] = {"limits": limits}
    marks = {"volcano.sh/vgpu-node": on, "volcano.sh/bind-phase": "allocating"}
    made["metadata"]["annotations"] = marks | ({"volcano.sh/vgpu-ids-new": record} if record is not None else {})
    return made


def failure(w: World, name: str = "p") -> str:
    """The message of a pod that its node has refused; empty for one that runs."""
    status = w.pod(name)["status"]
    if status["phase"] == "Running":
        return ""
    assert (status["phase"], status["reason"]) == ("Failed", "UnexpectedAdmissionError")
    return str(status["message"])


def test_a_pod_with_right_annotations_runs_and_its_bind_is_a_success() -> None:
    w = world(hamivgpu="2026-01-01T00:00:00Z")
    w.put(PODS, vgpu("p", "a,NVIDIA,40,0:"))
    w.run()
    assert failure(w) == ""
    assert w.pod()["metadata"]["annotations"]["volcano.sh/bind-phase"] == "success"
    assert "hamivgpu" not in w.node()["metadata"]["annotations"]
    written = len(w.written)
    w.run(60)
    assert len(w.written) == written


@pytest.mark.parametrize(
    ("made", "expected"),
    [
        pytest.param(vgpu("p", None), "has no annotation volcano.sh/vgpu-ids-new", id="no record"),
        pytest.param(vgpu("p", "%"), "cannot be read", id="a record that cannot be read"),
        pytest.param(vgpu("p", "a,NVIDIA,40,0:", on="x"), "'x', but the pod is on node node-0", id="another node"),
        pytest.param(vgpu("p", "z,NVIDIA,40,0:"), "node node-0 has no card z", id="a card of another node"),
        pytest.param(vgpu("p", "sick,NVIDIA,40,0:"), "card sick is not healthy", id="an unhealthy card"),
        pytest.param(vgpu("p", "a,NVIDIA,40,0:", number=2), "asks for 2 cards", id="too few cards"),
        pytest.param(vgpu("p", "a,NVIDIA,40,0:b,NVIDIA,40,0:"), "asks for 1 card,", id="too many cards"),
        pytest.param(vgpu("p", "a,NVIDIA,30,0:"), "asks for 40 MiB of each card, a gives 30", id="too little memory"),
        pytest.param(vgpu("p", "a,NVIDIA,140,0:"), "with 140 MiB of 100", id="more memory than a card has"),
        pytest.param(vgpu("p", "a,NVIDIA,40,101:"), "101 cores of 100", id="more cores than a card has"),
    ],
)
def test_a_pod_with_wrong_annotations_fails_with_the_reason(made: dict[str, Any], expected: str) -> None:
    w = world(hamivgpu="2026-01-01T00:00:00Z")
    w.put(PODS, made)
    w.run()
    assert failure(w).startswith("Allocate failed due to ")
    assert expected in failure(w)
    assert "hamivgpu" not in w.node()["metadata"]["annotations"]


@pytest.mark.parametrize("at_once", [True, False])
def test_a_card_that_is_given_out_twice_goes_to_the_first_pod_alone(at_once: bool) -> None:
    w = world()
    for name in "pq":
        w.put(PODS, vgpu(name, "a,NVIDIA,60,0:"))
        if not at_once:
            w.run()
    w.put(PODS, vgpu("r", "b,NVIDIA,60,0:"))
    w.run()
    assert [failure(w, name) for name in "pr"] == ["", ""]
    assert "card a would be given to 2 containers of 2, with 120 MiB of 100" in failure(w, "q")


def test_cards_are_free_again_when_their_pod_has_ended() -> None:
    w = world()
    first = vgpu("p", "a,NVIDIA,60,0:")
    first["spec"] |= {"restartPolicy": "Never"}
    first["metadata"]["annotations"]["kilauea.dev/run-time"] = "5s"
    w.put(PODS, first)
    w.run(10)
    assert w.pod()["status"]["phase"] == "Succeeded"
    w.put(PODS, vgpu("q", "a,NVIDIA,60,0:"))
    w.run()
    assert failure(w, "q") == ""


def test_instances_of_a_card_in_mode_mig_are_given_out_once() -> None:
    w = world(SPLIT)
    for name, record in (("p", "a[0-0],NVIDIA,50,0:"), ("q", "a[0-1],NVIDIA,50,0:"), ("r", "a[0-0],NVIDIA,50,0:")):
        w.put(PODS, vgpu(name, record))
        w.run()
    w.put(PODS, vgpu("s", "a,NVIDIA,50,0:"))
    w.run()
    assert [failure(w, name) for name in "pq"] == ["", ""]
    assert "MIG instance a[0-0] is given to 2 containers" in failure(w, "r")
    assert "has no card a" in failure(w, "s")


def test_npus_are_checked_in_the_same_way() -> None:
    w = world("", **{"hami.io/node-register-Ascend310P": NPUS, "hami.io/mutex.lock": "2026-01-01T00:00:00Z"})
    for name, memory in (("p", 60), ("q", 60)):
        made = pod(name)
        limits = {"huawei.com/Ascend310P": "1", "huawei.com/Ascend310P-memory": str(memory)}
        made["spec"]["containers"][0]["resources"] = {"limits": limits}
        record = f"npu-0,Ascend310P,{memory},0:"
        made["metadata"]["annotations"] = {
            "hami.io/Ascend310P-devices-allocated": record,
            "hami.io/vgpu-node": "node-0",
            "hami.io/bind-phase": "allocating",
        }
        w.put(PODS, made)
        w.run()
    assert failure(w) == ""
    assert w.pod()["metadata"]["annotations"]["hami.io/bind-phase"] == "success"
    assert "hami.io/mutex.lock" not in w.node()["metadata"]["annotations"]
    assert "card npu-0 would be given to 2 containers" in failure(w, "q")


def test_pods_that_ask_for_no_card_and_nodes_without_a_register_are_as_before() -> None:
    w = world()
    w.put(PODS, pod("p"))
    bare = node("node-1", ready=True)
    w.put(NODES, bare)
    there = vgpu("q", None)
    there["spec"]["nodeName"] = "node-1"
    w.put(PODS, there)
    w.run()
    assert [failure(w, name) for name in "pq"] == ["", ""]


@pytest.mark.parametrize("register", ["%", "x" * 300_000, "a,b,c,d,e,f:"])
def test_a_register_that_cannot_be_read_fails_the_pods_that_want_cards(register: str) -> None:
    w = world(register)
    w.put(PODS, vgpu("p", "a,NVIDIA,40,0:"))
    w.run()
    assert "cannot read its cards" in failure(w)


def test_a_node_offers_the_resources_of_the_cards_that_it_registers() -> None:
    w = World(Heartbeats(Machine()))
    w.put(NODES, machine({REGISTER: CARDS, "hami.io/node-register-Ascend310P": NPUS}))
    w.run()
    offered = w.node()["status"]["allocatable"]
    assert {name: amount for name, amount in offered.items() if "/" in name} == {
        "volcano.sh/vgpu-number": "4",
        "volcano.sh/vgpu-memory": "200",
        "volcano.sh/vgpu-cores": "200",
        "huawei.com/Ascend310P": "2",
        "huawei.com/Ascend310P-memory": "100",
    }
    assert w.node()["status"]["capacity"] == offered
