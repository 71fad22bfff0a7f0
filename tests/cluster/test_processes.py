"""Containers that misbehave: their neighbours go on, and nothing grows without a bound."""

from __future__ import annotations

import asyncio
import signal
from pathlib import Path

import pytest

from kilauea.kubelet.processes.runtime import Isolation
from support.containers import container, exit_of, logged, output_of, runtime, until


@pytest.fixture(params=["plain", "namespaces"])
def isolation(request: pytest.FixtureRequest) -> Isolation:
    return "plain" if request.param == "plain" else "namespaces"


def test_a_container_that_prints_without_end_leaves_others_alone(tmp_path: Path, isolation: Isolation) -> None:
    async def story() -> None:
        loud = container(tmp_path / "loud", "yes", "0123456789abcdef0123456789abcdef", id="loud")
        async with runtime(tmp_path, isolation) as opened:
            await opened.start(loud)
            await opened.start(container(tmp_path, "sleep", "1000", id="quiet"))
            await until(lambda: len(list((tmp_path / "loud").glob("*"))) == 5)  # the folder comes with the first line
            for _ in range(5):
                assert await output_of(await opened.exec("quiet", ["echo", "here"])) == (b"here\n", b"", 0)
            await opened.kill("loud")
            assert (await exit_of(opened, "loud")).signal == signal.SIGKILL
            sizes = [path.stat().st_size for path in (tmp_path / "loud").iterdir()]
            assert len(sizes) == 5
            assert sum(sizes) < 5 * 12 * 1024 * 1024

    asyncio.run(story())


def test_many_containers_at_a_time(tmp_path: Path, isolation: Isolation) -> None:
    async def story() -> None:
        async with runtime(tmp_path, isolation) as opened:
            wanted = [
                container(tmp_path, "sh", "-c", f"echo {number}; exit {number % 3}", id=f"c{number}")
                for number in range(300)
            ]
            await asyncio.gather(*(opened.start(each) for each in wanted))
            ended = {}
            async for state in opened.exits():
                ended[state.id] = state.exit_code
                if len(ended) == len(wanted):
                    break
            assert ended == {each.id: number % 3 for number, each in enumerate(wanted)}
            assert [logged(each) for each in wanted] == [[str(number)] for number in range(300)]

    asyncio.run(story())


def test_what_a_container_left_on_disk_goes_with_it(tmp_path: Path) -> None:
    async def story() -> None:
        script = "mkdir -p /var/data/deep && head -c 50000000 /dev/zero > /var/data/deep/file; sleep 1000"
        scratch = tmp_path / "processes/scratch"
        async with runtime(tmp_path, "namespaces") as opened:
            await opened.start(container(tmp_path, "sh", "-c", script))
            await until(
                lambda: [each.stat().st_size for each in scratch.glob("*/upper/var/data/deep/file")] == [50_000_000]
            )
            await opened.kill("one")
            await exit_of(opened, "one")
            await opened.remove("one")
            await until(lambda: not list(scratch.glob("*/upper/var/data")))

    asyncio.run(story())
