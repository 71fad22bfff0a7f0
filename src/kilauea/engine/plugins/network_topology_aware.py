"""Keep gangs close together in the network.

What:
    A pod group with `networkTopology` is placed in the closest network domain (HyperNode) that has room for all of it:
    with mode `hard`, within the tier that it allows; with mode `soft`, as close together as possible. Sub-groups have
    their own constraints. Among the domains of a tier, the fullest one that fits is used, and in it the nodes closest
    to the gang's other tasks. Other pods are packed into domains that are in use. With mode `hard`, a domain needs room
    for all pending pods of the group, not just for its minimum.

Why:
    Workers that exchange gradients continuously are as fast as the slowest link between them.

Arguments:
    weight (integer, 1): weight of the scores.
    hypernode.binpack.cpu (integer, 1), hypernode.binpack.memory (integer, 1): weights of cpu and memory when computing
    how full a domain is.
    hypernode.binpack.resources (text, ""): additional resources, separated by commas.
    hypernode.binpack.resources.NAME (integer, 1): weight of one of them.
    hypernode.binpack.normal-pod.enable (true or false, true): score nodes for pods without `networkTopology`.
    hypernode.binpack.normal-pod.fading (number, 0.8): factor by which each further tier counts less for them.
    hypernode.gradient.evict.max-hypernodes (integer, 8): maximum number of domains to consider for evictions.

Example:
    tiers:
    - plugins:
      - name: network-topology-aware
        arguments:
          weight: 10

Difference from the original:
    Mode `hard` is enforced without this plugin, too, and a tier that does not exist keeps a gang waiting. An invalid
    HyperNode is ignored, where Volcano stops all gangs with `networkTopology`. The free capacity of a domain is updated
    within a cycle. The domain of a gang that runs in part is found again from its pods, for every sub-group. Ranks are
    ordered along the network.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from kilauea.engine.conf import argument
from kilauea.engine.evaluation import kernels
from kilauea.engine.model.jobs import Job
from kilauea.engine.model.nodes import NodeRows
from kilauea.engine.model.resources import ALWAYS, CPU, EPSILON, MEMORY, Amounts, add, largest
from kilauea.engine.model.shapes import TaskShape
from kilauea.engine.model.status import PENDING
from kilauea.engine.model.task_specs import TaskSpec
from kilauea.engine.model.tasks import Task
from kilauea.engine.model.topology import Closeness
from kilauea.engine.placement.tasks import Part
from kilauea.engine.plugin import Plugin
from kilauea.engine.session import Session

NO_WEIGHTS: dict[str, int] = {}


MANY_TIERS = 16
"""Maximum number of tiers for which the fullness of domains is summed tier by tier, in the order of the spec."""


@dataclass(frozen=True)
class TopologyArguments:
    """Arguments of network-topology-aware."""

    weight: int = argument("weight", 1, "Weight of the scores.", minimum=0)
    cpu: int = argument("hypernode.binpack.cpu", 1, "Weight of cpu.", minimum=0)
    memory: int = argument("hypernode.binpack.memory", 1, "Weight of memory.", minimum=0)
    resources: str = argument("hypernode.binpack.resources", "", "Additional resources, separated by commas.")
    resource_weights: dict[str, int] = argument(
        "hypernode.binpack.resources.", NO_WEIGHTS, "Weight of one of them.", minimum=0
    )
    normal_pods: bool = argument(
        "hypernode.binpack.normal-pod.enable", True, "Score nodes for pods without `networkTopology`."
    )
    fading: float = argument("hypernode.binpack.normal-pod.fading", 0.8, "How much less each tier counts.", minimum=0)
    evict_domains: int = argument(
        "hypernode.gradient.evict.max-hypernodes", 8, "Domains to consider for evictions.", minimum=1
    )


class Counted(NamedTuple):
    """The resources that count for the fullness of domains."""

    rows: NDArray[np.intp]
    asked: NDArray[np.int64]
    """(r, 1)"""
    weights: NDArray[np.float64]
    """(r, 1)"""
    whole: float
    """Sum of the weights."""
    offered: NDArray[np.int64]
    """(r, H)"""
    everywhere: bool
    """True if all domains offer all of them."""


class NetworkTopologyAware(Plugin):
    """See the module."""

    name = "network-topology-aware"
    depends_on_time = False
    Arguments = TopologyArguments

    def on_session_open(self, session: Session) -> None:
        self._session = session
        self._tree = session.domains.tree
        self._settle_weights()
        self._changed = -1
        """The part of the list of changes that the sums contain; -1 initially."""
        self._totals: dict[str, dict[str, float]] = {}
        """By part: the requests of all its tasks."""
        self._waiting: tuple[tuple[str, int], dict[str, float]] = (("", -1), {})
        """Requests of the waiting tasks of a part; by part and number of changes, only the latest."""
        self._near: dict[int, NDArray[np.float64]] = {}
        """By domain: nearness of the closest domains to it."""
        self._held: dict[str, NDArray[np.float64]] = {}
        """By job or sub-gang: its tasks in each of the closest domains."""
        self._sizes: dict[str, int] = {}
        self._counted: dict[TaskSpec, Counted] = {}
        """By spec: the resources that count for the fullness of domains."""
        session.add_hyper_node_gradient_for_job(self.name, self._for_job)
        session.add_hyper_node_gradient_for_sub_job(self.name, self._for_part)
        session.add_hyper_node_order(self.name, self._order)
        session.add_batch_node_score(self.name, self._score, applies=self._applies)
        self._alone = len(self._tree.names) == 1
        if not self._alone and any(self._session.domains.wishes(job) for job in session.waiting_jobs()):
            session.add_event_handler(
                self.name, lambda t, row: self._hold(t, row, 1), lambda t, row: self._hold(t, row, -1), counts=True
            )

    @cached_property
    def _offered(self) -> NDArray[np.int64]:
        """(R, H) the offers of the domains."""
        return self._sums(self._session.nodes.allocatable)

    def _settle_weights(self) -> None:
        given: TopologyArguments = self.arguments
        listed = [name.strip() for name in given.resources.split(",") if name.strip()]
        self._weights = {name: given.resource_weights.get(name, 1) for name in listed}
        self._weights |= {CPU: given.cpu, MEMORY: given.memory}

    # --- fullness of domains

    def _sums(self, column: NDArray[np.int64]) -> NDArray[np.int64]:
        """(R, H) sums of a column over the nodes of each domain."""
        return np.stack([column[:, rows].sum(axis=1) for rows in self._tree.rows], axis=1)

    def _follow(self) -> None:
        """Update the sums with the changes of nodes."""
        nodes = self._session.nodes
        if self._changed < 0:
            self._used = self._sums(nodes.used)
            self._moving = self._sums(nodes.pipelined) - self._sums(nodes.releasing)
            self._seen = self._figures().copy()
        elif self._changed < len(nodes.changed):
            figures, resources = self._figures(), len(nodes.axis)
            for row in dict.fromkeys(nodes.changed[self._changed :]):
                grown = figures[:, row] - self._seen[:, row]
                # Abandoned attempts have changed nodes and changed them back.
                if not grown.any():
                    continue
                self._seen[:, row] += grown
                used, moving = grown[:resources], grown[2 * resources :] - grown[resources : 2 * resources]
                for holder in self._tree.of_node[row]:
                    self._used[:, holder] += used
                    if nodes.future:
                        self._moving[:, holder] += moving
        self._changed = len(nodes.changed)

    def _figures(self) -> NDArray[np.int64]:
        """(3 R, N) used, releasing and pipelined amounts of the nodes, in the order of the table."""
        resources = len(self._session.nodes.axis)
        return self._session.nodes.block[resources : 4 * resources]

    # --- domains to try

    def _for_job(self, job: Job, domain: int, purpose: str) -> list[list[int]]:
        needed: Amounts = job.min_resources or {}
        if not job.sub_jobs:
            # A gang without sub-gangs needs room for all pending tasks; domains without it are not tried.
            needed = largest(needed, self._asked(job.key, job.tasks))
        return self._gradient(job.key, self._session.domains.of_job(job), needed, domain, purpose)

    def _for_part(self, part: Part, domain: int, purpose: str) -> list[list[int]]:
        wish = self._session.domains.of(part.job, part.sub_job)
        return self._gradient(part.key, wish, self._asked(part.key, part.mates), domain, purpose)

    def _asked(self, key: str, mates: Mapping[str, Task]) -> dict[str, float]:
        """Return the requests of the waiting tasks of a part."""
        stamp = (key, len(self._session.nodes.changed))
        if self._waiting[0] != stamp:
            needed: dict[str, float] = {}
            for task in mates.values():
                if task.status == PENDING and not task.spec.best_effort and not task.gated:
                    add(needed, task.spec.requests)
            self._waiting = (stamp, needed)
        return self._waiting[1]

    def _gradient(
        self, key: str, wish: Closeness | None, needed: Amounts, domain: int, purpose: str
    ) -> list[list[int]]:
        """Return the domains inside a domain, by tier from the closest (spec of the node plugins, 10.3)."""
        if wish is None or wish.tier is None:
            return [[domain]]
        gradient = self._session.domains.gradient(key, wish.tier, domain)
        if key not in self._session.domains.chosen:
            gradient = [kept for group in gradient if (kept := self._with_room(group, needed, purpose))]
        return gradient if purpose != "Evict" else self._widest(gradient)

    def _with_room(self, domains: Sequence[int], needed: Amounts, purpose: str) -> list[int]:
        """Return domains with enough free resources in total (to evict: enough capacity)."""
        self._follow()
        rows, enough = self._session.axis.rows, np.ones(len(self._tree.names), dtype=bool)
        for name in {**dict.fromkeys(ALWAYS), **needed}:
            left = self._left(rows[name], purpose) if name in rows else 0
            enough &= needed.get(name, 0) - left < EPSILON
        has_room = enough.tolist()
        return [domain for domain in domains if has_room[domain]]

    def _left(self, row: int, purpose: str) -> NDArray[np.int64]:
        """(H,) free amount of a resource in the domains; to evict, their capacity."""
        left: NDArray[np.int64] = self._offered[row]
        if purpose != "Evict":
            left = left - self._used[row]
            if self._session.nodes.future:
                left -= np.minimum(self._moving[row], 0)
        return left

    def _widest(self, gradient: list[list[int]]) -> list[list[int]]:
        """Return domains, widest tiers first, up to the maximum for evictions; of the last tier, the last ones."""
        out: list[list[int]] = []
        left = self.arguments.evict_domains
        for domains in reversed(gradient):
            if left > 0:
                out.append(domains[-left:])
                left -= len(out[-1])
        return out

    # --- scores of domains

    def _order(self, part: Part, domains: Sequence[int]) -> dict[int, float]:
        """Return the fullness of each domain with the whole part; for ties, the share of the part already there."""
        self._follow()
        total = self._totals.get(part.key)
        if total is None:
            total = self._totals[part.key] = {}
            for task in part.mates.values():
                add(total, task.spec.requests)
        scores = self._fullness(total, np.array(domains, dtype=np.intp))
        tied = np.flatnonzero(scores == scores.max(initial=0.0))
        if len(tied) > 1 and part.mates:
            rows = [self._session.nodes.row_of[t.node] for t in part.mates.values() if t.node]
            for index in tied if rows else ():
                held = sum(1 for row in rows if domains[int(index)] in self._tree.of_node[row])
                scores[index] += held / len(part.mates)
        return dict(zip(domains, (scores * 100 * self.arguments.weight).tolist(), strict=True))

    def _fullness(self, asked: Amounts, domains: NDArray[np.intp]) -> NDArray[np.float64]:
        """(d,) weighted mean of (used + asked) / offered; 0 where it would overflow."""
        names = [n for n in self._weights if asked.get(n, 0) > 0 and n in self._session.axis.rows]
        whole = float(sum(self._weights[n] for n in names))
        if not whole:
            return np.zeros(len(domains))
        rows = np.array([self._session.axis.rows[n] for n in names])[:, None]
        amounts = np.array([[int(asked[n])] for n in names], dtype=np.int64)
        weights = np.array([[self._weights[n]] for n in names], dtype=np.float64)
        used, offered = self._used[rows, domains], self._offered[rows, domains]
        return kernels.fullness(used, amounts, offered, weights, complete=False) / whole

    # --- scores of nodes

    def _applies(self, shape: TaskShape) -> bool:
        if self._alone:
            return False  # The whole cluster is one domain: all nodes are equally near, and domains equally full.
        if shape.owner:
            return shape.owner in self._session.domains.chosen
        return bool(self.arguments.normal_pods)

    def _score(self, shape: TaskShape, nodes: NodeRows) -> NDArray[np.float64]:
        factor: float = 100.0 * self.arguments.weight
        return self._nearness(shape, nodes) * factor if shape.owner else self._domain_fullness(shape, nodes, factor)

    def _nearness(self, shape: TaskShape, nodes: NodeRows) -> NDArray[np.float64]:
        """(n,) 1 in the domain where the part is, less the wider the domain that holds both (spec 10.5).

        Among the best nodes, those with more of the part's tasks in the closest domain score higher.
        """
        lowest = nodes.take(self._closest)
        near = self._near_to(self._session.domains.chosen[shape.owner])
        if len(lowest) > 1 and np.count_nonzero(lowest == lowest[0]) == len(lowest):
            # The usual case in a gang that must be in one of the closest domains: all nodes are equally near.
            at = lowest[0]
            return np.full(len(lowest), self._held_by(shape.owner)[at] / self._size(shape.owner) + near[at])
        scores: NDArray[np.float64] = near.take(lowest)
        tied = scores == np.maximum.reduce(scores)
        if np.count_nonzero(tied) < 2:
            return scores
        share = self._held_by(shape.owner).take(lowest)
        share /= self._size(shape.owner)
        share *= tied
        share += scores
        return share

    def _near_to(self, at: int) -> NDArray[np.float64]:
        """(H + 1,) nearness of each of the closest domains to a domain; 0 at the end, for nodes without a domain."""
        values = self._near.get(at)
        if values is None:
            tree = self._tree
            low, high = tree.distinct_tiers[0], tree.distinct_tiers[-1]
            values = self._near[at] = np.zeros(len(tree.names) + 1)
            for domain in (d for d, tier in enumerate(tree.tiers) if tier == low):
                common = tree.common(domain, at)
                if domain == at or (common >= 0 and low == high):
                    values[domain] = 1.0
                elif common >= 0:
                    values[domain] = (high - tree.tiers[common]) / (high - low)
        return values

    @cached_property
    def _closest(self) -> NDArray[np.int32]:
        """(N,) the closest domain of each node, -1 for none."""
        return self._tree.at_tier(self._tree.distinct_tiers[0])

    def _held_by(self, owner: str) -> NDArray[np.float64]:
        """(H + 1,) number of a gang's tasks in each of the closest domains; 0 at the end."""
        held = self._held.get(owner)
        if held is None:
            held = self._held[owner] = np.zeros(len(self._tree.names) + 1)
            for task in self._mates(owner):
                if task.node in self._session.nodes.row_of:
                    held[self._closest[self._session.nodes.row_of[task.node]]] += 1
            held[-1] = 0
        return held

    def _size(self, owner: str) -> int:
        """Number of a gang's tasks."""
        size = self._sizes.get(owner)
        if size is None:
            size = self._sizes[owner] = max(sum(1 for _ in self._mates(owner)), 1)
        return size

    def _hold(self, task: Task, row: int, by: int) -> None:
        owner = task.sub_job or task.group
        held = self._held.get(owner)
        if held is not None and self._closest[row] >= 0:
            held[self._closest[row]] += by

    def _mates(self, owner: str) -> Iterator[Task]:
        """Tasks of a job, or of a sub-gang by its key."""
        jobs = self._session.state.jobs
        namespace, _, rest = owner.partition("/")
        job = jobs.get(owner) or jobs.get(f"{namespace}/{rest.partition('/')[0]}")
        if job is not None:
            sub_job = job.sub_jobs.get(owner)
            yield from (sub_job.tasks if sub_job else job.tasks).values()

    def _domain_fullness(self, shape: TaskShape, nodes: NodeRows, factor: float) -> NDArray[np.float64]:
        """(n,) fullness of the domains of a node with the task; closer tiers count more (spec 10.6)."""
        self._follow()
        by_domain = self._fullness_of_all(shape)
        tiers, weights = self._faded
        domains, place = self._places
        if len(tiers) > MANY_TIERS:
            # For extremely deep trees, one table look-up replaces one for each tier.
            table = nodes.take(self._domains_by_tier)
            deep = np.full(len(nodes), weights - sum(tiers.values()))
            return (deep + np.array(list(tiers.values())) @ by_domain[table]) / weights * factor
        full = by_domain.take(domains)
        total = np.full(domains.shape[1], weights - sum(tiers.values()))
        for weight, at_tier in zip(tiers.values(), full, strict=True):
            total += weight * at_tier
        total /= weights
        total *= factor
        return total.take(place if len(nodes) == len(place) else nodes.take(place))

    @cached_property
    def _places(self) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
        """(tiers, P) domains of each place in the tree, and (N,) the place of each node.

        Nodes under one switch share a place, so that there are far fewer places than nodes.
        """
        domains, place = np.unique(self._domains_by_tier, axis=1, return_inverse=True)
        return domains, place.reshape(-1)

    @cached_property
    def _domains_by_tier(self) -> NDArray[np.intp]:
        """(tiers, N) number of the domain of each node at each tier that counts."""
        table: NDArray[np.intp] = np.stack([self._tree.at_tier(tier) for tier in self._faded[0]])
        return table

    @cached_property
    def _faded(self) -> tuple[dict[int, float], float]:
        """Weight of each tier that has domains, and of all tiers together, with empty ones in between.

        The tier that counts most has weight 1, so that weights do not underflow or overflow with many tiers.
        """
        tiers, fading = self._tree.distinct_tiers, self.arguments.fading
        steps = [max(tier - 1, 0) for tier in tiers]
        heaviest = steps[-1] if fading > 1 else steps[0]
        weights = [fading ** (step - heaviest) for step in steps]
        # Tiers 0 and 1 count the same.
        whole = weights[0] * (2 if tiers[0] < 1 < tiers[-1] and 1 not in tiers else 1)
        for number, step in enumerate(steps[1:]):
            after = weights[number] * fading
            between = step - steps[number] - 1
            gap = after * between if fading == 1 else (weights[number + 1] - after) / (fading - 1)
            whole += weights[number + 1] + (gap if between > 0 else 0.0)
        return dict(zip(tiers, weights, strict=True)), whole

    def _fullness_of_all(self, shape: TaskShape) -> NDArray[np.float64]:
        """(H + 1,) fullness of every domain with one more task; 1 at the end, for nodes without a domain."""
        counted = self._counted.get(shape.spec)
        if counted is None:
            counted = self._counted[shape.spec] = self._count(shape.spec.requests)
        out = np.zeros(len(self._tree.names) + 1)
        out[-1] = 1.0
        if counted.whole:
            used = self._used.take(counted.rows, axis=0)
            full = kernels.fullness(used, counted.asked, counted.offered, counted.weights, counted.everywhere)
            np.divide(full, counted.whole, out=out[:-1])
        return out

    def _count(self, requests: Amounts) -> Counted:
        """The resources of a request that count for the fullness of domains."""
        names = [n for n in self._weights if requests.get(n, 0) > 0]
        rows = np.array([self._session.axis.rows[n] for n in names], dtype=np.intp)
        asked = np.array([[requests[n]] for n in names], dtype=np.int64)
        weights = np.array([[self._weights[n]] for n in names], dtype=np.float64)
        offered = self._offered[rows]
        everywhere = bool((offered != 0).all())
        return Counted(rows, asked, weights, float(sum(self._weights[n] for n in names)), offered, everywhere)
