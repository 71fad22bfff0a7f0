"""Loads from Elasticsearch, as written by Metricbeat: a single search for all nodes, over ten minutes."""

from __future__ import annotations

import math
from base64 import b64encode
from collections.abc import Collection, Mapping
from typing import Any
from urllib.parse import quote

from kilauea.engine.conf import MetricsConf
from kilauea.engine.model.loads import NodeLoad
from kilauea.runtime.scheduler.loads.source import JsonService, number_of

CPU, MEMORY, TIME = "host.cpu.usage", "system.memory.actual.used.pct", "@timestamp"
MOST_NODES = 65_536
"""Maximum number of names in one search."""
MILLISECOND = 1000
"""In microseconds."""


class Elasticsearch:
    """An Elasticsearch server."""

    def __init__(self, conf: MetricsConf) -> None:
        login = b64encode(f"{conf.username}:{conf.password}".encode()).decode()
        self._service = JsonService(conf, {"Authorization": f"Basic {login}"} if conf.username else None)
        self._path = f"/{quote(conf.index, safe='*,')}/_search"
        self._field = conf.hostname_field

    async def read(self, nodes: Collection[str]) -> Mapping[str, NodeLoad]:
        """The loads of the nodes that have cpu, memory and a time.

        Raises:
            LoadsUnavailable: the search fails.
        """
        if not nodes:
            return {}
        answer = await self._service.ask("POST", self._path, body=self._search(sorted(nodes)[:MOST_NODES]))
        found: Any = answer
        for step in ("aggregations", "nodes", "buckets"):
            found = found.get(step) if isinstance(found, dict) else None
        if not isinstance(found, list):
            raise self._service.malformed(answer)
        loads = {}
        for bucket in found:
            name = bucket.get("key") if isinstance(bucket, dict) else None
            load = _load_of(bucket) if isinstance(name, str) and name in nodes else None
            if load is not None and isinstance(name, str):
                loads[name] = load
        return loads

    def _search(self, names: list[str]) -> dict[str, Any]:
        within = [{"range": {TIME: {"gte": "now-10m", "lt": "now"}}}, {"terms": {self._field: names}}]
        figures = {
            "cpu": {"avg": {"field": CPU}},
            "memory": {"avg": {"field": MEMORY}},
            "newest": {"max": {"field": TIME}},
        }
        terms = {"field": self._field, "size": len(names)}
        return {
            "size": 0,
            "query": {"bool": {"filter": within}},
            "aggs": {"nodes": {"terms": terms, "aggs": figures}},
        }

    async def close(self) -> None:
        """End all connections."""
        await self._service.close()


def _load_of(bucket: dict[str, Any]) -> NodeLoad | None:
    """The load in a bucket, whose figures are parts of 1; None if one is missing."""
    figures = []
    for name in ("cpu", "memory", "newest"):
        part = bucket.get(name)
        value = number_of(part.get("value")) if isinstance(part, dict) else None
        if value is None or not math.isfinite(value):
            return None
        figures.append(value)
    cpu, memory, newest = figures
    return NodeLoad(cpu * 100, memory * 100, int(newest * MILLISECOND))
