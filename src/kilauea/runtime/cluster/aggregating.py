"""Aggregated API servers behind that of this process: proxies requests, and updates APIServices."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from kilauea.apiserver.aggregator.services import Aggregator
from kilauea.apiserver.api_services.authentication import publish_authentication
from kilauea.apiserver.api_services.availability import Availability
from kilauea.apiserver.api_services.registration import Registration
from kilauea.apiserver.core import ApiServer
from kilauea.apiserver.http.aggregated_servers import AggregatedServers
from kilauea.apiserver.http.credentials import Credentials


@asynccontextmanager
async def aggregating(api: ApiServer, credentials: Credentials) -> AsyncIterator[None]:
    """Proxy requests to aggregated API servers for the length of a block.

    Raises:
        RuntimeError: an object of the server cannot be stored.
    """
    aggregator = Aggregator(api.backend, AggregatedServers(credentials.front_proxy_files))
    registration = Registration(api)
    await publish_authentication(api, credentials.ca, credentials.front_proxy_ca)
    await registration.write()
    with aggregator.following(), registration.following():
        api.aggregate(aggregator)
        tasks = [asyncio.ensure_future(each) for each in (Availability(api, aggregator).run(), registration.run())]
        try:
            yield
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
