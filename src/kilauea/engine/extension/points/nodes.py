"""Points at which plugins filter and score nodes, and are notified of added and removed tasks."""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Sequence

import numpy as np
from numpy.typing import NDArray

from kilauea.engine.extension.points.answers import (
    Applies,
    BindAnnotations,
    EventHandler,
    NodePredicate,
    NodeScore,
    NodeScorer,
    Predicate,
    Rejection,
    Scope,
)
from kilauea.engine.extension.points.registry import Registry
from kilauea.engine.model.jobs import Job
from kilauea.engine.model.nodes import NodeRows
from kilauea.engine.model.shapes import TaskShape
from kilauea.engine.model.tasks import Task
from kilauea.engine.plan import Refusal


class NodePoints(Registry):
    """Predicates, scores and event handlers."""

    # --- nodes

    def add_predicate(
        self,
        plugin: str,
        predicate: Predicate,
        rejections: Sequence[Rejection] = (),
        *,
        scope: Scope = Scope.NODE,
        applies: Applies | None = None,
        room: Predicate | None = None,
    ) -> None:
        """Add a predicate: the nodes that can run a task of a shape.

        It returns an array of shape (n,): booleans, true if the node fits; or integers, 0 if it fits and i if it is
        rejected for `rejections[i - 1]`; or None if all nodes fit. `scope` is what the result depends on: with scope
        NODE or FIGURES, it is computed again only for nodes that changed. A plugin can register several predicates. The
        list of rejections can grow during the session.

        `predicate` counts resources that are being released as free. `room` is the same check for resources that are
        free now, if that differs: on a node that passes only `predicate`, a task is nominated instead of started.
        `room` can have any scope except STATIC, and is called only while resources are being released
        (`session.nodes.future`).
        """
        named = rejections or (Rejection(plugin, f"node(s) were rejected by plugin {plugin}"),)
        predicate, applies = self.guarded("predicate", plugin, predicate), self.guarded("applies", plugin, applies)
        known = self._registered["predicate"].setdefault(plugin, [])
        room = self.guarded("predicate", plugin, room)
        known.append(NodePredicate(plugin, predicate, named, scope, applies, room))

    def add_node_score(
        self,
        plugin: str,
        score: NodeScore,
        *,
        applies: Applies | None = None,
        scope: Scope = Scope.NODE,
        resources: Collection[str] | None = None,
    ) -> None:
        """Add a score of nodes for a task of a shape, by their resources and tasks. The scores of plugins add up.

        `scope` is FIGURES for a score that depends only on the columns of the nodes, and STATIC for one that depends
        only on their objects; both are faster. With FIGURES, `resources` can list all resources that the score depends
        on: tasks that request the same amounts of these share their scores.
        """
        self._add_scorer("node_score", plugin, score, applies, scope, resources)

    def add_batch_node_score(self, plugin: str, score: NodeScore, *, applies: Applies | None = None) -> None:
        """Add a score that depends on the other candidates or on other nodes; computed for each choice of a node.

        `applies` is a cheap check if the score can matter for a shape now. Several scores of a plugin add up.
        """
        known = self._registered["batch_node_score"].get(plugin)
        self._add_scorer("batch_node_score", plugin, score, applies)
        if known is not None:
            both = _added(known, self._registered["batch_node_score"][plugin])
            self._put("batch_node_score", plugin, both)

    def _add_scorer(
        self,
        point: str,
        plugin: str,
        score: NodeScore,
        applies: Applies | None,
        scope: Scope = Scope.NODE,
        resources: Collection[str] | None = None,
    ) -> None:
        score, applies = self.guarded(point, plugin, score), self.guarded("applies", plugin, applies)
        self._put(point, plugin, NodeScorer(plugin, score, applies, scope, resources))

    def add_node_map(
        self, plugin: str, score: NodeScore, reduce: Callable[[TaskShape, NDArray[np.float64]], NDArray[np.float64]]
    ) -> None:
        """Add a score with a normalization: `reduce` gets the scores of all candidates, rounded down."""
        score, reduce = self.guarded("node_map", plugin, score), self.guarded("node_reduce", plugin, reduce)

        def reduced(shape: TaskShape, nodes: NodeRows) -> NDArray[np.float64] | None:
            raw = score(shape, nodes)
            return None if raw is None else reduce(shape, np.floor(raw))

        self._put("node_map", plugin, NodeScorer(plugin, reduced, None))

    def add_best_node(self, plugin: str, choose: Callable[[TaskShape, NodeRows, NDArray[np.float64]], int]) -> None:
        """Add a choice among scored candidates: an index into them, or -1 to leave it to the next plugin."""
        self.add("best_node", plugin, choose)

    def add_target_job(self, plugin: str, choose: Callable[[Sequence[Job]], Job | None]) -> None:
        """Add a choice of the job to reserve nodes for; the first plugin decides. No action calls it yet."""
        self.add("target_job", plugin, choose)

    def add_reserved_nodes(self, plugin: str, reserve: Callable[[], None]) -> None:
        """Add a function that reserves nodes. No action calls it yet."""
        self.add("reserved_nodes", plugin, reserve)

    def target_job(self, jobs: Sequence[Job]) -> Job | None:
        """Return the result of the first plugin."""
        for plugin, function in self.walk("target_job"):
            job: Job | None = self.ask("target_job", plugin, function, jobs)
            return job
        return None

    def reserved_nodes(self) -> None:
        """Let all plugins reserve nodes."""
        self._all("reserved_nodes")

    def predicates(self) -> list[NodePredicate]:
        """All predicates, in order."""
        return [predicate for several in dict(self.walk("predicate")).values() for predicate in several]

    def serve_claims(self, plugin: str) -> None:
        """Declare that the plugin allocates devices to the claims of pods that pass its predicates.

        If no plugin does, pods do not run on nodes where only devices serve their extended resources.
        """
        self.guarded("serve_claims", plugin, None)
        self.serves_claims = True

    def add_task_trait(self, plugin: str, trait: Callable[[Task], Hashable]) -> None:
        """Distinguish tasks with the same requests: predicates and scores find the value in `shape.traits[plugin]`.

        Tasks with different values are evaluated separately, which costs time. Return None for tasks that do not matter
        to the plugin; it is not stored in the traits.
        """
        self.task_traits.append((plugin, self.guarded("task_trait", plugin, trait)))

    def traits_of(self, task: Task) -> tuple[tuple[str, Hashable], ...]:
        """The traits of a task, by plugin."""
        if not self.task_traits:
            return ()
        told = ((plugin, self.ask("task_trait", plugin, trait, task)) for plugin, trait in self.task_traits)
        return tuple((plugin, value) for plugin, value in told if value is not None)

    def add_event_handler(
        self, plugin: str, on_allocate: EventHandler, on_deallocate: EventHandler, *, counts: bool = False
    ) -> None:
        """Add handlers, called with (task, row of the node) when a task is added to a node or removed from it.

        If `on_allocate` returns a refusal and an action has just placed the task there, the placement is undone. With
        `counts`, the handlers only count tasks by gang and shape: they are not called if two tasks that are equal in
        both swap places.
        """
        self.tells_tasks_apart |= not counts
        self.on_allocate.append((plugin, self.guarded("on_allocate", plugin, on_allocate)))
        self.on_deallocate.append((plugin, self.guarded("on_deallocate", plugin, on_deallocate)))

    def add_bind_annotations(self, plugin: str, annotations: BindAnnotations) -> None:
        """Add annotations that a pod gets in the request that binds it, such as its assigned devices.

        The results of several functions of a plugin are merged; of equal keys, the first one applies.
        """
        known: BindAnnotations | None = self._registered["bind_annotations"].get(plugin)
        self.add("bind_annotations", plugin, annotations)
        if known is not None:
            first, more = known, self._registered["bind_annotations"][plugin]
            self._put("bind_annotations", plugin, lambda task: {**more(task), **first(task)})

    def bind_annotations(self, task: Task) -> tuple[tuple[str, str], ...]:
        """All annotations for a task that starts, by key; of equal keys, the first plugin's applies."""
        if not self.tiers_of("bind_annotations"):
            return ()  # the usual case, once for each pod
        out: dict[str, str] = {}
        for plugin, function in self.walk("bind_annotations"):
            more = self.ask("bind_annotations", plugin, function, task)
            out = {**more, **out} if out else more
        return tuple(sorted(out.items()))

    def add_bind_locks(self, plugin: str, locks: Callable[[Task], tuple[str, ...]]) -> None:
        """Add annotations that lock the node while a pod is bound: for each of them, one pod at a time is bound."""
        self.add("bind_locks", plugin, locks)

    def bind_locks(self, task: Task) -> tuple[str, ...]:
        """The locks of all plugins for a task that starts, by name."""
        if not self.tiers_of("bind_locks"):
            return ()
        found = {
            lock
            for plugin, function in self.walk("bind_locks")
            for lock in self.ask("bind_locks", plugin, function, task)
        }
        return tuple(sorted(found))

    def arrived(self, task: Task, row: int) -> None:
        """Notify the plugins that a task was added to a node."""
        for plugin, handler in self.on_allocate:
            objection = self.ask("event handler", plugin, handler, task, row)
            if isinstance(objection, Refusal):
                self.objections[task.key] = objection

    def departed(self, task: Task, row: int) -> None:
        """Notify the plugins that a task was removed from a node."""
        self.objections.pop(task.key, None)
        for plugin, handler in self.on_deallocate:
            self.ask("event handler", plugin, handler, task, row)


def _added(one: NodeScorer, other: NodeScorer) -> NodeScorer:
    """The sum of two scores of a plugin, each where it applies."""
    scorers = (one, other)

    def applies(shape: TaskShape) -> bool:
        return any(each.applies is None or each.applies(shape) for each in scorers)

    def score(shape: TaskShape, nodes: NodeRows) -> NDArray[np.float64] | None:
        asked = [each for each in scorers if each.applies is None or each.applies(shape)]
        found = [part for each in asked if (part := each.function(shape, nodes)) is not None]
        return sum(found[1:], found[0]) if found else None

    return NodeScorer(one.plugin, score, applies, one.scope, None)
