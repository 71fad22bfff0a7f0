"""The folder of the kubelet: what stands in the place of its files is named at the start."""

from __future__ import annotations

import asyncio
import os
import signal
import stat
from pathlib import Path
from typing import Any

import pytest

from kilauea.client.view import Cache
from kilauea.kubelet.network import claimed_ranges
from kilauea.kubelet.processes.runtime import ProcessRuntime
from kilauea.runtime.clock import SystemClock
from kilauea.runtime.cluster.machine_pods import MachineOptions, MachinePods
from kilauea.runtime.daemon import StartError


async def opened(folder: Path) -> None:
    api: Any = None
    address: asyncio.Future[str] = asyncio.get_running_loop().create_future()
    with claimed_ranges(folder) as ranges:
        pods = MachinePods(MachineOptions(), ranges, api, Cache(), SystemClock(), lambda *_: None, folder, address)
        await pods.open()
        supervisor = pods.runtime.supervisor if isinstance(pods.runtime, ProcessRuntime) else 0
        await pods.close()
        os.kill(supervisor, signal.SIGTERM)


@pytest.mark.parametrize("name", ["kubelet", "kubelet/processes"])
def test_a_file_in_the_place_of_a_folder_is_named(tmp_path: Path, name: str) -> None:
    (tmp_path / name).parent.mkdir(exist_ok=True)
    (tmp_path / name).write_text("x")
    with pytest.raises(StartError, match="pods cannot run as processes") as raised:
        asyncio.run(opened(tmp_path))
    assert str(tmp_path / name) in str(raised.value)


@pytest.mark.parametrize(
    "name",
    [
        "network",
        "processes/supervisor.lock",
        "processes/supervisor.log",
        "processes/supervisor.sock",
        "processes/containers/states",
    ],
)
def test_a_folder_in_the_place_of_a_file_is_named(tmp_path: Path, name: str) -> None:
    (tmp_path / "kubelet" / name).mkdir(parents=True)
    with pytest.raises(StartError, match="pods cannot run as processes") as raised:
        asyncio.run(opened(tmp_path))
    assert (tmp_path / "kubelet" / name).name in str(raised.value)


def test_the_folder_is_private_before_anything_is_in_it(tmp_path: Path) -> None:
    asyncio.run(opened(tmp_path))
    assert stat.S_IMODE((tmp_path / "kubelet").stat().st_mode) == 0o700
    assert (tmp_path / "kubelet" / "network").read_text().startswith("127.")
