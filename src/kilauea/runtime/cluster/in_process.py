"""Controllers in the process of an API server: those that it needs, and those that complete deletions."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from random import Random
from typing import Any

from kilauea.api.ports import ApiError, Clock, Controller, Record
from kilauea.apiserver.core import ApiServer
from kilauea.apiserver.custom_resources.controllers import definition_controllers
from kilauea.apiserver.custom_resources.serving import ServedDefinitions
from kilauea.apiserver.flow_control.configuration import FlowConfiguration
from kilauea.client.view import Cache
from kilauea.controllers.namespaces import Discovered
from kilauea.controllers.registry import server_controllers
from kilauea.runtime.clock import SystemClock
from kilauea.runtime.cluster.direct import DirectClient
from kilauea.runtime.manager.reconciling import CONCURRENCY, Driver

DEFINITIONS_AT_A_TIME = 4
GATHER_SECONDS = 0.05
"""Seconds for which events are collected for controllers that need not react fast."""


@asynccontextmanager
async def controllers_in_process(
    api: ApiServer,
    component: str,
    controllers: Sequence[Controller],
    clock: Clock,
    concurrency: int = CONCURRENCY,
    failed: Callable[[Exception], bool] = lambda error: False,
    gather: float = 0.0,
) -> AsyncIterator[None]:
    """Run controllers beside a server, under the driver of all controllers.

    Args:
        api: the server.
        component: name of the client in requests.
        controllers: the controllers to run; their records are not written.
        clock: the time.
        concurrency: concurrent keys of one controller.
        failed: called with each error that delays a key; returns True if the error should not be logged.
        gather: seconds for which events are collected.
    """
    random, cache = Random(component), Cache()
    client = DirectClient(api, component, Random(component), gather=gather)
    driver = Driver(client, cache, clock, random, _not_recorded, controllers, concurrency, failed)
    async with _running(cache.run(client, clock, random), driver.run()):
        yield


def discovered(api: ApiServer) -> Discovered:
    """Return the kinds of the aggregated API servers behind a server."""
    kinds, failing = api.aggregated_kinds()
    return Discovered(kinds, failing)


@asynccontextmanager
async def standalone(api: ApiServer, authority: str = "") -> AsyncIterator[None]:
    """Run the controllers that complete deletions (namespaces, dependents, claims, volumes)."""
    controllers = server_controllers(partial(discovered, api))
    async with controllers_in_process(
        api, "kube-controller-manager", controllers, SystemClock(), gather=GATHER_SECONDS
    ):
        yield


class Definitions:
    """Serves custom resources: follows their definitions, and runs the controllers that the server itself needs."""

    def __init__(self, api: ApiServer, clock: Clock | None = None) -> None:
        self._api = api
        self._clock = clock or SystemClock()
        self._stack = AsyncExitStack()

    async def start(self) -> None:
        """Serve all existing definitions, and follow their changes.

        Raises:
            ApiError: the status of a definition could not be stored.
        """
        served = ServedDefinitions(self._api.backend)
        broken: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        starting = True

        def failed(error: Exception) -> bool:
            """Raise an error during the start; later errors are retried."""
            ends = isinstance(error, ApiError) and error.code >= 500 and starting
            if ends and not broken.done():
                broken.set_exception(error)
            return ends

        own = [*definition_controllers(), FlowConfiguration()]
        controllers = controllers_in_process(
            self._api, "kube-apiserver", own, self._clock, DEFINITIONS_AT_A_TIME, failed
        )
        async with AsyncExitStack() as stack:
            stack.enter_context(served.following())
            await stack.enter_async_context(controllers)
            decided = asyncio.ensure_future(served.decided())
            stack.callback(decided.cancel)
            await asyncio.wait((decided, broken), return_when=asyncio.FIRST_COMPLETED)
            starting = False
            if broken.done():
                broken.result()
            self._stack = stack.pop_all()

    async def stop(self) -> None:
        """Stop following definitions; served resources stay."""
        await self._stack.aclose()


@asynccontextmanager
async def _running(*works: Coroutine[Any, Any, None]) -> AsyncIterator[None]:
    """Tasks for the length of a block."""
    tasks = [asyncio.ensure_future(each) for each in works]
    try:
        yield
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def _not_recorded(component: str, record: Record) -> None:
    """Drop records: these controllers record only failures, which are logged."""
