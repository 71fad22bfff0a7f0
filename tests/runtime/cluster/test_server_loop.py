"""The loop of a server: uvloop's, and asyncio's own where that is not installed."""

from __future__ import annotations

import asyncio

import pytest

from kilauea.runtime.cluster import server_loop


@pytest.mark.parametrize(("installed", "package"), [(True, "uvloop"), (False, "asyncio")])
def test_a_server_runs_to_its_end(monkeypatch: pytest.MonkeyPatch, installed: bool, package: str) -> None:
    if not installed:
        monkeypatch.setattr(server_loop, "new_loop", None)
    ran_on: list[str] = []

    async def main() -> None:
        await asyncio.sleep(0)
        ran_on.append(type(asyncio.get_running_loop()).__module__.partition(".")[0])

    server_loop.run_server(main())
    assert ran_on == [package]


def test_a_server_that_runs_pods_gives_their_supervisor_no_pipe_twice() -> None:
    found: list[str] = []

    async def main() -> None:
        pipe = asyncio.subprocess.PIPE
        command = ("ls", "/proc/self/fd")
        process = await asyncio.create_subprocess_exec(*command, stdin=pipe, stdout=pipe, stderr=pipe, close_fds=True)
        answer, _ = await process.communicate()
        found.extend(answer.decode().split())

    server_loop.run_server(main(), runs_pods=True)
    assert found == ["0", "1", "2", "3"]  # 3 is the folder that is listed


def test_an_error_of_a_server_ends_it() -> None:
    async def main() -> None:
        raise LookupError("no such folder")

    with pytest.raises(LookupError, match="no such folder"):
        server_loop.run_server(main())
