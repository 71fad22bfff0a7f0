"""All or nothing: a pod group starts when its minimum is placed, and not before.

What:
    A job is ready when `minMember` of its tasks are placed, and each role has its own minimum. Until then, its
    placements are tentative and are undone together. Jobs that are not ready go first. Evictions do not reduce a
    running gang below its minimum. A pod that requests nothing counts as placed while it waits, so its gang does not
    wait for it.

Why:
    Half of a training job holds accelerators and computes nothing; two halves block each other forever.

Arguments:
    None. The flags `enableJobReady`, `enableJobPipelined`, `enableJobStarving`, `enablePreemptable`,
    `enableReclaimable` and `enableJobOrder` enable and disable its parts.

    A job below its minimum is starving. The actions preempt and gangpreempt evict pods only for starving jobs; so do
    reclaim and gangreclaim with `reclaimFor: starving`. If `enableJobStarving` is off for each plugin that detects
    starving jobs (gang, priority, tdm), these actions do nothing. Without `reclaimFor: starving`, reclaim and
    gangreclaim serve every pending pod, starving or not.

Example:
    tiers:
    - plugins:
      - name: gang
        enablePreemptable: false

Difference from the original:
    A pod that this plugin protects stays protected, even if other plugins in the same tier or in later tiers select it.
"""

from __future__ import annotations

from collections.abc import Sequence

from kilauea.engine.extension import PERMIT, REJECT, Refusal, SpareReason, Spares
from kilauea.engine.model import status
from kilauea.engine.model.jobs import Job
from kilauea.engine.model.tasks import Task
from kilauea.engine.plan import Condition
from kilauea.engine.plugin import Plugin
from kilauea.engine.session import Session

AT_MINIMUM = SpareReason("GangAtMinimum", "its gang has no pod beyond its minimum")


class Gang(Plugin):
    """See the module."""

    name = "gang"
    depends_on_time = False

    def on_session_open(self, session: Session) -> None:
        self._session = session
        session.add_job_valid(self.name, valid)
        session.add_job_order(self.name, lambda job: job.is_ready)
        session.add_sub_job_order(self.name, lambda sub_job: sub_job.is_ready)
        session.add_sub_job_ready(self.name, lambda sub_job: sub_job.is_ready)
        session.add_sub_job_pipelined(self.name, lambda sub_job: PERMIT if sub_job.is_pipelined else REJECT)
        session.add_job_ready(self.name, ready)
        session.add_job_pipelined(self.name, lambda job: PERMIT if pipelined(job) else REJECT)
        session.add_job_starving(self.name, lambda job: job.is_starving)
        session.add_preemptable(self.name, self._surplus, veto=True, why=AT_MINIMUM, spares=Spares.AT_MINIMUM)
        session.add_reclaimable(self.name, self._surplus, veto=True, why=AT_MINIMUM, spares=Spares.AT_MINIMUM)
        session.add_unified_evictable(self.name, lambda _, candidates: (candidates, PERMIT), veto=True)

    def _surplus(self, _: Task, candidates: Sequence[Task]) -> tuple[list[Task], int]:
        """Return the candidates beyond the minimum of their gangs, in the given order."""
        left: dict[str, int] = {}
        victims = []
        for task in candidates:
            job = self._session.state.jobs.get(task.group)
            if job is None:
                continue
            # Gangs that start in this cycle do not work yet: evicting them as a whole breaks no gang, and their tasks
            # do not replace running ones.
            if task.status == status.BINDING:
                victims.append(task)
                continue
            running = left.setdefault(job.key, job.ready_count - job.counts[status.BINDING])
            if running > job.min_available and not job.whole:
                left[job.key] = running - 1
                victims.append(task)
        return victims, PERMIT

    def on_session_close(self, session: Session) -> None:
        table = session.table
        counts = table.counts[:, : len(table)]
        unready = counts[list(status.READY)].sum(axis=0) < table.min_available[: len(table)]
        jobs = {job.key: job for job in session.jobs_where(unready)}
        jobs.update((job.key, job) for job in session.ledger.touched.values() if job.queue in session.queues)
        for job in jobs.values():
            if job.tasks:
                self._conclude(session, job)

    def _conclude(self, session: Session, job: Job) -> None:
        if job.is_ready:
            session.report.conditions[job.key] = Condition("Scheduled", "tasks in gang are ready to be scheduled", "")
            return
        releasing = job.releasing_count
        waits = job.counts[status.PENDING] or job.counts[status.PIPELINED]
        if releasing and not waits and job.scheduled_count + releasing >= job.min_available:
            return
        room = sum(1 for task in job.pending() if task.key in session.report.had_room)
        missing = job.min_available - job.ready_count - room
        message = f"{missing}/{len(job.tasks)} tasks in gang unschedulable: {session.report.fit_error(job)}"
        session.report.conditions[job.key] = Condition("Unschedulable", "NotEnoughResources", message)


def valid(job: Job) -> Refusal | None:
    """Return the reason why the job has too few pods ever to start; None if it has enough."""
    if not job.roles_have((*status.READY, status.PIPELINED, status.PENDING)):
        return Refusal("NotEnoughPodsOfTask", "Not enough valid pods of each task for gang-scheduling", job.queue)
    if not job.sub_groups_have(lambda _: True):
        message = "Not enough valid subGroups of each task for gang-scheduling"
        return Refusal("NotEnoughPodsOfTask", message, job.queue)
    if job.valid_count < job.min_available:
        message = f"Not enough valid tasks for gang-scheduling, valid: {job.valid_count}, min: {job.min_available}"
        return Refusal("NotEnoughTasks", message, job.queue)
    return None


def ready(job: Job) -> bool:
    """Return True if the minimum is placed, in total, for each role and for each sub-group."""
    roles = job.roles_have(status.READY, best_effort_too=True)
    return job.is_ready and roles and job.sub_groups_have(lambda sub_job: sub_job.is_ready)


def pipelined(job: Job) -> bool:
    """Return True if the minimum is placed or nominated, in total, for each role and for each sub-group."""
    roles = job.roles_have((*status.READY, status.PIPELINED), best_effort_too=True)
    return job.is_pipelined and roles and job.sub_groups_have(lambda sub_job: sub_job.is_pipelined)
