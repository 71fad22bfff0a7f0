"""Limits of containers, as far as this machine has them."""

from __future__ import annotations

import asyncio
import os
import sys
import time
from pathlib import Path

import pytest

from kilauea.kubelet.container_runtime import ContainerError, Limits
from kilauea.kubelet.processes.runtime import Isolation
from kilauea.kubelet.processes.supervisor import process_tree
from support.containers import container, limits_of, logged, processes_of, run, runtime, until

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
            if any("memory limits apply to each process" in text for text in opened.limitations):
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


@pytest.mark.skipif(not Path("/proc/self/oom_score_adj").exists(), reason="only Linux has such scores")
def test_the_kernel_ends_containers_before_the_cluster(tmp_path: Path, isolation: Isolation) -> None:
    def scores(pids: list[int]) -> set[int]:
        return {int(Path(f"/proc/{pid}/oom_score_adj").read_text()) for pid in pids}

    async def story() -> None:
        async with runtime(tmp_path, isolation) as opened:
            state = await opened.start(
                container(tmp_path, "sh", "-c", "sleep 0.2; sleep 1234321 & wait", oom_score=950)
            )
            await until(lambda: processes_of("sleep", "1234321"))
            assert scores(process_tree.with_descendants([state.pid])) == {950}
            seconds = str(300_000_000 + time.time_ns() % 100_000_000)
            process = await opened.exec("one", ["sleep", seconds])
            await until(lambda: processes_of("sleep", seconds))
            await until(lambda: scores(processes_of("sleep", seconds)) == {950})
            await process.close()

    asyncio.run(story())


@pytest.mark.parametrize("first", [Limits(), Limits(cpu=100, memory=32 << 20)], ids=["none", "some"])
def test_the_limits_of_a_running_container_change(tmp_path: Path, isolation: Isolation, first: Limits) -> None:
    async def story() -> None:
        wanted = container(tmp_path, "sh", "-c", "sleep 1000 & wait", limits=first)
        async with runtime(tmp_path, isolation) as opened:
            if any("limits" in text for text in opened.limitations):
                pytest.skip("this machine has no control groups that can be used")
            state = await opened.start(wanted)
            await until(lambda: len(process_tree.with_descendants([state.pid])) == 2)
            await opened.resize("one", Limits(cpu=500, memory=64 << 20))
            for pid in process_tree.with_descendants([state.pid]):
                assert limits_of(pid) == ("50000", str(64 << 20))
            seconds = str(300_000_000 + time.time_ns() % 100_000_000)
            process = await opened.exec("one", ["sleep", seconds])
            await until(lambda: processes_of("sleep", seconds))
            assert limits_of(processes_of("sleep", seconds)[0]) == ("50000", str(64 << 20))
            await process.close()
            await opened.resize("one", Limits(cpu=500))
            assert limits_of(state.pid)[0] == "50000"
            assert limits_of(state.pid)[1] != str(64 << 20)
            with pytest.raises(ContainerError, match='container "two" does not exist'):
                await opened.resize("two", Limits())

    asyncio.run(story())
