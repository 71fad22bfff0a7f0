"""Points at which plugins vote, tier by tier."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from kilauea.engine.extension.points.answers import PluginFault
from kilauea.engine.extension.points.registry import Registry
from kilauea.engine.model.jobs import Job
from kilauea.engine.plan import Refusal


class VotePoints(Registry):
    """Admission of jobs, nominations of gangs, and starving gangs."""

    # --- votes

    def add_job_enqueueable(self, plugin: str, vote: Callable[[Job], tuple[int, Refusal | None]]) -> None:
        """Add a vote on admitting a job, with the reason of a rejection."""
        self.add("job_enqueueable", plugin, vote)

    def add_job_enqueued(self, plugin: str, told: Callable[[Job], None]) -> None:
        """Add a function that is called for each admitted job."""
        self.add("job_enqueued", plugin, told)

    def add_job_pipelined(self, plugin: str, vote: Callable[[Job], int]) -> None:
        """Add a vote: enough tasks of a job are placed or nominated to keep these."""
        self.add("job_pipelined", plugin, vote)

    def add_sub_job_pipelined(self, plugin: str, vote: Callable[[Any], int]) -> None:
        """Add a vote as `add_job_pipelined`, for a sub-gang."""
        self.add("sub_job_pipelined", plugin, vote)

    def add_job_starving(self, plugin: str, starving: Callable[[Job], bool]) -> None:
        """Add a check: True if a job lacks tasks badly enough to evict others."""
        self.add("job_starving", plugin, starving)

    def job_enqueueable(self, job: Job) -> Refusal | None:
        """Return the reason why a job is not admitted; None if it is.

        In each tier, a rejection rejects the job; otherwise a permit admits it without asking the next tier. If all
        abstain, it is admitted.
        """
        for tier in self.tiers_of("job_enqueueable"):
            permitted = False
            for plugin, function in tier:
                answer = self.ask("job_enqueueable", plugin, function, job)
                if not (isinstance(answer, tuple) and len(answer) == 2 and isinstance(answer[0], int)):
                    expected = "a vote (PERMIT, ABSTAIN, REJECT) and a refusal or None"
                    raise PluginFault(plugin, "job_enqueueable", f"expected {expected}, got {answer!r}")
                vote, refusal = answer
                if vote < 0:
                    return refusal or Refusal("NotAdmitted", f"not admitted by plugin {plugin}", job.queue)
                permitted = permitted or vote > 0
            if permitted:
                return None
        return None

    def job_enqueued(self, job: Job) -> None:
        """Notify all plugins that a job was admitted."""
        self._all("job_enqueued", job)

    def job_pipelined(self, job: Job) -> bool:
        """Return the votes, combined as for admission."""
        return self._vote("job_pipelined", job)

    def sub_job_pipelined(self, job: Job, sub_job: Any = None) -> bool:
        """Return the votes, combined as for admission; the vote is on the whole job if it has no sub-gangs."""
        return self._vote("job_pipelined", job) if sub_job is None else self._vote("sub_job_pipelined", sub_job)

    def _vote(self, point: str, subject: object) -> bool:
        for tier in self.tiers_of(point):
            votes = [self._vote_of(point, plugin, function, subject) for plugin, function in tier]
            if any(vote < 0 for vote in votes):
                return False
            if any(vote > 0 for vote in votes):
                return True
        return True

    def _vote_of(self, point: str, plugin: str, function: Callable[..., Any], subject: object) -> int:
        vote = self.ask(point, plugin, function, subject)
        if not isinstance(vote, int):
            raise PluginFault(plugin, point, f"expected a vote (PERMIT, ABSTAIN, REJECT), got {vote!r}")
        return vote

    def job_starving(self, job: Job) -> bool:
        """Return True if all plugins of the first tier with a plugin agree; False without a plugin."""
        for tier in self.tiers_of("job_starving"):
            return all(self.ask("job_starving", plugin, function, job) for plugin, function in tier)
        return False
