"""Annotations with the cards that are assigned to a pod, in the format of each device plugin."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

from kilauea.api import devices
from kilauea.api.devices import Slice
from kilauea.api.times import SECOND
from kilauea.engine.devices.adapting import Adapter
from kilauea.engine.model.devices import ASCEND, SHARE, VGPU

Containers = Sequence[Sequence[Slice]]
"""Slices by container."""


LOCKS = {SHARE: devices.GPU_LOCK, VGPU: devices.VGPU_LOCK}


def lock_of(kind: str) -> str:
    """The annotation that locks a node while a pod is bound to cards of a kind."""
    return LOCKS.get(kind, devices.ASCEND_LOCK)


class Records:
    """Writes records; the adapter provides the templates of NPUs."""

    def __init__(self, adapter: Adapter) -> None:
        self._adapter = adapter

    def annotations(self, slices: Mapping[str, Containers], node: str, now: int, *, soft: bool) -> dict[str, str]:
        """Return the annotations of a pod with these slices, by kind, that is bound to a node at a time (microseconds).

        With `soft`, the pod shares NPUs by software.
        """
        out: dict[str, str] = {}
        for kind, containers in sorted(slices.items()):
            if kind == SHARE:
                cards = sorted({int(s.card) for container in containers for s in container})
                out[devices.GPU_INDEX] = ",".join(map(str, cards))
                out[devices.PREDICATE_TIME] = str(now * 1000)
            elif kind == VGPU:
                out |= _vgpu(containers, node, now)
            else:
                out |= self._ascend(kind, containers, node, now, soft=soft)
        return out

    def _ascend(self, kind: str, containers: Containers, node: str, now: int, *, soft: bool) -> dict[str, str]:
        name = kind.removeprefix(ASCEND)
        text, seconds = devices.record_text(containers, name), str(now // SECOND)
        parts = [self._part(kind, s, soft=soft) for container in containers for s in container]
        return {
            f"hami.io/{name}-devices-to-allocate": text,
            f"hami.io/{name}-devices-allocated": text,
            f"huawei.com/{name}": json.dumps(parts, separators=(",", ":")),
            "predicate-time": seconds,
            "hami.io/vgpu-node": node,
            "hami.io/vgpu-time": seconds,
            "hami.io/bind-phase": devices.ALLOCATING,
            "hami.io/bind-time": seconds,
        }

    def _part(self, kind: str, part: Slice, *, soft: bool) -> Mapping[str, object]:
        if soft:
            return {"UUID": part.card, "memory": part.memory, "core": part.cores}
        template = self._adapter.template(kind, part.memory)
        return {"UUID": part.card} | ({"temp": template} if template else {})


def _vgpu(containers: Containers, node: str, now: int) -> dict[str, str]:
    text, seconds = devices.record_text(containers, "NVIDIA"), str(now // SECOND)
    return {
        devices.VGPU_NODE: node,
        devices.VGPU_TIME: seconds,
        devices.VGPU_RECORD: text,
        devices.VGPU_TO_ALLOCATE: text,
        devices.BIND_PHASE: devices.ALLOCATING,
        devices.BIND_TIME: seconds,
    }
