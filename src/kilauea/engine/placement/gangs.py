"""Planning a gang as a unit if it must be close together or has sub-gangs (spec of the scheduler, 5.3.4).

Network domains are tried from the closest to the widest. In each, the whole gang is placed as a trial, sub-gang by
sub-gang. Of the domains of a tier where it fits, the one with the best score is used. Then equal tasks are ordered by
rank along the network, so that neighbors in rank are neighbors in the network.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from kilauea.engine.extension import Refusal
from kilauea.engine.model.jobs import Job
from kilauea.engine.model.queues import Queue
from kilauea.engine.model.tasks import Task
from kilauea.engine.placement.tasks import Part, place_tasks
from kilauea.engine.session import Session
from kilauea.engine.statement import ALLOCATE, Statement

ALLOCATION = "Allocate"
"""The purpose for which plugins select domains."""


@dataclass
class Worksheet:
    """The tasks of a job that remain to be placed.

    Attributes:
        job: the job.
        tasks: by key of the job or sub-gang, in the order in which to place them; in each list, the first task is last.
        structured: the gang must be planned as a whole.
    """

    job: Job
    tasks: dict[str, list[Task]]
    structured: bool

    def __bool__(self) -> bool:
        return any(self.tasks.values())

    def copy(self) -> Worksheet:
        """Return a copy whose tasks can be removed."""
        return Worksheet(self.job, {key: list(tasks) for key, tasks in self.tasks.items()}, self.structured)


@dataclass
class Trial:
    """A gang placed in one domain, with the steps to repeat it."""

    statement: Statement
    """The statement with the placed tasks."""
    domain: int
    score: float
    steps: list[tuple[Task, int, bool]]
    """Tasks with the row of their node, and True if the resources were free."""
    left: Worksheet
    chosen: dict[str, int]
    """Domains of the job and of its sub-gangs afterwards."""


def worksheet(session: Session, job: Job) -> Worksheet | None:
    """Return the tasks of a job to place; None if there are none."""
    tasks = [task for task in job.pending() if not task.foreign_gate and not task.spec.best_effort]
    if not tasks:
        return None
    tasks = session.in_order(tasks, reverse=True)
    structured = bool(job.sub_groups) or session.domains.binds(job)
    by_part = sub_gang_sheets(session, job, tasks) if job.sub_groups else {job.key: tasks}
    return Worksheet(job, by_part, structured)


def place_job(session: Session, queue: Queue, sheet: Worksheet) -> Statement | None:
    """Return a statement that makes a job ready, now or once nominations are free; None if there is none."""
    if sheet.structured:
        return place_gang(session, queue, sheet)
    statement = session.statement()
    placed = place_tasks(session, statement, Part(queue, sheet.job), sheet.tasks[sheet.job.key])
    return statement if placed else None


def sub_gang_sheets(session: Session, job: Job, tasks: list[Task]) -> dict[str, list[Task]]:
    """Return tasks by sub-gang: first those that the minimum of their policy needs, then in the order of sub-gangs."""
    by_key: dict[str, list[Task]] = {}
    for task in tasks:
        by_key.setdefault(task.sub_job, []).append(task)
    ordered = sorted(by_key, key=lambda k: (*session.sub_job_key(job.sub_jobs[k]), job.sub_jobs[k].order))
    ready: dict[str, int] = {}
    for sub_job in job.sub_jobs.values():
        ready[sub_job.group] = ready.get(sub_job.group, 0) + session.sub_job_ready(job, sub_job)
    needed = []
    for key in ordered:
        sub_job = job.sub_jobs[key]
        minimum = job.sub_group_minimum.get(sub_job.group, 0)
        if not session.sub_job_ready(job, sub_job) and ready[sub_job.group] < minimum:
            ready[sub_job.group] += 1
            needed.append(key)
    return {key: by_key[key] for key in (*needed, *(k for k in ordered if k not in needed))}


def place_gang(session: Session, queue: Queue, sheet: Worksheet) -> Statement | None:
    """Place a whole gang in the best of the closest domains where it fits; None if there is none."""
    job, domains = sheet.job, session.domains
    domains.locate(job)
    before = {key: domains.chosen[key] for key in (job.key, *job.sub_jobs) if key in domains.chosen}
    gradients = session.hyper_node_gradient("hyper_node_gradient_for_job", job, 0, ALLOCATION)
    wish = domains.of_job(job)
    if not gradients and wish is not None and wish.tier is not None:
        message = f"no HyperNode of tier {wish.tier} or below has the room that its pods ask for together"
        session.refuse(job, Refusal("Unschedulable", message, job.queue))
    for gradient in gradients:
        best: Trial | None = None
        for domain in _promising(session, queue, sheet, gradient):
            trial = _try(session, queue, sheet, domain, before)
            if trial is None:
                continue
            if len(sheet.tasks) == 1:
                return _keep(session, sheet, trial)
            # Trials need the same resources, so only one can be in effect at a time.
            trial.statement.discard()
            if best is None or trial.score > best.score:
                best = trial
        if best is not None:
            return _repeat(session, sheet, best)
    return None


def _promising(session: Session, queue: Queue, sheet: Worksheet, gradient: list[int]) -> Iterable[int]:
    """Return the domains to try; for a gang without sub-gangs, best first, so that the first that fits is used."""
    if len(sheet.tasks) != 1:
        return gradient
    return _best_first(session, next(_parts(queue, sheet)), gradient)


def _best_first(session: Session, part: Part, gradient: list[int]) -> Iterator[int]:
    """Yield domains by descending score, computed among the remaining domains."""
    left = list(gradient)
    while len(left) > 1:
        # Scored again for the remaining ones, because plugins score domains relative to each other.
        scores = session.hyper_node_scores(part, left)
        best = max(left, key=lambda domain: scores[domain])
        yield best
        left.remove(best)
    yield from left


def _parts(queue: Queue, sheet: Worksheet) -> Iterator[Part]:
    for key in sheet.tasks:
        yield Part(queue, sheet.job, sheet.job.sub_jobs.get(key))


def _try(session: Session, queue: Queue, sheet: Worksheet, domain: int, before: dict[str, int]) -> Trial | None:
    """Place the gang in a domain; None, with nothing placed, if it does not fit."""
    job, chosen = sheet.job, session.domains.chosen
    session.report.unfit[job.key] = {}
    statement, left, score = session.statement(), sheet.copy(), 0.0
    waiting = [part for part in _parts(queue, sheet) if left.tasks[part.key]]
    while waiting:
        part = waiting.pop(0)
        gained = _place_part(session, statement, part, left.tasks[part.key], domain)
        if gained is None:
            continue
        score += gained
        if left.tasks[part.key]:
            waiting.append(part)
        if session.points.job_ready(job):
            break
    steps = [(op.task, op.row, op.kind == ALLOCATE) for op in statement.operations]
    fits = bool(steps) and (session.points.job_ready(job) or session.points.job_pipelined(job))
    after = {key: chosen[key] for key in (job.key, *job.sub_jobs) if key in chosen}
    # Domains are set when a trial is kept or repeated.
    for key in (job.key, *job.sub_jobs):
        chosen.pop(key, None)
    chosen.update(before)
    if fits:
        return Trial(statement, domain, score, steps, left, after)
    statement.discard()
    return None


def _place_part(session: Session, statement: Statement, part: Part, tasks: list[Task], domain: int) -> float | None:
    """Place a sub-gang in the best of the closest domains inside a domain; return its score, None if it fails."""
    domains = session.domains
    was = domains.chosen.get(part.key, -1)
    for gradient in session.hyper_node_gradient("hyper_node_gradient_for_sub_job", part, domain, ALLOCATION):
        if part.sub_job is None:
            gained = _place_in_first(session, statement, part, tasks, gradient)
        else:
            gained = _place_in_best(session, statement, part, tasks, gradient)
        if gained is not None:
            inner, score = gained
            domains.chosen[part.key] = domains.tree.common(was, inner)
            return score
    return None


def _place_in_first(
    session: Session, statement: Statement, part: Part, tasks: list[Task], gradient: list[int]
) -> tuple[int, float] | None:
    """Place a gang without sub-gangs in the first domain where it fits, as the best domains come first.

    The score does not matter, because this trial is not compared with others.
    """
    for inner in _best_first(session, part, gradient):
        trial, checkpoint = list(tasks), statement.checkpoint()
        if _place_inside(session, statement, part, trial, inner):
            tasks[:] = trial
            return inner, 0.0
        statement.roll_back(checkpoint)
    return None


def _place_in_best(
    session: Session, statement: Statement, part: Part, tasks: list[Task], gradient: list[int]
) -> tuple[int, float] | None:
    """Place a sub-gang in the best of the domains where it fits; this tries all of them."""
    fitting: dict[int, tuple[list[tuple[Task, int, bool]], list[Task]]] = {}
    for inner in gradient:
        trial, checkpoint = list(tasks), statement.checkpoint()
        if _place_inside(session, statement, part, trial, inner):
            operations = statement.operations[checkpoint:]
            fitting[inner] = ([(op.task, op.row, op.kind == ALLOCATE) for op in operations], trial)
        statement.roll_back(checkpoint)
    if not fitting:
        return None
    scores = session.hyper_node_scores(part, list(fitting))
    best = max(fitting, key=lambda inner: scores[inner])
    steps, tasks[:] = fitting[best]
    _take(statement, steps)
    return best, scores[best]


def _place_inside(session: Session, statement: Statement, part: Part, tasks: list[Task], inner: int) -> bool:
    """Place tasks of a part in a domain; return True if any is placed and the part is ready, now or later."""
    chosen = session.domains.chosen
    was, before = chosen.get(part.key, -1), statement.checkpoint()
    # A failure in one domain says nothing about the next, where it would cause its role to be skipped.
    _forget(session, part)
    found = place_tasks(session, statement, part, tasks, inner)
    if was >= 0:
        chosen[part.key] = was
    else:
        chosen.pop(part.key, None)
    return found and statement.checkpoint() > before


def _forget(session: Session, part: Part) -> None:
    """Forget which tasks of a part do not fit."""
    unfit = session.report.unfit.get(part.job.key, {})
    for key in [key for key in unfit if key in part.mates]:
        del unfit[key]


def _take(statement: Statement, steps: list[tuple[Task, int, bool]]) -> None:
    for task, row, free in steps:
        statement.take(task, row, now=free)


def _keep(session: Session, sheet: Worksheet, trial: Trial) -> Statement:
    """Keep a trial, unless the order of ranks along the network requires other places."""
    ordered = in_rank_order(session, trial.steps)
    if ordered != trial.steps and not trial.statement.rearrange([(task, row) for task, row, _ in ordered]):
        trial.statement.discard()
        return _repeat(session, sheet, trial)
    _settle(session, sheet, trial)
    return trial.statement


def _repeat(session: Session, sheet: Worksheet, trial: Trial) -> Statement:
    """Place the tasks of an undone trial again, in the order of their ranks."""
    statement = session.statement()
    _take(statement, in_rank_order(session, trial.steps))
    _settle(session, sheet, trial)
    return statement


def _settle(session: Session, sheet: Worksheet, trial: Trial) -> None:
    """Set the remaining tasks and the domains of the gang from a trial."""
    job, domains = sheet.job, session.domains
    session.report.unfit[job.key] = {}
    sheet.tasks = trial.left.tasks
    was = domains.chosen.get(job.key, -1)
    domains.chosen.update(trial.chosen)
    domains.chosen[job.key] = domains.tree.common(was, trial.domain)


def in_rank_order(session: Session, steps: list[tuple[Task, int, bool]]) -> list[tuple[Task, int, bool]]:
    """Return the same places, with equal tasks in the order of their ranks along the network.

    Tasks of one shape use the same resources of any node, so they can swap places freely. The places are ordered by
    domain, from the widest to the closest, then by node.
    """
    groups: dict[object, list[int]] = {}
    for index, (task, _, free) in enumerate(steps):
        groups.setdefault((session.shape_of(task), free, task.sub_job), []).append(index)
    out = list(steps)
    for indices in groups.values():
        tasks = sorted((steps[i][0] for i in indices), key=lambda t: t.order)
        rows = sorted((steps[i][1] for i in indices), key=session.domains.position)
        for index, task, row in zip(indices, tasks, rows, strict=True):
            out[index] = (task, row, steps[index][2])
    return out
