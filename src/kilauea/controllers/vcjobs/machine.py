"""The state machine of a Volcano job: a table of actions in each phase, and the transitions without an action.

A whole job is killed (all pods, keeping those that have ended where that is said), or one target of it, or it is kept
in step with its specification.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

PENDING, RUNNING, RESTARTING = "Pending", "Running", "Restarting"
ABORTING, ABORTED = "Aborting", "Aborted"
COMPLETING, COMPLETED = "Completing", "Completed"
TERMINATING, TERMINATED, FAILED = "Terminating", "Terminated", "Failed"

SYNC, RESUME_JOB, RESTART_JOB = "SyncJob", "ResumeJob", "RestartJob"
RESTART_TASK, RESTART_POD, RESTART_PARTITION = "RestartTask", "RestartPod", "RestartPartition"
TARGETED = frozenset({RESTART_TASK, RESTART_POD, RESTART_PARTITION})
"""Actions that concern a part of the job."""

STOPPING = {ABORTING: ABORTED, COMPLETING: COMPLETED, TERMINATING: TERMINATED}
"""Phases in which pods end, and what follows once they have."""
OVER = frozenset({COMPLETED, FAILED, TERMINATED})
STOPPED = OVER | {ABORTED}
PHASES = {PENDING, RUNNING, RESTARTING} | STOPPING.keys() | STOPPED
_STOPS = {"AbortJob": ABORTING, "CompleteJob": COMPLETING, "TerminateJob": TERMINATING}
COMMANDED_ACTIONS = (*_STOPS, RESTART_JOB, RESUME_JOB)
"""Actions that a command may name."""


@dataclass(frozen=True, slots=True)
class Step:
    """The effect of an action.

    Attributes:
        procedure: kill everything, kill what the action is about, or keep in step.
        keep_ended: True if pods that have ended stay when everything is killed.
        becomes: the phase that follows at once; empty if that depends on the pods.
        counts: True if it is a try that counts.
    """

    procedure: Literal["kill", "kill target", "sync"]
    keep_ended: bool = True
    becomes: str = ""
    counts: bool = False


_KEEP_IN_STEP = Step("sync")
_HOLD = Step("kill")


def step(phase: str, action: str) -> Step:
    """Return the effect of an action in a phase; an unknown action has none of its own.

    Other than in the original, a job that restarts can be aborted, completed and terminated, resuming it does nothing
    more, and a resumption does not count as a try.
    """
    if phase == ABORTED or phase in STOPPING or phase in OVER:
        if action == RESUME_JOB and phase in (ABORTING, ABORTED):
            return Step("kill", becomes=RESTARTING)
        return _HOLD
    counts = phase != RESTARTING
    if action == RESTART_JOB:
        return Step("kill", keep_ended=False, becomes=RESTARTING, counts=counts)
    if action in TARGETED:
        return Step("kill target", keep_ended=False, becomes=RESTARTING, counts=counts)
    if action in _STOPS:
        return Step("kill", becomes=_STOPS[action])
    return _KEEP_IN_STEP
