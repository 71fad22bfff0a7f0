"""What each action does in each phase of a Volcano job."""

from __future__ import annotations

import pytest

from kilauea.controllers.vcjobs.machine import step
from support.jobs_at_work import JobWorld, job, policy, task

PHASES = """
Pending Running Restarting Aborting Aborted Completing Completed Terminating Terminated Failed
""".split()
ACTIONS = """
RestartJob RestartTask RestartPod RestartPartition AbortJob CompleteJob TerminateJob ResumeJob SyncJob EnqueueJob Odd
""".split()

# One row a phase, one column an action as above: r = kill all and restart, t = kill the target and restart (with + it
# counts as a try), a, c, x = kill and abort, complete, terminate, u = resume, h = hold: end what is left, s = sync.
TABLE = """
Pending     r+ t+ t+ t+ a c x s s s s
Running     r+ t+ t+ t+ a c x s s s s
Restarting  r  t  t  t  a c x s s s s
Aborting    h  h  h  h  h h h u h h h
Aborted     h  h  h  h  h h h u h h h
Completing  h  h  h  h  h h h h h h h
Completed   h  h  h  h  h h h h h h h
Terminating h  h  h  h  h h h h h h h
Terminated  h  h  h  h  h h h h h h h
Failed      h  h  h  h  h h h h h h h
"""
MEANINGS = {
    "r": ("kill", False, "Restarting"),
    "t": ("kill target", False, "Restarting"),
    "a": ("kill", True, "Aborting"),
    "c": ("kill", True, "Completing"),
    "x": ("kill", True, "Terminating"),
    "u": ("kill", True, "Restarting"),
    "h": ("kill", True, ""),
    "s": ("sync", True, ""),
}
ROWS = {row.split()[0]: row.split()[1:] for row in TABLE.strip().splitlines()}
CELLS = [(phase, action, cell) for phase in PHASES for action, cell in zip(ACTIONS, ROWS[phase], strict=True)]


@pytest.mark.parametrize(("phase", "action", "cell"), CELLS)
def test_the_table_says_what_an_action_does_in_a_phase(phase: str, action: str, cell: str) -> None:
    found = step(phase, action)
    assert (found.procedure, found.keep_ended, found.becomes) == MEANINGS[cell[0]]
    assert found.counts == cell.endswith("+")


def test_a_job_without_a_phase_is_as_one_that_is_pending() -> None:
    assert [step("", action) for action in ACTIONS] == [step("Pending", action) for action in ACTIONS]


@pytest.mark.parametrize(
    ("action", "phases", "left"),
    [
        ("AbortJob", ["Aborting", "Aborted"], ["m-a-0"]),
        ("TerminateJob", ["Terminating", "Terminated"], ["m-a-0"]),
        ("CompleteJob", ["Completing", "Completed"], ["m-a-0"]),
        ("RestartJob", ["Restarting", "Pending"], []),
    ],
)
def test_what_an_action_leads_to_and_which_pods_that_have_ended_it_leaves(
    action: str, phases: list[str], left: list[str]
) -> None:
    world = JobWorld(job(task("a", 3), policies=[policy(action, "PodFailed")]))
    world.start()
    assert world.phase == "Running"
    world.history.clear()
    world.say("m-a-0", "Failed")
    world.settle()
    assert world.history == phases[:1]
    assert world.status["terminating"] == len(world.going())
    world.end_going()
    world.settle()
    assert world.history == phases
    assert list(world.uids()) == left
    restarts = ["Restarting: RestartJob on PodFailed of pod m-a-0 (exit code 1), retry 1 of spec.maxRetry 3"]
    assert world.told == [f"ExecuteAction: Start to execute action {action} ", *(restarts * (action == "RestartJob"))]
    assert world.status["version"] == 1
