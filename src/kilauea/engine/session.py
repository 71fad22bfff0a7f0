"""One cycle: the cluster state with everything that plugins registered, and the changes of this cycle on top.

A session works on the state itself. It notes what every task was before it touched it, and when it closes it puts
everything back, so that the state is again what events made of it. What was decided is in the plan.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kilauea.engine.conf import Finding, SchedulerConf
from kilauea.engine.evaluation import Evaluation, Unfit, kernels
from kilauea.engine.extension import ExtensionPoints, PluginFault, Refusal
from kilauea.engine.extension.observer import UNOBSERVED, ObservedEvaluation, Observer
from kilauea.engine.model import status
from kilauea.engine.model.jobs import INQUEUE, Job
from kilauea.engine.model.neighbours import Namespaces, Neighbours
from kilauea.engine.model.nodes import NodeRows
from kilauea.engine.model.placements import selected_keys
from kilauea.engine.model.queues import QueueFigures
from kilauea.engine.model.shapes import ShapeTable, TaskShape
from kilauea.engine.model.tasks import Task
from kilauea.engine.model.topology import Domains
from kilauea.engine.plan import Bind, Condition, Eviction
from kilauea.engine.plugin import Plugin
from kilauea.engine.state import ClusterState
from kilauea.engine.statement import Statement, check_placing

EVALUATION_BYTES = 64 * 1024 * 1024
"""Room for evaluations that are kept; each takes about 17 bytes a node."""


class Session(ExtensionPoints):
    """What plugins and actions work with: the cluster as it is in this cycle, the extension points, the methods below.

    Attributes:
        now: time of the cycle, in microseconds since 1970.
        conf: the configuration.
        nodes: the nodes as columns; `nodes.all()` for all of them, `nodes.names[row]` for the name of one.
        queues: queues by name.
        state: everything else that is known of the cluster: `state.jobs` and `state.tasks` by `namespace/name`.
        total: what all nodes offer, by resource.
        domains: network domains, and where gangs are in them.
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
    ) -> None:
        super().__init__(conf.tiers)
        state.settle()
        self.state = state
        self.conf = conf
        self.now = now
        self.observer = observer
        self._evaluate = Evaluation if observer is UNOBSERVED else ObservedEvaluation
        self.nodes = state.nodes
        self.axis = state.axis
        self.table = state.job_table
        self.queues = state.queues
        self.domains = Domains(state.hypernodes, self.nodes.row_of)
        """Network domains, and where gangs are in them."""
        self.total: Mapping[str, int] = self.nodes.total()
        """What all nodes offer."""
        self.plugins: list[Plugin] = []
        self.findings: list[Finding] = []
        self.binds: list[Bind] = []
        self.evictions: list[Eviction] = []
        self.conditions: dict[str, Condition] = {}
        """By job: the condition that the gang plugin gives it."""
        self.touched: dict[str, Job] = {}
        """Jobs that this session changed."""
        self.refusals: dict[str, Refusal] = {}
        """By job: why it was refused before any node was looked at."""
        self.task_refusals: dict[str, Refusal] = {}
        """By task: why it was refused before any node was looked at."""
        self.unfit: dict[str, dict[str, Unfit | Refusal]] = {}
        """By job, by task: why no node takes it."""
        self.had_room: set[str] = set()
        """Tasks that found room, which they lost again because their gang did not."""
        self.promised: dict[str, list[tuple[Task, int]]] = {}
        """By job: tasks that an earlier cycle nominated, with the rows of their nodes, as far as that holds."""
        self.kept_promises: set[str] = set()
        """Tasks that started on room that they had been promised."""
        self.picks_nodes = False
        self._journal: dict[str, tuple[Task, int, str]] = {}
        self._phases: dict[str, str] = {}
        self._evaluations: dict[TaskShape, Evaluation] = {}
        self._tie_order = None if seed is None else np.random.default_rng(seed).permutation(len(self.nodes))
        self._open_columns()
        self._open_queues()

    # --- opening

    def _open_columns(self) -> None:
        state, nodes = self.state, self.nodes
        self._saved = nodes.block.copy()
        nodes.changed.clear()
        nodes.future = bool(nodes.releasing.any())
        needed = bool(state.selecting) or any(state.spreaders.values())
        self.neighbours = Neighbours(
            nodes,
            state.placements,
            state.classes,
            Namespaces(state.namespaces),
            state.selecting.values(),
            needed,
        )
        selected = frozenset(self._selected_labels()) if needed else None
        self.shapes = ShapeTable(self.axis, state.classes, selected, nodes.holds_images)

    def _selected_labels(self) -> set[str]:
        """Label keys that any selector in the cluster names."""
        specs = self.state.selecting_specs
        terms = [t for s in specs for t in (*s.affinity, *s.anti_affinity, *(w.term for w in s.preferred_pods))]
        return selected_keys(
            [
                *(t.selector for t in terms),
                *(s.selector for spec in specs for s in spec.spread),
                *(selector for of_kind in self.state.spreaders.values() for _, selector in of_kind.values()),
            ]
        )

    def _open_queues(self) -> None:
        """Sums over the jobs of each queue."""
        table, axis = self.table, self.axis
        ordered = sorted(self.queues)
        jobs = table.queue[: len(table)] >= 0
        rows = table.queue[: len(table)][jobs]
        sums = {}
        for field in ("allocated", "pending", "elastic", "reserved"):
            column = getattr(table, field)[:, : len(table)][:, jobs]
            out = sums[field] = np.zeros((len(axis), len(ordered)), dtype=np.int64)
            for r in range(len(axis)):
                np.add.at(out[r], rows, column[r])
        self.job_counts = np.bincount(rows, minlength=len(ordered))
        """Jobs in each queue, by the queue's row."""
        held = [self._by_queue(sums[f]) for f in ("allocated", "elastic", "reserved")]
        requests = self._by_queue(sums["allocated"] + sums["pending"])
        for row, name in enumerate(ordered):
            queue = self.queues[name]
            queue.figures = QueueFigures()
            queue.allocated, queue.elastic, queue.inqueue = (of[row] for of in held)
            queue.request = requests[row]

    def _by_queue(self, sums: NDArray[np.int64]) -> list[dict[str, float]]:
        """Columns of an array (R, Q) as amount maps without zeros."""
        names = self.axis.names
        return [{n: v for n, v in zip(names, column, strict=True) if v} for column in sums.T.tolist()]

    def jobs_where(self, mask: NDArray[np.bool_]) -> list[Job]:
        """Jobs with a group and a queue for which a mask over the job table holds, in order of creation and name."""
        rows = np.flatnonzero(mask[: len(self.table)] & (self.table.queue[: len(self.table)] >= 0))
        jobs = [job for row in rows if (job := self.table.jobs[row]) is not None]
        return sorted(jobs, key=lambda job: job.order)

    def in_order(self, tasks: Iterable[Task], *, reverse: bool = False) -> list[Task]:
        """Tasks in the order in which they are to be placed."""
        keyed = [(self.task_key(task), task) for task in tasks]
        try:
            keyed.sort(key=lambda pair: pair[0], reverse=reverse)
        except TypeError as error:
            self.blame_for_keys("task_order", [key for key, _ in keyed], error)
        return [task for _, task in keyed]

    def waiting_jobs(self) -> list[Job]:
        """Jobs that have tasks that wait, or that wait themselves to be admitted."""
        return self.jobs_where(self.table.waiting)

    # --- what a hard network topology binds, whichever plugins there are

    def job_valid(self, job: Job) -> Refusal | None:
        """The first reason why the job is not valid: that no domain is what it has to be in, or what a plugin says."""
        problem = self.domains.problem(job)
        return Refusal("NoSuchTier", problem, job.queue) if problem else super().job_valid(job)

    def hyper_node_gradient(self, point: str, subject: Any, domain: int, purpose: str) -> list[list[int]]:
        """What the first plugin says, as far as a hard wish allows it; without a plugin all that the wish allows."""
        whole = isinstance(subject, Job)
        wish = self.domains.of_job(subject) if whole else self.domains.of(subject.job, subject.sub_job)
        if wish is None or wish.tier is None or wish.soft:
            return super().hyper_node_gradient(point, subject, domain, purpose)
        if next(iter(self.walk(point)), None) is None:
            gradient = self.domains.gradient(subject.key, wish.tier, domain)
            return gradient[::-1] if purpose == "Evict" else gradient
        tree, start = self.domains.tree, self.domains.search_root(subject.key, wish.tier, domain)
        said = super().hyper_node_gradient(point, subject, domain, purpose) if start >= 0 else []
        allowed = ([d for d in group if tree.tiers[d] <= wish.tier and tree.inside(d, start)] for group in said)
        return [group for group in allowed if group]

    # --- tasks come and go

    def statement(self) -> Statement:
        """A new, empty statement."""
        return Statement(self)

    def _note(self, task: Task) -> Job:
        if task.key not in self._journal:
            self._journal[task.key] = (task, task.status, task.node)
        job = self.state.jobs[task.group]
        self.touched[job.key] = job
        return job

    def _move(self, task: Task, row: int, change: NDArray[np.int64], by: int) -> None:
        """A task enters (1) or leaves (-1) the view of a node, whose figures change; queue and plugins hear of it."""
        nodes = self.nodes
        nodes.block[:, row] += change
        nodes.changed.append(row)
        self.state.placements.node[task.row] = row if by > 0 else -1
        if self.neighbours.needed:
            self.neighbours.placed(task, row, by)
        charged = self.queues[self.state.jobs[task.group].queue].allocated
        for name, amount in task.spec.requests.items():
            charged[name] = charged.get(name, 0) + by * amount
        handlers = self._on_allocate if by > 0 else self._on_deallocate
        if handlers:
            self._tell(handlers, task, row)

    def place(self, task: Task, row: int, to: int) -> None:
        """Put a waiting task on a node, ALLOCATED or PIPELINED. Statements do this; plugins do not."""
        shape = self.shape_of(task)
        self._note(task).move(task, to)
        task.node = self.nodes.names[row]
        if to == status.PIPELINED:
            self.nodes.future = True
        self._move(task, row, shape.promised if to == status.PIPELINED else shape.held, 1)

    def displace(self, task: Task, row: int) -> None:
        """Undo `place`."""
        shape, promised = self.shape_of(task), task.status == status.PIPELINED
        self._note(task).move(task, status.PENDING)
        task.node = ""
        self._move(task, row, -shape.promised if promised else -shape.held, -1)

    def release(self, task: Task, row: int) -> None:
        """Evict a task from its node: what it holds becomes room that is being freed."""
        self._note(task).move(task, status.RELEASING)
        self.nodes.future = True
        self._move(task, row, self._freed(task), -1)

    def restore(self, task: Task, row: int, to: int) -> None:
        """Undo `release`; the task is again what it was."""
        self._note(task).move(task, to)
        self._move(task, row, -self._freed(task), 1)

    def _freed(self, task: Task) -> NDArray[np.int64]:
        """(5 R + 2,) change of a node's figures by an eviction: releasing grows, the view shrinks, used stays."""
        shape, resources = self.shape_of(task), len(self.axis)
        change = -shape.held
        change[resources : 2 * resources] = 0
        change[2 * resources : 3 * resources] = shape.request
        return change

    def shape_of(self, task: Task) -> TaskShape:
        """The task's shape in this session."""
        shape = task.shape
        if shape is None:
            self._journal.setdefault(task.key, (task, task.status, task.node))
            job = self.state.jobs.get(task.group)
            close = job is not None and self.domains.wishes(job)
            owner = (task.sub_job or task.group) if close else ""
            queue = job.queue if job is not None and task.spec.cards is not None else ""
            shape = task.shape = self.shapes.shape_of(task, owner, queue)
        return shape

    def bind(self, task: Task) -> None:
        """A placed task starts: into the plan with it."""
        self.state.jobs[task.group].move(task, status.BINDING)
        self.binds.append(Bind(task.key, task.node))

    def withdraw(self, task: Task, row: int, claimer: str) -> None:
        """A task that was to start in this cycle, and has been released for another job, does not start after all."""
        self.restore(task, row, status.BINDING)
        message = f"room on node {task.node} goes to pod group {claimer}, which would take it back at once"
        self.displace(task, row)
        self.binds = [bind for bind in self.binds if bind.pod != task.key]
        self.refuse(task, Refusal("RoomKept", message, self.state.jobs[task.group].queue))

    def note_eviction(self, task: Task, action: str, claimer: str) -> None:
        """An eviction is decided: into the plan with it."""
        self.evictions.append(Eviction(task.key, task.node, claimer, action))

    def allocate_at_once(self, task: Task, row: int) -> None:
        """Place a task without a statement; if its job is ready then, all its placed tasks start.

        Raises:
            StatementError: the task does not wait, or the node lacks room now.
        """
        check_placing(self, task, row, now=True)
        self.place(task, row, status.ALLOCATED)
        job = self.state.jobs[task.group]
        if self.job_ready(job):
            for other in sorted(job.tasks.values(), key=lambda t: t.order):
                if other.status == status.ALLOCATED:
                    self.bind(other)

    def admit(self, job: Job) -> None:
        """A pending job is admitted: it may be given room from now on."""
        self._phases.setdefault(job.key, job.phase)
        job.phase = INQUEUE
        self.touched[job.key] = job

    def refuse(self, subject: Job | Task, refusal: Refusal) -> None:
        """Say why a job or a task was passed over; the plan shows it while the task waits."""
        if isinstance(subject, Job):
            self.refusals[subject.key] = refusal
        else:
            self.task_refusals[subject.key] = refusal

    # --- nodes for tasks

    def fits(self, task: Task, row: int) -> bool:
        """Whether a node, by row, has room now for what a task asks; no plugin is asked."""
        node = self.nodes.select(np.array([row], dtype=np.intp))
        return bool(kernels.fits(node.used, self.shape_of(task).need, node.allocatable)[0])

    def evaluation(self, task: Task) -> Evaluation:
        """The nodes as they stand for tasks like this one."""
        shape = self.shape_of(task)
        known = self._evaluations.get(shape)
        if known is None:
            if len(self._evaluations) * 17 * (len(self.nodes) + 1) > EVALUATION_BYTES:
                self._evaluations.pop(next(iter(self._evaluations)))
            known = self._evaluations[shape] = self._evaluate(self, shape)
        return known

    def pick(self, shape: TaskShape, nodes: NodeRows, scores: NDArray[np.float64]) -> int:
        """Index of the node to take among scored candidates: what a plugin says, else the best, ties as configured."""
        for plugin, choose in self.walk("best_node"):
            index = self.ask("best_node", plugin, choose, shape, nodes, scores)
            if not isinstance(index, (int, np.integer)):
                raise PluginFault(plugin, "best_node", f"expected an index, got {index!r}")
            if 0 <= index < len(nodes):
                return int(index)
        if self._tie_order is None or nodes.rows is None:
            return kernels.best(scores)
        equals = np.flatnonzero(scores == scores.max())
        return int(equals[self._tie_order[nodes.rows[equals]].argmin()])

    # --- plugins

    def open_plugins(self, plugins: Sequence[Plugin]) -> None:
        """Let the plugins register, in order."""
        self.plugins = list(plugins)
        for plugin in plugins:
            self._opening, started = plugin.name, self.observer.now()
            self.ask(
                "on_session_open",
                plugin.name,
                self.guarded("on_session_open", plugin.name, plugin.on_session_open),
                self,
            )
            self.observer.took("opening", plugin.name, self.observer.now() - started)
        self._opening = ""
        self.picks_nodes = bool(self.tiers_of("best_node")) or self._tie_order is not None

    def close_plugins(self) -> None:
        """Let the plugins add what they have to say about the outcome."""
        for plugin in self.plugins:
            started = self.observer.now()
            close = self.guarded("on_session_close", plugin.name, plugin.on_session_close)
            self.ask("on_session_close", plugin.name, close, self)
            self.observer.took("closing", plugin.name, self.observer.now() - started)

    # --- closing

    def close(self) -> None:
        """Make the state again what it was when the session opened, and let go of everything.

        Sessions, plugins and evaluations refer to each other; without this they would all wait for a garbage
        collection, which comes rarely in a large process.
        """
        self._put_back()
        vars(self).clear()

    def _put_back(self) -> None:
        self.nodes.restore(self._saved)
        self.nodes.changed.clear()
        row_of, placements = self.nodes.row_of, self.state.placements
        for task, before, node in self._journal.values():
            job = self.state.jobs.get(task.group)
            if task.status != before and job is not None:
                job.move(task, before)
            task.node, task.shape = node, None
            held = bool(node) and before not in status.ENDED
            placements.node[task.row] = row_of.get(node, -1) if held else -1
        for job, phase in ((self.state.jobs[key], phase) for key, phase in self._phases.items()):
            job.phase = phase
