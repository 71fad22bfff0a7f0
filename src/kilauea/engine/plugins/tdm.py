"""Lend nodes at certain hours of the day: batch jobs run there during these hours, and are evicted afterwards.

What:
    A node with label `volcano.sh/revocable-zone: ZONE` is lent during the hours that are configured for the zone. Only
    pods that opt in run there (annotation `volcano.sh/revocable-zone: "*"`, or `volcano.sh/preemptable: "true"`), and
    they prefer these nodes. When the hours are over, the action shuffle evicts them, as many of each job at a time as
    its budget allows. On nodes that are not lent, pods that are not preemptable can preempt preemptable ones. Jobs that
    are not preemptable go first.

Why:
    Nodes that serve users by day are idle by night. Batch jobs can use them, and must be gone in the morning.

Arguments:
    tdm.revocable-zone.NAME (text): hours of a zone, `HH:MM-HH:MM`, both ends included.
    tdm.evict.period (text, 1m): a duration; the minimum time between two rounds of evictions from a job.
    tdm.utc-offset (text, Z): the offset of the hours from UTC: `+08:00`, `-05:30` or `Z`.
    tdm.overnight (true or false, false): hours such as `22:00-04:00` continue after midnight. If false, they end at
    midnight, as in Volcano.

    The budget of a job is set on its pod group: `volcano.sh/jdb-min-available`, else `volcano.sh/jdb-max-unavailable`,
    a number or a percentage of all its pods, rounded up. Without a budget, or if fewer pods run than must be available,
    one pod is evicted at a time. Pods are preemptable by default: a pod that should preempt others needs
    `volcano.sh/preemptable: "false"`.

Example:
    tiers:
    - plugins:
      - name: tdm
        arguments:
          tdm.revocable-zone.night: 20:00-23:30
          tdm.evict.period: 5m

Difference from the original:
    Hours are in UTC or at a fixed offset from it, not in the local time of a machine. Volcano remembers when it last
    evicted anything; here, nothing is remembered between cycles. A job is skipped while one of its pods is being
    removed and until its newest pod is as old as the period, so each job has its own pace. A job with pods in several
    zones has one budget for all.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from kilauea.api.times import SECOND, parse_duration
from kilauea.api.wellknown import REVOCABLE_ZONE
from kilauea.engine.conf import Finding, argument
from kilauea.engine.eviction.units import may_be_evicted
from kilauea.engine.extension import PERMIT, REJECT, Rejection, Scope, SpareReason
from kilauea.engine.model import status
from kilauea.engine.model.jobs import Job
from kilauea.engine.model.nodes import NodeRows
from kilauea.engine.model.shapes import TaskShape
from kilauea.engine.model.tasks import Task
from kilauea.engine.plugin import Plugin
from kilauea.engine.session import Session

MINUTE = 60 * SECOND
DAY = 24 * 60 * MINUTE
BEST = 100.0
"""Score of a lent node for a pod that may run there."""

NO_ZONES: dict[str, str] = {}

_HOURS = re.compile(r"([0-9]{1,2}):([0-9]{2})-([0-9]{1,2}):([0-9]{2})")
_OFFSET = re.compile(r"([+-])([0-9]{2}):([0-9]{2})")
_NUMBER = re.compile(r"([0-9]{1,9})(%?)")

NOT_ALLOWED = Rejection("NotRevocable", "not allow to dispatch to revocable node", hopeless=True)


@dataclass(frozen=True)
class TdmArguments:
    """Arguments of tdm."""

    zones: dict[str, str] = argument("tdm.revocable-zone.", NO_ZONES, "Hours of a zone.", values=str)
    period: str = argument(
        "tdm.evict.period", "1m", "A duration; the minimum time between two rounds of evictions from a job."
    )
    offset: str = argument("tdm.utc-offset", "Z", "The offset of the hours from UTC.")
    overnight: bool = argument("tdm.overnight", False, "Hours continue after midnight.")


class Hours(NamedTuple):
    """A part of the day, in microseconds after midnight, both ends included; it can end on the next day."""

    start: int
    end: int

    def hold(self, time: int, *, overnight: bool) -> bool:
        """Return True if it contains a time of day; with `overnight`, also if it started on the previous day."""
        return self.start <= time <= self.end or (overnight and time + DAY <= self.end)


def hours_of(text: str) -> Hours | None:
    """Parse hours as `HH:MM-HH:MM`; None if invalid."""
    found = _HOURS.fullmatch(text.strip())
    if found is None:
        return None
    first, second, third, fourth = (int(part) for part in found.groups())
    if max(first, third) > 23 or max(second, fourth) > 59:
        return None
    start, end = (first * 60 + second) * MINUTE, (third * 60 + fourth) * MINUTE
    return Hours(start, end if start < end else end + DAY)


def offset_of(text: str) -> int | None:
    """Parse an offset such as `+08:00` into microseconds ahead of UTC; None if invalid."""
    if text == "Z":
        return 0
    found = _OFFSET.fullmatch(text)
    if found is None or int(found[2]) > 23 or int(found[3]) > 59:
        return None
    ahead = (int(found[2]) * 60 + int(found[3])) * MINUTE
    return -ahead if found[1] == "-" else ahead


def part_of(text: str, total: int) -> int | None:
    """Parse `3`, or `30%` of the total rounded up; None if invalid."""
    found = _NUMBER.fullmatch(text.strip())
    if found is None:
        return None
    return -(-int(found[1]) * total // 100) if found[2] else int(found[1])


NOT_REVOCABLE = SpareReason(
    "NotRevocable", "tdm evicts only preemptable pods on nodes that are not lent, within their budget"
)


class Tdm(Plugin):
    """See the module."""

    name = "tdm"
    Arguments = TdmArguments

    def on_session_open(self, session: Session) -> None:
        self._session = session
        self._read_arguments()
        column = session.nodes.label(REVOCABLE_ZONE)
        self._zone_ids = column.ids
        self._zones = column.values
        self._closed = [self._why_closed(zone) if zone else "" for zone in column.values]
        """Reason why the nodes of a zone are not lent now, by number of the zone; empty if they are."""
        session.add_preemptable(self.name, self._preemptable, why=NOT_REVOCABLE)
        session.add_victim_tasks(self.name, self._victims)
        session.add_job_order(self.name, lambda job: bool(job.preemptable))
        session.add_job_pipelined(self.name, lambda job: PERMIT if job.is_pipelined else REJECT)
        session.add_job_starving(self.name, lambda job: not job.preemptable and job.counts[status.PENDING] > 0)
        closed = [Rejection("RevocableZoneClosed", why, hopeless=True) for why in self._closed]
        session.add_predicate(self.name, self._codes, (*closed, NOT_ALLOWED), scope=Scope.STATIC, applies=self._matters)
        session.add_node_score(self.name, self._score, applies=lambda shape: shape.spec.revocable and any(self._zones))

    # --- arguments

    def _read_arguments(self) -> None:
        given: TdmArguments = self.arguments
        offset = offset_of(given.offset)
        if offset is None:
            self._find("tdm.utc-offset", f"takes +HH:MM, -HH:MM or Z, not {given.offset!r}; the hours are taken as UTC")
        self._time = (self._session.now + (offset or 0)) % DAY
        try:
            self._period = parse_duration(given.period)
        except ValueError as error:
            self._find("tdm.evict.period", f"{error}; 1m is kept")
            self._period = MINUTE
        self._hours = {zone: hours_of(text) for zone, text in sorted(given.zones.items())}
        for zone, hours in self._hours.items():
            text = given.zones[zone]
            if hours is None:
                self._find(f"tdm.revocable-zone.{zone}", f"takes HH:MM-HH:MM, not {text!r}; the zone is never lent")
            elif hours.end >= DAY and not given.overnight:
                self._find(f"tdm.revocable-zone.{zone}", f"{text} ends at midnight unless tdm.overnight is true")

    def _find(self, key: str, message: str) -> None:
        self._session.findings.append(Finding("plugin tdm", f"{key}: {message}", code="wrong-value", path=(key,)))

    # --- zones

    def _why_closed(self, zone: str) -> str:
        """Return the reason why the nodes of a zone are not lent now; empty if they are."""
        if zone not in self._hours:
            return f"revocable zone {zone} not support"
        hours, text = self._hours[zone], self.arguments.zones[zone]
        if hours is None:
            return f"revocable zone {text} format error"
        if hours.hold(self._time, overnight=self.arguments.overnight):
            return ""
        return f"current time beyond revocable zone {zone}:{text}"

    def _zone_of(self, task: Task) -> str | None:
        """Return the zone of the task's node; empty if the node is not lent, None if it does not exist."""
        row = self._session.nodes.row_of.get(task.node)
        if row is None:
            return None
        number = int(self._zone_ids[row])
        return self._zones[number] if number >= 0 else ""

    # --- nodes

    def _matters(self, _: TaskShape) -> bool:
        return any(self._zones)

    def _codes(self, shape: TaskShape, nodes: NodeRows) -> NDArray[np.int64]:
        """Return 0 where a shape may run; else the number of a zone that is not lent, from 1, or the last code."""
        open_to_it = 0 if shape.spec.revocable else len(self._zones) + 1
        by_zone = [number + 1 if why else open_to_it for number, why in enumerate(self._closed)]
        by_zone = [code if zone else 0 for zone, code in zip(self._zones, by_zone, strict=True)]
        return np.array([*by_zone, 0], dtype=np.int64)[nodes.take(self._zone_ids)]

    def _score(self, _: TaskShape, nodes: NodeRows) -> NDArray[np.float64]:
        by_zone = [BEST if zone and not why else 0.0 for zone, why in zip(self._zones, self._closed, strict=True)]
        return np.array([*by_zone, 0.0])[nodes.take(self._zone_ids)]

    # --- evictions

    def _preemptable(self, preemptor: Task, candidates: Sequence[Task]) -> tuple[list[Task], int]:
        if self._may_go(preemptor) or preemptor.spec.revocable:
            return [], REJECT
        by_job: dict[str, list[Task]] = {}
        for task in candidates:
            if task.status == status.RUNNING and self._zone_of(task) == "" and self._may_go(task):
                by_job.setdefault(task.group, []).append(task)
        jobs = self._session.state.jobs
        return [task for key, tasks in by_job.items() for task in tasks[: victims_of(jobs[key])]], PERMIT

    def _may_go(self, task: Task) -> bool:
        job = self._session.state.jobs.get(task.group)
        return job is not None and may_be_evicted(task, job)

    def _victims(self, _: Sequence[Task]) -> list[Task]:
        """Return pods on nodes whose hours are over, up to the budget of each job, in reverse task order."""
        closed = {zone for zone in self._hours if self._why_closed(zone)} & set(self._zones)
        if not closed:
            return []
        session = self._session
        out: list[Task] = []
        for job in session.jobs_where(session.table.counts[status.RUNNING] > 0):
            running = [
                task
                for task in job.tasks.values()
                if task.status == status.RUNNING and self._zone_of(task) in closed and may_be_evicted(task, job)
            ]
            if running and not self._disturbed(job):
                out.extend(session.in_order(running, reverse=True)[: victims_of(job)])
        return out

    def _disturbed(self, job: Job) -> bool:
        """Return True if a pod of the job is terminating or younger than the period."""
        newest = max(task.creation for task in job.tasks.values())
        return job.counts[status.RELEASING] > 0 or newest + self._period > self._session.now


def victims_of(job: Job) -> int:
    """Return the number of pods of a job that may be evicted at once, by its budget (spec of the queue plugins, 15)."""
    total, running = len(job.tasks), job.counts[status.RUNNING]
    least, most = (part_of(text, total) for text in job.budget)
    if job.budget[0]:
        return running - least if least is not None and running >= least else 1
    if most is None:
        return 1
    missing = total - job.counts[status.SUCCEEDED] - job.counts[status.FAILED] - running
    return max(most - missing, 0)
