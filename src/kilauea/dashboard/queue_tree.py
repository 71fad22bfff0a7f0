"""The tree of queues as lines of a table: deserved, used and borrowed amounts, and waiting jobs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from kilauea.api.wellknown import ROOT_QUEUE
from kilauea.dashboard.amounts import INFINITE, Bar, bar, shown
from kilauea.dashboard.picture import RUNNING, WAITING, Figures, Picture, QueueFigures
from kilauea.dashboard.rows import Amounts, Queue
from kilauea.dashboard.series import Sample, Series
from kilauea.engine.model.nodes import natural

MOST_LINES = 60
"""Maximum number of lines on a page."""
POINTS = 60
"""Number of points of the sparkline of each queue."""
SPARK_WIDTH, SPARK_HEIGHT = 80, 20
_UNKNOWN = QueueFigures(None)


class Line(NamedTuple):
    """A queue in the table; amounts are texts of one resource.

    Attributes:
        name: the queue.
        depth: number of shown levels above it.
        below: number of its descendants.
        folded: True if these are not shown.
        state: the state of the queue.
        guarantee, deserved, used, borrowed, limit: amounts as texts; a dash for none.
        borrows: True if it uses more than it deserves.
        bar: the amounts as a bar.
        words: the amounts as a sentence.
        waiting, running: jobs in it and its descendants.
        spark: points of its recent usage, for an SVG of `SPARK_WIDTH` by `SPARK_HEIGHT`.
    """

    name: str
    depth: int
    below: int
    folded: bool
    state: str
    guarantee: str
    deserved: str
    used: str
    borrowed: str
    limit: str
    borrows: bool
    bar: Bar
    words: str
    waiting: int
    running: int
    spark: str


class Tree(NamedTuple):
    """Lines of queues, and the total number of queues."""

    lines: Sequence[Line]
    total: int
    first: int
    matching: int


class Forest:
    """All queues in the order of the tree, with sums over descendants; built once for each state of the picture.

    A queue whose parent does not exist is at the top next to the root, and so is the first of a cycle. Open queues
    below a paused one are paused, too.
    """

    def __init__(self, picture: Picture, figures: Figures) -> None:
        self._figures = figures
        self.queues: dict[str, Queue] = {
            queue.name: queue for queue in sorted(picture.queues, key=lambda q: natural(q.name))
        }
        self._children: dict[str, list[str]] = {}
        tops = []
        for name, queue in self.queues.items():
            if queue.parent and queue.parent in self.queues and queue.parent != name:
                self._children.setdefault(queue.parent, []).append(name)
            else:
                tops.append(name)
        self.depths: dict[str, int] = {}
        self.tops = sorted(tops, key=lambda name: (name != ROOT_QUEUE, name))
        order = [each for top in self.tops for each in self._walk(top, 0)]
        for name in self.queues:  # the rest is in cycles
            if name not in self.depths:
                self.tops.append(name)
                order += self._walk(name, 0)
        self.order = order
        for name in order:
            parent, queue = self._shown_parent(name), self.queues[name]
            if parent and queue.state == "Open" and self.queues[parent].state == "Paused":
                self.queues[name] = queue._replace(state="Paused")
        self.counts: Counter[tuple[str, str]] = Counter(picture.counts)
        self.below: Counter[str] = Counter()
        for name in reversed(order):
            parent = self._shown_parent(name)
            if parent:
                self.below[parent] += self.below[name] + 1
                for state in (WAITING, RUNNING):
                    self.counts[parent, state] += self.counts[name, state]

    def _walk(self, top: str, depth: int) -> Iterator[str]:
        stack = [(top, depth)]
        while stack:
            name, at = stack.pop()
            if name in self.depths:
                continue
            self.depths[name] = at
            yield name
            stack += [(child, at + 1) for child in reversed(self._children.get(name, ()))]

    def _shown_parent(self, name: str) -> str:
        return self.queues[name].parent if self.depths[name] else ""

    def path(self, name: str) -> list[str]:
        """The ancestors of a queue, from the top, and itself."""
        out = [name]
        while parent := self._shown_parent(out[-1]):
            out.append(parent)
        return out[::-1]

    def under(self, name: str) -> list[str]:
        """A queue and its descendants, in the order of the table."""
        if name not in self.depths:
            return []
        start, depth = self.order.index(name), self.depths[name]
        end = start + 1
        while end < len(self.order) and self.depths[self.order[end]] > depth:
            end += 1
        return self.order[start:end]

    def used(self, name: str) -> Amounts:
        """The amounts that a queue and its descendants hold."""
        return self.queues[name].allocated

    def deserved(self, name: str) -> Amounts | None:
        """The deserved amounts of a queue: from its scheduler, or else from its object."""
        known = self._figures.get(name, _UNKNOWN).deserved
        return self.queues[name].deserved if known is None else known

    def samples(self, offered: Amounts) -> dict[str, Sample]:
        """A sample of each queue; a root without limits deserves the total of the nodes."""
        out = {}
        for name in self.queues:
            deserved = self.deserved(name) or (offered if name == ROOT_QUEUE else {})
            out[name] = Sample(self.used(name), {n: a for n, a in deserved.items() if a != INFINITE})
        return out


def tree(
    forest: Forest,
    offered: Amounts,
    resource: str,
    series: Series,
    *,
    top: str = "",
    search: str = "",
    first: int = 0,
    most: int = MOST_LINES,
) -> Tree:
    """The lines to show.

    Args:
        forest: the queues.
        offered: the total of the nodes.
        resource: the resource to show.
        series: the recent past.
        top: show only the queues below this one.
        search: show only queues whose names contain this, without the tree.
        first: number of the first line.
        most: lines to show; deep levels are folded until they fit.
    """
    names = forest.under(top) if top else forest.order
    if search:
        names = [name for name in names if search.lower() in name.lower()]
        depth = 0
    else:
        depth = _depth(forest, names, most)
        names = [name for name in names if forest.depths[name] <= depth]
    base = 0 if search else min((forest.depths[name] for name in names), default=0)
    shown_names = names[first : first + most]
    lines = [
        _line(forest, offered, resource, series, name, 0 if search else forest.depths[name] - base, depth)
        for name in shown_names
    ]
    return Tree(lines, len(forest.order), first, len(names))


def _depth(forest: Forest, names: Sequence[str], most: int) -> int:
    """The deepest level that fits for all queues, at least the children of the first."""
    counts = Counter(forest.depths[name] for name in names)
    least = min(counts, default=0) + 1
    total = 0
    for depth in sorted(counts):
        total += counts[depth]
        if total > most and depth > least:
            return depth - 1
    return max(counts, default=0)


def _line(forest: Forest, offered: Amounts, resource: str, series: Series, name: str, depth: int, deepest: int) -> Line:
    queue = forest.queues[name]
    used = forest.used(name).get(resource, 0.0)
    limits = forest.deserved(name)
    deserved = limits.get(resource) if limits is not None else None
    guarantee = queue.guarantee.get(resource, 0.0)
    finite = deserved is not None and deserved != INFINITE
    over = max(0.0, used - deserved) if finite and deserved is not None else 0.0
    below = forest.below[name]
    return Line(
        name,
        depth,
        below,
        bool(below) and forest.depths[name] >= deepest and deepest > 0,
        queue.state,
        shown(resource, guarantee or None),
        shown(resource, deserved),
        shown(resource, used),
        shown(resource, over or None),
        shown(resource, (queue.capability or {}).get(resource)),
        over > 0,
        bar(used, deserved, guarantee, offered.get(resource, 0)),
        _words(resource, used, deserved if finite else None, over),
        forest.counts[name, WAITING],
        forest.counts[name, RUNNING],
        spark(series.of(name, resource)[0]),
    )


def _words(resource: str, used: float, deserved: float | None, over: float) -> str:
    if deserved is None:
        return f"uses {shown(resource, used)}"
    text = f"uses {shown(resource, used)} of {shown(resource, deserved)} deserved"
    return f"{text}, {shown(resource, over)} of it borrowed" if over else text


def spark(values: Sequence[float | None]) -> str:
    """Points of a sparkline, scaled to its own maximum; empty for fewer than two."""
    step = max(1, len(values) // POINTS)
    known = [value for value in values[::-1][::step][::-1] if value is not None]
    if len(known) < 2:
        return ""
    top = max(known) or 1.0
    room = SPARK_HEIGHT - 2
    width = SPARK_WIDTH / (len(known) - 1)
    return " ".join(f"{x * width:.1f},{SPARK_HEIGHT - 1 - room * value / top:.1f}" for x, value in enumerate(known))


def states_of(queues: Mapping[str, Queue]) -> Counter[str]:
    """Number of queues by state."""
    return Counter(queue.state for queue in queues.values())
