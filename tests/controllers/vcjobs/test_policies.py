"""What has happened to a Volcano job, and what its policies say to that, at once or later."""

from __future__ import annotations

import json
from typing import Any

import pytest

from kilauea.api.kinds import POD_GROUPS, VC_JOBS
from kilauea.api.ports import key_of
from kilauea.controllers.vcjobs.delays import NOTE
from kilauea.controllers.vcjobs.observed_events import ObservedEvent
from kilauea.controllers.vcjobs.work import Work
from support.jobs_at_work import JobWorld, job, policy, task

FAILED, EVICTED, PENDING = "PodFailed", "PodEvicted", "PodPending"


def running(*tasks: dict[str, Any], **spec: Any) -> JobWorld:
    world = JobWorld(job(*tasks, **spec))
    world.start()
    assert world.phase == "Running"
    world.history.clear()
    return world


# --- which policy counts


@pytest.mark.parametrize(
    ("of_task", "of_job", "event", "code", "action"),
    [
        ([], [], FAILED, 1, None),
        ([], [policy("AbortJob", FAILED)], FAILED, 1, "AbortJob"),
        ([], [policy("AbortJob", EVICTED)], FAILED, 1, None),
        ([policy("RestartPod", FAILED)], [policy("AbortJob", FAILED)], FAILED, 1, "RestartPod"),
        ([policy("RestartPod", EVICTED)], [policy("AbortJob", FAILED)], FAILED, 1, "AbortJob"),
        ([], [policy("RestartJob", FAILED, EVICTED)], EVICTED, 0, "RestartJob"),
        ([], [{"event": FAILED, "action": "TerminateJob"}], FAILED, 1, "TerminateJob"),
        ([], [{"event": FAILED, "events": [EVICTED], "action": "AbortJob"}], FAILED, 1, "AbortJob"),
        ([], [policy("AbortJob", "*")], EVICTED, 0, "AbortJob"),
        ([], [policy("AbortJob", exitCode=3), policy("RestartJob", exitCode=4)], FAILED, 4, "RestartJob"),
        ([], [policy("AbortJob", exitCode=3)], FAILED, 4, None),
        ([], [policy("RestartJob", FAILED), policy("AbortJob", exitCode=3)], FAILED, 3, "RestartJob"),
        ([], [policy("AbortJob", PENDING)], PENDING, 0, None),
        ([], [policy("AbortJob", PENDING, timeout="1m")], PENDING, 0, "AbortJob"),
        ([], [policy("AbortJob", "*")], PENDING, 0, None),
        ([], [policy("AbortJob", "*", timeout="1m")], PENDING, 0, "AbortJob"),
        ([], [policy("AbortJob", FAILED, timeout="soon")], FAILED, 1, "AbortJob"),
    ],
)
def test_the_first_policy_that_fits_counts_those_of_the_task_first(
    of_task: list[Any], of_job: list[Any], event: str, code: int, action: str | None
) -> None:
    manifest = job(task("a", 1, policies=of_task), policies=of_job)
    manifest["metadata"]["uid"] = "u"
    work = Work(manifest)
    policies = (*work.tasks[0].policies, *work.policies)
    found = ObservedEvent(event, work.tasks[0], ("m-a-0",), code)
    fitting = next((each.action for each in policies if each.covers(found.type, found.exit_code)), None)
    assert fitting == action


@pytest.mark.parametrize("action", ["SyncJob", "ResumeJob", "EnqueueJob", "Dance", ""])
def test_an_action_that_does_nothing_in_a_running_job_leaves_it_as_it_is(action: str) -> None:
    world = running(task("a", 2), policies=[policy(action, FAILED, "TaskCompleted")])
    world.say("m-a-0", "Failed")
    world.settle()
    assert (world.phase, world.told, world.history) == ("Running", [], [])


# --- what has happened


def test_a_task_that_is_completed_can_complete_the_job() -> None:
    world = running(task("a", 2, policies=[policy("CompleteJob", "TaskCompleted")]), task("b", 2))
    world.say("m-b-0", "Succeeded")
    world.say("m-b-1", "Succeeded")
    world.say("m-a-0", "Succeeded")
    world.settle()
    assert world.phase == "Running"
    world.say("m-a-1", "Succeeded")
    world.settle()
    assert world.phase == "Completed"
    assert len(world.uids()) == 4


def test_the_last_pod_of_a_completed_task_restarts_once() -> None:
    world = running(task("a", 2, policies=[policy("RestartPod", "TaskCompleted")]), task("b", 1))
    world.say("m-a-0", "Succeeded")
    world.say("m-a-1", "Succeeded")
    world.start()
    assert (world.phase, world.retries, world.status["succeeded"]) == ("Running", 1, 1)


@pytest.mark.parametrize(
    ("budget", "restarts", "phase"),
    [(None, [1, 1], "Running"), (None, [2, 1], "Aborting"), (5, [2, 2], "Running"), (-1, [50, 50], "Running")],
)
def test_a_task_whose_containers_restart_too_often_has_failed(
    budget: int | None, restarts: list[int], phase: str
) -> None:
    given = {} if budget is None else {"maxRetry": budget}
    world = running(task("a", 2, policies=[policy("AbortJob", "TaskFailed")], **given))
    for index, count in enumerate(restarts):
        world.say(f"m-a-{index}", "Running", restarts=count)
    world.settle()
    assert world.phase == phase


def test_those_pods_restart_that_it_takes_to_come_below_the_budget() -> None:
    world = running(task("a", 3, maxRetry=4, policies=[policy("RestartPod", "TaskFailed")]))
    for index, count in enumerate((1, 3, 2)):
        world.say(f"m-a-{index}", "Running", restarts=count)
    world.settle()
    assert (world.going(), world.retries) == (["m-a-1"], 1)


def test_a_group_that_is_unknown_restarts_the_job_also_the_second_time() -> None:
    world = running(task("a", 2), policies=[policy("RestartJob", "Unknown")])
    for expected in (1, 2):
        world.admit("Unknown")
        world.settle()
        assert (world.phase, world.retries) == ("Restarting", expected)
        world.start()
        assert world.phase == "Running"


@pytest.mark.parametrize("action", ["RestartTask", "RestartPod", "RestartPartition"])
def test_a_group_that_is_unknown_is_no_part_of_a_job_to_be_restarted(action: str) -> None:
    world = running(task("a", 2), policies=[policy(action, "Unknown")])
    world.admit("Unknown")
    world.settle()
    assert (world.phase, world.retries) == ("Running", 0)


def test_what_ends_while_the_last_try_begins_is_made_again_too() -> None:
    policies = [policy("RestartPod", FAILED, "TaskCompleted")]
    world = running(task("a", 1), task("b", 1), policies=policies, maxRetry=2)
    world.say("m-a-0", "Failed")
    world.settle()
    assert (world.phase, world.retries) == ("Restarting", 1)
    world.say("m-b-0", "Succeeded")
    world.settle()
    world.start()
    assert (world.phase, world.retries) == ("Running", 1)


def test_pods_from_before_a_restart_are_not_listened_to() -> None:
    world = running(task("a", 2), policies=[policy("RestartJob", FAILED, EVICTED)])
    world.say("m-a-0", "Failed")
    world.settle()
    world.say("m-a-1", "Failed")
    world.vanish("m-a-0")
    world.settle()
    assert (world.phase, world.retries) == ("Restarting", 1)


# --- later


@pytest.mark.parametrize("back", [60, 600])
def test_a_clock_that_is_set_back_adds_no_more_than_the_timeout_to_a_delay(back: int) -> None:
    world = running(task("a", 2), policies=[policy("AbortJob", FAILED, timeout="30s")])
    world.say("m-a-0", "Failed")
    world.settle()
    world.wait(20 - back)
    world.settle()
    assert (world.phase, world.again) == ("Running", 30.0)
    world.wait(30)
    world.settle()
    assert world.phase == "Aborting"


def test_an_action_with_a_timeout_is_done_when_it_is_over() -> None:
    world = running(task("a", 2), policies=[policy("AbortJob", FAILED, timeout="90s")])
    world.say("m-a-0", "Failed")
    world.settle()
    assert (world.phase, world.again) == ("Running", 90.0)
    assert world.told == ["ExecuteAction: Execute action AbortJob after 1m30s"]
    world.wait(60)
    world.settle()
    assert (world.phase, world.again, len(world.told)) == ("Running", 30.0, 1)
    world.wait(30)
    world.settle()
    assert world.phase == "Aborting"
    assert NOTE not in world.job["metadata"]["annotations"]


def test_a_pod_that_runs_again_makes_what_waits_for_it_superfluous() -> None:
    world = running(task("a", 2), policies=[policy("AbortJob", EVICTED, timeout="90s")])
    world.vanish("m-a-0")
    world.settle()
    delayed_actions = json.loads(world.job["metadata"]["annotations"][NOTE])
    assert [(each[0], each[4]) for each in delayed_actions] == [("m-a-0", "AbortJob")]
    world.say("m-a-0", "Running")
    world.settle()
    world.wait(100)
    world.settle()
    assert (world.phase, world.again) == ("Running", None)


def test_what_waits_outlives_a_pod_that_comes_no_more() -> None:
    world = running(task("a", 2), policies=[policy("AbortJob", EVICTED, timeout="90s")])
    world.vanish("m-a-0")
    world.settle()
    world.wait(90)
    world.settle()
    assert world.phase == "Aborting"


def test_an_action_on_the_whole_job_makes_all_that_waits_superfluous() -> None:
    policies = [policy("AbortJob", EVICTED, timeout="90s"), policy("RestartJob", FAILED)]
    world = running(task("a", 2), policies=policies)
    world.vanish("m-a-0")
    world.settle()
    world.say("m-a-1", "Failed")
    world.start()
    world.wait(1000)
    world.settle()
    assert (world.phase, world.retries) == ("Running", 1)


def test_another_action_for_the_same_pod_takes_the_place_of_the_first() -> None:
    policies = [policy("AbortJob", FAILED, timeout="90s"), policy("TerminateJob", EVICTED, timeout="10s")]
    world = running(task("a", 2), policies=policies)
    world.say("m-a-0", "Failed")
    world.settle()
    world.evict("m-a-0")
    world.settle()
    world.wait(10)
    world.settle()
    assert world.phase == "Terminating"


def test_a_pod_that_restarts_later_restarts_once() -> None:
    world = running(task("a", 2), policies=[policy("RestartPod", FAILED, timeout="10s")])
    world.say("m-a-0", "Failed")
    world.settle()
    world.wait(10)
    world.start()
    assert (world.phase, world.retries) == ("Running", 1)
    world.wait(100)
    world.settle()
    assert (world.phase, world.retries) == ("Running", 1)


def test_nothing_waits_for_the_restart_of_a_partition_that_there_is_not() -> None:
    world = running(task("a", 2), policies=[policy("RestartPartition", FAILED, timeout="10s")])
    world.say("m-a-0", "Failed")
    world.settle()
    assert NOTE not in (world.job["metadata"].get("annotations") or {})
    assert (world.phase, world.again) == ("Running", None)


def test_a_pod_that_is_pending_for_too_long_is_acted_on_and_one_that_runs_is_not() -> None:
    world = JobWorld(job(task("a", 2), policies=[policy("AbortJob", PENDING, timeout="60s")]))
    world.settle()
    world.admit()
    world.settle()
    world.settle()
    assert world.again == 60.0
    world.say("m-a-0", "Running")
    world.wait(59)
    world.settle()
    assert (world.phase, world.again) == ("Pending", 1.0)
    world.wait(1)
    world.settle()
    assert world.phase == "Aborting"
    world = JobWorld(job(task("a", 2), policies=[policy("AbortJob", PENDING, timeout="60s")]))
    world.start()
    world.wait(600)
    world.settle()
    assert (world.phase, world.again) == ("Running", None)


def test_notes_that_no_one_can_read_are_forgotten() -> None:
    world = running(task("a", 2), policies=[policy("AbortJob", FAILED, timeout="10s")])
    world.change(VC_JOBS, world.key, {"metadata": {"annotations": {NOTE: "{odd"}}})
    world.say("m-a-0", "Failed")
    world.settle()
    world.wait(10)
    world.settle()
    assert world.phase == "Aborting"
    assert key_of(world.job) == world.key
    assert world.list(POD_GROUPS) == []
