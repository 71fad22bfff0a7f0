"""Numbers of members of HyperNodes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any

from kilauea.api.kinds import HYPER_NODES, NODES
from kilauea.api.patterns import pattern_of
from kilauea.api.ports import Interest, Key, Obj, Outcome, View
from kilauea.controllers.objects import (
    NOTHING,
    is_going,
    labels_of,
    matcher,
    name_of,
    own_key,
    spec_of,
    status_of,
    status_patch,
)

EVERY = Key("", "")
"""The key for all HyperNodes."""
COUNTING_SECONDS = 1.0
"""Seconds for which changes of nodes are collected before members are counted."""


class HyperNodeController:
    """Updates `status.nodeCount`: the number of direct members, nodes or HyperNodes."""

    name = "hyperNode-controller"
    interests = (
        Interest(HYPER_NODES, own_key),
        Interest(NODES, lambda node: (EVERY,), delay=COUNTING_SECONDS),
    )

    def reconcile(self, key: Key, view: View, now: int) -> Outcome:
        """Count the members of one HyperNode, or of all."""
        one = view.get(HYPER_NODES, key) if key != EVERY else None
        chosen = view.list(HYPER_NODES) if key == EVERY else [one] if one is not None else []
        staying = [each for each in chosen if not is_going(each)]
        if not staying:
            return NOTHING
        nodes = view.list(NODES)
        return Outcome([patch for each in staying for patch in _patches(each, nodes)])


def _patches(hypernode: Obj, nodes: Sequence[Obj]) -> Iterator[Any]:
    members: set[str] = set()
    for member in spec_of(hypernode).get("members") or ():
        members.update(_members(member.get("selector") or {}, nodes))
    if members or "nodeCount" in status_of(hypernode):
        yield from status_patch(HYPER_NODES, hypernode, {"nodeCount": len(members)})


def _members(selector: Mapping[str, Any], nodes: Sequence[Obj]) -> Iterator[str]:
    """The names that a selector matches; an invalid pattern matches nothing, as in the scheduler."""
    if exact := selector.get("exactMatch"):
        yield exact.get("name", "")
    if regex := selector.get("regexMatch"):
        yield from _matching(regex.get("pattern", ""), tuple(map(name_of, nodes)))
    if labels := selector.get("labelMatch"):
        matches = matcher(labels)
        yield from (name_of(node) for node in nodes if matches(labels_of(node)))


@lru_cache(maxsize=1024)  # nodes change often, but their names rarely
def _matching(pattern: str, names: tuple[str, ...]) -> tuple[str, ...]:
    try:
        found = pattern_of(pattern)
    except ValueError:
        return ()
    return tuple(name for name in names if found.search(name))
