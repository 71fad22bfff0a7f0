"""The current loads of nodes, read once, for plans of a live cluster."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Mapping
from random import Random

from kilauea.client.access import Access
from kilauea.client.http import HttpTransport
from kilauea.client.rest import Client
from kilauea.engine.conf import SchedulerConf
from kilauea.engine.model.loads import NodeLoad
from kilauea.runtime.scheduler.loads.reader import source_of
from kilauea.runtime.scheduler.loads.source import LoadsUnavailable

LONGEST_SECONDS = 10
"""Maximum seconds to wait for a monitoring system in a plan."""


def loads_now(conf: SchedulerConf, access: Access, nodes: Collection[str]) -> Mapping[str, NodeLoad]:
    """The sound loads of nodes from the monitoring system of a configuration.

    Raises:
        LoadsUnavailable: it does not return valid loads.
    """
    return asyncio.run(_read(conf, access, nodes))


async def _read(conf: SchedulerConf, access: Access, nodes: Collection[str]) -> Mapping[str, NodeLoad]:
    async with HttpTransport(access) as transport:
        source = source_of(conf.metrics, Client(transport, "kilauea-plan", Random(0)))
        try:
            async with asyncio.timeout(LONGEST_SECONDS):
                read = await source.read(nodes)
        except TimeoutError as error:
            raise LoadsUnavailable(f"no answer within {LONGEST_SECONDS} s") from error
        finally:
            await source.close()
    return {name: load for name, load in read.items() if load.is_sound}
