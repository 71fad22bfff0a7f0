"""Output formats of queues: a tree in a table for people, JSON and YAML for programs."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from kilauea.api.decode import encode_json
from kilauea.api.wellknown import ROOT_QUEUE
from kilauea.cli.data_text import escaped_json, yaml_text
from kilauea.cli.plan_output import cell, limited, queue_data
from kilauea.cli.table import table
from kilauea.engine.model.resources import PODS, Amounts, order_of
from kilauea.engine.plan import QueueOutcome

INDENTATION = "  "
PAUSED = " (paused)"
"""Follows the name of a queue in which no pod starts, as it or a queue above it is paused."""
HEADING = ["NAME", "RESOURCE", "DESERVED", "GUARANTEE", "CAPABILITY", "ALLOCATED", "BORROWED", "SHARE"]
WIDE = ["REAL CAPABILITY", "REQUEST", "INQUEUE", "ELASTIC"]


def render_queues(queues: Mapping[str, QueueOutcome], output: str) -> str:
    """The text of queues in one of the forms `table`, `wide`, `json`, `yaml`."""
    queues = _with_root(queues)
    if output == "json":
        return escaped_json(encode_json(as_data(queues)).decode()) + "\n"
    if output == "yaml":
        return yaml_text(as_data(queues), sort_keys=True)
    return "\n".join(_table(queues, wide=output == "wide")) + "\n"


def as_data(queues: Mapping[str, QueueOutcome]) -> dict[str, Any]:
    """Queues as plain data; amounts are Kubernetes quantities, unlimited ones are omitted.

    A paused queue has `pausedBy`: the queue with the annotation, itself or one above it.
    """
    return {"queues": {name: _data(queue) for name, queue in queues.items()}}


def _data(queue: QueueOutcome) -> dict[str, Any]:
    data = {**queue_data(queue), "borrowed": limited(borrowed(queue))}
    return {**data, "pausedBy": queue.paused} if queue.paused else data


def _with_root(queues: Mapping[str, QueueOutcome]) -> Mapping[str, QueueOutcome]:
    """The queues; without a plugin that has a tree, root gets the sums of all other queues."""
    root = queues.get(ROOT_QUEUE)
    if root is None or root.allocated or root.request:
        return queues
    others = [queue for name, queue in queues.items() if name != ROOT_QUEUE]
    deserved = _sum(queue.deserved or {} for queue in others) or root.deserved
    whole = dataclasses.replace(
        root,
        deserved=deserved,
        allocated=_sum(queue.allocated for queue in others),
        request=_sum(queue.request for queue in others),
        inqueue=_sum(queue.inqueue for queue in others),
        elastic=_sum(queue.elastic for queue in others),
    )
    return {**queues, ROOT_QUEUE: dataclasses.replace(whole, share=_share(whole))}


def _sum(amounts: Iterable[Amounts]) -> dict[str, float]:
    total: dict[str, float] = {}
    for each in amounts:
        for name, amount in each.items():
            total[name] = total.get(name, 0) + amount
    return total


def _share(queue: QueueOutcome) -> float | None:
    """The largest ratio of allocated to deserved resources of a queue."""
    deserved = queue.deserved or {}
    return max((queue.allocated.get(name, 0) / amount for name, amount in deserved.items() if amount), default=None)


def borrowed(queue: QueueOutcome) -> dict[str, float]:
    """The resources above the deserved share of a queue, without pod slots."""
    deserved = queue.deserved or {}
    beyond = {name: held - deserved.get(name, 0) for name, held in queue.allocated.items() if name != PODS}
    return {name: amount for name, amount in beyond.items() if amount > 0}


def in_tree(queues: Mapping[str, QueueOutcome]) -> Iterator[tuple[int, str]]:
    """Depth and name of every queue: the root first, children by name below their parents.

    Queues with a missing parent, or in a cycle, follow after the tree, at depth 0.
    """
    children: dict[str, list[str]] = {}
    for name in sorted(queues):
        if name != ROOT_QUEUE:
            children.setdefault(queues[name].parent or ROOT_QUEUE, []).append(name)
    seen: set[str] = set()
    orphans = [name for parent in sorted(children) if parent not in queues for name in children[parent]]
    for start in (ROOT_QUEUE, *orphans, *sorted(queues)):
        waiting = [(0, start)] if start in queues else []
        while waiting:
            depth, name = waiting.pop()
            if name not in seen:
                seen.add(name)
                yield depth, name
                waiting.extend((depth + 1, child) for child in reversed(children.get(name, ())))


def _table(queues: Mapping[str, QueueOutcome], wide: bool) -> list[str]:
    """One row for each resource that a queue requests or uses; a queue without any gets one row, too."""
    rows = []
    for depth, name in in_tree(queues):
        queue = queues[name]
        columns: list[Amounts | None] = [queue.deserved, queue.guarantee, queue.capability, queue.allocated]
        columns.append(borrowed(queue))
        more = [queue.real_capability, queue.request, queue.inqueue, queue.elastic] if wide else []
        used = {n for column in (*columns, *more) for n, held in (column or {}).items() if held}
        share = "-" if queue.share is None else f"{queue.share:.2f}"
        resources = sorted(used - {PODS}, key=order_of) or ["-"]
        for number, resource in enumerate(resources):
            first = number == 0
            cells = [cell(resource, column) for column in columns]
            last = [cell(resource, column) for column in more]
            shown = INDENTATION * depth + name + PAUSED * bool(queue.paused)
            rows.append([shown if first else "", resource, *cells, share if first else "", *last])
    return table([*HEADING, *WIDE] if wide else HEADING, rows)
