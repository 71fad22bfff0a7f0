"""The decision about a Volcano job: by a command of a user, or by its policies and events."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from kilauea.api.ports import Obj, Patch, Record
from kilauea.api.times import SECOND
from kilauea.controllers.vcjobs.delays import Delayed, delayed_actions, note
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
from kilauea.controllers.vcjobs.members import Members
from kilauea.controllers.vcjobs.observed_events import POD_EVICTED, POD_FAILED, ObservedEvent, observed_events
from kilauea.controllers.vcjobs.roster import Member, index_in
from kilauea.controllers.vcjobs.work import POD_PENDING, Policy, Work


@dataclass
class Decision:
    """The decision about a job.

    Attributes:
        action: for the state machine.
        cause: the cause, in words.
        targets: pods that a targeted action kills, by name.
        notes: patches that must be written before.
        records: events to record.
        by_policy: True if it is due to an event, not a command.
        again: seconds until the next reconciliation, if nothing happens before.
    """

    action: str = SYNC
    cause: str = ""
    targets: dict[str, Member] = field(default_factory=dict)
    notes: Sequence[Patch] = ()
    records: list[Record] = field(default_factory=list)
    by_policy: bool = True
    again: float | None = None

    def look_again_in(self, seconds: float) -> None:
        """Reconcile the job again within this time."""
        self.again = seconds if self.again is None else min(self.again, seconds)


class PolicyMatch(NamedTuple):
    """The match of a policy with an event."""

    event: ObservedEvent
    action: str
    timeout: int | None

    @property
    def needs_note(self) -> bool:
        """True if the action must be recorded, to be done later."""
        return bool(self.timeout) and self.event.type != POD_PENDING


def match_policy(work: Work, event: ObservedEvent) -> PolicyMatch | None:
    """The first matching policy, those of the task before those of the job; None if it has no effect."""
    own: tuple[Policy, ...] = event.task.policies if event.task else ()
    for policy in (*own, *work.policies):
        if policy.covers(event.type, event.exit_code):
            if step(work.phase, policy.action).procedure == "sync":
                return None
            if event.task is None and policy.action in TARGETED:
                return None  # a group cannot be a target
            if policy.action == RESTART_PARTITION and event.type != POD_EVICTED and not _has_partitions(event):
                return None  # an existing target need not be waited for repeatedly
            return PolicyMatch(event, policy.action, policy.timeout)
    return None


def _has_partitions(event: ObservedEvent) -> bool:
    """Return True if the event happened in a task with partitions."""
    return event.task is not None and event.task.partition_size > 0


def decide(work: Work, members: Members, group: Obj | None, now: int) -> Decision:
    """Apply the policies to current events; none if the job is finished or will be."""
    if work.phase in STOPPING or work.phase in STOPPED or is_out_of_retries(work):
        return Decision(notes=note(work, ()))
    waiting = _still_waiting(delayed_actions(work, now), members)
    decision = Decision()
    matched = [each for each in (match_policy(work, event) for event in observed_events(work, members, group)) if each]
    due = [(each.action, each.event) for each in matched if not _is_delayed(each, decision, now)]
    latest_first = [each for each in reversed(matched) if each.needs_note]
    _record_delays(work, members, latest_first, waiting, decision, now)
    due += _take_due(work, members, waiting, decision, now)
    _choose_action(work, members, due, decision)
    if decision.action != SYNC:
        _cancel(decision, waiting)
        decision.records.append(
            Record(work.obj, "Normal", "ExecuteAction", f"Start to execute action {decision.action} ")
        )
    decision.notes = note(work, waiting.values())
    return decision


def is_out_of_retries(work: Work) -> bool:
    """Return True if the job has used up its retries: it fails, whatever else has happened."""
    return work.phase == RESTARTING and work.retries >= work.max_retry


def decide_command(work: Work, action: str) -> Decision:
    """Return the decision for a command of a user."""
    started = Record(work.obj, "Normal", "ExecuteAction", f"Start to execute action {action} ")
    return Decision(action, "a Command", notes=note(work, ()), records=[started], by_policy=False)


# --- delayed actions


def _still_waiting(waiting: dict[str, Delayed], members: Members) -> dict[str, Delayed]:
    """Return the delayed actions without those for a failed or deleted pod that runs again."""
    kept = {}
    for pod, each in waiting.items():
        member = members.of(each.task).get(pod)
        runs = member is not None and member.state.phase == "Running" and not member.state.going
        if not (runs and each.event in (POD_FAILED, POD_EVICTED)):
            kept[pod] = each
    return kept


def _is_delayed(matched: PolicyMatch, decision: Decision, now: int) -> bool:
    """Return True if an action must wait; only the time of a pending pod is observable, all else is recorded."""
    if not matched.timeout or matched.needs_note:
        return matched.needs_note
    left = ((matched.event.since or now) + matched.timeout - now) / SECOND
    if left > 0:
        decision.look_again_in(left)
    return left > 0


def _record_delays(
    work: Work,
    members: Members,
    matches: Iterable[PolicyMatch],
    waiting: dict[str, Delayed],
    decision: Decision,
    now: int,
) -> None:
    """Record new delayed actions; an action replaces another one for the same pod."""
    seen: set[str] = set()
    for event, action, timeout in matches:
        pod, task = (event.pods[0] if event.pods else ""), (event.task.name if event.task else "")
        before = waiting.get(pod)
        if pod in seen or (before is not None and before.action == action):
            seen.add(pod)
            continue
        seen.add(pod)
        member = members.of(task).get(pod)
        uid = member.uid if member else ""
        wait = timeout or 0
        waiting[pod] = Delayed(pod, uid, task, event.type, action, now + wait, work.version, wait)
        message = f"Execute action {action} after {_seconds(timeout or 0)}"
        decision.records.append(Record(work.obj, "Normal", "ExecuteAction", message))


def _seconds(timeout: int) -> str:
    whole, rest = divmod(timeout, SECOND)
    if rest:
        return f"{timeout / SECOND:g}s"
    minutes, seconds = divmod(whole, 60)
    hours, minutes = divmod(minutes, 60)
    if hours:
        return f"{hours}h{minutes}m{seconds}s"
    return f"{minutes}m{seconds}s" if minutes else f"{seconds}s"


def _take_due(
    work: Work, members: Members, waiting: dict[str, Delayed], decision: Decision, now: int
) -> Iterator[tuple[str, ObservedEvent]]:
    """Yield the actions whose delay is over, and stop waiting for them, even if they can no longer be done."""
    for each in [each for each in waiting.values() if each.due <= now]:
        del waiting[each.pod]
        task = next((task for task in work.tasks if task.name == each.task), None)
        member = members.of(each.task).get(each.pod)
        replaced = bool(each.uid) and (member is None or member.uid != each.uid)
        if not (each.action in TARGETED and (task is None or replaced)):
            yield each.action, ObservedEvent(each.event, task, (each.pod,))
    if waiting:
        decision.look_again_in((min(each.due for each in waiting.values()) - now) / SECOND)


def _cancel(decision: Decision, waiting: dict[str, Delayed]) -> None:
    """Cancel delayed actions that the decision makes superfluous: for the job, or for the pods that it kills."""
    if decision.action not in TARGETED:
        waiting.clear()
    for pod in decision.targets:
        waiting.pop(pod, None)


# --- due actions


def _choose_action(work: Work, members: Members, due: Iterable[tuple[str, ObservedEvent]], decision: Decision) -> None:
    """Take the first action for the whole job, or all actions for parts of it."""
    parts: dict[str, str] = {}
    for action, event in due:
        if action not in TARGETED:
            decision.action, decision.cause, decision.targets = action, event.text, {}
            return
        targets = dict(_targets(members, action, event))
        if targets or event.type == POD_EVICTED:
            parts.setdefault(action, event.text)
            decision.targets.update(targets)
    decision.action, decision.cause = next(iter(parts.items()), (SYNC, ""))


def _targets(members: Members, action: str, event: ObservedEvent) -> Iterator[tuple[str, Member]]:
    """The pods that an action kills."""
    task = event.task
    if task is None:
        return
    staying = members.of(task.name).where(lambda state: not state.marked)
    if action == RESTART_PARTITION and task.partition_size:
        size = task.partition_size
        parts = {index_in(name) // size for name in event.pods}
        staying = [each for each in staying if each.index // size in parts]
    elif action == RESTART_PARTITION:
        return
    elif action != RESTART_TASK:
        wanted = set(event.pods)
        staying = [each for each in staying if each.name in wanted]
    yield from ((each.name, each) for each in staying)
