"""The tree of queues in the view: children, ancestors, depth. The queue `root` is at the top and has no parent.

All walks are safe from cycles: an object created while the webhook was down may close one.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from kilauea.admission.lookups import parent_of
from kilauea.api.kinds import QUEUES
from kilauea.api.ports import Key, Obj, View
from kilauea.api.wellknown import ROOT_QUEUE


def queue_named(view: View, name: str) -> Obj | None:
    """A queue by its name."""
    return view.get(QUEUES, Key("", name))


def children_of(view: View, name: str) -> Sequence[Obj]:
    """The queues that name a queue as their parent, in order of their names."""
    return view.indexed(QUEUES, "parent", name)


def is_below_root(parent: str) -> bool:
    """Return True if a parent limits its children: directly under `root`, written or not, there is no limit."""
    return parent not in ("", ROOT_QUEUE)


def ancestors(view: View, queue: Obj) -> Iterator[Obj]:
    """The queues above one, nearest first, without root; ends where one is missing or was there before."""
    seen = {queue["metadata"]["name"]}
    parent = parent_of(queue)
    while is_below_root(parent) and parent not in seen:
        found = queue_named(view, parent)
        if found is None:
            return
        seen.add(parent)
        yield found
        parent = parent_of(found)


def below(view: View, name: str) -> Iterator[tuple[Obj, int]]:
    """The queues under one, each with how many levels it lies under it, parents first."""
    seen, level, depth = {name}, [name], 0
    while level:
        depth += 1
        children = [child for parent in level for child in children_of(view, parent)]
        level = []
        for child in children:
            below_name = child["metadata"]["name"]
            if below_name not in seen:
                seen.add(below_name)
                level.append(below_name)
                yield child, depth
