"""The decision about a Volcano job: a command of a user, or its policies applied to events."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from kilauea.api.ports import Obj, Patch, Record
from kilauea.api.times import SECOND
from kilauea.controllers.vcjobs.delays import Delayed, note, noted
from kilauea.controllers.vcjobs.evidence import POD_EVICTED, POD_FAILED, Evidence, evidence
from kilauea.controllers.vcjobs.machine import (
    RESTART_PARTITION,
    RESTART_TASK,
    RESTARTING,
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
    """The decision about a job.

    Attributes:
        action: for the state machine.
        cause: what has led to it, in words.
        targets: pods that a targeted action kills, by name.
        notes: patches that must be written before.
        records: what is told.
        again: in how many seconds something is due, if nothing happens before.
    """

    action: str = SYNC
    cause: str = ""
    targets: dict[str, Member] = field(default_factory=dict)
    notes: Sequence[Patch] = ()
    records: list[Record] = field(default_factory=list)
    again: float | None = None

    def come_back(self, seconds: float) -> None:
        """Have the job looked at again by then."""
        self.again = seconds if self.again is None else min(self.again, seconds)


class Verdict(NamedTuple):
    """The answer of a policy to an event."""

    evidence: Evidence
    action: str
    timeout: int | None

    @property
    def needs_note(self) -> bool:
        """True if the action has to be recorded to be done later."""
        return bool(self.timeout) and self.evidence.event != POD_PENDING


def verdict(work: Work, found: Evidence) -> Verdict | None:
    """The first policy that fits, of the task before those of the job; None if it does nothing of its own."""
    own: tuple[Policy, ...] = found.task.policies if found.task else ()
    for policy in (*own, *work.policies):
        if policy.covers(found.event, found.exit_code):
            if step(work.phase, policy.action).procedure == "sync":
                return None
            if found.task is None and policy.action in TARGETED:
                return None  # a group is no target
            if policy.action == RESTART_PARTITION and found.event != POD_EVICTED and not _is_split(found):
                return None  # what there is not need not be waited for, again and again
            return Verdict(found, policy.action, policy.timeout)
    return None


def _is_split(found: Evidence) -> bool:
    """Return True if the event happened in a task with partitions."""
    return found.task is not None and found.task.partition_size > 0


def choose(work: Work, members: Members, group: Obj | None, now: int) -> Choice:
    """Apply the policies to events now; nothing, if the job is over or about to be."""
    if work.phase in STOPPING or work.phase in STOPPED or has_no_try_left(work):
        return Choice(notes=note(work, ()))
    waiting = _still_waiting(noted(work, now), members)
    choice = Choice()
    said = [each for each in (verdict(work, found) for found in evidence(work, members, group)) if each]
    due = [(each.action, each.evidence) for each in said if not _is_put_off(each, choice, now)]
    latest_first = [each for each in reversed(said) if each.needs_note]
    _take_notes(work, members, latest_first, waiting, choice, now)
    due += _come_due(work, members, waiting, choice, now)
    _decide(work, members, due, choice)
    if choice.action != SYNC:
        _cancel(choice, waiting)
        choice.records.append(Record(work.obj, "Normal", "ExecuteAction", f"Start to execute action {choice.action} "))
    choice.notes = note(work, waiting.values())
    return choice


def has_no_try_left(work: Work) -> bool:
    """Return True if the job was restarted once too often: it fails, whatever else has happened."""
    return work.phase == RESTARTING and work.retries >= work.max_retry


def order(work: Work, action: str) -> Choice:
    """Return the decision for a command of a user."""
    started = Record(work.obj, "Normal", "ExecuteAction", f"Start to execute action {action} ")
    return Choice(action, "a Command", notes=note(work, ()), records=[started])


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


def _is_put_off(said: Verdict, choice: Choice, now: int) -> bool:
    """Return True if an action has to wait; how long a pod has been pending can be observed, all else is recorded."""
    if not said.timeout or said.needs_note:
        return said.needs_note
    left = ((said.evidence.since or now) + said.timeout - now) / SECOND
    if left > 0:
        choice.come_back(left)
    return left > 0


def _take_notes(
    work: Work,
    members: Members,
    verdicts: Iterable[Verdict],
    waiting: dict[str, Delayed],
    choice: Choice,
    now: int,
) -> None:
    """Note what has to wait and is not noted yet; another action takes the place of one for the same pod."""
    seen: set[str] = set()
    for found, action, timeout in verdicts:
        pod, task = (found.pods[0] if found.pods else ""), (found.task.name if found.task else "")
        before = waiting.get(pod)
        if pod in seen or (before is not None and before.action == action):
            seen.add(pod)
            continue
        seen.add(pod)
        member = members.of(task).get(pod)
        uid = member.uid if member else ""
        wait = timeout or 0
        waiting[pod] = Delayed(pod, uid, task, found.event, action, now + wait, work.version, wait)
        words = f"Execute action {action} after {_seconds(timeout or 0)}"
        choice.records.append(Record(work.obj, "Normal", "ExecuteAction", words))


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
    """Yield the actions whose delay is over; they wait no more, even if they can no longer be done."""
    for each in [each for each in waiting.values() if each.due <= now]:
        del waiting[each.pod]
        task = next((task for task in work.tasks if task.name == each.task), None)
        member = members.of(each.task).get(each.pod)
        replaced = bool(each.uid) and (member is None or member.uid != each.uid)
        if not (each.action in TARGETED and (task is None or replaced)):
            yield each.action, Evidence(each.event, task, (each.pod,))
    if waiting:
        choice.come_back((min(each.due for each in waiting.values()) - now) / SECOND)


def _cancel(choice: Choice, waiting: dict[str, Delayed]) -> None:
    """An action makes those superfluous that wait for the same: the job, or the pods that it kills."""
    if choice.action not in TARGETED:
        waiting.clear()
    for pod in choice.targets:
        waiting.pop(pod, None)


# --- what is due


def _decide(work: Work, members: Members, due: Iterable[tuple[str, Evidence]], choice: Choice) -> None:
    """Take the first action that concerns the whole job, or all that concern parts of it."""
    parts: dict[str, str] = {}
    for action, found in due:
        if action not in TARGETED:
            choice.action, choice.cause, choice.targets = action, found.words, {}
            return
        targets = dict(_targets(members, action, found))
        if targets or found.event == POD_EVICTED:
            parts.setdefault(action, found.words)
            choice.targets.update(targets)
    choice.action, choice.cause = next(iter(parts.items()), (SYNC, ""))


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
