"""Resources held by the pods of each queue and its children, for the status of the queue."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from kilauea.api import wellknown
from kilauea.api.quantity import QuantityError, format_resources, resource_amounts
from kilauea.api.scheduling import Queue
from kilauea.engine.model import status
from kilauea.engine.model.claims.charges import charges_of, total
from kilauea.engine.model.resources import add
from kilauea.engine.state import ClusterState
from kilauea.runtime.scheduler.pod_status import Room


def held_by_queues(state: ClusterState) -> dict[str, dict[str, float]]:
    """Return the resources held by the pods of each queue and of the queues below it, in the engine's units."""
    state.settle()
    table, names = state.job_table, state.axis.names
    size, ordered = len(table), sorted(state.queues)
    rows = table.queue[:size]
    known = rows >= 0
    sums = np.zeros((len(names), len(ordered)), dtype=np.int64)
    for r in range(len(names)):
        np.add.at(sums[r], rows[known], table.allocated[r, :size][known])
    held: dict[str, dict[str, float]] = {name: {} for name in ordered}
    for name, column in zip(ordered, sums.T.tolist(), strict=True):
        own = {n: v for n, v in zip(names, column, strict=True) if v}
        for above in ancestry(state, name):
            add(held[above], own)
    for name, devices in _devices_held(state).items():
        held[name] |= devices
    return held


def _devices_held(state: ClusterState) -> dict[str, dict[str, float]]:
    """Devices by class that the pods of each queue hold; a claim shared by several counts once in a queue."""
    claims: dict[str, dict[str, None]] = {}
    for task in state.with_resource_claims.values():
        job = state.jobs.get(task.group)
        if job is None or not task.node or task.status in (*status.ENDED, status.RELEASING):
            continue
        for name in ancestry(state, job.queue):
            claims.setdefault(name, {}).update(dict.fromkeys(ref.key for ref in task.claims))
    known = state.resource_claims.claims
    return {
        name: {**total(charges_of(known[key].demand, capacities=True) for key in keys if key in known)}
        for name, keys in claims.items()
    }


def ancestry(state: ClusterState, name: str) -> list[str]:
    """A queue and its ancestors, up to the root; a cycle ends at its first queue."""
    out: list[str] = []
    while name in state.queues and name not in out:
        out.append(name)
        name = state.queues[name].parent or (wellknown.ROOT_QUEUE if name != wellknown.ROOT_QUEUE else "")
    return out


def rooms(state: ClusterState, held: Mapping[str, Mapping[str, float]]) -> dict[str, list[Room]]:
    """Limits and allocations of each queue and of the queues above it."""
    own = {name: Room(queue.capability or {}, held[name]) for name, queue in state.queues.items()}
    return {name: [own[above] for above in ancestry(state, name)] for name in own}


def allocated_patch(queue: Queue, held: Mapping[str, float]) -> Mapping[str, str | None] | None:
    """The patch of `status.allocated`, which removes resources that are no longer held; None if nothing changed."""
    known = (queue.status.allocated if queue.status else None) or {}
    try:
        same = {n: v for n, v in resource_amounts(known).items() if v} == {n: v for n, v in held.items() if v}
    except QuantityError:
        same = False
    if same:
        return None
    return dict.fromkeys(known) | format_resources({name: amount for name, amount in held.items() if amount})
