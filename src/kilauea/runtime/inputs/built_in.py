"""Objects that every cluster has, as the scheduler creates them if they are missing."""

from __future__ import annotations

from kilauea.api import wellknown
from kilauea.api.meta import ObjectMeta
from kilauea.api.scheduling import Queue, QueueSpec, QueueStatus


def built_in_queue(name: str) -> Queue:
    """Return a queue as the scheduler creates it at its first start."""
    spec = QueueSpec(weight=1, reclaimable=name != wellknown.ROOT_QUEUE)
    return Queue("scheduling.volcano.sh/v1beta1", "Queue", ObjectMeta(name=name), spec, QueueStatus("Open"))
