"""The tree of queues of hierarchical dominant resource fairness, with the shares of its nodes, for one session.

The tree comes from the annotations of queues (`Queue.hierarchy`); jobs are its leaves. The share of a node is not that
of everything below it: children that can still grow are scaled down to the one that holds the least for its weight
before they are added up, so that one child does not starve because of another resource that its siblings hold (spec of
the queue plugins, 5.2).

Everything is computed for all nodes of a level at once when a key is first needed. Afterwards only the paths from
changed jobs to the root are computed again, and only on demand. Amounts of children are rounded to a tiny part of the
cluster's total, so that sums are exact and do not depend on their order.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kilauea.engine.model.jobs import INQUEUE, PHASES
from kilauea.engine.model.queues import Queue
from kilauea.engine.model.task_specs import TaskSpec
from kilauea.engine.model.tasks import Task
from kilauea.engine.session import Session

Floats = NDArray[np.float64]
Mask = NDArray[np.bool_]
Rows = NDArray[np.intp]

GRAIN = 44
"""A child's amounts are rounded to multiples of about 2**-44 of the cluster's total."""
NOTHING_HELD = (False, 0.0)
"""Part of a key for nodes without jobs."""


class Branch:
    """A node of the tree, before its figures are computed."""

    __slots__ = ("children", "number", "parent", "queues", "weight")

    def __init__(self, weight: float = 1.0, parent: Branch | None = None) -> None:
        self.weight = weight
        self.parent = parent
        self.children: dict[str, Branch] = {}
        self.queues = 0
        """Number of queues with jobs, here and below."""
        self.number = -1

    def child(self, name: str, weight: float) -> Branch:
        """The child with this name; a new child gets this weight."""
        known = self.children.get(name)
        if known is None:
            known = self.children[name] = Branch(weight, self)
        return known


def grow(queues: Iterable[Queue]) -> tuple[Branch, dict[str, list[Branch]]]:
    """Build the tree; returns it, and for each queue by name the nodes from below the root to its own.

    If queues give a node different weights, that of the first queue applies. A queue without a path, or whose path is
    the beginning of another's, gets a separate node there, with weight 1, so no queue is above another.
    """
    root = Branch()
    ways: dict[str, list[Branch]] = {}
    for queue in queues:
        at = root
        way = ways[queue.name] = []
        for name, weight in zip(queue.hierarchy, queue.hierarchy_weights, strict=True):
            at = at.child(name, weight)
            way.append(at)
    for queue_name, way in ways.items():
        end = way[-1] if way else root
        if end is root or end.children:
            way.append(end.child(f"/{queue_name}", 1.0))
    return root, ways


class Offer:
    """The total of the cluster: `amounts` (R,), and the grain to which parts of it are rounded."""

    __slots__ = ("_whole", "amounts", "grain")

    def __init__(self, amounts: NDArray[np.int64]) -> None:
        self.amounts = amounts.astype(np.float64)
        self._whole = np.where(self.amounts > 0, self.amounts, np.inf)[:, None]
        self.grain = np.ldexp(1.0, GRAIN - np.frexp(self.amounts)[1])[:, None]

    def shares(self, held: Floats) -> Floats:
        """(n,) largest fraction of any resource, for columns of amounts."""
        dominant: Floats = (held / self._whole).max(axis=0)
        return dominant

    def ranked(self, held: Floats) -> Floats:
        """(R,) the fractions of all resources, for amounts (R,), largest first."""
        ranked: Floats = np.sort(held / self._whole[:, 0])[::-1]
        return ranked


class Figures:
    """Holdings of some nodes or jobs, as columns: `held` (R, n), `share` (n,), `saturated` (n,)."""

    __slots__ = ("held", "saturated", "share")

    def __init__(self, held: Floats, share: Floats, saturated: Mask) -> None:
        self.held = held
        self.share = share
        self.saturated = saturated

    @classmethod
    def empty(cls, resources: int, size: int) -> Figures:
        """Figures of nodes that hold nothing."""
        return cls(np.zeros((resources, size)), np.zeros(size), np.zeros(size, dtype=bool))

    def put(self, at: Rows | slice, other: Figures) -> None:
        """Write figures into rows."""
        self.held[:, at] = other.held
        self.share[at] = other.share
        self.saturated[at] = other.saturated

    def parents(self, rows: slice, starts: Rows, offer: Offer, weights: Floats) -> Figures:
        """Figures of the nodes whose children are in these rows, those of each from its start to the next.

        `weights` are those of the rows. Children that are served equally hold amounts in the ratio of their weights, so
        they are scaled to it; scaled to equal amounts, a parent would seem to hold less than it does.
        """
        held, share, saturated = self.held[:, rows], self.share[rows], self.saturated[rows]
        some = share > 0
        open_share = np.where(some & ~saturated, np.minimum(share, 1.0), 1.0)
        least = np.minimum.reduceat(open_share / weights, starts)
        if len(starts) > 1:
            least = np.repeat(least, np.diff(starts, append=len(share)))
        factor = np.where(saturated, some, least * weights / np.where(some, share, np.inf))
        # Rounded to a grain that is a power of two, sums are exact: shares and plans are identical whatever the order
        # of the children, and whether computed all at once or path by path.
        sums = np.add.reduceat(np.rint(held * factor * offer.grain), starts, axis=1) / offer.grain
        return Figures(sums, offer.shares(sums), np.logical_and.reduceat(saturated, starts))


class Hierarchy:
    """Shares of queues and of the nodes above them."""

    def __init__(self, session: Session, weighted: bool = True) -> None:
        """Initialize; with `weighted`, the weights of children count, otherwise they are equal."""
        self._session = session
        self._weighted = weighted
        self._touched: dict[str, None] = {}
        self._built = False
        self._left = False
        """True if a task left since the last settling."""
        self._moved: dict[str, None] = {}
        """Queues whose keys changed because of other queues, not reported yet."""

    # --- changes

    def came(self, task: Task, _: int) -> None:
        """Record that a task was placed or nominated."""
        self._touched[task.group] = None

    def left(self, task: Task, _: int) -> None:
        """Record that a task was removed."""
        self._touched[task.group] = None
        self._left = True

    # --- results

    def key(self, queue: Queue) -> tuple[Any, ...]:
        """Sort key of a queue: for each node on its path from the root, True if it is saturated, and share / weight.

        Paths have the same length in keys: a shorter one is extended as if each node had a single child.
        """
        self._settle()
        return self._key(queue)

    def _key(self, queue: Queue) -> tuple[Any, ...]:
        parts = self._parts
        return tuple([parts[number] for number in self._ways[queue.name]])

    def weighted_shares(self, queue: Queue) -> tuple[list[float], ...]:
        """For each node of a queue's path as in its key: the shares of the total below it / weight, largest first.

        Keys do not show gains: once a resource is used up, all are saturated except jobs that hold nothing, and
        children that can grow are scaled down. Holdings do, so evictions between queues by these shares end.
        """
        self._settle()
        out, places = list[list[float]](), NOWHERE
        for number in self._ways[queue.name]:
            weight = 1.0
            if 0 <= number < len(self._parent):
                places, weight = self._places_under(number), self._weight[number]
            elif number < 0:
                places = NOWHERE
            out.append((self._offer.ranked(self._jobs.held[:, places].sum(axis=1)) / weight).tolist())
        return tuple(out)

    def _places_under(self, node: int) -> Rows:
        """The places of all jobs below a node."""
        if node not in self._places:
            # A parent has a smaller number than its children.
            parents, at = np.array(self._parent), self._end_of_job
            while (at > node).any():
                at = np.where(at > node, parents[at], at)
            self._places[node] = np.flatnonzero(at == node)
        return self._places[node]

    def victims(self, preemptor: Task, candidates: Sequence[Task]) -> list[Task]:
        """Candidates that the preemptor could replace, one at a time, with its queue still before theirs."""
        jobs, queues = self._session.state.jobs, self._session.queues
        job = jobs.get(preemptor.group)
        self._settle()
        if job is None or self._place_of[job.row] < 0:
            return []
        known: dict[tuple[str, TaskSpec], bool] = {}
        out = []
        with self._trial(preemptor, 1):
            for task in candidates:
                of = jobs.get(task.group)
                if of is None or self._place_of[of.row] < 0:
                    continue
                # Each candidate is tried alone, so equal tasks of one job share the result.
                which = (of.key, task.spec)
                if which not in known:
                    with self._trial(task, -1):
                        known[which] = self._key(queues[job.queue]) < self._key(queues[of.queue])
                if known[which]:
                    out.append(task)
        return out

    @contextmanager
    def _trial(self, task: Task, by: int) -> Iterator[None]:
        """Provide the figures with one task more or less."""
        place = int(self._place_of[self._session.state.jobs[task.group].row])
        change = by * self._session.axis.vector(task.spec.requests)
        self._change(place, change)
        try:
            yield
        finally:
            self._change(place, -change)

    def _change(self, place: int, change: NDArray[Any]) -> None:
        self._jobs.held[:, place] += change
        self._in_use += change
        self._refresh([place])

    # --- building

    def _build(self) -> None:
        session, table = self._session, self._session.table
        size = len(table)
        held, waiting = table.allocated[:, :size], table.pending[:, :size]
        alive = table.waiting[:size] | (table.phase[:size] == PHASES.index(INQUEUE)) | (held + waiting).any(axis=0)
        rows = np.flatnonzero(alive & (table.queue[:size] >= 0))
        self._offer = Offer(session.axis.vector(session.total))
        self._in_use = held[:, rows].sum(axis=1).astype(np.float64)
        end_of_job = self._lay_out(table.queue[rows])
        # Children are adjacent, in the order of their parents, so that one `reduceat` computes a whole level.
        order = np.argsort(end_of_job, kind="stable")
        rows = rows[order]
        self._end_of_job = end_of_job[order]
        self._place_of = np.full(size, -1, dtype=np.intp)
        self._place_of[rows] = np.arange(len(rows))
        self._request = (held[:, rows] + waiting[:, rows]).astype(np.float64)
        self._jobs = Figures.empty(len(held), len(rows))
        self._jobs.held[:] = held[:, rows]
        self._equal: Floats = np.ones(len(rows))
        """The weights of jobs."""
        self._places: dict[int, Rows] = {}
        """By number of a node, for nodes that were needed: the places of the jobs below it, constant in a session."""
        self._ends, firsts = np.unique(self._end_of_job, return_index=True)
        self._first[self._ends] = firsts
        self._last[self._ends] = np.append(firsts[1:], len(rows))
        self._compute_all()

    def _lay_out(self, queue_rows: NDArray[np.int32]) -> Rows:
        """Number the nodes with jobs, level by level; returns the number of the node of each given queue row."""
        queues = sorted(self._session.queues.values(), key=lambda q: (q.creation, q.name))
        root, ways = grow(queues)
        jobs = np.bincount(queue_rows, minlength=len(queues)).tolist()
        for queue in queues:
            if jobs[queue.row]:
                root.queues += 1
                for branch in ways[queue.name]:
                    branch.queues += 1
        levels = [[root]]
        while level := [child for branch in levels[-1] for child in branch.children.values() if child.queues]:
            levels.append(level)
        nodes = [branch for level in levels for branch in level]
        for number, branch in enumerate(nodes):
            branch.number = number
        self._number_nodes(nodes, [len(level) for level in levels])
        self._lay_ways(ways)
        end_of_queue = np.zeros(len(queues), dtype=np.intp)
        for queue in queues:
            end_of_queue[queue.row] = ways[queue.name][-1].number
        return end_of_queue[queue_rows]

    def _number_nodes(self, nodes: list[Branch], sizes: list[int]) -> None:
        """Arrays over nodes: parents, weights, and the rows of the children, which are nodes or, at the ends, jobs."""
        bounds = np.cumsum([0, *sizes])
        self._levels = list(zip(bounds[:-1].tolist(), bounds[1:].tolist(), strict=True))
        self._parent = [branch.parent.number if branch.parent is not None else -1 for branch in nodes]
        self._weight = [branch.weight for branch in nodes]
        self._scale: Floats = np.array(self._weight if self._weighted else [1.0] * len(nodes))
        """Scale of the children of one node, applied before they are added up."""
        self._decides = [1 < branch.queues < nodes[0].queues for branch in nodes]
        """True if a node's share can affect the order of queues outside it."""
        self._inner = np.array([bool(branch.children) for branch in nodes])
        children = np.array([sum(c.queues > 0 for c in branch.children.values()) for branch in nodes], dtype=np.intp)
        self._last: Rows = 1 + np.cumsum(children)
        self._first: Rows = self._last - children
        self._nodes = Figures.empty(len(self._offer.amounts), len(nodes))

    def _lay_ways(self, ways: dict[str, list[Branch]]) -> None:
        """Number the parts of keys, and for each queue those of its key.

        The parts of the nodes come first; then, for each end of a path that is shorter than the longest, the part for
        the single children by which it is extended; the last is that of nodes without jobs, whose number is -1.
        """
        depth = max(map(len, ways.values()), default=0)
        ends = dict.fromkeys(way[-1].number for way in ways.values() if len(way) < depth and way[-1].number >= 0)
        self._below = {end: len(self._parent) + i for i, end in enumerate(ends)}
        """By number of an end: the number of the part below it."""
        self._parts: list[tuple[bool, float]] = [NOTHING_HELD] * (len(self._parent) + len(ends) + 1)
        self._ways = {
            name: [
                *(branch.number for branch in way),
                *[self._below.get(way[-1].number, -1)] * (depth - len(way)),
            ]
            for name, way in ways.items()
        }
        self._under: list[list[str]] = [[] for _ in self._parent]
        """By number of a node: the queues below it."""
        for name, way in ways.items():
            for branch in way:
                if branch.number >= 0:
                    self._under[branch.number].append(name)

    # --- computation

    def _settle(self) -> None:
        """Process the changes since the last time."""
        if not self._built:
            self._built = True
            self._build()
        if self._touched:
            jobs, axis = self._session.state.jobs, self._session.axis
            changed = []
            for key in self._touched:
                place = int(self._place_of[jobs[key].row])
                if place < 0:
                    continue
                held = axis.vector(jobs[key].allocated)
                # Compared with current holdings, not summed up from events: a statement that was rolled back leaves no
                # change, so its path is not computed.
                change = held - self._jobs.held[:, place]
                if change.any():
                    self._jobs.held[:, place] = held
                    self._in_use += change
                    changed.append(place)
            self._touched.clear()
            if changed:
                self._refresh(changed)
            self._left = False
        if self._moved:
            moved, self._moved = self._moved, {}
            self._session.queues_moved(moved)

    def _refresh(self, places: list[int]) -> None:
        """Compute the paths from changed jobs to the root; everything if a resource ran out or is available again."""
        # Saturation of jobs depends on which resources ran out, so when that changes, any job may have changed.
        if not np.array_equal(self._demanding, self._in_use < self._offer.amounts):
            self._compute_all()
            return
        for place in places:
            self._compute_jobs(slice(place, place + 1))
        nodes = {int(self._end_of_job[place]) for place in places}
        while nodes:
            for node in sorted(nodes):
                below, scale = (self._nodes, self._scale) if self._inner[node] else (self._jobs, self._equal)
                rows = slice(int(self._first[node]), int(self._last[node]))
                self._nodes.put(slice(node, node + 1), below.parents(rows, FROM_FIRST, self._offer, scale[rows]))
                self._publish(node)
            nodes = {parent for node in nodes if (parent := self._parent[node]) > 0}

    def _compute_jobs(self, at: slice) -> None:
        jobs = self._jobs
        held, request = jobs.held[:, at], self._request[:, at]
        enough = (held >= request) | ~self._demanding[:, None]
        jobs.share[at] = self._offer.shares(held)
        jobs.saturated[at] = ((held > 0) & (request > 0) & enough).any(axis=0)

    def _compute_all(self) -> None:
        self._demanding = self._in_use < self._offer.amounts
        if not len(self._end_of_job):
            return
        self._compute_jobs(slice(None))
        everything = slice(0, len(self._end_of_job))
        self._nodes.put(self._ends, self._jobs.parents(everything, self._first[self._ends], self._offer, self._equal))
        for low, high in reversed(self._levels[1:-1]):
            inner = low + np.flatnonzero(self._inner[low:high])
            if len(inner):
                rows = slice(int(self._first[inner[0]]), int(self._last[inner[-1]]))
                starts = self._first[inner] - rows.start
                self._nodes.put(inner, self._nodes.parents(rows, starts, self._offer, self._scale[rows]))
        for node in range(1, len(self._parent)):
            self._publish(node)

    def _publish(self, node: int) -> None:
        """Update the parts of keys."""
        saturated, share = bool(self._nodes.saturated[node]), float(self._nodes.share[node])
        part = saturated, share / self._weight[node]
        if self._parts[node] == part:
            return
        self._parts[node] = part
        if node in self._below:
            self._parts[self._below[node]] = saturated, share
        # A node above all queues, or above only one, does not change the order of queues; and that one queue is not in
        # the line while it is served. If it lost a task, it may be.
        if self._decides[node] or self._left:
            self._moved.update(dict.fromkeys(self._under[node]))


NOWHERE = np.zeros(0, dtype=np.intp)
"""The places of no jobs."""
FROM_FIRST = np.zeros(1, dtype=np.intp)
"""Start of the only node of a `Figures.parents`."""
