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


def test_an_error_of_a_server_ends_it() -> None:
    async def main() -> None:
        raise LookupError("no such folder")

    with pytest.raises(LookupError, match="no such folder"):
        server_loop.run_server(main())
