"""This machine: its size, its GPUs, and the facts that nodes report about their machines."""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from kilauea.kubelet.node import MachineNode
from kilauea.nodes.machine import GPU, KUBELET_VERSION
from kilauea.version import __version__

RESERVED_CPU, RESERVED_MEMORY = 100, 256 << 20
"""Thousandths of a processor and bytes reserved for everything else on the machine."""
MOST_PODS = 1000
"""Maximum number of pods on the whole machine."""
_CPU_VERSION_1 = ("cpu.cfs_quota_us", "cpu.cfs_period_us")
_NVIDIA = ("nvidia-smi", "--query-gpu=uuid", "--format=csv,noheader")
_NVIDIA_SECONDS = 20
_ARCHITECTURES = {"aarch64": "arm64", "x86_64": "amd64"}


@dataclass(frozen=True, slots=True)
class ThisMachine:
    """The size of this machine.

    Attributes:
        cpu: thousandths of a processor.
        memory: bytes.
        storage: bytes of the file system of the cluster's folder.
        gpus: ids of its GPUs.
        boot: id of its last start; another one after each.
    """

    cpu: int
    memory: int
    storage: int = 0
    gpus: Sequence[str] = ()
    boot: str = "unknown"
    info: dict[str, str] = field(default_factory=dict)


def read_machine(folder: Path, groups: Path = Path("/sys/fs/cgroup"), proc: Path = Path("/proc")) -> ThisMachine:
    """Return the size of this machine, limited by the control group of this process.

    Args:
        folder: folder of the cluster; its file system is the storage of the machine.
        groups: the mount point of control groups.
        proc: the mount point of procfs.
    """
    cpu = 1000 * _processors()
    for group in _own_groups(groups, _text(proc / "self/cgroup")):
        quota = _text(group / "cpu.max").split() or [_text(group / name) for name in _CPU_VERSION_1]
        if len(quota) == 2 and quota[0].isdigit() and int(quota[1]):
            cpu = min(cpu, int(quota[0]) * 1000 // int(quota[1]))
    memory = read_memory(groups, proc)
    boot = _text(proc / "sys/kernel/random/boot_id") or "unknown"
    return ThisMachine(cpu, memory, read_storage(folder), nvidia_gpus(), boot, _info(boot))


def read_memory(groups: Path = Path("/sys/fs/cgroup"), proc: Path = Path("/proc")) -> int:
    """Return the bytes of memory of this machine, limited by the control group of this process.

    Args:
        groups: the mount point of control groups.
        proc: the mount point of procfs.
    """
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    for group in _own_groups(groups, _text(proc / "self/cgroup")):
        limit = _text(group / "memory.max") or _text(group / "memory.limit_in_bytes")
        if limit.isdigit():
            memory = min(memory, int(limit))
    return memory


def read_storage(folder: Path) -> int:
    """Return the bytes of the file system of a folder, which need not exist yet."""
    existing = next(each for each in (folder, *folder.parents) if each.exists())
    return shutil.disk_usage(existing).total


def _own_groups(root: Path, text: str) -> Iterator[Path]:
    """Yield the control groups of this process, the outermost first: all their limits apply.

    Args:
        root: the mount point of control groups.
        text: the content of `/proc/self/cgroup`.
    """
    for line in text.splitlines() or ["0::/"]:
        _, controllers, path = line.split(":", 2)
        group = root / controllers if controllers else root
        yield group
        for part in path.split("/"):
            if part == "..":  # a group outside the view of this process
                break
            if part:
                group = group / part
                yield group


def _processors() -> int:
    affinity = getattr(os, "sched_getaffinity", None)
    return len(affinity(0)) if affinity is not None else os.cpu_count() or 1


def _text(path: Path) -> str:
    """The content of a small file; empty if it cannot be read."""
    try:
        return path.read_text().strip()
    except OSError:
        return ""


def nvidia_gpus() -> list[str]:
    """Return the ids of the GPUs of this machine; none without a driver."""
    try:
        done = subprocess.run(_NVIDIA, capture_output=True, text=True, timeout=_NVIDIA_SECONDS, check=True)
    except (OSError, subprocess.SubprocessError):
        return []
    return [line.strip() for line in done.stdout.splitlines() if line.strip()]


def _info(boot: str) -> dict[str, str]:
    system = platform.freedesktop_os_release() if platform.system() == "Linux" and _has_release() else {}
    return {
        "architecture": _ARCHITECTURES.get(platform.machine(), platform.machine()),
        "bootID": boot,
        "containerRuntimeVersion": f"processes://{__version__}",
        "kernelVersion": platform.release(),
        "kubeProxyVersion": "",
        "kubeletVersion": KUBELET_VERSION,
        "machineID": _text(Path("/etc/machine-id")),
        "operatingSystem": platform.system().lower(),
        "osImage": system.get("PRETTY_NAME", platform.platform()),
        "systemUUID": "",
    }


def _has_release() -> bool:
    return any(Path(each).exists() for each in ("/etc/os-release", "/usr/lib/os-release"))


def machine_nodes(machine: ThisMachine, names: Sequence[str]) -> list[MachineNode]:
    """Divide a machine into equal nodes."""
    parts = len(names)
    capacity = _amounts(machine.cpu // parts, machine.memory // parts, machine.storage // parts, parts)
    free_cpu, free_memory = machine.cpu - RESERVED_CPU, machine.memory - RESERVED_MEMORY
    allocatable = _amounts(free_cpu // parts, free_memory // parts, machine.storage // parts, parts)
    gpus = node_gpus(machine, names)
    found = []
    for name in names:
        own = {GPU: str(len(gpus[name]))} if machine.gpus else {}
        found.append(MachineNode(name, {**capacity, **own}, {**allocatable, **own}, "127.0.0.1", machine.info))
    return found


def node_gpus(machine: ThisMachine, names: Sequence[str]) -> dict[str, Sequence[str]]:
    """Return the GPUs of each node of a machine: the same number for each, without the remainder."""
    each = len(machine.gpus) // len(names)
    return {name: machine.gpus[number * each : (number + 1) * each] for number, name in enumerate(names)}


def _amounts(cpu: int, memory: int, storage: int, parts: int) -> dict[str, str]:
    """Resources of a node, as quantities."""
    return {
        "cpu": f"{cpu}m",
        "ephemeral-storage": f"{storage >> 10}Ki",
        "memory": f"{memory >> 10}Ki",
        "pods": str(max(MOST_PODS // parts, 1)),
    }
