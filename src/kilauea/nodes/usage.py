"""Metrics of simulated nodes and their pods, in the format of a cluster's metrics server."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from kilauea.api.kinds import NODES, PODS
from kilauea.api.ports import Key, Obj, View
from kilauea.api.times import format_time
from kilauea.api.usage import USAGE, container_usage, total_usage, usage_texts
from kilauea.nodes.occupants import NODE_NAME

WINDOW = "15s"


class SimulatedUsage:
    """Usage of pods and nodes, computed from the objects in a view.

    Args:
        view: pods and nodes, with the index of pods by node that `kilauea.nodes.pods.Pods` declares.
    """

    def __init__(self, view: View) -> None:
        self._view = view

    def pods(self, namespace: str, name: str, now: int) -> Iterator[dict[str, Any]]:
        """Yield PodMetrics of the running pods of a namespace, or of all; of one if it is named."""
        one = self._view.get(PODS, Key(namespace, name)) if name else None
        found = [one] if one is not None else [] if name else self._view.list(PODS, namespace)
        for pod in found:
            usage = container_usage(pod)
            if usage:
                containers = [{"name": each, "usage": usage_texts(used)} for each, used in usage.items()]
                yield {**metrics_head("PodMetrics", pod, now), "containers": containers}

    def nodes(self, name: str, now: int) -> Iterator[dict[str, Any]]:
        """Yield NodeMetrics of all nodes, or of one."""
        one = self._view.get(NODES, Key("", name)) if name else None
        found = [one] if one is not None else [] if name else self._view.list(NODES)
        for shown in found:
            total = dict.fromkeys(USAGE, 0)
            for pod in self._view.indexed(PODS, NODE_NAME, shown["metadata"]["name"]):
                for resource, value in total_usage(container_usage(pod)).items():
                    total[resource] += value
            yield {**metrics_head("NodeMetrics", shown, now), "usage": usage_texts(total)}


def metrics_head(kind: str, obj: Obj, now: int) -> dict[str, Any]:
    """Return the fields that metrics of pods and nodes share."""
    given, stamp = obj["metadata"], format_time(now // 1_000_000 * 1_000_000)
    metadata = {field: given[field] for field in ("name", "namespace", "labels") if field in given}
    version = "metrics.k8s.io/v1beta1"
    head = {"kind": kind, "apiVersion": version, "metadata": {**metadata, "creationTimestamp": stamp}}
    return {**head, "timestamp": stamp, "window": WINDOW}
