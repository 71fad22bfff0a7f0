"""The nodes that a pod's claims allow, and the volumes that unbound claims get there.

A bound claim is tied to the nodes of its volume. A claim that waits for its first consumer gets, on each node, the
volume that is reserved for it, otherwise the smallest free volume that matches, otherwise a new one if its class
provisions volumes. The volume on the selected node is held for the claim unless the placement is undone, so claims of
other pods do not get it, and other pods with the same claim follow it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from kilauea.engine.extension import Rejection, Scope
from kilauea.engine.model import status
from kilauea.engine.model.nodes import NodeRows
from kilauea.engine.model.shapes import TaskShape
from kilauea.engine.model.task_specs import ClaimUse
from kilauea.engine.model.tasks import Task
from kilauea.engine.model.volumes import ONE_POD, Claim, Decision, Volume
from kilauea.engine.plugins.predicates.volume_pools import Pools, order_of
from kilauea.engine.plugins.predicates.volume_provision import ELSEWHERE, FITS, NO_ROOM, Provision
from kilauea.engine.plugins.predicates.volume_reach import Reach
from kilauea.engine.plugins.predicates.volume_score import mean_of, share_scores
from kilauea.engine.session import Session

NODE_AFFINITY = Rejection("VolumeNodeAffinity", "node(s) didn't match PersistentVolume's node affinity", hopeless=True)
NO_VOLUME = Rejection("VolumeBinding", "node(s) didn't find available persistent volumes to bind", hopeless=True)
NO_SPACE = Rejection("StorageCapacity", "node(s) did not have enough free storage", hopeless=True)
GONE = Rejection(
    "VolumeNotFound", "node(s) unavailable due to one or more pvc(s) bound to non-existent pv(s)", hopeless=True
)
FAILED = Rejection("VolumeNotBound", "node(s) did not bind the volumes of the pod in time", hopeless=True)
IN_USE = Rejection(
    "ReadWriteOncePod",
    "node(s) unavailable due to PersistentVolumeClaim with ReadWriteOncePod access mode already in-use by another pod",
)

NOT_IN_TIME = 3
"""The verdict of FAILED, in addition to those of `volume_provision`."""

Codes = NDArray[np.int8]


@dataclass(slots=True)
class Hold:
    """The volume of a claim in this session: an existing one, or one that will be provisioned on a node."""

    volume: Volume | None
    row: int
    taken: bool
    """True if the volume was free before."""
    segment: int
    """The segment in which capacity for a new volume is reserved; -1 if it is not counted."""
    tasks: set[str] = field(default_factory=set)
    """Placed tasks with the claim; the hold ends with the last of them."""


class VolumeChoice(NamedTuple):
    """The choice for a claim, as in `Hold`."""

    claim: str
    volume: Volume | None
    row: int


class VolumeBindingFilter:
    """Filters nodes by claims, and holds volumes for claims."""

    def __init__(
        self, session: Session, timeout: int, curve: NDArray[np.int64] | None = None, weight: float = 1.0
    ) -> None:
        self._session = session
        self._timeout = timeout
        self._curve, self._weight = curve, weight
        """The score of storage by utilization, and its weight; None for no score."""
        self._storage = session.state.storage
        self._size = len(session.nodes)
        self._reach = Reach(session.nodes, self._storage.drivers)
        self._provision = Provision(self._storage, session.nodes, self._reach)
        claims = self._storage.claims
        self._unbound = {key: claim for key, claim in claims.items() if self._storage.is_delayed(claim)}
        """Claims to be bound by this scheduler."""
        self._private = {key for key, claim in claims.items() if ONE_POD in claim.wish.modes}
        """ReadWriteOncePod claims."""
        self._free: dict[str, list[Volume]] = {}
        """By storage class: volumes that any claim may get."""
        self._kept: dict[str, list[Volume]] = {}
        """By unbound claim: volumes reserved for it."""
        self._pools: dict[str, Pools] = {}
        """By storage class, for the classes that were needed so far."""
        self.holds: dict[str, Hold] = {}
        """By claim."""
        self._evicted: dict[str, list[VolumeChoice]] = {}
        """By evicted task: the volumes of its claims, in case the eviction is undone."""
        self._users: Counter[str] = Counter()
        """By ReadWriteOncePod claim: pods on any node that stay, or are placed in this cycle."""
        self._ending: Counter[str] = Counter()
        """By ReadWriteOncePod claim: terminating pods, and those evicted in this cycle."""
        self._judged: dict[tuple[ClaimUse, ...], Codes] = {}
        """Verdicts since the last change."""
        self._scored: dict[tuple[ClaimUse, ...], NDArray[np.float64]] = {}
        """Scores since the last change."""

    def register(self, plugin: str) -> None:
        """Register with the session."""
        wanted = {claim.volume for claim in self._storage.claims.values() if claim.volume}
        for volume in self._storage.volumes.values():
            if volume.free and volume.name not in wanted:
                self._free.setdefault(volume.class_name, []).append(volume)
            elif volume.claim is not None and volume.claim.key in self._unbound:
                self._kept.setdefault(volume.claim.key, []).append(volume)
        for key, (known, row, _) in self._storage.decided.items():
            if key in self._unbound:
                self._start(VolumeChoice(key, known, row))
        state = self._session.state
        for key in sorted(key for key, task in state.with_claims.items() if self._concerns(task)):
            task = state.with_claims[key]
            if (row := int(state.placements.node[task.row])) >= 0:
                (self._ending if task.status == status.RELEASING else self._users).update(self._private_of(task))
                self._take(task, row)
        add = self._session.add_predicate
        add(plugin, self._bound, [NODE_AFFINITY, GONE], scope=Scope.STATIC, applies=self._has_bound)
        add(plugin, self._alone, [IN_USE], scope=Scope.CLUSTER, applies=self._has_private, room=self._alone_now)
        add(plugin, self._finds, [NO_VOLUME, NO_SPACE, FAILED], scope=Scope.CLUSTER, applies=self._has_unbound)
        if self._curve is not None:
            self._session.add_batch_node_score(plugin, self._score, applies=self._has_unbound)
        self._session.add_event_handler(plugin, self._placed, self._gone)

    # --- claims

    def _concerns(self, task: Task) -> bool:
        """Return True if adding or removing the task changes anything."""
        return any(use.key in self._unbound or use.key in self._private for use in task.spec.claims)

    def _bound_claims(self, uses: Sequence[ClaimUse]) -> list[Claim]:
        claims = (self._storage.claims.get(use.key) for use in uses)
        return [claim for claim in claims if claim is not None and claim.bound]

    def _unbound_claims(self, uses: Sequence[ClaimUse]) -> list[Claim]:
        """Claims to be bound by this scheduler, by size."""
        return sorted((self._unbound[u.key] for u in uses if u.key in self._unbound), key=lambda c: c.wish.size)

    def _has_bound(self, shape: TaskShape) -> bool:
        return bool(self._bound_claims(shape.spec.claims))

    def _has_private(self, shape: TaskShape) -> bool:
        return any(use.key in self._private for use in shape.spec.claims)

    def _has_unbound(self, shape: TaskShape) -> bool:
        return any(use.key in self._unbound for use in shape.spec.claims)

    def _kept_for(self, claim: Claim) -> Volume | None:
        """The volume that is reserved for an unbound claim and can hold it."""
        kept = [v for v in self._kept.get(claim.key, ()) if claim.refers(v.claim) and claim.wish.holds(v)]
        return min((v for v in kept if v.class_name == claim.class_name), key=order_of, default=None)

    def _pools_of(self, class_name: str) -> Pools:
        if class_name not in self._pools:
            self._pools[class_name] = Pools(self._free.get(class_name, ()), self._reach, self._size)
        return self._pools[class_name]

    # --- verdicts

    def _bound(self, shape: TaskShape, nodes: NodeRows) -> Codes:
        codes = np.zeros(self._size, dtype=np.int8)
        for claim in self._bound_claims(shape.spec.claims):
            volume = self._storage.volumes.get(claim.volume)
            if volume is None:
                codes[codes == 0] = 2
            elif (mask := self._reach.mask_of(volume)) is not None:
                codes[(codes == 0) & ~mask] = 1
        return nodes.take(codes)

    def _alone(self, shape: TaskShape, nodes: NodeRows) -> NDArray[np.bool_] | None:
        """Reject all nodes if another pod uses one of the shape's ReadWriteOncePod claims."""
        taken = any(self._users[use.key] for use in shape.spec.claims)
        return np.zeros(len(nodes), dtype=bool) if taken else None

    def _alone_now(self, shape: TaskShape, nodes: NodeRows) -> NDArray[np.bool_]:
        """(n,) False on all nodes while a terminating pod uses such a claim."""
        return np.full(len(nodes), not any(self._ending[use.key] > 0 for use in shape.spec.claims))

    def _finds(self, shape: TaskShape, nodes: NodeRows) -> Codes:
        uses = shape.spec.claims
        if uses not in self._judged:
            self._judged[uses] = self._judge(self._unbound_claims(uses))
        return nodes.take(self._judged[uses])

    def _judge(self, claims: Sequence[Claim]) -> Codes:
        """(N,) 0 where every claim gets a volume, else the reason: FITS, ELSEWHERE, NO_ROOM or NOT_IN_TIME."""
        codes = np.zeros(self._size, dtype=np.int8)
        for claim in claims:
            fixed = self._fixed(claim)
            if fixed is not None:
                codes[~fixed] = ELSEWHERE
        found = self._found([claim for claim in claims if claim.key not in self.holds and not claim.selected_node])
        make: dict[str, tuple[Claim, NDArray[np.bool_]]] = {}
        # Kubernetes first considers claims whose volume is already being provisioned.
        for claim in sorted(claims, key=lambda c: not c.selected_node):
            if claim.key not in self.holds:
                made = self._provision.verdict(claim)
                here = codes == FITS if claim.key not in found else (codes == FITS) & ~found[claim.key]
                codes[here] = made[here]
                make[claim.key] = (claim, here)
        crowded = self._provision.crowded(make) if len(make) > 1 else None
        if crowded is not None:
            codes[(codes == FITS) & crowded] = NO_ROOM
        row_of = self._session.nodes.row_of
        for row in {row_of[name] for claim in claims for name in claim.failed_nodes if name in row_of}:
            codes[row] = codes[row] or NOT_IN_TIME
        return codes

    def _fixed(self, claim: Claim) -> NDArray[np.bool_] | None:
        """(N,) the nodes of a claim whose volume is already decided; None for all."""
        hold = self.holds.get(claim.key)
        if hold is not None and hold.volume is not None:
            return self._reach.mask_of(hold.volume)
        if hold is None and not claim.selected_node:
            return None
        out = np.zeros(self._size, dtype=bool)
        row = hold.row if hold is not None else self._session.nodes.row_of.get(claim.selected_node, -1)
        if row >= 0:
            out[row] = True
        return out

    def _found(self, claims: Sequence[Claim]) -> dict[str, NDArray[np.bool_]]:
        """By claim: (N,) nodes where an existing volume matches it."""
        out = {}
        for claim in claims:
            kept = self._kept_for(claim)
            if kept is not None:
                mask = self._reach.mask_of(kept)
                out[claim.key] = np.ones(self._size, dtype=bool) if mask is None else mask
        for class_name, several in self._by_class(claims).items():
            pools = self._pools_of(class_name)
            by_kind = pools.found(tuple(claim.wish for claim in several))
            for claim, found in zip(several, by_kind, strict=True):
                out[claim.key] = found[pools.kinds]
        return out

    def _by_class(self, claims: Sequence[Claim]) -> dict[str, list[Claim]]:
        """Claims without a reserved volume, by class, in their order."""
        out: dict[str, list[Claim]] = {}
        for claim in claims:
            if self._kept_for(claim) is None:
                out.setdefault(claim.class_name, []).append(claim)
        return out

    # --- scores

    def _score(self, shape: TaskShape, nodes: NodeRows) -> NDArray[np.float64]:
        uses = shape.spec.claims
        if uses not in self._scored:
            loose = [c for c in self._unbound_claims(uses) if c.key not in self.holds and not c.selected_node]
            self._scored[uses] = self._weight * self._storage_scores(loose)
        return nodes.take(self._scored[uses])

    def _storage_scores(self, claims: Sequence[Claim]) -> NDArray[np.float64]:
        """(N,) the score of the storage that claims get on each node; 0 where it is not counted."""
        assert self._curve is not None
        found: list[tuple[NDArray[np.float64], NDArray[np.bool_]]] = []
        any_found = np.zeros(self._size, dtype=bool)
        for class_name, several in self._by_class(claims).items():
            pools = self._pools_of(class_name)
            asked, held = (by_kind[pools.kinds] for by_kind in pools.sizes([claim.wish for claim in several]))
            found.append((share_scores(self._curve, asked, held), held > 0))
            any_found |= held > 0
        made = []
        for several in self._by_class(claims).values():
            left = self._provision.left(several[0])
            if left is not None:
                asked = np.full(self._size, float(sum(claim.wish.size for claim in several)))
                made.append((share_scores(self._curve, asked, left), ~any_found))
        return mean_of([*found, *made], self._size)

    # --- holds

    def _private_of(self, task: Task) -> list[str]:
        """The ReadWriteOncePod claims of a task."""
        return [use.key for use in task.spec.claims if use.key in self._private]

    def _placed(self, task: Task, row: int) -> None:
        if not self._concerns(task):
            return
        self._users.update(self._private_of(task))
        if task.status not in (status.ALLOCATED, status.PIPELINED):
            self._ending.subtract(self._private_of(task))  # its eviction is undone
        self._take(task, row)

    def _take(self, task: Task, row: int) -> None:
        """Hold volumes for the claims of a task that is placed on a node, or already runs there."""
        before = self._evicted.pop(task.key, None)
        if before is None:
            before = self._choose(self._unbound_claims(task.spec.claims), row)
        for choice in before:
            self._hold(choice, task)

    def _choose(self, claims: Sequence[Claim], row: int) -> list[VolumeChoice]:
        """Choose a volume on a node for each claim."""
        known = [(key, self.holds[key]) for key in (claim.key for claim in claims) if key in self.holds]
        out = [VolumeChoice(key, hold.volume, hold.row) for key, hold in known]
        row_of, rest = self._session.nodes.row_of, [claim for claim in claims if claim.key not in self.holds]
        out += [VolumeChoice(c.key, None, row_of[c.selected_node]) for c in rest if c.selected_node in row_of]
        loose = [claim for claim in rest if not claim.selected_node]
        for claim in loose:
            kept = self._kept_for(claim)
            if kept is not None:
                mask = self._reach.mask_of(kept)
                out.append(VolumeChoice(claim.key, kept if mask is None or mask[row] else None, row))
        for class_name, several in self._by_class(loose).items():
            volumes = self._pools_of(class_name).assign(row, [claim.wish for claim in several])
            out.extend(VolumeChoice(claim.key, volume, row) for claim, volume in zip(several, volumes, strict=True))
        return out

    def _hold(self, choice: VolumeChoice, task: Task) -> None:
        hold = self.holds.get(choice.claim)
        if hold is None:
            hold = self._start(choice)
            self._storage.decided[choice.claim] = Decision(choice.volume, choice.row, self._timeout)
        hold.tasks.add(task.key)

    def _start(self, choice: VolumeChoice) -> Hold:
        """Take a volume, or reserve capacity for one."""
        volume, segment = choice.volume, -1
        taken = volume is not None and volume.free and self._pools_of(volume.class_name).take(volume)
        if volume is None:
            segment = self._provision.book(self._unbound[choice.claim], choice.row)
        self._judged.clear()
        self._scored.clear()
        hold = self.holds[choice.claim] = Hold(volume, choice.row, taken, segment)
        return hold

    def _end(self, key: str) -> None:
        """Release the volume of a claim."""
        hold = self.holds.pop(key)
        self._storage.decided.pop(key, None)
        if hold.volume is not None and hold.taken:
            self._pools_of(hold.volume.class_name).give_back(hold.volume)
        elif hold.volume is None:
            self._provision.give_back(self._unbound[key], hold.segment)
        self._judged.clear()
        self._scored.clear()

    def _gone(self, task: Task, row: int) -> None:
        if not self._concerns(task):
            return
        self._users.subtract(self._private_of(task))
        if task.status == status.RELEASING:
            self._ending.update(self._private_of(task))
        had = []
        for use in task.spec.claims:
            hold = self.holds.get(use.key)
            if hold is None or task.key not in hold.tasks:
                continue
            had.append(VolumeChoice(use.key, hold.volume, hold.row))
            hold.tasks.remove(task.key)
            if not hold.tasks:
                self._end(use.key)
        if task.status == status.RELEASING:
            self._evicted[task.key] = had
