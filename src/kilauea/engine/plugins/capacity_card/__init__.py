"""Give queues quotas of cards by accelerator model; inference reclaims cards from training.

What:
    A queue sets how many cards of each model it may use (annotation `volcano.sh/card.quota`), and how much cpu and
    memory (`capability`). A pod names the model that it needs (`volcano.sh/card.name`), or several in order of
    preference; its queue is charged for the model of the node where the pod runs. Whole cards, MPS shares and MIG
    slices of a model are counted separately. Jobs are admitted as long as their requests fit. The cards of a node are
    read from its labels `PREFIX/TYPE.product`, `.count` and `.memory`, and from its allocatable resources.

    Services of type inference can reclaim cards from queues that lend them, and only from training; training does not
    reclaim. The type is set on the pod group (`volcano.sh/service.type`), or derived from the kind of the pod's owner.

Why:
    In Kubernetes, an H200 and an RTX-4090 are both `nvidia.com/gpu`, so a quota of these guarantees little. Cards that
    services do not need at night can run training.

Arguments:
    cardUnlimitedCpuMemory (true or false, false): the queue's cpu and memory do not limit jobs with cards.
    overCommitFactor (number, 1): factor for the capability when jobs are admitted; at least 1. A queue never runs more
    than its capability.
    nodeOrderWeight (number, 1): factor of the score that prefers the first of a pod's models; above 0.
    podOwnerReferenceToServiceType (map, none): `inference` or `training` by kind of a pod's first owner. The owner of a
    Deployment's pods is a `ReplicaSet`.
    strictReclaimer (true or false, true): jobs of unknown type cannot reclaim.
    requireCardName (true or false, false): pods that request accelerators must name a card. If false, no card quota
    applies to pods without one.
    cardNodeCheck (text, all): with `all`, pods that name one model run only on nodes that have it, and pods that name
    several only on nodes whose model has quota left; with `multi`, only the latter; with `none`, neither.
    victimsShareResource (true or false, false): evict only pods that hold a resource that the preemptor requests.
    allowServiceTypeByPodOwnerReferences (true or false, false): the old form of `{Job: training, ReplicaSet:
    inference}` above.

    A queue that does not name cpu, memory or cards has none of them. Other resources are not counted. Quotas are flat:
    the quota of a parent does not limit its children.

Example:
    actions: "enqueue, allocate, backfill, reclaim"
    tiers:
    - plugins:
      - name: priority
      - name: gang
        enableReclaimable: false
      - name: conformance
        enableReclaimable: false
    - plugins:
      - name: predicates
      - name: capacity-card
        arguments:
          overCommitFactor: 2
          cardUnlimitedCpuMemory: true
          podOwnerReferenceToServiceType:
            ReplicaSet: inference
            Job: training
      - name: nodeorder

    Disable reclaim for gang and conformance as shown; otherwise they choose the victims in the first tier, and the
    service types are not considered.

Difference from the original:
    Volcano does not have this plugin, but there is a proposal for it. This plugin follows the proposal in quotas,
    annotations, reasons and messages. It differs where the proposal lets a queue have more than its quota or less than
    it could, and reclaims cards only for inference and only from training. See `docs/differences.md` for the list.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from kilauea.api.numbers import plural
from kilauea.engine.conf import Finding, argument
from kilauea.engine.extension import PERMIT, REJECT, Rejection, Scope, SpareReason
from kilauea.engine.model.cards import CARD, EITHER
from kilauea.engine.model.jobs import Job
from kilauea.engine.model.nodes import NodeRows
from kilauea.engine.model.queues import Queue
from kilauea.engine.model.resources import ALWAYS, CPU, Amounts, add
from kilauea.engine.model.shapes import TaskShape
from kilauea.engine.model.tasks import Task
from kilauea.engine.plan import Refusal
from kilauea.engine.plugin import Plugin
from kilauea.engine.plugins.capacity_card.book import CardFault
from kilauea.engine.plugins.capacity_card.check import has_room, refusal, shortage
from kilauea.engine.plugins.capacity_card.holdings import FIGURES, Ledger
from kilauea.engine.queues.quota import closed
from kilauea.engine.session import Session

INFERENCE, TRAINING, UNKNOWN = "inference", "training", "unknown"
TYPES = (INFERENCE, TRAINING)
NO_TYPES: dict[str, str] = {}
BY_OLD_SWITCH = {"Job": TRAINING, "ReplicaSet": INFERENCE}

BEST = 100.0
"""Score of a node that has the first of a pod's models; each further one counts half as much."""

MOST_NOTES = 20
"""Findings about objects that one session reports; further ones are only counted."""

NO_CARD = Rejection("NoCard", "node(s) had no card of a model that the pod names", hopeless=True)
NO_QUOTA = Rejection("NoCardQuota", "node(s) had only cards of models of which the queue has no quota left")

SERVICE_TYPE = SpareReason(
    "ServiceType", "only inference reclaims cards, and only from training that holds the requested cards"
)


@dataclass(frozen=True)
class CapacityCardArguments:
    """Arguments of capacity-card."""

    unlimited: bool = argument("cardUnlimitedCpuMemory", False, "Cpu and memory do not limit jobs with cards.")
    factor: float = argument("overCommitFactor", 1.0, "Factor for the capability at admission.", minimum=1.0)
    weight: float = argument("nodeOrderWeight", 1.0, "Factor of the score by the order of a pod's models.")
    types: dict[str, str] = argument(
        "podOwnerReferenceToServiceType", NO_TYPES, "Service type by kind of the owner.", choices=TYPES, values=str
    )
    strict: bool = argument("strictReclaimer", True, "Jobs of unknown type cannot reclaim.")
    named: bool = argument("requireCardName", False, "Pods that request accelerators must name a card.")
    check: str = argument(
        "cardNodeCheck", "all", "Pods to check against the cards of nodes.", choices=("none", "multi", "all")
    )
    sharing: bool = argument("victimsShareResource", False, "Victims hold a resource that the preemptor requests.")
    by_owner: bool = argument("allowServiceTypeByPodOwnerReferences", False, "Old form of the map of owners.")


class CapacityCard(Plugin):
    """See the module."""

    name = "capacity-card"
    depends_on_time = False
    Arguments = CapacityCardArguments

    def on_session_open(self, session: Session) -> None:
        given: CapacityCardArguments = self.arguments
        self._session = session
        self._noted: set[tuple[str, str]] = set()
        self._weight = self._read_weight()
        self._types = {**(BY_OLD_SWITCH if given.by_owner else {}), **given.types}
        ledger = self._ledger()
        self._jobs, self._book = ledger.jobs, ledger.jobs.book
        self._holdings = ledger.open(session)
        self._look_around(ledger)
        session.add_queue_order(self.name, self._order)
        session.add_job_enqueueable(self.name, self._enqueueable)
        session.add_job_enqueued(self.name, self._enqueued)
        session.add_allocatable(self.name, self._allocatable)
        session.add_preemptive(self.name, self._preemptive)
        session.add_reclaimable(self.name, self._reclaimable, why=SERVICE_TYPE)
        session.add_event_handler(self.name, self._placed, self._gone)
        self._register_for_nodes(session)

    def _ledger(self) -> Ledger:
        """The ledger of the previous cycle, if nodes and arguments are unchanged."""
        state, nodes, given = self._session.state, self._session.nodes, self.arguments
        known = state.kept.get(self.name)
        if known is None or known[0][0] is not nodes or known[0][1] != given:
            known = ((nodes, given), Ledger(nodes, unlimited=given.unlimited, named=given.named))
            state.kept[self.name] = known
        ledger: Ledger = known[1]
        return ledger

    def _register_for_nodes(self, session: Session) -> None:
        if self.arguments.check == "none":
            session.add_node_score(self.name, self._score, applies=self._has_choice)
            return
        rejections = (NO_CARD, NO_QUOTA)
        session.add_predicate(self.name, self._fits, rejections, scope=Scope.CLUSTER, applies=self._has_choice)
        session.add_batch_node_score(self.name, self._score, applies=self._has_choice)
        if self.arguments.check == "all":
            session.add_predicate(self.name, self._has_card, (NO_CARD,), scope=Scope.STATIC, applies=self._has_one_card)

    def on_session_close(self, session: Session) -> None:
        # Not before, because actions hold queues to what they deserve; here that is for shares and for people alone.
        for name, queue in session.queues.items():
            holdings = self._holdings[name]
            queue.figures.capability = holdings.limits.capability
            queue.figures.deserved = holdings.limits.deserved
            queue.figures.real_capability = holdings.limits.real_capability
            queue.figures.share = holdings.share
            for figure in FIGURES:
                setattr(queue, figure, {n: amount for n, amount in getattr(holdings, figure).items() if amount})
        hidden = len(self._noted) - MOST_NOTES
        if hidden > 0:
            session.findings.append(Finding(f"plugin {self.name}", f"{plural(hidden, 'more finding')} of this kind"))

    # --- oddities

    def _read_weight(self) -> float:
        """The weight of the scores, or 1 if it is not above 0."""
        weight: float = self.arguments.weight
        if weight > 0:
            return weight
        key = "nodeOrderWeight"
        message = f"Invalid {key} value: {weight}, must be positive, using default: 1"
        self._session.findings.append(Finding(f"plugin {self.name}", message, code="wrong-value", path=(key,)))
        return 1.0

    def _note(self, where: str, message: str, code: str = "") -> None:
        """Add a finding about an object, once."""
        if (where, message) not in self._noted:
            self._noted.add((where, message))
            if len(self._noted) <= MOST_NOTES:
                self._session.findings.append(Finding(where, message, code=code))

    def _look_around(self, ledger: Ledger) -> None:
        """Report invalid annotations and labels."""
        session = self._session
        if self.arguments.by_owner:
            message = "allowServiceTypeByPodOwnerReferences is deprecated; use podOwnerReferenceToServiceType"
            session.findings.append(Finding(f"plugin {self.name}", message, code="moved-argument"))
        for name, queue in sorted(session.queues.items()):
            has_cpu = (queue.capability or {}).get(CPU, 0) > 0
            if not has_cpu and not any(queue.cards.amounts.values()) and session.job_counts[queue.row]:
                message = "it has jobs, but no cpu in its capability and no card quota: only empty requests fit"
                self._note(f"queue {name}", message)
        for node, notes in self._book.notes.items():
            for message in notes:
                self._note(f"node {node}", message)
        for where, message, code in ledger.notes:
            self._note(where, message, code)

    # --- order, and what comes and goes

    def _order(self, queue: Queue) -> tuple[float, float]:
        return (-queue.priority, self._holdings[queue.name].share)

    def _placed(self, task: Task, row: int) -> None:
        self._charge(task, row, 1)

    def _gone(self, task: Task, row: int) -> None:
        self._charge(task, row, -1)

    def _charge(self, task: Task, row: int, times: int) -> None:
        """Count a task that is added to a node or removed; its charge depends only on both, so the two cancel out."""
        try:
            amounts = self._book.charged(task, row)
        except CardFault as fault:
            self._note(f"pod {task.key}", f"{fault}; what it holds is not counted")
            return
        add(self._holdings[self._session.state.jobs[task.group].queue].allocated, amounts, times)

    # --- who may have what

    def _enqueueable(self, job: Job) -> tuple[int, Refusal | None]:
        queue = self._session.queues[job.queue]
        shut = closed(queue)
        if shut is not None:
            return REJECT, shut
        holdings = self._holdings[queue.name]
        wanted = self._jobs.minimum(job)
        totals = dict(wanted)
        add(totals, holdings.allocated)
        add(totals, holdings.inqueue)
        add(totals, holdings.elastic, -1)
        limit = {name: amount * self.arguments.factor for name, amount in holdings.limits.capability.items()}
        found = shortage(wanted, totals, limit, of_job=True)
        return (PERMIT, None) if found is None else (REJECT, refusal(queue.name, found))

    def _enqueued(self, job: Job) -> None:
        add(self._holdings[job.queue].inqueue, self._jobs.ungate(job, self._jobs.minimum(job)))

    def _allocatable(self, queue: Queue, task: Task) -> Refusal | None:
        held = self._holdings[queue.name]
        if queue.open:
            try:
                if has_room(self._book.asked(task.spec), held.allocated, held.limits.capability):
                    return None  # the usual case, once for each pod
            except CardFault:
                pass  # named below
        return self._refusal(queue, task, dict(held.allocated))

    def _refusal(self, queue: Queue, task: Task, totals: dict[str, float]) -> Refusal | None:
        """Return the reason why a queue that holds `totals` cannot hold a task as well; adds the task to the totals."""
        shut = closed(queue)
        if shut is not None:
            return shut
        try:
            wanted = self._book.asked(task.spec)
        except CardFault as fault:
            text = f"Get request resource failed, Queue <{queue.name}>, error: <{fault}>"
            return Refusal("GetTaskRequestResourceFailed", text, queue.name)
        add(totals, wanted)
        found = shortage(wanted, totals, self._holdings[queue.name].limits.capability, of_job=False)
        return None if found is None else refusal(queue.name, found)

    def _preemptive(self, queue: Queue, tasks: Sequence[Task]) -> bool:
        """Return True if a queue may reclaim for these tasks, that is, if its quota allows them at all."""
        totals = dict(self._holdings[queue.name].allocated)
        for task in tasks:
            why = self._refusal(queue, task, totals)
            if why is not None:
                self._session.refuse(task, why)
                return False
        return True

    # --- who loses what

    def _type(self, task: Task) -> str:
        """Inference, training or unknown."""
        job = self._session.state.jobs.get(task.group)
        if job is None or not job.group:
            return UNKNOWN
        said = job.service_type or self._types.get(task.owner_kind, UNKNOWN)
        return said if said in TYPES else UNKNOWN

    def _reclaimable(self, preemptor: Task, candidates: Sequence[Task]) -> tuple[list[Task], int]:
        kind = self._type(preemptor)
        if kind == TRAINING or (kind == UNKNOWN and self.arguments.strict):
            return [], PERMIT
        victims = [task for task in candidates if self._type(task) == TRAINING]
        if not self.arguments.sharing:
            return victims, PERMIT
        try:
            wanted = self._book.asked(preemptor.spec)
        except CardFault as fault:
            queue = self._session.state.jobs[preemptor.group].queue
            text = f"Get request resource failed, Queue <{queue}>, error: <{fault}>"
            self._session.refuse(preemptor, Refusal("GetTaskRequestResourceFailed", text, queue))
            return [], PERMIT
        return [task for task in victims if self._shares(wanted, task)], PERMIT

    def _shares(self, wanted: Amounts, victim: Task) -> bool:
        """Return True if a victim holds a wanted resource: one of the cards, or cpu or memory if no card is wanted."""
        try:
            held = self._book.charged(victim, self._session.nodes.row_of.get(victim.node, -1))
        except CardFault:
            return False
        cards = cards_in(wanted)
        if cards:
            return not cards.isdisjoint(cards_in(held))
        return not cards_in(held) and any(wanted.get(name, 0) > 0 and held.get(name, 0) > 0 for name in ALWAYS)

    # --- nodes

    def _has_choice(self, shape: TaskShape) -> bool:
        return len(self._book.alternatives(shape.spec)) > 1

    def _has_one_card(self, shape: TaskShape) -> bool:
        return len(self._book.alternatives(shape.spec)) == 1

    def _models(self, shape: TaskShape) -> list[tuple[str, bool]]:
        """The models that a shape may get, best first, each with True if its queue has quota left for it."""
        names = self._book.alternatives(shape.spec)
        holdings = self._holdings.get(shape.queue)
        if self.arguments.check == "none" or holdings is None:
            return [(name, True) for name in names]
        try:
            quantity = self._book.asked(shape.spec)[EITHER.join(names)]
        except CardFault:
            return [(name, True) for name in names]
        held, limit = holdings.allocated, holdings.limits.capability
        return [(name, held.get(name, 0) + quantity <= limit.get(name, 0)) for name in names]

    def _fits(self, shape: TaskShape, nodes: NodeRows) -> NDArray[np.int8]:
        """Nodes that have a model with quota; NO_CARD and NO_QUOTA for the others."""
        codes = np.ones(len(nodes), dtype=np.int8)
        for name, left in reversed(self._models(shape)):
            codes[nodes.take(self._book.owners(name))] = 0 if left else 2
        return codes

    def _has_card(self, shape: TaskShape, nodes: NodeRows) -> NDArray[np.bool_]:
        (name,) = self._book.alternatives(shape.spec)
        return nodes.take(self._book.owners(name))

    def _score(self, shape: TaskShape, nodes: NodeRows) -> NDArray[np.float64]:
        """Prefer nodes whose model comes earlier in the pod's list."""
        scores = np.zeros(len(nodes))
        for place, (name, left) in reversed(list(enumerate(self._models(shape)))):
            scores[nodes.take(self._book.owners(name))] = BEST * 0.5**place * self._weight if left else 0.0
        return scores


def cards_in(amounts: Amounts) -> set[str]:
    """Names of the card models with a nonzero amount."""
    return {
        model
        for name, amount in amounts.items()
        if name not in ALWAYS and amount >= CARD
        for model in name.split(EITHER)
    }
