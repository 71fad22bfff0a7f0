"""Nodes evaluated for one shape: the feasible ones, their scores, and the reasons if none is feasible.

The whole vector over nodes is computed once; afterwards only the nodes that changed since are looked at again, by the
table's list of changes. What depends on other nodes (cluster scope, batch scores) is asked again at each choice.

Shapes that differ only in what is asked at each choice share all the rest, by the evaluation of their plain shape: else
a plugin that tells gangs apart would have all nodes examined for every gang.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

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
"""The reason of nodes that fit once pods have ended, for pods that are not nominated."""

MOST_KNOWN = 1024
"""Different figures of nodes that an evaluation remembers."""


@dataclass(frozen=True, slots=True)
class NodeChoice:
    """A node for a task: its row, and whether the room is free now or only once something has ended."""

    row: int
    now: bool


@dataclass(frozen=True)
class Unfit:
    """The reasons why no node takes a shape: the number of nodes for each, and the scarcest resource among them."""

    nodes: int
    reasons: tuple[NodeReason, ...]
    """Counts, each with its reason."""
    resource: str = ""
    asked: int = 0
    left: int = 0
    """The most that any node has left of `resource`, among those that nothing else rules out."""
    domain: str = ""
    """Network domain that was looked at; empty for the whole cluster."""

    @cached_property
    def message(self) -> str:
        """The reasons in the form of Kubernetes; kept, because many jobs of one shape share them."""
        where = f"In hyperNode {self.domain}: " if self.domain else ""
        if not self.nodes:
            return f"{where}0/0 nodes are available"
        counted = sorted(f"{r.count} {r.reason}" for r in self.reasons)
        return f"{where}0/{self.nodes} nodes are unavailable: {', '.join(counted)}."


class Examined(NamedTuple):
    """The result for some nodes (n,): if they fit once everything has ended, if they have room now, and their score."""

    fit: NDArray[np.bool_]
    room: NDArray[np.bool_]
    score: NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class ShardRule:
    """The nodes (N,) of the scheduler's shard; None where it works on all nodes. Others only come second if `soft`."""

    inside: NDArray[np.bool_] | None = None
    soft: bool = False

    @cached_property
    def predicates(self) -> list[NodePredicate]:
        """The predicate that keeps pods inside, if there is one: the same for all, so that shapes can share it."""
        inside = self.inside
        if inside is None or self.soft:
            return []
        rejection = Rejection("NodeOutsideShard", OUTSIDE, hopeless=True)
        return [NodePredicate("sharding", lambda shape, nodes: nodes.take(inside), (rejection,), Scope.STATIC, None)]

    def preferred(self, within: NDArray[np.intp] | None) -> NDArray[np.intp] | None:
        """Of some nodes, or of all, those that come first; None if all are equal."""
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
        """The evaluation that knows the nodes for this shape too."""
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
        # What looks at numbers only is asked once for nodes with equal numbers; the rest is asked about each node.
        self._own_fit = [p for p in self._local if p.scope is not Scope.FIGURES]
        self._figure_fit = [p for p in self._local if p.scope is Scope.FIGURES]
        self._own_scorers = [s for s in self._scorers if s.scope is not Scope.FIGURES]
        self._figure_scorers = [s for s in self._scorers if s.scope is Scope.FIGURES]
        self._by_figures = shared.of(self._figure_scorers, shape)
        self._known: dict[bytes, Examined] = {}
        """Of nodes that changed, by their figures."""
        self._seen = -1
        """The part of the table's list of changes that is processed; -1 before the first look."""
        self._unfit: tuple[int, Unfit] | None = None
        self._now: NDArray[np.float64]
        """(N,) scores of nodes with room now; NEVER for the others."""
        self._later: NDArray[np.bool_]
        """(N,) nodes that will have room."""
        self._later_any = False
        self._score: NDArray[np.float64]

    def share(self, plain: Evaluation) -> bool:
        """Use what the evaluation of the plain shape knows of the nodes; False if some of it may differ for this one.

        It does where both are asked the same of each node, and no plugin that is asked tells tasks apart.
        """
        mine, others = self._by_node(), plain._by_node()
        if mine == others and not any(each.plugin in self._shape.traits for each in mine):
            self._plain = plain
        return self._plain is not None

    def twin(self, shape: TaskShape) -> Evaluation:
        """The evaluation of a shape that differs only in what is looked at when it is asked about, at each choice."""
        # As `copy.copy` does, which takes longer to find out how.
        out = object.__new__(type(self))
        out.__dict__.update(self.__dict__)
        out._shape, out._unfit = shape, None
        return out

    def _by_node(self) -> list[NodePredicate | NodeScorer]:
        """Everything that is not asked at each choice."""
        return [*self._static, *self._local, *self._static_scorers, *self._scorers]

    # --- choosing

    def choose(self, within: NDArray[np.intp] | None = None) -> NodeChoice | None:
        """The best node, or None: free nodes before those that will be free, then by score, then by order.

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
        # What depends on other nodes is never kept: a pod placed anywhere may change it everywhere, so there is no row
        # to look at again. Most shapes have none of it and take the short way.
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
        """The best of some nodes by all scores, where no predicate looks at other nodes."""
        scores = self._now if within is None else self._now.take(within)
        places = (scores > kernels.NEVER).nonzero()[0]
        if len(places):
            # Often all are free: then nothing must be gathered.
            rows = places if within is None else within if len(places) == len(within) else within.take(places)
            known = scores if len(places) == len(scores) else scores.take(places)
            return NodeChoice(self._best_of(rows, known, batch), True)
        if not self._later_any:
            return None
        rows = self._later.nonzero()[0] if within is None else within[self._later[within]]
        row = self._best_of(rows, self._score[rows], batch)
        return NodeChoice(row, False) if row >= 0 else None

    def _choose_by_score(self, within: NDArray[np.intp] | None) -> NodeChoice | None:
        """The usual case: nothing but the scores by node decides."""
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
        """Row of the best of the candidates with their scores by node, -1 if there are none."""
        if len(rows) < 2:
            return int(rows[0]) if len(rows) else -1
        candidates = self._nodes.ascending(rows)
        if batch:
            scores = scores + self._scores(batch, candidates)
        if not self._picks:
            return int(rows[kernels.best(scores)])
        return int(rows[self._picker.pick(self._shape, candidates, scores)])

    def hopeful(self) -> NDArray[np.bool_]:
        """(N,) nodes that nothing rules out that evictions could not mend."""
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

    # --- keeping up with the nodes

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
            # The list of changes only grows, and each evaluation remembers how far it has read: code that places a
            # task need not know which evaluations there are. Sorted, because rows must not come in the order of a hash.
            rows = sorted(set(changed[self._seen :]))
            if len(rows) == 1:
                self._look_again_at(rows[0])
            else:
                # One gather brings all figures of the changed nodes; everything else works on those few columns.
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
        """One node has changed, as is usual; the next one often becomes what another has become before."""
        # A gang fills equal nodes one after another, so the same figures come up again and again. All figures of a node
        # lie in one column, whose bytes are a complete key as long as nothing but figures decides.
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
        """Look at some nodes, with everything but what depends on their objects alone."""
        return self._examine_own(nodes, self._examine_figures(nodes))

    def _examine_own(self, nodes: NodeRows, found: Examined) -> Examined:
        """Add what looks at more than numbers to what was found by them."""
        fit, room, score = found
        for predicate in self._own_fit:
            fit, room = self._narrowed(predicate, nodes, fit, room)
        if self._own_scorers:
            score = score + self._scores(self._own_scorers, nodes)
        return Examined(fit, room, score)

    def _examine_figures(self, nodes: NodeRows) -> Examined:
        """Look at some nodes by their numbers."""
        need = self._shape.need
        # Room now and room later differ only while something is being freed or promised; most cycles skip the second.
        room = kernels.fits(nodes.used, need, nodes.allocatable)
        fit = room
        if self._nodes.future:
            fit = kernels.fits(nodes.used - nodes.releasing + nodes.pipelined, need, nodes.allocatable)
        for predicate in self._figure_fit:
            fit, room = self._narrowed(predicate, nodes, fit, room)
        return Examined(fit, room, self._figure_scores(nodes))

    def _figure_scores(self, nodes: NodeRows) -> NDArray[np.float64]:
        """(n,) scores by numbers, of all nodes or of those that changed since the last look."""
        known = self._by_figures
        if known.seen == self._seen:
            # The same nodes changed for the scores as for this shape, as where no other shape shares them.
            scores = self._scores(self._figure_scorers, nodes)
            known.note(nodes.rows, scores)
            return scores
        if known.seen < len(self._nodes.changed):
            known.follow(partial(self._scores, self._figure_scorers))
        return nodes.take(known.values)

    def _narrowed(
        self, predicate: NodePredicate, nodes: NodeRows, fit: NDArray[np.bool_], room: NDArray[np.bool_]
    ) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
        """The nodes that fit, and those with room now, after one more predicate."""
        more = self._fit(predicate, nodes)
        if more is not None:
            fit = fit & more
        free = self._free(predicate, nodes)
        return fit, room if free is None else room & free

    def _free(self, predicate: NodePredicate, nodes: NodeRows) -> NDArray[np.bool_] | None:
        """(n,) nodes that have room now for a predicate; None if those are all that fit."""
        if predicate.room is None or not self._nodes.future:
            return None
        free: NDArray[np.bool_] | None = asked(predicate.plugin, "predicate", predicate.room, self._shape, nodes)
        return free

    def _note(self, rows: NDArray[np.intp] | slice, found: Examined) -> None:
        """Take in what was found at some nodes."""
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
        """As `_note`, for one node: plain values are quicker than arrays of one."""
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
        # One look at the sum instead of one at each score; which plugin is to blame is found out only when one is.
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
        """(N,) the nodes that predicates of cluster scope let through, and those of them that they let through now."""
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
        """(n,) the nodes that a predicate lets through."""
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

    # --- why not

    def unfit(self, within: NDArray[np.intp] | None = None, domain: str = "") -> Unfit:
        """Return the reasons why no node takes the shape now: for every node the first one, room before predicates.

        With `within` (rows) only those nodes are looked at; `domain` is the name of the network domain that they are.
        """
        if within is not None:
            return self._explain(self._nodes.select(within), domain)
        stamp = len(self._nodes.changed)
        if self._unfit is None or self._unfit[0] != stamp:
            self._unfit = (stamp, self._explain(self._nodes.all(), domain))
        return self._unfit[1]

    def never(self) -> Unfit | None:
        """Return the reasons why no node takes the shape even when it is empty; None if one does.

        So it tells what the cluster lacks from what others hold of it.
        """
        nodes = self._nodes.all()
        able = ~self._lacking(nodes.allocatable).any(axis=0)
        for predicate in self._static:
            fit = self._fit(predicate, nodes)
            if fit is not None:
                able &= fit
        return None if able.any() else self._explain(nodes, "", empty=True)

    def _lacking(self, room: NDArray[np.int64]) -> NDArray[np.bool_]:
        """(R, n) resources of which so much room is too little."""
        need = self._shape.need
        out: NDArray[np.bool_] = (need > np.where(need == NOT_ASKED, 0, room)) & (need != NOT_ASKED)
        return out

    def _explain(self, nodes: NodeRows, domain: str, *, empty: bool = False) -> Unfit:
        """For every node the first reason; with `empty` as if nothing ran there, and by what nodes are alone."""
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
        """(n,) nodes without what the shape needs now, by a predicate that says when."""
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

        Nodes that lack this resource alone count before those that lack others too.
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
    """Ask a plugin about nodes; whatever goes wrong is its fault by name."""
    try:
        answer = function(shape, nodes)
    except PluginFault:
        raise
    except Exception as error:
        raise PluginFault(plugin, point, f"{type(error).__name__}: {error}") from error
    if answer is not None and getattr(answer, "shape", None) != (len(nodes),):
        form = f"shape {answer.shape}" if hasattr(answer, "shape") else type(answer).__name__
        raise PluginFault(plugin, point, f"expected one value for each of {len(nodes)} nodes, got {form}")
    return answer
