"""Lookups of admission in its view, and the indexes for them."""

from __future__ import annotations

from collections.abc import Iterable

from kilauea.api.kinds import NAMESPACES, POD_GROUPS, QUEUES, VC_JOBS
from kilauea.api.ports import Interest, Key, Obj


def parent_of(queue: Obj) -> str:
    """The parent of a queue as it is written; empty if it is not."""
    return str((queue.get("spec") or {}).get("parent") or "")


def queue_of(group: Obj) -> str:
    """The queue of a pod group."""
    return str((group.get("spec") or {}).get("queue") or "")


def _nothing(_obj: Obj) -> Iterable[Key]:
    return ()


INTERESTS = (
    Interest(QUEUES, _nothing, indexes={"parent": parent_of}),
    Interest(POD_GROUPS, _nothing, indexes={"queue": queue_of}),
    Interest(VC_JOBS, _nothing),
    Interest(NAMESPACES, _nothing),
)
"""The kinds and indexes that hooks look up."""
