"""Reads the loads of nodes periodically, alongside the cycles, as long as a plugin needs them.

A cycle never waits for a monitoring system: it uses the loads that were read last. If a round fails, these stay until
they are too old for plugins. The reason is logged and recorded as an event, once.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping

from kilauea.api.ports import Api, Clock, Record
from kilauea.api.times import SECOND
from kilauea.api.wellknown import ROOT_QUEUE
from kilauea.engine.conf import MetricsConf
from kilauea.engine.conf.metrics import ADAPTOR, ELASTICSEARCH
from kilauea.engine.model.loads import NodeLoad
from kilauea.runtime.inputs.resources import reference
from kilauea.runtime.scheduler.conf_reload import ConfReload
from kilauea.runtime.scheduler.feed import Feed
from kilauea.runtime.scheduler.loads.custom_metrics import CustomMetrics
from kilauea.runtime.scheduler.loads.elasticsearch import Elasticsearch
from kilauea.runtime.scheduler.loads.prometheus import Prometheus
from kilauea.runtime.scheduler.loads.source import LoadSource, LoadsUnavailable

ROUND_SECONDS = 60
"""Maximum seconds of a round."""
FIRST_SECONDS = 5.0
"""Seconds that the first cycle waits for the first round."""
USERS = frozenset({"usage", "rescheduling"})
"""Plugins that use loads."""

log = logging.getLogger(__name__)


def source_of(conf: MetricsConf, api: Api) -> LoadSource:
    """The configured monitoring system."""
    if conf.type == ADAPTOR:
        return CustomMetrics(api)
    return Elasticsearch(conf) if conf.type == ELASTICSEARCH else Prometheus(conf)


class LoadReader:
    """Updates the loads in the state.

    Args:
        api: the cluster.
        feed: receives the loads.
        conf: names the monitoring system, and the plugins.
        clock: pauses between rounds.
        record: receives events.
        listed: returns once the nodes are known.
    """

    def __init__(
        self,
        api: Api,
        feed: Feed,
        conf: ConfReload,
        clock: Clock,
        record: Callable[[Record], None],
        listed: Callable[[], Awaitable[object]],
    ) -> None:
        self._api = api
        self._feed = feed
        self._conf = conf
        self._clock = clock
        self._record = record
        self._listed = listed
        self._known: Mapping[str, NodeLoad] = {}
        self._source: tuple[MetricsConf, LoadSource] | None = None
        self._fault = ""
        self._first = asyncio.Event()

    async def run(self) -> None:
        """Read until cancelled."""
        try:
            await self._listed()
            while True:
                await self._round()
                self._first.set()
                await self._clock.sleep(self._conf.conf.metrics.interval / SECOND)
        finally:
            await self._leave()

    async def first(self) -> None:
        """Wait for the first round, if there is one, with a timeout."""
        if self._wanted() is not None:
            sleeping = asyncio.ensure_future(self._clock.sleep(FIRST_SECONDS))
            reading = asyncio.ensure_future(self._first.wait())
            try:
                await asyncio.wait({sleeping, reading}, return_when=asyncio.FIRST_COMPLETED)
            finally:
                sleeping.cancel()
                reading.cancel()

    def _wanted(self) -> MetricsConf | None:
        """The monitoring system to query; None if no plugin uses loads, or none is configured."""
        conf = self._conf.conf
        return conf.metrics if conf.metrics.type and conf.plugins & USERS else None

    async def _round(self) -> None:
        conf = self._wanted()
        if self._source is not None and self._source[0] != conf:
            await self._leave()
            self._publish({})
        if conf is None:
            return
        if self._source is None:
            self._source = (conf, source_of(conf, self._api))
        try:
            async with asyncio.timeout(ROUND_SECONDS):
                read = await self._source[1].read(self._feed.node_names)
        except TimeoutError:
            self._failed(f"no answer within {ROUND_SECONDS} s")
        except LoadsUnavailable as error:
            self._failed(str(error))
        except Exception as error:  # a source must never end the scheduler
            log.exception("reading the loads of nodes failed")
            self._failed(f"{type(error).__name__}: {error}")
        else:
            self._succeeded(read)

    def _succeeded(self, read: Mapping[str, NodeLoad]) -> None:
        """Store new loads; nodes without a valid one keep their last one, which ages."""
        nodes = self._feed.node_names
        kept = {name: load for name, load in self._known.items() if name in nodes}
        self._publish({**kept, **{name: load for name, load in read.items() if load.is_sound}})
        if self._fault:
            log.info("the loads of nodes can be read again")
        self._fault = ""

    def _publish(self, loads: Mapping[str, NodeLoad]) -> None:
        self._known = loads
        self._feed.measured(loads)

    def _failed(self, fault: str) -> None:
        if fault != self._fault:
            self._fault = fault
            message = f"the loads of nodes cannot be read: {fault}"
            log.warning("%s", message)
            root = self._feed.queues.get(ROOT_QUEUE)
            about = reference("Queue", ROOT_QUEUE, (root and root.metadata.uid) or "")
            self._record(Record(about, "Warning", "LoadsUnavailable", message))

    async def _leave(self) -> None:
        """Close the connections to the monitoring system."""
        if self._source is not None:
            source, self._source = self._source[1], None
            await source.close()
