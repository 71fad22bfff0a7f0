"""Reads the ConfigMap of shared devices periodically, alongside the cycles, as long as a plugin needs it.

It is a single ConfigMap, so the scheduler does not watch all of them. While it cannot be read, the last version
applies.
"""

from __future__ import annotations

import asyncio
import logging

import msgspec

from kilauea.api.core import ConfigMap
from kilauea.api.kinds import CONFIG_MAPS
from kilauea.api.ports import Api, ApiError, Clock, Key
from kilauea.runtime.inputs.device_configs import named_by
from kilauea.runtime.scheduler.conf_reload import ConfReload
from kilauea.runtime.scheduler.feed import Feed

INTERVAL = 30.0
"""Seconds between two readings."""

log = logging.getLogger(__name__)


class DeviceConfigReader:
    """Updates the configuration of shared devices in the state.

    Args:
        api: the cluster.
        feed: receives the ConfigMap.
        conf: names it.
        clock: pauses between readings.
    """

    def __init__(self, api: Api, feed: Feed, conf: ConfReload, clock: Clock) -> None:
        self._api = api
        self._feed = feed
        self._conf = conf
        self._clock = clock
        self._version = ""
        self._fault = ""
        self._first = asyncio.Event()

    async def run(self) -> None:
        """Read until cancelled."""
        while True:
            await self.read()
            self._first.set()
            await self._clock.sleep(INTERVAL)

    async def first(self) -> None:
        """Wait for the first reading."""
        await self._first.wait()

    def wanted(self) -> Key | None:
        """The ConfigMap; None if no plugin uses it."""
        return named_by(self._conf.conf)

    async def read(self) -> None:
        """Read the ConfigMap once, and pass it on if it has changed."""
        key = self.wanted()
        if key is None:
            return
        try:
            found = await self._api.get(CONFIG_MAPS, key)
        except ApiError as error:
            if error.code == 404:
                self._hand_on(None, "")
            elif str(error) != self._fault:
                self._fault = str(error)
                log.warning("config map %s cannot be read: %s", "/".join(key), error)
            return
        self._fault = ""
        try:
            config = msgspec.convert(found, ConfigMap)
        except msgspec.ValidationError:
            config = None
        self._hand_on(config, str(found["metadata"].get("uid")) + str(found["metadata"].get("resourceVersion")))

    def _hand_on(self, config: ConfigMap | None, version: str) -> None:
        if version != self._version:
            self._version = version
            self._feed.devices_configured(config)
