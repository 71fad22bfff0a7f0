"""Connections that fail: nothing of what was sent stays until garbage collection."""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import Awaitable, Callable, Iterator
from contextlib import suppress

import pytest

from kilauea.api.ports import ApiError
from kilauea.apiserver.dynamic.remote import CallError, Target
from kilauea.apiserver.http.webhook_client import WebhookClient
from kilauea.client.access import Access, Credentials, always
from kilauea.client.http import HttpTransport
from kilauea.engine.extension.outside import Endpoint
from kilauea.runtime.requests import HttpRequests
from kilauea.tcp import forget_frames
from support.garbage import LARGE, large_garbage

BODY = b"x" * LARGE


@pytest.fixture(params=["refused", "hung up"])
def port(request: pytest.FixtureRequest) -> Iterator[int]:
    """A port to which connections are refused, or closed at once."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        port: int = listening.getsockname()[1]
        if request.param == "refused":
            listening.close()
            yield port
            return
        ending = threading.Thread(target=_hang_up, args=(listening,))
        ending.start()
        yield port
        listening.shutdown(socket.SHUT_RDWR)
        ending.join()


def _hang_up(listening: socket.socket) -> None:
    with suppress(OSError):
        while True:
            listening.accept()[0].close()


def left_by(send: Callable[[], Awaitable[object]], close: Callable[[], Awaitable[object]]) -> list[str]:
    """What a request that fails leaves to the garbage collector; an earlier one has opened what stays open."""

    async def sent() -> None:
        with pytest.raises((ApiError, CallError)):
            await send()

    async def closed() -> None:
        await close()

    with asyncio.Runner() as runner:
        runner.run(sent())
        found = large_garbage(lambda: runner.run(sent()))
        runner.run(closed())
        return found


def test_a_call_of_a_webhook_leaves_no_body(port: int) -> None:
    client = WebhookClient()
    target = Target(f"https://localhost:{port}/x", "127.0.0.1", port, "localhost", "")
    assert left_by(lambda: client.post(target, BODY, 5.0), client.close) == []


@pytest.mark.parametrize("scheme", ["http", "https"])
def test_a_request_to_an_api_server_leaves_no_body(scheme: str, port: int) -> None:
    client = HttpTransport(Access(f"{scheme}://127.0.0.1:{port}", always(Credentials())))
    assert left_by(lambda: client.request("POST", "/x", {}, BODY), client.close) == []


def test_a_request_to_an_extender_leaves_no_body(port: int) -> None:
    line = HttpRequests().open(Endpoint(f"http://127.0.0.1:{port}", 5_000_000, 50_000_000))
    line.ask("filter", [{"text": BODY.decode()}])
    assert large_garbage(lambda: line.ask("filter", [{"text": BODY.decode()}])) == []


def test_all_errors_that_led_to_an_error_lose_their_frames() -> None:
    try:
        try:
            try:
                raise OSError("first")
            except OSError as first:
                raise ValueError("second") from first
        except ValueError:
            raise KeyError("third")  # noqa: B904
    except KeyError as third:
        error = third
    forget_frames(error)
    second = error.__context__
    assert isinstance(second, ValueError)
    assert isinstance(second.__cause__, OSError)
    assert [each.__traceback__ for each in (error, second, second.__cause__)] == [None] * 3
