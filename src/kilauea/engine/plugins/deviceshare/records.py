"""Annotations that say which cards a pod was given, in the form that each device plugin reads."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

from kilauea.api import devices
from kilauea.api.devices import Slice
from kilauea.api.times import SECOND
from kilauea.engine.model.devices import ASCEND, SHARE, VGPU

Containers = Sequence[Sequence[Slice]]
"""Slices by container."""


def annotations_for(slices: Mapping[str, Containers], node: str, now: int) -> dict[str, str]:
    """The annotations of a pod with these slices, by kind, that is bound to a node at a time (microseconds)."""
    out: dict[str, str] = {}
    for kind, containers in sorted(slices.items()):
        if kind == SHARE:
            cards = sorted({int(s.card) for container in containers for s in container})
            out[devices.GPU_INDEX] = ",".join(map(str, cards))
            out[devices.PREDICATE_TIME] = str(now * 1000)
        elif kind == VGPU:
            out |= _vgpu(containers, node, now)
        else:
            out |= _ascend(kind.removeprefix(ASCEND), containers, node, now)
    return out


def _vgpu(containers: Containers, node: str, now: int) -> dict[str, str]:
    text, seconds = devices.record_text(containers, "NVIDIA"), str(now // SECOND)
    return {
        devices.VGPU_NODE: node,
        devices.VGPU_TIME: seconds,
        devices.VGPU_RECORD: text,
        devices.VGPU_TO_ALLOCATE: text,
        devices.BIND_PHASE: "allocating",
        devices.BIND_TIME: seconds,
    }


def _ascend(name: str, containers: Containers, node: str, now: int) -> dict[str, str]:
    text, seconds = devices.record_text(containers, name), str(now // SECOND)
    uuids = [{"UUID": s.card} for container in containers for s in container]
    return {
        f"hami.io/{name}-devices-to-allocate": text,
        f"hami.io/{name}-devices-allocated": text,
        f"huawei.com/{name}": json.dumps(uuids, separators=(",", ":")),
        "predicate-time": seconds,
        "hami.io/vgpu-node": node,
        "hami.io/vgpu-time": seconds,
        "hami.io/bind-phase": "allocating",
        "hami.io/bind-time": seconds,
    }
