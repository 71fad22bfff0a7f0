"""The input of a recording: changes of objects from watches, and evictions from the scheduler."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from kilauea.api.ports import Seen, Text, bytes_of


class Evicted(NamedTuple):
    """An eviction carried out by the scheduler.

    Attributes:
        time: its time.
        pod: the pod, as `namespace/name`.
        uid: its uid.
        node: its node.
        by: the pod group that benefits, as `namespace/name`; empty for none.
        by_job: the workload that owns it, in words.
        by_queue: its queue.
        action: the action that decided it.
    """

    time: int
    pod: str
    uid: str
    node: str
    by: str
    by_job: str
    by_queue: str
    action: str


class Changes(NamedTuple):
    """The changes of one kind from watches.

    Attributes:
        listed: all objects; None if nothing was listed.
        seen: changes after that; one without a text has a holder.
    """

    listed: Sequence[Text] | None
    seen: Sequence[Seen]


NO_CHANGES = Changes(None, ())


def last_texts(changes: Changes) -> Iterator[tuple[bytes, bool]]:
    """The last state of each object as text, and True if it was deleted."""
    for text in changes.listed or ():
        yield bytes_of(text), False
    for seen in last_states(changes.seen):
        yield seen.object or (seen.holder.value if seen.holder is not None else b""), seen.type == "DELETED"


def last_states(seen: Sequence[Seen]) -> Iterable[Seen]:
    """Events without those superseded by a later one of the same object, as far as visible without decoding."""
    last: dict[tuple[str, int], Seen] = {}
    lives: dict[str, int] = {}
    for number, each in enumerate(seen):
        if each.type == "BOOKMARK":
            continue
        key = getattr(each.holder, "key", "") or f"#{number}"
        life = lives.get(key, 0)
        last.pop((key, life), None)  # in the order of the last events
        last[key, life] = each
        if each.type == "DELETED":
            lives[key] = life + 1
    return last.values()
