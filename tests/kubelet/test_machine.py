"""The size of this machine, its GPUs, and the images that it has."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import pytest

from kilauea.kubelet.machine import RESERVED_CPU, RESERVED_MEMORY, ThisMachine, machine_nodes, node_gpus, read_machine

MACHINE = ThisMachine(8000, 16 << 30, 100 << 30, ("GPU-a", "GPU-b", "GPU-c"), "b-1", {"bootID": "b-1"})


def test_a_machine_is_one_node_minus_a_reserve() -> None:
    (node,) = machine_nodes(MACHINE, ["host"])
    assert node.capacity["cpu"] == "8000m"
    assert node.allocatable["cpu"] == f"{8000 - RESERVED_CPU}m"
    assert node.allocatable["memory"] == f"{(16 << 20) - (RESERVED_MEMORY >> 10)}Ki"
    assert node.capacity["nvidia.com/gpu"] == "3"


def test_parts_of_a_machine_are_equal_and_share_no_device() -> None:
    nodes = machine_nodes(MACHINE, ["host-0", "host-1"])
    assert {node.capacity["cpu"] for node in nodes} == {"4000m"}
    assert {node.capacity["nvidia.com/gpu"] for node in nodes} == {"1"}
    assert node_gpus(MACHINE, ["host-0", "host-1"]) == {"host-0": ("GPU-a",), "host-1": ("GPU-b",)}


def test_a_machine_is_no_larger_than_its_control_group(tmp_path: Path) -> None:
    (tmp_path / "cpu.max").write_text("50000 100000\n")
    (tmp_path / "memory.max").write_text("268435456\n")
    found = read_machine(tmp_path / "not" / "there", tmp_path, tmp_path)
    assert (found.cpu, found.memory) == (500, 268435456)
    (tmp_path / "cpu.max").write_text("max 100000\n")
    (tmp_path / "memory.max").write_text("max\n")
    found = read_machine(tmp_path, tmp_path, tmp_path)
    assert found.cpu >= 1000
    assert found.memory > 268435456


@pytest.mark.parametrize(
    ("groups", "files"),
    [
        ("0::/user/job", {"user/cpu.max": "50000 100000", "user/job/memory.max": "268435456"}),
        (
            "4:memory:/job\n2:cpu,cpuacct:/user/job\n0::/",
            {
                "memory/job/memory.limit_in_bytes": "268435456",
                "cpu,cpuacct/user/cpu.cfs_quota_us": "50000",
                "cpu,cpuacct/user/cpu.cfs_period_us": "100000",
                "cpu,cpuacct/user/job/cpu.cfs_quota_us": "-1",
            },
        ),
    ],
    ids=["version 2", "version 1"],
)
def test_limits_of_all_groups_around_a_process_count(tmp_path: Path, groups: str, files: dict[str, str]) -> None:
    proc = tmp_path / "proc" / "self"
    for path, text in {"proc/self/cgroup": groups, **files}.items():
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(text)
    found = read_machine(tmp_path, tmp_path, proc.parent)
    assert (found.cpu, found.memory) == (500, 268435456)


def test_gpus_are_those_of_the_driver(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def run(command: tuple[str, ...], **options: Any) -> subprocess.CompletedProcess[str]:
        assert command[0] == "nvidia-smi"
        return subprocess.CompletedProcess(command, 0, "GPU-1\nGPU-2\n")

    monkeypatch.setattr(subprocess, "run", run)
    assert list(read_machine(tmp_path).gpus) == ["GPU-1", "GPU-2"]
