"""Queues as a tree, drawn for people and nested for programs.

Queues outside the tree have separate blocks: those with a missing parent (`orphaned:`), and those in a cycle
(`cycle:`). Every queue is shown once.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from kilauea.cli.vcctl.queue_list import PHASES, RESOURCES, Entry, amounts_text, queue_data, resources_of
from kilauea.cli.vcctl.tables import Table, fitting

HEADING = ("NAME", "STATE", "WEIGHT", "PRIORITY", *(phase.upper() for phase in PHASES))


class Marks(NamedTuple):
    """Characters before a name: for a child, the last child, and the lines below each."""

    child: str
    last: str
    below: str
    below_last: str


LINES = Marks("├── ", "└── ", "│   ", "    ")
ASCII = Marks("|-- ", "`-- ", "|   ", "    ")


@dataclass
class Node:
    """A queue with the queues below it; `counts` are its own or those of the whole subtree."""

    entry: Entry
    children: list[Node] = field(default_factory=list)
    counts: Mapping[str, int] = field(default_factory=dict)

    def walk(self, depth: int = 0) -> Iterator[tuple[int, Node]]:
        """The queue and all queues below it, with their depths: parents first, siblings by name."""
        yield depth, self
        for child in self.children:
            yield from child.walk(depth + 1)

    def leaves_first(self) -> Iterator[Node]:
        """All queues below it, then the queue itself: children before their parents, siblings by name."""
        for child in self.children:
            yield from child.leaves_first()
        yield self


class Forest(NamedTuple):
    """All queues: the tree, and the queues outside it."""

    roots: list[Node]
    orphaned: list[Node]
    cycle: list[Node]

    def find(self, name: str) -> Node | None:
        """The node of a queue."""
        nodes = (node for top in (*self.roots, *self.orphaned, *self.cycle) for _, node in top.walk())
        return next((node for node in nodes if node.entry.name == name), None)


def forest(entries: Sequence[Entry]) -> Forest:
    """Queues by their parents; a cycle is cut at its first name."""
    names = {entry.name for entry in entries}
    below: dict[str, list[Entry]] = {}
    for entry in sorted(entries, key=lambda entry: entry.name):
        below.setdefault(entry.parent, []).append(entry)
    seen: set[str] = set()
    roots = [_grown(entry, below, seen) for entry in below.get("", ())]
    lost = [entry for parent in sorted(below.keys() - names - {""}) for entry in below[parent]]
    orphaned = [_grown(entry, below, seen) for entry in lost]
    cycle = [_grown(entry, below, seen) for entry in _turning(entries) if entry.name not in seen]
    return Forest(roots, orphaned, cycle)


def _turning(entries: Sequence[Entry]) -> list[Entry]:
    """The queues in a cycle, by name."""
    parents = {entry.name: entry.parent for entry in entries}
    found = []
    for entry in sorted(entries, key=lambda entry: entry.name):
        passed, at = set[str](), entry.parent
        while at in parents and at not in passed and at != entry.name:
            passed.add(at)
            at = parents[at]
        found += [entry] if at == entry.name else []
    return found


def _grown(top: Entry, below: Mapping[str, Sequence[Entry]], seen: set[str]) -> Node:
    """A queue with all of its descendants that have not been visited."""
    seen.add(top.name)
    node = Node(top, counts=top.counts)
    waiting = [node]
    while waiting:
        parent = waiting.pop()
        for entry in below.get(parent.entry.name, ()):
            if entry.name not in seen:
                seen.add(entry.name)
                child = Node(entry, counts=entry.counts)
                parent.children.append(child)
                waiting.append(child)
    return node


def add_up(node: Node) -> None:
    """Add the counts of its descendants to each queue."""
    for each in node.leaves_first():
        total = Counter(each.entry.counts)
        for child in each.children:
            total.update(child.counts)
        each.counts = total


def cut(node: Node, depth: int) -> None:
    """Remove queues below a maximum depth; 0 keeps all."""
    for at, each in list(node.walk()):
        if depth and at + 1 >= depth:
            each.children = []


# --- for people


def drawn(tops: Mapping[str, Sequence[Node]], marks: Marks, resources: bool) -> list[str]:
    """Lines of a table; each block after the first has its title above it."""
    heading = [*HEADING, *(name.upper() for name in RESOURCES if resources)]
    rows: list[list[str]] = []
    blocks: dict[int, str] = {}
    for word, nodes in tops.items():
        if nodes and word:
            blocks[len(rows)] = word
        for node in nodes:
            rows += _rows(node, "", "", marks, resources)
    table = Table([fitting(title, 2) for title in heading], rows)
    lines = [line.rstrip() for line in (table.heading(), *map(table.line, rows))]
    for number, word in reversed(blocks.items()):
        lines[number + 1 : number + 1] = ["", f"{word}:"]
    return lines


def _rows(
    node: Node, before: str, below: str, marks: Marks, resources: bool, *, below_paused: bool = False
) -> Iterator[list[str]]:
    entry = node.entry
    paused = below_paused or entry.paused
    spec = entry.queue.get("spec") or {}
    figures = [entry.shown_state(below_paused=paused), str(spec.get("weight", 0)), str(spec.get("priority") or 0)]
    counts = [str(node.counts.get(phase, 0)) for phase in PHASES]
    amounts = [amounts_text(resources_of(entry.queue)[name]) for name in RESOURCES if resources]
    yield [before + entry.name, *figures, *counts, *amounts]
    for child in node.children:
        last = child is node.children[-1]
        mark, space = (marks.last, marks.below_last) if last else (marks.child, marks.below)
        yield from _rows(child, below + mark, below + space, marks, resources, below_paused=paused)


# --- for programs


def nested(node: Node) -> dict[str, Any]:
    """A queue as plain data, with the queues below it."""
    counted = node.entry._replace(counts=node.counts)
    return {**queue_data(counted), "children": [nested(child) for child in node.children]}
