"""Loads from Prometheus, based on the metrics of its node exporter.

The label `instance` names the node, with or without a port: `n1`, `n1:9100`. Three queries give the loads of all nodes:
cpu and memory in percent over ten minutes, and the time of the newest sample. Without the last one, a node whose
exporter has ended would look healthy for minutes. Cpu is based on the fraction of idle time in all time, not idle time
per second: in the first minutes of a node, `rate` is too low, and the node would look busy.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Collection, Iterator, Mapping
from typing import Any

from kilauea.api.times import SECOND
from kilauea.engine.conf import MetricsConf
from kilauea.engine.model.loads import NodeLoad
from kilauea.runtime.scheduler.loads.source import JsonService, number_of

IDLE, ALL = (f"sum by (instance) (rate(node_cpu_seconds_total{of}[5m]))" for of in ('{mode="idle"}', ""))
CPU = f"100 * avg_over_time(clamp_min(1 - {IDLE} / {ALL}, 0)[10m:30s])"
FREE = "node_memory_MemAvailable_bytes / node_memory_MemTotal_bytes"
MEMORY = f"max by (instance) (100 * avg_over_time((1 - {FREE})[10m:30s]))"
NEWEST = "max by (instance) (timestamp(node_memory_MemAvailable_bytes))"


class Prometheus:
    """A Prometheus server, or a service with its query API."""

    def __init__(self, conf: MetricsConf) -> None:
        self._service = JsonService(conf)

    async def read(self, nodes: Collection[str]) -> Mapping[str, NodeLoad]:
        """The loads of the nodes that have cpu, memory and a time."""
        cpu, memory, newest = await asyncio.gather(*(self._query(query, nodes) for query in (CPU, MEMORY, NEWEST)))
        return {
            name: NodeLoad(cpu[name], memory[name], int(newest[name] * SECOND))
            for name in sorted(cpu.keys() & memory.keys() & newest.keys())
        }

    async def _query(self, query: str, nodes: Collection[str]) -> dict[str, float]:
        """The value of an instant query by node; of several series of a node, that of its exact name, or the largest.

        Raises:
            LoadsUnavailable: it fails.
        """
        answer = await self._service.ask("GET", "/api/v1/query", params={"query": query})
        data = answer.get("data") if isinstance(answer, dict) else None
        result = data.get("result") if isinstance(data, dict) else None
        if not isinstance(result, list):
            raise self._service.malformed(answer)
        exact: dict[str, float] = {}
        others: dict[str, float] = {}
        for instance, value in _samples(result):
            host = instance.rpartition(":")[0] if instance not in nodes else ""
            if not host:
                exact[instance] = max(value, exact.get(instance, value))
            elif host in nodes:
                others[host] = max(value, others.get(host, value))
        return {name: value for name, value in {**others, **exact}.items() if name in nodes}

    async def close(self) -> None:
        """End all connections."""
        await self._service.close()


def _samples(result: list[Any]) -> Iterator[tuple[str, float]]:
    """Instance and value of each series that has both; NaN does not count."""
    for series in result:
        metric = series.get("metric") if isinstance(series, dict) else None
        instance = metric.get("instance") if isinstance(metric, dict) else None
        pair = series.get("value") if isinstance(series, dict) else None
        value = number_of(pair[1]) if isinstance(pair, list) and len(pair) == 2 else None
        if isinstance(instance, str) and value is not None and math.isfinite(value):
            yield instance, value
