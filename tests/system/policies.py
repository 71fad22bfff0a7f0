"""Configurations of the scheduler under which histories are played: who shares how, and who is evicted for whom."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product
from random import Random

QUEUES = ("capacity", "proportion", "tree")
"""`tree` is the plugin capacity with its hierarchy."""
EVICTIONS = ("preempt, reclaim", "gangpreempt, gangreclaim", "")


@dataclass(frozen=True)
class Policy:
    """A configuration.

    Attributes:
        queues: one of `QUEUES`.
        evictions: the actions that evict.
        budgets: whether disruption budgets count.
        shares: whether drf lets jobs with smaller shares evict, where no victim is less important.
        jobs: whether users have Volcano's jobs.
        admission: whether Volcano's admission is asked.
        standby: whether there are two schedulers, of which one holds the lease.
        text: the file.
    """

    queues: str
    evictions: str
    budgets: bool
    shares: bool
    jobs: bool
    admission: bool
    standby: bool
    text: str

    @property
    def name(self) -> str:
        """For reports."""
        more = [*(["pdb"] if self.budgets else []), *(["drf"] if self.shares else [])]
        more += [*(["standby"] if self.standby else [])]
        more += [*(["jobs"] if self.jobs else []), *(["admission"] if self.admission else [])]
        return ", ".join([f"{self.queues}: {self.evictions or 'no evictions'}", *more])


def policy_of(seed: int) -> Policy:
    """The configuration of a seed; nine that follow each other have each pair of queues and evictions once."""
    rng = Random(f"policy {seed}")
    queues, evictions = list(product(QUEUES, EVICTIONS))[seed % 9]
    budgets, shares = rng.random() < 0.5, rng.random() < 0.5
    first = ["priority", "gang", "conformance", *(["pdb"] if budgets else [])]
    plugin = "capacity\n    enabledHierarchy: true" if queues == "tree" else queues
    second = [*(["drf"] if shares else []), "predicates", plugin, rng.choice(("nodeorder", "binpack"))]
    actions = ", ".join(filter(None, ("enqueue", "allocate", evictions, "backfill")))
    tiers = "".join("- plugins:\n" + "".join(f"  - name: {name}\n" for name in tier) for tier in (first, second))
    jobs, admission, standby = rng.random() < 0.7, rng.random() < 0.5, rng.random() < 0.25
    text = f'actions: "{actions}"\ntiers:\n{tiers}'
    return Policy(queues, evictions, budgets, shares, jobs, admission, standby, text)
