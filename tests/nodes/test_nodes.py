"""Nodes that are registered, adopted, made unready, silenced and deleted."""

from __future__ import annotations

from typing import Any

import pytest

from kilauea.api.kinds import LEASES, NODES
from kilauea.api.ports import Controller, Key, Obj, Patch, finished
from kilauea.nodes.heartbeats import LEASE_NAMESPACE, Heartbeats
from kilauea.nodes.machine import Machine
from kilauea.nodes.registration import Registration
from support.simulated import World, merge, node, notes

PLAIN = Machine()


def world(*nodes: dict[str, Any], count: int = 0, machine: Machine = PLAIN) -> World:
    made = World(Registration(count, machine), Heartbeats(machine))
    for each in nodes:
        made.put(NODES, each)
    return made


def ready(obj: dict[str, Any]) -> Any:
    (found,) = [each for each in obj["status"]["conditions"] if each["type"] == "Ready"]
    return found


def lease(w: World, name: str = "node-0") -> Obj:
    found = w.get(LEASES, Key(LEASE_NAMESPACE, name))
    assert found is not None
    return found


def bare(**status: Any) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": "mine", "labels": {"disk": "ssd"}},
        "status": status,
    }


def test_nodes_register_with_all_that_schedulers_read() -> None:
    w = world(count=12, machine=Machine(cpu="8", memory="32Gi", gpu=4))
    w.run()
    assert len(w.list(NODES)) == 12
    made = w.node("node-11")
    amounts = {"cpu": "8", "memory": "32Gi", "pods": "110", "ephemeral-storage": "200Gi", "nvidia.com/gpu": "4"}
    assert made["status"]["capacity"] == made["status"]["allocatable"] == amounts
    assert made["metadata"]["labels"] == {
        "kubernetes.io/hostname": "node-11",
        "kubernetes.io/os": "linux",
        "kubernetes.io/arch": "amd64",
        "node.kubernetes.io/instance-type": "simulated",
    }
    assert made["status"]["addresses"][0] == {"type": "InternalIP", "address": "172.16.0.12"}
    types = {each["type"]: each["status"] for each in made["status"]["conditions"]}
    assert types == {"MemoryPressure": "False", "DiskPressure": "False", "PIDPressure": "False", "Ready": "True"}


def test_a_node_takes_two_writes_to_be_there() -> None:
    w = world(count=1)
    w.run()
    assert len(w.written) == 2
    spec = lease(w)["spec"]
    assert (spec["holderIdentity"], spec["leaseDurationSeconds"]) == ("node-0", 40)
    assert spec["renewTime"] == "2026-01-01T00:00:00.000000Z"
    assert lease(w)["metadata"]["ownerReferences"][0]["uid"] == w.node()["metadata"]["uid"]


def test_addresses_of_numbered_nodes_differ() -> None:
    w = world(count=600)
    w.run()
    assert len({each["status"]["addresses"][0]["address"] for each in w.list(NODES)}) == 600


def test_leases_are_renewed_once_in_ten_seconds_and_not_all_at_once() -> None:
    w = world(count=50)
    w.run(10)
    w.written.clear()
    moments = set()
    for _ in range(100):
        w.run(0.1)
        moments |= {(each.key.name, w.now) for each in w.written if isinstance(each, Patch) and each.resource == LEASES}
        w.written.clear()
    assert sorted(name for name, _ in moments) == sorted(f"node-{number}" for number in range(50))
    assert len({moment for _, moment in moments}) > 30


@pytest.mark.slow
def test_the_status_is_written_rarely() -> None:
    w = world(count=20)
    w.run(10)
    w.written.clear()
    w.run(600)
    patches = [each for each in w.written if isinstance(each, Patch)]
    per_node = [
        sum(1 for each in patches if each.resource == NODES and each.key.name == f"node-{n}") for n in range(20)
    ]
    assert per_node == [2] * 20


def test_a_node_without_status_gets_one() -> None:
    w = world(bare())
    w.run()
    status = w.node("mine")["status"]
    assert status["capacity"] == PLAIN.capacity()
    assert status["nodeInfo"]["operatingSystem"] == "linux"
    assert ready(w.node("mine"))["status"] == "True"
    assert w.node("mine")["metadata"]["labels"] == {"disk": "ssd"}


def test_a_node_keeps_what_it_says_about_itself() -> None:
    status = {
        "capacity": {"cpu": "96", "pods": "50"},
        "allocatable": {"cpu": "90", "pods": "50"},
        "addresses": [{"type": "InternalIP", "address": "192.168.1.1"}],
        "nodeInfo": {"kubeletVersion": "fake", "bootID": ""},
        "conditions": [{"type": "Ready", "status": "True", "lastHeartbeatTime": "2026-01-01T00:00:00Z"}],
    }
    w = world(bare(**status))
    w.run()
    assert w.node("mine")["status"] == status
    assert lease(w, "mine")


def test_amounts_without_pods_are_completed() -> None:
    w = world(bare(capacity={"cpu": "96"}))
    w.run()
    assert w.node("mine")["status"]["allocatable"] == {"cpu": "96", "pods": "110"}


def test_unready_said_by_somebody_else_stays() -> None:
    said = {
        "type": "Ready",
        "status": "False",
        "reason": "Broken",
        "message": "fan",
        "lastHeartbeatTime": "2026-01-01T00:00:00Z",
    }
    w = world(bare(conditions=[said]))
    w.run(3600)
    assert {**ready(w.node("mine")), "lastHeartbeatTime": ""} == {**said, "lastHeartbeatTime": ""}


def test_unknown_said_by_a_controller_is_corrected() -> None:
    w = world(count=1)
    w.run()
    unknown = [
        merge(each, {"status": "Unknown", "reason": "NodeStatusUnknown"}) for each in w.node()["status"]["conditions"]
    ]
    w.change(NODES, "node-0", {"status": {"conditions": unknown}})
    w.run(30)
    assert ready(w.node())["status"] == "True"
    assert ready(w.node())["reason"] == "KubeletReady"


def test_an_annotation_makes_a_node_unready_and_ready_again() -> None:
    w = world(count=1)
    w.run(1)
    w.change(NODES, "node-0", {"metadata": {"annotations": notes({"node_state": "not-ready"})}})
    w.run(1)
    assert (ready(w.node())["status"], ready(w.node())["reason"]) == ("False", "KubeletNotReady")
    assert ready(w.node())["lastTransitionTime"] == "2026-01-01T00:00:01Z"
    w.change(NODES, "node-0", {"metadata": {"annotations": None}})
    w.run(1)
    assert ready(w.node())["status"] == "True"


def test_a_silent_node_sends_nothing() -> None:
    w = world(count=1)
    w.run(20)
    w.change(NODES, "node-0", {"metadata": {"annotations": notes({"node_state": "silent"})}})
    w.written.clear()
    w.run(600)
    assert w.written == []


def test_an_unknown_state_is_told_in_the_condition() -> None:
    w = world(node("node-0", ready=False, node_state="sleepy"))
    w.run()
    assert ready(w.node())["status"] == "True"
    assert '"sleepy" is not known: use not-ready or silent' in ready(w.node())["message"]


def test_machines_are_left_to_their_kubelets() -> None:
    w = world(bare(nodeInfo={"bootID": "6f0d"}))
    w.run(600)
    assert w.written == []


def test_a_node_created_again_owns_its_lease() -> None:
    w = world(count=1)
    w.run(11)
    again = w.node()
    w.remove(NODES, "node-0")
    w.put(NODES, {**again, "metadata": {**again["metadata"], "uid": "second"}})
    w.run(11)
    assert lease(w)["metadata"]["ownerReferences"][0]["uid"] == "second"


def test_a_status_changed_meanwhile_is_not_written_over() -> None:
    w = world(bare())
    wanted = Heartbeats(PLAIN).reconcile(Key("", "mine"), w, w.now).operations[0]
    assert isinstance(wanted, Patch)
    assert wanted.version == w.node("mine")["metadata"]["resourceVersion"]


@pytest.mark.parametrize("controller", [Registration(3, PLAIN), Heartbeats(PLAIN)])
def test_nothing_is_wanted_of_a_node_that_is_there_and_fresh(controller: Controller) -> None:
    w = world(count=3)
    w.run()
    assert finished(controller.reconcile(Key("", "node-1"), w, w.now)).operations in ((), [])


def test_an_extended_resource_that_is_added_to_the_capacity_becomes_allocatable() -> None:
    w = world(node())
    w.run()
    w.change(NODES, "node-0", {"status": {"capacity": {"example.com/dongle": "4"}}})
    w.run()
    status = w.node()["status"]
    assert status["allocatable"] == {**PLAIN.capacity(), "example.com/dongle": "4"}
    w.change(NODES, "node-0", {"status": {"allocatable": {"example.com/dongle": "3"}}})
    w.run()
    assert w.node()["status"]["allocatable"]["example.com/dongle"] == "3"
