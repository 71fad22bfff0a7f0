"""Limits of containers, as far as this machine has them."""

from __future__ import annotations

import asyncio
import os
import sys
from pathlib import Path

import pytest

from kilauea.kubelet.container_runtime import Limits
from kilauea.kubelet.processes.runtime import Isolation
from support.containers import container, logged, run, runtime

PYTHON = os.path.realpath(sys.executable)
"""The interpreter itself: containers have a `/tmp` of their own, and the environment of the tests may be there."""
EATS = "data = []\nwhile True: data.append(bytearray(1 << 20)); data[-1][::4096] = b'x' * 256"


@pytest.fixture(params=["plain", "namespaces"])
def isolation(request: pytest.FixtureRequest) -> Isolation:
    return "plain" if request.param == "plain" else "namespaces"


def test_a_container_that_eats_memory_is_ended(tmp_path: Path, isolation: Isolation) -> None:
    async def story() -> None:
        limits = Limits(memory=64 * 1024 * 1024)
        async with runtime(tmp_path, isolation) as opened:
            state = await run(opened, container(tmp_path, PYTHON, "-c", EATS, limits=limits))
            if any("memory limits hold for each process" in text for text in opened.limitations):
                assert (state.exit_code, state.reason) == (1, "Error")
            else:
                assert (state.exit_code, state.reason) == (137, "OOMKilled")

    asyncio.run(story())


def test_a_container_cannot_have_more_processes_than_its_limit(tmp_path: Path, isolation: Isolation) -> None:
    async def story() -> None:
        script = "for i in 1 2 3 4 5 6 7 8; do sleep 5 & done; echo all started"
        wanted = container(tmp_path, "sh", "-c", script, limits=Limits(processes=4))
        async with runtime(tmp_path, isolation) as opened:
            if any("pids" in text for text in opened.limitations):
                pytest.skip("this machine has no limit of processes")
            state = await run(opened, wanted)
            assert state.exit_code != 0
            assert logged(wanted) == []

    asyncio.run(story())
