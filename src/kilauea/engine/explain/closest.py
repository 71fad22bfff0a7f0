"""The reason why a gang with hard network topology fits in no domain: the tier, the most free resources, the request.

The reasons of single nodes do not help here: nodes elsewhere have room, and the domain that was tried last is not the
one with the most room.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from kilauea.engine.explain.formatting import human
from kilauea.engine.model.jobs import Job
from kilauea.engine.model.resources import PODS, order_of
from kilauea.engine.model.subjobs import SubJob
from kilauea.engine.model.tasks import Task
from kilauea.engine.placement.gangs import ALLOCATION
from kilauea.engine.placement.tasks import Part
from kilauea.engine.plan import Pending
from kilauea.engine.session import Session

OF_ROOM = frozenset({"Unschedulable", "GangWaiting", "NotReached"})
"""Codes of pods that waited for room."""


class Closest:
    """The domains with the most room, for the gangs of one session.

    Args:
        session: a session whose actions are done.
    """

    def __init__(self, session: Session) -> None:
        self._session = session
        self._known: dict[str, str] = {}

    def told(self, pending: Pending) -> Pending:
        """The reason; for a gang that fits in no domain, a reason about domains."""
        job = self._session.state.jobs.get(pending.group)
        if job is None or pending.code not in OF_ROOM or not self._session.domains.wishes(job):
            return pending
        part = job.sub_jobs.get(job.tasks[pending.pod].sub_job)
        key = part.key if part is not None else job.key
        if key not in self._known:
            self._known[key] = self._message(job, part) or (self._message(job, None) if part is not None else "")
        message = self._known[key]
        return dataclasses.replace(pending, code="Unschedulable", message=message) if message else pending

    def _message(self, job: Job, part: SubJob | None) -> str:
        """The room that is requested of a domain, and the most that one has; empty if a domain has the room."""
        domains = self._session.domains
        wish = domains.of(job, part)
        gang: Job | SubJob = job if part is None else part
        waiting = sorted((t for t in gang.tasks.values() if not t.node), key=lambda t: t.order)
        if wish is None or wish.tier is None or wish.soft or not waiting:
            return ""
        candidates = [n for tier in domains.gradient(gang.key, wish.tier, 0) for n in tier]
        asked_for = self._asked_for(job, part, waiting)
        room = self._room(waiting[0])
        pods = {number: int(room[domains.tree.rows[number]].sum()) for number in candidates}
        best = max(candidates, key=lambda n: (pods[n], -domains.tree.tiers[n], -n), default=-1)
        if best >= 0 and pods[best] >= asked_for:
            return ""
        many = f"{asked_for} pod{'s' * (asked_for != 1)}"
        what = f"its {many}" if part is None else f"the {many} of {part.key.rpartition('/')[2]}"
        whole = f"{what} of {_size(waiting[0])}{' together' * (asked_for > 1)}"
        asked = f"no HyperNode of tier {wish.tier} or below has room for {whole}"
        return asked if best < 0 else f"{asked}: {domains.tree.names[best]} has the most, for {pods[best]}"

    def _asked_for(self, job: Job, part: SubJob | None, waiting: Sequence[Task]) -> int:
        """Return the number of pods that must fit in a domain: those missing to the minimum, or all waiting ones.

        Network-topology-aware tries no domain without room for all that waits, even if the minimum is lower.
        """
        gang: Job | SubJob = job if part is None else part
        lacking = max(gang.min_available - gang.ready_count, 1)
        together = [task for task in waiting if not task.spec.best_effort and not task.gated]
        if (part is None and job.sub_jobs) or len({tuple(sorted(t.spec.requests.items())) for t in together}) != 1:
            return lacking
        if part is None:
            tried = self._session.hyper_node_gradient("hyper_node_gradient_for_job", job, 0, ALLOCATION)
        else:
            subject = Part(self._session.queues[job.queue], job, part)
            tried = self._session.hyper_node_gradient("hyper_node_gradient_for_sub_job", subject, 0, ALLOCATION)
        return lacking if tried else max(lacking, len(together))

    def _room(self, task: Task) -> NDArray[np.int64]:
        """(N,) how many pods like this one each node has room for."""
        session = self._session
        request, nodes = session.shape_of(task).request, session.nodes.all()
        asked = request > 0
        free = np.maximum(nodes.future_idle[asked], 0)
        count: NDArray[np.int64] = np.min(free // request[asked][:, None], axis=0)
        return np.where(session.evaluation(task).hopeful(), count, 0)


def _size(task: Task) -> str:
    """The requests of one pod as text."""
    requests = {name: amount for name, amount in task.spec.requests.items() if name != PODS and amount}
    return " and ".join(human(name, requests[name]) for name in sorted(requests, key=order_of)) or "any size"
