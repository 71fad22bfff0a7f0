"""The extension points: where plugins have their say, and how what they say is combined.

Plugins stand in tiers. Every point walks the tiers in order, and in each the plugins in order, past those that are
switched off by their enable flag; how the answers are combined is what the methods below say (spec of the scheduler,
3.4). A plugin registers at most one function at a point.

Orders are sort keys: a function gives a value for one object, and lower values come first.
Node-side points are asked about a `TaskShape` and a selection of nodes, and answer with one value a node.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from kilauea.engine.conf import PluginConf
from kilauea.engine.model.jobs import Job
from kilauea.engine.model.nodes import NodeRows
from kilauea.engine.model.queues import Queue
from kilauea.engine.model.shapes import TaskShape
from kilauea.engine.model.tasks import Task
from kilauea.engine.plan import Refusal as Refusal  # noqa: PLC0414 - plugins look for it here
from kilauea.engine.plan import SpareReason as SpareReason  # noqa: PLC0414 - as above

if TYPE_CHECKING:
    from kilauea.engine.extension.guard import Guard

PERMIT, ABSTAIN, REJECT = 1, 0, -1
"""Votes."""

Key = Any
"""A sort key: anything comparable, lower first."""


class Scope(enum.Enum):
    """What a predicate depends on beside the task; it says when an answer has to be asked for again."""

    STATIC = "what the node's object says"
    FIGURES = "what is allocatable and used on the node, and no more: equal nodes have equal answers"
    NODE = "what runs on the node"
    CLUSTER = "what runs anywhere"


@dataclass(frozen=True, slots=True)
class Rejection:
    """Why a node is rejected: a code for programs, a message in the words of Kubernetes."""

    code: str
    message: str
    room: bool = False
    """It is about room, so it is told by the scarcest resource too."""
    hopeless: bool = False
    """Evicting pods from the node would not help (Kubernetes' UnschedulableAndUnresolvable)."""


Codes = NDArray[Any]
Predicate = Callable[[TaskShape, NodeRows], Codes | None]
NodeScore = Callable[[TaskShape, NodeRows], NDArray[np.float64] | None]
Applies = Callable[[TaskShape], bool]
VictimVote = Callable[[Task, Sequence[Task]], tuple[Sequence[Task], int]]
WhySpared = SpareReason | Callable[[Any, Task], SpareReason]
EventHandler = Callable[[Task, int], None]


class PluginFault(Exception):
    """A plugin raised or answered nonsense."""

    def __init__(self, plugin: str, point: str, error: object) -> None:
        self.what = f"failed in {point}: {error}"
        super().__init__(f"plugin {plugin} {self.what}")
        self.plugin = plugin
        self.point = point


@dataclass(frozen=True, slots=True)
class NodePredicate:
    """A registered predicate. Answer code i > 0 stands for `rejections[i - 1]`."""

    plugin: str
    function: Predicate
    rejections: tuple[Rejection, ...]
    scope: Scope
    applies: Applies | None


@dataclass(frozen=True, slots=True)
class NodeScorer:
    """A registered score over nodes."""

    plugin: str
    function: NodeScore
    applies: Applies | None
    scope: Scope = Scope.NODE


FLAGS: dict[str, tuple[str, ...]] = {
    "job_order": ("joborder",),
    "queue_order": ("queueorder",),
    "queue_moves": ("queueorder",),
    "task_order": ("taskorder",),
    "sub_job_order": ("subjoborder",),
    "cluster_order": ("clusterorder",),
    "victim_queue_order": (),
    "job_ready": ("jobready",),
    "sub_job_ready": ("subjobready",),
    "job_valid": (),
    "predicate": ("predicate",),
    "pre_predicate": ("predicate",),
    "allocatable": ("allocatable",),
    "preemptive": ("preemptive",),
    "overused": ("overused",),
    "job_enqueueable": ("jobenqueued",),
    "job_enqueued": ("jobenqueued",),
    "job_pipelined": ("jobpipelined",),
    "sub_job_pipelined": ("subjobpipelined",),
    "job_starving": ("jobstarving",),
    "preemptable": ("preemptable",),
    "reclaimable": ("reclaimable",),
    "unified_evictable": (),
    "victim_tasks": ("victim",),
    "best_node": ("bestnode",),
    "node_score": ("nodeorder",),
    "batch_node_score": ("nodeorder",),
    "node_map": ("nodeorder",),
    "hyper_node_order": ("hypernodeorder",),
    "hyper_node_gradient_for_job": ("hypernodegradient",),
    "hyper_node_gradient_for_sub_job": ("hypernodegradient",),
    "target_job": ("targetjob",),
    "reserved_nodes": ("reservednodes",),
}
"""Extension points, each with the flags any of which switches it on; without a flag a point is always on."""


def victims_and_vote(point: str, plugin: str, answer: Any) -> tuple[Sequence[Task], int]:
    """An answer about victims, if it is one: tasks and a vote."""
    fits = isinstance(answer, tuple) and len(answer) == 2 and isinstance(answer[1], int)
    if not fits or not isinstance(answer[0], Sequence) or not all(isinstance(task, Task) for task in answer[0]):
        raise PluginFault(plugin, point, f"expected a list of tasks and a vote, got {answer!r}")
    return answer[0], answer[1]


class ExtensionPoints:
    """Registration (`add_*`) and combination of what plugins registered. A session is one."""

    def __init__(self, tiers: Sequence[Sequence[PluginConf]]) -> None:
        self._tiers = tiers
        self._registered: dict[str, dict[str, Any]] = {point: {} for point in FLAGS}
        self._walks: dict[str, list[list[tuple[str, Any]]]] = {}
        self._on_allocate: list[tuple[str, EventHandler]] = []
        self._on_deallocate: list[tuple[str, EventHandler]] = []
        self._guards: dict[str, Guard] = {}
        self._vetoes: set[tuple[str, str]] = set()
        """(point, plugin) of the votes about victims whose veto is final."""
        self._why_spared: dict[tuple[str, str], WhySpared] = {}
        self._opening = ""
        """The plugin that is registering."""

    def post_guard(self, plugin: str, guard: Guard) -> None:
        """Have a guard around everything that a plugin registers from now on."""
        self._guards[plugin] = guard

    def guarded(self, point: str, plugin: str, function: Any) -> Any:
        """The function with its plugin's guard around it, if the plugin has one."""
        if self._opening and plugin != self._opening:
            raise PluginFault(self._opening, point, f"it registers under the name {plugin!r}: use self.name")
        guard = self._guards.get(plugin)
        return function if guard is None or function is None else guard.around(point, function)

    def add(self, point: str, plugin: str, function: Any) -> None:
        """Register a function of a plugin at a point by name; the typed `add_*` below are the usual way."""
        self._put(point, plugin, self.guarded(point, plugin, function))

    def _put(self, point: str, plugin: str, registered: Any) -> None:
        self._registered[point][plugin] = registered
        self._walks.pop(point, None)

    def tiers_of(self, point: str) -> list[list[tuple[str, Any]]]:
        """The tiers of a point: (plugin, function) of those that registered and are on, empty tiers left out."""
        walk = self._walks.get(point)
        if walk is None:
            flags, registered = FLAGS[point], self._registered[point]
            rows = [
                [(p.name, registered[p.name]) for p in tier if p.name in registered and p.is_enabled(*flags)]
                for tier in self._tiers
            ]
            walk = self._walks[point] = [row for row in rows if row]
        return walk

    def walk(self, point: str) -> Iterator[tuple[str, Any]]:
        """All functions of a point, in order."""
        for tier in self.tiers_of(point):
            yield from tier

    def ask(self, point: str, plugin: str, function: Callable[..., Any], *arguments: object) -> Any:
        """Call a plugin; whatever goes wrong is its fault by name."""
        try:
            return function(*arguments)
        except PluginFault:
            raise
        except Exception as error:
            raise PluginFault(plugin, point, f"{type(error).__name__}: {error}") from error

    # --- orders: the first plugin that tells two apart decides

    def add_job_order(self, plugin: str, key: Callable[[Job], Key]) -> None:
        """Order of jobs within a queue."""
        self.add("job_order", plugin, key)

    def add_queue_order(
        self, plugin: str, key: Callable[[Queue], Key], *, moves: Callable[[], int] | None = None
    ) -> None:
        """Order in which queues get their turns.

        A queue's key is taken when it joins the line. A key that also changes by what other queues get is made of
        lists, which the plugin changes in place; `moves` then brings them up to date, and its number changes when any
        may have changed for a queue that waits in the line.
        """
        self.add("queue_order", plugin, key)
        if moves is not None:
            self.add("queue_moves", plugin, moves)

    def add_task_order(self, plugin: str, key: Callable[[Task], Key]) -> None:
        """Order of the tasks of a job."""
        self.add("task_order", plugin, key)

    def add_sub_job_order(self, plugin: str, key: Callable[[Any], Key]) -> None:
        """Order of the sub-gangs of a job."""
        self.add("sub_job_order", plugin, key)

    def add_cluster_order(self, plugin: str, key: Callable[[str], Key]) -> None:
        """Order of clusters, by name; no action of this version asks."""
        self.add("cluster_order", plugin, key)

    def add_victim_queue_order(self, plugin: str, key: Callable[[Queue, Queue], Key]) -> None:
        """Order in which queues lose tasks: of (queue, queue of the claimer)."""
        self.add("victim_queue_order", plugin, key)

    def job_key(self, job: Job) -> tuple[Key, ...]:
        """Sort key of a job; ties fall to creation time and name."""
        return (*self._keys("job_order", job), job.order)

    def queue_key(self, queue: Queue) -> tuple[Key, ...]:
        """Sort key of a queue; ties fall to creation time and name."""
        return (*self._keys("queue_order", queue), queue.creation, queue.name)

    def queue_moves(self) -> int:
        """A number that changes when queues that wait in the line may have changed places."""
        return sum(self._all("queue_moves"))

    def task_key(self, task: Task) -> tuple[Key, ...]:
        """Sort key of a task; ties fall to the index in its name, creation time and UID."""
        return (*self._keys("task_order", task), task.order)

    def sub_job_key(self, sub_job: Any) -> tuple[Key, ...]:
        """Sort key of a sub-gang, as far as plugins tell them apart."""
        return tuple(self._keys("sub_job_order", sub_job))

    def cluster_key(self, cluster: str) -> tuple[Key, ...]:
        """Sort key of a cluster; ties fall to its name."""
        return (*self._keys("cluster_order", cluster), cluster)

    def victim_queue_key(self, queue: Queue, claimer: Queue) -> tuple[Key, ...]:
        """Sort key by which queues lose tasks to a claimer, as far as plugins tell them apart."""
        return tuple(
            self.ask("victim_queue_order", plugin, f, queue, claimer) for plugin, f in self.walk("victim_queue_order")
        )

    def blame_for_keys(self, point: str, keys: Sequence[tuple[Key, ...]], error: TypeError) -> NoReturn:
        """Find the plugin whose sort keys cannot be compared with each other.

        Raises:
            PluginFault: it is that plugin's.
            TypeError: it is nobody's.
        """
        for position, (plugin, _) in enumerate(self.walk(point)):
            try:
                sorted(key[position] for key in keys)
            except TypeError as incomparable:
                raise PluginFault(plugin, point, f"keys cannot be compared: {incomparable}") from incomparable
        raise error

    def _keys(self, point: str, subject: object) -> list[Key]:
        out = []
        for tier in self.tiers_of(point):
            for plugin, function in tier:
                try:
                    out.append(function(subject))
                except PluginFault:
                    raise
                except Exception as error:
                    raise PluginFault(plugin, point, f"{type(error).__name__}: {error}") from error
        return out

    # --- all must agree

    def add_job_ready(self, plugin: str, ready: Callable[[Job], bool]) -> None:
        """Whether a job has enough tasks placed to start."""
        self.add("job_ready", plugin, ready)

    def add_job_valid(self, plugin: str, valid: Callable[[Job], Refusal | None]) -> None:
        """Why a job cannot be scheduled whatever the room; None if it can. Not subject to any flag."""
        self.add("job_valid", plugin, valid)

    def add_allocatable(self, plugin: str, allocatable: Callable[[Queue, Task], Refusal | None]) -> None:
        """Why a queue may not take a task; None if it may."""
        self.add("allocatable", plugin, allocatable)

    def add_preemptive(self, plugin: str, preemptive: Callable[[Queue, Sequence[Task]], bool]) -> None:
        """Whether a queue may reclaim for these tasks."""
        self.add("preemptive", plugin, preemptive)

    def add_pre_predicate(self, plugin: str, check: Callable[[Task], Refusal | None]) -> None:
        """Why no node can take a task, found before looking at nodes; None if one may."""
        self.add("pre_predicate", plugin, check)

    def add_sub_job_ready(self, plugin: str, ready: Callable[[Any], bool]) -> None:
        """Whether a sub-gang has enough tasks placed."""
        self.add("sub_job_ready", plugin, ready)

    def job_ready(self, job: Job) -> bool:
        """All plugins find the job ready; true if none is asked."""
        for tier in self.tiers_of("job_ready"):
            for plugin, function in tier:
                if not self.ask("job_ready", plugin, function, job):
                    return False
        return True

    def sub_job_ready(self, job: Job, sub_job: Any = None) -> bool:
        """All plugins find the sub-gang ready; a job without sub-gangs is asked about as a whole."""
        if sub_job is None:
            return self.job_ready(job)
        return all(self.ask("sub_job_ready", plugin, f, sub_job) for plugin, f in self.walk("sub_job_ready"))

    def job_valid(self, job: Job) -> Refusal | None:
        """The first reason why the job is not valid."""
        refusal: Refusal | None = self._first("job_valid", job)
        return refusal

    def allocatable(self, queue: Queue, task: Task) -> Refusal | None:
        """The first reason why the queue may not take the task."""
        refusal: Refusal | None = self._first("allocatable", queue, task)
        return refusal

    def pre_predicate(self, task: Task) -> Refusal | None:
        """The first reason why no node can take the task."""
        refusal: Refusal | None = self._first("pre_predicate", task)
        return refusal

    def preemptive(self, queue: Queue, tasks: Sequence[Task]) -> bool:
        """All plugins let the queue reclaim for these tasks."""
        return all(self.ask("preemptive", plugin, f, queue, tasks) for plugin, f in self.walk("preemptive"))

    def _first(self, point: str, *arguments: object) -> Any:
        for tier in self.tiers_of(point):
            for plugin, function in tier:
                answer = self.ask(point, plugin, function, *arguments)
                if answer is not None:
                    if not isinstance(answer, (Refusal, Rejection)):
                        raise PluginFault(plugin, point, f"expected a refusal or None, got {answer!r}")
                    return answer
        return None

    def _all(self, point: str, *arguments: object) -> list[Any]:
        return [self.ask(point, plugin, function, *arguments) for plugin, function in self.walk(point)]

    # --- one is enough

    def add_overused(self, plugin: str, overused: Callable[[Queue], Refusal | None]) -> None:
        """Why a queue has all it deserves and waits; None if it has not."""
        self.add("overused", plugin, overused)

    def overused(self, queue: Queue) -> Refusal | None:
        """The first reason why the queue waits."""
        refusal: Refusal | None = self._first("overused", queue)
        return refusal

    # --- votes

    def add_job_enqueueable(self, plugin: str, vote: Callable[[Job], tuple[int, Refusal | None]]) -> None:
        """Vote on admitting a job; a rejection says why."""
        self.add("job_enqueueable", plugin, vote)

    def add_job_enqueued(self, plugin: str, told: Callable[[Job], None]) -> None:
        """To be told of each job that was admitted."""
        self.add("job_enqueued", plugin, told)

    def add_job_pipelined(self, plugin: str, vote: Callable[[Job], int]) -> None:
        """Vote on whether placed and promised tasks are enough to hold on to them."""
        self.add("job_pipelined", plugin, vote)

    def add_sub_job_pipelined(self, plugin: str, vote: Callable[[Any], int]) -> None:
        """As `add_job_pipelined`, of a sub-gang."""
        self.add("sub_job_pipelined", plugin, vote)

    def add_job_starving(self, plugin: str, starving: Callable[[Job], bool]) -> None:
        """Whether a job lacks tasks badly enough to evict others."""
        self.add("job_starving", plugin, starving)

    def job_enqueueable(self, job: Job) -> Refusal | None:
        """Why a job is not admitted; None if it is.

        In each tier any rejection ends it; a permit in a tier admits without asking the next; if all abstain it is
        admitted.
        """
        for tier in self.tiers_of("job_enqueueable"):
            permitted = False
            for plugin, function in tier:
                answer = self.ask("job_enqueueable", plugin, function, job)
                if not (isinstance(answer, tuple) and len(answer) == 2 and isinstance(answer[0], int)):
                    expected = "a vote (PERMIT, ABSTAIN, REJECT) and a refusal or None"
                    raise PluginFault(plugin, "job_enqueueable", f"expected {expected}, got {answer!r}")
                vote, refusal = answer
                if vote < 0:
                    return refusal or Refusal("NotAdmitted", f"not admitted by plugin {plugin}", job.queue)
                permitted = permitted or vote > 0
            if permitted:
                return None
        return None

    def job_enqueued(self, job: Job) -> None:
        """Tell everyone that a job was admitted."""
        self._all("job_enqueued", job)

    def job_pipelined(self, job: Job) -> bool:
        """Votes combined as for admission."""
        return self._vote("job_pipelined", job)

    def sub_job_pipelined(self, job: Job, sub_job: Any = None) -> bool:
        """Votes combined as for admission; a job without sub-gangs is asked about as a whole."""
        return self._vote("job_pipelined", job) if sub_job is None else self._vote("sub_job_pipelined", sub_job)

    def _vote(self, point: str, subject: object) -> bool:
        for tier in self.tiers_of(point):
            votes = [self._vote_of(point, plugin, function, subject) for plugin, function in tier]
            if any(vote < 0 for vote in votes):
                return False
            if any(vote > 0 for vote in votes):
                return True
        return True

    def _vote_of(self, point: str, plugin: str, function: Callable[..., Any], subject: object) -> int:
        vote = self.ask(point, plugin, function, subject)
        if not isinstance(vote, int):
            raise PluginFault(plugin, point, f"expected a vote (PERMIT, ABSTAIN, REJECT), got {vote!r}")
        return vote

    def job_starving(self, job: Job) -> bool:
        """The first tier with a plugin decides, where all must agree; false if there is none."""
        for tier in self.tiers_of("job_starving"):
            return all(self.ask("job_starving", plugin, function, job) for plugin, function in tier)
        return False

    # --- victims

    def add_preemptable(
        self, plugin: str, vote: VictimVote, *, veto: bool = False, why: WhySpared | None = None
    ) -> None:
        """Which of the candidates may be evicted for a task of the same queue.

        With `veto` a candidate that the plugin spares stays spared, whatever other plugins name. `why` is the reason,
        or gives it, that explanations show for a task that the plugin spares.
        """
        self._add_victim_vote("preemptable", plugin, vote, veto, why)

    def add_reclaimable(
        self, plugin: str, vote: VictimVote, *, veto: bool = False, why: WhySpared | None = None
    ) -> None:
        """Which of the candidates, tasks of other queues, may be evicted for a task; more as for `add_preemptable`."""
        self._add_victim_vote("reclaimable", plugin, vote, veto, why)

    def add_unified_evictable(
        self,
        plugin: str,
        vote: Callable[..., tuple[Sequence[Task], int]],
        *,
        veto: bool = False,
        why: WhySpared | None = None,
    ) -> None:
        """Which of the candidates may be evicted for a whole gang. Not subject to any flag; more as above."""
        self._add_victim_vote("unified_evictable", plugin, vote, veto, why)

    def _add_victim_vote(
        self,
        point: str,
        plugin: str,
        vote: Callable[..., tuple[Sequence[Task], int]],
        veto: bool,
        why: WhySpared | None,
    ) -> None:
        self.add(point, plugin, vote)
        if veto:
            self._vetoes.add((point, plugin))
        if why is not None:
            self._why_spared[point, plugin] = why

    def why_spared(self, point: str, plugin: str, initiator: object, task: Task) -> SpareReason:
        """Why a plugin that votes about victims at a point spares a task."""
        why = self._why_spared.get((point, plugin), SpareReason("SparedByPlugin", f"plugin {plugin} spares it"))
        if not isinstance(why, SpareReason):
            why = self.ask(point, plugin, why, initiator, task)
        reason: SpareReason = why
        return reason._replace(plugin=plugin)

    def add_victim_tasks(self, plugin: str, victims: Callable[[Sequence[Task]], Sequence[Task]]) -> None:
        """Tasks to evict without a claimer."""
        self.add("victim_tasks", plugin, victims)

    def preemptable(self, preemptor: Task, candidates: Sequence[Task]) -> list[Task]:
        """Candidates that may be evicted for a task of the same queue."""
        return self.victims("preemptable", preemptor, candidates)

    def reclaimable(self, reclaimer: Task, candidates: Sequence[Task]) -> list[Task]:
        """Candidates of other queues that may be evicted for a task."""
        return self.victims("reclaimable", reclaimer, candidates)

    def unified_evictable(self, initiator: object, candidates: Sequence[Task]) -> list[Task]:
        """Candidates that may be evicted for a whole gang."""
        return self.victims("unified_evictable", initiator, candidates)

    def victim_tasks(self, tasks: Sequence[Task]) -> list[Task]:
        """Tasks to evict without a claimer: the union of what a tier says, of the first tier that says anything."""
        for tier in self.tiers_of("victim_tasks"):
            union = {t.uid: t for plugin, f in tier for t in self.ask("victim_tasks", plugin, f, tasks)}
            if union:
                return list(union.values())
        return []

    def victims(self, point: str, initiator: object, candidates: Sequence[Task]) -> list[Task]:
        """Tier by tier: the intersection of the answers, in the order of the first; vetoed candidates are never in it.

        Abstentions are skipped. An empty answer ends its tier; an intersection that becomes empty is replaced by the
        answer of the next plugin. The first tier that ends with victims decides (spec 3.4.5). A veto holds for all
        later plugins and tiers: otherwise an answer of a later one brings back what a gang or a priority protects.
        """
        vetoed: set[str] = set()
        for tier in self.tiers_of(point):
            chosen: list[Task] | None = None
            for plugin, function in tier:
                answer, vote = victims_and_vote(point, plugin, self.ask(point, plugin, function, initiator, candidates))
                if vote == ABSTAIN:
                    continue
                if (point, plugin) in self._vetoes:
                    named = {task.uid for task in answer}
                    vetoed.update(task.uid for task in candidates if task.uid not in named)
                if not answer:
                    chosen = None
                    break
                if not chosen:
                    chosen = list(answer)
                else:
                    uids = {task.uid for task in answer}
                    chosen = [task for task in chosen if task.uid in uids]
            chosen = [task for task in chosen or () if task.uid not in vetoed]
            if chosen:
                return chosen
        return []

    # --- nodes

    def add_predicate(
        self,
        plugin: str,
        predicate: Predicate,
        rejections: Sequence[Rejection] = (),
        *,
        scope: Scope = Scope.NODE,
        applies: Applies | None = None,
    ) -> None:
        """Which nodes can take a task of a shape.

        The answer has shape (n,): booleans (true where the node fits), or integers, 0 where it fits and i where it is
        rejected for `rejections[i - 1]`, or None where all fit. `scope` says what the answer depends on: an answer with
        scope NODE or FIGURES is asked again only for nodes on which something changed. A plugin may register several
        predicates.
        """
        named = tuple(rejections) or (Rejection(plugin, f"node(s) were rejected by plugin {plugin}"),)
        predicate, applies = self.guarded("predicate", plugin, predicate), self.guarded("applies", plugin, applies)
        known = self._registered["predicate"].setdefault(plugin, [])
        known.append(NodePredicate(plugin, predicate, named, scope, applies))

    def add_node_score(
        self, plugin: str, score: NodeScore, *, applies: Applies | None = None, scope: Scope = Scope.NODE
    ) -> None:
        """How good nodes are for a task of a shape, from what the nodes offer and run; the scores of plugins add up.

        `scope` is FIGURES for a score that looks at nothing but the columns of the nodes; that is quicker.
        """
        self._add_scorer("node_score", plugin, score, applies, scope)

    def add_batch_node_score(self, plugin: str, score: NodeScore, *, applies: Applies | None = None) -> None:
        """As `add_node_score`, for scores that depend on the other candidates or on other nodes; asked at each choice.

        `applies` says cheaply whether the score can matter for a shape now.
        """
        self._add_scorer("batch_node_score", plugin, score, applies)

    def _add_scorer(
        self, point: str, plugin: str, score: NodeScore, applies: Applies | None, scope: Scope = Scope.NODE
    ) -> None:
        score, applies = self.guarded(point, plugin, score), self.guarded("applies", plugin, applies)
        self._put(point, plugin, NodeScorer(plugin, score, applies, scope))

    def add_node_map(
        self, plugin: str, score: NodeScore, reduce: Callable[[TaskShape, NDArray[np.float64]], NDArray[np.float64]]
    ) -> None:
        """A score over nodes and what makes it comparable: `reduce` gets the floors of the scores of all candidates."""
        score, reduce = self.guarded("node_map", plugin, score), self.guarded("node_reduce", plugin, reduce)

        def reduced(shape: TaskShape, nodes: NodeRows) -> NDArray[np.float64] | None:
            raw = score(shape, nodes)
            return None if raw is None else reduce(shape, np.floor(raw))

        self._put("node_map", plugin, NodeScorer(plugin, reduced, None))

    def add_hyper_node_order(self, plugin: str, score: Callable[..., Any]) -> None:
        """How good network domains are for a part of a gang: of (part, numbers of domains), a score by number."""
        self.add("hyper_node_order", plugin, score)

    def add_hyper_node_gradient_for_job(self, plugin: str, gradient: Callable[..., Any]) -> None:
        """Network domains to try for a job, in groups from the most to the least wanted; the first plugin decides.

        Of (job, number of the domain to stay in, purpose `Allocate` or `Evict`).
        """
        self.add("hyper_node_gradient_for_job", plugin, gradient)

    def add_hyper_node_gradient_for_sub_job(self, plugin: str, gradient: Callable[..., Any]) -> None:
        """As for a job, of a part of a gang (`kilauea.engine.placement.tasks.Part`)."""
        self.add("hyper_node_gradient_for_sub_job", plugin, gradient)

    def add_target_job(self, plugin: str, choose: Callable[[Sequence[Job]], Job | None]) -> None:
        """The job that nodes are reserved for; the first plugin decides. No action of this version asks."""
        self.add("target_job", plugin, choose)

    def add_reserved_nodes(self, plugin: str, reserve: Callable[[], None]) -> None:
        """To be told to reserve nodes. No action of this version does."""
        self.add("reserved_nodes", plugin, reserve)

    def hyper_node_scores(self, part: Any, domains: Sequence[int]) -> dict[int, float]:
        """Sum of the plugins' scores for each network domain (by number), 0 where nobody says anything."""
        answers = self._all("hyper_node_order", part, domains)
        return {domain: sum(float(answer.get(domain, 0)) for answer in answers) for domain in domains}

    def hyper_node_gradient(self, point: str, subject: Any, domain: int, purpose: str) -> list[list[int]]:
        """What the first plugin at `hyper_node_gradient_for_job` or `..._for_sub_job` says; else only the one given."""
        for plugin, function in self.walk(point):
            gradient: list[list[int]] = self.ask(point, plugin, function, subject, domain, purpose)
            return gradient
        return [[domain]]

    def target_job(self, jobs: Sequence[Job]) -> Job | None:
        """What the first plugin says."""
        for plugin, function in self.walk("target_job"):
            job: Job | None = self.ask("target_job", plugin, function, jobs)
            return job
        return None

    def reserved_nodes(self) -> None:
        """Tell everyone to reserve nodes."""
        self._all("reserved_nodes")

    def add_best_node(self, plugin: str, choose: Callable[[TaskShape, NodeRows, NDArray[np.float64]], int]) -> None:
        """Pick a node among scored candidates: an index into them, or -1 to leave it to the next plugin."""
        self.add("best_node", plugin, choose)

    def predicates(self) -> list[NodePredicate]:
        """All predicates, in order."""
        return [predicate for several in dict(self.walk("predicate")).values() for predicate in several]

    def add_event_handler(self, plugin: str, on_allocate: EventHandler, on_deallocate: EventHandler) -> None:
        """To be told (task, row of the node) when a task comes to a node's view and when it leaves it."""
        self._on_allocate.append((plugin, self.guarded("on_allocate", plugin, on_allocate)))
        self._on_deallocate.append((plugin, self.guarded("on_deallocate", plugin, on_deallocate)))

    def _tell(self, handlers: list[tuple[str, EventHandler]], task: Task, row: int) -> None:
        for plugin, handler in handlers:
            self.ask("event handler", plugin, handler, task, row)
