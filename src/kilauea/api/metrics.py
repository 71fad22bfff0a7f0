"""NodeMetrics of `metrics.k8s.io`: the output of `kubectl top nodes`, and therefore the load of nodes in files."""

from __future__ import annotations

from kilauea.api.meta import Object, ResourceMap


class NodeMetrics(Object):
    """The usage of the node of the same name, over a short window that ends at `timestamp`."""

    timestamp: str | None = None
    usage: ResourceMap | None = None
