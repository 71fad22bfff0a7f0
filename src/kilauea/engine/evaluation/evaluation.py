"""Nodes evaluated for one shape: the feasible ones, their scores, and the reasons if none is feasible.

The whole vector over nodes is computed once; afterwards only nodes that changed are computed again, by the table's list
of changes. Results that depend on other nodes (cluster scope, batch scores) are computed at each choice.

Shapes that differ only in what is computed at each choice share the rest, in the evaluation of their plain shape:
otherwise a plugin that distinguishes gangs would have all nodes evaluated for every gang.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from kilauea.api.numbers import plural
from kilauea.engine.evaluation import kernels
from kilauea.engine.evaluation.picking import Picker
from kilauea.engine.evaluation.shared_scores import SharedScores
from kilauea.engine.evaluation.unserved import NOT_SERVED
from kilauea.engine.extension import ExtensionPoints, NodePredicate, NodeScorer, PluginFault, Rejection, Scope
from kilauea.engine.model.nodes import NodeRows, NodeTable
from kilauea.engine.model.resources import order_of
from kilauea.engine.model.shapes import NOT_ASKED, TaskShape
from kilauea.engine.model.shards import OUTSIDE
from kilauea.engine.plan import NodeReason

ENDING = "node(s) had terminating pods that hold what the pod needs"
"""The reason of nodes that fit once terminating pods have ended, for pods that are not nominated."""

MOST_KNOWN = 1024
"""Maximum number of distinct node figures with cached results."""


@dataclass(frozen=True, slots=True)
class NodeChoice:
    """A node for a task: its row, and True if the room is free now, not only once terminating pods have ended."""

    row: int
    now: bool


@dataclass(frozen=True)
class Unfit:
    """The reasons why no node can run a shape: the number of nodes for each, and the scarcest resource among them."""

    nodes: int
    reasons: tuple[NodeReason, ...]
    """Counts, each with its reason."""
    resource: str = ""
    asked: int = 0
    left: int = 0
    """The most that is left of `resource` on any node that nothing else rules out."""
    domain: str = ""
    """Network domain that was searched; empty for the whole cluster."""

    @cached_property
    def message(self) -> str:
        """The reasons in the form of Kubernetes; cached, because many jobs of one shape share them."""
        where = f"In hyperNode {self.domain}: " if self.domain else ""
        if not self.nodes:
            return f"{where}0/0 nodes are available"
        counted = sorted(f"{r.count} {r.reason}" for r in self.reasons)
        return f"{where}0/{self.nodes} nodes are unavailable: {', '.join(counted)}."


class Examined(NamedTuple):
    """The result for some nodes (n,): True if they fit once terminating pods have ended, True for room now, scores."""

    fit: NDArray[np.bool_]
    room: NDArray[np.bool_]
    score: NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class ShardRule:
    """The nodes (N,) of the scheduler's shard; None for all nodes. With `soft`, the others are second choice."""

    inside: NDArray[np.bool_] | None = None
    soft: bool = False

    @cached_property
    def predicates(self) -> list[NodePredicate]:
        """The predicate that keeps pods inside, if any: one object, so that shapes can share it."""
        inside = self.inside
        if inside is None or self.soft:
            return []
        rejection = Rejection("NodeOutsideShard", OUTSIDE, hopeless=True)
        return [NodePredicate("sharding", lambda shape, nodes: nodes.take(inside), (rejection,), Scope.STATIC, None)]

    def preferred(self, within: NDArray[np.intp] | None) -> NDArray[np.intp] | None:
        """The preferred ones of some nodes, or of all; None if all are equal."""
        if self.inside is None or not self.soft:
            return None
        return np.flatnonzero(self.inside) if within is None else within[self.inside[within]]


class Evaluation:
    """One shape against all nodes of a cluster."""

    def __init__(
        self,
        nodes: NodeTable,
        points: ExtensionPoints,
        picker: Picker,
        shape: TaskShape,
        shard: ShardRule,
        shared: SharedScores,
    ) -> None:
        self._nodes = nodes
        self._picker = picker
        self._picks = picker.needed
        self._shape = shape
        self._shard = shard
        self._plain: Evaluation | None = None
        """The evaluation whose results about nodes this shape shares."""
        unserved = [NOT_SERVED] if nodes.by_class and not points.serves_claims else []
        known = [*shard.predicates, *unserved, *points.predicates()]
        chosen = [p for p in known if p.applies is None or p.applies(shape)]
        self._static = [p for p in chosen if p.scope is Scope.STATIC]
        self._local = [p for p in chosen if p.scope in (Scope.NODE, Scope.FIGURES)]
        self._cluster = [p for p in chosen if p.scope is Scope.CLUSTER]
        scorers: list[NodeScorer] = [s for _, s in points.walk("node_score")]
        chosen_scorers = [s for s in scorers if s.applies is None or s.applies(shape)]
        self._static_scorers = [s for s in chosen_scorers if s.scope is Scope.STATIC]
        self._scorers = [s for s in chosen_scorers if s.scope is not Scope.STATIC]
        batch = (*points.walk("node_map"), *points.walk("batch_node_score"))
        self._batch: list[NodeScorer] = [s for _, s in batch]
        # Functions of numbers are called once for nodes with equal numbers; the others are called for each node.
        self._own_fit = [p for p in self._local if p.scope is not Scope.FIGURES]
        self._figure_fit = [p for p in self._local if p.scope is Scope.FIGURES]
        self._own_scorers = [s for s in self._scorers if s.scope is not Scope.FIGURES]
        self._figure_scorers = [s for s in self._scorers if s.scope is Scope.FIGURES]
        self._by_figures = shared.of(self._figure_scorers, shape)
        self._known: dict[bytes, Examined] = {}
        """Results for nodes that changed, by their figures."""
        self._seen = -1
        """The part of the table's list of changes that is processed; -1 initially."""
        self._unfit: tuple[int, Unfit] | None = None
        self._now: NDArray[np.float64]
        """(N,) scores of nodes with room now; NEVER for the others."""
        self._later: NDArray[np.bool_]
        """(N,) nodes that will have room."""
        self._later_any = False
        self._score: NDArray[np.float64]

    def share(self, plain: Evaluation) -> bool:
        """Share the results about nodes of the plain shape's evaluation; False if some may differ for this shape.

        Possible if both have the same functions for each node, and none of their plugins distinguishes tasks.
        """
        mine, others = self._by_node(), plain._by_node()
        if mine == others and not any(each.plugin in self._shape.traits for each in mine):
            self._plain = plain
        return self._plain is not None

    def twin(self, shape: TaskShape) -> Evaluation:
        """The evaluation of a shape that differs only in what is computed at each choice."""
        # As `copy.copy` does, but faster.
        out = object.__new__(type(self))
        out.__dict__.update(self.__dict__)
        out._shape, out._unfit = shape, None
        return out

    def _by_node(self) -> list[NodePredicate | NodeScorer]:
        """All functions that are not called at each choice."""
        return [*self._static, *self._local, *self._static_scorers, *self._scorers]

    # --- choosing

    def choose(self, within: NDArray[np.intp] | None = None) -> NodeChoice | None:
        """Return the best node, or None: nodes with room now before those with room later, then by score and order.

        With `within` (ascending rows) no other node is considered. Where a shard comes first, a node outside it is
        chosen only if none inside is as soon free.
        """
        self._refresh()
        first = self._shard.preferred(within)
        if first is None:
            return self._choose(within)
        inside = self._choose(first)
        if inside is not None and inside.now:
            return inside
        anywhere = self._choose(within)
        return anywhere if inside is None or (anywhere is not None and anywhere.now) else inside

    def _choose(self, within: NDArray[np.intp] | None) -> NodeChoice | None:
        """The best of some nodes."""
        # Results that depend on other nodes are never cached: a pod placed anywhere may change them everywhere. Most
        # shapes do not have any and take the fast path.
        cluster, at_once = self._cluster_fit() if self._cluster else (None, None)
        batch = [s for s in self._batch if s.applies is None or s.applies(self._shape)]
        if cluster is None and at_once is None:
            return self._choose_free(within, batch) if batch or self._picks else self._choose_by_score(within)
        free, later = self._now > kernels.NEVER, self._later
        if at_once is not None:
            free, later = free & at_once, later | (free & ~at_once)
        for now, fit in ((True, free), (False, later)):
            if cluster is not None:
                fit = fit & cluster
            rows = np.flatnonzero(fit) if within is None else within[fit[within]]
            row = self._best_of(rows, self._score[rows], batch)
            if row >= 0:
                return NodeChoice(row, now)
        return None

    def _choose_free(self, within: NDArray[np.intp] | None, batch: list[NodeScorer]) -> NodeChoice | None:
        """The best of some nodes by all scores, if no predicate depends on other nodes."""
        scores = self._now if within is None else self._now.take(within)
        places = (scores > kernels.NEVER).nonzero()[0]
        if len(places):
            # Often all nodes have room; then they need not be gathered.
            rows = places if within is None else within if len(places) == len(within) else within.take(places)
            known = scores if len(places) == len(scores) else scores.take(places)
            return NodeChoice(self._best_of(rows, known, batch), True)
        if not self._later_any:
            return None
        rows = self._later.nonzero()[0] if within is None else within[self._later[within]]
        row = self._best_of(rows, self._score[rows], batch)
        return NodeChoice(row, False) if row >= 0 else None

    def _choose_by_score(self, within: NDArray[np.intp] | None) -> NodeChoice | None:
        """The best of some nodes in the usual case: only the scores by node decide."""
        now = self._now if within is None else self._now[within]
        index = kernels.best(now)
        if index >= 0:
            return NodeChoice(index if within is None else int(within[index]), True)
        if not self._later_any:
            return None
        later = np.where(self._later, self._score, kernels.NEVER)
        index = kernels.best(later if within is None else later[within])
        if index < 0:
            return None
        return NodeChoice(index if within is None else int(within[index]), False)

    def _best_of(self, rows: NDArray[np.intp], scores: NDArray[np.float64], batch: list[NodeScorer]) -> int:
        """Row of the best candidate, given the scores by node; -1 without candidates."""
        if len(rows) < 2:
            return int(rows[0]) if len(rows) else -1
        candidates = self._nodes.ascending(rows)
        if batch:
            scores = scores + self._scores(batch, candidates)
        if not self._picks:
            return int(rows[kernels.best(scores)])
        return int(rows[self._picker.pick(self._shape, candidates, scores)])

    def hopeful(self) -> NDArray[np.bool_]:
        """(N,) nodes that evictions could make feasible."""
        out = np.ones(len(self._nodes), dtype=bool)
        for predicate in (*self._static, *self._local, *self._cluster):
            codes = self._codes(predicate, self._nodes.all())
            if codes is None:
                continue
            if codes.dtype == np.bool_:
                codes = (~codes).astype(np.int64)
            for number, rejection in enumerate(predicate.rejections, start=1):
                if rejection.hopeless:
                    out &= codes != number
        return out

    # --- changes of nodes

    def _refresh(self) -> None:
        plain = self._plain
        if plain is not None:
            plain._refresh()
            self._now, self._later, self._later_any = plain._now, plain._later, plain._later_any
            self._score = plain._score
            return
        changed = self._nodes.changed
        if self._seen < 0:
            self._look_at_all()
        elif self._seen < len(changed):
            # The list of changes only grows, and each evaluation tracks its position in it: code that places a task
            # need not know the evaluations. Sorted, because rows must not be in the order of a hash.
            rows = sorted(set(changed[self._seen :]))
            if len(rows) == 1:
                self._look_again_at(rows[0])
            else:
                # One gather reads all figures of the changed nodes; the rest uses only these few columns.
                some = np.array(rows, dtype=np.intp)
                self._note(some, self._examine(self._nodes.select(some)))
        self._seen = len(changed)

    def _look_at_all(self) -> None:
        count = len(self._nodes)
        everything = self._nodes.all()
        self._possible: NDArray[np.bool_] | None = None
        for predicate in self._static:
            fit = self._fit(predicate, everything)
            if fit is not None:
                self._possible = fit if self._possible is None else self._possible & fit
        self._base = self._scores(self._static_scorers, everything) if self._static_scorers else None
        self._now = np.empty(count)
        self._score = np.empty(count)
        self._later = np.zeros(count, dtype=bool)
        self._later_any = False
        self._note(slice(None), self._examine(everything))

    def _look_again_at(self, row: int) -> None:
        """Evaluate one changed node, which is the usual case; it often becomes what another node was before."""
        # A gang fills up equal nodes, so the same figures recur. All figures of a node are in one column, whose bytes
        # are a complete key as long as only figures decide.
        figures = self._nodes.block[:, row].tobytes()
        found = self._known.get(figures)
        if found is None:
            if len(self._known) == MOST_KNOWN:
                self._known.clear()
            found = self._known[figures] = self._examine_figures(self._nodes.select(np.array([row], dtype=np.intp)))
        if self._own_fit or self._own_scorers:
            found = self._examine_own(self._nodes.select(np.array([row], dtype=np.intp)), found)
        self._note_one(row, found)

    def _examine(self, nodes: NodeRows) -> Examined:
        """Evaluate some nodes by everything that does not depend only on their objects."""
        return self._examine_own(nodes, self._examine_figures(nodes))

    def _examine_own(self, nodes: NodeRows, found: Examined) -> Examined:
        """Add the functions that depend on more than numbers to the result by numbers."""
        fit, room, score = found
        for predicate in self._own_fit:
            fit, room = self._narrowed(predicate, nodes, fit, room)
        if self._own_scorers:
            score = score + self._scores(self._own_scorers, nodes)
        return Examined(fit, room, score)

    def _examine_figures(self, nodes: NodeRows) -> Examined:
        """Evaluate some nodes by their numbers."""
        need = self._shape.need
        # Room now and later differ only while resources are released or nominated; most cycles skip the second.
        room = kernels.fits(nodes.used, need, nodes.allocatable)
        fit = room
        if self._nodes.future:
            fit = kernels.fits(nodes.used - nodes.releasing + nodes.pipelined, need, nodes.allocatable)
        for predicate in self._figure_fit:
            fit, room = self._narrowed(predicate, nodes, fit, room)
        return Examined(fit, room, self._figure_scores(nodes))

    def _figure_scores(self, nodes: NodeRows) -> NDArray[np.float64]:
        """(n,) scores by numbers, of all nodes or of those that changed since the last update."""
        known = self._by_figures
        if known.seen == self._seen:
            # The same nodes changed for the scores as for this shape, if no other shape shares them.
            scores = self._scores(self._figure_scorers, nodes)
            known.note(nodes.rows, scores)
            return scores
        if known.seen < len(self._nodes.changed):
            known.follow(partial(self._scores, self._figure_scorers))
        return nodes.take(known.values)

    def _narrowed(
        self, predicate: NodePredicate, nodes: NodeRows, fit: NDArray[np.bool_], room: NDArray[np.bool_]
    ) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
        """The nodes that fit, and those with room now, after another predicate."""
        more = self._fit(predicate, nodes)
        if more is not None:
            fit = fit & more
        free = self._free(predicate, nodes)
        return fit, room if free is None else room & free

    def _free(self, predicate: NodePredicate, nodes: NodeRows) -> NDArray[np.bool_] | None:
        """(n,) nodes that pass a predicate now; None if these are all that fit."""
        if predicate.room is None or not self._nodes.future:
            return None
        free: NDArray[np.bool_] | None = asked(predicate.plugin, "predicate", predicate.room, self._shape, nodes)
        return free

    def _note(self, rows: NDArray[np.intp] | slice, found: Examined) -> None:
        """Store the results for some nodes."""
        fit, room, score = found
        if self._possible is not None:
            fit = fit & self._possible[rows]
        if self._base is not None:
            score = score + self._base[rows]
        self._score[rows] = score
        self._now[rows] = np.where(fit & room, score, kernels.NEVER)
        if self._nodes.future:
            self._later[rows] = fit & ~room
            self._later_any = bool(self._later.any())

    def _note_one(self, row: int, found: Examined) -> None:
        """As `_note`, for one node: plain values are faster than arrays with one element."""
        fit, room, score = bool(found.fit[0]), bool(found.room[0]), float(found.score[0])
        if self._possible is not None:
            fit = fit and bool(self._possible[row])
        if self._base is not None:
            score += float(self._base[row])
        self._score[row] = score
        self._now[row] = score if fit and room else kernels.NEVER
        if self._nodes.future:
            self._later[row] = fit and not room
            self._later_any = bool(self._later.any())

    def _scores(self, scorers: list[NodeScorer], nodes: NodeRows) -> NDArray[np.float64]:
        """(n,) sum of the scores."""
        total: NDArray[np.float64] | None = None
        for scorer in scorers:
            score = asked(scorer.plugin, "node score", scorer.function, self._shape, nodes)
            if score is not None:
                if score.dtype.kind not in "fiub":
                    raise PluginFault(scorer.plugin, "node score", f"expected numbers, got {score.dtype}")
                total = score if total is None else total + score
        if total is None:
            return np.zeros(len(nodes))
        # One check of the sum instead of one for each score; the plugin at fault is only searched if it fails.
        if not kernels.all_finite(total):
            self._blame(scorers, nodes)
        return total

    def _blame(self, scorers: list[NodeScorer], nodes: NodeRows) -> None:
        """Find the plugin whose score is not a number."""
        for scorer in scorers:
            score = scorer.function(self._shape, nodes)
            if score is not None and not kernels.all_finite(score):
                raise PluginFault(scorer.plugin, "node score", "a score is not a finite number")

    def _cluster_fit(self) -> tuple[NDArray[np.bool_] | None, NDArray[np.bool_] | None]:
        """(N,) the nodes that pass predicates of cluster scope, and those that pass them now."""
        out: NDArray[np.bool_] | None = None
        at_once: NDArray[np.bool_] | None = None
        for predicate in self._cluster:
            fit = self._fit(predicate, self._nodes.all())
            if fit is not None:
                out = fit if out is None else out & fit
            free = self._free(predicate, self._nodes.all())
            if free is not None:
                at_once = free if at_once is None else at_once & free
        return out, at_once

    def _fit(self, predicate: NodePredicate, nodes: NodeRows) -> NDArray[np.bool_] | None:
        """(n,) the nodes that pass a predicate."""
        codes = self._codes(predicate, nodes)
        if codes is None or codes.dtype == np.bool_:
            return codes
        fit: NDArray[np.bool_] = codes == 0
        return fit

    def _codes(self, predicate: NodePredicate, nodes: NodeRows) -> NDArray[Any] | None:
        codes: NDArray[Any] | None = asked(predicate.plugin, "predicate", predicate.function, self._shape, nodes)
        if codes is None or codes.dtype == np.bool_:
            return codes
        if codes.dtype.kind not in "iu":
            raise PluginFault(predicate.plugin, "predicate", f"expected booleans or integers, got {codes.dtype}")
        if len(codes):
            if len(codes) <= kernels.FEW:
                some = codes.tolist()
                low, high = min(some), max(some)
            else:
                low, high = int(np.minimum.reduce(codes)), int(np.maximum.reduce(codes))
            if low < 0 or high > len(predicate.rejections):
                known = f"0 to {len(predicate.rejections)}"
                raise PluginFault(
                    predicate.plugin, "predicate", f"codes go from {low} to {high}, but {known} are known"
                )
        return codes

    # --- reasons

    def unfit(self, within: NDArray[np.intp] | None = None, domain: str = "") -> Unfit:
        """Return the reasons why no node can run the shape now: for each node the first, resources before predicates.

        With `within` (rows), only these nodes are considered; `domain` is the name of their network domain.
        """
        if within is not None:
            return self._explain(self._nodes.select(within), domain)
        stamp = len(self._nodes.changed)
        if self._unfit is None or self._unfit[0] != stamp:
            self._unfit = (stamp, self._explain(self._nodes.all(), domain))
        return self._unfit[1]

    def never(self) -> Unfit | None:
        """Return the reasons why no node can run the shape even if it is empty; None if one can.

        This distinguishes resources that the cluster lacks from those that others hold.
        """
        nodes = self._nodes.all()
        able = ~self._lacking(nodes.allocatable).any(axis=0)
        for predicate in self._static:
            fit = self._fit(predicate, nodes)
            if fit is not None:
                able &= fit
        return None if able.any() else self._explain(nodes, "", empty=True)

    def _lacking(self, room: NDArray[np.int64]) -> NDArray[np.bool_]:
        """(R, n) True for resources of which this much is too little."""
        need = self._shape.need
        out: NDArray[np.bool_] = (need > np.where(need == NOT_ASKED, 0, room)) & (need != NOT_ASKED)
        return out

    def _explain(self, nodes: NodeRows, domain: str, *, empty: bool = False) -> Unfit:
        """The first reason for each node; with `empty` as if it were empty, by its own properties only."""
        shape = self._shape
        axis = self._nodes.axis
        blamed: dict[str, list[NDArray[np.intp]]] = {}
        room = nodes.allocatable if empty else nodes.future_idle
        lacking = self._lacking(room)
        without: NDArray[np.bool_] = np.zeros(len(nodes), dtype=bool)
        for name in sorted(shape.spec.requests.keys() | {"cpu", "memory"}, key=order_of):
            here = lacking[axis.rows[name]] & ~without
            without |= here
            blamed[f"Insufficient {name}"] = [np.flatnonzero(here)]
        ruled_out = np.zeros(len(nodes), dtype=bool)
        for predicate in self._static if empty else (*self._static, *self._local, *self._cluster):
            codes = self._codes(predicate, nodes)
            if codes is None:
                continue
            if codes.dtype == np.bool_:
                codes = (~codes).astype(np.int64)
            first = (codes > 0) & ~without
            for code in np.unique(codes[first]):
                reason = predicate.rejections[int(code) - 1].message
                blamed.setdefault(reason, []).append(np.flatnonzero(first & (codes == code)))
            without |= first
            for number, rejection in enumerate(predicate.rejections, start=1):
                if not rejection.room:
                    ruled_out |= codes == number
        if not empty:
            blamed[ENDING] = [np.flatnonzero(self._must_wait(nodes) & ~without)]
        resource, ask, left = self._scarcest(room, lacking, ~ruled_out)
        return Unfit(len(nodes), tuple(self._counted(nodes, blamed)), resource, ask, left, domain)

    def _must_wait(self, nodes: NodeRows) -> NDArray[np.bool_]:
        """(n,) nodes that do not have what the shape needs now, by predicates with a separate check for now."""
        out = np.zeros(len(nodes), dtype=bool)
        for predicate in (*self._local, *self._cluster):
            free = self._free(predicate, nodes)
            if free is not None:
                out |= ~free
        return out

    def _counted(self, nodes: NodeRows, blamed: dict[str, list[NDArray[np.intp]]]) -> Iterator[NodeReason]:
        for reason, parts in blamed.items():
            rows = np.concatenate(parts)
            if len(rows):
                row = int(rows.min())
                name = nodes.table.names[row if nodes.rows is None else int(nodes.rows[row])]
                yield NodeReason(reason, len(rows), name)

    def _scarcest(
        self, room: NDArray[np.int64], lacking: NDArray[np.bool_], eligible: NDArray[np.bool_]
    ) -> tuple[str, int, int]:
        """The resource that rules out most of the nodes that nothing else rules out, and the most that is left of it.

        Nodes that lack only this resource take precedence over those that lack others, too.
        """
        lacking = lacking & eligible
        alone = lacking & (lacking.sum(axis=0) == 1)
        short = np.where(alone.any(), alone.sum(axis=1), lacking.sum(axis=1))
        if not short.any():
            return "", 0, 0
        names = self._nodes.axis.names
        row = min(np.flatnonzero(short == short.max()), key=lambda r: order_of(names[r]))
        lost = alone[row] if alone.any() else lacking[row]
        left = room[row][lost].max()
        return names[row], int(self._shape.need[row, 0]), int(max(left, 0))


def asked(plugin: str, point: str, function: Callable[..., Any], shape: TaskShape, nodes: NodeRows) -> Any:
    """Call a plugin with nodes; every exception becomes a fault with its name."""
    try:
        answer = function(shape, nodes)
    except PluginFault:
        raise
    except Exception as error:
        raise PluginFault(plugin, point, f"{type(error).__name__}: {error}") from error
    if answer is not None and getattr(answer, "shape", None) != (len(nodes),):
        form = f"shape {answer.shape}" if hasattr(answer, "shape") else type(answer).__name__
        raise PluginFault(plugin, point, f"expected one value for each of {plural(len(nodes), 'node')}, got {form}")
    return answer
