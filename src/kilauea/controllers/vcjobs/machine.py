"""The state machine of a Volcano job: a table of actions in each phase, and the transitions without an action.

Either a whole job is killed (all pods, in some cases except ended ones), or a target in it, or the job is synchronized
with its specification.
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
"""Actions for a part of the job."""

STOPPING = {ABORTING: ABORTED, COMPLETING: COMPLETED, TERMINATING: TERMINATED}
"""Phases in which pods are ended, with the phases that follow."""
OVER = frozenset({COMPLETED, FAILED, TERMINATED})
STOPPED = OVER | {ABORTED}
PHASES = {PENDING, RUNNING, RESTARTING} | STOPPING.keys() | STOPPED
_STOPS = {"AbortJob": ABORTING, "CompleteJob": COMPLETING, "TerminateJob": TERMINATING}
COMMANDED_ACTIONS = (*_STOPS, RESTART_JOB, RESUME_JOB)
"""Actions available to commands."""


@dataclass(frozen=True, slots=True)
class Step:
    """The effect of an action.

    Attributes:
        procedure: kill everything, kill the targets, or synchronize.
        keep_ended: True if ended pods stay when everything is killed.
        becomes: the next phase; empty if it depends on the pods.
        counts: True if it counts as a retry.
    """

    procedure: Literal["kill", "kill target", "sync"]
    keep_ended: bool = True
    becomes: str = ""
    counts: bool = False


_KEEP_IN_STEP = Step("sync")
_HOLD = Step("kill")


def step(phase: str, action: str) -> Step:
    """Return the effect of an action in a phase; an unknown action has the effect of none.

    Unlike in Volcano, a restarting job can be aborted, completed and terminated, resuming it has no further effect, and
    resuming does not count as a retry.
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
