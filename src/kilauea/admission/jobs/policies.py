"""Lifecycle policies: those that are rejected, and those without effect."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from kilauea.admission.wording import invalid
from kilauea.api.batch import JobSpec, LifecyclePolicy
from kilauea.api.times import parse_duration

ANY_EVENT, POD_PENDING = "*", "PodPending"
EVENTS = (ANY_EVENT, "JobUpdated", "PodEvicted", "PodFailed", POD_PENDING, "TaskCompleted", "TaskFailed", "Unknown")
"""Events that a policy can name, sorted."""
ACTIONS = (
    "AbortJob", "CompleteJob", "RestartJob", "RestartPartition", "RestartPod", "RestartTask", "ResumeJob",
    "TerminateJob",
)  # fmt: skip
"""Actions that a policy can name, sorted."""


def events_of(policy: LifecyclePolicy) -> tuple[str, ...]:
    """The events that a policy is for, each once."""
    return tuple(dict.fromkeys([*(policy.events or ()), *([policy.event] if policy.event else ())]))


def check_policies(policies: Sequence[LifecyclePolicy] | None, path: str) -> str:
    """Describe the error in a list of policies, with the fix; empty if there is none."""
    faults = list(_faults(policies or (), path))
    if not faults:
        return ""
    count = "1 error" if len(faults) == 1 else f"{len(faults)} errors"
    lines = "".join(f"\t* {fault}\n" for fault in faults)
    valid = f"valid events are [{' '.join(EVENTS)}], valid actions are [{' '.join(ACTIONS)}];"
    return f"{count} occurred:\n{lines}\n {valid}"


def _faults(policies: Sequence[LifecyclePolicy], path: str) -> Iterator[str]:
    """The first policy that is wrong, and whether another stands beside one for all events."""
    events: set[str] = set()
    codes: set[int] = set()
    for policy in policies:
        fault = _fault(policy, path, events, codes)
        if fault:
            yield fault
            break
    if ANY_EVENT in events and len(events) > 1:
        yield "if there's * here, no other policy should be here"


def _fault(policy: LifecyclePolicy, path: str, events: set[str], codes: set[int]) -> str:
    """Describe the error in one policy; its events and its exit code are added to those seen."""
    fault = duration_fault(policy.timeout, f"{path}.timeout")
    if fault:
        return fault
    named = events_of(policy)
    if named and policy.exit_code is not None:
        return "must not specify event and exitCode simultaneously"
    if policy.exit_code is not None:
        return _code_fault(policy.exit_code, codes)
    if not named:
        return "either event and exitCode should be specified"
    for event in named:
        if event not in EVENTS:
            return invalid(path, event, "invalid policy event")
        if policy.action not in ACTIONS:
            return invalid(path, policy.action or "", "invalid policy action")
        if event in events:
            return f"duplicate event {event}  across different policy"
        events.add(event)
    return ""


def duration_fault(text: str | None, path: str) -> str:
    """Return the error in a duration; empty if it is valid, or if there is none."""
    try:
        parse_duration(text or "0")
    except ValueError as error:
        return invalid(path, text or "", str(error))
    return ""


def _code_fault(code: int, codes: set[int]) -> str:
    if code == 0:
        return "0 is not a valid error code"
    if code in codes:
        return f"duplicate exitCode {code}"
    codes.add(code)
    return ""


def policy_warnings(spec: JobSpec) -> list[str]:
    """Policies of a job and of its tasks that are allowed and yet do nothing."""
    warnings = list(_idle(spec.policies or (), "spec.policies"))
    for index, task in enumerate(spec.tasks or ()):
        warnings += _idle(task.policies or (), f"spec.tasks[{index}].policies")
    return warnings


def _idle(policies: Sequence[LifecyclePolicy], path: str) -> Iterator[str]:
    for number, policy in enumerate(policies):
        if POD_PENDING in events_of(policy) and not policy.timeout:
            yield f"{path}[{number}].timeout: the event {POD_PENDING} never comes without it: set it, e.g. to 10m"
        if policy.exit_code is not None and policy.action not in ACTIONS:
            what = f'unknown action "{policy.action or ""}", so nothing is done: use one of {", ".join(ACTIONS)}'
            yield f"{path}[{number}].action: {what}"
