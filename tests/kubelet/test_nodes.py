"""The nodes of this machine, and what they admit."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import pytest

from kilauea.api.kinds import LEASES, NODES
from kilauea.api.ports import Create, Key, Obj, Patch, Resource
from kilauea.api.times import SECOND
from kilauea.kubelet.node import MachineNode, MachineNodes
from kilauea.kubelet.node_admission import refusal_of
from kilauea.nodes.annotations import is_simulated
from kilauea.nodes.requests import requests_of
from support.virtual_time import START

INFO = {"operatingSystem": "linux", "architecture": "amd64", "bootID": "b-1"}
PART = MachineNode("host", {"cpu": "4"}, {"cpu": "3900m"}, "127.0.0.1", INFO)


class View:
    """The node and its Lease."""

    def __init__(self, node: Obj | None = None) -> None:
        self._node = node

    def get(self, resource: Resource, key: Key) -> Obj | None:
        assert resource in (NODES, LEASES)
        return self._node if resource == NODES else None


def registered() -> dict[str, Any]:
    (created,) = MachineNodes([PART], 20).reconcile(Key("", "host"), View(), START).operations  # type: ignore[arg-type]
    assert isinstance(created, Create)
    node = {**created.body, "metadata": {**created.body["metadata"], "uid": "u", "resourceVersion": "1"}}
    return node


def test_this_machine_registers_as_a_ready_node_that_is_not_simulated() -> None:
    node = registered()
    assert node["metadata"]["annotations"] == {"kilauea.dev/runtime": "process"}
    assert node["status"]["allocatable"] == {"cpu": "3900m"}
    ready = next(each for each in node["status"]["conditions"] if each["type"] == "Ready")
    assert (ready["status"], ready["message"]) == ("True", "kubelet is posting ready status")
    assert not is_simulated(node)
    assert not is_simulated({"metadata": {"name": "n", "annotations": {"kilauea.dev/runtime": "process"}}})


def test_a_node_that_is_as_it_should_be_gets_only_its_lease() -> None:
    outcome = MachineNodes([PART], 20).reconcile(Key("", "host"), View(registered()), START)  # type: ignore[arg-type]
    assert [each.resource for each in outcome.operations if isinstance(each, Create)] == [LEASES]
    assert not [each for each in outcome.operations if isinstance(each, Patch)]
    assert outcome.again is not None
    assert 0 < outcome.again <= 20


def test_a_node_reports_the_pressure_on_its_disk_until_it_ends() -> None:
    def reported(node: Obj, is_low: bool) -> list[list[Obj]]:
        nodes = MachineNodes([PART], 20, lambda: is_low)
        outcome = nodes.reconcile(Key("", "host"), View(node), START + SECOND)  # type: ignore[arg-type]
        return [each.patch["status"]["conditions"] for each in outcome.operations if isinstance(each, Patch)]

    node = registered()
    (low,) = reported(node, is_low=True)
    by_type = {each["type"]: (each["status"], each["reason"]) for each in low}
    assert by_type["DiskPressure"] == ("True", "KubeletHasDiskPressure")
    assert len(low) == len(node["status"]["conditions"])
    node["status"]["conditions"] = low
    assert reported(node, is_low=True) == []
    (enough,) = reported(node, is_low=False)
    by_type = {each["type"]: (each["status"], each["reason"]) for each in enough}
    assert by_type["DiskPressure"] == ("False", "KubeletHasNoDiskPressure")


def test_a_machine_that_has_changed_is_told_and_extended_resources_stay() -> None:
    node = registered()
    node["status"]["capacity"] = {"cpu": "2", "example.com/tape": "1"}
    outcome = MachineNodes([PART], 20).reconcile(Key("", "host"), View(node), START)  # type: ignore[arg-type]
    (patch,) = [each for each in outcome.operations if isinstance(each, Patch)]
    assert patch.patch["status"]["capacity"] == {"cpu": "4", "example.com/tape": "1"}


def pod(name: str, cpu: str = "", port: int = 0, **fields: Any) -> dict[str, Any]:
    main: dict[str, Any] = {"name": "main", "resources": {"requests": {"cpu": cpu}} if cpu else {}}
    if port:
        main["ports"] = [{"hostPort": port, "containerPort": port}]
    return {"metadata": {"name": name, "uid": name}, "spec": {"containers": [main], **fields}}


class Admitted(NamedTuple):
    """A pod that a node has, and what it requests."""

    pod: Obj
    requests: Mapping[str, int]


NODE = {"status": {"allocatable": {"cpu": "4", "pods": "2"}}}
NO_PORT = "Predicate NodePorts failed: node(s) didn't have free ports for the requested pod ports"
FULL = "Node didn't have enough resource: {}, requested: {}, used: {}, capacity: {}"


@pytest.mark.parametrize(
    ("wanted", "others", "refusal"),
    [
        (pod("a", "4"), [], None),
        (pod("a", "1"), [pod("b", "3")], None),
        (pod("a", "2"), [pod("b", "3")], ("OutOfcpu", FULL.format("cpu", 2000, 3000, 4000))),
        (pod("a"), [pod("b", "4")], None),
        (pod("a"), [pod("b"), pod("c")], ("OutOfpods", FULL.format("pods", 1, 2, 2))),
        (pod("a", port=80), [pod("b", port=81)], None),
        (pod("a", port=80), [pod("b", port=80)], ("NodePorts", NO_PORT)),
    ],
)
def test_a_node_refuses_what_it_has_no_room_for(wanted: Obj, others: list[Obj], refusal: object) -> None:
    assert refusal_of(wanted, NODE, [Admitted(each, requests_of(each)) for each in others]) == refusal


def test_init_containers_count_with_the_sidecars_before_them() -> None:
    inits = [
        {"name": "s", "restartPolicy": "Always", "resources": {"requests": {"cpu": "1"}}},
        {"name": "i", "resources": {"requests": {"cpu": "5"}}},
    ]
    assert requests_of(pod("a", "2", initContainers=inits)) == {"cpu": 6000}
    assert requests_of(pod("a", "6", initContainers=inits, overhead={"cpu": "250m"})) == {"cpu": 7250}
