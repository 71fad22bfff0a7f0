"""Limits and holdings of each queue, in cpu, memory and cards. Spec of capacity-card, 6.3, 6.4 and 7.

For jobs without cards, the session's own sums apply. For the others, the ledger keeps the difference from those sums
across cycles; only jobs that changed are read again. The ledger depends on the objects alone.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from kilauea.engine.model import status
from kilauea.engine.model.cards import EITHER
from kilauea.engine.model.job_table import JobTable
from kilauea.engine.model.jobs import INQUEUE, Job
from kilauea.engine.model.nodes import NodeTable
from kilauea.engine.model.queues import Queue
from kilauea.engine.model.resources import ALWAYS, Amounts, add, cap, dominant_share, exceeded, largest
from kilauea.engine.model.status import CHARGED
from kilauea.engine.plugins.capacity_card.book import CardBook, CardFault
from kilauea.engine.session import Session

NOTHING: dict[str, float] = {}


class Limits(NamedTuple):
    """Limits of a queue: cpu in milli-cores, memory in bytes, cards in thousandths."""

    capability: dict[str, float]
    """The maximum; resources that are not named are 0."""
    guarantee: dict[str, float]
    real_capability: dict[str, float]
    deserved: dict[str, float]


@dataclass
class Holdings:
    """Figures of one queue in a session."""

    limits: Limits
    allocated: dict[str, float]
    request: dict[str, float]
    elastic: dict[str, float]
    inqueue: dict[str, float]

    @property
    def share(self) -> float:
        """The largest fraction of its deserved amounts that the queue holds; 0 if it deserves nothing."""
        return dominant_share(self.allocated, self.limits.deserved)


# --- jobs


@dataclass
class Demand:
    """Holdings and requests of the tasks of a job."""

    allocated: dict[str, float] = field(default_factory=dict)
    waiting: dict[str, float] = field(default_factory=dict)
    faults: list[tuple[str, str]] = field(default_factory=list)
    """Tasks that hold resources but have an invalid request, and the reasons."""

    @property
    def cards(self) -> dict[str, float]:
        """Cards of all tasks that hold resources or wait."""
        out = {name: amount for name, amount in self.allocated.items() if name not in ALWAYS}
        add(out, {name: amount for name, amount in self.waiting.items() if name not in ALWAYS})
        return out


class Jobs:
    """Requests of jobs, in cpu, memory and cards."""

    def __init__(self, nodes: NodeTable, *, unlimited: bool, named: bool) -> None:
        self.nodes = nodes
        self.book = CardBook(nodes, unlimited=unlimited, named=named)
        self._unlimited = unlimited

    def demand(self, job: Job) -> Demand:
        """Return the holdings and requests of a job, without tasks whose request is invalid."""
        demand = Demand()
        row_of, book = self.nodes.row_of, self.book
        for task in job.tasks.values():
            try:
                if task.status in CHARGED:
                    add(demand.allocated, book.charged(task, row_of.get(task.node, -1)))
                elif task.status == status.PENDING:
                    add(demand.waiting, book.asked(task.spec))
            except CardFault as fault:
                if task.status in CHARGED:
                    demand.faults.append((task.key, str(fault)))
        return demand

    def minimum(self, job: Job, demand: Demand | None = None) -> dict[str, float]:
        """Return the minimum of the job: the cards of all its pods, and the cpu and memory of its minResources.

        The cards come from its annotation while pods with cards do not exist yet or are still being created.
        """
        minimum = job.min_resources or NOTHING
        cards = (demand or self.demand(job)).cards
        if not any(amount > 0 for amount in cards.values()):
            cards = dict(job.cards.amounts)
        elif job.phase == INQUEUE and len(job.tasks) < job.min_available:
            add(cards, beyond(job.cards.amounts, cards))
        if self._unlimited and (cards or self.book.among(minimum)):
            return cards
        return {**{name: minimum[name] for name in ALWAYS if name in minimum}, **cards}

    def ungate(self, job: Job, amounts: dict[str, float]) -> dict[str, float]:
        """The amounts less the requests of tasks that a foreign gate holds back; at least zero."""
        out = dict(amounts)
        for task in job.tasks.values():
            if task.foreign_gate:
                try:
                    asked = self.book.asked(task.spec)
                except CardFault:
                    continue
                for name in out.keys() & asked.keys():
                    out[name] = max(out[name] - asked[name], 0)
        return out

    def reserved(self, job: Job, minimum: Amounts, allocated: Amounts) -> dict[str, float]:
        """Return the part of the minimum that the job does not hold yet, if it is admitted."""
        if not (job.phase == INQUEUE or job.charged):
            return {}
        missing = {name: max(amount - allocated.get(name, 0), 0) for name, amount in minimum.items()}
        return self.ungate(job, {name: amount for name, amount in missing.items() if amount > 0})


def beyond(named: Amounts, there: Amounts) -> dict[str, float]:
    """Named cards that are not held yet; the request `A|B` may be held as either model, or under both names."""
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


# --- the ledger


class Entry(NamedTuple):
    """A job with cards: the difference of its queue's figures from the session's sums."""

    queue: str
    figures: tuple[dict[str, float], ...]
    """Allocated, request, elastic, inqueue."""
    notes: tuple[tuple[str, str, str], ...]
    """Oddities: place, message and code."""


FIGURES = ("allocated", "request", "elastic", "inqueue")


class Ledger:
    """Figures of all queues, kept across cycles."""

    def __init__(self, nodes: NodeTable, *, unlimited: bool, named: bool) -> None:
        self.jobs = Jobs(nodes, unlimited=unlimited, named=named)
        self._counts_all = unlimited or named
        self._stamp = 0
        self._entries: dict[int, Entry] = {}
        self._sums: dict[str, tuple[dict[str, float], ...]] = {}
        self._limits: tuple[object, dict[str, Limits]] = ((), {})

    @property
    def notes(self) -> list[tuple[str, str, str]]:
        """Oddities of jobs, in order."""
        return sorted({note for entry in self._entries.values() for note in entry.notes})

    def open(self, session: Session) -> dict[str, Holdings]:
        """Return the figures of all queues, by name, at the beginning of a session."""
        self.jobs.book.forget()
        self._keep_up(session.table)
        limits = self._settled(session)
        return {name: self._holdings(queue, limits[name]) for name, queue in session.queues.items()}

    def _holdings(self, queue: Queue, limits: Limits) -> Holdings:
        figures = []
        for field_name, more in zip(FIGURES, self._sums.get(queue.name, (NOTHING,) * len(FIGURES)), strict=True):
            amounts = _room(getattr(queue, field_name))
            add(amounts, more)
            figures.append(amounts)
        return Holdings(limits, *figures)

    # --- what queues may have

    def _settled(self, session: Session) -> dict[str, Limits]:
        """Limits of all queues; they depend on the queues' objects and the cluster's total."""
        total: dict[str, float] = {**{name: session.total.get(name, 0) for name in ALWAYS}, **self.jobs.book.total}
        made_of = (session.state.queue_version, total)
        if self._limits[0] != made_of:
            self._limits = (made_of, limits_of(session.queues, total))
        return self._limits[1]

    # --- jobs

    def _keep_up(self, table: JobTable) -> None:
        """Update the jobs that changed."""
        if self._stamp == table.stamp:
            return
        rows = [row for row, stamp in enumerate(table.stamps) if stamp > self._stamp]
        self._stamp = table.stamp
        for row in rows:
            before = self._entries.pop(row, None)
            if before is not None:
                self._post(before, -1)
            job = table.jobs[row]
            if job is not None and table.queue[row] >= 0 and self._concerned(job):
                self._entries[row] = entry = self._entry(job, table)
                self._post(entry, 1)

    def _post(self, entry: Entry, times: int) -> None:
        sums = self._sums.setdefault(entry.queue, ({}, {}, {}, {}))
        for total, amounts in zip(sums, entry.figures, strict=True):
            for name, amount in amounts.items():
                left = total.get(name, 0) + times * amount
                if left:
                    total[name] = left
                else:
                    total.pop(name, None)

    def _concerned(self, job: Job) -> bool:
        """Return True if a job involves cards."""
        if job.cards.amounts or job.cards.fault or any(task.spec.cards is not None for task in job.tasks.values()):
            return True
        if not self._counts_all:
            return False
        among = self.jobs.book.among
        return among(job.min_resources or NOTHING) or any(among(task.spec.requests) for task in job.tasks.values())

    def _entry(self, job: Job, table: JobTable) -> Entry:
        rows = [table.axis.rows[name] for name in ALWAYS]
        held, asked, elastic, reserved = (
            dict(zip(ALWAYS, column[rows, job.row].tolist(), strict=True))
            for column in (table.allocated, table.pending, table.elastic, table.reserved)
        )
        demand = self.jobs.demand(job)
        minimum = self.jobs.minimum(job, demand)
        figures = (
            less(demand.allocated, held),
            less(demand.allocated, held, less(demand.waiting, asked)),
            less(exceeded(demand.allocated, minimum), elastic),
            less(self.jobs.reserved(job, minimum, demand.allocated), reserved),
        )
        return Entry(job.queue, figures, tuple(self._notes(job, demand)))

    def _notes(self, job: Job, demand: Demand) -> list[tuple[str, str, str]]:
        notes = [(f"pod {key}", f"{why}; what it holds is not counted", "") for key, why in demand.faults]
        if job.cards.fault:
            notes.append((f"pod group {job.key}", job.cards.fault, "InvalidCardAnnotation"))
        named = {task.spec.cards.names for task in job.tasks.values() if task.spec.cards is not None}
        for names in named:
            kept = self.jobs.book.kept(names)
            dropped = ", ".join(name for name in names if name not in kept)
            if dropped:
                message = f"{dropped} is another resource than the first card that is known, and is left out"
                notes.append((f"card name {EITHER.join(names)}", message, ""))
        return notes


def less(a: Amounts, b: Amounts, more: Amounts = NOTHING) -> dict[str, float]:
    """`a` and `more` less `b`, without zeros."""
    out = dict(a)
    add(out, more)
    add(out, b, -1)
    return {name: amount for name, amount in out.items() if amount}


def limits_of(queues: Mapping[str, Queue], total: Amounts) -> dict[str, Limits]:
    """Return the limits of each queue in the total."""
    guarantees = {name: _with_cards(queue.guarantee, queue) for name, queue in queues.items()}
    guaranteed: dict[str, float] = {}
    for guarantee in guarantees.values():
        add(guaranteed, guarantee)
    rest = exceeded(total, guaranteed)
    out = {}
    for name, queue in queues.items():
        real = dict(rest)
        add(real, guarantees[name])
        deserved = largest(cap(_with_cards(queue.deserved, queue), real), guarantees[name])
        out[name] = Limits(_with_cards(queue.capability, queue), guarantees[name], real, deserved)
    return out


def _with_cards(amounts: Amounts | None, queue: Queue) -> dict[str, float]:
    """Cpu and memory of the amounts, and the cards of the queue's quota."""
    return {**_room(amounts or NOTHING), **queue.cards.amounts}


def _room(amounts: Amounts) -> dict[str, float]:
    """The cpu and memory of the amounts."""
    return {name: amounts.get(name, 0) for name in ALWAYS}
