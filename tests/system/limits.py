"""What queues may still take, by the figures of the scheduler's last plan."""

from __future__ import annotations

from kilauea.api.kinds import QUEUES
from system.cluster import System


class Limits:
    """What queues may still take, by the figures of the last plan."""

    def __init__(self, system: System) -> None:
        self._above = ("",) if system.policy.queues == "tree" else ("", "root")
        """Queues of which no one asks whether they have room."""
        self._proportion = system.policy.queues == "proportion"
        self._states = {each["metadata"]["name"]: each for each in system.users.all(QUEUES)}
        plan = system.laws.plan
        self._figures = plan.queues if plan is not None else {}

    def allow(self, queue: str, cores: int) -> bool:
        """Whether a queue, and those above it, may take so many more cores."""
        while queue not in self._above:
            found = self._figures.get(queue)
            if found is None or self._states[queue]["status"].get("state") != "Open":
                return False
            after = found.allocated.get("cpu", 0) + cores * 1000
            kept = found.inqueue.get("cpu", 0) - found.elastic.get("cpu", 0)
            limits = [(after, found.capability), (max(after, after + kept), found.real_capability)]
            if self._proportion:
                limits.append((after, found.deserved))
            if any(end is not None and amount > end.get("cpu", amount) for amount, end in limits):
                return False
            queue = found.parent
        return True
