"""The report of a cycle: its decisions, and the reasons why tasks wait. The plan is built from it."""

from __future__ import annotations

from kilauea.engine.conf import Finding
from kilauea.engine.evaluation import Unfit
from kilauea.engine.extension import Refusal
from kilauea.engine.model import status
from kilauea.engine.model.jobs import Job
from kilauea.engine.model.tasks import Task
from kilauea.engine.plan import Bind, Condition, Eviction, Release


class Report:
    """Decisions and reasons of one cycle, which actions and plugins add."""

    def __init__(self) -> None:
        self.findings: list[Finding] = []
        """Warnings."""
        self.binds: list[Bind] = []
        self.evictions: list[Eviction] = []
        self.released: dict[str, Release] = {}
        """Resource claims that return their devices."""
        self.conditions: dict[str, Condition] = {}
        """Conditions that the gang plugin sets, by job."""
        self.refusals: dict[str, Refusal] = {}
        """Reasons why jobs were refused before any node was evaluated, by job."""
        self.task_refusals: dict[str, Refusal] = {}
        """Reasons why tasks were refused before any node was evaluated, by task."""
        self.unfit: dict[str, dict[str, Unfit | Refusal]] = {}
        """Reasons why no node can run a task, by job and task."""
        self.had_room: set[str] = set()
        """Tasks that fit on a node, but were removed again because their gang did not fit."""

    def refuse(self, subject: Job | Task, refusal: Refusal) -> None:
        """Set the reason why a job or a task was skipped; the plan shows it while the task waits."""
        if isinstance(subject, Job):
            self.refusals[subject.key] = refusal
        else:
            self.task_refusals[subject.key] = refusal

    def withdraw(self, task: Task) -> None:
        """Remove the start of a task."""
        self.binds = [bind for bind in self.binds if bind.pod != task.key]

    def fit_error(self, job: Job) -> str:
        """Return the reason why a gang is not ready, in Volcano's words (spec of the scheduler, 1.5.7)."""
        parts = [f"{count} {name}" for name, count in counts_of(job).items()]
        parts.append(f"{job.min_available} minAvailable")
        text = f"pod group is {'ready' if job.is_ready else 'not ready'}, {', '.join(sorted(parts))}"
        waiting = list(job.pending())
        if waiting:
            room = sum(1 for task in waiting if task.key in self.had_room)
            reasons = [f"{n} {r}" for n, r in ((room, "Schedulable"), (len(waiting) - room, "Unschedulable")) if n]
            text += f"; Pending: {', '.join(sorted(reasons))}"
        refusal = self.refusals.get(job.key)
        if refusal is not None:
            return f"{text}. Origin reason is: {refusal.message}"
        unfit = self.unfit.get(job.key, {})
        if unfit:
            task = min((job.tasks[key] for key in unfit), key=lambda t: t.order)
            return f"{text}. Origin reason is {task.name}: {unfit[task.key].message}"
        return text


def counts_of(job: Job) -> dict[str, int]:
    """Return the number of a job's tasks by name of their status, without zeros."""
    return {name: count for name, count in zip(status.NAMES, job.counts, strict=True) if count}
