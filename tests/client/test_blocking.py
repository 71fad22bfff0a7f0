"""The transport of short commands: how it is let in, what it says when no one answers, and that a watch can be left.

What it has in common with the other transports is tested with these, in the other files.
"""

from __future__ import annotations

import asyncio
import os
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
import yaml

from client.conftest import MAPS, NAMESPACES
from cluster.api_process import Server, running_server
from kilauea.api.ports import ApiError, Key
from kilauea.client.blocking import BlockingTransport
from kilauea.client.finding import find_access
from kilauea.client.rest import Client

DEFAULT = Key("", "default")


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with running_server(tmp_path_factory.mktemp("plain") / "data") as running:
        yield running


def test_a_token_that_was_replaced_is_read_again_at_the_refusal(server: Server, tmp_path: Path) -> None:
    file, path = tmp_path / "token", tmp_path / "config"
    file.write_text("old")
    document = yaml.safe_load(server.kubeconfig.read_text())
    document["users"][0]["user"] = {"tokenFile": str(file)}
    path.write_text(yaml.safe_dump(document))

    async def main() -> str:
        async with BlockingTransport(find_access(path, os.environ)) as transport:
            client = Client(transport)
            with pytest.raises(ApiError) as caught:
                await client.get(NAMESPACES, DEFAULT)
            assert (caught.value.code, caught.value.reason) == (401, "Unauthorized")
            file.write_text(server.token)
            name: str = (await client.get(NAMESPACES, DEFAULT))["metadata"]["name"]
            return name

    assert asyncio.run(main()) == "default"


@pytest.mark.parametrize("address", ["https://127.0.0.1:1", "http://127.0.0.1:1/below"])
def test_a_server_that_is_not_there_is_named(server: Server, address: str) -> None:
    access = replace(find_access(server.kubeconfig, os.environ), server=address)

    async def main() -> None:
        async with BlockingTransport(access) as transport:
            client = Client(transport)
            for work in (client.get(NAMESPACES, DEFAULT), anext(aiter(client.watch(NAMESPACES, "0")))):
                with pytest.raises(ApiError) as caught:
                    await work
                assert caught.value.code == 0
                assert str(caught.value).startswith(f"{address}: GET /api/v1/namespaces")
                assert str(caught.value).endswith(": Connection refused")

    asyncio.run(main())


def test_a_watch_that_says_nothing_can_be_left_at_once(server: Server) -> None:
    async def main() -> None:
        async with BlockingTransport(find_access(server.kubeconfig, os.environ)) as transport:
            client = Client(transport)
            version = (await client.list(MAPS, "default")).version

            async def follow() -> None:
                async for batch in client.watch(MAPS, version, "default"):
                    assert all(seen.type == "BOOKMARK" for seen in batch)

            with pytest.raises(TimeoutError):
                await asyncio.wait_for(follow(), 0.5)

    started, threads = time.monotonic(), threading.active_count()
    asyncio.run(main())
    assert time.monotonic() - started < 20
    assert threading.active_count() == threads
