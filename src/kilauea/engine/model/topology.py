"""Network topology of gangs in a session: their requests, and their current domains.

Spec of the scheduler, 3.2; of the node plugins, 10.2.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from kilauea.api.scheduling import NetworkTopology
from kilauea.engine.model.hypernodes import HyperNodeTree
from kilauea.engine.model.jobs import Job
from kilauea.engine.model.status import CHARGED
from kilauea.engine.model.subjobs import SubJob


@dataclass(frozen=True, slots=True)
class Closeness:
    """The network topology that a gang requests, with tiers as numbers.

    Attributes:
        tier: the highest tier of a domain that contains the whole gang; None if the tier does not exist, so the wish
            has no effect.
        soft: True if closer domains are only preferred.
    """

    tier: int | None
    soft: bool = False


def closeness(wish: NetworkTopology | None, tree: HyperNodeTree, around: Closeness | None) -> Closeness | None:
    """Resolve a wish against the tree; None without a wish. `around` is that of the job, for one of its sub-gangs."""
    if wish is None:
        return None
    if wish.mode == "soft":
        limit = around.tier if around is not None and around.tier is not None else tree.tiers[0]
        return Closeness(limit, soft=True)
    if wish.highest_tier_allowed is not None:
        return Closeness(wish.highest_tier_allowed)
    return Closeness(tree.tier_names.get(wish.highest_tier_name or ""))


class Domains:
    """The domains of the gangs of a session, and their network topology."""

    def __init__(self, tree: HyperNodeTree, row_of: dict[str, int]) -> None:
        self.tree = tree
        self._row_of = row_of
        self._order = {number: index for index, number in enumerate(_depth_first(tree, 0))}
        self._closeness: dict[str, Closeness | None] = {}
        self._known: dict[tuple[int, int], tuple[list[list[int]], frozenset[int]]] = {}
        self._positions: dict[int, tuple[int, int]] = {}
        self.chosen: dict[str, int] = {}
        """By job or sub-gang: the domain that its placed tasks are in."""

    def of_job(self, job: Job) -> Closeness | None:
        """The wish of the job itself."""
        if job.key not in self._closeness:
            self._closeness[job.key] = closeness(job.topology, self.tree, None)
        return self._closeness[job.key]

    def of(self, job: Job, sub_job: SubJob | None) -> Closeness | None:
        """The wish of a sub-gang; of the job, for a job without sub-gangs."""
        if sub_job is None:
            return self.of_job(job)
        key = f"{sub_job.key}/"
        if key not in self._closeness:
            self._closeness[key] = closeness(sub_job.topology, self.tree, self.of_job(job))
        return self._closeness[key]

    def wishes(self, job: Job) -> bool:
        """Return True if the job or any of its sub-gangs has a wish."""
        return job.topology is not None or any(s.topology is not None for s in job.sub_jobs.values())

    def binds(self, job: Job) -> bool:
        """Return True if the job or any of its sub-gangs must be inside one domain (softly, of any tier)."""
        parts: list[SubJob | None] = [None, *job.sub_jobs.values()]
        return any((c := self.of(job, part)) is not None and c.tier is not None for part in parts)

    def problem(self, job: Job) -> str:
        """Return the reason why no domain can satisfy a hard wish of the job, even if empty; empty if one can."""
        for wish in (job.topology, *(sub_job.topology for sub_job in job.sub_jobs.values())):
            if wish is None or wish.mode == "soft":
                continue
            limit, name = wish.highest_tier_allowed, wish.highest_tier_name or ""
            if limit is not None and limit < self.tree.distinct_tiers[0]:
                return f"its network topology allows tier {limit} at most (highestTierAllowed); {self._tiers()}"
            if limit is None and name and name not in self.tree.tier_names:
                return f"its network topology names tier {name!r} (highestTierName); {self._tiers()}"
        return ""

    def _tiers(self) -> str:
        """List the existing tiers, with their names."""
        names = {tier: name for name, tier in self.tree.tier_names.items()}
        tiers = sorted(set(self.tree.tiers[1:]))
        if not tiers:
            return "there are no HyperNodes"
        return f"HyperNodes have tiers {', '.join(f'{t} ({names[t]!r})' if t in names else str(t) for t in tiers)}"

    def gradient(self, key: str, tier: int, domain: int) -> list[list[int]]:
        """Domains inside a domain where a part may be placed, by tier from the closest.

        Args:
            key: key of the job or sub-gang.
            tier: the highest allowed tier.
            domain: the domain to search; the search is also limited to the domain of the part's placed tasks.
        """
        return [list(group) for group in self._allowed(self.search_root(key, tier, domain), tier)[0]]

    def allowed(self, key: str, tier: int, domain: int) -> frozenset[int]:
        """Return the domains of all tiers of the gradient."""
        return self._allowed(self.search_root(key, tier, domain), tier)[1]

    def _allowed(self, start: int, tier: int) -> tuple[list[list[int]], frozenset[int]]:
        """The domains inside a domain up to a tier, by tier from the closest and together; shared by many gangs."""
        known = self._known.get((start, tier))
        if known is None:
            by_tier: dict[int, list[int]] = {}
            for number in self.tree.within(start) if start >= 0 else ():
                if self.tree.tiers[number] <= tier:
                    by_tier.setdefault(self.tree.tiers[number], []).append(number)
            found = frozenset(number for group in by_tier.values() for number in group)
            known = self._known[start, tier] = ([by_tier[tier] for tier in sorted(by_tier)], found)
        return known

    def search_root(self, key: str, tier: int, domain: int) -> int:
        """Return the domain where the search starts: the given one, narrowed to the part's placed tasks; -1 if none."""
        placed = self.chosen.get(key, -1)
        if placed < 0:
            return domain
        if self.tree.tiers[placed] > tier:
            return -1
        around = placed
        while (up := self.tree.parents[around]) >= 0 and self.tree.tiers[up] <= tier:
            around = up
        if self.tree.inside(around, domain):
            return around
        return domain if self.tree.inside(domain, around) else -1

    def locate(self, job: Job) -> None:
        """Find the domains of the placed and nominated tasks of a job and its sub-gangs."""
        for sub_job in job.sub_jobs.values():
            self._set(sub_job.key, self._around(sub_job))
        if job.sub_jobs:
            parts = [self.chosen.get(sub_job.key, -1) for sub_job in job.sub_jobs.values()]
            around = -1
            for part in parts:
                around = self.tree.common(around, part)
            self._set(job.key, around)
        else:
            self._set(job.key, self._around(job))

    def _around(self, part: Job | SubJob) -> int:
        rows = [self._row_of[t.node] for t in part.tasks.values() if t.status in CHARGED and t.node in self._row_of]
        return self.tree.smallest_around(sorted(set(rows)))

    def position(self, row: int) -> tuple[int, int]:
        """Sort key of nodes along the network: by domain, from the widest to the closest, then by row."""
        known = self._positions.get(row)
        if known is None:
            inner = max(self.tree.of_node[row], key=lambda number: (-self.tree.tiers[number], -number))
            known = self._positions[row] = self._order[inner], row
        return known

    def _set(self, key: str, domain: int) -> None:
        if domain >= 0:
            self.chosen[key] = domain
        else:
            self.chosen.pop(key, None)


def _depth_first(tree: HyperNodeTree, number: int) -> Iterator[int]:
    waiting = [number]
    while waiting:
        number = waiting.pop()
        yield number
        waiting.extend(reversed(tree.children[number]))
