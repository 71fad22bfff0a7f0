"""Controllers in the process of an API server: those that it cannot do without, and those that end deletions."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from random import Random
from typing import Any

from kilauea.api.ports import ApiError, Clock, Controller, Record
from kilauea.apiserver.core import ApiServer
from kilauea.apiserver.crd.controllers import definition_controllers
from kilauea.apiserver.crd.serving import ServedDefinitions
from kilauea.client.view import Cache
from kilauea.controllers.registry import deletion_controllers
from kilauea.runtime.clock import SystemClock
from kilauea.runtime.direct import DirectClient
from kilauea.runtime.reconciling import CONCURRENCY, Driver

DEFINITIONS_AT_A_TIME = 4


@asynccontextmanager
async def controllers_in_process(
    api: ApiServer,
    component: str,
    controllers: Sequence[Controller],
    clock: Clock,
    concurrency: int = CONCURRENCY,
    failed: Callable[[Exception], bool] = lambda error: False,
) -> AsyncIterator[None]:
    """Run controllers beside a server, under the driver of all controllers.

    Args:
        api: the server.
        component: the name under which they change objects.
        controllers: to be run; what they record about objects is not written.
        clock: tells the time.
        concurrency: keys of one controller that are worked on at a time.
        failed: is told of each error that makes a key wait; returns True for one that need not be logged.
    """
    random, cache = Random(component), Cache()
    client = DirectClient(api, component, Random(component))
    driver = Driver(client, cache, clock, random, _not_recorded, controllers, concurrency, failed)
    async with _running(cache.run(client, clock, random), driver.run()):
        yield


@asynccontextmanager
async def standalone(api: ApiServer, authority: str = "") -> AsyncIterator[None]:
    """What ends deletions on a server without a controller manager: namespaces, dependents, claims and volumes."""
    async with controllers_in_process(api, "kube-controller-manager", deletion_controllers(), SystemClock()):
        yield


class Definitions:
    """Serves custom resources: follows their definitions, and runs the controllers of these."""

    def __init__(self, api: ApiServer, clock: Clock | None = None) -> None:
        self._api = api
        self._clock = clock or SystemClock()
        self._stack = AsyncExitStack()

    async def start(self) -> None:
        """Serve all definitions that are there, and follow from now on.

        Raises:
            ApiError: what was decided of a definition could not be stored.
        """
        served = ServedDefinitions(self._api.backend)
        served.sync()
        broken: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        starting = True

        def failed(error: Exception) -> bool:
            """End the start with what the server cannot do; later it is tried again."""
            ends = isinstance(error, ApiError) and error.code >= 500 and starting
            if ends and not broken.done():
                broken.set_exception(error)
            return ends

        controllers = controllers_in_process(
            self._api, "kube-apiserver", definition_controllers(), self._clock, DEFINITIONS_AT_A_TIME, failed
        )
        async with AsyncExitStack() as stack:
            await stack.enter_async_context(_running(served.follow()))
            await stack.enter_async_context(controllers)
            decided = asyncio.ensure_future(served.decided())
            stack.callback(decided.cancel)
            await asyncio.wait((decided, broken), return_when=asyncio.FIRST_COMPLETED)
            starting = False
            if broken.done():
                broken.result()
            self._stack = stack.pop_all()

    async def stop(self) -> None:
        """Follow no longer; what is served stays."""
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
    """Controllers of the server have nothing to tell but failures, which are logged."""
