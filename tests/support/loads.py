"""Loads of nodes as files give them."""

from __future__ import annotations

import msgspec

from kilauea.api.meta import Object
from kilauea.api.metrics import NodeMetrics
from kilauea.api.times import SECOND, format_time
from support.builders import NOW


def node_metrics(name: str, cpu: str = "1", memory: str = "1Gi", *, age: float = 0) -> Object:
    """The usage of a node, measured so many seconds before the cycle."""
    data = {
        "kind": "NodeMetrics",
        "metadata": {"name": name},
        "timestamp": format_time(NOW - int(age * SECOND)),
        "usage": {"cpu": cpu, "memory": memory},
    }
    return msgspec.convert(data, NodeMetrics)
