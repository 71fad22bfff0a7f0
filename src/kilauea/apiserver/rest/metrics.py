"""Resource metrics (`metrics.k8s.io`): usage of nodes and pods, provided by their runtime and never stored."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec

from kilauea.api.selectors import matches
from kilauea.apiserver import status
from kilauea.apiserver.label_text import parse_labels
from kilauea.apiserver.request import ApiResponse
from kilauea.apiserver.resources.types import ResourceType
from kilauea.apiserver.rest.call import Call
from kilauea.apiserver.rest.computed_schemas import NODE_METRICS, POD_METRICS

GROUP, VERSION = "metrics.k8s.io", "v1beta1"
METRICS = (
    ResourceType(GROUP, VERSION, "nodes", "NodeMetrics", False, verbs=("get", "list"), told_schema=NODE_METRICS),
    ResourceType(GROUP, VERSION, "pods", "PodMetrics", verbs=("get", "list"), told_schema=POD_METRICS),
)
"""The kinds of resource metrics, served if the usage is known."""
_TURN = {"nodes": 10, "pods": 500}
"""Objects after which other requests have their turn; the usage of a node is that of all its pods."""


async def metrics(call: Call) -> ApiResponse:
    """Answer a get or list of metrics."""
    found = _found(call)
    if call.info.name:
        item = next(found, None)
        if item is None:
            raise call.not_found()
        return ApiResponse(200, msgspec.json.encode(item))
    selector = parse_labels(call.request.first("labelSelector"))
    items: list[dict[str, Any]] = []
    turn = _TURN[call.resource.plural]
    for number, item in enumerate(found, 1):
        if not selector or matches(selector, item["metadata"].get("labels") or {}):
            items.append(item)
        if number % turn == 0:
            await call.pause()
    head = {"kind": call.resource.kind_of_list, "apiVersion": f"{GROUP}/{VERSION}", "metadata": {}}
    return ApiResponse(200, msgspec.json.encode({**head, "items": items}))


def _found(call: Call) -> Iterator[dict[str, Any]]:
    usage, now = call.backend.usage, call.backend.now()
    if usage is None:
        raise status.no_such_resource()
    if call.resource.plural == "nodes":
        return usage.nodes(call.info.name, now)
    return usage.pods(call.namespace, call.info.name, now)
