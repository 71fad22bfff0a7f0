"""Points at which plugins vote, tier by tier."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from kilauea.engine.extension.points.answers import PluginFault
from kilauea.engine.extension.points.registry import Registry
from kilauea.engine.model.jobs import Job
from kilauea.engine.plan import Refusal


class VotePoints(Registry):
    """Admission of jobs, promises to gangs, and which gangs starve."""

    # --- votes

    def add_job_enqueueable(self, plugin: str, vote: Callable[[Job], tuple[int, Refusal | None]]) -> None:
        """Vote on admitting a job; a rejection says why."""
        self.add("job_enqueueable", plugin, vote)

    def add_job_enqueued(self, plugin: str, told: Callable[[Job], None]) -> None:
        """To be told of each job that was admitted."""
        self.add("job_enqueued", plugin, told)

    def add_job_pipelined(self, plugin: str, vote: Callable[[Job], int]) -> None:
        """Vote on whether placed and promised tasks are enough to hold on to them."""
        self.add("job_pipelined", plugin, vote)

    def add_sub_job_pipelined(self, plugin: str, vote: Callable[[Any], int]) -> None:
        """As `add_job_pipelined`, of a sub-gang."""
        self.add("sub_job_pipelined", plugin, vote)

    def add_job_starving(self, plugin: str, starving: Callable[[Job], bool]) -> None:
        """Add a check: True if a job lacks tasks badly enough to evict others."""
        self.add("job_starving", plugin, starving)

    def job_enqueueable(self, job: Job) -> Refusal | None:
        """Return the reason why a job is not admitted; None if it is.

        In each tier any rejection ends it; a permit in a tier admits without asking the next; if all abstain it is
        admitted.
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
        """Tell all plugins that a job was admitted."""
        self._all("job_enqueued", job)

    def job_pipelined(self, job: Job) -> bool:
        """Votes combined as for admission."""
        return self._vote("job_pipelined", job)

    def sub_job_pipelined(self, job: Job, sub_job: Any = None) -> bool:
        """Votes combined as for admission; a job without sub-gangs is asked about as a whole."""
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
        """The first tier with a plugin decides, where all must agree; false if there is none."""
        for tier in self.tiers_of("job_starving"):
            return all(self.ask("job_starving", plugin, function, job) for plugin, function in tier)
        return False
