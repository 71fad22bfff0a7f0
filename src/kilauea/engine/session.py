"""The session: the state of the cluster in one cycle, the plugins' functions, and the changes of this cycle.

A session consists of parts: `points`, the extension points of plugins; `ledger`, which changes tasks and reverts the
changes; and `report`, the reasons for the plan. Plugins and actions use only the methods and attributes of the session
itself, which are documented and stable; the parts are internal to the engine.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Concatenate, ParamSpec, TypeVar

import numpy as np
from numpy.typing import NDArray

from kilauea.engine.conf import Finding, SchedulerConf
from kilauea.engine.devices.ledger import DeviceLedger
from kilauea.engine.devices.order import CardOrder
from kilauea.engine.evaluation import Evaluation, Unfit, kernels
from kilauea.engine.evaluation.cache import EvaluationCache
from kilauea.engine.evaluation.evaluation import ShardRule
from kilauea.engine.evaluation.picking import Picker
from kilauea.engine.extension import ExtensionPoints, Refusal
from kilauea.engine.extension.observer import UNOBSERVED, Observer
from kilauea.engine.extension.outside import NO_OUTSIDE, Outside
from kilauea.engine.ledger import Ledger
from kilauea.engine.model import status
from kilauea.engine.model.attempts import NO_BACKOFF, AdmissionBackoff, TriedGroups
from kilauea.engine.model.jobs import Job
from kilauea.engine.model.namespaces import Namespaces
from kilauea.engine.model.neighbours import Neighbours
from kilauea.engine.model.placements import selected_keys
from kilauea.engine.model.queue_sums import sum_jobs
from kilauea.engine.model.queues import Queue
from kilauea.engine.model.shape_table import ShapeTable
from kilauea.engine.model.shapes import TaskShape
from kilauea.engine.model.shards import HARD, SOFT
from kilauea.engine.model.tasks import Task
from kilauea.engine.model.topology import Domains
from kilauea.engine.report import Report
from kilauea.engine.state import ClusterState
from kilauea.engine.statement import Statement, check_placing

P = ParamSpec("P")
R = TypeVar("R")


def _of_points(method: Callable[Concatenate[ExtensionPoints, P], R]) -> Callable[Concatenate[Session, P], R]:
    """A session method that calls its extension points, with their signature and docstring."""

    @functools.wraps(method)
    def ask(session: Session, /, *args: P.args, **kwargs: P.kwargs) -> R:
        return method(session.points, *args, **kwargs)

    return ask


UNSAID = Unfit(0, ())
"""Placeholder for reasons that are not needed."""


class Session:
    """The cluster in this cycle, with the extension points and the methods that plugins and actions use.

    Attributes:
        now: time of the cycle, in microseconds since 1970.
        conf: the configuration.
        nodes: the nodes as columns; `nodes.all()` for all of them, `nodes.names[row]` for the name of one.
        queues: queues by name.
        state: everything else about the cluster: `state.jobs` and `state.tasks` by `namespace/name`.
        total: allocatable amounts of all nodes, by resource.
        domains: network domains, and the gangs in them.
        neighbours: pods counted by topology domain, for affinity and spread.
        findings: warnings for the plan; add your own.
    """

    def __init__(
        self,
        state: ClusterState,
        conf: SchedulerConf,
        now: int,
        seed: int | None,
        observer: Observer = UNOBSERVED,
        queues: Mapping[str, Queue] | None = None,
        backoff: AdmissionBackoff = NO_BACKOFF,
        outside: Outside = NO_OUTSIDE,
        *,
        brief: bool = False,
    ) -> None:
        state.settle()
        self.state = state
        self.conf = conf
        self.now = now
        self.observer = observer
        self.brief = brief
        """True if reasons are not needed."""
        self.outside = outside
        """Sends requests of plugins to servers."""
        self.backoff = backoff
        """Groups that were admitted in earlier cycles but could not be placed."""
        self.turns: dict[str, int] = {}
        """Time of this cycle's run of each plugin that acts at intervals (`backoff.moment`)."""
        self.tried = TriedGroups()
        """Groups that this cycle tried to place; those of earlier cycles are in `backoff`."""
        self.nodes = state.nodes
        self.axis = state.axis
        self.table = state.job_table
        self.queues = state.queues if queues is None else queues
        size = len(self.table)
        self._queue_of = self.table.queue[:size] if queues is None else np.where(self.table.service[:size], 0, -1)
        """(J,) row of the queue of each job in the session; -1 for other jobs."""
        self.domains = Domains(state.hypernodes, self.nodes.row_of)
        self.total: Mapping[str, int] = self.nodes.total()
        self.job_counts = sum_jobs(self.queues, self._queue_of, self.table, self.axis)
        """Jobs in each queue, by the queue's row."""
        self.points = ExtensionPoints(conf.tiers)
        self.report = Report()
        self.findings = self.report.findings
        self.heads: dict[str, Job] = {}
        """The job that blocks those behind it, by queue (`kilauea.engine.queues.fifo`)."""
        self.promised: dict[str, list[tuple[Task, int]]] = {}
        """Tasks by job that an earlier cycle nominated, with the rows of their nodes, while the nomination is valid."""
        self.card_ledger: DeviceLedger | None = None
        """Cards that pods share, if a plugin assigns them."""
        self.card_order: CardOrder | None = None
        """The order of the cards of a node, if a plugin other than the one that assigns them sets it."""
        self.weighted_shares: Callable[[Queue], tuple[list[float], ...]] | None = None
        """Weighted shares of each branch from the root to a queue, largest first; None without a tree of weights."""
        self.kept_promises: set[str] = set()
        """Tasks that started on the node they were nominated to."""
        selecting = bool(state.selecting) or any(state.spreaders.values())
        self.neighbours = _neighbours(state, selecting)
        selected = _selected_labels(state) if selecting else None
        shapes = ShapeTable(self.axis, state.classes, selected, self.nodes.holds_images)
        self.ledger = Ledger(state, self.queues, self.points, self.report, self.domains, self.neighbours, shapes)
        self.shard = self._shard_rule()
        """The nodes of the scheduler's shard."""
        picker = Picker(self.points, len(self.nodes), seed)
        self._evaluations = EvaluationCache(self.nodes, self.points, picker, observer, self.shard)

    def _shard_rule(self) -> ShardRule:
        """The nodes of the shard; adds a finding if the shard does not exist."""
        shards = self.state.shards
        if not shards.active:
            return ShardRule()
        if not shards.known:
            waits = "no pod can be placed" if shards.sharding.mode == HARD else "pods go to any node"
            fix = "create it, run the sharding controller, or set --scheduler-sharding-mode=none"
            self.findings.append(Finding(f"NodeShard {shards.sharding.name}", f"does not exist, so {waits}: {fix}"))
        return ShardRule(shards.mask(self.nodes), soft=shards.sharding.mode == SOFT)

    def close(self) -> None:
        """Restore the state that the session opened with, and release the plugins.

        Plugins refer to the session, and the session to their functions. Each part drops these references, so that all
        objects are freed at once instead of by a garbage collection, which is rare in a large process.
        """
        self.ledger.close()
        self.points.close()
        self.card_ledger = self.card_order = self.weighted_shares = None
        self._evaluations.close()

    # --- registration of plugins

    add_job_order = _of_points(ExtensionPoints.add_job_order)
    add_queue_order = _of_points(ExtensionPoints.add_queue_order)
    add_task_order = _of_points(ExtensionPoints.add_task_order)
    add_sub_job_order = _of_points(ExtensionPoints.add_sub_job_order)
    add_cluster_order = _of_points(ExtensionPoints.add_cluster_order)
    add_victim_queue_order = _of_points(ExtensionPoints.add_victim_queue_order)
    add_job_ready = _of_points(ExtensionPoints.add_job_ready)
    add_job_valid = _of_points(ExtensionPoints.add_job_valid)
    add_allocatable = _of_points(ExtensionPoints.add_allocatable)
    add_preemptive = _of_points(ExtensionPoints.add_preemptive)
    add_pre_predicate = _of_points(ExtensionPoints.add_pre_predicate)
    add_sub_job_ready = _of_points(ExtensionPoints.add_sub_job_ready)
    add_overused = _of_points(ExtensionPoints.add_overused)
    add_job_enqueueable = _of_points(ExtensionPoints.add_job_enqueueable)
    add_job_enqueued = _of_points(ExtensionPoints.add_job_enqueued)
    add_job_pipelined = _of_points(ExtensionPoints.add_job_pipelined)
    add_sub_job_pipelined = _of_points(ExtensionPoints.add_sub_job_pipelined)
    add_job_starving = _of_points(ExtensionPoints.add_job_starving)
    add_preemptable = _of_points(ExtensionPoints.add_preemptable)
    add_reclaimable = _of_points(ExtensionPoints.add_reclaimable)
    add_unified_evictable = _of_points(ExtensionPoints.add_unified_evictable)
    add_victim_tasks = _of_points(ExtensionPoints.add_victim_tasks)
    add_predicate = _of_points(ExtensionPoints.add_predicate)
    add_node_score = _of_points(ExtensionPoints.add_node_score)
    add_batch_node_score = _of_points(ExtensionPoints.add_batch_node_score)
    add_node_map = _of_points(ExtensionPoints.add_node_map)
    add_best_node = _of_points(ExtensionPoints.add_best_node)
    add_target_job = _of_points(ExtensionPoints.add_target_job)
    add_reserved_nodes = _of_points(ExtensionPoints.add_reserved_nodes)
    add_task_trait = _of_points(ExtensionPoints.add_task_trait)
    add_event_handler = _of_points(ExtensionPoints.add_event_handler)
    add_bind_annotations = _of_points(ExtensionPoints.add_bind_annotations)
    add_bind_locks = _of_points(ExtensionPoints.add_bind_locks)
    serve_claims = _of_points(ExtensionPoints.serve_claims)
    add_hyper_node_order = _of_points(ExtensionPoints.add_hyper_node_order)
    add_hyper_node_gradient_for_job = _of_points(ExtensionPoints.add_hyper_node_gradient_for_job)
    add_hyper_node_gradient_for_sub_job = _of_points(ExtensionPoints.add_hyper_node_gradient_for_sub_job)

    # --- results of all plugins

    job_key = _of_points(ExtensionPoints.job_key)
    queue_key = _of_points(ExtensionPoints.queue_key)
    queues_moved = _of_points(ExtensionPoints.queues_moved)
    task_key = _of_points(ExtensionPoints.task_key)
    sub_job_key = _of_points(ExtensionPoints.sub_job_key)
    cluster_key = _of_points(ExtensionPoints.cluster_key)
    victim_queue_key = _of_points(ExtensionPoints.victim_queue_key)
    job_ready = _of_points(ExtensionPoints.job_ready)
    sub_job_ready = _of_points(ExtensionPoints.sub_job_ready)
    allocatable = _of_points(ExtensionPoints.allocatable)
    pre_predicate = _of_points(ExtensionPoints.pre_predicate)
    preemptive = _of_points(ExtensionPoints.preemptive)
    overused = _of_points(ExtensionPoints.overused)
    job_enqueueable = _of_points(ExtensionPoints.job_enqueueable)
    job_enqueued = _of_points(ExtensionPoints.job_enqueued)
    job_pipelined = _of_points(ExtensionPoints.job_pipelined)
    sub_job_pipelined = _of_points(ExtensionPoints.sub_job_pipelined)
    job_starving = _of_points(ExtensionPoints.job_starving)
    preemptable = _of_points(ExtensionPoints.preemptable)
    reclaimable = _of_points(ExtensionPoints.reclaimable)
    unified_evictable = _of_points(ExtensionPoints.unified_evictable)
    victim_tasks = _of_points(ExtensionPoints.victim_tasks)
    target_job = _of_points(ExtensionPoints.target_job)
    reserved_nodes = _of_points(ExtensionPoints.reserved_nodes)
    hyper_node_scores = _of_points(ExtensionPoints.hyper_node_scores)

    # --- paused queues and hard network topology, with or without plugins

    def paused(self, job: Job) -> Refusal | None:
        """The reason why no pod of a job starts if its queue is paused; None if it is not."""
        queue = self.queues.get(job.queue)
        if queue is None or not queue.paused:
            return None
        above = "" if queue.paused == queue.name else f", as queue {queue.paused} above it is"
        return Refusal("QueuePaused", f"queue {queue.name} is paused{above}", queue.paused)

    def job_valid(self, job: Job) -> Refusal | None:
        """The first reason why a job is invalid: a paused queue, an unmet hard topology, or the reason of a plugin."""
        refusal = self.paused(job)
        if refusal is not None:
            return refusal
        problem = self.domains.problem(job)
        return Refusal("NoSuchTier", problem, job.queue) if problem else self.points.job_valid(job)

    def hyper_node_gradient(self, point: str, subject: Any, domain: int, purpose: str) -> list[list[int]]:
        """The result of the first plugin, limited by a hard topology; without a plugin, all domains that it allows."""
        whole = isinstance(subject, Job)
        wish = self.domains.of_job(subject) if whole else self.domains.of(subject.job, subject.sub_job)
        if wish is None or wish.tier is None or wish.soft:
            return self.points.hyper_node_gradient(point, subject, domain, purpose)
        if not self.points.tiers_of(point):
            gradient = self.domains.gradient(subject.key, wish.tier, domain)
            return gradient[::-1] if purpose == "Evict" else gradient
        allowed = self.domains.allowed(subject.key, wish.tier, domain)
        said = self.points.hyper_node_gradient(point, subject, domain, purpose) if allowed else []
        return [kept for group in said if (kept := [number for number in group if number in allowed])]

    # --- jobs and tasks

    def jobs_where(self, mask: NDArray[np.bool_]) -> list[Job]:
        """Jobs with a group and a queue that a mask over the job table selects, ordered by creation and name."""
        rows = (mask[: len(self.table)] & (self._queue_of >= 0)).nonzero()[0].tolist()
        jobs = [job for row in rows if (job := self.table.jobs[row]) is not None]
        return sorted(jobs, key=lambda job: job.order)

    def waiting_jobs(self) -> list[Job]:
        """Jobs with pending tasks, and jobs that wait to be admitted."""
        return self.jobs_where(self.table.waiting)

    def in_order(self, tasks: Iterable[Task], *, reverse: bool = False) -> list[Task]:
        """Tasks in the order in which to place them."""
        keyed = [(self.points.task_key(task), task) for task in tasks]
        try:
            keyed.sort(key=lambda pair: pair[0], reverse=reverse)
        except TypeError as error:
            self.points.blame_for_keys("task_order", [key for key, _ in keyed], error)
        return [task for _, task in keyed]

    def admit(self, job: Job) -> None:
        """Admit a pending job, so that its tasks can be placed."""
        self.ledger.admit(job)

    def refuse(self, subject: Job | Task, refusal: Refusal) -> None:
        """Set the reason why a job or a task was skipped; the plan shows it while the task waits."""
        self.report.refuse(subject, refusal)

    def statement(self) -> Statement:
        """Return a new, empty statement."""
        return Statement(self.ledger)

    def allocate_at_once(self, task: Task, row: int) -> Refusal | None:
        """Place a task without a statement. If its job is then ready, all of its placed tasks start.

        Returns the refusal of a plugin that rejects the task on the node; the task then stays pending.

        Raises:
            StatementError: the task is not pending, or the node does not have enough free resources.
        """
        check_placing(self.ledger, task, row, now=True)
        self.ledger.place(task, row, status.ALLOCATED)
        objection = self.points.objections.get(task.key)
        if objection is not None:
            self.ledger.displace(task, row)
            return objection
        job = self.state.jobs[task.group]
        if self.points.job_ready(job):
            ready = (other for other in job.tasks.values() if other.status == status.ALLOCATED)
            for other in sorted(ready, key=lambda t: t.order):
                self.ledger.bind(other)
        return None

    # --- nodes for tasks

    def shape_of(self, task: Task) -> TaskShape:
        """Return the task's shape in this session."""
        return self.ledger.shape_of(task)

    def fits(self, task: Task, row: int) -> bool:
        """Return True if the node at a row has enough free resources for a task; plugins are not called."""
        node = self.nodes.select(np.array([row], dtype=np.intp))
        return bool(kernels.fits(node.used, self.shape_of(task).need, node.allocatable)[0])

    def evaluation(self, task: Task) -> Evaluation:
        """Return the current evaluation of the nodes for tasks of this shape."""
        return self._evaluations.of(self.ledger.shape_of(task))

    def unfit(self, evaluation: Evaluation, within: NDArray[np.intp] | None = None, domain: str = "") -> Unfit:
        """The reasons why no node accepts the evaluation's shape; `UNSAID` if reasons are not needed."""
        return UNSAID if self.brief else evaluation.unfit(within, domain)


def _neighbours(state: ClusterState, needed: bool) -> Neighbours:
    """Pods counted by topology domain; counts are kept only if something in the cluster needs them."""
    namespaces = Namespaces(state.namespaces)
    return Neighbours(state.nodes, state.placements, state.classes, namespaces, state.selecting.values(), needed)


def _selected_labels(state: ClusterState) -> frozenset[str]:
    """Label keys that any selector in the cluster names."""
    specs = state.selecting_specs
    terms = [t for s in specs for t in (*s.affinity, *s.anti_affinity, *(w.term for w in s.preferred_pods))]
    return frozenset(
        selected_keys(
            [
                *(t.selector for t in terms),
                *(s.selector for spec in specs for s in spec.spread),
                *(selector for of_kind in state.spreaders.values() for _, selector in of_kind.values()),
            ]
        )
    )
