"""Numbers of pods of a Volcano job by phase, and the resulting phase of the job."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from kilauea.controllers.vcjobs.machine import COMPLETED, FAILED, PENDING, RESTARTING, RUNNING, STOPPING
from kilauea.controllers.vcjobs.members import ENDED, Members
from kilauea.controllers.vcjobs.roster import COUNTED, PodState
from kilauea.controllers.vcjobs.work import Work


@dataclass
class Counts:
    """Pods by phase.

    Attributes:
        by_task: pods that are not being deleted, by phase, by task.
        terminating: pods that are being deleted.
    """

    by_task: dict[str, Counter[str]] = field(default_factory=dict)
    terminating: int = 0

    def add(self, task: str, phase: str, number: int, *, ending: bool) -> None:
        """Count pods of a task."""
        if ending:
            self.terminating += number
        else:
            self.by_task.setdefault(task, Counter())[phase] += number

    def keep(self, recorded: Mapping[str, Any]) -> None:
        """Count at least the recorded pods of each task that had ended: some may have been deleted since."""
        for task, found in recorded.items():
            phases = found.get("phase") or {}
            before = Counter({phase: int(phases[phase]) for phase in ENDED & phases.keys()})
            if before:
                self.by_task[task] = self.by_task.get(task, Counter()) | before

    def of(self, phase: str) -> int:
        """Pods in a phase."""
        return sum(counter[phase] for counter in self.by_task.values())

    def fields(self) -> dict[str, Any]:
        """The fields of the status, without zeros."""
        fields: dict[str, Any] = {phase.lower(): self.of(phase) for phase in COUNTED}
        fields["terminating"] = self.terminating
        phases = {task: dict(sorted(counter.items())) for task, counter in self.by_task.items()}
        fields["taskStatusCount"] = {task: {"phase": phases[task]} for task in sorted(phases)}
        return {name: value for name, value in fields.items() if value}


def count(work: Work, members: Members, gone: frozenset[str] = frozenset()) -> Counts:
    """Count the desired pods of a job; surplus ones are left out.

    Args:
        work: the job.
        members: its pods.
        gone: names of pods to be deleted.
    """
    counts = Counts()
    for task in work.tasks:
        found = members.of(task.name)
        if not gone and found.are_within(task.replicas):
            for state, number in found.states.items():
                counts.add(task.name, state.phase, number, ending=state.going or members.must_go(state))
            continue
        for name in members.names(task) if len(found) else ():
            member = found.get(name)
            if member is not None:
                state = member.state
                ending = state.going or name in gone or members.must_go(state)
                counts.add(task.name, state.phase, 1, ending=ending)
    return counts


def count_ending(work: Work, members: Members, is_doomed: Callable[[PodState], bool], *, keep: bool) -> Counts:
    """Count the pods of a job that ends or restarts: those that stay, and all terminating ones.

    Args:
        work: the job.
        members: its pods.
        is_doomed: returns True for a state in which pods will be deleted.
        keep: True to keep the recorded counts of ended pods even if these are deleted, as for a job that is or will be
            stopped.
    """
    counts = Counts(terminating=members.count(lambda state: state.going or is_doomed(state)))
    for task in work.tasks:
        found = members.of(task.name)
        if found.are_within(task.replicas):
            for state, number in found.states.items():
                if not (state.going or is_doomed(state)):
                    counts.add(task.name, state.phase, number, ending=False)
            continue
        for member in found.where(lambda state: not (state.going or is_doomed(state))):
            if 0 <= member.index < task.replicas:
                counts.add(task.name, member.state.phase, 1, ending=False)
    if keep:
        counts.keep(work.status.get("taskStatusCount") or {})
    return counts


def next_phase(work: Work, counts: Counts) -> str:
    """Return the next phase of a job with these counts, unless something else happens."""
    phase = work.phase or PENDING
    if phase == RESTARTING:
        return _after_restarting(work, counts)
    if phase == RUNNING:
        return _after_running(work, counts)
    if phase in STOPPING:
        busy = counts.terminating + counts.of("Pending") + counts.of("Running")
        return phase if busy else STOPPING[phase]
    if phase == PENDING:
        started = counts.of("Running") + counts.of("Succeeded") + counts.of("Failed")
        return RUNNING if started >= work.min_available else PENDING
    return phase


def _after_restarting(work: Work, counts: Counts) -> str:
    if work.retries >= work.max_retry:
        return FAILED
    minimum = work.status.get("minAvailable") or 0
    return PENDING if work.replicas - counts.terminating >= minimum else RESTARTING


def _after_running(work: Work, counts: Counts) -> str:
    if not work.replicas:
        return RUNNING
    succeeded = counts.of("Succeeded")
    if work.min_success and succeeded >= work.min_success:
        return COMPLETED
    if succeeded + counts.of("Failed") == work.replicas:
        return COMPLETED if _has_succeeded(work, counts) else FAILED
    return PENDING if counts.of("Pending") > work.replicas - work.min_available else RUNNING


def _has_succeeded(work: Work, counts: Counts) -> bool:
    """Return True if a job whose pods have all ended has succeeded."""
    if work.min_available >= sum(task.minimum for task in work.tasks):
        for task in work.tasks:
            found = counts.by_task.get(task.name)
            if task.min_available is not None and found and found["Succeeded"] < task.min_available:
                return False
    if work.min_success:
        return False
    return counts.of("Succeeded") >= work.min_available
