"""The input of a recording: changes of objects, as watches show them, and evictions, as the scheduler tells them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from kilauea.api.ports import Seen, Text, bytes_of


class Evicted(NamedTuple):
    """An eviction that the scheduler has carried out.

    Attributes:
        time: when.
        pod: the pod, as `namespace/name`.
        uid: its uid.
        node: the node that it was on.
        by: the pod group that gets the room, as `namespace/name`; empty if it is for none.
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
    """The changes of one kind that watches have shown.

    Attributes:
        listed: all objects that there are; None if nothing was listed.
        seen: changes after that; one without a text has a holder.
    """

    listed: Sequence[Text] | None
    seen: Sequence[Seen]


NO_CHANGES = Changes(None, ())


def last_texts(changes: Changes) -> Iterator[tuple[bytes, bool]]:
    """The last state of each object as text, and whether it is gone."""
    for text in changes.listed or ():
        yield bytes_of(text), False
    for seen in last_states(changes.seen):
        yield seen.object or (seen.holder.value if seen.holder is not None else b""), seen.type == "DELETED"


def last_states(seen: Sequence[Seen]) -> Iterable[Seen]:
    """Events without those that a later one about the same object makes needless, where that can be told unread."""
    last: dict[tuple[str, int], Seen] = {}
    lives: dict[str, int] = {}
    for number, each in enumerate(seen):
        if each.type == "BOOKMARK":
            continue
        key = getattr(each.holder, "key", "") or f"#{number}"
        life = lives.get(key, 0)
        last.pop((key, life), None)  # the order is that of the last events
        last[key, life] = each
        if each.type == "DELETED":
            lives[key] = life + 1
    return last.values()
