"""Loads from the cluster's custom metrics API: any source for which an adapter is installed.

The metrics are Volcano's: `node_cpu_usage_avg` and `node_memory_usage_avg` of objects of kind Node, as parts of 1.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Mapping
from typing import Any

from kilauea.api.ports import Api, ApiError, Key, Resource
from kilauea.api.quantity import QuantityError, amount
from kilauea.api.times import parse_time
from kilauea.engine.model.loads import NodeLoad
from kilauea.runtime.scheduler.loads.source import LoadsUnavailable

CPU, MEMORY = "node_cpu_usage_avg", "node_memory_usage_avg"
GROUP = "custom.metrics.k8s.io"
VERSIONS = ("v1beta2", "v1beta1")
ALL = Key("", "*")
"""Name for all nodes."""


class CustomMetrics:
    """The custom metrics API, behind the API server."""

    def __init__(self, api: Api) -> None:
        self._api = api

    async def read(self, nodes: Collection[str]) -> Mapping[str, NodeLoad]:
        """The loads of the nodes that have both metrics; the older time counts."""
        cpu, memory = await asyncio.gather(self._values(CPU), self._values(MEMORY))
        return {
            name: NodeLoad(cpu[name][0], memory[name][0], min(cpu[name][1], memory[name][1]))
            for name in sorted(cpu.keys() & memory.keys())
            if name in nodes
        }

    async def _values(self, metric: str) -> dict[str, tuple[float, int]]:
        """By node: percent, and the time.

        Raises:
            LoadsUnavailable: the metric is not served.
        """
        answer: Any = None
        for version in VERSIONS:
            try:
                answer = await self._api.get(Resource(GROUP, version, "nodes", "MetricValueList", False), ALL, metric)
                break
            except ApiError as error:
                if error.code != 404 or version == VERSIONS[-1]:
                    raise LoadsUnavailable(f"custom metrics API, {metric}: {error}") from error
        items = answer.get("items") if isinstance(answer, dict) else None
        if not isinstance(items, list):
            raise LoadsUnavailable(f"custom metrics API, {metric}: the response has no items")
        return dict(found for item in items if (found := _value_of(item)) is not None)

    async def close(self) -> None:
        """Do nothing: there are no separate connections."""


def _value_of(item: Any) -> tuple[str, tuple[float, int]] | None:
    """Name of the node, percent and time; None if one is missing or cannot be read."""
    about = item.get("describedObject") if isinstance(item, dict) else None
    name = about.get("name") if isinstance(about, dict) else None
    if not isinstance(name, str):
        return None
    try:
        milli = amount("cpu", item.get("value"))
        return name, (milli / 10, parse_time(str(item.get("timestamp"))))
    except (QuantityError, ValueError, TypeError, AttributeError):
        return None
