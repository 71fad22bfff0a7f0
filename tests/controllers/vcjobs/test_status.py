"""What the status of a Volcano job says, beside its counts."""

from __future__ import annotations

from jobs_at_work import JobWorld, job, policy, task
from kilauea.api.kinds import POD_GROUPS


def running() -> JobWorld:
    world = JobWorld(job(task("a", 2), policies=[policy("RestartJob", "PodFailed")]))
    world.start()
    assert world.phase == "Running"
    return world


def test_a_condition_has_the_time_at_which_its_phase_began() -> None:
    world = running()
    began = world.status["conditions"][-1]
    world.wait(60)
    world.say("m-a-0", "Succeeded")
    world.settle()
    assert (began["status"], world.status["conditions"][-1]) == ("Running", began)
    world.say("m-a-1", "Succeeded")
    world.settle()
    assert world.status["conditions"][-1]["status"] == "Completed"
    assert world.status["conditions"][-1]["lastTransitionTime"] > began["lastTransitionTime"]


def test_the_state_names_the_action_that_led_to_it() -> None:
    world = running()
    world.order("AbortJob")
    world.settle()
    assert (world.phase, world.status["state"]["reason"]) == ("Aborting", "AbortJob")


def test_the_version_of_a_job_is_on_its_group_and_grows_only_when_all_pods_are_replaced() -> None:
    world = running()
    world.say("m-a-0", "Failed")
    world.settle()
    world.end_going()
    world.settle()
    (group,) = world.list(POD_GROUPS)
    assert (world.status["version"], group["metadata"]["annotations"]["kilauea.dev/job-version"]) == (1, "1")
    world.order("AbortJob")
    world.settle()
    world.end_going()
    world.settle()
    assert (world.phase, world.status["version"]) == ("Aborted", 2)
    world.order("AbortJob")
    world.settle()
    assert (world.phase, world.status["version"]) == ("Aborted", 2)
