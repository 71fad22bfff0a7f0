"""What each queue may have and has, in cpu, memory and cards. Spec of capacity-card, 6.3, 6.4 and 7.

The session's own sums are used for all jobs that have nothing to do with cards; only the others are gone through.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from kilauea.engine.model import status
from kilauea.engine.model.cards import EITHER
from kilauea.engine.model.jobs import INQUEUE, Job
from kilauea.engine.model.queues import Queue
from kilauea.engine.model.resources import ALWAYS, Amounts, add, cap, dominant_share, exceeded, largest
from kilauea.engine.model.status import CHARGED
from kilauea.engine.plugins.capacity_card.book import CardBook, CardFault
from kilauea.engine.session import Session

Note = Callable[[str, str], None]
"""To be told what is odd: where, and what."""

NOTHING: dict[str, float] = {}


@dataclass
class Holdings:
    """Figures of one queue: cpu in milli-cores, memory in bytes, cards in thousandths."""

    capability: dict[str, float]
    """What it may have; what is not named is 0."""
    guarantee: dict[str, float]
    real_capability: dict[str, float] = field(default_factory=dict)
    deserved: dict[str, float] = field(default_factory=dict)
    allocated: dict[str, float] = field(default_factory=dict)
    request: dict[str, float] = field(default_factory=dict)
    elastic: dict[str, float] = field(default_factory=dict)
    inqueue: dict[str, float] = field(default_factory=dict)

    @property
    def share(self) -> float:
        """The largest part of what it deserves that the queue holds; 0 if it deserves nothing."""
        return dominant_share(self.allocated, self.deserved)


@dataclass
class Demand:
    """What the tasks of a job hold and ask."""

    allocated: dict[str, float] = field(default_factory=dict)
    waiting: dict[str, float] = field(default_factory=dict)

    @property
    def cards(self) -> dict[str, float]:
        """Cards of all tasks that hold something or wait."""
        out = {name: amount for name, amount in self.allocated.items() if name not in ALWAYS}
        add(out, {name: amount for name, amount in self.waiting.items() if name not in ALWAYS})
        return out


class Jobs:
    """What jobs ask in cpu, memory and cards."""

    def __init__(self, session: Session, book: CardBook, note: Note, *, unlimited: bool) -> None:
        self._session = session
        self._book = book
        self._note = note
        self._unlimited = unlimited

    def demand(self, job: Job) -> Demand:
        """What the tasks of a job hold and ask; one of which it cannot be told is left out."""
        demand = Demand()
        row_of = self._session.nodes.row_of
        for task in job.tasks.values():
            try:
                if task.status in CHARGED:
                    add(demand.allocated, self._book.charged(task, row_of.get(task.node, -1)))
                elif task.status == status.PENDING:
                    add(demand.waiting, self._book.asked(task.spec))
            except CardFault as fault:
                if task.status in CHARGED:
                    self._note(f"pod {task.key}", f"{fault}; what it holds is not counted")
        return demand

    def minimum(self, job: Job, demand: Demand | None = None) -> dict[str, float]:
        """What the job has to get: the cards of all its pods, and cpu and memory of its minResources.

        Before it has pods with cards, or while they are still being made, the cards of its annotation.
        """
        minimum = job.min_resources or NOTHING
        cards = (demand or self.demand(job)).cards
        if not any(amount > 0 for amount in cards.values()):
            cards = dict(job.cards.amounts)
        elif job.phase == INQUEUE and len(job.tasks) < job.min_available:
            add(cards, beyond(job.cards.amounts, cards))
        if self._unlimited and (cards or self._book.among(minimum)):
            return cards
        return {**{name: minimum[name] for name in ALWAYS if name in minimum}, **cards}

    def ungate(self, job: Job, amounts: dict[str, float]) -> dict[str, float]:
        """The amounts less what tasks ask for that a foreign gate holds back, never below zero."""
        out = dict(amounts)
        for task in job.tasks.values():
            if task.foreign_gate:
                try:
                    asked = self._book.asked(task.spec)
                except CardFault:
                    continue
                for name in out.keys() & asked.keys():
                    out[name] = max(out[name] - asked[name], 0)
        return out

    def reserved(self, job: Job, minimum: Amounts, allocated: Amounts) -> dict[str, float]:
        """What of the minimum the job does not hold yet, if it is admitted."""
        if not (job.phase == INQUEUE or job.charged):
            return {}
        missing = {name: max(amount - allocated.get(name, 0), 0) for name, amount in minimum.items()}
        return self.ungate(job, {name: amount for name, amount in missing.items() if amount > 0})


def beyond(named: Amounts, there: Amounts) -> dict[str, float]:
    """Cards that are named and not there yet; what is named as `A|B` may be there as either, or as both together."""
    left = dict(there)
    out = {}
    for name in sorted(named, key=lambda n: (n.count(EITHER), n)):
        missing = named[name]
        models = set(name.split(EITHER))
        for other in (name, *sorted(n for n in left if n != name and models.issuperset(n.split(EITHER)))):
            taken = min(missing, left.get(other, 0))
            missing -= taken
            left[other] = left.get(other, 0) - taken
        if missing > 0:
            out[name] = missing
    return out


def open_holdings(session: Session, book: CardBook, jobs: Jobs) -> dict[str, Holdings]:
    """The figures of all queues, by name, at the beginning of a session."""
    total = {**{name: session.total.get(name, 0) for name in ALWAYS}, **book.total}
    out = {name: Holdings(*_limits(queue)) for name, queue in session.queues.items()}
    guaranteed: dict[str, float] = {}
    for holdings in out.values():
        add(guaranteed, holdings.guarantee)
    for name, queue in session.queues.items():
        holdings = out[name]
        holdings.real_capability = exceeded(total, guaranteed)
        add(holdings.real_capability, holdings.guarantee)
        deserved = cap(_with_cards(queue.deserved, queue), holdings.real_capability)
        holdings.deserved = largest(deserved, holdings.guarantee)
        holdings.allocated = _room(queue.allocated)
        holdings.request = _room(queue.request)
        holdings.elastic = _room(queue.elastic)
        holdings.inqueue = _room(queue.inqueue)
    for job in _card_jobs(session, book):
        _count(session, out[job.queue], job, jobs)
    return out


def _limits(queue: Queue) -> tuple[dict[str, float], dict[str, float]]:
    """Capability and guarantee; both have the cards of the quota."""
    return _with_cards(queue.capability, queue), _with_cards(queue.guarantee, queue)


def _with_cards(amounts: Amounts | None, queue: Queue) -> dict[str, float]:
    return {**_room(amounts or NOTHING), **queue.cards.amounts}


def _room(amounts: Amounts) -> dict[str, float]:
    """Only cpu and memory."""
    return {name: amounts.get(name, 0) for name in ALWAYS}


def _card_jobs(session: Session, book: CardBook) -> list[Job]:
    """Jobs that have anything to do with cards, of the queues of the session."""
    table, axis = session.table, session.axis
    size = len(table)
    concerned = np.zeros(size, dtype=bool)
    for name in sorted(book.resources) if book.counts_all else ():
        row = axis.rows.get(name)
        if row is not None:
            for column in (table.allocated, table.pending, table.reserved):
                concerned |= column[row, :size] > 0
    for task in session.state.with_cards.values():
        if task.group:
            concerned[session.state.jobs[task.group].row] = True
    for job in session.state.jobs.values():
        if job.cards.amounts:
            concerned[job.row] = True
    return session.jobs_where(concerned)


def _count(session: Session, holdings: Holdings, job: Job, jobs: Jobs) -> None:
    """Count a job with its cards, in place of the session's own sums."""
    table = session.table
    rows = [session.axis.rows[name] for name in ALWAYS]
    held, asked, elastic, reserved = (
        dict(zip(ALWAYS, column[rows, job.row].tolist(), strict=True))
        for column in (table.allocated, table.pending, table.elastic, table.reserved)
    )
    demand = jobs.demand(job)
    minimum = jobs.minimum(job, demand)
    for target, own, others in (
        (holdings.allocated, demand.allocated, held),
        (holdings.request, demand.allocated, held),
        (holdings.request, demand.waiting, asked),
        (holdings.elastic, exceeded(demand.allocated, minimum), elastic),
        (holdings.inqueue, jobs.reserved(job, minimum, demand.allocated), reserved),
    ):
        add(target, own)
        add(target, others, -1)
