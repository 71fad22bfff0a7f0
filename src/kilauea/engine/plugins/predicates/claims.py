"""Resource claims: pods that wait for them, the nodes with matching devices, and the allocation of devices.

A claim with devices binds its pods to the nodes that reach them. A claim without devices gets them on the selected
node. They stay reserved unless the placement is undone, so claims of other pods do not get them, and pods with the same
claim follow it. Devices of terminating pods are free later: a pod may be nominated to them, and starts once they are
released.

This costs nothing in a cluster where no waiting pod has a claim.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from kilauea.api.dynamic import MOST_CONSUMERS
from kilauea.api.selectors import NODE_NAME_FIELD, NodeTerm, node_term_matches
from kilauea.engine.conf import Finding
from kilauea.engine.extension import Refusal, Rejection, Scope
from kilauea.engine.model import status
from kilauea.engine.model.claims.facts import Claim, Demand
from kilauea.engine.model.claims.inventory import FEW, Rows, Use
from kilauea.engine.model.claims.served import is_served_everywhere, served_alike, served_at
from kilauea.engine.model.claims.table import ClaimRef, Decision, Wish
from kilauea.engine.model.nodes import NodeRows
from kilauea.engine.model.shapes import TaskShape
from kilauea.engine.model.tasks import Task
from kilauea.engine.plan import Release
from kilauea.engine.plugins.predicates.claim_devices import FITS, LATER, MOST_ALTERNATIVES, Codes, Holdings, Ranks
from kilauea.engine.plugins.predicates.claim_questions import Question
from kilauea.engine.session import Session

CODE = "ResourceClaimsNotReady"
CANNOT = "cannot allocate all claims"
LACKS = Rejection("DynamicResources", CANNOT)
NEVER = Rejection("DynamicResourcesMissing", CANNOT, hopeless=True)
ELSEWHERE = Rejection("ResourceClaimElsewhere", "resourceclaim not available on the node", hopeless=True)
REJECTIONS = (LACKS, NEVER, ELSEWHERE)
"""In the order of the verdicts of `claim_devices`, followed by one for claims whose devices are elsewhere."""
AT_OTHER_NODES = 3

WEIGHT = 2
"""Weight of the score for better alternatives, as in kube-scheduler."""

EVERYWHERE = -1
"""Stands for all nodes in the list of changes."""


class Verdicts:
    """The verdicts on all nodes for the claims of one shape, and the number of changes that they include.

    Attributes:
        fits: (N,) the verdict once all terminating pods have ended: `FITS`, or the reason.
        now: (N,) nodes with free devices now.
        ranks: (N,) the ranks of the alternatives that nodes have devices for.
        seen: number of changes that are included.
        question: the requests of all claims of the shape; None if some have devices, or may request less on some nodes.
    """

    __slots__ = ("fits", "now", "question", "ranks", "seen")

    def __init__(self, size: int, question: Question | None) -> None:
        self.fits: Codes = np.zeros(size, dtype=np.int8)
        self.now = np.zeros(size, dtype=bool)
        self.ranks: Ranks = np.zeros(size, dtype=np.int32)
        self.seen = -1
        self.question = question

    def note_one(self, row: int, code: int, rank: int) -> None:
        """Set the verdict on a node."""
        self.now[row], self.fits[row], self.ranks[row] = code == FITS, FITS if code == LATER else code, rank

    def note(self, rows: Rows, codes: Codes, ranks: Ranks) -> None:
        """Set the verdicts on the nodes in some rows."""
        self.now[rows] = codes == FITS
        self.fits[rows] = np.where(codes == LATER, FITS, codes)
        self.ranks[rows] = ranks


class ClaimFilter:
    """Filters nodes by the claims of pods, and allocates devices to claims."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._table = session.state.resource_claims
        self._size = len(session.nodes)
        self._mine: dict[str, None] = {}
        """Claims to which this session allocated devices."""
        self._users: dict[str, set[str]] = {}
        """By claim: tasks that use it, without terminating ones."""
        self._lapsed: set[str] = set()
        """Claims with devices whose pods are all terminating."""
        self._evicted: dict[str, list[tuple[str, Decision]]] = {}
        """By task evicted in this session: the devices that this session had allocated to it."""
        self._known: dict[tuple[Wish, ...], Verdicts] = {}
        self._by_shape: dict[TaskShape, Verdicts] = {}
        """The same by shape, which is faster to look up."""
        self._changed: list[int] = []
        """Rows of nodes whose devices changed, or EVERYWHERE."""
        self._problems: dict[Demand, str] = {}
        self._active = any(task.claims for task in session.state.unplaced.values()) if self._size else False
        if self._active:
            self._holdings = Holdings(self._table, self._table.inventory(session.nodes))
            self._take_stock()

    def register(self, plugin: str) -> None:
        """Register with the session, if any waiting pod has claims."""
        if not self._active:
            return
        session = self._session
        for scope, applies in ((Scope.NODE, self._is_local), (Scope.CLUSTER, self._is_shared)):
            session.add_predicate(plugin, self._fits, REJECTIONS, scope=scope, applies=applies, room=self._has_room)
        session.add_node_score(plugin, self._score, applies=lambda s: _alternatives(s) > 0 and self._is_local(s))
        session.add_batch_node_score(plugin, self._score, applies=lambda s: _alternatives(s) > 0 and self._is_shared(s))
        session.add_event_handler(plugin, self._placed, self._gone)

    def report_faults(self) -> None:
        """Report the slices, devices and selectors that are skipped."""
        for fault in self._holdings.inventory.faults if self._active else ():
            self._session.findings.append(Finding(fault.where, fault.message))

    # --- current state

    def _take_stock(self) -> None:
        """Record the devices that claims hold."""
        state = self._session.state
        for key, task in state.with_resource_claims.items():
            if int(state.placements.node[task.row]) >= 0 and task.status != status.RELEASING:
                for ref in task.claims:
                    self._users.setdefault(ref.key, set()).add(key)
        for claim in self._table.claims.values():
            if not claim.allocated:
                continue
            use = self._use_of(claim)
            if claim.reserved and not self._users.get(claim.key) and not self._is_awaited(claim):
                self._lapsed.add(claim.key)
                self._holdings.usage.hold_until_ended(use)
                self._session.nodes.future = True
            else:
                self._holdings.usage.hold(use)
        for decision in self._table.decided.values():
            self._holdings.usage.give(decision.use, 1)

    def _use_of(self, claim: Claim) -> Use:
        return self._holdings.inventory.use_of(claim.grants)

    def _is_awaited(self, claim: Claim) -> bool:
        """Return True if a waiting pod already has the claim."""
        tasks, namespace = self._session.state.tasks, claim.key.partition("/")[0]
        reserved = ((tasks.get(f"{namespace}/{name}"), uid) for name, uid in claim.reserved)
        return any(task is not None and task.uid == uid and task.status == status.PENDING for task, uid in reserved)

    # --- claims whose devices are where their pod cannot start

    def release_unreachable(self) -> None:
        """Release the devices of claims if their pod fits no node, because it must run where the devices are.

        As in Kubernetes, a claim that any other pod has or may use keeps its devices.
        """
        if not self._active:
            return
        report, tasks = self._session.report, self._session.state.tasks
        for unfit in report.unfit.values():
            for key, why in unfit.items():
                task = tasks.get(key)
                if task is None or not task.claims or task.node or isinstance(why, Refusal):
                    continue
                if any(reason.reason == ELSEWHERE.message for reason in why.reasons):
                    for claim in filter(None, (self._table.claims.get(ref.key) for ref in task.claims)):
                        if self._is_stuck(claim, task):
                            devices = tuple(grant.device for grant in claim.grants)
                            report.released[claim.key] = Release(claim.key, claim.uid, task.key, devices)

    def _is_stuck(self, claim: Claim, task: Task) -> bool:
        """Return True if a claim has devices that only some nodes reach, and only one waiting pod uses it."""
        if not claim.allocated or claim.deleting or self._users.get(claim.key):
            return False
        if claim.terms is None and not claim.special:
            return False
        return all(uid == task.uid for _, uid in claim.reserved)

    # --- pods that wait for their claims

    def refusal(self, task: Task) -> Refusal | None:
        """Return the reason why a pod waits for its claims, regardless of the node."""
        if not task.claims or not self._active:
            return None
        for ref in task.claims:
            message = self._not_ready(task, ref)
            if message:
                return Refusal(CODE, message)
        return None

    def _not_ready(self, task: Task, ref: ClaimRef) -> str:
        """The reason why a claim cannot be used; empty if it can."""
        if not ref.needed:
            return ""
        if not ref.key and ref.template not in self._table.templates:
            return f'resourceclaimtemplate "{ref.template.partition("/")[2]}" not found'
        if not ref.key:
            return f'waiting for the resource claim controller to create the resourceclaim of "{ref.name}"'
        claim, name = self._table.claims.get(ref.key), ref.key.partition("/")[2]
        if claim is None:
            return f'resourceclaim "{name}" not found'
        if claim.deleting:
            return f'resourceclaim "{name}" is being deleted'
        if ref.template and claim.owner != task.uid:
            return f"ResourceClaim {claim.key} was not created for pod {task.key} (pod is not owner)"
        if len(claim.reserved) >= MOST_CONSUMERS and (task.name, task.uid) not in claim.reserved:
            return "resourceclaim in use"
        if claim.allocated or claim.key in self._table.decided:
            return ""
        content = self._table.contents.get(claim.key) if ref.special else None
        if content is not None and not is_served_everywhere(self._session.nodes, content):
            return ""
        return self._problem(claim.demand, task.namespace)

    def _problem(self, demand: Demand, namespace: str) -> str:
        if demand not in self._problems:
            self._problems[demand] = self._holdings.problem(demand, namespace)
        return self._problems[demand]

    # --- verdicts

    def _is_local(self, shape: TaskShape) -> bool:
        return bool(shape.claims) and not self._is_shared(shape)

    def _is_shared(self, shape: TaskShape) -> bool:
        """Return True if devices allocated to other pods elsewhere may change the verdict on any node."""
        for wish in shape.claims:
            claim = self._table.claims.get(wish.key)
            if claim is not None and not claim.allocated:
                return True
            if (claim is None or not claim.allocated) and self._holdings.reads_shared(wish.demand):
                return True
        return False

    def _fits(self, shape: TaskShape, nodes: NodeRows) -> Codes | None:
        codes = nodes.take(self._verdicts(shape).fits)
        return codes if codes.any() else None

    def _has_room(self, shape: TaskShape, nodes: NodeRows) -> NDArray[np.bool_]:
        return nodes.take(self._verdicts(shape).now)

    def _score(self, shape: TaskShape, nodes: NodeRows) -> NDArray[np.float64]:
        """Prefer nodes with devices for earlier alternatives."""
        best = MOST_ALTERNATIVES * _alternatives(shape)
        ranks = nodes.take(self._verdicts(shape).ranks).astype(np.float64)
        return ranks * (WEIGHT * 100.0 / best)

    def _verdicts(self, shape: TaskShape) -> Verdicts:
        known = self._by_shape.get(shape)
        if known is None:
            known = self._by_shape[shape] = self._read(shape.claims)
        if known.seen < len(self._changed):
            changed = {EVERYWHERE} if known.seen < 0 else set(self._changed[known.seen :])
            if EVERYWHERE in changed:
                rows = np.arange(self._size)
                known.note(rows, *self._judge(shape.claims, rows))
            elif known.question is not None and len(changed) <= FEW:
                # After a placement, only its node has changed: plain values are faster than arrays with one element.
                for row in sorted(changed):
                    known.note_one(row, *self._holdings.verdict(known.question, row))
            else:
                rows = np.array(sorted(changed), dtype=np.intp)
                known.note(rows, *self._judge(shape.claims, rows))
            known.seen = len(self._changed)
        return known

    def _read(self, wishes: tuple[Wish, ...]) -> Verdicts:
        """The verdicts for some claims; shapes with the same requests share them."""
        known = self._known.get(wishes)
        if known is None:
            plain = not any(wish.key or wish.special for wish in wishes)
            question = self._holdings.question([wish.demand for wish in wishes]) if plain else None
            known = self._known[wishes] = Verdicts(self._size, question)
        return known

    def _judge(self, wishes: tuple[Wish, ...], rows: Rows) -> tuple[Codes, Ranks]:
        """(n,) verdicts on the nodes in some rows, and the ranks of their alternatives."""
        content = next((wish.special for wish in wishes if wish.special is not None), None)
        if content is None:
            return self._judge_alike(wishes, rows)
        codes, ranks = np.full(len(rows), FITS, dtype=np.int8), np.zeros(len(rows), dtype=np.int32)
        for here, by_class in served_alike(self._session.nodes, content, rows):
            codes[here], ranks[here] = self._judge_alike(self._wishes_on(wishes, by_class), rows[here])
        return codes, ranks

    def _wishes_on(self, wishes: tuple[Wish, ...], by_class: frozenset[str]) -> tuple[Wish, ...]:
        """The claims of a pod on nodes where devices serve some extended resources."""
        out = []
        for wish in wishes:
            demand = wish.demand if wish.special is None else wish.special.on(by_class).demand
            out.append(wish._replace(demand=demand))
        return tuple(out)

    def _judge_alike(self, wishes: tuple[Wish, ...], rows: Rows) -> tuple[Codes, Ranks]:
        """As `_judge`, on nodes where devices serve the same extended resources."""
        reached: list[NDArray[np.bool_]] = []
        demands = []
        for wish in wishes:
            claim, decision = self._table.claims.get(wish.key), self._table.decided.get(wish.key)
            if claim is not None and claim.allocated:
                reached.append(self._reach(claim.terms))
                if wish.special is not None and claim.demand != wish.demand:
                    # A special claim whose devices were allocated for another kind of node cannot be used on this one.
                    reached.append(np.zeros(self._size, dtype=bool))
            elif decision is not None:
                reached += [self._at(each.node) if each.node else self._reach(each.terms) for each in decision.reaches]
            elif wish.demand.requests or wish.special is None:
                demands.append(wish.demand)
        if demands:
            codes, ranks = self._holdings.verdicts(demands, rows)
        else:
            codes, ranks = np.full(len(rows), FITS, dtype=np.int8), np.zeros(len(rows), dtype=np.int32)
        for nodes in reached:
            codes[~nodes[rows]] = AT_OTHER_NODES
        return codes, ranks

    def _reach(self, terms: tuple[NodeTerm, ...] | None) -> NDArray[np.bool_]:
        """(N,) nodes of a node selector."""
        if terms is None:
            return np.ones(self._size, dtype=bool)
        if len(terms) == 1 and not terms[0].expressions and len(terms[0].fields) == 1:
            only = terms[0].fields[0]
            if only.key == NODE_NAME_FIELD and only.operator == "In" and len(only.values) == 1:
                return self._at(only.values[0])
        facts = self._session.nodes.facts
        return np.array([any(node_term_matches(t, f.labels, f.name) for t in terms) for f in facts], dtype=bool)

    def _at(self, node: str) -> NDArray[np.bool_]:
        out = np.zeros(self._size, dtype=bool)
        row = self._session.nodes.row_of.get(node, -1)
        if row >= 0:
            out[row] = True
        return out

    # --- allocation

    def _placed(self, task: Task, row: int) -> None:
        if not task.claims:
            return
        waiting = []
        for ref in task.claims:
            claim = self._table.claims.get(ref.key)
            if claim is None:
                continue
            self._users.setdefault(claim.key, set()).add(task.key)
            if claim.key in self._lapsed:
                self._lapsed.remove(claim.key)
                self._view(self._use_of(claim), 1)
            elif not claim.allocated and claim.key not in self._table.decided:
                content = self._table.contents.get(claim.key) if ref.special else None
                if content is None:
                    waiting.append(claim)
                elif (here := content.on(served_at(self._session.nodes, content, row))).resources:
                    waiting.append(replace(claim, demand=here.demand))
        for key, decision in self._evicted.pop(task.key, []):
            if key not in self._table.decided:
                self._decide(key, decision)
                waiting = [claim for claim in waiting if claim.key != key]
        if waiting:
            known = self._by_shape.get(self._session.shape_of(task)) if len(waiting) == len(task.claims) else None
            question = known.question if known is not None else None
            if question is None:
                question = self._holdings.question([claim.demand for claim in waiting])
            self._choose(waiting, question, row, now=task.status != status.PIPELINED)

    def _choose(self, claims: Sequence[Claim], question: Question, row: int, *, now: bool) -> None:
        """Allocate devices to claims; none if an action places a pod past the filters and devices are missing."""
        decisions = self._holdings.choose(question, len(claims), row, now=now)
        for claim, decision in zip(claims, decisions or (), strict=False):
            self._decide(claim.key, decision)

    def _decide(self, key: str, decision: Decision) -> None:
        self._table.decided[key] = decision
        self._mine[key] = None
        self._give(decision.use, 1)
        self._note_shared(key)

    def _gone(self, task: Task, row: int) -> None:
        if not task.claims:
            return
        had = []
        for ref in task.claims:
            claim, users = self._table.claims.get(ref.key), self._users.get(ref.key, set())
            users.discard(task.key)
            if claim is None or users:
                continue
            if claim.allocated:
                if task.status == status.RELEASING and claim.key not in self._lapsed:
                    self._lapsed.add(claim.key)
                    self._view(self._use_of(claim), -1)
            elif claim.key in self._mine:
                had.append((claim.key, self._table.decided.pop(claim.key)))
                del self._mine[claim.key]
                self._give(had[-1][1].use, -1)
                self._note_shared(claim.key)
        if task.status == status.RELEASING and had:
            self._evicted[task.key] = had

    def _note_shared(self, key: str) -> None:
        """Invalidate the verdicts on all nodes if pods share the claim."""
        if not self._table.claims[key].owner:
            self._changed.append(EVERYWHERE)

    def _view(self, use: Use, by: int) -> None:
        """Record that the devices of a claim will be free (-1), or will not be free after all (1)."""
        self._holdings.usage.view(use, by)
        self._note_changed(use)

    def _give(self, use: Use, by: int) -> None:
        """Record that devices are allocated to a claim (1), or taken back (-1)."""
        self._holdings.usage.give(use, by)
        self._note_changed(use)

    def _note_changed(self, use: Use) -> None:
        """Mark the nodes of devices as changed."""
        places = self._holdings.inventory.places
        self._changed += [max(places[row], EVERYWHERE) for row in use.rows]


def _alternatives(shape: TaskShape) -> int:
    """Number of requests of a shape that have alternatives."""
    return sum([wish.demand.alternatives for wish in shape.claims])
