"""The device plugin of simulated nodes for chips that are split: pods get the chips in their annotation, or fail."""

from __future__ import annotations

from typing import Any

import pytest

from kilauea.api.kinds import NODES, PODS
from kilauea.nodes.pods import Pods
from support.simulated import World, node, pod

CORES = "huawei.com/npu-core"


def world(server: str = "Ascend310P-8", cores: str = "16") -> World:
    """A node with two chips of eight cores."""
    made = node()
    made["metadata"]["labels"] = {"servertype": server}
    made["status"] = {**made.get("status", {}), "allocatable": {"cpu": "8", "pods": "110", CORES: cores}}
    out = World(Pods())
    out.put(NODES, made)
    return out


def npu(name: str, record: str | None, cores: int = 2, **annotations: str) -> dict[str, Any]:
    """A pod bound to the node, with a record of its chips."""
    made = pod(name)
    made["spec"]["containers"][0]["resources"] = {"limits": {CORES: str(cores)}}
    made["metadata"]["annotations"] = annotations | ({CORES: record} if record is not None else {})
    return made


def failure(w: World, name: str = "p") -> str:
    """The message of a pod that its node has refused; empty for one that runs."""
    status = w.pod(name)["status"]
    if status["phase"] == "Running":
        return ""
    assert (status["phase"], status["reason"]) == ("Failed", "UnexpectedAdmissionError")
    return str(status["message"])


@pytest.mark.parametrize(
    ("record", "cores"), [("0-vir02", 2), ("1-vir02_1c", 2), ("0-vir01", 1), ("1-vir04_3c", 4), ("0", 8), ("0,1", 16)]
)
def test_a_pod_gets_the_chips_in_its_annotation(record: str, cores: int) -> None:
    w = world()
    w.put(PODS, npu("p", record, cores))
    w.run()
    assert failure(w) == ""


@pytest.mark.parametrize(
    ("record", "cores", "expected"),
    [
        (None, 2, "no annotation huawei.com/npu-core"),
        ("", 2, "names no chips of the 2 of node node-0"),
        ("2-vir02", 2, "names no chips of the 2"),
        ("-1-vir02", 2, "names no chips of the 2"),
        ("0-vir99", 2, "names no chips of the 2"),
        ("0,1-vir02", 2, "names no chips of the 2"),
        ("0" * 300_000, 2, "names no chips of the 2"),
        ("\u0662-vir02", 2, "names no chips of the 2"),
        ("0-vir04", 2, "asks for 2 cores, annotation huawei.com/npu-core gives it 4"),
        ("0", 16, "asks for 16 cores, annotation huawei.com/npu-core gives it 8"),
    ],
)
def test_a_pod_with_a_wrong_annotation_fails_with_the_reason(record: str | None, cores: int, expected: str) -> None:
    w = world()
    w.put(PODS, npu("p", record, cores))
    w.run()
    assert expected in failure(w)
    assert len(failure(w)) < 300


@pytest.mark.parametrize(
    ("first", "second", "fits"),
    [
        (("0-vir04", 4), ("0-vir02", 2), True),
        (("0-vir04", 4), ("0-vir04", 4), False),  # eight processors of seven
        (("0-vir04", 4), ("0-vir04_3c", 4), True),
        (("0-vir04_4c_dvpp", 4), ("0-vir01", 1), False),
        (("0", 8), ("0-vir01", 1), False),
        (("0-vir01", 1), ("0,1", 16), False),
        (("0", 8), ("1", 8), True),
    ],
)
def test_a_chip_is_given_out_once(first: tuple[str, int], second: tuple[str, int], fits: bool) -> None:
    w = world()
    for name, (record, cores) in (("p", first), ("q", second)):
        w.put(PODS, npu(name, record, cores))
        w.run()
    assert failure(w) == ""
    assert (failure(w, "q") == "") == fits
    assert fits or "has no room" in failure(w, "q")


def test_a_chip_is_free_again_when_its_pod_has_ended() -> None:
    w = world()
    ends = npu("p", "0", 8, **{"kilauea.dev/run-time": "5s"})
    ends["spec"] |= {"restartPolicy": "Never"}
    w.put(PODS, ends)
    w.run(10)
    w.put(PODS, npu("q", "0", 8))
    w.run()
    assert failure(w, "q") == ""


@pytest.mark.parametrize(
    ("server", "cores"),
    [("Ascend910-8", "16"), ("", "16"), ("Ascend310P-8", "0"), ("Ascend310P-8", "-16"), ("Ascend310P-x", "16")],
)
def test_nodes_without_such_chips_are_as_before(server: str, cores: str) -> None:
    w = world(server, cores)
    w.put(PODS, npu("p", None))
    w.run()
    assert failure(w) == ""
