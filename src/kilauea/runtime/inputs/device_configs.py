"""The ConfigMap of shared devices that a configuration of the scheduler names."""

from __future__ import annotations

import asyncio
from random import Random

import msgspec

from kilauea.api.core import ConfigMap
from kilauea.api.devices import CONFIG_NAME, CONFIG_NAMESPACE
from kilauea.api.kinds import CONFIG_MAPS
from kilauea.api.ports import Api, ApiError, Key
from kilauea.client.access import Access
from kilauea.client.http import HttpTransport
from kilauea.client.rest import Client
from kilauea.engine.conf import SchedulerConf, inspect_conf
from kilauea.runtime.inputs.conf_file import conf_file
from kilauea.simulator.extensions import BUILT_IN

PLUGIN = "deviceshare"
USUAL = Key(CONFIG_NAMESPACE, CONFIG_NAME)


def named_by(conf: SchedulerConf) -> Key | None:
    """Return the key of the ConfigMap that a configuration names; None if no plugin uses it."""
    entries = [entry for tier in conf.tiers for entry in tier if entry.name == PLUGIN]
    if not entries:
        return None
    arguments = entries[-1].arguments
    namespace = arguments.get("deviceshare.KnownGeometriesCMNamespace", USUAL.namespace)
    return Key(str(namespace), str(arguments.get("deviceshare.KnownGeometriesCMName", USUAL.name)))


def named_in(text: str) -> Key | None:
    """Return the key in the text of a configuration; None if there is none, or if the text is not YAML."""
    file = conf_file("", text.encode())
    if not text or file.fault is not None:
        return None
    return named_by(inspect_conf(file.document, BUILT_IN.plugins, BUILT_IN.actions))


async def read_config(client: Api, key: Key) -> ConfigMap | None:
    """Return a ConfigMap; None if it does not exist or cannot be read."""
    try:
        return msgspec.convert(await client.get(CONFIG_MAPS, key), ConfigMap)
    except (ApiError, msgspec.ValidationError):
        return None


def config_now(key: Key, access: Access) -> ConfigMap | None:
    """Return a ConfigMap of the selected cluster; None if it does not exist or cannot be read."""
    return asyncio.run(_read(key, access))


async def _read(key: Key, access: Access) -> ConfigMap | None:
    async with HttpTransport(access) as transport:
        return await read_config(Client(transport, "kilauea-plan", Random(0)), key)
