"""What is to be done about a Volcano job: what a user has ordered, or what its policies say to what has happened."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from kilauea.api.ports import Obj, Patch, Record
from kilauea.api.times import SECOND
from kilauea.controllers.vcjobs.delays import Delayed, note, noted
from kilauea.controllers.vcjobs.evidence import POD_EVICTED, POD_FAILED, Evidence, evidence
from kilauea.controllers.vcjobs.machine import (
    RESTART_PARTITION,
    RESTART_TASK,
    STOPPED,
    STOPPING,
    SYNC,
    TARGETED,
    step,
)
from kilauea.controllers.vcjobs.members import Member, Members
from kilauea.controllers.vcjobs.work import POD_PENDING, Policy, Work


@dataclass
class Choice:
    """What is to be done.

    Attributes:
        action: for the state machine.
        targets: pods that a targeted action kills, by name.
        notes: patches that must be written before.
        records: what is told.
        again: in how many seconds something is due, if nothing happens before.
    """

    action: str = SYNC
    targets: dict[str, Member] = field(default_factory=dict)
    notes: Sequence[Patch] = ()
    records: list[Record] = field(default_factory=list)
    again: float | None = None


class Verdict(NamedTuple):
    """What a policy says to what has happened."""

    evidence: Evidence
    action: str
    timeout: int | None


def verdict(work: Work, found: Evidence) -> Verdict | None:
    """The first policy that fits, of the task before those of the job; None if it does nothing of its own."""
    own: tuple[Policy, ...] = found.task.policies if found.task else ()
    for policy in (*own, *work.policies):
        if policy.covers(found.event, found.exit_code):
            if step(work.phase, policy.action).procedure == "sync":
                return None
            if found.task is None and policy.action in TARGETED:
                return None  # a group is no target
            return Verdict(found, policy.action, policy.timeout)
    return None


def choose(work: Work, members: Members, group: Obj | None, now: int) -> Choice:
    """What the policies say now; nothing, if the job is over or about to be."""
    if work.phase in STOPPING or work.phase in STOPPED:
        return Choice(notes=note(work, ()))
    waiting = _still_waiting(noted(work), members)
    choice = Choice()
    due: list[tuple[str, Evidence]] = []
    for said in filter(None, (verdict(work, found) for found in evidence(work, members, group))):
        left = _left(work, members, said, waiting, choice, now)
        if left > 0:
            choice.again = left if choice.again is None else min(choice.again, left)
        else:
            due.append((said.action, said.evidence))
    due += _come_due(work, members, waiting, choice, now)
    _decide(work, members, due, choice)
    if choice.action != SYNC:
        _cancel(choice, waiting)
        choice.records.append(Record(work.obj, "Normal", "ExecuteAction", f"Start to execute action {choice.action} "))
    choice.notes = note(work, waiting.values())
    return choice


def order(work: Work, action: str) -> Choice:
    """What a user has ordered, by a command."""
    started = Record(work.obj, "Normal", "ExecuteAction", f"Start to execute action {action} ")
    return Choice(action, notes=note(work, ()), records=[started])


# --- what waits


def _still_waiting(waiting: dict[str, Delayed], members: Members) -> dict[str, Delayed]:
    """Without what concerns a pod that has failed or gone and runs again."""
    kept = {}
    for pod, each in waiting.items():
        member = members.of(each.task).get(pod)
        runs = member is not None and member.phase == "Running" and not member.going
        if not (runs and each.event in (POD_FAILED, POD_EVICTED)):
            kept[pod] = each
    return kept


def _left(work: Work, members: Members, said: Verdict, waiting: dict[str, Delayed], choice: Choice, now: int) -> float:
    """Seconds that an action has to wait; what is not noted yet is."""
    found = said.evidence
    if not said.timeout:
        return 0.0
    if found.event == POD_PENDING:
        return ((found.since or now) + said.timeout - now) / SECOND
    pod, task = (found.pods[0] if found.pods else ""), (found.task.name if found.task else "")
    before = waiting.get(pod)
    if before is None or before.action != said.action:
        member = members.of(task).get(pod)
        uid = member.uid if member else ""
        before = Delayed(pod, uid, task, found.event, said.action, now + said.timeout, work.version)
        waiting[pod] = before
        words = f"Execute action {said.action} after {_seconds(said.timeout)}"
        choice.records.append(Record(work.obj, "Normal", "ExecuteAction", words))
    return max(before.due - now, 1) / SECOND  # what is due is found among what waits


def _seconds(timeout: int) -> str:
    whole, rest = divmod(timeout, SECOND)
    if rest:
        return f"{timeout / SECOND:g}s"
    minutes, seconds = divmod(whole, 60)
    hours, minutes = divmod(minutes, 60)
    if hours:
        return f"{hours}h{minutes}m{seconds}s"
    return f"{minutes}m{seconds}s" if minutes else f"{seconds}s"


def _come_due(
    work: Work, members: Members, waiting: dict[str, Delayed], choice: Choice, now: int
) -> Iterator[tuple[str, Evidence]]:
    """What has waited long enough; it waits no more, whether it can still be done or not."""
    for each in [each for each in waiting.values() if each.due <= now]:
        del waiting[each.pod]
        task = next((task for task in work.tasks if task.name == each.task), None)
        member = members.of(each.task).get(each.pod)
        replaced = bool(each.uid) and (member is None or member.uid != each.uid)
        if not (each.action in TARGETED and (task is None or replaced)):
            yield each.action, Evidence(each.event, task, (each.pod,))
    if waiting:
        first = (min(each.due for each in waiting.values()) - now) / SECOND
        choice.again = first if choice.again is None else min(choice.again, first)


def _cancel(choice: Choice, waiting: dict[str, Delayed]) -> None:
    """An action makes those superfluous that wait for the same: the job, or the pods that it kills."""
    if choice.action not in TARGETED:
        waiting.clear()
    for pod in choice.targets:
        waiting.pop(pod, None)


# --- what is due


def _decide(work: Work, members: Members, due: Iterable[tuple[str, Evidence]], choice: Choice) -> None:
    """Take the first action that concerns the whole job, or all that concern parts of it."""
    parts: Mapping[str, None] = {}
    for action, found in due:
        if action not in TARGETED:
            choice.action, choice.targets = action, {}
            return
        targets = dict(_targets(members, action, found))
        if targets or found.event == POD_EVICTED:
            parts = {**parts, action: None}
            choice.targets.update(targets)
    choice.action = next(iter(parts), SYNC)


def _targets(members: Members, action: str, found: Evidence) -> Iterator[tuple[str, Member]]:
    """The pods that an action kills."""
    task = found.task
    if task is None:
        return
    pods = members.of(task.name)
    if action == RESTART_TASK:
        wanted = set(pods)
    elif action == RESTART_PARTITION and task.partition_size:
        size = task.partition_size
        parts = {_index(name) // size for name in found.pods}
        wanted = {name for name, member in pods.items() if member.index // size in parts}
    elif action == RESTART_PARTITION:
        return
    else:
        wanted = set(found.pods)
    yield from ((name, pods[name]) for name in pods if name in wanted and not pods[name].marked)


def _index(name: str) -> int:
    text = name.rpartition("-")[2]
    return int(text) if text.isascii() and text.isdigit() else -1
