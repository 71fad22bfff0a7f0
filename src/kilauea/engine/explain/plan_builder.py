"""Builds the plan of a session: phases of pod groups, metrics of queues, and the reason of every waiting task.

Of several reasons, the plan gives the most binding one, in this order: reasons of the whole group, requests that no
node could satisfy even if it were empty, the queue, the nodes in their current state, and the rest of the gang.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

import numpy as np

from kilauea.engine.evaluation import Unfit
from kilauea.engine.explain.closest import Closest
from kilauea.engine.explain.hints import nominated_to
from kilauea.engine.explain.ignored import findings_of_ignored, ignored_wishes, is_served, sentence
from kilauea.engine.explain.out_of_reach import OutOfReach
from kilauea.engine.explain.ungrouped import why_ungrouped
from kilauea.engine.extension import Refusal
from kilauea.engine.model import status
from kilauea.engine.model.claims.table import ClaimAllocation
from kilauea.engine.model.devices import GivenCard
from kilauea.engine.model.jobs import COMPLETED, INQUEUE, PENDING, PHASES, RUNNING, UNKNOWN, Job
from kilauea.engine.model.tasks import Task
from kilauea.engine.model.wishes import OF_QUEUES, Wish
from kilauea.engine.plan import Condition, GroupOutcome, Nomination, Pending, Plan, QueueOutcome
from kilauea.engine.queues.faults import QueueFault, conditions, findings, jobs_without_queue, queue_faults
from kilauea.engine.queues.faults.fault import IGNORED, IGNORED_REASON
from kilauea.engine.report import counts_of
from kilauea.engine.session import Session


def outline(session: Session) -> Plan:
    """The decisions of a session after its actions, without reasons and metrics."""
    return Plan(tuple(session.report.binds), nominations(session), tuple(session.report.evictions))


def nominations(session: Session) -> tuple[Nomination, ...]:
    """Nominated pods."""
    return tuple(
        Nomination(task.key, task.node, *_kept(session, task))
        for job in sorted(session.ledger.touched.values(), key=lambda j: j.order)
        if job.counts[status.PIPELINED]
        for task in sorted(job.tasks.values(), key=lambda t: t.order)
        if task.status == status.PIPELINED
    )


def _kept(session: Session, task: Task) -> tuple[tuple[ClaimAllocation, ...], tuple[GivenCard, ...]]:
    """The devices and the cards that are kept for a nominated pod."""
    claims = session.state.resource_claims.allocations(task.claims) if task.claims else ()
    ledger = session.card_ledger if task.spec.devices is not None else None
    slices = ledger.slices(task) if ledger is not None else {}
    cards = (
        GivenCard(kind, number, *each)
        for kind in sorted(slices)
        for number, container in enumerate(slices[kind])
        for each in container
    )
    return claims, tuple(cards)


def conclude(session: Session, *, reasons: bool = True) -> Plan:
    """The plan of a session after its actions, with reasons only on request, except those of nominated tasks."""
    faults = sorted((*queue_faults(session), *_ignored_by_queue(session)), key=lambda fault: fault.queue)
    for job in jobs_without_queue(session):
        message = f"queue {job.queue} of pod group {job.key} does not exist"
        session.report.conditions.setdefault(job.key, Condition("QueueNotFound", "QueueNotFound", message))
    promises, ignored = nominations(session), ignored_wishes(session)
    return Plan(
        tuple(session.report.binds),
        promises,
        tuple(session.report.evictions),
        tuple(session.report.released.values()),
        groups(session, ignored),
        queues(session, conditions(faults)),
        tuple([*pending(session), *_homeless(session)] if reasons else _promised(session, promises)),
        (*session.findings, *findings(faults), *findings_of_ignored(session, ignored)),
    )


def _ignored_by_queue(session: Session) -> Iterator[QueueFault]:
    """Warnings about queues with fields that no configured plugin supports."""
    unserved: dict[Wish, bool] = {}
    for name, queue in session.queues.items():
        for wish in queue.wishes:  # few queues have any
            if wish not in unserved:
                unserved[wish] = wish in OF_QUEUES and not is_served(wish, session.conf)
            if unserved[wish]:
                yield QueueFault(name, IGNORED, IGNORED_REASON, sentence(wish))


# --- pod groups


def groups(session: Session, ignored: Mapping[str, Condition]) -> dict[str, GroupOutcome]:
    """Pod groups that this session changed, that have a condition, or whose phase is outdated."""
    table = session.table
    size = len(table)
    stale = np.array(phases_by_counts(table.counts[:, :size], table.releasing[:size], table.min_available[:size]))
    phase = table.phase[:size]
    expected = np.where(stale >= 0, stale, np.where(phase == PHASES.index(INQUEUE), phase, PHASES.index(PENDING)))
    jobs = {job.key: job for job in session.jobs_where(expected != phase)}
    for job in session.ledger.touched.values():
        jobs[job.key] = job
    for key in (*session.report.conditions, *session.report.refusals, *ignored):
        if key in session.state.jobs:
            jobs[key] = session.state.jobs[key]
    return {
        job.key: GroupOutcome(
            phase_of(session, job),
            counts_of(job),
            session.report.conditions.get(job.key),
            session.report.refusals.get(job.key),
            ignored.get(job.key),
        )
        for job in sorted(jobs.values(), key=lambda j: j.order)
    }


def phases_by_counts(counts: np.ndarray, releasing: np.ndarray, minimum: np.ndarray) -> np.ndarray:
    """(J,) number of the phase Completed or Running; -1 if the counts do not determine it."""
    scheduled = counts[list(status.SCHEDULED)].sum(axis=0) + releasing
    ended = counts[status.SUCCEEDED] + counts[status.FAILED]
    by_counts = np.where(counts.sum(axis=0) == ended, PHASES.index(COMPLETED), PHASES.index(RUNNING))
    return np.where(scheduled >= minimum, by_counts, -1)


def phase_of(session: Session, job: Job) -> str:
    """Phase of a pod group after the session (spec of the scheduler, 2.8); Completed only when all its tasks ended.

    Terminating tasks keep their resources until they have ended, so a gang that is complete with them is Running,
    although their replacements wait.
    """
    condition = session.report.conditions.get(job.key)
    releasing = job.releasing_count
    scheduled = job.scheduled_count + releasing
    whole = releasing and scheduled >= job.min_available
    if job.counts[status.RUNNING] and not whole and condition is not None and condition.type == "Unschedulable":
        return UNKNOWN
    if scheduled >= job.min_available:
        ended = job.counts[status.SUCCEEDED] + job.counts[status.FAILED]
        return COMPLETED if len(job.tasks) == ended else RUNNING
    # A group with nominated tasks stays admitted, although all its running tasks have ended.
    return INQUEUE if job.phase == INQUEUE or job.counts[status.PIPELINED] else PENDING


# --- queues


def queues(session: Session, conditions: Mapping[str, tuple[Condition, ...]]) -> dict[str, QueueOutcome]:
    """Metrics of all queues, and their conditions."""
    return {
        name: QueueOutcome(
            queue.parent,
            _with_devices(
                queue.figures.capability if queue.figures.capability is not None else queue.capability, queue.devices
            ),
            queue.figures.deserved if queue.figures.deserved is not None else queue.deserved,
            dict(queue.guarantee),
            queue.figures.real_capability,
            {**queue.allocated, **queue.figures.devices},
            dict(queue.request),
            dict(queue.inqueue),
            dict(queue.elastic),
            queue.figures.share,
            conditions.get(name, ()),
            queue.paused,
        )
        for name, queue in sorted(session.queues.items())
    }


def _with_devices(amounts: Mapping[str, float] | None, devices: Mapping[str, int]) -> Mapping[str, float] | None:
    """A capability with what it says of devices."""
    return {**(amounts or {}), **devices} if devices else amounts


# --- what waits


def pending(session: Session) -> list[Pending]:
    """The waiting tasks of the session's jobs with their reasons, in the order of jobs and tasks."""
    beyond, closest = OutOfReach(session), Closest(session)
    return [
        closest.told(beyond.first(_pending(session, job, task)))
        for job in session.waiting_jobs()
        for task in _waiting(job)
    ]


def _promised(session: Session, promises: Iterable[Nomination]) -> Iterator[Pending]:
    """The nominated tasks with their reasons."""
    tasks, jobs = session.state.tasks, session.state.jobs
    for task in (tasks[promise.pod] for promise in promises):
        yield _pending(session, jobs[task.group], task)


def _waiting(job: Job) -> list[Task]:
    still = (status.PENDING, status.ALLOCATED, status.PIPELINED)
    return sorted((t for t in job.tasks.values() if t.status in still), key=lambda t: t.order)


def _pending(session: Session, job: Job, task: Task) -> Pending:
    if task.status == status.PIPELINED:
        return Pending(task.key, job.key, "Nominated", nominated_to([task.node]), job.queue)
    if task.gated:
        return Pending(task.key, job.key, "SchedulingGated", "the pod has a scheduling gate", job.queue)
    refusal = session.report.refusals.get(job.key)
    if refusal is not None and (job.is_pending or refusal.code.startswith("NotEnough")):
        return _refused(task, job, refusal)
    own = session.report.task_refusals.get(task.key)
    if own is not None:
        return _refused(task, job, own)
    unfit = session.report.unfit.get(job.key, {})
    if task.key in unfit:
        return _unfit(task, job, unfit[task.key])
    if refusal is not None:
        return _refused(task, job, refusal)
    if job.is_pending:
        message = "no action admits its pod group: add enqueue or allocate to the actions"
        return Pending(task.key, job.key, "NotAdmitted", message, job.queue)
    return _gang(session, job, task)


def _refused(task: Task, job: Job, refusal: Refusal) -> Pending:
    return Pending(
        task.key,
        job.key,
        refusal.code,
        refusal.message,
        refusal.queue or job.queue,
        refusal.resource,
        refusal.asked,
        refusal.left,
    )


def _unfit(task: Task, job: Job, why: Unfit | Refusal) -> Pending:
    if isinstance(why, Refusal):
        return _refused(task, job, why)
    return Pending(
        task.key, job.key, "Unschedulable", why.message, job.queue, why.resource, why.asked, why.left, why.reasons
    )


def _gang(session: Session, job: Job, task: Task) -> Pending:
    """The reason of a task that was not refused itself: another task of its gang was, or no action processed it."""
    unfit = session.report.unfit.get(job.key, {})
    blocked = [mate for key, mate in job.tasks.items() if key in unfit or key in session.report.task_refusals]
    if not blocked and task.key not in session.report.had_room and task.status != status.ALLOCATED:
        message = "no action of this cycle processed the pod"
        return Pending(task.key, job.key, "NotReached", message, job.queue)
    nominated = [mate for mate in job.tasks.values() if mate.status == status.PIPELINED]
    if not blocked:
        message = f"fewer pods of its gang fit than its minimum of {job.min_available}"
        if nominated:
            mate = min(nominated, key=lambda t: t.order)
            message = f"its gang of {job.min_available} waits for {mate.name}: {nominated_to([mate.node])}"
        return Pending(task.key, job.key, "GangWaiting", message, job.queue)
    mate = min(blocked, key=lambda t: t.order)
    why = unfit.get(mate.key) or session.report.task_refusals[mate.key]
    message = f"its gang of {job.min_available} waits for {mate.name}: {why.message}"
    reasons = () if isinstance(why, Refusal) else why.reasons
    return Pending(task.key, job.key, "GangWaiting", message, job.queue, why.resource, why.asked, why.left, reasons)


def _homeless(session: Session) -> list[Pending]:
    """Tasks whose group or queue does not exist."""
    state = session.state
    out = []
    for task in state.unplaced.values():
        if task.status != status.PENDING:
            continue
        if not task.group:
            why = why_ungrouped(task, state)
            out.append(Pending(task.key, "", why.code, why.message, why.queue))
            continue
        job = state.jobs[task.group]
        if job.service:
            continue
        if not job.group:
            message = f"pod group {task.group} does not exist"
            out.append(Pending(task.key, task.group, "PodGroupNotFound", message))
        elif job.queue not in state.queues:
            message = f"queue {job.queue} of pod group {task.group} does not exist"
            out.append(Pending(task.key, task.group, "QueueNotFound", message, job.queue))
    return sorted(out, key=lambda p: p.pod)
