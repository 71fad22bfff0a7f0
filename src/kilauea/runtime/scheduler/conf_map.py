"""The configuration in a config map of the cluster; the scheduler reloads it after `kubectl edit`."""

from __future__ import annotations

from pathlib import Path

import yaml

from kilauea.api.kinds import CONFIG_MAPS
from kilauea.client.view import Cache
from kilauea.controllers.configuration import FILE, NAME, PLACE
from kilauea.engine.conf import DEFAULT_CONF, SchedulerConf
from kilauea.runtime.inputs.conf_file import conf_file, conf_in
from kilauea.runtime.scheduler.conf_reload import ConfReload, Stamp
from kilauea.simulator.extensions import Extensions


def default_text() -> str:
    """Return the built-in configuration as YAML."""
    return yaml.safe_dump(DEFAULT_CONF, sort_keys=False)


def text_of(path: Path) -> str | None:
    """Return the text of a file; None if it cannot be read now, which the scheduler reports."""
    try:
        return path.read_text(errors="replace")
    except OSError:
        return None


def conf_in_cluster(cache: Cache) -> ConfReload:
    """The configuration in the config map; the built-in one, or the last good one, while there is none.

    Args:
        cache: shows config maps.
    """
    last = _Last(cache)
    return ConfReload(NAME, stamp=last.stamp, read=last.read)


class _Last:
    """The last known text of the config map."""

    def __init__(self, cache: Cache) -> None:
        self._cache = cache
        self._text = default_text()
        self._version = 0

    def stamp(self, _name: str) -> Stamp:
        """Return the version."""
        found = self._cache.get(CONFIG_MAPS, PLACE)
        if found is not None:
            self._text = (found.get("data") or {}).get(FILE) or ""
            self._version = int(found["metadata"]["resourceVersion"])
        return self._version, 0, 0

    def read(self, name: str, extensions: Extensions) -> SchedulerConf:
        """The configuration.

        Raises:
            SourceError, ConfError: it is invalid.
        """
        return conf_in(conf_file(name, self._text.encode()), extensions)
